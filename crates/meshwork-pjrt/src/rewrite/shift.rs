//! Element-wise work on parts of arrays as the same work on whole arrays.
//!
//! A part of `n` elements that starts at `s` of an array is the array shifted by `s`, of which `n` elements count. So what is
//! computed from parts can be computed from shifted arrays, with elements around it that nobody looks at.

use std::collections::HashMap;

use meshwork_ir::build::{BuildError, Builder, Direction};
use meshwork_ir::op::{MovementOp, SourceOp};
use meshwork_ir::{Attr, BlockId, ElementType, Module, OpId, OpKind, OpSpec, Type, ValueId};

/// Operations of an expression that is moved as a whole.
const MOST_OPS: usize = 256;

/// How far an array grows, per dimension.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    pub low: Vec<i64>,
    pub high: Vec<i64>,
}

impl Growth {
    fn grown(&self, dims: &[i64]) -> Vec<i64> {
        dims.iter().zip(self.low.iter().zip(&self.high)).map(|(n, (l, h))| n + l + h).collect()
    }
}

/// What an operand of element-wise work is made of.
enum Part {
    /// Element-wise work in the same block.
    Work(OpId),
    /// Elements of an array, from these on. Those outside of the array are the given number, if they count.
    Shifted(ValueId, Vec<i64>, Option<ValueId>),
    /// The same number everywhere: a scalar.
    Scalar(ValueId),
    /// Constants of one number.
    Splat(OpId),
    /// The index along a dimension.
    Index(i64),
    /// Anything else.
    Whole,
}

fn part_of(module: &Module, block: BlockId, value: ValueId) -> Part {
    let Some(op) = module.def_op(value) else { return Part::Whole };
    let data = module.op(op);
    match data.kind() {
        OpKind::Movement(MovementOp::Slice) => {
            let strides = data.i64s("strides").unwrap_or_default();
            match data.i64s("start_indices") {
                Some(starts) if strides.iter().all(|&s| s == 1) => Part::Shifted(data.operands()[0], starts, None),
                _ => Part::Whole,
            }
        }
        OpKind::Movement(MovementOp::Pad) => {
            let interior = data.i64s("interior_padding").unwrap_or_default();
            match data.i64s("edge_padding_low") {
                Some(low) if interior.iter().all(|&i| i == 0) => {
                    Part::Shifted(data.operands()[0], low.iter().map(|l| -l).collect(), Some(data.operands()[1]))
                }
                _ => Part::Whole,
            }
        }
        OpKind::Movement(MovementOp::BroadcastInDim) if module.ty(data.operands()[0]).dims().is_empty() => {
            Part::Scalar(data.operands()[0])
        }
        OpKind::Source(SourceOp::Constant) => match data.attr("value") {
            Some(Attr::Dense(dense)) if dense.splat_bytes().is_some() => Part::Splat(op),
            _ => Part::Whole,
        },
        OpKind::Source(SourceOp::Iota) => data.int("iota_dimension").map_or(Part::Whole, Part::Index),
        kind if kind.is_elementwise() && data.parent() == Some(block) && data.results().len() == 1 => Part::Work(op),
        _ => Part::Whole,
    }
}

/// Whether `value`, at `op`, is element-wise work on parts of arrays that are at least as large as `value` is to become.
pub(super) fn is_work_on_parts(module: &Module, op: OpId, value: ValueId, growth: &Growth) -> bool {
    let Some(block) = module.op(op).parent() else { return false };
    let dims = module.ty(value).dims();
    let total = growth.grown(dims);
    if !matches!(part_of(module, block, value), Part::Work(_)) {
        return false;
    }
    let (mut todo, mut seen, mut has_part) = (vec![value], HashMap::new(), false);
    while let Some(v) = todo.pop() {
        if module.ty(v).dims().is_empty() || seen.insert(v, ()).is_some() {
            continue;
        }
        if module.ty(v).dims() != dims || seen.len() > MOST_OPS {
            return false;
        }
        match part_of(module, block, v) {
            Part::Work(work) => todo.extend(module.op(work).operands()),
            Part::Shifted(x, ..) => has_part |= module.ty(x).dims().iter().zip(&total).all(|(n, t)| n >= t),
            _ => {}
        }
    }
    has_part
}

