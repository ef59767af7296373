//! Attributes that mean the same present with their default value as absent.

use crate::{Attr, ElementType, OpKind};

/// Whether attribute `name` of an operation has the value that it has when it is absent, so that the pretty form
/// leaves it out.
pub(crate) fn is_default(kind: OpKind, name: &str, attr: &Attr) -> bool {
    use OpKind::*;
    let no = || matches!(attr.as_bool(), Some(false));
    let empty_list = || attr.as_array().is_some_and(<[Attr]>::is_empty);
    match (kind, name) {
        (CustomCall, "has_side_effect") | (Cholesky, "lower") => no(),
        (CustomCall, "api_version") => matches!(attr, Attr::Int(1, ElementType::I32)),
        (CustomCall, "called_computations" | "output_operand_aliases") => empty_list(),
        (Composite, "composite_attributes") => matches!(attr, Attr::Dict(d) if d.is_empty()),
        (Composite, "version") => matches!(attr, Attr::Int(0, ElementType::I32)),
        (ChloTopK, "is_stable") => matches!(attr.as_bool(), Some(true)),
        (SdyAllReduce | SdyReduceScatter, "reduction_op") => match attr {
            Attr::Enum(e) => e.value == "sum",
            _ => matches!(attr, Attr::Int(0, ElementType::I32)),
        },
        (CheckExpectAlmostEq | CheckExpectAlmostEqConst, "tolerance") => *attr == Attr::Float(1e-4, ElementType::F64),
        (CheckExpectClose, "min_ulp_difference") => matches!(attr, Attr::Int(0, ElementType::UI64)),
        (CheckExpectSerializedEq, "iteration") => matches!(attr, Attr::Int(0, ElementType::UI32)),
        (
            Cbrt | Cosine | Exponential | ExponentialMinusOne | Log | LogPlusOne | Logistic | Rsqrt | Sine | Sqrt | Tan
            | Tanh,
            "result_accuracy",
        ) => {
            const DEFAULT: &str = "#stablehlo.result_accuracy<mode=#stablehlo.result_accuracy_mode<DEFAULT>>";
            let visible = |c: &char| !c.is_whitespace();
            matches!(attr, Attr::Opaque(text) if text.chars().filter(visible).eq(DEFAULT.chars()))
        }
        _ => false,
    }
}
