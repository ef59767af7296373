//! Deviations, quantiles, covariances and counts.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! let f = jit(|x: Tensor| (x.std(&[0]), x.median(0), x.quantile(0.25, 0)));
//! let (std, median, quarter) = f.call(&Array::from([1.0f32, 3.0, 5.0, 7.0]))?;
//! assert!((std.item::<f32>()? - 5f32.sqrt()).abs() < 1e-6);
//! assert_eq!((median.item::<f32>()?, quarter.item::<f32>()?), (4.0, 2.5));
//! let counts = jit(|x: Tensor| x.bincount(4)).call(&Array::from([1i32, 1, 3]))?;
//! assert_eq!(counts.to_vec::<i32>()?, [0, 2, 0, 1]);
//! # Ok::<(), meshwork::Error>(())
//! ```

use super::create::{arange, linspace, zeros};
use super::elementwise::{Class, select};
use super::movement::concatenate;
use crate::ElementType::{self, I32};
use crate::Tensor;
use crate::error::fail;

impl Tensor {
    /// The root of the [variance](Tensor::var) over `axes`, which go away.
    #[track_caller]
    pub fn std(&self, axes: &[i64]) -> Tensor {
        self.var(axes).sqrt()
    }

    /// The variance over `axes`, estimated from a sample: divided by the number of elements less `ddof`.
    #[track_caller]
    pub fn var_of_sample(&self, axes: &[i64], ddof: i64) -> Tensor {
        let count: i64 = self.axes("var_of_sample", axes).iter().map(|&d| self.shape()[d]).product();
        self.var(axes) * (count as f64 / (count - ddof) as f64)
    }

    /// The mean along `axis` with these weights, which broadcast.
    #[track_caller]
    pub fn average(&self, weights: &Tensor, axis: i64) -> Tensor {
        let axis = self.axis("average", axis);
        let weights = if weights.rank() == 1 && self.rank() > 1 {
            let mut shape = vec![1; self.rank()];
            shape[axis] = weights.size();
            weights.reshape(shape)
        } else {
            weights.clone()
        };
        let weights = weights.broadcast_to(self.shape());
        (self * &weights).sum(&[axis as i64]) / weights.sum(&[axis as i64])
    }

    /// The middle element along `axis`, or the mean of the two.
    #[track_caller]
    pub fn median(&self, axis: i64) -> Tensor {
        self.quantile(0.5, axis)
    }

    /// The number below which the share `q` of the elements along `axis` lies, with linear interpolation between elements.
    /// NaN if there is one among them.
    #[track_caller]
    pub fn quantile(&self, q: f64, axis: i64) -> Tensor {
        Class::Real.check("quantile", self);
        let axis = self.axis("quantile", axis);
        let n = self.shape()[axis];
        if !(0.0..=1.0).contains(&q) || n == 0 {
            fail("quantile", format!("quantile {q} of {}", self.describe()));
        }
        let sorted = self.sort(axis as i64);
        let at = |i: i64| sorted.narrow("quantile", axis, i, i + 1).squeeze(axis as i64);
        let place = q * (n - 1) as f64;
        let (low, high) = (place.floor() as i64, place.ceil() as i64);
        let share = place - low as f64;
        let value = at(low) * (1.0 - share) + at(high) * share;
        // NaNs are last.
        let last = at(n - 1);
        select(last.is_nan(), last, value)
    }

    /// [`quantile`](Tensor::quantile) `q / 100`.
    #[track_caller]
    pub fn percentile(&self, q: f64, axis: i64) -> Tensor {
        self.quantile(q / 100.0, axis)
    }

    /// The distance of the largest from the smallest element over `axes`, which go away.
    #[track_caller]
    pub fn ptp(&self, axes: &[i64]) -> Tensor {
        self.max(axes) - self.min(axes)
    }

    /// The covariances of the rows of a matrix, each of which has the values of one variable.
    #[track_caller]
    pub fn cov(&self) -> Tensor {
        let x = self.atleast_2d();
        if x.rank() != 2 {
            fail("cov", format!("{} is not a matrix", self.describe()));
        }
        let n = x.dim(1);
        let centered = &x - x.keep_dims(&[1], |x, axes| x.mean(axes));
        let product = centered.matmul(centered.t()) / (n - 1).max(0) as f64;
        if self.rank() == 1 { product.reshape(()) } else { product }
    }

