//! How far functions of `f32` are from the truth, over all of its numbers.
//!
//! Every `KERNEL_MATH_STEP`-th bit pattern is tried, by default about 130,000 of them; 1 tries all, which takes
//! minutes.

use meshwork_cpu::kernel::ir::{BinaryOp, Op, UnaryOp};
use meshwork_cpu::kernel::{Backend, Kernel, jit_is_available};
use meshwork_eval::special;
use meshwork_ir::{ElementType, Literal};
use meshwork_testing::Numbers;

use crate::harness::{map_body, run_map};

const F32: ElementType = ElementType::F32;

type Real = fn(f64) -> f64;
type Real2 = fn(f64, f64) -> f64;

/// Error of `got` in units of last place of `want`, which has more digits. Infinite where one is NaN and the other not.
fn error(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let nearest = want as f32;
    if got == nearest {
        // The sign of zero counts.
        return if got.is_sign_negative() == nearest.is_sign_negative() { 0.0 } else { f64::INFINITY };
    }
    if got.is_infinite() || nearest.is_infinite() {
        // Beside the largest number, infinity is one unit away.
        let code = |x: f32| i64::from(x.to_bits() & 0x7FFF_FFFF);
        return (code(got) - code(nearest)).unsigned_abs() as f64;
    }
    let size = want.abs().max(f64::from(f32::MIN_POSITIVE));
    let unit = 2f64.powi(size.log2().floor() as i32 - 23);
    (f64::from(got) - want).abs() / unit
}

fn literal(values: &[f32]) -> Literal {
    let bytes: Vec<f64> = values.iter().map(|&v| v.into()).collect();
    Literal::from_f64s([values.len() as i64], F32, &bytes).unwrap()
}

fn floats(x: &Literal) -> Vec<f32> {
    x.bytes().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn step() -> u64 {
    std::env::var("KERNEL_MATH_STEP").ok().and_then(|s| s.parse().ok()).unwrap_or(32_749)
}

/// The largest error of `f` over all numbers, and where.
fn worst(f: UnaryOp, truth: Real) -> (f64, f32) {
    let kernel = Kernel::new(map_body(&[F32], F32, vec![Op::Load(0), Op::Unary(f, 0), Op::Store(1, 1)])).unwrap();
    assert!(kernel.backend() == Backend::Compiled || !jit_is_available(), "{f:?} is interpreted");
    let mut worst = (0.0, 0.0);
    let mut next = 0u64;
    while next < 1 << 32 {
        let mut x: Vec<f32> = vec![];
        while x.len() < 1 << 16 && next < 1 << 32 {
            x.push(f32::from_bits(next as u32));
            next += step();
        }
        let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE];
        x.extend(special);
        x.extend([
            f32::from_bits(1),
            -f32::from_bits(1),
            88.72284,
            88.72283,
            -103.97,
            -104.0,
            -150.0,
            -175.3,
            -175.4,
            -176.1,
            -1e30,
            89.0,
            -87.3,
            9.0,
            4.0,
            0.99999994,
            -0.99999994,
        ]);
        for (x, y) in x.iter().zip(floats(&run_map(&kernel, &[&literal(&x)], F32))) {
            let off = error(y, truth((*x).into()));
            if off > worst.0 {
                worst = (off, *x);
            }
        }
    }
    worst
}

