//! Control flow: calls, branches, loops, scans.

use super::attrs;
use super::fault::Fault;
use super::index::index_at;
use super::machine::Machine;
use super::movement::{dynamic_update_slice, part_along};
use super::value::{Val, allocate};
use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, BlockId, Literal, OpId, OpKind};

fn block(m: &Machine<'_>, op: OpId, region: usize) -> Result<BlockId, Fault> {
    let missing = || Fault::invalid(format!("region {region} is missing or empty"));
    m.module.body_of(op, region).ok_or_else(missing)
}

/// `func.call` and `stablehlo.composite`.
pub(crate) fn call(m: &mut Machine<'_>, op: OpId, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let data = m.module.op(op);
    let composite = data.kind() == OpKind::Control(ControlOp::Composite);
    let name = if composite { "decomposition" } else { "callee" };
    let callee = data.attr(name).and_then(Attr::as_symbol);
    let callee = callee.ok_or_else(|| attrs::missing(name, "a function's name"))?;
    let func = m.module.func(callee).ok_or_else(|| Fault::invalid(format!("there is no function @{callee}")))?;
    Ok(m.call(func, args, op)?)
}

/// The first of `values`, a scalar, as an index.
fn first_index(values: &[Val]) -> Result<i64, Fault> {
    let first = values.first().ok_or_else(|| Fault::invalid("there is no value to decide by"))?;
    Ok(index_at(first.tensor()?, 0))
}

/// `stablehlo.case` and `stablehlo.if`: an index outside takes the last branch.
pub(crate) fn branch(m: &mut Machine<'_>, op: OpId, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let data = m.module.op(op);
    let count = data.regions().len() as i64;
    let which = first_index(&args)?;
    let chosen = match data.kind() {
        OpKind::Control(ControlOp::If) => i64::from(which == 0),
        _ if (0..count).contains(&which) => which,
        _ => count - 1,
    };
    Ok(m.run_block(block(m, op, chosen as usize)?, vec![], op)?)
}

/// `stablehlo.while`.
pub(crate) fn while_loop(m: &mut Machine<'_>, op: OpId, mut carried: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let (cond, body) = (block(m, op, 0)?, block(m, op, 1)?);
    while first_index(&m.run_block(cond, carried.clone(), op)?)? != 0 {
        carried = m.run_block(body, carried, op)?;
    }
    Ok(carried)
}

/// Ops whose body runs once on their operands.
pub(crate) fn inline(m: &mut Machine<'_>, op: OpId, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    Ok(m.run_block(block(m, op, 0)?, args, op)?)
}

/// `chlo.scan`: the body on the slices of the inputs along a dimension, one after the other. Its arguments are the
/// slices, then what it carried; it returns the slices of the outputs, then what it carries on.
pub(crate) fn scan(m: &mut Machine<'_>, op: OpId, mut args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let module = m.module;
    let data = module.op(op);
    let dim = attrs::index(data, "dimension")?;
    let body = block(m, op, 0)?;
    // A carried value is an operand and a result; the other results are outputs.
    let segments = data.attr("operandSegmentSizes").and_then(Attr::as_i64s);
    let inputs = match segments.as_deref() {
        Some(&[inputs, _]) => inputs as usize,
        _ => scan_inputs(m, op, dim, body, args.len()),
    };
    if inputs == 0 || inputs > args.len() {
        return Err(Fault::invalid(format!("{inputs} of {} operands are scanned", args.len())));
    }
    let mut carried = args.split_off(inputs);
    let inputs = args;
    let length = inputs[0].tensor()?.dims().get(dim).copied();
    let length = length.ok_or_else(|| Fault::invalid(format!("there is no dimension {dim}")))?;
    let outputs = data.results().len().checked_sub(carried.len());
    let outputs = outputs.ok_or_else(|| Fault::invalid("more carried values than results"))?;
    let mut out: Vec<Literal> = data.results()[..outputs]
        .iter()
        .map(|&v| match module.ty(v).as_tensor() {
            Some(ty) => allocate(&ty.dims, ty.elem),
            None => Err(Fault::invalid("an output is not a tensor")),
        })
        .collect::<Result<_, _>>()?;
    for step in 0..length {
        let at = if data.flag("is_reverse") { length - 1 - step } else { step };
        let mut given = vec![];
        for input in &inputs {
            let piece = take_slice(input.tensor()?, dim, at)?;
            given.push(m.hold(piece));
        }
        given.extend(carried);
        let mut results = m.run_block(body, given, op)?;
        carried = results.split_off(outputs.min(results.len()));
        for (whole, piece) in out.iter_mut().zip(&results) {
            put_slice(whole, piece.tensor()?, dim, at)?;
        }
    }
    let mut results: Vec<Val> = out.into_iter().map(|x| m.hold(x)).collect();
    results.extend(carried);
    Ok(results)
}

/// Without segment sizes: the leading operands whose rank the body's arguments lack by one.
fn scan_inputs(m: &Machine<'_>, op: OpId, dim: usize, body: BlockId, count: usize) -> usize {
    let (operands, params) = (m.module.op(op).operands(), m.module.block(body).args());
    (0..count)
        .take_while(|&i| {
            let rank = m.module.ty(operands[i]).rank().unwrap_or(0);
            rank > dim && params.get(i).and_then(|&p| m.module.ty(p).rank()) == Some(rank - 1)
        })
        .count()
}

fn take_slice(x: &Literal, dim: usize, at: i64) -> Result<Literal, Fault> {
    let piece = part_along(x, dim, at, 1)?;
    let mut dims = piece.dims().to_vec();
    dims.remove(dim);
    piece.reshaped(dims).ok_or_else(|| Fault::invalid("a slice does not lose its dimension"))
}

fn put_slice(whole: &mut Literal, piece: &Literal, dim: usize, at: i64) -> Result<(), Fault> {
    let mut dims = piece.dims().to_vec();
    if dims.len() + 1 != whole.dims().len() {
        return Err(Fault::invalid(format!("a slice {} for an output {}", piece.ty(), whole.ty())));
    }
    dims.insert(dim, 1);
    let piece = piece.clone().reshaped(dims).ok_or_else(|| Fault::invalid("a slice does not gain a dimension"))?;
    let mut start = vec![0; whole.dims().len()];
    start[dim] = at;
    dynamic_update_slice(whole, &piece, &start)
}
