//! `meshwork verify`: parse programs and check that they are legal.

use crate::fail::Failure;
use crate::source::Source;

/// Check that programs are legal
///
/// Prints nothing for a legal program; else each problem with its place in the text.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Example:\n  meshwork verify model.mlir other.mlir")]
pub struct Args {
    /// Programs to check; `-` reads standard input
    #[arg(required = true)]
    files: Vec<String>,
}

/// Runs the command: all files are checked, and the first failure decides the exit status.
pub fn main(args: &Args) -> Result<(), Failure> {
    let mut failures = args.files.iter().filter_map(|file| Source::read(file).and_then(|s| s.module()).err());
    let Some(first) = failures.next() else { return Ok(()) };
    eprint!("{}", first.text);
    failures.for_each(|f| eprint!("{}", f.text));
    Err(first.printed())
}
