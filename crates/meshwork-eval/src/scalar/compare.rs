//! `stablehlo.compare`, and the orders behind it.

use std::cmp::Ordering;

use meshwork_ir::{Direction, Scalar};

/// By which order floats are compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CompareType {
    /// The natural order of the element type; for floats that of IEEE 754, where NaN is unordered.
    #[default]
    Natural,
    /// IEEE 754's total order: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
    TotalOrder,
}

/// A comparison of two elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Comparison {
    /// Which relation.
    pub direction: Direction,
    /// By which order.
    pub order: CompareType,
}

impl Comparison {
    /// Whether the relation holds between `a` and `b`, which are of one element type.
    pub fn holds(self, a: Scalar, b: Scalar) -> bool {
        let float = |x: f64, y: f64| match self.order {
            CompareType::Natural => x.partial_cmp(&y),
            CompareType::TotalOrder => Some(x.total_cmp(&y)),
        };
        let order = match (a, b) {
            (Scalar::Bool(x), Scalar::Bool(y)) => Some(x.cmp(&y)),
            (Scalar::Int(x), Scalar::Int(y)) => Some(x.cmp(&y)),
            (Scalar::UInt(x), Scalar::UInt(y)) => Some(x.cmp(&y)),
            (Scalar::Complex(..), _) | (_, Scalar::Complex(..)) => {
                let ((xr, xi), (yr, yi)) = (a.as_complex(), b.as_complex());
                // Lexicographic; a NaN in either part leaves the pair unordered.
                match (float(xr, yr), float(xi, yi)) {
                    (Some(Ordering::Equal), imag) => imag,
                    (Some(real), Some(_)) => Some(real),
                    _ => None,
                }
            }
            _ => float(a.as_f64(), b.as_f64()),
        };
        holds(self.direction, order)
    }
}

/// Whether `direction` holds between values so ordered; `None` is unordered (a NaN).
fn holds(direction: Direction, order: Option<Ordering>) -> bool {
    match direction {
        Direction::Eq => order == Some(Ordering::Equal),
        Direction::Ne => order != Some(Ordering::Equal),
        Direction::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        Direction::Gt => order == Some(Ordering::Greater),
        Direction::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Direction::Lt => order == Some(Ordering::Less),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(direction: Direction, order: CompareType, a: f64, b: f64) -> bool {
        Comparison { direction, order }.holds(Scalar::Float(a), Scalar::Float(b))
    }

    #[test]
    fn nan_is_unordered_but_has_a_total_order() {
        use CompareType::*;
        use Direction::*;
        for d in [Eq, Ge, Gt, Le, Lt] {
            assert!(!holds(d, Natural, f64::NAN, 1.0));
        }
        assert!(holds(Ne, Natural, f64::NAN, f64::NAN));
        assert!(holds(Gt, TotalOrder, f64::NAN, f64::INFINITY));
        assert!(holds(Lt, TotalOrder, -f64::NAN, f64::NEG_INFINITY));
        assert!(holds(Lt, TotalOrder, -0.0, 0.0));
        assert!(holds(Eq, Natural, -0.0, 0.0));
    }

    #[test]
    fn complex_is_lexicographic() {
        let less = Comparison { direction: Direction::Lt, order: CompareType::Natural };
        assert!(less.holds(Scalar::Complex(1.0, 5.0), Scalar::Complex(2.0, 0.0)));
        assert!(less.holds(Scalar::Complex(1.0, 5.0), Scalar::Complex(1.0, 6.0)));
        assert!(!less.holds(Scalar::Complex(1.0, f64::NAN), Scalar::Complex(2.0, 6.0)));
    }
}
