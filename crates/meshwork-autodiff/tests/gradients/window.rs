//! Derivatives of reductions over windows.

use crate::common::{check, program};

fn windows(op: &str, init: &str, n: i64, attrs: &str, out: i64) {
    check(&program(
        &format!("(%x: tensor<{n}x2xf64>) -> tensor<{out}x2xf64>"),
        &format!(
            "%i = $constant dense<{init}> : tensor<f64>
             %y = \"$reduce_window\"(%x, %i) <{{{attrs}}}> ({{
               ^bb0(%a: tensor<f64>, %b: tensor<f64>):
                 %c = ${op} %a, %b : tensor<f64>
                 $return %c : tensor<f64>
             }}) : (tensor<{n}x2xf64>, tensor<f64>) -> tensor<{out}x2xf64>
             return %y : tensor<{out}x2xf64>"
        ),
    ));
}

#[test]
fn sums_with_strides_dilations_and_padding() {
    let mut cases = 0;
    for (n, size, stride, base, holes, low, high) in [
        (6, 3, 1, 1, 1, 0, 0),
        (7, 3, 2, 1, 1, 1, 1),
        (7, 2, 3, 1, 1, 0, 0),
        (4, 3, 1, 2, 1, 1, 2),
        (6, 2, 1, 1, 3, 2, 0),
        (5, 2, 2, 3, 2, 1, 1),
        // A cumulative sum.
        (5, 5, 1, 1, 1, 4, 0),
        (1, 1, 1, 1, 1, 0, 0),
    ] {
        let (line, window) = (1 + base * (n - 1) + low + high, 1 + holes * (size - 1));
        let out = (line - window) / stride + 1;
        let attrs = format!(
            "window_dimensions = array<i64: {size}, 1>, window_strides = array<i64: {stride}, 1>,
             base_dilations = array<i64: {base}, 1>, window_dilations = array<i64: {holes}, 1>,
             padding = dense<[[{low}, {high}], [0, 0]]> : tensor<2x2xi64>"
        );
        windows("add", "0.0", n, &attrs, out);
        windows("multiply", "1.0", n, &attrs, out);
        windows("multiply", "1.5", n, &attrs, out);
        cases += 3;
        if holes == 1 {
            windows("maximum", "0xFFF0000000000000", n, &attrs, out);
            windows("minimum", "0x7FF0000000000000", n, &attrs, out);
            cases += 2;
        }
    }
    assert_eq!(cases, 36);
}

#[test]
fn select_and_scatter_reads_back_from_the_chosen_elements() {
    for (direction, pads, out) in [("GE", "[[0, 0], [0, 0]]", 3), ("LT", "[[1, 1], [0, 0]]", 4)] {
        check(&program(
            &format!("(%x: tensor<6x2xf64>, %s: tensor<{out}x2xf64>, %i: tensor<f64>) -> tensor<6x2xf64>"),
            &format!(
                "%y = \"$select_and_scatter\"(%x, %s, %i) <{{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>, padding = dense<{pads}> : tensor<2x2xi64>}}> ({{
                   ^bb0(%a: tensor<f64>, %b: tensor<f64>):
                     %c = $compare {direction}, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
                     $return %c : tensor<i1>
                 }}, {{
                   ^bb0(%a: tensor<f64>, %b: tensor<f64>):
                     %c = $add %a, %b : tensor<f64>
                     $return %c : tensor<f64>
                 }}) : (tensor<6x2xf64>, tensor<{out}x2xf64>, tensor<f64>) -> tensor<6x2xf64>
                 return %y : tensor<6x2xf64>"
            ),
        ));
    }
}
