//! Element types and their numbers in the C API.

use std::ffi::c_int;

use meshwork_ir::ElementType;

/// `PJRT_Buffer_Type`, from 1.
const NUMBERS: [Option<ElementType>; 33] = {
    use ElementType::*;
    [
        Some(I1),
        Some(I8),
        Some(I16),
        Some(I32),
        Some(I64),
        Some(UI8),
        Some(UI16),
        Some(UI32),
        Some(UI64),
        Some(F16),
        Some(F32),
        Some(F64),
        Some(BF16),
        Some(C64),
        Some(C128),
        Some(F8E5M2),
        Some(F8E4M3FN),
        Some(F8E4M3B11FNUZ),
        Some(F8E5M2FNUZ),
        Some(F8E4M3FNUZ),
        Some(I4),
        Some(UI4),
        None, // tokens
        Some(I2),
        Some(UI2),
        Some(F8E4M3),
        Some(F8E3M4),
        Some(F8E8M0FNU),
        Some(F4E2M1FN),
        None, // one-bit integers
        None,
        Some(F6E2M3FN),
        Some(F6E3M2FN),
    ]
};

/// The number of tokens.
pub const TOKEN: c_int = 23;

/// The type with this number, if Meshwork has it.
pub fn from_number(number: c_int) -> Option<ElementType> {
    usize::try_from(number).ok().and_then(|n| NUMBERS.get(n.wrapping_sub(1)).copied().flatten())
}

/// The number of a type, if the API has it.
pub fn to_number(elem: ElementType) -> Option<c_int> {
    NUMBERS.iter().position(|&e| e == Some(elem)).map(|i| i as c_int + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_are_inverse() {
        for number in 1..=33 {
            if let Some(elem) = from_number(number) {
                assert_eq!(to_number(elem), Some(number));
            }
        }
        assert!(from_number(0).is_none() && from_number(23).is_none() && from_number(99).is_none());
        assert_eq!(to_number(ElementType::F32), Some(11));
    }
}
