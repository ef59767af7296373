//! Fused programs against the evaluator, and how many steps they become.

use meshwork_ir::{DeviceGrid, ElementType, Literal};

use super::survey::SURVEYS;
use crate::compile::testing::{check, check_on, compiled};
use crate::compile::{Span, compile};
use crate::program::Node;

/// The steps of a program on `partitions` partitions, as text.
fn listing(source: &str, partitions: usize) -> String {
    let module = meshwork_ir::text::parse(source).unwrap();
    compile(&module, None, DeviceGrid { replicas: 1, partitions }, Span::OneProcess).unwrap().to_string()
}

pub(super) fn steps(text: &str) -> usize {
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

/// Edges of a small array take as long as all of it where much is computed from it: they are put on first.
#[test]
fn edges_of_small_arrays_are_put_on_first() {
    let program = |n: i64, f: &str| {
        let (all, less) = (format!("tensor<2x{n}xf32>"), format!("tensor<2x{}xf32>", n - 1));
        format!(
            "func.func @main(%x: {all}) -> {all} {{
            %low = stablehlo.constant dense<-1.0e30> : tensor<f32>
            %s = stablehlo.slice %x [0:2, 0:{m}] : ({all}) -> {less}
            %p = stablehlo.pad %s, %low, low = [0, 1], high = [0, 0], interior = [0, 0] : ({less}, tensor<f32>) -> {all}
            %m = stablehlo.maximum %x, %p : {all}
            %d = stablehlo.subtract %x, %p : {all}
            %a = stablehlo.abs %d : {all}
            %n = stablehlo.negate %a : {all}
            {f}
            %y = stablehlo.add %m, %l : {all}
            return %y : {all} }}",
            m = n - 1
        )
    };
    let ty = |n: i64| format!("tensor<2x{n}xf32>");
    for n in [1, 2, 9, 33, 4099] {
        let t = ty(n);
        let heavy = format!(
            "%e = stablehlo.exponential %n : {t}\n%k = stablehlo.log_plus_one %e : {t}\n%g = stablehlo.tanh %k : {t}\n%l = stablehlo.sine %g : {t}"
        );
        let text = check(&program(n, &heavy), 1e-5);
        let first = (9..100).contains(&n);
        assert_eq!(steps(&text), 1 + usize::from(first), "{n}\n{text}");
        check(&program(n, &format!("%l = stablehlo.negate %n : {t}")), 1e-5);
    }
}

/// Edges of two widths, as in a sum over alignments: what is computed from both is one box.
#[test]
fn edges_of_two_widths() {
    for n in [9, 33] {
        let t = |n: i64| format!("tensor<2x{n}xf32>");
        let (all, one, two) = (t(n), t(n - 1), t(n - 2));
        let sum = |a: &str, b: &str, to: &str| {
            format!(
                "%{to}m = stablehlo.maximum {a}, {b} : {all}
                %{to}d = stablehlo.subtract {a}, {b} : {all}
                %{to}a = stablehlo.abs %{to}d : {all}
                %{to}n = stablehlo.negate %{to}a : {all}
                %{to}e = stablehlo.exponential %{to}n : {all}
                %{to}l = stablehlo.log_plus_one %{to}e : {all}
                %{to} = stablehlo.add %{to}m, %{to}l : {all}"
            )
        };
        let text = check(
            &format!(
                "func.func @main(%x: {all}, %g: {all}) -> {all} {{
                %low = stablehlo.constant dense<-1.0e30> : tensor<f32>
                %a = stablehlo.slice %x [0:2, 0:{m}] : ({all}) -> {one}
                %p = stablehlo.pad %a, %low, low = [0, 1], high = [0, 0], interior = [0, 0] : ({one}, tensor<f32>) -> {all}
                %b = stablehlo.slice %x [0:2, 0:{k}] : ({all}) -> {two}
                %q = stablehlo.pad %b, %low, low = [0, 2], high = [0, 0], interior = [0, 0] : ({two}, tensor<f32>) -> {all}
                {}
                {}
                %y = stablehlo.add %v, %g : {all}
                return %y : {all} }}",
                sum("%x", "%p", "u"),
                sum("%u", "%q", "v"),
                m = n - 1,
                k = n - 2,
            ),
            1e-5,
        );
        let boxes = text.lines().filter(|l| l.contains("boxes")).count();
        assert_eq!((steps(&text), boxes), if n == 33 { (3, 2) } else { (2, 2) }, "{n}\n{text}");
    }
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

