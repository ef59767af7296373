//! Putting one operation in the place of a phase: its regions do the same to one strip.

use meshwork_ir::attr::DotDims;
use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BinaryOp, ContractOp, MixedOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{
    Attr, BlockId, Dense, ElementType, Module, OpId, OpKind, OpSpec, TensorType, Type, ValueId, ValueMap,
};

use super::find::{Component, is_product};
use super::height::height;
use super::labels::{Carried, Labels, dot_dims, from_result};
use super::phases::Phase;
use super::pull::pulled;
use super::{Argument, Limits, Output, Strips};
use crate::compile::captured;

/// Replaces `phase` by one operation; `None` if that gains nothing.
pub(super) fn phase(
    module: &mut Module,
    component: &Component,
    phase: &Phase,
    limits: &Limits,
) -> Option<(OpId, Strips)> {
    let outputs: Vec<ValueId> = own_ops(phase)
        .map(|op| module.op(op).results()[0])
        .filter(|&v| module.value(v).uses().iter().any(|u| !phase.own.contains(&u.op)))
        .collect();
    let products = phase.ops.iter().filter(|&&op| is_product(module, op)).count();
    let (first, last) = (own_ops(phase).next()?, own_ops(phase).last()?);
    if products < 2 || outputs.is_empty() {
        return None;
    }
    let axes = &component.axes;
    let rows: i64 = axes.extents[axes.stack..].iter().product();
    let size = phase.ops.iter().map(|&op| size_of(module, module.op(op).results()[0])).max().unwrap_or(4);
    let extent = axes.extents[axes.last()];
    let height = height(extent, component.matrix / rows * size, limits);
    let types: Vec<Type> = outputs.iter().map(|&v| module.ty(v).clone()).collect();
    let spec = OpSpec::new(OpKind::Sdy(SdyOp::NamedComputation)).results(types).loc(module.op(last).loc.clone());
    let op = module.push_after(last, spec);
    let mut heights = vec![height];
    heights.extend(Some(extent % height).filter(|&rest| rest > 0));
    let mut found: Option<(Vec<ValueId>, Vec<Argument>)> = None;
    for height in heights {
        let block = module.add_body(op, []);
        let mut extents = vec![1; axes.extents.len()];
        extents[axes.last()] = height;
        let mut region = Region {
            module: &mut *module,
            component,
            block,
            extents,
            values: HashMap::default(),
            operands: vec![],
            arguments: vec![],
        };
        region.fill(phase, &outputs);
        let Region { operands, arguments, .. } = region;
        debug_assert!(found.as_ref().is_none_or(|f| *f == (operands.clone(), arguments.clone())));
        found = Some((operands, arguments));
    }
    let (operands, arguments) = found?;
    module.set_operands(op, operands);
    move_readers(module, phase, (first, op));
    let mut described = vec![];
    for (i, &old) in outputs.iter().enumerate() {
        let new = module.op(op).results()[i];
        module.replace_uses_if(old, new, |_, u| !phase.own.contains(&u.op));
        let carried = module.def_op(old).and_then(|d| component.members.get(&d))?;
        described.push(Output { labels: carried.result.clone(), sums: carried.sums });
    }
    let own: Vec<OpId> = own_ops(phase).collect();
    own.into_iter().rev().for_each(|op| module.erase(op));
    Some((op, Strips { axes: axes.clone(), height, arguments, outputs: described }))
}

fn own_ops(phase: &Phase) -> impl Iterator<Item = OpId> + '_ {
    phase.ops.iter().copied().filter(|op| phase.own.contains(op))
}

fn size_of(module: &Module, value: ValueId) -> i64 {
    module.ty(value).elem().map_or(1, |e| e.storage_bytes() as i64)
}

/// Moves what stands between `first` and `op` and reads what the phase computes behind `op`.
fn move_readers(module: &mut Module, phase: &Phase, (first, op): (OpId, OpId)) {
    let mut late: HashSet<ValueId> = own_ops(phase).map(|op| module.op(op).results()[0]).collect();
    let (mut at, mut moved) = (Some(first), vec![]);
    while let Some(next) = at.filter(|&next| next != op) {
        at = module.next_op(next);
        if phase.own.contains(&next) {
            continue;
        }
        let data = module.op(next);
        let reads = data.operands().iter().any(|v| late.contains(v))
            || (!data.regions().is_empty() && captured(module, next).iter().any(|v| late.contains(v)));
        if reads {
            late.extend(data.results());
            moved.push(next);
        }
    }
    let mut after = op;
    for next in moved {
        module.detach(next);
        module.insert_after(after, next);
        after = next;
    }
}

