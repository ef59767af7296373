//! How long each stage of a compilation takes: parse, verify, propagate, place, all of `compile`, and what the engine then
//! does (`load`).
//!
//! ```text
//! meshwork-bench compile FILE [--repeat N] [--mesh AXIS=SIZE,...]
//! ```
//!
//! Prints one JSON object; times are wall-clock milliseconds (`wall`) and CPU milliseconds (`cpu`), the
//! shortest and the median of N rounds. Copying the module before a stage changes it, and freeing it, are not counted.
//! `--mesh` gives the axes of the program's mesh other sizes; extents stay, so shards may become uneven.

use std::fmt::Write;
use std::process::ExitCode;

use meshwork_cpu::CpuEngine;
use meshwork_ir::op::SdyOp;
use meshwork_ir::text::parse;
use meshwork_ir::verify::verify;
use meshwork_ir::{Attr, Module, OpKind, Walk};
use meshwork_mesh::Mesh;
use meshwork_partition::CompileOptions;
use meshwork_runtime::Engine;
use meshwork_shardy::pipeline::{ExportOptions, PipelineOptions, propagation};

use crate::timing::{Times, on_processor, wall};

/// Times the stages over the file named by the arguments.
pub fn run(args: &[String]) -> ExitCode {
    match report(args) {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

struct Request {
    path: String,
    repeat: usize,
    sizes: Vec<(String, i64)>,
}

fn request(args: &[String]) -> Result<Request, String> {
    let mut out = Request { path: String::new(), repeat: 5, sizes: vec![] };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{arg} needs a value"));
        match &arg[..] {
            "--repeat" => out.repeat = value()?.parse().map_err(|e| format!("--repeat: {e}"))?,
            "--mesh" => out.sizes = value()?.split(',').map(axis_size).collect::<Result<_, _>>()?,
            _ if out.path.is_empty() && !arg.starts_with('-') => out.path = arg.clone(),
            _ => return Err(format!("unexpected argument '{arg}'")),
        }
    }
    match (&out.path[..], out.repeat) {
        ("", _) => Err("usage: meshwork-bench compile FILE [--repeat N] [--mesh AXIS=SIZE,...]".into()),
        (_, 0) => Err("--repeat: at least 1".into()),
        _ => Ok(out),
    }
}

fn axis_size(text: &str) -> Result<(String, i64), String> {
    let parsed = text.split_once('=').and_then(|(name, size)| Some((name.to_string(), size.parse().ok()?)));
    parsed.ok_or_else(|| format!("--mesh: '{text}' is not AXIS=SIZE"))
}

#[derive(Default)]
struct Stage {
    wall: Times,
    cpu: Times,
}

impl Stage {
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let ((result, elapsed), cpu) = on_processor(|| wall(work));
        self.cpu.add(cpu);
        self.wall.add(elapsed);
        result
    }

    fn json(&self, name: &str) -> String {
        let Stage { wall, cpu } = self;
        format!(
            "\"{name}\": {{\"wall\": {{\"min\": {:.3}, \"median\": {:.3}}}, \"cpu\": {{\"min\": {:.3}, \"median\": {:.3}}}}}",
            wall.least(),
            wall.median(),
            cpu.least(),
            cpu.median()
        )
    }
}

fn report(args: &[String]) -> Result<String, String> {
    let Request { path, repeat, sizes } = request(args)?;
    let source = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let (mut reading, mut verifying, mut pipeline) = (Stage::default(), Stage::default(), Stage::default());
    let (mut placing, mut compiling, mut loading) = (Stage::default(), Stage::default(), Stage::default());
    let (mut ops, mut local_ops, mut collectives, mut evaluated) = (0, 0, 0, 0);
    for _ in 0..repeat {
        let mut module = reading.time(|| parse(&source)).map_err(|e| e.render(&path, &source))?;
        resize(&mut module, &sizes)?;
        ops = module.all_ops(Walk::PreOrder).len();
        if let Some(problem) = verifying.time(|| verify(&module)).first() {
            return Err(format!("{path}: {problem}"));
        }
        let (mut copy, mut diagnostics) = (module.clone(), vec![]);
        let (how, export) =
            (PipelineOptions::default(), ExportOptions { inline_meshes: false, ..ExportOptions::default() });
        let outcome = pipeline.time(|| propagation(&mut copy, &how, &export, &mut diagnostics));
        outcome.map_err(|_| lines(&diagnostics))?;
        let mut placed = module.clone();
        placing.time(|| meshwork_propagate::place(&mut placed)).map_err(|d| lines(&d))?;
        let options = CompileOptions::default();
        let compiled =
            compiling.time(|| meshwork_partition::compile(&module, &options)).map_err(|e| format!("{path}: {e}"))?;
        local_ops = compiled.module.all_ops(Walk::PreOrder).len();
        collectives = compiled.plan.collectives.len();
        // Each round in an engine of its own: a program that it knows is not loaded again.
        let loaded = loading.time(|| CpuEngine::new(1).load(&compiled)).map_err(|e| format!("{path}: {e}"))?;
        evaluated = loaded.fallbacks().len();
    }
    let mut out = String::new();
    let stages = [
        reading.json("parse"),
        verifying.json("verify"),
        pipeline.json("pipeline"),
        placing.json("place"),
        compiling.json("compile"),
        loading.json("load"),
    ];
    // Writing to a string does not fail.
    let _ = write!(out, "{{\"ops\": {ops}, \"local_ops\": {local_ops}, \"collectives\": {collectives}, ");
    let _ = write!(out, "\"evaluated\": {evaluated}, \"repeat\": {repeat}, {}}}", stages.join(", "));
    Ok(out)
}

fn lines(diagnostics: &[meshwork_ir::Diagnostic]) -> String {
    diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Gives the named axes of every mesh of `module` other sizes.
fn resize(module: &mut Module, sizes: &[(String, i64)]) -> Result<(), String> {
    if sizes.is_empty() {
        return Ok(());
    }
    let ops: Vec<_> =
        module.ops_in(module.body()).filter(|&op| module.op(op).kind() == OpKind::Sdy(SdyOp::Mesh)).collect();
    for op in ops {
        let Some(Attr::Mesh(mesh)) = module.op(op).attr("mesh") else { continue };
        let size = |name: &str, old: i64| sizes.iter().find(|(n, _)| n == name).map_or(old, |(_, size)| *size);
        let axes: Vec<(String, i64)> =
            mesh.axes().iter().map(|a| (a.name.to_string(), size(&a.name, a.size))).collect();
        let mesh = Mesh::new(axes).map_err(|e| format!("--mesh: {e}"))?;
        module.op_mut(op).attrs.set("mesh", Attr::Mesh(mesh.into()));
    }
    Ok(())
}
