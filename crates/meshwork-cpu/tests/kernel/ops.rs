//! Every operation on every type gives what the reference evaluator gives.

use meshwork_cpu::kernel::ir::{Cmp, Op, Ty};
use meshwork_cpu::kernel::{Kernel, check};
use meshwork_eval::scalar::{CompareType, Comparison, ScalarOp, apply};
use meshwork_ir::op::{BinaryOp, MixedOp, UnaryOp};
use meshwork_ir::{Direction, Scalar};
use meshwork_ir::{ElementType, Literal, OpKind};
use meshwork_testing::Numbers;

use crate::harness::{map_body, run_map};

/// Element types that kernels load and store.
const ELEMS: [ElementType; 13] = {
    use ElementType::*;
    [I1, I8, UI8, I16, UI16, I32, UI32, I64, UI64, BF16, F16, F32, F64]
};

/// Special values first, then random ones of all magnitudes.
pub fn values(elem: ElementType, seed: u64, n: usize) -> Literal {
    let mut numbers = Numbers(seed);
    let floats = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-40, -1e-40, 3e38, -3e38, 1e300, 127.5, 128.0];
    let special =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2147483647.0, 2147483648.0, 4294967296.0, 1.8e19, 9.3e18];
    let ints = [0i64, 1, -1, 2, 3, 7, 8, 9, 15, 16, 31, 32, 63, 64, i64::MIN, i64::MAX, i32::MIN as i64, 127, 128, 255];
    let scalars = (0..n).map(|i| {
        let bits = numbers.bits();
        match (elem.is_float(), i) {
            (true, i) if i < floats.len() => Scalar::Float(floats[i]),
            (true, i) if i < 24 => Scalar::Float(special[i - 16]),
            (true, i) if i % 3 == 0 => Scalar::Float(meshwork_ir::float::decode(elem, bits)),
            (true, i) if i % 3 == 1 => Scalar::Float((bits as i64 >> 40) as f64 / 65536.0),
            (true, _) => Scalar::Float((bits as i64 as f64 / 2f64.powi(63)) * 2f64.powi((bits & 63) as i32 - 20)),
            (false, i) if i < ints.len() => Scalar::Int(ints[i]),
            (false, i) if i % 2 == 0 => Scalar::Int(bits as i64 % 70),
            (false, _) => Scalar::Int(bits as i64),
        }
    });
    // Each special value of one side meets each of the other when lists of different strides are paired.
    let scalars: Vec<Scalar> = scalars.collect();
    let stride = 1 + 2 * (seed as usize % 13);
    Literal::from_scalars([n as i64], elem, (0..n).map(|i| scalars[i * stride % n])).unwrap()
}

/// Distance in units of last place of the type; NaNs are equal, zeros of different sign are one apart.
pub fn ulps(elem: ElementType, a: Scalar, b: Scalar) -> u64 {
    let code = |x: f64| {
        let bits = meshwork_ir::float::encode(elem, x);
        let sign = 1u64 << (elem.bits() - 1);
        if bits & sign != 0 { -((bits ^ sign) as i64) - 1 } else { bits as i64 }
    };
    match (a, b) {
        (Scalar::Float(x), Scalar::Float(y)) if x.is_nan() && y.is_nan() => 0,
        (Scalar::Float(x), Scalar::Float(y)) if x.is_nan() != y.is_nan() => u64::MAX,
        (Scalar::Float(x), Scalar::Float(y)) => code(x).abs_diff(code(y)),
        _ => u64::from(a != b),
    }
}

fn agree(name: &str, op: &ScalarOp, inputs: &[&Literal], got: &Literal, allowed: u64) {
    for i in 0..got.len() {
        let args: Vec<Scalar> = inputs.iter().map(|x| x.get(i)).collect();
        let want = apply(op, &args);
        let off = ulps(got.elem(), got.get(i), want);
        assert!(off <= allowed, "{name} {args:?}: {} instead of {want}, {off} ulp", got.get(i));
    }
}

const N: usize = 577;

