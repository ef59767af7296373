//! The frame of one call.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;

use meshwork_eval::ForeignCall;
use meshwork_ir::{Attr, AttrDict, Dense, ElementType, Literal};

use super::abi::{
    Array, Attrs, BUFFER, Buffer, Buffers, ByteSpan, CallFrame, Context, EXECUTE, Future, Handler, Head, Scalar, attr,
    dtype,
};
use super::api::{API, take};

/// Calls a handler.
pub(super) fn call(handler: Handler, call: &ForeignCall<'_>, results: &mut [Literal]) -> Result<(), String> {
    check_layouts(call)?;
    share_aliased(call, results);
    let mut kept = Kept::default();
    let operand = |x: &&Literal| (x.bytes().as_ptr().cast_mut().cast(), x.dims().to_vec(), x.elem());
    let args = kept.buffers(call.operands.iter().map(operand))?;
    let result = |x: &mut Literal| {
        let (dims, elem) = (x.dims().to_vec(), x.elem());
        (x.bytes_mut().as_mut_ptr().cast(), dims, elem)
    };
    let rets = kept.buffers(results.iter_mut().map(result))?;
    let config = ["mhlo.backend_config", "backend_config"].iter().find_map(|name| match call.attrs.get(name) {
        Some(Attr::Dict(dict)) => Some(&**dict),
        _ => None,
    });
    let none = AttrDict::new();
    let attrs = kept.attrs(config.unwrap_or(&none))?;
    let context = Context { device: call.device };
    let mut frame = CallFrame {
        // The size that handlers check ends before what they may write.
        head: Head { struct_size: offset_of!(CallFrame, future), extension_start: std::ptr::null_mut() },
        api: (&raw const API).cast(),
        context: (&raw const context).cast(),
        stage: EXECUTE,
        args,
        rets,
        attrs,
        future: std::ptr::null_mut(),
    };
    // SAFETY: whoever registered the handler vouches for it; everything in the frame outlives the call.
    let failed = unsafe { take(handler(&raw mut frame)) };
    if !frame.future.is_null() {
        // SAFETY: the handler made it with the table's function, and leaves it to us.
        let future = unsafe { Box::from_raw(frame.future.cast::<Future>()) };
        future.wait().map_err(|failure| failure.message)?;
    }
    failed.map_or(Ok(()), |message| Err(message.to_string_lossy().into_owned()))
}

/// Handlers get arrays in row-major order.
fn check_layouts(call: &ForeignCall<'_>) -> Result<(), String> {
    for name in ["operand_layouts", "result_layouts"] {
        let layouts = call.attrs.get(name).and_then(Attr::as_array).unwrap_or_default();
        let is_row_major = |layout: &Attr| match layout {
            Attr::Dense(dense) => {
                dense.to_i64s().is_none_or(|order| order.iter().rev().copied().eq(0..order.len() as i64))
            }
            _ => true,
        };
        if !layouts.iter().all(is_row_major) {
            return Err(format!("@{} asks for {name} that are not row-major", call.target));
        }
    }
    Ok(())
}

/// A result that is written over an operand starts as that operand.
fn share_aliased(call: &ForeignCall<'_>, results: &mut [Literal]) {
    for alias in call.attrs.get("output_operand_aliases").and_then(Attr::as_array).unwrap_or_default() {
        let text = alias.to_string();
        let numbers = |key: &str| {
            let rest = text.split_once(key).map_or("", |(_, rest)| rest).trim_start_matches([' ', '=', '[']);
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<usize>().ok()
        };
        let Some(operand) = numbers("operand_index").and_then(|i| call.operands.get(i)) else { continue };
        if let Some(result) = results.get_mut(numbers("output_tuple_indices").unwrap_or(0))
            && result.bytes().len() == operand.bytes().len()
        {
            result.bytes_mut().copy_from_slice(operand.bytes());
        }
    }
}

/// What the pointers of a frame point to.
#[derive(Default)]
struct Kept(Vec<Box<dyn Any>>);

