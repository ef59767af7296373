//! Rules applied to trees: as a query, to host arrays, and to tensors of a program.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use meshwork_ir::TensorType;
use meshwork_mesh::{Mesh, MeshRef, Sharding};

use super::{Leaf, Rule};
use crate::error::{Error, Result, fail_at};
use crate::spec::{MESH, P};
use crate::trace::{self, Placing, placing};
use crate::tree::{Path, Tree, map_arrays, named_arrays};
use crate::{Array, HostTree, Placement, Tensor};

/// The placement of one array by a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Matched {
    /// The array's path.
    pub path: String,
    /// Its type.
    pub ty: Arc<TensorType>,
    /// Its placement; `None` if propagation decides.
    pub spec: Option<P>,
    /// The placement on the mesh; replicated if propagation decides.
    pub sharding: Sharding,
    /// Bytes of the part that a device holds, padding included.
    pub bytes_per_device: i64,
}

impl fmt::Display for Matched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{:?}: ", self.path, self.ty.elem, &self.ty.dims[..])?;
        match &self.spec {
            Some(spec) => write!(f, "{spec}")?,
            None => f.write_str("free")?,
        }
        write!(f, ", {} bytes per device", self.bytes_per_device)
    }
}

/// The placement of each array of a tree by `rule`, which may be [only shapes](Array::shape_only).
pub fn match_sharding_rule<T: Tree>(rule: &Rule, tree: &T::Host, mesh: &Mesh) -> Result<Vec<Matched>> {
    let arrays = named_arrays::<T>(tree);
    check_names(rule, &arrays)?;
    arrays.iter().map(|(path, array)| matched(rule, path, array, mesh)).collect()
}

/// The placement of each array of a tree by `rule`, as a tree of the same structure: arrays without elements, each
/// [placed](Array::placement). What propagation decides has no placement.
pub fn match_rule_tree<H: HostTree>(rule: &Rule, tree: &H, mesh: &Mesh) -> Result<H> {
    check_names(rule, &named_arrays::<H::Tree>(tree))?;
    map_arrays::<H::Tree, Error>(tree, |path, array| {
        let Matched { spec, sharding, .. } = matched(rule, path, array, mesh)?;
        let placement = spec.map(|_| Placement { mesh: mesh.clone().into(), sharding });
        Ok(Array::shape_only(array.shape(), array.dtype()).with_placement(placement))
    })
}

/// Every name that a rule has is that of an array.
pub(super) fn check_names(rule: &Rule, arrays: &[(String, Array)]) -> Result<()> {
    let paths: Vec<&str> = arrays.iter().map(|(path, _)| path.as_str()).collect();
    Ok(rule.check_names(&paths)?)
}

pub(super) fn matched(rule: &Rule, path: &str, array: &Array, mesh: &Mesh) -> Result<Matched> {
    let spec = rule.spec(&Leaf::new(path, array.ty()), mesh)?;
    let shape = array.shape();
    let what = || format!("{} for {path} of shape {shape:?}", spec.clone().unwrap_or_default());
    let fails = |error| Error::Sharding { what: what(), error: Box::new(error) };
    let name = MeshRef::from(mesh.clone());
    let sharding = spec.clone().unwrap_or_default().sharding(name, mesh, shape.len()).map_err(fails)?;
    let local = sharding.local_shape(mesh, shape).map_err(fails)?;
    let bytes_per_device = local.iter().product::<i64>() * array.dtype().storage_bytes() as i64;
    Ok(Matched { path: path.to_string(), ty: array.ty().clone(), spec, sharding, bytes_per_device })
}

/// The tree placed by `rule` on `mesh`; arrays that the rule leaves free are replicated.
pub fn shard_tree<T: Tree>(tree: &T::Host, rule: &Rule, mesh: &Mesh) -> Result<T::Host> {
    check_names(rule, &named_arrays::<T>(tree))?;
    map_arrays::<T, Error>(tree, |path, array| {
        let spec = matched(rule, path, array, mesh)?.spec.unwrap_or_default();
        Ok(array.clone().shard(mesh, spec)?)
    })
}

/// The tree on the host, without placements.
pub fn gather_tree<T: Tree>(tree: &T::Host) -> Result<T::Host> {
    map_arrays::<T, Error>(tree, |_, array| Ok(array.clone().with_placement(None)))
}

/// The same values inside a program, constrained to the placements of `rule`; what it leaves free stays free.
///
/// On a `jit` without a mesh it is an error, on a [single device](crate::Jit::single_device) it changes nothing.
#[track_caller]
pub fn constrain<T: Tree>(tree: &T, rule: impl Into<Rule>) -> T {
    let rule = rule.into();
    let mut paths: Vec<String> = vec![];
    tree.tensors(&mut Path::default(), &mut |path, _| paths.push(path.to_string()));
    let at = trace::pin().unwrap_or(Location::caller());
    if let Err(e) = rule.check_names(&paths.iter().map(String::as_str).collect::<Vec<_>>()) {
        fail_at("constrain", e.to_string(), at);
    }
    let mut paths = paths.into_iter();
    let mut next = |t: &Tensor| constrain_leaf(&rule, &paths.next().unwrap_or_default(), t, at);
    tree.map(&mut next)
}

/// One tensor placed by `rule`, attributed to the line `at`.
pub(super) fn constrain_leaf(rule: &Rule, path: &str, tensor: &Tensor, at: &'static Location<'static>) -> Tensor {
    let mesh = match placing("constrain") {
        Placing::On(mesh) => mesh,
        Placing::Ignored(_) => return tensor.clone(),
        Placing::NoMesh => {
            let message = "there is no mesh; give jit one with .on(&mesh), or pass an array on one";
            fail_at("constrain", message, at)
        }
    };
    match rule.spec(&Leaf::new(path, &tensor.ty), &mesh) {
        Ok(None) => tensor.clone(),
        Ok(Some(spec)) => match spec.sharding(MESH.into(), &mesh, tensor.rank()) {
            Ok(_) => trace::pinned(at, || tensor.shard(spec)),
            Err(e) => fail_at("constrain", format!("{spec} for {path} of shape {:?}: {e}", tensor.shape()), at),
        },
        Err(e) => fail_at("constrain", e.to_string(), at),
    }
}
