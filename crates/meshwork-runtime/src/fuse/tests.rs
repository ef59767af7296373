//! Fused programs against the evaluator, and how many steps they become.

use crate::compile::testing::check;

fn steps(text: &str) -> usize {
    text.lines().filter(|l| l.contains(" = ")).count()
}

#[test]
fn softmax_is_one_step() {
    let text = check(
        r#"func.func @main(%x: tensor<5x70xf32>) -> tensor<5x70xf32> {
  %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %ninf) applies stablehlo.maximum across dimensions = [1] : (tensor<5x70xf32>, tensor<f32>) -> tensor<5xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<5xf32>) -> tensor<5x70xf32>
  %d = stablehlo.subtract %x, %mb : tensor<5x70xf32>
  %e = stablehlo.exponential %d : tensor<5x70xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<5x70xf32>, tensor<f32>) -> tensor<5xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<5xf32>) -> tensor<5x70xf32>
  %y = stablehlo.divide %e, %sb : tensor<5x70xf32>
  return %y : tensor<5x70xf32>
}"#,
        1e-5,
    );
    assert_eq!(steps(&text), 1, "{text}");
}

#[test]
fn arithmetic_chain_is_one_step() {
    let text = check(
        r#"func.func @main(%x: tensor<7x33xf32>, %b: tensor<33xf32>) -> (tensor<7x33xf32>, tensor<7x33xf32>) {
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<33xf32>) -> tensor<7x33xf32>
  %s = stablehlo.add %x, %bb : tensor<7x33xf32>
  %t = stablehlo.tanh %s : tensor<7x33xf32>
  %u = stablehlo.multiply %t, %x : tensor<7x33xf32>
  return %t, %u : tensor<7x33xf32>, tensor<7x33xf32>
}"#,
        1e-5,
    );
    assert_eq!(steps(&text), 1, "{text}");
}

fn heat(body: &str) -> String {
    check(
        &format!(
            r#"func.func @main(%x: tensor<50xf32>) -> tensor<50xf32> {{
  %c = stablehlo.constant dense<0.25> : tensor<f32>
  %q = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<50xf32>
  %qi = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<48xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
{body}
}}"#
        ),
        1e-5,
    )
}

const INNER: &str = r#"
  %l = stablehlo.slice %x [0:48] : (tensor<50xf32>) -> tensor<48xf32>
  %r = stablehlo.slice %x [2:50] : (tensor<50xf32>) -> tensor<48xf32>
  %m = stablehlo.slice %x [1:49] : (tensor<50xf32>) -> tensor<48xf32>
  %s = stablehlo.add %l, %r : tensor<48xf32>
  %t = stablehlo.multiply %s, %qi : tensor<48xf32>
  %n = stablehlo.add %t, %m : tensor<48xf32>
"#;

#[test]
fn heat_by_slice_assign_is_one_step() {
    let text = heat(&format!(
        "{INNER}
  %one = stablehlo.constant dense<1> : tensor<i32>
  %y = stablehlo.dynamic_update_slice %x, %n, %one : (tensor<50xf32>, tensor<48xf32>, tensor<i32>) -> tensor<50xf32>
  return %y : tensor<50xf32>"
    ));
    assert_eq!(steps(&text), 1, "{text}");
    assert!(text.contains("in 3 boxes"), "{text}");
}

#[test]
fn heat_by_concatenate_is_one_step() {
    let text = heat(&format!(
        "{INNER}
  %a = stablehlo.slice %x [0:1] : (tensor<50xf32>) -> tensor<1xf32>
  %b = stablehlo.slice %x [49:50] : (tensor<50xf32>) -> tensor<1xf32>
  %y = stablehlo.concatenate %a, %n, %b, dim = 0 : (tensor<1xf32>, tensor<48xf32>, tensor<1xf32>) -> tensor<50xf32>
  return %y : tensor<50xf32>"
    ));
    assert_eq!(steps(&text), 1, "{text}");
}

