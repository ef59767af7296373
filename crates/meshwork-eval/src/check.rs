//! The `check` operations of StableHLO's tests: compare what a program computed with what it should have.
//!
//! | operation | holds when |
//! |---|---|
//! | `check.expect_eq(_const)` | all elements are equal (NaN is not equal to NaN, -0 equals 0) |
//! | `check.expect_almost_eq(_const)` | all differ by at most `tolerance`, by default 1e-4; NaN matches NaN |
//! | `check.expect_close` | distances in units of last place are between `min_ulp_difference` and `max_ulp_difference` |
//! | `custom_call @check.expect_eq` | as `check.expect_eq` |
//! | `custom_call @check.expect_almost_eq` | as above with tolerance 1e-3 |
//! | `custom_call @check.expect_close` | between 0 and 3 units of last place |
//! | `custom_call @check.eq` | does not fail; its `i1` result says whether integers are equal, or floats within 1e-4 |

use super::{EvalError, attrs};
use meshwork_ir::Scalar;
use meshwork_ir::op::{CheckOp, ControlOp};
use meshwork_ir::{Attr, ElementType, Literal, Module, Op, OpId, OpKind, float};

/// How near two elements must be.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Rule {
    Equal,
    Within(f64),
    Ulps { min: u64, max: u64 },
}

fn tolerance(op: &Op, default: f64) -> f64 {
    match op.attr("tolerance") {
        Some(Attr::Float(v, _)) => *v,
        _ => default,
    }
}

fn ulps(op: &Op) -> Rule {
    // Unsigned 64-bit attributes are kept by bit pattern.
    let bound = |name: &str, default: i64| op.int(name).unwrap_or(default) as u64;
    Rule::Ulps { min: bound("min_ulp_difference", 0), max: bound("max_ulp_difference", 3) }
}

/// How the check `op` compares; `None` if it is not a check.
fn rule(op: &Op) -> Option<Rule> {
    Some(match op.kind() {
        OpKind::Check(CheckOp::ExpectEq | CheckOp::ExpectEqConst) => Rule::Equal,
        OpKind::Check(CheckOp::ExpectAlmostEq | CheckOp::ExpectAlmostEqConst) => Rule::Within(tolerance(op, 1e-4)),
        OpKind::Check(CheckOp::ExpectClose) => ulps(op),
        OpKind::Control(ControlOp::CustomCall) => match op.attr("call_target_name").and_then(Attr::as_str)? {
            "check.expect_eq" => Rule::Equal,
            "check.expect_almost_eq" => Rule::Within(tolerance(op, 1e-3)),
            "check.expect_close" => ulps(op),
            "check.eq" => Rule::Within(1e-4),
            _ => return None,
        },
        _ => return None,
    })
}

/// Whether `op` is a check that [`evaluate`] knows.
pub(crate) fn is_check(op: &Op) -> bool {
    rule(op).is_some()
}

/// Evaluates a `check.*` operation, or a custom call to one, on its operands. `Ok(None)`: it holds.
/// `Ok(Some(_))`: the result of `@check.eq`.
pub(crate) fn evaluate(module: &Module, id: OpId, args: &[&Literal]) -> Result<Option<Literal>, EvalError> {
    let op = module.op(id);
    let rule = rule(op).ok_or_else(|| EvalError::invalid(module, id, "is not a check operation"))?;
    let constant;
    let (got, want) = match (op.kind(), args) {
        (OpKind::Check(CheckOp::ExpectEqConst | CheckOp::ExpectAlmostEqConst), &[got]) => {
            constant = attrs::constant(op).map_err(|fault| fault.at(module, id))?;
            (got, &constant)
        }
        (_, &[got, want]) => (got, want),
        _ => return Err(EvalError::invalid(module, id, format!("{} operands", args.len()))),
    };
    let difference = compare(module, id, rule, got, want);
    if op.kind() == OpKind::Control(ControlOp::CustomCall) && !op.results().is_empty() {
        let holds = match difference {
            Ok(()) => true,
            Err(EvalError::CheckFailed { .. }) => false,
            Err(other) => return Err(other),
        };
        return Ok(Some(Literal::scalar(ElementType::I1, Scalar::Bool(holds))));
    }
    difference.map(|()| None)
}

fn compare(module: &Module, id: OpId, rule: Rule, got: &Literal, want: &Literal) -> Result<(), EvalError> {
    if got.ty() != want.ty() {
        return Err(EvalError::invalid(module, id, format!("got {}, expected {}", got.ty(), want.ty())));
    }
    for i in 0..got.len() {
        let (a, b) = (got.get(i), want.get(i));
        if let Some(rule) = broken(rule, got.elem(), a, b) {
            return Err(EvalError::CheckFailed {
                op: module.place(id),
                index: position(got.dims(), i),
                got: a.to_string(),
                want: b.to_string(),
                rule,
            });
        }
    }
    Ok(())
}

/// The rule in words if `a` and `b` break it.
fn broken(rule: Rule, elem: ElementType, a: Scalar, b: Scalar) -> Option<String> {
    let inexact = elem.is_float() || elem.is_complex();
    let parts = |f: &dyn Fn(f64, f64) -> bool| {
        let ((ar, ai), (br, bi)) = (a.as_complex(), b.as_complex());
        f(ar, br) && f(ai, bi)
    };
    match rule {
        Rule::Within(limit) if inexact => {
            (!parts(&|x, y| within(x, y, limit))).then(|| format!("difference of at most {limit:e}"))
        }
        Rule::Ulps { min, max } if inexact => {
            let ((ar, ai), (br, bi)) = (a.as_complex(), b.as_complex());
            let distance = ulp_distance(elem, ar, br).max(ulp_distance(elem, ai, bi));
            (distance < min || distance > max)
                .then(|| format!("{distance} units of last place apart, allowed are {min} to {max}"))
        }
        Rule::Equal | Rule::Within(_) | Rule::Ulps { .. } => (a != b).then(|| "equality".to_string()),
    }
}

