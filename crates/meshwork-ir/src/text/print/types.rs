//! Types of values. A program has few types and many values, so the text of each tensor type is made once per printing.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::write::push_type;
use crate::{TensorType, Type};

/// The texts of the tensor types of one module that have been printed.
#[derive(Default)]
pub(super) struct TypeTexts {
    text: String,
    /// Where in `text` the type at an address is. Types are interned, so there are few addresses; an equal type at another
    /// one is printed again. The printer borrows the module, so no address gets another type.
    known: HashMap<*const TensorType, Range<usize>, foldhash::fast::RandomState>,
    /// The type printed last, which is often the next one too.
    last: Option<(*const TensorType, Range<usize>)>,
}

impl TypeTexts {
    /// Appends `ty`.
    pub(super) fn push(&mut self, out: &mut String, ty: &Type) {
        let Type::Tensor(tensor) = ty else { return push_type(out, ty) };
        let address = Arc::as_ptr(tensor);
        let range = match &self.last {
            Some((last, range)) if *last == address => range.clone(),
            _ => self.range(address, ty),
        };
        out.push_str(&self.text[range]);
    }

    fn range(&mut self, address: *const TensorType, ty: &Type) -> Range<usize> {
        let range = match self.known.get(&address) {
            Some(range) => range.clone(),
            None => {
                let start = self.text.len();
                push_type(&mut self.text, ty);
                self.known.insert(address, start..self.text.len());
                start..self.text.len()
            }
        };
        self.last = Some((address, range.clone()));
        range
    }
}
