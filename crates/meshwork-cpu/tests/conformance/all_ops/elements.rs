//! Operations on elements.

use meshwork_ir::op::{BinaryOp, MixedOp, UnaryOp};
use meshwork_ir::{ElementType, OpKind};

use super::{Case, ty};

/// No element, one, some, and enough for vectors and tails.
const SHAPES: &[&[i64]] = &[&[], &[2, 0], &[7], &[3, 41]];

pub fn cases(kind: OpKind, elem: ElementType) -> Vec<Case> {
    SHAPES.iter().flat_map(|dims| of_shape(kind, elem, dims)).collect()
}

fn of_shape(kind: OpKind, elem: ElementType, dims: &[i64]) -> Vec<Case> {
    let (t, flags) = (ty(dims, elem), ty(dims, ElementType::I1));
    let (t, flags) = (t.as_str(), flags.as_str());
    match kind {
        OpKind::Mixed(MixedOp::Convert) => {
            let to = ElementType::ALL.iter();
            // Of a positive number: what a negative one becomes in an unsigned type differs between machines.
            let case = |&to: &ElementType| {
                if elem.is_float() {
                    Case::of(kind, "%a", &[t], &[t], "", "", &[&ty(dims, to)])
                        .after(&format!("%a = stablehlo.abs %x0 : {t}"))
                } else {
                    Case::new(kind, &[t], "", &[&ty(dims, to)])
                }
            };
            to.map(case).collect()
        }
        OpKind::Mixed(MixedOp::Compare) => {
            let direction = |d: &&str| {
                let attrs = format!("comparison_direction = #stablehlo<comparison_direction {d}>");
                Case::new(kind, &[t, t], &attrs, &[flags])
            };
            ["EQ", "NE", "LT", "LE", "GT", "GE"].iter().map(direction).collect()
        }
        OpKind::Mixed(MixedOp::ReducePrecision) => [(8, 7), (5, 10), (2, 3)]
            .map(|(e, m)| Case::new(kind, &[t], &format!("exponent_bits = {e} : i32, mantissa_bits = {m} : i32"), &[t]))
            .into(),
        OpKind::Mixed(MixedOp::Select) => {
            let one = ty(&[], ElementType::I1);
            vec![Case::new(kind, &[flags, t, t], "", &[t]), Case::new(kind, &[&one, t, t], "", &[t])]
        }
        OpKind::Mixed(MixedOp::Clamp) => {
            let one = ty(&[], elem);
            vec![Case::new(kind, &[t, t, t], "", &[t]), Case::new(kind, &[&one, t, &one], "", &[t])]
        }
        OpKind::Unary(UnaryOp::IsFinite | UnaryOp::IsInf | UnaryOp::IsNegInf | UnaryOp::IsPosInf) => {
            vec![Case::new(kind, &[t], "", &[flags])]
        }
        OpKind::Unary(UnaryOp::Real | UnaryOp::Imag) => vec![Case::new(kind, &[t], "", &[&ty(dims, elem.real_part())])],
        OpKind::Binary(BinaryOp::Complex) => {
            let pair = match elem {
                ElementType::F32 => ElementType::C64,
                _ => ElementType::C128,
            };
            vec![Case::new(kind, &[t, t], "", &[&ty(dims, pair)])]
        }
        // Of quantized types, which the text does not take.
        OpKind::Mixed(MixedOp::UniformDequantize | MixedOp::UniformQuantize) => vec![],
        OpKind::Binary(
            BinaryOp::Add
            | BinaryOp::And
            | BinaryOp::Atan2
            | BinaryOp::Divide
            | BinaryOp::Maximum
            | BinaryOp::Minimum
            | BinaryOp::Multiply
            | BinaryOp::Or
            | BinaryOp::Power
            | BinaryOp::Remainder
            | BinaryOp::ShiftLeft
            | BinaryOp::ShiftRightArithmetic
            | BinaryOp::ShiftRightLogical
            | BinaryOp::Subtract
            | BinaryOp::Xor
            | BinaryOp::Mulhi
            | BinaryOp::NextAfter
            | BinaryOp::Polygamma
            | BinaryOp::Zeta,
        ) => vec![Case::new(kind, &[t, t], "", &[t])],
        // One operand, and the result like it.
        _ => vec![Case::new(kind, &[t], "", &[t])],
    }
}
