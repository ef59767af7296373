//! Causes: where a collective comes from, in terms of the program and its annotations.

use std::fmt;

use meshwork_ir::op::{ControlOp, MixedOp, MovementOp, SdyOp};
use meshwork_ir::{Attr, Def, Loc, LocKind, Module, OpId, OpKind, Type, ValueId};
use meshwork_mesh::{AxisRef, Sharding};
use meshwork_propagate::program::{owning_op, shardable_value, sharding_of};
use meshwork_propagate::why::Node;

use crate::collective::{Origin, Site};

/// What a collective is for.
#[derive(Clone, PartialEq, Debug)]
pub struct Cause {
    /// The operation that needs it, without its dialect: `dot_general`, or `return`.
    pub op: String,
    /// Where the operation stands: `model.py:12`, or `line 12` of the program text; empty if not known.
    pub place: String,
    /// The name that the operation was traced under, as `jit(step)/block_0/dot_general`; empty if not known.
    pub path: String,
    /// The type of the global value that moves, as `f32[64,256]`.
    pub tensor: String,
    /// The argument that the value is made of by moving elements only; empty if there is none.
    pub argument: String,
    /// Why the value moves.
    pub reason: String,
    /// Whether the program asks for it: it writes the collective, a constraint or the placement of a result.
    pub explicit: bool,
    /// The annotation that the placement started from, where it was traced.
    pub annotation: Option<Annotation>,
    /// Bytes a device sends for it each time.
    pub wire_bytes: f64,
}

/// A placement that the program states.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Annotation {
    /// What is annotated: `argument 3 (w)`, `result 0`, `sharding_constraint at line 7`.
    pub what: String,
    /// The placement of its dimensions: `[{"x"}, {}]`.
    pub sharding: String,
}

impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.sharding)
    }
}

/// The program as it was written, and where the placements of its values came from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// As written.
    pub written: &'a Module,
    /// As placed.
    pub provenance: &'a meshwork_propagate::Provenance,
}

/// Says in words what the splitter noted in ids of `program`, the global program.
pub struct Namer<'a> {
    /// The global program.
    pub program: &'a Module,
    /// Its history, if it was traced.
    pub sources: Option<Sources<'a>>,
}

