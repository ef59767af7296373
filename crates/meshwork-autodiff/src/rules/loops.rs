//! Counted loops: the forward loop stores what each step starts from, and the backward loop runs the steps in reverse.
//!
//! Step `s` of the backward loop recomputes step `s` of the forward loop from the carried values it started with, and
//! differentiates it. Only the carried values this needs are stored, except those that never change, which are taken
//! from outside the loop, and the counter, which is recomputed. Each stored value has one buffer, with the steps as
//! its first dimension.
//!
//! The backward loop carries the cotangents of the carried values and, summed over all steps, those of captured values.

use meshwork_ir::build::{BuildError, Builder, Direction};
use meshwork_ir::op::ControlOp;
use meshwork_ir::transform::dead::is_dead;
use meshwork_ir::{BlockId, ElementType, Literal, Module, OpId, OpKind, OpSpec, Type, ValueId, ValueMap};

use super::trip::{self, Trip};
use crate::GradError;
use crate::activity::captures;
use crate::reverse::{Reverse, Site};

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let trip = trip::read(r.module(), site.id).map_err(|why| {
        let remedy =
            "give it a number of steps that is known before the run (for_loop, scan), or use jvp, which needs none";
        GradError::no_rule(r.module(), site.id, format!("{why}; {remedy}"))
    })?;
    let Some(body) = r.module().body_of(site.id, 1) else { return Ok(()) };
    if trip.count == 0 {
        for (&init, ct) in site.op.operands().iter().zip(&site.cts) {
            if let Some(ct) = *ct {
                r.give(init, ct)?;
            }
        }
        return Ok(());
    }
    let args = r.module().block(body).args().to_vec();
    let there = Loop {
        body,
        returned: r.module().returned(body).to_vec(),
        carried: (0..args.len()).filter(|&i| r.wants(args[i])).collect(),
        outside: captures(r.module(), site.id).into_iter().filter(|&v| r.wants(v)).collect(),
        args,
        trip,
    };
    let back = there.back(r, site)?;
    let kept = back.needed(r, &there, site)?;
    if !kept.is_empty() {
        let buffers = there.keep(r, site, &kept)?;
        back.read(r, &kept, &buffers)?;
    }
    back.drop_placeholders(r);
    let block = r.block;
    r.module_mut().append(block, back.op);
    let results = r.module().op(back.op).results().to_vec();
    let inits = there.carried.iter().map(|&i| site.x(i));
    for (v, &given) in inits.chain(there.outside.iter().copied()).zip(&results[1..]) {
        r.give(v, given)?;
    }
    Ok(())
}

/// The loop to differentiate.
struct Loop {
    body: BlockId,
    args: Vec<ValueId>,
    returned: Vec<ValueId>,
    /// Carried values with cotangents.
    carried: Vec<usize>,
    /// Values from outside with cotangents.
    outside: Vec<ValueId>,
    trip: Trip,
}

/// The loop that runs the steps in reverse, not yet in any block.
struct Back {
    op: OpId,
    body: BlockId,
    /// The step that is walked back, an `i32` scalar of the body.
    step: ValueId,
    /// Arguments of the body that represent the values the step started from, until those are known.
    placeholders: Vec<ValueId>,
}

/// A loop of `count` turns that carries a counter from 0 on, first of `inits`, and the others; it has no body yet. Also the
/// types that it carries.
pub(super) fn counted(
    r: &mut Reverse<'_>,
    site: &Site,
    inits: Vec<ValueId>,
    count: i64,
) -> Result<(OpId, Vec<Type>), GradError> {
    let types = r.types(&inits);
    let spec =
        OpSpec::new(OpKind::Control(ControlOp::While)).operands(inits).results(types.clone()).loc(site.op.loc.clone());
    let op = r.module_mut().create(spec);
    let cond = r.module_mut().add_body(op, types.clone());
    let k = r.module().block(cond).args()[0];
    let mut inner = r.nested(cond);
    let limit = inner.index(count)?;
    let more = inner.compare(Direction::Lt, k, limit)?;
    inner.finish([more]);
    Ok((op, types))
}

