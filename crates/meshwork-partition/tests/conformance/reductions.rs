//! Reductions and windows.

use crate::cases::{Failures, Program, SIZES, conform, list, program, t};

/// Name of the body's operation and its identity.
pub const BODIES: &[(&str, &str, &str)] = &[
    ("add", "i32", "0"),
    ("multiply", "i32", "1"),
    ("maximum", "i32", "-2147483648"),
    ("minimum", "i32", "2147483647"),
    ("and", "i1", "true"),
    ("or", "i1", "false"),
    ("xor", "i32", "0"),
    ("add", "f32", "0.0"),
    ("maximum", "f32", "0xFF800000"),
];

fn reduce_program(op: &str, elem: &str, init: &str, dims: &[i64], over: &[i64]) -> Program {
    let kept: Vec<i64> = (0..dims.len()).filter(|d| !over.contains(&(*d as i64))).map(|d| dims[d]).collect();
    let (a, r) = (t(dims, elem), t(&kept, elem));
    let body = format!(
        "%i = stablehlo.constant dense<{init}> : tensor<{elem}>\n%r0 = stablehlo.reduce(%a0 init: %i) applies stablehlo.{op} across dimensions = [{}] : ({a}, tensor<{elem}>) -> {r}",
        list(over)
    );
    program(&[&a], &[&r], body)
}

#[test]
fn reduce_with_every_body() {
    let mut programs = vec![];
    for (op, elem, init) in BODIES {
        for &n in SIZES {
            for over in [&[0][..], &[1], &[0, 1]] {
                programs.push(reduce_program(op, elem, init, &[n, 3], over));
            }
        }
    }
    conform(programs, 3);
}

/// An initial value that is not neutral counts once.
#[test]
fn reduce_from_any_start() {
    let mut programs = vec![];
    for (op, elem, init) in
        [("add", "i32", "5"), ("multiply", "i32", "3"), ("maximum", "i32", "4"), ("and", "i32", "6")]
    {
        for &n in SIZES {
            programs.push(reduce_program(op, elem, init, &[n, 2], &[0]));
        }
    }
    conform(programs, 4);
}

/// The largest element and its place.
#[test]
fn reduce_two_arrays_at_once() {
    let mut programs = vec![];
    for &n in SIZES {
        let (a, i) = (t(&[n, 3], "f32"), t(&[n, 3], "i32"));
        for over in [0, 1] {
            let kept = if over == 0 { 3 } else { n };
            let (ra, ri) = (t(&[kept], "f32"), t(&[kept], "i32"));
            let body = format!(
                "%i = stablehlo.iota dim = {over} : {i}
%low = stablehlo.constant dense<0xFF800000> : tensor<f32>
%zero = stablehlo.constant dense<0> : tensor<i32>
%r0, %r1 = \"stablehlo.reduce\"(%a0, %i, %low, %zero) ({{
^bb0(%p: tensor<f32>, %q: tensor<i32>, %s: tensor<f32>, %u: tensor<i32>):
  %g = stablehlo.compare GT, %p, %s : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %e = stablehlo.compare EQ, %p, %s : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %l = stablehlo.compare LT, %q, %u : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %el = stablehlo.and %e, %l : tensor<i1>
  %c = stablehlo.or %g, %el : tensor<i1>
  %v = stablehlo.select %c, %p, %s : tensor<i1>, tensor<f32>
  %w = stablehlo.select %c, %q, %u : tensor<i1>, tensor<i32>
  stablehlo.return %v, %w : tensor<f32>, tensor<i32>
}}) {{dimensions = array<i64: {over}>}} : ({a}, {i}, tensor<f32>, tensor<i32>) -> ({ra}, {ri})"
            );
            programs.push(program(&[&a], &[&ra, &ri], body));
        }
    }
    conform(programs, 6);
}

/// A window along the first of two dimensions.
pub struct Slide {
    pub n: i64,
    pub size: i64,
    pub stride: i64,
    pub base: i64,
    pub dilation: i64,
    pub low: i64,
    pub high: i64,
}

fn window_program(op: &str, elem: &str, init: &str, s: &Slide) -> Option<Program> {
    let spread = |n: i64, by: i64| if n == 0 { 0 } else { (n - 1) * by + 1 };
    let line = spread(s.n, s.base) + s.low + s.high;
    let span = spread(s.size, s.dilation);
    if line < 0 {
        return None;
    }
    let out = if line < span { 0 } else { (line - span) / s.stride + 1 };
    let (a, r) = (t(&[s.n, 2], elem), t(&[out, 2], elem));
    let body = format!(
        "%i = stablehlo.constant dense<{init}> : tensor<{elem}>
%r0 = \"stablehlo.reduce_window\"(%a0, %i) ({{
^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>):
  %s = stablehlo.{op} %p, %q : tensor<{elem}>
  stablehlo.return %s : tensor<{elem}>
}}) {{window_dimensions = array<i64: {}, 1>, window_strides = array<i64: {}, 1>, base_dilations = array<i64: {}, 1>, window_dilations = array<i64: {}, 1>, padding = dense<[[{}, {}], [0, 0]]> : tensor<2x2xi64>}} : ({a}, tensor<{elem}>) -> {r}",
        s.size, s.stride, s.base, s.dilation, s.low, s.high
    );
    Some(program(&[&a], &[&r], body))
}

