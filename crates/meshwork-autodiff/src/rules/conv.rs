//! Convolutions: the cotangent of each operand is again a convolution, of the result's cotangent with the other.
//!
//! Strides and dilation of the operand change places, as do feature and batch groups; paddings follow from the
//! extents.

use meshwork_ir::attr::ConvDims;
use meshwork_ir::build::Convolution;
use meshwork_ir::{Attr, ValueId};

use super::window::dilated;
use crate::GradError;
use crate::reverse::{Reverse, Site};

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (lhs, rhs, ct) = (site.x(0), site.x(1), site.ct);
    let Some(Attr::Conv(dims)) = site.op.attr("dimension_numbers") else {
        return Err(GradError::no_rule(r.module(), site.id, "it has no dimension numbers"));
    };
    if r.is_empty(lhs) || r.is_empty(rhs) || r.is_empty(ct) {
        return Ok(());
    }
    let spatial = dims.input_spatial.len();
    let Some(reversal) = site.op.bools("window_reversal", spatial) else {
        return Err(GradError::no_rule(r.module(), site.id, "its window_reversal is no list of booleans"));
    };
    let reversed: Vec<i64> = (0..spatial).filter(|&i| reversal[i]).map(|i| dims.kernel_spatial[i]).collect();
    let conv = Convolution {
        dims: (**dims).clone(),
        strides: site.i64s_or("window_strides", spatial, 1),
        padding: site.pairs_or_zero("padding", spatial),
        lhs_dilation: site.i64s_or("lhs_dilation", spatial, 1),
        rhs_dilation: site.i64s_or("rhs_dilation", spatial, 1),
        reversal: vec![],
        feature_groups: site.op.int("feature_group_count").unwrap_or(1),
        batch_groups: site.op.int("batch_group_count").unwrap_or(1),
    };
    let at = |r: &Reverse<'_>, v: ValueId, list: &[i64]| -> Vec<i64> {
        list.iter().map(|&d| r.dims(v)[d as usize]).collect()
    };
    let extents = Extents {
        input: at(r, lhs, &dims.input_spatial),
        kernel: at(r, rhs, &dims.kernel_spatial),
        output: at(r, ct, &dims.output_spatial),
    };
    // A product wider than its operands is computed in the wide type both ways.
    let wide = r.elem(ct);
    if r.wants(lhs) {
        let kernel = r.cast(rhs, wide)?;
        let kernel = if reversed.is_empty() { kernel } else { r.reverse(kernel, &reversed)? };
        let given = input_part(r, kernel, ct, &conv, &extents)?;
        let elem = r.elem(lhs);
        let given = r.cast(given, elem)?;
        r.give(lhs, given)?;
    }
    if r.wants(rhs) {
        let input = r.cast(lhs, wide)?;
        let given = kernel_part(r, input, ct, &conv, &extents)?;
        let given = if reversed.is_empty() { given } else { r.reverse(given, &reversed)? };
        let elem = r.elem(rhs);
        let given = r.cast(given, elem)?;
        r.give(rhs, given)?;
    }
    Ok(())
}

/// Spatial extents of operands and result.
struct Extents {
    input: Vec<i64>,
    kernel: Vec<i64>,
    output: Vec<i64>,
}

impl Extents {
    /// Extents with their holes, per spatial dimension: input, kernel, output.
    fn dilated(&self, conv: &Convolution) -> Vec<(i64, i64, i64)> {
        let one = |i: usize| {
            (
                dilated(self.input[i], conv.lhs_dilation[i]),
                dilated(self.kernel[i], conv.rhs_dilation[i]),
                dilated(self.output[i], conv.strides[i]),
            )
        };
        (0..self.input.len()).map(one).collect()
    }
}

