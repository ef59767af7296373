//! Pictures of placements: which devices hold which block of an array, for a terminal and as SVG.
//!
//! The last two dimensions are rows and columns of a table; every combination of blocks of the dimensions before is a
//! panel of its own. Splits too fine to draw are listed.

mod svg;
mod text;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::ShardingError;
use crate::mesh::Mesh;
use crate::shard::slices;
use crate::sharding::Sharding;

/// A part of an array, and the devices that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its elements, one range per dimension.
    pub slice: Vec<Range<i64>>,
    /// The devices, in ascending order; several hold copies.
    pub devices: Vec<i64>,
}

/// An array's blocks, in order of their position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    shape: Vec<i64>,
    blocks: Vec<Block>,
    idle: Vec<i64>,
    labels: Vec<String>,
    title: String,
}

/// The largest number of blocks drawn along one dimension, and of panels.
const MOST: usize = 16;

impl Picture {
    /// The picture of an array of `shape` placed on `mesh`.
    ///
    /// ```
    /// use meshwork_mesh::{Mesh, Picture, Sharding};
    ///
    /// let mesh = Mesh::new([("x", 2), ("y", 2)])?;
    /// let rows = Sharding::data_parallel("mesh", 2, "x")?;
    /// let picture = Picture::new(&rows, &mesh, &[5, 4])?;
    /// assert_eq!(picture.blocks()[1].devices, [2, 3]);
    /// let text = picture.to_string();
    /// assert_eq!(text.lines().collect::<Vec<_>>(), ["     0..4", "0..3 0,1 ", "3..5 2,3 "]);
    /// assert!(picture.svg().starts_with("<svg"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(sharding: &Sharding, mesh: &Mesh, shape: &[i64]) -> Result<Picture, ShardingError> {
        let mut held: BTreeMap<Vec<(i64, i64)>, Vec<i64>> = BTreeMap::new();
        let mut idle = vec![];
        for (device, slice) in slices(sharding, mesh, shape)? {
            if slice.iter().zip(shape).any(|(r, &n)| r.is_empty() && n > 0) {
                idle.push(device);
            } else {
                held.entry(slice.iter().map(|r| (r.start, r.end)).collect()).or_default().push(device);
            }
        }
        let labels = shape.iter().enumerate().map(|(d, n)| {
            let axes = sharding
                .dims
                .get(d)
                .map_or(vec![], |s| s.axes.iter().map(|a| a.to_string().replace('"', "")).collect());
            if axes.is_empty() { format!("dim {d}: {n}") } else { format!("dim {d}: {n} over {}", axes.join(", ")) }
        });
        let mut picture = Picture::whole(shape);
        picture.labels = labels.collect();
        picture.title = format!("{shape:?} on {}", mesh.without_device_ids());
        picture.blocks = held.into_iter().map(|(key, devices)| block(key, devices)).collect();
        idle.sort_unstable();
        picture.idle = idle;
        Ok(picture)
    }

    /// The picture of an array that one device, 0, holds as a whole.
    pub fn whole(shape: &[i64]) -> Picture {
        Picture {
            shape: shape.to_vec(),
            blocks: vec![Block { slice: shape.iter().map(|&n| 0..n).collect(), devices: vec![0] }],
            idle: vec![],
            labels: shape.iter().enumerate().map(|(d, n)| format!("dim {d}: {n}")).collect(),
            title: format!("{shape:?} on one device"),
        }
    }

    /// The same with another title for the SVG.
    pub fn with_title(mut self, title: impl Into<String>) -> Picture {
        self.title = title.into();
        self
    }

    /// The blocks, in order of their position.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Devices that hold nothing, because the split is finer than the array.
    pub fn idle(&self) -> &[i64] {
        &self.idle
    }

    /// Where each dimension is cut.
    fn cuts(&self) -> Vec<Vec<Range<i64>>> {
        let cut = |d: usize| {
            let mut all: Vec<(i64, i64)> = self.blocks.iter().map(|b| (b.slice[d].start, b.slice[d].end)).collect();
            all.sort_unstable();
            all.dedup();
            all.into_iter().map(|(a, b)| a..b).collect()
        };
        (0..self.shape.len()).map(cut).collect()
    }

    /// The panels, if it is not too fine to draw: their position in the dimensions before the last two, and the table.
    fn panels(&self) -> Option<Vec<Panel>> {
        let cuts = self.cuts();
        let (before, table) = cuts.split_at(cuts.len().saturating_sub(2));
        if table.is_empty()
            || cuts.iter().any(|c| c.len() > MOST)
            || before.iter().map(Vec::len).product::<usize>() > MOST
        {
            return None;
        }
        let everything = std::slice::from_ref(&(0..0));
        let (rows, columns): (&[Range<i64>], &[Range<i64>]) = match table {
            [columns] => (everything, columns),
            [rows, columns] => (rows, columns),
            _ => return None,
        };
        let mut places: Vec<Vec<Range<i64>>> = vec![vec![]];
        for cut in before {
            places = places
                .iter()
                .flat_map(|p| cut.iter().map(move |c| [&p[..], std::slice::from_ref(c)].concat()))
                .collect();
        }
        let holders: BTreeMap<Vec<(i64, i64)>, &[i64]> =
            self.blocks.iter().map(|b| (b.slice.iter().map(|r| (r.start, r.end)).collect(), &b.devices[..])).collect();
        let cell = |place: &[Range<i64>], row: &Range<i64>, column: &Range<i64>| {
            let row = (table.len() == 2).then_some(row);
            let key: Vec<(i64, i64)> = place.iter().chain(row).chain([column]).map(|r| (r.start, r.end)).collect();
            holders.get(&key).map_or(vec![], |d| d.to_vec())
        };
        let panel = |place: Vec<Range<i64>>| Panel {
            cells: rows.iter().map(|r| columns.iter().map(|c| cell(&place, r, c)).collect()).collect(),
            rows: if table.len() == 2 { rows.to_vec() } else { vec![] },
            columns: columns.to_vec(),
            place,
        };
        Some(places.into_iter().map(panel).collect())
    }
}

/// A table of blocks.
struct Panel {
    /// Ranges of the dimensions before the last two.
    place: Vec<Range<i64>>,
    /// Ranges of the last dimension but one; none for a row of blocks.
    rows: Vec<Range<i64>>,
    /// Ranges of the last dimension.
    columns: Vec<Range<i64>>,
    /// The devices of each block, by row and column.
    cells: Vec<Vec<Vec<i64>>>,
}

fn block(key: Vec<(i64, i64)>, mut devices: Vec<i64>) -> Block {
    devices.sort_unstable();
    Block { slice: key.into_iter().map(|(a, b)| a..b).collect(), devices }
}

fn range(r: &Range<i64>) -> String {
    format!("{}..{}", r.start, r.end)
}

fn ranges(slice: &[Range<i64>]) -> String {
    format!("[{}]", slice.iter().map(range).collect::<Vec<_>>().join(", "))
}

/// `3`, `0,2`, `0..8`; long lists are cut.
fn devices(ids: &[i64]) -> String {
    let run = ids.len() > 2 && ids.windows(2).all(|w| w[1] == w[0] + 1);
    match (run, ids) {
        (true, [first, .., last]) => format!("{first}..{}", last + 1),
        _ if ids.len() > 8 => format!("{},…", ids[..7].iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
        _ => ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    }
}
