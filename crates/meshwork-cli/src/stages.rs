//! The stages of the project as the command calls them: the one place that knows their entry points.

use meshwork_ir::eval::{self, Outcome};
use meshwork_ir::text::{self, PrintOptions};
use meshwork_ir::{Diagnostic, Literal, Module, Pass};

use crate::fail::Failure;

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
pub fn run(module: &Module, entry: Option<&str>, inputs: &[Literal]) -> Result<Outcome, Failure> {
    eval::run_observed(module, entry, inputs).map_err(|error| Failure::from_eval(&error))
}

/// Every pass that `meshwork opt` knows.
pub fn passes() -> Vec<Pass> {
    // The canonicalizer of `meshwork-propagate` has the patterns of all dialects and replaces the general one.
    let mut all = meshwork_propagate::passes();
    let known: Vec<&str> = all.iter().map(|p| p.name).collect();
    let general: Vec<Pass> =
        meshwork_ir::transform::passes().into_iter().filter(|p| !known.contains(&p.name)).collect();
    all.extend(general);
    all
}
