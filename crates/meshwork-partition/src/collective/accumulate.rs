//! Sums that a loop only adds up are reduced over the devices once, after the loop, instead of in every round.
//!
//! ```text
//! total = total + f(all_reduce(x))        mine = mine + x
//!                                   ──►   after the loop: total = start + f(all_reduce(mine))
//! ```
//!
//! This holds if nothing else reads the total inside the loop and `f` is linear and the same in every round: gradient
//! accumulation sends as much for many parts of a batch as for one. A reduce-scatter leaves the loop too; until then each
//! device holds all of its own sum.

use std::sync::Arc;

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BinaryOp, ControlOp, MixedOp, MovementOp, SourceOp, UnaryOp};
use meshwork_ir::{
    Attr, BlockId, Combine, Def, Dense, ElementClass, ElementType, Module, OpId, OpKind, OpSpec, Type, ValueId,
    ValueMap, Walk,
};

use crate::collective::{Collective, CollectiveKind, Peers};
use crate::plan::memory::type_bytes;
use crate::split::flow::trip_count;
use meshwork_ir::identity::nothing;

/// Moves reductions of accumulated values out of the loops of `module`.
pub fn reduce_after_loops(module: &mut Module, collectives: &mut [Collective]) {
    let sums = |c: &Collective| {
        matches!(c.kind, CollectiveKind::AllReduce(Combine::Add) | CollectiveKind::ReduceScatter(Combine::Add))
            && matches!(c.peers, Peers::Group(_))
    };
    let mut by_op: HashMap<OpId, usize> =
        (0..collectives.len()).filter(|&i| sums(&collectives[i])).map(|i| (collectives[i].emitted, i)).collect();
    if by_op.is_empty() {
        return;
    }
    // Inner loops first: what leaves one may leave the next.
    for op in module.all_ops(Walk::PostOrder) {
        let is_loop = module.op(op).kind() == OpKind::Control(ControlOp::While);
        if !is_loop || trip_count(module, op).is_some_and(|rounds| rounds < 2) {
            continue;
        }
        for index in 0..module.op(op).operands().len() {
            let Some(sum) = Accumulation::find(module, op, index, &by_op) else { continue };
            for (old, new) in sum.reduce_after(module) {
                let Some(at) = by_op.remove(&old) else { continue };
                by_op.insert(new, at);
                moved(module, &mut collectives[at], new);
            }
        }
    }
}

/// Notes that `c` is `emitted` now.
fn moved(module: &Module, c: &mut Collective, emitted: OpId) {
    let bytes = type_bytes(module.ty(module.op(emitted).operands()[0]));
    let growth = bytes as f64 / c.operand_bytes.max(1) as f64;
    c.wire_bytes *= growth;
    c.origins.iter_mut().for_each(|origin| origin.wire_bytes *= growth);
    (c.emitted, c.operand_bytes) = (emitted, bytes);
    (c.times, c.times_unknown) = runs(module, module.parent_op(emitted));
}

/// How often what stands in a region of `around` runs, and whether that is not known.
pub(super) fn runs(module: &Module, around: Option<OpId>) -> (i64, bool) {
    let (mut times, mut unknown, mut at) = (1, false, around);
    while let Some(op) = at {
        if module.op(op).kind() == OpKind::Control(ControlOp::While) {
            let rounds = trip_count(module, op);
            times *= rounds.unwrap_or(1);
            unknown |= rounds.is_none();
        }
        at = module.parent_op(op);
    }
    (times, unknown)
}

/// What a loop adds to a value in each round.
enum Term {
    /// A value that is added up as it is.
    Plain(ValueId),
    /// The result of a reduction: what it reduces is added up.
    Reduced(OpId),
    /// A term in a wider element type: it is computed in that.
    Wider(OpId, Box<Term>),
    /// A linear operation on terms, given by the number of the operand. Its other operands are the same in every round.
    Of(OpId, Vec<(usize, Term)>),
}

/// A value that a loop carries, reads only to add to it, and whose addend holds a reduction.
struct Accumulation {
    op: OpId,
    index: usize,
    /// The addition, and which of its operands is the addend.
    add: OpId,
    addend: usize,
    term: Term,
}

