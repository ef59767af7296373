//! Which device holds what, drawn with characters.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use crate::Array;

/// At most so many blocks are drawn along one dimension.
const MOST: usize = 16;

impl Array {
    /// A picture of the blocks of the array: each shows the devices that hold it. Rank 1 is a row, rank 2 a table,
    /// rank 3 one table after the other; higher ranks and very fine splits are listed.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 3)?;
    /// let x = Array::from_fn([7], |i| i[0] as f32).shard(&mesh, P!["x"])?;
    /// assert_eq!(x.picture(), "\
    ///       0..3 3..6 6..7
    ///       0    1    2   \n".replace("      ", ""));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn picture(&self) -> String {
        let mut blocks: BTreeMap<Vec<(i64, i64)>, Vec<i64>> = BTreeMap::new();
        for shard in self.shards() {
            let key = shard.slice.iter().map(|r| (r.start, r.end)).collect();
            blocks.entry(key).or_default().push(shard.device);
        }
        let rank = self.shape().len();
        let cuts: Vec<Vec<Range<i64>>> = (0..rank)
            .map(|d| {
                let mut all: Vec<(i64, i64)> = blocks.keys().map(|k| k[d]).collect();
                all.sort_unstable();
                all.dedup();
                all.into_iter().map(|(a, b)| a..b).collect()
            })
            .collect();
        if rank == 0 || rank > 3 || cuts.iter().any(|c| c.len() > MOST) {
            return list(&blocks);
        }
        let name = |r: &Range<i64>| format!("{}..{}", r.start, r.end);
        let holders = |key: &[&Range<i64>]| {
            let key: Vec<(i64, i64)> = key.iter().map(|r| (r.start, r.end)).collect();
            blocks.get(&key).map(|d| devices(d)).unwrap_or_default()
        };
        let mut out = String::new();
        match &cuts[..] {
            [columns] => {
                let rows = [(String::new(), columns.iter().map(|c| holders(&[c])).collect())];
                table(&mut out, columns.iter().map(name).collect(), &rows);
            }
            [rows, columns] => {
                let body = |r: &Range<i64>| (name(r), columns.iter().map(|c| holders(&[r, c])).collect());
                table(&mut out, columns.iter().map(name).collect(), &rows.iter().map(body).collect::<Vec<_>>());
            }
            [layers, rows, columns] => {
                for layer in layers {
                    let _ = writeln!(out, "[{}]", name(layer));
                    let body = |r: &Range<i64>| (name(r), columns.iter().map(|c| holders(&[layer, r, c])).collect());
                    table(&mut out, columns.iter().map(name).collect(), &rows.iter().map(body).collect::<Vec<_>>());
                }
            }
            _ => return list(&blocks),
        }
        out
    }
}

/// `3`, `0,2` or `0..8`.
fn devices(ids: &[i64]) -> String {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let run = ids.len() > 2 && ids.windows(2).all(|w| w[1] == w[0] + 1);
    match (run, ids.first(), ids.last()) {
        (true, Some(first), Some(last)) => format!("{first}..{}", last + 1),
        _ => ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    }
}

fn list(blocks: &BTreeMap<Vec<(i64, i64)>, Vec<i64>>) -> String {
    let mut out = String::new();
    for (key, ids) in blocks {
        let slice: Vec<String> = key.iter().map(|(a, b)| format!("{a}..{b}")).collect();
        let _ = writeln!(out, "[{}] {}", slice.join(", "), devices(ids));
    }
    out
}

fn table(out: &mut String, columns: Vec<String>, rows: &[(String, Vec<String>)]) {
    let left = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let width = columns.iter().chain(rows.iter().flat_map(|(_, cells)| cells)).map(String::len).max().unwrap_or(0);
    let mut line = |name: &str, cells: &[String]| {
        if left > 0 {
            let _ = write!(out, "{name:<left$} ");
        }
        let cells: Vec<String> = cells.iter().map(|c| format!("{c:<width$}")).collect();
        let _ = writeln!(out, "{}", cells.join(" "));
    };
    line("", &columns);
    for (name, cells) in rows {
        line(name, cells);
    }
}
