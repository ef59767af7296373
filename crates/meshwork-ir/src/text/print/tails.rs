//! Types and ends of operations that this thread has written before.
//!
//! What follows the operands of most operations depends on their kind, types and attributes only. Programs repeat
//! themselves, and equal types and attributes are mostly one object: so the end of an operation is often a copy of an
//! earlier one. Objects are told apart by their addresses; what is remembered holds on to them.

use std::cell::Cell;
use std::sync::Arc;

use super::Printer;
use super::attr::push_dict;
use super::body::compact_reducer;
use super::out::Line;
use super::short::Short;
use super::write::push_type;
use crate::module::{Addresses, Held};
use crate::{Attr, AttrDict, Module, Op, OpKind, Type, ValueId};

/// So many places a text may have by its key. A power of two.
const PLACES: usize = 512;

/// How many texts, from its place on, are looked at for a key.
const NEAR: usize = 4;

/// The most bytes that the name of an operation takes with the equals sign.
const HEAD: usize = 48;

/// So many bytes of an end are copied at once.
const TAIL: usize = 128;

/// Longer ends are not remembered.
const MOST_TAIL: usize = 4096;

thread_local! {
    static TAILS: Cell<Option<Box<Tails>>> = const { Cell::new(None) };
}

/// The texts.
pub(super) struct Tails {
    known: Box<[Known; PLACES + NEAR]>,
    /// What their keys belong to.
    held: Vec<Held>,
    /// Where there is no place left near that of a key, the next text takes this one of them.
    turn: usize,
}

/// A text: the name of the operation with the equals sign, what stands between operands, the end. Texts stand at fixed
/// places with whatever behind them: a copy of a known length needs neither a loop nor a call.
struct Known {
    key: [usize; 6],
    head: [u8; HEAD],
    tail: [u8; TAIL],
    between: Short,
    head_count: u8,
    tail_count: u8,
    /// What is left of a tail that is longer.
    rest: Vec<u8>,
}

/// What tells texts apart: the kind of an operation, and by their addresses its attributes and types.
struct Key<const N: usize> {
    kind: usize,
    attrs: usize,
    result: usize,
    operands: [usize; N],
}

impl<const N: usize> Key<N> {
    #[inline(always)]
    fn new(module: &Module, kind: usize, attrs: &AttrDict, result: &Type, operands: [ValueId; N]) -> Option<Key<N>> {
        let mut types = [0; N];
        for (ty, operand) in types.iter_mut().zip(operands) {
            *ty = address(module.ty(operand))?;
        }
        Some(Key { kind: kind | N << 24, attrs: attrs.address(), result: address(result)?, operands: types })
    }

    /// A number below [`PLACES`].
    #[inline(always)]
    fn place(&self) -> usize {
        const FACTOR: usize = 0x9E37_79B9_7F4A_7C15;
        const WEIGHTS: [usize; 3] = [5, 9, 17];
        let own = self.kind.wrapping_add(self.attrs).wrapping_add(self.result.wrapping_mul(3));
        let weighted = self.operands.iter().zip(WEIGHTS).map(|(ty, weight)| ty.wrapping_mul(weight));
        weighted.fold(own, usize::wrapping_add).wrapping_mul(FACTOR) >> 40 & (PLACES - 1)
    }

    /// Whether these are the words of the key; others are not looked at.
    #[inline(always)]
    fn is(&self, words: &[usize; 6]) -> bool {
        let [kind, attrs, result, operands @ ..] = words;
        self.kind == *kind
            && self.attrs == *attrs
            && self.result == *result
            && self.operands.iter().zip(operands).all(|(a, b)| a == b)
    }

    fn words(&self) -> [usize; 6] {
        let mut words = [self.kind, self.attrs, self.result, 0, 0, 0];
        words[3..].iter_mut().zip(self.operands).for_each(|(word, ty)| *word = ty);
        words
    }
}

#[inline(always)]
fn address(ty: &Type) -> Option<usize> {
    match ty {
        Type::Tensor(tensor) => Some(Arc::as_ptr(tensor) as usize),
        _ => None,
    }
}

impl Default for Known {
    fn default() -> Known {
        let (head, tail) = ([0; HEAD], [0; TAIL]);
        Known { key: [0; 6], head, tail, between: Short::NONE, head_count: 0, tail_count: 0, rest: vec![] }
    }
}

