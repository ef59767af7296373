//! Slicing with ranges, steps, negative and computed positions: `x.slice(s![1..-1, .., 0])`.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

use crate::element::{Fill, Number};
use crate::error::fail;
use crate::trace::compose::{emit, emit_list};
use crate::{ElementType, Tensor};

/// What is taken of one dimension. Made by [`s!`](crate::s) from ranges, integers and scalar tensors.
#[derive(Clone, Debug)]
pub enum Index {
    /// The positions from `start` to before `end` in steps; negative positions count from the end, and a negative
    /// step walks backwards.
    Range {
        /// First position; by default the first one, or with a negative step the last.
        start: Option<i64>,
        /// Position to stop before; by default the end, or with a negative step the start.
        end: Option<i64>,
        /// Distance of positions.
        step: i64,
    },
    /// One position; the dimension goes away.
    At(i64),
    /// One position that the program computes; the dimension goes away. Positions past an end mean that end.
    Computed(Tensor),
    /// A new dimension of extent 1.
    NewAxis,
}

/// A new dimension of extent 1, in [`s!`](crate::s).
pub const NEW_AXIS: Index = Index::NewAxis;

macro_rules! from_ranges {
    ($($int:ty),*) => {
        $(
            impl From<$int> for Index {
                fn from(at: $int) -> Index {
                    Index::At(at as i64)
                }
            }

            impl From<Range<$int>> for Index {
                fn from(r: Range<$int>) -> Index {
                    Index::Range { start: Some(r.start as i64), end: Some(r.end as i64), step: 1 }
                }
            }

            impl From<RangeInclusive<$int>> for Index {
                fn from(r: RangeInclusive<$int>) -> Index {
                    // One past the last element is the end, not position 0.
                    let end = (*r.end() as i64 != -1).then_some(*r.end() as i64 + 1);
                    Index::Range { start: Some(*r.start() as i64), end, step: 1 }
                }
            }

            impl From<RangeFrom<$int>> for Index {
                fn from(r: RangeFrom<$int>) -> Index {
                    Index::Range { start: Some(r.start as i64), end: None, step: 1 }
                }
            }

            impl From<RangeTo<$int>> for Index {
                fn from(r: RangeTo<$int>) -> Index {
                    Index::Range { start: None, end: Some(r.end as i64), step: 1 }
                }
            }
        )*
    };
}

from_ranges!(i32, i64, isize, u32, u64, usize);

impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Index {
        Index::Range { start: None, end: None, step: 1 }
    }
}

impl From<Tensor> for Index {
    fn from(at: Tensor) -> Index {
        Index::Computed(at)
    }
}

impl From<&Tensor> for Index {
    fn from(at: &Tensor) -> Index {
        Index::Computed(at.clone())
    }
}

impl Index {
    /// The same range in steps; positions and new axes have none.
    pub fn step(self, by: i64) -> Index {
        match self {
            Index::Range { start, end, step } => Index::Range { start, end, step: step * by },
            other => other,
        }
    }
}

/// A list of [`Index`]es: ranges, `range; step`, integers (the dimension goes away), scalar tensors and
/// [`NEW_AXIS`](crate::NEW_AXIS). Dimensions that are not named are taken whole.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|x: Tensor| (x.slice(s![1..-1]), x.slice(s![..;2]), x.slice(s![-1]), x.slice(s![..;-1])));
/// let (inner, even, last, back) = f.call(&Array::from([0.0f32, 1.0, 2.0, 3.0]))?;
/// assert_eq!(inner.to_vec::<f32>()?, [1.0, 2.0]);
/// assert_eq!(even.to_vec::<f32>()?, [0.0, 2.0]);
/// assert_eq!(last.item::<f32>()?, 3.0);
/// assert_eq!(back.to_vec::<f32>()?, [3.0, 2.0, 1.0, 0.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[macro_export]
macro_rules! s {
    ($($range:expr $(; $step:expr)?),* $(,)?) => {
        {
            // A negative end counts from the end.
            #[allow(clippy::reversed_empty_ranges)]
            let indices: &[$crate::Index] = &[$($crate::Index::from($range)$(.step($step))?),*];
            indices.to_vec()
        }
    };
}

