//! Operations with a body.

use meshwork_ir::op::{BodyOp, ChloOp, ControlOp};
use meshwork_ir::{ElementType, OpKind};

use super::{Case, ty};

/// A region that combines two scalars.
pub fn combine(op: &str, one: &str) -> String {
    format!("({{ ^bb0(%a: {one}, %b: {one}):\n%s = stablehlo.{op} %a, %b : {one}\nstablehlo.return %s : {one} }})")
}

/// A region that compares two scalars.
fn order(direction: &str, one: &str) -> String {
    format!(
        "({{ ^bb0(%a: {one}, %b: {one}):
           %p = stablehlo.compare {direction}, %a, %b : ({one}, {one}) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }})"
    )
}

pub fn cases(kind: OpKind, elem: ElementType) -> Vec<Case> {
    let t = |dims: &[i64]| ty(dims, elem);
    let one = t(&[]);
    let ops = match elem {
        ElementType::I1 => &["and", "or", "xor"][..],
        e if e.is_complex() => &["add", "multiply"],
        _ => &["add", "multiply", "maximum", "minimum", "subtract"],
    };
    match kind {
        OpKind::Body(BodyOp::Map) => {
            let x = t(&[3, 7]);
            let case = |op: &&str| {
                Case::with_body(kind, &[&x, &x], &combine(op, &one), "dimensions = array<i64: 0, 1>", &[&x])
            };
            ops.iter().map(case).collect()
        }
        OpKind::Body(BodyOp::Reduce) => {
            let mut all = vec![];
            for op in ops.iter().filter(|o| **o != "subtract") {
                for (dims, over, kept) in [
                    (&[7][..], "0", &[][..]),
                    (&[5, 33], "1", &[5]),
                    (&[5, 33], "0", &[33]),
                    (&[4, 0, 3], "1", &[4, 3]),
                    (&[5, 0], "1", &[5]),
                    (&[0], "0", &[]),
                    (&[3, 4, 5], "0, 2", &[4]),
                ] {
                    let attrs = format!("dimensions = array<i64: {over}>");
                    all.push(Case::with_body(kind, &[&t(dims), &one], &combine(op, &one), &attrs, &[&t(kept)]));
                }
            }
            all
        }
        OpKind::Body(BodyOp::ReduceWindow) => {
            let mut all = vec![];
            for op in ops.iter().filter(|o| **o != "subtract") {
                for (attrs, to) in [
                    ("window_dimensions = array<i64: 1, 3>", &[4, 10][..]),
                    (
                        "window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 1>, \
                      padding = dense<[[0, 0], [2, 0]]> : tensor<2x2xi64>",
                        &[2, 12],
                    ),
                    ("window_dimensions = array<i64: 2, 2>, window_dilations = array<i64: 1, 3>", &[3, 9]),
                ] {
                    let args = [&t(&[4, 12])[..], &one];
                    all.push(Case::with_body(kind, &args, &combine(op, &one), attrs, &[&t(to)]));
                }
            }
            all
        }
        OpKind::Body(BodyOp::Scatter) => {
            let (x, rows, u) = (t(&[6, 8]), "tensor<4x1xi32>", t(&[4, 8]));
            let attrs = "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], \
                         inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>";
            let replace = format!("({{ ^bb0(%a: {one}, %b: {one}):\nstablehlo.return %b : {one} }})");
            let bodies = ops.iter().map(|op| combine(op, &one)).chain([replace]);
            bodies.map(|body| Case::with_body(kind, &[&x, rows, &u], &body, attrs, &[&x])).collect()
        }
        OpKind::Body(BodyOp::SelectAndScatter) => {
            let (x, s) = (t(&[6, 8]), t(&[3, 4]));
            let attrs = "window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>";
            let (select, add) = (order("GE", &one), combine(ops[0], &one));
            let inner = |r: &str| r.trim_start_matches('(').trim_end_matches(')').to_string();
            let regions = format!("({}, {})", inner(&select), inner(&add));
            vec![Case::with_body(kind, &[&x, &s, &one], &regions, attrs, &[&x])]
        }
        OpKind::Body(BodyOp::Sort) => {
            let case = |dims: &[i64], dim: usize, direction: &str| {
                let attrs = format!("dimension = {dim} : i64, is_stable = true");
                Case::with_body(kind, &[&t(dims)], &order(direction, &one), &attrs, &[&t(dims)])
            };
            vec![case(&[4, 11], 1, "LT"), case(&[4, 11], 0, "GT"), case(&[0, 3], 0, "LT"), case(&[300], 0, "GT")]
        }
        OpKind::Chlo(ChloOp::TopK) => {
            let (x, v, i) = (t(&[3, 9]), t(&[3, 4]), ty(&[3, 4], ElementType::I32));
            vec![Case::new(kind, &[&x], "k = 4 : i64", &[&v, &i])]
        }
        OpKind::Control(ControlOp::Case | ControlOp::If) => {
            let x = t(&[9]);
            let region = |v: &str| format!("{{ stablehlo.return {v} : {x} }}");
            let regions = format!("({}, {})", region("%x1"), region("%x2"));
            let chosen = if kind == OpKind::Control(ControlOp::If) { "tensor<i1>" } else { "tensor<i32>" };
            vec![Case::of(kind, "%x0", &[chosen], &[chosen, &x, &x], &regions, "", &[&x])]
        }
        OpKind::Control(ControlOp::While) => {
            let (x, i) = (t(&[9]), "tensor<i32>");
            let before = "%z = stablehlo.constant dense<0> : tensor<i32>
                          %o = stablehlo.constant dense<1> : tensor<i32>
                          %n = stablehlo.constant dense<3> : tensor<i32>";
            let regions = format!(
                "({{ ^bb0(%i: {i}, %v: {x}):
                   %p = stablehlo.compare LT, %i, %n : ({i}, {i}) -> tensor<i1>
                   stablehlo.return %p : tensor<i1> }}, {{ ^bb0(%i: {i}, %v: {x}):
                   %j = stablehlo.add %i, %o : {i}
                   %w = stablehlo.{} %v, %x0 : {x}
                   stablehlo.return %j, %w : {i}, {x} }})",
                ops[0]
            );
            vec![Case::of(kind, "%z, %x0", &[i, &x], &[&x], &regions, "", &[i, &x]).after(before)]
        }
        OpKind::Chlo(ChloOp::Scan) => {
            let (xs, x) = (t(&[5, 3]), t(&[3]));
            let body = format!(
                "({{ ^bb0(%a: {x}, %b: {x}):\n%s = stablehlo.{} %a, %b : {x}\nstablehlo.return %s, %s : {x}, {x} }})",
                ops[0]
            );
            let attrs = "dimension = 0 : i64, is_reverse = false, \
                         operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>";
            vec![Case::with_body(kind, &[&xs, &x], &body, attrs, &[&xs, &x])]
        }
        _ => unreachable!("{kind:?} has no body"),
    }
}
