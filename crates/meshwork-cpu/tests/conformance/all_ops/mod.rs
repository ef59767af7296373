//! Every operation on every element type: what the verifier accepts, the engine runs as the evaluator does, and what
//! the evaluator refuses, the engine refuses.

mod bodies;
mod elements;
mod movement;
mod products;
mod structure;

use meshwork_ir::op::{CheckOp, ChloOp, ControlOp, DynamicOp, MovementOp, SourceOp, TokenOp};
use meshwork_ir::verify::verify;
use meshwork_ir::{ElementType, OpKind, text};

use crate::harness::{Check, tensor};

/// A program around one operation.
pub struct Case {
    /// Types of the arguments `%x0`, `%x1`, …
    args: Vec<String>,
    /// Lines before the operation.
    before: String,
    /// The operation, after `%r =`.
    op: String,
    results: Vec<String>,
    /// How many devices run it.
    devices: usize,
}

impl Case {
    /// `name` applied to all arguments, in MLIR's generic form.
    fn new(kind: OpKind, args: &[&str], attrs: &str, results: &[&str]) -> Case {
        Case::with_body(kind, args, "", attrs, results)
    }

    /// The same with regions.
    fn with_body(kind: OpKind, args: &[&str], regions: &str, attrs: &str, results: &[&str]) -> Case {
        let names: Vec<String> = (0..args.len()).map(|i| format!("%x{i}")).collect();
        Case::of(kind, &names.join(", "), args, args, regions, attrs, results)
    }

    /// The operation applied to `operands` of types `types` in a function of `args`.
    fn of(
        kind: OpKind,
        operands: &str,
        types: &[&str],
        args: &[&str],
        regions: &str,
        attrs: &str,
        results: &[&str],
    ) -> Case {
        let op = format!(
            "\"{}\"({operands}) {regions} {{{attrs}}} : ({}) -> ({})",
            kind.name(),
            types.join(", "),
            results.join(", ")
        );
        let own = |list: &[&str]| list.iter().map(|t| t.to_string()).collect();
        Case { args: own(args), before: String::new(), op, results: own(results), devices: 1 }
    }

    fn after(mut self, before: &str) -> Case {
        self.before = before.to_string();
        self
    }

    fn on(mut self, devices: usize) -> Case {
        self.devices = devices;
        self
    }

    fn source(&self) -> String {
        let params: Vec<String> = self.args.iter().enumerate().map(|(i, t)| format!("%x{i}: {t}")).collect();
        let n = self.results.len();
        let (bound, names) = match n {
            0 => (String::new(), String::new()),
            1 => ("%r = ".to_string(), "%r : ".to_string()),
            _ => {
                let names: Vec<String> = (0..n).map(|i| format!("%r#{i}")).collect();
                (format!("%r:{n} = "), format!("{} : ", names.join(", ")))
            }
        };
        let types = self.results.join(", ");
        let (params, before, op) = (params.join(", "), &self.before, &self.op);
        format!("func.func @main({params}) -> ({types}) {{\n{before}\n{bound}{op}\nreturn {names}{types} }}")
    }
}

/// Programs around `kind` on elements of type `elem`; nothing for operations that no program of a device has.
fn cases(kind: OpKind, elem: ElementType) -> Vec<Case> {
    match kind {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => elements::cases(kind, elem),
        OpKind::Collective(_) => structure::collectives(kind, elem),

        // The result's extents are known at run time only.
        OpKind::Movement(MovementOp::SetDimensionSize) => vec![],
        OpKind::Contract(_)
        | OpKind::Linalg(_)
        | OpKind::Dynamic(DynamicOp::Conv)
        | OpKind::Chlo(ChloOp::RaggedDot) => products::cases(kind, elem),
        OpKind::Source(SourceOp::Constant | SourceOp::Iota)
        | OpKind::Chlo(ChloOp::Constant | ChloOp::ConstantLike)
        | OpKind::Movement(_)
        | OpKind::Dynamic(_) => movement::cases(kind, elem),
        OpKind::Body(_)
        | OpKind::Control(ControlOp::Case | ControlOp::If | ControlOp::While)
        | OpKind::Chlo(ChloOp::Scan | ChloOp::TopK) => bodies::cases(kind, elem),

        OpKind::Source(SourceOp::PartitionId | SourceOp::ReplicaId | SourceOp::RngBitGenerator)
        | OpKind::Token(TokenOp::AfterAll | TokenOp::CreateToken | TokenOp::GetTupleElement)
        | OpKind::Control(ControlOp::OptimizationBarrier)
        | OpKind::Token(TokenOp::Tuple)
        | OpKind::Check(
            CheckOp::ExpectAlmostEq
            | CheckOp::ExpectAlmostEqConst
            | CheckOp::ExpectClose
            | CheckOp::ExpectEq
            | CheckOp::ExpectEqConst,
        ) => structure::cases(kind, elem),

        // Around the operations of a program, seen in every case or in `control`.
        OpKind::Control(ControlOp::Module | ControlOp::Func | ControlOp::FuncReturn | ControlOp::HloReturn) => vec![],
        // Taken away before a program comes to a device: calls are inlined, placements turned into communication.
        OpKind::Control(ControlOp::Call | ControlOp::Composite) | OpKind::Sdy(_) => vec![],
        // Which numbers come is the engine's choice.
        OpKind::Source(SourceOp::Rng) => vec![],
        // What the target means is not the program's to say.
        OpKind::Control(ControlOp::CustomCall) => vec![],
        // The outside world, and programs of StableHLO's own tests.
        OpKind::Control(ControlOp::AsyncDone | ControlOp::AsyncStart)
        | OpKind::Token(TokenOp::Infeed | TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send)
        | OpKind::Check(CheckOp::ExpectSerializedEq | CheckOp::Print | CheckOp::Probe | CheckOp::RunParallel)
        | OpKind::Unregistered => vec![],
    }
}

/// Runs all cases of the operations for which `wanted` holds.
fn run(c: &Check, wanted: impl Fn(OpKind) -> bool) {
    for &kind in OpKind::ALL.iter().filter(|&&k| wanted(k)) {
        let (mut tried, mut ran) = (0, 0);
        for &elem in ElementType::ALL {
            for case in cases(kind, elem) {
                tried += 1;
                let source = case.source();
                let Ok(module) = text::parse(&source) else { continue };
                if verify(&module).is_empty() && c.agrees(&source, case.devices) {
                    ran += 1;
                }
            }
        }
        assert!(tried == 0 || ran > 0, "no program of {} is valid, of {tried} like\n{}", kind.name(), {
            let elem = ElementType::F32;
            let sources: Vec<String> = cases(kind, elem).iter().map(Case::source).collect();
            let why = sources.iter().map(|s| match text::parse(s) {
                Ok(m) => format!("{s}\n{:?}", verify(&m)),
                Err(e) => e.render("case", s),
            });
            why.collect::<Vec<_>>().join("\n")
        });
    }
}

pub fn elementwise(c: &Check) {
    run(c, OpKind::is_elementwise);
}

pub fn all_others(c: &Check) {
    run(c, |kind| !kind.is_elementwise());
}

/// `tensor` of an element type.
fn ty(dims: &[i64], elem: ElementType) -> String {
    tensor(dims, elem.text())
}
