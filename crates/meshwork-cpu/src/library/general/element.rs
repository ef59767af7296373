//! Elements of every type in memory as [`Scalar`]s.

use meshwork_ir::{ElementClass, ElementType, Scalar, float};

/// The element of type `elem` at `at`.
///
/// # Safety
/// There is one.
#[inline]
pub(crate) unsafe fn load(at: *const u8, elem: ElementType) -> Scalar {
    // SAFETY: in the whole function: the caller's.
    unsafe {
        match elem {
            ElementType::I1 => Scalar::Bool(at.read() != 0),
            ElementType::F32 => Scalar::Float(f64::from(at.cast::<f32>().read_unaligned())),
            ElementType::F64 => Scalar::Float(at.cast::<f64>().read_unaligned()),
            ElementType::I32 => Scalar::Int(i64::from(at.cast::<i32>().read_unaligned())),
            ElementType::I64 | ElementType::Index => Scalar::Int(at.cast::<i64>().read_unaligned()),
            ElementType::C64 => {
                let [re, im] = at.cast::<[f32; 2]>().read_unaligned();
                Scalar::Complex(re.into(), im.into())
            }
            ElementType::C128 => {
                let [re, im] = at.cast::<[f64; 2]>().read_unaligned();
                Scalar::Complex(re, im)
            }
            _ => of_bits(raw(at, elem.storage_bytes()), elem),
        }
    }
}

/// Writes `value`, which is one of type `elem`, to `at`.
///
/// # Safety
/// There is room for one.
#[inline]
pub(crate) unsafe fn store(at: *mut u8, elem: ElementType, value: Scalar) {
    // SAFETY: in the whole function: the caller's.
    unsafe {
        match (elem, value) {
            (_, Scalar::Bool(v)) => at.write(u8::from(v)),
            (ElementType::F32, Scalar::Float(v)) => at.cast::<f32>().write_unaligned(v as f32),
            (ElementType::C64, Scalar::Complex(re, im)) => {
                at.cast::<[f32; 2]>().write_unaligned([re as f32, im as f32]);
            }
            (_, Scalar::Complex(re, im)) => at.cast::<[f64; 2]>().write_unaligned([re, im]),
            (_, value) => {
                let bytes = to_bits(value, elem).to_le_bytes();
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, elem.storage_bytes());
            }
        }
    }
}

/// # Safety
/// There are `size` bytes, at most 8.
#[inline]
unsafe fn raw(at: *const u8, size: usize) -> u64 {
    // SAFETY: the caller's.
    unsafe {
        match size {
            1 => u64::from(at.read()),
            2 => u64::from(at.cast::<u16>().read_unaligned()),
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    }
}

/// The element that is stored as `bits`; not of a complex type.
pub(crate) fn of_bits(bits: u64, elem: ElementType) -> Scalar {
    match elem.class() {
        ElementClass::Bool => Scalar::Bool(bits & 1 != 0),
        ElementClass::Signed => Scalar::Int(meshwork_ir::scalar::wrap_signed(bits as i64, elem.bits())),
        ElementClass::Unsigned => Scalar::UInt(meshwork_ir::scalar::wrap_unsigned(bits, elem.bits())),
        ElementClass::Float | ElementClass::Complex => Scalar::Float(float::decode(elem, bits)),
    }
}

/// How `value`, an element of type `elem`, is stored; not of a complex type.
pub(crate) fn to_bits(value: Scalar, elem: ElementType) -> u64 {
    match value {
        Scalar::Bool(v) => u64::from(v),
        Scalar::Int(v) => v as u64,
        Scalar::UInt(v) => v,
        Scalar::Float(v) | Scalar::Complex(v, _) => float::encode(elem, v),
    }
}
