//! Products: dot, dot_general, convolution.

use std::borrow::Cow;

use smallvec::smallvec;
use smol_str::format_smolstr;

use super::check::{Elems, dim, dims_agree, duplicate, list, set_of, shapes_agree};
use super::window::{Window, padding};
use super::{Inferred, OpTypes, Wrong};
use crate::attr::{ConvDims, DotDims};
use crate::{Attr, DYNAMIC, Dims, TensorType};

/// At most one known precision per operand.
pub(super) fn precision(t: &OpTypes) -> Result<(), Wrong> {
    let config = t.attrs.get("precision_config").and_then(Attr::as_array).unwrap_or(&[]);
    if config.len() > 2 {
        return Err(t.bad_attr("precision_config", format!("has {} entries, but there are two operands", config.len())));
    }
    match config.iter().find(|p| !matches!(p.as_enum(), Some("DEFAULT" | "HIGH" | "HIGHEST"))) {
        Some(p) => Err(t.bad_attr("precision_config", format!("must list DEFAULT, HIGH or HIGHEST, but lists {p}"))),
        None => Ok(()),
    }
}

/// The result of a product whose shape is known; its element type may be chosen freely.
fn product(t: &OpTypes, dims: Dims, lhs: &TensorType) -> Inferred {
    Ok(t.result(&dims, t.wanted_elem(0, lhs.elem)).into())
}

/// `dot`: vectors and matrices.
pub(super) fn dot(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let (lhs, rhs) = (t.tensor(0, "lhs")?, t.tensor(1, "rhs")?);
    precision(t)?;
    if !matches!((lhs.rank(), rhs.rank()), (1 | 2, 1 | 2)) {
        return Err(t.mismatch(format!("multiplies vectors and matrices, but has {lhs} and {rhs}")));
    }
    let (inner, outer) = (lhs.dims[lhs.rank() - 1], rhs.dims[0]);
    if !dims_agree(inner, outer) {
        let detail =
            format!("contracts lhs dimension {} of size {inner} with rhs dimension 0 of size {outer}", lhs.rank() - 1);
        return Err(t.mismatch(detail));
    }
    product(t, lhs.dims[..lhs.rank() - 1].iter().chain(&rhs.dims[1..]).copied().collect(), lhs)
}

/// `dot_general`: batch, then free dimensions of the left, then of the right operand.
pub(super) fn dot_general(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let (lhs, rhs) = (t.tensor(0, "lhs")?, t.tensor(1, "rhs")?);
    let Some(Attr::Dot(dims)) = t.attrs.get("dot_dimension_numbers") else {
        let expected = "#stablehlo.dot<...>";
        return Err(t.missing("dot_dimension_numbers", expected));
    };
    // Most products have no other attribute.
    let has_more = t.attrs.len() > 1;
    if has_more {
        precision(t)?;
    }
    let named = |batch, contract, rank| set_of(contract, rank, set_of(batch, rank, 0)?);
    let of_lhs = named(&dims.lhs_batch, &dims.lhs_contract, lhs.rank());
    let of_rhs = named(&dims.rhs_batch, &dims.rhs_contract, rhs.rank());
    if of_lhs.is_none() || of_rhs.is_none() {
        named_once(t, dims, lhs, rhs)?;
    }
    paired("batching", t, (lhs, &dims.lhs_batch), (rhs, &dims.rhs_batch))?;
    paired("contracting", t, (lhs, &dims.lhs_contract), (rhs, &dims.rhs_contract))?;
    if has_more {
        dot_algorithm(t)?;
    }
    let mut shape = Dims::new();
    for (&l, &r) in dims.lhs_batch.iter().zip(&dims.rhs_batch) {
        shape.push(if lhs.dims[l as usize] == DYNAMIC { rhs.dims[r as usize] } else { lhs.dims[l as usize] });
    }
    free_dims(&mut shape, lhs, of_lhs, [&dims.lhs_batch, &dims.lhs_contract]);
    free_dims(&mut shape, rhs, of_rhs, [&dims.rhs_batch, &dims.rhs_contract]);
    product(t, shape, lhs)
}

/// Appends the extents of `ty` that are neither batch nor contracted. Those that are, are the lists and, if it is there, the set.
fn free_dims(shape: &mut Dims, ty: &TensorType, set: Option<u64>, lists: [&[i64]; 2]) {
    for (d, &size) in ty.dims.iter().enumerate() {
        let is_named = match set {
            Some(set) => d < 64 && set >> d & 1 == 1,
            None => lists.iter().any(|list| list.contains(&(d as i64))),
        };
        if !is_named {
            shape.push(size);
        }
    }
}