    /// The correlations of the rows of a matrix.
    #[track_caller]
    pub fn corrcoef(&self) -> Tensor {
        let c = self.cov();
        if c.rank() == 0 {
            return c.ones_like();
        }
        let deviation = c.diagonal(0).sqrt();
        (&c / deviation.expand_dims(1) / deviation.expand_dims(0)).clamp(-1.0, 1.0)
    }

    /// How many elements over `axes`, which go away, are not zero; `i32`.
    #[track_caller]
    pub fn count_nonzero(&self, axes: &[i64]) -> Tensor {
        self.to(ElementType::I1).to(I32).sum(axes)
    }

    /// How often each number below `length` is among the elements of a vector of integers, `i32`. Larger ones are not
    /// counted; negative ones count as 0.
    #[track_caller]
    pub fn bincount(&self, length: i64) -> Tensor {
        let ones = self.flatten().ones_like().to(I32);
        zeros([length], I32).scatter_add(&self.flatten().maximum(0), &ones, 0)
    }

    /// How many elements lie in each of `bins` equal parts of `from..=to`, in the element type, and the `bins + 1` ends.
    #[track_caller]
    pub fn histogram(&self, bins: i64, from: f64, to: f64) -> (Tensor, Tensor) {
        Class::Real.check("histogram", self);
        let edges = linspace(from, to, bins + 1, self.dtype());
        let x = self.flatten();
        let place = edges.searchsorted_right(&x) - 1;
        // The last part has both of its ends.
        let place = select(x.eq(to), bins - 1, place);
        let inside = x.ge(from) & x.le(to);
        let place = select(inside, place, bins);
        (zeros([bins], self.dtype()).scatter_add(&place, &x.ones_like(), 0), edges)
    }

    /// The differences of neighbors along `axis`, `n` times.
    #[track_caller]
    pub fn diff(&self, n: usize, axis: i64) -> Tensor {
        let at = self.axis("diff", axis);
        let mut x = self.clone();
        for _ in 0..n {
            let extent = x.shape()[at];
            if extent == 0 {
                fail("diff", format!("axis {at} of {} is empty", self.describe()));
            }
            let (high, low) = (x.narrow("diff", at, 1, extent), x.narrow("diff", at, 0, extent - 1));
            x = if x.dtype() == ElementType::I1 { high ^ low } else { high - low };
        }
        x
    }

    /// The integral along the last dimension of values at distances `dx`, by trapezoids.
    #[track_caller]
    pub fn trapezoid(&self, dx: f64) -> Tensor {
        let (at, n) = (self.rank().max(1) - 1, self.dim(-1));
        let (high, low) = (self.narrow("trapezoid", at, 1, n), self.narrow("trapezoid", at, 0, n - 1));
        (high + low).sum(&[-1]) * (0.5 * dx)
    }

    /// The slope along `axis` by central differences, one-sided at the ends: NumPy's `gradient`.
    #[track_caller]
    pub fn gradient(&self, dx: f64, axis: i64) -> Tensor {
        let at = self.axis("gradient", axis);
        let n = self.shape()[at];
        if n < 2 {
            fail("gradient", format!("axis {at} of {} has fewer than two elements", self.describe()));
        }
        let part = |from: i64, to: i64| self.narrow("gradient", at, from, to);
        let first = (part(1, 2) - part(0, 1)) / dx;
        let middle = (part(2, n) - part(0, n - 2)) / (2.0 * dx);
        let last = (part(n - 1, n) - part(n - 2, n - 1)) / dx;
        concatenate(&[first, middle, last], at as i64)
    }

    /// The polynomial with these coefficients, the highest power first, at each element of `x`.
    #[track_caller]
    pub fn polyval(&self, x: &Tensor) -> Tensor {
        if self.rank() != 1 {
            fail("polyval", format!("coefficients are {}; they are a vector", self.describe()));
        }
        let mut value = x.zeros_like();
        for c in self.unstack(0) {
            value = value * x + c;
        }
        value
    }

