//! Random integers, choices, orders and categories.

use meshwork_ir::ElementClass;
use meshwork_ir::ElementType::{self, I32, I64, UI32, UI64};

use super::Key;
use crate::error::fail;
use crate::ops::create::{arange, full};
use crate::{Shape, Tensor};

impl Key {
    /// Integers from `low` to before `high`, all with the same probability.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let f = jit(|key: Key| (key.randint([100], 3, 7, I32), key.permutation(5), key.choice(10, [2])));
    /// let (dice, order, _) = f.call(&Array::from([0u32, 1]))?;
    /// assert!(dice.to_vec::<i32>()?.iter().all(|x| (3..7).contains(x)));
    /// assert_eq!(order.to_vec::<i32>()?.iter().sum::<i32>(), 10);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn randint(&self, shape: impl Shape, low: i64, high: i64, dtype: ElementType) -> Tensor {
        let shape = &shape.extents()[..];
        if !matches!(dtype.class(), ElementClass::Signed | ElementClass::Unsigned) || dtype.bits() < 8 || high <= low {
            fail("Key::randint", format!("from {low} to {high} in {dtype}; give an integer type and low < high"));
        }
        // Small types are drawn at 32 bits, which makes the numbers more even.
        let (bits, word) = if dtype.bits() == 64 { (64, UI64) } else { (32, UI32) };
        let Ok(span) = i64::try_from(i128::from(high) - i128::from(low)) else {
            fail("Key::randint", format!("the range from {low} to {high} has more than 2^63-1 numbers"));
        };
        let [higher, lower] = [0, 1].map(|i| self.split(2)[i].bits_as(shape, word));
        let mask = if bits == 64 { u64::MAX } else { (1u64 << bits) - 1 };
        if full_range(dtype).is_none_or(|(first, last)| i128::from(low) < first || i128::from(high) - 1 > last) {
            fail("Key::randint", format!("the range from {low} to {high} does not fit in {dtype}"));
        }
        let once = (1u64 << (bits / 2)) % span as u64;
        let factor = (once.wrapping_mul(once) & mask) % span as u64;
        let offset = match span as u64 > mask {
            // All numbers of the type: the bits as they are.
            true => lower,
            false => (higher.rem(span) * factor as i64 + lower.rem(span)).rem(span),
        };
        // The sum in the wide type wraps around where the numbers are those of a signed one.
        let wide = match (dtype.class(), bits) {
            (ElementClass::Unsigned, _) => word,
            (_, 32) => I32,
            _ => I64,
        };
        (offset.bitcast(wide) + full((), wide, low)).to(dtype)
    }

    /// The numbers below `n` in random order, `i32`.
    #[track_caller]
    pub fn permutation(&self, n: i64) -> Tensor {
        self.shuffle(arange(n, I32))
    }

    /// The slices of `x` along `axis` in random order.
    #[track_caller]
    pub fn permutation_of(&self, x: &Tensor, axis: i64) -> Tensor {
        match x.rank() {
            1 => self.shuffle(x.clone()),
            _ => x.take(&self.permutation(x.dim(axis)), axis),
        }
    }

    /// Sorts by random keys, as often as makes equal keys harmless.
    #[track_caller]
    fn shuffle(&self, x: Tensor) -> Tensor {
        let rounds = (3.0 * (x.size().max(1) as f64).ln() / f64::from(u32::MAX).ln()).ceil() as usize;
        let (mut x, mut key) = (x, self.clone());
        for _ in 0..rounds {
            let [next, now] = [0, 1].map(|i| key.split(2)[i].clone());
            x = now.bits(x.shape()).sort_key_val(&x, 0).1;
            key = next;
        }
        x
    }

    /// Numbers below `n`, each drawn from all: positions for [`take`](Tensor::take).
    #[track_caller]
    pub fn choice(&self, n: i64, shape: impl Shape) -> Tensor {
        self.randint(shape, 0, n, I32)
    }

    /// `count` different numbers below `n`.
    #[track_caller]
    pub fn choice_without_replacement(&self, n: i64, count: i64) -> Tensor {
        if count > n {
            fail("Key::choice_without_replacement", format!("{count} different numbers below {n}"));
        }
        self.permutation(n).narrow("choice", 0, 0, count)
    }

    /// Positions in the vector `p`, each drawn with the probability there.
    #[track_caller]
    pub fn choice_by(&self, p: &Tensor, shape: impl Shape) -> Tensor {
        let sums = p.cumsum(0);
        let all = sums.narrow("choice_by", 0, p.size() - 1, p.size()).reshape(());
        let at = all * (1.0 - self.uniform(shape, p.dtype()));
        sums.searchsorted(&at)
    }

    /// `count` different positions in the vector `p`, drawn by the probabilities there.
    #[track_caller]
    pub fn choice_by_without_replacement(&self, p: &Tensor, count: i64) -> Tensor {
        (self.gumbel(p.shape(), p.dtype()) + p.log()).top_k(count).1
    }

    /// A position along `axis`, which goes away, for each row of logarithms of probabilities, up to a constant; `i32`.
    #[track_caller]
    pub fn categorical(&self, logits: &Tensor, axis: i64) -> Tensor {
        (self.gumbel(logits.shape(), logits.dtype()) + logits).argmax(axis)
    }
}

/// The smallest and the largest number of an integer type.
fn full_range(dtype: ElementType) -> Option<(i128, i128)> {
    let bits = u32::try_from(dtype.bits()).ok()?;
    match dtype.class() {
        ElementClass::Signed => Some((-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)),
        ElementClass::Unsigned => Some((0, (1i128 << bits) - 1)),
        _ => None,
    }
}
