//! Operations on the bit pattern of a float: `stablehlo.reduce_precision` and `chlo.next_after`.

use meshwork_ir::{ElementType, float};

/// Explicit mantissa bits and exponent bits of the IEEE-like formats.
pub(super) fn widths(elem: ElementType) -> Option<(u32, u32)> {
    match elem {
        ElementType::F64 => Some((52, 11)),
        ElementType::F32 => Some((23, 8)),
        ElementType::TF32 => Some((10, 8)),
        ElementType::BF16 => Some((7, 8)),
        ElementType::F16 => Some((10, 5)),
        ElementType::F8E5M2 => Some((2, 5)),
        ElementType::F8E4M3 => Some((3, 4)),
        ElementType::F8E3M4 => Some((4, 3)),
        _ => None,
    }
}

/// The number of type `elem` that `x` becomes when its exponent and mantissa are cut to these widths and widened
/// back: rounded to nearest even, overflow to infinity, subnormal results to zero. Widths that are not narrower
/// than the type's change nothing. `NaN` stays `NaN`, or becomes infinity if no mantissa is left.
pub(super) fn reduce(elem: ElementType, x: f64, exponent_bits: u32, mantissa_bits: u32) -> f64 {
    let Some((mantissa, exponent)) = widths(elem) else { return x };
    if x.is_nan() {
        return if mantissa_bits == 0 { f64::INFINITY } else { x };
    }
    let code = float::encode(elem, x);
    let sign = code & 1 << (mantissa + exponent);
    let mut magnitude = code ^ sign;
    if mantissa_bits < mantissa {
        let drop = mantissa - mantissa_bits;
        let odd = magnitude >> drop & 1;
        magnitude = (magnitude + ((1 << (drop - 1)) - 1) + odd) >> drop << drop;
    }
    if exponent_bits < exponent {
        let bias = (1u64 << (exponent - 1)) - 1;
        let reach = (1u64 << exponent_bits.max(1) >> 1) - 1;
        let field = magnitude >> mantissa;
        if field > bias + reach {
            magnitude = ((1 << exponent) - 1) << mantissa;
        } else if field <= bias - reach {
            magnitude = 0;
        }
    }
    float::decode(elem, sign | magnitude)
}

/// The number of type `elem` next to `x` in the direction of `y`; `y` itself if they are equal.
pub(super) fn next_after(elem: ElementType, x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y {
        return y;
    }
    if x == 0.0 {
        return float::decode(elem, 1).copysign(y);
    }
    // Codes of one sign grow with the magnitude.
    let away_from_zero = (y > x) == (x > 0.0);
    let code = float::encode(elem, x.abs());
    let next = if away_from_zero { code + 1 } else { code - 1 };
    float::decode(elem, next).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    #[test]
    fn reduces_like_a_conversion_there_and_back() {
        for i in 0..20_000u32 {
            let x = f64::from(f32::from_bits(i.wrapping_mul(0x9E37_79B9)));
            let half = float::decode(F16, float::encode(F16, x));
            if x.is_nan() || (half.abs() < 6.103515625e-5 && half != 0.0) {
                continue;
            }
            // Cutting first the mantissa, then the exponent: what rounds up to the least normal number survives.
            if half != 0.0 {
                assert_eq!(reduce(F32, x, 5, 10), half, "{x:e}");
            }
            assert_eq!(reduce(F32, x, 8, 7), float::decode(BF16, float::encode(BF16, x)), "{x:e}");
            assert_eq!(reduce(F32, x, 8, 23), x);
        }
    }

    #[test]
    fn reduces_special_numbers() {
        assert_eq!(reduce(F32, f64::NEG_INFINITY, 5, 10), f64::NEG_INFINITY);
        assert!(reduce(F32, f64::NAN, 5, 10).is_nan());
        assert_eq!(reduce(F32, f64::NAN, 5, 0), f64::INFINITY);
        assert!(reduce(F32, -1e-30, 5, 10).is_sign_negative());
        assert_eq!(reduce(F32, 65520.0, 5, 10), f64::INFINITY);
        assert_eq!(reduce(F32, 65519.0, 5, 10), 65504.0);
    }

    #[test]
    fn next_of_every_kind() {
        assert_eq!(next_after(F64, 1.0, 2.0), 1.0 + f64::EPSILON);
        assert_eq!(next_after(F32, 1.0, 0.0), 1.0 - f64::from(f32::EPSILON) / 2.0);
        assert_eq!(next_after(F32, -1.0, -2.0), -1.0 - f64::from(f32::EPSILON));
        assert_eq!(next_after(F32, 0.0, -1.0), -f64::from(f32::from_bits(1)));
        assert_eq!(next_after(F32, f64::from(f32::MAX), f64::INFINITY), f64::INFINITY);
        assert_eq!(next_after(F32, f64::INFINITY, 0.0), f64::from(f32::MAX));
        assert!(next_after(F32, 0.0, -0.0).is_sign_negative());
        assert!(next_after(F32, f64::NAN, 1.0).is_nan());
        assert_eq!(next_after(BF16, 1.0, 2.0), 1.0078125);
    }
}
