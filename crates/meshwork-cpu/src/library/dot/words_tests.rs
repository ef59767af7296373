//! Products of words against plain loops: element types of all signs, extents around the tiles, extreme values.

use meshwork_ir::ElementType::{self, I4, I8, I16, I32, UI4, UI8, UI32};
use meshwork_ir::{ElementClass, Literal, text};

use super::group::{Flipped, Grouped};
use super::micro::{Micro, Packed};
use super::pack::{Index, Packer};
use super::tests::{mixed, random};
use super::words::{Bytes, Shorts};
use super::{WITHOUT, Without, wordwise};
use crate::library::num::Cast;
use crate::library::testing::{check_on, run};

/// `n` integers of a type, half of them the least or the greatest.
fn extremes(n: usize, elem: ElementType, seed: usize) -> Vec<i64> {
    let count = 1i64 << elem.bits();
    let least = if elem.class() == ElementClass::Signed { -count / 2 } else { 0 };
    let mut next = random(seed);
    (0..n)
        .map(|_| match next() % 4 {
            0 => least,
            1 => least + count - 1,
            _ => least + next() % count,
        })
        .collect()
}

/// Checks one product of integers without a stack.
fn integers([l, r]: [ElementType; 2], out: ElementType, [m, n, k]: [usize; 3], [ta, tb]: [bool; 2]) {
    let (a, b) = (extremes(m * k, l, m + n + k), extremes(k * n, r, m * n + k));
    let shape = |t: bool, rows: usize, columns: usize| {
        if t { [columns as i64, rows as i64] } else { [rows as i64, columns as i64] }
    };
    let args = [
        Literal::from_i64s(shape(ta, m, k), l, &a).expect("as many"),
        Literal::from_i64s(shape(tb, k, n), r, &b).expect("as many"),
    ];
    let at = |t: bool, i: usize, j: usize, rows: usize, columns: usize| if t { j * rows + i } else { i * columns + j };
    let sum = |i: usize, j: usize| {
        (0..k).fold(0i32, |sum, p| sum.wrapping_add((a[at(ta, i, p, m, k)] * b[at(tb, p, j, k, n)]) as i32))
    };
    let sums: Vec<i64> = (0..m * n).map(|x| i64::from(sum(x / n, x % n))).collect();
    let want = Literal::from_i64s([m as i64, n as i64], out, &sums).expect("as many");
    let source = mixed([l, r, out].map(|e| e.to_string()).each_ref().map(|s| s.as_str()), [0, m, n, k], [ta, tb]);
    let module = text::parse(&source).expect("a program");
    for backwards in [false, true] {
        let got = run(&module, &args, backwards, false).results.expect("covered");
        assert!(got[0] == want, "{l} × {r} to {out}: {m}×{n}×{k}, transposed {ta} {tb}");
    }
}

#[test]
fn integers_of_all_signs_around_the_tiles() {
    WITHOUT.set(Without::Tiles);
    let mut case = 0;
    for m in [1, 5, 6, 7, 11, 12, 13, 25] {
        for n in [1, 2, 15, 16, 17, 31, 32, 33, 65] {
            for k in [0, 1, 2, 3, 4, 5, 8, 9, 131] {
                for pair in [[I8, I8], [UI8, UI8], [I8, UI8], [UI8, I8], [I16, I16]] {
                    integers(pair, I32, [m, n, k], [case & 1 == 1, case & 2 == 2]);
                    case += 1;
                }
            }
        }
    }
}

#[test]
fn integers_of_mixed_widths_and_results() {
    WITHOUT.set(Without::Tiles);
    for pair in [[I8, I16], [I16, UI8], [I4, I4], [UI4, UI8], [I4, UI4], [UI4, I16], [I8, I8], [UI8, UI8], [I16, I16]] {
        for out in [I32, UI32, I16, I8, UI8, I4] {
            for transposed in [[false, false], [true, false], [false, true], [true, true]] {
                integers(pair, out, [14, 35, 37], transposed);
            }
        }
    }
}

