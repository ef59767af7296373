//! Arrays of which a loop reads or writes every second to sixteenth element, or a few neighbors here and there: groups of neighbors are
//! taken apart into lines right before the kernel, or interleaved from lines right after it, some hundred groups at a time.
//!
//! ```text
//! memory  a0 b0 c0 d0 a1 b1 c1 d1 …   ◄──►   lines  a0 a1 …
//!                                                   b0 b1 …
//! ```
//!
//! A kernel would move such elements one by one.

use meshwork_mesh::sort_by_key;

use super::nest::{Array, Loop};
use crate::kernel::ir::Call;
use crate::library::transpose::{Planes, transpose};
use crate::step::Scratch;

/// Arrays of a loop that are the elements of groups of neighbors.
#[derive(Clone, Debug)]
pub(crate) struct Interleaved {
    /// Elements of a group, and bytes from one group to the next: others may be between them.
    group: i64,
    step: i64,
    elem_bytes: i64,
    /// The numbers of arrays, and which element of the group each is; the first has element 0.
    members: Vec<(usize, i64)>,
    is_output: bool,
}

/// Elements of a group, and the least of one that is not all there is.
const MOST: i64 = 16;
const LEAST_RUN: usize = 4;

/// Rows shorter than this are left alone.
const LEAST_ROW: i64 = 32;
/// Bytes of the lines of a loop: they stay in the first-level cache.
const LINE_BYTES: i64 = 16 << 10;
/// Groups at a time.
const MOST_COLUMNS: i64 = 512;
const LEAST_COLUMNS: i64 = 64;

/// The interleaved arrays of a loop over rows of `n` elements, of whose arrays the first `inputs` are read.
pub(super) fn find(arrays: &[Array], inputs: usize, n: i64) -> Vec<Interleaved> {
    let mut found = vec![];
    if n < LEAST_ROW || arrays.iter().any(|a| a.across) {
        return found;
    }
    let mut order: Vec<usize> = (0..arrays.len()).collect();
    sort_by_key(&mut order, |&i| (i >= inputs, arrays[i].offset));
    let mut taken = vec![false; arrays.len()];
    for (at, &i) in order.iter().enumerate() {
        let (first, is_output) = (&arrays[i], i >= inputs);
        let group = first.step / first.elem_bytes;
        // These a kernel reads by itself.
        let is_native = !is_output && matches!((group, first.elem_bytes), (2, 4 | 8) | (3, 1..=4));
        // Words are read one by one as fast, unless their groups fill vectors.
        let is_slow = !is_output && first.elem_bytes >= 4 && matches!(group, 4..=7 | 9);
        if taken[i] || group < 2 || first.step != group * first.elem_bytes || is_native || is_slow {
            continue;
        }
        // What several rows read would be taken apart for each of them.
        if !is_output && first.strides.contains(&0) {
            continue;
        }
        let element = |j: usize| {
            let a = &arrays[j];
            let like = (a.buf, a.step, a.elem_bytes) == (first.buf, first.step, first.elem_bytes)
                && a.strides == first.strides
                && a.moved == first.moved
                && (j >= inputs) == is_output;
            let bytes = a.offset - first.offset;
            let near = bytes < first.step.min(MOST * first.elem_bytes);
            let is_member = like && near && bytes % first.elem_bytes == 0 && !taken[j];
            is_member.then_some((j, bytes / first.elem_bytes))
        };
        let mut members: Vec<(usize, i64)> = order[at..].iter().filter_map(|&j| element(j)).collect();
        let run = members.iter().zip(0..).take_while(|(m, i)| m.1 == *i).count();
        let is_whole = members.len() as i64 == group && run == members.len();
        let group = if is_whole || (!is_output && group <= MOST && 2 * members.len() as i64 >= group) {
            group
        } else if run >= LEAST_RUN && (is_output || group > MOST) {
            members.truncate(run);
            run as i64
        } else {
            continue;
        };
        members.iter().for_each(|m| taken[m.0] = true);
        found.push(Interleaved { group, step: first.step, elem_bytes: first.elem_bytes, members, is_output });
    }
    found
}

impl Interleaved {
    /// The arrays in it.
    pub fn arrays(&self) -> impl Iterator<Item = usize> {
        self.members.iter().map(|m| m.0)
    }

