//! `chlo.scan` as a loop over the slices of its inputs, which is walked back over.

use meshwork_ir::{BlockId, ValueId, ValueMap};

use super::expand::through;
use super::loops::counted;
use crate::GradError;
use crate::reverse::{Reverse, Site};

/// What a scan goes over.
struct Scan {
    body: BlockId,
    dim: usize,
    steps: i64,
    backwards: bool,
    /// How many operands are cut into slices; the others are carried.
    inputs: usize,
    /// How many results are made of slices.
    outputs: usize,
}

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let Some(body) = r.module().body_of(site.id, 0) else { return Ok(()) };
    let count = site.op.operands().len();
    // Of an input the body takes slices; a carried value it takes as it is.
    let args = r.module().block(body).args();
    let inputs = count - (0..count).rev().take_while(|&i| r.ty(site.x(i)) == r.ty(args[i])).count();
    let dim = site.op.int("dimension").unwrap_or(0).max(0) as usize;
    let steps = match inputs {
        0 => site.op.int("scan_dim_size"),
        _ => r.dims(site.x(0)).get(dim).copied(),
    };
    let outputs = site.op.results().len().checked_sub(count - inputs);
    let (Some(steps), Some(outputs)) = (steps, outputs) else {
        return Err(GradError::no_rule(r.module(), site.id, "how far it goes is not known"));
    };
    let scan = Scan { body, dim, steps, backwards: site.op.flag("is_reverse"), inputs, outputs };
    through(r, site, |r| as_loop(r, site, &scan))
}

/// The results of the scan, of a loop that carries them.
fn as_loop(r: &mut Reverse<'_>, site: &Site, scan: &Scan) -> Result<Vec<ValueId>, GradError> {
    let mut carried = vec![r.index(0)?];
    for &result in &site.op.results()[..scan.outputs] {
        carried.push(r.zeros_like(result)?);
    }
    carried.extend(&site.op.operands()[scan.inputs..]);
    let (op, types) = counted(r, site, carried, scan.steps)?;
    let step = r.module_mut().add_body(op, types);
    let args = r.module().block(step).args().to_vec();
    let (wholes, carries) = args[1..].split_at(scan.outputs);
    let mut inner = r.nested(step);
    let (zero, one) = (inner.index(0)?, inner.index(1)?);
    let at = if scan.backwards {
        let last = inner.index(scan.steps - 1)?;
        inner.subtract(last, args[0])?
    } else {
        args[0]
    };
    let starts = |rank: usize| -> Vec<ValueId> { (0..rank).map(|d| if d == scan.dim { at } else { zero }).collect() };
    let mut given = vec![];
    for &input in &site.op.operands()[..scan.inputs] {
        let mut sizes = inner.dims(input);
        sizes[scan.dim] = 1;
        let slice = inner.dynamic_slice(input, &starts(sizes.len()), &sizes)?;
        sizes.remove(scan.dim);
        given.push(inner.reshape(slice, sizes)?);
    }
    given.extend(carries);
    let old = inner.module().block(scan.body).args().to_vec();
    let mut map: ValueMap = old.into_iter().zip(given).collect();
    let returned = inner.module().returned(scan.body).to_vec();
    inner.copy_body(scan.body, &mut map);
    let mut next = vec![inner.add(args[0], one)?];
    for (i, value) in returned.iter().map(|v| *map.get(v).unwrap_or(v)).enumerate() {
        let Some(&whole) = wholes.get(i) else {
            next.push(value);
            continue;
        };
        let mut sizes = inner.dims(whole);
        sizes[scan.dim] = 1;
        let slice = inner.reshape(value, sizes.iter().copied())?;
        next.push(inner.dynamic_update_slice(whole, slice, &starts(sizes.len()))?);
    }
    inner.finish(next);
    let block = r.block;
    r.module_mut().append(block, op);
    Ok(r.module().op(op).results()[1..].to_vec())
}