fn logistic(x: f64) -> f64 {
    // The exponential of a negative number, so that it does not overflow while the result is not yet zero.
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

#[test]
fn functions_of_one_value_are_within_bounds() {
    let list: [(UnaryOp, Real, f64); 26] = [
        (UnaryOp::Exponential, f64::exp, 1.5),
        (UnaryOp::ExponentialMinusOne, f64::exp_m1, 2.5),
        (UnaryOp::Log, f64::ln, 0.9),
        (UnaryOp::LogPlusOne, f64::ln_1p, 1.6),
        (UnaryOp::Tanh, f64::tanh, 2.5),
        (UnaryOp::Logistic, logistic, 2.8),
        (UnaryOp::Erf, special::erf, 3.4),
        (UnaryOp::Sine, f64::sin, 1.6),
        (UnaryOp::Cosine, f64::cos, 1.6),
        (UnaryOp::Tan, f64::tan, 3.1),
        (UnaryOp::Erfc, special::erfc, 4.1),
        (UnaryOp::ErfInv, special::erf_inv, 3.4),
        (UnaryOp::Sinh, f64::sinh, 2.5),
        (UnaryOp::Cosh, f64::cosh, 2.5),
        (UnaryOp::Asinh, special::asinh, 3.0),
        (UnaryOp::Acosh, special::acosh, 3.0),
        (UnaryOp::Atanh, special::atanh, 3.0),
        (UnaryOp::Asin, f64::asin, 2.5),
        (UnaryOp::Acos, f64::acos, 2.5),
        (UnaryOp::Atan, f64::atan, 0.6),
        (UnaryOp::Cbrt, f64::cbrt, 0.6),
        (UnaryOp::BesselI1e, special::bessel_i1e, 6.0),
        (UnaryOp::Rsqrt, rsqrt, 1.6),
        (UnaryOp::Sqrt, f64::sqrt, 0.6),
        (UnaryOp::Floor, f64::floor, 0.0),
        (UnaryOp::RoundNearestAfz, f64::round, 0.0),
    ];
    let mut failures = vec![];
    for (f, truth, bound) in list {
        let (off, at) = worst(f, truth);
        println!("{f:?}: {off:.3} ulp at {at:e}");
        if off > bound {
            failures.push(format!("{f:?} is {off:.3} ulp off at {at:e} ({:#x}), not {bound}", at.to_bits()));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Of negative numbers both are differences, whose rounding is that of the larger terms.
#[test]
fn gamma_functions_are_within_bounds() {
    let list: [(UnaryOp, Real, f64); 2] =
        [(UnaryOp::Lgamma, special::lgamma, 3.0), (UnaryOp::Digamma, special::digamma, 4.0)];
    let mut x: Vec<f32> = (0..1u64 << 32).step_by(step() as usize).map(|bits| f32::from_bits(bits as u32)).collect();
    x.extend((0..40_000).map(|i| (i - 20_000) as f32 / 1999.0));
    x.extend((0..2000).flat_map(|i| [1.0f32, 2.0, 3.0, 1.461_632_1].map(|at| f32::from_bits(at.to_bits() - 1000 + i))));
    x.extend([
        0.0,
        -0.0,
        1.0,
        2.0,
        -1.0,
        -2.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::from_bits(1),
    ]);
    for (f, truth, bound) in list {
        let kernel = Kernel::new(map_body(&[F32], F32, vec![Op::Load(0), Op::Unary(f, 0), Op::Store(1, 1)])).unwrap();
        assert!(kernel.backend() == Backend::Compiled || !jit_is_available(), "{f:?} is interpreted");
        let mut worst = (0.0, 0.0);
        for (&x, got) in x.iter().zip(floats(&run_map(&kernel, &[&literal(&x)], F32))) {
            let want = truth(x.into());
            let mut off = error(got, want);
            if x < 0.0 && off > bound {
                let terms = 2.0 + f64::from(-x).ln().abs() + want.abs() + truth(1.0 - f64::from(x)).abs();
                off = (f64::from(got) - want).abs() / terms * 2f64.powi(23);
            }
            if off > worst.0 || off.is_nan() {
                worst = (off, x);
            }
        }
        println!("{f:?}: {:.3} ulp at {:e}", worst.0, worst.1);
        assert!(worst.0 <= bound, "{f:?} is {:.3} ulp off at {:e}, not {bound}", worst.0, worst.1);
    }
}

#[test]
fn functions_of_two_values_are_within_bounds() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        1e-40,
        -1e-40,
        16777216.0,
        16777215.0,
        -16777215.0,
        1e30,
        0.99999994,
    ];
    let (mut x, mut y) = (vec![], vec![]);
    for a in special {
        for b in special {
            x.push(a);
            y.push(b);
        }
    }
    let mut numbers = Numbers(7);
    for i in 0..100_000 {
        let bits = numbers.bits();
        x.push(f32::from_bits(bits as u32));
        // Half of the exponents are moderate, so that powers neither vanish nor overflow.
        let moderate = ((bits >> 40) as f32 / 65536.0 - 128.0) / 8.0;
        y.push(if i % 2 == 0 { moderate } else { f32::from_bits((bits >> 32) as u32) });
    }
    let list: [(BinaryOp, Real2, f64); 2] = [(BinaryOp::Power, f64::powf, 0.6), (BinaryOp::Atan2, f64::atan2, 0.6)];
    for (f, truth, bound) in list {
        let ops = vec![Op::Load(0), Op::Load(1), Op::Binary(f, 0, 1), Op::Store(2, 2)];
        let kernel = Kernel::new(map_body(&[F32, F32], F32, ops)).unwrap();
        assert!(kernel.backend() == Backend::Compiled || !jit_is_available(), "{f:?} is interpreted");
        let got = floats(&run_map(&kernel, &[&literal(&x), &literal(&y)], F32));
        for i in 0..x.len() {
            let want = truth(x[i].into(), y[i].into());
            let off = error(got[i], want);
            assert!(off <= bound, "{f:?} {:e} {:e} is {:e}, not {want:e}: {off:.2} ulp", x[i], y[i], got[i]);
        }
    }
}

#[test]
fn functions_of_f64_are_near_the_reference() {
    let list: [(UnaryOp, Real, u64); 19] = [
        (UnaryOp::Exponential, f64::exp, 4),
        (UnaryOp::ExponentialMinusOne, f64::exp_m1, 4),
        (UnaryOp::Log, f64::ln, 4),
        (UnaryOp::LogPlusOne, f64::ln_1p, 4),
        (UnaryOp::Tanh, f64::tanh, 4),
        (UnaryOp::Logistic, logistic, 4),
        (UnaryOp::Sinh, f64::sinh, 4),
        (UnaryOp::Cosh, f64::cosh, 4),
        (UnaryOp::Asinh, special::asinh, 4),
        (UnaryOp::Acosh, special::acosh, 4),
        (UnaryOp::Atanh, special::atanh, 4),
        (UnaryOp::Atan, f64::atan, 4),
        (UnaryOp::ErfInv, special::erf_inv, 4),
        (UnaryOp::Erf, special::erf, 4),
        (UnaryOp::Erfc, special::erfc, 16),
        (UnaryOp::BesselI1e, special::bessel_i1e, 16),
        (UnaryOp::Asin, f64::asin, 2),
        (UnaryOp::Acos, f64::acos, 2),
        (UnaryOp::Tan, f64::tan, 4),
    ];
    let mut numbers = Numbers(11);
    let mut x: Vec<f64> = (0..80_000)
        .map(|i| {
            let bits = numbers.bits();
            match i % 4 {
                0 => f64::from_bits(bits),
                1 => bits as i64 as f64 / 2f64.powi(53),
                2 => bits as i64 as f64 / 2f64.powi(58),
                _ => bits as i64 as f64 / 2f64.powi(63),
            }
        })
        .collect();
    x.extend([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 709.7827, 709.79, -745.1, -745.2, -708.5, 5e-324]);
    x.extend([
        0.5, -0.49999, 8.0, 26.5, 27.3, 28.5, -87.336_54, -746.0, -708.396_4, -708.397, -1000.0, -1417.7, -1417.9,
        -1418.2, -1e300,
    ]);
    x.extend([1.0, -1.0, 0.999, 0.9990001, 0.9999999, 1e9, 1.1e9, 710.4, -710.4, 710.5, 1e300]);
    let elem = ElementType::F64;
    let input = Literal::from_f64s([x.len() as i64], elem, &x).unwrap();
    for (f, truth, bound) in list {
        let kernel = Kernel::new(map_body(&[elem], elem, vec![Op::Load(0), Op::Unary(f, 0), Op::Store(1, 1)])).unwrap();
        assert!(kernel.backend() == Backend::Compiled || !jit_is_available(), "{f:?} is interpreted");
        let got = run_map(&kernel, &[&input], elem);
        let mut most = 0;
        for (i, &x) in x.iter().enumerate() {
            let (got, want) = (got.get(i), meshwork_ir::Scalar::Float(truth(x)));
            let off = crate::ops::ulps(elem, got, want);
            assert!(off <= bound, "{f:?} {x:e} is {got}, not {want}: {off} ulp");
            most = most.max(off);
        }
        println!("{f:?}: {most} ulp");
    }
}

#[test]
fn angles_of_f64_are_near_the_reference() {
    let special = [0.0, -0.0, 1.0, -1.0, 3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-310, -1e300, 0.41];
    let mut pairs: Vec<(f64, f64)> = special.iter().flat_map(|&a| special.map(|b| (a, b))).collect();
    let mut numbers = Numbers(17);
    pairs.extend((0..20_000).map(|_| (numbers.bits() as i64 as f64, numbers.bits() as i64 as f64)));
    let elem = ElementType::F64;
    let side = |of: fn(&(f64, f64)) -> f64| {
        Literal::from_f64s([pairs.len() as i64], elem, &pairs.iter().map(of).collect::<Vec<_>>()).unwrap()
    };
    let ops = vec![Op::Load(0), Op::Load(1), Op::Binary(BinaryOp::Atan2, 0, 1), Op::Store(2, 2)];
    let kernel = Kernel::new(map_body(&[elem, elem], elem, ops)).unwrap();
    let got = run_map(&kernel, &[&side(|p| p.0), &side(|p| p.1)], elem);
    for (i, (y, x)) in pairs.iter().enumerate() {
        let (got, want) = (got.get(i), meshwork_ir::Scalar::Float(y.atan2(*x)));
        let off = crate::ops::ulps(elem, got, want);
        assert!(off <= 3, "{y:e} {x:e}: {got}, not {want}: {off} ulp");
    }
}

/// Exact, whatever the quotient.
#[test]
fn remainders_are_exact() {
    let special =
        [0.0, -0.0, 1.0, -1.0, 2.5, 6.2831855, 0.1, f32::INFINITY, f32::NAN, f32::MAX, 1e-40, 16777217.0, 4e31];
    let mut pairs: Vec<(f32, f32)> = special.iter().flat_map(|&a| special.map(|b| (a, b))).collect();
    let mut numbers = Numbers(19);
    for i in 0..60_000 {
        let bits = numbers.bits();
        let y = f32::from_bits(bits as u32);
        let (whole, part) = ((bits >> 40) as f32, (bits >> 56) as f32 / 256.0);
        // Beside multiples of the divisor, moderate ones, and any.
        pairs.push(match i % 3 {
            0 => (f32::from_bits((y * (bits >> 50) as f32).to_bits().wrapping_add((bits >> 32) as u32 % 5)), y),
            1 => (whole * 0.01 - 50_000.0, part + 0.01),
            _ => (f32::from_bits((bits >> 32) as u32), y),
        });
    }
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    let same = |got: f64, want: f64| got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
    for elem in [F32, ElementType::F64] {
        let list = |v: &[f32]| {
            Literal::from_f64s([v.len() as i64], elem, &v.iter().map(|&v| v.into()).collect::<Vec<_>>()).unwrap()
        };
        let ops = vec![Op::Load(0), Op::Load(1), Op::Binary(BinaryOp::Remainder, 0, 1), Op::Store(2, 2)];
        let kernel = Kernel::new(map_body(&[elem, elem], elem, ops)).unwrap();
        assert!(kernel.backend() == Backend::Compiled || !jit_is_available());
        let got = run_map(&kernel, &[&list(&x), &list(&y)], elem);
        for (i, (x, y)) in pairs.iter().enumerate() {
            let want = if elem == F32 { (x % y).into() } else { f64::from(*x) % f64::from(*y) };
            let meshwork_ir::Scalar::Float(got) = got.get(i) else { panic!("no float") };
            assert!(same(got, want), "{x:e} % {y:e} is {got:e}, not {want:e}");
        }
    }
    for by in [1.0f32, 2.0, 1024.0, 0.5, 3.0] {
        let constant = Op::Const(meshwork_cpu::kernel::ir::Ty::F32, by.to_bits().into());
        let ops = vec![Op::Load(0), constant, Op::Binary(BinaryOp::Remainder, 0, 1), Op::Store(1, 2)];
        let kernel = Kernel::new(map_body(&[F32], F32, ops)).unwrap();
        for (x, got) in x.iter().zip(floats(&run_map(&kernel, &[&literal(&x)], F32))) {
            assert!(same(got.into(), (x % by).into()), "{x:e} % {by} is {got:e}");
        }
    }
}

#[test]
fn sines_of_f64_are_near_the_reference() {
    let mut numbers = Numbers(13);
    let mut x: Vec<f64> = (0..60_000)
        .map(|i| {
            let bits = numbers.bits();
            match i % 4 {
                0 => f64::from_bits(bits),
                1 => bits as i64 as f64 / 2f64.powi(63),
                2 => bits as i64 as f64 / 2f64.powi(43),
                // Beside multiples of a quarter of a circle.
                _ => (bits % 700_000) as f64 * std::f64::consts::FRAC_PI_2,
            }
        })
        .collect();
    x.extend([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e6, -1e6, 999_999.9, 5e-324, 1e-300, 1e22]);
    let elem = ElementType::F64;
    for (f, truth) in [(UnaryOp::Sine, f64::sin as Real), (UnaryOp::Cosine, f64::cos)] {
        let kernel = Kernel::new(map_body(&[elem], elem, vec![Op::Load(0), Op::Unary(f, 0), Op::Store(1, 1)])).unwrap();
        let input = Literal::from_f64s([x.len() as i64], elem, &x).unwrap();
        let got = run_map(&kernel, &[&input], elem);
        for (i, &x) in x.iter().enumerate() {
            let (got, want) = (got.get(i), meshwork_ir::Scalar::Float(truth(x)));
            let off = crate::ops::ulps(elem, got, want);
            assert!(off <= 1, "{f:?} {x:e} is {got}, not {want}: {off} ulp");
        }
        let of_zero = got.get(60_001);
        assert!(
            matches!(of_zero, meshwork_ir::Scalar::Float(v) if v.to_bits() == truth(-0.0).to_bits()),
            "{f:?} of -0"
        );
    }
}

#[test]
fn constants_that_change_nothing_or_are_powers_of_two() {
    let x = [0.0, -0.0, 1.5, -3.25, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-40, -7e37];
    for (f, number) in [
        (BinaryOp::Multiply, 1.0f32),
        (BinaryOp::Divide, 1.0),
        (BinaryOp::Divide, 4.0),
        (BinaryOp::Divide, -0.125),
        (BinaryOp::Divide, 3.0),
        (BinaryOp::Divide, 1e-45),
        (BinaryOp::Add, -0.0),
        (BinaryOp::Add, 0.0),
        (BinaryOp::Subtract, 0.0),
        (BinaryOp::Subtract, -0.0),
    ] {
        let constant = Op::Const(meshwork_cpu::kernel::ir::Ty::F32, number.to_bits().into());
        let ops = vec![Op::Load(0), constant, Op::Binary(f, 0, 1), Op::Store(1, 2)];
        let kernel = Kernel::new(map_body(&[F32], F32, ops)).unwrap();
        let got = floats(&run_map(&kernel, &[&literal(&x)], F32));
        for (&x, got) in x.iter().zip(got) {
            let want = match f {
                BinaryOp::Multiply => x * number,
                BinaryOp::Divide => x / number,
                BinaryOp::Add => x + number,
                _ => x - number,
            };
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            assert!(same, "{f:?} of {x:e} and {number:e} is {got:e}, not {want:e}");
        }
    }
    let elem = ElementType::I32;
    let x: Vec<i64> = vec![0, 1, -1, 7, i32::MAX.into(), i32::MIN.into(), -12345];
    for factor in [1i32, 2, 4, 1 << 30, i32::MIN, -4, 3] {
        let constant = Op::Const(meshwork_cpu::kernel::ir::Ty::I32, u64::from(factor as u32));
        for ops in [[0, 1], [1, 0]] {
            let ops = vec![Op::Load(0), constant, Op::Binary(BinaryOp::Multiply, ops[0], ops[1]), Op::Store(1, 2)];
            let kernel = Kernel::new(map_body(&[elem], elem, ops)).unwrap();
            let input = Literal::from_i64s([x.len() as i64], elem, &x).unwrap();
            let got = run_map(&kernel, &[&input], elem);
            for (i, &x) in x.iter().enumerate() {
                assert_eq!(got.get_i64(i), i64::from((x as i32).wrapping_mul(factor)), "{x} times {factor}");
            }
        }
    }
}

/// Powers that are multiples of a half, by products and roots.
#[test]
fn fixed_powers() {
    use meshwork_cpu::kernel::ir::Ty;
    let mut x: Vec<f32> = (0..1u32 << 16).map(|i| f32::from_bits(i.wrapping_mul(65_537))).collect();
    x.extend([0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    for twice in -8..=8i32 {
        let power = f64::from(twice) / 2.0;
        let constant = Op::Const(Ty::F32, (power as f32).to_bits().into());
        let ops = vec![Op::Load(0), constant, Op::Binary(BinaryOp::Power, 0, 1), Op::Store(1, 2)];
        let kernel = Kernel::new(map_body(&[F32], F32, ops)).unwrap();
        let got = floats(&run_map(&kernel, &[&literal(&x)], F32));
        for (&x, got) in x.iter().zip(got) {
            let want = f64::from(x).powf(power);
            // Products on the way may be too large, or too small to have all digits.
            let is_tiny = x.abs() < 1e-9 || want.abs() < f64::from(f32::MIN_POSITIVE);
            let is_near = is_tiny && want != 0.0 && want.is_finite();
            assert!(is_near || error(got, want) <= 3.0, "{x:e} to the {power}: {got:e}, not {want:e}");
        }
    }
}

/// Of the numbers that they are made for, and of those that are left to the reference.
#[test]
fn zeta_functions_are_near_the_reference() {
    use meshwork_cpu::kernel::ir::Ty;
    let special =
        [0.0, -0.0, 1.0, 2.0, 3.5, -1.0, -2.5, -3.0, 25.0, 1e30, 1e-30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let mut pairs: Vec<(f64, f64)> = special.iter().flat_map(|&a| special.map(|b| (a, b))).collect();
    let mut numbers = Numbers(23);
    let mut unit = || (numbers.bits() >> 11) as f64 / 2f64.powi(53);
    for i in 0..20_000 {
        let s = [1.0 + 1e-3 * unit(), 1.0 + 5.0 * unit(), 2.0 + 40.0 * unit(), 1.0 + 2000.0 * unit()][i % 4];
        let q = [unit(), 10.0 * unit(), 0.5 + 1000.0 * unit(), 1e6 * unit(), -10.0 * unit()][i % 5];
        pairs.push((f64::from(s as f32), f64::from(q as f32)));
    }
    // Where powers are infinite, their inverses zero, and sums are not yet.
    pairs.extend([5e14, 6e14, 2e15].map(|q| (21.0, q)));
    let narrow = |x: f64| f64::from(x as f32);
    let near = |elem: ElementType, got: f64, want: f64| {
        let want = if elem == F32 { narrow(want) } else { want };
        let (bound, least) = if elem == F32 { (2f64.powi(-23), 1e-38) } else { (1.2e-14, 1e-300) };
        got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= bound * want.abs().max(least)
    };
    for elem in [F32, ElementType::F64] {
        let ty = if elem == F32 { Ty::F32 } else { Ty::F64 };
        let list = |v: Vec<f64>| Literal::from_f64s([v.len() as i64], elem, &v).unwrap();
        let (s, q) = (list(pairs.iter().map(|p| p.0).collect()), list(pairs.iter().map(|p| p.1).collect()));
        let ops = vec![Op::Load(0), Op::Load(1), Op::Binary(BinaryOp::Zeta, 0, 1), Op::Store(2, 2)];
        let kernel = Kernel::new(map_body(&[elem, elem], elem, ops)).unwrap();
        assert!(kernel.backend() == Backend::Compiled || !jit_is_available(), "zeta is interpreted");
        let got = run_map(&kernel, &[&s, &q], elem);
        for (i, (s, q)) in pairs.iter().enumerate() {
            let (s, q) = if elem == F32 { (narrow(*s), narrow(*q)) } else { (*s, *q) };
            let meshwork_ir::Scalar::Float(got) = got.get(i) else { panic!("no float") };
            let want = special::zeta(s, q);
            assert!(near(elem, got, want), "{elem} zeta {s:e} {q:e} is {got:e}, not {want:e}");
        }
        let fixed = |f, x: f64| {
            let bits = if elem == F32 { u64::from((x as f32).to_bits()) } else { x.to_bits() };
            let ops = vec![Op::Const(ty, bits), Op::Load(0), Op::Binary(f, 0, 1), Op::Store(1, 2)];
            run_map(&Kernel::new(map_body(&[elem], elem, ops)).unwrap(), &[&q], elem)
        };
        for first in [0.0, 1.0, 2.0, 3.0, 7.0, 20.0, 21.0, 30.0, 1.5, -1.0, 1e4, f64::NAN] {
            let (zeta, slope) = (fixed(BinaryOp::Zeta, first), fixed(BinaryOp::Polygamma, first));
            for (i, (_, q)) in pairs.iter().enumerate() {
                let q = if elem == F32 { narrow(*q) } else { *q };
                let meshwork_ir::Scalar::Float(got) = zeta.get(i) else { panic!("no float") };
                let want = special::zeta(first, q);
                assert!(near(elem, got, want), "{elem} zeta {first} {q:e} is {got:e}, not {want:e}");
                let meshwork_ir::Scalar::Float(got) = slope.get(i) else { panic!("no float") };
                let want = special::polygamma(first, q);
                let is_near = near(elem, got, want) || first == 0.0; // `digamma` has bounds of its own
                assert!(is_near, "{elem} polygamma {first} {q:e} is {got:e}, not {want:e}");
            }
        }
    }
}
