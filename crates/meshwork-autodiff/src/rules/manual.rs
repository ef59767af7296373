//! Manual computations and their collectives.
//!
//! Inside, a cotangent belongs to one device's copy of a value. A result that is replicated over an axis counts once, so
//! each copy gets an equal share of the cotangent; a replicated argument gets the sum of the cotangents of its copies.
//! The cotangent of each of several parts that add up is that of their sum: every device gets all of it.
//! With that, the rule of each collective is its transpose as a linear map between devices.

use meshwork_ir::build::Groups;
use meshwork_ir::op::{BinaryOp, CollectiveOp, ControlOp, SdyOp};
use meshwork_ir::placement::{ManualCopies, Reduction, Sharding};
use meshwork_ir::{Attr, Op, OpKind, OpSpec, ValueId, ValueMap};

use super::combiner::{Combiner, recognise};
use crate::GradError;
use crate::reverse::{Reverse, Site};

pub(super) fn computation(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let Some(body) = r.module().body_of(site.id, 0) else { return Ok(()) };
    let Some(copies) = ManualCopies::of(r.module(), site.id) else {
        return Err(GradError::no_rule(r.module(), site.id, "the mesh of its shardings is unknown"));
    };
    let args = r.module().block(body).args().to_vec();
    let returned = r.module().returned(body).to_vec();
    let wanted: Vec<usize> = (0..args.len()).filter(|&i| r.wants(site.x(i))).collect();
    let given: Vec<usize> = (0..site.cts.len()).filter(|&i| site.cts[i].is_some()).collect();

    let cts = given.iter().filter_map(|&i| site.cts[i]);
    let operands: Vec<ValueId> = site.op.operands().iter().copied().chain(cts).collect();
    let results: Vec<_> = wanted.iter().map(|&i| r.ty(site.x(i)).clone()).collect();
    let mut spec = OpSpec::new(OpKind::Sdy(SdyOp::ManualComputation)).operands(operands).results(results);
    if let (Some(Attr::ShardingPerValue(ins)), Some(Attr::ShardingPerValue(outs))) =
        (site.op.attr("in_shardings"), site.op.attr("out_shardings"))
    {
        if ins.iter().chain(outs.iter()).any(|s| !s.unreduced.is_empty() && s.reduction != Reduction::Sum) {
            return Err(GradError::no_rule(r.module(), site.id, "it has parts that are not added up"));
        }
        let in_shardings = ins.iter().cloned().chain(given.iter().map(|&i| whole(&outs[i])));
        let out_shardings = wanted.iter().map(|&i| whole(&ins[i]));
        spec = spec
            .attr("in_shardings", Attr::ShardingPerValue(in_shardings.collect()))
            .attr("out_shardings", Attr::ShardingPerValue(out_shardings.collect()));
    }
    let spec = Reverse::with_attr(spec, &site.op, "manual_axes").loc(site.op.loc.clone());
    let back = r.module_mut().create(spec);
    let mut types = r.types(&args);
    types.extend(given.iter().map(|&i| r.ty(returned[i]).clone()));
    let block = r.module_mut().add_body(back, types);
    let slots = r.module().block(block).args().to_vec();
    let (xs, cts) = slots.split_at(args.len());
    let mut map: ValueMap = args.iter().copied().zip(xs.iter().copied()).collect();
    let mut inner = r.nested(block);
    let ops = inner.copy_body(body, &mut map);
    for (&i, &ct) in given.iter().zip(cts) {
        let holders = copies.of_result(i);
        let share = if holders == 1 { ct } else { inner.scale(ct, 1.0 / holders as f64)? };
        inner.give(*map.get(&returned[i]).unwrap_or(&returned[i]), share)?;
    }
    inner.walk(&ops)?;
    let mut out = vec![];
    for &i in &wanted {
        let mut ct = inner.cotangent_or_zeros(xs[i])?;
        let groups = copies.of_argument(i).map_err(|why| GradError::no_rule(inner.module(), site.id, why))?;
        if let Some(groups) = groups {
            ct = inner.all_reduce(ct, &Groups::devices(groups, 1), |b, a| Ok([b.add(a[0], a[1])?]))?;
        }
        out.push(ct);
    }
    let loc = site.op.loc.clone();
    inner.module_mut().push(block, OpSpec::new(OpKind::Sdy(SdyOp::Return)).operands(out).loc(loc));
    let block = r.block;
    r.module_mut().append(block, back);
    for (&i, ct) in wanted.iter().zip(r.module().op(back).results().to_vec()) {
        r.give(site.x(i), ct)?;
    }
    Ok(())
}

