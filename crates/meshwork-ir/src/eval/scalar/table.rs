//! The function behind each elementwise operation, one row per operation, one column per class of element.

use super::op::{Body, Extra};
use super::{int, real};
use crate::eval::special::{self, Cplx};
use crate::op::{
    BinaryOp, BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp,
    SourceOp, TokenOp, UnaryOp,
};
use crate::{ElementClass, ElementType, OpKind};

/// What an operation does to elements of each class; `None` where it is not defined.
#[derive(Clone, Copy, Default)]
struct Row {
    boolean: Option<Body>,
    signed: Option<Body>,
    unsigned: Option<Body>,
    float: Option<Body>,
    complex: Option<Body>,
}

impl Row {
    const fn empty() -> Row {
        Row { boolean: None, signed: None, unsigned: None, float: None, complex: None }
    }

    /// Defined for every class in the same way.
    const fn any(body: Body) -> Row {
        let body = Some(body);
        Row { boolean: body, signed: body, unsigned: body, float: body, complex: body }
    }

    const fn bool1(mut self, f: fn(bool) -> bool) -> Row {
        self.boolean = Some(Body::Bool1(f));
        self
    }

    const fn bool2(mut self, f: fn(bool, bool) -> bool) -> Row {
        self.boolean = Some(Body::Bool2(f));
        self
    }

    const fn int1(mut self, signed: fn(i64, usize) -> i64, unsigned: fn(u64, usize) -> u64) -> Row {
        self.signed = Some(Body::Int1(signed));
        self.unsigned = Some(Body::UInt1(unsigned));
        self
    }

    const fn int2(mut self, signed: fn(i64, i64, usize) -> i64, unsigned: fn(u64, u64, usize) -> u64) -> Row {
        self.signed = Some(Body::Int2(signed));
        self.unsigned = Some(Body::UInt2(unsigned));
        self
    }

    const fn bits1(mut self, f: fn(u64, usize) -> u64) -> Row {
        self.signed = Some(Body::Bits1(f));
        self.unsigned = Some(Body::Bits1(f));
        self
    }

    const fn bits2(mut self, f: fn(u64, u64, usize) -> u64) -> Row {
        self.signed = Some(Body::Bits2(f));
        self.unsigned = Some(Body::Bits2(f));
        self
    }

    const fn real(mut self, f: fn(f64) -> f64) -> Row {
        self.float = Some(Body::Real1(f));
        self
    }

    const fn real2(mut self, f: fn(f64, f64) -> f64) -> Row {
        self.float = Some(Body::Real2(f));
        self
    }

    const fn test(mut self, f: fn(f64) -> bool) -> Row {
        self.float = Some(Body::RealTest(f));
        self
    }

    const fn float(mut self, body: Body) -> Row {
        self.float = Some(body);
        self
    }

    const fn cplx(mut self, f: fn(Cplx) -> Cplx) -> Row {
        self.complex = Some(Body::Complex1(f));
        self
    }

    const fn cplx2(mut self, f: fn(Cplx, Cplx) -> Cplx) -> Row {
        self.complex = Some(Body::Complex2(f));
        self
    }

    const fn part(mut self, f: fn(Cplx) -> f64) -> Row {
        self.complex = Some(Body::ComplexToReal(f));
        self
    }
}

/// What `kind` does to elements of type `arg`; `None` if it is not elementwise or not defined for the type.
pub(super) fn body(kind: OpKind, arg: ElementType, extra: Extra) -> Option<Body> {
    let row = row(kind, extra)?;
    match arg.class() {
        ElementClass::Bool => row.boolean,
        ElementClass::Signed => row.signed,
        ElementClass::Unsigned => row.unsigned,
        ElementClass::Float => row
            .float
            .filter(|body| !matches!(body, Body::MakeComplex) || matches!(arg, ElementType::F32 | ElementType::F64)),
        ElementClass::Complex => row.complex,
    }
}

