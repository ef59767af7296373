//! The index of a checkpoint: what is in it and where, as JSON with a checksum of itself.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use meshwork_ir::ElementType;
use meshwork_mesh::sort_by_key;
use serde_json::{Value, json};

use super::blocks::Extents;
use super::error::{CheckpointError, Result, io};
use super::layout::{Leaf, Piece};
use meshwork_runtime::array::slices::{Slice, lengths, overlap};

/// The name of the index in a checkpoint's folder.
pub(super) const INDEX: &str = "index.json";
const FORMAT: &str = "meshwork checkpoint";
const VERSION: u64 = 1;

/// What a checkpoint holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Index {
    pub step: u64,
    pub notes: BTreeMap<String, String>,
    pub files: Vec<(String, Extents)>,
    pub leaves: Vec<Leaf>,
}

impl Index {
    /// The text, one line for each file and array. The last line is the checksum of those before it.
    pub(super) fn text(&self) -> String {
        let files = self.files.iter().map(|(name, e)| {
            json!({ "name": name, "header": e.header, "data": e.data,
                    "header_crc": hex(e.header_crc), "table_crc": hex(e.table_crc) })
        });
        let leaves = self.leaves.iter().map(|leaf| {
            let range = |r: &std::ops::Range<i64>| json!([r.start, r.end]);
            let piece = |p: &Piece| {
                let slice: Vec<Value> = p.slice.iter().map(range).collect();
                json!({ "file": p.rank, "offset": p.offset, "slice": slice })
            };
            let pieces: Vec<Value> = leaf.pieces.iter().map(piece).collect();
            json!({ "path": leaf.path, "dtype": leaf.elem.text(), "shape": leaf.dims, "pieces": pieces })
        });
        let lines = |all: Vec<String>| all.join(",\n");
        let body = format!(
            "{{\"format\":{:?},\"version\":{VERSION},\"step\":{},\n\"notes\":{},\n\"files\":[\n{}],\n\"arrays\":[\n{}],\n",
            FORMAT,
            self.step,
            json!(self.notes),
            lines(files.map(|v| v.to_string()).collect()),
            lines(leaves.map(|v| v.to_string()).collect()),
        );
        let crc = crc32fast::hash(body.as_bytes());
        format!("{body}{}", trailer(crc))
    }

    /// Reads an index.
    pub(super) fn read(file: &Path) -> Result<Index> {
        let bytes = std::fs::read(file).map_err(io(file))?;
        let wrong = |what: &str| CheckpointError::Index { file: file.to_path_buf(), what: what.into() };
        let cut = bytes.len().checked_sub(trailer(0).len());
        let (body, end) = bytes.split_at(cut.ok_or_else(|| wrong("the index is truncated"))?);
        let has = crc32fast::hash(body);
        if end != trailer(has).as_bytes() {
            let written = std::str::from_utf8(end).ok().and_then(|t| u32::from_str_radix(t.get(12..20)?, 16).ok());
            return Err(match written.filter(|&w| end == trailer(w).as_bytes()) {
                Some(wanted) => {
                    CheckpointError::Checksum { file: file.to_path_buf(), what: "the index".into(), has, wanted }
                }
                None => wrong("the index does not end in its checksum; it is truncated or damaged"),
            });
        }
        let value: Value = serde_json::from_slice(&bytes).map_err(|e| wrong(&e.to_string()))?;
        parse(&value).map_err(|what| wrong(&what))
    }
}

fn trailer(crc: u32) -> String {
    format!("\"checksum\":\"{crc:08x}\"}}\n")
}

fn hex(crc: u32) -> String {
    format!("{crc:08x}")
}

fn parse(v: &Value) -> Result<Index, String> {
    let format = v["format"].as_str().unwrap_or_default();
    let version = number(&v["version"], "version")?;
    if format != FORMAT || version != VERSION {
        return Err(format!("it has format {format:?}, version {version}; this program reads {FORMAT:?}, {VERSION}"));
    }
    let mut notes = BTreeMap::new();
    for (key, value) in v["notes"].as_object().ok_or("no notes")? {
        notes.insert(key.clone(), value.as_str().ok_or("a note that is not text")?.to_string());
    }
    let files = list(&v["files"], "files")?.iter().map(parse_file).collect::<Result<Vec<_>, _>>()?;
    let leaves = list(&v["arrays"], "arrays")?.iter().map(|v| parse_leaf(v, &files)).collect::<Result<_, _>>()?;
    Ok(Index { step: number(&v["step"], "step")?, notes, files, leaves })
}

