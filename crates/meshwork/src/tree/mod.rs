//! Trees: values made of tensors inside a program and of arrays outside, of the same structure.

mod collections;
mod host;
mod host_types;

use std::fmt::{Debug, Write};

pub use collections::MapKey;
pub use host::{map_arrays, named_arrays};
pub use host_types::HostTree;

use crate::error::fail;
use crate::{Array, Tensor};

/// Sees the arrays of a tree with their paths, and whatever else distinguishes one structure from another.
pub trait Visit {
    /// An array.
    fn array(&mut self, path: &str, array: &Array);
    /// A fact about the structure: the length of a list, a key, a static value.
    fn fact(&mut self, fact: &dyn Debug);
}

/// A value made of tensors: a tensor, or tuples, lists, maps, options and structs of trees.
///
/// Arguments and results of a [`jit`](crate::jit) function and the state of a loop are trees. To each belongs the
/// type of the same structure on the host, with [`Array`] in place of [`Tensor`].
///
/// Structs derive it. One with a type parameter serves on both sides, with tensors in it or with arrays:
///
/// ```
/// use meshwork::prelude::*;
///
/// #[derive(Clone, Debug, Tree)]
/// struct Layer<T = Tensor> {
///     w: T,
///     b: Option<T>,
///     // Not a tensor: part of the program, which is traced for each value of it.
///     #[tree(skip)]
///     times: usize,
/// }
///
/// impl Layer {
///     fn apply(&self, x: &Tensor) -> Tensor {
///         let y = (0..self.times).fold(x.clone(), |x, _| x.matmul(&self.w));
///         self.b.as_ref().map_or(y.clone(), |b| y + b)
///     }
/// }
///
/// let f = jit(|layer: Layer, x: Tensor| layer.apply(&x));
/// let layer = Layer { w: Array::from_vec([1, 1], vec![3.0f32])?, b: Some(Array::from([0.5f32])), times: 2 };
/// assert_eq!(f.call((&layer, &Array::from([2.0f32])))?.to_vec::<f32>()?, [18.5]);
/// # Ok::<(), meshwork::Error>(())
/// ```
///
/// For one without type parameters, `#[derive(Tree)]` makes a second struct of arrays with `Host` behind its name:
///
/// ```
/// use meshwork::prelude::*;
///
/// #[derive(Tree)]
/// struct State {
///     position: Tensor,
///     speed: Tensor,
/// }
///
/// let step = jit(|s: State| State { position: s.position + &s.speed * 0.5, speed: s.speed });
/// let state = StateHost { position: Array::scalar(1.0f32), speed: Array::scalar(2.0f32) };
/// assert_eq!(step.call(&state)?.position.item::<f32>()?, 2.0);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tree of tensors",
    note = "trees are tensors, tuples, arrays, `Vec`, `Option`, maps, and structs with `#[derive(Tree)]`",
    note = "a field that holds no tensors is marked `#[tree(skip)]`; an argument that holds none is wrapped in `Static`",
    note = "inside a traced function there are tensors, outside arrays: an `Array` is an argument, or a constant by `Tensor::constant(&array)`",
    note = "a traced function returns tensors, no `Result`: a misused tensor ends the trace, and `call` returns the error"
)]
pub trait Tree: Sized {
    /// The same structure with arrays.
    type Host;

    /// Calls `visit` with each tensor and its path, in order.
    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor));
    /// The same structure with other tensors.
    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;
    /// The same structure with arrays.
    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host;
    /// Shows each array of a tree of the host, in the order of `tensors`.
    fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit);
    /// The structure of a tree of the host, with tensors.
    fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self;
}

/// Where in a tree one is: `0/layers/1/w`.
#[derive(Clone, Debug, Default)]
pub struct Path(String);

impl Path {
    /// The path so far.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Works one step deeper.
    pub fn inside<R>(&mut self, step: impl std::fmt::Display, work: impl FnOnce(&mut Path) -> R) -> R {
        let step = |path: &mut String| {
            // Writing to a string does not fail.
            let _ = write!(path, "{step}");
        };
        self.deeper(step, work)
    }

