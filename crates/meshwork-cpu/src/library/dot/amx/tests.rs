//! Products on the matrix unit against the evaluator: layouts, sizes around the tiles, element types; and the same on
//! other processors.

use meshwork_ir::ElementType::{self, BF16, F8E4M3FN, F8E5M2, F16, F32, I4, I8, I32, UI4, UI8};
use meshwork_ir::{ElementClass, Literal, text};

use super::plan::{Plan, Problem};
use crate::library::dot::tests::{mixed, random};
use crate::library::dot::{WITHOUT, Without};
use crate::library::testing::{check_on, run};

/// Small integers, whose sums are exact in every type that sums are in; those of bytes are of all sizes.
fn literal(dims: &[usize], elem: ElementType, seed: usize) -> Literal {
    let mut next = random(seed);
    let n = dims.iter().product();
    let dims: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
    if elem.is_float() {
        let range = if elem.bits() <= 8 { 9 } else { 33 };
        let values: Vec<f64> = (0..n).map(|_| (next() % range - range / 2) as f64).collect();
        Literal::from_f64s(dims, elem, &values).expect("as many")
    } else {
        let count = 1i64 << elem.bits();
        let least = if elem.class() == ElementClass::Signed { -count / 2 } else { 0 };
        let values: Vec<i64> = (0..n).map(|_| least + next() % count).collect();
        Literal::from_i64s(dims, elem, &values).expect("as many")
    }
}

/// Checks a product on the unit, by words, and as other processors do it.
fn exact([l, r, out]: [ElementType; 3], [b, m, n, k]: [usize; 4], [ta, tb]: [bool; 2]) {
    let stack: &[usize] = if b == 0 { &[] } else { &[b] };
    let dims =
        |t: bool, rows: usize, columns: usize| [stack, &if t { [columns, rows] } else { [rows, columns] }].concat();
    let args = [literal(&dims(ta, m, k), l, m + 3 * n + 7 * k), literal(&dims(tb, k, n), r, m * n + k + b)];
    let names = [l, r, out].map(|e| e.to_string());
    let source = mixed(names.each_ref().map(|s| s.as_str()), [b, m, n, k], [ta, tb]);
    everywhere(&source, &args);
}

fn everywhere(source: &str, args: &[Literal]) {
    for without in [Without::Nothing, Without::Tiles, Without::Words] {
        WITHOUT.set(without);
        check_on(source, args, 0.0);
    }
    WITHOUT.set(Without::Nothing);
}

const LAYOUTS: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];

#[test]
fn sizes_around_the_tiles_in_all_layouts() {
    let sizes = [0, 1, 2, 15, 16, 17, 31, 33, 64, 67];
    let mut case = 0;
    for m in sizes {
        for n in sizes {
            for k in [0, 1, 2, 15, 31, 32, 33, 64, 67, 131] {
                for types in [[BF16, BF16, F32], [F16, F16, F32], [I8, UI8, I32]] {
                    exact(types, [0, m, n, k], LAYOUTS[case % 4]);
                    case += 1;
                }
            }
            // The layouts in another order than the sizes.
            case += 1;
        }
    }
}

#[test]
fn all_element_types_in_all_layouts() {
    let types = [
        [BF16, BF16, BF16],
        [BF16, BF16, F32],
        [BF16, F8E4M3FN, F32],
        [F8E5M2, BF16, BF16],
        [F8E4M3FN, F8E4M3FN, F32],
        [BF16, BF16, ElementType::F16],
        [I8, I8, I32],
        [UI8, UI8, I32],
        [I8, UI8, I32],
        [UI8, I8, I32],
        [UI8, I8, ElementType::UI32],
        [I8, I8, I8],
        [I4, UI4, I32],
        [UI4, I8, ElementType::I16],
    ];
    for types in types {
        for layout in LAYOUTS {
            for size in [[0, 17, 35, 70], [3, 37, 41, 43], [2, 16, 16, 64], [5, 2, 3, 7]] {
                exact(types, size, layout);
            }
        }
    }
}

#[test]
fn many_parts_and_blocks_of_the_depth() {
    for types in [[BF16, BF16, F32], [BF16, BF16, BF16], [I8, I8, I32]] {
        exact(types, [0, 70, 80, 9000], [false, true]);
        exact(types, [0, 600, 530, 70], [false, false]);
        exact(types, [0, 33, 2100, 40], [true, false]);
        exact(types, [60, 33, 47, 130], [true, true]);
    }
}

