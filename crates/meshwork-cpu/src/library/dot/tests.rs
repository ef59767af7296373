//! Products against the evaluator: layouts, sizes and element types.

use super::micro::{Micro, Shape, Tile};
use crate::library::testing::{check, check_on};

/// A product with batch `b` (0 for none) of `[m, k]` and `[k, n]`; `ta` and `tb` say which is stored transposed.
fn product(elem: &str, out: &str, size: [usize; 4], ta: bool, tb: bool) -> String {
    mixed([elem, elem, out], size, [ta, tb])
}

/// The same numbers for the same seed.
pub(super) fn random(seed: usize) -> impl FnMut() -> i64 {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as i64
    }
}

/// The same with an element type for each operand and the result.
pub(super) fn mixed([l, r, out]: [&str; 3], [b, m, n, k]: [usize; 4], [ta, tb]: [bool; 2]) -> String {
    let (lead, batch, bdims) = match b {
        0 => (String::new(), String::new(), 0),
        b => (format!("{b}x"), "batching_dims = [0] x [0], ".into(), 1),
    };
    let a = if ta { format!("{lead}{k}x{m}x{l}") } else { format!("{lead}{m}x{k}x{l}") };
    let bb = if tb { format!("{lead}{n}x{k}x{r}") } else { format!("{lead}{k}x{n}x{r}") };
    let (ca, cb) = (bdims + usize::from(!ta), bdims + usize::from(tb));
    let c = format!("{lead}{m}x{n}x{out}");
    format!(
        "func.func @main(%a: tensor<{a}>, %b: tensor<{bb}>) -> tensor<{c}> {{
        %r = stablehlo.dot_general %a, %b, {batch}contracting_dims = [{ca}] x [{cb}] : (tensor<{a}>, tensor<{bb}>) -> tensor<{c}>
        return %r : tensor<{c}> }}"
    )
}

const SIZES: &[[usize; 4]] = &[
    [0, 1, 1, 1],
    [0, 0, 3, 2],
    [0, 3, 0, 2],
    [0, 3, 2, 0],
    [0, 1, 17, 5],
    [0, 13, 1, 31],
    [0, 1, 1, 100],
    [0, 2, 40, 9],
    [0, 7, 16, 8],
    [0, 8, 33, 65],
    [0, 37, 41, 43],
    [0, 64, 16, 32],
    [0, 65, 130, 33],
    // Tall tiles of one and of two vectors.
    [0, 15, 9, 20],
    [0, 43, 16, 31],
    [0, 29, 17, 50],
    [0, 71, 32, 300],
    [0, 10, 30, 7],
    [3, 5, 7, 11],
    [5, 1, 9, 4],
    [17, 8, 8, 8],
];

#[test]
fn float_products_of_all_layouts() {
    for (elem, tolerance) in [("f32", 1e-5), ("f64", 1e-12), ("complex<f32>", 2e-5), ("complex<f64>", 1e-12)] {
        for &size in SIZES {
            for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
                check(&product(elem, elem, size, ta, tb), tolerance);
            }
        }
    }
}

/// Contracted dimensions in all orders and places, such as those of a bilinear form.
#[test]
fn sums_over_several_dimensions() {
    let name = |dims: [usize; 4]| dims.map(|d| ["7", "3", "1", "50"][d]).join("x");
    for elem in ["f32", "bf16", "complex<f32>", "i32"] {
        // Which dimension is the free one, and the order of the others.
        for left in [[0, 1, 2, 3], [3, 0, 2, 1], [2, 3, 1, 0]] {
            for right in [[0, 1, 2, 3], [1, 3, 0, 2], [3, 2, 0, 1], [2, 1, 3, 0]] {
                let place = |order: [usize; 4], of: usize| order.iter().position(|&d| d == of).expect("one of four");
                let contract =
                    |order: [usize; 4], list: [usize; 3]| list.map(|d| place(order, d).to_string()).join(", ");
                for list in [[1, 2, 3], [3, 1, 2], [3, 2, 1]] {
                    let (a, b) = (name(left), name(right));
                    let source = format!(
                        "func.func @main(%a: tensor<{a}x{elem}>, %b: tensor<{b}x{elem}>) -> tensor<7x7x{elem}> {{
                        %r = stablehlo.dot_general %a, %b, contracting_dims = [{}] x [{}]
                            : (tensor<{a}x{elem}>, tensor<{b}x{elem}>) -> tensor<7x7x{elem}>
                        return %r : tensor<7x7x{elem}> }}",
                        contract(left, list),
                        contract(right, list)
                    );
                    check(&source, if elem == "bf16" { 8e-3 } else { 1e-5 });
                }
            }
        }
    }
}

