//! The values of a loop, as numbers or as arrays that stay in memory.
//!
//! A value is asked for, and what it is made of is added to the code. Arrays that are read or written at places that are data are
//! *tables*: they stay in memory, and an update overwrites the array it is made from, of which everything else that is needed is
//! read before. Each update makes another version of the table, and what asks for an older version makes the loop an ordinary one.

use std::rc::Rc;

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BodyOp, ContractOp, ControlOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Def, Literal, Module, OpId, OpKind, ValueId};

use super::super::expand::{Expand, mask, offsets};
use super::code::{Code, Number};
use crate::compile::lower::Lower;
use crate::fuse::{self, Arithmetic};
use crate::kernel::ir::Ty;
use crate::step::{Buf, View};

/// Elements of an array as numbers.
pub(super) const MOST_NUMBERS: i64 = 64;
/// The same of an array in memory, of which each is loaded where it is used.
const MOST_LOADED: i64 = 256;
/// Operations of a routine.
pub(super) const MOST_OPS: usize = 2500;

/// The numbers of a value, in row-major order.
pub(super) type Numbers = Rc<Vec<Number>>;

/// An array in memory that is updated in place.
pub(super) struct Table {
    /// Where it is.
    pub view: View,
    /// Which of its versions is there now.
    pub version: usize,
}

/// A loop under construction.
pub(super) struct Machine<'a, 'm> {
    pub cx: &'a mut Lower<'m>,
    /// The outermost loop.
    pub root: OpId,
    pub code: Code,
    pub tables: Vec<Table>,
    /// The versions of all tables so far.
    pub versions: usize,
    /// Buffers that are loaded from.
    pub reads: Vec<Buf>,
    /// How often the turns run that are being written.
    pub repeats: u64,
    /// Additions in all.
    pub cost: u64,
    /// Whether data decides how often a loop turns.
    pub is_open: bool,
    /// Additions, if everything ran once.
    pub additions: u64,
    numbers: HashMap<ValueId, Numbers>,
    held: HashMap<ValueId, (usize, usize)>,
    aliases: HashMap<ValueId, ValueId>,
    /// What became known in the blocks being written, in order.
    trail: Vec<ValueId>,
    /// Operations that are being written.
    pub busy: HashSet<OpId>,
}

impl<'a, 'm> Machine<'a, 'm> {
    pub fn new(cx: &'a mut Lower<'m>, root: OpId) -> Self {
        Machine {
            cx,
            root,
            code: Code::default(),
            tables: vec![],
            versions: 0,
            reads: vec![],
            repeats: 1,
            cost: 0,
            is_open: false,
            additions: 0,
            numbers: HashMap::default(),
            held: HashMap::default(),
            aliases: HashMap::default(),
            trail: vec![],
            busy: HashSet::default(),
        }
    }

    pub fn is_inside(&self, value: ValueId) -> bool {
        match self.cx.module.value(value).def() {
            Def::Result(op, _) => op == self.root || self.cx.module.is_inside(op, self.root),
            Def::Arg(block, _) => {
                let owner = self.cx.module.block_parent_op(block);
                owner.is_some_and(|owner| owner == self.root || self.cx.module.is_inside(owner, self.root))
            }
        }
    }

    /// The value that `value` is another name of.
    pub fn resolved(&self, value: ValueId) -> ValueId {
        let mut value = value;
        while let Some(&other) = self.aliases.get(&value) {
            value = other;
        }
        value
    }

    pub fn know(&mut self, value: ValueId, numbers: Numbers) {
        self.numbers.insert(value, numbers);
        self.trail.push(value);
    }

    /// Makes `value` the present version of a table.
    pub fn hold(&mut self, value: ValueId, table: usize) {
        self.held.insert(value, (table, self.tables[table].version));
        self.trail.push(value);
    }

    pub fn alias(&mut self, value: ValueId, other: ValueId) {
        self.aliases.insert(value, other);
        self.trail.push(value);
    }

    /// Begins a block whose values are unknown outside.
    pub fn enter(&mut self) -> usize {
        self.code.enter();
        self.trail.len()
    }

    /// Forgets what became known since.
    pub fn forget(&mut self, since: usize) {
        for value in self.trail.drain(since..) {
            self.numbers.remove(&value);
            self.held.remove(&value);
            self.aliases.remove(&value);
        }
    }

    /// The content of a table has changed.
    pub fn change(&mut self, table: usize) {
        self.versions += 1;
        self.tables[table].version = self.versions;
    }

    /// The table that `value` is in, if it is there now.
    pub fn table(&self, value: ValueId) -> Option<usize> {
        let &(table, version) = self.held.get(&self.resolved(value))?;
        (self.tables[table].version == version).then_some(table)
    }

    pub fn is_held(&self, value: ValueId) -> bool {
        self.held.contains_key(&self.resolved(value))
    }