    /// The arrays in it in the order of their elements, if these are all of the group.
    pub fn whole(&self) -> Option<impl Iterator<Item = usize> + '_> {
        let is_whole = self.members.len() as i64 == self.group && self.members.iter().zip(0..).all(|(m, i)| m.1 == i);
        (is_whole && self.step == self.group * self.elem_bytes).then(|| self.arrays())
    }

    /// The same where arrays have other numbers.
    pub fn renumbered(mut self, number: impl Fn(usize) -> usize) -> Interleaved {
        self.members.iter_mut().for_each(|m| m.0 = number(m.0));
        self
    }

    /// Takes `n` groups from `from` on apart into lines that are `pitch` bytes apart.
    ///
    /// # Safety
    /// The elements of the groups that are members exist, and the lines have room for them.
    unsafe fn deinterleave(&self, from: *const u8, lines: *mut u8, pitch: isize, n: usize) {
        let (size, stride) = (self.elem_bytes as usize, self.step as isize);
        let planes = Planes { from, from_stride: stride, to: lines, to_stride: pitch };
        let is_whole = self.members.last().is_some_and(|m| m.1 + 1 == self.group);
        let whole = if is_whole { n } else { n - 1 };
        // SAFETY: all groups but the last end where the next one begins.
        unsafe {
            transpose(planes, self.group as usize, whole, size);
            for &(_, element) in self.members.iter().filter(|_| !is_whole) {
                let from = from.offset(whole as isize * stride).add(element as usize * size);
                let to = lines.offset(element as isize * pitch).add(whole * size);
                std::ptr::copy_nonoverlapping(from, to, size);
            }
        }
    }

    /// Interleaves `n` groups from lines.
    ///
    /// # Safety
    /// The groups and the lines exist.
    unsafe fn interleave(&self, to: *mut u8, lines: *const u8, pitch: isize, n: usize) {
        let (size, stride) = (self.elem_bytes as usize, self.step as isize);
        let planes = Planes { from: lines, from_stride: pitch, to, to_stride: stride };
        // SAFETY: the caller's.
        unsafe { transpose(planes, n, self.group as usize, size) };
    }
}

