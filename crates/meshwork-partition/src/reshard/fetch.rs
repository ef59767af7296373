//! Fetching a window of a split dimension: neighbor permutes of exactly the elements that are missing.
//!
//! Shard `t` of `p` holds positions `t*block ..` of a line and wants positions `start(t) .. start(t) + length`, where
//! `start(t) = floor((scale*t + offset) / divisor)`. Each hop `h` brings what shard `t + h` holds of that window; only
//! the part of its block that some shard wants is sent, and only shards that want something take part. Slices, pads,
//! shifts, concatenations, strides and windows are all one call of [`Splitter::fetch`].

use meshwork_ir::hash::HashSet;
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{Direction, ElementType, Literal, ValueId};
use meshwork_mesh::sort_by_key;

use crate::collective::Peers;
use crate::layout::DimLayout;
use crate::reshard::moves::Form;
use crate::split::Splitter;

/// Which positions every shard wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Growth of the start from one shard to the next, times `divisor`.
    pub scale: i64,
    /// Start of shard 0, times `divisor`.
    pub offset: i64,
    /// See the module's first lines; at least 1.
    pub divisor: i64,
    /// Number of positions.
    pub length: i64,
    /// Positions outside `useful.0 .. useful.1` need not be right.
    pub useful: (i64, i64),
}

impl Window {
    /// First position that shard `t` wants.
    pub fn start(&self, t: i64) -> i64 {
        (self.scale * t + self.offset).div_euclid(self.divisor)
    }

    /// Positions that shard `t` wants and that matter.
    fn wanted(&self, t: i64) -> (i64, i64) {
        let start = self.start(t);
        (start.max(self.useful.0), (start + self.length).min(self.useful.1))
    }
}

/// What one hop brings: part `lo..hi` of the block of shard `t + hop`, wanted by the shards in `to`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hop {
    /// How far away the sender is.
    pub hop: i64,
    /// First local position sent.
    pub lo: i64,
    /// Behind the last local position sent.
    pub hi: i64,
    /// Receivers.
    pub to: Vec<i64>,
}

/// The hops a window needs, nearest to furthest in line order. `parts` is the number of shards.
pub fn hops(block: i64, parts: i64, window: &Window) -> Vec<Hop> {
    let mut out: Vec<Hop> = vec![];
    if block == 0 {
        return out;
    }
    for t in 0..parts {
        let (lo, hi) = window.wanted(t);
        let (lo, hi) = (lo.max(0), hi.min(parts * block));
        if lo >= hi {
            continue;
        }
        let mut shard = lo.div_euclid(block);
        while shard * block < hi {
            let (from, to) = ((lo - shard * block).max(0), (hi - shard * block).min(block));
            match out.iter_mut().find(|h| h.hop == shard - t) {
                Some(h) => {
                    (h.lo, h.hi) = (h.lo.min(from), h.hi.max(to));
                    h.to.push(t);
                }
                None => out.push(Hop { hop: shard - t, lo: from, hi: to, to: vec![t] }),
            }
            shard += 1;
        }
    }
    sort_by_key(&mut out, |h| h.hop);
    out
}

/// Elements a device sends for a window, on average over the devices of the line.
pub fn window_cost(block: i64, parts: i64, window: &Window) -> f64 {
    let sent: i64 =
        hops(block, parts, window).iter().filter(|h| h.hop != 0).map(|h| (h.hi - h.lo) * h.to.len() as i64).sum();
    (sent as f64 / parts as f64).min(((parts - 1) * block) as f64)
}

/// What some shards send of a value.
struct Part {
    value: ValueId,
    /// First local position sent.
    lo: i64,
    /// Between which shards.
    moves: Vec<(i64, i64)>,
}

/// A permute of `length` positions of local values, possibly for several windows.
struct Send {
    length: i64,
    /// Of one value, until sends are merged; each shard is the sender in at most one of them, and the receiver.
    parts: Vec<Part>,
    received: Option<ValueId>,
}

/// A part that starts elsewhere than the first joins if no more shards than this send it: each costs a select.
const FEW_SENDERS: usize = 2;

impl Send {
    fn moves(&self) -> impl Iterator<Item = (i64, i64)> {
        self.parts.iter().flat_map(|p| p.moves.iter().copied())
    }

    /// Whether no shard would send or receive twice if `moves` were added.
    fn is_apart(&self, moves: &[(i64, i64)]) -> bool {
        let (from, to): (HashSet<i64>, HashSet<i64>) = self.moves().unzip();
        moves.iter().all(|m| !from.contains(&m.0) && !to.contains(&m.1))
    }

