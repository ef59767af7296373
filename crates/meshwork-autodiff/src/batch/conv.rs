//! Convolutions: the batch joins the images, the output features, or the groups.

use std::sync::Arc;

use meshwork_ir::op::ContractOp;
use meshwork_ir::{Attr, OpKind, OpSpec};

use super::BatchError;
use super::contract::{merged, split};
use super::state::{Batch, Site};

pub(super) fn rule(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let Some(Attr::Conv(dims)) = site.op.attr("dimension_numbers").cloned() else {
        return Err(BatchError::no_rule(b.module(), site.id, "it has no dimension numbers"));
    };
    if b.size() == 0 {
        let ty = b.ty(site.op.results()[0]).clone();
        let (dims, elem) = (b.wide(&ty).dims().to_vec(), ty.elem().unwrap_or(meshwork_ir::ElementType::F32));
        let empty = b.splat(dims, elem, 0.0)?;
        b.give(site, &[empty]);
        return Ok(());
    }
    let (mut lhs, mut rhs) = (site.xs[0], site.xs[1]);
    let features = site.op.int("feature_group_count").unwrap_or(1);
    let batches = site.op.int("batch_group_count").unwrap_or(1);
    let (input_batch, input_feature) = (dims.input_batch as usize, dims.input_feature as usize);
    let (output_batch, output_feature) = (dims.output_batch as usize, dims.output_feature as usize);
    let kernel_output = dims.kernel_output_feature as usize;
    let (on, mut groups) = ((b.is_on(lhs), b.is_on(rhs)), (features, batches));
    let at = match on {
        // One kernel for all: more images.
        (true, false) if batches == 1 => {
            lhs = merged(b, lhs, input_batch)?;
            output_batch
        }
        // One image for all kernels: more output features.
        (false, true) if batches == 1 && features == 1 => {
            rhs = merged(b, rhs, kernel_output)?;
            output_feature
        }
        // To each its own: the examples are groups.
        _ => {
            (lhs, rhs) = (b.lifted(lhs)?, b.lifted(rhs)?);
            lhs = merged(b, lhs, if batches == 1 { input_feature } else { input_batch })?;
            rhs = merged(b, rhs, kernel_output)?;
            groups = if batches == 1 { (features * b.size(), 1) } else { (1, batches * b.size()) };
            output_feature
        }
    };
    let mut spec = OpSpec::new(OpKind::Contract(ContractOp::Convolution)).operands([lhs, rhs]);
    if let Some(t) = b.ty(site.op.results()[0]).as_tensor().cloned() {
        let mut extents = t.dims.to_vec();
        extents[at] *= b.size();
        spec = spec.results([t.with_dims(extents).into()]);
    }
    spec.attrs = site.op.attrs.clone();
    spec.attrs.remove("sdy.sharding");
    spec = spec
        .attr("dimension_numbers", Attr::Conv(Arc::clone(&dims)))
        .attr("feature_group_count", Attr::i64(groups.0))
        .attr("batch_group_count", Attr::i64(groups.1));
    let out = b.value(spec)?;
    let out = split(b, out, at)?;
    b.give(site, &[out]);
    Ok(())
}