/// An algorithm has positive counts and goes with default precision only.
fn dot_algorithm(t: &OpTypes) -> Result<(), Wrong> {
    let Some(algorithm) = t.attrs.get("algorithm") else { return Ok(()) };
    if let Attr::Opaque(text) = algorithm {
        for count in ["lhs_component_count", "rhs_component_count", "num_primitive_operations"] {
            let value = text.find(count).map_or("", |at| text[at + count.len()..].trim_start_matches([' ', '=']));
            let value = value.split([',', '>']).next().unwrap_or_default().trim();
            if !value.parse::<i64>().is_ok_and(|n| n > 0) {
                return Err(t.bad_attr("algorithm", format!("needs a positive {count}, but has {value}")));
            }
        }
    }
    let config = t.attrs.get("precision_config").and_then(Attr::as_array).unwrap_or(&[]);
    match config.iter().filter_map(Attr::as_enum).find(|&p| p != "DEFAULT") {
        Some(p) => {
            Err(t.bad_attr("precision_config", format!("is {p}, but must be DEFAULT where an algorithm is given")))
        }
        None => Ok(()),
    }
}

/// Checks that each dimension of a product is one of its operand and named once.
#[cold]
fn named_once(t: &OpTypes, dims: &DotDims, lhs: &TensorType, rhs: &TensorType) -> Result<(), Wrong> {
    t.disjoint("lhs_batching_dimensions", &dims.lhs_batch, "lhs_contracting_dimensions", &dims.lhs_contract)?;
    t.disjoint("rhs_batching_dimensions", &dims.rhs_batch, "rhs_contracting_dimensions", &dims.rhs_contract)?;
    t.dims_in_range("lhs_batching_dimensions", &dims.lhs_batch, lhs.rank())?;
    t.dims_in_range("lhs_contracting_dimensions", &dims.lhs_contract, lhs.rank())?;
    t.dims_in_range("rhs_batching_dimensions", &dims.rhs_batch, rhs.rank())?;
    t.dims_in_range("rhs_contracting_dimensions", &dims.rhs_contract, rhs.rank())
}

/// Checks that dimensions of both operands come in pairs of equal extents.
fn paired(
    what: &str,
    t: &OpTypes,
    (lhs, left): (&TensorType, &[i64]),
    (rhs, right): (&TensorType, &[i64]),
) -> Result<(), Wrong> {
    if left.len() != right.len() {
        let detail = format!("pairs {what} dimensions {} of lhs with {} of rhs", list(left), list(right));
        return Err(t.mismatch(detail));
    }
    for (&l, &r) in left.iter().zip(right) {
        let (a, b) = (lhs.dims[l as usize], rhs.dims[r as usize]);
        if !dims_agree(a, b) {
            let detail = format!(
                "pairs {what} dimensions of different sizes: lhs dimension {l} of {lhs} is {a}, rhs dimension {r} of {rhs} is {b}"
            );
            return Err(t.mismatch(detail));
        }
    }
    Ok(())
}

/// `einsum` and `unary_einsum`: the result type is given.
pub(super) fn einsum(t: &OpTypes, arity: usize) -> Inferred {
    t.operand_count(arity)?;
    for i in 0..arity {
        t.tensor(i, "operand")?;
    }
    match t.attrs.get("einsum_config").and_then(Attr::as_str) {
        Some(_) => Ok(t.declared(0)?.into()),
        None => Err(t.missing("einsum_config", "a string")),
    }
}

/// `convolution`.
pub(super) fn convolution(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let pads = padding(t)?;
    let spatial = conv_spatial(t, pads)?;
    conv_result(t, spatial)
}

/// `dynamic_conv`: the padding is an operand. While that is not a constant, the window is not looked at.
pub(super) fn dynamic_conv(t: &OpTypes) -> Inferred {
    t.operand_count(3)?;
    let lhs = t.tensor(0, "lhs")?;
    let pads = t.tensor_of(2, "padding", Elems::INT)?;
    let spatial = lhs.rank() as i64 - 2;
    if pads.rank() != 2 || pads.dims[0] != spatial || pads.dims[1] != 2 {
        let expected = format_smolstr!("an integer tensor of shape {spatial}x2, one pair per spatial dimension");
        return Err(t.bad_operand(2, "padding", expected));
    }
    let sizes = match t.constant(2) {
        Some(p) => conv_spatial(t, Some(p.chunks_exact(2).map(|p| (p[0], p[1])).collect()))?,
        None => smallvec![DYNAMIC; spatial.max(0) as usize],
    };
    conv_result(t, sizes)
}

fn conv_dims<'a>(t: &OpTypes<'a>) -> Result<&'a ConvDims, Wrong> {
    match t.attrs.get("dimension_numbers") {
        Some(Attr::Conv(c)) => Ok(c),
        _ => Err(t.missing("dimension_numbers", "#stablehlo.conv<...>")),
    }
}

/// Checks operands and dimension numbers.
fn conv_operands<'a>(t: &OpTypes<'a>) -> Result<(&'a TensorType, &'a TensorType, &'a ConvDims), Wrong> {
    let (lhs, rhs) = (t.tensor(0, "lhs")?, t.tensor(1, "rhs")?);
    if lhs.rank() < 2 || lhs.rank() != rhs.rank() || lhs.elem != rhs.elem {
        let detail = format!("needs operands of one element type and one rank of at least 2, but has {lhs} and {rhs}");
        return Err(t.mismatch(detail));
    }
    let conv = conv_dims(t)?;
    conv_numbers(t, conv, lhs.rank())?;
    Ok((lhs, rhs, conv))
}

