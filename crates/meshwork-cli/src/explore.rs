//! `meshwork explore`: a page that shows a program, its shardings, its plan and a run.

use std::path::Path;
use std::sync::Arc;

use meshwork_explore::{Against, Page, Program, Run};
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, OpId};
use meshwork_mesh::Mesh;
use meshwork_partition::{Causes, CompileOptions, DEFAULT_COMBINE_BYTES, Lock};

use crate::fail::Failure;
use crate::machine::{MachineArgs, parse_mesh};
use crate::source::{Source, write_text};

/// Write a page that shows a program, its shardings, its plan and a run
///
/// The page is one HTML file with everything inside: it needs no server and no network, and can be mailed.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork explore model.mlir\n  \
    meshwork explore model.mlir --against model.lock --out review.html\n  \
    meshwork run model.mlir --profile trace.json; meshwork explore model.mlir --profile trace.json")]
pub struct Args {
    /// Program to show; `-` reads standard input
    file: String,
    /// Function to use instead of @main
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Show what changed since a lock file or another program
    #[arg(long, value_name = "LOCK|FILE")]
    against: Option<String>,
    /// Show what the program would cost on another mesh, with the axes that it names; may be given several times
    #[arg(long, value_name = "AXIS=N,..", value_parser = parse_mesh)]
    what_if: Vec<Mesh>,
    /// Show a measured run: a trace for Chrome or Perfetto, as `meshwork run --profile` writes
    #[arg(long, value_name = "TRACE")]
    profile: Option<String>,
    /// Draw a limit of N bytes into the picture of the memory
    #[arg(long, value_name = "N")]
    budget: Option<u64>,
    /// Write here; `-` is standard output [default: the name of FILE with .html, in the current folder]
    #[arg(long, value_name = "PAGE")]
    out: Option<String>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Combine independent collectives of one kind and group up to BYTES, sums further where a machine has levels; 0 for none
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_COMBINE_BYTES)]
    combine: i64,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let (machine, algorithms) = (args.machine.machine()?, args.machine.algorithms());
    let options = CompileOptions { causes: Causes::Annotations, combine_bytes: args.combine, algorithms, machine };
    let source = Source::read(&args.file)?;
    let program = program(&source, args.entry.as_deref(), &options)?;
    let name = Path::new(&args.file).file_name().map_or("standard input".into(), |name| name.to_string_lossy());
    let mut page = Page::new(if args.file == "-" { "standard input" } else { &name }, &program);
    if let Some(path) = &args.against {
        let other = Source::read(path)?;
        let against = if other.text.starts_with("meshwork plan") {
            Against::Lock(Lock::parse(&other.text).map_err(|e| Failure::error(format!("{path}: {e}")))?)
        } else {
            Against::Program(Box::new(self::program(&other, args.entry.as_deref(), &options)?))
        };
        page = page.against(path, &program, &against);
    }
    for mesh in &args.what_if {
        page = page.what_if(&mesh_name(mesh), &variant(&source, args.entry.as_deref(), &options, mesh)?);
    }
    if let Some(path) = &args.profile {
        let text = std::fs::read_to_string(path).map_err(|e| Failure::error(format!("cannot read {path}: {e}")))?;
        page = page.with_run(&Run::parse(&text).map_err(|e| Failure::error(format!("{path}: {e}")))?);
    }
    if let Some(bytes) = args.budget {
        page = page.budget(bytes);
    }
    let stem = Path::new(&args.file).file_stem().filter(|_| args.file != "-");
    let out = match (&args.out, stem) {
        (Some(out), _) => out.clone(),
        (None, Some(stem)) => format!("{}.html", stem.to_string_lossy()),
        (None, None) => "-".into(),
    };
    let html = page.html();
    // The process ends soon: giving back hundreds of thousands of small pieces of memory would only take time.
    std::mem::forget((page, program));
    write_text(Some(&out), &html)?;
    if out != "-" {
        eprintln!("wrote {out}: open it in a browser");
    }
    Ok(())
}

fn mesh_name(mesh: &Mesh) -> String {
    mesh.axes().iter().map(|a| format!("{}={}", a.name, a.size)).collect::<Vec<_>>().join(",")
}

/// The program on another mesh, compiled.
fn variant(source: &Source, entry: Option<&str>, options: &CompileOptions, mesh: &Mesh) -> Result<Program, Failure> {
    let name = mesh_name(mesh);
    let mut module = source.program(entry)?;
    let is_mesh = |&op: &OpId| module.op(op).kind() == SdyOp::Mesh;
    let Some(op) = module.ops_in(module.body()).find(is_mesh) else {
        return Err(Failure::error(format!("--what-if {name}: the program has no mesh")));
    };
    module.op_mut(op).attrs.set("mesh", Attr::Mesh(Arc::new(mesh.clone())));
    let (module, text) = Program::numbered(module);
    let compiled = source.compile(&module, options)?;
    Ok(Program::new(module, text, compiled, options.machine.clone()))
}

/// The program of `source`, compiled. One that is not text is printed, for the page to show.
fn program(source: &Source, entry: Option<&str>, options: &CompileOptions) -> Result<Program, Failure> {
    let module = source.program(entry)?;
    let (module, text) = if source.text.is_empty() { Program::numbered(module) } else { (module, source.text.clone()) };
    let compiled = source.compile(&module, options)?;
    Ok(Program::new(module, text, compiled, options.machine.clone()))
}
