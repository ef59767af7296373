//! Where sorted blocks are to be cut so that the pieces make up the blocks of the sorted whole: exact, in a few rounds.
//!
//! Shard t of the result starts at rank t·block of the whole. For each such bound, every device keeps a window of its
//! sorted block in which its cut must lie, the whole block at first. In each round it sends some samples of each window,
//! evenly spaced, to the device that looks after the bound. That device sorts the samples it got, knows from their places
//! how many elements stand before each at least and at most, and tells everyone between which samples the cut lies.
//!
//! Let the windows of a bound have W elements in all, the longest w, and k samples each. Then W' ≤ 2(D + g) - 2 are left,
//! where g = ⌈w/k⌉ is the distance of samples and D the sum of all distances less one; nothing is left once w ≤ k. So the
//! number of rounds follows from the extents alone: five for four million elements on eight devices, with 64 samples.

use meshwork_ir::op::{BinaryOp, ControlOp};
use meshwork_ir::{Combine, Direction, OpKind, OpSpec, Type, ValueId};

use super::sort::{Sort, key_operands};
use super::{Result, Splitter};

/// Samples of a window: more send more in a round, fewer take more rounds.
const SAMPLES: i64 = 64;

/// Samples of each window, and rounds until all cuts of `n` elements over `p` devices are known.
pub(super) fn rounds_of(n: i64, p: i64) -> (i64, i64) {
    let block = (n + p - 1) / p;
    let k = SAMPLES.min(block).max(1);
    let (mut longest, mut rounds) = (block, 1);
    let mut apart = p * ((block + k - 1) / k - 1);
    while longest > k {
        let left = 2 * (apart + (longest + k - 1) / k) - 2;
        (longest, apart) = (left.min(longest), left / k);
        rounds += 1;
    }
    (k, rounds)
}

/// What is known of the cuts, before and after a round.
struct Windows {
    /// Where the window of each bound starts in this device's rows, and how long it is: rows × bounds.
    starts: ValueId,
    lengths: ValueId,
    /// How long the window of each device is for the bound that this device looks after: rows × devices.
    theirs: ValueId,
    /// The rank of that bound among the elements of the windows: rows × 1.
    rank: ValueId,
}

impl Windows {
    fn values(&self) -> [ValueId; 4] {
        [self.starts, self.lengths, self.theirs, self.rank]
    }

    /// In the order of [`values`](Windows::values).
    fn of(values: &[ValueId]) -> Windows {
        Windows { starts: values[0], lengths: values[1], theirs: values[2], rank: values[3] }
    }
}

const ADD: OpKind = OpKind::Binary(BinaryOp::Add);
const SUBTRACT: OpKind = OpKind::Binary(BinaryOp::Subtract);
const MULTIPLY: OpKind = OpKind::Binary(BinaryOp::Multiply);
const DIVIDE: OpKind = OpKind::Binary(BinaryOp::Divide);
const REMAINDER: OpKind = OpKind::Binary(BinaryOp::Remainder);
const AND: OpKind = OpKind::Binary(BinaryOp::And);

