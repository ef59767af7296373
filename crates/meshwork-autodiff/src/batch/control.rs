//! Loops, branches and computations with a body.
//!
//! A loop whose condition is the same for all examples stays a loop of as many steps. Where examples leave it at
//! different steps, it runs as long as one of them goes on, and those that have left keep what they had. A branch that
//! is chosen by each example for itself means that all branches run, and each example takes its own.

use meshwork_ir::build::Direction;
use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::placement::insert_dim;
use meshwork_ir::{Attr, ElementType, OpKind, OpSpec, Type, ValueId};

use super::BatchError;
use super::state::{Batch, Site};
use crate::custom::{BATCHED, is_custom};

pub(super) fn while_loop(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let (Some(cond), Some(body)) = (b.module().body_of(site.id, 0), b.module().body_of(site.id, 1)) else {
        return Err(BatchError::no_rule(b.module(), site.id, "it lacks a body"));
    };
    let args = b.module().block(body).args().to_vec();
    let on: Vec<bool> = args.iter().map(|&v| b.will_be_on(v)).collect();
    let mut inits = vec![];
    for (&x, &on) in site.xs.iter().zip(&on) {
        inits.push(if on { b.lifted(x)? } else { x });
    }
    let types: Vec<Type> = inits.iter().map(|&v| b.ty(v).clone()).collect();
    let mut spec =
        OpSpec::new(OpKind::Control(ControlOp::While)).operands(inits).results(types.clone()).loc(site.op.loc.clone());
    spec.attrs = site.op.attrs.clone();
    widen_some(&mut spec.attrs, "sdy.sharding", &on, b);
    let op = b.module_mut().create(spec);

    let new = b.module_mut().add_body(op, types.clone());
    bind(b, cond, new, &on);
    let mut inner = b.nested(new);
    let mut pred = inner.block_of(cond)?[0];
    let varies = inner.is_on(pred);
    if varies {
        let no = inner.scalar(ElementType::I1, 0.0)?;
        pred = inner.reduce(&[pred], &[no], &[0], |b, a| Ok([b.or(a[0], a[1])?]))?[0];
    }
    end(&mut inner, OpKind::Control(ControlOp::HloReturn), &[pred]);

    let new = b.module_mut().add_body(op, types);
    let olds = b.module().block(new).args().to_vec();
    let mut goes_on = None;
    if varies {
        bind(b, cond, new, &on);
        goes_on = Some(b.nested(new).block_of(cond)?[0]);
    }
    bind(b, body, new, &on);
    let mut inner = b.nested(new);
    let mut returned = inner.block_of(body)?;
    for (i, value) in returned.iter_mut().enumerate() {
        if !on[i] {
            if inner.is_on(*value) {
                return Err(BatchError::no_rule(inner.module(), site.id, format!("its value {i} became batched")));
            }
            continue;
        }
        *value = inner.lifted(*value)?;
        if let Some(pred) = goes_on.filter(|_| *value != olds[i]) {
            let dims = inner.dims(*value);
            let pred = if dims.len() == 1 { pred } else { inner.broadcast_in_dim(pred, dims, &[0])? };
            *value = inner.select(pred, *value, olds[i])?;
        }
    }
    end(&mut inner, OpKind::Control(ControlOp::HloReturn), &returned);
    let block = b.block;
    b.module_mut().append(block, op);
    give(b, site, op, &on);
    Ok(())
}

pub(super) fn branches(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let count = site.op.regions().len();
    if b.is_on(site.xs[0]) {
        return chosen_by_each(b, site, count);
    }
    let on: Vec<bool> = site.op.results().iter().map(|&r| b.will_be_on(r)).collect();
    let types = site.op.results().iter().zip(&on).map(|(&r, &on)| {
        let ty = b.ty(r);
        if on { b.wide(ty) } else { ty.clone() }
    });
    let mut spec =
        OpSpec::new(site.op.kind()).operands([site.xs[0]]).results(types.collect::<Vec<_>>()).loc(site.op.loc.clone());
    spec.attrs = site.op.attrs.clone();
    widen_some(&mut spec.attrs, "sdy.sharding", &on, b);
    let op = b.module_mut().create(spec);
    for index in 0..count {
        let Some(branch) = b.module().body_of(site.id, index) else { continue };
        let new = b.module_mut().add_body(op, []);
        let mut inner = b.nested(new);
        let mut returned = inner.block_of(branch)?;
        for (value, &on) in returned.iter_mut().zip(&on) {
            if on {
                *value = inner.lifted(*value)?;
            }
        }
        end(&mut inner, OpKind::Control(ControlOp::HloReturn), &returned);
    }
    let block = b.block;
    b.module_mut().append(block, op);
    give(b, site, op, &on);
    Ok(())
}