impl Accumulation {
    fn find(module: &Module, op: OpId, index: usize, by_op: &HashMap<OpId, usize>) -> Option<Accumulation> {
        let (cond, body) = (module.body_of(op, 0)?, module.body_of(op, 1)?);
        let argument = |block: BlockId| module.value(module.block(block).args()[index]);
        let [only] = argument(body).uses() else { return None };
        let add = only.op;
        let is_sum = module.op(add).kind() == BinaryOp::Add && module.op(add).parent() == Some(body);
        if !is_sum || !argument(cond).uses().is_empty() {
            return None;
        }
        let sum = module.result(add);
        let [returned] = module.value(sum).uses() else { return None };
        let is_returned = Some(returned.op) == module.terminator(body) && returned.operand as usize == index;
        let is_number = module.ty(sum).elem().is_some_and(|e| e.class() != ElementClass::Bool);
        if !is_returned || !is_number {
            return None;
        }
        let addend = 1 - only.operand as usize;
        let terms = Terms { module, op, body, by_op };
        match terms.term(module.op(add).operands()[addend]) {
            Term::Plain(_) => None,
            term => Some(Accumulation { op, index, add, addend, term }),
        }
    }

    /// Rewrites the loop. Returns the reductions that were replaced, with what replaced them.
    fn reduce_after(self, module: &mut Module) -> Vec<(OpId, OpId)> {
        let (op, index, add) = (self.op, self.index, self.add);
        let start = module.op(op).operands()[index];
        let old = module.op(op).results()[index];
        let ty = module.ty(old).clone();
        let mut after = After { module, op, index: Some((index, add, self.addend)), end: op, moved: vec![] };
        let readers: Vec<_> = after.module.value(old).uses().to_vec();
        let total = after.rebuild(&self.term, None);
        let total = if is_nothing(after.module, start) {
            total
        } else {
            let spec = OpSpec::new(BinaryOp::Add).operands([start, total]).results([ty]);
            let sum = after.add_op(spec);
            after.module.result(sum)
        };
        let moved = after.moved;
        module.replace_uses_if(old, total, |_, reader| readers.contains(&reader));
        erase(module, &self.term);
        moved
    }
}

/// Reads terms off a loop's body.
struct Terms<'m> {
    module: &'m Module,
    op: OpId,
    body: BlockId,
    by_op: &'m HashMap<OpId, usize>,
}

impl Terms<'_> {
    fn term(&self, v: ValueId) -> Term {
        let module = self.module;
        let own = module.def_op(v).filter(|&op| module.op(op).parent() == Some(self.body));
        let Some(op) = own.filter(|_| module.value(v).uses().len() == 1) else { return Term::Plain(v) };
        if self.by_op.contains_key(&op) {
            return Term::Reduced(op);
        }
        let is_float = module.ty(v).elem().is_some_and(|e| e.class() == ElementClass::Float);
        let operands = module.op(op).operands();
        let terms: &[usize] = match module.op(op).kind() {
            OpKind::Mixed(MixedOp::Convert) => return self.converted(op, v),
            OpKind::Unary(UnaryOp::Negate) => &[0],
            OpKind::Binary(BinaryOp::Add | BinaryOp::Subtract) => &[0, 1],
            OpKind::Binary(BinaryOp::Multiply) if self.is_same(operands[1]) => &[0],
            OpKind::Binary(BinaryOp::Multiply) if self.is_same(operands[0]) => &[1],
            OpKind::Binary(BinaryOp::Divide) if is_float && self.is_same(operands[1]) => &[0],
            OpKind::Movement(
                MovementOp::Reshape | MovementOp::Transpose | MovementOp::BroadcastInDim | MovementOp::Slice,
            ) => &[0],
            OpKind::Movement(MovementOp::DynamicSlice) if operands[1..].iter().all(|&v| self.is_same(v)) => &[0],
            _ => return Term::Plain(v),
        };
        let terms: Vec<(usize, Term)> = terms.iter().map(|&i| (i, self.term(operands[i]))).collect();
        match terms.iter().all(|(_, term)| matches!(term, Term::Plain(_))) {
            true => Term::Plain(v),
            false => Term::Of(op, terms),
        }
    }

    /// A sum in a wider float is at least as exact.
    fn converted(&self, op: OpId, v: ValueId) -> Term {
        let (from, to) = (self.module.op(op).operands()[0], self.module.ty(v).elem());
        let wider = self.module.ty(from).elem().zip(to).is_some_and(|(from, to)| {
            from.class() == ElementClass::Float && to.class() == ElementClass::Float && from.bits() < to.bits()
        });
        match self.term(from) {
            Term::Plain(_) => Term::Plain(v),
            term if wider => Term::Wider(op, Box::new(term)),
            _ => Term::Plain(v),
        }
    }

    /// Whether `v` is the same in every round, and can be computed outside.
    fn is_same(&self, v: ValueId) -> bool {
        let mut work = vec![v];
        let mut seen = HashSet::default();
        while let Some(v) = work.pop() {
            match self.module.value(v).def() {
                Def::Result(def, _) if !self.module.is_inside(def, self.op) => {}
                Def::Result(def, _) => {
                    let data = self.module.op(def);
                    if !data.kind().is_pure() || !data.regions().is_empty() || seen.len() > 64 {
                        return false;
                    }
                    if seen.insert(def) {
                        work.extend(data.operands());
                    }
                }
                Def::Arg(block, _) => {
                    let parent = self.module.block_parent_op(block);
                    if parent.is_some_and(|p| p == self.op || self.module.is_inside(p, self.op)) {
                        return false;
                    }
                }
            }
        }
        true
    }
}

