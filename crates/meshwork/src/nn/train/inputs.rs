//! Values by name, in the order in which they were declared.

use std::ops::Index;

use crate::tree::{HostTree, Path, Tree, Visit};
use crate::{Array, Tensor};

/// The inputs of a program by name, in the order in which they were declared: with tensors inside, with arrays outside.
#[derive(Clone, Debug)]
pub struct Inputs<T = Tensor>(Vec<(String, T)>);

impl<T> Inputs<T> {
    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// The names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// With the values of `other` in place of those of the same names.
    pub(super) fn with(&self, other: &Inputs<T>) -> Inputs<T>
    where
        T: Clone,
    {
        let value = |name: &str, own: &T| other.get(name).unwrap_or(own).clone();
        self.iter().map(|(name, own)| (name.to_string(), value(name, own))).collect()
    }
}

impl<T> FromIterator<(String, T)> for Inputs<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(values: I) -> Inputs<T> {
        Inputs(values.into_iter().collect())
    }
}

impl<T> Index<&str> for Inputs<T> {
    type Output = T;

    /// Panics if there is no input of this name.
    #[track_caller]
    fn index(&self, name: &str) -> &T {
        match self.get(name) {
            Some(value) => value,
            None => {
                let known: Vec<&str> = self.iter().map(|(name, _)| name).collect();
                panic!("there is no input {name:?}; there are {known:?}")
            }
        }
    }
}

impl HostTree for Inputs<Array> {
    type Tree = Inputs;
}

impl Tree for Inputs {
    type Host = Inputs<Array>;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        self.0.iter().for_each(|(name, t)| path.field(name, |path| visit(path.text(), t)));
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Inputs {
        self.0.iter().map(|(name, t)| (name.clone(), next(t))).collect()
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Inputs<Array> {
        self.0.iter().map(|(name, t)| (name.clone(), next(t))).collect()
    }

    fn visit_host(host: &Inputs<Array>, path: &mut Path, visit: &mut dyn Visit) {
        for (name, array) in &host.0 {
            visit.fact(name);
            path.field(name, |path| visit.array(path.text(), array));
        }
    }

    fn from_host(host: &Inputs<Array>, next: &mut dyn FnMut(&Array) -> Tensor) -> Inputs {
        host.0.iter().map(|(name, array)| (name.clone(), next(array))).collect()
    }
}