/// Dimensions that are not one run, views and stacks.
#[test]
fn tiles_are_gathered_by_strides() {
    for (elem, out) in [(BF16, F32), (I8, I32), (F8E4M3FN, F32)] {
        let source = format!(
            "func.func @main(%a: tensor<4x5x3x7x{elem}>, %b: tensor<3x6x7x{elem}>) -> tensor<5x4x6x{out}> {{
            %0 = stablehlo.transpose %a, dims = [1, 2, 0, 3] : (tensor<4x5x3x7x{elem}>) -> tensor<5x3x4x7x{elem}>
            %r = stablehlo.dot_general %0, %b, contracting_dims = [1, 3] x [0, 2]
                : (tensor<5x3x4x7x{elem}>, tensor<3x6x7x{elem}>) -> tensor<5x4x6x{out}>
            return %r : tensor<5x4x6x{out}> }}"
        );
        everywhere(&source, &[literal(&[4, 5, 3, 7], elem, 1), literal(&[3, 6, 7], elem, 2)]);
        // Runs of 40 along the depth: tiles begin and end inside them.
        let source = format!(
            "func.func @main(%a: tensor<19x3x40x{elem}>, %b: tensor<3x21x40x{elem}>) -> tensor<19x21x{out}> {{
            %r = stablehlo.dot_general %a, %b, contracting_dims = [1, 2] x [0, 2]
                : (tensor<19x3x40x{elem}>, tensor<3x21x40x{elem}>) -> tensor<19x21x{out}>
            return %r : tensor<19x21x{out}> }}"
        );
        everywhere(&source, &[literal(&[19, 3, 40], elem, 3), literal(&[3, 21, 40], elem, 4)]);
        let source = format!(
            "func.func @main(%a: tensor<8x3x4x10x{elem}>, %b: tensor<3x5x{elem}>) -> tensor<4x3x4x5x{out}> {{
            %0 = stablehlo.slice %a [0:8:2, 0:3, 0:4, 2:7] : (tensor<8x3x4x10x{elem}>) -> tensor<4x3x4x5x{elem}>
            %1 = stablehlo.broadcast_in_dim %b, dims = [0, 3] : (tensor<3x5x{elem}>) -> tensor<3x4x5x5x{elem}>
            %r = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [1, 0], contracting_dims = [3] x [3]
                : (tensor<4x3x4x5x{elem}>, tensor<3x4x5x5x{elem}>) -> tensor<4x3x4x5x{out}>
            return %r : tensor<4x3x4x5x{out}> }}"
        );
        everywhere(&source, &[literal(&[8, 3, 4, 10], elem, 5), literal(&[3, 5], elem, 6)]);
        // Heads between positions and features, as attention has them.
        let source = format!(
            "func.func @main(%a: tensor<2x18x3x32x{elem}>, %b: tensor<2x20x3x32x{elem}>) -> tensor<2x3x18x20x{out}> {{
            %r = stablehlo.dot_general %a, %b, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3]
                : (tensor<2x18x3x32x{elem}>, tensor<2x20x3x32x{elem}>) -> tensor<2x3x18x20x{out}>
            return %r : tensor<2x3x18x20x{out}> }}"
        );
        everywhere(&source, &[literal(&[2, 18, 3, 32], elem, 7), literal(&[2, 20, 3, 32], elem, 8)]);
    }
}

/// All values of the narrow floats, times ones: they are the same in `bf16`; from either side, and beyond the last element
/// there is nothing.
#[test]
fn floats_of_eight_bits_are_packed_exactly() {
    use ElementType as E;
    for elem in
        [E::F4E2M1FN, E::F6E2M3FN, E::F8E3M4, E::F8E4M3, E::F8E4M3B11FNUZ, E::F8E5M2, E::F8E5M2FNUZ, E::F8E4M3FNUZ]
    {
        let n = 1usize << elem.bits();
        let all = |dims: [usize; 2]| {
            let bytes = (0..n).map(|b| b as u8).collect();
            Literal::from_bytes(dims.map(|d| d as i64), elem, bytes).expect("as many")
        };
        let ones = |dims: [usize; 2]| {
            Literal::from_f64s(dims.map(|d| d as i64), elem, &vec![1.0; dims[0] * dims[1]]).expect("as many")
        };
        let name = elem.to_string();
        let source = |size| mixed([&name, &name, "f32"], size, [false, false]);
        everywhere(&source([0, n, 17, 1]), &[all([n, 1]), ones([1, 17])]);
        everywhere(&source([0, 17, n, 1]), &[ones([17, 1]), all([1, n])]);
    }
}

