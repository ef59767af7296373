//! The op table: every operation Meshwork knows, by class.
//!
//! Each class has a file with one record per operation: the variant, the MLIR name, the traits, the attributes of its
//! own, and how it is written. [`OpKind`] nests the classes, so a match by class covers a new operation of a class that is handled as a
//! whole, and a new class, or a new operation of a class that is matched one by one, is a compile error wherever it has
//! no entry.

#[macro_use]
mod table;

mod body;
mod check;
mod chlo;
mod collective;
mod contract;
mod control;
mod elementwise;
pub mod form;
mod movement;
mod sdy;
mod source;

use std::sync::LazyLock;

use crate::hash::HashMap;

pub use body::BodyOp;
pub use check::CheckOp;
pub use chlo::ChloOp;
pub use collective::CollectiveOp;
pub use contract::{ContractOp, LinalgOp};
pub use control::{ControlOp, TokenOp};
pub use elementwise::{BinaryOp, MixedOp, UnaryOp};
pub use movement::{DynamicOp, MovementOp};
pub use sdy::SdyOp;
pub use source::SourceOp;
pub use table::OpInfo;

/// Facts about an operation that several stages ask for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trait {
    /// No effect but its results; may be removed when they are unused.
    Pure,
    /// Ends a block.
    Terminator,
    /// `f(a, b) = f(b, a)`.
    Commutative,
    /// Defines a symbol by its `sym_name`.
    Symbol,
    /// Its bodies see no values from outside.
    Isolated,
}

op_kinds! {
    Unary UnaryOp,
    Binary BinaryOp,
    Mixed MixedOp,
    Source SourceOp,
    Movement MovementOp,
    Dynamic DynamicOp,
    Contract ContractOp,
    Linalg LinalgOp,
    Body BodyOp,
    Control ControlOp,
    Token TokenOp,
    Collective CollectiveOp,
    Chlo ChloOp,
    Sdy SdyOp,
    Check CheckOp,
}

impl OpKind {
    /// The operation called `name`, e.g. `stablehlo.add`.
    pub fn from_name(name: &str) -> Option<OpKind> {
        static BY_NAME: LazyLock<HashMap<&'static str, OpKind>> =
            LazyLock::new(|| OpKind::ALL.iter().map(|&k| (k.name(), k)).collect());
        BY_NAME.get(name).copied()
    }

    /// The full MLIR name, `stablehlo.add`. Empty for [`OpKind::Unregistered`].
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The traits of the operation.
    pub fn traits(self) -> &'static [Trait] {
        self.info().traits
    }

    /// Names of the attributes that belong to the operation itself, which the generic form prints
    /// between `<{` and `}>`; all others are discardable.
    pub fn own_attrs(self) -> &'static [&'static str] {
        self.info().attrs
    }

    /// Whether the operation has `t`.
    pub fn has(self, t: Trait) -> bool {
        self.traits().contains(&t)
    }

    /// Ends a block.
    pub fn is_terminator(self) -> bool {
        self.has(Trait::Terminator)
    }

    /// Works element by element.
    pub fn is_elementwise(self) -> bool {
        matches!(self, OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_))
    }

    /// Exchanges data between devices.
    pub fn is_collective(self) -> bool {
        matches!(self, OpKind::Collective(_))
    }

    /// May be removed when its results are unused.
    pub fn is_pure(self) -> bool {
        self.has(Trait::Pure)
    }

    /// The part of the name before the dot.
    pub fn dialect(self) -> &'static str {
        self.name().split('.').next().unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parse_back() {
        for &kind in OpKind::ALL {
            assert_eq!(OpKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(OpKind::from_name("stablehlo.no_such"), None);
        assert_eq!(OpKind::Unregistered.name(), "");
    }

    #[test]
    fn kinds_are_two_bytes() {
        assert_eq!(size_of::<OpKind>(), 2);
        assert_eq!(size_of::<Option<OpKind>>(), 2);
    }

    #[test]
    fn classes_agree_with_dialects() {
        for &kind in OpKind::ALL {
            assert_eq!(matches!(kind, OpKind::Sdy(_)), kind.dialect() == "sdy", "{kind:?}");
            assert!(!kind.is_elementwise() || kind.is_pure(), "{kind:?}");
        }
    }
}
