//! The scaled modified Bessel function of order one, to a few units of last place.

use std::f64::consts::PI;

/// `e^(-|x|) I₁(x)`: the power series up to 30, the asymptotic one beyond.
pub fn bessel_i1e(x: f64) -> f64 {
    let a = x.abs();
    if a <= 30.0 {
        let square = a * a / 4.0;
        let (mut term, mut sum, mut k) = (a / 2.0, a / 2.0, 0.0);
        while term > sum * 1e-18 {
            k += 1.0;
            term *= square / (k * (k + 1.0));
            sum += term;
        }
        return ((-a).exp() * sum).copysign(x);
    }
    // 1 - (4-1)/(8x) + (4-1)(4-9)/(2! (8x)²) - ...
    let (mut term, mut sum, mut k) = (1.0f64, 1.0f64, 1.0);
    while k < 60.0 && term.abs() > sum.abs() * 1e-18 {
        let odd = 2.0 * k - 1.0;
        term *= -(4.0 - odd * odd) / (8.0 * k * a);
        sum += term;
        k += 1.0;
    }
    // Of the largest numbers, 2π a is infinite.
    (sum / ((2.0 * PI).sqrt() * a.sqrt())).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::assert_near;

    #[test]
    fn at_points() {
        for (x, want) in [
            (0.1, 0.045298446808809327277),
            (1.0, 0.20791041534970844887),
            (5.0, 0.16397226694454235693),
            (-7.5, -0.13804121154855420249),
            (20.0, 0.087506222183288665356),
            (29.5, 0.072507326157183724934),
            (35.0, 0.066704431729491439079),
            (100.0, 0.039744153025130252674),
            (1000.0, 0.01261093025692862947),
            (1e308, 3.9894228040143267794e-155),
        ] {
            assert_near(bessel_i1e(x), want, 3e-15);
        }
        assert_eq!((bessel_i1e(0.0), bessel_i1e(f64::INFINITY)), (0.0, 0.0));
        assert!(bessel_i1e(f64::NAN).is_nan());
    }
}