impl Splitter<'_> {
    /// How long the piece of each row of `rows`, which are sorted, is by sender, receiver and row: the same on all devices.
    pub(super) fn piece_sizes(&mut self, sort: &Sort, rows: &[ValueId]) -> Result<ValueId> {
        let frame = &sort.frame;
        let (p, block) = (self.atoms.product(&frame.atoms), frame.block);
        let count = self.local.dims(rows[0])[0];
        let (_, rounds) = rounds_of(sort.n, p);
        let has_key = |i: &usize| sort.keys.iter().any(|k| k.operand == *i);
        let keys = sort.operands.iter().zip(rows).filter(|(i, _)| has_key(i)).map(|(_, &v)| v).collect::<Vec<_>>();
        let e = &mut self.local;
        let shape = [count, p];
        // Elements of this block, those of each, and the rank of this bound.
        let clamp = |e: &mut super::local::LocalBuilder<'_>, start: ValueId, dims: &[i64]| {
            let n = e.index_splat(dims, sort.n);
            let zero = e.index_splat(dims, 0);
            let most = e.index_splat(dims, block);
            let left = e.same(SUBTRACT, &[n, start]);
            let left = e.same(OpKind::Binary(BinaryOp::Maximum), &[left, zero]);
            e.same(OpKind::Binary(BinaryOp::Minimum), &[left, most])
        };
        let start = e.shard_offset(&frame.atoms, block, 0);
        let start = e.broadcast(start, &shape, &[]);
        let lengths = clamp(e, start, &shape);
        let each = e.iota(&shape, 1, e.index);
        let by = e.index_splat(&shape, block);
        let each = e.same(MULTIPLY, &[each, by]);
        let theirs = clamp(e, each, &shape);
        let all = e.index_splat(&[count, 1], sort.n);
        let rank = e.shard_offset(&frame.atoms, block, 0);
        let rank = e.broadcast(rank, &[count, 1], &[]);
        let rank = e.same(OpKind::Binary(BinaryOp::Minimum), &[rank, all]);
        let starts = e.index_splat(&shape, 0);
        let found = self.repeat(rounds, Windows { starts, lengths, theirs, rank }, |s, w| s.narrow(sort, &keys, w))?;
        // A piece ends where the next one starts, the last one with the block.
        let e = &mut self.local;
        let end = e.slice(lengths, 1, 0, 1);
        let later = e.slice(found.starts, 1, 1, p);
        let ends = e.concatenate(&[later, end], 1);
        let sizes = e.same(SUBTRACT, &[ends, found.starts]);
        let sizes = self.as_rows(sizes, 0);
        let sizes = self.local.reshape(sizes, &[1, p, count]);
        Ok(self.gather_lines(sizes, 0, &frame.atoms))
    }

    /// A loop of `rounds` turns around `turn`.
    fn repeat(
        &mut self,
        rounds: i64,
        init: Windows,
        turn: impl FnOnce(&mut Self, Windows) -> Result<Windows>,
    ) -> Result<Windows> {
        if rounds == 1 {
            return turn(self, init);
        }
        let zero = self.local.index_constant(0);
        let operands: Vec<ValueId> = [zero].into_iter().chain(init.values()).collect();
        let types: Vec<Type> = operands.iter().map(|&v| self.local.module.ty(v).clone()).collect();
        let made = self.local.push(OpSpec::new(ControlOp::While).operands(operands).results(types.clone()));
        let times = self.times;
        let place = (self.local.block, self.local.before);
        let turned = self.scoped(|s| {
            (s.local.block, s.local.before) = (s.local.module.add_body(made, types.clone()), None);
            let counter = s.local.module.block(s.local.block).args()[0];
            let limit = s.local.index_constant(rounds);
            let goes_on = s.local.compare(Direction::Lt, counter, limit);
            s.local.push(OpSpec::new(ControlOp::HloReturn).operands([goes_on]));
            s.local.block = s.local.module.add_body(made, types);
            let args = s.local.module.block(s.local.block).args().to_vec();
            s.times *= rounds;
            let one = s.local.index_constant(1);
            let next = s.local.same(ADD, &[args[0], one]);
            let windows = turn(s, Windows::of(&args[1..]))?;
            s.local.push(OpSpec::new(ControlOp::HloReturn).operands([next].into_iter().chain(windows.values())));
            Ok(())
        });
        (self.local.block, self.local.before) = place;
        self.times = times;
        turned?;
        Ok(Windows::of(&self.local.module.op(made).results()[1..]))
    }

    /// One round: narrows all windows by what samples say.
    fn narrow(&mut self, sort: &Sort, keys: &[ValueId], windows: Windows) -> Result<Windows> {
        let list = &sort.frame.atoms;
        let p = self.atoms.product(list);
        let (k, _) = rounds_of(sort.n, p);
        let (count, block) = (self.local.dims(keys[0])[0], sort.frame.block);
        let (shape, wide) = ([count, p, k], [count, p * k]);
        // Samples of each window go to who looks after its bound.
        let places = self.sample_places(windows.lengths, &shape);
        let e = &mut self.local;
        let starts = e.broadcast(windows.starts, &shape, &[0, 1]);
        let places = e.same(ADD, &[places, starts]);
        let last = e.index_splat(&shape, block - 1);
        let places = e.same(OpKind::Binary(BinaryOp::Minimum), &[places, last]);
        let places = e.reshape(places, &wide);
        let mut samples = vec![];
        for &key in keys {
            let taken = self.take_along(key, places);
            let taken = self.local.reshape(taken, &shape);
            let taken = self.exchange(taken, 1, list);
            samples.push(self.local.reshape(taken, &wide));
        }
        // By sample: its place in its window, and how far the one before it and the one behind it are.
        let places = self.sample_places(windows.theirs, &shape);
        let e = &mut self.local;
        let length = e.reshape(windows.theirs, &[count, p, 1]);
        let tail = e.slice(places, 2, 1, k);
        let next = e.concatenate(&[tail, length], 2);
        let behind = e.same(SUBTRACT, &[next, places]);
        let one = e.index_splat(&[count, p, 1], 1);
        let first = e.same(OpKind::Binary(BinaryOp::Minimum), &[length, one]);
        let before = e.slice(behind, 2, 0, k - 1);
        let before = e.concatenate(&[first, before], 2);
        let owner = e.iota(&shape, 1, e.index);
        let others: Vec<ValueId> = [before, behind, places, owner].map(|v| e.reshape(v, &wide)).to_vec();
        let sorted = self.sort_rows(sort.op, &key_operands(&sort.keys), &samples, &others)?;
        let [before, behind, places, owner] = sorted[keys.len()..] else {
            return self.unsupported(sort.op, "internal error: a sort lost its operands");
        };
        // At least `least` + 1 elements stand up to a sample, itself included, and at most `most` before it.
        let e = &mut self.local;
        let least = e.cumulative_sum(before, 1);
        let most = e.cumulative_sum(behind, 1);
        let most = e.same(SUBTRACT, &[most, behind]);
        let rank = e.broadcast(windows.rank, &wide, &[0, 1]);
        let is_in = e.compare(Direction::Lt, most, rank);
        let is_out = e.compare(Direction::Gt, least, rank);
        // Of each device: behind its last sample that is in, up to its first that is out.
        let table = [count, p, p * k];
        let one_of = e.iota(&table, 1, e.index);
        let owner = e.broadcast(owner, &table, &[0, 2]);
        let own = e.compare(Direction::Eq, owner, one_of);
        let theirs = e.broadcast(windows.theirs, &table, &[0, 1]);
        // Devices whose window is empty sent samples of nothing.
        let nothing = e.index_splat(&table, 0);
        let full = e.compare(Direction::Gt, theirs, nothing);
        let own = e.same(AND, &[own, full]);
        let places = e.broadcast(places, &table, &[0, 2]);
        let one = e.index_splat(&table, 1);
        let behind = e.same(ADD, &[places, one]);
        let (is_in, is_out) = (e.broadcast(is_in, &table, &[0, 2]), e.broadcast(is_out, &table, &[0, 2]));
        let (is_in, is_out) = (e.same(AND, &[own, is_in]), e.same(AND, &[own, is_out]));
        let low = e.select(is_in, behind, nothing);
        let low = e.reduce(low, 2, Combine::Max);
        let high = e.select(is_out, places, theirs);
        let high = e.reduce(high, 2, Combine::Min);
        let theirs = e.same(SUBTRACT, &[high, low]);
        let passed = e.reduce(low, 1, Combine::Add);
        let passed = e.reshape(passed, &[count, 1]);
        let rank = e.same(SUBTRACT, &[windows.rank, passed]);
        let (low, left) = (e.reshape(low, &[count, p, 1]), e.reshape(theirs, &[count, p, 1]));
        let answer = e.concatenate(&[low, left], 2);
        let answer = self.exchange(answer, 1, list);
        let e = &mut self.local;
        let (low, left) = (e.slice(answer, 2, 0, 1), e.slice(answer, 2, 1, 2));
        let (low, lengths) = (e.reshape(low, &[count, p]), e.reshape(left, &[count, p]));
        let starts = e.same(ADD, &[windows.starts, low]);
        Ok(Windows { starts, lengths, theirs, rank })
    }

    /// Where the samples of windows of these lengths (rows × windows) are, from the start of each: ⌊j·length/k⌋.
    fn sample_places(&mut self, lengths: ValueId, shape: &[i64; 3]) -> ValueId {
        let e = &mut self.local;
        let lengths = e.broadcast(lengths, shape, &[0, 1]);
        let j = e.iota(shape, 2, e.index);
        let k = e.index_splat(shape, shape[2]);
        // In two steps, so that no product is much larger than a length.
        let (whole, rest) = (e.same(DIVIDE, &[lengths, k]), e.same(REMAINDER, &[lengths, k]));
        let whole = e.same(MULTIPLY, &[whole, j]);
        let rest = e.same(MULTIPLY, &[rest, j]);
        let rest = e.same(DIVIDE, &[rest, k]);
        e.same(ADD, &[whole, rest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rounds of the module's own selection on a line of distinct numbers, by simulation: windows of `p` sorted blocks
    /// narrow as `narrow` does it. Returns how many rounds the slowest bound takes.
    fn simulated(blocks: &[Vec<i64>], n: i64) -> i64 {
        let p = blocks.len() as i64;
        let (k, _) = rounds_of(n, p);
        let block = (n + p - 1) / p;
        let mut slowest = 0;
        for bound in 0..p {
            let mut rank = (bound * block).min(n);
            let mut windows: Vec<(i64, i64)> = blocks.iter().map(|b| (0, b.len() as i64)).collect();
            let mut rounds = 0;
            while windows.iter().any(|w| w.1 > 0) {
                rounds += 1;
                let mut samples = vec![];
                for (owner, &(start, length)) in windows.iter().enumerate().filter(|(_, w)| w.1 > 0) {
                    let place = |j: i64| j * length / k;
                    for j in 0..k {
                        let next = if j + 1 < k { place(j + 1) } else { length };
                        let before = if j == 0 { 1 } else { place(j) - place(j - 1) };
                        let key = blocks[owner][(start + place(j)) as usize];
                        samples.push((key, owner, j, before, next - place(j), place(j)));
                    }
                }
                samples.sort_unstable();
                let (mut least, mut most) = (0, 0);
                let mut cut: Vec<(i64, i64)> = windows.iter().map(|w| (0, w.1)).collect();
                for &(_, owner, _, before, behind, place) in &samples {
                    least += before;
                    if most < rank {
                        cut[owner].0 = cut[owner].0.max(place + 1);
                    }
                    if least > rank {
                        cut[owner].1 = cut[owner].1.min(place);
                    }
                    most += behind;
                }
                for (window, (low, high)) in windows.iter_mut().zip(&cut) {
                    *window = (window.0 + low, high - low);
                    rank -= low;
                }
            }
            // The cuts are where they should be: everything before them is below everything behind.
            let below = blocks.iter().zip(&windows).flat_map(|(b, w)| &b[..w.0 as usize]).max();
            let above = blocks.iter().zip(&windows).flat_map(|(b, w)| &b[w.0 as usize..]).min();
            assert!(below.zip(above).is_none_or(|(a, b)| a < b), "bound {bound}: {windows:?}");
            assert_eq!(windows.iter().map(|w| w.0).sum::<i64>(), (bound * block).min(n));
            slowest = slowest.max(rounds);
        }
        slowest
    }

    #[test]
    fn rounds_are_enough() {
        let mut state = 1u64;
        let mut random = |below: i64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as i64 % below
        };
        for (n, p) in [(1, 2), (7, 4), (64, 2), (100, 8), (513, 8), (1000, 3), (20_000, 2), (20_001, 8), (300_000, 5)] {
            let block = (n + p - 1) / p;
            for kind in 0..4 {
                // Random, in order, backwards, and in runs that hide in one block.
                let mut line: Vec<i64> = (0..n).collect();
                match kind {
                    0 => (1..n as usize).rev().for_each(|i| line.swap(i, random(i as i64 + 1) as usize)),
                    1 => {}
                    2 => line.reverse(),
                    _ => line.sort_by_key(|v| (v / 37 % p, *v)),
                }
                let mut blocks: Vec<Vec<i64>> = line.chunks(block as usize).map(<[i64]>::to_vec).collect();
                blocks.resize(p as usize, vec![]);
                blocks.iter_mut().for_each(|b| b.sort_unstable());
                let (_, bound) = rounds_of(n, p);
                let took = simulated(&blocks, n);
                assert!(took <= bound, "{n} over {p}: {took} rounds, {bound} planned");
            }
        }
        assert_eq!(rounds_of(1 << 22, 8), (64, 5));
    }
}
