//! Products of narrow elements: words of four bytes, two short integers or two `bf16` of neighboring depth, which one
//! instruction multiplies and sums.
//!
//! | elements | word | instruction |
//! |---|---|---|
//! | bytes | four of them | `vpdpbusd` |
//! | integers of 16 bits, or bytes without that instruction | two of 16 bits | `vpdpwssd`, or `vpmaddwd` and `vpaddd` |
//! | `bf16`, and floats of at most 8 bits | two `bf16` | `vdpbf16ps` |
//!
//! `vpdpbusd` takes unsigned bytes on one side and signed ones on the other. Where both operands have the same sign, the
//! bytes of `A` are packed 128 off, which changes their sign, and the kernel subtracts 128 times the sum of each column
//! of `B`. Integer sums wrap around, so all of this is exact. `vdpbf16ps` takes subnormal numbers as zero
//! whatever the control register says, as all products of floats do here.

use std::arch::is_x86_feature_detected;
use std::marker::PhantomData;
use std::sync::Arc;

use meshwork_ir::ElementType;

use super::factor::Factor;
use super::group::{Flipped, Grouped, Part};
use super::micro::{Micro, Packed, Shape};
use super::pack::Packer;
use super::{Call, emit_packed, int, product_of, single, wordwise};
use crate::compile::lower::Lower;
use crate::library::num::{Bf16, Cast, Narrow, Rounded};

/// Four bytes. `SIGNED`: those of `B` are, and those of `A` are not; else the other way round. `OFFSET`: those of `A`
/// are 128 more than the elements, or 128 less where they are the signed ones.
#[derive(Clone, Copy, Default, Debug)]
#[repr(transparent)]
pub(super) struct Bytes<const SIGNED: bool, const OFFSET: bool>(pub u32);

/// Two integers of 16 bits.
#[derive(Clone, Copy, Default, Debug)]
#[repr(transparent)]
pub(super) struct Shorts(pub u32);

/// Two `bf16`.
#[derive(Clone, Copy, Default, Debug)]
#[repr(transparent)]
pub(super) struct Halves(pub u32);

/// Whether they may be used at all.
fn has_words() -> bool {
    #[cfg(test)]
    if super::WITHOUT.get() >= super::Without::Words {
        return false;
    }
    true
}

/// Whether the processor multiplies bytes and short integers by AVX-512 VNNI.
fn has_vnni() -> bool {
    has_words() && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni")
}

/// Whether it multiplies `bf16`.
fn has_bf16() -> bool {
    has_words() && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16")
}

/// The tile of the kernels for AVX-512.
fn wide(columns: usize) -> Shape {
    Shape { rows: 12, columns: if columns > 16 { 32 } else { 16 } }
}

impl<const SIGNED: bool, const OFFSET: bool> Packed for Bytes<SIGNED, OFFSET> {
    type Sum = i32;
    const TERMS: usize = 4;
    const FAST: bool = true;

    fn shape(_: usize, columns: usize) -> Shape {
        wide(columns)
    }

    unsafe fn micro(call: &Micro<Self>) {
        // SAFETY: such words are packed only where the processor has AVX-512 VNNI; the rest is the caller's.
        unsafe { wordwise::tile_bytes::<SIGNED>(&call.cast(), if OFFSET { -128 } else { 0 }) }
    }
}

impl Packed for Shorts {
    type Sum = i32;
    const TERMS: usize = 2;
    const FAST: bool = true;

    fn shape(_: usize, columns: usize) -> Shape {
        if has_vnni() { wide(columns) } else { Shape { rows: 6, columns: 16 } }
    }

    unsafe fn micro(call: &Micro<Self>) {
        // SAFETY: such words are packed only where the processor has AVX2, or better; the rest is the caller's.
        unsafe { if has_vnni() { wordwise::tile_shorts(call) } else { wordwise::narrow_shorts(call) } }
    }
}

impl Packed for Halves {
    type Sum = f32;
    const TERMS: usize = 2;
    const FAST: bool = true;

    fn shape(_: usize, columns: usize) -> Shape {
        wide(columns)
    }

