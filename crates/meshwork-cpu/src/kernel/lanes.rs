//! The shape of vectors that both backends share, so that reductions give the same bits on either.
//!
//! A phase works on vectors of `lanes` elements, `interleave` of them at a time. A reduction keeps one accumulator
//! per lane of such a group: element `i` of the row goes to accumulator `i mod (lanes × interleave)`, except that the
//! rest of the row after the last whole group goes, vector by vector, to the first `lanes` accumulators. Sums and
//! products of floats are folded into second accumulators every [`BLOCK`] elements, which bounds how long the chain
//! of roundings gets. At the end of the row the upper half of the accumulators is combined into the lower half until
//! one is left.

use super::ir::{Combine, Op, Phase, Ty};

/// Elements after which accumulators of floats are folded.
pub const BLOCK: usize = 4096;

/// Bytes of a vector.
pub const VECTOR: usize = 32;

/// Elements of a vector: as many as fit of the widest type in the phase.
pub fn lanes(types: &[Option<Ty>]) -> usize {
    let widest = types.iter().flatten().map(|ty| ty.size()).max().unwrap_or(1);
    VECTOR / widest
}

/// Vectors in flight of a phase that reduces: where there are many operations, two, which wait for each other's results in turn, as
/// long as their accumulators leave registers for what is between.
pub fn interleave(phase: &Phase) -> usize {
    let (mut reduces, mut registers) = (0, 0);
    for op in &phase.ops {
        if let Op::Reduce(how, ..) = op {
            reduces += 1;
            // Extremes have one more, for NaN.
            registers += 2 + usize::from(matches!(how, Combine::Max | Combine::Min));
        }
    }
    let work = phase.ops.iter().filter(|op| !matches!(op, Op::Const(..) | Op::Scalar(..))).count();
    match (reduces, work) {
        (0..=1, 0..=24) => 4,
        (0..=2, 0..=40) => 2,
        _ if registers <= 6 => 2,
        _ => 1,
    }
}

/// Whether the accumulators of a reduction are folded in blocks.
pub fn folds(how: Combine, ty: Ty) -> bool {
    ty.is_float() && matches!(how, Combine::Add | Combine::Mul)
}
