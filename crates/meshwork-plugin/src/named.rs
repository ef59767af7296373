//! Named values: attributes that the plugin gives, options that it gets.

use std::ffi::c_char;

use meshwork_pjrt_abi::{NamedValue, NamedValueData, named};

use crate::border::{bytes, slice, text};

/// Names and values that live as long as the list.
pub(crate) struct Attributes {
    values: Vec<NamedValue>,
}

// SAFETY: the pointers are to memory that is never freed.
unsafe impl Send for Attributes {}
// SAFETY: as above.
unsafe impl Sync for Attributes {}

/// A value to give.
pub(crate) enum Value {
    Float(f32),
    Ints(&'static [i64]),
}

impl Attributes {
    pub fn new(all: impl IntoIterator<Item = (&'static str, Value)>) -> Attributes {
        let value = |(name, value): (&'static str, Value)| {
            let (kind, value, value_size) = match value {
                Value::Float(v) => (named::FLOAT, NamedValueData { float: v }, 1),
                Value::Ints(v) => (named::INT64_LIST, NamedValueData { int64_list: v.as_ptr() }, v.len()),
            };
            NamedValue {
                struct_size: size_of::<NamedValue>(),
                extension_start: std::ptr::null_mut(),
                name: name.as_ptr().cast::<c_char>(),
                name_size: name.len(),
                kind,
                value,
                value_size,
            }
        };
        Attributes { values: all.into_iter().map(value).collect() }
    }

    pub fn as_ptr(&self) -> *const NamedValue {
        self.values.as_ptr()
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }
}

/// Names and values as text, however they are given.
pub(crate) fn read(values: *const NamedValue, count: usize) -> Vec<(String, String)> {
    let one = |value: &NamedValue| {
        // SAFETY: the kind says which value it is.
        let shown = unsafe {
            match value.kind {
                named::STRING => String::from_utf8_lossy(bytes(value.value.string, value.value_size)).into_owned(),
                named::INT64 => value.value.int64.to_string(),
                named::INT64_LIST => format!("{:?}", slice(value.value.int64_list, value.value_size)),
                named::FLOAT => value.value.float.to_string(),
                _ => value.value.bool.to_string(),
            }
        };
        (text(value.name, value.name_size).into_owned(), shown)
    };
    slice(values, count).iter().map(one).collect()
}
