//! The function behind each elementwise operation, one row per operation, one column per class of element.

use super::op::{Body, Extra};
use super::{int, real};
use crate::special::{self, Cplx};
use meshwork_ir::{ElementClass, ElementType, OpKind};

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
        OpKind::Abs => row.int1(|a, _| a.wrapping_abs(), |a, _| a).real(f64::abs).part(Cplx::abs),
        OpKind::Cbrt => row.real(f64::cbrt).cplx(Cplx::cbrt),
        OpKind::Ceil => row.real(f64::ceil),
        OpKind::Convert => Row::any(Body::Convert),
        OpKind::Cosine => row.real(f64::cos).cplx(Cplx::cos),
        OpKind::CountLeadingZeros => row.bits1(int::leading_zeros),
        OpKind::Exponential => row.real(f64::exp).cplx(Cplx::exp),
        OpKind::ExponentialMinusOne => row.real(f64::exp_m1).cplx(Cplx::exp_m1),
        OpKind::Floor => row.real(f64::floor),
        OpKind::Imag => row.real(|_| 0.0).part(|z| z.im),
        OpKind::IsFinite => row.test(f64::is_finite),
        OpKind::Log => row.real(f64::ln).cplx(Cplx::ln),
        OpKind::LogPlusOne => row.real(f64::ln_1p).cplx(Cplx::ln_1p),
        OpKind::Logistic => row.real(real::logistic).cplx(Cplx::logistic),
        OpKind::Negate => row.int1(|a, _| a.wrapping_neg(), |a, _| a.wrapping_neg()).real(|a| -a).cplx(|z| -z),
        OpKind::Not => row.bool1(|a| !a).bits1(|a, _| !a),
        OpKind::Popcnt => row.bits1(int::popcnt),
        OpKind::Real => row.real(|a| a).part(|z| z.re),
        OpKind::ReducePrecision => {
            extra.precision.map_or(row, |(exponent, mantissa)| row.float(Body::ReducePrecision(exponent, mantissa)))
        }
        OpKind::RoundNearestAfz => row.real(f64::round),
        OpKind::RoundNearestEven => row.real(f64::round_ties_even),
        OpKind::Rsqrt => row.real(real::rsqrt).cplx(Cplx::rsqrt),
        OpKind::Sign => row.int1(|a, _| a.signum(), |a, _| u64::from(a != 0)).real(real::sign).cplx(Cplx::sign),
        OpKind::Sine => row.real(f64::sin).cplx(Cplx::sin),
        OpKind::Sqrt => row.real(f64::sqrt).cplx(Cplx::sqrt),
        OpKind::Tan | OpKind::ChloTan => row.real(f64::tan).cplx(Cplx::tan),
        OpKind::Tanh => row.real(f64::tanh).cplx(Cplx::tanh),

        OpKind::Add => row
            .bool2(|a, b| a | b)
            .int2(|a, b, _| a.wrapping_add(b), |a, b, _| a.wrapping_add(b))
            .real2(|a, b| a + b)
            .cplx2(|a, b| a + b),
        OpKind::And => row.bool2(|a, b| a & b).bits2(|a, b, _| a & b),
        OpKind::Atan2 => row.real2(f64::atan2).cplx2(Cplx::atan2),
        OpKind::Compare => extra.compare.map_or(row, |comparison| Row::any(Body::Compare(comparison))),
        OpKind::Complex => row.float(Body::MakeComplex),
        OpKind::Divide => row.int2(int::div_signed, int::div_unsigned).real2(|a, b| a / b).cplx2(|a, b| a / b),
        OpKind::Maximum => row
            .bool2(|a, b| a | b)
            .int2(|a, b, _| a.max(b), |a, b, _| a.max(b))
            .real2(real::maximum)
            .cplx2(Cplx::maximum),
        OpKind::Minimum => row
            .bool2(|a, b| a & b)
            .int2(|a, b, _| a.min(b), |a, b, _| a.min(b))
            .real2(real::minimum)
            .cplx2(Cplx::minimum),
        OpKind::Multiply => row
            .bool2(|a, b| a & b)
            .int2(|a, b, _| a.wrapping_mul(b), |a, b, _| a.wrapping_mul(b))
            .real2(|a, b| a * b)
            .cplx2(|a, b| a * b),
        OpKind::Or => row.bool2(|a, b| a | b).bits2(|a, b, _| a | b),
        OpKind::Power => row.int2(int::pow_signed, int::pow_unsigned).real2(f64::powf).cplx2(Cplx::pow),
        OpKind::Remainder => row.int2(int::rem_signed, int::rem_unsigned).real2(|a, b| a % b),
        OpKind::ShiftLeft => row.bits2(int::shift_left),
        OpKind::ShiftRightArithmetic => row.bits2(int::shift_right_arithmetic),
        OpKind::ShiftRightLogical => row.bits2(int::shift_right_logical),
        OpKind::Subtract => {
            row.int2(|a, b, _| a.wrapping_sub(b), |a, b, _| a.wrapping_sub(b)).real2(|a, b| a - b).cplx2(|a, b| a - b)
        }
        OpKind::Xor => row.bool2(|a, b| a ^ b).bits2(|a, b, _| a ^ b),
        OpKind::Clamp => Row::any(Body::Clamp),
        OpKind::Select => Row::any(Body::Select),

        OpKind::ChloAcos => row.real(f64::acos).cplx(Cplx::acos),
        OpKind::ChloAcosh => row.real(special::acosh).cplx(Cplx::acosh),
        OpKind::ChloAsin => row.real(f64::asin).cplx(Cplx::asin),
        OpKind::ChloAsinAcosKernel => row.cplx(Cplx::asin_acos_kernel),
        OpKind::ChloAsinh => row.real(special::asinh).cplx(Cplx::asinh),
        OpKind::ChloAtan => row.real(f64::atan).cplx(Cplx::atan),
        OpKind::ChloAtanh => row.real(special::atanh).cplx(Cplx::atanh),
        OpKind::ChloBesselI1e => row.real(special::bessel_i1e),
        OpKind::ChloConj => row.real(|a| a).cplx(Cplx::conj),
        OpKind::ChloCosh => row.real(f64::cosh).cplx(Cplx::cosh),
        OpKind::ChloDigamma => row.real(special::digamma),
        OpKind::ChloErf => row.real(special::erf),
        OpKind::ChloErfInv => row.real(special::erf_inv),
        OpKind::ChloErfc => row.real(special::erfc),
        OpKind::ChloIsInf => row.test(f64::is_infinite),
        OpKind::ChloIsNegInf => row.test(|a| a == f64::NEG_INFINITY),
        OpKind::ChloIsPosInf => row.test(|a| a == f64::INFINITY),
        OpKind::ChloLgamma => row.real(special::lgamma),
        OpKind::ChloMulhi => row.int2(int::mulhi_signed, int::mulhi_unsigned),
        OpKind::ChloNextAfter => row.float(Body::NextAfter),
        OpKind::ChloPolygamma => row.real2(special::polygamma),
        OpKind::ChloSinh => row.real(f64::sinh).cplx(Cplx::sinh),
        OpKind::ChloSquare => {
            row.int1(|a, _| a.wrapping_mul(a), |a, _| a.wrapping_mul(a)).real(|a| a * a).cplx(Cplx::square)
        }
        OpKind::ChloZeta => row.real2(special::zeta),

        // Elementwise, but on quantized types.
        OpKind::UniformDequantize | OpKind::UniformQuantize => return None,

        // Not elementwise.
        OpKind::Module
        | OpKind::Func
        | OpKind::Call
        | OpKind::FuncReturn
        | OpKind::Constant
        | OpKind::Iota
        | OpKind::PartitionId
        | OpKind::ReplicaId
        | OpKind::Rng
        | OpKind::RngBitGenerator
        | OpKind::BitcastConvert
        | OpKind::Broadcast
        | OpKind::BroadcastInDim
        | OpKind::Concatenate
        | OpKind::DynamicSlice
        | OpKind::DynamicUpdateSlice
        | OpKind::Gather
        | OpKind::GetDimensionSize
        | OpKind::Pad
        | OpKind::Reshape
        | OpKind::Reverse
        | OpKind::SetDimensionSize
        | OpKind::Slice
        | OpKind::TorchIndexSelect
        | OpKind::Transpose
        | OpKind::DynamicBroadcastInDim
        | OpKind::DynamicConv
        | OpKind::DynamicGather
        | OpKind::DynamicIota
        | OpKind::DynamicPad
        | OpKind::DynamicReshape
        | OpKind::RealDynamicSlice
        | OpKind::Cholesky
        | OpKind::Convolution
        | OpKind::Dot
        | OpKind::DotGeneral
        | OpKind::Einsum
        | OpKind::UnaryEinsum
        | OpKind::Fft
        | OpKind::TriangularSolve
        | OpKind::BatchNormGrad
        | OpKind::BatchNormInference
        | OpKind::BatchNormTraining
        | OpKind::Map
        | OpKind::Reduce
        | OpKind::ReduceWindow
        | OpKind::Scatter
        | OpKind::SelectAndScatter
        | OpKind::Sort
        | OpKind::Case
        | OpKind::If
        | OpKind::While
        | OpKind::HloReturn
        | OpKind::AllGather
        | OpKind::AllReduce
        | OpKind::AllToAll
        | OpKind::CollectiveBroadcast
        | OpKind::CollectivePermute
        | OpKind::CollectiveReduce
        | OpKind::CrossReplicaSum
        | OpKind::ReduceScatter
        | OpKind::AfterAll
        | OpKind::AsyncDone
        | OpKind::AsyncStart
        | OpKind::Composite
        | OpKind::CreateToken
        | OpKind::CustomCall
        | OpKind::GetTupleElement
        | OpKind::Infeed
        | OpKind::OptimizationBarrier
        | OpKind::Outfeed
        | OpKind::Recv
        | OpKind::Send
        | OpKind::Tuple
        | OpKind::ChloConstant
        | OpKind::ChloConstantLike
        | OpKind::ChloRaggedDot
        | OpKind::ChloScan
        | OpKind::ChloTopK
        | meshwork_ir::sdy_ops!()
        | OpKind::CheckExpectAlmostEq
        | OpKind::CheckExpectAlmostEqConst
        | OpKind::CheckExpectClose
        | OpKind::CheckExpectEq
        | OpKind::CheckExpectEqConst
        | OpKind::CheckExpectSerializedEq
        | OpKind::InterpreterPrint
        | OpKind::InterpreterProbe
        | OpKind::InterpreterRunParallel
        | OpKind::Unregistered => return None,
    })
}
