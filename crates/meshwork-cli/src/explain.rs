//! `meshwork explain`: what splitting a program over its mesh costs, and why.

use meshwork_cpu::CpuEngine;
use meshwork_partition::plan::{Detail, json, table};
use meshwork_partition::{Causes, CompileOptions, Contract, DEFAULT_COMBINE_BYTES, Lock, Plan};
use meshwork_runtime::Engine;

use crate::fail::Failure;
use crate::limits::{LimitArgs, read_lock};
use crate::machine::MachineArgs;
use crate::source::{ProgramArgs, write_text};

/// Show what splitting a program over its mesh costs, and why
///
/// Lists every collective with the operation that needs it, what a device sends and how long that may take, the
/// annotations behind it, and the peak memory of a device. Notes name steps that are slow on the CPU engine. With limits (--allow, --max-bytes, --max-collective,
/// --nothing-implicit) or --check, a plan that breaks them is an error.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork explain model.mlir\n  \
    meshwork explain model.mlir --link 2,25 --link pod=20,5\n  \
    meshwork explain model.mlir --links cluster.links\n  \
    meshwork explain model.mlir --allow all-reduce,collective-permute --max-bytes 100000000\n  \
    meshwork explain model.mlir --write-lock model.lock\n  \
    meshwork explain model.mlir --check model.lock\n\n\
    Exit status: 0 success, 1 the plan breaks a limit or differs from the lock file, 2 an error, 77 not supported.")]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Print the whole plan as JSON
    #[arg(long)]
    json: bool,
    /// Show every line, with its reason and annotation
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    machine: MachineArgs,
    /// Combine independent collectives of one kind and group up to BYTES, sums further where a machine has levels; 0 for none
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_COMBINE_BYTES)]
    combine: i64,
    #[command(flatten)]
    limits: LimitArgs,
    /// Only collectives, constraints and result placements that the program writes may communicate
    #[arg(long)]
    nothing_implicit: bool,
    /// Apply the limits to operations whose place or traced name starts with PREFIX only
    #[arg(long, value_name = "PREFIX")]
    region: Option<String>,
    /// Compare the plan with a lock file
    #[arg(long, value_name = "LOCKFILE", conflicts_with = "write_lock")]
    check: Option<String>,
    /// Write the plan to a lock file
    #[arg(long, value_name = "LOCKFILE")]
    write_lock: Option<String>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let (source, module) = args.program.read()?;
    let (machine, algorithms) = (args.machine.machine()?, args.machine.algorithms());
    let options = CompileOptions { causes: Causes::Annotations, combine_bytes: args.combine, algorithms, machine };
    let compiled = source.compile(&module, &options)?;
    let plan = &compiled.plan;
    plan.check(&contract(args)).map_err(|violation| Failure::check(violation.to_string()))?;
    if let Some(path) = &args.write_lock {
        return write_text(Some(path), &Lock::of(plan).to_string());
    }
    if let Some(path) = &args.check {
        return check_lock(path, plan);
    }
    let detail = if args.all { Detail::Full } else { Detail::Short };
    let machine = &options.machine;
    let text = if args.json { json(&compiled, machine) } else { table(&compiled, machine, detail) };
    write_text(None, &text)?;
    if !args.json {
        CpuEngine::new(1).notes(&compiled).iter().for_each(|note| eprintln!("note: {note}"));
    }
    Ok(())
}

fn contract(args: &Args) -> Contract {
    Contract { region: args.region.clone(), nothing_implicit: args.nothing_implicit, ..args.limits.contract() }
}

fn check_lock(path: &str, plan: &Plan) -> Result<(), Failure> {
    let changes = read_lock(path)?.changes(&Lock::of(plan));
    if changes.is_empty() {
        return Ok(());
    }
    let list: String = changes.iter().map(|change| format!("  {change}\n")).collect();
    let hint = "if this is intended, update it with --write-lock\n";
    Err(Failure::check(format!("the plan is not what {path} records\n{list}{hint}")))
}
