//! Rows, offsets, strides, reductions, temporaries, indices.

use meshwork_cpu::kernel::ir::*;
use meshwork_cpu::kernel::{Kernel, Stores};
use meshwork_cpu::step::Scratch;
use meshwork_ir::ElementType::{BF16, F32, I1, I32, UI8};

const LENGTHS: [usize; 14] = [0, 1, 3, 7, 8, 9, 31, 32, 33, 63, 127, 1000, 1031, 9001];

fn arg(elem: meshwork_ir::ElementType, access: Access, output: bool) -> Arg {
    Arg { elem, access, output }
}

fn row(ops: Vec<Op>) -> Phase {
    Phase { extent: Extent::Row, ops }
}

fn once(ops: Vec<Op>) -> Phase {
    Phase { extent: Extent::Once, ops }
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 13) % 1009) as f32 / 128.0 - 3.0).collect()
}

fn f32_const(x: f32) -> Op {
    Op::Const(Ty::F32, x.to_bits().into())
}

#[test]
fn softmax_of_rows() {
    use Access::Unit;
    let body = Body {
        args: vec![arg(F32, Unit, false), arg(F32, Unit, true)],
        temps: vec![Ty::F32],
        scalars: 3,
        phases: vec![
            row(vec![Op::Load(0), Op::Reduce(Combine::Max, 0, 0)]),
            row(vec![
                Op::Load(0),
                Op::Scalar(0, Ty::F32),
                Op::Binary(BinaryOp::Subtract, 0, 1),
                Op::Unary(UnaryOp::Exponential, 2),
                Op::StoreTemp(0, 3),
                Op::Reduce(Combine::Add, 1, 3),
            ]),
            once(vec![f32_const(1.0), Op::Scalar(1, Ty::F32), Op::Binary(BinaryOp::Divide, 0, 1), Op::SetScalar(2, 2)]),
            row(vec![
                Op::LoadTemp(0, Ty::F32),
                Op::Scalar(2, Ty::F32),
                Op::Binary(BinaryOp::Multiply, 0, 1),
                Op::Store(1, 2),
            ]),
        ],
    };
    let kernel = Kernel::cached(body, Stores::Cached).unwrap();
    let mut scratch = Scratch::default();
    for n in LENGTHS {
        let rows = 3;
        let x = numbers(rows * (n + 5) + 1);
        let mut y = vec![9.0f32; rows * n];
        let ptrs = [x[1..].as_ptr().cast_mut().cast::<u8>(), y.as_mut_ptr().cast()];
        let row_strides = [4 * (n as isize + 5), 4 * n as isize];
        let call = Call { ptrs: &ptrs, row_strides: &row_strides, strides: &[4, 4], rows, n, index: &[] };
        // SAFETY: `x` and `y` hold what the call reaches.
        unsafe { kernel.run(&call, &mut scratch) };
        for r in 0..rows {
            let x: Vec<f64> = x[1 + r * (n + 5)..][..n].iter().map(|&v| v.into()).collect();
            let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = x.iter().map(|v| (v - most).exp()).sum();
            for (i, v) in x.iter().enumerate() {
                let (got, want) = (f64::from(y[r * n + i]), (v - most).exp() / sum);
                assert!((got - want).abs() <= 1e-6 * want, "n {n} row {r} element {i}: {got} {want}");
            }
        }
    }
}

#[test]
fn strided_repeated_and_reversed_arguments() {
    // y[2i] = bf16(x[-3i] + s) > 0, with s the same all along a row.
    let body = Body {
        args: vec![
            arg(F32, Access::Strided, false),
            arg(BF16, Access::Zero, false),
            arg(I1, Access::Strided, true),
            arg(BF16, Access::Strided, true),
        ],
        temps: vec![],
        scalars: 0,
        phases: vec![row(vec![
            Op::Load(0),
            Op::Load(1),
            Op::Binary(BinaryOp::Add, 0, 1),
            Op::Round(BF16, 2),
            f32_const(0.0),
            Op::Compare(Cmp::Gt, 3, 4),
            Op::Store(2, 5),
            Op::Store(3, 3),
        ])],
    };
    let kernel = Kernel::new(body).unwrap();
    for n in LENGTHS {
        let rows = 2;
        let x = numbers(3 * n * rows + 1);
        let s = [0x4000u16, 0xC000]; // 2 and -2
        let mut y = vec![7u8; 2 * n * rows + 1];
        let mut z = vec![7u16; 5 * n * rows + 1];
        let ptrs = [
            x[3 * n * rows..].as_ptr().cast_mut().cast::<u8>(),
            s.as_ptr().cast_mut().cast(),
            y.as_mut_ptr(),
            z.as_mut_ptr().cast(),
        ];
        let n_ = n as isize;
        let row_strides = [-12 * n_, 2, 2 * n_, 10 * n_];
        let call = Call { ptrs: &ptrs, row_strides: &row_strides, strides: &[-12, 0, 2, 10], rows, n, index: &[] };
        // SAFETY: the arrays hold what the call reaches.
        unsafe { kernel.run(&call, &mut Scratch::default()) };
        for r in 0..rows {
            for i in 0..n {
                let sum = x[3 * n * rows - 3 * (r * n + i)] + [2.0, -2.0][r];
                let want = meshwork_ir::float::encode(BF16, sum.into()) as u16;
                assert_eq!(z[5 * (r * n + i)], want, "n {n} row {r} element {i}");
                assert_eq!(y[2 * (r * n + i)], u8::from(sum > 0.0));
            }
        }
        assert!((0..y.len()).all(|i| i % 2 == 0 || y[i] == 7) && (0..z.len()).all(|i| i % 5 == 0 || z[i] == 7));
    }
}

