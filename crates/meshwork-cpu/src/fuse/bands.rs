//! A fused step cut along memory: parts that write one short stretch of the result after the other, and what each
//! touches.
//!
//! The usual parts go box by box, so that a rim of an array may be one part and its inside many. Here each part has what
//! all boxes write between two addresses: it reads little more than that, depends only on its neighbors of the turn
//! before, and a loop can be several turns further on at one end of an array than at the other (`exec/wave`).

use std::ops::Range;
use std::sync::Arc;

use super::nest::{Array, Loop};
use super::work::{Fused, Task};
use crate::step::{Bands, Touch};

/// Bands begin at multiples of this many bytes, if rows are shorter.
const GRAIN_BYTES: i64 = 4096;
/// Bands of one step.
const MAX_BANDS: i64 = 2048;

/// `loops`, each done once as a whole, in bands of about `bytes` bytes of what they write; `None` if that is not one buffer, or if something is
/// carried along a row.
pub(super) fn bands(loops: &[Loop], bytes: usize) -> Option<Bands> {
    let to = output(loops.first()?)?.buf;
    // What moves from turn to turn has no place of its own, and elements at places of their own may be anywhere.
    if loops.iter().flat_map(|l| &l.arrays).any(|a| !a.moved.is_empty() || a.picked) {
        return None;
    }
    if !loops.iter().all(|l| l.divisible && output(l).is_some_and(|a| a.buf == to)) {
        return None;
    }
    let pitch = loops.iter().filter_map(|l| Some(lead(l)?.step)).max()?;
    let unit = if pitch < GRAIN_BYTES { GRAIN_BYTES } else { pitch };
    let end = loops.iter().filter_map(|l| Some(reach(l, output(l)?, &whole(l)).end)).max()?;
    let units = (end + unit - 1) / unit;
    let each = (bytes as i64 / unit).max(1);
    let count = ((units + each - 1) / each).clamp(1, MAX_BANDS);
    let mut parts: Vec<Vec<Task>> = vec![];
    for band in 0..count {
        let range = units * band / count * unit..units * (band + 1) / count * unit;
        let tasks = |(i, l)| within(l, i as u32, &range);
        let tasks: Vec<Task> = loops.iter().enumerate().filter_map(tasks).collect();
        if !tasks.is_empty() {
            parts.push(tasks);
        }
    }
    let touches = parts.iter().map(|tasks| touched(loops, tasks)).collect();
    // What is written is soon read again.
    let loops = loops.iter().map(|l| Loop { past: None, ..l.clone() }).collect();
    Some(Bands { work: Arc::new(Fused::with_parts(loops, parts)), touches })
}

/// What `l` writes: the first of several stretches of one buffer, if they are computed side by side.
fn output(l: &Loop) -> Option<&Array> {
    let (first, beside) = l.arrays[l.inputs.len()..].split_first()?;
    beside.iter().all(|a| a.buf == first.buf).then_some(first)
}

/// The outermost dimension of a loop.
struct Lead {
    extent: i64,
    /// Bytes of the output from one position to the next.
    step: i64,
    /// Rows per position; none if the row itself is what is cut.
    rows: Option<i64>,
}

fn lead(l: &Loop) -> Option<Lead> {
    let to = output(l)?;
    match (&l.outer[..], &to.strides[..]) {
        ([extent, inner @ ..], [step, ..]) => {
            Some(Lead { extent: *extent, step: *step, rows: Some(inner.iter().product()) })
        }
        _ => Some(Lead { extent: l.n, step: to.step, rows: None }),
    }
}

fn whole(l: &Loop) -> Task {
    Task { which: 0, rows: (0, l.outer.iter().product()), cols: (0, l.n) }
}

/// The positions of `l` whose first output is in `range`.
fn within(l: &Loop, which: u32, range: &Range<i64>) -> Option<Task> {
    let (to, lead) = (output(l)?, lead(l)?);
    // The first position at or after an address.
    let from = |address: i64| match lead.step {
        step if step > 0 => ((address - to.offset + step - 1).div_euclid(step)).clamp(0, lead.extent),
        _ if address > to.offset => lead.extent,
        _ => 0,
    };
    let (first, last) = (from(range.start), from(range.end));
    let empty = first >= last || whole(l).rows.1 == 0 || l.n == 0;
    (!empty).then(|| match lead.rows {
        Some(rows) => Task { which, rows: (first * rows, last * rows), cols: (0, l.n) },
        None => Task { which, rows: (0, 1), cols: (first, last) },
    })
}

/// The bytes of its buffer that array `a` of loop `l` has in a task: all between the first and the last.
fn reach(l: &Loop, a: &Array, task: &Task) -> Range<i64> {
    let (mut low, mut high) = (a.offset, a.offset);
    let mut along = |first: i64, last: i64, step: i64| {
        low += (first * step).min(last * step);
        high += (first * step).max(last * step);
    };
    let inner: i64 = l.outer.iter().skip(1).product();
    for (d, (&extent, &step)) in l.outer.iter().zip(&a.strides).enumerate() {
        match d {
            0 => along(task.rows.0 / inner.max(1), (task.rows.1 - 1) / inner.max(1), step),
            _ => along(0, extent - 1, step),
        }
    }
    along(task.cols.0, task.cols.1 - 1, a.step);
    low..high + a.elem_bytes
}

/// What the tasks of a part read and write, one stretch per buffer and way.
fn touched(loops: &[Loop], tasks: &[Task]) -> Vec<Touch> {
    let mut out: Vec<Touch> = vec![];
    for task in tasks {
        let l = &loops[task.which as usize];
        for (i, a) in l.arrays.iter().enumerate() {
            let (written, bytes) = (i >= l.inputs.len(), reach(l, a, task));
            match out.iter_mut().find(|t| t.buf == a.buf && t.written == written && near(&t.bytes, &bytes)) {
                Some(t) => t.bytes = t.bytes.start.min(bytes.start)..t.bytes.end.max(bytes.end),
                None => out.push(Touch { buf: a.buf, bytes, written }),
            }
        }
    }
    out
}

/// Whether two stretches are best taken as one: what wraps around reads both ends of an array.
fn near(a: &Range<i64>, b: &Range<i64>) -> bool {
    let gap = a.start.max(b.start) - a.end.min(b.end);
    gap <= (a.end - a.start).max(b.end - b.start)
}