/// Writes what comes after a loop.
struct After<'m> {
    module: &'m mut Module,
    op: OpId,
    /// The carried value that may take the first sum, with the addition to it and the number of the addend.
    index: Option<(usize, OpId, usize)>,
    /// The last operation that was written.
    end: OpId,
    moved: Vec<(OpId, OpId)>,
}

impl After<'_> {
    fn insert(&mut self, op: OpId) {
        self.module.insert_after(self.end, op);
        self.end = op;
    }

    fn add_op(&mut self, spec: OpSpec) -> OpId {
        let op = self.module.create(spec.loc(self.module.op(self.op).loc.clone()));
        self.insert(op);
        op
    }

    /// The sum of a term over all rounds, in the element type `wide` if that is not its own.
    fn rebuild(&mut self, term: &Term, wide: Option<ElementType>) -> ValueId {
        match term {
            Term::Plain(v) => {
                let x = self.widened(*v, wide, None);
                self.carried(x)
            }
            Term::Wider(op, term) => {
                let own = self.module.ty(self.module.result(*op)).elem();
                self.rebuild(term, wide.or(own))
            }
            Term::Reduced(collective) => {
                let x = self.widened(self.module.op(*collective).operands()[0], wide, Some(*collective));
                let sum = self.carried(x);
                let copy = self.module.clone_op(*collective, &mut ValueMap::default());
                self.module.set_operand(copy, 0, sum);
                self.insert(copy);
                self.widen(copy, wide);
                self.moved.push((*collective, copy));
                self.module.result(copy)
            }
            Term::Of(op, terms) => {
                let operands = self.module.op(*op).operands().to_vec();
                let elem = self.module.ty(self.module.result(*op)).elem();
                let mut map = ValueMap::default();
                for (i, &v) in operands.iter().enumerate() {
                    match terms.iter().find(|(t, _)| *t == i) {
                        Some((_, term)) => {
                            let sum = self.rebuild(term, wide);
                            map.insert(v, sum);
                        }
                        None => {
                            self.outside(v, &mut map);
                            let fixed = *map.get(&v).unwrap_or(&v);
                            // Not the positions of a slice.
                            if self.module.ty(fixed).elem() == elem {
                                let fixed = self.widened(fixed, wide, None);
                                map.insert(v, fixed);
                            }
                        }
                    }
                }
                let copy = self.module.clone_op(*op, &mut map);
                self.insert(copy);
                self.widen(copy, wide);
                self.module.result(copy)
            }
        }
    }

    /// Gives an operation and its bodies another element type.
    fn widen(&mut self, op: OpId, wide: Option<ElementType>) {
        let Some(elem) = wide else { return };
        let mut values = self.module.op(op).results().to_vec();
        for inner in self.module.ops_below(op, Walk::PreOrder) {
            values.extend(self.module.op(inner).results());
        }
        for i in 0..self.module.op(op).regions().len() {
            values.extend(self.module.body_of(op, i).map(|b| self.module.block(b).args().to_vec()).unwrap_or_default());
        }
        for v in values {
            if let Some(ty) = self.module.ty(v).as_tensor().map(|t| Type::from(t.with_elem(elem))) {
                self.module.set_ty(v, ty);
            }
        }
    }

    /// Copies what computes `v`, which is the same in every round, out of the loop.
    fn outside(&mut self, v: ValueId, map: &mut ValueMap) {
        let Some(def) = self.module.def_op(v).filter(|&def| self.module.is_inside(def, self.op)) else { return };
        if map.contains_key(&v) {
            return;
        }
        for operand in self.module.op(def).operands().to_vec() {
            self.outside(operand, map);
        }
        let copy = self.module.clone_op(def, map);
        self.insert(copy);
    }

    /// `x` in another element type: before the reduction of it, at the end of the loop's body, or after the loop.
    fn widened(&mut self, x: ValueId, wide: Option<ElementType>, before: Option<OpId>) -> ValueId {
        let Some(ty) = wide.and_then(|elem| Some(Type::from(self.module.ty(x).as_tensor()?.with_elem(elem)))) else {
            return x;
        };
        let loc = self.module.op(self.op).loc.clone();
        let op = self.module.create(OpSpec::new(MixedOp::Convert).operands([x]).results([ty]).loc(loc));
        let body = self.module.body_of(self.op, 1);
        let is_inside = self.module.def_op(x).is_some_and(|def| self.module.op(def).parent() == body);
        match before.or_else(|| body.filter(|_| is_inside).and_then(|body| self.module.terminator(body))) {
            Some(anchor) => self.module.insert_before(anchor, op),
            None => self.insert(op),
        }
        self.module.result(op)
    }

    /// Makes the loop add up `x`, and returns the sum.
    fn carried(&mut self, x: ValueId) -> ValueId {
        let ty = self.module.ty(x).clone();
        let (dims, elem) = (ty.dims().to_vec(), ty.elem().unwrap_or(ElementType::F32));
        let shared = self.module.tensor_type(&dims, elem);
        let zero = Attr::Dense(Arc::new(Dense::splat(shared, &nothing(elem))));
        let spec = OpSpec::new(SourceOp::Constant).attr("value", zero).results([ty.clone()]);
        let zero = self.module.push_before(self.op, spec);
        let zero = self.module.result(zero);
        let blocks = [0, 1].map(|i| self.module.body_of(self.op, i));
        if let Some((index, add, addend)) = self.index.take() {
            self.module.set_operand(self.op, index, zero);
            self.module.set_operand(add, addend, x);
            let result = self.module.op(self.op).results()[index];
            let mut typed = vec![result, self.module.result(add)];
            typed.extend(blocks.into_iter().flatten().map(|b| self.module.block(b).args()[index]));
            typed.into_iter().for_each(|v| self.module.set_ty(v, ty.clone()));
            return result;
        }
        let operands: Vec<ValueId> = self.module.op(self.op).operands().iter().copied().chain([zero]).collect();
        self.module.set_operands(self.op, operands);
        let args: Vec<ValueId> =
            blocks.into_iter().flatten().map(|block| self.module.add_block_arg(block, ty.clone())).collect();
        if let (Some(end), Some(&arg)) = (blocks[1].and_then(|body| self.module.terminator(body)), args.get(1)) {
            let spec = OpSpec::new(BinaryOp::Add).operands([arg, x]).results([ty.clone()]);
            let add = self.module.push_before(end, spec);
            let sum = self.module.result(add);
            let returned: Vec<ValueId> = self.module.op(end).operands().iter().copied().chain([sum]).collect();
            self.module.set_operands(end, returned);
        }
        self.module.add_result(self.op, ty)
    }
}

/// Whether adding `v` changes nothing but the sign of a zero.
fn is_nothing(module: &Module, v: ValueId) -> bool {
    let constant = module.def_op(v).filter(|&op| module.op(op).kind() == OpKind::Source(SourceOp::Constant));
    match constant.and_then(|op| module.op(op).attr("value")) {
        Some(Attr::Dense(dense)) => dense.splat_bytes().is_some_and(|bytes| {
            bytes.iter().all(|&b| b == 0) || module.ty(v).elem().is_some_and(|e| bytes == nothing(e))
        }),
        _ => false,
    }
}

/// Removes the operations of a term, which nothing uses any more.
fn erase(module: &mut Module, term: &Term) {
    match term {
        Term::Plain(_) => {}
        Term::Reduced(collective) => module.erase(*collective),
        Term::Wider(op, term) => {
            module.erase(*op);
            erase(module, term);
        }
        Term::Of(op, terms) => {
            module.erase(*op);
            terms.iter().for_each(|(_, term)| erase(module, term));
        }
    }
}
