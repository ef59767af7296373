//! Operations that work element by element, all of the op table.

use meshwork_ir::OpKind;
use meshwork_ir::op::{BinaryOp, MixedOp, UnaryOp};

use crate::cases::{Program, SIZES, conform, program, t};

/// Operand element types and the result's of an elementwise operation; `None`: not one this suite can build.
fn signature(kind: OpKind) -> Option<(Vec<&'static str>, &'static str)> {
    Some(match kind {
        // Quantized types have no arithmetic here; the kernel is an implementation detail with one user.
        OpKind::Mixed(MixedOp::UniformDequantize | MixedOp::UniformQuantize)
        | OpKind::Unary(UnaryOp::AsinAcosKernel) => return None,
        OpKind::Mixed(
            MixedOp::Compare | MixedOp::Select | MixedOp::Clamp | MixedOp::Convert | MixedOp::ReducePrecision,
        ) => return None, // below
        OpKind::Binary(BinaryOp::Complex) => (vec!["f32", "f32"], "complex<f32>"),
        OpKind::Unary(UnaryOp::Real | UnaryOp::Imag) => (vec!["complex<f32>"], "f32"),
        OpKind::Unary(UnaryOp::Conj) => (vec!["complex<f32>"], "complex<f32>"),
        OpKind::Unary(UnaryOp::IsFinite | UnaryOp::IsInf | UnaryOp::IsNegInf | UnaryOp::IsPosInf) => {
            (vec!["f32"], "i1")
        }
        OpKind::Unary(UnaryOp::CountLeadingZeros | UnaryOp::Not | UnaryOp::Popcnt) => (vec!["i32"], "i32"),
        OpKind::Binary(
            BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::ShiftLeft
            | BinaryOp::ShiftRightArithmetic
            | BinaryOp::ShiftRightLogical
            | BinaryOp::Mulhi,
        ) => (vec!["i32", "i32"], "i32"),
        OpKind::Binary(
            BinaryOp::Add
            | BinaryOp::Atan2
            | BinaryOp::Divide
            | BinaryOp::Maximum
            | BinaryOp::Minimum
            | BinaryOp::Multiply
            | BinaryOp::Power
            | BinaryOp::Remainder
            | BinaryOp::Subtract
            | BinaryOp::NextAfter
            | BinaryOp::Polygamma
            | BinaryOp::Zeta,
        ) => (vec!["f32", "f32"], "f32"),
        _ => (vec!["f32"], "f32"),
    })
}

fn elementwise_program(kind: OpKind, dims: &[i64]) -> Option<Program> {
    let (operands, result) = signature(kind)?;
    let args: Vec<String> = operands.iter().map(|e| t(dims, e)).collect();
    let r = t(dims, result);
    let names: Vec<String> = (0..args.len()).map(|i| format!("%a{i}")).collect();
    let body = format!("%r0 = \"{}\"({}) : ({}) -> {r}", kind.name(), names.join(", "), args.join(", "));
    Some(Program { args, results: vec![r], body })
}

#[test]
fn every_elementwise_operation() {
    let kinds = OpKind::ALL.iter().copied().filter(|k| k.is_elementwise());
    conform(kinds.filter_map(|k| elementwise_program(k, &[7])), 2);
}

#[test]
fn two_operands_anywhere() {
    let mut programs = vec![];
    for &n in SIZES {
        for &m in SIZES {
            programs.extend(elementwise_program(OpKind::Binary(BinaryOp::Subtract), &[n, m]));
        }
    }
    conform(programs, 7);
}

#[test]
fn compare_convert_and_precision() {
    let mut programs = vec![];
    for &n in SIZES {
        let (f, i, b) = (t(&[n, 3], "f32"), t(&[n, 3], "i32"), t(&[n, 3], "i1"));
        programs.push(program(
            &[&f, &f],
            &[&b],
            format!("%r0 = stablehlo.compare LT, %a0, %a1, FLOAT : ({f}, {f}) -> {b}"),
        ));
        programs.push(program(&[&f], &[&i], format!("%r0 = stablehlo.convert %a0 : ({f}) -> {i}")));
        programs.push(program(&[&f], &[&f], format!("%r0 = stablehlo.reduce_precision %a0, format = e5m2 : {f}")));
    }
    conform(programs, 4);
}

#[test]
fn select_and_clamp_with_scalars_and_tensors() {
    let mut programs = vec![];
    for &n in SIZES {
        let (f, b) = (t(&[n, 4], "f32"), t(&[n, 4], "i1"));
        for pred in [b.clone(), "tensor<i1>".to_string()] {
            programs.push(program(
                &[&pred, &f, &f],
                &[&f],
                format!("%r0 = stablehlo.select %a0, %a1, %a2 : {pred}, {f}"),
            ));
        }
        for low in [f.clone(), "tensor<f32>".to_string()] {
            for high in [f.clone(), "tensor<f32>".to_string()] {
                programs.push(program(
                    &[&low, &f, &high],
                    &[&f],
                    format!("%r0 = stablehlo.clamp %a0, %a1, %a2 : ({low}, {f}, {high}) -> {f}"),
                ));
            }
        }
    }
    conform(programs, 4);
}
