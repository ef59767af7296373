//! Sorting: the forward pass keeps the permutation, and the backward pass undoes it by sorting by it.

use meshwork_ir::attr::ScatterDims;
use meshwork_ir::build::{Direction, Stability};
use meshwork_ir::op::{BodyOp, SourceOp};
use meshwork_ir::{BlockId, ElementType, OpKind, OpSpec, Type, ValueId, ValueMap};

use crate::GradError;
use crate::reverse::{Reverse, Site};

pub(super) fn sort(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let rank = r.rank(site.x(0)) as i64;
    let dim = site.op.int("dimension").unwrap_or(-1);
    let dim = if dim < 0 { dim + rank } else { dim };
    let Some(comparator) = r.module().body_of(site.id, 0) else {
        return Err(GradError::no_rule(r.module(), site.id, "it has no comparator"));
    };
    let permutation = sort_with_positions(r, site, comparator, dim)?;
    let live: Vec<(usize, ValueId)> = site.cts.iter().enumerate().filter_map(|(i, ct)| Some((i, (*ct)?))).collect();
    let inputs: Vec<ValueId> = [permutation].into_iter().chain(live.iter().map(|&(_, ct)| ct)).collect();
    let back = r.sort(&inputs, dim, Stability::Unstable, |b, a| Ok([b.compare(Direction::Lt, a[0], a[1])?]))?;
    for (&(i, _), &given) in live.iter().zip(&back[1..]) {
        r.give(site.x(i), given)?;
    }
    Ok(())
}

/// Replaces the sort by one that also moves the positions along `dim`; returns the moved positions.
fn sort_with_positions(r: &mut Reverse<'_>, site: &Site, comparator: BlockId, dim: i64) -> Result<ValueId, GradError> {
    let position = Type::tensor(r.dims(site.x(0)), ElementType::I32);
    let mut types = r.types(site.op.results());
    let mut args = r.types(r.module().block(comparator).args());
    types.push(position.clone());
    args.extend(vec![Type::tensor([], ElementType::I32); 2]);
    let module = r.module_mut();
    let iota = OpSpec::new(OpKind::Source(SourceOp::Iota))
        .results([position])
        .attr("iota_dimension", meshwork_ir::Attr::i64(dim));
    let iota = module.push_before(site.id, iota.loc(site.op.loc.clone()));
    let iota = module.result(iota);
    let mut spec = OpSpec::new(OpKind::Body(BodyOp::Sort))
        .operands(site.op.operands().iter().copied().chain([iota]))
        .results(types);
    spec.attrs = site.op.attrs.clone();
    spec.attrs.remove("sdy.sharding");
    let longer = module.push_before(site.id, spec.loc(site.op.loc.clone()));
    let body = module.add_body(longer, args);
    let old: Vec<ValueId> = module.block(comparator).args().to_vec();
    let mut map: ValueMap = old.into_iter().zip(module.block(body).args().to_vec()).collect();
    for op in module.op_list(comparator) {
        let copy = module.clone_op(op, &mut map);
        module.append(body, copy);
    }
    let results = module.op(longer).results().to_vec();
    module.replace_op(site.id, &results);
    Ok(results[results.len() - 1])
}

/// The cotangents of the largest elements go back to where these stood.
pub(super) fn top_k(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (Some(ct), x) = (site.cts[0], site.x(0)) else { return Ok(()) };
    if r.is_empty(ct) {
        return Ok(());
    }
    let dims = r.dims(ct);
    let last = dims.len() as i64 - 1;
    let batch: Vec<i64> = (0..last).collect();
    let indices = r.reshape(site.op.results()[1], dims.iter().copied().chain([1]))?;
    let put = ScatterDims {
        inserted_window_dims: vec![last],
        input_batching_dims: batch.clone(),
        scatter_indices_batching_dims: batch,
        scatter_dims_to_operand_dims: vec![last],
        index_vector_dim: last + 1,
        ..ScatterDims::default()
    };
    let zeros = r.zeros_like(x)?;
    let given = r.scatter(&[zeros], indices, &[ct], put, |b, a| Ok([b.add(a[0], a[1])?]))?[0];
    Ok(r.give(x, given)?)
}
