//! The stages of the project as the command calls them: the one place that knows their entry points.

use meshwork_eval::{self as eval, Outcome};
use meshwork_ir::text::{self, PrintOptions};
use meshwork_ir::{Diagnostic, Literal, Module};
use meshwork_partition::run::RunError;
use meshwork_partition::{CompileOptions, Compiled};

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
    let compiled = meshwork_partition::compile(module, options).map_err(|error| {
        Failure::from_diagnostics(&error.diagnostics(), &source.name, &source.text)
            .unwrap_or_else(|| Failure::error(error.to_string()))
    })?;
    if processes::reports() {
        eprint!("{}", render_all(&compiled.warnings, &source.name, &source.text));
    }
    Ok(compiled)
}

/// Runs a partitioned program on global arrays.
pub fn run_partitioned(source: &Source, program: &Compiled, inputs: &[Literal]) -> Result<Vec<Literal>, Failure> {
    meshwork_partition::run::run(program, inputs).map_err(|error| match error {
        error @ RunError::TooManyDevices { .. } => Failure::unsupported(error.to_string()),
        RunError::Eval(error) => Failure::from_eval(&error, &source.name, &source.text),
        RunError::Sharding(error) => Failure::error(error.to_string()),
    })
}