    /// Works in a field of this name.
    pub fn field<R>(&mut self, name: &str, work: impl FnOnce(&mut Path) -> R) -> R {
        self.deeper(|path| path.push_str(name), work)
    }

    /// Works in member number `index`.
    pub fn member<R>(&mut self, index: usize, work: impl FnOnce(&mut Path) -> R) -> R {
        match u8::try_from(index) {
            Ok(digit @ 0..10) => self.deeper(|path| path.push(char::from(b'0' + digit)), work),
            _ => self.inside(index, work),
        }
    }

    fn deeper<R>(&mut self, step: impl FnOnce(&mut String), work: impl FnOnce(&mut Path) -> R) -> R {
        let length = self.0.len();
        if length > 0 {
            self.0.push('/');
        }
        step(&mut self.0);
        let out = work(self);
        self.0.truncate(length);
        out
    }
}

/// All tensors of a tree, in order.
pub(crate) fn leaves(tree: &impl Tree) -> Vec<Tensor> {
    let mut out = vec![];
    tree.tensors(&mut Path::default(), &mut |_, t| out.push(t.clone()));
    out
}

/// The tree with these tensors, in order; as many as it has.
pub(crate) fn replace<T: Tree>(tree: &T, tensors: &[Tensor]) -> T {
    let mut at = 0;
    tree.map(&mut |_| {
        at += 1;
        tensors[at - 1].clone()
    })
}

/// The tree whose tensors are `f` of the tensors in the same place of all `trees`, which have one structure.
///
/// ```
/// use meshwork::prelude::*;
///
/// let step = jit(|p: (Tensor, Tensor), slope: (Tensor, Tensor)| tree_map([&p, &slope], |[p, s]| p - 0.5 * s));
/// let (p, slope) = ((Array::from([1.0f32]), Array::scalar(2.0f32)), (Array::from([2.0f32]), Array::scalar(0.0f32)));
/// assert_eq!(step.call((&p, &slope))?.0.to_vec::<f32>()?, [0.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn tree_map<T: Tree, const N: usize>(trees: [&T; N], mut f: impl FnMut([&Tensor; N]) -> Tensor) -> T {
    let lists = trees.map(leaves);
    let (Some(first), Some(count)) = (trees.first(), lists.first().map(Vec::len)) else {
        fail("tree_map", "no trees given");
    };
    if let Some((i, list)) = lists.iter().enumerate().find(|(_, list)| list.len() != count) {
        fail("tree_map", format!("tree 0 has {count} tensors, tree {i} has {}", list.len()));
    }
    let mut at = 0;
    first.map(&mut |_| {
        at += 1;
        f(std::array::from_fn(|i| &lists[i][at - 1]))
    })
}

impl Tree for Tensor {
    type Host = Array;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        visit(path.text(), self);
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
        next(self)
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Array {
        next(self)
    }

    fn visit_host(host: &Array, path: &mut Path, visit: &mut dyn Visit) {
        visit.array(path.text(), host);
    }

    fn from_host(host: &Array, next: &mut dyn FnMut(&Array) -> Tensor) -> Tensor {
        next(host)
    }
}

/// A value that is known while tracing and is part of the program: another value means another program.
///
/// ```
/// use meshwork::prelude::*;
///
/// let power = jit(|x: Tensor, n: Static<u32>| (1..*n).fold(x.clone(), |y, _| y * &x));
/// let x = Array::from([2.0f32, 3.0]);
/// assert_eq!(power.call((&x, &Static(3)))?.to_vec::<f32>()?, [8.0, 27.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Static<T>(pub T);

impl<T> std::ops::Deref for Static<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone + Debug> Tree for Static<T> {
    type Host = Static<T>;

    fn tensors(&self, _: &mut Path, _: &mut dyn FnMut(&str, &Tensor)) {}

    fn map(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.clone()
    }

    fn to_host(&self, _: &mut dyn FnMut(&Tensor) -> Array) -> Self {
        self.clone()
    }

    fn visit_host(host: &Self, _: &mut Path, visit: &mut dyn Visit) {
        visit.fact(&host.0);
    }

    fn from_host(host: &Self, _: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        host.clone()
    }
}
