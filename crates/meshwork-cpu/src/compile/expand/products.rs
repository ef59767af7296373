//! Products in other words: `einsum`, and products of groups of rows.

use meshwork_ir::attr::DotDims;
use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::{BinaryOp, ContractOp};
use meshwork_ir::{Attr, Direction, ElementType, Module, OpId, OpKind, OpSpec, Type, ValueId};

use super::replace;

/// The labels of `rank` dimensions, those of an ellipsis by their number from the end.
fn labels(text: &str, rank: usize) -> Option<Vec<char>> {
    let hidden = |count: usize| (0..count).rev().map(|i| char::from(b'0' + i as u8));
    match text.split_once("...") {
        None => Some(text.chars().collect()),
        Some((before, after)) => {
            let count = rank.checked_sub(before.chars().count() + after.chars().count()).filter(|&n| n < 10)?;
            Some(before.chars().chain(hidden(count)).chain(after.chars()).collect())
        }
    }
}

pub(super) fn einsum(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let Some(config) = data.attr("einsum_config").and_then(Attr::as_str) else { return false };
    let spec: String = config.chars().filter(|c| !c.is_whitespace()).collect();
    let operands = data.operands().to_vec();
    let result = module.ty(data.results()[0]).clone();
    let parsed = || {
        let (inputs, output) = spec.split_once("->")?;
        let inputs: Vec<&str> = inputs.split(',').collect();
        if inputs.len() != operands.len() {
            return None;
        }
        let ranked = inputs.iter().zip(&operands).map(|(t, &v)| labels(t, module.ty(v).dims().len()));
        Some((ranked.collect::<Option<Vec<_>>>()?, labels(output, result.dims().len())?))
    };
    let Some((inputs, output)) = parsed() else { return false };
    // Diagonals and dimensions that only one operand has and nobody wants are not products.
    let own = |list: &[char]| (0..list.len()).all(|i| !list[..i].contains(&list[i]));
    let wanted = |i: usize| {
        let others = inputs.iter().enumerate().filter(move |(j, _)| *j != i).flat_map(|(_, l)| l);
        let others: Vec<char> = others.copied().collect();
        inputs[i].iter().all(|c| output.contains(c) || others.contains(c))
    };
    if !inputs.iter().all(|l| own(l)) || inputs.len() > 2 {
        return false;
    }
    let Some(elem) = result.elem() else { return false };
    replace(module, op, |b| {
        let (value, have) = match (&inputs[..], &operands[..]) {
            ([a], &[x]) => summed(b, x, a, &output)?,
            ([a, c], &[x, y]) if wanted(0) && wanted(1) => {
                let place = |list: &[char], label: char| list.iter().position(|&l| l == label).map(|i| i as i64);
                let mut dims = DotDims::default();
                let mut have = vec![];
                for (i, &label) in a.iter().enumerate() {
                    let Some(j) = place(c, label) else { continue };
                    let (lhs, rhs) = match output.contains(&label) {
                        true => {
                            have.push(label);
                            (&mut dims.lhs_batch, &mut dims.rhs_batch)
                        }
                        false => (&mut dims.lhs_contract, &mut dims.rhs_contract),
                    };
                    lhs.push(i as i64);
                    rhs.push(j);
                }
                have.extend(a.iter().filter(|l| !c.contains(l)));
                have.extend(c.iter().filter(|l| !a.contains(l)));
                (dot(b, x, y, dims, elem)?, have)
            }
            _ => return Ok(None),
        };
        let order: Option<Vec<i64>> =
            output.iter().map(|l| have.iter().position(|h| h == l).map(|i| i as i64)).collect();
        match order {
            Some(order) if order.len() == have.len() => Ok(Some(vec![b.transpose(value, &order)?])),
            _ => Ok(None),
        }
    })
}

/// `x` summed over the labels that `output` lacks, and the labels that are left.
fn summed(
    b: &mut Builder<'_>,
    x: ValueId,
    labels: &[char],
    output: &[char],
) -> Result<(ValueId, Vec<char>), BuildError> {
    let gone: Vec<i64> = (0..labels.len()).filter(|&i| !output.contains(&labels[i])).map(|i| i as i64).collect();
    let kept = labels.iter().copied().filter(|l| output.contains(l)).collect();
    if gone.is_empty() {
        return Ok((x, kept));
    }
    // Narrow floats are rounded once.
    let elem = b.ty(x).elem().unwrap_or(ElementType::F32);
    let wide = if elem.is_float() && elem.bits() < 32 { ElementType::F32 } else { elem };
    let x = if wide == elem { x } else { b.convert(x, wide)? };
    let zero = b.scalar(wide, 0.0)?;
    let sum = b.reduce_by(OpKind::Binary(BinaryOp::Add), x, zero, &gone)?;
    Ok((if wide == elem { sum } else { b.convert(sum, elem)? }, kept))
}

