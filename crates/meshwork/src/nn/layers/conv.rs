//! Convolutions with a bias.

use super::init::lecun_normal;
use crate::ElementType::F32;
use crate::ops::zeros;
use crate::{Conv, Int, Key, Padding, Tensor, Tree};

/// A convolution of `[batch, spatial.., inputs]`, and a bias.
#[derive(Clone, Debug, Tree)]
pub struct ConvLayer<T = Tensor> {
    /// `[window.., inputs / groups, outputs]`.
    pub kernel: T,
    /// `[outputs]`.
    pub bias: Option<T>,
    /// Steps, padding, dilation and groups.
    #[tree(skip)]
    pub options: Conv,
}

impl ConvLayer {
    /// A kernel from LeCun's normal distribution, a bias of zeros, steps of 1, and padding that keeps the extents.
    #[track_caller]
    pub fn init(key: &Key, window: &[i64], inputs: impl Int, outputs: impl Int) -> ConvLayer {
        ConvLayer::with(key, window, inputs, outputs, Conv { padding: Padding::Same, ..Conv::default() })
    }

    /// As [`init`](ConvLayer::init), with other options.
    #[track_caller]
    pub fn with(key: &Key, window: &[i64], inputs: impl Int, outputs: impl Int, options: Conv) -> ConvLayer {
        let (inputs, outputs) = (inputs.int() / options.groups.max(1), outputs.int());
        let mut shape = window.to_vec();
        shape.extend([inputs, outputs]);
        let seen = window.iter().product::<i64>() * inputs;
        ConvLayer { kernel: lecun_normal(key, shape, seen), bias: Some(zeros([outputs], F32)), options }
    }

    /// The layer on `[batch, spatial.., inputs]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        let y = x.conv(&self.kernel, &self.options);
        match &self.bias {
            Some(bias) => y + bias,
            None => y,
        }
    }
}
