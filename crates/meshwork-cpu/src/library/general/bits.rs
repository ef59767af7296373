//! `bitcast_convert` between types of different widths.

use std::sync::Arc;

use meshwork_ir::{ElementType, OpId};

use super::element::{of_bits, store};
use crate::compile::lower::Lower;
use crate::library::copy;
use crate::library::nest::{parts_of, piece};
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// Joins the bits of some elements, least significant first, and splits them into others.
#[derive(Debug)]
struct Bits {
    from: (Buf, ElementType),
    to: (Buf, ElementType),
    /// How many groups there are, of how many elements on each side.
    groups: usize,
    join: usize,
    split: usize,
    parts: usize,
}

impl Work for Bits {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.groups * (self.join + self.split) * 2) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let ((from, x), (to, y)) = (self.from, self.to);
        let low = |bits: u128, width: usize| bits << (128 - width) >> (128 - width);
        for group in piece(self.groups, self.parts, part, 1) {
            let mut bits = 0u128;
            for i in 0..self.join {
                let mut wide = [0u8; 16];
                let size = x.storage_bytes();
                // SAFETY: an element of the operand.
                unsafe {
                    let at = frame.ptr(from).add((group * self.join + i) * size);
                    std::ptr::copy_nonoverlapping(at, wide.as_mut_ptr(), size);
                }
                bits |= low(u128::from_le_bytes(wide), x.bits()) << (i * x.bits());
            }
            for i in 0..self.split {
                let own = low(bits >> (i * y.bits()), y.bits());
                let size = y.storage_bytes();
                // SAFETY: an element of the result.
                unsafe {
                    let at = frame.ptr(to).add((group * self.split + i) * size);
                    if y.is_integer() {
                        store(at, y, of_bits(own as u64, y));
                    } else {
                        std::ptr::copy_nonoverlapping(own.to_le_bytes().as_ptr(), at, size);
                    }
                }
            }
        }
        Ok(())
    }
}

/// `stablehlo.bitcast_convert`.
pub(in crate::library) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let (operand, result) = (data.operands()[0], data.results()[0]);
    let ((x, from_dims), (y, dims)) = (cx.shape(operand), cx.shape(result));
    let from = copy::dense(cx, op, operand)?;
    // Elements without unused bits lie in memory as the others do.
    let whole = |e: ElementType| e.bits() == 8 * e.storage_bytes();
    if whole(x) && whole(y) {
        cx.set_view(result, View::dense(from, y, &dims));
        return Ok(true);
    }
    let (join, split) = (y.bits().div_ceil(x.bits()), x.bits().div_ceil(y.bits()));
    let groups = from_dims.iter().product::<i64>() as usize / join;
    let to = cx.result(result);
    let parts = parts_of(groups, 1 << 13, groups.max(1));
    let work = Bits { from: (from, x), to: (to, y), groups, join, split, parts };
    cx.step(op, format!("bits of {x} as {y} {dims:?}"), Arc::new(work), vec![from], vec![to]);
    Ok(true)
}