fn dot(
    b: &mut Builder<'_>,
    lhs: ValueId,
    rhs: ValueId,
    dims: DotDims,
    elem: ElementType,
) -> Result<ValueId, BuildError> {
    let (x, y) = (b.ty(lhs).dims().to_vec(), b.ty(rhs).dims().to_vec());
    let free = |n: usize, batch: &[i64], over: &[i64]| -> Vec<usize> {
        (0..n).filter(|&d| !batch.contains(&(d as i64)) && !over.contains(&(d as i64))).collect()
    };
    let shape: Vec<i64> = dims
        .lhs_batch
        .iter()
        .map(|&d| x[d as usize])
        .chain(free(x.len(), &dims.lhs_batch, &dims.lhs_contract).into_iter().map(|d| x[d]))
        .chain(free(y.len(), &dims.rhs_batch, &dims.rhs_contract).into_iter().map(|d| y[d]))
        .collect();
    let spec = OpSpec::new(OpKind::Contract(ContractOp::DotGeneral))
        .operands([lhs, rhs])
        .results([Type::tensor(shape, elem)])
        .attr("dot_dimension_numbers", Attr::Dot(dims.into()));
    b.value(spec)
}

/// More groups are left alone: each is a product of all rows.
const MOST_GROUPS: i64 = 256;

pub(super) fn ragged(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let &[lhs, rhs, sizes] = data.operands() else { return false };
    let Some(Attr::Opaque(text)) = data.attr("ragged_dot_dimension_numbers") else { return false };
    let list = |name: &str| -> Option<Vec<i64>> {
        let Some((_, rest)) = text.split_once(name) else { return Some(vec![]) };
        let inside = rest.split_once('[')?.1.split_once(']')?.0;
        inside.split(',').map(str::trim).filter(|n| !n.is_empty()).map(|n| n.parse().ok()).collect()
    };
    let numbers = || {
        let dot = DotDims {
            lhs_batch: list("lhs_batching_dimensions")?,
            rhs_batch: list("rhs_batching_dimensions")?,
            lhs_contract: list("lhs_contracting_dimensions")?,
            rhs_contract: list("rhs_contracting_dimensions")?,
        };
        Some((dot, *list("lhs_ragged_dimensions")?.first()?, list("rhs_group_dimensions")?.first().copied()))
    };
    let Some((dims, ragged, group)) = numbers() else { return false };
    let result = module.ty(data.results()[0]).clone();
    let (Some(elem), Some(index)) = (result.elem(), module.ty(sizes).elem()) else { return false };
    if dims.lhs_batch.contains(&ragged) {
        return replace(module, op, |b| Ok(Some(vec![dot(b, lhs, rhs, dims, elem)?])));
    }
    let &[groups] = module.ty(sizes).dims() else { return false };
    if groups > MOST_GROUPS {
        return false;
    }
    let contracted = dims.lhs_contract.iter().position(|&d| d == ragged);
    replace(module, op, |b| {
        let mut start = b.scalar(index, 0.0)?;
        let mut parts = vec![];
        let mut out = b.splat(result.dims().to_vec(), elem, 0.0)?;
        for g in 0..groups {
            let size = b.slice(sizes, &[g], &[g + 1], &[1])?;
            let size = b.reshape(size, [])?;
            let end = b.add(start, size)?;
            if contracted.is_some() {
                let rows = inside(b, b.ty(lhs).clone(), ragged, start, end, index)?;
                let zeros = b.splat(b.ty(lhs).dims().to_vec(), b.ty(lhs).elem().unwrap_or(elem), 0.0)?;
                let rows = b.select(rows, lhs, zeros)?;
                let product = dot(b, rows, rhs, dims.clone(), elem)?;
                let shape: Vec<i64> = std::iter::once(1).chain(b.ty(product).dims().iter().copied()).collect();
                parts.push(b.reshape(product, shape)?);
            } else {
                let (matrix, numbers) = matrix(b, rhs, &dims, group, g)?;
                let product = dot(b, lhs, matrix, numbers, elem)?;
                let free = (0..ragged).filter(|d| !dims.lhs_batch.contains(d) && !dims.lhs_contract.contains(d));
                let along = (dims.lhs_batch.len() + free.count()) as i64;
                let rows = inside(b, b.ty(product).clone(), along, start, end, index)?;
                out = b.select(rows, product, out)?;
            }
            start = end;
        }
        if contracted.is_some() && groups > 0 {
            out = b.concatenate(&parts, 0)?;
        }
        Ok(Some(vec![out]))
    })
}

