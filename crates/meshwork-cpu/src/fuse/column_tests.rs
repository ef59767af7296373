//! Reductions of outer and middle dimensions of what others need too.

use crate::compile::testing::check;

/// Softmax over dimension `dim` of `x`, an array of `shape` without that dimension's neighbors.
fn softmax(elem: &str, shape: &[i64], dim: usize) -> String {
    let text = |dims: &[i64]| format!("tensor<{}{elem}>", dims.iter().map(|n| format!("{n}x")).collect::<String>());
    let left: Vec<usize> = (0..shape.len()).filter(|&d| d != dim).collect();
    let (all, one) = (text(shape), text(&left.iter().map(|&d| shape[d]).collect::<Vec<_>>()));
    let least = if elem == "f64" {
        "0xFFF0000000000000"
    } else if elem == "f32" {
        "0xFF800000"
    } else {
        "0xFF80"
    };
    format!(
        "func.func @main(%x: {all}) -> {all} {{
  %least = stablehlo.constant dense<{least}> : tensor<{elem}>
  %zero = stablehlo.constant dense<0.0> : tensor<{elem}>
  %m = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [{dim}] : ({all}, tensor<{elem}>) -> {one}
  %mb = stablehlo.broadcast_in_dim %m, dims = {left:?} : ({one}) -> {all}
  %d = stablehlo.subtract %x, %mb : {all}
  %e = stablehlo.exponential %d : {all}
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [{dim}] : ({all}, tensor<{elem}>) -> {one}
  %sb = stablehlo.broadcast_in_dim %s, dims = {left:?} : ({one}) -> {all}
  %y = stablehlo.divide %e, %sb : {all}
  return %y : {all}
}}"
    )
}

/// What is summed and needed again is computed once, and stored by the loop that sums it.
#[test]
fn exponentials_are_stored_while_they_are_summed() {
    for (shape, dim) in [
        (&[3, 20, 17][..], 1),
        (&[1, 31, 64], 1),
        (&[40, 9, 33], 1),
        (&[50, 70], 0),
        (&[2000, 5], 0),
        (&[3, 300, 2, 19], 1),
        (&[12, 4100], 0),
        (&[13, 1, 8], 1),
        (&[0, 9, 3], 1),
        (&[3, 9, 0], 1),
    ] {
        for (elem, tolerance) in [("f32", 1e-6), ("f64", 1e-12), ("bf16", 2e-2)] {
            let text = check(&softmax(elem, shape, dim), tolerance);
            let exponentials = text.lines().filter(|l| l.contains("exponential")).count();
            let sums = text.lines().filter(|l| l.contains("reduce columns")).count();
            assert!(sums < 2 || exponentials == 0, "{text}");
        }
    }
}

/// Sums of few vectors of few numbers, over one dimension or neighbors: a call for a row of the numbers would take longer.
#[test]
fn few_vectors_are_summed_side_by_side() {
    for (shape, over, side_by_side) in [
        ("50x9x2", &[1][..], true),
        ("1x4x8", &[1], true),
        ("37x3x3x2", &[1, 2], true),
        ("5x7x4x3x3", &[2], true),
        ("11x2x5x3", &[0, 2], false),
        ("40x3x2", &[1], false),
        ("40x9x9", &[1], false),
        ("0x9x2", &[1], false),
        ("9x0x2", &[1], false),
    ] {
        let dims: Vec<&str> = shape.split('x').collect();
        let left = (0..dims.len()).filter(|d| !over.contains(d)).map(|d| format!("{}x", dims[d])).collect::<String>();
        for (elem, combine, tolerance) in [("f32", "add", 1e-5), ("f64", "maximum", 0.0), ("i32", "add", 0.0)] {
            let (x, y) = (format!("tensor<{shape}x{elem}>"), format!("tensor<{left}{elem}>"));
            let text = check(
                &format!(
                    "func.func @main(%x: {x}, %first: tensor<{elem}>) -> {y} {{
                    %d = stablehlo.add %x, %x : {x}
                    %y = stablehlo.reduce(%d init: %first) applies stablehlo.{combine} across dimensions = {over:?}
                        : ({x}, tensor<{elem}>) -> {y}
                    return %y : {y} }}"
                ),
                tolerance,
            );
            assert!(!side_by_side || !text.contains("reduce columns"), "{shape} over {over:?}: {text}");
        }
    }
}
