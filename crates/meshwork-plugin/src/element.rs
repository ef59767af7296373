//! Element types and their numbers in the C API.

use std::ffi::c_int;

use meshwork_ir::ElementType;

use crate::failure::{Failure, Outcome};

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
const TOKEN: c_int = 23;

pub(crate) fn from_number(number: c_int) -> Outcome<ElementType> {
    let found = usize::try_from(number).ok().and_then(|n| NUMBERS.get(n.wrapping_sub(1)).copied().flatten());
    found.ok_or_else(|| Failure::unimplemented(format!("buffers of PJRT_Buffer_Type {number}")))
}

/// The number of an element type, or of tokens.
pub(crate) fn to_number(elem: Option<ElementType>) -> Outcome<c_int> {
    let Some(elem) = elem else { return Ok(TOKEN) };
    let found = NUMBERS.iter().position(|&e| e == Some(elem)).map(|i| i as c_int + 1);
    found.ok_or_else(|| Failure::unimplemented(format!("buffers of {elem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_are_inverse() {
        for number in 1..=33 {
            if let Ok(elem) = from_number(number) {
                assert_eq!(to_number(Some(elem)), Ok(number));
            }
        }
        assert!(from_number(0).is_err() && from_number(23).is_err() && from_number(99).is_err());
        assert_eq!(to_number(Some(ElementType::F32)), Ok(11));
        assert_eq!(to_number(None), Ok(23));
    }
}
