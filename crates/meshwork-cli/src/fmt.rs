//! `meshwork fmt`: parse a program and print it.

use meshwork_ir::text::{PrintOptions, print_with};

use crate::fail::Failure;
use crate::source::{Source, write_text};

/// Parse a program and print it in canonical form
///
/// The output is MLIR text that parses back to the same program. The program need not pass `meshwork verify`.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork fmt model.mlir\n  meshwork fmt --generic model.mlir -o generic.mlir")]
pub struct Args {
    /// Program to print; `-` reads standard input
    file: String,
    /// Print every operation in MLIR's generic form
    #[arg(long)]
    generic: bool,
    /// Print source locations
    #[arg(long)]
    locations: bool,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let module = Source::read(&args.file)?.parse()?;
    let text = print_with(&module, &PrintOptions { generic: args.generic, locations: args.locations });
    write_text(args.output.as_deref(), &text)
}
