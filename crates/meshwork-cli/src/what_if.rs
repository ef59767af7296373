//! `meshwork what-if`: the plan of a program on another mesh or machine, or with another batch.

use meshwork_ir::Module;
use meshwork_mesh::Mesh;
use meshwork_partition::plan::{human_bytes, human_seconds};
use meshwork_partition::{Lock, mesh_of};
use meshwork_planner::{Case, Difference, Outcome, mesh_text, verdict_json, verdict_text, what_if};
use serde_json::json;

use crate::fail::Failure;
use crate::limits::read_lock;
use crate::machine::{MachineArgs, parse_mesh};
use crate::source::{ProgramArgs, write_text};

/// Show what a program would cost on another mesh or machine, or with another batch
///
/// The program keeps its annotations. It is planned as it is, on the machine that --machine or --links names, and as the
/// other options say; the difference is printed. With --sweep there is one line for each size of an axis.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork what-if model.mlir --link pod=20,5\n  \
    meshwork what-if model.mlir --machine h100 --mesh data=64,model=8\n  \
    meshwork what-if model.mlir --batch 2x --against model.lock\n  \
    meshwork what-if model.mlir --sweep model=1..64\n\n\
    Exit status: 0 success, 2 an error, 77 not supported.")]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Another mesh, with the axes that the program names
    #[arg(long, value_name = "AXIS=N,..", value_parser = parse_mesh)]
    mesh: Option<Mesh>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Scale the batch by this factor, as 2x or 0.5x
    #[arg(long, value_name = "Nx", value_parser = parse_times)]
    batch: Option<f64>,
    /// Show what differs from a lock file
    #[arg(long, value_name = "LOCKFILE")]
    against: Option<String>,
    /// Plan for each power of two between two sizes of an axis, the other axes as they are
    #[arg(long, value_name = "AXIS=FROM..TO", value_parser = parse_sweep)]
    sweep: Option<(String, i64, i64)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let (_, module) = args.program.read()?;
    let machine = args.machine.machine()?;
    if let Some(mesh) = args.mesh.clone().or_else(|| mesh_of(&module).map(|(_, mesh)| mesh)) {
        args.machine.check_axes(&mesh)?;
    }
    let changed = Case { machine, mesh: args.mesh.clone(), batch: args.batch };
    if let Some((axis, from, to)) = &args.sweep {
        return sweep(args, &module, &changed, axis, *from, *to);
    }
    let now = Case { machine: args.machine.plain()?, ..Case::default() };
    let other = ask(&module, &changed)?;
    // Without a mesh of its own there is nothing to compare with.
    let now = if mesh_of(&module).is_some() { Some(ask(&module, &now)?) } else { None };
    let differences = match &args.against {
        Some(path) => Some(against(path, &other)?),
        None => None,
    };
    if args.json {
        let data = json!({
            "now": now.as_ref().map(|now| verdict_json(&now.verdict)),
            "then": verdict_json(&other.verdict),
            "changes": differences,
        });
        return write_text(None, &format!("{data:#}\n"));
    }
    let mut out = String::new();
    if let Some(now) = &now {
        out += &format!("now   {}: {}\n", mesh_text(&now.plan.mesh), verdict_text(&now.verdict));
    }
    out += &format!("then  {}: {}\n", mesh_text(&other.plan.mesh), verdict_text(&other.verdict));
    if let Some(now) = &now {
        out += &format!("      {}\n", Difference::between(&now.verdict, &other.verdict));
    }
    for change in differences.into_iter().flatten() {
        out += &format!("  {change}\n");
    }
    write_text(None, &out)
}

fn ask(module: &Module, case: &Case) -> Result<Outcome, Failure> {
    what_if(module, case).map_err(|e| Failure::error(e.to_string()))
}

fn against(path: &str, outcome: &Outcome) -> Result<Vec<String>, Failure> {
    Ok(read_lock(path)?.changes(&Lock::of(&outcome.plan)).iter().map(ToString::to_string).collect())
}

/// One line for each size of `axis`.
fn sweep(args: &Args, module: &Module, case: &Case, axis: &str, from: i64, to: i64) -> Result<(), Failure> {
    let own = args.mesh.clone().or_else(|| mesh_of(module).map(|(_, mesh)| mesh));
    let own = own.ok_or_else(|| Failure::error("the program has no mesh; give one with --mesh"))?;
    let axes = || own.axes().iter();
    if !axes().any(|a| *a.name == *axis) {
        return Err(Failure::error(format!("{own} has no axis {axis}")));
    }
    let mut rows = vec![];
    let mut size = from;
    while size <= to {
        let sizes = axes().map(|a| (a.name.clone(), if *a.name == *axis { size } else { a.size }));
        let mesh = Mesh::new(sizes).map_err(|e| Failure::error(e.to_string()))?;
        rows.push((size, ask(module, &Case { mesh: Some(mesh), ..case.clone() })?));
        size *= 2;
    }
    if args.json {
        let rows: Vec<_> =
            rows.iter().map(|(size, o)| json!({ "size": size, "verdict": verdict_json(&o.verdict) })).collect();
        return write_text(None, &format!("{:#}\n", json!({ "axis": axis, "sizes": rows })));
    }
    let mut out =
        format!("{axis:>8}  {:>8}  {:>10}  {:>10}  {:>10}  {:>10}\n", "devices", "a run", "memory", "sent", "utilized");
    for (size, outcome) in rows {
        let v = &outcome.verdict;
        out += &format!(
            "{size:>8}  {:>8}  {:>10}  {:>10}  {:>10}  {:>9.1}%\n",
            outcome.plan.devices(),
            human_seconds(v.seconds),
            human_bytes(v.peak as f64),
            human_bytes(v.sent),
            100.0 * v.utilization
        );
    }
    write_text(None, &out)
}

fn parse_times(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('x').parse::<f64>().ok();
    number.filter(|n| n.is_finite() && *n > 0.0).ok_or_else(|| format!("'{text}' is not a factor, as 2x or 0.5x"))
}

fn parse_sweep(text: &str) -> Result<(String, i64, i64), String> {
    let wrong = || format!("'{text}' is not AXIS=FROM..TO, as model=1..64");
    let (axis, range) = text.split_once('=').ok_or_else(wrong)?;
    let (from, to) = range.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|&n| n >= 1);
    match (number(from), number(to)) {
        (Some(from), Some(to)) if from <= to => Ok((axis.trim().into(), from, to)),
        _ => Err(wrong()),
    }
}
