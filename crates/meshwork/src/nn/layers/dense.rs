//! Products with a matrix, and rows of a table.

use super::init::lecun_normal;
use crate::ElementType::F32;
use crate::ops::zeros;
use crate::{Int, Key, Tensor, Tree};

/// `x W + b` along the last dimension of `x`.
#[derive(Clone, Debug, Tree)]
pub struct Linear<T = Tensor> {
    /// `[inputs, outputs]`.
    pub weight: T,
    /// `[outputs]`.
    pub bias: Option<T>,
}

impl Linear {
    /// Weights from LeCun's normal distribution, a bias of zeros.
    #[track_caller]
    pub fn init(key: &Key, inputs: impl Int, outputs: impl Int) -> Linear {
        let bias = Some(zeros([outputs.int()], F32));
        Linear { bias, ..Linear::without_bias(key, inputs, outputs) }
    }

    /// As [`init`](Linear::init), and no bias.
    #[track_caller]
    pub fn without_bias(key: &Key, inputs: impl Int, outputs: impl Int) -> Linear {
        let (inputs, outputs) = (inputs.int(), outputs.int());
        Linear { weight: lecun_normal(key, [inputs, outputs], inputs), bias: None }
    }

    /// The layer on `[.., inputs]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        let y = x.matmul(&self.weight);
        match &self.bias {
            Some(bias) => y + bias,
            None => y,
        }
    }
}

/// A row of a table for each number.
#[derive(Clone, Debug, Tree)]
pub struct Embedding<T = Tensor> {
    /// `[count, features]`.
    pub table: T,
}

impl Embedding {
    /// Rows from the normal distribution with variance `1 / features`.
    #[track_caller]
    pub fn init(key: &Key, count: impl Int, features: impl Int) -> Embedding {
        let (count, features) = (count.int(), features.int());
        Embedding { table: key.normal([count, features], F32) * (1.0 / features as f64).sqrt() }
    }

    /// The rows of integers of any shape, as a last dimension.
    #[track_caller]
    pub fn apply(&self, numbers: &Tensor) -> Tensor {
        self.table.take(numbers, 0)
    }

    /// How much `[.., features]` are like each row: the product with the table, for outputs that share it.
    #[track_caller]
    pub fn attend(&self, x: &Tensor) -> Tensor {
        x.matmul(self.table.swap_axes(0, 1))
    }
}
