//! A program in memory: operations in blocks in regions, connected by values.
//!
//! Everything lives in four arenas of one [`Module`] and is named by small ids, so that passes can hold on to an
//! operation while they change others. Types are in a fifth one, each once. The tree is MLIR's: the module has a body
//! block; a `func.func` is an operation with one region; a `stablehlo.while` has two.
//!
//! Invariants, held by the methods here and relied on everywhere:
//! - an op is in at most one block; `prev`/`next` link the ops of a block in order;
//! - `Value::uses` lists exactly the operands that name the value, oldest use first
//!   (MLIR iterates newest first: use `.iter().rev()` where its order matters);
//! - erased ops and values stay in the arena as tombstones and are never handed out again.

mod clone;
mod context;
mod edit;
mod eq;
mod func;
mod place;
mod walk;

use std::num::NonZeroU32;

use smallvec::SmallVec;
use smol_str::SmolStr;

pub use clone::ValueMap;
pub use eq::same;
pub use func::FuncSig;
pub use place::OpPlace;
pub use walk::Walk;

use self::context::Context;
pub(crate) use self::context::DOT_DIMS;
pub use self::context::TypeId;
pub(crate) use self::context::TypeIds;
use crate::attr::AttrDict;
use crate::infer::Types;
use crate::loc::{Loc, TextPos};
use crate::op::ControlOp;
use crate::{Attr, OpKind, Type};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The id of position `index`; arenas hold less than 2^32 items.
            #[inline]
            fn at(index: usize) -> $name {
                $name(NonZeroU32::MIN.saturating_add(index as u32))
            }

            /// Position in the arena: for side tables indexed by id.
            #[inline]
            pub fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    };
}

id! {
    /// Names an [`Op`] of a module.
    OpId
}
id! {
    /// Names a [`Block`] of a module.
    BlockId
}
id! {
    /// Names a [`Region`] of a module.
    RegionId
}
id! {
    /// Names a [`Value`] of a module.
    ValueId
}

/// A list of values; short ones need no allocation.
pub type Values = SmallVec<[ValueId; 3]>;

/// Attributes of an operation by name.
pub type NamedAttrs<'a> = Vec<(&'a SmolStr, &'a Attr)>;

/// Custom calls that only say where a value should live.
const PLACEMENT_CALLS: [&str; 9] = [
    "Sharding",
    "annotate_device_placement",
    "LayoutConstraint",
    "MoveToHost",
    "MoveToDevice",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.ShardingGroup",
    "xla.sdy.PropagationBarrier",
    "InspectSharding",
];

/// An operation.
#[derive(Clone, Debug)]
pub struct Op {
    pub(crate) kind: OpKind,
    /// Of unregistered operations.
    pub(crate) name: Option<Box<SmolStr>>,
    pub(crate) operands: Values,
    pub(crate) results: Values,
    /// All attributes, its own and discardable ones.
    pub attrs: AttrDict,
    pub(crate) regions: SmallVec<[RegionId; 2]>,
    /// MLIR location.
    pub loc: Loc,
    /// Its position in the text it was read from.
    pub pos: TextPos,
    pub(crate) parent: Option<BlockId>,
    pub(crate) prev: Option<OpId>,
    pub(crate) next: Option<OpId>,
    pub(crate) erased: bool,
}

impl Op {
    /// Which operation it is.
    #[inline]
    pub fn kind(&self) -> OpKind {
        self.kind
    }

    /// The full MLIR name, also of unregistered operations.
    pub fn name(&self) -> &str {
        match self.kind {
            OpKind::Unregistered => self.name.as_deref().map_or("", SmolStr::as_str),
            kind => kind.name(),
        }
    }

    /// Operands in order.
    pub fn operands(&self) -> &[ValueId] {
        &self.operands
    }

    /// Results in order.
    pub fn results(&self) -> &[ValueId] {
        &self.results
    }

    /// Regions in order.
    pub fn regions(&self) -> &[RegionId] {
        &self.regions
    }

    /// The block it is in, if it is attached.
    pub fn parent(&self) -> Option<BlockId> {
        self.parent
    }