#[test]
fn products_of_all_element_types() {
    let small = [[0, 5, 18, 7], [0, 3, 2, 0], [2, 9, 5, 19]];
    for elem in [
        "i1",
        "i2",
        "ui2",
        "i4",
        "ui4",
        "i8",
        "ui8",
        "i16",
        "ui16",
        "i32",
        "ui32",
        "i64",
        "ui64",
        "bf16",
        "f16",
        "f8E4M3FN",
        "f8E5M2",
        "f4E2M1FN",
        "complex<f32>",
        "complex<f64>",
    ] {
        // One rounding step of the narrow types.
        let tolerance = match elem {
            "bf16" => 8e-3,
            "f16" => 1e-3,
            "f8E4M3FN" | "f8E5M2" | "f4E2M1FN" => 0.3,
            _ => 1e-6,
        };
        for size in small {
            check(&product(elem, elem, size, false, true), tolerance);
        }
    }
    for (elem, out) in [("i8", "i32"), ("bf16", "f32"), ("f16", "f32"), ("f32", "f64"), ("ui8", "i64"), ("f32", "bf16")]
    {
        check(&product(elem, out, [0, 9, 21, 13], true, false), 8e-3);
    }
}

/// A matrix of `bf16` or `f16` and a vector, on either side, transposed or not, in stacks, with lengths that are no multiples of anything.
#[test]
fn narrow_matrices_times_vectors() {
    for (batch, depth) in [(0, 1), (0, 37), (3, 64), (0, 2100)] {
        for [rows, columns] in [[1, 1], [1, 67], [67, 1], [1, 3]] {
            for (ta, tb) in [(false, false), (false, true), (true, false), (true, true)] {
                for (elem, out) in [("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("f16", "f32")] {
                    check(&product(elem, out, [batch, rows, columns, depth], ta, tb), 8e-3);
                }
            }
        }
    }
}

/// Stacks of small matrices, which are computed side by side: all layouts, all ends of stacks, elements that are converted.
#[test]
fn stacks_of_small_products() {
    let types = [("f32", "f32"), ("f64", "f64"), ("complex<f32>", "complex<f32>"), ("i32", "i32"), ("ui8", "i64")];
    let converted = [("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("i8", "i32"), ("f32", "f64")];
    for (elem, out) in types.into_iter().chain(converted) {
        let tolerance = if ["bf16", "f16"].contains(&elem) { 8e-3 } else { 1e-5 };
        for batch in [15, 16, 17, 40] {
            for [m, n, k] in [[1, 1, 1], [2, 2, 2], [3, 3, 3], [1, 1, 64], [4, 1, 5], [1, 9, 14], [8, 8, 8], [2, 3, 0]]
            {
                for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
                    check(&product(elem, out, [batch, m, n, k], ta, tb), tolerance);
                }
            }
        }
    }
}

/// The same where a stack is not the outermost dimension, has gaps, is in two dimensions, or where one matrix is for all.
#[test]
fn stacks_of_small_products_by_strides() {
    check(
        "func.func @main(%a: tensor<3x2x20xf32>, %b: tensor<2x20x4xf32>) -> tensor<20x3x4xf32> {
        %r = stablehlo.dot_general %a, %b, batching_dims = [2] x [1], contracting_dims = [1] x [0]
            : (tensor<3x2x20xf32>, tensor<2x20x4xf32>) -> tensor<20x3x4xf32>
        return %r : tensor<20x3x4xf32> }",
        1e-6,
    );
    check(
        "func.func @main(%a: tensor<40x3x3xf64>, %b: tensor<3x3xf64>) -> tensor<20x3x3xf64> {
        %0 = stablehlo.slice %a [1:40:2, 0:3, 0:3] : (tensor<40x3x3xf64>) -> tensor<20x3x3xf64>
        %1 = stablehlo.broadcast_in_dim %b, dims = [1, 2] : (tensor<3x3xf64>) -> tensor<20x3x3xf64>
        %r = stablehlo.dot_general %0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1]
            : (tensor<20x3x3xf64>, tensor<20x3x3xf64>) -> tensor<20x3x3xf64>
        return %r : tensor<20x3x3xf64> }",
        1e-12,
    );
    check(
        "func.func @main(%a: tensor<5x7x9xf32>, %b: tensor<5x9x7xf32>) -> tensor<5x7xf32> {
        %r = stablehlo.dot_general %a, %b, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1]
            : (tensor<5x7x9xf32>, tensor<5x9x7xf32>) -> tensor<5x7xf32>
        return %r : tensor<5x7xf32> }",
        1e-5,
    );
}