    /// Adds `hop` of `value` for `moves` if no shard would send or receive twice.
    fn join(&mut self, value: ValueId, hop: &Hop, moves: &[(i64, i64)]) -> bool {
        if self.parts[0].value != value || self.length != hop.hi - hop.lo || !self.is_apart(moves) {
            return false;
        }
        if let Some(same) = self.parts.iter_mut().find(|p| p.lo == hop.lo) {
            same.moves.extend_from_slice(moves);
            return true;
        }
        self.parts.push(Part { value, lo: hop.lo, moves: moves.to_vec() });
        sort_by_key(&mut self.parts, |p| std::cmp::Reverse(p.moves.len()));
        if self.parts[1..].iter().map(|p| p.moves.len()).sum::<usize>() > FEW_SENDERS {
            self.parts.retain(|p| p.lo != hop.lo);
            return false;
        }
        true
    }

    fn brings(&self, value: ValueId, hop: &Hop) -> bool {
        let part = self.parts.iter().find(|p| p.value == value && p.lo == hop.lo);
        self.length == hop.hi - hop.lo
            && part.is_some_and(|p| hop.to.iter().all(|&t| p.moves.contains(&(t + hop.hop, t))))
    }
}

impl Splitter<'_> {
    /// The window of `value` along `dim`, whose frame is `frame`. Positions that are not useful are arbitrary.
    pub fn fetch(&mut self, value: ValueId, dim: usize, frame: &DimLayout, window: &Window) -> ValueId {
        self.fetch_many(&[(value, frame.clone(), *window)], dim)[0]
    }

    /// Several windows along one dimension. Equal slices of one value for different shards travel in one permute:
    /// the two pieces of a rotation need one.
    pub fn fetch_many(&mut self, wanted: &[(ValueId, DimLayout, Window)], dim: usize) -> Vec<ValueId> {
        let mut sends: Vec<Send> = vec![];
        for (value, frame, window) in wanted {
            let parts = self.atoms.product(&frame.atoms);
            for h in hops(frame.block, parts, window).into_iter().filter(|h| h.hop != 0) {
                let moves: Vec<(i64, i64)> = h.to.iter().map(|&t| (t + h.hop, t)).collect();
                if !sends.iter_mut().any(|s| s.join(*value, &h, &moves)) {
                    let parts = vec![Part { value: *value, lo: h.lo, moves }];
                    sends.push(Send { length: h.hi - h.lo, parts, received: None });
                }
            }
        }
        let mut sends = self.merge(sends);
        wanted.iter().map(|(value, frame, window)| self.fetch_one(*value, dim, frame, window, &mut sends)).collect()
    }

    fn fetch_one(
        &mut self,
        value: ValueId,
        dim: usize,
        frame: &DimLayout,
        window: &Window,
        sends: &mut [Send],
    ) -> ValueId {
        let (block, parts) = (frame.block, self.atoms.product(&frame.atoms));
        let hops = hops(block, parts, window);
        let sent: i64 = hops.iter().filter(|h| h.hop != 0).map(|h| (h.hi - h.lo) * h.to.len() as i64).sum();
        if hops.is_empty() {
            let mut dims = self.local.dims(value);
            dims[dim] = window.length;
            let elem = self.local.elem(value);
            return self.local.zeros(&dims, elem);
        }
        if sent >= (parts - 1) * block * parts && parts > 1 {
            return self.fetch_by_gather(value, dim, frame, window);
        }
        let (first, last) = (hops[0].hop, hops[hops.len() - 1].hop);
        // The local line: blocks first..=last side by side; what no shard wants of them is left out at the two ends and
        // filled with zeros in between.
        let mut parts_of_line = vec![];
        let (line_lo, mut filled) = (first * block + hops[0].lo, first * block + hops[0].lo);
        for h in &hops {
            let send = sends.iter_mut().find(|s| h.hop != 0 && s.brings(value, h));
            let piece = match send {
                None => self.local.slice(value, dim, h.lo, h.hi),
                Some(Send { received: Some(piece), .. }) => *piece,
                Some(send) => {
                    let piece = self.sent_part(send, dim, frame);
                    let ty = self.local.module.ty(piece).clone();
                    let peers = Peers::Line { atoms: frame.atoms.clone(), moves: send.moves().collect() };
                    let piece = self.permute(piece, ty, peers);
                    send.received = Some(piece);
                    piece
                }
            };
            let at = h.hop * block + h.lo;
            let piece = self.local.pad(piece, dim, at - filled, 0);
            parts_of_line.push(piece);
            filled = h.hop * block + h.hi;
        }
        debug_assert!(filled <= (last + 1) * block);
        let line = self.local.concatenate(&parts_of_line, dim);
        self.cut(line, dim, frame, window, line_lo, filled)
    }

    /// Lets sends of different values share a permute where no shard takes part in both: the pieces of a concatenation
    /// come from and go to different shards.
    fn merge(&self, sends: Vec<Send>) -> Vec<Send> {
        let mut out: Vec<Send> = vec![];
        for send in sends {
            let moves: Vec<(i64, i64)> = send.moves().collect();
            let fits = |s: &&mut Send| {
                let (a, b) = (self.local.tensor(s.parts[0].value), self.local.tensor(send.parts[0].value));
                // Values in different frames have blocks of different lengths: only what is sent must agree.
                s.length == send.length && a.elem == b.elem && a.rank() == b.rank() && s.is_apart(&moves)
            };
            match out.iter_mut().find(fits) {
                Some(s) => s.parts.extend(send.parts),
                None => out.push(send),
            }
        }
        out
    }

    /// What this shard sends: a fixed part of its block, or one chosen by its index.
    fn sent_part(&mut self, send: &Send, dim: usize, frame: &DimLayout) -> ValueId {
        let mut values: Vec<ValueId> = vec![];
        for part in &send.parts {
            if !values.contains(&part.value) {
                values.push(part.value);
            }
        }
        let mut out = None;
        for value in values {
            let parts: Vec<&Part> = send.parts.iter().filter(|p| p.value == value).collect();
            let piece = self.piece_of(value, &parts, send.length, dim, frame);
            out = Some(match out {
                None => piece,
                Some(under) => {
                    let senders = parts.iter().flat_map(|p| p.moves.iter().map(|m| m.0)).collect();
                    let mask = self.is_among(&senders, frame);
                    self.local.select(mask, piece, under)
                }
            });
        }
        out.unwrap_or_else(|| self.local.slice(send.parts[0].value, dim, 0, send.length))
    }

    /// The part of `value` that this shard sends.
    fn piece_of(&mut self, value: ValueId, parts: &[&Part], length: i64, dim: usize, frame: &DimLayout) -> ValueId {
        let first = parts[0].lo;
        if parts.len() == 1 {
            return self.local.slice(value, dim, first, first + length);
        }
        let me = self.local.shard_index(&frame.atoms);
        let mut start = self.local.index_constant(first);
        for part in &parts[1..] {
            for &(sender, _) in &part.moves {
                let (other, at) = (self.local.index_constant(part.lo), self.local.index_constant(sender));
                let chosen = self.local.compare(Direction::Eq, me, at);
                start = self.local.select(chosen, other, start);
            }
        }
        self.local.dynamic_slice(value, dim, start, length)
    }

    /// Whether this shard's index is in `set`: a scalar of `i1`.
    fn is_among(&mut self, set: &HashSet<i64>, frame: &DimLayout) -> ValueId {
        let parts = self.atoms.product(&frame.atoms);
        let bytes = (0..parts).map(|t| u8::from(set.contains(&t))).collect();
        let table = Literal::from_bytes([parts], ElementType::I1, bytes);
        let table = self.local.constant(&table.unwrap_or_else(|| Literal::zeros([parts], ElementType::I1)));
        let me = self.local.shard_index(&frame.atoms);
        let entry = self.local.dynamic_slice(table, 0, me, 1);
        self.local.reshape(entry, &[])
    }

    /// The same by gathering the whole line: cheaper when most of it is wanted by everyone.
    fn fetch_by_gather(&mut self, value: ValueId, dim: usize, frame: &DimLayout, window: &Window) -> ValueId {
        let parts = self.atoms.product(&frame.atoms);
        let extents = vec![frame.block * parts; self.local.dims(value).len()];
        let mut layout = crate::layout::Layout::replicated(&self.local.dims(value));
        layout.dims[dim] = DimLayout { offset: 0, ..frame.clone() };
        let whole = self.all_gather(Form { value, layout }, &extents, dim, frame.atoms.len()).value;
        // Seen from shard t, position 0 of the line is at -t*block.
        let line = frame.block * parts;
        let (low, high) = self.reach(parts, window, |_| 0);
        let padded = self.local.pad(whole, dim, (-low).max(0), (high - line).max(0));
        let start = self.window_start(frame, window, 0, (-low).max(0));
        self.local.dynamic_slice(padded, dim, start, window.length)
    }

    /// Cuts the window out of a local line that covers positions `t*block + lo .. t*block + hi`.
    fn cut(&mut self, line: ValueId, dim: usize, frame: &DimLayout, window: &Window, lo: i64, hi: i64) -> ValueId {
        let (block, parts) = (frame.block, self.atoms.product(&frame.atoms));
        let (low, high) = self.reach(parts, window, |t| t * block);
        // Every start is inside the padded line, so that no clamping moves a window that matters.
        let line = self.local.pad(line, dim, (lo - low).max(0), (high - hi).max(0));
        let begin = lo.min(low);
        if low + window.length == high {
            return self.local.slice(line, dim, low - begin, high - begin);
        }
        let start = self.window_start(frame, window, block, -begin);
        self.local.dynamic_slice(line, dim, start, window.length)
    }

    /// The least start and the greatest end of the windows, relative to `origin(t)`.
    fn reach(&self, parts: i64, window: &Window, origin: impl Fn(i64) -> i64) -> (i64, i64) {
        let mut reach = (i64::MAX, i64::MIN);
        for t in 0..parts {
            // Shards that want nothing useful may read anywhere.
            let (lo, hi) = window.wanted(t);
            if lo < hi {
                let start = window.start(t) - origin(t);
                reach = (reach.0.min(start), reach.1.max(start + window.length));
            }
        }
        reach
    }

    /// `start(t) - t*block + plus` as a scalar.
    fn window_start(&mut self, frame: &DimLayout, window: &Window, block: i64, plus: i64) -> ValueId {
        use meshwork_ir::OpKind;
        if window.divisor == 1 {
            return self.local.shard_offset(&frame.atoms, window.scale - block, window.offset + plus);
        }
        // Shift by a multiple of the divisor so that the dividend is not negative and division rounds down.
        let lift = (-window.offset).max(0).div_euclid(window.divisor) + 1;
        let dividend = self.local.shard_offset(&frame.atoms, window.scale, window.offset + lift * window.divisor);
        let by = self.local.index_constant(window.divisor);
        let start = self.local.same(OpKind::Binary(BinaryOp::Divide), &[dividend, by]);
        let back = self.local.shard_offset(&frame.atoms, -block, plus - lift);
        self.local.same(OpKind::Binary(BinaryOp::Add), &[start, back])
    }

    /// Puts `dim` into another frame of the same atoms.
    pub fn reframe(&mut self, form: Form, extents: &[i64], dim: usize, target: &DimLayout) -> Form {
        let Form { value, mut layout } = form;
        let frame = layout.dims[dim].clone();
        if frame == *target {
            return Form { value, layout };
        }
        debug_assert_eq!(frame.atoms, target.atoms);
        let window = reframe_window(&frame, target, extents[dim]);
        let value = self.fetch(value, dim, &frame, &window);
        layout.dims[dim] = target.clone();
        Form { value, layout }
    }
}

