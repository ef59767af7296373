//! Sums and products with their rounding errors: two floats for one number.

/// `a + b` and what its rounding lost, exactly.
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let other = s - a;
    (s, (a - (s - other)) + (b - other))
}

/// `a · a` and what its rounding lost, exactly (unless it underflows).
pub(super) fn square(a: f64) -> (f64, f64) {
    let p = a * a;
    (p, a.mul_add(a, -p))
}

/// The sum of `terms` as if in twice the precision, as a float and a correction.
pub(super) fn sum(terms: &[f64]) -> (f64, f64) {
    let (mut total, mut lost) = (0.0, 0.0);
    for &t in terms {
        let (s, e) = two_sum(total, t);
        total = s;
        lost += e;
    }
    two_sum(total, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        assert_eq!(two_sum(1e16, 1.0), (1e16, 1.0));
        assert_eq!(sum(&[1.0, 1e-20, -1.0]), (1e-20, 0.0));
        let (p, e) = square(1.0 + f64::EPSILON);
        assert_eq!((p, e), (1.0 + 2.0 * f64::EPSILON, f64::EPSILON * f64::EPSILON));
    }
}
