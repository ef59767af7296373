//! Operations by the names of axes.

use std::cell::RefCell;

use super::tensor::sizes;
use super::{Axis, NamedTensor};
use crate::Tensor;
use crate::error::fail;
use crate::ops::einsum;
use crate::transform::vmap;

/// Multiplies tensors and sums over the named axes. The result has all other axes, each once, in the order in which
/// they come.
///
/// ```
/// use meshwork::named::{Axis, NamedTensor, dot};
/// use meshwork::prelude::*;
///
/// let (row, inner, column) = (Axis::new("row", 2), Axis::new("inner", 3), Axis::new("column", 4));
/// let f = jit(move |(a, b): (NamedTensor, NamedTensor)| dot(&[&a, &b], &["inner"]));
/// let a = NamedTensor::host(Array::full([2, 3], 1.0f32), [&row, &inner])?;
/// let b = NamedTensor::host(Array::full([4, 3], 2.0f32), [&column, &inner])?;
/// let c = f.call(&(a, b))?;
/// assert_eq!(format!("{:?}", c.axes()), "[row=2, column=4]");
/// assert_eq!(c.array().to_vec::<f32>()?, [6.0; 8]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn dot(factors: &[&NamedTensor], contract: &[&str]) -> NamedTensor {
    let all = union("dot", factors);
    if let Some(name) = contract.iter().find(|name| !all.iter().any(|a| a.name() == **name)) {
        fail("dot", format!("there is no axis {name:?} among {all:?}"));
    }
    let letter = |axis: &Axis| {
        // There are as many letters as a tensor may sensibly have axes.
        let at = all.iter().position(|a| a.name() == axis.name()).unwrap_or(0);
        char::from_u32('a' as u32 + at as u32).filter(char::is_ascii_lowercase).unwrap_or('z')
    };
    if all.len() > 26 {
        fail("dot", format!("{} different axes are more than 26", all.len()));
    }
    let kept: Vec<Axis> = all.iter().filter(|a| !contract.contains(&a.name())).cloned().collect();
    let word = |axes: &[Axis]| axes.iter().map(letter).collect::<String>();
    let inputs: Vec<String> = factors.iter().map(|f| word(f.axes())).collect();
    let formula = format!("{}->{}", inputs.join(","), word(&kept));
    let tensors: Vec<&Tensor> = factors.iter().map(|f| f.array()).collect();
    NamedTensor::new(einsum(&formula, &tensors), kept)
}

/// All axes of some tensors, each once; a name must have one size.
#[track_caller]
pub(super) fn union(op: &str, tensors: &[&NamedTensor]) -> Vec<Axis> {
    let mut all: Vec<Axis> = vec![];
    for axis in tensors.iter().flat_map(|t| t.axes()) {
        match all.iter().find(|a| a.name() == axis.name()) {
            None => all.push(axis.clone()),
            Some(known) if known == axis => {}
            Some(known) => {
                fail(op, format!("the axis {:?} has sizes {} and {}", axis.name(), known.size(), axis.size()))
            }
        }
    }
    all
}

/// `f`, written for one element of `axis`, on all of them. The results have `axis` first.
#[track_caller]
pub fn vmap_axis(axis: &str, f: impl FnOnce(NamedTensor) -> NamedTensor, x: &NamedTensor) -> NamedTensor {
    let dim = x.position("vmap_axis", axis);
    let over = x.axes()[dim].clone();
    let rest: Vec<Axis> = x.axes().iter().filter(|a| a.name() != axis).cloned().collect();
    let order: Vec<&str> = std::iter::once(axis).chain(rest.iter().map(Axis::name)).collect();
    let front = x.rearrange(&order);
    let out = RefCell::new(vec![]);
    let one = |t: Tensor| {
        let y = f(NamedTensor::new(t, &rest));
        out.replace(y.axes().to_vec());
        y.array().clone()
    };
    let tensor = vmap(one, front.array().clone());
    let axes: Vec<Axis> = std::iter::once(over).chain(out.into_inner()).collect();
    NamedTensor::new(tensor, axes)
}

impl NamedTensor {
    /// Applies a function that keeps the shape, such as `|t| t.relu()`.
    #[track_caller]
    pub fn apply(&self, f: impl FnOnce(&Tensor) -> Tensor) -> NamedTensor {
        NamedTensor::new(f(self.array()), self.axes())
    }

