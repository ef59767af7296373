//! Trees: values made of tensors inside of a program and of arrays outside, of the same structure.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Display, Write};
use std::hash::Hash;
use std::marker::PhantomData;

use crate::error::fail;
use crate::{Array, Tensor};

/// Sees the arrays of a tree with their paths, and whatever else tells one structure from another.
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
    note = "a field that holds no tensors is marked `#[tree(skip)]`; an argument that holds none is wrapped in `Static`"
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
        let length = self.0.len();
        if length > 0 {
            self.0.push('/');
        }
        // Writing to a string does not fail.
        let _ = write!(self.0, "{step}");
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
/// let power = jit(|x: Tensor, n: Static<u32>| (1..n.0).fold(x.clone(), |y, _| y * &x));
/// let x = Array::from([2.0f32, 3.0]);
/// assert_eq!(power.call((&x, &Static(3)))?.to_vec::<f32>()?, [8.0, 27.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Static<T>(pub T);

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

macro_rules! tuples {
    ($(($($name:ident $index:tt),*);)*) => {
        $(
            impl<$($name: Tree),*> Tree for ($($name,)*) {
                type Host = ($($name::Host,)*);

                #[allow(unused_variables)] // of the empty tuple
                fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
                    $(path.inside($index, |p| self.$index.tensors(p, visit));)*
                }

                #[allow(unused_variables, clippy::unused_unit)] // of the empty tuple
                fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                    ($(self.$index.map(next),)*)
                }

                #[allow(unused_variables, clippy::unused_unit)] // of the empty tuple
                fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
                    ($(self.$index.to_host(next),)*)
                }

                #[allow(unused_variables)] // of the empty tuple
                fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit) {
                    $(path.inside($index, |p| $name::visit_host(&host.$index, p, visit));)*
                }

                #[allow(unused_variables, clippy::unused_unit)] // of the empty tuple
                fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self {
                    ($($name::from_host(&host.$index, next),)*)
                }
            }
        )*
    };
}

tuples! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}

impl<T: Tree> Tree for Vec<T> {
    type Host = Vec<T::Host>;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        for (i, part) in self.iter().enumerate() {
            path.inside(i, |p| part.tensors(p, visit));
        }
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|part| part.map(next)).collect()
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
        self.iter().map(|part| part.to_host(next)).collect()
    }

    fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit) {
        visit.fact(&host.len());
        for (i, part) in host.iter().enumerate() {
            path.inside(i, |p| T::visit_host(part, p, visit));
        }
    }

    fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        host.iter().map(|part| T::from_host(part, next)).collect()
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    type Host = [T::Host; N];

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        for (i, part) in self.iter().enumerate() {
            path.inside(i, |p| part.tensors(p, visit));
        }
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        std::array::from_fn(|i| self[i].map(next))
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
        std::array::from_fn(|i| self[i].to_host(next))
    }

    fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit) {
        for (i, part) in host.iter().enumerate() {
            path.inside(i, |p| T::visit_host(part, p, visit));
        }
    }

    fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        std::array::from_fn(|i| T::from_host(&host[i], next))
    }
}

impl<T: Tree> Tree for Option<T> {
    type Host = Option<T::Host>;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        if let Some(part) = self {
            part.tensors(path, visit);
        }
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.as_ref().map(|part| part.map(next))
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
        self.as_ref().map(|part| part.to_host(next))
    }

    fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit) {
        visit.fact(&host.is_some());
        if let Some(part) = host {
            T::visit_host(part, path, visit);
        }
    }

    fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        host.as_ref().map(|part| T::from_host(part, next))
    }
}

/// Keys of maps, which become steps of paths.
pub trait MapKey: Ord + Hash + Clone + Debug + Display {}

impl<K: Ord + Hash + Clone + Debug + Display> MapKey for K {}

impl<K: MapKey, T: Tree> Tree for BTreeMap<K, T> {
    type Host = BTreeMap<K, T::Host>;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        for (name, part) in self {
            path.inside(name, |p| part.tensors(p, visit));
        }
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|(name, part)| (name.clone(), part.map(next))).collect()
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
        self.iter().map(|(name, part)| (name.clone(), part.to_host(next))).collect()
    }

    fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit) {
        visit.fact(&host.len());
        for (name, part) in host {
            visit.fact(name);
            path.inside(name, |p| T::visit_host(part, p, visit));
        }
    }

    fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        host.iter().map(|(name, part)| (name.clone(), T::from_host(part, next))).collect()
    }
}

/// A map in the order of its keys.
fn sorted<K: MapKey, V>(map: &HashMap<K, V>) -> Vec<(&K, &V)> {
    let mut all: Vec<(&K, &V)> = map.iter().collect();
    all.sort_by(|a, b| a.0.cmp(b.0));
    all
}

impl<K: MapKey, T: Tree> Tree for HashMap<K, T> {
    type Host = HashMap<K, T::Host>;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        for (name, part) in sorted(self) {
            path.inside(name, |p| part.tensors(p, visit));
        }
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        sorted(self).into_iter().map(|(name, part)| (name.clone(), part.map(next))).collect()
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
        sorted(self).into_iter().map(|(name, part)| (name.clone(), part.to_host(next))).collect()
    }

    fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit) {
        visit.fact(&host.len());
        for (name, part) in sorted(host) {
            visit.fact(name);
            path.inside(name, |p| T::visit_host(part, p, visit));
        }
    }

    fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        sorted(host).into_iter().map(|(name, part)| (name.clone(), T::from_host(part, next))).collect()
    }
}

impl<T: Tree> Tree for Box<T> {
    type Host = Box<T::Host>;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        (**self).tensors(path, visit);
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Box::new((**self).map(next))
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
        Box::new((**self).to_host(next))
    }

    fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit) {
        T::visit_host(host, path, visit);
    }

    fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        Box::new(T::from_host(host, next))
    }
}

impl<T: Tree> Tree for PhantomData<T> {
    type Host = PhantomData<T::Host>;

    fn tensors(&self, _: &mut Path, _: &mut dyn FnMut(&str, &Tensor)) {}

    fn map(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        PhantomData
    }

    fn to_host(&self, _: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
        PhantomData
    }

    fn visit_host(_: &Self::Host, _: &mut Path, _: &mut dyn Visit) {}

    fn from_host(_: &Self::Host, _: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        PhantomData
    }
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
    struct Collect(Vec<(String, Array)>);
    impl Visit for Collect {
        fn array(&mut self, path: &str, array: &Array) {
            self.0.push((path.to_string(), array.clone()));
        }
        fn fact(&mut self, _: &dyn Debug) {}
    }
    let mut collect = Collect(vec![]);
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
    let types: Vec<_> = new.iter().map(|a| a.ty().clone()).collect();
    let (_guard, tensors) = crate::trace::start(&types, crate::trace::Placing::NoMesh);
    let (mut tensors, mut arrays) = (tensors.into_iter(), new.into_iter());
    // As many as `host` has arrays, in the same order.
    let tree = T::from_host(host, &mut |_| tensors.next().expect("a tensor for each array"));
    Ok(tree.to_host(&mut |_| arrays.next().expect("an array for each tensor")))
}
