//! Comparisons that only choose, and that the topmost bit of a lane decides: blends look at nothing else.
//!
//! ```text
//! x < 0 ? a : b               the bit is there
//! x & 16 != 0 ? a : b         one shift moves it there
//! ```

use crate::kernel::ir::{BinaryOp, Cmp, Op, Phase, Ty, Val};

/// The topmost bit of which value decides a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sign {
    /// The value that is compared. If it was masked, it is shifted instead.
    pub of: Val,
    /// Whether the comparison holds where the bit is not set.
    pub is_clear: bool,
}

/// What is different where comparisons are bits.
pub struct Signs {
    /// Per value, the bit that stands for it.
    pub bits: Vec<Option<Sign>>,
    /// Per value, which one it is, after so many places to the left, instead of a mask.
    pub shifts: Vec<Option<(Val, u8)>>,
}

/// The comparisons of a phase that are bits.
pub fn find(phase: &Phase, types: &[Option<Ty>]) -> Signs {
    let ops = &phase.ops;
    let mut shifts: Vec<Option<(Val, u8)>> = (0..ops.len()).map(|at| masked(ops, types, at)).collect();
    let mut bits: Vec<Option<Sign>> = (0..ops.len()).map(|at| compared(ops, types, &shifts, at)).collect();
    // All that use one must choose between values of the same size, and nothing else may use what was masked.
    for op in ops {
        let size = |v: Val| types[usize::from(v)].filter(|&ty| ty != Ty::Pred).map(Ty::size);
        let chosen = if let Op::Select(p, a, b) = *op { Some((p, a)).filter(|_| p != a && p != b) } else { None };
        for v in op.operands() {
            let fits = |sign: Sign| chosen.is_some_and(|(p, a)| v == p && size(a) == size(sign.of));
            bits[usize::from(v)] = bits[usize::from(v)].filter(|&sign| fits(sign));
        }
    }
    for (at, op) in ops.iter().enumerate() {
        op.operands().filter(|_| bits[at].is_none()).for_each(|v| shifts[usize::from(v)] = None);
    }
    for (at, bit) in bits.iter_mut().enumerate() {
        let is_lost = |sign: &Sign| {
            matches!(ops[at], Op::Compare(Cmp::Eq | Cmp::Ne, ..)) && shifts[usize::from(sign.of)].is_none()
        };
        *bit = bit.filter(|sign| !is_lost(sign));
    }
    // A mask of which some comparisons are no bits stays one; then none are.
    let kept: Vec<Val> = bits.iter().flatten().map(|sign| sign.of).collect();
    for (at, shift) in shifts.iter_mut().enumerate() {
        *shift = shift.filter(|_| kept.contains(&(at as Val)));
    }
    Signs { bits, shifts }
}

fn constant(ops: &[Op], v: Val) -> Option<u64> {
    if let Op::Const(_, bits) = ops[usize::from(v)] { Some(bits) } else { None }
}

/// If op `at` leaves one bit of a value: which value, and how far the bit is from the top.
fn masked(ops: &[Op], types: &[Option<Ty>], at: usize) -> Option<(Val, u8)> {
    let Op::Binary(BinaryOp::And, x, y) = ops[at] else { return None };
    let ty = types[at].filter(|ty| ty.is_integer() && ty.size() >= 4)?;
    let (of, bits) = constant(ops, y).map(|bits| (x, bits)).or_else(|| constant(ops, x).map(|bits| (y, bits)))?;
    let top = 8 * ty.size() as u32 - 1;
    (bits.is_power_of_two() && bits.trailing_zeros() <= top).then(|| (of, (top - bits.trailing_zeros()) as u8))
}

/// The bit that decides op `at`, if it is such a comparison.
fn compared(ops: &[Op], types: &[Option<Ty>], shifts: &[Option<(Val, u8)>], at: usize) -> Option<Sign> {
    let Op::Compare(f, a, b) = ops[at] else { return None };
    let ty = types[usize::from(a)].filter(|ty| ty.is_integer() && ty.size() >= 4)?;
    if constant(ops, b) != Some(0) {
        return None;
    }
    match (f, ops[usize::from(a)]) {
        // What was loaded may be overwritten before the choice.
        (Cmp::Lt, Op::Load(_) | Op::LoadTemp(..) | Op::Scalar(..) | Op::Bitcast(..)) => None,
        (Cmp::Lt, _) if ty.is_signed() && shifts[usize::from(a)].is_none() => Some(Sign { of: a, is_clear: false }),
        (Cmp::Eq | Cmp::Ne, _) if shifts[usize::from(a)].is_some() => Some(Sign { of: a, is_clear: f == Cmp::Eq }),
        _ => None,
    }
}
