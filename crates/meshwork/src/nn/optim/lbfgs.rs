//! L-BFGS: minimization of a smooth function by gradients and what their changes tell about its curvature.
//!
//! The direction comes from the last few steps by the two-loop recursion (Nocedal, 1980). The step along it fulfils the weak Wolfe
//! conditions, found by doubling and bisection (Lewis and Overton, 2013), so that every step has positive curvature. All of it is
//! one loop of the program.

use crate::ElementType::{self, F32, F64, I32};
use crate::control::{cond, while_loop};
use crate::error::fail;
use crate::ops::{full, select, zeros};
use crate::transform::{differentiable, value_and_grad};
use crate::tree::{Tree, leaves};
use crate::{Tensor, concatenate};

/// How long and how closely [`lbfgs`] looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lbfgs {
    /// How many steps it remembers.
    pub memory: usize,
    /// The most steps.
    pub steps: i64,
    /// It ends where no element of the gradient is larger.
    pub tolerance: f64,
}

impl Default for Lbfgs {
    fn default() -> Lbfgs {
        Lbfgs { memory: 10, steps: 100, tolerance: 1e-5 }
    }
}

/// Where [`lbfgs`] has ended.
#[derive(Clone, Debug, crate::Tree)]
pub struct Minimum<A, T = Tensor> {
    /// The place.
    pub at: A,
    /// The function there.
    pub value: T,
    /// The largest element of the gradient there.
    pub slope: T,
    /// How many steps it took, `i32`.
    pub steps: T,
}

/// A share of the fall that the slope promises, which a step must reach.
const FALL: f64 = 1e-4;
/// A share of the slope, below which it must be after a step.
const FLATTER: f64 = 0.9;
/// The most tries for the length of a step.
const TRIES: i64 = 30;

/// The minimum of `f`, a scalar, near `start`, a tensor or a tree of them. Integers of the tree stay as they are.
///
/// ```
/// use meshwork::optim::{Lbfgs, lbfgs};
/// use meshwork::prelude::*;
///
/// // Rosenbrock's valley: its floor is curved, and its lowest point is (1, 1).
/// let valley = |x: Tensor| {
///     let (a, b) = (x.slice(s![0]), x.slice(s![1]));
///     (1.0 - &a).square() + 100.0 * (b - a.square()).square()
/// };
/// let found = jit(move |x: Tensor| lbfgs(valley, x, &Lbfgs::default())).call(&Array::from([-1.2f32, 1.0]))?;
/// assert!(found.at.all_close(&Array::from([1.0f32, 1.0]), 1e-3));
/// assert!(found.steps.item::<i32>()? < 60);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn lbfgs<A: Tree>(f: impl Fn(A) -> Tensor, start: A, options: &Lbfgs) -> Minimum<A> {
    let all = leaves(&start);
    let free: Vec<Tensor> = all.iter().filter(|t| differentiable(t)).cloned().collect();
    if let Some(wrong) = free.iter().find(|t| !matches!(t.dtype(), F32 | F64)) {
        fail("lbfgs", format!("{} among the parameters; f32 and f64 are possible", wrong.describe()));
    }
    if free.is_empty() || options.memory == 0 {
        fail("lbfgs", format!("{} parameters of floats and a memory of {} steps", free.len(), options.memory));
    }
    let elem = if free.iter().any(|t| t.dtype() == F64) { F64 } else { F32 };
    let whole = |free: &[Tensor]| {
        let mut next = free.iter();
        start.map(&mut |t| match differentiable(t) {
            true => next.next().unwrap_or(t).clone(),
            false => t.clone(),
        })
    };
    // The function and its slope, of the floats alone.
    let slope = |at: &Vec<Tensor>| {
        let (value, slope) = value_and_grad(|free: Vec<Tensor>| f(whole(&free)).to(elem), at.clone());
        (value, slope)
    };
    let (value, gradient) = slope(&free);
    let memory = Memory::empty(&free, options.memory, elem);
    let begin = (free, value, gradient, memory, zeros((), I32), full((), ElementType::I1, false));
    let (at, value, gradient, _, steps, _) = while_loop(
        begin,
        |(_, _, gradient, _, steps, stuck)| {
            largest(gradient, elem).gt(options.tolerance) & steps.lt(options.steps) & !stuck
        },
        |(at, value, gradient, memory, steps, _)| {
            let direction = memory.direction(&gradient);
            let step = search(&slope, &at, &value, &gradient, &direction, elem);
            let [s, y] = [moved(&step.at, &at), moved(&step.slope, &gradient)];
            // A step that found nothing lower ends the search.
            let stuck = step.value.ge(&value);
            let memory = memory.with(&s, &y);
            (step.at, step.value, step.slope, memory, steps + 1, stuck)
        },
    );
    Minimum { at: whole(&at), value, slope: largest(&gradient, elem), steps }
}

/// The sum of products of all elements.
fn dot(a: &[Tensor], b: &[Tensor], elem: ElementType) -> Tensor {
    let sums = a.iter().zip(b).map(|(a, b)| (a * b).sum_all().to(elem));
    sums.reduce(|a, b| a + b).unwrap_or_else(|| zeros((), elem))
}