/// The window that takes an extent of `n` from one frame to another of the same atoms.
pub fn reframe_window(from: &DimLayout, to: &DimLayout, n: i64) -> Window {
    Window {
        scale: to.block,
        offset: from.offset - to.offset,
        divisor: 1,
        length: to.block,
        useful: (from.offset, from.offset + n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_by_one_is_one_hop_of_one_element_and_the_end_is_silent() {
        let window = Window { scale: 16, offset: 1, divisor: 1, length: 16, useful: (0, 128) };
        let got = hops(16, 8, &window);
        assert_eq!(got.len(), 2);
        assert_eq!((got[0].hop, got[0].lo, got[0].hi, got[0].to.len()), (0, 1, 16, 8));
        assert_eq!((got[1].hop, got[1].lo, got[1].hi, got[1].to.clone()), (1, 0, 1, (0..7).collect()));
        assert_eq!(window_cost(16, 8, &window), 7.0 / 8.0);
    }

    #[test]
    fn shards_that_want_nothing_take_no_part() {
        let window = Window { scale: 5, offset: -1, divisor: 1, length: 5, useful: (0, 1) };
        let got = hops(4, 4, &window);
        assert_eq!(got.len(), 1);
        assert_eq!((got[0].hop, got[0].lo, got[0].hi, got[0].to.clone()), (0, 0, 1, vec![0]));
    }

    #[test]
    fn a_halo_wider_than_a_shard_takes_more_hops() {
        let window = Window { scale: 2, offset: -3, divisor: 1, length: 8, useful: (0, 16) };
        assert_eq!(hops(2, 8, &window).iter().map(|h| h.hop).collect::<Vec<_>>(), [-2, -1, 0, 1, 2]);
    }
}
