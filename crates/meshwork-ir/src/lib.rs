//! StableHLO and `sdy` programs as data.
//!
//! The crate holds the program every stage works on: element types, shapes, the op table, the module with its
//! builder, verifier and MLIR text.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod attr;
pub mod build;
pub mod bytecode;
mod combine;
pub mod comparator;
mod diag;
mod direction;
mod element;
pub mod float;
mod grid;
pub mod groups;
pub mod hash;
pub mod identity;
pub mod infer;
mod literal;
mod loc;
mod module;
pub mod npy;
#[cfg(feature = "npz")]
pub mod npz;
pub mod op;
mod pass;
pub mod placement;
mod read;
pub mod scalar;
pub mod text;
pub mod transform;
mod types;
pub mod verify;

pub use attr::{Attr, AttrDict, Dense, DenseData};
pub use combine::Combine;
pub use diag::{Diagnostic, Severity};
pub use direction::Direction;
pub use element::{ElementClass, ElementType};
pub use grid::DeviceGrid;
pub use literal::Literal;
pub use loc::{Loc, LocKind, TextPos};
pub use meshwork_mesh::debug_as_display;
pub use module::{
    Block, BlockId, Def, FuncSig, Module, NamedAttrs, Op, OpId, OpPlace, OpSpec, Region, RegionId, TypeId, Use, Value,
    ValueId, ValueMap, Values, Walk, same,
};
pub use op::{OpKind, Trait};
pub use pass::{Failed, Pass, PassOptions};
pub use read::read;
pub use scalar::Scalar;
pub use types::{DYNAMIC, Dims, FunctionType, MOST_BYTES, TensorType, Type};