impl Known {
    /// Appends the end, of which all that is left is `rest`.
    #[inline(always)]
    fn put_tail(&self, line: &mut Line<'_>) {
        match (self.tail_count, self.tail.first_chunk::<32>()) {
            (..=32, Some(start)) => line.put(start, self.tail_count),
            _ => line.put(&self.tail, self.tail_count),
        }
    }
}

impl Tails {
    /// What the thread remembers.
    pub(super) fn take() -> Box<Tails> {
        let anew = || {
            let (mut known, mut held) = (vec![], vec![]);
            known.resize_with(PLACES + NEAR, Default::default);
            held.resize_with(PLACES + NEAR, Default::default);
            // It has that many.
            let Ok(known) = known.try_into() else { unreachable!() };
            Box::new(Tails { known, held, turn: 0 })
        };
        TAILS.try_with(Cell::take).ok().flatten().unwrap_or_else(anew)
    }

    /// Remembers it for the next text.
    pub(super) fn give_back(self: Box<Tails>) {
        // Where the thread is about to end there is nothing to keep it for.
        let _ = TAILS.try_with(|tails| tails.set(Some(self)));
    }

    #[inline(always)]
    fn get<const N: usize>(&self, key: &Key<N>) -> Option<&Known> {
        let near = &self.known[key.place()..][..NEAR];
        near.iter().find(|known| key.is(&known.key))
    }

    fn put<const N: usize>(&mut self, key: &Key<N>, [head, between, tail]: [&str; 3], held: Held) {
        if head.len() > HEAD || tail.len() > MOST_TAIL {
            return;
        }
        let (start, rest) = tail.as_bytes().split_at(tail.len().min(TAIL));
        let (head_count, tail_count) = (head.len() as u8, start.len() as u8);
        let between = Short::new(between);
        let mut new =
            Known { key: key.words(), between, head_count, tail_count, rest: rest.to_vec(), ..Known::default() };
        new.head[..head.len()].copy_from_slice(head.as_bytes());
        new.tail[..start.len()].copy_from_slice(start);
        let near = key.place()..key.place() + NEAR;
        let place = near.clone().find(|&place| self.known[place].key == [0; 6]).unwrap_or(near.start + self.turn);
        self.turn = (self.turn + 1) % NEAR;
        self.known[place] = new;
        self.held[place] = held;
    }
}

/// The kind of `op` as part of a key; it applies `inner`.
#[inline(always)]
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
        OpKind::BroadcastInDim
        | OpKind::Compare
        | OpKind::DotGeneral
        | OpKind::Iota
        | OpKind::Transpose
        | OpKind::Reduce => op.attrs.is_shared(),
        _ => op.attrs.is_empty(),
    }
}

impl<'m> Printer<'m> {
    /// Writes the line of `op` if it consists of its only result, its name, its operands and an end that was written
    /// before.
    #[inline]
    pub(super) fn repeat_line(&mut self, op: &'m Op, result: ValueId) -> Option<()> {
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
        let ty = self.module.ty(result);
        let known = self.tails.get(&Key::new(self.module, kind, &op.attrs, ty, operands)?)?;
        let mut names = [Short::NONE; N];
        for (name, operand) in names.iter_mut().zip(operands) {
            *name = self.names.short(operand);
        }
        let name = self.names.short(result);
        if !(name.is_text() && names.iter().all(|name| name.is_text())) {
            return None;
        }
        let mut line = self.out.line()?;
        line.put(&[b' '; INDENT], self.indent as u8);
        line.put_short(name);
        line.put(&known.head, known.head_count);
        for (i, &name) in names.iter().enumerate() {
            if i > 0 {
                line.put_short(known.between);
            }
            line.put_short(name);
        }
        known.put_tail(&mut line);
        line.finish();
        self.out.push_rest(&known.rest);
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
        let ty = match *op.results() {
            [result] if is_kept(op) => self.module.ty(result),
            _ => return write(self),
        };
        let kind = kind(op, inner);
        match *op.operands() {
            [] => self.tail_on(kind, op, ty, [], write),
            [a] => self.tail_on(kind, op, ty, [a], write),
            [a, b] => self.tail_on(kind, op, ty, [a, b], write),
            [a, b, c] => self.tail_on(kind, op, ty, [a, b, c], write),
            _ => write(self),
        }
    }