const LAYER_NORM: &str = r#"func.func @main(%x: tensor<6x40xf32>, %g: tensor<40xf32>, %b: tensor<40xf32>) -> tensor<6x40xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<40.0> : tensor<6xf32>
  %eps = stablehlo.constant dense<1.0e-5> : tensor<6xf32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x40xf32>, tensor<f32>) -> tensor<6xf32>
  %m = stablehlo.divide %s, %n : tensor<6xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<6xf32>) -> tensor<6x40xf32>
  %d = stablehlo.subtract %x, %mb : tensor<6x40xf32>
  %d2 = stablehlo.multiply %d, %d : tensor<6x40xf32>
  %v = stablehlo.reduce(%d2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x40xf32>, tensor<f32>) -> tensor<6xf32>
  %vn = stablehlo.divide %v, %n : tensor<6xf32>
  %ve = stablehlo.add %vn, %eps : tensor<6xf32>
  %r = stablehlo.rsqrt %ve : tensor<6xf32>
  %rb = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<6xf32>) -> tensor<6x40xf32>
  %y = stablehlo.multiply %d, %rb : tensor<6x40xf32>
  %gb = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<40xf32>) -> tensor<6x40xf32>
  %z = stablehlo.multiply %y, %gb : tensor<6x40xf32>
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<40xf32>) -> tensor<6x40xf32>
  %o = stablehlo.add %z, %bb : tensor<6x40xf32>
  return %o : tensor<6x40xf32>
}"#;

#[test]
fn layer_norm_as_text() {
    assert_eq!(
        check(LAYER_NORM, 1e-4),
        "(b0:6x40xf32, b1:40xf32, b2:40xf32)
  b6:6x40xf32 = rows reduce·divide·subtract·multiply·add·rsqrt 6×40 (b0:6x40xf32, b1:40xf32, b2:40xf32)
-> b6:6x40xf32
"
    );
}

#[test]
fn game_of_life_is_one_step() {
    let roll = |name: &str, from: &str, dim: usize| {
        let whole = "0:12";
        let at = |r: &str| if dim == 0 { format!("[{r}, {whole}]") } else { format!("[{whole}, {r}]") };
        let ty = |n: i64| if dim == 0 { format!("tensor<{n}x12xui8>") } else { format!("tensor<12x{n}xui8>") };
        format!(
            "  %{name}a = stablehlo.slice %{from} {} : (tensor<12x12xui8>) -> {a}
  %{name}b = stablehlo.slice %{from} {} : (tensor<12x12xui8>) -> {b}
  %{name} = stablehlo.concatenate %{name}b, %{name}a, dim = {dim} : ({b}, {a}) -> tensor<12x12xui8>
  %{name}c = stablehlo.slice %{from} {} : (tensor<12x12xui8>) -> {b}
  %{name}d = stablehlo.slice %{from} {} : (tensor<12x12xui8>) -> {a}
  %{name}z = stablehlo.concatenate %{name}d, %{name}c, dim = {dim} : ({a}, {b}) -> tensor<12x12xui8>\n",
            at("0:11"),
            at("11:12"),
            at("0:1"),
            at("1:12"),
            a = ty(11),
            b = ty(1),
        )
    };
    let text = check(
        &format!(
            "func.func @main(%x: tensor<12x12xui8>) -> tensor<12x12xui8> {{
  %two = stablehlo.constant dense<2> : tensor<12x12xui8>
  %three = stablehlo.constant dense<3> : tensor<12x12xui8>
  %one = stablehlo.constant dense<1> : tensor<12x12xui8>
{}  %s0 = stablehlo.add %up, %upz : tensor<12x12xui8>
  %s = stablehlo.add %s0, %x : tensor<12x12xui8>
{}  %t0 = stablehlo.add %le, %lez : tensor<12x12xui8>
  %t1 = stablehlo.add %t0, %s : tensor<12x12xui8>
  %t = stablehlo.subtract %t1, %x : tensor<12x12xui8>
  %p = stablehlo.compare EQ, %t, %three : (tensor<12x12xui8>, tensor<12x12xui8>) -> tensor<12x12xi1>
  %q = stablehlo.compare EQ, %t, %two : (tensor<12x12xui8>, tensor<12x12xui8>) -> tensor<12x12xi1>
  %l = stablehlo.compare EQ, %x, %one : (tensor<12x12xui8>, tensor<12x12xui8>) -> tensor<12x12xi1>
  %r = stablehlo.and %q, %l : tensor<12x12xi1>
  %y = stablehlo.or %p, %r : tensor<12x12xi1>
  %o = stablehlo.convert %y : (tensor<12x12xi1>) -> tensor<12x12xui8>
  return %o : tensor<12x12xui8>
}}",
            roll("up", "x", 0),
            roll("le", "s", 1),
        ),
        0.0,
    );
    assert!(text.contains("in 9 boxes"), "{text}");
    assert_eq!(steps(&text), 1, "{text}");
}