#[test]
fn large_products_in_several_parts() {
    for (elem, size) in [
        ("f32", [0, 200, 150, 400]),
        ("f32", [0, 8, 300, 200]),
        ("complex<f32>", [0, 131, 90, 300]),
        ("complex<f64>", [2, 67, 41, 270]),
        ("f64", [0, 13, 150, 70]),
        ("f64", [0, 70, 135, 300]),
        ("f32", [0, 500, 48, 210]),
        ("f32", [0, 48, 700, 210]),
        ("bf16", [0, 210, 60, 500]),
        ("f32", [2, 210, 64, 300]),
        ("f32", [70, 40, 40, 40]),
        ("i32", [0, 200, 100, 300]),
    ] {
        for (ta, tb) in [(false, false), (true, true)] {
            check(&product(elem, elem, size, ta, tb), if elem == "bf16" { 8e-3 } else { 1e-5 });
        }
    }
}

#[test]
fn several_contracted_and_free_dimensions_by_strides() {
    // Contracted over two dimensions that are not one run, after a transposition that is only a view.
    check(
        "func.func @main(%a: tensor<4x5x3x7xf32>, %b: tensor<3x6x7xf32>) -> tensor<5x4x6xf32> {
        %0 = stablehlo.transpose %a, dims = [1, 2, 0, 3] : (tensor<4x5x3x7xf32>) -> tensor<5x3x4x7xf32>
        %r = stablehlo.dot_general %0, %b, contracting_dims = [1, 3] x [0, 2]
            : (tensor<5x3x4x7xf32>, tensor<3x6x7xf32>) -> tensor<5x4x6xf32>
        return %r : tensor<5x4x6xf32> }",
        1e-6,
    );
    // A sliced and a broadcast operand, batch dimensions in another order.
    check(
        "func.func @main(%a: tensor<8x3x4x10xbf16>, %b: tensor<3x5xbf16>) -> tensor<4x3x4x5xf32> {
        %0 = stablehlo.slice %a [0:8:2, 0:3, 0:4, 2:7] : (tensor<8x3x4x10xbf16>) -> tensor<4x3x4x5xbf16>
        %1 = stablehlo.broadcast_in_dim %b, dims = [0, 3] : (tensor<3x5xbf16>) -> tensor<3x4x5x5xbf16>
        %r = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [1, 0], contracting_dims = [3] x [3]
            : (tensor<4x3x4x5xbf16>, tensor<3x4x5x5xbf16>) -> tensor<4x3x4x5xf32>
        return %r : tensor<4x3x4x5xf32> }",
        1e-2,
    );
    check(
        "func.func @main(%a: tensor<6xf32>, %b: tensor<6x5xf32>) -> (tensor<5xf32>, tensor<f32>) {
        %r = stablehlo.dot %a, %b : (tensor<6xf32>, tensor<6x5xf32>) -> tensor<5xf32>
        %s = stablehlo.dot %a, %a : (tensor<6xf32>, tensor<6xf32>) -> tensor<f32>
        return %r, %s : tensor<5xf32>, tensor<f32> }",
        1e-6,
    );
}

