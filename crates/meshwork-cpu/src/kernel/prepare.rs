//! What happens to a body before either backend sees it: functions become arithmetic, products and sums become fused
//! ones, what is the same all along a row is computed once, and what is unused is dropped.

use meshwork_ir::ElementType;

use super::build::Builder;
use super::error::KernelError;
use super::ir::{Access, BinaryOp, Body, Extent, Op, Phase, UnaryOp, Val};
use super::math;
use super::narrow;
use super::ty::is_byte_float;

/// `body` in the few operations that backends have. It must have passed the check.
pub fn prepare(body: &Body) -> Result<Body, KernelError> {
    let mut out = Body { phases: vec![], ..body.clone() };
    for arg in out.args.iter_mut().filter(|arg| is_byte_float(arg.elem)) {
        arg.elem = ElementType::UI8;
    }
    for (number, phase) in body.phases.iter().enumerate() {
        let phase = expand(body, &out, phase);
        let phase = prune(&contract(&out, &phase));
        if phase.ops.len() >= usize::from(Val::MAX) {
            return Err(KernelError::TooLong { phase: number, ops: phase.ops.len() });
        }
        if let Some((once, row)) = split_uniform(&mut out, &phase) {
            out.phases.push(once);
            out.phases.push(row);
        } else {
            out.phases.push(phase);
        }
    }
    Ok(out)
}

/// Functions become arithmetic; equal operations become one. `ready` has the arguments as backends see them.
fn expand(body: &Body, ready: &Body, phase: &Phase) -> Phase {
    let mut b = Builder::new(ready);
    let mut vals: Vec<Val> = vec![];
    // Floats of one byte that were loaded, and their bytes.
    let mut bytes: Vec<(Val, ElementType, Val)> = vec![];
    let elem = |arg: u16| Some(body.args[usize::from(arg)].elem).filter(|&e| is_byte_float(e));
    for op in &phase.ops {
        if let Some(v) = math::floored(&mut b, &phase.ops, &vals, *op) {
            vals.push(v);
            continue;
        }
        let op = op.map(|v| vals[usize::from(v)]);
        vals.push(match (op, rounded(op, elem)) {
            (Op::Load(_), Some(elem)) => {
                let byte = b.push(op);
                let number = math::decode(&mut b, elem, byte);
                bytes.push((number, elem, byte));
                number
            }
            (Op::Store(arg, a), Some(elem)) => {
                let known = bytes.iter().find(|known| known.0 == a && known.1 == elem).map(|known| known.2);
                let byte = known.unwrap_or_else(|| math::encode(&mut b, elem, a));
                b.push(Op::Store(arg, byte))
            }
            (Op::Round(_, a), Some(elem)) => {
                let byte = math::encode(&mut b, elem, a);
                let number = math::decode(&mut b, elem, byte);
                bytes.push((number, elem, byte));
                number
            }
            // Single numbers are divided by the processor.
            (Op::Binary(f, x, y), _) if phase.extent == Extent::Once && is_division(f) && b.ty(x).is_integer() => {
                math::divided(&mut b, f, x, y)
            }
            (Op::Convert(to, a), _) => narrow::low(&mut b, a, to).unwrap_or_else(|| b.push(op)),
            _ => math::expand(&mut b, op),
        });
    }
    Phase { extent: phase.extent, ops: b.ops }
}

fn is_division(f: BinaryOp) -> bool {
    matches!(f, BinaryOp::Divide | BinaryOp::Remainder)
}

/// The type of floats of one byte that `op` loads, stores or rounds to.
fn rounded(op: Op, of: impl Fn(u16) -> Option<ElementType>) -> Option<ElementType> {
    match op {
        Op::Load(arg) | Op::Store(arg, _) => of(arg),
        Op::Round(elem, _) => Some(elem).filter(|&e| is_byte_float(e)),
        _ => None,
    }
}

/// How often each value is used.
fn uses(phase: &Phase) -> Vec<u32> {
    let mut uses = vec![0; phase.ops.len()];
    for op in &phase.ops {
        op.operands().for_each(|a| uses[usize::from(a)] += 1);
    }
    uses
}

