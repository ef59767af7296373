//! Products and linear algebra.

use std::sync::Arc;

use super::attrs::pairs;
use super::{BuildError, Builder};
use crate::attr::{ConvDims, DotDims};
use crate::{Attr, OpKind, OpSpec, ValueId};

/// The attributes of a convolution. Empty lists mean ones, zeros and false.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Which dimension is what.
    pub dims: ConvDims,
    /// Step of the window per spatial dimension.
    pub strides: Vec<i64>,
    /// Low and high padding per spatial dimension.
    pub padding: Vec<(i64, i64)>,
    /// Dilation of the input per spatial dimension.
    pub lhs_dilation: Vec<i64>,
    /// Dilation of the kernel per spatial dimension.
    pub rhs_dilation: Vec<i64>,
    /// Whether the kernel runs backwards, per spatial dimension.
    pub reversal: Vec<bool>,
    /// Number of feature groups.
    pub feature_groups: i64,
    /// Number of batch groups.
    pub batch_groups: i64,
}

impl Convolution {
    /// A dense convolution without padding.
    pub fn new(dims: ConvDims) -> Convolution {
        Convolution {
            dims,
            strides: vec![],
            padding: vec![],
            lhs_dilation: vec![],
            rhs_dilation: vec![],
            reversal: vec![],
            feature_groups: 1,
            batch_groups: 1,
        }
    }
}

impl Builder<'_> {
    /// The product of vectors and matrices.
    pub fn dot(&mut self, lhs: ValueId, rhs: ValueId) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Dot).operands([lhs, rhs]))
    }

    /// The product over paired dimensions: batch, then free dimensions of `lhs`, then of `rhs`.
    pub fn dot_general(&mut self, lhs: ValueId, rhs: ValueId, dims: DotDims) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::DotGeneral).operands([lhs, rhs]);
        self.value(spec.attr("dot_dimension_numbers", Attr::Dot(Arc::new(dims))))
    }

    /// The convolution of `lhs` with the kernel `rhs`.
    pub fn convolution(&mut self, lhs: ValueId, rhs: ValueId, conv: Convolution) -> Result<ValueId, BuildError> {
        let mut spec = OpSpec::new(OpKind::Convolution)
            .operands([lhs, rhs])
            .attr("dimension_numbers", Attr::Conv(Arc::new(conv.dims)))
            .attr("feature_group_count", Attr::i64(conv.feature_groups))
            .attr("batch_group_count", Attr::i64(conv.batch_groups));
        let lists = [
            ("window_strides", conv.strides),
            ("lhs_dilation", conv.lhs_dilation),
            ("rhs_dilation", conv.rhs_dilation),
        ];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            spec = spec.attr(name, Attr::i64s(list));
        }
        if !conv.padding.is_empty() {
            spec = spec.attr("padding", pairs(&conv.padding));
        }
        if !conv.reversal.is_empty() {
            spec = spec.attr("window_reversal", Attr::BoolArray(conv.reversal.into()));
        }
        self.value(spec)
    }

    /// The Cholesky factor of square matrices.
    pub fn cholesky(&mut self, a: ValueId, lower: bool) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Cholesky).operands([a]).attr("lower", Attr::Bool(lower)))
    }

    /// The Fourier transform `kind` (`FFT`, `IFFT`, `RFFT`, `IRFFT`) over the innermost dimensions.
    pub fn fft(&mut self, x: ValueId, kind: &str, lengths: &[i64]) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Fft)
            .operands([x])
            .attr("fft_type", Attr::hlo_enum("fft_type", kind))
            .attr("fft_length", Attr::i64s(lengths.iter().copied()));
        self.value(spec)
    }
}