impl Namer<'_> {
    /// The cause behind `origin`, for a collective over `axes`.
    pub fn cause(&self, origin: &Origin, axes: &[AxisRef]) -> Cause {
        let (op, place, path) = match origin.site {
            Site::Result(_) => ("return".to_string(), String::new(), String::new()),
            Site::Op(op) => {
                let path = loc_name(&self.program.op(op).loc).unwrap_or("").to_string();
                (self.op_name(op), place_of(self.program, op), path)
            }
        };
        let annotation = self.asked(origin.site).or_else(|| self.annotation(origin, axes));
        Cause {
            op,
            place,
            path,
            tensor: origin.tensor.map_or(String::new(), |v| short_type(self.program.ty(v))),
            argument: origin.tensor.and_then(|v| self.argument_of(v)).unwrap_or_default(),
            reason: match origin.site {
                Site::Result(i) => format!("result {i}: {}", origin.reason),
                Site::Op(_) => origin.reason.to_string(),
            },
            explicit: self.is_explicit(origin.site),
            annotation,
            wire_bytes: origin.wire_bytes,
        }
    }

    fn is_explicit(&self, site: Site) -> bool {
        match site {
            Site::Result(i) => self.result_annotation(i).is_some(),
            Site::Op(op) => {
                let kind = self.program.op(op).kind();
                kind.is_collective() || kind.dialect() == "sdy"
            }
        }
    }

    /// The annotation at the place itself.
    fn asked(&self, site: Site) -> Option<Annotation> {
        match site {
            Site::Result(i) => self.result_annotation(i),
            Site::Op(op) if asks_for_placement(self.program.op(op).kind()) => {
                written_on(self.program, op, &self.op_name(op))
            }
            Site::Op(_) => None,
        }
    }

    /// The name of an operation, as it was written: placing turns constraints into reshards.
    fn op_name(&self, op: OpId) -> String {
        let data = self.program.op(op);
        let was_constraint = || {
            let module = &self.sources?.provenance.module;
            let v = data.operands().first().filter(|v| v.index() < module.value_slots())?;
            let uses = module.value(*v).uses();
            uses.iter().find(|u| module.op(u.op).kind() == SdyOp::ShardingConstraint).map(|u| module.op(u.op).name())
        };
        match data.kind() {
            OpKind::Sdy(SdyOp::Reshard) => short_name(was_constraint().unwrap_or(data.name())),
            _ => short_name(data.name()),
        }
    }

    fn result_annotation(&self, index: usize) -> Option<Annotation> {
        let module = self.sources.map_or(self.program, |s| s.written);
        let sharding = module.res_attr(module.entry()?, index, "sdy.sharding")?.as_sharding()?;
        Some(Annotation { what: format!("result {index}"), sharding: dims_text(sharding) })
    }

    /// The annotation that put an axis of `axes` on the value that moves, or on what the operation works on.
    fn annotation(&self, origin: &Origin, axes: &[AxisRef]) -> Option<Annotation> {
        let around: &[ValueId] = match origin.site {
            Site::Op(op) => self.program.op(op).operands(),
            Site::Result(_) => &[],
        };
        let results: &[ValueId] = match origin.site {
            Site::Op(op) => self.program.op(op).results(),
            Site::Result(_) => &[],
        };
        let mut candidates = origin.tensor.iter().chain(around).chain(results);
        candidates.find_map(|&v| self.annotation_of(v, axes))
    }

    /// The annotation behind the first axis of `v` that is one of `axes`.
    pub fn annotation_of(&self, v: ValueId, axes: &[AxisRef]) -> Option<Annotation> {
        let Sources { provenance, .. } = self.sources?;
        let placed = sharding_of(self.program, v)?;
        let (dim, axis) = placed.dims.iter().enumerate().find_map(|(dim, d)| {
            let axis = d.axes.iter().find(|a| axes.iter().any(|b| a.overlaps(b)))?;
            Some((dim, axis.clone()))
        })?;
        // Values that index algebra made have no history; what they are made of has the same placement.
        let mut v = v;
        while v.index() >= provenance.module.value_slots() {
            v = *self.program.op(self.program.def_op(v)?).operands().first()?;
        }
        let node = Node::Value(shardable_value(&provenance.module, v).unwrap_or(v));
        let chain = provenance.trace.why(node, dim, &axis);
        self.annotation_at(chain.origin)
    }

    /// What was written at the origin of a chain.
    pub fn annotation_at(&self, node: Node) -> Option<Annotation> {
        let Sources { written, provenance } = self.sources?;
        let module = &provenance.module;
        let v = match node {
            Node::FuncResult(index) => return self.result_annotation(index),
            Node::Value(v) => v,
        };
        let mut op = owning_op(module, v)?;
        if module.op(op).kind() == ControlOp::Func {
            let Def::Arg(_, index) = module.value(v).def() else { return None };
            let sharding = written.arg_attr(written.entry()?, index as usize, "sdy.sharding")?.as_sharding()?;
            return Some(Annotation { what: argument_name(module, v)?, sharding: dims_text(sharding) });
        }
        if module.op(op).kind() == SdyOp::DataFlowEdge {
            op = owning_op(module, *module.op(op).operands().first()?)?;
        }
        let constraint = module.value(v).uses().iter().find(|u| asks_for_placement(module.op(u.op).kind()));
        if !asks_for_placement(module.op(op).kind())
            && let Some(user) = constraint
        {
            return written_on(module, user.op, &short_name(module.op(user.op).name()));
        }
        let name = short_name(module.op(op).name());
        written_on(module, op, &name).or_else(|| {
            let what = format!("{name}{}", at(&place_of(module, op)));
            Some(Annotation { what, sharding: dims_text(&sharding_of(module, v)?) })
        })
    }

    /// The argument whose elements `v` consists of.
    fn argument_of(&self, v: ValueId) -> Option<String> {
        let mut v = v;
        loop {
            match self.program.value(v).def() {
                Def::Arg(..) => return argument_name(self.program, v),
                Def::Result(op, _) if moves_elements(self.program.op(op).kind()) => {
                    v = *self.program.op(op).operands().first()?;
                }
                Def::Result(..) => return None,
            }
        }
    }
}

