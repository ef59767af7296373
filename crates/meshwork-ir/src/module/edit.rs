//! Building and changing a module: create, insert, move, erase, redirect uses.

use smallvec::SmallVec;

use super::context::TypeIds;
use super::*;
use crate::hash::HashSet;
use crate::op::ControlOp;

impl Module {
    /// Creates a detached operation; insert it with [`append`](Module::append) or
    /// [`insert_before`](Module::insert_before).
    pub fn create(&mut self, spec: OpSpec) -> OpId {
        let types: TypeIds = spec.result_types.into_iter().map(|ty| self.context.intern(ty)).collect();
        let op = self.add_op(spec.kind, &spec.operands, &types, spec.attrs, spec.loc, spec.pos);
        if spec.kind == OpKind::Unregistered {
            self.ops[op.index()].name = Some(Box::new(spec.name));
        }
        op
    }

    /// Creates a detached operation of a registered kind.
    #[inline(always)]
    pub(crate) fn add_op(
        &mut self,
        kind: OpKind,
        operands: &[ValueId],
        types: &[TypeId],
        attrs: AttrDict,
        loc: Loc,
        pos: TextPos,
    ) -> OpId {
        let id = OpId::at(self.ops.len());
        let (mut own, mut results) = (Values::new(), Values::new());
        for (i, &v) in operands.iter().enumerate() {
            self.values[v.index()].uses.push(Use { op: id, operand: i as u32 });
            own.push(v);
        }
        match types {
            // Nearly always.
            &[ty] => results.push(self.new_value(ty, Def::Result(id, 0))),
            types => {
                for (i, &ty) in types.iter().enumerate() {
                    results.push(self.new_value(ty, Def::Result(id, i as u32)));
                }
            }
        }
        self.ops.push(Op {
            kind,
            name: None,
            operands: own,
            results,
            attrs,
            regions: SmallVec::new(),
            loc,
            pos,
            parent: None,
            prev: None,
            next: None,
            erased: false,
        });
        id
    }

    /// Makes room for `count` more operations of one result.
    pub fn reserve_ops(&mut self, count: usize) {
        self.ops.reserve(count);
        self.values.reserve(count);
    }

    /// Adds results of these types to `op`, which has none.
    pub(crate) fn add_results(&mut self, op: OpId, types: impl IntoIterator<Item = Type>) {
        debug_assert!(self.op(op).results.is_empty(), "an op gets its results once");
        for ty in types {
            self.add_result(op, ty);
        }
    }

    /// Creates an operation at the end of `block`.
    pub fn push(&mut self, block: BlockId, spec: OpSpec) -> OpId {
        let op = self.create(spec);
        self.append(block, op);
        op
    }

    /// Creates an operation just before `anchor`.
    pub fn push_before(&mut self, anchor: OpId, spec: OpSpec) -> OpId {
        let op = self.create(spec);
        self.insert_before(anchor, op);
        op
    }

    /// Creates an operation just after `anchor`.
    pub fn push_after(&mut self, anchor: OpId, spec: OpSpec) -> OpId {
        let op = self.create(spec);
        self.insert_after(anchor, op);
        op
    }

    /// Makes `op` one of another kind, with the same operands, results and attributes.
    pub fn set_kind(&mut self, op: OpId, kind: impl Into<OpKind>) {
        let data = &mut self.ops[op.index()];
        (data.kind, data.name) = (kind.into(), None);
    }

    /// The only result of `op`. Panics if it has none: for ops the caller has just built.
    #[inline]
    pub fn result(&self, op: OpId) -> ValueId {
        self.op(op).results[0]
    }

    /// Adds a result to `op`: for operations whose result types follow from their bodies.
    pub fn add_result(&mut self, op: OpId, ty: Type) -> ValueId {
        let ty = self.context.intern(ty);
        self.add_result_typed(op, ty)
    }

    /// Adds a result to `op`.
    pub(crate) fn add_result_typed(&mut self, op: OpId, ty: TypeId) -> ValueId {
        let value = self.new_value(ty, Def::Result(op, self.op(op).results.len() as u32));
        self.ops[op.index()].results.push(value);
        value
    }

    fn new_value(&mut self, ty: TypeId, def: Def) -> ValueId {
        let id = ValueId::at(self.values.len());
        self.values.push(Value { ty, def, uses: SmallVec::new() });
        id
    }

    /// Adds a region to `op`.
    pub fn add_region(&mut self, op: OpId) -> RegionId {
        let id = RegionId::at(self.regions.len());
        self.regions.push(Region { blocks: SmallVec::new(), parent: op });
        self.ops[op.index()].regions.push(id);
        id
    }