/// One dimension of a slice, resolved against its extent: `count` positions from `low` in steps of `step` > 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) low: i64,
    pub(crate) count: i64,
    pub(crate) step: i64,
    /// Walked from the last position to the first.
    pub(crate) backwards: bool,
}

impl Span {
    /// One past the last position.
    pub(crate) fn limit(&self) -> i64 {
        match self.count {
            0 => self.low,
            n => self.low + (n - 1) * self.step + 1,
        }
    }
}

/// What is done with each dimension of the operand, and where new axes go in the result.
#[derive(Debug)]
pub(crate) struct Selection {
    /// One per dimension of the operand. Computed positions have `low` 0 and `count` 1.
    pub(crate) spans: Vec<Span>,
    /// Computed positions by dimension.
    pub(crate) computed: Vec<(usize, Tensor)>,
    /// The shape of the result, dropped dimensions left out and new ones put in.
    pub(crate) shape: Vec<i64>,
}

/// Resolves `indices` against a shape.
#[track_caller]
pub(crate) fn resolve(op: &str, shape: &[i64], indices: &[Index]) -> Selection {
    let named = indices.iter().filter(|i| !matches!(i, Index::NewAxis)).count();
    if named > shape.len() {
        fail(op, format!("{named} indices for a tensor of rank {}, shape {shape:?}", shape.len()));
    }
    let mut out = Selection { spans: vec![], computed: vec![], shape: vec![] };
    for index in indices {
        let d = out.spans.len();
        match index {
            Index::NewAxis => out.shape.push(1),
            Index::At(at) => {
                let n = shape[d];
                let low = if *at < 0 { at + n } else { *at };
                if !(0..n).contains(&low) {
                    fail(op, format!("index {at} is out of range for axis {d} of extent {n}, shape {shape:?}"));
                }
                out.spans.push(Span { low, count: 1, step: 1, backwards: false });
            }
            Index::Computed(at) => {
                if at.rank() != 0 || !at.dtype().is_integer() {
                    fail(op, format!("axis {d}: {} is not an integer scalar; use take for several", at.describe()));
                }
                out.computed.push((d, at.clone()));
                out.spans.push(Span { low: 0, count: 1, step: 1, backwards: false });
            }
            Index::Range { start, end, step } => {
                let span = range(op, d, shape, *start, *end, *step);
                out.shape.push(span.count);
                out.spans.push(span);
            }
        }
    }
    for &n in &shape[out.spans.len()..] {
        out.shape.push(n);
        out.spans.push(Span { low: 0, count: n, step: 1, backwards: false });
    }
    out
}

#[track_caller]
fn range(op: &str, axis: usize, shape: &[i64], start: Option<i64>, end: Option<i64>, step: i64) -> Span {
    let n = shape[axis];
    if step == 0 {
        fail(op, format!("axis {axis}: a step of 0"));
    }
    // Positions outside the dimension mean its ends, as in Python.
    let clip = |at: i64, low: i64, high: i64| (if at < 0 { at + n } else { at }).clamp(low, high);
    if step > 0 {
        let low = start.map_or(0, |s| clip(s, 0, n));
        let end = end.map_or(n, |e| clip(e, 0, n));
        return Span { low, count: (end - low).max(0).div_ceil_by(step), step, backwards: false };
    }
    let high = start.map_or(n - 1, |s| clip(s, -1, n - 1));
    let end = end.map_or(-1, |e| clip(e, -1, n - 1));
    let count = (high - end).max(0).div_ceil_by(-step);
    let low = if count > 0 { high + (count - 1) * step } else { 0 };
    Span { low, count, step: -step, backwards: true }
}

trait DivCeil {
    fn div_ceil_by(self, by: i64) -> i64;
}