#[test]
fn reduce_window() {
    let mut programs = vec![];
    for n in [0, 1, 3, 4, 7, 8] {
        for size in [1, 2, 3] {
            for stride in [1, 2, 3] {
                for (low, high) in [(0, 0), (1, 1), (2, 0), (-1, 1), (0, 3)] {
                    for (base, dilation) in [(1, 1), (2, 1), (1, 2)] {
                        let s = Slide { n, size, stride, base, dilation, low, high };
                        programs.extend(window_program("add", "i32", "0", &s));
                        programs.extend(window_program("maximum", "f32", "0xFF800000", &s));
                    }
                }
            }
        }
    }
    conform(programs.into_iter().step_by(7), 2);
}

fn cumulative(n: i64, backwards: bool) -> Slide {
    let (low, high) = if backwards { (0, n - 1) } else { (n - 1, 0) };
    Slide { n, size: n, stride: 1, base: 1, dilation: 1, low, high }
}

#[test]
fn running_reductions() {
    let mut programs = vec![];
    for n in [1, 3, 4, 7, 8] {
        for (op, elem, init) in BODIES {
            for backwards in [false, true] {
                programs.extend(window_program(op, elem, init, &cumulative(n, backwards)));
            }
        }
    }
    conform(programs, 2);
}

/// Two running reductions with different identities over one split dimension.
#[test]
fn running_sum_and_running_maximum_of_one_array() {
    let mut programs = vec![];
    for n in [3, 4, 7, 8, 13] {
        let a = t(&[n, 2], "f32");
        let window = |name: &str, op: &str, init: &str| {
            format!(
                "%i{name} = stablehlo.constant dense<{init}> : tensor<f32>
%r{name} = \"stablehlo.reduce_window\"(%a0, %i{name}) ({{
^bb0(%p: tensor<f32>, %q: tensor<f32>):
  %s = stablehlo.{op} %p, %q : tensor<f32>
  stablehlo.return %s : tensor<f32>
}}) {{window_dimensions = array<i64: {n}, 1>, padding = dense<[[{}, 0], [0, 0]]> : tensor<2x2xi64>}} : ({a}, tensor<f32>) -> {a}\n",
                n - 1
            )
        };
        let body =
            window("0", "add", "0.0") + &window("1", "maximum", "0xFF800000") + &window("2", "minimum", "0x7F800000");
        programs.push(program(&[&a], &[&a, &a, &a], body));
    }
    conform(programs, 7);
}

#[test]
fn select_and_scatter() {
    let mut programs = vec![];
    for n in [1, 3, 4, 7, 8] {
        for (size, stride, low, high) in
            [(2, 2, 0, 0), (3, 2, 1, 1), (2, 1, 0, 0), (3, 1, 1, 1), (1, 2, 0, 0), (3, 3, 0, 2), (2, 3, 1, 0)]
        {
            if n + low + high < size {
                continue;
            }
            let m = (n + low + high - size) / stride + 1;
            let (a, s) = (t(&[n, 2], "i32"), t(&[m, 2], "i32"));
            let body = format!(
                "%i = stablehlo.constant dense<0> : tensor<i32>
%r0 = \"stablehlo.select_and_scatter\"(%a0, %a1, %i) ({{
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %c = stablehlo.compare GE, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}}, {{
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %c = stablehlo.add %p, %q : tensor<i32>
  stablehlo.return %c : tensor<i32>
}}) {{window_dimensions = array<i64: {size}, 1>, window_strides = array<i64: {stride}, 1>, padding = dense<[[{low}, {high}], [0, 0]]> : tensor<2x2xi64>}} : ({a}, {s}, tensor<i32>) -> {a}"
            );
            programs.push(program(&[&a, &s], &[&a], body));
        }
    }
    conform(programs, 4);
}

/// Shardy's explicit partitioner pads such a value on each device instead of moving elements.
#[test]
fn regression_pad_that_shifts_within_the_extent() {
    let mut failures = Failures::default();
    failures.check(
        "sdy.mesh @mesh = <[\"x\"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}) {
%z = stablehlo.constant dense<0.0> : tensor<f32>
%r = stablehlo.pad %a, %z, low = [-1], high = [1], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
return %r : tensor<8xf32>
}",
    );
    failures.report();
}

/// Shardy's explicit partitioner always sums, even if the body of the reduction does not.
#[test]
fn regression_maximum_over_a_split_dimension() {
    let mut programs = vec![];
    for (op, elem, init) in BODIES {
        programs.push(reduce_program(op, elem, init, &[4], &[0]));
        programs.push(reduce_program(op, elem, init, &[5], &[0]));
    }
    conform(programs, 7);
}

/// Shardy's explicit partitioner adds exp(0) of the padding.
#[test]
fn regression_sum_of_exponentials_over_an_uneven_dimension() {
    let (a, r) = (t(&[3], "f32"), t(&[], "f32"));
    let body = format!(
        "%e = stablehlo.exponential %a0 : {a}
%i = stablehlo.constant dense<0.0> : tensor<f32>
%r0 = stablehlo.reduce(%e init: %i) applies stablehlo.add across dimensions = [0] : ({a}, tensor<f32>) -> {r}"
    );
    conform([program(&[&a], &[&r], body)], 7);
}