/// `sharding` with a copy where it has parts.
fn whole(sharding: &Sharding) -> Sharding {
    Sharding { unreduced: vec![], ..sharding.clone() }
}

/// A sum over devices gives to each the sum of the cotangents.
pub(super) fn all_reduce(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    if site.op.kind() != OpKind::Collective(CollectiveOp::CrossReplicaSum) {
        adds(r, site)?;
    }
    for (i, ct) in site.cts.iter().enumerate() {
        let Some(ct) = *ct else { continue };
        let spec = OpSpec::new(OpKind::Collective(CollectiveOp::AllReduce)).operands([ct]).results([r.ty(ct).clone()]);
        let given = summing(r, site, spec);
        r.give(site.x(i), given)?;
    }
    Ok(())
}

/// The transpose of a gather is a reduce-scatter.
pub(super) fn all_gather(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let dim = site.op.int("all_gather_dim").unwrap_or(0);
    for (i, ct) in site.cts.iter().enumerate() {
        let Some(ct) = *ct else { continue };
        let spec = OpSpec::new(OpKind::Collective(CollectiveOp::ReduceScatter))
            .operands([ct])
            .results([r.ty(site.x(i)).clone()])
            .attr("scatter_dimension", Attr::i64(dim));
        let given = summing(r, site, spec);
        r.give(site.x(i), given)?;
    }
    Ok(())
}

pub(super) fn reduce_scatter(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    adds(r, site)?;
    let dim = site.op.int("scatter_dimension").unwrap_or(0);
    let spec = OpSpec::new(OpKind::Collective(CollectiveOp::AllGather))
        .operands([site.ct])
        .results([r.ty(site.x(0)).clone()])
        .attr("all_gather_dim", Attr::i64(dim));
    let given = r.value(with_groups(spec, &site.op))?;
    Ok(r.give(site.x(0), given)?)
}

/// With split and concatenated dimensions exchanged.
pub(super) fn all_to_all(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    for (i, ct) in site.cts.iter().enumerate() {
        let Some(ct) = *ct else { continue };
        let mut spec =
            OpSpec::new(OpKind::Collective(CollectiveOp::AllToAll)).operands([ct]).results([r.ty(site.x(i)).clone()]);
        spec.attrs = site.op.attrs.clone();
        let (split, concat) = (site.op.attr("split_dimension"), site.op.attr("concat_dimension"));
        if let (Some(split), Some(concat)) = (split.cloned(), concat.cloned()) {
            spec = spec.attr("split_dimension", concat).attr("concat_dimension", split);
        }
        let given = r.value(spec)?;
        r.give(site.x(i), given)?;
    }
    Ok(())
}

pub(super) fn collective_permute(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let pairs = site.op.i64s("source_target_pairs").unwrap_or_default();
    let pairs: Vec<(i64, i64)> = pairs.chunks_exact(2).map(|p| (p[1], p[0])).collect();
    let channel = match site.op.attr("channel_handle") {
        Some(Attr::Channel(c)) => Some(c.handle),
        _ => None,
    };
    for (i, ct) in site.cts.iter().enumerate() {
        let Some(ct) = *ct else { continue };
        let given = r.collective_permute(ct, &pairs, channel)?;
        r.give(site.x(i), given)?;
    }
    Ok(())
}