#[test]
fn large_integers_in_parts_and_blocks() {
    WITHOUT.set(Without::Tiles);
    for (pair, size) in [
        ([I8, I8], [500, 70, 2150]),
        ([UI8, UI8], [130, 600, 1030]),
        ([I8, UI8], [30, 40, 9000]),
        ([I16, I16], [500, 70, 1100]),
    ] {
        integers(pair, I32, size, [false, false]);
        integers(pair, I8, size, [true, true]);
    }
}

/// Dimensions that are not one run, views and stacks, against the evaluator.
#[test]
fn words_are_gathered_by_strides() {
    WITHOUT.set(Without::Tiles);
    let layouts = |elem: &str, out: &str| {
        [
            format!(
                "func.func @main(%a: tensor<4x5x3x7x{elem}>, %b: tensor<3x6x7x{elem}>) -> tensor<5x4x6x{out}> {{
                %0 = stablehlo.transpose %a, dims = [1, 2, 0, 3] : (tensor<4x5x3x7x{elem}>) -> tensor<5x3x4x7x{elem}>
                %r = stablehlo.dot_general %0, %b, contracting_dims = [1, 3] x [0, 2]
                    : (tensor<5x3x4x7x{elem}>, tensor<3x6x7x{elem}>) -> tensor<5x4x6x{out}>
                return %r : tensor<5x4x6x{out}> }}"
            ),
            format!(
                "func.func @main(%a: tensor<8x3x4x10x{elem}>, %b: tensor<3x5x{elem}>) -> tensor<4x3x4x5x{out}> {{
                %0 = stablehlo.slice %a [0:8:2, 0:3, 0:4, 2:7] : (tensor<8x3x4x10x{elem}>) -> tensor<4x3x4x5x{elem}>
                %1 = stablehlo.broadcast_in_dim %b, dims = [0, 3] : (tensor<3x5x{elem}>) -> tensor<3x4x5x5x{elem}>
                %r = stablehlo.dot_general %0, %1, batching_dims = [0, 1] x [1, 0], contracting_dims = [3] x [3]
                    : (tensor<4x3x4x5x{elem}>, tensor<3x4x5x5x{elem}>) -> tensor<4x3x4x5x{out}>
                return %r : tensor<4x3x4x5x{out}> }}"
            ),
            format!(
                "func.func @main(%a: tensor<9x{elem}>, %b: tensor<9x5x{elem}>) -> (tensor<5x{out}>, tensor<{out}>) {{
                %r = stablehlo.dot %a, %b : (tensor<9x{elem}>, tensor<9x5x{elem}>) -> tensor<5x{out}>
                %s = stablehlo.dot %a, %a : (tensor<9x{elem}>, tensor<9x{elem}>) -> tensor<{out}>
                return %r, %s : tensor<5x{out}>, tensor<{out}> }}"
            ),
            mixed([elem, elem, out], [7, 13, 33, 10], [false, false]),
            mixed([elem, elem, out], [3, 14, 17, 6], [true, true]),
        ]
    };
    for (elem, out) in [("i8", "i32"), ("ui8", "i32"), ("i16", "i32"), ("bf16", "f32"), ("f8E4M3FN", "f32")] {
        for source in layouts(elem, out) {
            // Small integers, so that sums of floats are exact, too.
            let module = text::parse(&source).expect("a program");
            let args: Vec<Literal> = crate::library::testing::noise_args(&module)
                .iter()
                .map(|x| {
                    let rounded: Vec<f64> = x.to_f64s().into_iter().map(f64::round).collect();
                    Literal::from_f64s(x.dims().iter().copied(), x.elem(), &rounded).expect("as many")
                })
                .collect();
            check_on(&source, &args, 0.0);
        }
    }
}