/// Functions, and by how many units of last place floats may be off in lanes of f32 and f64.
const UNARY: [(UnaryOp, u64, u64); 40] = [
    (UnaryOp::Negate, 0, 0),
    (UnaryOp::Abs, 0, 0),
    (UnaryOp::Not, 0, 0),
    (UnaryOp::Sign, 0, 0),
    (UnaryOp::Sqrt, 0, 0),
    (UnaryOp::Rsqrt, 2, 2),
    (UnaryOp::Cbrt, 2, 4),
    (UnaryOp::Exponential, 2, 4),
    (UnaryOp::ExponentialMinusOne, 3, 4),
    (UnaryOp::Log, 2, 4),
    (UnaryOp::LogPlusOne, 3, 4),
    (UnaryOp::Tanh, 3, 4),
    (UnaryOp::Logistic, 3, 4),
    (UnaryOp::Sine, 3, 4),
    (UnaryOp::Cosine, 3, 4),
    (UnaryOp::Tan, 4, 4),
    (UnaryOp::Erf, 3, 4),
    (UnaryOp::Erfc, 4, 16),
    (UnaryOp::ErfInv, 4, 6),
    (UnaryOp::Floor, 0, 0),
    (UnaryOp::Ceil, 0, 0),
    (UnaryOp::RoundNearestEven, 0, 0),
    (UnaryOp::RoundNearestAfz, 0, 0),
    (UnaryOp::IsFinite, 0, 0),
    (UnaryOp::IsInf, 0, 0),
    (UnaryOp::IsNegInf, 0, 0),
    (UnaryOp::IsPosInf, 0, 0),
    (UnaryOp::Acos, 3, 2),
    (UnaryOp::Acosh, 3, 4),
    (UnaryOp::Asin, 3, 2),
    (UnaryOp::Asinh, 3, 4),
    (UnaryOp::Atan, 1, 4),
    (UnaryOp::Atanh, 3, 4),
    (UnaryOp::BesselI1e, 6, 16),
    (UnaryOp::Cosh, 3, 4),
    (UnaryOp::Digamma, 4, 2),
    (UnaryOp::Lgamma, 3, 2),
    (UnaryOp::Sinh, 3, 4),
    (UnaryOp::Popcnt, 0, 0),
    (UnaryOp::CountLeadingZeros, 0, 0),
];

#[test]
fn every_function_is_compared() {
    let has = |f| Ty::ALL.iter().any(|&ty| check::unary(f, ty).is_some());
    for &f in UnaryOp::ALL.iter().filter(|&&f| has(f) && f != UnaryOp::ChloTan) {
        assert!(UNARY.iter().any(|row| row.0 == f), "{f:?}");
    }
}

/// The magnitudes of floats.
fn positive(x: &Literal) -> Literal {
    let sizes: Vec<f64> = x.scalars().map(|v| v.as_f64().abs()).collect();
    Literal::from_f64s([x.len() as i64], x.elem(), &sizes).unwrap()
}

#[test]
fn functions_of_one_value() {
    for elem in ELEMS {
        let x = values(elem, 5, N);
        for (f, f32s, f64s) in UNARY {
            let asks = matches!(f, UnaryOp::IsFinite | UnaryOp::IsInf | UnaryOp::IsNegInf | UnaryOp::IsPosInf);
            let result = if asks { ElementType::I1 } else { elem };
            let Some(op) = ScalarOp::new(OpKind::Unary(f), elem, result) else { continue };
            // The reference's is zero where the true value is not yet; `math` compares with the truth.
            if (f, elem) == (UnaryOp::Logistic, ElementType::F64) {
                continue;
            }
            // Of negative numbers these are differences; `math` has the bounds.
            let is_difference = matches!(f, UnaryOp::Digamma | UnaryOp::Lgamma) && elem.is_float();
            let x = if is_difference { positive(&x) } else { x.clone() };
            let kernel = Kernel::new(map_body(&[elem], result, vec![Op::Load(0), Op::Unary(f, 0), Op::Store(1, 1)]));
            let allowed = match elem {
                ElementType::F32 => f32s,
                ElementType::F64 => f64s,
                _ => u64::from(f32s > 0),
            };
            agree(&format!("{f:?} {elem}"), &op, &[&x], &run_map(&kernel.unwrap(), &[&x], result), allowed);
        }
    }
}