impl Loop {
    fn back(&self, r: &mut Reverse<'_>, site: &Site) -> Result<Back, GradError> {
        let mut inits = vec![r.index(0)?];
        for &i in &self.carried {
            inits.push(match site.cts[i] {
                Some(ct) => ct,
                None => r.zeros_like(self.args[i])?,
            });
        }
        for &v in &self.outside {
            inits.push(r.zeros_like(v)?);
        }
        let (op, types) = counted(r, site, inits, self.trip.count)?;

        let starts = r.types(&self.args);
        let body = r.module_mut().add_body(op, types.iter().cloned().chain(starts));
        let slots = r.module().block(body).args().to_vec();
        let (slots, placeholders) = slots.split_at(types.len());
        let mut inner = r.nested(body);
        let (one, last) = (inner.index(1)?, inner.index(self.trip.count - 1)?);
        let next = inner.add(slots[0], one)?;
        let step = inner.subtract(last, slots[0])?;
        let mut map: ValueMap = self.args.iter().copied().zip(placeholders.iter().copied()).collect();
        let ops = inner.copy_body(self.body, &mut map);
        let (cts, sums) = slots[1..].split_at(self.carried.len());
        for (&v, &sum) in self.outside.iter().zip(sums) {
            inner.give(v, sum)?;
        }
        for (&i, &ct) in self.carried.iter().zip(cts) {
            let returned = self.returned[i];
            inner.give(*map.get(&returned).unwrap_or(&returned), ct)?;
        }
        inner.walk(&ops)?;
        let mut results = vec![next];
        for &i in &self.carried {
            results.push(inner.cotangent_or_zeros(placeholders[i])?);
        }
        for &v in &self.outside {
            results.push(inner.cotangent_or_zeros(v)?);
        }
        inner.finish(results);
        Ok(Back { op, body, step, placeholders: placeholders.to_vec() })
    }

    /// Replaces the loop by one that also keeps, for each step, the carried values `kept`; returns the buffers.
    fn keep(&self, r: &mut Reverse<'_>, site: &Site, kept: &[usize]) -> Result<Vec<ValueId>, GradError> {
        let loc = site.op.loc.clone();
        let old: Vec<Type> = r.types(&self.args);
        let module = r.module_mut();
        let mut before = Builder::before(module, site.id);
        before.set_loc(loc.clone());
        let mut inits: Vec<ValueId> = site.op.operands().to_vec();
        inits.push(before.scalar(ElementType::I32, 0.0)?);
        for &i in kept {
            let Some(t) = old[i].as_tensor().cloned() else {
                let why = format!("its carried value {i} of type {} cannot be stored for the backward pass", old[i]);
                return Err(GradError::no_rule(module, site.id, why));
            };
            let dims = [self.trip.count].into_iter().chain(t.dims.iter().copied());
            inits.push(before.splat(dims, t.elem, 0.0)?);
        }
        let types: Vec<Type> = inits.iter().map(|&v| module.ty(v).clone()).collect();
        let mut spec =
            OpSpec::new(OpKind::Control(ControlOp::While)).operands(inits).results(types.clone()).loc(loc.clone());
        spec.attrs = site.op.attrs.clone();
        // One sharding per result no longer fits.
        spec.attrs.remove("sdy.sharding");
        let longer = module.push_before(site.id, spec);
        let mut args = vec![];
        for index in 0..2 {
            let Some(from) = module.body_of(site.id, index) else { continue };
            let to = module.add_body(longer, types.clone());
            args = module.block(to).args().to_vec();
            let from_args = module.block(from).args().to_vec();
            let mut map: ValueMap = from_args.into_iter().zip(args.iter().copied()).collect();
            for op in module.op_list(from) {
                let copy = module.clone_op(op, &mut map);
                module.append(to, copy);
            }
        }
        if let Some(end) = module.body_of(longer, 1).and_then(|b| module.terminator(b)) {
            let mut b = Builder::before(module, end);
            b.set_loc(loc);
            let (k, buffers) = (args[self.args.len()], &args[self.args.len() + 1..]);
            let added = store(&mut b, k, kept.iter().map(|&i| args[i]).zip(buffers.iter().copied()))?;
            let returned: Vec<ValueId> = module.op(end).operands().iter().copied().chain(added).collect();
            module.set_operands(end, returned);
        }
        let results = module.op(longer).results().to_vec();
        module.replace_op(site.id, &results);
        Ok(results[self.args.len() + 1..].to_vec())
    }
}