fn largest(gradient: &[Tensor], elem: ElementType) -> Tensor {
    let each = gradient.iter().map(|g| g.abs().max_all().to(elem));
    each.reduce(|a, b| a.maximum(&b)).unwrap_or_else(|| zeros((), elem))
}

/// `a + scale * b`.
fn along(a: &[Tensor], scale: &Tensor, b: &[Tensor]) -> Vec<Tensor> {
    a.iter().zip(b).map(|(a, b)| a + b * scale.to(b.dtype())).collect()
}

/// `a - b`.
fn moved(a: &[Tensor], b: &[Tensor]) -> Vec<Tensor> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// The last steps and changes of the gradient, oldest first along a first dimension, and one over their products: 0 for those that
/// are not there yet.
#[derive(Clone, Debug, crate::Tree)]
struct Memory<T = Tensor> {
    steps: Vec<T>,
    changes: Vec<T>,
    inverse: T,
}

impl Memory {
    fn empty(like: &[Tensor], count: usize, elem: ElementType) -> Memory {
        let room = || {
            let stack = |t: &Tensor| zeros([&[count as i64], t.shape()].concat(), t.dtype());
            like.iter().map(stack).collect::<Vec<_>>()
        };
        Memory { steps: room(), changes: room(), inverse: zeros([count as i64], elem) }
    }

    fn with(&self, step: &[Tensor], change: &[Tensor]) -> Memory {
        let elem = self.inverse.dtype();
        let product = dot(step, change, elem);
        let useful = product.gt(0.0);
        let inverse = select(&useful, 1.0 / select(&useful, &product, 1.0), 0.0);
        let pushed = |stack: &Tensor, new: &Tensor| concatenate(&[stack.slice(crate::s![1..]), new.expand_dims(0)], 0);
        let all = |stacks: &[Tensor], new: &[Tensor]| {
            stacks.iter().zip(new).map(|(stack, new)| pushed(stack, new)).collect::<Vec<_>>()
        };
        Memory {
            steps: all(&self.steps, step),
            changes: all(&self.changes, change),
            inverse: pushed(&self.inverse, &inverse),
        }
    }

    /// Downhill, by the curvature that the steps have met.
    fn direction(&self, gradient: &[Tensor]) -> Vec<Tensor> {
        let (elem, count) = (self.inverse.dtype(), self.inverse.dim(0));
        let of = |stacks: &[Tensor], i: i64| stacks.iter().map(|s| s.slice(crate::s![i])).collect::<Vec<_>>();
        let mut q: Vec<Tensor> = gradient.to_vec();
        let mut shares = vec![];
        for i in (0..count).rev() {
            let share = dot(&of(&self.steps, i), &q, elem) * self.inverse.slice(crate::s![i]);
            q = along(&q, &-&share, &of(&self.changes, i));
            shares.push(share);
        }
        // The scale of the last step; before the first one, a step no longer than 1.
        let last = of(&self.changes, count - 1);
        let known = self.inverse.slice(crate::s![count - 1]);
        let square = dot(&last, &last, elem);
        let is_known = known.gt(0.0) & square.gt(0.0);
        let length = dot(gradient, gradient, elem).sqrt().maximum(1.0);
        let scale = select(&is_known, 1.0 / select(&is_known, known * square, 1.0), 1.0 / length);
        let mut q: Vec<Tensor> = q.iter().map(|q| q * scale.to(q.dtype())).collect();
        for (i, share) in (0..count).zip(shares.iter().rev()) {
            let back = dot(&of(&self.changes, i), &q, elem) * self.inverse.slice(crate::s![i]);
            q = along(&q, &(share - back), &of(&self.steps, i));
        }
        q.iter().map(|q| -q).collect()
    }
}

/// A place along a direction.
struct Found {
    at: Vec<Tensor>,
    value: Tensor,
    slope: Vec<Tensor>,
}

/// A step along `direction` that goes down enough and far enough.
fn search(
    slope: &impl Fn(&Vec<Tensor>) -> (Tensor, Vec<Tensor>),
    at: &[Tensor],
    value: &Tensor,
    gradient: &[Tensor],
    direction: &[Tensor],
    elem: ElementType,
) -> Found {
    let fall = dot(gradient, direction, elem);
    let one = full((), elem, 1.0);
    let begin = (
        (one.clone(), zeros((), elem), full((), elem, f64::INFINITY)),
        (at.to_vec(), value.clone(), gradient.to_vec()),
        (zeros((), I32), full((), ElementType::I1, false)),
    );
    let (_, (at, value, slope), _) = while_loop(
        begin,
        |(_, _, (tries, done))| tries.lt(TRIES) & !done,
        |((length, low, high), _, (tries, _))| {
            let next = along(at, &length, direction);
            let (found, found_slope) = slope(&next);
            let too_high = !found.le(value + &length * &fall * FALL);
            let too_steep = dot(&found_slope, direction, elem).lt(&fall * FLATTER);
            let high = select(&too_high, &length, high);
            let low = select(&too_high, &low, select(&too_steep, &length, &low));
            let longer = cond(high.is_finite(), || (&low + &high) * 0.5, || &low * 2.0);
            let done = !(&too_high | &too_steep);
            let length = select(&done, &length, longer);
            ((length, low, high), (next, found, found_slope), (tries + 1, done))
        },
    );
    Found { at, value, slope }
}