#[test]
fn functions_of_two_values() {
    const BINARY: [(BinaryOp, u64); 17] = [
        (BinaryOp::Mulhi, 0),
        (BinaryOp::NextAfter, 0),
        (BinaryOp::Add, 0),
        (BinaryOp::Subtract, 0),
        (BinaryOp::Multiply, 0),
        (BinaryOp::Divide, 0),
        (BinaryOp::Remainder, 0),
        (BinaryOp::Maximum, 0),
        (BinaryOp::Minimum, 0),
        (BinaryOp::Power, 4),
        (BinaryOp::Atan2, 4),
        (BinaryOp::And, 0),
        (BinaryOp::Or, 0),
        (BinaryOp::Xor, 0),
        (BinaryOp::ShiftLeft, 0),
        (BinaryOp::ShiftRightArithmetic, 0),
        (BinaryOp::ShiftRightLogical, 0),
    ];
    for elem in ELEMS {
        for (seed, other) in [(3, 4), (0, 7), (2, 9), (5, 12)] {
            let (x, y) = (values(elem, seed, N), values(elem, other, N));
            for (f, allowed) in BINARY {
                let Some(op) = ScalarOp::new(OpKind::Binary(f), elem, elem) else { continue };
                let exact = Ty::of(elem).is_some_and(|ty| ty.elem() == elem && check::binary(f, ty));
                if matches!(f, BinaryOp::Mulhi | BinaryOp::NextAfter) && !exact {
                    continue;
                }
                let ops = vec![Op::Load(0), Op::Load(1), Op::Binary(f, 0, 1), Op::Store(2, 2)];
                let kernel = Kernel::new(map_body(&[elem, elem], elem, ops)).unwrap();
                // Narrow types are computed in f32, as if with more digits: at most a double rounding.
                let allowed = if elem.bits() == 16 && elem.is_float() { 1.min(allowed) } else { allowed };
                agree(&format!("{f:?} {elem}"), &op, &[&x, &y], &run_map(&kernel, &[&x, &y], elem), allowed);
            }
        }
    }
}

#[test]
fn comparisons_and_choices() {
    use Direction as D;
    let list =
        [(Cmp::Eq, D::Eq), (Cmp::Ne, D::Ne), (Cmp::Lt, D::Lt), (Cmp::Le, D::Le), (Cmp::Gt, D::Gt), (Cmp::Ge, D::Ge)];
    for elem in ELEMS {
        let (x, y) = (values(elem, 3, N), values(elem, 4, N));
        for (cmp, direction) in list {
            let op = ScalarOp::compare(elem, Comparison { direction, order: CompareType::Natural });
            let ops = vec![Op::Load(0), Op::Load(1), Op::Compare(cmp, 0, 1), Op::Store(2, 2)];
            let kernel = Kernel::new(map_body(&[elem, elem], ElementType::I1, ops)).unwrap();
            let pred = run_map(&kernel, &[&x, &y], ElementType::I1);
            agree(&format!("{cmp:?} {elem}"), &op, &[&x, &y], &pred, 0);

            let ops = vec![Op::Load(0), Op::Load(1), Op::Load(2), Op::Select(0, 1, 2), Op::Store(3, 3)];
            let kernel = Kernel::new(map_body(&[ElementType::I1, elem, elem], elem, ops)).unwrap();
            let got = run_map(&kernel, &[&pred, &x, &y], elem);
            for i in 0..N {
                let want = if pred.get(i).as_bool() { x.get(i) } else { y.get(i) };
                assert_eq!(ulps(elem, got.get(i), want), 0, "select {elem}");
            }
        }
    }
}

#[test]
fn conversions_between_all_types() {
    for from in ELEMS {
        let x = values(from, 5, N);
        for to in ELEMS {
            let op = ScalarOp::new(OpKind::Mixed(MixedOp::Convert), from, to).unwrap();
            let ops = vec![Op::Load(0), Op::Convert(Ty::of(to).unwrap(), 0), Op::Store(1, 1)];
            let kernel = Kernel::new(map_body(&[from], to, ops)).unwrap();
            // A number with more than 24 bits is rounded to f32 before it is to bf16 or f16.
            let twice = to.is_float() && to.bits() == 16 && from.bits() > 24;
            agree(&format!("{from} to {to}"), &op, &[&x], &run_map(&kernel, &[&x], to), twice.into());
        }
    }
}

#[test]
fn rounding_to_narrow_floats() {
    use ElementType::*;
    for elem in [BF16, F16, F8E4M3FN, F8E5M2, F8E4M3B11FNUZ, F4E2M1FN] {
        let x = values(F32, 5, 3001);
        let kernel =
            Kernel::new(map_body(&[F32], F32, vec![Op::Load(0), Op::Round(elem, 0), Op::Store(1, 1)])).unwrap();
        let got = run_map(&kernel, &[&x], F32);
        for i in 0..x.len() {
            let want = x.get(i).cast_to(elem);
            assert_eq!(ulps(F32, got.get(i), want), 0, "{elem} {} {} {want}", x.get(i), got.get(i));
        }
    }
}