fn row(kind: OpKind, extra: Extra) -> Option<Row> {
    let row = Row::empty();
    Some(match kind {
        OpKind::Unary(UnaryOp::Abs) => row.int1(|a, _| a.wrapping_abs(), |a, _| a).real(f64::abs).part(Cplx::abs),
        OpKind::Unary(UnaryOp::Cbrt) => row.real(f64::cbrt).cplx(Cplx::cbrt),
        OpKind::Unary(UnaryOp::Ceil) => row.real(f64::ceil),
        OpKind::Mixed(MixedOp::Convert) => Row::any(Body::Convert),
        OpKind::Unary(UnaryOp::Cosine) => row.real(f64::cos).cplx(Cplx::cos),
        OpKind::Unary(UnaryOp::CountLeadingZeros) => row.bits1(int::leading_zeros),
        OpKind::Unary(UnaryOp::Exponential) => row.real(f64::exp).cplx(Cplx::exp),
        OpKind::Unary(UnaryOp::ExponentialMinusOne) => row.real(f64::exp_m1).cplx(Cplx::exp_m1),
        OpKind::Unary(UnaryOp::Floor) => row.real(f64::floor),
        OpKind::Unary(UnaryOp::Imag) => row.real(|_| 0.0).part(|z| z.im),
        OpKind::Unary(UnaryOp::IsFinite) => row.test(f64::is_finite),
        OpKind::Unary(UnaryOp::Log) => row.real(f64::ln).cplx(Cplx::ln),
        OpKind::Unary(UnaryOp::LogPlusOne) => row.real(f64::ln_1p).cplx(Cplx::ln_1p),
        OpKind::Unary(UnaryOp::Logistic) => row.real(real::logistic).cplx(Cplx::logistic),
        OpKind::Unary(UnaryOp::Negate) => {
            row.int1(|a, _| a.wrapping_neg(), |a, _| a.wrapping_neg()).real(|a| -a).cplx(|z| -z)
        }
        OpKind::Unary(UnaryOp::Not) => row.bool1(|a| !a).bits1(|a, _| !a),
        OpKind::Unary(UnaryOp::Popcnt) => row.bits1(int::popcnt),
        OpKind::Unary(UnaryOp::Real) => row.real(|a| a).part(|z| z.re),
        OpKind::Mixed(MixedOp::ReducePrecision) => {
            extra.precision.map_or(row, |(exponent, mantissa)| row.float(Body::ReducePrecision(exponent, mantissa)))
        }
        OpKind::Unary(UnaryOp::RoundNearestAfz) => row.real(f64::round),
        OpKind::Unary(UnaryOp::RoundNearestEven) => row.real(f64::round_ties_even),
        OpKind::Unary(UnaryOp::Rsqrt) => row.real(real::rsqrt).cplx(Cplx::rsqrt),
        OpKind::Unary(UnaryOp::Sign) => {
            row.int1(|a, _| a.signum(), |a, _| u64::from(a != 0)).real(real::sign).cplx(Cplx::sign)
        }
        OpKind::Unary(UnaryOp::Sine) => row.real(f64::sin).cplx(Cplx::sin),
        OpKind::Unary(UnaryOp::Sqrt) => row.real(f64::sqrt).cplx(Cplx::sqrt),
        OpKind::Unary(UnaryOp::Tan | UnaryOp::ChloTan) => row.real(f64::tan).cplx(Cplx::tan),
        OpKind::Unary(UnaryOp::Tanh) => row.real(f64::tanh).cplx(Cplx::tanh),

        OpKind::Binary(BinaryOp::Add) => row
            .bool2(|a, b| a | b)
            .int2(|a, b, _| a.wrapping_add(b), |a, b, _| a.wrapping_add(b))
            .real2(|a, b| a + b)
            .cplx2(|a, b| a + b),
        OpKind::Binary(BinaryOp::And) => row.bool2(|a, b| a & b).bits2(|a, b, _| a & b),
        OpKind::Binary(BinaryOp::Atan2) => row.real2(f64::atan2).cplx2(Cplx::atan2),
        OpKind::Mixed(MixedOp::Compare) => extra.compare.map_or(row, |comparison| Row::any(Body::Compare(comparison))),
        OpKind::Binary(BinaryOp::Complex) => row.float(Body::MakeComplex),
        OpKind::Binary(BinaryOp::Divide) => {
            row.int2(int::div_signed, int::div_unsigned).real2(|a, b| a / b).cplx2(|a, b| a / b)
        }
        OpKind::Binary(BinaryOp::Maximum) => row
            .bool2(|a, b| a | b)
            .int2(|a, b, _| a.max(b), |a, b, _| a.max(b))
            .real2(real::maximum)
            .cplx2(Cplx::maximum),
        OpKind::Binary(BinaryOp::Minimum) => row
            .bool2(|a, b| a & b)
            .int2(|a, b, _| a.min(b), |a, b, _| a.min(b))
            .real2(real::minimum)
            .cplx2(Cplx::minimum),
        OpKind::Binary(BinaryOp::Multiply) => row
            .bool2(|a, b| a & b)
            .int2(|a, b, _| a.wrapping_mul(b), |a, b, _| a.wrapping_mul(b))
            .real2(|a, b| a * b)
            .cplx2(|a, b| a * b),
        OpKind::Binary(BinaryOp::Or) => row.bool2(|a, b| a | b).bits2(|a, b, _| a | b),
        OpKind::Binary(BinaryOp::Power) => {
            row.int2(int::pow_signed, int::pow_unsigned).real2(f64::powf).cplx2(Cplx::pow)
        }
        OpKind::Binary(BinaryOp::Remainder) => row.int2(int::rem_signed, int::rem_unsigned).real2(|a, b| a % b),
        OpKind::Binary(BinaryOp::ShiftLeft) => row.bits2(int::shift_left),
        OpKind::Binary(BinaryOp::ShiftRightArithmetic) => row.bits2(int::shift_right_arithmetic),
        OpKind::Binary(BinaryOp::ShiftRightLogical) => row.bits2(int::shift_right_logical),
        OpKind::Binary(BinaryOp::Subtract) => {
            row.int2(|a, b, _| a.wrapping_sub(b), |a, b, _| a.wrapping_sub(b)).real2(|a, b| a - b).cplx2(|a, b| a - b)
        }
        OpKind::Binary(BinaryOp::Xor) => row.bool2(|a, b| a ^ b).bits2(|a, b, _| a ^ b),
        OpKind::Mixed(MixedOp::Clamp) => Row::any(Body::Clamp),
        OpKind::Mixed(MixedOp::Select) => Row::any(Body::Select),

        OpKind::Unary(UnaryOp::Acos) => row.real(f64::acos).cplx(Cplx::acos),
        OpKind::Unary(UnaryOp::Acosh) => row.real(special::acosh).cplx(Cplx::acosh),
        OpKind::Unary(UnaryOp::Asin) => row.real(f64::asin).cplx(Cplx::asin),
        OpKind::Unary(UnaryOp::AsinAcosKernel) => row.cplx(Cplx::asin_acos_kernel),
        OpKind::Unary(UnaryOp::Asinh) => row.real(special::asinh).cplx(Cplx::asinh),
        OpKind::Unary(UnaryOp::Atan) => row.real(f64::atan).cplx(Cplx::atan),
        OpKind::Unary(UnaryOp::Atanh) => row.real(special::atanh).cplx(Cplx::atanh),
        OpKind::Unary(UnaryOp::BesselI1e) => row.real(special::bessel_i1e),
        OpKind::Unary(UnaryOp::Conj) => row.real(|a| a).cplx(Cplx::conj),
        OpKind::Unary(UnaryOp::Cosh) => row.real(f64::cosh).cplx(Cplx::cosh),
        OpKind::Unary(UnaryOp::Digamma) => row.real(special::digamma),
        OpKind::Unary(UnaryOp::Erf) => row.real(special::erf),
        OpKind::Unary(UnaryOp::ErfInv) => row.real(special::erf_inv),
        OpKind::Unary(UnaryOp::Erfc) => row.real(special::erfc),
        OpKind::Unary(UnaryOp::IsInf) => row.test(f64::is_infinite),
        OpKind::Unary(UnaryOp::IsNegInf) => row.test(|a| a == f64::NEG_INFINITY),
        OpKind::Unary(UnaryOp::IsPosInf) => row.test(|a| a == f64::INFINITY),
        OpKind::Unary(UnaryOp::Lgamma) => row.real(special::lgamma),
        OpKind::Binary(BinaryOp::Mulhi) => row.int2(int::mulhi_signed, int::mulhi_unsigned),
        OpKind::Binary(BinaryOp::NextAfter) => row.float(Body::NextAfter),
        OpKind::Binary(BinaryOp::Polygamma) => row.real2(special::polygamma),
        OpKind::Unary(UnaryOp::Sinh) => row.real(f64::sinh).cplx(Cplx::sinh),
        OpKind::Unary(UnaryOp::Square) => {
            row.int1(|a, _| a.wrapping_mul(a), |a, _| a.wrapping_mul(a)).real(|a| a * a).cplx(Cplx::square)
        }
        OpKind::Binary(BinaryOp::Zeta) => row.real2(special::zeta),

        // Elementwise, but on quantized types.
        OpKind::Mixed(MixedOp::UniformDequantize | MixedOp::UniformQuantize) => return None,

        // Not elementwise.
        OpKind::Control(ControlOp::Module | ControlOp::Func | ControlOp::Call | ControlOp::FuncReturn)
        | OpKind::Source(
            SourceOp::Constant
            | SourceOp::Iota
            | SourceOp::PartitionId
            | SourceOp::ReplicaId
            | SourceOp::Rng
            | SourceOp::RngBitGenerator,
        )
        | OpKind::Movement(
            MovementOp::BitcastConvert
            | MovementOp::Broadcast
            | MovementOp::BroadcastInDim
            | MovementOp::Concatenate
            | MovementOp::DynamicSlice
            | MovementOp::DynamicUpdateSlice
            | MovementOp::Gather
            | MovementOp::GetDimensionSize
            | MovementOp::Pad
            | MovementOp::Reshape
            | MovementOp::Reverse
            | MovementOp::SetDimensionSize
            | MovementOp::Slice
            | MovementOp::TorchIndexSelect
            | MovementOp::Transpose,
        )
        | OpKind::Dynamic(
            DynamicOp::BroadcastInDim
            | DynamicOp::Conv
            | DynamicOp::Gather
            | DynamicOp::Iota
            | DynamicOp::Pad
            | DynamicOp::Reshape
            | DynamicOp::Slice,
        )
        | OpKind::Linalg(LinalgOp::Cholesky)
        | OpKind::Contract(
            ContractOp::Convolution
            | ContractOp::Dot
            | ContractOp::DotGeneral
            | ContractOp::Einsum
            | ContractOp::UnaryEinsum,
        )
        | OpKind::Linalg(
            LinalgOp::Fft
            | LinalgOp::TriangularSolve
            | LinalgOp::BatchNormGrad
            | LinalgOp::BatchNormInference
            | LinalgOp::BatchNormTraining,
        )
        | OpKind::Body(
            BodyOp::Map
            | BodyOp::Reduce
            | BodyOp::ReduceWindow
            | BodyOp::Scatter
            | BodyOp::SelectAndScatter
            | BodyOp::Sort,
        )
        | OpKind::Control(ControlOp::Case | ControlOp::If | ControlOp::While | ControlOp::HloReturn)
        | OpKind::Collective(
            CollectiveOp::AllGather
            | CollectiveOp::AllReduce
            | CollectiveOp::AllToAll
            | CollectiveOp::CollectiveBroadcast
            | CollectiveOp::CollectivePermute
            | CollectiveOp::CollectiveReduce
            | CollectiveOp::CrossReplicaSum
            | CollectiveOp::ReduceScatter,
        )
        | OpKind::Token(TokenOp::AfterAll)
        | OpKind::Control(ControlOp::AsyncDone | ControlOp::AsyncStart | ControlOp::Composite)
        | OpKind::Token(TokenOp::CreateToken)
        | OpKind::Control(ControlOp::CustomCall)
        | OpKind::Token(TokenOp::GetTupleElement | TokenOp::Infeed)
        | OpKind::Control(ControlOp::OptimizationBarrier)
        | OpKind::Token(TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send | TokenOp::Tuple)
        | OpKind::Chlo(ChloOp::Constant | ChloOp::ConstantLike | ChloOp::RaggedDot | ChloOp::Scan | ChloOp::TopK)
        | OpKind::Sdy(_)
        | OpKind::Check(
            CheckOp::ExpectAlmostEq
            | CheckOp::ExpectAlmostEqConst
            | CheckOp::ExpectClose
            | CheckOp::ExpectEq
            | CheckOp::ExpectEqConst
            | CheckOp::ExpectSerializedEq
            | CheckOp::Print
            | CheckOp::Probe
            | CheckOp::RunParallel,
        )
        | OpKind::Unregistered => return None,
    })
}
