//! The loop over the batch: runs an operation on one example after the other.

use meshwork_ir::build::{Builder, Direction};
use meshwork_ir::op::ControlOp;
use meshwork_ir::{ElementType, OpKind, OpSpec, Type, ValueId};

use super::BatchError;
use super::state::{Batch, Site};
use crate::activity::captures;

pub(super) fn rule(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let mut inits = vec![b.scalar(ElementType::I32, 0.0)?];
    for &result in site.op.results() {
        let ty = b.ty(result).clone();
        let Type::Tensor(t) = b.wide(&ty) else {
            let why = format!("a result of type {ty} cannot be stacked");
            return Err(BatchError::no_rule(b.module(), site.id, why));
        };
        inits.push(b.splat(t.dims.iter().copied(), t.elem, 0.0)?);
    }
    let types: Vec<Type> = inits.iter().map(|&v| b.ty(v).clone()).collect();
    // Values of the old function that differ between examples.
    let mut used: Vec<ValueId> = site.op.operands().to_vec();
    used.extend(captures(b.module(), site.id));
    used.retain(|&v| b.is_on(b.now(v)));
    used.sort_unstable();
    used.dedup();

    let (size, block, loc) = (b.size(), b.block, site.op.loc.clone());
    let spec = OpSpec::new(OpKind::Control(ControlOp::While)).operands(inits).results(types.clone()).loc(loc.clone());
    let op = b.module_mut().create(spec);
    let cond = b.module_mut().add_body(op, types.clone());
    let i = b.module().block(cond).args()[0];
    let mut c = b.nested(cond);
    let count = c.scalar(ElementType::I32, size as f64)?;
    let more = c.compare(Direction::Lt, i, count)?;
    c.module_mut().push(cond, OpSpec::new(OpKind::Control(ControlOp::HloReturn)).operands([more]).loc(loc.clone()));

    let body = b.module_mut().add_body(op, types);
    let args = b.module().block(body).args().to_vec();
    let mut inner = b.nested(body);
    let (zero, one) = (inner.scalar(ElementType::I32, 0.0)?, inner.scalar(ElementType::I32, 1.0)?);
    let mut rows = vec![];
    for old in used {
        let all = inner.now(old);
        let mut sizes = inner.dims(all);
        sizes[0] = 1;
        let row = inner.dynamic_slice(all, &starts(args[0], zero, sizes.len()), &sizes)?;
        rows.push((old, inner.reshape(row, sizes[1..].to_vec())?));
    }
    let mut map = inner.map_with(rows);
    let copy = inner.module_mut().clone_op(site.id, &mut map);
    inner.module_mut().append(body, copy);
    let mut returned = vec![inner.add(args[0], one)?];
    for (&result, &buffer) in inner.module().op(copy).results().to_vec().iter().zip(&args[1..]) {
        let dims: Vec<i64> = [1].into_iter().chain(inner.dims(result)).collect();
        let at = starts(args[0], zero, dims.len());
        let row = inner.reshape(result, dims)?;
        returned.push(Builder::dynamic_update_slice(&mut inner, buffer, row, &at)?);
    }
    inner.module_mut().push(body, OpSpec::new(OpKind::Control(ControlOp::HloReturn)).operands(returned).loc(loc));
    b.module_mut().append(block, op);
    let results = b.module().op(op).results()[1..].to_vec();
    b.give(site, &results);
    Ok(())
}

fn starts(i: ValueId, zero: ValueId, rank: usize) -> Vec<ValueId> {
    let mut out = vec![zero; rank];
    out[0] = i;
    out
}