#[test]
fn repeated_smoothing_does_not_explode() {
    let mut body = String::new();
    let mut last = "x".to_string();
    for i in 0..12 {
        body += &format!(
            "  %p{i} = stablehlo.pad %{last}, %zero, low = [1], high = [1], interior = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<66xf32>
  %l{i} = stablehlo.slice %p{i} [0:64] : (tensor<66xf32>) -> tensor<64xf32>
  %r{i} = stablehlo.slice %p{i} [2:66] : (tensor<66xf32>) -> tensor<64xf32>
  %s{i} = stablehlo.add %l{i}, %r{i} : tensor<64xf32>
  %y{i} = stablehlo.add %s{i}, %{last} : tensor<64xf32>\n"
        );
        last = format!("y{i}");
    }
    let text = check(
        &format!(
            "func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
{body}  return %{last} : tensor<64xf32>
}}"
        ),
        1e-4,
    );
    let count = steps(&text);
    assert!((3..=12).contains(&count), "{text}");
}

#[test]
fn loops_and_branches_run() {
    check(
        r#"func.func @main(%x: tensor<9xf32>, %n: tensor<i32>) -> (tensor<9xf32>, tensor<9xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %scale = stablehlo.constant dense<0.5> : tensor<9xf32>
  %y = stablehlo.multiply %x, %x : tensor<9xf32>
  %r:2 = stablehlo.while(%i = %zero, %a = %y) : tensor<i32>, tensor<9xf32>
  cond {
    %c = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.multiply %a, %scale : tensor<9xf32>
    %d = stablehlo.add %b, %y : tensor<9xf32>
    stablehlo.return %j, %d : tensor<i32>, tensor<9xf32>
  }
  %p = stablehlo.compare GT, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %s = "stablehlo.if"(%p) ({
    %u = stablehlo.negate %r#1 : tensor<9xf32>
    stablehlo.return %u : tensor<9xf32>
  }, {
    stablehlo.return %y : tensor<9xf32>
  }) : (tensor<i1>) -> tensor<9xf32>
  return %r#1, %s : tensor<9xf32>, tensor<9xf32>
}"#,
        1e-5,
    );
}

#[test]
fn heat_by_convolution_is_one_step() {
    let text = heat(
        "
  %k = stablehlo.constant dense<[[[1.0]], [[-2.0]], [[1.0]]]> : tensor<3x1x1xf32>
  %x3 = stablehlo.reshape %x : (tensor<50xf32>) -> tensor<1x50x1xf32>
  %c3 = stablehlo.convolution(%x3, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x50x1xf32>, tensor<3x1x1xf32>) -> tensor<1x50x1xf32>
  %d = stablehlo.reshape %c3 : (tensor<1x50x1xf32>) -> tensor<50xf32>
  %t = stablehlo.multiply %d, %q : tensor<50xf32>
  %y = stablehlo.add %t, %x : tensor<50xf32>
  return %y : tensor<50xf32>",
    );
    assert_eq!(steps(&text), 1, "{text}");
}