#[test]
fn in_place_with_a_later_use() {
    // x is overwritten by x + 1, then the old x is needed for the second output.
    let body = Body {
        args: vec![arg(F32, Access::Unit, false), arg(F32, Access::Unit, true), arg(F32, Access::Unit, true)],
        temps: vec![],
        scalars: 0,
        phases: vec![row(vec![
            Op::Load(0),
            f32_const(1.0),
            Op::Binary(BinaryOp::Add, 0, 1),
            Op::Store(1, 2),
            Op::Binary(BinaryOp::Multiply, 0, 2),
            Op::Store(2, 4),
        ])],
    };
    let kernel = Kernel::new(body).unwrap();
    for n in LENGTHS {
        let x = numbers(n);
        let (mut y, mut z) = (x.clone(), vec![0.0f32; n]);
        let p = y.as_mut_ptr().cast::<u8>();
        let ptrs = [p, p, z.as_mut_ptr().cast()];
        let call = Call { ptrs: &ptrs, row_strides: &[0; 3], strides: &[4; 3], rows: 1, n, index: &[] };
        // SAFETY: the arrays hold `n` elements; the overlap is of the same elements.
        unsafe { kernel.run(&call, &mut Scratch::default()) };
        for i in 0..n {
            assert_eq!((y[i], z[i]), (x[i] + 1.0, x[i] * (x[i] + 1.0)), "n {n} element {i}");
        }
    }
}