/// A divisor that is always the same is not divided by.
#[test]
fn fixed_divisors() {
    use ElementType::*;
    for elem in [I32, UI32, I16, UI16, I8, UI8, I64, UI64] {
        let x = values(elem, 3, 1000);
        let ty = Ty::of(elem).unwrap();
        let large =
            [65521i64, 641, 6_700_417, (1 << 30) + 1, (1 << 31) - 1, (1 << 32) - 1, (1 << 31) + 1, 1 << 31, 1 << 40];
        let small = [1i64, 2, 3, 5, 7, 8, 10, 64, 100, 1000, 1 << 14, 12345, 32767, -3, -2, -1, 0];
        for by in small.into_iter().chain(large) {
            let by = Scalar::from_i64(elem, by);
            let Scalar::Int(number) = by else { continue };
            let bits = number as u64 & (u64::MAX >> (64 - 8 * ty.size()));
            for f in [BinaryOp::Divide, BinaryOp::Remainder] {
                let ops = vec![Op::Load(0), Op::Const(ty, bits), Op::Binary(f, 0, 1), Op::Store(1, 2)];
                let kernel = Kernel::new(map_body(&[elem], elem, ops)).unwrap();
                let got = run_map(&kernel, &[&x], elem);
                let op = ScalarOp::new(OpKind::Binary(f), elem, elem).unwrap();
                for i in 0..x.len() {
                    let want = apply(&op, &[x.get(i), by]);
                    assert_eq!(got.get(i), want, "{f:?} of {elem}: {:?} by {by:?}", x.get(i));
                }
            }
        }
    }
}

/// Quotients rounded down and remainders with the sign of the divisor, as JAX writes them.
#[test]
fn floors() {
    use ElementType::*;
    for elem in [I8, I16, I32, I64] {
        let x = values(elem, 3, 1000);
        let ty = Ty::of(elem).unwrap();
        let most = (1i64 << (8 * ty.size() - 1)).wrapping_sub(1);
        for by in [2, 3, 7, 10, 16, 64, 100, most - 1, most, 1000, 65521, 1 << 20] {
            if by > most {
                continue;
            }
            let (c, zero, one, no) =
                (Op::Const(ty, by as u64), Op::Const(ty, 0), Op::Const(ty, 1), Op::Const(Ty::Pred, 0));
            let (ne, lt) = (|a, b| Op::Compare(Cmp::Ne, a, b), |a, b| Op::Compare(Cmp::Lt, a, b));
            let bin = Op::Binary;
            let quotient = vec![
                Op::Load(0),
                c,
                zero,
                one,
                bin(BinaryOp::Divide, 0, 1),
                Op::Unary(UnaryOp::Sign, 0),
                ne(5, 3),
                bin(BinaryOp::Remainder, 0, 1),
                ne(7, 2),
                bin(BinaryOp::And, 6, 8),
                bin(BinaryOp::Subtract, 4, 3),
                Op::Select(9, 10, 4),
                Op::Store(1, 11),
            ];
            let remainder = vec![
                Op::Load(0),
                c,
                zero,
                no,
                bin(BinaryOp::Remainder, 0, 1),
                ne(4, 2),
                lt(4, 2),
                ne(6, 3),
                bin(BinaryOp::And, 7, 5),
                bin(BinaryOp::Add, 4, 1),
                Op::Select(8, 9, 4),
                Op::Store(1, 10),
            ];
            for (ops, is_quotient) in [(quotient, true), (remainder, false)] {
                let kernel = Kernel::new(map_body(&[elem], elem, ops)).unwrap();
                let got = run_map(&kernel, &[&x], elem);
                for i in 0..x.len() {
                    let number = x.get_i64(i);
                    let want = if is_quotient { number.div_euclid(by) } else { number.rem_euclid(by) };
                    assert_eq!(got.get_i64(i), want, "{elem}: {number} by {by}");
                }
            }
        }
    }
}

