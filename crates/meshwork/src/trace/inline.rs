//! Inlining: copies operations of another module to the end of the current trace.

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind, OpSpec, ValueId, ValueMap};

use crate::Tensor;
use crate::spec::MESH;
use crate::trace::{Trace, with_top};

/// The operations of the entry function of `module`, applied to `args`.
#[track_caller]
pub(crate) fn inline(op: &str, module: &Module, args: &[Tensor]) -> Vec<Tensor> {
    with_top(op, |trace| {
        let values: Vec<ValueId> = args.iter().map(|t| trace.resolve(op, t)).collect();
        let Some(from) = module.entry().and_then(|f| module.body_of(f, 0)) else { return vec![] };
        let mut map: ValueMap = module.block(from).args().iter().copied().zip(values).collect();
        let to = trace.block();
        trace.copy(op, module, &body_ops(module, from), to, &mut map);
        let returned: Vec<ValueId> = module.returned(from).iter().map(|v| map[v]).collect();
        returned.into_iter().map(|v| trace.tensor(op, v)).collect()
    })
}

/// The operations of a function's block, without the return.
pub(crate) fn body_ops(module: &Module, block: BlockId) -> Vec<OpId> {
    let mut ops = module.op_list(block);
    ops.retain(|&op| module.op(op).kind() != OpKind::Control(ControlOp::FuncReturn));
    ops
}

impl Trace {
    /// Adds an operation of one body, which is the entry function of `source`. `taken` are the arguments of that function
    /// which the body takes, in order.
    pub(crate) fn wrap(&mut self, op: &str, spec: OpSpec, source: &Module, taken: &[ValueId]) -> Vec<Tensor> {
        let Some(from) = source.entry().and_then(|f| source.body_of(f, 0)) else { return vec![] };
        let types = taken.iter().map(|v| source.ty(*v).clone());
        let (open, body) = self.build(op, |b| {
            let open = b.open(spec);
            let body = b.begin_body(&open, types);
            Ok((open, body))
        });
        let args = self.module.block(body).args().iter().copied();
        let mut map: ValueMap = taken.iter().copied().zip(args).collect();
        self.copy(op, source, &body_ops(source, from), body, &mut map);
        let values = self.build(op, |b| {
            b.end_body(&open, body, source.returned(from).iter().map(|v| map[v]));
            b.close(open)
        });
        values.into_iter().map(|v| self.tensor(op, v)).collect()
    }

    /// Copies operations of another module to the end of `to`. `map` has the values that replace their operands.
    pub(crate) fn copy(&mut self, op: &str, source: &Module, ops: &[OpId], to: BlockId, map: &mut ValueMap) {
        if let Some(Attr::Mesh(mesh)) = source.symbol(MESH).and_then(|mesh| source.op(mesh).attr("mesh")) {
            self.declare(mesh);
        }
        self.was_below = true;
        for &id in ops {
            if let Err(why) = self.module.import_op(source, id, to, map) {
                self.fail(op, why);
            }
        }
    }
}
