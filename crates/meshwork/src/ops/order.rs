//! Places in sorted sequences, and sets of elements with sizes that are known while tracing.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! let f = jit(|x: Tensor| (x.unique(3, 0), x.gt(2).argwhere(2, -1), x.searchsorted(&arange(3, I32))));
//! let (unique, places, before) = f.call(&Array::from([1i32, 1, 5, 9]))?;
//! assert_eq!(unique.to_vec::<i32>()?, [1, 5, 9]);
//! assert_eq!(places.to_vec::<i32>()?, [2, 3]);
//! assert_eq!(before.to_vec::<i32>()?, [0, 0, 2]);
//! # Ok::<(), meshwork::Error>(())
//! ```

use meshwork_ir::build::{Direction, Stability};

use super::create::{arange, full, iota, zeros};
use super::diagonal::unravel_index;
use super::elementwise::select;
use super::movement::{concatenate, stack};
use crate::ElementType::{I1, I32};
use crate::Tensor;
use crate::element::{Fill, Number};
use crate::error::fail;
use crate::trace::compose::emit_all;

impl Tensor {
    /// For each element of `values`, how many elements of this ascending vector are less: the first place where it
    /// can be inserted; `i32`.
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor) -> Tensor {
        self.count_before("searchsorted", values, |sorted, v| sorted.lt(v) | (v.is_nan() & !sorted.is_nan()))
    }

    /// For each element of `values`, how many elements of this ascending vector are less or equal: the last place
    /// where it can be inserted; `i32`.
    #[track_caller]
    pub fn searchsorted_right(&self, values: &Tensor) -> Tensor {
        self.count_before("searchsorted_right", values, |sorted, v| sorted.le(v) | v.is_nan())
    }

    /// Halves the vector until one place is left, for all values at once.
    #[track_caller]
    fn count_before(&self, op: &str, values: &Tensor, before: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
        if self.rank() != 1 {
            fail(op, format!("in {}; it is a vector", self.describe()));
        }
        let n = self.size();
        let (mut low, mut high) = (zeros(values.shape(), I32), full(values.shape(), I32, n));
        let steps = 64 - n.leading_zeros();
        for _ in 0..steps {
            let open = low.lt(&high);
            let middle = (&low + &high) >> 1;
            let right = before(&self.take(&middle.minimum(n - 1), 0), values) & &open;
            high = select(&open & !&right, &middle, &high);
            low = select(right, &middle + 1, &low);
        }
        low
    }

    /// The positions, `i32`, of the first `size` elements of a vector that are not zero, or of the flattened tensor;
    /// `fill` where there are fewer.
    #[track_caller]
    pub fn flatnonzero(&self, size: i64, fill: i64) -> Tensor {
        let holds = self.flatten().to(I1);
        let n = holds.size();
        let place = holds.to(I32).cumsum(0) - 1;
        let place = select(holds, place, size);
        full([size], I32, fill).scatter_set(&place, &arange(n, I32), 0)
    }

    /// The positions along each dimension, `i32`, of the first `size` elements that are not zero: `where` with one
    /// argument. `fill` where there are fewer.
    #[track_caller]
    pub fn nonzero(&self, size: i64, fill: i64) -> Vec<Tensor> {
        let flat = self.flatnonzero(size, self.size());
        let present = flat.lt(self.size());
        let mut out = vec![];
        for part in unravel_index(&flat, self.shape()) {
            out.push(select(&present, part, fill));
        }
        out
    }

    /// [`nonzero`](Tensor::nonzero) as rows of one matrix.
    #[track_caller]
    pub fn argwhere(&self, size: i64, fill: i64) -> Tensor {
        let parts = self.nonzero(size, fill);
        if parts.is_empty() { zeros([size, 0], I32) } else { stack(&parts, 1) }
    }

    /// The first `size` different elements, ascending; `fill` where there are fewer.
    #[track_caller]
    pub fn unique(&self, size: i64, fill: impl Into<Number>) -> Tensor {
        self.unique_counts(size, fill).0
    }

    /// [`unique`](Tensor::unique), and how often each occurs, `i32`; 0 for what was filled in.
    #[track_caller]
    pub fn unique_counts(&self, size: i64, fill: impl Into<Number>) -> (Tensor, Tensor) {
        let sorted = self.flatten().sort(0);
        let fill = fill.into().fill("unique", &[size], self.dtype());
        if sorted.size() == 0 {
            return (fill, zeros([size], I32));
        }
        let place = first_of_equals(&sorted).to(I32).cumsum(0) - 1;
        // What is past the size falls off. Equals start where those before them end.
        let counts = zeros([size], I32).scatter_add(&place, &place.ones_like(), 0);
        let starts = (counts.cumsum(0) - &counts).minimum(sorted.size() - 1);
        (select(counts.gt(0), sorted.take(&starts, 0), fill), counts)
    }

    /// The first `size` elements, ascending, that are in both; `fill` where there are fewer.
    #[track_caller]
    pub fn intersect1d(&self, other: &Tensor, size: i64, fill: impl Into<Number>) -> Tensor {
        let sorted = self.flatten().sort(0);
        let chosen = first_of_equals(&sorted) & sorted.isin(other);
        let place = select(&chosen, chosen.to(I32).cumsum(0) - 1, size);
        fill.into().fill("intersect1d", &[size], self.dtype()).scatter_set(&place, &sorted, 0)
    }

    /// The first `size` elements, ascending, that are in one of both; `fill` where there are fewer.
    #[track_caller]
    pub fn union1d(&self, other: &Tensor, size: i64, fill: impl Into<Number>) -> Tensor {
        concatenate(&[self.flatten(), other.flatten()], 0).unique(size, fill)
    }

    /// Whether each element is among those of `set`.
    #[track_caller]
    pub fn isin(&self, set: &Tensor) -> Tensor {
        if set.size() == 0 {
            return self.ne(self) & self.eq(self);
        }
        let sorted = set.flatten().sort(0);
        let at = sorted.searchsorted(self).minimum(set.size() - 1);
        sorted.take(&at, 0).eq(self)
    }

    /// For each element, the number of the interval it is in; `ends` are the ends of the intervals in ascending order. The same as
    /// [`searchsorted_right`](Tensor::searchsorted_right), called on the elements.
    #[track_caller]
    pub fn digitize(&self, ends: &Tensor) -> Tensor {
        ends.searchsorted_right(self)
    }

    /// This tensor in ascending order along `axis`, and `values` moved in the same way.
    #[track_caller]
    pub fn sort_key_val(&self, values: &Tensor, axis: i64) -> (Tensor, Tensor) {
        if values.shape() != self.shape() {
            fail("sort_key_val", format!("keys {} and values {} differ in shape", self.describe(), values.describe()));
        }
        self.sorted_with("sort_key_val", values, axis, Direction::Lt)
    }

    /// Positions that sort the rows of `keys`, a list of vectors of which the last is the most significant; `i32`.
    #[track_caller]
    pub fn lexsort(keys: &[Tensor]) -> Tensor {
        let Some(first) = keys.first() else { fail("lexsort", "no keys given") };
        let at = iota(first.shape(), I32, 0);
        let mut inputs: Vec<&Tensor> = keys.iter().rev().collect();
        inputs.push(&at);
        let count = keys.len();
        let out = emit_all("lexsort", &inputs, |b, v| {
            b.sort(v, 0, Stability::Stable, |b, a| {
                let mut less = b.compare(Direction::Lt, a[2 * (count - 1)], a[2 * (count - 1) + 1])?;
                for i in (0..count - 1).rev() {
                    let (x, y) = (a[2 * i], a[2 * i + 1]);
                    let (lower, same) = (b.compare(Direction::Lt, x, y)?, b.compare(Direction::Eq, x, y)?);
                    let tie = b.and(same, less)?;
                    less = b.or(lower, tie)?;
                }
                Ok([less])
            })
        });
        out[count].clone()
    }
}

/// Which elements of an ascending vector differ from the one before.
#[track_caller]
fn first_of_equals(sorted: &Tensor) -> Tensor {
    let n = sorted.size();
    if n == 0 {
        return sorted.ne(sorted);
    }
    // One element of each shard moves to the next.
    let before = sorted.roll(1, 0);
    let same = before.eq(sorted) | (before.is_nan() & sorted.is_nan());
    !same | arange(n, I32).eq(0)
}
