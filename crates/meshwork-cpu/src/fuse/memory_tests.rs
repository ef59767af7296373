//! Memory access of fused programs: transposed operands, results larger than the caches.

use meshwork_ir::{DeviceGrid, ElementType, Literal};

use super::survey::SURVEYS;
use super::tests::steps;
use crate::compile::testing::{check, compiled, run};
use crate::compile::{Span, compile};

/// A program on `x`, whose dimensions are turned before the arithmetic.
fn turned(from: &str, to: &str, permutation: &str, rest: &str) -> String {
    format!(
        r#"func.func @main(%x: tensor<{from}>, %y: tensor<{to}>) -> tensor<{to}> {{
  %t = stablehlo.transpose %x, dims = {permutation} : (tensor<{from}>) -> tensor<{to}>
  %s = stablehlo.add %t, %y : tensor<{to}>
{rest}
}}"#
    )
}

#[test]
fn transposed_operands_are_turned_inside_the_loop() {
    let sum = |to: &str| format!("  return %s : tensor<{to}>");
    let cases = [
        ("70x33xf32", "33x70xf32", "[1, 0]"),
        ("129x16xf64", "16x129xf64", "[1, 0]"),
        ("3x65x40xf32", "3x40x65xf32", "[0, 2, 1]"),
        ("67x5x19xf32", "5x19x67xf32", "[1, 2, 0]"),
        ("130x90xbf16", "90x130xbf16", "[1, 0]"),
        ("40x600xui8", "600x40xui8", "[1, 0]"),
        ("1000x300xf32", "300x1000xf32", "[1, 0]"),
    ];
    for (from, to, permutation) in cases {
        let text = check(&turned(from, to, permutation, &sum(to)), 1e-2);
        assert_eq!(steps(&text), 1, "{from}: {text}");
    }
    let positions = r#"  %i = stablehlo.iota dim = 1 : tensor<33x70xf32>
  %p = stablehlo.multiply %s, %i : tensor<33x70xf32>
  return %p : tensor<33x70xf32>"#;
    assert_eq!(steps(&check(&turned("70x33xf32", "33x70xf32", "[1, 0]", positions), 1e-4)), 1);
    let rows = r#"  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<40x300xf32>, tensor<f32>) -> tensor<40xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<40xf32>) -> tensor<40x300xf32>
  %p = stablehlo.subtract %s, %b : tensor<40x300xf32>
  return %p : tensor<40x300xf32>"#;
    assert_eq!(steps(&check(&turned("300x40xf32", "40x300xf32", "[1, 0]", rows), 1e-3)), 1);
}

#[test]
fn more_than_the_caches_hold_is_written_past_them() {
    let module = |n: usize| {
        let source = format!(
            "func.func @main(%x: tensor<{n}xf32>) -> tensor<{n}xf32> {{\n  %y = stablehlo.add %x, %x : tensor<{n}xf32>\n  return %y : tensor<{n}xf32>\n}}"
        );
        meshwork_ir::text::parse(&source).unwrap()
    };
    let past = |n: usize| {
        let program = compile(&module(n), None, DeviceGrid { replicas: 1, partitions: 1 }, Span::OneProcess).unwrap();
        format!("{program:?}").contains("past: Some")
    };
    assert!(past(8_000_000));
    assert!(!past(1_000_000));
}

/// Each concatenation doubles the positions at which its operand is wanted; of one that no position meets nothing is asked.
#[test]
fn doubling_concatenations_take_linear_time() {
    let chain = |n: usize, last: &str, out: &str| {
        let mut text = String::new();
        for i in 0..n {
            let (from, to) = (format!("tensor<{}xf32>", 8u64 << i), format!("tensor<{}xf32>", 8u64 << (i + 1)));
            text += &format!("%{} = stablehlo.concatenate %{i}, %{i}, dim = 0 : ({from}, {from}) -> {to}\n", i + 1);
        }
        format!("func.func @main(%0: tensor<8xf32>) -> {out} {{\n{text}{last}\nreturn %r : {out} }}")
    };
    SURVEYS.set(0);
    let whole = 8u64 << 45;
    let slice =
        format!("%r = stablehlo.slice %45 [{}:{}] : (tensor<{whole}xf32>) -> tensor<3xf32>", whole - 5, whole - 2);
    let program = compiled(&chain(45, &slice, "tensor<3xf32>"));
    assert!(program.bufs.iter().map(|b| b.bytes).sum::<usize>() < 1000, "{program}");
    let x = Literal::from_f64s([8], ElementType::F32, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
    assert_eq!(run(&program, &[x])[0].to_f64s(), [3.0, 4.0, 5.0]);
    check(&chain(12, "%r = stablehlo.negate %12 : tensor<32768xf32>", "tensor<32768xf32>"), 0.0);
    assert!(SURVEYS.get() < 200, "{} surveys", SURVEYS.get());
}