    /// With its axes in another order, each named once.
    #[track_caller]
    pub fn rearrange(&self, names: &[&str]) -> NamedTensor {
        if names.len() != self.axes().len() {
            fail("rearrange", format!("{names:?} does not name each of {:?} once", self.axes()));
        }
        let order: Vec<i64> = names.iter().map(|n| self.position("rearrange", n) as i64).collect();
        let axes: Vec<Axis> = order.iter().map(|&d| self.axes()[d as usize].clone()).collect();
        NamedTensor::new(self.array().permute(&order), axes)
    }

    /// With one axis under another name.
    #[track_caller]
    pub fn rename(&self, from: &str, to: &str) -> NamedTensor {
        let dim = self.position("rename", from);
        let mut axes = self.axes().to_vec();
        axes[dim] = axes[dim].alias(to);
        NamedTensor::new(self.array().clone(), axes)
    }

    /// With all of `axes`, in that order: those it lacks are repeated.
    #[track_caller]
    pub fn broadcast_to(&self, axes: &[Axis]) -> NamedTensor {
        if let Some(missing) = self.axes().iter().find(|a| !axes.contains(a)) {
            fail("broadcast_to", format!("the axis {missing:?} is not among {axes:?}"));
        }
        let names: Vec<&str> = axes.iter().filter(|a| self.axes().contains(a)).map(Axis::name).collect();
        let ordered = self.rearrange(&names);
        let shape: Vec<i64> = axes.iter().map(|a| if self.axes().contains(a) { a.size() } else { 1 }).collect();
        NamedTensor::new(ordered.array().reshape(shape).broadcast_to(sizes(axes)), axes)
    }

    #[track_caller]
    pub(super) fn without(
        &self,
        op: &str,
        names: &[&str],
        reduce: impl FnOnce(&Tensor, &[i64]) -> Tensor,
    ) -> NamedTensor {
        let dims: Vec<i64> = names.iter().map(|n| self.position(op, n) as i64).collect();
        let kept: Vec<Axis> = self.axes().iter().filter(|a| !names.contains(&a.name())).cloned().collect();
        NamedTensor::new(reduce(self.array(), &dims), kept)
    }

    /// The sum over these axes.
    #[track_caller]
    pub fn sum(&self, names: &[&str]) -> NamedTensor {
        self.without("sum", names, Tensor::sum)
    }

    /// The mean over these axes.
    #[track_caller]
    pub fn mean(&self, names: &[&str]) -> NamedTensor {
        self.without("mean", names, Tensor::mean)
    }

    /// The mean of all elements, a scalar tensor.
    #[track_caller]
    pub fn mean_all(&self) -> Tensor {
        self.array().mean_all()
    }

    /// The softmax along an axis.
    #[track_caller]
    pub fn softmax(&self, name: &str) -> NamedTensor {
        let dim = self.position("softmax", name) as i64;
        self.apply(|t| t.softmax(dim))
    }

    /// The logarithm of the softmax along an axis.
    #[track_caller]
    pub fn log_softmax(&self, name: &str) -> NamedTensor {
        let dim = self.position("log_softmax", name) as i64;
        self.apply(|t| t.log_softmax(dim))
    }

    /// Mean 0 and variance 1 along an axis.
    #[track_caller]
    pub fn normalize(&self, name: &str, epsilon: f64) -> NamedTensor {
        let centred = self - &self.mean(&[name]);
        let scale = self.var(&[name]).apply(|v| (v + epsilon).rsqrt());
        &centred * &scale
    }

    /// The elements along the axis `name` at the positions `indices`, whose axes take its place.
    #[track_caller]
    pub fn take(&self, name: &str, indices: &NamedTensor) -> NamedTensor {
        let dim = self.position("take", name);
        let mut axes = self.axes()[..dim].to_vec();
        axes.extend(indices.axes().iter().cloned());
        axes.extend(self.axes()[dim + 1..].iter().cloned());
        let flat = self.array().take(&indices.array().flatten(), dim as i64);
        NamedTensor::new(flat.reshape(sizes(&axes)), axes)
    }

    /// The axis `name` as several, whose sizes multiply to its.
    #[track_caller]
    pub fn unflatten(&self, name: &str, parts: &[Axis]) -> NamedTensor {
        let dim = self.position("unflatten", name);
        let mut axes = self.axes()[..dim].to_vec();
        axes.extend(parts.iter().cloned());
        axes.extend(self.axes()[dim + 1..].iter().cloned());
        NamedTensor::new(self.array().reshape(sizes(&axes)), axes)
    }
}