#[test]
fn halves_around_the_tiles_are_exact_for_small_integers() {
    WITHOUT.set(Without::Tiles);
    let mut next = random(7);
    let mut literal = |dims: [usize; 2]| {
        let values: Vec<f64> = (0..dims[0] * dims[1]).map(|_| (next() % 65 - 32) as f64).collect();
        Literal::from_f64s(dims.map(|d| d as i64), ElementType::BF16, &values).expect("as many")
    };
    let mut case = 0;
    for m in [1, 11, 12, 13, 25] {
        for n in [1, 15, 16, 17, 31, 32, 33, 65] {
            for k in [0, 1, 2, 3, 8, 9, 600] {
                let t = [case & 1 == 1, case & 2 == 2];
                let args = [literal(if t[0] { [k, m] } else { [m, k] }), literal(if t[1] { [n, k] } else { [k, n] })];
                check_on(&mixed(["bf16", "bf16", "f32"], [0, m, n, k], t), &args, 0.0);
                case += 1;
            }
        }
    }
}

/// All values of the narrow floats, times ones: they are the same in `bf16`.
#[test]
fn floats_of_eight_bits_are_packed_exactly() {
    WITHOUT.set(Without::Tiles);
    use ElementType as E;
    for elem in [
        E::F4E2M1FN,
        E::F6E2M3FN,
        E::F6E3M2FN,
        E::F8E3M4,
        E::F8E4M3,
        E::F8E4M3FN,
        E::F8E4M3B11FNUZ,
        E::F8E5M2,
        E::F8E5M2FNUZ,
        E::F8E4M3FNUZ,
    ] {
        let n = 1 << elem.bits();
        let all = Literal::from_bytes([n as i64, 1], elem, (0..n).map(|b| b as u8).collect()).expect("as many");
        let one = Literal::from_f64s([1, 17], elem, &[1.0; 17]).expect("as many");
        check_on(
            &mixed([&elem.to_string(), &elem.to_string(), "f32"], [0, n, 17, 1], [false, false]),
            &[all, one],
            0.0,
        );
    }
}

/// Infinities and NaN stay what they are, and no padding turns them into others.
#[test]
fn halves_keep_special_values() {
    WITHOUT.set(Without::Tiles);
    for k in [1, 2, 3, 5] {
        let mut a = vec![1.0; 13 * k];
        (a[0], a[k], a[2 * k]) = (f64::INFINITY, f64::NEG_INFINITY, f64::NAN);
        let b: Vec<f64> = (0..k * 33).map(|i| if i % 33 == 5 { 0.0 } else { 2.0 }).collect();
        let args = [
            Literal::from_f64s([13, k as i64], ElementType::BF16, &a).expect("as many"),
            Literal::from_f64s([k as i64, 33], ElementType::BF16, &b).expect("as many"),
        ];
        for out in ["bf16", "f32"] {
            check_on(&mixed(["bf16", "bf16", out], [0, 13, 33, k], [false, false]), &args, 0.0);
        }
    }
}

