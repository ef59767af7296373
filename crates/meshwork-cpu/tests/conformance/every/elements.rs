//! Operations on elements.

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
        OpKind::Convert => {
            let to = ElementType::ALL.iter();
            // Of a positive number: what a negative one becomes in an unsigned type differs between machines.
            let case = |&to: &ElementType| match elem.is_float() {
                true => Case::of(kind, "%a", &[t], &[t], "", "", &[&ty(dims, to)])
                    .after(&format!("%a = stablehlo.abs %x0 : {t}")),
                false => Case::new(kind, &[t], "", &[&ty(dims, to)]),
            };
            to.map(case).collect()
        }
        OpKind::Compare => {
            let direction = |d: &&str| {
                let attrs = format!("comparison_direction = #stablehlo<comparison_direction {d}>");
                Case::new(kind, &[t, t], &attrs, &[flags])
            };
            ["EQ", "NE", "LT", "LE", "GT", "GE"].iter().map(direction).collect()
        }
        OpKind::ReducePrecision => [(8, 7), (5, 10), (2, 3)]
            .map(|(e, m)| Case::new(kind, &[t], &format!("exponent_bits = {e} : i32, mantissa_bits = {m} : i32"), &[t]))
            .into(),
        OpKind::Select => {
            let one = ty(&[], ElementType::I1);
            vec![Case::new(kind, &[flags, t, t], "", &[t]), Case::new(kind, &[&one, t, t], "", &[t])]
        }
        OpKind::Clamp => {
            let one = ty(&[], elem);
            vec![Case::new(kind, &[t, t, t], "", &[t]), Case::new(kind, &[&one, t, &one], "", &[t])]
        }
        OpKind::IsFinite | OpKind::ChloIsInf | OpKind::ChloIsNegInf | OpKind::ChloIsPosInf => {
            vec![Case::new(kind, &[t], "", &[flags])]
        }
        OpKind::Real | OpKind::Imag => vec![Case::new(kind, &[t], "", &[&ty(dims, elem.real_part())])],
        OpKind::Complex => {
            let pair = match elem {
                ElementType::F32 => ElementType::C64,
                _ => ElementType::C128,
            };
            vec![Case::new(kind, &[t, t], "", &[&ty(dims, pair)])]
        }
        // Of quantized types, which the text does not take.
        OpKind::UniformDequantize | OpKind::UniformQuantize => vec![],
        OpKind::Add
        | OpKind::And
        | OpKind::Atan2
        | OpKind::Divide
        | OpKind::Maximum
        | OpKind::Minimum
        | OpKind::Multiply
        | OpKind::Or
        | OpKind::Power
        | OpKind::Remainder
        | OpKind::ShiftLeft
        | OpKind::ShiftRightArithmetic
        | OpKind::ShiftRightLogical
        | OpKind::Subtract
        | OpKind::Xor
        | OpKind::ChloMulhi
        | OpKind::ChloNextAfter
        | OpKind::ChloPolygamma
        | OpKind::ChloZeta => vec![Case::new(kind, &[t, t], "", &[t])],
        // One operand, and the result like it.
        _ => vec![Case::new(kind, &[t], "", &[t])],
    }
}
