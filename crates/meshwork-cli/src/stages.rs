//! The stages of the project as the command calls them: the one place that knows their entry points.

use meshwork_eval::{self as eval, Outcome};
use meshwork_ir::text::{self, PrintOptions};
use meshwork_ir::{Diagnostic, Literal, Module, Type};
use meshwork_partition::run::RunError;
use meshwork_partition::{CompileError, CompileOptions, Compiled, Partitioned};
use meshwork_propagate::Provenance;

use crate::fail::{Failure, render_all};
use crate::processes;
use crate::source::Source;

/// Text to module.
pub fn parse(text: &str) -> Result<Module, Diagnostic> {
    text::parse(text)
}

/// Module to text.
pub fn print(module: &Module, style: PrintOptions) -> String {
    text::print_with(module, &style)
}

/// What is wrong with a module.
pub fn verify(module: &Module) -> Vec<Diagnostic> {
    meshwork_ir::verify::verify(module)
}

/// Runs function `entry` (or the module's entry function) on `inputs`.
pub fn run(source: &Source, module: &Module, entry: Option<&str>, inputs: &[Literal]) -> Result<Outcome, Failure> {
    eval::run_observed(module, entry, inputs).map_err(|e| Failure::from_eval(&e, &source.name, &source.text))
}

/// Whether `module` asks for more than one device.
pub fn is_sharded(module: &Module) -> bool {
    meshwork_partition::mesh_of(module).is_some_and(|(_, mesh)| mesh.device_count() > 1)
}

/// Places every value of `module` and splits it over its mesh. Warnings are printed.
pub fn partition(source: &Source, module: &Module, options: &CompileOptions) -> Result<Compiled, Failure> {
    let compiled = meshwork_partition::compile_with(module, options).map_err(|error| match error {
        CompileError::Placement(diagnostics) => placement_failure(source, &diagnostics),
        CompileError::Partition(error) => Failure::from_partition(&error, &source.name, &source.text),
    })?;
    if processes::speaks() {
        eprint!("{}", render_all(&compiled.warnings, &source.name, &source.text));
    }
    Ok(compiled)
}

/// Places every value of `module` and notes where each placement came from. Warnings are printed.
pub fn place_traced(source: &Source, module: &mut Module) -> Result<Provenance, Failure> {
    let (warnings, provenance) =
        meshwork_propagate::place_traced(module).map_err(|diagnostics| placement_failure(source, &diagnostics))?;
    eprint!("{}", render_all(&warnings, &source.name, &source.text));
    Ok(provenance)
}

fn placement_failure(source: &Source, diagnostics: &[Diagnostic]) -> Failure {
    Failure::from_diagnostics(diagnostics, &source.name, &source.text)
        .unwrap_or_else(|| Failure::error("placing the values failed"))
}

/// Runs a partitioned program on global arrays.
pub fn run_partitioned(
    source: &Source,
    program: &Partitioned,
    inputs: &[Literal],
    results: &[Type],
) -> Result<Vec<Literal>, Failure> {
    meshwork_partition::run::run(program, inputs, results).map_err(|error| match error {
        error @ RunError::TooManyDevices { .. } => Failure::unsupported(error.to_string()),
        RunError::Eval(error) => Failure::from_eval(&error, &source.name, &source.text),
        RunError::Sharding(error) => Failure::error(error.to_string()),
    })
}
