//! Sends slices of an array from the processes that have them to those that need them.
//!
//! Every process knows what each has and needs, so all compute the same messages. Data that a process already has is
//! not sent, and a process whose data is not needed sends nothing.

use meshwork_runtime::Runtime;

use crate::error::Result;
use meshwork_runtime::array::Stored;
use meshwork_runtime::array::slices::{Slice, copy, lengths, overlap};
use meshwork_runtime::boxes::Region;

/// Which rank has and which needs which parts of an array.
pub(super) struct Exchange {
    /// Pieces, and the ranks that have each; at least one.
    pub pieces: Vec<(Slice, Vec<usize>)>,
    /// Of each rank, the slices that it wants.
    pub wanted: Vec<Vec<Slice>>,
    /// Bytes of an element.
    pub element: usize,
}

/// One message: from which piece, for which needed slice.
struct Part {
    piece: usize,
    want: usize,
    place: Slice,
}

impl Exchange {
    /// What `from` gives to `to`.
    fn parts(&self, from: usize, to: usize) -> Vec<Part> {
        let mut parts = vec![];
        for (want, slice) in self.wanted[to].iter().enumerate() {
            for (piece, (held, ranks)) in self.pieces.iter().enumerate() {
                let giver = if ranks.contains(&to) { to } else { ranks[to % ranks.len()] };
                if giver == from
                    && let Some(place) = overlap(slice, held)
                {
                    parts.push(Part { piece, want, place });
                }
            }
        }
        parts
    }

    fn bytes(&self, place: &Slice) -> usize {
        lengths(place).iter().product::<i64>() as usize * self.element
    }

    /// The slices that this rank wants, row-major, zero where no rank has data. `stored` says where this rank
    /// has a piece. All ranks call it.
    pub(super) fn run<'a>(
        &self,
        runtime: &Runtime,
        stored: impl Fn(usize) -> Result<Stored<'a>>,
    ) -> Result<Vec<Vec<u8>>> {
        let rank = runtime.rank();
        let mut out: Vec<Vec<u8>> = self.wanted[rank].iter().map(|slice| vec![0; self.bytes(slice)]).collect();
        for part in self.parts(rank, rank) {
            let packed = self.pack(&part, &stored(part.piece)?);
            self.unpack(rank, &part, &packed, &mut out);
        }
        for from in 0..runtime.size() {
            let to: Vec<Vec<Part>> =
                (0..runtime.size()).map(|to| if to == from { vec![] } else { self.parts(from, to) }).collect();
            if to.iter().all(Vec::is_empty) {
                continue;
            }
            let mut messages = vec![];
            if from == rank {
                for parts in &to {
                    let mut message = vec![];
                    for part in parts {
                        message.extend(self.pack(part, &stored(part.piece)?));
                    }
                    messages.push(message);
                }
            }
            let message = runtime.scatter(from, &messages)?;
            let mut rest = &message[..];
            for part in &to[rank] {
                let (packed, more) = rest.split_at(self.bytes(&part.place).min(rest.len()));
                self.unpack(rank, part, packed, &mut out);
                rest = more;
            }
        }
        Ok(out)
    }

    fn pack(&self, part: &Part, stored: &Stored<'_>) -> Vec<u8> {
        let (extents, zero) = (lengths(&part.place), vec![0; part.place.len()]);
        let held = &self.pieces[part.piece].0;
        let start: Vec<i64> =
            part.place.iter().zip(held).zip(&stored.start).map(|((p, h), s)| p.start - h.start + s).collect();
        let mut out = vec![0; self.bytes(&part.place)];
        let (from, to) = (Region { dims: &stored.dims, start: &start }, Region { dims: &extents, start: &zero });
        copy(stored.bytes(), &from, &mut out, &to, &extents, self.element);
        out
    }

    fn unpack(&self, rank: usize, part: &Part, packed: &[u8], out: &mut [Vec<u8>]) {
        let slice = &self.wanted[rank][part.want];
        let (extents, zero) = (lengths(&part.place), vec![0; part.place.len()]);
        let start: Vec<i64> = part.place.iter().zip(slice).map(|(p, s)| p.start - s.start).collect();
        let dims = lengths(slice);
        let (from, to) = (Region { dims: &extents, start: &zero }, Region { dims: &dims, start: &start });
        copy(packed, &from, &mut out[part.want], &to, &extents, self.element);
    }
}
