//! `meshwork plan`: searches for the shardings of a program.

use meshwork_ir::text;
use meshwork_mesh::Mesh;
use meshwork_planner::{Constraint, Planner, PlannerError, parse_bytes};

use crate::fail::Failure;
use crate::limits::{LimitArgs, read_lock};
use crate::machine::{MachineArgs, parse_mesh};
use crate::source::{ProgramArgs, write_text};

/// Search for the shardings of a program
///
/// Tries placements of the arguments and of large products, compiles each exactly, and prints the annotations of the
/// fastest plan that fits into memory, each with what the plan would cost without it. Closed annotations that the
/// program has hold; open ones are where the search starts.
///
/// PATTERN is a regular expression that is found in the name of an argument. SPEC has one entry per dimension: - for
/// none, an axis, or several with +, as in -,data+model.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork plan model.mlir --devices 64 --memory 80GiB\n  \
    meshwork plan model.mlir --mesh data=8,model=8 --link 2,25 --write planned.mlir\n  \
    meshwork plan model.mlir --mesh x=4 --fix 'wq$' -,x --forbid embed 0\n  \
    meshwork plan model.mlir --keep-lock model.lock --except 'blocks.*mlp'\n\n\
    Exit status: 0 success, 1 no plan keeps to the constraints, 2 an error, 77 not supported.")]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Plan for this mesh
    #[arg(long, value_name = "AXIS=N,..", value_parser = parse_mesh)]
    mesh: Option<Mesh>,
    /// Plan for the best mesh of N devices
    #[arg(long, value_name = "N", conflicts_with = "mesh")]
    devices: Option<i64>,
    #[command(flatten)]
    machine: MachineArgs,
    /// The most memory a device may need, as 80GiB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<i64>,
    /// Place arguments so
    #[arg(long, num_args = 2, value_names = ["PATTERN", "SPEC"], allow_hyphen_values = true)]
    fix: Vec<String>,
    /// Do not split arguments over this axis, or along this dimension
    #[arg(long, num_args = 2, value_names = ["PATTERN", "AXIS|DIM"])]
    forbid: Vec<String>,
    /// Place all of these arguments alike
    #[arg(long, num_args = 2, value_names = ["PATTERN", "PATTERN"])]
    tie: Vec<String>,
    /// Keep arguments placed as a lock file records
    #[arg(long, value_name = "LOCKFILE")]
    keep_lock: Option<String>,
    /// Arguments that need not stay as the lock file records
    #[arg(long, value_name = "PATTERN", requires = "keep_lock")]
    except: Option<String>,
    /// Split extents only by axes that divide them
    #[arg(long)]
    even_only: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// Drop the annotations that the program has
    #[arg(long)]
    fresh: bool,
    /// Let corresponding arguments of repeated layers be placed differently
    #[arg(long)]
    untie: bool,
    /// Search for about SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    time: f64,
    /// Compile at most N plans instead of limiting the time, so that the result is reproducible
    #[arg(long, value_name = "N", conflicts_with = "time")]
    evaluations: Option<usize>,
    /// Show the best K plans
    #[arg(long, value_name = "K", default_value_t = 1)]
    top: usize,
    /// Write the program with the annotations
    #[arg(long, value_name = "FILE")]
    write: Option<String>,
    /// Write the lock file of the plan
    #[arg(long, value_name = "LOCKFILE")]
    write_lock: Option<String>,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let (_, module) = args.program.read()?;
    let machine = args.machine.machine()?;
    let mut planner = Planner::new(&module, &machine).top(args.top);
    if let Some(mesh) = &args.mesh {
        args.machine.check_axes(mesh)?;
        planner = planner.mesh(mesh.clone());
    }
    if let Some(devices) = args.devices {
        planner = planner.devices(devices);
    }
    planner = match args.evaluations {
        Some(most) => planner.evaluations(most),
        None => planner.seconds(args.time),
    };
    if args.fresh {
        planner = planner.fresh();
    }
    if args.untie {
        planner = planner.untied();
    }
    for constraint in constraints(args)? {
        planner = planner.constraint(constraint);
    }
    let found = planner.search().map_err(failure)?;
    let best = found.best();
    if let Some(path) = &args.write {
        write_text(Some(path), &text::print(&best.module()))?;
    }
    if let Some(path) = &args.write_lock {
        let lock = best.lock().map_err(|e| Failure::error(e.to_string()))?;
        write_text(Some(path), &lock.to_string())?;
    }
    let shown = if args.json { format!("{:#}\n", found.json()) } else { found.text() };
    if args.write.as_deref() == Some("-") { Ok(()) } else { write_text(None, &shown) }
}

fn constraints(args: &Args) -> Result<Vec<Constraint>, Failure> {
    let mut out = vec![];
    out.extend(args.memory.map(Constraint::Memory));
    for pair in args.fix.chunks_exact(2) {
        out.push(Constraint::Fix { pattern: pair[0].clone(), spec: Constraint::spec(&pair[1]).map_err(failure)? });
    }
    for pair in args.forbid.chunks_exact(2) {
        out.push(Constraint::Forbid { pattern: pair[0].clone(), what: pair[1].as_str().into() });
    }
    for pair in args.tie.chunks_exact(2) {
        out.push(Constraint::Tie { first: pair[0].clone(), second: pair[1].clone() });
    }
    if let Some(path) = &args.keep_lock {
        out.push(Constraint::KeepLock { lock: read_lock(path)?, except: args.except.clone() });
    }
    if args.even_only {
        out.push(Constraint::EvenOnly);
    }
    if args.limits.any() {
        out.push(Constraint::Contract(args.limits.contract()));
    }
    Ok(out)
}

fn failure(error: PlannerError) -> Failure {
    match error {
        PlannerError::Infeasible { .. } => Failure::check(error.to_string()),
        _ => Failure::error(error.to_string()),
    }
}

fn bytes(text: &str) -> Result<i64, String> {
    parse_bytes(text).map_err(|e| e.to_string())
}
