//! `meshwork partition`: place every value, split the program over its mesh and print the per-device program.

use std::sync::Arc;

use meshwork_ir::text;
use meshwork_partition::{Causes, CompileOptions, mark_partitioned};

use crate::fail::Failure;
use crate::machine::MachineArgs;
use crate::source::{ProgramArgs, write_text};

/// Split a program over its mesh and print the per-device program
///
/// Shardings are propagated from the annotations in the program. The output is StableHLO text with explicit
/// collectives, one program for all devices, which XLA accepts with as many partitions as the mesh has devices.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork partition model.mlir\n  meshwork partition --placed model.mlir")]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Stop after placement: print the global program with a sharding on every value
    #[arg(long)]
    placed: bool,
    /// Combine independent collectives of one kind and group up to BYTES. XLA takes programs that are partitioned already only
    /// without, and combines them itself
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    combine: i64,
    #[command(flatten)]
    machine: MachineArgs,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let (source, module) = args.program.read()?;
    let (machine, algorithms) = (args.machine.machine()?, args.machine.algorithms());
    // Without causes, nothing is placed for one device.
    let causes = if args.placed { Causes::Annotations } else { Causes::Operations };
    let options = CompileOptions { causes, combine_bytes: args.combine, algorithms, machine };
    let compiled = source.compile(&module, &options)?;
    let result = if args.placed {
        compiled.placed
    } else {
        let mut local = Arc::unwrap_or_clone(compiled.module);
        mark_partitioned(&mut local, compiled.plan.devices());
        local
    };
    write_text(args.output.as_deref(), &text::print(&result))
}