/// A region while it is filled.
struct Region<'a> {
    module: &'a mut Module,
    component: &'a Component,
    block: BlockId,
    /// Extent of each axis in it.
    extents: Vec<i64>,
    values: HashMap<(ValueId, Labels), ValueId>,
    operands: Vec<ValueId>,
    arguments: Vec<Argument>,
}

impl Region<'_> {
    fn fill(&mut self, phase: &Phase, outputs: &[ValueId]) {
        let here: HashSet<OpId> = phase.ops.iter().copied().collect();
        for &op in &phase.ops {
            let Some(carried) = self.component.members.get(&op) else { continue };
            let operands = self.module.op(op).operands().to_vec();
            let mut mapped = vec![];
            for (v, labels) in operands.into_iter().zip(&carried.operands) {
                let inside = self.module.def_op(v).is_some_and(|d| here.contains(&d));
                let known = self.values.get(&(v, labels.clone())).filter(|_| inside).copied();
                mapped.push(known.unwrap_or_else(|| self.leaf(v, labels)));
            }
            let copy = match self.swapped(op, &mapped, carried) {
                Some(swapped) => swapped,
                None => self.copy(op, mapped, &carried.result),
            };
            let elem = self.module.ty(copy).elem();
            if carried.sums && matches!(elem, Some(ElementType::BF16 | ElementType::F16)) {
                // The strips are added before they are rounded.
                let dims = self.module.ty(copy).dims().to_vec();
                self.module.set_ty(copy, Type::tensor(dims, ElementType::F32));
            }
            let result = self.module.op(op).results()[0];
            self.values.insert((result, carried.result.clone()), copy);
        }
        let of = |v: &ValueId| {
            let carried = self.module.def_op(*v).and_then(|op| self.component.members.get(&op))?;
            self.values.get(&(*v, carried.result.clone())).copied()
        };
        let returned: Vec<ValueId> = outputs.iter().filter_map(of).collect();
        self.module.push(self.block, OpSpec::new(OpKind::Sdy(SdyOp::Return)).operands(returned));
    }

    /// The type of a part of `value`.
    fn part(&self, value: ValueId, labels: &Labels) -> Type {
        let ty = self.module.ty(value);
        let dims = ty.dims().iter().zip(labels).map(|(&n, label)| label.map_or(n, |a| self.extents[usize::from(a)]));
        Type::tensor(dims, ty.elem().unwrap_or(ElementType::F32))
    }

    /// A copy of `op` for parts.
    fn copy(&mut self, op: OpId, operands: Vec<ValueId>, labels: &Labels) -> ValueId {
        let ty = self.part(self.module.op(op).results()[0], labels);
        let copy = self.module.clone_op(op, &mut ValueMap::default());
        self.module.set_operands(copy, operands);
        self.module.append(self.block, copy);
        let result = self.module.result(copy);
        self.module.set_ty(result, ty);
        result
    }

    /// A product whose right operand has the rows, as one whose left operand has them: what all strips read is then on the
    /// right, where it is packed once.
    fn swapped(&mut self, op: OpId, operands: &[ValueId], carried: &Carried) -> Option<ValueId> {
        let stack = self.component.axes.stack;
        let has_rows = |labels: &Labels| labels.iter().flatten().any(|&a| usize::from(a) >= stack);
        let dims = dot_dims(self.module, op).filter(|_| !has_rows(&carried.operands[0]))?;
        let &[lhs, rhs] = operands else { return None };
        let ty = self.part(self.module.op(op).results()[0], &carried.result);
        let batch = dims.lhs_batch.len();
        let left = self.module.ty(lhs).dims().len() - batch - dims.lhs_contract.len();
        let rank = ty.dims().len();
        // Dimensions of the result in the order in which the swapped product has them.
        let order: Vec<usize> = (0..batch).chain(batch + left..rank).chain(batch..batch + left).collect();
        let swapped = Type::tensor(order.iter().map(|&d| ty.dims()[d]), ty.elem()?);
        let back = (0..rank).filter_map(|d| order.iter().position(|&o| o == d)).map(|d| d as i64);
        let back: Vec<i64> = back.collect();
        let dims = DotDims {
            lhs_batch: dims.rhs_batch,
            rhs_batch: dims.lhs_batch,
            lhs_contract: dims.rhs_contract,
            rhs_contract: dims.lhs_contract,
        };
        let dims = Some(("dot_dimension_numbers", Attr::Dot(dims.into())));
        let product = self.push(OpKind::Contract(ContractOp::DotGeneral), vec![rhs, lhs], swapped, dims);
        let back = Some(("permutation", Attr::i64s(back)));
        Some(self.push(OpKind::Movement(MovementOp::Transpose), vec![product], ty, back))
    }

    /// A value from outside: computed here if that is cheap, else an argument.
    fn leaf(&mut self, value: ValueId, labels: &Labels) -> ValueId {
        let key = (value, labels.clone());
        if let Some(&known) = self.values.get(&key) {
            return known;
        }
        let made = match pulled(self.module, self.component, value, labels) {
            Some(op) => self.pull(op, value, labels),
            None => None,
        };
        let made = made.unwrap_or_else(|| {
            let ty = self.part(value, labels);
            self.operands.push(value);
            self.arguments.push(Argument::Part(labels.clone()));
            self.module.add_block_arg(self.block, ty)
        });
        self.values.insert(key, made);
        made
    }

    fn pull(&mut self, op: OpId, value: ValueId, labels: &Labels) -> Option<ValueId> {
        match self.module.op(op).kind() {
            OpKind::Source(SourceOp::Constant) => {
                let Some(Attr::Dense(dense)) = self.module.op(op).attr("value") else { return None };
                let bytes = dense.splat_bytes()?.to_vec();
                let ty = self.part(value, labels);
                let shape = TensorType::new(ty.dims().iter().copied(), ty.elem()?);
                let dense = Dense::splat(shape.into(), &bytes);
                let spec = OpSpec::new(OpKind::Source(SourceOp::Constant)).results([ty]);
                let copy = self.module.push(self.block, spec.attr("value", Attr::Dense(dense.into())));
                Some(self.module.result(copy))
            }
            OpKind::Source(SourceOp::Iota) => {
                let along = self.module.op(op).int("iota_dimension")? as usize;
                let counted = self.copy(op, vec![], labels);
                match labels.get(along).copied().flatten() {
                    None => Some(counted),
                    Some(axis) => Some(self.counted_from(counted, axis)),
                }
            }
            _ => {
                let carried = from_result(self.module, op, labels)?;
                let operands = self.module.op(op).operands().to_vec();
                let mapped = operands.into_iter().zip(&carried.operands).map(|(v, l)| self.leaf(v, l)).collect();
                Some(self.copy(op, mapped, labels))
            }
        }
    }

    /// `value` plus where the strip begins along `axis`.
    fn counted_from(&mut self, value: ValueId, axis: u8) -> ValueId {
        let ty = self.module.ty(value).clone();
        let position = Argument::Position(axis);
        let index = self.arguments.iter().position(|a| *a == position);
        let start = match index {
            Some(i) => self.module.block(self.block).args()[i],
            None => {
                self.arguments.push(position);
                self.module.add_block_arg(self.block, Type::tensor([], ElementType::I32))
            }
        };
        let scalar = Type::tensor([], ty.elem().unwrap_or(ElementType::I32));
        let start = self.push(OpKind::Mixed(MixedOp::Convert), vec![start], scalar, None);
        let spread = Some(("broadcast_dimensions", Attr::i64s([])));
        let start = self.push(OpKind::Movement(MovementOp::BroadcastInDim), vec![start], ty.clone(), spread);
        self.push(OpKind::Binary(BinaryOp::Add), vec![value, start], ty, None)
    }

    fn push(&mut self, kind: OpKind, operands: Vec<ValueId>, ty: Type, attr: Option<(&'static str, Attr)>) -> ValueId {
        let mut spec = OpSpec::new(kind).operands(operands).results([ty]);
        if let Some((name, value)) = attr {
            spec = spec.attr(name, value);
        }
        let op = self.module.push(self.block, spec);
        self.module.result(op)
    }
}