    /// Adds a block with arguments of these types to `region`.
    pub fn add_block(&mut self, region: RegionId, arg_types: impl IntoIterator<Item = Type>) -> BlockId {
        let id = self.add_empty_block(region);
        let arg_types = arg_types.into_iter();
        self.blocks[id.index()].args.reserve(arg_types.size_hint().0);
        for ty in arg_types {
            self.add_block_arg(id, ty);
        }
        id
    }

    fn add_empty_block(&mut self, region: RegionId) -> BlockId {
        let id = BlockId::at(self.blocks.len());
        self.blocks.push(Block {
            args: SmallVec::new(),
            first: None,
            last: None,
            parent: Some(region),
            arg_locs: vec![],
        });
        self.regions[region.index()].blocks.push(id);
        id
    }

    /// Adds a block with arguments of these types to `region`.
    pub(crate) fn add_block_typed(&mut self, region: RegionId, arg_types: &[TypeId]) -> BlockId {
        let block = self.add_empty_block(region);
        for &ty in arg_types {
            self.add_arg_typed(block, ty);
        }
        block
    }

    /// Adds a region with one block to `op`.
    pub fn add_body(&mut self, op: OpId, arg_types: impl IntoIterator<Item = Type>) -> BlockId {
        let region = self.add_region(op);
        self.add_block(region, arg_types)
    }

    /// Adds an argument to `block`.
    pub fn add_block_arg(&mut self, block: BlockId, ty: Type) -> ValueId {
        let ty = self.context.intern(ty);
        self.add_arg_typed(block, ty)
    }

    fn add_arg_typed(&mut self, block: BlockId, ty: TypeId) -> ValueId {
        let index = self.block(block).args.len() as u32;
        let value = self.new_value(ty, Def::Arg(block, index));
        self.blocks[block.index()].args.push(value);
        value
    }

    /// Removes argument `index` of `block`, which must be unused.
    pub fn remove_block_arg(&mut self, block: BlockId, index: usize) {
        let value = self.blocks[block.index()].args.remove(index);
        debug_assert!(self.value(value).uses.is_empty(), "a removed argument must have no uses");
        let rest: Vec<ValueId> = self.block(block).args[index..].to_vec();
        for (i, v) in rest.into_iter().enumerate() {
            self.values[v.index()].def = Def::Arg(block, (index + i) as u32);
        }
        let locs = &mut self.blocks[block.index()].arg_locs;
        if index < locs.len() {
            locs.remove(index);
        }
    }

    /// The block, to change its argument locations.
    pub fn block_mut(&mut self, block: BlockId) -> &mut Block {
        &mut self.blocks[block.index()]
    }

    /// Inserts a detached `op` at the end of `block`.
    #[inline]
    pub fn append(&mut self, block: BlockId, op: OpId) {
        debug_assert!(self.op(op).parent.is_none(), "op is already in a block");
        let last = self.block(block).last;
        self.link(block, last, op, None);
    }

    /// Inserts a detached `op` at the start of `block`.
    pub fn prepend(&mut self, block: BlockId, op: OpId) {
        let first = self.block(block).first;
        self.link(block, None, op, first);
    }

    /// Inserts a detached `op` just before `anchor`, which is in a block.
    pub fn insert_before(&mut self, anchor: OpId, op: OpId) {
        let (block, prev) = (self.anchor_block(anchor), self.op(anchor).prev);
        self.link(block, prev, op, Some(anchor));
    }

    /// Inserts a detached `op` just after `anchor`, which is in a block.
    pub fn insert_after(&mut self, anchor: OpId, op: OpId) {
        let (block, next) = (self.anchor_block(anchor), self.op(anchor).next);
        self.link(block, Some(anchor), op, next);
    }

    fn anchor_block(&self, anchor: OpId) -> BlockId {
        self.op(anchor).parent.expect("the anchor of an insertion is in a block")
    }

    #[inline]
    fn link(&mut self, block: BlockId, prev: Option<OpId>, op: OpId, next: Option<OpId>) {
        match prev {
            Some(p) => self.ops[p.index()].next = Some(op),
            None => self.blocks[block.index()].first = Some(op),
        }
        match next {
            Some(n) => self.ops[n.index()].prev = Some(op),
            None => self.blocks[block.index()].last = Some(op),
        }
        let data = &mut self.ops[op.index()];
        (data.parent, data.prev, data.next) = (Some(block), prev, next);
    }