#[test]
fn sums_over_rows_of_several_types() {
    // Sum and largest of a row, into one element per row; and the number of elements above zero, as i32.
    let body = Body {
        args: vec![
            arg(F32, Access::Unit, false),
            arg(F32, Access::Zero, true),
            arg(F32, Access::Zero, true),
            arg(I32, Access::Zero, true),
        ],
        temps: vec![],
        scalars: 3,
        phases: vec![
            row(vec![
                Op::Load(0),
                f32_const(0.0),
                Op::Compare(Cmp::Gt, 0, 1),
                Op::Convert(Ty::I32, 2),
                Op::Reduce(Combine::Add, 0, 0),
                Op::Reduce(Combine::Max, 1, 0),
                Op::Reduce(Combine::Add, 2, 3),
            ]),
            once(vec![
                Op::Scalar(0, Ty::F32),
                Op::Store(1, 0),
                Op::Scalar(1, Ty::F32),
                Op::Store(2, 2),
                Op::Scalar(2, Ty::I32),
                Op::Store(3, 4),
            ]),
        ],
    };
    let kernel = Kernel::new(body).unwrap();
    for n in LENGTHS {
        let rows = 3;
        let x = numbers(n * rows);
        let (mut sum, mut most, mut count) = (vec![1.0f32; rows], vec![1.0f32; rows], vec![1i32; rows]);
        let ptrs = [
            x.as_ptr().cast_mut().cast::<u8>(),
            sum.as_mut_ptr().cast(),
            most.as_mut_ptr().cast(),
            count.as_mut_ptr().cast(),
        ];
        let row_strides = [4 * n as isize, 4, 4, 4];
        let call = Call { ptrs: &ptrs, row_strides: &row_strides, strides: &[4, 0, 0, 0], rows, n, index: &[] };
        // SAFETY: the arrays hold what the call reaches.
        unsafe { kernel.run(&call, &mut Scratch::default()) };
        for r in 0..rows {
            let x = &x[r * n..][..n];
            let want: f64 = x.iter().map(|&v| f64::from(v)).sum();
            let size: f64 = x.iter().map(|&v| f64::from(v.abs())).sum();
            assert!((f64::from(sum[r]) - want).abs() <= 1e-6 * size, "n {n}: {} {want}", sum[r]);
            assert_eq!(most[r], x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            assert_eq!(count[r] as usize, x.iter().filter(|v| **v > 0.0).count());
        }
    }
}

#[test]
fn largest_of_a_row_with_nan_is_nan() {
    let body = Body {
        args: vec![arg(F32, Access::Unit, false), arg(F32, Access::Zero, true)],
        temps: vec![],
        scalars: 1,
        phases: vec![
            row(vec![Op::Load(0), Op::Reduce(Combine::Max, 0, 0)]),
            once(vec![Op::Scalar(0, Ty::F32), Op::Store(1, 0)]),
        ],
    };
    let kernel = Kernel::new(body).unwrap();
    for n in LENGTHS.into_iter().filter(|&n| n > 0) {
        for at in [0, n / 2, n - 1] {
            let mut x = numbers(n);
            x[at] = f32::NAN;
            let mut y = [0f32];
            let ptrs = [x.as_mut_ptr().cast::<u8>(), y.as_mut_ptr().cast()];
            let call = Call { ptrs: &ptrs, row_strides: &[0; 2], strides: &[4, 0], rows: 1, n, index: &[] };
            // SAFETY: the arrays hold what the call reaches.
            unsafe { kernel.run(&call, &mut Scratch::default()) };
            assert!(y[0].is_nan(), "n {n}, NaN at {at}");
        }
    }
}

#[test]
fn indices_of_rows_and_elements() {
    for ty in [Ty::I32, Ty::U8, Ty::F32, Ty::I64] {
        let out = ty.elem();
        let body = Body {
            args: vec![arg(out, Access::Unit, true)],
            temps: vec![],
            scalars: 0,
            phases: vec![row(vec![
                Op::Index(0, ty),
                Op::Index(1, ty),
                Op::Binary(BinaryOp::Multiply, 0, 1),
                Op::Store(0, 2),
            ])],
        };
        let kernel = Kernel::new(body).unwrap();
        for n in LENGTHS {
            let rows = 3;
            let mut y = meshwork_ir::Literal::zeros([(rows * n) as i64], out);
            let ptrs = [y.bytes_mut().as_mut_ptr()];
            let size = ty.size() as isize;
            let index = [[5, 1, 2], [-7, 3, 1]];
            let row_strides = [size * n as isize];
            let call = Call { ptrs: &ptrs, row_strides: &row_strides, strides: &[size], rows, n, index: &index };
            // SAFETY: the array holds what the call reaches.
            unsafe { kernel.run(&call, &mut Scratch::default()) };
            for r in 0..rows as i64 {
                for i in 0..n as i64 {
                    let want = (5 + r + 2 * i) * (-7 + 3 * r + i);
                    let want = meshwork_ir::Scalar::from_i64(out, want);
                    let got = y.get(r as usize * n + i as usize);
                    assert_eq!(got, want, "{ty:?} n {n} row {r} element {i}");
                }
            }
        }
    }
}

#[test]
fn life_in_bytes() {
    // Alive next time: three neighbors, or two and alive.
    let body = Body {
        args: vec![arg(UI8, Access::Unit, false), arg(UI8, Access::Unit, false), arg(UI8, Access::Unit, true)],
        temps: vec![],
        scalars: 0,
        phases: vec![row(vec![
            Op::Load(0),
            Op::Load(1),
            Op::Const(Ty::U8, 3),
            Op::Compare(Cmp::Eq, 1, 2),
            Op::Const(Ty::U8, 2),
            Op::Compare(Cmp::Eq, 1, 4),
            Op::Convert(Ty::Pred, 0),
            Op::Binary(BinaryOp::And, 5, 6),
            Op::Binary(BinaryOp::Or, 3, 7),
            Op::Convert(Ty::U8, 8),
            Op::Store(2, 9),
        ])],
    };
    let kernel = Kernel::new(body).unwrap();
    for n in LENGTHS {
        let x: Vec<u8> = (0..n).map(|i| u8::from(i * 37 % 11 < 4)).collect();
        let m: Vec<u8> = (0..n).map(|i| (i * 53 % 9) as u8).collect();
        let mut y = vec![9u8; n];
        let ptrs = [x.as_ptr().cast_mut(), m.as_ptr().cast_mut(), y.as_mut_ptr()];
        let call = Call { ptrs: &ptrs, row_strides: &[0; 3], strides: &[1; 3], rows: 1, n, index: &[] };
        // SAFETY: the arrays hold `n` elements.
        unsafe { kernel.run(&call, &mut Scratch::default()) };
        for i in 0..n {
            assert_eq!(y[i], u8::from(m[i] == 3 || (m[i] == 2 && x[i] == 1)), "n {n} element {i}");
        }
    }
}

/// Numbers that start at a multiple of 64 bytes.
#[repr(C, align(64))]
struct Aligned([f32; 4096]);

#[test]
fn stores_past_the_caches_give_the_same() {
    use Access::Unit;
    let body = Body {
        args: vec![arg(F32, Unit, false), arg(F32, Unit, true), arg(BF16, Unit, true)],
        temps: vec![],
        scalars: 1,
        phases: vec![
            row(vec![Op::Load(0), Op::Reduce(Combine::Add, 0, 0), Op::Store(2, 0)]),
            row(vec![Op::Load(0), Op::Scalar(0, Ty::F32), Op::Binary(BinaryOp::Subtract, 0, 1), Op::Store(1, 2)]),
        ],
    };
    let x = numbers(4096);
    let run = |stores: Stores, n: usize| {
        let (mut y, mut z) = (Box::new(Aligned([7.0; 4096])), Box::new(Aligned([7.0; 4096])));
        let ptrs = [x.as_ptr().cast_mut().cast(), y.0.as_mut_ptr().cast::<u8>(), z.0.as_mut_ptr().cast()];
        let pitch = (4 * n).next_multiple_of(32) as isize;
        let row_strides = [4 * n as isize, pitch, pitch];
        let call = Call { ptrs: &ptrs, row_strides: &row_strides, strides: &[4, 4, 2], rows: 3, n, index: &[] };
        let kernel = Kernel::cached(body.clone(), stores).unwrap();
        // SAFETY: all hold what the call reaches, and outputs have aligned rows.
        unsafe { kernel.run(&call, &mut Scratch::default()) };
        let bits = |a: &Aligned| a.0.map(f32::to_bits).to_vec();
        (bits(&y), bits(&z))
    };
    for n in LENGTHS.into_iter().filter(|&n| n <= 1031) {
        assert!(run(Stores::Cached, n) == run(Stores::PastCaches, n), "rows of {n}");
    }
}

#[test]
fn rows_are_added_to_accumulators() {
    use Access::Unit;
    let add = row(vec![Op::Load(0), Op::Load(1), Op::Binary(BinaryOp::Add, 0, 1), Op::Store(2, 2)]);
    let args = vec![arg(F32, Unit, false), arg(F32, Unit, false), arg(F32, Unit, true)];
    let body = Body { args, temps: vec![], scalars: 0, phases: vec![add] };
    let kernel = Kernel::cached(body, Stores::Accumulated).unwrap();
    for n in LENGTHS.into_iter().filter(|&n| n <= 1031) {
        let (x, mut sums) = (numbers(3 * n), vec![1.0f32; n]);
        let to = sums.as_mut_ptr().cast::<u8>();
        let ptrs = [x.as_ptr().cast_mut().cast(), to, to];
        let row_strides = [4 * n as isize, 0, 0];
        let call = Call { ptrs: &ptrs, row_strides: &row_strides, strides: &[4, 4, 4], rows: 3, n, index: &[] };
        // SAFETY: all hold what the call reaches; each element is read before it is written.
        unsafe { kernel.run(&call, &mut Scratch::default()) };
        let expected = |i: usize| x[2 * n + i] + (x[n + i] + (x[i] + 1.0));
        assert!(sums.iter().enumerate().all(|(i, s)| *s == expected(i)), "rows of {n}");
    }
}

/// Every other and every third element of one and two bytes, in vectors of all widths. Nothing behind the last one is touched.
#[test]
fn narrow_elements_apart() {
    use meshwork_ir::ElementType::{F64, I16, I32, UI8};
    for (step, access) in [(2, Access::Pair), (3, Access::Triple)] {
        for (elem, ty, wide, to) in [
            (UI8, Ty::U8, UI8, Ty::U8),
            (UI8, Ty::U8, I16, Ty::I16),
            (UI8, Ty::U8, I32, Ty::I32),
            (UI8, Ty::U8, F64, Ty::F64),
            (I16, Ty::I16, I16, Ty::I16),
            (I16, Ty::I16, I32, Ty::I32),
            (I16, Ty::I16, F64, Ty::F64),
        ] {
            let args = vec![arg(elem, access, false), arg(wide, Access::Unit, true)];
            let ops = if ty == to {
                vec![Op::Load(0), Op::Store(1, 0)]
            } else {
                vec![Op::Load(0), Op::Convert(to, 0), Op::Store(1, 1)]
            };
            let body = Body { args, temps: vec![], scalars: 0, phases: vec![row(ops)] };
            let (size, out) = (elem.storage_bytes(), wide.storage_bytes());
            for kernel in [Kernel::new(body.clone()).unwrap(), Kernel::interpreted(body).unwrap()] {
                for n in LENGTHS {
                    // The last element of the list is the last of the row.
                    let mut x: Vec<u8> =
                        (0..(step * n).saturating_sub(step - 1) * size).map(|i| (i * 37 % 251) as u8).collect();
                    let mut y = vec![0u8; n * out];
                    let call = Call {
                        ptrs: &[x.as_mut_ptr(), y.as_mut_ptr()],
                        row_strides: &[0, 0],
                        strides: &[(step * size) as isize, out as isize],
                        rows: 1,
                        n,
                        index: &[],
                    };
                    // SAFETY: the lists have the elements that the call names.
                    unsafe { kernel.run(&call, &mut Scratch::default()) };
                    for i in 0..n {
                        let byte = |k: usize| x[step * i * size + k];
                        let number = if size == 1 {
                            i64::from(byte(0))
                        } else {
                            i64::from(i16::from_le_bytes([byte(0), byte(1)]))
                        };
                        let expected = if wide == F64 { (number as f64).to_le_bytes() } else { number.to_le_bytes() };
                        assert_eq!(y[i * out..][..out], expected[..out], "{elem:?} {wide:?} {access:?} {i} of {n}");
                    }
                }
            }
        }
    }
}

/// Every other element, read and written, next to what must stay: the parts of complex numbers. Nothing behind the last one
/// is touched.
#[test]
fn every_other_element() {
    use meshwork_ir::ElementType::F64;
    // With 8-byte elements beside it, a vector of 4-byte ones is half as wide.
    for (elem, wide) in [(F32, false), (F64, false), (F32, true)] {
        let ty = if elem == F64 { Ty::F64 } else { Ty::F32 };
        let size = elem.storage_bytes();
        let mut args = vec![arg(elem, Access::Pair, false), arg(elem, Access::Pair, true)];
        let mut ops = vec![Op::Load(0), Op::Binary(BinaryOp::Add, 0, 0), Op::Store(1, 1)];
        if wide {
            args.push(arg(F64, Access::Unit, true));
            ops.extend([Op::Convert(Ty::F64, 0), Op::Store(2, 3)]);
        }
        let body = Body { args, temps: vec![], scalars: 0, phases: vec![row(ops)] };
        for kernel in [Kernel::new(body.clone()).unwrap(), Kernel::interpreted(body).unwrap()] {
            for n in LENGTHS {
                let rows = 2;
                let number = |i: usize| i as f64 + 0.25;
                let bytes =
                    |x: f64| if ty == Ty::F64 { x.to_le_bytes().to_vec() } else { (x as f32).to_le_bytes().to_vec() };
                // The last element of each list is the last of a row: one more would be behind the end.
                let count = (2 * n * rows).saturating_sub(1);
                let x: Vec<u8> = (0..count).flat_map(|i| bytes(number(i))).collect();
                let mut y: Vec<u8> = (0..count + 1).flat_map(|_| bytes(-7.0)).collect();
                let mut z = vec![0f64; rows * n];
                let mut ptrs = vec![x.as_ptr().cast_mut(), y.as_mut_ptr(), z.as_mut_ptr().cast()];
                ptrs.truncate(kernel.body().args.len());
                let (step, n_) = (2 * size as isize, n as isize);
                let (row_strides, strides) = ([step * n_, step * n_, 8 * n_], [step, step, 8]);
                let used = ptrs.len();
                let call = Call {
                    ptrs: &ptrs,
                    row_strides: &row_strides[..used],
                    strides: &strides[..used],
                    rows,
                    n,
                    index: &[],
                };
                // SAFETY: the arrays hold what the call reaches.
                unsafe { kernel.run(&call, &mut Scratch::default()) };
                for i in 0..count + 1 {
                    let got = &y[i * size..][..size];
                    let want = if i % 2 == 0 && i < count { bytes(2.0 * number(i)) } else { bytes(-7.0) };
                    assert_eq!(got, want, "{elem} n {n} element {i}");
                }
                assert!(!wide || z.iter().enumerate().all(|(i, &v)| v == number(2 * i)), "n {n}");
            }
        }
    }
}