/// Infinities and NaN stay what they are, and no padding turns them into others.
#[test]
fn special_values_stay_in_their_rows() {
    for k in [1, 2, 3, 33] {
        let mut a = vec![1.0; 18 * k];
        (a[0], a[k], a[2 * k]) = (f64::INFINITY, f64::NEG_INFINITY, f64::NAN);
        let b: Vec<f64> = (0..k * 33).map(|i| if i % 33 == 5 { 0.0 } else { 2.0 }).collect();
        let args = [
            Literal::from_f64s([18, k as i64], BF16, &a).expect("as many"),
            Literal::from_f64s([k as i64, 33], BF16, &b).expect("as many"),
        ];
        for out in ["bf16", "f32"] {
            everywhere(&mixed(["bf16", "bf16", out], [0, 18, 33, k], [false, false]), &args);
        }
        let args = args.map(|x| Literal::from_f64s(x.dims().to_vec(), F16, &x.to_f64s()).expect("as many"));
        for out in ["f16", "f32"] {
            everywhere(&mixed(["f16", "f16", out], [0, 18, 33, k], [false, false]), &args);
        }
    }
}

/// All values of `f16`, times numbers of eleven bits: the parts of both make every product exactly.
#[test]
fn halves_are_split_exactly() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    // Those of a few bits, of many, subnormal ones; infinity times zero is NaN.
    let others =
        [1.0, -3.0, 2047.0, 1025.0 / 1024.0, 0.0, 65504.0, 2f64.powi(-24), 2f64.powi(-14), -0.333251953125, 7e-5];
    let others = Literal::from_f64s([1, 10], F16, &others).expect("as many");
    let numbers = |dims: [i64; 2]| Literal::from_bytes(dims, F16, all.clone()).expect("as many");
    let turned = Literal::from_f64s([10, 1], F16, &others.to_f64s()).expect("as many");
    everywhere(&mixed(["f16", "f16", "f32"], [0, 1 << 16, 10, 1], [false, false]), &[numbers([1 << 16, 1]), others]);
    everywhere(&mixed(["f16", "f16", "f16"], [0, 10, 1 << 16, 1], [false, false]), &[turned, numbers([1, 1 << 16])]);
}

/// Infinities on both sides, in products of several blocks: only what is undefined becomes NaN.
#[test]
fn infinities_of_halves_multiply() {
    for k in [5, 40, 1100] {
        let numbers = |n: usize, seed: usize, every: usize| -> Vec<f64> {
            let mut next = random(seed);
            (0..n * k)
                .map(|i| match i % every {
                    0 => f64::INFINITY,
                    7 => f64::NEG_INFINITY,
                    _ => (next() % 9 - 4) as f64,
                })
                .collect()
        };
        let a = Literal::from_f64s([40, k as i64], F16, &numbers(40, 1, 977)).expect("as many");
        let b = Literal::from_f64s([k as i64, 35], F16, &numbers(35, 2, 1201)).expect("as many");
        for out in ["f16", "f32"] {
            everywhere(&mixed(["f16", "f16", out], [0, 40, 35, k], [false, false]), &[a.clone(), b.clone()]);
        }
    }
}

/// Sums that are not exact are the same for every cut: one sum in the order of the depth.
#[test]
fn cuts_do_not_change_sums() {
    let numbers = |dims: [i64; 2], seed: usize| {
        let mut next = random(seed);
        let values: Vec<f64> = (0..dims[0] * dims[1]).map(|_| (next() % 2001 - 1000) as f64 / 977.0).collect();
        Literal::from_f64s(dims, BF16, &values).expect("as many")
    };
    let k = 5000;
    let (a, b) = (numbers([600, k], 1), numbers([k, 40], 2));
    let product = |rows: usize| {
        let source = mixed(["bf16", "bf16", "f32"], [0, rows, 40, k as usize], [false, false]);
        let first =
            Literal::from_bytes([rows as i64, k], BF16, a.bytes()[..rows * k as usize * 2].to_vec()).expect("as many");
        let module = text::parse(&source).expect("a program");
        run(&module, &[first, b.clone()], false, false).results.expect("covered")[0].to_f64s()
    };
    let all = product(600);
    for rows in [2, 16, 33, 500] {
        assert_eq!(product(rows), all[..rows * 40], "{rows} rows");
    }
}

#[test]
fn plans_have_parts_enough_for_many_cores_and_none_too_small() {
    let plan =
        |batch, rows, columns, depth| Plan::new(&Problem { batch, rows, columns, depth, devices: 1, swollen: None });
    let parts = |p: Plan| p.batch_parts * p.row_parts * p.column_parts;
    for n in [1024, 2048, 4096, 10_000] {
        let parts = parts(plan(1, n, n, n));
        assert!((32..=256).contains(&parts), "{parts} parts of {n}");
    }
    assert_eq!(parts(plan(1, 64, 64, 64)), 1);
    assert!(parts(plan(96, 128, 128, 64)) >= 6);
    assert!(parts(plan(1, 8, 100_000, 4096)) >= 32);
    assert!(parts(plan(1_000_000, 16, 16, 16)) <= 256);
    assert!(parts(plan(3, 100_000, 100_000, 10)) <= 256);
}