/// Spatial extents of the result.
fn conv_spatial(t: &OpTypes, pads: Option<Vec<(i64, i64)>>) -> Result<Dims, Wrong> {
    let (lhs, rhs, conv) = conv_operands(t)?;
    if let Some(Attr::BoolArray(r)) = t.attrs.get("window_reversal")
        && !r.is_empty()
        && r.len() != conv.kernel_spatial.len()
    {
        let detail = format!("has {} entries, but there are {} spatial dimensions", r.len(), conv.kernel_spatial.len());
        return Err(t.bad_attr("window_reversal", detail));
    }
    let sizes: Vec<i64> = conv.kernel_spatial.iter().map(|&d| rhs.dims[d as usize]).collect();
    let window = Window::new(t, Cow::Owned(sizes), Some(("lhs_dilation", "rhs_dilation")), pads)?;
    let base: Dims = conv.input_spatial.iter().map(|&d| lhs.dims[d as usize]).collect();
    window.result_dims(t, &base)
}

/// The result type from its spatial extents.
fn conv_result(t: &OpTypes, spatial: Dims) -> Inferred {
    let (lhs, rhs, conv) = conv_operands(t)?;
    let (features, batches) = (t.int_or("feature_group_count", 1)?, t.int_or("batch_group_count", 1)?);
    conv_groups(t, conv, lhs, rhs, features, batches)?;
    precision(t)?;
    let mut dims: Dims = smallvec![DYNAMIC; lhs.rank()];
    for (&d, size) in conv.output_spatial.iter().zip(spatial) {
        dims[d as usize] = size;
    }
    let batch = lhs.dims[conv.input_batch as usize];
    dims[conv.output_batch as usize] = if batch == DYNAMIC { DYNAMIC } else { batch / batches };
    dims[conv.output_feature as usize] = rhs.dims[conv.kernel_output_feature as usize];
    product(t, dims, lhs)
}

fn conv_numbers(t: &OpTypes, conv: &ConvDims, rank: usize) -> Result<(), Wrong> {
    let (i, k, o) = (conv.input_spatial.len(), conv.kernel_spatial.len(), conv.output_spatial.len());
    if i != k || i != o || i + 2 != rank {
        let detail =
            format!("names {i} input, {k} kernel and {o} output spatial dimensions, but operands have rank {rank}");
        return Err(t.bad_attr("dimension_numbers", detail));
    }
    let sides = [
        ("input", conv.input_batch, conv.input_feature, &conv.input_spatial),
        ("kernel", conv.kernel_input_feature, conv.kernel_output_feature, &conv.kernel_spatial),
        ("output", conv.output_batch, conv.output_feature, &conv.output_spatial),
    ];
    for (side, a, b, spatial) in sides {
        let all: Vec<i64> = [a, b].into_iter().chain(spatial.iter().copied()).collect();
        if duplicate(all.iter().copied()).is_some() || all.iter().any(|&d| d < 0 || d as usize >= rank) {
            let detail = format!("must name each of the {rank} {side} dimensions once, but names {}", list(&all));
            return Err(t.bad_attr("dimension_numbers", detail));
        }
    }
    Ok(())
}

fn conv_groups(
    t: &OpTypes,
    conv: &ConvDims,
    lhs: &TensorType,
    rhs: &TensorType,
    features: i64,
    batches: i64,
) -> Result<(), Wrong> {
    for (attr, n) in [("feature_group_count", features), ("batch_group_count", batches)] {
        if n < 1 {
            return Err(t.bad_attr(attr, format!("must be positive, but is {n}")));
        }
    }
    if features > 1 && batches > 1 {
        let detail =
            format!("is {features} and batch_group_count is {batches}, but only one of them can be more than 1");
        return Err(t.bad_attr("feature_group_count", detail));
    }
    let input_features = lhs.dims[conv.input_feature as usize];
    let batch = lhs.dims[conv.input_batch as usize];
    let kernel_in = rhs.dims[conv.kernel_input_feature as usize];
    let kernel_out = rhs.dims[conv.kernel_output_feature as usize];
    let divides = |n: i64, size: i64| size == DYNAMIC || size % n == 0;
    if !divides(batches, batch) || !divides(batches, kernel_out) {
        let detail = format!(
            "is {batches}, which must divide the input batch {} and the output features {}",
            dim(batch),
            dim(kernel_out)
        );
        return Err(t.bad_attr("batch_group_count", detail));
    }
    if !divides(features, input_features) || !divides(features, kernel_out) {
        let detail = format!(
            "is {features}, which must divide the input features {} and the output features {}",
            dim(input_features),
            dim(kernel_out)
        );
        return Err(t.bad_attr("feature_group_count", detail));
    }
    if input_features != DYNAMIC && !shapes_agree(&[input_features / features], &[kernel_in]) {
        let detail = format!(
            "has {input_features} input features in {features} group(s), so the kernel needs {} input features, but {rhs} has {kernel_in}",
            input_features / features
        );
        return Err(t.mismatch(detail));
    }
    Ok(())
}
