//! Operations with bodies that are arithmetic or loops in other words.

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::{ChloOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Def, Direction, ElementType, Module, OpId, OpKind, OpSpec, Type, ValueId, ValueMap};

use super::replace;

/// Whether all that `block` does is elementwise operations on scalars.
pub(super) fn is_elementwise(module: &Module, block: BlockId) -> bool {
    let scalar = |&v: &ValueId| module.ty(v).as_tensor().is_some_and(|t| t.dims.is_empty());
    let plain = |o: OpId| {
        let inner = module.op(o);
        let constant = matches!(
            inner.kind(),
            OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant) | OpKind::Chlo(ChloOp::Constant)
        );
        let known = inner.kind().is_elementwise() || constant || inner.kind().is_terminator();
        known && inner.operands().iter().chain(inner.results()).all(scalar)
    };
    module.ops_in(block).all(plain)
}

/// What `block`, elementwise operations on scalars, is on whole tensors `given` of extents `dims`.
pub(super) fn lift(
    b: &mut Builder<'_>,
    block: BlockId,
    given: &[ValueId],
    dims: &[i64],
) -> Result<Option<Vec<ValueId>>, BuildError> {
    let params = b.module().block(block).args().to_vec();
    let mut whole: ValueMap = params.into_iter().zip(given.iter().copied()).collect();
    let ops: Vec<OpId> = b.module().ops_in(block).collect();
    for inner in ops {
        let data = b.module().op(inner);
        let (kind, operands, attrs) = (data.kind(), data.operands().to_vec(), data.attrs.clone());
        let results = data.results().to_vec();
        let mut lifted = vec![];
        for v in operands {
            lifted.push(match whole.get(&v) {
                Some(&w) => w,
                // A number from outside.
                None => {
                    let Some(elem) = b.ty(v).elem() else { return Ok(None) };
                    b.broadcast_as(v, Type::tensor(dims.to_vec(), elem), &[])?
                }
            });
        }
        if kind.is_terminator() {
            return Ok(Some(lifted));
        }
        let Some(elem) = results.first().and_then(|&r| b.ty(r).elem()) else { return Ok(None) };
        let value = if let Some(Attr::Dense(dense)) = attrs.get("value") {
            let Some(literal) = dense.to_literal() else { return Ok(None) };
            b.splat_bytes(dims, elem, literal.bytes())?
        } else {
            let mut spec = OpSpec::new(kind).operands(lifted).results([Type::tensor(dims.to_vec(), elem)]);
            spec.attrs = attrs;
            b.value(spec)?
        };
        whole.insert(results[0], value);
    }
    Ok(None)
}

/// A map whose body is elementwise operations is those on whole tensors.
pub(super) fn map(module: &mut Module, op: OpId) -> bool {
    let Some(block) = module.body_of(op, 0).filter(|&b| is_elementwise(module, b)) else { return false };
    let dims = module.ty(module.op(op).results()[0]).dims().to_vec();
    let operands = module.op(op).operands().to_vec();
    replace(module, op, |b| lift(b, block, &operands, &dims))
}

/// A scan is a loop over slices.
pub(super) fn scan(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let Some(block) = module.body_of(op, 0) else { return false };
    let Some(dim) = data.int("dimension").and_then(|d| usize::try_from(d).ok()) else { return false };
    let operands = data.operands().to_vec();
    let params = module.block(block).args().to_vec();
    let rank = |v: ValueId| module.ty(v).dims().len();
    let sliced = || {
        let is =
            |i: &usize| params.get(*i).is_some_and(|&p| rank(operands[*i]) > dim && rank(p) + 1 == rank(operands[*i]));
        (0..operands.len()).take_while(is).count()
    };
    let inputs = match data.attr("operandSegmentSizes").and_then(Attr::as_i64s).as_deref() {
        Some(&[inputs, _]) => inputs as usize,
        _ => sliced(),
    };
    let carried = operands.len().saturating_sub(inputs);
    let Some(outputs) = data.results().len().checked_sub(carried) else { return false };
    let Some(&length) = operands.first().and_then(|&x| module.ty(x).dims().get(dim)) else { return false };
    if inputs == 0 || module.returned(block).len() != data.results().len() {
        return false;
    }
    let reverse = data.flag("is_reverse");
    let types: Vec<Type> = data.results().iter().map(|&r| module.ty(r).clone()).collect();
    let returned = module.returned(block).to_vec();
    let ops: Vec<OpId> = module.ops_in(block).collect();
    let index = ElementType::I32;
    replace(module, op, |b| {
        let mut inits = vec![b.scalar(index, 0.0)?];
        for ty in &types[..outputs] {
            inits.push(b.splat(ty.dims().to_vec(), ty.elem().unwrap_or(index), 0.0)?);
        }
        inits.extend(&operands[inputs..]);
        let done = b.while_loop(
            &inits,
            |b, carry| {
                let end = b.scalar(index, length as f64)?;
                Ok([b.compare(Direction::Lt, carry[0], end)?])
            },
            |b, carry| {
                let (zero, one) = (b.scalar(index, 0.0)?, b.scalar(index, 1.0)?);
                let at = match reverse {
                    true => {
                        let last = b.scalar(index, length as f64 - 1.0)?;
                        b.subtract(last, carry[0])?
                    }
                    false => carry[0],
                };
                let starts = |n: usize| (0..n).map(|d| if d == dim { at } else { zero }).collect::<Vec<_>>();
                let mut inside = ValueMap::new();
                for (&x, &param) in operands[..inputs].iter().zip(&params) {
                    let mut sizes = b.ty(x).dims().to_vec();
                    sizes[dim] = 1;
                    let piece = b.dynamic_slice(x, &starts(sizes.len()), &sizes)?;
                    sizes.remove(dim);
                    inside.insert(param, b.reshape(piece, sizes)?);
                }
                inside.extend(params[inputs..].iter().copied().zip(carry[1 + outputs..].iter().copied()));
                if let Def::Arg(block, _) = b.module().value(carry[0]).def() {
                    for &inner in ops.iter().filter(|&&o| !b.module().op(o).kind().is_terminator()).collect::<Vec<_>>()
                    {
                        let copy = b.module_mut().clone_op(inner, &mut inside);
                        b.module_mut().append(block, copy);
                    }
                }
                let new: Vec<ValueId> = returned.iter().map(|v| inside.get(v).copied().unwrap_or(*v)).collect();
                let mut next = vec![b.add(carry[0], one)?];
                for (&whole, &piece) in carry[1..].iter().zip(&new[..outputs]) {
                    let mut dims = b.ty(piece).dims().to_vec();
                    dims.insert(dim, 1);
                    let n = dims.len();
                    let piece = b.reshape(piece, dims)?;
                    next.push(b.dynamic_update_slice(whole, piece, &starts(n))?);
                }
                next.extend(&new[outputs..]);
                Ok(next)
            },
        )?;
        Ok(Some(done.into_iter().skip(1).collect()))
    })
}
