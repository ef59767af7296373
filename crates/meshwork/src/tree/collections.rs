//! Tuples, lists, maps and options of trees are trees.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::marker::PhantomData;

use meshwork_mesh::sort_by;

use super::{Path, Tree, Visit};
use crate::{Array, Tensor};

macro_rules! tuples {
    ($(($($name:ident $index:tt),*);)*) => {
        $(
            impl<$($name: Tree),*> Tree for ($($name,)*) {
                type Host = ($($name::Host,)*);

                #[allow(unused_variables)] // of the empty tuple
                fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
                    $(path.member($index, |p| self.$index.tensors(p, visit));)*
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
                    $(path.member($index, |p| $name::visit_host(&host.$index, p, visit));)*
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
            path.member(i, |p| part.tensors(p, visit));
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
            path.member(i, |p| T::visit_host(part, p, visit));
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
            path.member(i, |p| part.tensors(p, visit));
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
            path.member(i, |p| T::visit_host(part, p, visit));
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
    sort_by(&mut all, |a, b| a.0.cmp(b.0));
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
