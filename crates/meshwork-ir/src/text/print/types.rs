//! Types of values. A program has few types and many values, so the text of each tensor type is made once per printing.

use std::sync::Arc;

use super::write::push_type;
use crate::hash::HashMap;
use crate::{TensorType, Type};

/// The texts of the tensor types of one module that have been printed.
#[derive(Default)]
pub(super) struct TypeTexts {
    texts: Vec<Box<str>>,
    /// Which of `texts` is that of the type at an address. Types are interned, so there are few addresses; an equal type
    /// at another one is printed again. The printer borrows the module, so no address gets another type.
    known: HashMap<*const TensorType, usize>,
    /// The type printed last, which is often the next one too.
    last: Option<(*const TensorType, usize)>,
}

impl TypeTexts {
    /// Appends `ty`.
    pub(super) fn push(&mut self, out: &mut String, ty: &Type) {
        let Type::Tensor(tensor) = ty else { return push_type(out, ty) };
        let address = Arc::as_ptr(tensor);
        let number = match self.last {
            Some((last, number)) if last == address => number,
            _ => self.number(address, ty),
        };
        out.push_str(&self.texts[number]);
    }

    fn number(&mut self, address: *const TensorType, ty: &Type) -> usize {
        let texts = &mut self.texts;
        let number = *self.known.entry(address).or_insert_with(|| {
            let mut text = String::new();
            push_type(&mut text, ty);
            texts.push(text.into());
            texts.len() - 1
        });
        self.last = Some((address, number));
        number
    }
}
