//! Mappings in scope, and trees of named tensors placed by one.

use std::cell::RefCell;
use std::sync::Arc;

use meshwork_mesh::Mesh;

use super::{Axis, Mapping};
use crate::error::{Error, Result, fail};
use crate::scope::MeshInScope;
use crate::trace::{Placing, placing};
use crate::tree::{Tree, map_arrays};
use crate::{Array, Tensor};

/// A mapping, the mesh it is for, and the first error.
type Place = (Mapping, Arc<Mesh>, Option<Error>);

thread_local! {
    /// What named tensors of the program are held to while a tree of them is copied.
    static HOLD: RefCell<Option<Mapping>> = const { RefCell::new(None) };
    /// Where named arrays of the host are placed while a tree of them is copied, and the first error.
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Runs `work` with `mapping` in scope, in place of that of an outer scope. Scopes belong to a thread.
pub fn axis_mapping<R>(mapping: Mapping, work: impl FnOnce() -> R) -> R {
    crate::scope::with(mapping, work)
}

/// Runs `work` with `mapping` in scope, merged with that of the outer scope: where both map a name, `mapping` wins.
pub fn merged_axis_mapping<R>(mapping: Mapping, work: impl FnOnce() -> R) -> R {
    axis_mapping(current_mapping().unwrap_or_default().merged(&mapping), work)
}

/// The mapping in scope. Programs that were traced with different ones are different, also in one `jit`.
pub fn current_mapping() -> Option<Mapping> {
    crate::scope::current()
}

/// Runs `work` with `mesh` in scope, in place of that of an outer scope: for [`shard`](super::shard()) outside programs, and for
/// every [`jit`](crate::jit) that has no mesh of its own and no argument that is on one.
pub fn on_mesh<R>(mesh: &Mesh, work: impl FnOnce() -> R) -> R {
    crate::scope::with(MeshInScope(Arc::new(mesh.clone())), work)
}

/// The mesh in scope.
pub fn current_mesh() -> Option<Arc<Mesh>> {
    crate::scope::current::<MeshInScope>().map(|scoped| scoped.0)
}

/// A tensor with these axes, held to the placement that `mapping` gives it.
#[track_caller]
pub(super) fn hold(tensor: &Tensor, axes: &[Axis], mapping: &Mapping) -> Tensor {
    match placing("shard") {
        Placing::Ignored(_) => tensor.clone(),
        Placing::NoMesh => {
            fail("shard", "there is no mesh to map named axes to; use named_jit, or jit with .on(&mesh)")
        }
        Placing::On(mesh) => match mapping.spec(axes, &mesh) {
            Ok(spec) => tensor.shard(spec),
            Err(e) => fail("shard", e.to_string()),
        },
    }
}

/// What happens to a named tensor when its tree is copied.
#[track_caller]
pub(super) fn on_map(tensor: Tensor, axes: &[Axis]) -> Tensor {
    match HOLD.with_borrow(Clone::clone) {
        None => tensor,
        Some(mapping) => hold(&tensor, axes, &mapping),
    }
}

/// What happens to a named array when its tree is made.
pub(super) fn on_host(array: Array, axes: &[Axis]) -> Array {
    PLACE.with_borrow_mut(|place| {
        let Some((mapping, mesh, error)) = place else { return array };
        let placed =
            mapping.spec(axes, mesh).map_err(Error::from).and_then(|spec| Ok(array.clone().shard(mesh, spec)?));
        placed.unwrap_or_else(|e| {
            error.get_or_insert(e);
            array
        })
    })
}

/// The tree of a program with all its named tensors held to `mapping`; other tensors are left alone.
#[track_caller]
pub(super) fn hold_tree<T: Tree>(tree: &T, mapping: &Mapping) -> T {
    struct Unset;
    impl Drop for Unset {
        fn drop(&mut self) {
            HOLD.set(None);
        }
    }
    HOLD.set(Some(mapping.clone()));
    let _unset = Unset;
    tree.map(&mut Tensor::clone)
}

/// The host tree with all its named arrays placed on `mesh` by `mapping`; other arrays are left alone.
pub fn shard_named<T: Tree>(tree: &T::Host, mapping: &Mapping, mesh: &Mesh) -> Result<T::Host> {
    PLACE.set(Some((mapping.clone(), Arc::new(mesh.clone()), None)));
    let out = map_arrays::<T, Error>(tree, |_, array| Ok(array.clone()));
    match PLACE.take() {
        Some((_, _, Some(error))) => Err(error),
        _ => out,
    }
}