    /// The attribute called `name`.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.attrs.get(name)
    }

    /// The integer attribute called `name`.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attr(name)?.as_int()
    }

    /// The list of integers called `name`.
    pub fn i64s(&self, name: &str) -> Option<Vec<i64>> {
        self.attr(name)?.as_i64s()
    }

    /// The boolean called `name`; absent means false.
    pub fn flag(&self, name: &str) -> bool {
        self.attr(name).and_then(Attr::as_bool).unwrap_or(false)
    }

    /// The value of the enum attribute called `name`.
    pub fn enum_value(&self, name: &str) -> Option<&str> {
        self.attr(name)?.as_enum()
    }

    /// The entry `name` of the dictionary called `dict`, if it is a number, a character or a boolean.
    pub fn entry(&self, dict: &str, name: &str) -> Option<i64> {
        let Some(Attr::Dict(entries)) = self.attr(dict) else { return None };
        match entries.get(name)? {
            Attr::Int(v, _) => Some(*v),
            Attr::Bool(b) => Some(i64::from(*b)),
            _ => None,
        }
    }

    /// The `count` booleans called `name`, all false where it is absent or empty; `None` if it is something else.
    pub fn bools(&self, name: &str, count: usize) -> Option<Vec<bool>> {
        let list = self.attr(name).map_or(Some(vec![]), Attr::as_bools)?;
        let list = if list.is_empty() { vec![false; count] } else { list };
        Some(list).filter(|list| list.len() == count)
    }

    /// The target of a custom call.
    pub fn call_target(&self) -> Option<&str> {
        self.attr("call_target_name").and_then(|a| a.as_str().or(a.as_symbol()))
    }

    /// Whether it is a custom call that only says where a value should live: its results are its operands.
    pub fn is_placement_call(&self) -> bool {
        self.kind == ControlOp::CustomCall && self.call_target().is_some_and(|t| PLACEMENT_CALLS.contains(&t))
    }

    /// Splits the attributes into the op's own (first) and discardable ones.
    pub fn split_attrs(&self) -> (NamedAttrs<'_>, NamedAttrs<'_>) {
        let own = self.kind.own_attrs();
        self.attrs.iter().partition(|(n, _)| own.contains(&n.as_str()))
    }
}

/// A straight line of operations with arguments.
#[derive(Clone, Debug)]
pub struct Block {
    pub(crate) args: SmallVec<[ValueId; 4]>,
    pub(crate) first: Option<OpId>,
    pub(crate) last: Option<OpId>,
    pub(crate) parent: Option<RegionId>,
    /// Locations of the arguments, where the text gave them; empty or one per argument.
    pub arg_locs: Vec<Loc>,
}

impl Block {
    /// Block arguments in order.
    pub fn args(&self) -> &[ValueId] {
        &self.args
    }

    /// First operation.
    pub fn first(&self) -> Option<OpId> {
        self.first
    }

    /// Last operation; the terminator in a finished block.
    pub fn last(&self) -> Option<OpId> {
        self.last
    }

    /// The region it belongs to; `None` for the module's body.
    pub fn parent(&self) -> Option<RegionId> {
        self.parent
    }
}

/// A body of an operation: nearly always one block.
#[derive(Clone, Debug)]
pub struct Region {
    pub(crate) blocks: SmallVec<[BlockId; 1]>,
    pub(crate) parent: OpId,
}

impl Region {
    /// Blocks in order.
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// The operation it belongs to.
    pub fn parent(&self) -> OpId {
        self.parent
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Def {
    /// Result number `1` of operation `0`.
    Result(OpId, u32),
    /// Argument number `1` of block `0`.
    Arg(BlockId, u32),
}

/// One operand slot that names a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Use {
    /// The operation.
    pub op: OpId,
    /// Which of its operands.
    pub operand: u32,
}

/// A value: the result of an operation or the argument of a block.
#[derive(Clone, Debug)]
pub struct Value {
    pub(crate) ty: TypeId,
    pub(crate) def: Def,
    pub(crate) uses: SmallVec<[Use; 3]>,
}

impl Value {
    /// Where it comes from.
    pub fn def(&self) -> Def {
        self.def
    }

    /// The operands that name it, oldest use first.
    pub fn uses(&self) -> &[Use] {
        &self.uses
    }
}

/// What a new operation consists of; see [`Module::create`].
#[derive(Clone, Debug)]
pub struct OpSpec {
    /// Which operation.
    pub kind: OpKind,
    /// Its name, for [`OpKind::Unregistered`] only.
    pub name: SmolStr,
    /// Operands.
    pub operands: Values,
    /// One type per result.
    pub result_types: Types,
    /// Attributes.
    pub attrs: AttrDict,
    /// Location.
    pub loc: Loc,
    /// Position in the text it was read from.
    pub pos: TextPos,
}

impl OpSpec {
    /// An operation without operands, results and attributes.
    #[inline]
    pub fn new(kind: impl Into<OpKind>) -> OpSpec {
        OpSpec {
            kind: kind.into(),
            name: SmolStr::default(),
            operands: Values::new(),
            result_types: SmallVec::new(),
            attrs: AttrDict::new(),
            loc: Loc::unknown(),
            pos: TextPos::default(),
        }
    }

