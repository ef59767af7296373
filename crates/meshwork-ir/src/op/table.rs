//! The macros that make a class of operations, and [`OpKind`](super::OpKind), from their records.

use super::Trait;
use super::form::Form;

/// The record of an operation.
#[derive(Debug)]
pub struct OpInfo {
    /// The full MLIR name, `stablehlo.add`.
    pub name: &'static str,
    /// Its traits.
    pub traits: &'static [Trait],
    /// Names of the attributes that belong to the operation itself.
    pub attrs: &'static [&'static str],
    /// How it is written.
    pub form: Form,
}

/// Of [`OpKind::Unregistered`](super::OpKind::Unregistered).
pub(super) const UNREGISTERED: OpInfo = OpInfo { name: "", traits: &[], attrs: &[], form: Form::Generic };

/// A class of operations, one record each: `Variant "dialect.name" [Traits] {"own_attribute"}: Form;`.
macro_rules! op_class {
    (
        $(#[$doc:meta])* $class:ident $ops:ident
        $($variant:ident $name:literal [$($tr:ident)*] {$($attr:literal)*}: $form:expr;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(missing_docs)] // the variants are the operation names
        pub enum $ops {
            $($variant,)*
        }

        impl $ops {
            /// Every operation of the class, in table order.
            pub const ALL: &[$ops] = &[$($ops::$variant),*];

            /// The record of the operation.
            pub fn info(self) -> &'static $crate::op::OpInfo {
                #[allow(unused_imports)] // not every class has every form
                use $crate::op::form::{
                    Axes::*, Count::*, Form::*, I64, KeyValue::*, OUT_SHARDING, Syntax::*, TOLERANCE, key, optional,
                };
                const TABLE: &[$crate::op::OpInfo] = &[$($crate::op::OpInfo {
                    name: $name,
                    traits: &[$($crate::op::Trait::$tr),*],
                    attrs: &[$($attr),*],
                    form: $form,
                }),*];
                &TABLE[self as usize]
            }
        }

        impl PartialEq<$ops> for $crate::op::OpKind {
            fn eq(&self, other: &$ops) -> bool {
                matches!(self, $crate::op::OpKind::$class(op) if op == other)
            }
        }

        impl From<$ops> for $crate::op::OpKind {
            fn from(op: $ops) -> $crate::op::OpKind {
                $crate::op::OpKind::$class(op)
            }
        }
    };
}

/// The enum of all classes.
macro_rules! op_kinds {
    ($($class:ident $ops:ident,)*) => {
        /// The operations that Meshwork knows, by class.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(missing_docs)] // the classes are documented at their enums
        pub enum OpKind {
            $($class($ops),)*
            /// An operation of a dialect Meshwork does not interpret; [`Op::name`](crate::Op::name) spells it.
            Unregistered,
        }

        impl OpKind {
            const COUNT: usize = 0 $(+ $ops::ALL.len())*;

            /// Every known operation, in table order.
            pub const ALL: &[OpKind] = &{
                let mut all = [OpKind::Unregistered; OpKind::COUNT];
                let mut at = 0;
                $(
                    let mut i = 0;
                    while i < $ops::ALL.len() {
                        all[at] = OpKind::$class($ops::ALL[i]);
                        at += 1;
                        i += 1;
                    }
                )*
                assert!(at == OpKind::COUNT);
                all
            };

            /// The position of the operation in [`OpKind::ALL`]; that of `Unregistered` is after them.
            pub fn number(self) -> usize {
                let mut first = 0;
                $(
                    if let OpKind::$class(op) = self {
                        return first + op as usize;
                    }
                    first += $ops::ALL.len();
                )*
                first
            }

            /// The record of the operation.
            pub fn info(self) -> &'static OpInfo {
                match self {
                    $(OpKind::$class(op) => op.info(),)*
                    OpKind::Unregistered => &table::UNREGISTERED,
                }
            }
        }
    };
}