#[test]
fn small_convolutions_of_one_channel() {
    for (window, dims) in [
        ("{stride = [2, 1], pad = [[1, 2], [0, 0]]}", "3x6"),
        ("{pad = [[1, 0], [2, -1]], rhs_dilate = [2, 1]}", "1x7"),
    ] {
        check(
            &format!(
                r#"func.func @main(%x: tensor<2x1x6x8xf32>, %k: tensor<1x1x4x3xf32>) -> tensor<2x1x{dims}xf32> {{
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {window} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<2x1x6x8xf32>, tensor<1x1x4x3xf32>) -> tensor<2x1x{dims}xf32>
  return %y : tensor<2x1x{dims}xf32>
}}"#
            ),
            1e-4,
        );
    }
}

#[test]
fn an_output_in_place_is_stored_after_all_loads() {
    check(
        r#"func.func @main(%x: tensor<40xf32>) -> (tensor<40xf32>, tensor<40xf32>) {
  %u = stablehlo.negate %x : tensor<40xf32>
  %v = stablehlo.multiply %x, %u : tensor<40xf32>
  return %u, %v : tensor<40xf32>, tensor<40xf32>
}"#,
        1e-6,
    );
}

/// Rows of a few elements are joined, with a copy of what repeats in every row.
#[test]
fn short_rows_with_a_bias_are_joined() {
    for (rows, n) in [(4096, 8), (6000, 3), (2 * 4099, 2), (4099, 5)] {
        let (ty, row) = (format!("tensor<{rows}x{n}xf32>"), format!("tensor<{n}xf32>"));
        let text = check(
            &format!(
                "func.func @main(%x: {ty}, %b: {row}, %k: {row}) -> ({ty}, {ty}) {{
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : ({row}) -> {ty}
  %kb = stablehlo.broadcast_in_dim %k, dims = [1] : ({row}) -> {ty}
  %s = stablehlo.add %x, %bb : {ty}
  %t = stablehlo.tanh %s : {ty}
  %u = stablehlo.multiply %t, %kb : {ty}
  return %t, %u : {ty}, {ty}
}}"
            ),
            1e-5,
        );
        // Two copies and the loop; a number of rows without useful divisors stays as it is.
        assert_eq!(steps(&text), if rows % 4099 == 0 { 1 } else { 3 }, "{rows} rows of {n}: {text}");
    }
}