/// The next step number, and each buffer with its value written as row `k`.
fn store(
    b: &mut Builder<'_>,
    k: ValueId,
    pairs: impl Iterator<Item = (ValueId, ValueId)>,
) -> Result<Vec<ValueId>, BuildError> {
    let one = b.scalar(ElementType::I32, 1.0)?;
    let zero = b.scalar(ElementType::I32, 0.0)?;
    let mut out = vec![b.add(k, one)?];
    for (value, buffer) in pairs {
        let dims: Vec<i64> = [1].into_iter().chain(b.ty(value).dims().iter().copied()).collect();
        let mut starts = vec![zero; dims.len()];
        starts[0] = k;
        let row = b.reshape(value, dims)?;
        out.push(b.dynamic_update_slice(buffer, row, &starts)?);
    }
    Ok(out)
}

impl Back {
    /// Replaces the placeholders of values that are known without keeping them; returns which others are used.
    fn needed(&self, r: &mut Reverse<'_>, there: &Loop, site: &Site) -> Result<Vec<usize>, GradError> {
        let module = r.module_mut();
        for op in module.op_list(self.body).into_iter().rev() {
            let is_step = module.op(op).results().contains(&self.step);
            if !is_step && is_dead(module, op) {
                module.erase(op);
            }
        }
        let mut kept = vec![];
        for (i, &placeholder) in self.placeholders.iter().enumerate() {
            if module.value(placeholder).uses().is_empty() {
                continue;
            }
            if there.returned[i] == there.args[i] {
                module.replace_all_uses(placeholder, site.x(i));
            } else if i == there.trip.counter {
                let elem = module.ty(placeholder).elem().unwrap_or(ElementType::I32);
                let Some(mut b) = self.after_step(module) else { continue };
                let number = |v| Literal::from_i64s([], elem, &[v]).expect("one number per element");
                let (start, by) = (b.constant(&number(there.trip.start))?, b.constant(&number(there.trip.step))?);
                let step = b.convert(self.step, elem)?;
                let moved = b.multiply(step, by)?;
                let counter = b.add(start, moved)?;
                module.replace_all_uses(placeholder, counter);
            } else {
                kept.push(i);
            }
        }
        Ok(kept)
    }

    /// Writes to the body, just after the step is known.
    fn after_step<'a>(&self, module: &'a mut Module) -> Option<Builder<'a>> {
        let anchor = module.def_op(self.step).and_then(|op| module.next_op(op))?;
        let loc = module.op(self.op).loc.clone();
        let mut b = Builder::before(module, anchor);
        b.set_loc(loc);
        Some(b)
    }

    /// Reads the kept values of the step from their buffers.
    fn read(&self, r: &mut Reverse<'_>, kept: &[usize], buffers: &[ValueId]) -> Result<(), GradError> {
        let module = r.module_mut();
        for (&i, &buffer) in kept.iter().zip(buffers) {
            let Some(mut b) = self.after_step(module) else { continue };
            let zero = b.scalar(ElementType::I32, 0.0)?;
            let dims = b.ty(self.placeholders[i]).dims().to_vec();
            let sizes: Vec<i64> = [1].into_iter().chain(dims.iter().copied()).collect();
            let mut starts = vec![zero; sizes.len()];
            starts[0] = self.step;
            let row = b.dynamic_slice(buffer, &starts, &sizes)?;
            let value = b.reshape(row, dims)?;
            module.replace_all_uses(self.placeholders[i], value);
        }
        Ok(())
    }

    fn drop_placeholders(&self, r: &mut Reverse<'_>) {
        let module = r.module_mut();
        let count = module.block(self.body).args().len();
        for index in (count - self.placeholders.len()..count).rev() {
            module.remove_block_arg(self.body, index);
        }
    }
}