    /// With these operands.
    #[inline]
    pub fn operands(mut self, operands: impl IntoIterator<Item = ValueId>) -> OpSpec {
        self.operands.clear();
        operands.into_iter().for_each(|v| self.operands.push(v));
        self
    }

    /// With results of these types.
    #[inline]
    pub fn results(mut self, types: impl IntoIterator<Item = Type>) -> OpSpec {
        self.result_types.clear();
        types.into_iter().for_each(|t| self.result_types.push(t));
        self
    }

    /// With this attribute.
    #[inline]
    pub fn attr(mut self, name: &'static str, value: Attr) -> OpSpec {
        self.attrs.set(SmolStr::new_static(name), value);
        self
    }

    /// At this location.
    #[inline]
    pub fn loc(mut self, loc: Loc) -> OpSpec {
        self.loc = loc;
        self
    }
}

/// A program.
#[derive(Clone, Debug)]
pub struct Module {
    /// The module's symbol name, `jit_f` in `module @jit_f`.
    pub name: Option<SmolStr>,
    /// Attributes of the module.
    pub attrs: AttrDict,
    /// Location of the module.
    pub loc: Loc,
    pub(crate) ops: Vec<Op>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) regions: Vec<Region>,
    pub(crate) values: Vec<Value>,
    pub(crate) context: Context,
}

impl Default for Module {
    fn default() -> Self {
        Module::new()
    }
}

impl Module {
    /// An empty module.
    pub fn new() -> Module {
        let body = Block { args: SmallVec::new(), first: None, last: None, parent: None, arg_locs: vec![] };
        Module {
            name: None,
            attrs: AttrDict::new(),
            loc: Loc::unknown(),
            ops: vec![],
            blocks: vec![body],
            regions: vec![],
            values: vec![],
            context: Context::default(),
        }
    }

    /// The block of top-level operations: meshes and functions.
    pub fn body(&self) -> BlockId {
        BlockId::at(0)
    }

    /// The operation `id`.
    #[inline]
    pub fn op(&self, id: OpId) -> &Op {
        &self.ops[id.index()]
    }

    /// The operation `id`, to change its attributes or location.
    pub fn op_mut(&mut self, id: OpId) -> &mut Op {
        &mut self.ops[id.index()]
    }

    /// The block `id`.
    #[inline]
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.index()]
    }

    /// The region `id`.
    pub fn region(&self, id: RegionId) -> &Region {
        &self.regions[id.index()]
    }

    /// The value `id`.
    #[inline]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The type of value `id`.
    #[inline]
    pub fn ty(&self, id: ValueId) -> &Type {
        self.context.ty(self.type_id(id))
    }

    /// The types of all values ever created, erased ones too.
    pub fn value_types(&self) -> impl Iterator<Item = &Type> {
        self.values.iter().map(|v| self.context.ty(v.ty))
    }

    /// Changes the type of a value. The caller keeps the program well-typed.
    pub fn set_ty(&mut self, id: ValueId, ty: Type) {
        self.values[id.index()].ty = self.context.intern(ty);
    }

    /// The operation that defines `id`; `None` for a block argument.
    pub fn def_op(&self, id: ValueId) -> Option<OpId> {
        match self.value(id).def {
            Def::Result(op, _) => Some(op),
            Def::Arg(..) => None,
        }
    }

    /// The only block of region `index` of `op`.
    pub fn body_of(&self, op: OpId, index: usize) -> Option<BlockId> {
        let region = *self.op(op).regions.get(index)?;
        self.region(region).blocks.first().copied()
    }

    /// The operation whose region holds `block`; `None` for the module's body.
    pub fn block_parent_op(&self, block: BlockId) -> Option<OpId> {
        self.block(block).parent.map(|r| self.region(r).parent)
    }

    /// The operation that `op` is nested in; `None` at the top level.
    pub fn parent_op(&self, op: OpId) -> Option<OpId> {
        self.block_parent_op(self.op(op).parent?)
    }

    /// Number of slots in the op arena: the size of a side table indexed by [`OpId`].
    pub fn op_slots(&self) -> usize {
        self.ops.len()
    }

    /// Number of slots in the value arena: the size of a side table indexed by [`ValueId`].
    pub fn value_slots(&self) -> usize {
        self.values.len()
    }
}
