//! Trees: values made of tensors inside of a program and of arrays outside, of the same structure.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::{Array, Tensor};

/// Sees the arrays of a tree with their paths, and whatever else tells one structure from another.
pub trait Visit {
    /// An array.
    fn array(&mut self, path: &str, array: &Array);
    /// A fact about the structure: the length of a list, a key, a static value.
    fn fact(&mut self, fact: &dyn Debug);
}

/// A value made of tensors: a tensor, or tuples, lists, maps, options and [structs](crate::tree!) of trees.
///
/// Arguments and results of a [`jit`](crate::jit) function and the state of a loop are trees. To each belongs the
/// type of the same structure on the host, with [`Array`] in place of [`Tensor`].
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
        self.0.push_str(&step.to_string());
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

impl<T: Tree> Tree for BTreeMap<String, T> {
    type Host = BTreeMap<String, T::Host>;

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

/// [`Tree::visit_host`] of the type that `_of` returns: for [`tree!`](crate::tree!), which knows the types of fields
/// only so.
#[doc(hidden)]
pub fn visit_field<S, T: Tree>(_of: fn(&S) -> &T, host: &T::Host, path: &mut Path, visit: &mut dyn Visit) {
    T::visit_host(host, path, visit);
}

/// Declares a struct that is a [`Tree`]: it takes the type of its leaves as a parameter, [`Tensor`] inside of
/// programs (the default) and [`Array`] outside.
///
/// ```
/// use meshwork::prelude::*;
///
/// tree! {
///     /// A layer.
///     struct Layer<T> { w: T, b: T }
/// }
///
/// impl Layer {
///     fn apply(&self, x: &Tensor) -> Tensor {
///         x.matmul(&self.w) + &self.b
///     }
/// }
///
/// let f = jit(|layer: Layer, x: Tensor| layer.apply(&x));
/// let layer = Layer { w: Array::from_vec([2, 1], vec![1.0f32, 2.0])?, b: Array::from([0.5f32]) };
/// assert_eq!(f.call((&layer, &Array::from([3.0f32, 4.0])))?.to_vec::<f32>()?, [11.5]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[macro_export]
macro_rules! tree {
    ($(#[$meta:meta])* $vis:vis struct $name:ident<$leaf:ident> {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $ty:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $name<$leaf = $crate::Tensor> {
            $($(#[$field_meta])* $field_vis $field: $ty),*
        }

        impl $crate::Tree for $name<$crate::Tensor> {
            type Host = $name<$crate::Array>;

            fn tensors(&self, path: &mut $crate::Path, visit: &mut dyn FnMut(&str, &$crate::Tensor)) {
                $(path.inside(stringify!($field), |p| $crate::Tree::tensors(&self.$field, p, visit));)*
            }

            fn map(&self, next: &mut dyn FnMut(&$crate::Tensor) -> $crate::Tensor) -> Self {
                Self { $($field: $crate::Tree::map(&self.$field, next)),* }
            }

            fn to_host(&self, next: &mut dyn FnMut(&$crate::Tensor) -> $crate::Array) -> Self::Host {
                $name { $($field: $crate::Tree::to_host(&self.$field, next)),* }
            }

            fn visit_host(host: &Self::Host, path: &mut $crate::Path, visit: &mut dyn $crate::Visit) {
                $(path.inside(stringify!($field), |p| {
                    $crate::visit_field(|tree: &Self| &tree.$field, &host.$field, p, visit)
                });)*
            }

            fn from_host(host: &Self::Host, next: &mut dyn FnMut(&$crate::Array) -> $crate::Tensor) -> Self {
                Self { $($field: $crate::Tree::from_host(&host.$field, next)),* }
            }
        }
    };
}
