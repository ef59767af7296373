//! A tensor with named axes: inside programs over `Tensor`, outside over `Array`.

use std::fmt;

use super::scope::{current_mapping, hold, on_host, on_map};
use super::{Axis, Mapping};
use crate::ElementType;
use crate::error::{Error, Result, fail};
use crate::ops::{self, Key};
use crate::trace::{Placing, placing};
use crate::tree::{Path, Tree, Visit};
use crate::{Array, Tensor};

/// A tensor whose dimensions have names: of a program, or with [`Array`] of the host.
#[derive(Clone)]
pub struct NamedTensor<T = Tensor> {
    axes: Vec<Axis>,
    array: T,
}

impl<T> NamedTensor<T> {
    /// The axes, outermost first.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Without names.
    pub fn array(&self) -> &T {
        &self.array
    }

    /// The axis of this name, if there is one.
    pub fn find_axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|a| a.name() == name)
    }
}

fn check(shape: &[i64], axes: &[Axis]) -> std::result::Result<(), String> {
    if !shape.iter().copied().eq(axes.iter().map(Axis::size)) {
        return Err(format!("the axes {axes:?} do not fit the shape {shape:?}"));
    }
    match axes.iter().enumerate().find(|(i, a)| axes[..*i].iter().any(|b| a.name() == b.name())) {
        Some((_, twice)) => Err(format!("the name {:?} stands twice in {axes:?}; rename one with alias", twice.name())),
        None => Ok(()),
    }
}

fn list(axes: impl IntoIterator<Item = impl AsRef<Axis>>) -> Vec<Axis> {
    axes.into_iter().map(|a| a.as_ref().clone()).collect()
}

impl NamedTensor<Array> {
    /// An array of the host with these axes.
    pub fn host(array: Array, axes: impl IntoIterator<Item = impl AsRef<Axis>>) -> Result<NamedTensor<Array>> {
        let axes = list(axes);
        check(array.shape(), &axes).map_err(|e| Error::Invalid { what: "named array", message: e })?;
        Ok(NamedTensor { axes, array })
    }
}

impl NamedTensor {
    /// A tensor with these axes.
    #[track_caller]
    pub fn new(tensor: Tensor, axes: impl IntoIterator<Item = impl AsRef<Axis>>) -> NamedTensor {
        let axes = list(axes);
        if let Err(e) = check(tensor.shape(), &axes) {
            fail("named", e);
        }
        NamedTensor { axes, array: tensor }
    }

    /// Zeros.
    #[track_caller]
    pub fn zeros(axes: impl IntoIterator<Item = impl AsRef<Axis>>, dtype: ElementType) -> NamedTensor {
        let axes = list(axes);
        NamedTensor::new(ops::zeros(sizes(&axes), dtype), axes)
    }

    /// Ones.
    #[track_caller]
    pub fn ones(axes: impl IntoIterator<Item = impl AsRef<Axis>>, dtype: ElementType) -> NamedTensor {
        let axes = list(axes);
        NamedTensor::new(ops::ones(sizes(&axes), dtype), axes)
    }

    /// Normally distributed random numbers, the same on every mesh.
    #[track_caller]
    pub fn normal(key: &Key, axes: impl IntoIterator<Item = impl AsRef<Axis>>, dtype: ElementType) -> NamedTensor {
        let axes = list(axes);
        NamedTensor::new(key.normal(sizes(&axes), dtype), axes)
    }

    /// The numbers from 0 along `axis`.
    #[track_caller]
    pub fn arange(axis: &Axis, dtype: ElementType) -> NamedTensor {
        NamedTensor::new(ops::arange(axis.size(), dtype), [axis])
    }

    /// The position of the axis `name`; its absence ends the trace.
    #[track_caller]
    pub(super) fn position(&self, op: &str, name: &str) -> usize {
        match self.axes.iter().position(|a| a.name() == name) {
            Some(dim) => dim,
            None => fail(op, format!("there is no axis {name:?} among {:?}", self.axes)),
        }
    }

    /// Placed by the names of its axes, as `mapping` says; [`shard`](super::shard()) does the same for trees and for arrays of
    /// the host. On one device this changes nothing, without a mesh it is an error, as are mesh axes that there are not.
    #[track_caller]
    pub fn shard(&self, mapping: &Mapping) -> NamedTensor {
        NamedTensor { axes: self.axes.clone(), array: hold(&self.array, &self.axes, mapping) }
    }

    /// Placed as the mapping in scope says; without one, this is an error.
    #[track_caller]
    pub fn sharded(&self) -> NamedTensor {
        match current_mapping() {
            Some(mapping) => self.shard(&mapping),
            None => fail("sharded", "there is no mapping in scope; use axis_mapping, or auto_sharded if that is fine"),
        }
    }

    /// Placed as the mapping in scope says, if there is one and a mesh: for code that may run without either.
    #[track_caller]
    pub fn auto_sharded(&self) -> NamedTensor {
        match (current_mapping(), placing("auto_sharded")) {
            (Some(mapping), Placing::On(_)) => self.shard(&mapping),
            _ => self.clone(),
        }
    }
}

pub(super) fn sizes(axes: &[Axis]) -> Vec<i64> {
    axes.iter().map(Axis::size).collect()
}

/// The axes of a tensor that replaces one with `axes`: the same, without the first (a slice of a scan), or
/// with a new first one (what a scan stacks up).
fn fitted(axes: &[Axis], shape: &[i64]) -> Vec<Axis> {
    let own = sizes(axes);
    match shape {
        _ if shape == own => axes.to_vec(),
        _ if !own.is_empty() && *shape == own[1..] => axes[1..].to_vec(),
        [first, rest @ ..] if rest == own => {
            std::iter::once(Axis::new("scanned", *first)).chain(axes.iter().cloned()).collect()
        }
        _ => fail("named", format!("a tensor of shape {shape:?} stands in the place of one with the axes {axes:?}")),
    }
}

impl crate::HostTree for NamedTensor<Array> {
    type Tree = NamedTensor;
}

impl Tree for NamedTensor {
    type Host = NamedTensor<Array>;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        self.array.tensors(path, visit);
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        let tensor = next(&self.array);
        let axes = fitted(&self.axes, tensor.shape());
        NamedTensor { array: on_map(tensor, &axes), axes }
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
        NamedTensor { axes: self.axes.clone(), array: on_host(next(&self.array), &self.axes) }
    }

    fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit) {
        visit.fact(&host.axes);
        Tensor::visit_host(&host.array, path, visit);
    }

    fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        NamedTensor { axes: host.axes.clone(), array: next(&host.array) }
    }
}

impl<T> fmt::Debug for NamedTensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedTensor{:?}", self.axes)
    }
}
