//! Products and linear algebra.

use std::sync::Arc;

use super::attrs::pairs;
use super::{BuildError, Builder};
use crate::attr::{ConvDims, DotDims};
use crate::module::DOT_DIMS;
use crate::op::{ChloOp, ContractOp, LinalgOp};
use crate::{Attr, AttrDict, ElementType, OpKind, OpSpec, ValueId, Values};

/// Which triangular system [`Builder::triangular_solve`] solves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// The triangular matrix is on the left.
    pub left: bool,
    /// Its lower triangle counts, else its upper one.
    pub lower: bool,
    /// Its diagonal is taken as ones.
    pub unit_diagonal: bool,
}

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

/// Which half of a square matrix is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The lower one.
    Lower,
    /// The upper one.
    Upper,
}

impl Builder<'_> {
    /// The product of vectors and matrices.
    pub fn dot(&mut self, lhs: ValueId, rhs: ValueId) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Contract(ContractOp::Dot)).operands([lhs, rhs]))
    }

    /// The product over paired dimensions: batch, then free dimensions of `lhs`, then of `rhs`.
    pub fn dot_general(&mut self, lhs: ValueId, rhs: ValueId, dims: DotDims) -> Result<ValueId, BuildError> {
        let dims = AttrDict::one(DOT_DIMS, Attr::Dot(Arc::new(dims)));
        self.emit_value(ContractOp::DotGeneral, &[lhs, rhs], dims, &[])
    }

    /// [`dot_general`](Builder::dot_general) with the batch and the contracted dimensions of both sides.
    pub fn dot_over(
        &mut self,
        lhs: ValueId,
        rhs: ValueId,
        batch: [&[i64]; 2],
        contract: [&[i64]; 2],
    ) -> Result<ValueId, BuildError> {
        let dims = self.module.context.dot(batch, contract);
        self.emit_value(ContractOp::DotGeneral, &[lhs, rhs], dims, &[])
    }

    /// The convolution of `lhs` with the kernel `rhs`.
    pub fn convolution(&mut self, lhs: ValueId, rhs: ValueId, conv: Convolution) -> Result<ValueId, BuildError> {
        let mut spec = OpSpec::new(OpKind::Contract(ContractOp::Convolution))
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
    pub fn cholesky(&mut self, a: ValueId, half: Half) -> Result<ValueId, BuildError> {
        self.value(
            OpSpec::new(OpKind::Linalg(LinalgOp::Cholesky))
                .operands([a])
                .attr("lower", Attr::Bool(half == Half::Lower)),
        )
    }

    /// The Fourier transform `kind` (`FFT`, `IFFT`, `RFFT`, `IRFFT`) over the innermost dimensions.
    pub fn fft(&mut self, x: ValueId, kind: &str, lengths: &[i64]) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Linalg(LinalgOp::Fft))
            .operands([x])
            .attr("fft_type", Attr::hlo_enum("fft_type", kind))
            .attr("fft_length", Attr::I64Array(lengths.into()));
        self.value(spec)
    }

    /// `x` with `a x = b` (or `x a = b` unless `left`), where `a` is triangular.
    ///
    /// `transpose` is `NO_TRANSPOSE`, `TRANSPOSE` or `ADJOINT`.
    pub fn triangular_solve(
        &mut self,
        a: ValueId,
        b: ValueId,
        shape: Triangle,
        transpose: &str,
    ) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Linalg(LinalgOp::TriangularSolve))
            .operands([a, b])
            .attr("left_side", Attr::Bool(shape.left))
            .attr("lower", Attr::Bool(shape.lower))
            .attr("unit_diagonal", Attr::Bool(shape.unit_diagonal))
            .attr("transpose_a", Attr::hlo_enum("transpose", transpose));
        self.value(spec)
    }

    /// `x` normalized over all dimensions but `feature`, with the mean and variance of each feature.
    pub fn batch_norm_training(
        &mut self,
        x: ValueId,
        scale: ValueId,
        offset: ValueId,
        epsilon: f64,
        feature: i64,
    ) -> Result<Values, BuildError> {
        let spec = OpSpec::new(OpKind::Linalg(LinalgOp::BatchNormTraining)).operands([x, scale, offset]);
        self.values(norm_attrs(spec, epsilon, feature))
    }

    /// `x` normalized with a given mean and variance of each feature.
    pub fn batch_norm_inference(
        &mut self,
        x: ValueId,
        [scale, offset, mean, variance]: [ValueId; 4],
        epsilon: f64,
        feature: i64,
    ) -> Result<ValueId, BuildError> {
        let spec =
            OpSpec::new(OpKind::Linalg(LinalgOp::BatchNormInference)).operands([x, scale, offset, mean, variance]);
        self.value(norm_attrs(spec, epsilon, feature))
    }

    /// Gradients of `batch_norm_training` for `x`, scale and offset, given the gradient of its first result.
    pub fn batch_norm_grad(
        &mut self,
        x: ValueId,
        [scale, mean, variance]: [ValueId; 3],
        grad: ValueId,
        epsilon: f64,
        feature: i64,
    ) -> Result<Values, BuildError> {
        let spec = OpSpec::new(OpKind::Linalg(LinalgOp::BatchNormGrad)).operands([x, scale, mean, variance, grad]);
        self.values(norm_attrs(spec, epsilon, feature))
    }

    /// The `k` largest elements along the innermost dimension, and their positions.
    pub fn top_k(&mut self, x: ValueId, k: i64) -> Result<(ValueId, ValueId), BuildError> {
        let out = self.values(OpSpec::new(OpKind::Chlo(ChloOp::TopK)).operands([x]).attr("k", Attr::i64(k)))?;
        Ok((out[0], out[1]))
    }
}

fn norm_attrs(spec: OpSpec, epsilon: f64, feature: i64) -> OpSpec {
    // The attribute is an f32, so that is the value it can hold.
    let epsilon = f64::from(epsilon as f32);
    spec.attr("epsilon", Attr::Float(epsilon, ElementType::F32)).attr("feature_index", Attr::i64(feature))
}
