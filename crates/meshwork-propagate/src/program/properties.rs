//! Properties of ops that placements depend on.

use meshwork_ir::op::{MovementOp, SdyOp};
use meshwork_ir::{Module, OpId, OpKind};

/// Whether `op` is elementwise, or treated as such: identities that only affect placements, and bit casts between
/// elements of one width.
pub fn is_elementwise(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    match data.kind() {
        OpKind::Sdy(SdyOp::PropagationBarrier | SdyOp::ShardingConstraint | SdyOp::Reshard) => true,
        OpKind::Movement(MovementOp::BitcastConvert) => {
            let dims = |values: &[_]| values.first().map(|&v| module.ty(v).dims());
            dims(data.operands()) == dims(data.results())
        }
        kind => kind.is_elementwise(),
    }
}