#[test]
fn heat_by_padding_is_one_step() {
    let text = heat(
        "
  %p = stablehlo.pad %x, %zero, low = [1], high = [1], interior = [0] : (tensor<50xf32>, tensor<f32>) -> tensor<52xf32>
  %l = stablehlo.slice %p [0:50] : (tensor<52xf32>) -> tensor<50xf32>
  %r = stablehlo.slice %p [2:52] : (tensor<52xf32>) -> tensor<50xf32>
  %s = stablehlo.add %l, %r : tensor<50xf32>
  %t = stablehlo.multiply %s, %q : tensor<50xf32>
  %y = stablehlo.add %t, %x : tensor<50xf32>
  return %y : tensor<50xf32>",
    );
    assert_eq!(steps(&text), 1, "{text}");
}

#[test]
fn heat_by_rolls_and_masks_is_one_step() {
    let text = heat(
        "
  %a = stablehlo.slice %x [1:50] : (tensor<50xf32>) -> tensor<49xf32>
  %b = stablehlo.slice %x [0:1] : (tensor<50xf32>) -> tensor<1xf32>
  %r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<49xf32>, tensor<1xf32>) -> tensor<50xf32>
  %c0 = stablehlo.slice %x [49:50] : (tensor<50xf32>) -> tensor<1xf32>
  %d = stablehlo.slice %x [0:49] : (tensor<50xf32>) -> tensor<49xf32>
  %l = stablehlo.concatenate %c0, %d, dim = 0 : (tensor<1xf32>, tensor<49xf32>) -> tensor<50xf32>
  %s = stablehlo.add %l, %r : tensor<50xf32>
  %t = stablehlo.multiply %s, %q : tensor<50xf32>
  %n = stablehlo.add %t, %x : tensor<50xf32>
  %i = stablehlo.iota dim = 0 : tensor<50xi32>
  %one = stablehlo.constant dense<1> : tensor<50xi32>
  %end = stablehlo.constant dense<49> : tensor<50xi32>
  %p = stablehlo.compare GE, %i, %one : (tensor<50xi32>, tensor<50xi32>) -> tensor<50xi1>
  %o = stablehlo.compare LT, %i, %end : (tensor<50xi32>, tensor<50xi32>) -> tensor<50xi1>
  %in = stablehlo.and %p, %o : tensor<50xi1>
  %y = stablehlo.select %in, %n, %x : tensor<50xi1>, tensor<50xf32>
  return %y : tensor<50xf32>",
    );
    assert_eq!(steps(&text), 1, "{text}");
    assert!(text.contains("in 3 boxes"), "{text}");
}

fn reduce(shape: &str, elem: &str, dims: &str, result: &str, op: &str, init: &str) -> String {
    let (from, to) = (format!("tensor<{shape}x{elem}>"), format!("tensor<{result}{elem}>"));
    check(
        &format!(
            r#"func.func @main(%x: {from}) -> {to} {{
  %i = stablehlo.constant dense<{init}> : tensor<{elem}>
  %y = stablehlo.multiply %x, %x : {from}
  %r = stablehlo.reduce(%y init: %i) applies stablehlo.{op} across dimensions = [{dims}] : ({from}, tensor<{elem}>) -> {to}
  return %r : {to}
}}"#
        ),
        if elem == "bf16" { 3e-2 } else { 2e-5 },
    )
}

#[test]
fn reductions_over_any_dimensions() {
    for (shape, dims, result) in [
        ("5x7", "0", "7x"),
        ("5x7", "1", "5x"),
        ("5x7", "0, 1", ""),
        ("3x4x5", "0, 2", "4x"),
        ("3x4x5", "1", "3x5x"),
        ("3x4x5x2", "0, 2", "4x2x"),
        ("3x4x5x2", "1, 3", "3x5x"),
        ("1x4x1x2", "0, 2", "4x2x"),
        ("1x1", "0, 1", ""),
        ("200x40", "0", "40x"),
        ("3000x5", "0", "5x"),
        ("2x300x70", "1", "2x70x"),
        ("4x9000", "0", "9000x"),
        ("2x70000", "1", "2x"),
        ("100000", "0", ""),
        ("0x3", "0", "3x"),
        ("3x0", "1", "3x"),
    ] {
        reduce(shape, "f32", dims, result, "add", "0.0");
        reduce(shape, "i32", dims, result, "add", "5");
    }
    reduce("60x50", "bf16", "0", "50x", "add", "0.0");
    reduce("60x50", "f64", "0", "50x", "maximum", "0.5");
    reduce("60x50", "ui8", "0", "50x", "minimum", "255");
}