/// A shard's rows with the neighbor's beside them, chosen by a mask of positions that the boxes decide: nothing of it
/// is worth storing, however often it is wanted.
#[test]
fn rows_from_a_neighbor_are_read_in_place() {
    let text = check(
        "func.func @main(%x: tensor<16x40xui8>, %h: tensor<1x40xui8>) -> tensor<16x40xui8> {
  %id = stablehlo.partition_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %c = stablehlo.constant dense<16> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<ui8>
  %m = stablehlo.multiply %i, %c : tensor<i32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<i32>) -> tensor<16xi32>
  %p = stablehlo.iota dim = 0 : tensor<16xi32>
  %q = stablehlo.add %p, %mb : tensor<16xi32>
  %l = stablehlo.constant dense<15> : tensor<16xi32>
  %k = stablehlo.compare GE, %q, %l : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
  %kb = stablehlo.broadcast_in_dim %k, dims = [0] : (tensor<16xi1>) -> tensor<16x40xi1>
  %a = stablehlo.slice %x [1:16, 0:40] : (tensor<16x40xui8>) -> tensor<15x40xui8>
  %b = stablehlo.concatenate %a, %h, dim = 0 : (tensor<15x40xui8>, tensor<1x40xui8>) -> tensor<16x40xui8>
  %d = stablehlo.pad %h, %zero, low = [15, 0], high = [0, 0], interior = [0, 0] : (tensor<1x40xui8>, tensor<ui8>) -> tensor<16x40xui8>
  %s = stablehlo.select %kb, %d, %b : tensor<16x40xi1>, tensor<16x40xui8>
  %e = stablehlo.slice %s [0:16, 1:40] : (tensor<16x40xui8>) -> tensor<16x39xui8>
  %f = stablehlo.slice %s [0:16, 0:1] : (tensor<16x40xui8>) -> tensor<16x1xui8>
  %g = stablehlo.concatenate %e, %f, dim = 1 : (tensor<16x39xui8>, tensor<16x1xui8>) -> tensor<16x40xui8>
  %n = stablehlo.slice %s [0:16, 0:39] : (tensor<16x40xui8>) -> tensor<16x39xui8>
  %o = stablehlo.slice %s [0:16, 39:40] : (tensor<16x40xui8>) -> tensor<16x1xui8>
  %r = stablehlo.concatenate %o, %n, dim = 1 : (tensor<16x1xui8>, tensor<16x39xui8>) -> tensor<16x40xui8>
  %t = stablehlo.add %g, %r : tensor<16x40xui8>
  %u = stablehlo.add %t, %s : tensor<16x40xui8>
  %v = stablehlo.add %u, %x : tensor<16x40xui8>
  return %v : tensor<16x40xui8>
}",
        0.0,
    );
    assert_eq!(text.lines().filter(|l| l.contains(" = ") && l.contains("16×40")).count(), 1, "{text}");
}

/// Surveys made to compile `n` updates of arrays of their own by the same rate, which are returned at the end.
fn surveys_of_updates(n: usize) -> usize {
    let args: Vec<String> = (0..n).map(|i| format!("%x{i}: tensor<256xf32>, %g{i}: tensor<256xf32>")).collect();
    let update = |i: usize| {
        format!(
            "  %p{i} = stablehlo.multiply %g{i}, %r : tensor<256xf32>\n  %y{i} = stablehlo.add %x{i}, %p{i} : tensor<256xf32>\n"
        )
    };
    let body: String = (0..n).map(update).collect();
    let results: Vec<String> = (0..n).map(|i| format!("%y{i}")).collect();
    let types = vec!["tensor<256xf32>"; n].join(", ");
    let source = format!(
        "func.func @main(%rate: tensor<f32>, {}) -> ({types}) {{\n  %r = stablehlo.broadcast_in_dim %rate, dims = [] : \
         (tensor<f32>) -> tensor<256xf32>\n{body}  return {} : {types}\n}}",
        args.join(", "),
        results.join(", "),
    );
    SURVEYS.set(0);
    compiled(&source);
    SURVEYS.get()
}

#[test]
fn a_number_shared_by_all_layers_does_not_make_each_look_at_all() {
    let (few, many) = (surveys_of_updates(8), surveys_of_updates(64));
    assert!(few >= 8, "{few}");
    assert!(many <= 9 * few, "{few} surveys for 8 updates, {many} for 64");
}

/// Rows of the interior of an array that two devices share: each has as many, and they begin in another row of what the
/// device has.
#[test]
fn slices_at_places_of_the_device_are_read_where_they_lie() {
    let source = "func.func @main(%x: tensor<16x40xf32>) -> tensor<16x40xf32> {
  %id = stablehlo.partition_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %d = stablehlo.subtract %one, %i : tensor<i32>
  %y = stablehlo.multiply %x, %x : tensor<16x40xf32>
  %a = stablehlo.dynamic_slice %y, %d, %zero, sizes = [15, 40] : (tensor<16x40xf32>, tensor<i32>, tensor<i32>) -> tensor<15x40xf32>
  %p = stablehlo.pad %a, %f, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<15x40xf32>, tensor<f32>) -> tensor<17x40xf32>
  %q = stablehlo.dynamic_slice %p, %i, %zero, sizes = [16, 40] : (tensor<17x40xf32>, tensor<i32>, tensor<i32>) -> tensor<16x40xf32>
  %r = stablehlo.add %x, %q : tensor<16x40xf32>
  return %r : tensor<16x40xf32>
}";
    let large = |partitions| {
        let text = listing(source, partitions);
        text.lines().filter(|l| l.contains(" = ") && l.contains("×40")).count()
    };
    assert_eq!((large(1), large(2)), (1, 1));
    assert!(large(100) > 1, "loops for each of a hundred devices");
}