    /// The values at `x` of the line through the points `(xp, fp)`, where `xp` ascends; beyond its ends, those of the
    /// ends. Called on `x`.
    #[track_caller]
    pub fn interp(&self, xp: &Tensor, fp: &Tensor) -> Tensor {
        let n = xp.dim(0);
        if xp.rank() != 1 || fp.shape() != xp.shape() || n == 0 {
            fail("interp", format!("points {} and {}; they are vectors of one length", xp.describe(), fp.describe()));
        }
        if n == 1 {
            return fp.reshape(()).broadcast_to(self.shape());
        }
        let right = xp.searchsorted_right(self).clamp(1, n - 1);
        let left = &right - 1;
        let [x0, x1, f0, f1] = [xp.take(&left, 0), xp.take(&right, 0), fp.take(&left, 0), fp.take(&right, 0)];
        let width = &x1 - &x0;
        let flat = width.eq(0);
        let share = (self - &x0) / select(&flat, 1, &width);
        let value = select(flat, &f0, &f0 + share * (f1 - &f0));
        let (first, last) = (fp.narrow("interp", 0, 0, 1).reshape(()), fp.narrow("interp", 0, n - 1, n).reshape(()));
        let (low, high) = (xp.narrow("interp", 0, 0, 1).reshape(()), xp.narrow("interp", 0, n - 1, n).reshape(()));
        select(self.gt(high), last, select(self.lt(low), first, value))
    }

    /// The sums of products of a vector with another that is turned round, at each overlap: all of them.
    #[track_caller]
    pub fn convolve(&self, kernel: &Tensor) -> Tensor {
        self.correlate(&kernel.flip(&[0]))
    }

    /// The sums of products of a vector with another at each overlap: all of them.
    #[track_caller]
    pub fn correlate(&self, kernel: &Tensor) -> Tensor {
        if self.rank() != 1 || kernel.rank() != 1 || kernel.size() == 0 {
            fail("correlate", format!("{} with {}; both are vectors", self.describe(), kernel.describe()));
        }
        let k = kernel.size();
        let options = super::Conv { padding: super::Padding::Explicit(vec![(k - 1, k - 1)]), ..Default::default() };
        self.reshape([1, -1, 1]).conv(&kernel.reshape([k, 1, 1]), &options).flatten()
    }
}

/// `n` numbers from `start` to `end`, both included, each the same multiple of the one before.
#[track_caller]
pub fn geomspace(start: f64, end: f64, n: i64, dtype: ElementType) -> Tensor {
    if start * end <= 0.0 {
        fail("geomspace", format!("from {start} to {end}: both need the same sign"));
    }
    let exponents = linspace(start.abs().ln(), end.abs().ln(), n, dtype);
    exponents.exp() * start.signum()
}

/// `n` numbers from `base^start` to `base^end`, both included, each the same multiple of the one before.
#[track_caller]
pub fn logspace(start: f64, end: f64, n: i64, base: f64, dtype: ElementType) -> Tensor {
    (linspace(start, end, n, dtype) * base.ln()).exp()
}

/// `start, start + step, …`, up to before `end`.
#[track_caller]
pub fn arange_from(start: f64, end: f64, step: f64, dtype: ElementType) -> Tensor {
    let n = ((end - start) / step).ceil().max(0.0) as i64;
    if dtype.is_float() {
        return arange(n, dtype) * step + start;
    }
    let (start, step) = (start as i64, step as i64);
    arange(n, dtype) * step + start
}

/// The coefficients, highest power first, of the polynomial of degree `degree` nearest to the points, by least squares.
#[track_caller]
pub fn polyfit(x: &Tensor, y: &Tensor, degree: i64) -> Tensor {
    let matrix = super::diagonal::vander(x, degree + 1);
    // Columns of length 1 are better conditioned.
    let scale = matrix.square().sum(&[0]).sqrt();
    let matrix = matrix / &scale;
    let solution = crate::linalg::lstsq(&matrix, &y.to(x.dtype()).expand_dims(1));
    solution.squeeze(1) / scale
}