    /// Takes `op` out of its block without erasing it.
    pub fn detach(&mut self, op: OpId) {
        let data = &mut self.ops[op.index()];
        let (Some(block), prev, next) = (data.parent.take(), data.prev.take(), data.next.take()) else { return };
        match prev {
            Some(p) => self.ops[p.index()].next = next,
            None => self.blocks[block.index()].first = next,
        }
        match next {
            Some(n) => self.ops[n.index()].prev = prev,
            None => self.blocks[block.index()].last = prev,
        }
    }

    /// Moves `op` to just before `anchor`.
    pub fn move_before(&mut self, op: OpId, anchor: OpId) {
        self.detach(op);
        self.insert_before(anchor, op);
    }

    /// Moves all operations of `from` to the end of `to`; the arguments of `from` stay where they are.
    pub fn splice_block(&mut self, from: BlockId, to: BlockId) {
        while let Some(op) = self.block(from).first {
            self.detach(op);
            self.append(to, op);
        }
    }

    /// Moves the blocks of region `from` to the end of region `to`.
    pub fn move_blocks(&mut self, from: RegionId, to: RegionId) {
        let blocks = std::mem::take(&mut self.regions[from.index()].blocks);
        for &b in &blocks {
            self.blocks[b.index()].parent = Some(to);
        }
        self.regions[to.index()].blocks.extend(blocks);
    }

    /// Makes a `builtin.module` that is alone at the top the module itself, and returns the operation it was.
    pub(crate) fn unwrap_single(&mut self) -> Option<OpId> {
        let body = self.body();
        let op = self.block(body).first?;
        if self.block(body).last != Some(op) || self.op(op).kind != ControlOp::Module {
            return None;
        }
        let mut attrs = std::mem::take(&mut self.op_mut(op).attrs);
        self.name = match attrs.remove("sym_name") {
            Some(Attr::Str(name)) => Some(name.as_ref().into()),
            _ => None,
        };
        self.attrs = attrs;
        self.loc = std::mem::take(&mut self.op_mut(op).loc);
        self.detach(op);
        if let Some(inner) = self.body_of(op, 0) {
            self.splice_block(inner, body);
        }
        self.erase(op);
        Some(op)
    }

    /// Erases `op` and everything in its regions. Its results must have no uses left outside it.
    pub fn erase(&mut self, op: OpId) {
        debug_assert!(
            self.op(op).results.iter().all(|&r| self.value(r).uses.is_empty()),
            "erasing {} whose results are still used",
            self.describe(op)
        );
        self.erase_unchecked(op);
    }

    fn erase_unchecked(&mut self, op: OpId) {
        self.detach(op);
        for (i, v) in std::mem::take(&mut self.ops[op.index()].operands).into_iter().enumerate() {
            self.remove_use(v, Use { op, operand: i as u32 });
        }
        for region in std::mem::take(&mut self.ops[op.index()].regions) {
            for block in std::mem::take(&mut self.regions[region.index()].blocks) {
                // Last first, so that uses go before definitions.
                while let Some(inner) = self.block(block).last {
                    self.erase_unchecked(inner);
                }
            }
        }
        self.ops[op.index()].erased = true;
    }

    /// Whether `op` has been erased.
    pub fn is_erased(&self, op: OpId) -> bool {
        self.op(op).erased
    }

    fn remove_use(&mut self, value: ValueId, gone: Use) {
        let uses = &mut self.values[value.index()].uses;
        if let Some(i) = uses.iter().rposition(|&u| u == gone) {
            uses.remove(i);
        }
    }

    /// Makes operand `index` of `op` name `value`.
    pub fn set_operand(&mut self, op: OpId, index: usize, value: ValueId) {
        let old = std::mem::replace(&mut self.ops[op.index()].operands[index], value);
        if old != value {
            let this = Use { op, operand: index as u32 };
            self.remove_use(old, this);
            self.values[value.index()].uses.push(this);
        }
    }

    /// Replaces the operand list of `op`.
    pub fn set_operands(&mut self, op: OpId, operands: impl IntoIterator<Item = ValueId>) {
        for (i, v) in std::mem::take(&mut self.ops[op.index()].operands).into_iter().enumerate() {
            self.remove_use(v, Use { op, operand: i as u32 });
        }
        let operands: Values = operands.into_iter().collect();
        for (i, &v) in operands.iter().enumerate() {
            self.values[v.index()].uses.push(Use { op, operand: i as u32 });
        }
        self.ops[op.index()].operands = operands;
    }

