//! Operations whose derivative is that of a longer form of them: written out, and walked back over.

use meshwork_ir::attr::GatherDims;
use meshwork_ir::build::Window;
use meshwork_ir::op::ContractOp;
use meshwork_ir::{Attr, BlockId, OpKind, OpSpec, Type, ValueId};

use super::loops::counted;
use super::patches::positions;
use crate::GradError;
use crate::batch::widen_block;
use crate::reverse::{Reverse, Site};

/// Writes the results of `site` once more by `build`, and walks back over that.
pub(super) fn through(
    r: &mut Reverse<'_>,
    site: &Site,
    build: impl FnOnce(&mut Reverse<'_>) -> Result<Vec<ValueId>, GradError>,
) -> Result<(), GradError> {
    let block = r.block;
    let last = r.module().block(block).last();
    let results = build(r)?;
    let first = last.map_or(r.module().block(block).first(), |op| r.module().next_op(op));
    let mut ops = vec![];
    let mut at = first;
    while let Some(op) = at {
        ops.push(op);
        at = r.module().next_op(op);
    }
    r.spread(&ops);
    for (value, ct) in results.into_iter().zip(&site.cts) {
        if let Some(ct) = *ct {
            r.give(value, ct)?;
        }
    }
    r.walk(&ops)
}

/// `map`: its body on all elements at once.
pub(super) fn map(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let Some(body) = r.module().body_of(site.id, 0) else { return Ok(()) };
    through(r, site, |r| {
        let dims = r.dims(site.y());
        let count: i64 = dims.iter().product();
        let mut lines = vec![];
        for &x in site.op.operands() {
            lines.push(r.reshape(x, [count])?);
        }
        let mut out = vec![];
        for y in on_all(r, site, body, &lines, count)? {
            out.push(r.reshape(y, dims.iter().copied())?);
        }
        Ok(out)
    })
}

/// The results of a body of scalars for `count` sets of arguments.
fn on_all(
    r: &mut Reverse<'_>,
    site: &Site,
    body: BlockId,
    args: &[ValueId],
    count: i64,
) -> Result<Vec<ValueId>, GradError> {
    let block = r.block;
    widen_block(r.module_mut(), body, block, args, count)
        .map_err(|e| GradError::no_rule(r.module(), site.id, e.to_string()))
}

/// A reduction by any body: a loop over the elements, all results at once.
pub(super) fn reduce(r: &mut Reverse<'_>, site: &Site, dims: &[i64]) -> Result<(), GradError> {
    let Some(body) = r.module().body_of(site.id, 0) else { return Ok(()) };
    let count = site.op.results().len();
    through(r, site, |r| {
        let kept: Vec<i64> = (0..r.rank(site.x(0)) as i64).filter(|d| !dims.contains(d)).collect();
        let order: Vec<i64> = dims.iter().chain(&kept).copied().collect();
        let out = r.dims(site.y());
        let (width, steps) =
            (out.iter().product::<i64>(), dims.iter().map(|&d| r.dims(site.x(0))[d as usize]).product());
        let mut lines = vec![];
        for i in 0..count {
            let turned = r.transpose(site.x(i), &order)?;
            lines.push(r.reshape(turned, [steps, width])?);
        }
        let inits: Vec<ValueId> = (count..2 * count).map(|i| site.x(i)).collect();
        let results = fold(r, site, body, &lines, &inits, steps, width)?;
        let mut shaped = vec![];
        for y in results {
            shaped.push(r.reshape(y, out.iter().copied())?);
        }
        Ok(shaped)
    })
}

/// A reduction over windows by any body: the windows are laid out side by side and then reduced.
pub(super) fn reduce_window(r: &mut Reverse<'_>, site: &Site, window: &Window) -> Result<(), GradError> {
    let Some(body) = r.module().body_of(site.id, 0) else { return Ok(()) };
    let count = site.op.results().len();
    through(r, site, |r| {
        let (rank, out) = (r.rank(site.x(0)), r.dims(site.y()));
        let (low, high): (Vec<i64>, Vec<i64>) = window.padding.iter().copied().unzip();
        let holes: Vec<i64> = window.base_dilations.iter().map(|d| d - 1).collect();
        let every: Vec<i64> = (0..rank as i64).collect();
        let take = GatherDims {
            collapsed_slice_dims: every.clone(),
            start_index_map: every,
            index_vector_dim: 2 * rank as i64,
            ..GatherDims::default()
        };
        let (width, steps) = (out.iter().product::<i64>(), window.sizes.iter().product::<i64>());
        let at = positions(r, &out, window)?;
        let mut lines = vec![];
        for i in 0..count {
            let padded = r.pad(site.x(i), site.x(count + i), &low, &high, &holes)?;
            let patches = r.gather(padded, at, take.clone(), &vec![1; rank])?;
            let flat = r.reshape(patches, [width, steps])?;
            lines.push(r.transpose(flat, &[1, 0])?);
        }
        let inits: Vec<ValueId> = (count..2 * count).map(|i| site.x(i)).collect();
        let mut shaped = vec![];
        for y in fold(r, site, body, &lines, &inits, steps, width)? {
            shaped.push(r.reshape(y, out.iter().copied())?);
        }
        Ok(shaped)
    })
}

/// The rows of `lines`, `steps` of `width` elements, combined one after the other.
fn fold(
    r: &mut Reverse<'_>,
    site: &Site,
    body: BlockId,
    lines: &[ValueId],
    inits: &[ValueId],
    steps: i64,
    width: i64,
) -> Result<Vec<ValueId>, GradError> {
    let mut carried = vec![r.index(0)?];
    for &init in inits {
        carried.push(r.broadcast_in_dim(init, [width], &[])?);
    }
    let (op, types) = counted(r, site, carried, steps)?;
    let step = r.module_mut().add_body(op, types);
    let args = r.module().block(step).args().to_vec();
    let mut inner = r.nested(step);
    let (zero, one) = (inner.index(0)?, inner.index(1)?);
    let mut all = args[1..].to_vec();
    for &line in lines {
        let row = inner.dynamic_slice(line, &[args[0], zero], &[1, width])?;
        all.push(inner.reshape(row, [width])?);
    }
    let next = inner.add(args[0], one)?;
    let mut returned = vec![next];
    returned.extend(on_all(&mut inner, site, body, &all, width)?);
    inner.finish(returned);
    let block = r.block;
    r.module_mut().append(block, op);
    Ok(r.module().op(op).results()[1..].to_vec())
}

/// The gradient of a batch norm, in the terms that it is made of.
pub(super) fn batch_norm_grad(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let [x, scale, mean, variance, given] = [0, 1, 2, 3, 4].map(|i| site.x(i));
    let feature = site.op.int("feature_index").unwrap_or(0);
    let epsilon = match site.op.attr("epsilon") {
        Some(Attr::Float(e, _)) => *e,
        _ => 0.0,
    };
    if r.is_empty(x) {
        return Ok(());
    }
    through(r, site, |r| {
        let dims = r.dims(x);
        let others: Vec<i64> = (0..dims.len() as i64).filter(|&d| d != feature).collect();
        let count = (dims.iter().product::<i64>() / dims[feature as usize]) as f64;
        let epsilon = r.splat_like(variance, epsilon)?;
        let shifted = r.add(variance, epsilon)?;
        let inverse = r.rsqrt(shifted)?;
        let wide = r.broadcast_in_dim(mean, dims.iter().copied(), &[feature])?;
        let centred = r.subtract(x, wide)?;
        let offset = r.sum(given, &others)?;
        let product = r.multiply(given, centred)?;
        let weighted = r.sum(product, &others)?;
        let of_scale = r.multiply(weighted, inverse)?;
        // scale / sqrt(v) * (g - sum(g) / n - (x - m) sum(g (x - m)) / (n v))
        let mean_given = r.scale(offset, 1.0 / count)?;
        let mean_given = r.broadcast_in_dim(mean_given, dims.iter().copied(), &[feature])?;
        let slope = r.divide(weighted, shifted)?;
        let slope = r.scale(slope, 1.0 / count)?;
        let slope = r.broadcast_in_dim(slope, dims.iter().copied(), &[feature])?;
        let along = r.multiply(centred, slope)?;
        let inner = r.subtract(given, mean_given)?;
        let inner = r.subtract(inner, along)?;
        let factor = r.multiply(scale, inverse)?;
        let factor = r.broadcast_in_dim(factor, dims, &[feature])?;
        Ok(vec![r.multiply(factor, inner)?, of_scale, offset])
    })
}

/// Products by index letters: the cotangent of each operand is such a product of the result's with the other operand.
pub(super) fn einsum(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let config = site.op.attr("einsum_config").and_then(Attr::as_str).unwrap_or_default().replace(' ', "");
    let parts = config.split_once("->").map(|(from, to)| (from.split(',').collect::<Vec<_>>(), to));
    let plain =
        |s: &str| s.chars().all(char::is_alphabetic) && s.chars().enumerate().all(|(i, c)| s.find(c) == Some(i));
    let Some((from, to)) = parts.filter(|(f, t)| f.iter().all(|s| plain(s)) && plain(t)) else {
        let why =
            format!("the indices '{config}' have an ellipsis or name a dimension twice; write it with dot_general");
        return Err(GradError::no_rule(r.module(), site.id, why));
    };
    for (i, own) in from.iter().enumerate() {
        let x = site.x(i);
        if !r.wants(x) {
            continue;
        }
        let other = from.iter().enumerate().find(|(j, _)| *j != i).map(|(j, s)| (site.x(j), *s));
        // Letters of the operand that nothing else has were summed over: their cotangent is the same all along.
        let known: String =
            own.chars().filter(|&c| to.contains(c) || other.is_some_and(|(_, s)| s.contains(c))).collect();
        let spec = match other {
            Some((y, s)) => OpSpec::new(OpKind::Contract(ContractOp::Einsum))
                .operands([site.ct, y])
                .attr("einsum_config", Attr::str(format!("{to},{s}->{known}"))),
            None => OpSpec::new(OpKind::Contract(ContractOp::UnaryEinsum))
                .operands([site.ct])
                .attr("einsum_config", Attr::str(format!("{to}->{known}"))),
        };
        let (dims, elem) = (r.dims(x), r.elem(site.ct));
        let extents: Vec<i64> = known.chars().filter_map(|c| own.find(c)).map(|d| dims[d]).collect();
        let given = r.value(spec.results([Type::tensor(extents, elem)]))?;
        let at: Vec<i64> = known.chars().filter_map(|c| own.find(c)).map(|d| d as i64).collect();
        let given = r.broadcast_in_dim(given, dims, &at)?;
        let elem = r.elem(x);
        let given = r.cast(given, elem)?;
        r.give(x, given)?;
    }
    Ok(())
}
