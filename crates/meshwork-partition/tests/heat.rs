//! The heat equation in many spellings: two permutes of one element a step, nothing else, even and uneven.

mod common;

use common::{check, collectives};

fn program(n: i64, devices: i64, body: &str) -> String {
    format!(
        r#"
sdy.mesh @mesh = <["d"={devices}]>
func.func @main(%x: tensor<{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"d"}}]>}}) -> (tensor<{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"d"}}]>}}) {{
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c0, %u = %x) : tensor<i32>, tensor<{n}xf32>
  cond {{
    %limit = stablehlo.constant dense<5> : tensor<i32>
    %p = stablehlo.compare LT, %i, %limit, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    {body}
    stablehlo.return %next, %new : tensor<i32>, tensor<{n}xf32>
  }}
  return %r#1 : tensor<{n}xf32>
}}
"#
    )
}

/// Interior update from three slices, in `%inner`.
fn interior(n: i64) -> String {
    let m = n - 2;
    format!(
        r#"
    %right = stablehlo.slice %u [2:{n}] : (tensor<{n}xf32>) -> tensor<{m}xf32>
    %mid = stablehlo.slice %u [1:{}] : (tensor<{n}xf32>) -> tensor<{m}xf32>
    %left = stablehlo.slice %u [0:{m}] : (tensor<{n}xf32>) -> tensor<{m}xf32>
    %two = stablehlo.constant dense<2.0> : tensor<{m}xf32>
    %k = stablehlo.constant dense<0.25> : tensor<{m}xf32>
    %t0 = stablehlo.multiply %two, %mid : tensor<{m}xf32>
    %t1 = stablehlo.subtract %right, %t0 : tensor<{m}xf32>
    %t2 = stablehlo.add %t1, %left : tensor<{m}xf32>
    %t3 = stablehlo.multiply %k, %t2 : tensor<{m}xf32>
    %inner = stablehlo.add %mid, %t3 : tensor<{m}xf32>"#,
        n - 1
    )
}

fn slice_assign(n: i64) -> String {
    let m = n - 2;
    format!(
        r#"{}
    %at = stablehlo.constant dense<1> : tensor<1xi32>
    %new = "stablehlo.scatter"(%u, %at, %inner) <{{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }}) : (tensor<{n}xf32>, tensor<1xi32>, tensor<{m}xf32>) -> tensor<{n}xf32>"#,
        interior(n)
    )
}

fn update_slice(n: i64) -> String {
    let m = n - 2;
    format!(
        r#"{}
    %new = stablehlo.dynamic_update_slice %u, %inner, %one : (tensor<{n}xf32>, tensor<{m}xf32>, tensor<i32>) -> tensor<{n}xf32>"#,
        interior(n)
    )
}

/// Each slice is cut just before it is used, and the last one is near to the ordinary frame of the interior.
fn weighted_slices(n: i64) -> String {
    let m = n - 2;
    format!(
        r#"
    %mid = stablehlo.slice %u [1:{}] : (tensor<{n}xf32>) -> tensor<{m}xf32>
    %half = stablehlo.constant dense<0.5> : tensor<{m}xf32>
    %t0 = stablehlo.multiply %half, %mid : tensor<{m}xf32>
    %left = stablehlo.slice %u [0:{m}] : (tensor<{n}xf32>) -> tensor<{m}xf32>
    %quarter = stablehlo.constant dense<0.25> : tensor<{m}xf32>
    %t1 = stablehlo.multiply %quarter, %left : tensor<{m}xf32>
    %t2 = stablehlo.add %t0, %t1 : tensor<{m}xf32>
    %right = stablehlo.slice %u [2:{n}] : (tensor<{n}xf32>) -> tensor<{m}xf32>
    %t3 = stablehlo.multiply %quarter, %right : tensor<{m}xf32>
    %inner = stablehlo.add %t2, %t3 : tensor<{m}xf32>
    %new = stablehlo.dynamic_update_slice %u, %inner, %one : (tensor<{n}xf32>, tensor<{m}xf32>, tensor<i32>) -> tensor<{n}xf32>"#,
        n - 1
    )
}

fn concatenate(n: i64) -> String {
    let m = n - 2;
    format!(
        r#"{}
    %first = stablehlo.slice %u [0:1] : (tensor<{n}xf32>) -> tensor<1xf32>
    %last = stablehlo.slice %u [{}:{n}] : (tensor<{n}xf32>) -> tensor<1xf32>
    %new = stablehlo.concatenate %first, %inner, %last, dim = 0 : (tensor<1xf32>, tensor<{m}xf32>, tensor<1xf32>) -> tensor<{n}xf32>"#,
        interior(n),
        n - 1
    )
}

fn combine(n: i64) -> String {
    format!(
        r#"
    %two = stablehlo.constant dense<2.0> : tensor<{n}xf32>
    %k = stablehlo.constant dense<0.25> : tensor<{n}xf32>
    %t0 = stablehlo.multiply %two, %u : tensor<{n}xf32>
    %t1 = stablehlo.subtract %right, %t0 : tensor<{n}xf32>
    %t2 = stablehlo.add %t1, %left : tensor<{n}xf32>
    %t3 = stablehlo.multiply %k, %t2 : tensor<{n}xf32>
    %new = stablehlo.add %u, %t3 : tensor<{n}xf32>"#
    )
}

fn pad(n: i64) -> String {
    let p = n + 2;
    format!(
        r#"
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %wide = stablehlo.pad %u, %zero, low = [1], high = [1], interior = [0] : (tensor<{n}xf32>, tensor<f32>) -> tensor<{p}xf32>
    %left = stablehlo.slice %wide [0:{n}] : (tensor<{p}xf32>) -> tensor<{n}xf32>
    %right = stablehlo.slice %wide [2:{p}] : (tensor<{p}xf32>) -> tensor<{n}xf32>{}"#,
        combine(n)
    )
}