/// One tile of small integers, whose sums are exact, of `shape`.
fn tile_is_exact<T: Tile + From<i8> + PartialEq + std::fmt::Debug>(
    shape: Shape,
    (height, columns, depth): (usize, usize, usize),
    packed: bool,
    add: bool,
) {
    let number = |i: usize| T::from((i * 7919 % 15) as i8 - 7);
    let (a_row, a_step) = if packed { (1, height) } else { (depth + 3, 1) };
    let a: Vec<T> = (0..height * (depth + 3)).map(number).collect();
    let b: Vec<T> = (0..shape.columns * depth.max(1)).map(|i| number(i + 5)).collect();
    let c_row = columns + 2;
    let before: Vec<T> = (0..height * c_row).map(|i| number(i + 11)).collect();
    let mut c = before.clone();
    let call = Micro {
        depth,
        a: a.as_ptr(),
        a_row: a_row as isize,
        a_step: a_step as isize,
        b: b.as_ptr(),
        b_step: shape.columns as isize,
        c: c.as_mut_ptr(),
        c_row: c_row as isize,
        height,
        width: shape.columns,
        rows: height,
        columns,
        add,
    };
    // SAFETY: all elements are in the vectors above, and the shape is one of this processor.
    unsafe { T::micro(&call) };
    for i in 0..height {
        for j in 0..c_row {
            let old = before[i * c_row + j];
            let want = if j < columns {
                (0..depth).fold(if add { old } else { T::default() }, |sum, k| {
                    sum.add_product::<false>(a[i * a_row + k * a_step], b[k * shape.columns + j])
                })
            } else {
                old
            };
            assert_eq!(c[i * c_row + j], want, "{shape:?} {height}×{columns}×{depth} packed {packed} at {i}, {j}");
        }
    }
}

fn tiles_are_exact<T: Tile + From<i8> + PartialEq + std::fmt::Debug>() {
    let shapes = [T::shape(1, 1), T::shape(10, 1000), T::shape(1000, 1000)];
    for shape in shapes {
        for height in 1..=shape.rows {
            for columns in [1, 3, shape.columns / 2, shape.columns / 2 + 1, shape.columns - 1, shape.columns] {
                for depth in [0, 1, 2, 7, 9] {
                    for (packed, add) in [(true, false), (true, true), (false, true), (false, false)] {
                        tile_is_exact::<T>(shape, (height, columns.max(1), depth), packed, add);
                    }
                }
            }
        }
    }
}

#[test]
fn micro_kernels_compute_tiles_of_all_heights_and_widths() {
    tiles_are_exact::<f32>();
    tiles_are_exact::<f64>();
    tiles_are_exact::<i32>();
}

/// As XLA has it: a sum slightly above 9, half way between 8 and 10, is rounded to 9 in `f16` before `f8E5M2` takes the even
/// one; with another result type it is rounded once.
#[test]
fn products_of_eight_bits_are_rounded_through_f16() {
    use meshwork_ir::{ElementType, Literal};
    let literal = |values: &[f64]| Literal::from_f64s([3], ElementType::F8E5M2, values).unwrap();
    let args = [literal(&[8.0, 1.0, 0.5f64.powi(10)]), literal(&[1.0, 1.0, 1.0])];
    for (out, want) in [("f8E5M2", 8.0), ("f16", 9.0), ("f32", 9.0 + 0.5f64.powi(10))] {
        let source = format!(
            "func.func @main(%a: tensor<3xf8E5M2>, %b: tensor<3xf8E5M2>) -> tensor<{out}> {{
               %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<3xf8E5M2>, tensor<3xf8E5M2>) -> tensor<{out}>
               return %r : tensor<{out}> }}"
        );
        check_on(&source, &args, 0.0);
        let module = meshwork_ir::text::parse(&source).unwrap();
        assert_eq!(meshwork_eval::run(&module, None, &args).unwrap()[0].to_f64s(), [want]);
    }
}
