//! `meshwork why`: how a value came to be placed as it is.

use meshwork_ir::{Module, OpKind, ValueId, Walk};
use meshwork_mesh::AxisRef;
use meshwork_partition::cause::{Namer, Sources, argument_name, dims_text, place_of, short_name, short_type};
use meshwork_propagate::Provenance;
use meshwork_propagate::values::sharding_of;
use meshwork_propagate::why::{Chain, Link, Node, why};

use crate::fail::Failure;
use crate::source::{Source, write_text};
use crate::stages;

/// Show how a value came to be placed as it is
///
/// For each dimension: the operations that each of its axes came through, back to the annotation it started from, and
/// the axes of neighbours that it did not take.
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
    let mut placed = written.clone();
    let provenance = stages::place_traced(&source, &mut placed)?;
    let values = find(&provenance.module, &args.value)?;
    let teller = Teller { written: &written, provenance: &provenance };
    let mut out = String::new();
    for v in values {
        out.push_str(&teller.explain(v, args.dim)?);
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
        data.pos.line == line && !matches!(data.kind(), OpKind::Func | OpKind::SdyDataFlowEdge)
    };
    let ops = module.all_ops(Walk::PreOrder).into_iter().filter(on_line);
    let mut values: Vec<ValueId> = ops.flat_map(|op| module.op(op).results().to_vec()).collect();
    values.retain(|&v| module.ty(v).as_tensor().is_some());
    // The constant splitter copies constants: one of the copies tells the story.
    values.dedup_by_key(|v| module.ty(*v).clone());
    match values.is_empty() {
        true => Err(Failure::error(format!("no operation with a tensor result starts on line {line}"))),
        false => Ok(values),
    }
}

struct Teller<'a> {
    written: &'a Module,
    provenance: &'a Provenance,
}

impl Teller<'_> {
    fn module(&self) -> &Module {
        &self.provenance.module
    }

    /// `dot_general at line 7`, `argument 1 (w)`.
    fn name(&self, v: ValueId) -> String {
        match (argument_name(self.module(), v), meshwork_propagate::edges::owning_op(self.module(), v)) {
            (Some(name), _) => name,
            (None, Some(op)) => {
                let (name, place) = (short_name(self.module().op(op).name()), place_of(self.module(), op));
                if place.is_empty() { name } else { format!("{name} at {place}") }
            }
            (None, None) => "a value".into(),
        }
    }

    fn node(&self, node: Node) -> String {
        match node {
            Node::Value(v) => self.name(v),
            Node::FuncResult(index) => format!("result {index}"),
        }
    }

    fn explain(&self, v: ValueId, only: Option<usize>) -> Result<String, Failure> {
        let ty = self.module().ty(v);
        let rank = ty.dims().len();
        if let Some(dim) = only.filter(|&d| d >= rank) {
            return Err(Failure::error(format!("{} is {}: it has no dimension {dim}", self.name(v), short_type(ty))));
        }
        let placed = sharding_of(self.module(), v);
        let shown = placed.as_ref().map_or("not placed: every device has all of it".to_string(), dims_text);
        let mut out = format!("{}, {}: {shown}\n", self.name(v), short_type(ty));
        for dim in (0..rank).filter(|&d| only.is_none_or(|o| o == d)) {
            let told = why(self.module(), &self.provenance.trace, v, dim);
            let extent = ty.dims()[dim];
            if told.axes.is_empty() {
                out.push_str(&format!("  dimension {dim} ({extent}): whole\n"));
            }
            for (axis, chain) in &told.axes {
                out.push_str(&format!("  dimension {dim} ({extent}): split by {axis}\n"));
                out.push_str(&self.chain(chain, axis));
            }
            for no in &told.rejected {
                let from = self.name(no.from);
                let through = self.name_of_op(no.op);
                let through = if through == from { String::new() } else { format!(" through {through}") };
                out.push_str(&format!("    not {} of {from}{through}: {}\n", no.axis, no.reason));
            }
        }
        Ok(out)
    }

    fn name_of_op(&self, op: meshwork_ir::OpId) -> String {
        let (name, place) = (short_name(self.module().op(op).name()), place_of(self.module(), op));
        if place.is_empty() { name } else { format!("{name} at {place}") }
    }

    fn chain(&self, chain: &Chain, axis: &AxisRef) -> String {
        let mut out = String::new();
        for link in &chain.links {
            match link {
                Link::Op(link) => {
                    let (from, through) = (self.node(link.from), self.name_of_op(link.op));
                    let through = if through == from { String::new() } else { format!(", through {through}") };
                    out.push_str(&format!("    from dimension {} of {from}{through}\n", link.from_dim));
                }
                Link::Group { from, .. } => {
                    out.push_str(&format!("    as {}, of the same sharding group\n", self.name(*from)));
                }
            }
        }
        let sources = Some(Sources { written: self.written, provenance: self.provenance });
        let namer = Namer { program: self.module(), sources };
        match namer.annotation_at(chain.origin) {
            Some(annotation) => out.push_str(&format!("    annotated: {annotation}\n")),
            None => out.push_str(&format!("    {axis} starts at {}\n", self.node(chain.origin))),
        }
        out
    }
}
