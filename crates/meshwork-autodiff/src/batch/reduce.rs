//! Reductions, windows and sorts: the batch is one dimension more that they leave alone.

use meshwork_ir::{Attr, AttrDict, Dense, DenseData, ElementType, TensorType, ValueId};

use super::rules::{front, shift};
use super::state::{Batch, Site};
use super::{BatchError, one_by_one};

/// Inputs with the batch, and then initial values without.
fn operands(b: &mut Batch<'_>, site: &Site) -> Result<Option<Vec<ValueId>>, BatchError> {
    let count = site.op.results().len();
    let (inputs, inits) = site.xs.split_at(count);
    if inits.iter().any(|&v| b.is_on(v)) {
        return Ok(None);
    }
    let mut all = b.all_lifted(inputs)?;
    all.extend(inits);
    Ok(Some(all))
}

pub(super) fn reduce(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let Some(operands) = operands(b, site)? else { return one_by_one::rule(b, site) };
    let results = b.same(site, &operands, |a| shift(a, "dimensions"));
    b.give(site, &results);
    Ok(())
}

pub(super) fn reduce_window(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let Some(operands) = operands(b, site)? else { return one_by_one::rule(b, site) };
    let results = b.same(site, &operands, window);
    b.give(site, &results);
    Ok(())
}

pub(super) fn select_and_scatter(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    if b.is_on(site.xs[2]) {
        return one_by_one::rule(b, site);
    }
    let (x, source) = (b.lifted(site.xs[0])?, b.lifted(site.xs[1])?);
    let results = b.same(site, &[x, source, site.xs[2]], window);
    b.give(site, &results);
    Ok(())
}

pub(super) fn sort(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let operands = b.all_lifted(&site.xs)?;
    let rank = b.dims(site.op.operands()[0]).len() as i64;
    let dim = site.op.int("dimension").unwrap_or(-1);
    let dim = if dim < 0 { dim + rank } else { dim };
    let results = b.same(site, &operands, |a| drop(a.set("dimension", Attr::i64(dim + 1))));
    b.give(site, &results);
    Ok(())
}

/// A window of one example.
fn window(attrs: &mut AttrDict) {
    for name in ["window_dimensions", "window_strides", "base_dilations", "window_dilations"] {
        front(attrs, name, 1, 0);
    }
    if let Some(flat) = attrs.get("padding").and_then(Attr::as_i64s) {
        let all: Vec<i64> = [0, 0].into_iter().chain(flat).collect();
        let ty = TensorType::new([all.len() as i64 / 2, 2], ElementType::I64).into();
        let bytes: Vec<u8> = all.iter().flat_map(|v| v.to_le_bytes()).collect();
        attrs.set("padding", Attr::Dense(Dense { ty, data: DenseData::Full(bytes.into()) }.into()));
    }
}
