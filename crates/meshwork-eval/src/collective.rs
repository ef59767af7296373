//! Collectives: who meets whom, and what each device gets.

use super::body::Body;
use super::fault::Fault;
use super::machine::Machine;
use super::movement::{concatenate, part_along};
use super::scalar::{ScalarOp, apply};
use super::value::{Val, allocate};
use meshwork_ir::groups::{channel, device_pairs, group_of, ragged_fits};
use meshwork_ir::op::{BinaryOp, CollectiveOp};
use meshwork_ir::{Literal, OpId, TensorType};

/// Runs a collective on this device.
pub(crate) fn execute(m: &mut Machine<'_>, id: OpId, kind: CollectiveOp, args: &[Val]) -> Result<Vec<Literal>, Fault> {
    if kind == CollectiveOp::CollectivePermute {
        return permute(m, id, args);
    }
    let op = m.module.op(id);
    let Some(group) = group_of(m.module, op, m.site.device, m.site.grid).map_err(Fault::Invalid)? else {
        return match kind {
            CollectiveOp::CollectiveBroadcast | CollectiveOp::CollectiveReduce => zeros(m, id),
            _ => Err(Fault::invalid(format!("device {} is in none of its replica groups", m.site.device))),
        };
    };
    count(m, kind, group.len(), args)?;
    // The last device to arrive computes for all.
    let (module, site, channel) = (m.module, m.site, channel(op));
    let mut compute = |parts: Vec<Vec<Val>>| combine(m, id, kind, &parts).map_err(|fault| fault.at(module, id));
    let args = args.to_vec();
    match site.hub.filter(|_| group.len() > 1) {
        None => Ok(compute(vec![args])?.swap_remove(0)),
        Some(hub) => hub.meet((kind.into(), channel, group), site.device, args, &module.describe(id), compute),
    }
}

fn zeros(m: &Machine<'_>, id: OpId) -> Result<Vec<Literal>, Fault> {
    let tensor = |v| m.module.ty(v).as_tensor().ok_or_else(|| Fault::invalid("a result is not a tensor"));
    let zero = |ty: &TensorType| allocate(&ty.dims, ty.elem);
    m.module.op(id).results().iter().map(|&v| zero(tensor(v)?)).collect()
}

/// The results of every device of the group, from the operands of each in group order.
fn combine(m: &mut Machine<'_>, id: OpId, kind: CollectiveOp, parts: &[Vec<Val>]) -> Result<Vec<Vec<Literal>>, Fault> {
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
    let mut results: Vec<Vec<Literal>> = vec![vec![]; size];
    match kind {
        CollectiveOp::AllGather => {
            let dim = attr("all_gather_dim")? as usize;
            for i in 0..operands {
                let whole = concatenate(&column(i), dim)?;
                results.iter_mut().for_each(|r| r.push(whole.clone()));
            }
        }
        CollectiveOp::AllReduce | CollectiveOp::CrossReplicaSum => {
            for i in 0..operands {
                let sum = reduce_parts(m, id, kind, &column(i))?;
                results.iter_mut().for_each(|r| r.push(sum.clone()));
            }
        }
        CollectiveOp::ReduceScatter => {
            let dim = attr("scatter_dimension")? as usize;
            for i in 0..operands {
                let sum = reduce_parts(m, id, kind, &column(i))?;
                for (r, part) in results.iter_mut().zip(split(&sum, dim, size)?) {
                    r.push(part);
                }
            }
        }
        CollectiveOp::AllToAll => {
            let (split_dim, concat_dim) = (attr("split_dimension")? as usize, attr("concat_dimension")? as usize);
            for i in 0..operands {
                let pieces = column(i).into_iter().map(|x| split(x, split_dim, size)).collect::<Result<Vec<_>, _>>()?;
                for (to, r) in results.iter_mut().enumerate() {
                    let mine: Vec<&Literal> = pieces.iter().map(|p| &p[to]).collect();
                    r.push(concatenate(&mine, concat_dim)?);
                }
            }
        }
        CollectiveOp::RaggedAllToAll => {
            let result = m.module.ty(op.results()[0]).as_tensor();
            let result = result.ok_or_else(|| Fault::invalid("a result is not a tensor"))?;
            for (r, received) in results.iter_mut().zip(ragged(&data, result)?) {
                r.push(received);
            }
        }
        CollectiveOp::CollectiveBroadcast => {
            for (i, &root) in roots.iter().enumerate() {
                results.iter_mut().for_each(|r| r.push(data[root][i].clone()));
            }
        }
        CollectiveOp::CollectiveReduce => {
            for (i, &root) in roots.iter().enumerate() {
                let sum = reduce_parts(m, id, kind, &column(i))?;
                for (device, r) in results.iter_mut().enumerate() {
                    r.push(if device == root { sum.clone() } else { allocate(sum.dims(), sum.elem())? });
                }
            }
        }
        CollectiveOp::CollectivePermute => return Err(Fault::invalid("a permute is not a meeting")),
    }
    Ok(results)
}

