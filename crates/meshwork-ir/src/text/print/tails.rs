//! A table of texts that this thread has written before.
//!
//! Equal types and attributes are mostly one object. So objects are told apart by their addresses; what is remembered
//! holds on to them. The table is small and forgets: nothing depends on what it holds.

use std::cell::Cell;
use std::sync::Arc;

use super::out::Line;
use super::short::Short;
use crate::module::Held;
use crate::{AttrDict, Module, Type, ValueId};

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
pub(super) struct Known {
    key: [usize; 6],
    pub(super) head: [u8; HEAD],
    tail: [u8; TAIL],
    pub(super) between: Short,
    pub(super) head_count: u8,
    tail_count: u8,
    /// What is left of a tail that is longer.
    pub(super) rest: Vec<u8>,
}

/// What tells texts apart: the kind of an operation, and by their addresses its attributes and types.
pub(super) struct Key<const N: usize> {
    kind: usize,
    attrs: usize,
    result: usize,
    operands: [usize; N],
}

impl<const N: usize> Key<N> {
    /// None if there are other types than tensors. `kind` is less than 2^24.
    #[inline(always)]
    pub(super) fn new(
        module: &Module,
        kind: usize,
        attrs: &AttrDict,
        result: &Type,
        operands: [ValueId; N],
    ) -> Option<Key<N>> {
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
    pub(super) fn put_tail(&self, line: &mut Line<'_>) {
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

    /// The text for `key`.
    #[inline(always)]
    pub(super) fn get<const N: usize>(&self, key: &Key<N>) -> Option<&Known> {
        let near = &self.known[key.place()..][..NEAR];
        near.iter().find(|known| key.is(&known.key))
    }

    /// Remembers the parts of a text, and what the addresses of its key belong to.
    pub(super) fn put<const N: usize>(&mut self, key: &Key<N>, [head, between, tail]: [&str; 3], held: Held) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_replaced_where_they_are_too_many() {
        let mut tails = Tails::take();
        let module = Module::new();
        let types: Vec<_> = (0..5000).map(|n| Type::tensor([n], crate::ElementType::F32)).collect();
        let key = |ty| Key::new(&module, 1, &AttrDict::new(), ty, []).unwrap();
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
