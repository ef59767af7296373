//! What the printer holds on to while it remembers addresses.

use std::sync::Arc;

use super::{Module, ValueId};
use crate::attr::AttrDict;
use crate::{TensorType, Type};

/// What addresses belong to: as long as it is held, nothing else has them.
#[derive(Default)]
pub(crate) struct Held {
    _attrs: AttrDict,
    _types: [Option<Arc<TensorType>>; 4],
}

/// Attributes and types of an operation by address.
pub(crate) enum Addresses {}

impl Addresses {
    /// What to hold while the addresses are remembered.
    pub(crate) fn hold(module: &Module, operands: &[ValueId], attrs: &AttrDict, result: Option<&Type>) -> Held {
        let tensor = |ty: &Type| match ty {
            Type::Tensor(t) => Some(t.clone()),
            _ => None,
        };
        let mut types = [const { None }; 4];
        for (held, &value) in types.iter_mut().zip(operands) {
            *held = tensor(module.ty(value));
        }
        types[3] = result.and_then(tensor);
        Held { _attrs: attrs.clone(), _types: types }
    }
}
