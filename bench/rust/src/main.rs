//! Timings of Meshwork's own parts, one subcommand each.
//!
//! ```text
//! cargo run --release -p meshwork-bench -- text
//! ```
#![forbid(unsafe_code)]

mod text;

use std::process::ExitCode;

const HELP: &str = "usage: meshwork-bench NAME

  text    parse, print, build and verify large modules";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("text") => text::run(),
        Some("--help" | "-h") => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{HELP}");
            ExitCode::FAILURE
        }
    }
}