/// Runs all branches and takes for each example the results of its own.
fn chosen_by_each(b: &mut Batch<'_>, site: &Site, count: usize) -> Result<(), BatchError> {
    let choice = site.xs[0];
    let mut all = vec![];
    for index in 0..count {
        let Some(branch) = b.module().body_of(site.id, index) else { continue };
        let mut returned = b.block_of(branch)?;
        for value in &mut returned {
            *value = b.lifted(*value)?;
        }
        all.push(returned);
    }
    // An index out of range means the last branch; the first branch of an `if` is for true.
    let Some(mut results) = all.pop() else { return Ok(()) };
    for (index, values) in all.iter().enumerate() {
        let taken = match site.op.kind() {
            OpKind::Control(ControlOp::If) => choice,
            _ => {
                let number = b.scalar(ElementType::I32, index as f64)?;
                let number = b.lifted(number)?;
                b.compare(Direction::Eq, choice, number)?
            }
        };
        for (out, &value) in results.iter_mut().zip(values) {
            let dims = b.dims(value);
            let taken = if dims.len() == 1 { taken } else { b.broadcast_in_dim(taken, dims, &[0])? };
            *out = b.select(taken, value, *out)?;
        }
    }
    b.give(site, &results);
    Ok(())
}

/// Named and manual computations: the same with a batched body.
pub(super) fn computation(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let Some(body) = b.module().body_of(site.id, 0) else {
        return Err(BatchError::no_rule(b.module(), site.id, "it lacks a body"));
    };
    let custom = is_custom(&site.op);
    let xs = if custom { b.all_lifted(&site.xs)? } else { site.xs.clone() };
    let on: Vec<bool> = xs.iter().map(|&x| b.is_on(x)).collect();
    let out: Vec<bool> = site.op.results().iter().map(|&r| b.will_be_on(r)).collect();
    let types = site.op.results().iter().zip(&out).map(|(&r, &on)| {
        let ty = b.ty(r);
        if on { b.wide(ty) } else { ty.clone() }
    });
    let mut spec = OpSpec::new(site.op.kind()).operands(xs).results(types.collect::<Vec<_>>()).loc(site.op.loc.clone());
    spec.attrs = site.op.attrs.clone();
    if custom {
        spec.attrs.set(BATCHED, Attr::i64(site.op.int(BATCHED).unwrap_or(0) + 1));
    }
    widen_some(&mut spec.attrs, "in_shardings", &on, b);
    widen_some(&mut spec.attrs, "out_shardings", &out, b);
    let op = b.module_mut().create(spec);
    let types = b.module().block(body).args().to_vec().into_iter().zip(&on).map(|(v, &on)| {
        let ty = b.ty(v);
        if on { b.wide(ty) } else { ty.clone() }
    });
    let types: Vec<Type> = types.collect();
    let new = b.module_mut().add_body(op, types);
    bind(b, body, new, &on);
    let mut inner = b.nested(new);
    let mut returned = inner.block_of(body)?;
    for (value, &on) in returned.iter_mut().zip(&out) {
        if on {
            *value = inner.lifted(*value)?;
        }
    }
    end(&mut inner, OpKind::Sdy(SdyOp::Return), &returned);
    let block = b.block;
    b.module_mut().append(block, op);
    give(b, site, op, &out);
    Ok(())
}

/// Replaces the arguments of block `old` by those of `new`.
fn bind(b: &mut Batch<'_>, old: meshwork_ir::BlockId, new: meshwork_ir::BlockId, on: &[bool]) {
    let args = |block| b.module().block(block).args().to_vec();
    let (old, new) = (args(old), args(new));
    b.replace_each(&old, &new, on);
}

fn end(b: &mut Batch<'_>, kind: OpKind, values: &[ValueId]) {
    let (block, loc) = (b.block, b.loc().clone());
    b.module_mut().push(block, OpSpec::new(kind).operands(values.iter().copied()).loc(loc));
}

fn give(b: &mut Batch<'_>, site: &Site, op: meshwork_ir::OpId, on: &[bool]) {
    let results = b.module().op(op).results().to_vec();
    b.replace_each(site.op.results(), &results, on);
}

/// Adds a dimension to the shardings of batched values in the list that attribute `name` holds.
fn widen_some(attrs: &mut meshwork_ir::AttrDict, name: &str, on: &[bool], b: &Batch<'_>) {
    let Some(Attr::ShardingPerValue(list)) = attrs.get(name).cloned() else { return };
    let wide = list.iter().enumerate().map(|(i, s)| match on.get(i) {
        Some(true) => insert_dim(s, 0, &b.options.placement),
        _ => s.clone(),
    });
    attrs.set(name, Attr::ShardingPerValue(wide.collect()));
}

impl Batch<'_> {
    /// Batches a block here; returns the replacements of the values it returns.
    fn block_of(&mut self, block: meshwork_ir::BlockId) -> Result<Vec<ValueId>, BatchError> {
        let ops = self.module().op_list(block);
        self.run(&ops)?;
        Ok(self.module().returned(block).iter().map(|&v| self.now(v)).collect())
    }
}
