//! How far `erf_inv` of `f64` is from the truth: the error function of a result, in twice the digits, shows by how much it misses.

use meshwork_cpu::kernel::ir::{Op, UnaryOp};
use meshwork_cpu::kernel::{Backend, Kernel, jit_is_available};
use meshwork_eval::special;
use meshwork_ir::{ElementType, Literal, Scalar};
use meshwork_testing::Numbers;

use crate::harness::{map_body, run_map};

/// A number as a sum of two, the second below half a unit of the first.
#[derive(Clone, Copy)]
struct Twice(f64, f64);

impl Twice {
    fn sum(a: f64, b: f64) -> Twice {
        let sum = a + b;
        let part = sum - a;
        Twice(sum, (a - (sum - part)) + (b - part))
    }

    fn add(self, other: Twice) -> Twice {
        let (high, low) = (Twice::sum(self.0, other.0), Twice::sum(self.1, other.1));
        let first = Twice::sum(high.0, high.1 + low.0);
        Twice::sum(first.0, first.1 + low.1)
    }

    fn mul(self, other: Twice) -> Twice {
        let product = self.0 * other.0;
        let lost = self.0.mul_add(other.0, -product);
        Twice::sum(product, lost + self.0.mul_add(other.1, self.1 * other.0))
    }

    fn div(self, by: f64) -> Twice {
        let quotient = self.0 / by;
        let rest = (-quotient).mul_add(by, self.0) + self.1;
        Twice::sum(quotient, rest / by)
    }
}

/// 2/√π.
const SLOPE: Twice = Twice(std::f64::consts::FRAC_2_SQRT_PI, 1.533_545_961_316_588e-17);

/// The error function up to 3.8 by its series, whose terms cancel seven digits of thirty-two there.
fn erf(y: f64) -> Twice {
    let square = Twice::sum(y, 0.0).mul(Twice(-y, 0.0));
    let mut term = Twice(y, 0.0);
    let mut sum = term;
    for n in 1..120 {
        term = term.mul(square).div(f64::from(n));
        sum = sum.add(term.div(f64::from(2 * n + 1)));
    }
    sum.mul(SLOPE)
}

/// By how many units of last place `y` misses the number whose error function is `x`.
fn miss(x: f64, y: f64) -> f64 {
    let over = erf(y).add(Twice(-x, 0.0));
    let unit = 2f64.powi(y.abs().log2().floor() as i32 - 52);
    (over.0 / (SLOPE.0 * (-y * y).exp()) / unit).abs()
}

#[test]
fn erf_inv_of_f64_is_within_six_tenths_of_a_unit_and_beyond_0_999_within_two() {
    let elem = ElementType::F64;
    let ops = vec![Op::Load(0), Op::Unary(UnaryOp::ErfInv, 0), Op::Store(1, 1)];
    let kernel = Kernel::new(map_body(&[elem], elem, ops)).unwrap();
    assert!(kernel.backend() == Backend::Compiled || !jit_is_available());
    let mut numbers = Numbers(23);
    let mut x: Vec<f64> = (1..40_000).map(|i| f64::from(i) / 40_000.0).collect();
    x.extend((0..40_000).map(|_| numbers.bits() as i64 as f64 / 2f64.powi(63)));
    // Near zero and near one, by the size of the distance, and on both sides of where the function changes.
    x.extend((0..8_000).map(|i| (-f64::from(i) / 400.0).exp()));
    x.extend((0..4_000).map(|i| 1.0 - (-f64::from(i) / 250.0).exp()));
    x.extend((0..2_000).map(|i| f64::from_bits(0.999f64.to_bits() - 1000 + i)));
    x.retain(|x| *x != 0.0 && x.abs() < 1.0 - 1e-7);
    let run = |x: &[f64]| {
        let input = Literal::from_f64s([x.len() as i64], elem, x).unwrap();
        let got = run_map(&kernel, &[&input], elem);
        let float = |i| if let Scalar::Float(y) = got.get(i) { y } else { panic!("no float") };
        (0..x.len()).map(float).collect::<Vec<_>>()
    };
    let (mut most, mut reference) = ((0.0, 0.0), (0.0, 0.0));
    for (&x, y) in x.iter().zip(run(&x)) {
        let off = miss(x, y);
        let most_here = if x.abs() <= 0.999 { 0.6 } else { 2.0 };
        assert!(off <= most_here, "erf_inv of {x:e} is {y:e}, which is {off:.2} ulp off");
        most = if off > most.0 { (off, x) } else { most };
        let off = miss(x, special::erf_inv(x));
        reference = if off > reference.0 { (off, x) } else { reference };
    }
    println!("{:.3} ulp at {:e}; the reference {:.3} at {:e}", most.0, most.1, reference.0, reference.1);
    let special = [0.0, -0.0, 1.0, -1.0, f64::NAN, 1.5, -2.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324, -1e-310];
    for (x, y) in special.into_iter().zip(run(&special)) {
        let want = special::erf_inv(x);
        let same = y.to_bits() == want.to_bits() || (y.is_nan() && want.is_nan());
        assert!(
            same || (want.abs() < 1e-300 && want != 0.0 && (y - want).abs() <= 5e-324),
            "{x:e}: {y:e}, not {want:e}"
        );
    }
}