fn roll(n: i64) -> String {
    let m = n - 1;
    format!(
        r#"
    %a0 = stablehlo.slice %u [{m}:{n}] : (tensor<{n}xf32>) -> tensor<1xf32>
    %a1 = stablehlo.slice %u [0:{m}] : (tensor<{n}xf32>) -> tensor<{m}xf32>
    %left = stablehlo.concatenate %a0, %a1, dim = 0 : (tensor<1xf32>, tensor<{m}xf32>) -> tensor<{n}xf32>
    %b0 = stablehlo.slice %u [1:{n}] : (tensor<{n}xf32>) -> tensor<{m}xf32>
    %b1 = stablehlo.slice %u [0:1] : (tensor<{n}xf32>) -> tensor<1xf32>
    %right = stablehlo.concatenate %b0, %b1, dim = 0 : (tensor<{m}xf32>, tensor<1xf32>) -> tensor<{n}xf32>{}"#,
        combine(n)
    )
}

fn convolution(n: i64) -> String {
    format!(
        r#"
    %img = stablehlo.reshape %u : (tensor<{n}xf32>) -> tensor<1x{n}x1xf32>
    %ker = stablehlo.constant dense<[[[0.25]], [[0.5]], [[0.25]]]> : tensor<3x1x1xf32>
    %res = stablehlo.convolution(%img, %ker) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{stride = [1], pad = [[1, 1]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x{n}x1xf32>, tensor<3x1x1xf32>) -> tensor<1x{n}x1xf32>
    %new = stablehlo.reshape %res : (tensor<1x{n}x1xf32>) -> tensor<{n}xf32>"#
    )
}

/// The inner elements alone, computed by a convolution, in `%inner`.
fn valid_convolution(n: i64) -> String {
    let m = n - 2;
    format!(
        r#"
    %img = stablehlo.reshape %u : (tensor<{n}xf32>) -> tensor<1x1x{n}xf32>
    %ker = stablehlo.constant dense<[[[0.25, 0.5, 0.25]]]> : tensor<1x1x3xf32>
    %res = stablehlo.convolution(%img, %ker) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {{stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x1x{n}xf32>, tensor<1x1x3xf32>) -> tensor<1x1x{m}xf32>
    %inner = stablehlo.reshape %res : (tensor<1x1x{m}xf32>) -> tensor<{m}xf32>"#
    )
}

/// The same as sums of windows of three.
fn valid_windows(n: i64) -> String {
    let m = n - 2;
    format!(
        r#"
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sums = "stablehlo.reduce_window"(%u, %zero) <{{window_dimensions = array<i64: 3>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %sum = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }}) : (tensor<{n}xf32>, tensor<f32>) -> tensor<{m}xf32>
    %third = stablehlo.constant dense<0.3125> : tensor<{m}xf32>
    %inner = stablehlo.multiply %sums, %third : tensor<{m}xf32>"#
    )
}

/// `%inner` between two zeros.
fn padded(n: i64, inner: &str) -> String {
    let m = n - 2;
    format!(
        r#"{inner}
    %edge = stablehlo.constant dense<0.0> : tensor<f32>
    %new = stablehlo.pad %inner, %edge, low = [1], high = [1], interior = [0] : (tensor<{m}xf32>, tensor<f32>) -> tensor<{n}xf32>"#
    )
}

/// `%inner` between the two elements that stand at the edges.
fn updated(n: i64, inner: &str) -> String {
    let m = n - 2;
    format!(
        r#"{inner}
    %at = stablehlo.constant dense<1> : tensor<i32>
    %new = stablehlo.dynamic_update_slice %u, %inner, %at : (tensor<{n}xf32>, tensor<{m}xf32>, tensor<i32>) -> tensor<{n}xf32>"#
    )
}

fn two_permutes(name: &str, body: fn(i64) -> String) {
    for (n, devices) in [(128, 8), (102, 4), (100, 8), (101, 3)] {
        let program = check(&program(n, devices, &body(n)));
        let got = collectives(&program);
        assert_eq!(
            got,
            [("collective-permute", 4, 5), ("collective-permute", 4, 5)],
            "{name}, {n} points on {devices} devices\n{}",
            meshwork_ir::text::print(&program.module)
        );
    }
}

#[test]
fn slice_assign_by_scatter() {
    two_permutes("scatter", slice_assign);
}

#[test]
fn slice_assign_by_dynamic_update_slice() {
    two_permutes("dynamic_update_slice", update_slice);
}

#[test]
fn weighted_slices_stay_in_the_frame_of_their_chain() {
    two_permutes("weighted slices", weighted_slices);
}

#[test]
fn with_concatenate() {
    two_permutes("concatenate", concatenate);
}

#[test]
fn with_pad() {
    two_permutes("pad", pad);
}

#[test]
fn with_roll() {
    two_permutes("roll", roll);
}

#[test]
fn as_convolution() {
    two_permutes("convolution", convolution);
}

#[test]
fn windows_of_the_inner_elements_stand_where_they_are_put_back() {
    two_permutes("convolution, padded", |n| padded(n, &valid_convolution(n)));
    two_permutes("convolution, updated", |n| updated(n, &valid_convolution(n)));
    two_permutes("windows, padded", |n| padded(n, &valid_windows(n)));
    two_permutes("windows, updated", |n| updated(n, &valid_windows(n)));
}
