//! Collectives of manual regions, by the names of mesh axes.
//!
//! The devices that take part together are those that differ only along the named axes.

use meshwork_ir::ElementType;
use meshwork_ir::ValueId;
use meshwork_ir::build::{BuildError, Builder, Groups};
use meshwork_mesh::{AxisRef, device_groups};

use super::mesh_for;
use crate::Tensor;
use crate::error::fail;
use crate::ops::full;
use crate::spec::Axes;
use crate::trace::compose::emit;
use crate::trace::with_top;

/// The devices that work together, by group in order of their place along the axes.
#[track_caller]
fn groups(op: &str, axes: impl Axes) -> Vec<Vec<i64>> {
    let axes = manual(op, axes);
    match device_groups(&mesh_for(op), &axes) {
        Ok(groups) => groups,
        Err(e) => fail(op, e.to_string()),
    }
}

/// The axes, which must be manual here.
#[track_caller]
fn manual(op: &str, axes: impl Axes) -> Vec<AxisRef> {
    let axes = axes.axes();
    let known: Vec<String> = with_top(op, |trace| trace.manual.iter().map(|a| a.name.clone()).collect());
    for axis in &axes {
        if !known.iter().any(|n| **n == *axis.name) {
            let here = if known.is_empty() {
                "there is no shard_map around it".into()
            } else {
                format!("the manual axes here are {known:?}")
            };
            fail(op, format!("\"{}\" is not a manual axis: {here}", axis.name));
        }
    }
    axes
}

/// The number of devices along the axes.
#[track_caller]
pub fn axis_size(axes: impl Axes) -> i64 {
    let mesh = mesh_for("axis_size");
    manual("axis_size", axes).iter().map(|a| a.size(&mesh)).product()
}

/// The position of this device along the axes, an `i32` scalar; of several, the last one counts fastest.
///
/// ```
/// use meshwork::prelude::*;
///
/// let mesh = Mesh::grid(("x", 2), ("y", 2))?;
/// let places = jit(|v: Tensor| {
///     shard_map(["x", "y"], [P!["x", "y"]], [P!["x", "y"]], v, |v: Tensor| v * 0 + axis_index(["y", "x"]))
/// });
/// let v = Array::zeros([2, 2], I32).shard(&mesh, P![])?;
/// assert_eq!(places.call(&v)?.to_vec::<i32>()?, [0, 2, 1, 3]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn axis_index(axes: impl Axes) -> Tensor {
    let mesh = mesh_for("axis_index");
    let mut place: Option<Tensor> = None;
    for axis in manual("axis_index", axes) {
        let index = with_top("axis_index", |trace| {
            let found = trace.manual.iter().rev().find(|a| *a.name == *axis.name);
            found.map(|a| a.index.clone())
        });
        let Some(index) = index else { continue };
        let index = index.reshape(());
        place = Some(match place {
            Some(major) => major * axis.size(&mesh) + index,
            None => index,
        });
    }
    place.unwrap_or_else(|| full((), ElementType::I32, 0))
}