/// Which elements of a tensor of type `ty` are from `start` to `end` along `dim`.
fn inside(
    b: &mut Builder<'_>,
    ty: Type,
    dim: i64,
    start: ValueId,
    end: ValueId,
    index: ElementType,
) -> Result<ValueId, BuildError> {
    let ty = Type::tensor(ty.dims().to_vec(), index);
    let at = b.iota(ty.clone(), dim)?;
    let (start, end) = (b.broadcast_as(start, ty.clone(), &[])?, b.broadcast_as(end, ty, &[])?);
    let (from, to) = (b.compare(Direction::Ge, at, start)?, b.compare(Direction::Lt, at, end)?);
    b.and(from, to)
}

/// The matrix of group `g`, and the dimension numbers without the dimension of groups.
fn matrix(
    b: &mut Builder<'_>,
    rhs: ValueId,
    dims: &DotDims,
    group: Option<i64>,
    g: i64,
) -> Result<(ValueId, DotDims), BuildError> {
    let Some(dim) = group else { return Ok((rhs, dims.clone())) };
    let shape = b.ty(rhs).dims().to_vec();
    let (mut low, mut high) = (vec![0; shape.len()], shape.clone());
    (low[dim as usize], high[dim as usize]) = (g, g + 1);
    let one = b.slice(rhs, &low, &high, &vec![1; shape.len()])?;
    let mut rest = shape;
    rest.remove(dim as usize);
    let lowered = |list: &[i64]| list.iter().map(|&d| if d > dim { d - 1 } else { d }).collect();
    let numbers =
        DotDims { rhs_batch: lowered(&dims.rhs_batch), rhs_contract: lowered(&dims.rhs_contract), ..dims.clone() };
    Ok((b.reshape(one, rest)?, numbers))
}

/// A product of operands and result of different kinds, such as integers to floats, is one of the widest kind.
pub(super) fn mixed(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[lhs, rhs], &[result]) = (data.operands(), data.results()) else { return false };
    let types = [lhs, rhs, result].map(|v| module.ty(v).elem());
    let [Some(a), Some(b), Some(r)] = types else { return false };
    let all = [a, b, r];
    let is_double =
        |e: ElementType| matches!(e, ElementType::F64 | ElementType::C128) || (e.is_integer() && e.bits() > 16);
    let double = all.into_iter().any(is_double);
    let of = if all.iter().any(|e| e.is_complex()) {
        if all.iter().all(|&e| e == r) {
            return false;
        }
        if double { ElementType::C128 } else { ElementType::C64 }
    } else if all.iter().any(|e| e.is_float()) && !all.iter().all(|e| e.is_float()) {
        if double { ElementType::F64 } else { ElementType::F32 }
    } else {
        return false;
    };
    replace(module, op, |b| {
        let (lhs, rhs) = (b.convert(lhs, of)?, b.convert(rhs, of)?);
        let data = b.module().op(op);
        let ty = Type::tensor(b.ty(result).dims().to_vec(), of);
        let mut spec = OpSpec::new(data.kind()).operands([lhs, rhs]).results([ty]);
        spec.attrs = data.attrs.clone();
        spec.attrs.remove("algorithm");
        let product = b.value(spec)?;
        Ok(Some(vec![b.convert(product, r)?]))
    })
}

/// Linear algebra on floats of less than 32 bits is done in `f32`.
pub(super) fn widened(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let operands = data.operands().to_vec();
    let &[result] = data.results() else { return false };
    let Some(elem) = module.ty(result).elem().filter(|e| e.is_float() && e.bits() < 32) else { return false };
    replace(module, op, |b| {
        let mut wide = vec![];
        for v in operands {
            wide.push(b.convert(v, ElementType::F32)?);
        }
        let data = b.module().op(op);
        let ty = Type::tensor(b.ty(result).dims().to_vec(), ElementType::F32);
        let mut spec = OpSpec::new(data.kind()).operands(wide).results([ty]);
        spec.attrs = data.attrs.clone();
        let done = b.value(spec)?;
        Ok(Some(vec![b.convert(done, elem)?]))
    })
}
