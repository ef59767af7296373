//! Optimizer state: a count, and up to two trees like the parameters.

use crate::tree::{HostTree, Path, Tree, Visit};
use crate::{Array, Tensor};

/// Optimizer state between steps. The paths of `first` and `second` end with those of the parameters, so
/// rules for parameters place them too.
#[derive(Clone, Debug)]
pub struct OptimizerState<A, T = Tensor> {
    /// How many steps were made, an `i32` scalar.
    pub step: T,
    /// Averages of gradients, or the velocity.
    pub first: Option<A>,
    /// Averages of their squares.
    pub second: Option<A>,
}

impl<A: HostTree> HostTree for OptimizerState<A, Array> {
    type Tree = OptimizerState<A::Tree>;
}

impl<A: Tree> Tree for OptimizerState<A> {
    type Host = OptimizerState<A::Host, Array>;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        path.field("step", |p| self.step.tensors(p, visit));
        path.field("first", |p| self.first.tensors(p, visit));
        path.field("second", |p| self.second.tensors(p, visit));
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        OptimizerState {
            step: self.step.map(next),
            first: Tree::map(&self.first, next),
            second: Tree::map(&self.second, next),
        }
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Self::Host {
        OptimizerState {
            step: self.step.to_host(next),
            first: self.first.to_host(next),
            second: self.second.to_host(next),
        }
    }

    fn visit_host(host: &Self::Host, path: &mut Path, visit: &mut dyn Visit) {
        path.field("step", |p| Tensor::visit_host(&host.step, p, visit));
        path.field("first", |p| Option::<A>::visit_host(&host.first, p, visit));
        path.field("second", |p| Option::<A>::visit_host(&host.second, p, visit));
    }

    fn from_host(host: &Self::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> Self {
        OptimizerState {
            step: Tensor::from_host(&host.step, next),
            first: Option::<A>::from_host(&host.first, next),
            second: Option::<A>::from_host(&host.second, next),
        }
    }
}
