//! Attributes and types by number, each read when it is first asked for.

use std::sync::Arc;

use meshwork_mesh::{AxisRef, DimSharding, SubAxis};

use super::container::{Container, Entry, bytes_of, text_of};
use super::cursor::{Cursor, Read, error};
use super::resource::Resource;
use crate::attr::AllToAllParam;
use crate::{Attr, AttrDict, Loc, Type, text};

/// How deep attributes, types and locations may nest.
pub(super) const MAX_DEPTH: u32 = 128;

/// What all entries that the program uses may amount to when they are written out: this much,
const MAX_BYTES: u64 = 64 << 20;
/// and this many times the length of the file.
const MAX_TIMES: u64 = 1 << 10;

/// What an attribute entry means.
#[derive(Clone)]
pub(super) enum Piece {
    /// An attribute of the program.
    Attr(Attr),
    /// A location.
    Loc(Loc),
    /// Parts of `sdy` attributes.
    MeshAxis(Arc<str>, i64),
    SubAxis(SubAxis),
    Axis(AxisRef),
    Dim(Arc<DimSharding>),
    Factors(Arc<[usize]>),
    Mapping(Arc<[Vec<usize>]>),
    Move(Arc<AllToAllParam>),
}

/// How deep something nests, and about how many bytes it takes when it is written out.
#[derive(Clone, Copy, Default)]
struct Weight {
    depth: u32,
    bytes: u64,
}

enum Slot<T> {
    Unread,
    /// Being read: it must not ask for itself.
    Open,
    Read(T, Weight),
}

/// Entries by number, each with what was read of it.
type Slots<'a, T> = Vec<(Entry<'a>, Slot<T>)>;

/// The attributes and types of a file.
pub(super) struct Table<'a> {
    strings: Vec<&'a [u8]>,
    resources: Vec<Resource<'a>>,
    attrs: Slots<'a, Piece>,
    types: Slots<'a, Type>,
    /// Of the entry being read, so far; outside entries, of everything that was used.
    weight: Weight,
    /// How many entries are being read.
    open: u32,
    limit: u64,
}

impl<'a> Table<'a> {
    /// The tables of `file`, which is `length` bytes long.
    pub fn new(file: &mut Container<'a>, length: usize) -> Self {
        fn unread<E, T>(entries: Vec<E>) -> Vec<(E, Slot<T>)> {
            entries.into_iter().map(|e| (e, Slot::Unread)).collect()
        }
        Table {
            strings: std::mem::take(&mut file.strings),
            resources: std::mem::take(&mut file.resources),
            attrs: unread(std::mem::take(&mut file.attrs)),
            types: unread(std::mem::take(&mut file.types)),
            weight: Weight::default(),
            open: 0,
            limit: MAX_BYTES.saturating_add(MAX_TIMES.saturating_mul(length as u64)),
        }
    }

    /// The attribute, location or part of number `index`, named at byte `at`.
    pub fn piece(&mut self, index: usize, at: usize) -> Read<Piece> {
        self.numbered("attribute", |table| &mut table.attrs, Self::read_piece, index, at)
    }

    /// The type of number `index`, named at byte `at`.
    pub fn ty(&mut self, index: usize, at: usize) -> Read<Type> {
        self.numbered("type", |table| &mut table.types, Self::read_type, index, at)
    }