fn within(a: f64, b: f64, limit: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= limit
}

/// How many numbers of type `elem` there are from `a` to `b`. Both zeros are one number, two NaNs are at distance 0, a
/// NaN and a number at the greatest distance.
fn ulp_distance(elem: ElementType, a: f64, b: f64) -> u64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0;
    }
    if a.is_nan() || b.is_nan() || a.is_infinite() || b.is_infinite() {
        return u64::MAX;
    }
    let (x, y) = (float::encode(elem, a.abs()), float::encode(elem, b.abs()));
    if a.is_sign_negative() == b.is_sign_negative() { x.abs_diff(y) } else { x + y }
}

/// The index of element `i` in a tensor of these extents.
fn position(dims: &[i64], mut i: usize) -> Vec<i64> {
    let mut index = vec![0; dims.len()];
    for (at, &d) in index.iter_mut().zip(dims).rev() {
        *at = (i % d as usize) as i64;
        i /= d as usize;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_ir::op::{CheckOp, ControlOp};
    use meshwork_ir::{Dense, OpSpec, Type};
    use std::sync::Arc;

    fn check(spec: OpSpec, got: &Literal, want: &Literal) -> Result<Option<Literal>, EvalError> {
        let mut module = Module::new();
        let id = module.create(spec);
        evaluate(&module, id, &[got, want])
    }

    fn floats(elem: ElementType, values: &[f64]) -> Literal {
        Literal::from_f64s([values.len() as i64], elem, values).unwrap()
    }

    #[test]
    fn equality_distinguishes_nan_but_not_zeros() {
        let eq = || OpSpec::new(OpKind::Check(CheckOp::ExpectEq));
        let f = |v: &[f64]| floats(ElementType::F32, v);
        assert!(check(eq(), &f(&[0.0, 1.0]), &f(&[-0.0, 1.0])).is_ok());
        let error = check(eq(), &f(&[0.0, f64::NAN]), &f(&[0.0, f64::NAN])).unwrap_err();
        assert_eq!(error.to_string(), "'check.expect_eq': check failed at index [1]: got NaN, expected NaN (equality)");
    }

    #[test]
    fn tolerance_is_absolute() {
        let f = |v: &[f64]| floats(ElementType::F64, v);
        let almost = || OpSpec::new(OpKind::Check(CheckOp::ExpectAlmostEq));
        assert!(check(almost(), &f(&[1.0, f64::NAN, f64::INFINITY]), &f(&[1.00009, f64::NAN, f64::INFINITY])).is_ok());
        assert!(check(almost(), &f(&[1.0]), &f(&[1.00011])).is_err());
        assert!(check(almost(), &f(&[f64::INFINITY]), &f(&[1e300])).is_err());
        let wide = almost().attr("tolerance", Attr::Float(0.5, ElementType::F64));
        assert!(check(wide, &f(&[1.0]), &f(&[1.4])).is_ok());
    }

    #[test]
    fn distance_counts_numbers_between() {
        let least = f64::from(f32::from_bits(1));
        assert_eq!(ulp_distance(ElementType::F32, -least, least), 2);
        assert_eq!(ulp_distance(ElementType::F32, 1.0, 1.0 + 5.0 * f64::from(f32::EPSILON)), 5);
        assert_eq!(ulp_distance(ElementType::F64, f64::MAX, f64::INFINITY), u64::MAX);
        assert_eq!(ulp_distance(ElementType::F64, -f64::NAN, f64::NAN), 0);
        let all = Attr::Int(-1, ElementType::UI64);
        let far = OpSpec::new(OpKind::Check(CheckOp::ExpectClose))
            .attr("max_ulp_difference", all.clone())
            .attr("min_ulp_difference", all);
        let f = |v: &[f64]| floats(ElementType::F32, v);
        assert!(check(far, &f(&[f64::INFINITY]), &f(&[1.0])).is_ok());
    }

    #[test]
    fn constant_is_compared() {
        let mut module = Module::new();
        let want = Literal::from_i64s([2, 2], ElementType::I32, &[1, 2, 3, 4]).unwrap();
        let dense = Attr::Dense(Arc::new(Dense::from_literal(&want)));
        let id = module.create(OpSpec::new(OpKind::Check(CheckOp::ExpectEqConst)).attr("value", dense));
        let got = Literal::from_i64s([2, 2], ElementType::I32, &[1, 2, 5, 4]).unwrap();
        let error = evaluate(&module, id, &[&got]).unwrap_err().to_string();
        assert!(error.contains("index [1, 0]: got 5, expected 3"), "{error}");
    }

    #[test]
    fn check_eq_answers() {
        let call = || {
            OpSpec::new(OpKind::Control(ControlOp::CustomCall))
                .attr("call_target_name", Attr::str("check.eq"))
                .results([Type::tensor([], ElementType::I1)])
        };
        let f = |v: &[f64]| floats(ElementType::F32, v);
        let answer = |a: &[f64], b: &[f64]| check(call(), &f(a), &f(b)).unwrap().unwrap().get(0);
        assert_eq!(answer(&[1.0], &[1.00001]), Scalar::Bool(true));
        assert_eq!(answer(&[1.0], &[2.0]), Scalar::Bool(false));
    }
}
