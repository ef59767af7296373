//! A compiled program before memory is planned: nested blocks of steps over named buffers.

use std::sync::Arc;

use meshwork_ir::{ElementType, Literal, Module, OpId, TensorType, ValueId};

use crate::step::{Buf, Step};

/// What is known of a buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct BufInfo {
    /// Size in bytes; may be 0.
    pub bytes: usize,
    /// Element type and extents of the value it was made for; temporaries are bytes.
    pub elem: ElementType,
    /// Extents.
    pub dims: Vec<i64>,
    /// What it holds from the start, if it is a constant. Constants are never written.
    pub constant: Option<Literal>,
}

/// A program for one device; all devices run it.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The module that the `OpId`s of the nodes belong to: a prepared copy of what was compiled.
    pub module: Arc<Module>,
    /// All buffers, by number.
    pub bufs: Vec<BufInfo>,
    /// The entry function. Its arguments belong to the caller and are never written, unless donated.
    pub main: Block,
    /// Per argument, whether its memory may be reused.
    pub donated: Vec<bool>,
    /// Operations that run on the reference evaluator, and those that are for the host.
    pub fallbacks: Vec<OpId>,
}

impl Program {
    /// Whether data decides on which devices some communication takes place, so that a group may be torn apart.
    pub fn can_part(&self) -> bool {
        self.main.can_part()
    }
}

impl Block {
    fn can_part(&self) -> bool {
        self.nodes.iter().any(|node| match node {
            Node::Step(_) | Node::Collective(_) | Node::Await(_) => false,
            Node::While(w) if w.trips.is_some() => w.cond.can_part() || w.body.can_part(),
            Node::While(w) => w.cond.communicates() || w.body.communicates(),
            Node::Case(case) => case.branches.iter().any(Block::communicates),
        })
    }

    fn communicates(&self) -> bool {
        self.nodes.iter().any(|node| match node {
            Node::Step(_) => false,
            Node::Collective(_) | Node::Await(_) => true,
            Node::While(w) => w.cond.communicates() || w.body.communicates(),
            Node::Case(case) => case.branches.iter().any(Block::communicates),
        })
    }
}

/// A straight line of nodes.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The location of its arguments.
    pub args: Vec<Buf>,
    /// What it does, in order.
    pub nodes: Vec<Node>,
    /// The location of its results when it ends: dense buffers. One may be named twice, or be an argument, or belong to an
    /// outer block.
    pub results: Vec<Buf>,
}

/// One element of a block.
#[derive(Clone, Debug)]
pub enum Node {
    /// Work on each device by itself.
    Step(Step),
    /// Communication between devices.
    Collective(Collective),
    /// The end of communication that was only started.
    Await(Await),
    /// A loop.
    While(While),
    /// A choice of blocks.
    Case(Case),
}

/// `while cond(carries) { carries = body(carries) }`. The carries are the arguments of `body` and also those of
/// `cond`; they are the results of the loop too.
#[derive(Clone, Debug)]
pub struct While {
    /// First values of the carries.
    pub init: Vec<Buf>,
    /// Its only result is the predicate.
    pub cond: Block,
    /// Computes the next values.
    pub body: Block,
    /// How often it runs, where that is known.
    pub trips: Option<u64>,
    /// The operation.
    pub op: OpId,
}

/// `results = branches[index]()`.
#[derive(Clone, Debug)]
pub struct Case {
    /// An `i32`, or an `i1` where true means branch 0. An index out of range means the last branch.
    pub index: Buf,
    /// Without arguments; they read the buffers of outer blocks.
    pub branches: Vec<Block>,
    /// Where the results go.
    pub results: Vec<Buf>,
    /// The operation.
    pub op: OpId,
}

/// Which communication.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // as in StableHLO
pub enum CollectiveKind {
    AllReduce(Reducer),
    ReduceScatter {
        dim: usize,
        reducer: Reducer,
    },
    AllGather {
        dim: usize,
    },
    AllToAll {
        split_dim: usize,
        concat_dim: usize,
        split_count: usize,
    },
    Permute {
        pairs: Vec<(u32, u32)>,
    },
    /// The second operand is the table of lengths.
    RaggedAllToAll,
    Broadcast,
    /// To the first of each group; all others get zeros.
    Reduce(Reducer),
}

/// How a reduction combines.
#[derive(Clone, PartialEq, Debug)]
pub enum Reducer {
    /// One of the usual ones.
    Combine(crate::kernel::ir::Combine),
    /// Any other body: computed by the evaluator from the op's region.
    Body(OpId),
}

/// Communication between the devices of each group.
#[derive(Clone, Debug)]
pub struct Collective {
    /// Which.
    pub kind: CollectiveKind,
    /// Device numbers (replica × partitions + partition) of each group, in order. Empty for a permute.
    pub groups: Vec<Vec<u32>>,
    /// One dense operand and one dense result each; several operands move together.
    pub operands: Vec<Buf>,
    /// At which byte of its buffer each operand starts.
    pub starts: Vec<usize>,
    /// Results.
    pub results: Vec<Buf>,
    /// The operation.
    pub op: OpId,
    /// What profiles call it: as in the plan.
    pub name: String,
    /// If it is only started here, and ends at the [`Await`] of its results further down the block: which of those under
    /// way at the same time it is.
    pub channel: Option<u8>,
}

/// The end of a collective: before it nothing writes its operands, or uses its results.
#[derive(Clone, Debug)]
pub struct Await {
    /// The operation.
    pub op: OpId,
    /// As of the collective.
    pub operands: Vec<Buf>,
    /// As of the collective.
    pub results: Vec<Buf>,
}

/// An operand of a collective and its result, as they are on every device.
pub(crate) struct Ends {
    pub operand: Buf,
    /// Where it starts in its buffer.
    pub start: usize,
    pub result: Buf,
    pub elem: ElementType,
    /// Extents of the operand.
    pub from: Vec<i64>,
    /// Extents of the result.
    pub to: Vec<i64>,
}

impl Collective {
    /// Its operands and results. A buffer may have been made for a value of other extents, of which the operand is a
    /// reshape.
    pub(crate) fn ends(&self, program: &Program, module: &Module) -> impl Iterator<Item = Ends> {
        let data = module.op(self.op);
        self.operands.iter().zip(&self.results).enumerate().map(move |(i, (&operand, &result))| {
            let (from, to) = (&program.bufs[operand.0 as usize], &program.bufs[result.0 as usize]);
            let tensor = |v: Option<&ValueId>| v.and_then(|&v| module.ty(v).as_tensor());
            let (a, b) = (tensor(data.operands().get(i)), tensor(data.results().get(i)));
            let dims = |ty: Option<&TensorType>, own: &[i64]| ty.map_or(own.to_vec(), |t| t.dims.to_vec());
            let elem = a.map_or(from.elem, |t| t.elem);
            let start = self.starts[i];
            Ends { operand, start, result, elem, from: dims(a, &from.dims), to: dims(b, &to.dims) }
        })
    }
}
