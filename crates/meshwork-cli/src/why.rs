//! `meshwork why`: how a value came to be placed as it is.

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Module, OpKind, ValueId, Walk};
use meshwork_partition::plan::{Explainer, short_type};
use meshwork_partition::{Causes, CompileOptions};

use crate::fail::Failure;
use crate::source::{Source, write_text};

/// Show how a value came to be placed as it is
///
/// For each dimension: the operations that each of its axes came through, back to the annotation it started from, and
/// the axes of neighbors that it did not take.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork why model.mlir %arg3\n  meshwork why model.mlir result0 --dim 1\n  \
    meshwork why model.mlir 158")]
pub struct Args {
    /// Program; `-` reads standard input
    file: String,
    /// %argN, resultN, or the number of a line: the results of the operations that stand there
    value: String,
    /// Function to use instead of @main
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Only this dimension
    #[arg(long, value_name = "D")]
    dim: Option<usize>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let source = Source::read(&args.file)?;
    let written = source.program(args.entry.as_deref())?;
    let options = CompileOptions { causes: Causes::Annotations, ..CompileOptions::default() };
    let compiled = source.compile(&written, &options)?;
    let provenance =
        compiled.provenance.ok_or_else(|| Failure::error("the program was compiled without its history"))?;
    let values = find(&provenance.module, &args.value)?;
    let explainer = Explainer { written: &written, provenance: &provenance };
    let mut out = String::new();
    for v in values {
        let ty = provenance.module.ty(v);
        if let Some(dim) = args.dim.filter(|&d| d >= ty.dims().len()) {
            let (name, ty) = (explainer.name(v), short_type(ty));
            return Err(Failure::error(format!("{name} is {ty}: it has no dimension {dim}")));
        }
        out.push_str(&explainer.explain(v, args.dim));
    }
    write_text(None, &out)
}

/// The values that `name` stands for.
fn find(module: &Module, name: &str) -> Result<Vec<ValueId>, Failure> {
    let func = module.entry().ok_or_else(|| Failure::error("the module has no function @main"))?;
    let body = module.body_of(func, 0).ok_or_else(|| Failure::error("the function has no body"))?;
    let pick = |list: &[ValueId], digits: &str, what: &str| {
        let number: Option<usize> = digits.parse().ok();
        let found = number.and_then(|n| list.get(n).copied());
        found
            .map(|v| vec![v])
            .ok_or_else(|| Failure::error(format!("the function has {} {what}, no '{name}'", list.len())))
    };
    if let Some(digits) = name.strip_prefix("%arg") {
        return pick(module.block(body).args(), digits, "arguments");
    }
    if let Some(digits) = name.strip_prefix("result") {
        return pick(module.returned(body), digits, "results");
    }
    let Ok(line) = name.parse::<u32>() else {
        return Err(Failure::error(format!("'{name}' is not %argN, resultN or the number of a line")));
    };
    let on_line = |op: &meshwork_ir::OpId| {
        let data = module.op(*op);
        // A program that did not come from text has the lines of the user's source.
        let at = if data.pos.line > 0 { Some(data.pos.line) } else { data.loc.source().map(|(_, line, _)| line) };
        at == Some(line) && !matches!(data.kind(), OpKind::Control(ControlOp::Func) | OpKind::Sdy(SdyOp::DataFlowEdge))
    };
    let ops = module.all_ops(Walk::PreOrder).into_iter().filter(on_line);
    let mut values: Vec<ValueId> = ops.flat_map(|op| module.op(op).results().to_vec()).collect();
    values.retain(|&v| module.ty(v).as_tensor().is_some());
    // The constant splitter copies constants: any of the copies has the history.
    values.dedup_by_key(|v| module.ty(*v).clone());
    if values.is_empty() {
        Err(Failure::error(format!("no operation with a tensor result starts on line {line}")))
    } else {
        Ok(values)
    }
}
