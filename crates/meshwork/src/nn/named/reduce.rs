//! Reductions, positions, orders and running combinations along named axes.

use super::{Axis, NamedTensor};
use crate::Tensor;
use crate::error::fail;

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl NamedTensor {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(&self, names: &[&str]) -> NamedTensor {
                    self.without(stringify!($name), names, Tensor::$name)
                }
            )*
        }
    };
}

reductions! {
    /// The largest over these axes.
    max;
    /// The smallest over these axes.
    min;
    /// The product over these axes.
    prod;
    /// Whether all elements along these axes hold.
    all;
    /// Whether any element along these axes holds.
    any;
    /// The variance over these axes.
    var;
    /// The standard deviation over these axes.
    std;
}

macro_rules! along {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl NamedTensor {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(&self, name: &str) -> NamedTensor {
                    let dim = self.position(stringify!($name), name) as i64;
                    self.apply(|t| t.$name(dim))
                }
            )*
        }
    };
}

along! {
    /// The elements along an axis in ascending order.
    sort;
    /// The positions of the elements along an axis in ascending order.
    argsort;
    /// The sums of the elements up to each along an axis.
    cumsum;
    /// The products of the elements up to each along an axis.
    cumprod;
    /// The largest of the elements up to each along an axis.
    cummax;
    /// The smallest of the elements up to each along an axis.
    cummin;
}

macro_rules! removing {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl NamedTensor {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(&self, name: &str) -> NamedTensor {
                    self.without(stringify!($name), &[name], |t, dims| t.$name(dims[0]))
                }
            )*
        }
    };
}

removing! {
    /// The position of the largest element along an axis.
    argmax;
    /// The position of the smallest element along an axis.
    argmin;
    /// The logarithm of the sum of exponentials along an axis.
    logsumexp;
    /// The middle element along an axis.
    median;
}

impl NamedTensor {
    /// The sum of all elements, a scalar tensor.
    #[track_caller]
    pub fn sum_all(&self) -> Tensor {
        self.array().sum_all()
    }

    /// The largest element of all, a scalar tensor.
    #[track_caller]
    pub fn max_all(&self) -> Tensor {
        self.array().max_all()
    }

    /// The smallest element of all, a scalar tensor.
    #[track_caller]
    pub fn min_all(&self) -> Tensor {
        self.array().min_all()
    }

    /// The largest elements along the axis `name`, and where they stand, along `of`, which says how many.
    #[track_caller]
    pub fn top_k(&self, name: &str, of: &Axis) -> (NamedTensor, NamedTensor) {
        let dim = self.position("top_k", name);
        let size = self.axes()[dim].size();
        if of.size() > size {
            fail("top_k", format!("{of:?} is longer than {:?}", self.axes()[dim]));
        }
        let mut last: Vec<&str> = self.axes().iter().map(Axis::name).filter(|n| *n != name).collect();
        last.push(name);
        let moved = self.rearrange(&last);
        let (values, positions) = moved.array().top_k(of.size());
        let mut axes = moved.axes().to_vec();
        axes[last.len() - 1] = of.clone();
        (NamedTensor::new(values, &axes), NamedTensor::new(positions, &axes))
    }
}
