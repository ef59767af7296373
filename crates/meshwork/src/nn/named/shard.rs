//! `shard`: one word for values of a program and arrays of the host, alone and in trees.

use super::Mapping;
use super::scope::{current_mapping, current_mesh, hold_tree, shard_named};
use crate::error::{Error, Result, fail};
use crate::trace::{Placing, placing};
use crate::tree::map_arrays;
use crate::{HostTree, Tree};

/// Trees of tensors: what programs are made of.
pub enum Inside {}

/// Trees of arrays of the host.
pub enum Outside {}

/// What [`shard`] places: a tree of tensors, which it returns, or a tree of arrays, which it returns as a `Result`. `Side` is
/// found by the compiler.
pub trait Shardable<Side> {
    /// What comes back.
    type Sharded;

    /// Placed as `mapping` says.
    fn shard_by(&self, mapping: &Mapping) -> Self::Sharded;

    /// Unchanged.
    fn unchanged(&self) -> Self::Sharded;

    /// Why nothing can be placed.
    fn refused(&self, op: &'static str, message: &str) -> Self::Sharded;

    /// Whether there is a mesh.
    fn has_mesh(&self) -> bool;
}

impl<T: Tree> Shardable<Inside> for T {
    type Sharded = T;

    #[track_caller]
    fn shard_by(&self, mapping: &Mapping) -> T {
        hold_tree(self, mapping)
    }

    fn unchanged(&self) -> T {
        self.map(&mut |t| t.clone())
    }

    #[track_caller]
    fn refused(&self, op: &'static str, message: &str) -> T {
        fail(op, message)
    }

    fn has_mesh(&self) -> bool {
        matches!(placing("auto_sharded"), Placing::On(_))
    }
}

impl<H: HostTree> Shardable<Outside> for H {
    type Sharded = Result<H>;

    fn shard_by(&self, mapping: &Mapping) -> Result<H> {
        match current_mesh() {
            Some(mesh) => shard_named::<H::Tree>(self, mapping, &mesh),
            None => self.refused("shard", "there is no mesh in scope to map named axes to; use on_mesh"),
        }
    }

    fn unchanged(&self) -> Result<H> {
        map_arrays::<H::Tree, Error>(self, |_, array| Ok(array.clone()))
    }

    fn refused(&self, op: &'static str, message: &str) -> Result<H> {
        Err(Error::Invalid { what: op, message: message.to_string() })
    }

    fn has_mesh(&self) -> bool {
        current_mesh().is_some()
    }
}

/// A tensor, an array or a tree of them with all its named members placed by the names of their axes, as `mapping` says;
/// members without names are left alone. Inside a program the mesh is that of the program, outside the one of [`on_mesh`](super::on_mesh);
/// without one it is an error, as are mesh axes that there are not.
///
/// ```
/// use meshwork::named::{Axis, Mapping, NamedTensor, auto_sharded, axis_mapping, on_mesh, shard};
/// use meshwork::prelude::*;
///
/// let batch = Axis::new("batch", 8);
/// let mapping = Mapping::new([("batch", "data")]);
/// let x = NamedTensor::host(Array::zeros([8], F32), [&batch])?;
/// let mesh = Mesh::linear("data", 4)?;
/// // Outside a program.
/// let (named, plain) = on_mesh(&mesh, || shard(&(x.clone(), Array::zeros([2], F32)), &mapping))?;
/// assert_eq!(named.array().shards()[1].slice, [2..4]);
/// assert!(plain.placement().is_none());
/// // Inside one, on the mesh and by the mapping in scope.
/// let double = jit(|x: NamedTensor| auto_sharded(&(&x * 2.0)));
/// let y = on_mesh(&mesh, || axis_mapping(mapping.clone(), || double.call(&x)))?;
/// assert_eq!(y.array().shards()[1].slice, [2..4]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn shard<S, X: Shardable<S>>(x: &X, mapping: &Mapping) -> X::Sharded {
    x.shard_by(mapping)
}

/// As [`shard`], by the mapping in scope; without one it is an error.
#[track_caller]
pub fn sharded<S, X: Shardable<S>>(x: &X) -> X::Sharded {
    match current_mapping() {
        Some(mapping) => x.shard_by(&mapping),
        None => x.refused("sharded", "there is no mapping in scope; use axis_mapping, or auto_sharded if that is fine"),
    }
}

/// As [`shard`], by the mapping in scope if there is one and a mesh: for code that may run without either.
#[track_caller]
pub fn auto_sharded<S, X: Shardable<S>>(x: &X) -> X::Sharded {
    match current_mapping() {
        Some(mapping) if x.has_mesh() => x.shard_by(&mapping),
        _ => x.unchanged(),
    }
}
