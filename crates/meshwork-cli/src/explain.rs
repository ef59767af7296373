//! `meshwork explain`: what splitting a program over its mesh costs, and why.

use crate::fail::Failure;
use crate::source::{Source, write_text};
use crate::stages;

/// Show what splitting a program over its mesh costs, and why
///
/// Lists every collective with the operation that caused it, what a device sends, and the peak memory of a device.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork explain model.mlir")]
pub struct Args {
    /// Program to explain; `-` reads standard input
    file: String,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let source = Source::read(&args.file)?;
    let module = source.module()?;
    let program = stages::partition(&source, &module)?.program;
    write_text(None, &meshwork_partition::explain::table(&program.plan))
}