    /// Where `value` is in memory, if it is.
    pub fn memory(&mut self, value: ValueId) -> Option<View> {
        let value = self.resolved(value);
        if self.is_held(value) {
            return self.table(value).map(|table| self.tables[table].view.clone());
        }
        if !self.is_inside(value) {
            return self.cx.view(value).cloned();
        }
        let module = self.cx.module;
        let op = module.def_op(value)?;
        let data = module.op(op);
        match data.kind() {
            OpKind::Source(SourceOp::Constant) => self.constant_table(op),
            OpKind::Movement(
                MovementOp::Slice
                | MovementOp::Transpose
                | MovementOp::BroadcastInDim
                | MovementOp::Reshape
                | MovementOp::Reverse,
            ) if !self.numbers.contains_key(&value) => {
                let from = self.memory(*data.operands().first()?)?;
                crate::compile::view_of(module, op, &from)
            }
            _ => None,
        }
    }

    fn constant_table(&mut self, op: OpId) -> Option<View> {
        let Some(Attr::Dense(dense)) = self.cx.module.op(op).attr("value") else { return None };
        let (elem, dims) = (dense.ty.elem, dense.ty.dims.to_vec());
        let literal = match dense.splat_bytes() {
            Some(bytes) => Literal::from_bytes([], elem, bytes.to_vec())?,
            None => dense.to_literal()?,
        };
        let splat = literal.dims().is_empty() && !dims.is_empty();
        let mut view = View::dense(self.cx.constant(literal), elem, &dims);
        if splat {
            view.strides.fill(0);
        }
        Some(view)
    }

    /// The numbers of what is in memory.
    fn loads(&mut self, view: &View) -> Option<Vec<Number>> {
        let ty = Ty::of(view.elem)?;
        let literal = self.cx.bufs[view.buf.0 as usize].constant.clone().filter(|l| l.elem() == view.elem);
        self.read(view.buf);
        let load = |offset: i64| match &literal {
            Some(literal) => {
                let at = offset / view.elem.storage_bytes() as i64;
                Some(Number::Const(ty, fuse::constant_bits(literal, at as usize, ty)? & mask(ty)))
            }
            None => {
                let at = Number::Const(Ty::I32, u64::from(u32::try_from(offset - view.offset).ok()?));
                self.code.load((view.buf, view.offset), view.elem, at)
            }
        };
        offsets(&view.dims, &view.strides, view.offset).into_iter().map(load).collect()
    }

    /// Takes note that `buf` is read.
    pub fn read(&mut self, buf: Buf) {
        let own = self.tables.iter().any(|t| t.view.buf == buf);
        if !own && self.cx.bufs[buf.0 as usize].constant.is_none() && !self.reads.contains(&buf) {
            self.reads.push(buf);
        }
    }

    fn new_value(&mut self, value: ValueId) -> Option<Vec<Number>> {
        let module = self.cx.module;
        Ty::of(self.elem(value)?)?;
        if let Some(view) = self.memory(value) {
            return self.loads(&view);
        }
        if self.is_held(value) || !self.is_inside(value) {
            return None;
        }
        self.op(module.def_op(value)?, value)
    }

    fn op(&mut self, op: OpId, value: ValueId) -> Option<Vec<Number>> {
        let module = self.cx.module;
        let data = module.op(op);
        match data.kind() {
            OpKind::Source(SourceOp::Constant) => None,
            OpKind::Source(SourceOp::Iota) => {
                let (ty, dim) = (Ty::of(self.elem(value)?)?, data.int("iota_dimension")? as usize);
                let integer = if ty.is_float() { Ty::I32 } else { ty };
                let shape = self.dims(value);
                let inner: i64 = shape[dim + 1..].iter().product();
                let count = shape.iter().product::<i64>();
                let at = |i: i64| Number::Const(integer, (i / inner % shape[dim]) as u64 & mask(integer));
                Some((0..count).map(|i| self.code.convert(ty, at(i))).collect())
            }
            OpKind::Movement(movement) => match movement {
                MovementOp::BitcastConvert if fuse::is_fusible(module, op) => {
                    let ty = Ty::of(self.elem(value)?)?;
                    let from = self.value(data.operands()[0], None)?;
                    Some(from.iter().map(|&e| self.code.bitcast(ty, e)).collect())
                }
                MovementOp::Slice
                | MovementOp::Reverse
                | MovementOp::Transpose
                | MovementOp::BroadcastInDim
                | MovementOp::Broadcast
                | MovementOp::Reshape => self.renamed(op, value, None),
                MovementOp::Concatenate => self.concatenated(op, None),
                MovementOp::Pad => self.padded(op, value, None),
                MovementOp::DynamicSlice => self.sliced(op, value),
                MovementOp::DynamicUpdateSlice => self.updated(op, value),
                MovementOp::Gather => self.gathered(op, value),
                _ => None,
            },
            OpKind::Body(BodyOp::Reduce) if fuse::reduce_kind(module, op).is_some() => self.reduced(op, value, None),
            OpKind::Body(BodyOp::Reduce) => {
                self.folded_by_body(op)?;
                self.numbers.get(&value).map(|numbers| numbers.to_vec())
            }
            OpKind::Body(BodyOp::Scatter) => self.scattered(op, value),
            OpKind::Contract(ContractOp::DotGeneral) => self.product(op, value, None),
            OpKind::Control(ControlOp::Case | ControlOp::If | ControlOp::While) => {
                self.control(op)?;
                match self.numbers.get(&self.resolved(value)) {
                    Some(numbers) => Some(numbers.to_vec()),
                    None => {
                        let view = self.memory(value)?;
                        self.loads(&view)
                    }
                }
            }
            _ => self.arithmetic(op, value, None),
        }
    }

