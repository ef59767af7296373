//! Slices, gathers and scatters at places known at run time.

use meshwork_ir::{ElementType, Literal};

use crate::cases::{Program, SIZES, conform, list, program, t};
use crate::common::{run, split};

#[test]
fn dynamic_slice() {
    let mut programs = vec![];
    for &n in SIZES {
        for m in [0, 1, 2, n] {
            if m > n {
                continue;
            }
            for k in [3, 2] {
                let (a, r, s) = (t(&[n, 3], "i32"), t(&[m, k], "i32"), "tensor<i32>".to_string());
                let body =
                    format!("%r0 = stablehlo.dynamic_slice %a0, %a1, %a2, sizes = [{m}, {k}] : ({a}, {s}, {s}) -> {r}");
                programs.push(program(&[&a, &s, &s], &[&r], body));
            }
        }
    }
    conform(programs, 6);
}

#[test]
fn dynamic_update_slice() {
    let mut programs = vec![];
    for &n in SIZES {
        for m in [0, 1, 2, n] {
            if m > n {
                continue;
            }
            for k in [3, 2] {
                let (a, u, s) = (t(&[n, 3], "i32"), t(&[m, k], "i32"), "tensor<i32>".to_string());
                let body =
                    format!("%r0 = stablehlo.dynamic_update_slice %a0, %a1, %a2, %a3 : ({a}, {u}, {s}, {s}) -> {a}");
                programs.push(program(&[&a, &u, &s, &s], &[&a], body));
            }
        }
    }
    conform(programs, 4);
}

/// An update at a constant place, inside and beyond the end.
#[test]
fn update_at_a_constant_place() {
    let mut programs = vec![];
    for n in [3, 4, 7, 8] {
        for (m, at) in [(1, 0), (2, 1), (n - 1, 1), (n, 0), (2, n + 1), (1, -1)] {
            let (a, u) = (t(&[n, 3], "i32"), t(&[m, 3], "i32"));
            let body = format!(
                "%i = stablehlo.constant dense<{at}> : tensor<i32>\n%z = stablehlo.constant dense<0> : tensor<i32>\n%r0 = stablehlo.dynamic_update_slice %a0, %a1, %i, %z : ({a}, {u}, tensor<i32>, tensor<i32>) -> {a}"
            );
            programs.push(program(&[&a, &u], &[&a], body));
        }
    }
    conform(programs, 4);
}

/// Dimension numbers of a gather or scatter and the shapes they are for.
struct Numbers {
    operand: Dims,
    indices: Dims,
    sizes: Dims,
    offset: Dims,
    collapsed: Dims,
    batching: [Dims; 2],
    map: Dims,
    vector: i64,
    result: Dims,
}

type Dims = &'static [i64];

/// A row of the table: operand, indices and slice sizes; offset, collapsed and batching (operand, indices) dimensions;
/// index map, index vector dimension; result.
type Row = (Dims, Dims, Dims, Dims, Dims, [Dims; 2], Dims, i64, Dims);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // Rows of a table.
    (&[7, 3], &[5, 1], &[1, 3], &[1], &[0], [&[], &[]], &[0], 1, &[5, 3]),
    // Columns, with the index vector implied.
    (&[3, 8], &[4], &[3, 1], &[0], &[1], [&[], &[]], &[1], 1, &[3, 4]),
    // Single elements by two coordinates, the second first.
    (&[4, 5], &[2, 6], &[1, 1], &[], &[0, 1], [&[], &[]], &[1, 0], 0, &[6]),
    // Windows of two rows, part of the columns.
    (&[6, 4], &[3, 2], &[2, 3], &[1, 2], &[], [&[], &[]], &[0, 1], 1, &[3, 2, 3]),
    // One window, kept dimensions of size one.
    (&[7, 4], &[1], &[1, 4], &[0, 1], &[], [&[], &[]], &[0], 0, &[1, 4]),
    // A batch of tables.
    (&[4, 5, 2], &[4, 3, 1], &[1, 1, 2], &[2], &[1], [&[0], &[0]], &[1], 2, &[4, 3, 2]),
    // Batches in another order than the indices have them.
    (&[3, 2, 6], &[2, 3], &[1, 1, 1], &[], &[2], [&[0, 1], &[1, 0]], &[2], 2, &[2, 3]),
    // Nothing looked up.
    (&[4, 3], &[0, 1], &[1, 3], &[1], &[0], [&[], &[]], &[0], 1, &[0, 3]),
    // A prime number of rows, whole rows by a batch of two dimensions.
    (&[5, 4], &[2, 3, 1], &[1, 4], &[0], &[0], [&[], &[]], &[0], 2, &[4, 2, 3]),
];

fn numbers() -> impl Iterator<Item = Numbers> {
    TABLE.iter().map(|&(operand, indices, sizes, offset, collapsed, batching, map, vector, result)| Numbers {
        operand,
        indices,
        sizes,
        offset,
        collapsed,
        batching,
        map,
        vector,
        result,
    })
}

fn entry(name: &str, dims: &[i64]) -> String {
    if dims.is_empty() { String::new() } else { format!("{name} = [{}], ", list(dims)) }
}

fn gather_program(d: &Numbers, index: &str) -> Program {
    let (a, i, r) = (t(d.operand, "i32"), t(d.indices, index), t(d.result, "i32"));
    let body = format!(
        "%r0 = \"stablehlo.gather\"(%a0, %a1) <{{dimension_numbers = #stablehlo.gather<{}{}{}{}{}index_vector_dim = {}>, indices_are_sorted = false, slice_sizes = array<i64: {}>}}> : ({a}, {i}) -> {r}",
        entry("offset_dims", d.offset),
        entry("collapsed_slice_dims", d.collapsed),
        entry("operand_batching_dims", d.batching[0]),
        entry("start_indices_batching_dims", d.batching[1]),
        entry("start_index_map", d.map),
        d.vector,
        list(d.sizes),
    );
    program(&[&a, &i], &[&r], body)
}