impl Kept {
    /// A place that does not move for the value.
    fn keep<T: 'static>(&mut self, value: T) -> *const T {
        let value = Box::new(value);
        let place = &raw const *value;
        self.0.push(value);
        place
    }

    /// The start of a list.
    fn list<T: 'static>(&mut self, values: Vec<T>) -> *const T {
        let start = values.as_ptr();
        self.0.push(Box::new(values));
        start
    }

    fn buffers(
        &mut self,
        values: impl Iterator<Item = (*mut c_void, Vec<i64>, ElementType)>,
    ) -> Result<Buffers, String> {
        let mut all = vec![];
        for (data, dims, elem) in values {
            let dtype = dtype(elem)?;
            let (rank, dims) = (dims.len() as i64, self.list(dims));
            all.push(self.keep(Buffer { head: Head::of::<Buffer>(), dtype, data, rank, dims }));
        }
        let (size, types) = (all.len() as i64, self.list(vec![BUFFER; all.len()]));
        Ok(Buffers { head: Head::of::<Buffers>(), size, types, all: self.list(all) })
    }

    /// Attributes in the order of their names.
    fn attrs(&mut self, dict: &AttrDict) -> Result<Attrs, String> {
        let mut entries: Vec<(String, Attr)> = dict.iter().map(|(n, a)| (n.to_string(), a.clone())).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut types, mut names, mut attrs) = (vec![], vec![], vec![]);
        for (name, value) in entries {
            let (kind, place) = self.attr(&name, &value)?;
            let (size, start) = (name.len(), self.list(name.into_bytes()).cast());
            types.push(kind);
            attrs.push(place);
            names.push(self.keep(ByteSpan { start, size }));
        }
        let size = types.len() as i64;
        let (types, names, attrs) = (self.list(types), self.list(names), self.list(attrs));
        Ok(Attrs { head: Head::of::<Attrs>(), size, types, names, attrs })
    }

    fn attr(&mut self, name: &str, value: &Attr) -> Result<(c_int, *const c_void), String> {
        let scalar = |kept: &mut Kept, elem: ElementType, bytes: Vec<u8>| {
            let dtype = dtype(elem)?;
            let value = kept.list(bytes).cast();
            Ok((attr::SCALAR, kept.keep(Scalar { dtype, value }).cast()))
        };
        match value {
            Attr::Bool(value) => scalar(self, ElementType::I1, vec![u8::from(*value)]),
            Attr::Int(value, elem) => scalar(self, *elem, value.to_le_bytes().to_vec()),
            Attr::Float(value, ElementType::F32) => {
                scalar(self, ElementType::F32, (*value as f32).to_le_bytes().to_vec())
            }
            Attr::Float(value, ElementType::F64) => scalar(self, ElementType::F64, value.to_le_bytes().to_vec()),
            Attr::Str(text) => {
                let bytes = text.as_bytes().to_vec();
                let (size, start) = (bytes.len(), self.list(bytes).cast());
                Ok((attr::STRING, self.keep(ByteSpan { start, size }).cast()))
            }
            Attr::I64Array(values) => {
                let literal = values.iter().flat_map(|n| n.to_le_bytes()).collect();
                self.array(ElementType::I64, values.len(), literal)
            }
            Attr::BoolArray(values) => {
                self.array(ElementType::I1, values.len(), values.iter().map(|&b| u8::from(b)).collect())
            }
            Attr::Dense(dense) => {
                let literal = Dense::to_literal(dense).ok_or_else(|| format!("attribute {name} is too large"))?;
                self.array(literal.elem(), literal.len(), literal.bytes().to_vec())
            }
            Attr::Dict(dict) => {
                let attrs = self.attrs(dict)?;
                Ok((attr::DICTIONARY, self.keep(attrs).cast()))
            }
            other => Err(format!("attribute {name} = {other} has no form that a foreign function could read")),
        }
    }

    fn array(&mut self, elem: ElementType, size: usize, bytes: Vec<u8>) -> Result<(c_int, *const c_void), String> {
        let dtype = dtype(elem)?;
        // Elements of up to 16 bytes may be read in place.
        let mut words = vec![0u128; bytes.len().div_ceil(16)];
        // SAFETY: the words have room for the bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), words.as_mut_ptr().cast(), bytes.len()) };
        let data = self.list(words).cast();
        Ok((attr::ARRAY, self.keep(Array { dtype, size, data }).cast()))
    }
}