/// The cotangent, set apart by the strides, convolved with the kernel backwards.
fn input_part(
    r: &mut Reverse<'_>,
    kernel: ValueId,
    ct: ValueId,
    conv: &Convolution,
    extents: &Extents,
) -> Result<ValueId, GradError> {
    let d = &conv.dims;
    let groups = conv.feature_groups.max(conv.batch_groups);
    let mut kernel = r.reverse(kernel, &d.kernel_spatial)?;
    if groups > 1 {
        // The groups of output features become groups of the features that the kernel now gives.
        kernel = move_groups(r, kernel, d.kernel_output_feature, d.kernel_input_feature, groups)?;
    }
    let pad = |(&(low, _), (line, size, out)): (&(i64, i64), (i64, i64, i64))| {
        let before = size - 1 - low;
        (before, line + size - 1 - out - before)
    };
    let back = Convolution {
        dims: ConvDims {
            input_batch: d.output_batch,
            input_feature: d.output_feature,
            input_spatial: d.output_spatial.clone(),
            kernel_input_feature: d.kernel_output_feature,
            kernel_output_feature: d.kernel_input_feature,
            kernel_spatial: d.kernel_spatial.clone(),
            output_batch: d.input_batch,
            output_feature: d.input_feature,
            output_spatial: d.input_spatial.clone(),
        },
        strides: conv.lhs_dilation.clone(),
        padding: conv.padding.iter().zip(extents.dilated(conv)).map(pad).collect(),
        lhs_dilation: conv.strides.clone(),
        rhs_dilation: conv.rhs_dilation.clone(),
        reversal: vec![],
        feature_groups: groups,
        batch_groups: 1,
    };
    let given = r.convolution(ct, kernel, back)?;
    if conv.batch_groups > 1 {
        return move_groups(r, given, d.input_feature, d.input_batch, conv.batch_groups);
    }
    Ok(given)
}

/// The input convolved with the cotangent: batch and feature change places in both.
fn kernel_part(
    r: &mut Reverse<'_>,
    input: ValueId,
    ct: ValueId,
    conv: &Convolution,
    extents: &Extents,
) -> Result<ValueId, GradError> {
    let d = &conv.dims;
    let pad = |(&(low, _), (line, size, out)): (&(i64, i64), (i64, i64, i64))| (low, out - line + size - low - 1);
    let back = Convolution {
        dims: ConvDims {
            input_batch: d.input_feature,
            input_feature: d.input_batch,
            input_spatial: d.input_spatial.clone(),
            kernel_input_feature: d.output_batch,
            kernel_output_feature: d.output_feature,
            kernel_spatial: d.output_spatial.clone(),
            output_batch: d.kernel_input_feature,
            output_feature: d.kernel_output_feature,
            output_spatial: d.kernel_spatial.clone(),
        },
        strides: conv.rhs_dilation.clone(),
        padding: conv.padding.iter().zip(extents.dilated(conv)).map(pad).collect(),
        lhs_dilation: conv.lhs_dilation.clone(),
        rhs_dilation: conv.strides.clone(),
        reversal: vec![],
        feature_groups: conv.batch_groups,
        batch_groups: conv.feature_groups,
    };
    Ok(r.convolution(input, ct, back)?)
}

/// Moves `groups` from dimension `from` to dimension `to`; they are outermost in both.
fn move_groups(r: &mut Reverse<'_>, x: ValueId, from: i64, to: i64, groups: i64) -> Result<ValueId, GradError> {
    let (from, to) = (from as usize, to as usize);
    let mut shape = r.dims(x);
    let mut split = shape.clone();
    split[from] /= groups;
    split.insert(from, groups);
    let open = r.reshape(x, split)?;
    // Dimension `d` of `x` is `d` of the split shape before the groups, and `d + 1` from there on.
    let place = |d: usize| (d + usize::from(d >= from)) as i64;
    let mut order: Vec<i64> = vec![];
    for d in 0..shape.len() {
        if d == to {
            order.push(from as i64);
        }
        order.push(place(d));
    }
    let moved = r.transpose(open, &order)?;
    shape[from] /= groups;
    shape[to] *= groups;
    Ok(r.reshape(moved, shape)?)
}
