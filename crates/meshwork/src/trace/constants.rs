//! Numbers as constants: each is in a block once.

use std::cell::Cell;
use std::sync::Arc;

use meshwork_ir::op::SourceOp;
use meshwork_ir::{AttrDict, BlockId, ElementType, OpKind, TensorType, ValueId};

use super::Trace;
use crate::element::Number;

/// Numbers that programs have as constants, in slots by number and shape, the newer one of a slot first. They go on to the
/// next trace of the thread.
pub(super) struct Constants(Vec<[Option<Constant>; 2]>);

/// A value of a block all of whose elements are equal to a number.
#[derive(Clone)]
struct Constant {
    number: Number,
    ty: Arc<TensorType>,
    attrs: AttrDict,
    /// Where it is a value: in another trace it is none.
    trace: u64,
    block: BlockId,
    value: ValueId,
}

/// How many pairs are remembered. A power of two.
const SLOTS: usize = 32;

thread_local! {
    static SPARE: Cell<Option<Constants>> = const { Cell::new(None) };
}

impl Constants {
    pub(super) fn take() -> Constants {
        SPARE.take().unwrap_or_else(|| Constants(vec![[None, None]; SLOTS]))
    }

    pub(super) fn give_back(self) {
        SPARE.set(Some(self));
    }
}

impl Trace {
    /// The constant with all elements equal to `number`: the one that the block has already, or a new one.
    pub(crate) fn constant(&mut self, op: &str, number: Number, dims: &[i64], elem: ElementType) -> ValueId {
        let (slot, trace, block) = (slot_of(number, dims), self.id, self.block());
        let same = |c: &&Constant| c.number.same(number) && c.ty.elem == elem && same_dims(&c.ty.dims, dims);
        let mut made = None;
        for constant in self.constants.0[slot].iter().flatten().filter(same) {
            if constant.trace == trace && constant.block == block {
                return constant.value;
            }
            made = Some((constant.ty.clone(), constant.attrs.clone()));
        }
        let (ty, attrs) = made.unwrap_or_else(|| self.new_constant(op, number, dims, elem));
        let value = self.build(op, |b| b.apply(OpKind::Source(SourceOp::Constant), [], attrs.clone(), None));
        let [first, second] = &mut self.constants.0[slot];
        *second = first.replace(Constant { number, ty, attrs, trace, block, value });
        value
    }

    /// The type and the attributes of a constant.
    #[inline(never)]
    fn new_constant(
        &mut self,
        op: &str,
        number: Number,
        dims: &[i64],
        elem: ElementType,
    ) -> (Arc<TensorType>, AttrDict) {
        let literal = match number.literal(elem) {
            Ok(literal) => literal,
            Err(message) => self.fail(op, message),
        };
        let ty = self.module.tensor_type(dims, elem);
        let attrs = self.module.splat_attrs(&ty, literal.bytes());
        (ty, attrs)
    }
}

#[inline]
fn same_dims(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y)
}

fn slot_of(number: Number, dims: &[i64]) -> usize {
    let bits = match number {
        Number::Float(v) => v.to_bits(),
        Number::Int(v) => v as u64,
        Number::Bool(v) => u64::from(v),
    };
    let mixed = dims.iter().fold(bits, |h, &d| (h ^ d as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59) as usize
}
