//! Linear algebra and normalization: cholesky, triangular_solve, fft, batch_norm.

use smol_str::format_smolstr;

use super::check::{Elems, dims_agree, list, shapes_agree};
use super::{Inferred, OpTypes, Wrong};
use crate::{Attr, ElementType, TensorType};

/// `cholesky`: square matrices, possibly many.
pub(super) fn cholesky(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    square(t, 0, t.tensor_of(0, "a", Elems::FLOAT_COMPLEX)?)?;
    Ok(t.same(0).into())
}

fn square(t: &OpTypes, index: usize, a: &TensorType) -> Result<(), Wrong> {
    match a.dims[..] {
        [.., m, n] if dims_agree(m, n) => Ok(()),
        _ => Err(t.bad_operand(index, "a", "square in its two last dimensions")),
    }
}

/// `triangular_solve`.
pub(super) fn triangular_solve(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let a = t.tensor_of(0, "a", Elems::FLOAT_COMPLEX)?;
    let b = t.tensor_of(1, "b", Elems::FLOAT_COMPLEX)?;
    square(t, 0, a)?;
    let rank = a.rank();
    let left = match t.attrs.get("left_side").and_then(Attr::as_bool) {
        Some(left) => left,
        None => return Err(t.missing("left_side", "true or false")),
    };
    let fits = a.elem == b.elem
        && b.rank() == rank
        && dims_agree(a.dims[rank - 1], b.dims[rank - if left { 2 } else { 1 }])
        && shapes_agree(&a.dims[..rank - 2], &b.dims[..rank - 2]);
    if !fits {
        let side = if left { "left" } else { "right" };
        return Err(t.bad_operand(1, "b", format_smolstr!("a system that {a} solves from the {side}")));
    }
    match t.attrs.get("transpose_a").and_then(Attr::as_enum) {
        Some("NO_TRANSPOSE" | "TRANSPOSE" | "ADJOINT") => Ok(t.same(1).into()),
        _ => {
            let expected = "NO_TRANSPOSE, TRANSPOSE or ADJOINT";
            Err(t.missing("transpose_a", expected))
        }
    }
}

/// `fft`: real transforms halve or double the innermost dimension.
pub(super) fn fft(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor_of(0, "operand", Elems::FLOAT_COMPLEX)?;
    let lengths = t.ints("fft_length")?;
    let n = lengths.len();
    if !(1..=3).contains(&n) {
        return Err(t.bad_attr("fft_length", format!("has {n} entries, but must have 1 to 3")));
    }
    if x.rank() < n {
        return Err(t.bad_attr("fft_length", format!("has {n} entries, but the operand is {x}")));
    }
    let kind = t.attrs.get("fft_type").and_then(Attr::as_enum);
    let elem = match (kind, x.elem) {
        (Some("FFT" | "IFFT"), ElementType::C64 | ElementType::C128) => x.elem,
        (Some("RFFT"), ElementType::F32) => ElementType::C64,
        (Some("RFFT"), ElementType::F64) => ElementType::C128,
        (Some("IRFFT"), ElementType::C64 | ElementType::C128) => x.elem.real_part(),
        (Some("RFFT"), _) => return Err(t.bad_operand(0, "operand", "a tensor of f32 or f64 for fft_type RFFT")),
        (Some(kind @ ("FFT" | "IFFT" | "IRFFT")), _) => {
            return Err(t.bad_operand(0, "operand", format_smolstr!("a tensor of complex for fft_type {kind}")));
        }
        _ => {
            return Err(t.missing("fft_type", "FFT, IFFT, RFFT or IRFFT"));
        }
    };
    let last = x.rank() - 1;
    let half = if lengths[n - 1] == 0 { 0 } else { lengths[n - 1] / 2 + 1 };
    let mut dims = x.dims.clone();
    let mut needed = dims[x.rank() - n..].to_vec();
    match kind {
        Some("RFFT") => {
            needed.copy_from_slice(&lengths);
            dims[last] = half;
        }
        Some("IRFFT") => {
            needed.copy_from_slice(&lengths);
            needed[n - 1] = half;
            dims[last] = lengths[n - 1];
        }
        // Complex transforms keep the shape, whatever fft_length says.
        _ => {}
    }
    if !shapes_agree(&needed, &x.dims[x.rank() - n..]) {
        let detail = format!("{} needs innermost extents {}, but the operand is {x}", list(&lengths), list(&needed));
        return Err(t.bad_attr("fft_length", detail));
    }
    Ok(t.result(&dims, elem).into())
}

/// The batch_norm family: full operands at `wide`, per-feature operands elsewhere.
pub(super) fn batch_norm(t: &OpTypes, names: &[&'static str], wide: &[usize], results: usize) -> Inferred {
    t.operand_count(names.len())?;
    let x = t.tensor_of(0, names[0], Elems::FLOAT)?;
    let feature = t.dim_attr("feature_index", x.rank())?;
    let per_feature = TensorType::new([x.dims[feature]], x.elem);
    for (i, name) in names.iter().enumerate() {
        let y = t.tensor_of(i, name, Elems::FLOAT)?;
        let want = if wide.contains(&i) { x } else { &per_feature };
        if y.elem != want.elem || !shapes_agree(&y.dims, &want.dims) {
            return Err(t.bad_operand(i, name, format_smolstr!("{want}")));
        }
    }
    if !matches!(t.attrs.get("epsilon"), Some(Attr::Float(..))) {
        return Err(t.missing("epsilon", "a float"));
    }
    let rest = std::iter::repeat_n(t.result(&per_feature.dims, x.elem), results - 1);
    Ok([t.same(0)].into_iter().chain(rest).collect())
}
