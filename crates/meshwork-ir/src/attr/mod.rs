//! Attributes: compile-time data attached to operations, and their MLIR spelling.
//!
//! Attributes that some stage computes with are typed (`Dense`, `Gather`, `Sharding`, ...). Whatever else a
//! producer writes is kept as [`Attr::Opaque`] and printed back unchanged.

mod default;
mod dense;
mod dict;
mod groups;
mod hlo;
mod print;
mod rule;

use std::sync::Arc;

use meshwork_mesh::{AxisRef, Mesh, Sharding};
use smol_str::SmolStr;

pub(crate) use default::is_default;
pub use dense::{Dense, DenseData};
pub use dict::AttrDict;
pub use groups::{GroupAxes, list_of_ids};
pub use hlo::{ChannelHandle, ConvDims, DotDims, GatherDims, ScatterDims};
pub(crate) use hlo::{Field, Fields};
pub use rule::{AllToAllParam, FactorKind, OpShardingRule};

use crate::{ElementType, Type};

/// One attribute value. Cheap to clone.
#[derive(Clone, PartialEq, Debug)]
pub enum Attr {
    /// `unit`: present means true.
    Unit,
    /// `true` or `false`.
    Bool(bool),
    /// An integer with its type; unsigned 64-bit values are stored by bit pattern.
    Int(i64, ElementType),
    /// A float with its type, held exactly (every supported width fits in an `f64`).
    Float(f64, ElementType),
    /// A string. The type is nearly always absent.
    Str(Arc<str>),
    /// A type used as an attribute.
    Type(Type),
    /// `@name` or `@outer::@inner`, kept without the leading `@`.
    Symbol(SmolStr),
    /// `[a, b]`.
    Array(Arc<[Attr]>),
    /// `{a = 1, b}`.
    Dict(Arc<AttrDict>),
    /// `dense<...> : tensor<...>`.
    Dense(Arc<Dense>),
    /// `array<i64: 1, 2>`.
    I64Array(Arc<[i64]>),
    /// `array<i1: true, false>`.
    BoolArray(Arc<[bool]>),
    /// A dialect's enum, `#stablehlo<comparison_direction EQ>`.
    Enum(Arc<EnumAttr>),
    /// `#stablehlo.dot<...>`.
    Dot(Arc<DotDims>),
    /// `#stablehlo.conv<...>`.
    Conv(Arc<ConvDims>),
    /// `#stablehlo.gather<...>`.
    Gather(Arc<GatherDims>),
    /// `#stablehlo.scatter<...>`.
    Scatter(Arc<ScatterDims>),
    /// `#stablehlo.channel_handle<...>`.
    Channel(ChannelHandle),
    /// `#stablehlo.replica_group_mesh_axes<...>`.
    GroupAxes(Arc<GroupAxes>),
    /// `#sdy.mesh<...>`.
    Mesh(Arc<Mesh>),
    /// `#sdy.sharding<...>`.
    Sharding(Arc<Sharding>),
    /// `#sdy.sharding_per_value<[...]>`.
    ShardingPerValue(Arc<[Sharding]>),
    /// `#sdy.op_sharding_rule<...>`.
    ShardingRule(Arc<OpShardingRule>),
    /// A flat list of axes: `manual_axes`, the axes of `sdy.all_reduce`.
    Axes(Arc<[AxisRef]>),
    /// Axes per dimension, `[{}, {"x"}]`: `sdy.all_gather` and its variants.
    AxesPerDim(Arc<[Vec<AxisRef>]>),
    /// Parameters of `sdy.all_to_all`.
    AllToAll(Arc<[AllToAllParam]>),
    /// Anything else: the exact text.
    Opaque(SmolStr),
}

/// A dialect's enum attribute, spelled `#dialect<kind VALUE>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EnumAttr {
    /// `stablehlo`, `sdy`, `chlo`.
    pub dialect: SmolStr,
    /// `comparison_direction`.
    pub kind: SmolStr,
    /// `EQ`.
    pub value: SmolStr,
}

impl Attr {
    /// A string attribute.
    pub fn str(text: impl AsRef<str>) -> Attr {
        Attr::Str(text.as_ref().into())
    }

    /// An `i64` integer attribute.
    pub fn i64(value: i64) -> Attr {
        Attr::Int(value, ElementType::I64)
    }

    /// An `i32` integer attribute.
    pub fn i32(value: i64) -> Attr {
        Attr::Int(value, ElementType::I32)
    }

    /// An `array<i64: ...>` attribute.
    pub fn i64s(values: impl IntoIterator<Item = i64>) -> Attr {
        Attr::I64Array(values.into_iter().collect())
    }

    /// A StableHLO enum attribute such as `#stablehlo<precision HIGHEST>`.
    pub fn hlo_enum(kind: &str, value: &str) -> Attr {
        Attr::Enum(Arc::new(EnumAttr { dialect: "stablehlo".into(), kind: kind.into(), value: value.into() }))
    }

    /// An `sdy` enum attribute such as `#sdy<propagation_direction BOTH>`.
    pub fn sdy_enum(kind: &str, value: &str) -> Attr {
        Attr::Enum(Arc::new(EnumAttr { dialect: "sdy".into(), kind: kind.into(), value: value.into() }))
    }

    /// The integer, whatever its type.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Attr::Int(v, _) => Some(*v),
            _ => None,
        }
    }

    /// The boolean; `unit` counts as true.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Attr::Bool(b) => Some(*b),
            Attr::Unit => Some(true),
            Attr::Int(v, ElementType::I1) => Some(*v != 0),
            _ => None,
        }
    }

    /// The string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Attr::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The symbol's name without `@`.
    pub fn as_symbol(&self) -> Option<&str> {
        match self {
            Attr::Symbol(s) => Some(s),
            _ => None,
        }
    }

    /// The value of an enum attribute.
    pub fn as_enum(&self) -> Option<&str> {
        match self {
            Attr::Enum(e) => Some(&e.value),
            _ => None,
        }
    }

    /// The elements of an array attribute.
    pub fn as_array(&self) -> Option<&[Attr]> {
        match self {
            Attr::Array(a) => Some(a),
            _ => None,
        }
    }

    /// A list of integers, from `array<i64: ...>`, an integer `dense` or an array of integers.
    pub fn as_i64s(&self) -> Option<Vec<i64>> {
        match self {
            Attr::I64Array(a) => Some(a.to_vec()),
            Attr::Dense(d) => d.to_i64s(),
            Attr::Array(a) => a.iter().map(Attr::as_int).collect(),
            _ => None,
        }
    }

    /// The booleans of an array or a dense list.
    pub fn as_bools(&self) -> Option<Vec<bool>> {
        match self {
            Attr::BoolArray(flags) => Some(flags.to_vec()),
            other => Some(other.as_i64s()?.into_iter().map(|v| v != 0).collect()),
        }
    }

    /// The sharding.
    pub fn as_sharding(&self) -> Option<&Sharding> {
        match self {
            Attr::Sharding(s) => Some(s),
            _ => None,
        }
    }
}
