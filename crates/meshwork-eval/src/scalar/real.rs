//! Real functions that the standard library lacks or defines otherwise.

/// The larger one; NaN if either is NaN; +0 is larger than -0.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        a
    } else if b.is_nan() || b > a || (a == b && a.is_sign_negative()) {
        b
    } else {
        a
    }
}

/// The smaller one; NaN if either is NaN; -0 is smaller than +0.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        a
    } else if b.is_nan() || b < a || (a == b && b.is_sign_negative()) {
        b
    } else {
        a
    }
}

/// -1, 1, or the zero or NaN itself.
pub(super) fn sign(a: f64) -> f64 {
    if a.is_nan() || a == 0.0 { a } else { 1.0f64.copysign(a) }
}

/// 1 / (1 + e^-x).
pub(super) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_of_nan_and_zeros() {
        assert!(maximum(f64::NAN, 1.0).is_nan() && maximum(1.0, f64::NAN).is_nan());
        assert!(minimum(f64::NAN, 1.0).is_nan() && minimum(1.0, f64::NAN).is_nan());
        for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert!(maximum(a, b).is_sign_positive());
            assert!(minimum(a, b).is_sign_negative());
        }
        assert_eq!((maximum(1.0, 2.0), minimum(1.0, 2.0)), (2.0, 1.0));
    }

    #[test]
    fn sign_keeps_zero_and_nan() {
        assert!(sign(f64::NAN).is_nan());
        assert!(sign(-0.0).is_sign_negative() && sign(-0.0) == 0.0);
        assert_eq!((sign(-3.0), sign(f64::INFINITY)), (-1.0, 1.0));
    }

    #[test]
    fn logistic_of_large_numbers() {
        assert_eq!((logistic(1000.0), logistic(-1000.0), logistic(0.0)), (1.0, 0.0, 0.5));
    }
}

#[cfg(test)]
mod rounding {
    use super::super::{ScalarOp, apply};
    use meshwork_ir::Scalar;
    use meshwork_ir::op::{BinaryOp, UnaryOp};
    use meshwork_ir::{ElementType, OpKind};
    use proptest::prelude::*;

    fn run(kind: OpKind, args: &[f32]) -> f32 {
        let op = ScalarOp::new(kind, ElementType::F32, ElementType::F32).unwrap();
        let args: Vec<Scalar> = args.iter().map(|&v| Scalar::Float(v.into())).collect();
        apply(&op, &args).as_f64() as f32
    }

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    proptest! {
        #[test]
        fn f32_results_are_those_of_the_machine(x: u32, y: u32) {
            let (a, b) = (f32::from_bits(x), f32::from_bits(y));
            prop_assert!(same(run(OpKind::Binary(BinaryOp::Add), &[a, b]), a + b), "{a} + {b}");
            prop_assert!(same(run(OpKind::Binary(BinaryOp::Subtract), &[a, b]), a - b), "{a} - {b}");
            prop_assert!(same(run(OpKind::Binary(BinaryOp::Multiply), &[a, b]), a * b), "{a} * {b}");
            prop_assert!(same(run(OpKind::Binary(BinaryOp::Divide), &[a, b]), a / b), "{a} / {b}");
            prop_assert!(same(run(OpKind::Binary(BinaryOp::Remainder), &[a, b]), a % b), "{a} % {b}");
            prop_assert!(same(run(OpKind::Unary(UnaryOp::Sqrt), &[a]), a.sqrt()), "sqrt {a}");
            prop_assert!(same(run(OpKind::Unary(UnaryOp::Floor), &[a]), a.floor()), "floor {a}");
            prop_assert!(same(run(OpKind::Unary(UnaryOp::RoundNearestEven), &[a]), a.round_ties_even()), "round {a}");
        }
    }
}
