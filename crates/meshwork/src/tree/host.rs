//! The arrays of a host tree, by name or all at once.

use std::fmt::Debug;

use super::{Path, Tree, Visit};
use crate::Array;

/// Arrays with their paths, in the order they are visited.
#[derive(Default)]
struct Collect(Vec<(String, Array)>);

impl Visit for Collect {
    fn array(&mut self, path: &str, array: &Array) {
        self.0.push((path.to_string(), array.clone()));
    }

    fn fact(&mut self, _: &dyn Debug) {}
}

/// The arrays of a tree of the host with their paths, in order.
///
/// ```
/// use meshwork::prelude::*;
///
/// let model = (Array::zeros([2], F32), vec![Array::zeros([3], F32)]);
/// let paths: Vec<String> = meshwork::named_arrays::<(Tensor, Vec<Tensor>)>(&model).into_iter().map(|(p, _)| p).collect();
/// assert_eq!(paths, ["0", "1/0"]);
/// ```
pub fn named_arrays<T: Tree>(host: &T::Host) -> Vec<(String, Array)> {
    let mut collect = Collect::default();
    T::visit_host(host, &mut Path::default(), &mut collect);
    collect.0
}

/// A tree like `host` whose arrays are `f` of their paths and the old ones. The first error ends it.
///
/// ```
/// use meshwork::prelude::*;
///
/// let model = (Array::scalar(1.0f32), vec![Array::scalar(2.0f32)]);
/// let halves = meshwork::map_arrays::<(Tensor, Vec<Tensor>), meshwork::Error>(&model, |_, a| {
///     Ok(Array::scalar(a.item::<f32>()? / 2.0))
/// })?;
/// assert_eq!(halves.1[0].item::<f32>()?, 1.0);
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn map_arrays<T: Tree, E>(
    host: &T::Host,
    mut f: impl FnMut(&str, &Array) -> Result<Array, E>,
) -> Result<T::Host, E> {
    let old = named_arrays::<T>(host);
    let new: Vec<Array> = old.iter().map(|(path, array)| f(path, array)).collect::<Result<_, E>>()?;
    // Tensors of a trace that is given up carry the structure from one side to the other.
    let (_guard, tensors) = crate::trace::start(new.iter().map(Array::ty), crate::trace::Placing::NoMesh);
    let (mut tensors, mut arrays) = (tensors.into_iter(), new.into_iter());
    // As many as `host` has arrays, in the same order.
    let tree = T::from_host(host, &mut |_| tensors.next().expect("a tensor for each array"));
    Ok(tree.to_host(&mut |_| arrays.next().expect("an array for each tensor")))
}