/// The last elements of a row of narrow ones are done as the end of a whole vector, which must not change what stands
/// before them a second time where the result takes the place of the argument.
#[test]
fn the_end_of_a_narrow_row_is_written_once() {
    for n in [1, 31, 32, 33, 45, 63, 64, 127, 300] {
        for (elem, three) in [("ui8", "3"), ("i16", "3"), ("bf16", "3.0"), ("f16", "3.0")] {
            let ty = format!("tensor<{n}x{elem}>");
            check(
                &format!(
                    "func.func @main(%x: {ty}) -> {ty} {{
  %c = stablehlo.constant dense<{three}> : {ty}
  %y = stablehlo.multiply %x, %c : {ty}
  %z = stablehlo.add %y, %c : {ty}
  return %z : {ty}
}}"
                ),
                0.01,
            );
        }
    }
}

#[test]
fn weights_of_a_stencil_are_part_of_its_code() {
    let source = "func.func @main(%x: tensor<20x30xf32>) -> tensor<1x1x18x28xf32> {
  %k = stablehlo.constant dense<[[0.0, 0.2, 0.1], [0.2, -0.8, 0.2], [0.0, 0.3, 0.0]]> : tensor<3x3xf32>
  %w = stablehlo.broadcast_in_dim %k, dims = [2, 3] : (tensor<3x3xf32>) -> tensor<1x1x3x3xf32>
  %i = stablehlo.broadcast_in_dim %x, dims = [2, 3] : (tensor<20x30xf32>) -> tensor<1x1x20x30xf32>
  %y = stablehlo.convolution(%i, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x20x30xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x18x28xf32>
  return %y : tensor<1x1x18x28xf32>
}";
    check(source, 1e-6);
    let program = compiled(source);
    let constant = |buf: &crate::step::Buf| program.bufs[buf.0 as usize].constant.is_some();
    for node in &program.main.nodes {
        assert!(!matches!(node, Node::Step(step) if step.reads.iter().any(constant)), "{program}");
    }
}

/// Where such slices start costs nothing, so a stencil reads them as often as it likes.
#[test]
fn a_stencil_of_slices_at_places_of_the_device_is_one_step() {
    let source = "func.func @main(%x: tensor<16x40xf32>) -> tensor<1x1x13x37xf32> {
  %id = stablehlo.partition_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %m = stablehlo.constant dense<-1> : tensor<i32>
  %n = stablehlo.multiply %i, %m : tensor<i32>
  %d = stablehlo.add %n, %one : tensor<i32>
  %e = stablehlo.subtract %one, %i : tensor<i32>
  %k = stablehlo.constant dense<0.5> : tensor<1x1x3x3xf32>
  %a = stablehlo.dynamic_slice %x, %d, %zero, sizes = [15, 40] : (tensor<16x40xf32>, tensor<i32>, tensor<i32>) -> tensor<15x40xf32>
  %b = stablehlo.dynamic_slice %a, %zero, %e, sizes = [15, 39] : (tensor<15x40xf32>, tensor<i32>, tensor<i32>) -> tensor<15x39xf32>
  %c = stablehlo.broadcast_in_dim %b, dims = [2, 3] : (tensor<15x39xf32>) -> tensor<1x1x15x39xf32>
  %y = stablehlo.convolution(%c, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x15x39xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x13x37xf32>
  return %y : tensor<1x1x13x37xf32>
}";
    let text = listing(source, 2);
    assert_eq!(text.lines().filter(|l| l.contains(" = ") && l.contains('×')).count(), 1, "{text}");
}