    /// Makes what an op that is none of numbers gives: a table, or all results of a loop or choice.
    pub fn make(&mut self, value: ValueId) -> Option<()> {
        let value = self.resolved(value);
        if self.is_held(value) || self.numbers.contains_key(&value) || !self.is_inside(value) {
            return Some(());
        }
        let module = self.cx.module;
        if let Some(op) = module.def_op(value) {
            match module.op(op).kind() {
                OpKind::Control(ControlOp::Case | ControlOp::If | ControlOp::While) => return self.control(op),
                OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter) => {
                    let into = module.op(op).operands()[0];
                    self.make(into)?;
                    if self.is_held(into) {
                        return self.overwritten(op, into);
                    }
                }
                _ => {}
            }
        }
        if self.memory(value).is_some() { Some(()) } else { self.value(value, None).map(|_| ()) }
    }

    /// A reduction of several arrays at once, by its body.
    fn folded_by_body(&mut self, op: OpId) -> Option<()> {
        let module = self.cx.module;
        let data = module.op(op);
        let (body, count) = (module.body_of(op, 0)?, data.results().len());
        let mut lists = vec![];
        for &v in data.operands() {
            lists.push(self.value(v, None)?);
        }
        let (from, init) = lists.split_at(count);
        let reduced = fuse::reduced_dims(module, op);
        let shape = self.dims(data.operands()[0]);
        let strides = View::dense(Buf(0), meshwork_ir::ElementType::UI8, shape).strides;
        let pick = |list: &[usize], of: &[i64]| list.iter().map(|&d| of[d]).collect::<Vec<i64>>();
        let kept: Vec<usize> = (0..shape.len()).filter(|d| !reduced.contains(d)).collect();
        let outer = offsets(&pick(&kept, shape), &pick(&kept, &strides), 0);
        let inner = offsets(&pick(&reduced, shape), &pick(&reduced, &strides), 0);
        let mut results: Vec<Vec<Number>> = vec![vec![]; count];
        for start in outer {
            let element = |i: &i64| from.iter().map(|list| list[(start + i) as usize]).collect::<Vec<Number>>();
            let first = init.iter().map(|list| list[0]).collect();
            let mut terms: Vec<Vec<Number>> = [first].into_iter().chain(inner.iter().map(element)).collect();
            // Neighbors first: a short chain.
            while terms.len() > 1 {
                let pairs = terms.chunks(2).map(|pair| match pair {
                    [a, b] => self.by_body(body, a, b),
                    _ => Some(pair[0].clone()),
                });
                terms = pairs.collect::<Option<_>>()?;
            }
            results.iter_mut().zip(terms.concat()).for_each(|(list, number)| list.push(number));
        }
        for (&result, list) in data.results().iter().zip(results) {
            self.know(result, Rc::new(list));
        }
        Some(())
    }

    /// What the block `body` of a reduction makes of two lists of numbers.
    fn by_body(&mut self, body: BlockId, a: &[Number], b: &[Number]) -> Option<Vec<Number>> {
        let module = self.cx.module;
        let mark = self.trail.len();
        for (&arg, &number) in module.block(body).args().iter().zip(a.iter().chain(b)) {
            self.know(arg, Rc::new(vec![number]));
        }
        let list = module.returned(body).iter().map(|&v| Some(self.value(v, None)?[0])).collect();
        self.forget(mark);
        list
    }
}

impl<'m> Expand<'m> for Machine<'_, 'm> {
    type Code = Code;

    fn module(&self) -> &'m Module {
        self.cx.module
    }

    fn code(&mut self) -> &mut Code {
        &mut self.code
    }

    fn lanes(&self) -> i64 {
        1
    }

    fn most(&self) -> usize {
        MOST_OPS
    }

    fn spend(&mut self, additions: u64) {
        self.additions += additions;
        self.cost = self.cost.saturating_add(additions.saturating_mul(self.repeats));
    }

    fn constant(&self, ty: Ty, bits: u64) -> Number {
        Number::Const(ty, bits)
    }

    fn bits(&self, element: Number) -> Option<(Ty, u64)> {
        if let Number::Const(ty, bits) = element { Some((ty, bits)) } else { None }
    }

    fn value(&mut self, value: ValueId, _: Option<usize>) -> Option<Numbers> {
        let value = self.resolved(value);
        if let Some(known) = self.numbers.get(&value) {
            return Some(known.clone());
        }
        let count = self.dims(value).iter().product::<i64>();
        let is_large = count > MOST_NUMBERS && (count > MOST_LOADED || self.memory(value).is_none());
        if is_large || self.code.len() > MOST_OPS {
            return None;
        }
        let numbers = Rc::new(self.new_value(value)?);
        debug_assert_eq!(numbers.len() as i64, count);
        self.know(value, numbers.clone());
        Some(numbers)
    }
}