type Combine = fn(&mut Builder<'_>, ValueId, ValueId) -> Result<ValueId, BuildError>;

#[track_caller]
fn all_reduce(op: &str, x: &Tensor, axes: impl Axes, combine: Combine) -> Tensor {
    let groups = Groups::devices(groups(op, axes), 1);
    emit(op, &[x], |b, v| b.all_reduce(v[0], &groups, |b, a| Ok([combine(b, a[0], a[1])?])))
}

impl Tensor {
    /// Inside of [`shard_map`](crate::shard_map): the sum over the devices along `axes`, which all of them get.
    #[track_caller]
    pub fn psum(&self, axes: impl Axes) -> Tensor {
        all_reduce("psum", self, axes, |b, x, y| b.add(x, y))
    }

    /// Inside of [`shard_map`](crate::shard_map): the mean over the devices along `axes`, which all of them get.
    #[track_caller]
    pub fn pmean(&self, axes: impl Axes) -> Tensor {
        let axes = manual("pmean", axes);
        let mesh = mesh_for("pmean");
        let count: i64 = axes.iter().map(|a| a.size(&mesh)).product();
        all_reduce("pmean", self, axes, |b, x, y| b.add(x, y)) / count
    }

    /// Inside of [`shard_map`](crate::shard_map): the largest of the devices along `axes`, element by element.
    #[track_caller]
    pub fn pmax(&self, axes: impl Axes) -> Tensor {
        all_reduce("pmax", self, axes, |b, x, y| b.maximum(x, y))
    }

    /// Inside of [`shard_map`](crate::shard_map): the smallest of the devices along `axes`, element by element.
    #[track_caller]
    pub fn pmin(&self, axes: impl Axes) -> Tensor {
        all_reduce("pmin", self, axes, |b, x, y| b.minimum(x, y))
    }

    /// Inside of [`shard_map`](crate::shard_map): the parts of the devices along `axes`, one after the other in
    /// dimension `dim`, which all of them get.
    #[track_caller]
    pub fn all_gather(&self, axes: impl Axes, dim: i64) -> Tensor {
        let (dim, groups) = (self.axis("all_gather", dim), Groups::devices(groups("all_gather", axes), 1));
        emit("all_gather", &[self], |b, v| b.all_gather(v[0], dim as i64, &groups))
    }

    /// Inside of [`shard_map`](crate::shard_map): the sum over the devices along `axes`, of which each gets its part of
    /// dimension `dim`.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 2)?;
    /// let f = jit(|v: Tensor| shard_map(["x"], [P![]], [P!["x"]], v, |v: Tensor| v.psum_scatter("x", 0))).on(&mesh);
    /// assert_eq!(f.call(&Array::from([1.0f32, 2.0]))?.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn psum_scatter(&self, axes: impl Axes, dim: i64) -> Tensor {
        let (dim, groups) = (self.axis("psum_scatter", dim), groups("psum_scatter", axes));
        self.check_parts("psum_scatter", dim, &groups);
        let groups = Groups::devices(groups, 1);
        emit("psum_scatter", &[self], |b, v| {
            b.reduce_scatter(v[0], dim as i64, &groups, |b, a| Ok([b.add(a[0], a[1])?]))
        })
    }

    /// Inside of [`shard_map`](crate::shard_map): part `i` of dimension `split` goes to device `i` along `axes`, and
    /// what comes from the others is put one after the other in dimension `concat`.
    #[track_caller]
    pub fn all_to_all(&self, axes: impl Axes, split: i64, concat: i64) -> Tensor {
        let (split, concat) = (self.axis("all_to_all", split), self.axis("all_to_all", concat));
        let groups = groups("all_to_all", axes);
        self.check_parts("all_to_all", split, &groups);
        let groups = Groups::devices(groups, 1);
        emit("all_to_all", &[self], |b, v| b.all_to_all(v[0], split as i64, concat as i64, &groups))
    }

    /// Inside of [`shard_map`](crate::shard_map): sends the tensor from each source to its target, by their places
    /// along `axes`. Devices that hear nothing get zeros.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 4)?;
    /// let shift = jit(|v: Tensor| {
    ///     shard_map(["x"], [P!["x"]], [P!["x"]], v, |v: Tensor| v.ppermute("x", &[(0, 1), (1, 2), (2, 3)]))
    /// })
    /// .on(&mesh);
    /// assert_eq!(shift.call(&Array::from([1.0f32, 2.0, 3.0, 4.0]))?.to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn ppermute(&self, axes: impl Axes, pairs: &[(i64, i64)]) -> Tensor {
        let groups = groups("ppermute", axes);
        let devices = groups.first().map_or(0, Vec::len) as i64;
        for (i, &(source, target)) in pairs.iter().enumerate() {
            if !(0..devices).contains(&source) || !(0..devices).contains(&target) {
                fail("ppermute", format!("the pair ({source}, {target}) is not within the {devices} devices"));
            }
            if let Some(other) = pairs[..i].iter().find(|p| p.0 == source || p.1 == target) {
                let which = if other.0 == source { "source" } else { "target" };
                fail("ppermute", format!("the pairs {other:?} and ({source}, {target}) have the same {which}"));
            }
        }
        let of = |group: &Vec<i64>| pairs.iter().map(|&(s, t)| (group[s as usize], group[t as usize])).collect();
        let pairs: Vec<(i64, i64)> = groups.iter().flat_map::<Vec<_>, _>(of).collect();
        emit("ppermute", &[self], |b, v| b.collective_permute(v[0], &pairs, Some(1)))
    }

    /// Whether dimension `dim` splits in as many parts as a group has devices.
    #[track_caller]
    fn check_parts(&self, op: &str, dim: usize, groups: &[Vec<i64>]) {
        let (n, parts) = (self.shape()[dim], groups.first().map_or(1, Vec::len) as i64);
        if n % parts != 0 {
            let what = self.describe();
            fail(op, format!("dimension {dim} of {what} has {n} elements, which {parts} devices cannot share equally"));
        }
    }
}
