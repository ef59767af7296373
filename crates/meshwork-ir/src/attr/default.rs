//! Attributes that mean the same present with their default value as absent.

use crate::op::{CheckOp, ChloOp, ControlOp, LinalgOp, SdyOp};
use crate::{Attr, ElementType, OpKind};

/// Whether attribute `name` of an operation has the value that it has when it is absent, so that the pretty form
/// leaves it out.
pub(crate) fn is_default(kind: OpKind, name: &str, attr: &Attr) -> bool {
    let no = || matches!(attr.as_bool(), Some(false));
    let empty_list = || attr.as_array().is_some_and(<[Attr]>::is_empty);
    match (kind, name) {
        (OpKind::Control(ControlOp::CustomCall), "has_side_effect") | (OpKind::Linalg(LinalgOp::Cholesky), "lower") => {
            no()
        }
        (OpKind::Control(ControlOp::CustomCall), "api_version") => matches!(attr, Attr::Int(1, ElementType::I32)),
        (OpKind::Control(ControlOp::CustomCall), "called_computations" | "output_operand_aliases") => empty_list(),
        (OpKind::Control(ControlOp::Composite), "composite_attributes") => {
            matches!(attr, Attr::Dict(d) if d.is_empty())
        }
        (OpKind::Control(ControlOp::Composite), "version") => matches!(attr, Attr::Int(0, ElementType::I32)),
        (OpKind::Chlo(ChloOp::TopK), "is_stable") => matches!(attr.as_bool(), Some(true)),
        (OpKind::Sdy(SdyOp::AllReduce | SdyOp::ReduceScatter), "reduction_op") => match attr {
            Attr::Enum(e) => e.value == "sum",
            _ => matches!(attr, Attr::Int(0, ElementType::I32)),
        },
        (OpKind::Check(CheckOp::ExpectAlmostEq | CheckOp::ExpectAlmostEqConst), "tolerance") => {
            *attr == Attr::Float(1e-4, ElementType::F64)
        }
        (OpKind::Check(CheckOp::ExpectClose), "min_ulp_difference") => matches!(attr, Attr::Int(0, ElementType::UI64)),
        (OpKind::Check(CheckOp::ExpectSerializedEq), "iteration") => matches!(attr, Attr::Int(0, ElementType::UI32)),
        (OpKind::Unary(op), "result_accuracy") if op.info().attrs.contains(&"result_accuracy") => {
            const DEFAULT: &str = "#stablehlo.result_accuracy<mode=#stablehlo.result_accuracy_mode<DEFAULT>>";
            let visible = |c: &char| !c.is_whitespace();
            matches!(attr, Attr::Opaque(text) if text.chars().filter(visible).eq(DEFAULT.chars()))
        }
        _ => false,
    }
}