impl DivCeil for i64 {
    fn div_ceil_by(self, by: i64) -> i64 {
        (self + by - 1) / by
    }
}

impl Tensor {
    /// The part of the tensor that [`s!`](crate::s) describes.
    #[track_caller]
    pub fn slice(&self, indices: impl AsRef<[Index]>) -> Tensor {
        let chosen = resolve("slice", self.shape(), indices.as_ref());
        let mut x = self.clone();
        if !chosen.computed.is_empty() {
            x = x.at_computed("slice", &chosen);
        }
        let spans = &chosen.spans;
        let fixed = |d: usize| chosen.computed.iter().any(|(c, _)| *c == d);
        let whole = |(d, s): (usize, &Span)| fixed(d) || (s.low == 0 && s.step == 1 && s.count == self.shape()[d]);
        if !spans.iter().enumerate().all(whole) {
            let start: Vec<i64> = spans.iter().map(|s| s.low).collect();
            let limit: Vec<i64> = spans.iter().map(Span::limit).collect();
            let step: Vec<i64> = spans.iter().map(|s| s.step).collect();
            x = emit("slice", &[&x], |b, v| b.slice(v[0], &start, &limit, &step));
        }
        let back: Vec<i64> = (0..spans.len() as i64).filter(|&d| spans[d as usize].backwards).collect();
        if !back.is_empty() {
            x = emit("slice", &[&x], |b, v| b.reverse(v[0], &back));
        }
        x.reshape(&chosen.shape)
    }

    /// The row at each computed position, as a dimension of extent 1.
    #[track_caller]
    fn at_computed(&self, op: &str, chosen: &Selection) -> Tensor {
        let starts = self.starts(op, chosen);
        let mut sizes = self.shape().to_vec();
        for (d, _) in &chosen.computed {
            sizes[*d] = 1;
        }
        self.dynamic_slice(&starts, &sizes)
    }

    /// One scalar start per dimension: the computed position, or the span's.
    #[track_caller]
    pub(crate) fn starts(&self, op: &str, chosen: &Selection) -> Vec<Tensor> {
        let dtype = chosen.computed.first().map_or(ElementType::I32, |(_, t)| t.dtype());
        let mut starts = vec![];
        for (d, span) in chosen.spans.iter().enumerate() {
            match chosen.computed.iter().find(|(c, _)| *c == d) {
                Some((_, at)) => starts.push(at.to(dtype)),
                None => starts.push(Number::Int(span.low).fill(op, &[], dtype)),
            }
        }
        starts
    }

    /// The block of extents `sizes` that starts at computed positions, one scalar per dimension. Starts are moved so
    /// that the block stays inside.
    #[track_caller]
    pub fn dynamic_slice(&self, starts: &[Tensor], sizes: &[i64]) -> Tensor {
        check_starts("dynamic_slice", self, starts);
        let inputs: Vec<&Tensor> = std::iter::once(self).chain(starts).collect();
        emit_list("dynamic_slice", &inputs, |b, v| b.dynamic_slice(v[0], &v[1..], sizes))
    }

    /// The tensor with `update` written at computed positions, one scalar per dimension.
    #[track_caller]
    pub fn dynamic_update_slice(&self, update: &Tensor, starts: &[Tensor]) -> Tensor {
        check_starts("dynamic_update_slice", self, starts);
        let inputs: Vec<&Tensor> = [self, update].into_iter().chain(starts).collect();
        emit_list("dynamic_update_slice", &inputs, |b, v| b.dynamic_update_slice(v[0], v[1], &v[2..]))
    }
}

#[track_caller]
fn check_starts(op: &str, x: &Tensor, starts: &[Tensor]) {
    if starts.len() != x.rank() {
        fail(op, format!("{} start positions for {}", starts.len(), x.describe()));
    }
    if let Some(start) = starts.iter().find(|s| s.rank() != 0) {
        fail(op, format!("a start position is {}, not a scalar", start.describe()));
    }
}
