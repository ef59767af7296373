//! From the type of a host tree to that of the tree: what lets functions of host trees infer the rest.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use super::{MapKey, Static, Tree};
use crate::{Array, Tensor};

/// A tree of arrays. [`derive(Tree)`](crate::Tree) implements it for the host type of a struct.
///
/// Functions that take a host tree and nothing else, as [`save`](crate::save), need no types spelled out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tree of arrays",
    note = "trees of arrays are arrays, tuples, `Vec`, `Option`, maps, and the host types of structs with `#[derive(Tree)]`"
)]
pub trait HostTree: Sized {
    /// The same structure with tensors.
    type Tree: Tree<Host = Self>;
}

impl HostTree for Array {
    type Tree = Tensor;
}

impl<T: Clone + Debug> HostTree for Static<T> {
    type Tree = Static<T>;
}

impl<H: HostTree> HostTree for Vec<H> {
    type Tree = Vec<H::Tree>;
}

impl<H: HostTree, const N: usize> HostTree for [H; N] {
    type Tree = [H::Tree; N];
}

impl<H: HostTree> HostTree for Option<H> {
    type Tree = Option<H::Tree>;
}

impl<H: HostTree> HostTree for Box<H> {
    type Tree = Box<H::Tree>;
}

impl<K: MapKey, H: HostTree> HostTree for BTreeMap<K, H> {
    type Tree = BTreeMap<K, H::Tree>;
}

impl<K: MapKey, H: HostTree> HostTree for HashMap<K, H> {
    type Tree = HashMap<K, H::Tree>;
}

macro_rules! tuples {
    ($(($($name:ident),*);)*) => {
        $(
            impl<$($name: HostTree),*> HostTree for ($($name,)*) {
                type Tree = ($($name::Tree,)*);
            }
        )*
    };
}

tuples! {
    ();
    (A);
    (A, B);
    (A, B, C);
    (A, B, C, D);
    (A, B, C, D, E);
    (A, B, C, D, E, F);
    (A, B, C, D, E, F, G);
    (A, B, C, D, E, F, G, H);
}
