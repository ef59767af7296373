//! Floating-point numbers as MLIR prints them.
//!
//! A number is printed with six significant digits (`1.500000e+00`) if that text reads back as the same number in
//! its own type; otherwise with as many digits as the type needs (`0.699999988`), provided the text has a decimal
//! point; otherwise, as are infinities and NaNs, as its bit pattern (`0x7FC00000`).
//!
//! The digits are those of LLVM's `APFloat::toString`, which cuts the exact decimal expansion to a few more bits
//! than asked for and then rounds the last digit half up. Where the cut leaves no digit to round, the result is
//! truncated: `0.7 : f32` is just below seven tenths, comes out as 0.699999 and so is printed in the long form.

use super::write::{push_display, push_int};
use crate::{ElementType, float};

/// Significant digits of the short form.
const SHORT: u32 = 6;
/// Zeros the long form may put between the decimal point and the first digit, or after the last digit.
const MAX_PADDING: i32 = 3;

/// Appends the number with the bit pattern `bits` in `elem`; returns whether it is spelled in hexadecimal.
pub(super) fn push_float(out: &mut String, elem: ElementType, bits: u64) -> bool {
    let value = float::decode(elem, bits);
    if value.is_finite() {
        let start = out.len();
        if value.is_sign_negative() {
            out.push('-');
        }
        if value == 0.0 {
            out.push_str("0.000000e+00");
            return false;
        }
        let short = Decimal::of(value, SHORT);
        short.push_scientific(out);
        if short.exact || reads_back(&out[start..], elem, value) {
            return false;
        }
        out.truncate(start + usize::from(value.is_sign_negative()));
        // The short form of every other type reads back: only these have more than six digits.
        let precision = if elem == ElementType::F64 { 53 } else { 24 };
        let digits = 2 + precision * 59 / 196;
        Decimal::of(value, digits).push_plain(out, digits);
        if out[start..].contains('.') {
            return false;
        }
        out.truncate(start);
    }
    push_display(out, format_args!("0x{bits:X}"));
    true
}

fn reads_back(text: &str, elem: ElementType, value: f64) -> bool {
    match elem {
        ElementType::F64 => text.parse() == Ok(value),
        ElementType::F32 => text.parse() == Ok(value as f32),
        // Six digits are within half a unit in the last place of every type with at most eleven bits.
        _ => true,
    }
}

/// `digits` times ten to the `exponent`, without trailing zeros.
struct Decimal {
    digits: u64,
    count: u32,
    exponent: i32,
    /// Nothing was cut or rounded.
    exact: bool,
}

impl Decimal {
    /// The absolute value of `value`, finite and not zero, to `precision` digits.
    fn of(value: f64, precision: u32) -> Decimal {
        let bits = value.to_bits();
        let (fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52) & 0x7FF);
        let mantissa = if biased == 0 { fraction } else { fraction | 1 << 52 };
        let zeros = mantissa.trailing_zeros();
        let exponent = (biased.max(1) as i32) - 1075 + zeros as i32;
        let (mut digits, mut exponent, mut exact) = leading_digits(mantissa >> zeros, exponent, precision);
        let mut count = digits.ilog10() + 1;
        if count > precision {
            let drop = count - precision;
            let unit = 10u64.pow(drop);
            exact &= digits.is_multiple_of(unit);
            let next = digits / (unit / 10) % 10;
            digits = digits / unit + u64::from(next >= 5);
            exponent += drop as i32;
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        count = digits.ilog10() + 1;
        Decimal { digits, count, exponent, exact }
    }

    /// `1.500000e+00`: six digits after the point.
    fn push_scientific(&self, out: &mut String) {
        let unit = 10u64.pow(self.count - 1);
        push_int(out, self.digits / unit);
        out.push('.');
        push_padded(out, self.digits % unit, self.count - 1);
        (self.count - 1..SHORT).for_each(|_| out.push('0'));
        let exponent = self.exponent + self.count as i32 - 1;
        out.push_str(if exponent < 0 { "e-" } else { "e+" });
        if exponent.abs() < 10 {
            out.push('0');
        }
        push_int(out, i64::from(exponent.abs()));
    }

    /// `0.699999988`, `1.23456789E-5`, or an integer without a point.
    fn push_plain(&self, out: &mut String, precision: u32) {
        let leading = self.exponent + self.count as i32 - 1;
        let scientific = if self.exponent >= 0 {
            self.exponent > MAX_PADDING || self.count as i32 + self.exponent > precision as i32
        } else {
            leading < -MAX_PADDING
        };
        if scientific {
            let unit = 10u64.pow(self.count - 1);
            push_int(out, self.digits / unit);
            out.push('.');
            match self.count {
                1 => out.push('0'),
                n => push_padded(out, self.digits % unit, n - 1),
            }
            out.push_str(if leading < 0 { "E-" } else { "E+" });
            push_int(out, i64::from(leading.abs()));
        } else if self.exponent >= 0 {
            push_int(out, self.digits * 10u64.pow(self.exponent as u32));
        } else {
            let below = self.exponent.unsigned_abs();
            let unit = 10u64.checked_pow(below);
            push_int(out, unit.map_or(0, |u| self.digits / u));
            out.push('.');
            push_padded(out, unit.map_or(self.digits, |u| self.digits % u), below);
        }
    }
}