/// The root gets the sum of all cotangents.
pub(super) fn collective_broadcast(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    even_groups(r, site)?;
    for (i, ct) in site.cts.iter().enumerate() {
        let Some(ct) = *ct else { continue };
        let spec = OpSpec::new(OpKind::Collective(CollectiveOp::CollectiveReduce)).results([r.ty(ct).clone()]);
        let spec = from_root(r, site, i, spec, ct)?;
        let given = summing(r, site, spec);
        r.give(site.x(i), given)?;
    }
    Ok(())
}

/// Every device gets the cotangent of the root's sum. On other devices the result is zero whatever they contribute.
pub(super) fn collective_reduce(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    adds(r, site)?;
    even_groups(r, site)?;
    for (i, ct) in site.cts.iter().enumerate() {
        let Some(ct) = *ct else { continue };
        let spec = OpSpec::new(OpKind::Collective(CollectiveOp::CollectiveBroadcast)).results([r.ty(ct).clone()]);
        let mut spec = from_root(r, site, i, spec, ct)?;
        for name in ["replica_groups", "channel_handle"] {
            spec = Reverse::with_attr(spec, &site.op, name);
        }
        let given = r.value(spec)?;
        r.give(site.x(i), given)?;
    }
    Ok(())
}

/// A broadcast needs groups of equal size, and a reduction needs every device in a group. An operation that is turned
/// into the other must satisfy both.
fn even_groups(r: &Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let mut ids = site.op.i64s("replica_groups").unwrap_or_default().to_vec();
    ids.sort_unstable();
    if ids.iter().copied().eq(0..ids.len() as i64) {
        return Ok(());
    }
    let why = "its groups have different sizes or leave out devices; there is a rule only for groups of equal size that cover all devices";
    Err(GradError::no_rule(r.module(), site.id, why))
}

/// `spec` on `ct`, with the root of operand `i` of `site`, where it is known only when the program runs.
fn from_root(r: &mut Reverse<'_>, site: &Site, i: usize, spec: OpSpec, ct: ValueId) -> Result<OpSpec, GradError> {
    if !site.op.flag("has_dynamic_root") {
        return Ok(spec.operands([ct]));
    }
    let roots = site.x(site.op.operands().len() - 1);
    let root = r.slice(roots, &[i as i64], &[i as i64 + 1], &[1])?;
    Ok(Reverse::with_attr(spec.operands([ct, root]), &site.op, "has_dynamic_root"))
}

fn adds(r: &Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let body = r.module().body_of(site.id, 0);
    if body.is_some_and(|body| recognise(r.module(), body, 0) == Some(Combiner::Add)) {
        return Ok(());
    }
    Err(GradError::no_rule(r.module(), site.id, "its body is not a sum; only sums over devices have a rule"))
}

fn with_groups(mut spec: OpSpec, op: &Op) -> OpSpec {
    for name in ["replica_groups", "channel_handle", "use_global_device_ids"] {
        if let Some(attr) = op.attr(name) {
            spec = spec.attr(name, attr.clone());
        }
    }
    spec
}

/// A collective over the groups of `site` whose body adds.
fn summing(r: &mut Reverse<'_>, site: &Site, spec: OpSpec) -> ValueId {
    let elem = r.elem(spec.operands[0]);
    let loc = site.op.loc.clone();
    let op = r.module_mut().create(with_groups(spec, &site.op).loc(loc.clone()));
    let scalar = meshwork_ir::Type::tensor([], elem);
    let body = r.module_mut().add_body(op, [scalar.clone(), scalar.clone()]);
    let args = r.module().block(body).args().to_vec();
    let add = r
        .module_mut()
        .push(body, OpSpec::new(OpKind::Binary(BinaryOp::Add)).operands(args).results([scalar]).loc(loc.clone()));
    let sum = r.module().result(add);
    r.module_mut().push(body, OpSpec::new(OpKind::Control(ControlOp::HloReturn)).operands([sum]).loc(loc));
    let block = r.block;
    r.module_mut().append(block, op);
    r.module().result(op)
}
