//! Types and ends of operations that this thread has written before.
//!
//! What follows the operands of most operations depends on their kind, types and attributes only. Programs repeat
//! themselves, and equal types and attributes are mostly one object: so the end of an operation is often a copy of an
//! earlier one. Objects are told apart by their addresses; what is remembered holds on to them.

use std::cell::Cell;
use std::sync::Arc;

use super::Printer;
use super::attr::push_dict;
use super::write::push_type;
use crate::module::{Addresses, Held};
use crate::{Attr, AttrDict, Op, OpKind, TensorType, Type, ValueId};

/// How many pairs of texts are remembered. A power of two.
const PAIRS: usize = 512;

/// How many bytes of text are remembered.
const MOST_TEXT: usize = 1 << 16;

/// So many bytes follow each text, whatever they are.
const BEHIND: usize = 32;

thread_local! {
    static TAILS: Cell<Option<Box<Tails>>> = const { Cell::new(None) };
}

/// The texts.
pub(super) struct Tails {
    /// The newer and the older text of each slot.
    known: Vec<[Known; 2]>,
    text: Vec<u8>,
}

/// Where a text stands: the name of the operation and the equals sign, then its end.
#[derive(Default)]
struct Known {
    key: Addresses,
    start: u32,
    middle: u32,
    end: u32,
    _held: Held,
}

/// A text: the name of an operation with the equals sign, and its end.
struct Parts<'t> {
    text: &'t [u8],
    head: usize,
    tail: usize,
}

impl Tails {
    /// What the thread remembers.
    pub(super) fn take() -> Box<Tails> {
        let anew = || {
            let mut known = vec![];
            known.resize_with(PAIRS, Default::default);
            Box::new(Tails { known, text: vec![0; BEHIND] })
        };
        TAILS.try_with(Cell::take).ok().flatten().unwrap_or_else(anew)
    }

    /// Remembers it for the next text.
    pub(super) fn give_back(self: Box<Tails>) {
        // Where the thread is about to end there is nothing to keep it for.
        let _ = TAILS.try_with(|tails| tails.set(Some(self)));
    }

    #[inline]
    fn get(&self, key: &Addresses) -> Option<Parts<'_>> {
        let [first, second] = &self.known[key.slot(PAIRS)];
        let known = match () {
            () if first.key == *key => first,
            () if second.key == *key => second,
            () => return None,
        };
        let [start, middle, end] = [known.start, known.middle, known.end].map(|at| at as usize);
        Some(Parts { text: self.text.get(start..)?, head: middle - start, tail: end - middle })
    }

    fn put(&mut self, key: Addresses, head: &str, tail: &str, held: Held) {
        if self.text.len() + head.len() + tail.len() > MOST_TEXT {
            self.text.clear();
            self.text.resize(BEHIND, 0);
            self.known.iter_mut().for_each(|pair| *pair = Default::default());
            if self.text.len() + head.len() + tail.len() > MOST_TEXT {
                return;
            }
        }
        let start = self.text.len() - BEHIND;
        self.text.truncate(start);
        self.text.extend_from_slice(head.as_bytes());
        let middle = self.text.len();
        self.text.extend_from_slice(tail.as_bytes());
        let end = self.text.len();
        self.text.resize(end + BEHIND, 0);
        // All are below MOST_TEXT.
        let [start, middle, end] = [start, middle, end].map(|at| at as u32);
        let [first, second] = &mut self.known[key.slot(PAIRS)];
        *second = std::mem::replace(first, Known { key, start, middle, end, _held: held });
    }
}

/// The key of `op`, which applies `inner`.
fn key(printer: &Printer<'_>, op: &Op, inner: Option<OpKind>) -> Option<Addresses> {
    let &[result] = op.results() else { return None };
    let kind = op.kind() as usize | inner.map_or(0, |kind| kind as usize + 1) << 16;
    Addresses::of(printer.module, kind, op.operands(), &op.attrs, Some(printer.module.ty(result)))
}

/// Whether the end of `op` may come again and is small.
fn is_kept(op: &Op) -> bool {
    match op.kind() {
        OpKind::Constant => {
            let small = |dense: &crate::Dense| dense.splat_bytes().is_some_and(|bytes| bytes.len() <= 16);
            op.attrs.is_shared() && matches!(op.attr("value"), Some(Attr::Dense(dense)) if small(dense))
        }
        // Their kind does not tell their name.
        OpKind::Unregistered => false,
        OpKind::BroadcastInDim | OpKind::DotGeneral | OpKind::Transpose | OpKind::Reduce => op.attrs.is_shared(),
        _ => op.attrs.is_empty(),
    }
}

impl<'m> Printer<'m> {
    /// Writes `op` if it consists of its name, its operands and an end that was written before.
    pub(super) fn repeat(&mut self, op: &'m Op) -> bool {
        let (&[result], true) = (op.results(), op.regions().is_empty()) else { return false };
        match *op.operands() {
            [] => self.repeat_on(op, result, []),
            [a] => self.repeat_on(op, result, [a]),
            [a, b] => self.repeat_on(op, result, [a, b]),
            [a, b, c] => self.repeat_on(op, result, [a, b, c]),
            _ => false,
        }
    }