/// Sums of a product that nothing else uses become fused.
fn contract(body: &Body, phase: &Phase) -> Phase {
    let uses = uses(phase);
    let mut b = Builder::new(body);
    let mut vals: Vec<Val> = vec![];
    let product = |v: Val| match phase.ops[usize::from(v)] {
        Op::Binary(BinaryOp::Multiply, x, y) if uses[usize::from(v)] == 1 => Some((x, y)),
        _ => None,
    };
    for op in &phase.ops {
        let new = |v: Val| vals[usize::from(v)];
        let v = match *op {
            Op::Binary(BinaryOp::Add, x, y) if b.ty(new(x)).is_float() => match (product(x), product(y)) {
                (Some((p, q)), _) => b.fma(new(p), new(q), new(y)),
                (_, Some((p, q))) => b.fma(new(p), new(q), new(x)),
                _ => b.push(op.map(new)),
            },
            Op::Binary(BinaryOp::Subtract, x, y) if b.ty(new(x)).is_float() => match product(y) {
                Some((p, q)) => {
                    let minus = b.un(UnaryOp::Negate, new(p));
                    b.fma(minus, new(q), new(x))
                }
                None => b.push(op.map(new)),
            },
            op => b.push(op.map(new)),
        };
        vals.push(v);
    }
    Phase { extent: phase.extent, ops: b.ops }
}

/// Drops what has no effect.
fn prune(phase: &Phase) -> Phase {
    let mut used: Vec<bool> = phase.ops.iter().map(Op::is_effect).collect();
    for at in (0..phase.ops.len()).rev() {
        if used[at] {
            phase.ops[at].operands().for_each(|a| used[usize::from(a)] = true);
        }
    }
    let mut vals: Vec<Val> = vec![0; phase.ops.len()];
    let mut ops = vec![];
    for (at, op) in phase.ops.iter().enumerate().filter(|(at, _)| used[*at]) {
        vals[at] = ops.len() as Val;
        ops.push(op.map(|v| vals[usize::from(v)]));
    }
    Phase { extent: phase.extent, ops }
}

/// Moves arithmetic on values that are the same all along the row to a phase of its own that runs once, so that it
/// neither repeats nor, by wide types, makes the vectors of the row shorter. New scalars are added to `body`.
fn split_uniform(body: &mut Body, phase: &Phase) -> Option<(Phase, Phase)> {
    if phase.extent == Extent::Once {
        return None;
    }
    let mut uniform: Vec<bool> = vec![];
    for op in &phase.ops {
        uniform.push(match *op {
            Op::Const(..) | Op::Scalar(..) => true,
            Op::Load(arg) => {
                let arg = &body.args[usize::from(arg)];
                matches!(arg.access, Access::Zero | Access::Fixed) && !arg.output
            }
            Op::LoadTemp(..) | Op::Index(..) => false,
            _ => !op.is_effect() && op.operands().all(|a| uniform[usize::from(a)]),
        });
    }
    let leaf = |op: &Op| matches!(op, Op::Const(..) | Op::Scalar(..) | Op::Load(_));
    let mut once = Builder::new(body);
    let mut row = Builder::new(body);
    let (mut in_once, mut in_row) = (vec![0; phase.ops.len()], vec![0; phase.ops.len()]);
    let mut scalars = body.scalars;
    let mut set = vec![];
    for (at, op) in phase.ops.iter().enumerate() {
        if uniform[at] {
            in_once[at] = once.push(op.map(|v| in_once[usize::from(v)]));
            let crosses =
                phase.ops.iter().enumerate().any(|(i, o)| !uniform[i] && o.operands().any(|v| usize::from(v) == at));
            if !crosses {
                continue;
            }
            in_row[at] = if leaf(op) {
                row.push(*op)
            } else {
                let ty = once.ty(in_once[at]);
                set.push(Op::SetScalar(scalars, in_once[at]));
                scalars = scalars.checked_add(1)?;
                row.push(Op::Scalar(scalars - 1, ty))
            };
        } else {
            in_row[at] = row.push(op.map(|v| in_row[usize::from(v)]));
        }
    }
    if set.is_empty() {
        return None;
    }
    set.into_iter().for_each(|op| {
        once.push(op);
    });
    let once = prune(&Phase { extent: Extent::Once, ops: once.ops });
    let row = prune(&Phase { extent: Extent::Row, ops: row.ops });
    body.scalars = scalars;
    Some((once, row))
}
