//! The sections of a bytecode file: strings, operation names, where attributes and types lie, properties.

use super::cursor::{Cursor, Read, error, unsupported};
use super::resource::{self, Resource};

/// What every bytecode file starts with.
pub(super) const MAGIC: [u8; 4] = *b"ML\xefR";

/// The version of the container that StableHLO 0.15 and later write.
const VERSION: u64 = 6;

/// An attribute or a type as it is stored.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    /// The dialect it belongs to.
    pub dialect: &'a str,
    /// Its encoding: the dialect's own, or text.
    pub bytes: Cursor<'a>,
    /// Whether `bytes` are the dialect's own encoding.
    pub custom: bool,
}

/// The name of an operation.
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    /// `vhlo`.
    pub dialect: &'a str,
    /// `add_v1`.
    pub op: &'a str,
}

/// A file taken apart.
pub(super) struct Container<'a> {
    pub strings: Vec<&'a [u8]>,
    pub names: Vec<Name<'a>>,
    pub attrs: Vec<Entry<'a>>,
    pub types: Vec<Entry<'a>>,
    pub properties: Vec<Cursor<'a>>,
    pub resources: Vec<Resource<'a>>,
    pub ir: Cursor<'a>,
}

/// The sections of a file, by number.
type Sections<'a> = [Option<Cursor<'a>>; 9];

const STRINGS: usize = 0;
const DIALECTS: usize = 1;
const ENTRIES: usize = 2;
const OFFSETS: usize = 3;
const IR: usize = 4;
const RESOURCES: usize = 5;
const RESOURCE_OFFSETS: usize = 6;
const PROPERTIES: usize = 8;

/// Takes a file apart.
pub(super) fn open(bytes: &[u8]) -> Read<Container<'_>> {
    let mut file = Cursor::new(bytes, 0);
    if bytes.get(..4) != Some(&MAGIC) {
        return Err(error(0, "this does not start as MLIR bytecode does"));
    }
    file.take(4)?;
    let version = file.varint()?;
    if version != VERSION {
        let hint = "StableHLO 0.15 and later write version 6";
        return Err(unsupported(4, format_args!("version {version} of the format; {hint}")));
    }
    while file.byte()? != 0 {}
    let mut sections = Sections::default();
    while file.left() > 0 {
        let at = file.at();
        let (id, section) = file.section()?;
        match sections.get_mut(usize::from(id)) {
            Some(slot @ None) => *slot = Some(section),
            Some(Some(_)) => return Err(error(at, format_args!("section {id} is there twice"))),
            None => return Err(error(at, format_args!("there is no section {id} in version {VERSION}"))),
        }
    }
    let get = |id: usize| sections[id].ok_or_else(|| error(file.at(), format_args!("section {id} is missing")));
    let strings = strings(get(STRINGS)?)?;
    let (dialects, names) = dialects(get(DIALECTS)?, &strings)?;
    let (attrs, types) = entries(get(OFFSETS)?, get(ENTRIES)?, &dialects)?;
    let properties = sections[PROPERTIES].map_or(Ok(vec![]), properties)?;
    let resources = match (sections[RESOURCE_OFFSETS], sections[RESOURCES]) {
        (Some(offsets), Some(data)) => resource::resources(offsets, data, &strings)?,
        _ => vec![],
    };
    Ok(Container { strings, names, attrs, types, properties, resources, ir: get(IR)? })
}

/// The string of number `index`.
pub(super) fn bytes_of<'a>(strings: &[&'a [u8]], index: usize, at: usize) -> Read<&'a [u8]> {
    strings.get(index).copied().ok_or_else(|| error(at, format_args!("string {index} of {}", strings.len())))
}

/// The string of number `index`, which must be text.
pub(super) fn text_of<'a>(strings: &[&'a [u8]], index: usize, at: usize) -> Read<&'a str> {
    let bytes = bytes_of(strings, index, at)?;
    std::str::from_utf8(bytes).map_err(|_| error(at, format_args!("string {index} is not UTF-8")))
}

/// Lengths from the last string to the first, then the strings, each with a zero at its end.
fn strings(mut section: Cursor<'_>) -> Read<Vec<&[u8]>> {
    let mut lengths = section.list(Cursor::index)?;
    lengths.reverse();
    lengths
        .into_iter()
        .map(|length| match section.take(length)?.split_last() {
            Some((0, text)) => Ok(text),
            _ => Err(section.error("a string does not end in a zero")),
        })
        .collect()
}

/// Dialects, then operations in groups by dialect.
fn dialects<'a>(mut section: Cursor<'a>, strings: &[&'a [u8]]) -> Read<(Vec<&'a str>, Vec<Name<'a>>)> {
    let dialects = section.list(|c| {
        let (name, versioned) = c.flagged_index()?;
        if versioned {
            c.section()?;
        }
        text_of(strings, name, c.at())
    })?;
    let total = section.count()?;
    let mut names = vec![];
    while section.left() > 0 {
        let dialect = dialect_of(&dialects, &mut section)?;
        names.extend(section.list(|c| {
            let (name, _registered) = c.flagged_index()?;
            Ok(Name { dialect, op: text_of(strings, name, c.at())? })
        })?);
    }
    if names.len() != total {
        return Err(section.error(format_args!("{total} operation names expected, {} given", names.len())));
    }
    Ok((dialects, names))
}

fn dialect_of<'a>(dialects: &[&'a str], section: &mut Cursor<'_>) -> Read<&'a str> {
    let index = section.index()?;
    let missing = || section.error(format_args!("dialect {index} of {}", dialects.len()));
    dialects.get(index).copied().ok_or_else(missing)
}

/// The sizes of all attributes, then of all types, in groups by dialect; they lie in `data` one after the other.
fn entries<'a>(
    mut sizes: Cursor<'a>,
    mut data: Cursor<'a>,
    dialects: &[&'a str],
) -> Read<(Vec<Entry<'a>>, Vec<Entry<'a>>)> {
    let (attrs, types) = (sizes.index()?, sizes.index()?);
    let mut all = vec![];
    while sizes.left() > 0 {
        let dialect = dialect_of(dialects, &mut sizes)?;
        all.extend(sizes.list(|c| {
            let (size, custom) = c.flagged_index()?;
            let at = data.at();
            Ok(Entry { dialect, bytes: Cursor::new(data.take(size)?, at), custom })
        })?);
    }
    if attrs.checked_add(types) != Some(all.len()) {
        let have = all.len();
        return Err(sizes.error(format_args!("{attrs} attributes and {types} types expected, {have} entries given")));
    }
    let types = all.split_off(attrs);
    Ok((all, types))
}

fn properties(mut section: Cursor<'_>) -> Read<Vec<Cursor<'_>>> {
    section.list(|c| {
        let bytes = c.blob()?;
        Ok(Cursor::new(bytes, c.at() - bytes.len()))
    })
}
