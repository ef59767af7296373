//! Which rank writes which piece of which array, and where in its file. Every rank computes the same layout.

use std::collections::HashMap;

use meshwork_ir::ElementType;
use serde_json::json;

use super::error::{CheckpointError, Result};
use super::ranks::Ranks;
use crate::Array;
use meshwork_runtime::array::slices::{Slice, lengths};

/// Names in a file that are not arrays of the tree.
const METADATA: &str = "__metadata__";
const TABLE: &str = "__checksums__";

/// A tree in pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub leaves: Vec<Leaf>,
    /// Bytes of data in each rank's file.
    pub data: Vec<u64>,
}

/// An array in pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Leaf {
    pub path: String,
    pub elem: ElementType,
    pub dims: Vec<i64>,
    pub pieces: Vec<Piece>,
}

/// A piece of an array in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub slice: Slice,
    /// Whose file.
    pub rank: usize,
    /// Where in its data.
    pub offset: u64,
    /// A device of that rank that holds it. Not saved.
    pub device: usize,
}

impl Layout {
    /// Distinguishes it from other layouts.
    pub(super) fn digest(&self) -> u32 {
        crc32fast::hash(format!("{self:?}").as_bytes())
    }
}

impl Leaf {
    /// Bytes of a piece.
    pub(super) fn bytes(&self, slice: &Slice) -> u64 {
        lengths(slice).iter().product::<i64>() as u64 * self.elem.storage_bytes() as u64
    }
}

/// The layout of these arrays, saved by `ranks`.
pub(super) fn layout(arrays: &[(String, Array)], ranks: &Ranks) -> Result<Layout> {
    let mut data = vec![0u64; ranks.size()];
    let mut leaves: Vec<Leaf> = vec![];
    let mut known = HashMap::new();
    for (path, array) in arrays {
        let wrong = |what: String| CheckpointError::Tree { folder: path.into(), what };
        if known.insert(path.as_str(), ()).is_some() {
            return Err(wrong("two arrays of the tree have this path; checkpoints need different ones".into()));
        }
        if [METADATA, TABLE].contains(&path.as_str()) {
            return Err(wrong("an array cannot have this path: the files use this name for something else".into()));
        }
        let holders = array.holders().map_err(|e| wrong(e.to_string()))?;
        let count = array.split().map_or(1, |(mesh, _)| mesh.device_count() as usize);
        let mut leaf = Leaf { path: path.clone(), elem: array.dtype(), dims: array.shape().to_vec(), pieces: vec![] };
        for (slice, devices) in holders {
            let bytes = leaf.bytes(&slice);
            if bytes == 0 {
                continue;
            }
            // An array that was never placed is the same on every rank.
            let candidates: Vec<(usize, usize)> = if devices.is_empty() {
                (0..ranks.size()).map(|rank| (rank, 0)).collect()
            } else {
                devices.iter().map(|&d| (ranks.rank_of(d, count), d)).collect()
            };
            let Some(&(rank, device)) = candidates.iter().min_by_key(|&&(rank, _)| (data[rank], rank)) else {
                continue;
            };
            leaf.pieces.push(Piece { slice, rank, offset: data[rank], device });
            data[rank] += bytes;
        }
        leaves.push(leaf);
    }
    Ok(Layout { leaves, data })
}

/// The name of a rank's file.
pub(super) fn file_name(rank: usize) -> String {
    format!("rank-{rank:05}.safetensors")
}

/// What precedes the data in the file of `rank`: the length and the header of the safetensors format.
pub(super) fn header(layout: &Layout, rank: usize) -> Vec<u8> {
    let mut entries = serde_json::Map::new();
    entries.insert(METADATA.into(), json!({ "format": "meshwork checkpoint" }));
    for leaf in &layout.leaves {
        for piece in leaf.pieces.iter().filter(|p| p.rank == rank) {
            let (dtype, extra) = dtype(leaf.elem);
            let mut shape = lengths(&piece.slice);
            shape.extend(extra);
            let end = piece.offset + leaf.bytes(&piece.slice);
            let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [piece.offset, end] });
            entries.insert(name(leaf, piece), entry);
        }
    }
    let (data, count) = (layout.data[rank], super::blocks::blocks(layout.data[rank]));
    let table = json!({ "dtype": "U32", "shape": [count], "data_offsets": [data, data + 4 * count] });
    entries.insert(TABLE.into(), table);
    let mut text = serde_json::Value::Object(entries).to_string().into_bytes();
    // The data starts at a multiple of 64 bytes.
    text.resize((text.len() + 8).next_multiple_of(64) - 8, b' ');
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text);
    out
}

/// The name of a piece in its file.
fn name(leaf: &Leaf, piece: &Piece) -> String {
    let is_whole = lengths(&piece.slice) == leaf.dims;
    let path = if leaf.path.is_empty() { "array" } else { &leaf.path };
    if is_whole {
        return path.to_string();
    }
    let ranges: Vec<String> = piece.slice.iter().map(|r| format!("{}:{}", r.start, r.end)).collect();
    format!("{path}[{}]", ranges.join(","))
}

/// The name safetensors has for an element type, or bytes, with one more dimension.
fn dtype(elem: ElementType) -> (&'static str, Option<i64>) {
    use ElementType::*;
    let name = match elem {
        I1 => "BOOL",
        I8 => "I8",
        I16 => "I16",
        I32 => "I32",
        I64 | Index => "I64",
        UI8 => "U8",
        UI16 => "U16",
        UI32 => "U32",
        UI64 => "U64",
        F8E4M3FN => "F8_E4M3",
        F8E5M2 => "F8_E5M2",
        BF16 => "BF16",
        F16 => "F16",
        F32 | TF32 => "F32",
        F64 => "F64",
        I2 | I4 | UI2 | UI4 | F4E2M1FN | F6E2M3FN | F6E3M2FN | F8E3M4 | F8E4M3 | F8E4M3FNUZ | F8E4M3B11FNUZ
        | F8E5M2FNUZ | F8E8M0FNU | C64 | C128 => return ("U8", Some(elem.storage_bytes() as i64)),
    };
    (name, None)
}