fn asks_for_placement(kind: OpKind) -> bool {
    matches!(kind, OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard | SdyOp::ManualComputation))
}

fn moves_elements(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Mixed(MixedOp::Convert)
            | OpKind::Movement(
                MovementOp::Reshape
                    | MovementOp::Transpose
                    | MovementOp::BroadcastInDim
                    | MovementOp::Slice
                    | MovementOp::Pad
                    | MovementOp::Reverse
            )
            | OpKind::Sdy(SdyOp::Reshard | SdyOp::ShardingConstraint)
            | OpKind::Control(ControlOp::OptimizationBarrier)
    )
}

/// The placement written on a constraint or manual computation called `name`.
fn written_on(module: &Module, op: OpId, name: &str) -> Option<Annotation> {
    let what = format!("{name}{}", at(&place_of(module, op)));
    let sharding = match (module.op(op).attr("sharding"), module.op(op).attr("in_shardings")) {
        (Some(Attr::Sharding(s)), _) => dims_text(s),
        (_, Some(Attr::ShardingPerValue(list))) => list.iter().map(dims_text).collect::<Vec<_>>().join(", "),
        _ => return None,
    };
    Some(Annotation { what, sharding })
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at {place}") }
}

/// `argument 3`, with the name it was traced under; `None` if `v` is not an argument of a function.
pub fn argument_name(module: &Module, v: ValueId) -> Option<String> {
    let Def::Arg(block, index) = module.value(v).def() else { return None };
    let func = module.block_parent_op(block).filter(|&op| module.op(op).kind() == ControlOp::Func)?;
    let body = module.body_of(func, 0)?;
    let name = module.block(body).arg_locs.get(index as usize).and_then(loc_name);
    Some(match name {
        Some(name) => format!("argument {index} ({name})"),
        None => format!("argument {index}"),
    })
}

/// The first name in a location.
pub fn loc_name(loc: &Loc) -> Option<&str> {
    let Loc::Of(kind) = loc else { return None };
    match &**kind {
        LocKind::Name { name, .. } => Some(name),
        LocKind::CallSite { callee, caller } => loc_name(callee).or_else(|| loc_name(caller)),
        LocKind::Fused(parts, _) => parts.iter().find_map(loc_name),
        LocKind::File { .. } | LocKind::Opaque(_) => None,
    }
}

/// `dot_general` for `stablehlo.dot_general`.
pub fn short_name(name: &str) -> String {
    name.split_once('.').map_or(name, |(_, rest)| rest).to_string()
}

/// `file:line`, or the line of the text that the program was read from.
pub fn place_of(module: &Module, op: OpId) -> String {
    let data = module.op(op);
    match (data.loc.source(), data.pos.line) {
        (Some((file, line, _)), _) => format!("{file}:{line}"),
        (None, 0) => String::new(),
        (None, line) => format!("line {line}"),
    }
}

/// `f32[64,256]` for `tensor<64x256xf32>`.
pub fn short_type(ty: &Type) -> String {
    match ty {
        Type::Tensor(t) => {
            let dims: Vec<String> = t.dims.iter().map(ToString::to_string).collect();
            format!("{}[{}]", t.elem, dims.join(","))
        }
        other => other.to_string(),
    }
}

/// The dimensions of a placement: `[{"x"}, {}]`.
pub fn dims_text(sharding: &Sharding) -> String {
    let dims: Vec<String> = sharding.dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}