fn parse_file(v: &Value) -> Result<(String, Extents), String> {
    let name = v["name"].as_str().unwrap_or_default();
    if name.is_empty() || name.contains(['/', '\\']) {
        return Err(format!("{name:?} is not the name of a file beside the index"));
    }
    let crc = |key: &str| {
        let text = v[key].as_str().unwrap_or_default();
        u32::from_str_radix(text, 16).map_err(|_| format!("file {name}: {key} is {text:?}"))
    };
    let extents = Extents {
        header: number(&v["header"], "header")?,
        data: number(&v["data"], "data")?,
        header_crc: crc("header_crc")?,
        table_crc: crc("table_crc")?,
    };
    if extents.header.max(extents.data) > 1 << 60 {
        return Err(format!("file {name}: {} bytes of data", extents.data));
    }
    Ok((name.to_string(), extents))
}

fn parse_leaf(v: &Value, files: &[(String, Extents)]) -> Result<Leaf, String> {
    let path = v["path"].as_str().ok_or("an array without a path")?.to_string();
    let fail = |what: String| format!("array {path:?}: {what}");
    let dtype = v["dtype"].as_str().unwrap_or_default();
    let elem = ElementType::from_text(dtype).ok_or_else(|| fail(format!("elements of type {dtype:?}")))?;
    let extents = |v: &Value| list(v, "shape")?.iter().map(|n| extent(n, "shape")).collect::<Result<Vec<i64>, _>>();
    let dims = extents(&v["shape"]).map_err(fail)?;
    let bytes = dims.iter().try_fold(elem.storage_bytes() as i64, |n, &d| n.checked_mul(d));
    bytes.ok_or_else(|| fail(format!("shape {dims:?}")))?;
    let mut leaf = Leaf { path: path.clone(), elem, dims, pieces: vec![] };
    let mut covered = 0u64;
    for v in list(&v["pieces"], "pieces").map_err(fail)? {
        let mut slice: Slice = vec![];
        for r in list(&v["slice"], "slice").map_err(fail)? {
            slice.push(extent(&r[0], "slice").map_err(fail)?..extent(&r[1], "slice").map_err(fail)?);
        }
        let fits =
            slice.len() == leaf.dims.len() && slice.iter().zip(&leaf.dims).all(|(r, &n)| r.start < r.end && r.end <= n);
        let (rank, offset) = (number(&v["file"], "file").map_err(fail)?, number(&v["offset"], "offset").map_err(fail)?);
        let file = files.get(rank as usize);
        let ends = |bytes: u64| offset.checked_add(bytes);
        let is_there = fits && file.is_some_and(|(_, e)| ends(leaf.bytes(&slice)).is_some_and(|end| end <= e.data));
        if !is_there {
            return Err(fail(format!("piece {slice:?} at {offset} of file {rank} is not a piece of it")));
        }
        covered = covered.saturating_add(lengths(&slice).iter().product::<i64>() as u64);
        leaf.pieces.push(Piece { slice, rank: rank as usize, offset, device: 0 });
    }
    let size = leaf.dims.iter().product::<i64>() as u64;
    if covered != size {
        return Err(fail(format!("its pieces have {covered} elements of {size}")));
    }
    // As many elements as there are, and none twice: none is missing.
    match overlapping(&leaf) {
        Some((a, b)) => Err(fail(format!("pieces {:?} and {:?} overlap", a.slice, b.slice))),
        None => Ok(leaf),
    }
}

/// Two pieces of an array that have elements in common.
fn overlapping(leaf: &Leaf) -> Option<(&Piece, &Piece)> {
    // Along the dimension with the most cuts the fewest pieces lie beside each other.
    let cuts = |&d: &usize| leaf.pieces.iter().map(|p| p.slice[d].start).collect::<HashSet<_>>().len();
    let along = (0..leaf.dims.len()).max_by_key(cuts)?;
    let mut pieces: Vec<&Piece> = leaf.pieces.iter().collect();
    sort_by_key(&mut pieces, |p| p.slice[along].start);
    let mut open: Vec<&Piece> = vec![];
    for piece in pieces {
        open.retain(|p| p.slice[along].end > piece.slice[along].start);
        if let Some(other) = open.iter().find(|p| overlap(&p.slice, &piece.slice).is_some()) {
            return Some((other, piece));
        }
        open.push(piece);
    }
    None
}

fn list<'a>(v: &'a Value, what: &str) -> Result<&'a Vec<Value>, String> {
    v.as_array().ok_or_else(|| format!("{what} is not a list"))
}

fn number(v: &Value, what: &str) -> Result<u64, String> {
    v.as_u64().ok_or_else(|| format!("{what} is {v}"))
}

fn extent(v: &Value, what: &str) -> Result<i64, String> {
    v.as_i64().filter(|&n| n >= 0).ok_or_else(|| format!("{what} has {v}"))
}