/// Rows from a neighbor behind a shard's own, zero where the whole array ends, under a stencil: the mask is wanted at
/// three positions, but the boxes decide it.
#[test]
fn a_mask_under_a_stencil_is_not_stored() {
    let source = "func.func @main(%x: tensor<16x40xf32>, %h: tensor<2x40xf32>) -> tensor<1x1x16x38xf32> {
  %id = stablehlo.partition_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %c = stablehlo.constant dense<16> : tensor<i32>
  %m = stablehlo.multiply %i, %c : tensor<i32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<i32>) -> tensor<18xi32>
  %p = stablehlo.iota dim = 0 : tensor<18xi32>
  %q = stablehlo.add %p, %mb : tensor<18xi32>
  %zero = stablehlo.constant dense<0> : tensor<18xi32>
  %end = stablehlo.constant dense<64> : tensor<18xi32>
  %ge = stablehlo.compare GE, %q, %zero : (tensor<18xi32>, tensor<18xi32>) -> tensor<18xi1>
  %lt = stablehlo.compare LT, %q, %end : (tensor<18xi32>, tensor<18xi32>) -> tensor<18xi1>
  %in = stablehlo.and %ge, %lt : tensor<18xi1>
  %mask = stablehlo.broadcast_in_dim %in, dims = [2] : (tensor<18xi1>) -> tensor<1x1x18x40xi1>
  %a = stablehlo.concatenate %x, %h, dim = 0 : (tensor<16x40xf32>, tensor<2x40xf32>) -> tensor<18x40xf32>
  %b = stablehlo.broadcast_in_dim %a, dims = [2, 3] : (tensor<18x40xf32>) -> tensor<1x1x18x40xf32>
  %f = stablehlo.constant dense<0.0> : tensor<1x1x18x40xf32>
  %s = stablehlo.select %mask, %b, %f : tensor<1x1x18x40xi1>, tensor<1x1x18x40xf32>
  %k = stablehlo.constant dense<0.5> : tensor<1x1x3x3xf32>
  %y = stablehlo.convolution(%s, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x18x40xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x16x38xf32>
  return %y : tensor<1x1x16x38xf32>
}";
    check(source, 1e-5);
    let text = listing(source, 4);
    assert!(!text.lines().any(|l| l.contains(" = ") && l.contains(" 18")), "{text}");
    assert_eq!(text.lines().filter(|l| l.contains(" = ") && l.contains('×')).count(), 1, "{text}");
}

/// A number that is none stays that, whatever its bits are.
#[test]
fn numbers_rounded_to_bf16() {
    let source = "func.func @main(%x: tensor<23xf32>) -> (tensor<23xbf16>, tensor<23xf32>) {
        %0 = stablehlo.convert %x : (tensor<23xf32>) -> tensor<23xbf16>
        %1 = stablehlo.convert %0 : (tensor<23xbf16>) -> tensor<23xf32>
        %2 = stablehlo.negate %1 : tensor<23xf32>
        return %0, %2 : tensor<23xbf16>, tensor<23xf32> }";
    let bits: [u32; 23] = [
        0,
        1 << 31,
        1,
        0x8000,
        0x8001,
        0x7F80_0000,
        0xFF80_0000,
        0x7F80_0001,
        0xFF80_0001,
        0x7FFF_FFFF,
        0xFFFF_FFFF,
        0x7FC0_0000,
        0x7F7F_7FFF,
        0x7F7F_8000,
        0xFF7F_FFFF,
        0x3F80_7FFF,
        0x3F80_8000,
        0x3F81_8000,
        0x3F80_8001,
        0xBF81_8000,
        0x0080_0000,
        0x007F_FFFF,
        0x7FFF_8000,
    ];
    let bytes = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
    let x = Literal::from_bytes(vec![23], ElementType::F32, bytes).unwrap();
    check_on(source, &[x], 0.0);
}

/// Numbers below the least of the narrower exponent are zeros, not subnormal ones.
#[test]
fn reduced_precision_has_no_subnormal_numbers() {
    let source = "func.func @main(%x: tensor<6xf32>) -> tensor<6xf32> {
        %0 = stablehlo.reduce_precision %x, format = e5m10 : tensor<6xf32>
        return %0 : tensor<6xf32> }";
    let x = Literal::from_f64s([6], ElementType::F32, &[4.6e-5, -6.0e-5, 6.2e-5, 3.0e-8, 1.0e5, 0.1]).unwrap();
    check_on(source, &[x], 0.0);
}