    /// Number `index` of a list of entries, read if it is asked for the first time.
    fn numbered<T: Clone>(
        &mut self,
        what: &str,
        list: fn(&mut Self) -> &mut Slots<'a, T>,
        read: fn(&mut Self, Entry<'a>) -> Read<T>,
        index: usize,
        at: usize,
    ) -> Read<T> {
        let count = list(self).len();
        let Some((entry, slot)) = list(self).get_mut(index) else {
            return Err(error(at, format_args!("{what} {index} of {count}")));
        };
        let entry = *entry;
        let (value, weight) = match slot {
            Slot::Read(value, weight) => (value.clone(), *weight),
            Slot::Open => return Err(error(at, format_args!("{what} {index} contains itself"))),
            Slot::Unread => {
                *slot = Slot::Open;
                let (value, weight) = self.entry(entry, at, read)?;
                list(self)[index].1 = Slot::Read(value.clone(), weight);
                (value, weight)
            }
        };
        self.charge(weight, at)?;
        Ok(value)
    }

    /// Reads an entry and weighs it.
    fn entry<T>(
        &mut self,
        entry: Entry<'a>,
        at: usize,
        read: impl FnOnce(&mut Self, Entry<'a>) -> Read<T>,
    ) -> Read<(T, Weight)> {
        if self.open >= MAX_DEPTH {
            return Err(too_deep(at));
        }
        let outer = std::mem::replace(&mut self.weight, Weight { depth: 0, bytes: entry.bytes.left() as u64 });
        self.open += 1;
        let value = read(self, entry);
        self.open -= 1;
        let weight = std::mem::replace(&mut self.weight, outer);
        Ok((value?, weight))
    }

    /// Counts something of this weight as part of what is being read.
    fn charge(&mut self, part: Weight, at: usize) -> Read<()> {
        self.weight.bytes = self.weight.bytes.saturating_add(part.bytes);
        if self.weight.bytes > self.limit {
            return Err(error(at, "the attributes used so far stand for too much text"));
        }
        if self.open > 0 {
            self.weight.depth = self.weight.depth.max(part.depth + 1);
            if self.weight.depth > MAX_DEPTH {
                return Err(too_deep(at));
            }
        }
        Ok(())
    }

    fn read_piece(&mut self, entry: Entry<'a>) -> Read<Piece> {
        let mut c = entry.bytes;
        let piece = match (entry.custom, entry.dialect) {
            (true, "builtin") => self.builtin_attr(&mut c)?,
            (true, "vhlo") => Piece::Attr(self.vhlo_attr(&mut c)?),
            (true, "sdy") => self.sdy_attr(&mut c)?,
            (true, dialect) => return Err(c.error(format_args!("an attribute of dialect '{dialect}'"))),
            (false, _) => {
                let text = text_entry(&mut c)?;
                Piece::Attr(text::parse_attr(text).map_err(|e| entry.bytes.error(e.message))?)
            }
        };
        c.end("an attribute")?;
        Ok(piece)
    }

    fn read_type(&mut self, entry: Entry<'a>) -> Read<Type> {
        let mut c = entry.bytes;
        let ty = match (entry.custom, entry.dialect) {
            (true, "builtin") => self.builtin_type(&mut c)?,
            (true, "vhlo") => self.vhlo_type(&mut c)?,
            // Values of operations that VHLO does not have keep StableHLO's own type of tokens.
            (true, "stablehlo") if c.varint()? == 0 => Type::Token,
            (true, dialect) => return Err(c.error(format_args!("a type of dialect '{dialect}'"))),
            (false, _) => {
                let text = text_entry(&mut c)?;
                text::parse_type(text).map_err(|e| crate::Diagnostic { pos: crate::TextPos::default(), ..e })?
            }
        };
        c.end("a type")?;
        Ok(ty)
    }

    /// The dictionary that stands next: pairs of a name and an attribute.
    pub fn next_dict(&mut self, c: &mut Cursor<'a>) -> Read<Attr> {
        let mut dict = AttrDict::new();
        for _ in 0..c.count()? {
            let name = self.next_string_attr(c)?;
            if dict.set(&*name, self.next_attr(c)?).is_some() {
                return Err(c.error(format_args!("attribute '{name}' is given twice")));
            }
        }
        Ok(Attr::Dict(Arc::new(dict)))
    }

    /// The attribute that the cursor names next, whatever it is.
    pub fn next_piece(&mut self, c: &mut Cursor<'a>) -> Read<Piece> {
        let at = c.at();
        let index = c.index()?;
        self.piece(index, at)
    }

    /// The attribute that the cursor names next.
    pub fn next_attr(&mut self, c: &mut Cursor<'a>) -> Read<Attr> {
        let at = c.at();
        match self.next_piece(c)? {
            Piece::Attr(attr) => Ok(attr),
            Piece::Loc(loc) => Ok(Attr::Opaque(text::loc_text(&loc).into())),
            _ => Err(error(at, "a part of an sdy attribute stands for an attribute")),
        }
    }

    /// The attribute that the cursor names next, if it names one.
    pub fn next_optional(&mut self, c: &mut Cursor<'a>) -> Read<Option<Attr>> {
        let at = c.at();
        let (index, present) = c.flagged_index()?;
        if !present {
            return Ok(None);
        }
        match self.piece(index, at)? {
            Piece::Attr(attr) => Ok(Some(attr)),
            _ => Err(error(at, "expected an attribute")),
        }
    }

    /// The location that the cursor names next.
    pub fn next_loc(&mut self, c: &mut Cursor<'a>) -> Read<Loc> {
        let at = c.at();
        match self.next_piece(c)? {
            Piece::Loc(loc) => Ok(loc),
            Piece::Attr(Attr::Opaque(text)) => Ok(crate::LocKind::Opaque(text.as_str().into()).into()),
            _ => Err(error(at, "expected a location")),
        }
    }

    /// The string attribute that the cursor names next.
    pub fn next_string_attr(&mut self, c: &mut Cursor<'a>) -> Read<Arc<str>> {
        let at = c.at();
        match self.next_attr(c)? {
            Attr::Str(text) => Ok(text),
            other => Err(error(at, format_args!("expected a string, found {other}"))),
        }
    }

    /// The type that the cursor names next.
    pub fn next_type(&mut self, c: &mut Cursor<'a>) -> Read<Type> {
        let at = c.at();
        let index = c.index()?;
        self.ty(index, at)
    }

    /// The types that the cursor names next, their number first.
    pub fn next_types(&mut self, c: &mut Cursor<'a>) -> Read<Vec<Type>> {
        c.list(|c| self.next_type(c))
    }

    /// The string that the cursor names next, as text.
    pub fn next_text(&mut self, c: &mut Cursor<'a>) -> Read<&'a str> {
        let at = c.at();
        let text = text_of(&self.strings, c.index()?, at)?;
        self.weight.bytes += text.len() as u64;
        Ok(text)
    }

    /// The string that the cursor names next, as a string attribute: bytes that are no text are written as escapes.
    pub fn next_string(&mut self, c: &mut Cursor<'a>) -> Read<Attr> {
        let at = c.at();
        let bytes = bytes_of(&self.strings, c.index()?, at)?;
        self.weight.bytes += bytes.len() as u64;
        Ok(match std::str::from_utf8(bytes) {
            Ok(text) => Attr::str(text),
            Err(_) => Attr::Opaque(text::quoted(bytes).into()),
        })
    }

    /// The resource that the cursor names next.
    pub fn next_resource(&mut self, c: &mut Cursor<'a>) -> Read<Resource<'a>> {
        let index = c.index()?;
        let missing = || c.error(format_args!("resource {index} of {}", self.resources.len()));
        self.resources.get(index).copied().ok_or_else(missing)
    }
}

fn too_deep(at: usize) -> crate::Diagnostic {
    error(at, format_args!("this nests deeper than {MAX_DEPTH} levels"))
}

/// Text with a zero at its end.
fn text_entry<'a>(c: &mut Cursor<'a>) -> Read<&'a str> {
    let start = *c;
    let bytes = c.take(c.left())?;
    match bytes.split_last().map(|(last, text)| (last, std::str::from_utf8(text))) {
        Some((0, Ok(text))) => Ok(text),
        _ => Err(start.error("expected text that ends in a zero")),
    }
}