    unsafe fn micro(call: &Micro<Self>) {
        // SAFETY: such words are packed only where the processor has AVX-512 BF16; the rest is the caller's.
        unsafe { wordwise::tile_halves(call) }
    }
}

/// Whether elements of a type are bytes in memory that hold their value; and whether as signed ones.
pub(super) fn byte(elem: ElementType) -> Option<bool> {
    use ElementType as E;
    match elem {
        E::I2 | E::I4 | E::I8 => Some(true),
        E::UI2 | E::UI4 | E::UI8 => Some(false),
        _ => None,
    }
}

/// Elements of a type as halves of words.
fn short(elem: ElementType, depth: usize) -> Option<Arc<dyn Packer<Shorts>>> {
    fn packer(part: impl Part<u16>, depth: usize) -> Option<Arc<dyn Packer<Shorts>>> {
        Some(Arc::new(Grouped::<_, 2> { part, depth }))
    }
    match (elem, byte(elem)) {
        (ElementType::I16, _) => packer(Cast::<i16>(PhantomData), depth),
        (_, Some(true)) => packer(Cast::<i8>(PhantomData), depth),
        (_, Some(false)) => packer(Cast::<u8>(PhantomData), depth),
        _ => None,
    }
}

/// The elements of a factor as `bf16`, which holds them exactly.
fn half(x: &Factor, depth: usize) -> Option<Arc<dyn Packer<Halves>>> {
    match (x.view.elem, x.elem) {
        (ElementType::BF16, _) => Some(Arc::new(Grouped::<_, 2> { part: Bf16, depth })),
        (ElementType::F32, ElementType::BF16) => Some(Arc::new(Grouped::<_, 2> { part: Rounded, depth })),
        // The least of them is subnormal.
        (ElementType::F8E8M0FNU, _) => None,
        (elem, _) if elem.is_float() && elem.bits() <= 8 => {
            Some(Arc::new(Grouped::<_, 2> { part: Narrow::new(elem), depth }))
        }
        _ => None,
    }
}

/// Adds the steps of a product of words; false if it is none on this processor.
pub(super) fn lower(cx: &mut Lower<'_>, call: &Call<'_>) -> bool {
    let depth = call.dims.lhs_contract.iter().map(|&d| call.lhs.view.dims[d as usize] as usize).product();
    let [a, b] = [call.lhs.view.elem, call.rhs.view.elem];
    if let (Some(a), Some(b), Some(out)) = (half(&call.lhs, depth), half(&call.rhs, depth), single(call.elem)) {
        return has_bf16() && put(cx, call, product_of(call, a, b, out));
    }
    let Some(out) = int(call.elem) else { return false };
    if let (Some(a), Some(b)) = (byte(a), byte(b))
        && has_vnni()
    {
        return match (a, b) {
            (true, true) => put(cx, call, product_of(call, bytes::<true, true>(0x80, depth), bytes(0, depth), out)),
            (false, true) => put(cx, call, product_of(call, bytes::<true, false>(0, depth), bytes(0, depth), out)),
            (true, false) => put(cx, call, product_of(call, bytes::<false, false>(0, depth), bytes(0, depth), out)),
            (false, false) => put(cx, call, product_of(call, bytes::<false, true>(0x80, depth), bytes(0, depth), out)),
        };
    }
    match (short(a, depth), short(b, depth)) {
        (Some(a), Some(b)) if is_x86_feature_detected!("avx2") => put(cx, call, product_of(call, a, b, out)),
        _ => false,
    }
}

/// The packer of bytes whose bits `flip` are turned.
fn bytes<const SIGNED: bool, const OFFSET: bool>(flip: u8, depth: usize) -> Arc<dyn Packer<Bytes<SIGNED, OFFSET>>> {
    Arc::new(Grouped::<_, 4> { part: Flipped(flip), depth })
}

fn put<T: Packed>(cx: &mut Lower<'_>, call: &Call<'_>, product: super::Product<T>) -> bool {
    let c = cx.result(cx.module.op(call.op).results()[0]);
    emit_packed(cx, call.op, product, c, call.elem);
    true
}