/// Appends `value` with zeros before it up to `width` digits; nothing if the width is zero.
fn push_padded(out: &mut String, value: u64, width: u32) {
    if width > 0 {
        push_display(out, format_args!("{value:0width$}", width = width as usize));
    }
}

/// The first digits of `mantissa * 2^exponent` as an integer, its power of ten, and whether nothing was cut.
/// At least `precision` digits are left, in no more than four bits over what these need.
fn leading_digits(mantissa: u64, exponent: i32, precision: u32) -> (u64, i32, bool) {
    // A negative power of two is a power of five over the same power of ten.
    let power_of_ten = exponent.min(0);
    let required = (precision * 196).div_ceil(59);
    let fives = power_of_ten.unsigned_abs();
    let small = match exponent {
        0.. if 64 - mantissa.leading_zeros() + exponent as u32 <= 128 => Some(u128::from(mantissa) << exponent),
        0.. => None,
        _ => 5u128.checked_pow(fives).and_then(|p| p.checked_mul(mantissa.into())),
    };
    let bits = |total: u32| total.saturating_sub(required) * 59 / 196;
    if let Some(number) = small {
        let tens = bits(128 - number.leading_zeros());
        let divisor = 10u128.pow(tens);
        let (cut, rest) = (number / divisor, number % divisor);
        return (cut as u64, power_of_ten + tens as i32, rest == 0);
    }
    let mut number = Wide(vec![mantissa as u32, (mantissa >> 32) as u32]);
    (0..exponent.max(0) / 31).for_each(|_| number.multiply(1 << 31));
    number.multiply(1 << (exponent.max(0) % 31));
    (0..fives / 13).for_each(|_| number.multiply(5u32.pow(13)));
    number.multiply(5u32.pow(fives % 13));
    let tens = bits(number.bits());
    let mut exact = true;
    for step in (0..tens / 9).map(|_| 9).chain([tens % 9]) {
        exact &= number.divide(10u32.pow(step)) == 0;
    }
    (number.low(), power_of_ten + tens as i32, exact)
}

/// A natural number of any size, least significant word first.
struct Wide(Vec<u32>);

impl Wide {
    fn multiply(&mut self, factor: u32) {
        let mut carry = 0u64;
        for word in &mut self.0 {
            carry += u64::from(*word) * u64::from(factor);
            *word = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides and returns the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0u64;
        for word in self.0.iter_mut().rev() {
            rest = rest << 32 | u64::from(*word);
            *word = (rest / u64::from(divisor)) as u32;
            rest %= u64::from(divisor);
        }
        rest as u32
    }

    fn bits(&self) -> u32 {
        let top = self.0.iter().rposition(|&w| w != 0);
        top.map_or(0, |i| 32 * i as u32 + 32 - self.0[i].leading_zeros())
    }

    fn low(&self) -> u64 {
        let word = |i: usize| u64::from(self.0.get(i).copied().unwrap_or(0));
        word(0) | word(1) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(elem: ElementType, value: f64) -> String {
        let mut out = String::new();
        push_float(&mut out, elem, float::encode(elem, value));
        out
    }

    #[test]
    fn short_form_where_six_digits_read_back() {
        assert_eq!(show(ElementType::F32, 1.0), "1.000000e+00");
        assert_eq!(show(ElementType::F32, -0.1), "-1.000000e-01");
        assert_eq!(show(ElementType::F64, 1e300), "1.000000e+300");
        assert_eq!(show(ElementType::F64, 123456.0), "1.234560e+05");
        assert_eq!(show(ElementType::BF16, 3.1), "3.093750e+00");
        assert_eq!(show(ElementType::F32, -0.0), "-0.000000e+00");
    }

    #[test]
    fn long_form_where_they_do_not() {
        assert_eq!(show(ElementType::F32, 0.7), "0.699999988");
        assert_eq!(show(ElementType::F32, 2.7182817459), "2.71828175");
        assert_eq!(show(ElementType::F64, 0.1 + 0.2), "0.30000000000000004");
        assert_eq!(show(ElementType::F32, 1.1754944e-38), "1.17549435E-38");
    }

    #[test]
    fn bit_pattern_where_no_point_is_printed_or_nothing_is_finite() {
        assert_eq!(show(ElementType::F32, 123456789.0), "0x4CEB79A3");
        assert_eq!(show(ElementType::F32, f64::INFINITY), "0x7F800000");
        assert_eq!(show(ElementType::F64, f64::NEG_INFINITY), "0xFFF0000000000000");
        assert_eq!(show(ElementType::F8E4M3FN, f64::NAN), "0x7F");
        assert_eq!(show(ElementType::F16, f64::INFINITY), "0x7C00");
    }
}