/// Runs `call` of the loop `l`, which has interleaved arrays; `run` runs the kernel.
///
/// # Safety
/// As for [`Kernel::run`](crate::kernel::Kernel::run) with the strides that the arrays have.
pub(super) unsafe fn run<const N: usize>(
    l: &Loop,
    call: &Call<'_>,
    scratch: &mut Scratch,
    run: impl Fn(&Call<'_>, &mut Scratch),
) {
    let lines: i64 = l.interleaved.iter().map(|c| c.group).sum();
    let widest = l.interleaved.iter().map(|c| c.elem_bytes).max().unwrap_or(1);
    let columns = (LINE_BYTES / (lines * widest) / LEAST_COLUMNS * LEAST_COLUMNS).clamp(LEAST_COLUMNS, MOST_COLUMNS);
    // A line more, so that they do not all start at the same place of the cache.
    let pitch = (columns * widest + 64) as isize;
    let room = scratch.panels((lines as isize * pitch) as usize);
    let (mut ptrs, mut strides, mut row_strides) = ([std::ptr::null_mut(); N], [0; N], [0; N]);
    let mut index = [[0; 3]; N];
    strides[..call.strides.len()].copy_from_slice(call.strides);
    row_strides[..call.strides.len()].copy_from_slice(call.row_strides);
    // Several short rows at a time: what comes before and after a kernel takes as long for few elements as for many.
    let high = (columns as usize / call.n.max(1)).clamp(1, call.rows.max(1));
    for groups in &l.interleaved {
        for i in groups.arrays() {
            strides[i] = groups.elem_bytes as isize;
            row_strides[i] = call.n as isize * groups.elem_bytes as isize;
        }
    }
    for r in (0..call.rows).step_by(high) {
        for c in (0..call.n).step_by(columns as usize) {
            let (rows, n) = (high.min(call.rows - r), (columns as usize).min(call.n - c));
            for (i, at) in ptrs.iter_mut().enumerate().take(call.ptrs.len()) {
                let byte = r as isize * call.row_strides[i] + c as isize * call.strides[i];
                // SAFETY: an element of the call.
                *at = unsafe { call.ptrs[i].offset(byte) };
            }
            let starts = ptrs;
            // For each stretch of groups that follow one another: bytes to its first group, to its part of the lines, and how many.
            let stretches = |groups: &Interleaved| {
                let row = call.row_strides[groups.members[0].0];
                let (each, size) = (n as isize, groups.elem_bytes as isize);
                let (count, n) = if row == each * groups.step as isize { (1, rows * n) } else { (rows as isize, n) };
                (0..count).map(move |r| (r * row, r * each * size, n))
            };
            let mut lines = room;
            for groups in &l.interleaved {
                let first = starts[groups.members[0].0];
                // SAFETY: elements of the call, and of the room that was made for the lines.
                unsafe {
                    for (from, to, n) in stretches(groups).filter(|_| !groups.is_output) {
                        groups.deinterleave(first.offset(from), lines.offset(to), pitch, n);
                    }
                    groups.members.iter().for_each(|&(i, element)| ptrs[i] = lines.offset(element as isize * pitch));
                    lines = lines.offset(groups.group as isize * pitch);
                }
            }
            for (at, &[start, row, step]) in index.iter_mut().zip(call.index) {
                *at = [start + r as i64 * row + c as i64 * step, row, step];
            }
            let block = Call {
                ptrs: &ptrs[..call.ptrs.len()],
                row_strides: &row_strides[..call.ptrs.len()],
                strides: &strides[..call.strides.len()],
                rows,
                n,
                index: &index[..call.index.len()],
            };
            run(&block, scratch);
            let mut lines = room;
            for groups in &l.interleaved {
                let first = starts[groups.members[0].0];
                // SAFETY: as above.
                unsafe {
                    for (to, from, n) in stretches(groups).filter(|_| groups.is_output) {
                        groups.interleave(first.offset(to), lines.offset(from), pitch, n);
                    }
                    lines = lines.offset(groups.group as isize * pitch);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    /// Stacks of `count` on the last axis, and what is read from them, for types of each size.
    #[test]
    fn groups_are_interleaved_and_taken_apart() {
        for elem in ["ui8", "i16", "f32", "f64"] {
            for count in [2, 3, 4, 5, 7, 8] {
                for n in [1200, 1031] {
                    let part = |i: usize| {
                        format!(
                            "%s{i} = stablehlo.slice %x [0:{n}, {i}:{end}] : (tensor<{n}x{count}x{elem}>) -> tensor<{n}x1x{elem}>
                             %p{i} = stablehlo.add %s{i}, %y : tensor<{n}x1x{elem}>\n",
                            end = i + 1
                        )
                    };
                    let parts: String = (0..count).map(part).collect();
                    let names: Vec<String> = (0..count).rev().map(|i| format!("%p{i}")).collect();
                    let types = vec![format!("tensor<{n}x1x{elem}>"); count].join(", ");
                    check(
                        &format!(
                            "func.func @main(%x: tensor<{n}x{count}x{elem}>, %y: tensor<{n}x1x{elem}>) -> tensor<{n}x{count}x{elem}> {{
                            {parts} %r = stablehlo.concatenate {names}, dim = 1 : ({types}) -> tensor<{n}x{count}x{elem}>
                            return %r : tensor<{n}x{count}x{elem}> }}",
                            names = names.join(", ")
                        ),
                        0.0,
                    );
                }
            }
        }
    }

    /// Rows of a few elements with a number for each row and one for each column.
    #[test]
    fn short_rows_with_positions() {
        for (elem, count) in [("ui8", 8), ("ui32", 4), ("i32", 6), ("f32", 7), ("i64", 5), ("ui16", 8)] {
            for n in [2048, 1500] {
                let text = check(
                    &format!(
                        "func.func @main(%x: tensor<{n}x{elem}>) -> tensor<{n}x{count}x{elem}> {{
                        %i = stablehlo.iota dim = 1 : tensor<{n}x{count}x{elem}>
                        %a = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<{n}x{elem}>) -> tensor<{n}x{count}x{elem}>
                        %b = stablehlo.multiply %a, %i : tensor<{n}x{count}x{elem}>
                        %c = stablehlo.add %b, %a : tensor<{n}x{count}x{elem}>
                        return %c : tensor<{n}x{count}x{elem}> }}"
                    ),
                    1e-5,
                );
                assert_eq!(text.matches("fused").count(), 1, "{text}");
            }
        }
    }

    /// Rows that say which of a few numbers an element is.
    #[test]
    fn rows_of_comparisons() {
        for elem in ["f32", "ui8", "f64", "i16", "i1"] {
            for count in [2, 3, 5, 6, 10, 13, 16] {
                let n = 1100 * count / 2 + 7;
                check(
                    &format!(
                        "func.func @main(%x: tensor<{n}xi32>) -> tensor<{n}x{count}x{elem}> {{
                        %i = stablehlo.iota dim = 1 : tensor<{n}x{count}xi32>
                        %a = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<{n}xi32>) -> tensor<{n}x{count}xi32>
                        %b = stablehlo.compare EQ, %a, %i : (tensor<{n}x{count}xi32>, tensor<{n}x{count}xi32>) -> tensor<{n}x{count}xi1>
                        %c = stablehlo.convert %b : (tensor<{n}x{count}xi1>) -> tensor<{n}x{count}x{elem}>
                        return %c : tensor<{n}x{count}x{elem}> }}"
                    ),
                    0.0,
                );
            }
        }
    }

    /// Small matrices: products of them and what depends on the place in them, as parts of larger groups.
    #[test]
    fn stacks_of_small_matrices() {
        for (elem, d) in [("f32", 3), ("f64", 2), ("i32", 4), ("f32", 5), ("i16", 3)] {
            for n in [300, 1031] {
                let (x, y) = (format!("tensor<{n}x{d}x{d}x{elem}>"), format!("tensor<{n}x1x{d}x{d}x{elem}>"));
                let both = format!("tensor<{n}x2x{d}x{d}x{elem}>");
                let text = check(
                    &format!(
                        "func.func @main(%a: {x}, %b: {x}) -> ({x}, {both}) {{
                        %i = stablehlo.iota dim = 1 : tensor<{n}x{d}x{d}xi32>
                        %j = stablehlo.iota dim = 2 : tensor<{n}x{d}x{d}xi32>
                        %c = stablehlo.compare EQ, %i, %j : (tensor<{n}x{d}x{d}xi32>, tensor<{n}x{d}x{d}xi32>) -> tensor<{n}x{d}x{d}xi1>
                        %e = stablehlo.convert %c : (tensor<{n}x{d}x{d}xi1>) -> {x}
                        %s = stablehlo.add %a, %e : {x}
                        %t = stablehlo.transpose %b, dims = [0, 2, 1] : ({x}) -> {x}
                        %u = stablehlo.multiply %s, %t : {x}
                        %v = stablehlo.reshape %u : ({x}) -> {y}
                        %w = stablehlo.reshape %b : ({x}) -> {y}
                        %p = stablehlo.concatenate %v, %w, dim = 1 : ({y}, {y}) -> {both}
                        return %s, %p : {x}, {both} }}"
                    ),
                    1e-5,
                );
                assert!(text.contains("fused"), "{text}");
            }
        }
    }

    /// Reductions of a few neighbors, of all of them and of some: the last group is not read as a whole.
    #[test]
    fn neighbors_are_reduced() {
        for (elem, count) in [("ui8", 8), ("i16", 2), ("f32", 5), ("f64", 3), ("bf16", 4)] {
            for from in [0, 1] {
                let (n, kept) = (1100, count - from);
                check(
                    &format!(
                        "func.func @main(%x: tensor<{n}x{count}x{elem}>) -> tensor<{n}x{elem}> {{
                        %z = stablehlo.constant dense<0> : tensor<{elem}>
                        %s = stablehlo.slice %x [0:{n}, {from}:{count}] : (tensor<{n}x{count}x{elem}>) -> tensor<{n}x{kept}x{elem}>
                        %r = stablehlo.reduce(%s init: %z) applies stablehlo.maximum across dimensions = [1]
                            : (tensor<{n}x{kept}x{elem}>, tensor<{elem}>) -> tensor<{n}x{elem}>
                        return %r : tensor<{n}x{elem}> }}"
                    )
                    .replace("dense<0> : tensor<f", "dense<0.0> : tensor<f")
                    .replace("dense<0> : tensor<bf", "dense<0.0> : tensor<bf"),
                    0.0,
                );
            }
        }
    }
}