    fn tail_on<const N: usize>(
        &mut self,
        kind: usize,
        op: &'m Op,
        ty: &Type,
        operands: [ValueId; N],
        write: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let Some(key) = Key::new(self.module, kind, &op.attrs, ty, operands) else { return write(self) };
        let start = self.out.len();
        write(self)?;
        if self.tails.get(&key).is_none() {
            let (open, between) = match (op.kind(), N) {
                (OpKind::Compare, _) => (format!(" {}, ", op.enum_value("comparison_direction")?), ", "),
                (OpKind::Reduce, _) => ("(".into(), " init: "),
                (_, 0) => (String::new(), ""),
                _ => (" ".into(), ", "),
            };
            let (head, tail) = (format!(" = {}{open}", op.name()), format!("{}\n", self.out.since(start)));
            let held = Addresses::hold(self.module, op.operands(), &op.attrs, Some(ty));
            self.tails.put(&key, [&head, between, &tail], held);
        }
        Some(())
    }

    /// Appends the type of a value.
    pub(super) fn ty(&mut self, value: ValueId) {
        self.typed([], self.module.ty(value), &AttrDict::new());
    }

    /// Appends short texts, a type, and a dictionary unless it is empty: many arguments have the same.
    pub(super) fn typed<const N: usize>(&mut self, before: [Short; N], ty: &Type, dict: &AttrDict) {
        let key = Key::new(self.module, TYPED, dict, ty, []);
        let known = key.as_ref().and_then(|key| self.tails.get(key));
        if let Some(mut line) = self.out.line() {
            before.iter().for_each(|&text| line.put_short(text));
            if let Some(known) = known {
                known.put_tail(&mut line);
            }
            line.finish();
        }
        if let Some(known) = known {
            return self.out.push_rest(&known.rest);
        }
        let start = self.out.len();
        push_type(&mut self.out, ty);
        if !dict.is_empty() {
            self.out.push(' ');
            push_dict(&mut self.out, dict);
        }
        let is_kept = dict.iter().all(|(_, attr)| matches!(attr, Attr::Sharding(_)));
        if let Some(key) = key.filter(|_| is_kept) {
            let held = Addresses::hold(self.module, &[], dict, Some(ty));
            self.tails.put(&key, ["", "", self.out.since(start)], held);
        }
    }
}

/// The kind of no operation.
const TYPED: usize = u16::MAX as usize;

/// Only lines of this depth or less are repeated.
pub(super) const INDENT: usize = 16;

#[cfg(test)]
mod tests {
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
    fn shared_attributes_that_stand_before_operands_are_part_of_the_name() {
        let text = r#"module {
  func.func @main(%arg0: tensor<2xi32>) {
    %0 = stablehlo.iota dim = 0 : tensor<2xi32>
    %1 = stablehlo.compare LT, %0, %arg0, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %2 = stablehlo.compare GE, %arg0, %0, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    return
  }
}
"#;
        let module = crate::text::parse(text).unwrap();
        // A copy of a module shares its attributes.
        let copy = module.clone();
        assert_eq!([print(&module), print(&copy), print(&module)], [text; 3]);
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
    fn texts_of_any_length_are_the_same_the_second_time() {
        for rank in [0, 1, 10, 20, 50, 200, 3000] {
            let ty = format!("tensor<{}f32>", "1x".repeat(rank));
            let line = format!("stablehlo.add %arg0, %arg0 : {ty}\n");
            let text = format!("func.func @f(%a: {ty}) {{ %0 = stablehlo.add %a, %a : {ty} return }}");
            let module = crate::text::parse(&text).unwrap();
            assert!([print(&module), print(&module)].iter().all(|text| text.contains(&line)), "rank {rank}");
        }
    }

    #[test]
    fn texts_are_replaced_where_they_are_too_many() {
        let mut tails = Tails::take();
        let module = Module::new();
        let types: Vec<_> = (0..5000).map(|n| Type::tensor([n], crate::ElementType::F32)).collect();
        let key = |ty| Key::new(&module, TYPED, &AttrDict::new(), ty, []).unwrap();
        for ty in &types {
            tails.put(&key(ty), ["", "", &ty.to_string()], Held::default());
        }
        let text = |ty| tails.get(&key(ty)).map(|known| &known.tail[..usize::from(known.tail_count)]);
        assert_eq!(text(&types[4999]), Some(types[4999].to_string().as_bytes()));
        let known: Vec<_> = types.iter().filter(|ty| text(ty).is_some()).collect();
        assert!(known.len() > PLACES / 2 && known.len() <= PLACES + NEAR, "{} texts", known.len());
        assert!(known.iter().all(|ty| text(ty) == Some(ty.to_string().as_bytes())));
    }
}
