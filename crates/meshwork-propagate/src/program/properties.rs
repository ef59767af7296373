//! What operations are, as far as placements are concerned.

use meshwork_ir::op::{MovementOp, SdyOp};
use meshwork_ir::{Module, OpId, OpKind};

/// Whether `op` works element by element, or is treated so: identities that only concern placements, and bit
/// casts between elements of one width.
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