/// Neighborhoods compared with the one in the middle, and what is at their places in a padded image: corners side by side would
/// read too many arrays for one loop, and so would all sums at once.
#[test]
fn many_small_sums_beside_edges_are_loops() {
    let (image, sums, padded) = ("tensor<48x48xf32>", "tensor<48x48x9xf32>", "tensor<52x52xf32>");
    for places in [1, 2, 3, 9] {
        let mut source = format!(
            "func.func @main(%x: {image}, %r: tensor<2704x9xf32>, %m: tensor<9x9xf32>) -> {image} {{
            %zero = stablehlo.constant dense<0.0> : tensor<f32>
            %f = stablehlo.dot_general %r, %m, contracting_dims = [1] x [0] : (tensor<2704x9xf32>, tensor<9x9xf32>) -> tensor<2704x9xf32>
            %p = stablehlo.reshape %f : (tensor<2704x9xf32>) -> tensor<52x52x9xf32>
            %top = stablehlo.slice %x [0:1, 0:48] : ({image}) -> tensor<1x48xf32>
            %end = stablehlo.slice %x [47:48, 0:48] : ({image}) -> tensor<1x48xf32>
            %y = stablehlo.concatenate %top, %top, %x, %end, %end, dim = 0 : (tensor<1x48xf32>, tensor<1x48xf32>, {image}, tensor<1x48xf32>, tensor<1x48xf32>) -> tensor<52x48xf32>
            %left = stablehlo.slice %y [0:52, 0:1] : (tensor<52x48xf32>) -> tensor<52x1xf32>
            %right = stablehlo.slice %y [0:52, 47:48] : (tensor<52x48xf32>) -> tensor<52x1xf32>
            %q = stablehlo.concatenate %left, %left, %y, %right, %right, dim = 1 : (tensor<52x1xf32>, tensor<52x1xf32>, tensor<52x48xf32>, tensor<52x1xf32>, tensor<52x1xf32>) -> {padded}
            %scale = stablehlo.constant dense<-0.05> : {image}
            %w0 = stablehlo.constant dense<0.0> : {image}
            %s0 = stablehlo.constant dense<0.0> : {image}\n"
        );
        for k in 0..places {
            let (i, j, n) = (k / 3, k % 3, k + 1);
            let (to, beside) = (i + 48, j + 48);
            source += &format!(
                "%a{k} = stablehlo.slice %p [{i}:{to}, {j}:{beside}, 0:9] : (tensor<52x52x9xf32>) -> {sums}
                %b{k} = stablehlo.slice %p [2:50, 2:50, 0:9] : (tensor<52x52x9xf32>) -> {sums}
                %c{k} = stablehlo.subtract %a{k}, %b{k} : {sums}
                %d{k} = stablehlo.multiply %c{k}, %c{k} : {sums}
                %e{k} = stablehlo.reduce(%d{k} init: %zero) applies stablehlo.add across dimensions = [2] : ({sums}, tensor<f32>) -> {image}
                %g{k} = stablehlo.multiply %e{k}, %scale : {image}
                %h{k} = stablehlo.exponential %g{k} : {image}
                %w{n} = stablehlo.add %w{k}, %h{k} : {image}
                %o{k} = stablehlo.slice %q [{i}:{to}, {j}:{beside}] : ({padded}) -> {image}
                %t{k} = stablehlo.multiply %h{k}, %o{k} : {image}
                %s{n} = stablehlo.add %s{k}, %t{k} : {image}\n"
            );
        }
        source += &format!("%z = stablehlo.divide %s{places}, %w{places} : {image} return %z : {image} }}");
        let text = check(&source, 1e-4);
        assert!(!text.contains("scalar ") && !text.contains("reduce f32"), "{places}: {text}");
    }
}