/// The kernel for processors without VNNI, which products reach only there.
#[test]
fn tiles_of_short_integers_with_avx2() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return;
    }
    let width = 16;
    let product = |a: u32, b: u32| {
        let term = |shift: u32| i64::from((a >> shift) as i16) * i64::from((b >> shift) as i16);
        (term(0) + term(16)) as i32
    };
    for (height, columns) in (1..=6).flat_map(|h| (1..=width).map(move |c| (h, c))) {
        for (depth, add) in [(0, false), (1, true), (2, false), (9, true)] {
            let mut next = random(height * 1000 + columns * 10 + depth);
            let mut words = |n: usize| -> Vec<u32> {
                (0..n)
                    .map(|i| if i % 5 == 0 { 0x8000_8000 } else { (next() as u32).wrapping_mul(0x9E37_79B9) })
                    .collect()
            };
            let (a, b) = (words(height * depth), words(width * depth));
            let c_row = columns + 2;
            let mut c = vec![3; height * c_row];
            let call = Micro {
                depth,
                a: a.as_ptr().cast::<Shorts>(),
                a_row: 1,
                a_step: height as isize,
                b: b.as_ptr().cast::<Shorts>(),
                b_step: width as isize,
                c: c.as_mut_ptr(),
                c_row: c_row as isize,
                height,
                width,
                rows: height,
                columns,
                add,
            };
            // SAFETY: AVX2 is there, and all elements are in the vectors above.
            unsafe { wordwise::narrow_shorts(&call) };
            for (i, j) in (0..height).flat_map(|i| (0..c_row).map(move |j| (i, j))) {
                let start = if add || j >= columns { 3i32 } else { 0 };
                let terms = if j < columns { depth } else { 0 };
                let sum = |s: i32, k: usize| s.wrapping_add(product(a[k * height + i], b[k * width + j]));
                assert_eq!(c[i * c_row + j], (0..terms).fold(start, sum), "{height}×{columns}×{depth} at {i}, {j}");
            }
        }
    }
}

/// Packs bytes at `outer` and `inner` into words of `N`, and compares with what the words are to hold.
fn packs<T: Packed, const N: usize>(
    packer: &dyn Packer<T>,
    [outer, inner]: [&Index; 2],
    depth: usize,
    width: usize,
    load: impl Fn(u8) -> u32,
) {
    let memory: Vec<u8> = (0..40_000).map(|i: usize| (i * 7919 % 251) as u8).collect();
    let words = depth.div_ceil(N);
    for (outer_at, have, from, n) in
        [(0, width, 0, words), (3, width.min(5), 1, words.saturating_sub(1)), (1, 1, 0, words)]
    {
        let mut to = vec![0xA5A5_A5A5u32; width * n];
        // SAFETY: all offsets are inside `memory`, and `to` has room.
        unsafe {
            packer.pack(memory.as_ptr(), (outer, outer_at, have), (inner, from, n), to.as_mut_ptr().cast(), width)
        };
        for (k, i) in (0..n).flat_map(|k| (0..width).map(move |i| (k, i))) {
            let part = |e: usize| match (from + k) * N + e {
                at if at < depth && i < have => {
                    load(memory[(outer.at(outer_at + i) + inner.at(at)) as usize]) << (32 / N * e)
                }
                _ => 0,
            };
            assert_eq!(to[k * width + i], (0..N).map(part).sum::<u32>(), "{k}, {i} of {depth} × {width}");
        }
    }
}

#[test]
fn words_are_packed_from_all_layouts() {
    let table = |runs: i64, run: i64, apart: i64, step: i64| Index::new(&[runs, run], &[apart, step]);
    let across = [Index::Stride(1), Index::Stride(500), Index::Stride(7), table(12, 3, 400, 1), table(6, 6, 999, 70)];
    let along = [Index::Stride(1), Index::Stride(37), table(20, 6, 211, 1), table(11, 11, 300, 2)];
    for (outer, inner) in across.iter().flat_map(|o| along.iter().map(move |i| (o, i))) {
        for depth in [0, 1, 2, 3, 4, 5, 40, 71, 120] {
            for width in [1, 5, 6, 12, 16, 32] {
                let bytes = Grouped::<_, 4> { part: Flipped(0x80), depth };
                packs::<Bytes<true, true>, 4>(&bytes, [outer, inner], depth, width, |b| u32::from(b ^ 0x80));
                let signed = Grouped::<_, 2> { part: Cast::<i8>(std::marker::PhantomData), depth };
                packs::<Shorts, 2>(&signed, [outer, inner], depth, width, |b| u32::from(b as i8 as i16 as u16));
                let unsigned = Grouped::<_, 2> { part: Cast::<u8>(std::marker::PhantomData), depth };
                packs::<Shorts, 2>(&unsigned, [outer, inner], depth, width, u32::from);
            }
        }
    }
}