    /// Makes every use of `old` name `new`.
    pub fn replace_all_uses(&mut self, old: ValueId, new: ValueId) {
        self.replace_uses_if(old, new, |_, _| true);
    }

    /// Makes the users of `op` use `values`, the first for its first result and so on, and erases it.
    pub fn replace_op(&mut self, op: OpId, values: &[ValueId]) {
        debug_assert!(self.op(op).results.len() <= values.len(), "every result of a replaced op needs a value");
        for (i, &new) in values.iter().enumerate().take(self.op(op).results.len()) {
            self.replace_all_uses(self.op(op).results[i], new);
        }
        self.erase(op);
    }

    /// Makes those uses of `old` name `new` for which `choose` holds, newest use first as MLIR does.
    pub fn replace_uses_if(&mut self, old: ValueId, new: ValueId, mut choose: impl FnMut(&Module, Use) -> bool) {
        let uses = self.value(old).uses.clone();
        let chosen: Vec<bool> = uses.iter().rev().map(|&u| choose(self, u)).collect();
        let mut chosen = chosen.into_iter();
        self.redirect_uses(old, |_| chosen.next()?.then_some(new));
    }

    /// Makes each use of `old`, newest first, name the value that `target` gives for it; `None` leaves it.
    ///
    /// Linear in the number of uses, however many of them change.
    pub fn redirect_uses(&mut self, old: ValueId, mut target: impl FnMut(Use) -> Option<ValueId>) {
        let uses = std::mem::take(&mut self.values[old.index()].uses);
        let mut kept = SmallVec::new();
        for &this in uses.iter().rev() {
            match target(this) {
                Some(new) if new != old => {
                    self.ops[this.op.index()].operands[this.operand as usize] = new;
                    self.values[new.index()].uses.push(this);
                }
                _ => kept.push(this),
            }
        }
        kept.reverse();
        self.values[old.index()].uses = kept;
    }

    /// Erases all of `ops`, as [`erase`](Module::erase) does one by one; their results may be used among them.
    ///
    /// Linear in the number of uses of their operands.
    pub fn erase_all(&mut self, ops: &[OpId]) {
        let gone: HashSet<OpId> = ops.iter().copied().collect();
        let operands: HashSet<ValueId> = ops.iter().flat_map(|&op| self.op(op).operands().iter().copied()).collect();
        for value in operands {
            self.values[value.index()].uses.retain(|u| !gone.contains(&u.op));
        }
        for &op in ops {
            self.ops[op.index()].operands.clear();
            self.erase(op);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{SourceOp, UnaryOp};
    use crate::{ElementType, OpKind};

    /// A constant and `n` negations of it.
    fn fan_out(n: usize) -> (Module, ValueId, Vec<OpId>) {
        let mut module = Module::new();
        let ty = Type::tensor([2], ElementType::F32);
        let body = module.body();
        let source = module.push(body, OpSpec::new(OpKind::Source(SourceOp::Constant)).results([ty.clone()]));
        let value = module.result(source);
        let negate = OpSpec::new(OpKind::Unary(UnaryOp::Negate)).operands([value]).results([ty]);
        let users = (0..n).map(|_| module.push(body, negate.clone())).collect();
        (module, value, users)
    }

    #[test]
    fn redirected_uses_move_and_others_keep_their_order() {
        let (mut module, value, users) = fan_out(4);
        let other = module.result(users[0]);
        module.redirect_uses(value, |u| (u.op == users[1] || u.op == users[3]).then_some(other));
        let ops = |v: ValueId| module.value(v).uses().iter().map(|u| u.op).collect::<Vec<_>>();
        assert_eq!(ops(value), [users[0], users[2]]);
        assert_eq!(ops(other), [users[3], users[1]]);
        assert_eq!(module.op(users[3]).operands(), [other]);
    }

    #[test]
    fn a_replaced_op_leaves_its_users_with_the_new_values() {
        let (mut module, value, users) = fan_out(2);
        let first = module.result(users[0]);
        let ty = module.ty(first).clone();
        let last = module.push(module.body(), OpSpec::new(UnaryOp::Negate).operands([first]).results([ty]));
        module.replace_op(users[0], &[value]);
        assert!(module.is_erased(users[0]));
        assert_eq!(module.op(last).operands(), [value]);
    }

    #[test]
    fn many_uses_of_one_value_are_erased_together() {
        let (mut module, value, users) = fan_out(50_000);
        module.erase_all(&users[1..]);
        assert_eq!(module.value(value).uses().len(), 1);
        assert_eq!(module.op_list(module.body()).len(), 2);
    }
}
