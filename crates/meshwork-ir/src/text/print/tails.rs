//! Types and ends of operations that this thread has written before.
//!
//! What follows the operands of most operations depends on their kind, types and attributes only. Programs repeat
//! themselves, and equal types and attributes are mostly one object: so the end of an operation is often a copy of an
//! earlier one. Objects are told apart by their addresses; what is remembered holds on to them.

use std::cell::Cell;

use super::Printer;
use super::attr::push_dict;
use super::body::compact_reducer;
use super::out::{Out, put_start};
use super::short::Short;
use super::write::push_type;
use crate::module::{Addresses, Held};
use crate::{Attr, AttrDict, Op, OpKind, Type, ValueId};

/// How many pairs of texts are remembered. A power of two.
const PAIRS: usize = 512;

/// How many bytes of text are remembered.
const MOST_TEXT: usize = 1 << 16;

/// How many bytes the name of an operation with the equals sign takes, and what is behind it up to there.
const HEAD: usize = 48;

/// So many bytes follow each name, whatever they are.
const BEHIND: usize = 128;

thread_local! {
    static TAILS: Cell<Option<Box<Tails>>> = const { Cell::new(None) };
}

/// The texts.
pub(super) struct Tails {
    /// The newer and the older text of each slot, and what their keys belong to.
    known: Vec<[Known; 2]>,
    held: Vec<[Held; 2]>,
    text: Vec<u8>,
}

/// Where a text stands: in [`HEAD`] bytes the name of the operation and the equals sign, then the end.
struct Known {
    key: Addresses,
    start: u32,
    head: u32,
    tail: u32,
    /// What stands between operands.
    between: Short,
}

impl Default for Known {
    fn default() -> Known {
        Known { key: Addresses::default(), start: 0, head: 0, tail: 0, between: Short::NONE }
    }
}

impl Tails {
    /// What the thread remembers.
    pub(super) fn take() -> Box<Tails> {
        let anew = || {
            let (mut known, mut held) = (vec![], vec![]);
            known.resize_with(PAIRS, Default::default);
            held.resize_with(PAIRS, Default::default);
            Box::new(Tails { known, held, text: vec![0; BEHIND] })
        };
        TAILS.try_with(Cell::take).ok().flatten().unwrap_or_else(anew)
    }

    /// Remembers it for the next text.
    pub(super) fn give_back(self: Box<Tails>) {
        // Where the thread is about to end there is nothing to keep it for.
        let _ = TAILS.try_with(|tails| tails.set(Some(self)));
    }

    /// What is known for `key`: where its parts are, and the text from its start on.
    #[inline]
    fn get(&self, key: &Addresses) -> Option<(&Known, &[u8])> {
        let [first, second] = &self.known[key.slot(PAIRS)];
        let known = match () {
            () if first.key == *key => first,
            () if second.key == *key => second,
            () => return None,
        };
        Some((known, self.text.get(known.start as usize..)?))
    }

    fn put(&mut self, key: Addresses, [head, between, tail]: [&str; 3], held: Held) {
        if head.len() > HEAD || tail.len() > MOST_TEXT {
            return;
        }
        if self.text.len() + HEAD + tail.len() > MOST_TEXT {
            self.text.resize(BEHIND, 0);
            self.known.iter_mut().for_each(|pair| *pair = Default::default());
            self.held.iter_mut().for_each(|pair| *pair = Default::default());
        }
        let start = self.text.len() - BEHIND;
        self.text.truncate(start);
        self.text.extend_from_slice(head.as_bytes());
        self.text.resize(start + HEAD, 0);
        self.text.extend_from_slice(tail.as_bytes());
        self.text.resize(start + HEAD + tail.len() + BEHIND, 0);
        // All are below MOST_TEXT.
        let [start, head, tail] = [start, head.len(), tail.len()].map(|n| n as u32);
        let slot = key.slot(PAIRS);
        self.known[slot].swap(0, 1);
        self.known[slot][0] = Known { key, start, head, tail, between: Short::new(between) };
        self.held[slot].swap(0, 1);
        self.held[slot][0] = held;
    }
}