/// Inputs hold numbers up to 17, so that many indices are out of bounds.
#[test]
fn gather() {
    let programs = numbers().flat_map(|d| ["i32", "ui8", "i64"].map(|e| gather_program(&d, e)));
    conform(programs, 14);
}

fn scatter_program(d: &Numbers, op: Option<&str>, index: &str) -> Program {
    let (a, i, u) = (t(d.operand, "i32"), t(d.indices, index), t(d.result, "i32"));
    let combine = match op {
        Some(op) => format!("  %s = stablehlo.{op} %p, %q : tensor<i32>\n  stablehlo.return %s : tensor<i32>"),
        None => "  stablehlo.return %q : tensor<i32>".into(),
    };
    let body = format!(
        "%r0 = \"stablehlo.scatter\"(%a0, %a1, %a2) <{{scatter_dimension_numbers = #stablehlo.scatter<{}{}{}{}{}index_vector_dim = {}>, indices_are_sorted = false, unique_indices = false}}> ({{
^bb0(%p: tensor<i32>, %q: tensor<i32>):
{combine}
}}) : ({a}, {i}, {u}) -> {a}",
        entry("update_window_dims", d.offset),
        entry("inserted_window_dims", d.collapsed),
        entry("input_batching_dims", d.batching[0]),
        entry("scatter_indices_batching_dims", d.batching[1]),
        entry("scatter_dims_to_operand_dims", d.map),
        d.vector,
    );
    program(&[&a, &i, &u], &[&a], body)
}

#[test]
fn scatter_that_combines() {
    let mut programs = vec![];
    for d in numbers() {
        for op in ["add", "maximum", "minimum", "multiply"] {
            programs.push(scatter_program(&d, Some(op), "i32"));
        }
        programs.push(scatter_program(&d, Some("add"), "ui8"));
    }
    conform(programs, 4);
}

/// Later updates win, on any device.
#[test]
fn scatter_that_overwrites() {
    conform(numbers().flat_map(|d| ["i32", "i8"].map(|e| scatter_program(&d, None, e))), 8);
}

/// Negative indices point nowhere in a scatter and to the first element in a gather.
#[test]
fn negative_indices() {
    let mut programs = vec![];
    for d in numbers() {
        let shifted = |p: Program| {
            let i = t(d.indices, "i32");
            let body = format!(
                "%six = stablehlo.constant dense<6> : {i}\n%at = stablehlo.subtract %a1, %six : {i}\n{}",
                p.body.replacen("%a1", "%at", 1)
            );
            Program { body, ..p }
        };
        programs.push(shifted(gather_program(&d, "i32")));
        programs.push(shifted(scatter_program(&d, Some("add"), "i32")));
    }
    conform(programs, 4);
}

/// A gather and a scatter of two arrays at once.
#[test]
fn scatter_of_two_arrays() {
    let mut programs = vec![];
    for n in [3, 4, 7] {
        let (a, b, i, u, v) =
            (t(&[n, 2], "i32"), t(&[n, 2], "f32"), t(&[5, 1], "i32"), t(&[5, 2], "i32"), t(&[5, 2], "f32"));
        let body = format!(
            "%r0, %r1 = \"stablehlo.scatter\"(%a0, %a1, %a2, %a3, %a4) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
^bb0(%p: tensor<i32>, %q: tensor<f32>, %s: tensor<i32>, %w: tensor<f32>):
  %x = stablehlo.add %p, %s : tensor<i32>
  %y = stablehlo.maximum %q, %w : tensor<f32>
  stablehlo.return %x, %y : tensor<i32>, tensor<f32>
}}) : ({a}, {b}, {i}, {u}, {v}) -> ({a}, {b})"
        );
        programs.push(program(&[&a, &b, &i, &u, &v], &[&a, &b], body));
    }
    conform(programs, 6);
}

/// A slice that one device holds reaches the others to the bit: adding zero would make negative zero positive.
#[test]
fn slices_and_gathers_keep_the_sign_of_zero() {
    let source = "sdy.mesh @mesh = <[\"x\"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}, %i: tensor<1xi32>)
    -> (tensor<1xf32>, tensor<1xf32>) {
  %at = stablehlo.reshape %i : (tensor<1xi32>) -> tensor<i32>
  %0 = stablehlo.dynamic_slice %a, %at, sizes = [1] : (tensor<8xf32>, tensor<i32>) -> tensor<1xf32>
  %1 = \"stablehlo.gather\"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], start_index_map = [0]>,
    slice_sizes = array<i64: 1>}> : (tensor<8xf32>, tensor<1xi32>) -> tensor<1xf32>
  return %0, %1 : tensor<1xf32>, tensor<1xf32>
}";
    let (_, program) = split(source);
    let zeros = Literal::from_f64s([8], ElementType::F32, &[-0.0; 8]).expect("eight floats");
    let at = Literal::from_i64s([1], ElementType::I32, &[5]).expect("one index");
    let found = run(&program, &[zeros, at]).expect("runs");
    assert!(found.iter().all(|l| l.to_f64s()[0].is_sign_negative()), "{found:?}");
    assert_eq!(program.plan.collectives.len(), 1, "both sums are one");
}
