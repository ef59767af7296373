//! Whole tensors through one function: elements are unpacked to carriers once, mapped, and packed once.
//!
//! This gives exactly what [`apply`](super::apply) gives element by element, a few times sooner.

use super::op::{Body, ScalarOp};
use meshwork_ir::scalar::{wrap_signed, wrap_unsigned};
use meshwork_ir::{ElementClass, ElementType, Literal, float};

/// The result of `op` on tensors of one shape; `None` if the operation has no such form.
pub(crate) fn map(op: &ScalarOp, args: &[&Literal]) -> Option<Literal> {
    if args.iter().any(|x| x.elem() != op.arg || x.dims() != args[0].dims()) {
        return None;
    }
    let bits = op.arg.bits();
    let bytes = match (op.body, args) {
        (Body::Real1(f), [x]) => pack_floats(op.result, floats(x).map(f)),
        (Body::Real2(f), [x, y]) => pack_floats(op.result, floats(x).zip(floats(y)).map(|(a, b)| f(a, b))),
        (Body::Int1(f), [x]) => pack_words(op.result, words(x).map(|a| f(a, bits))),
        (Body::Int2(f), [x, y]) => pack_words(op.result, words(x).zip(words(y)).map(|(a, b)| f(a, b, bits))),
        (Body::UInt1(f) | Body::Bits1(f), [x]) => {
            let part = |a: i64| wrap_unsigned(a as u64, bits);
            pack_words(op.result, words(x).map(|a| f(part(a), bits) as i64))
        }
        (Body::UInt2(f) | Body::Bits2(f), [x, y]) => {
            let part = |a: i64| wrap_unsigned(a as u64, bits);
            pack_words(op.result, words(x).zip(words(y)).map(|(a, b)| f(part(a), part(b), bits) as i64))
        }
        _ => return None,
    };
    Literal::from_bytes(args[0].dims().iter().copied(), op.result, bytes)
}

/// The bytes of one element as an array; the storage is a whole number of elements.
fn chunks<const N: usize>(x: &Literal) -> impl Iterator<Item = [u8; N]> {
    let (chunks, _) = x.bytes().as_chunks::<N>();
    chunks.iter().copied()
}

/// Elements of a floating-point literal.
pub(super) fn floats(x: &Literal) -> Box<dyn Iterator<Item = f64> + '_> {
    match x.elem() {
        ElementType::F32 => Box::new(chunks(x).map(|b| f64::from(f32::from_le_bytes(b)))),
        ElementType::F64 => Box::new(chunks(x).map(f64::from_le_bytes)),
        ElementType::BF16 => Box::new(chunks(x).map(|b| half::bf16::from_le_bytes(b).to_f64())),
        ElementType::F16 => Box::new(chunks(x).map(|b| half::f16::from_le_bytes(b).to_f64())),
        elem => Box::new((0..x.len()).map(move |i| float::read(elem, x.element(i)))),
    }
}

/// Elements of an integer literal, `ui64` by bit pattern.
fn words(x: &Literal) -> Box<dyn Iterator<Item = i64> + '_> {
    match x.elem() {
        ElementType::I32 => Box::new(chunks(x).map(|b| i64::from(i32::from_le_bytes(b)))),
        ElementType::UI32 => Box::new(chunks(x).map(|b| i64::from(u32::from_le_bytes(b)))),
        ElementType::I64 | ElementType::Index | ElementType::UI64 => Box::new(chunks(x).map(i64::from_le_bytes)),
        _ => Box::new((0..x.len()).map(|i| x.get_i64(i))),
    }
}

fn pack_floats(elem: ElementType, values: impl Iterator<Item = f64>) -> Vec<u8> {
    match elem {
        ElementType::F32 => values.flat_map(|v| (v as f32).to_le_bytes()).collect(),
        ElementType::F64 => values.flat_map(f64::to_le_bytes).collect(),
        _ => {
            let mut out = vec![];
            values.for_each(|v| float::write(elem, v, &mut out));
            out
        }
    }
}

fn pack_words(elem: ElementType, values: impl Iterator<Item = i64>) -> Vec<u8> {
    let wrap = |v: i64| match elem.class() {
        ElementClass::Signed => wrap_signed(v, elem.bits()),
        _ => wrap_unsigned(v as u64, elem.bits()) as i64,
    };
    let mut out = vec![];
    match elem.storage_bytes() {
        4 => values.for_each(|v| out.extend_from_slice(&(v as i32).to_le_bytes())),
        8 => values.for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        size => values.for_each(|v| out.extend_from_slice(&wrap(v).to_le_bytes()[..size])),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::apply;
    use super::*;
    use meshwork_ir::OpKind;

    #[test]
    fn gives_what_single_elements_give() {
        let numbers: Vec<f64> = (-20..20).map(|i| f64::from(i) * 1.37).chain([f64::NAN, f64::INFINITY, -0.0]).collect();
        let dims = [numbers.len() as i64];
        for &elem in ElementType::ALL {
            let x = Literal::from_f64s(dims, elem, &numbers).unwrap();
            let y = Literal::from_f64s(dims, elem, &numbers.iter().rev().copied().collect::<Vec<_>>()).unwrap();
            for &kind in OpKind::ALL {
                let Some(op) = ScalarOp::new(kind, elem, elem) else { continue };
                let args = if op.arity() == 1 { vec![&x] } else { vec![&x, &y] };
                let Some(all) = map(&op, &args) else { continue };
                let mut single = Literal::zeros(dims, elem);
                for i in 0..x.len() {
                    let args: Vec<_> = args.iter().map(|a| a.get(i)).collect();
                    single.set(i, apply(&op, &args));
                }
                assert_eq!(all, single, "{kind:?} {elem}");
            }
        }
    }
}