/// The key of `op`, which applies `inner`.
fn kind(op: &Op, inner: Option<OpKind>) -> usize {
    op.kind() as usize | inner.map_or(0, |kind| kind as usize + 1) << 16
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
    /// Writes the line of `op` if it consists of its name, its operands and an end that was written before.
    #[inline]
    pub(super) fn repeat_line(&mut self, op: &'m Op) -> Option<()> {
        let &[result] = op.results() else { return None };
        let kind = match op.regions() {
            [] => kind(op, None),
            _ => kind(op, Some(compact_reducer(self.module, op)?)),
        };
        match *op.operands() {
            [] => self.repeat_on(kind, op, result, []),
            [a] => self.repeat_on(kind, op, result, [a]),
            [a, b] => self.repeat_on(kind, op, result, [a, b]),
            [a, b, c] => self.repeat_on(kind, op, result, [a, b, c]),
            _ => None,
        }
    }

    #[inline(always)]
    fn repeat_on<const N: usize>(
        &mut self,
        kind: usize,
        op: &'m Op,
        result: ValueId,
        operands: [ValueId; N],
    ) -> Option<()> {
        let ty = Some(self.module.ty(result));
        let (known, text) = self.tails.get(&Addresses::of(self.module, kind, &operands, &op.attrs, ty)?)?;
        let (names, tail) = (&self.names, known.tail as usize);
        let (head, text) = text.split_first_chunk::<HEAD>()?;
        let room = self.out.room(INDENT + 8 + HEAD + N * 16 + tail.max(BEHIND));
        let before = room.len();
        *room.first_chunk_mut()? = [b' '; INDENT];
        let room = names.short(result).put(room.get_mut(self.indent..)?)?;
        *room.first_chunk_mut()? = *head;
        let mut room = room.get_mut(known.head as usize..)?;
        for (i, &operand) in operands.iter().enumerate() {
            if i > 0 {
                room = known.between.put(room)?;
            }
            room = names.short(operand).put(room)?;
        }
        let taken = before - put_start(room, text, tail)?.len();
        self.out.took(taken);
        Some(())
    }

    /// Appends what `write` writes for the end of `op`, which applies `inner`: no names of values. Before it stand the
    /// name of the operation and nothing but its operands.
    pub(super) fn tail(
        &mut self,
        op: &'m Op,
        inner: Option<OpKind>,
        write: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let start = self.out.len();
        write(self)?;
        let (&[result], true) = (op.results(), is_kept(op)) else { return Some(()) };
        let (module, ty) = (self.module, Some(self.module.ty(result)));
        if let Some(key) = Addresses::of(module, kind(op, inner), op.operands(), &op.attrs, ty) {
            let (open, between) = match (op.kind(), op.operands()) {
                (OpKind::Reduce, _) => ("(", " init: "),
                (_, []) => ("", ""),
                _ => (" ", ", "),
            };
            let (head, tail) = (format!(" = {}{open}", op.name()), format!("{}\n", self.out.since(start)));
            self.tails.put(key, [&head, between, &tail], Addresses::hold(module, op.operands(), &op.attrs, ty));
        }
        Some(())
    }

    /// Appends the type of a value.
    pub(super) fn ty(&mut self, value: ValueId) {
        match self.module.ty(value) {
            ty @ Type::Tensor(tensor) => {
                self.keep(Addresses::of_type(tensor), &AttrDict::new(), Some(ty), |out| push_type(out, ty))
            }
            ty => push_type(&mut self.out, ty),
        }
    }

    /// Appends a dictionary: many arguments have the same one.
    pub(super) fn known_dict(&mut self, dict: &AttrDict) {
        let is_placement = dict.len() == 1 && matches!(dict.iter().next(), Some((_, Attr::Sharding(_))));
        match is_placement {
            true => self.keep(Addresses::of_dict(dict), dict, None, |out| push_dict(out, dict)),
            false => push_dict(&mut self.out, dict),
        }
    }

    /// Appends what was written for `key` before, or what `write` writes.
    fn keep(&mut self, key: Addresses, attrs: &AttrDict, ty: Option<&Type>, write: impl FnOnce(&mut Out)) {
        if let Some((known, text)) = self.tails.get(&key) {
            return self.out.push_bytes(&text[HEAD..][..known.tail as usize]);
        }
        let start = self.out.len();
        write(&mut self.out);
        let held = Addresses::hold(self.module, &[], attrs, ty);
        self.tails.put(key, ["", "", self.out.since(start)], held);
    }
}

/// Only lines of this depth or less are repeated.
pub(super) const INDENT: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::TensorType;
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
    fn lines_of_any_depth_are_the_same_the_second_time() {
        let (open, close) = (
            "sdy.named_computation<\"f\">(%a) (%a: tensor<2xf32>) {",
            "sdy.return %b : tensor<2xf32> } : (tensor<2xf32>) -> tensor<2xf32>",
        );
        let sum = "%b = stablehlo.add %a, %a : tensor<2xf32>";
        let nested = (0..12).fold(sum.to_string(), |inner, _| format!("{sum} %c = {open} {inner} {close}"));
        let text = format!("func.func @f(%a: tensor<2xf32>) {{ {nested} return }}");
        let module = crate::text::parse(&text).unwrap();
        let printed = print(&module);
        assert!(
            printed.contains("\n                            %24 = stablehlo.add %arg12, %arg12 : tensor<2xf32>\n"),
            "{printed}"
        );
        assert_eq!(print(&module), printed);
        assert_eq!(print(&crate::text::parse(&printed).unwrap()), printed);
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
            tails.put(Addresses::of_type(ty), ["", "", &out.into_string().repeat(20)], Held::default());
            assert!(tails.text.len() <= MOST_TEXT + BEHIND);
        }
        assert!(tails.get(&Addresses::of_type(&types[0])).is_none());
        let known = tails.get(&Addresses::of_type(&types[999])).map(|(known, _)| known.tail as usize);
        assert_eq!(known, Some(20 * "tensor<999xf32>".len()));
    }
}
