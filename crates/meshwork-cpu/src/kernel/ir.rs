//! The language of kernels: phases of straight-line code over one row of elements.
//!
//! A kernel works on `rows × n` elements: for each row, each phase runs its code over the row's `n` elements (or
//! once). Values of a phase are numbered by the op that makes them; what passes from one phase to the next are
//! scalars (results of reductions, one per row) and temporaries (rows kept in scratch memory).
//!
//! ```text
//! softmax row: phase 0 (row):  x = load a0; reduce max s0 x
//!              phase 1 (row):  x = load a0; m = scalar s0; d = sub x m; e = exp d; store temp t0 e; reduce add s1 e
//!              phase 2 (once): s = scalar s1; one = const 1; r = div one s; set scalar s2 r
//!              phase 3 (row):  e = load temp t0; r = scalar s2; y = mul e r; store a1 y
//! ```

pub use meshwork_ir::Combine;
use meshwork_ir::ElementType;
pub use meshwork_ir::op::{BinaryOp, UnaryOp};

/// Number of a value inside its phase: the position of the op that makes it.
pub type Val = u16;

/// What an argument looks like along the row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Neighboring elements: the stride is the element's size.
    Unit,
    /// Neighboring elements of rows that are at places of their own, which a list says: see [`Call::row_strides`]. It is only read.
    Listed,
    /// The same element all along the row.
    Zero,
    /// The same element in all rows, too: its stride from row to row is zero.
    Fixed,
    /// Every other element, such as a part of complex numbers: the stride is twice the element's size. What is written has 4 or 8 bytes.
    Pair,
    /// Every third element of up to 4 bytes, such as a coordinate or a color: the stride is three times the element's size.
    Triple,
    /// Any other stride, given at the call.
    Strided,
}

impl Access {
    /// Whether elements of a row are neighbors.
    pub fn is_unit(self) -> bool {
        matches!(self, Access::Unit | Access::Listed)
    }
}

/// One array that a kernel reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Arg {
    /// Element type in memory.
    pub elem: ElementType,
    /// Along the row.
    pub access: Access,
    /// Whether it is written.
    pub output: bool,
}

/// What lanes hold: narrower memory types are widened on load and narrowed on store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)] // the names are the types
pub enum Ty {
    Pred,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

/// Comparisons; false (true for `Ne`) if a side is NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the names are the comparisons
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// One operation of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// The number with these bits (of a `Ty`, in the low bits).
    Const(Ty, u64),
    /// Element of argument `0`, as its lane type.
    Load(u16),
    /// The element `1` bytes (an `I32` that is not negative) after the one of argument `0`, which does not vary along the row.
    LoadAt(u16, Val),
    /// Element of temporary `0` of type `1`.
    LoadTemp(u16, Ty),
    /// Scalar `0` of type `1`, the same in every lane.
    Scalar(u16, Ty),
    /// Position along index dimension `0` of the call, as a number of type `1`: see [`Call::index`].
    Index(u8, Ty),
    /// A function of one value; which ones kernels have says [`check::unary`](super::check::unary).
    Unary(UnaryOp, Val),
    /// A function of two values of one type; which ones kernels have says [`check::binary`](super::check::binary).
    Binary(BinaryOp, Val, Val),
    /// A comparison, giving `Pred`.
    Compare(Cmp, Val, Val),
    /// `0` (a `Pred`) decides between `1` and `2`.
    Select(Val, Val, Val),
    /// `0 * 1 + 2`, rounded once or twice.
    MulAdd(Val, Val, Val),
    /// Function `0` of `1`, a size: `2` is what it is up to its `math::limit`.
    Far(UnaryOp, Val, Val),
    /// Function `0` of `1` and `2`. A remainder is of sizes, and `3` is what it is while the first is less than `math::times` the second;
    /// of others, `3` is what they are unless it is NaN.
    FarApart(BinaryOp, Val, Val, Val),
    /// Conversion as `stablehlo.convert` defines it.
    Convert(Ty, Val),
    /// The same bits as another type of the same width.
    Bitcast(Ty, Val),
    /// Rounds an `F32` to what the element type (bf16, f16, ...) can hold.
    Round(ElementType, Val),
    /// Writes argument `0`.
    Store(u16, Val),
    /// Writes `2` to the element `1` bytes after the one of argument `0`; only in a phase that runs once.
    StoreAt(u16, Val, Val),
    /// Writes temporary `0`.
    StoreTemp(u16, Val),
    /// Sets scalar `0` (only in a phase that runs once).
    SetScalar(u16, Val),
    /// Combines the values of the whole row into scalar `1`, starting from its identity.
    Reduce(Combine, u16, Val),
}

/// How often a phase runs per row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extent {
    /// Over the row's elements.
    Row,
    /// Once: for arithmetic on scalars.
    Once,
}

/// Straight-line code.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Phase {
    /// Over the row or once.
    pub extent: Extent,
    /// The code; values are numbered by position.
    pub ops: Vec<Op>,
}

/// A kernel's code.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Body {
    /// Arrays.
    pub args: Vec<Arg>,
    /// Types of the temporaries.
    pub temps: Vec<Ty>,
    /// Number of scalars.
    pub scalars: u16,
    /// Phases in order.
    pub phases: Vec<Phase>,
}

/// What runs after what in a routine: phases that run once, in loops and choices that data decides.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Flow {
    /// The phase with this number.
    Phase(usize),
    /// `body` as long as scalar `go_on`, a `Pred` that `cond` sets, is true.
    Loop {
        /// Sets `go_on`.
        cond: Vec<Flow>,
        /// A scalar.
        go_on: u16,
        /// A turn.
        body: Vec<Flow>,
    },
    /// The branch that scalar `index` names: an `I32`, where the last branch stands for all other numbers, or a `Pred`, which chooses the
    /// first branch when true.
    Choice {
        /// A scalar.
        index: u16,
        /// Its type.
        ty: Ty,
        /// What may run.
        branches: Vec<Vec<Flow>>,
    },
}

/// Where a kernel works: `rows` rows of `n` elements.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// First element of each argument.
    pub ptrs: &'a [*mut u8],
    /// Bytes from one row to the next, per argument. Where rows are listed, the address of pointers to those after the first, and one
    /// more, which is read and not used.
    pub row_strides: &'a [isize],
    /// Bytes from one element to the next along the row, per argument; what `Access` says for unit and zero.
    pub strides: &'a [isize],
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub n: usize,
    /// Start, step per row and step per element of each index dimension.
    pub index: &'a [[i64; 3]],
}