/// What constants decide of comparisons, truth values and choices.
#[test]
fn decided_choices() {
    use ElementType::*;
    let comparisons = [Cmp::Eq, Cmp::Ne, Cmp::Lt, Cmp::Le, Cmp::Gt, Cmp::Ge];
    let holds = |f: Cmp, x: i64, y: i64| match f {
        Cmp::Eq => x == y,
        Cmp::Ne => x != y,
        Cmp::Lt => x < y,
        Cmp::Le => x <= y,
        Cmp::Gt => x > y,
        Cmp::Ge => x >= y,
    };
    for elem in [I8, UI8, I32, UI32, I64] {
        let ty = Ty::of(elem).unwrap();
        let x = values(elem, 3, 500);
        for (f, g) in comparisons.iter().flat_map(|&f| comparisons.map(|g| (f, g))) {
            for (connective, flips) in [(BinaryOp::And, 0), (BinaryOp::Or, 1), (BinaryOp::Xor, 0), (BinaryOp::And, 1)] {
                // (x f 0) ∘ ((x g 5) ≠ flips) decides between x and 5, by way of a number that is not zero.
                let ops = vec![
                    Op::Load(0),
                    Op::Const(ty, 0),
                    Op::Const(ty, 5),
                    Op::Const(Ty::Pred, flips),
                    Op::Compare(f, 0, 1),
                    Op::Compare(g, 0, 2),
                    Op::Compare(Cmp::Ne, 5, 3),
                    Op::Binary(connective, 4, 6),
                    Op::Convert(ty, 7),
                    Op::Compare(Cmp::Ne, 8, 1),
                    Op::Select(9, 0, 2),
                    Op::Store(1, 10),
                ];
                let kernel = Kernel::new(map_body(&[elem], elem, ops)).unwrap();
                let got = run_map(&kernel, &[&x], elem);
                for i in 0..x.len() {
                    let number = x.get_i64(i);
                    let (p, q) = (holds(f, number, 0), holds(g, number, 5) != (flips == 1));
                    let p = match connective {
                        BinaryOp::And => p && q,
                        BinaryOp::Or => p || q,
                        _ => p != q,
                    };
                    let want = if p { number } else { 5 };
                    assert_eq!(got.get_i64(i), want, "{elem} {f:?} {connective:?} {g:?} {flips}: {number}");
                }
            }
        }
    }
}

/// Shifts of narrow numbers by a number that is always the same.
#[test]
fn fixed_shifts() {
    use ElementType::*;
    for elem in [I8, UI8, I16, UI16, I32, UI64] {
        let x = values(elem, 3, 1000);
        let ty = Ty::of(elem).unwrap();
        for by in [0i64, 1, 3, 4, 7, 8, 9, 15, 16, 31, 33, 100, -1] {
            let by = Scalar::from_i64(elem, by);
            let Scalar::Int(number) = by else { continue };
            let bits = number as u64 & (u64::MAX >> (64 - 8 * ty.size()));
            for f in [BinaryOp::ShiftLeft, BinaryOp::ShiftRightLogical, BinaryOp::ShiftRightArithmetic] {
                let ops = vec![Op::Load(0), Op::Const(ty, bits), Op::Binary(f, 0, 1), Op::Store(1, 2)];
                let kernel = Kernel::new(map_body(&[elem], elem, ops)).unwrap();
                let got = run_map(&kernel, &[&x], elem);
                let op = ScalarOp::new(OpKind::Binary(f), elem, elem).unwrap();
                for i in 0..x.len() {
                    assert_eq!(got.get(i), apply(&op, &[x.get(i), by]), "{f:?} of {elem}: {:?} by {by:?}", x.get(i));
                }
            }
        }
    }
}

/// Floats of one byte are loaded, stored and moved by arithmetic on their bits.
#[test]
fn floats_of_one_byte() {
    use ElementType::*;
    for elem in [F8E3M4, F8E4M3, F8E4M3FN, F8E4M3FNUZ, F8E4M3B11FNUZ, F8E5M2, F8E5M2FNUZ] {
        let all = Literal::from_bytes([256], elem, (0..=255u8).collect::<Vec<_>>()).unwrap();
        let loaded = Kernel::new(map_body(&[elem], F32, vec![Op::Load(0), Op::Store(1, 0)])).unwrap();
        let numbers = run_map(&loaded, &[&all], F32);
        for i in 0..256 {
            assert_eq!(ulps(F32, numbers.get(i), all.get(i).cast_to(F32)), 0, "{elem} {i:#x}: {}", numbers.get(i));
        }
        let moved = Kernel::new(map_body(&[elem], elem, vec![Op::Load(0), Op::Store(1, 0)])).unwrap();
        assert_eq!(run_map(&moved, &[&all], elem).bytes(), all.bytes());
        // Numbers of every size, and those between two of the type.
        let mut x: Vec<f64> = values(F32, 5, 3001).scalars().map(|v| v.as_f64()).collect();
        let mut sorted: Vec<f64> = numbers.scalars().map(|v| v.as_f64()).filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        for pair in sorted.windows(2) {
            let middle = (0.5 * (pair[0] + pair[1])) as f32;
            x.extend([pair[0], middle.next_down().into(), middle.into(), middle.next_up().into()]);
        }
        let x = Literal::from_f64s([x.len() as i64], F32, &x).unwrap();
        let stored = Kernel::new(map_body(&[F32], elem, vec![Op::Load(0), Op::Store(1, 0)])).unwrap();
        let got = run_map(&stored, &[&x], elem);
        for i in 0..x.len() {
            let want = x.get(i).cast_to(elem);
            assert_eq!(ulps(elem, got.get(i), want), 0, "{elem} of {}: {} instead of {want}", x.get(i), got.get(i));
        }
    }
}