/// What each device of the group receives: rows of consecutive pieces, in the order of the senders; zeros behind them.
fn ragged(data: &[Vec<&Literal>], result: &TensorType) -> Result<Vec<Literal>, Fault> {
    let p = data.len();
    let sizes = super::index::indices_of(data[0][1]);
    if data.iter().any(|d| d[1].bytes() != data[0][1].bytes()) {
        return Err(Fault::invalid("devices of a group have different tables of sizes"));
    }
    let (rows, from) = (data[0][0].dims()[0] as usize, data[0][0].dims()[1]);
    let (to, bytes) = (result.dims[1], result.elem.storage_bytes());
    let size = |sender: usize, receiver: usize, row: usize| sizes[(sender * p + receiver) * rows + row];
    ragged_fits(p, rows, (from, to), size).map_err(Fault::Invalid)?;
    let mut all = vec![];
    for receiver in 0..p {
        let mut out = allocate(&result.dims, result.elem)?;
        for row in 0..rows {
            let mut at = row * to as usize;
            for (sender, operands) in data.iter().enumerate() {
                let before: i64 = (0..receiver).map(|r| size(sender, r, row)).sum();
                let (start, count) = (row * from as usize + before as usize, size(sender, receiver, row) as usize);
                let piece = &operands[0].bytes()[start * bytes..(start + count) * bytes];
                out.bytes_mut()[at * bytes..(at + count) * bytes].copy_from_slice(piece);
                at += count;
            }
        }
        all.push(out);
    }
    Ok(all)
}

/// `x` cut into `count` equal parts along `dim`.
fn split(x: &Literal, dim: usize, count: usize) -> Result<Vec<Literal>, Fault> {
    let size = x.dims().get(dim).copied().unwrap_or(0);
    if size % count as i64 != 0 {
        return Err(Fault::invalid(format!("dimension {dim} of {size} elements does not split over {count} devices")));
    }
    let step = size / count as i64;
    (0..count as i64).map(|i| part_along(x, dim, i * step, step)).collect()
}

/// The body of `id` (for a cross-replica sum: addition) folded over tensors of one type, in order.
fn reduce_parts(m: &mut Machine<'_>, id: OpId, kind: CollectiveOp, parts: &[&Literal]) -> Result<Literal, Fault> {
    let mut out = parts[0].clone();
    let elem = out.elem();
    let sum = ScalarOp::new(BinaryOp::Add.into(), elem, elem);
    let mut body = if kind == CollectiveOp::CrossReplicaSum { None } else { Some(Body::new(m, id, 0)?) };
    for part in &parts[1..] {
        for i in 0..out.len() {
            let mut acc = [out.get(i)];
            match (&mut body, &sum) {
                (Some(body), _) => body.fold(m, &mut acc, &[part.get(i)])?,
                (None, Some(sum)) => acc[0] = apply(sum, &[acc[0], part.get(i)]),
                (None, None) => return Err(Fault::unsupported(format!("sums of {elem}"))),
            }
            out.set(i, acc[0]);
        }
    }
    Ok(out)
}

/// `stablehlo.collective_permute` as messages: only senders and receivers take part, others get zeros.
fn permute(m: &mut Machine<'_>, id: OpId, args: &[Val]) -> Result<Vec<Literal>, Fault> {
    let op = m.module.op(id);
    let me = m.site.device;
    let pairs = device_pairs(op, m.site.grid).map_err(Fault::Invalid)?;
    let senders = pairs.iter().filter(|(from, to)| from != to).count();
    if senders > 0 && me == 0 {
        let bytes = operand_bytes(args)?;
        let share = senders as f64 / m.site.grid.len() as f64;
        m.effects.stats.count("collective-permute", bytes, bytes as f64 * share);
    }
    let key = |from: usize, to: usize| (op.kind(), channel(op), Some(from), Some(to));
    let mine = || args.iter().map(|a| a.tensor().cloned()).collect::<Result<Vec<_>, _>>();
    if let Some(hub) = m.site.hub {
        for &(_, to) in pairs.iter().filter(|&&(from, to)| from == me && to != me) {
            hub.send(key(me, to), mine()?);
        }
    }
    match (pairs.iter().find(|&&(_, to)| to == me), m.site.hub) {
        (None, _) => zeros(m, id),
        (Some(&(from, _)), _) if from == me => mine(),
        (Some(&(from, _)), Some(hub)) => hub.receive(key(from, me), me, &m.module.describe(id)),
        (Some(&(from, _)), None) => Err(Fault::invalid(format!("device {from} does not run"))),
    }
}

fn operand_bytes(args: &[Val]) -> Result<u64, Fault> {
    args.iter().map(|a| a.tensor().map(|x| x.bytes().len() as u64)).sum()
}

/// Counts a collective of `size` devices on device 0.
fn count(m: &mut Machine<'_>, kind: CollectiveOp, size: usize, args: &[Val]) -> Result<(), Fault> {
    if size < 2 || m.site.device != 0 {
        return Ok(());
    }
    let bytes = operand_bytes(args)?;
    let (b, g) = (bytes as f64, size as f64);
    let (name, wire) = match kind {
        CollectiveOp::AllGather => ("all-gather", (g - 1.0) * b),
        CollectiveOp::ReduceScatter => ("reduce-scatter", (g - 1.0) / g * b),
        CollectiveOp::AllToAll => ("all-to-all", (g - 1.0) / g * b),
        // As in a plan: at most all of the operand.
        CollectiveOp::RaggedAllToAll => {
            let bytes = operand_bytes(&args[..1])?;
            m.effects.stats.count("ragged-all-to-all", bytes, bytes as f64);
            return Ok(());
        }
        CollectiveOp::CollectiveBroadcast => ("collective-broadcast", (g - 1.0) / g * b),
        CollectiveOp::CollectiveReduce => ("collective-reduce", (g - 1.0) / g * b),
        _ => ("all-reduce", 2.0 * (g - 1.0) / g * b),
    };
    m.effects.stats.count(name, bytes, wire);
    Ok(())
}