    #[inline(always)]
    fn repeat_on<const N: usize>(&mut self, op: &'m Op, result: ValueId, operands: [ValueId; N]) -> bool {
        let ty = Some(self.module.ty(result));
        let Some(key) = Addresses::of(self.module, op.kind() as usize, &operands, &op.attrs, ty) else { return false };
        let Some(Parts { text, head, tail }) = self.tails.get(&key) else { return false };
        let (out, names) = (&mut self.out, &self.names);
        names.push(out, result);
        out.push_start(text, head);
        for (i, &operand) in operands.iter().enumerate() {
            out.push_start(if i == 0 { &FIRST } else { &NEXT }, if i == 0 { 1 } else { 2 });
            names.push(out, operand);
        }
        out.push_start(&text[head..], tail);
        true
    }

    /// Appends what `write` writes for the end of `op`, which applies `inner`: no names of values. Before it stand the
    /// name of the operation and, unless it applies something, nothing but its operands.
    pub(super) fn tail(
        &mut self,
        op: &'m Op,
        inner: Option<OpKind>,
        write: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let Some(key) = key(self, op, inner).filter(|_| is_kept(op)) else { return write(self) };
        if let Some(Parts { text, head, tail }) = self.tails.get(&key) {
            self.out.push_start(&text[head..], tail);
            return Some(());
        }
        let start = self.out.len();
        write(self)?;
        let held = Addresses::hold(self.module, op.operands(), &op.attrs, Some(self.module.ty(*op.results().first()?)));
        self.tails.put(key, &format!(" = {}", op.name()), self.out.since(start), held);
        Some(())
    }

    /// Appends the type of a value.
    pub(super) fn ty(&mut self, value: ValueId) {
        match self.module.ty(value) {
            ty @ Type::Tensor(tensor) => self.tensor(ty, tensor),
            ty => push_type(&mut self.out, ty),
        }
    }

    /// Appends a dictionary: many arguments have the same one.
    pub(super) fn known_dict(&mut self, dict: &AttrDict) {
        let key = Addresses::of_dict(dict);
        if let Some(Parts { text, tail, .. }) = self.tails.get(&key) {
            return self.out.push_start(text, tail);
        }
        let start = self.out.len();
        push_dict(&mut self.out, dict);
        let is_placement = dict.len() == 1 && matches!(dict.iter().next(), Some((_, Attr::Sharding(_))));
        if is_placement {
            let held = Addresses::hold(self.module, &[], dict, None);
            self.tails.put(key, "", self.out.since(start), held);
        }
    }

    fn tensor(&mut self, ty: &Type, tensor: &Arc<TensorType>) {
        let key = Addresses::of_type(tensor);
        if let Some(Parts { text, tail, .. }) = self.tails.get(&key) {
            return self.out.push_start(text, tail);
        }
        let start = self.out.len();
        push_type(&mut self.out, ty);
        let held = Addresses::hold(self.module, &[], &AttrDict::new(), Some(ty));
        self.tails.put(key, "", self.out.since(start), held);
    }
}

/// What stands before operands, with more behind it than is written.
const FIRST: [u8; 32] = [b' '; 32];
const NEXT: [u8; 32] = *b",                               ";

#[cfg(test)]
mod tests {
    use super::super::out::Out;
    use super::*;
    use crate::text::print;

    #[test]
    fn a_text_is_the_same_the_second_time() {
        let text = r#"module {
  func.func @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) -> tensor<3x2xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<2x3xf32>
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<2x3xf32>
    %2 = stablehlo.multiply %1, %cst : tensor<2x3xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    return %3 : tensor<3x2xf32>
  }
}
"#;
        let module = crate::text::parse(text).unwrap();
        assert_eq!(print(&module), text);
        assert_eq!(print(&module), text);
        assert_eq!(print(&module.clone()), text);
    }

    #[test]
    fn operations_of_one_kind_keep_their_names() {
        let text = r#"module {
  func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
    %0 = chlo.broadcast_add %arg0, %arg1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %1 = chlo.broadcast_multiply %0, %arg1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}
"#;
        assert_eq!(print(&crate::text::parse(text).unwrap()), text);
    }

    #[test]
    fn texts_are_forgotten_where_they_are_too_many() {
        let mut tails = Tails::take();
        let types: Vec<_> = (0..1000).map(|n| Arc::new(TensorType::new([n], crate::ElementType::F32))).collect();
        for ty in &types {
            let mut out = Out::default();
            push_type(&mut out, &Type::Tensor(ty.clone()));
            tails.put(Addresses::of_type(ty), "", &out.into_string().repeat(20), Held::default());
            assert!(tails.text.len() <= MOST_TEXT + BEHIND);
        }
        assert!(tails.get(&Addresses::of_type(&types[0])).is_none());
        let known = tails.get(&Addresses::of_type(&types[999])).map(|parts| parts.tail);
        assert_eq!(known, Some(20 * "tensor<999xf32>".len()));
    }
}
