//! What makes a module legal, op by op.
//!
//! | check | where |
//! |---|---|
//! | bodies: how many, one block each, the right terminator | `bodies` |
//! | operand, attribute and result types of one operation | the type rules of [`infer`](crate::infer) |
//! | functions, calls, symbols | `func` |
//! | custom calls, composites, asynchronous and parallel runs | `call` |
//! | placements and the operations that move between them | `sdy/` |
//! | values are defined before they are used | `ssa` |
//!
//! Operations are checked in program order, an operation before its bodies. At most one error is reported per
//! function, the first: what follows is often its consequence. All checks together take linear time.

mod bodies;
mod call;
mod func;
mod sdy;
mod ssa;
#[cfg(test)]
mod tests;

use meshwork_mesh::Mesh;

use crate::hash::HashMap;
use crate::infer::{InferError, ResultType, infer_results, types_agree};
use crate::op::{CheckOp, ControlOp, SdyOp};
use crate::{Attr, BlockId, Diagnostic, Module, OpId, OpKind, TextPos, Trait};

pub(crate) use func::VISIBILITIES;

/// Everything that is wrong with `module`; nothing if it is legal.
pub fn verify(module: &Module) -> Vec<Diagnostic> {
    let mut out = vec![];
    verify_symbol_table(module, module.body(), &mut out);
    out
}

/// Checks the operations of `block`, the body of the module or of a nested one, each with its own first error.
fn verify_symbol_table(module: &Module, block: BlockId, out: &mut Vec<Diagnostic>) {
    let mut cx = Context::new(module, block);
    let before = out.len();
    let mut ssa = ssa::Visible::new(module);
    for op in module.ops_in(block) {
        if module.op(op).kind() == OpKind::Control(ControlOp::Module) {
            match module.body_of(op, 0) {
                Some(inner) => verify_symbol_table(module, inner, out),
                None => out.push(cx.error(op, "needs a body")),
            }
            continue;
        }
        if let Err(e) = cx.tree(op).and_then(|()| ssa.check_op(op)) {
            out.push(e);
        }
    }
    // A second definition of a symbol is reported once all else is right.
    if out.len() == before
        && let Err(e) = func::unique_symbols(module, block)
    {
        out.push(e);
    }
}

/// The first thing that is wrong with a part of a module.
type Check = Result<(), Diagnostic>;

/// What checks of single operations need to know of the rest of the module.
struct Context<'m> {
    module: &'m Module,
    symbols: HashMap<&'m str, OpId>,
    meshes: HashMap<&'m str, &'m Mesh>,
    /// The manual computations around the current operation, outermost first.
    manual: Vec<OpId>,
}

impl<'m> Context<'m> {
    fn new(module: &'m Module, block: BlockId) -> Context<'m> {
        let mut symbols = HashMap::default();
        let mut meshes = HashMap::default();
        for op in module.ops_in(block) {
            let Some(name) = module.symbol_name(op) else { continue };
            symbols.entry(name).or_insert(op);
            if let (OpKind::Sdy(SdyOp::Mesh), Some(Attr::Mesh(mesh))) =
                (module.op(op).kind(), module.op(op).attr("mesh"))
            {
                meshes.entry(name).or_insert(&**mesh);
            }
        }
        Context { module, symbols, meshes, manual: vec![] }
    }

    fn pos(&self, op: OpId) -> TextPos {
        self.module.op(op).pos
    }

    /// An error about `op`, which the message names first.
    fn error(&self, op: OpId, detail: impl std::fmt::Display) -> Diagnostic {
        let op = self.module.op(op);
        Diagnostic::at(op, format!("'{}' op {detail}", op.name()))
    }

    /// `op` and everything in it. Recursion is as deep as regions nest, which the parser bounds.
    fn tree(&mut self, op: OpId) -> Check {
        self.op(op)?;
        let module = self.module;
        let manual = module.op(op).kind() == OpKind::Sdy(SdyOp::ManualComputation);
        if manual {
            self.manual.push(op);
        }
        for &region in module.op(op).regions() {
            for &block in module.region(region).blocks() {
                for inner in module.ops_in(block) {
                    if module.op(inner).kind().has(Trait::Symbol) {
                        return Err(self.error(inner, "defines a symbol, so it must stand directly in a module"));
                    }
                    self.tree(inner)?;
                }
            }
        }
        if manual {
            self.manual.pop();
        }
        Ok(())
    }

    /// One operation, without what is in it.
    fn op(&self, op: OpId) -> Check {
        bodies::check(self, op)?;
        self.types(op)?;
        match self.module.op(op).kind() {
            OpKind::Control(ControlOp::Func) => func::func(self, op)?,
            OpKind::Control(ControlOp::Module) => func::visibility(self, op)?,
            OpKind::Control(ControlOp::FuncReturn) => func::func_return(self, op)?,
            OpKind::Control(ControlOp::Call) => func::call(self, op)?,
            OpKind::Control(ControlOp::Composite) => call::composite(self, op)?,
            OpKind::Control(ControlOp::CustomCall) => call::custom_call(self, op)?,
            OpKind::Control(ControlOp::AsyncStart) => call::async_start(self, op)?,
            OpKind::Control(ControlOp::AsyncDone) => call::async_done(self, op)?,
            OpKind::Check(CheckOp::RunParallel) => call::run_parallel(self, op)?,
            kind if kind.is_collective() => call::group_mesh(self, op)?,
            _ => {}
        }
        sdy::check(self, op)
    }

    /// Operands, attributes and declared results against the type rule.
    fn types(&self, op: OpId) -> Check {
        let data = self.module.op(op);
        let fail = |e: InferError| Err(Diagnostic::at(data, e.to_string()));
        let types = match infer_results(self.module, op) {
            Ok(types) => types,
            Err(e) => return fail(*e),
        };
        let name = data.kind().name();
        if types.len() != data.results().len() {
            return fail(InferError::ResultCount { op: name, expected: types.len(), got: data.results().len() });
        }
        for (index, (ty, &result)) in types.iter().zip(data.results()).enumerate() {
            if matches!(ty, ResultType::Known(id) if *id == self.module.type_id(result)) {
                continue;
            }
            let (ty, got) = (ty.ty(self.module), self.module.ty(result));
            if !types_agree(ty, got) {
                let expected = smol_str::format_smolstr!("{ty}");
                return fail(InferError::ResultType { op: name, index, expected, got: got.clone() });
            }
        }
        Ok(())
    }
}