/// `value` with elements around it that do not count, made before `op`.
pub(super) fn grow(module: &mut Module, op: OpId, value: ValueId, growth: &Growth) -> Result<ValueId, BuildError> {
    let Some(block) = module.op(op).parent() else { return Ok(value) };
    let total = growth.grown(module.ty(value).dims());
    let mut done = HashMap::new();
    let mut todo = vec![value];
    // Operands first.
    while let Some(&v) = todo.last() {
        if done.contains_key(&v) || module.ty(v).dims().is_empty() {
            todo.pop();
            continue;
        }
        if let Part::Work(work) = part_of(module, block, v) {
            let missing = |&x: &ValueId| !done.contains_key(&x) && !module.ty(x).dims().is_empty();
            let missing: Vec<ValueId> = module.op(work).operands().iter().copied().filter(missing).collect();
            if !missing.is_empty() {
                todo.extend(missing);
                continue;
            }
        }
        let grown = grow_one(module, op, block, v, growth, &total, &done)?;
        done.insert(v, grown);
        todo.pop();
    }
    Ok(done.get(&value).copied().unwrap_or(value))
}

fn grow_one(
    module: &mut Module,
    op: OpId,
    block: BlockId,
    value: ValueId,
    growth: &Growth,
    total: &[i64],
    done: &HashMap<ValueId, ValueId>,
) -> Result<ValueId, BuildError> {
    let part = part_of(module, block, value);
    let elem = module.ty(value).elem().unwrap_or(ElementType::F32);
    let ty = Type::tensor(total.iter().copied(), elem);
    let mut b = Builder::before(module, op);
    match part {
        Part::Work(work) => {
            let data = b.module().op(work).clone();
            let operands = data.operands().iter().map(|v| done.get(v).copied().unwrap_or(*v));
            let mut spec = OpSpec::new(data.kind()).operands(operands).results([ty]);
            spec.attrs = data.attrs.clone();
            b.value(spec)
        }
        Part::Shifted(x, starts, fill) => {
            let low: Vec<i64> = growth.low.iter().zip(&starts).map(|(l, s)| l - s).collect();
            let dims = b.ty(x).dims().to_vec();
            let high: Vec<i64> = (0..dims.len()).map(|d| total[d] - dims[d] - low[d]).collect();
            if low.iter().chain(&high).all(|&n| n == 0) {
                return Ok(x);
            }
            let fill = match fill {
                Some(fill) => fill,
                None => b.splat([], elem, 0.0)?,
            };
            b.pad(x, fill, &low, &high, &vec![0; dims.len()])
        }
        Part::Scalar(x) => b.broadcast_as(x, ty, &[]),
        Part::Splat(constant) => {
            let bytes = match b.module().op(constant).attr("value") {
                Some(Attr::Dense(dense)) => dense.splat_bytes().map(<[u8]>::to_vec).unwrap_or_default(),
                _ => vec![],
            };
            b.splat_bytes(total, elem, &bytes)
        }
        Part::Index(dim) if growth.low[dim as usize] == 0 => b.iota(ty, dim),
        Part::Index(_) | Part::Whole => {
            let zero = b.splat([], elem, 0.0)?;
            b.pad(value, zero, &growth.low, &growth.high, &vec![0; total.len()])
        }
    }
}

/// Where an array of extents `dims` that grows by `growth` ends up in the result: true there, false around it.
pub(super) fn mask(b: &mut Builder<'_>, dims: &[i64], growth: &Growth) -> Result<Option<ValueId>, BuildError> {
    let total = growth.grown(dims);
    let ty = Type::tensor(total.iter().copied(), ElementType::I32);
    let mut mask = None;
    for (dim, &extent) in dims.iter().enumerate() {
        let (low, high) = (growth.low[dim], growth.high[dim]);
        if low == 0 && high == 0 {
            continue;
        }
        let index = b.iota(ty.clone(), dim as i64)?;
        let bounds = [(Direction::Ge, low, low > 0), (Direction::Lt, low + extent, high > 0)];
        for (direction, bound, _) in bounds.into_iter().filter(|b| b.2) {
            let bound = b.splat(total.iter().copied(), ElementType::I32, bound as f64)?;
            let test = b.compare(direction, index, bound)?;
            mask = Some(match mask {
                Some(mask) => b.and(mask, test)?,
                None => test,
            });
        }
    }
    Ok(mask)
}
