//! How operations are written: one [`Form`] per operation, which parser and printer both follow.
//!
//! Most forms are operands, then `key = value` pairs, then other attributes, then types. An operation with a syntax of
//! its own names it by a [`Syntax`], for which parser and printer have a function each.

use super::{OpKind, SdyOp};
use crate::{Attr, AttrDict, ElementType};

/// The form of an operation. `{attrs}` is the dictionary of attributes that are not spelled otherwise.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// `"dialect.name"(%a) <{...}> : (types) -> types`: it has the generic form only.
    Generic,
    /// `%a, %b, key = value {attrs} : type`: operands and result have one type; where they differ, a functional type.
    Same(Count, &'static [Key]),
    /// `%a, %b, key = value {attrs} : (types) -> types`.
    Functional(Count, &'static [Key]),
    /// `%a, %b {attrs} : type, type -> type`.
    Arrow(Count),
    /// `key = value {attrs} : type`: no operands, one result.
    Source(&'static [Key]),
    /// `%a, %b, key = value {attrs} : type`: the type of all operands, no result.
    Effect(Count, &'static [Key]),
    /// `%a, dense<...> : type, key = value {attrs}`: no result.
    Against(&'static [Key]),
    /// `%a key=value {attrs} : type`: one operand, and the result of the same type if there is one.
    Placed(&'static [Key]),
    /// `axes %a out_sharding=<...> {attrs} : type`: a collective of `sdy`, the axes in this attribute and spelling.
    Axes(&'static str, Axes),
    /// A syntax of its own.
    Own(Syntax),
}

/// How many operands a form takes.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// This many.
    Exactly(usize),
    /// This many or more.
    AtLeast(usize),
}

impl Count {
    /// Whether `count` operands are as many as the form takes.
    pub fn fits(self, count: usize) -> bool {
        match self {
            Count::Exactly(n) => count == n,
            Count::AtLeast(n) => count >= n,
        }
    }
}

/// A `key = value` pair.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key as written.
    pub word: &'static str,
    /// The attribute it gives.
    pub attr: &'static str,
    /// How the value is written.
    pub value: KeyValue,
    /// Whether it may be left out, and is where the attribute has its default value.
    pub optional: bool,
}

/// How the value of a key is written.
#[derive(Clone, Copy, Debug)]
pub enum KeyValue {
    /// `1`, of this type.
    Number(ElementType),
    /// `[1, 2]`.
    Ints,
    /// `true`.
    Bool,
    /// `"text"`.
    Str,
    /// A case of this StableHLO enum.
    Enum(&'static str),
    /// `e8m7`: the attributes `exponent_bits` and `mantissa_bits`.
    Format,
    /// `<@mesh, [{}]>`.
    Sharding,
    /// A case of this `sdy` enum.
    SdyEnum(&'static str),
}

/// How the axes of a collective of `sdy` are written.
#[derive(Clone, Copy, Debug)]
pub enum Axes {
    /// `{"x", "y"}`.
    List,
    /// `[{"x"}, {}]`: a list for each dimension.
    PerDim,
    /// `[{"x"}: 0->1]`: from dimension to dimension.
    Moves,
}

/// The syntaxes that belong to one or two operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // named as the operations; parser and printer show them
pub enum Syntax {
    Module,
    Func,
    Call,
    /// `{attrs} %a : type`.
    Return,
    /// `%a {attrs} : type`.
    HloReturn,
    Complex,
    Compare,
    Select,
    Constant,
    Slice,
    Dot,
    DotGeneral,
    Convolution,
    Reduce,
    While,
    Composite,
    CustomCall,
    GetTupleElement,
    OptimizationBarrier,
    Tuple,
    TopK,
    Scan,
    Mesh,
    /// `%a <@mesh, [{"x"}]> {attrs} : type`.
    Reshard,
    ManualComputation,
    NamedComputation,
    ExpectClose,
}

/// Cases of the enums of `sdy`, in the order of their numbers.
pub fn sdy_cases(kind: &str) -> &'static [&'static str] {
    match kind {
        "propagation_direction" => &["NONE", "FORWARD", "BACKWARD", "BOTH"],
        "reduction_op" => &["sum", "max", "min"],
        _ => &[],
    }
}

/// The cases of StableHLO enum `kind`; none if there is no such enum.
pub fn hlo_cases(kind: &str) -> &'static [&'static str] {
    match kind {
        "precision" => &["DEFAULT", "HIGH", "HIGHEST"],
        "result_accuracy_mode" => &["DEFAULT", "HIGHEST", "TOLERANCE"],
        "fft_type" => &["FFT", "IFFT", "RFFT", "IRFFT"],
        "comparison_direction" => &["EQ", "NE", "GE", "GT", "LE", "LT"],
        "comparison_type" => &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"],
        "transpose" => &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"],
        "rng_distribution" => &["UNIFORM", "NORMAL"],
        "rng_algorithm" => &["DEFAULT", "THREE_FRY", "PHILOX"],
        _ => &[],
    }
}

/// Gives the enums of `sdy` that the generic form spells as numbers the form that the pretty one gives them.
pub(crate) fn name_sdy_cases(kind: OpKind, attrs: &mut AttrDict) {
    let (name, kind) = match kind {
        OpKind::Sdy(SdyOp::PropagationBarrier) => ("allowed_direction", "propagation_direction"),
        OpKind::Sdy(SdyOp::AllReduce | SdyOp::ReduceScatter) => ("reduction_op", "reduction_op"),
        _ => return,
    };
    let value = attrs.get(name).and_then(Attr::as_int);
    if let Some(case) = value.and_then(|v| sdy_cases(kind).get(usize::try_from(v).ok()?)) {
        attrs.set(name, Attr::sdy_enum(kind, case));
    }
}

pub(super) const fn key(word: &'static str, attr: &'static str, value: KeyValue) -> Key {
    Key { word, attr, value, optional: false }
}

pub(super) const fn optional(word: &'static str, attr: &'static str, value: KeyValue) -> Key {
    Key { word, attr, value, optional: true }
}

pub(super) const I64: KeyValue = KeyValue::Number(ElementType::I64);

/// Key of `check.expect_almost_eq` and `check.expect_almost_eq_const`.
pub(super) const TOLERANCE: &[Key] = &[optional("tolerance", "tolerance", KeyValue::Number(ElementType::F64))];

/// Keys of `chlo.top_k`.
pub const TOP_K: &[Key] = &[key("k", "k", I64), optional("is_stable", "is_stable", KeyValue::Bool)];

/// Keys of `check.expect_close`.
pub const ULPS: &[Key] = &[
    key("max_ulp_difference", "max_ulp_difference", KeyValue::Number(ElementType::UI64)),
    optional("min_ulp_difference", "min_ulp_difference", KeyValue::Number(ElementType::UI64)),
];

/// Key of the collectives of `sdy`.
pub const OUT_SHARDING: &[Key] = &[key("out_sharding", "out_sharding", KeyValue::Sharding)];
