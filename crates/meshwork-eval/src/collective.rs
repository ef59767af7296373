//! Collectives: who meets whom, and what each device gets.

use super::error::EvalError;
use super::fault::Fault;
use super::groups::{Strategy, channel, group_of, moving_strategy, reducing_strategy, rows};
use super::hub::Stuck;
use super::machine::Machine;
use super::movement::{concatenate, slice};
use super::nums::{from_f64, to_f64};
use super::scalar::{ScalarOp, apply};
use super::value::{Val, allocate};
use meshwork_ir::op::{BinaryOp, CollectiveOp};
use meshwork_ir::{Literal, OpId, OpKind, TensorType};

type Contributions = Vec<Vec<Literal>>;

/// Runs a collective on this device.
pub(crate) fn execute(m: &mut Machine<'_>, op: OpId, args: Vec<Val>) -> Result<Vec<Val>, EvalError> {
    let module = m.module;
    let results = run(m, op, args).map_err(|fault| fault.at(module, op))?;
    Ok(results.into_iter().map(|x| m.hold(x)).collect())
}

fn run(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Literal>, Fault> {
    let op = m.module.op(id);
    let kind = op.kind();
    if kind == OpKind::Collective(CollectiveOp::CollectivePermute) {
        return permute(m, id, args);
    }
    let strategy = match kind {
        OpKind::Collective(
            CollectiveOp::AllToAll | CollectiveOp::CollectiveBroadcast | CollectiveOp::CollectiveReduce,
        ) => moving_strategy(op),
        OpKind::Collective(CollectiveOp::CrossReplicaSum) => Strategy::CrossReplica,
        _ => reducing_strategy(op)?,
    };
    let group = group_of(m.site.device, m.site.grid, strategy, &rows(op, "replica_groups")?)?;
    let Some(group) = group else {
        return match kind {
            OpKind::Collective(CollectiveOp::CollectiveBroadcast | CollectiveOp::CollectiveReduce) => zeros(m, id),
            _ => Err(Fault::invalid(format!("device {} is in none of its replica groups", m.site.device))),
        };
    };
    count(m, id, group.len(), &args)?;
    meet(m, id, group, args)
}

/// Brings the operands together and lets the last device compute for all.
fn meet(m: &mut Machine<'_>, id: OpId, group: Vec<usize>, args: Vec<Val>) -> Result<Vec<Literal>, Fault> {
    let module = m.module;
    let (kind, number) = (module.op(id).kind(), channel(module.op(id)));
    let (site, size) = (m.site, group.len());
    let mut compute = |parts: Vec<Vec<Val>>| combine(m, id, parts).map_err(|fault| fault.at(module, id));
    let Some(hub) = site.hub.filter(|_| size > 1) else {
        return Ok(compute(vec![args])?.swap_remove(0));
    };
    let what = module.describe(id);
    match hub.meet((kind, number, group), site.device, args, &what, compute) {
        Ok(results) => Ok(results?),
        Err(Stuck(why)) => Err(Fault::Invalid(why)),
    }
}

fn zeros(m: &Machine<'_>, id: OpId) -> Result<Vec<Literal>, Fault> {
    let tensor = |v| m.module.ty(v).as_tensor().ok_or_else(|| Fault::invalid("a result is no tensor"));
    let zero = |ty: &TensorType| allocate(&ty.dims, ty.elem);
    m.module.op(id).results().iter().map(|&v| zero(tensor(v)?)).collect()
}

/// The results of every device of the group, from the operands of each in group order.
fn combine(m: &mut Machine<'_>, id: OpId, parts: Vec<Vec<Val>>) -> Result<Contributions, Fault> {
    let size = parts.len();
    let op = m.module.op(id);
    let attr = |name: &str| op.int(name).ok_or_else(|| Fault::invalid(format!("attribute '{name}' is missing")));
    let mut data: Vec<Vec<&Literal>> =
        parts.iter().map(|p| p.iter().map(Val::tensor).collect()).collect::<Result<_, _>>()?;
    let types = |p: &Vec<&Literal>| p.iter().map(|x| x.ty()).collect::<Vec<_>>();
    if let Some(other) = data.iter().find(|p| types(p) != types(&data[0])) {
        return Err(Fault::invalid(format!(
            "devices meet with different operands: {:?} and {:?}",
            types(&data[0]).iter().map(ToString::to_string).collect::<Vec<_>>(),
            types(other).iter().map(ToString::to_string).collect::<Vec<_>>()
        )));
    }
    // With a dynamic root the last operand says which device of the group is the root, per data operand.
    let mut roots = vec![0; data[0].len()];
    if op.flag("has_dynamic_root") {
        for p in &mut data {
            let given = p.pop().ok_or_else(|| Fault::invalid("no root operand"))?;
            roots = super::index::indices_of(given).into_iter().map(|r| r.clamp(0, size as i64 - 1) as usize).collect();
        }
        if roots.len() != data[0].len() {
            return Err(Fault::invalid(format!("{} roots for {} operands", roots.len(), data[0].len())));
        }
    }
    let operands = data[0].len();
    let column = |i: usize| data.iter().map(|p| p[i]).collect::<Vec<_>>();
    let kind = op.kind();
    let mut results: Contributions = vec![vec![]; size];
    match kind {
        OpKind::Collective(CollectiveOp::AllGather) => {
            let dim = attr("all_gather_dim")? as usize;
            for i in 0..operands {
                let whole = concatenate(&column(i), dim)?;
                results.iter_mut().for_each(|r| r.push(whole.clone()));
            }
        }
        OpKind::Collective(CollectiveOp::AllReduce | CollectiveOp::CrossReplicaSum) => {
            for i in 0..operands {
                let sum = reduce_parts(m, id, &column(i))?;
                results.iter_mut().for_each(|r| r.push(sum.clone()));
            }
        }
        OpKind::Collective(CollectiveOp::ReduceScatter) => {
            let dim = attr("scatter_dimension")? as usize;
            for i in 0..operands {
                let sum = reduce_parts(m, id, &column(i))?;
                for (r, part) in results.iter_mut().zip(split(&sum, dim, size)?) {
                    r.push(part);
                }
            }
        }
        OpKind::Collective(CollectiveOp::AllToAll) => {
            let (split_dim, concat_dim) = (attr("split_dimension")? as usize, attr("concat_dimension")? as usize);
            for i in 0..operands {
                let pieces = column(i).into_iter().map(|x| split(x, split_dim, size)).collect::<Result<Vec<_>, _>>()?;
                for (to, r) in results.iter_mut().enumerate() {
                    let mine: Vec<&Literal> = pieces.iter().map(|p| &p[to]).collect();
                    r.push(concatenate(&mine, concat_dim)?);
                }
            }
        }
        OpKind::Collective(CollectiveOp::CollectiveBroadcast) => {
            for (i, &root) in roots.iter().enumerate() {
                results.iter_mut().for_each(|r| r.push(data[root][i].clone()));
            }
        }
        OpKind::Collective(CollectiveOp::CollectiveReduce) => {
            for (i, &root) in roots.iter().enumerate() {
                let sum = reduce_parts(m, id, &column(i))?;
                for (device, r) in results.iter_mut().enumerate() {
                    r.push(if device == root { sum.clone() } else { allocate(sum.dims(), sum.elem())? });
                }
            }
        }
        _ => return Err(Fault::unsupported(format!("'{}' as a collective", kind.name()))),
    }
    Ok(results)
}

/// `x` cut into `count` equal parts along `dim`.
fn split(x: &Literal, dim: usize, count: usize) -> Result<Vec<Literal>, Fault> {
    let size = x.dims().get(dim).copied().unwrap_or(0);
    if size % count as i64 != 0 {
        return Err(Fault::invalid(format!("dimension {dim} of {size} elements does not split over {count} devices")));
    }
    let (mut start, mut limit) = (vec![0; x.dims().len()], x.dims().to_vec());
    let step = size / count as i64;
    let ones = vec![1; limit.len()];
    (0..count as i64)
        .map(|i| {
            (start[dim], limit[dim]) = (i * step, (i + 1) * step);
            slice(x, &start, &limit, &ones)
        })
        .collect()
}

/// The body of `id` (for a cross-replica sum: addition) folded over tensors of one type, in order.
fn reduce_parts(m: &mut Machine<'_>, id: OpId, parts: &[&Literal]) -> Result<Literal, Fault> {
    let (dims, elem) = (parts[0].dims(), parts[0].elem());
    let mut out = parts[0].clone();
    if m.module.op(id).kind() == OpKind::Collective(CollectiveOp::CrossReplicaSum) {
        let add = ScalarOp::new(OpKind::Binary(BinaryOp::Add), elem, elem)
            .ok_or_else(|| Fault::unsupported(format!("sums of {elem}")))?;
        for part in &parts[1..] {
            for i in 0..out.len() {
                out.set(i, apply(&add, &[out.get(i), part.get(i)]));
            }
        }
        return Ok(out);
    }
    let mut body = m.body(id, 0)?;
    if let Some(f) = body.float_fold() {
        let mut acc = to_f64(parts[0]);
        for part in &parts[1..] {
            acc.iter_mut().zip(to_f64(part)).for_each(|(a, b)| *a = f(*a, b));
        }
        return from_f64(dims, elem, &acc);
    }
    for part in &parts[1..] {
        for i in 0..out.len() {
            let mut acc = [out.get(i)];
            body.fold(&mut acc, &[part.get(i)])?;
            out.set(i, acc[0]);
        }
    }
    Ok(out)
}

/// `stablehlo.collective_permute` as messages: only senders and receivers take part, others get zeros.
fn permute(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Literal>, Fault> {
    let op = m.module.op(id);
    let (grid, device) = (m.site.grid, m.site.device);
    let pairs = rows(op, "source_target_pairs")?;
    let (replica, partition) = (device / grid.partitions, device % grid.partitions);
    let (me, ids, place): (usize, usize, Box<dyn Fn(usize) -> usize>) = match moving_strategy(op) {
        Strategy::CrossPartition => (partition, grid.partitions, Box::new(|p| replica * grid.partitions + p)),
        _ => (replica, grid.replicas, Box::new(|r| r * grid.partitions + partition)),
    };
    let mut source = None;
    let mut senders = 0;
    for pair in &pairs {
        let &[from, to] = &pair[..] else { return Err(Fault::invalid("a source-target pair is not two ids")) };
        if from >= ids || to >= ids {
            return Err(Fault::invalid(format!("pair ({from}, {to}) names a device beyond the {ids} there are")));
        }
        senders += usize::from(from != to);
        if to == me {
            source = Some(from);
        }
    }
    if senders > 0 && device == 0 {
        let bytes = operand_bytes(&args)?;
        m.effects.stats.count("collective-permute", bytes, bytes as f64 * senders as f64 / ids as f64);
    }
    let key = |from: usize, to: usize| {
        (OpKind::Collective(CollectiveOp::CollectivePermute), channel(op), Some(place(from)), Some(place(to)))
    };
    let mine = || args.iter().map(|a| a.tensor().cloned()).collect::<Result<Vec<_>, _>>();
    if let Some(hub) = m.site.hub {
        for pair in pairs.iter().filter(|p| p[0] == me && p[1] != me) {
            hub.send(key(me, pair[1]), mine()?);
        }
    }
    match (source, m.site.hub) {
        (None, _) => zeros(m, id),
        (Some(from), _) if from == me => mine(),
        (Some(from), Some(hub)) => {
            hub.receive(key(from, me), device, &m.module.describe(id)).map_err(|Stuck(why)| Fault::Invalid(why))
        }
        (Some(from), None) => Err(Fault::invalid(format!("device {from} does not run"))),
    }
}

fn operand_bytes(args: &[Val]) -> Result<u64, Fault> {
    args.iter().map(|a| a.tensor().map(|x| x.bytes().len() as u64)).sum()
}

/// Counts a collective of `size` devices on device 0.
fn count(m: &mut Machine<'_>, id: OpId, size: usize, args: &[Val]) -> Result<(), Fault> {
    if size < 2 || m.site.device != 0 {
        return Ok(());
    }
    let bytes = operand_bytes(args)?;
    let (b, g) = (bytes as f64, size as f64);
    let (name, wire) = match m.module.op(id).kind() {
        OpKind::Collective(CollectiveOp::AllGather) => ("all-gather", (g - 1.0) * b),
        OpKind::Collective(CollectiveOp::ReduceScatter) => ("reduce-scatter", (g - 1.0) / g * b),
        OpKind::Collective(CollectiveOp::AllToAll) => ("all-to-all", (g - 1.0) / g * b),
        OpKind::Collective(CollectiveOp::CollectiveBroadcast) => ("collective-broadcast", (g - 1.0) / g * b),
        OpKind::Collective(CollectiveOp::CollectiveReduce) => ("collective-reduce", (g - 1.0) / g * b),
        _ => ("all-reduce", 2.0 * (g - 1.0) / g * b),
    };
    m.effects.stats.count(name, bytes, wire);
    Ok(())
}
