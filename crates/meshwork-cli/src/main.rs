//! The `meshwork` command.
//!
//! One file a subcommand. Exit status: 0 all is well, 1 a check in the program failed, 77 the program uses something
//! Meshwork does not do, 2 anything else that went wrong (with a message on standard error).
#![forbid(unsafe_code)]

mod calibrate;
mod engines;
mod explain;
mod explore;
mod fail;
mod fmt;
mod launch;
mod limits;
mod machine;
mod opt;
mod parallel;
mod partition;
mod plan;
mod processes;
mod run;
mod show;
mod source;
mod verify;
mod what_if;
mod why;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fail::Failure;

/// Runs, checks, formats and transforms StableHLO programs.
#[derive(Parser)]
#[command(name = "meshwork", version, about, max_term_width = 110)]
#[command(after_help = "Exit status: 0 success, 1 a check in the program failed, 2 an error, 77 not supported.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Fmt(fmt::Args),
    Verify(verify::Args),
    Partition(partition::Args),
    Explain(explain::Args),
    Plan(Box<plan::Args>),
    WhatIf(what_if::Args),
    Explore(explore::Args),
    Why(why::Args),
    Calibrate(calibrate::Args),
    Launch(launch::Args),
    Devices(engines::Args),
    /// Run passes over a program, as MLIR's opt tools do
    ///
    /// See `meshwork opt --help` for its options and passes.
    #[command(disable_help_flag = true)]
    Opt {
        /// MLIR-style options, passes and the input file
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// Nested programs recurse; a deep one must not end in a stack overflow. Only touched pages take memory.
const STACK_BYTES: usize = 1 << 30;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || dispatch(cli.command));
    let outcome = match worker {
        Ok(thread) => thread.join().unwrap_or_else(|_| Err(Failure::error("internal error: the command panicked"))),
        Err(e) => Err(Failure::error(format!("cannot start a thread with a {STACK_BYTES} byte stack: {e}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{}", failure.text);
            ExitCode::from(failure.status)
        }
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::main(&args),
        Command::Devices(args) => engines::main(&args),
        Command::Fmt(args) => fmt::main(&args),
        Command::Verify(args) => verify::main(&args),
        Command::Partition(args) => partition::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::WhatIf(args) => what_if::main(&args),
        Command::Explore(args) => explore::main(&args),
        Command::Why(args) => why::main(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Launch(args) => launch::main(&args),
        Command::Opt { args } => opt::main(&args),
    }
}
