//! Pads: local where all shards are shifted by the same amount; otherwise each device cuts its part from a longer padded shard.

use meshwork_ir::{ElementType, Module, OpId};

use super::Local;
use super::device::{device_id, look_up, scalar, shard_indices};
use super::movement::mismatch;
use crate::export::rewrite::{Problem, before, tensor};

/// Pads shards.
pub fn pad(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let &[operand, padding] = module.op(op).operands() else { return Err("does not have two operands".into()) };
    let result = module.result(op);
    let Some((_, mesh)) = cx.split(operand) else {
        return match cx.split(result) {
            None => Ok(()),
            Some(_) => Err("splits its result, but not its operand; insert explicit reshards first".into()),
        };
    };
    let (from, to) = (tensor(module, operand)?, tensor(module, result)?);
    let low = module.op(op).i64s("edge_padding_low").unwrap_or_default();
    let interior = module.op(op).i64s("interior_padding").unwrap_or_default();
    // Where the shard of each device starts, relative to the start of what it will hold.
    let mut shifts: Vec<Vec<i64>> = vec![];
    for dim in 0..from.rank() {
        let (before, after) = (cx.axes(operand, dim), cx.axes(result, dim));
        if before != after {
            return Err(mismatch(dim, before, after));
        }
        let per_shard = from.dims[dim] * (interior[dim] + 1) - to.dims[dim];
        let indices = shard_indices(mesh, before);
        shifts.push(indices.into_iter().map(|index| index * per_shard + low[dim]).collect());
    }
    let is_uniform = |shifts: &[i64]| shifts.iter().all(|s| *s == shifts[0]);
    let spread = |dim: usize| (from.dims[dim] - 1).max(0) * (interior[dim] + 1) + from.dims[dim].min(1);
    let bounds: Vec<(i64, i64)> = (0..from.rank())
        .map(|dim| {
            let all_uniform = shifts.iter().all(|s| is_uniform(s));
            let (min, max) = (shifts[dim].iter().min().copied(), shifts[dim].iter().max().copied());
            let (min, max) = (min.unwrap_or(0), max.unwrap_or(0));
            if all_uniform {
                (min, to.dims[dim] - spread(dim) - min)
            } else {
                (max.max(0), (to.dims[dim] - min - spread(dim)).max(0))
            }
        })
        .collect();
    let (lows, highs): (Vec<i64>, Vec<i64>) = bounds.into_iter().unzip();
    let device_kind = cx.device_id;
    let mut b = before(module, op);
    let mut value = b.pad(operand, padding, &lows, &highs, &interior)?;
    if !shifts.iter().all(|s| is_uniform(s)) {
        let device = device_id(&mut b, device_kind)?;
        let mut starts = vec![];
        for (shifts, low) in shifts.iter().zip(&lows) {
            let table: Vec<i64> = shifts.iter().map(|shift| low - shift).collect();
            starts.push(if is_uniform(shifts) {
                scalar(&mut b, ElementType::I64, table[0])?
            } else {
                look_up(&mut b, device, &table)?
            });
        }
        value = b.dynamic_slice(value, &starts, &to.dims)?;
    }
    cx.replace(module, op, &[value]);
    Ok(())
}
