//! Elements of `dense<...>`: one for a splat, nested lists, or hexadecimal for long constants.

use super::float::push_float;
use super::write::push_int;
use crate::{Dense, DenseData, ElementClass, ElementType};

/// Longer constants are printed in hexadecimal, as MLIR does by default.
const MAX_LISTED: usize = 100;

/// Appends `dense<...>` without the type.
pub(super) fn push_dense(out: &mut String, dense: &Dense) {
    let elem = dense.ty.elem;
    let size = elem.storage_bytes();
    let bytes = match &dense.data {
        DenseData::Resource(name) => {
            out.push_str("dense_resource<");
            super::write::push_name(out, name);
            out.push('>');
            return;
        }
        // Also where there is no element at all, as in `dense<0> : tensor<0xi32>`.
        DenseData::Splat(bytes) => &bytes[..size.min(bytes.len())],
        DenseData::Full(bytes) => match bytes.get(..size) {
            Some(first) if bytes.chunks_exact(size).all(|e| e == first) => first,
            _ => bytes,
        },
    };
    out.push_str("dense<");
    let count = bytes.len() / size;
    if count == 1 {
        push_element(out, elem, bytes);
    } else if count > MAX_LISTED {
        push_hex(out, elem, bytes);
    } else if count > 0 {
        push_nested(out, elem, &dense.ty.dims, bytes);
    }
    out.push('>');
}

fn push_nested(out: &mut String, elem: ElementType, dims: &[i64], bytes: &[u8]) {
    let Some((&outer, inner)) = dims.split_first() else { return push_element(out, elem, bytes) };
    out.push('[');
    let step = (bytes.len() / (outer.max(1) as usize)).max(1);
    for (i, part) in bytes.chunks(step).enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        push_nested(out, elem, inner, part);
    }
    out.push(']');
}

fn push_element(out: &mut String, elem: ElementType, bytes: &[u8]) {
    match elem.class() {
        ElementClass::Bool => out.push_str(if bytes[0] != 0 { "true" } else { "false" }),
        ElementClass::Signed => {
            let unused = 64 - 8 * bytes.len() as u32;
            push_int(out, ((word(bytes) << unused) as i64) >> unused);
        }
        ElementClass::Unsigned => push_int(out, word(bytes)),
        ElementClass::Float => drop(push_float(out, elem, word(bytes))),
        ElementClass::Complex => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            out.push('(');
            push_float(out, elem.real_part(), word(re));
            out.push(',');
            push_float(out, elem.real_part(), word(im));
            out.push(')');
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut wide = [0u8; 8];
    let n = bytes.len().min(8);
    wide[..n].copy_from_slice(&bytes[..n]);
    u64::from_le_bytes(wide)
}

/// Appends `"0x..."`. Integers narrower than a byte are stored sign-extended but printed without the extension.
fn push_hex(out: &mut String, elem: ElementType, bytes: &[u8]) {
    let mask = match elem.bits() {
        n @ 2..8 => (1u8 << n) - 1,
        _ => 0xFF,
    };
    out.reserve(2 * bytes.len() + 8);
    out.push_str("\"0x");
    let mut buffer = [0u8; 512];
    for chunk in bytes.chunks(buffer.len() / 2) {
        for (pair, &byte) in buffer.chunks_exact_mut(2).zip(chunk) {
            let byte = byte & mask;
            pair[0] = b"0123456789ABCDEF"[usize::from(byte >> 4)];
            pair[1] = b"0123456789ABCDEF"[usize::from(byte & 15)];
        }
        out.push_str(std::str::from_utf8(&buffer[..2 * chunk.len()]).unwrap_or_default());
    }
    out.push('"');
}
