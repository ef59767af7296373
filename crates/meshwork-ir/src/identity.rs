//! The element that changes nothing under a reduction: what padding and absent parts are before they are mixed in.

use crate::{Combine, ElementClass, ElementType, float};

/// The identity of `combine` for `elem` in storage format; `None` where there is none (complex maximum).
pub fn identity(combine: Combine, elem: ElementType) -> Option<Vec<u8>> {
    let size = elem.storage_bytes();
    let int = |v: i64| v.to_le_bytes()[..size.min(8)].to_vec();
    Some(match (elem.class(), combine) {
        (ElementClass::Complex, Combine::Add) => vec![0; size],
        (ElementClass::Complex, Combine::Mul) => {
            let mut out = vec![];
            float::write(elem.real_part(), 1.0, &mut out);
            out.resize(size, 0);
            out
        }
        (ElementClass::Complex, _) => return None,
        (ElementClass::Float, _) => {
            let value = match combine {
                Combine::Add => 0.0,
                Combine::Mul => 1.0,
                Combine::Max => float::lowest(elem),
                Combine::Min => float::highest(elem),
                Combine::And | Combine::Or | Combine::Xor => return None,
            };
            let mut out = vec![];
            float::write(elem, value, &mut out);
            out
        }
        (ElementClass::Bool, Combine::Mul | Combine::And | Combine::Min) => vec![1],
        (ElementClass::Bool, _) => vec![0],
        (class, combine) => match combine {
            Combine::Add | Combine::Or | Combine::Xor => int(0),
            Combine::Mul => int(1),
            Combine::And => int(if class == ElementClass::Signed { -1 } else { max_unsigned(elem) }),
            Combine::Max if class == ElementClass::Signed => int(i64::MIN >> (64 - elem.bits())),
            Combine::Max => int(0),
            Combine::Min if class == ElementClass::Signed => int(i64::MAX >> (64 - elem.bits())),
            Combine::Min => int(max_unsigned(elem)),
        },
    })
}

/// What combined with any `x` gives `x`, to the bit where there is such an element; `None` where there is no identity.
pub fn neutral(combine: Combine, elem: ElementType) -> Option<Vec<u8>> {
    if combine == Combine::Add { Some(nothing(elem)) } else { identity(combine, elem) }
}

/// What added to any `x` gives `x` to the bit, in storage format: negative zero for floats.
pub fn nothing(elem: ElementType) -> Vec<u8> {
    let mut out = vec![];
    match elem.class() {
        ElementClass::Bool | ElementClass::Signed | ElementClass::Unsigned => out.resize(elem.storage_bytes(), 0),
        ElementClass::Float => float::write(elem, -0.0, &mut out),
        ElementClass::Complex => {
            float::write(elem.real_part(), -0.0, &mut out);
            float::write(elem.real_part(), -0.0, &mut out);
        }
    }
    out
}

fn max_unsigned(elem: ElementType) -> i64 {
    (u64::MAX >> (64 - elem.bits())) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_reach_their_ends() {
        assert_eq!(identity(Combine::Max, ElementType::I8), Some(vec![0x80]));
        assert_eq!(identity(Combine::Min, ElementType::UI16), Some(vec![0xff, 0xff]));
        assert_eq!(identity(Combine::Min, ElementType::I4), Some(vec![7]));
        assert_eq!(identity(Combine::And, ElementType::I1), Some(vec![1]));
        assert_eq!(identity(Combine::Max, ElementType::C64), None);
    }

    #[test]
    fn floats_reach_their_ends_without_nan() {
        use ElementType::*;
        for (elem, least, most) in [
            (F32, f64::NEG_INFINITY, f64::INFINITY),
            (F8E5M2, f64::NEG_INFINITY, f64::INFINITY),
            (F8E4M3FN, -448.0, 448.0),
            (F8E4M3FNUZ, -240.0, 240.0),
            (F8E5M2FNUZ, -57344.0, 57344.0),
            (F8E4M3B11FNUZ, -30.0, 30.0),
            (F8E8M0FNU, 2f64.powi(-127), 2f64.powi(127)),
            (F4E2M1FN, -6.0, 6.0),
        ] {
            let of = |combine| float::read(elem, &identity(combine, elem).expect("an order"));
            assert_eq!((of(Combine::Max), of(Combine::Min)), (least, most), "{elem}");
        }
    }
}
