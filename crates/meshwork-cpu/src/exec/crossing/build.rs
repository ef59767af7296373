//! Finding what this process does for a collective.

use meshwork_ir::hash::HashMap;
use meshwork_ir::{ElementType, Module};

use super::{Crossing, Item, Local, Parcel, Part, Reduction, Round, Source, Target};
use crate::exec::combine::Combiner;
use crate::exec::ragged::Ragged;
use crate::program::{Collective, CollectiveKind, Ends, Program, Reducer};
use crate::step::Buf;
use meshwork_runtime::boxes::{BoxCopy, Region};
use meshwork_runtime::transport::swap::INLINE;

/// Up to this many bytes are combined in the order of the group, wherever its members are.
const EXACT: usize = 16 << 10;
/// Up to this many bytes in total, every process receives all contributions and combines them itself.
const AT_ONCE: usize = 64 << 10;
/// Pieces start at multiples of this in the stage.
const ALIGN: usize = 64;

/// Which process has which device.
#[derive(Clone)]
pub(crate) struct Spread {
    /// Of each device.
    pub ranks: Vec<usize>,
    /// This process.
    pub rank: usize,
}

struct Builder<'a> {
    spread: &'a Spread,
    module: &'a Module,
    out: Crossing,
    group: usize,
    /// How the present operand is reduced.
    reducer: Option<(&'a Reducer, ElementType)>,
    /// The combiners of the present operand, by the number of arrays.
    combiners: HashMap<usize, usize>,
}

/// A box in buffers of one name.
struct Place<'a> {
    buf: Buf,
    at: Region<'a>,
}

impl Crossing {
    /// Finds what `c`, the collective of this number, does here.
    pub(crate) fn new(
        c: &Collective,
        number: u32,
        program: &Program,
        module: &Module,
        spread: &Spread,
    ) -> Result<Crossing, String> {
        let out = Crossing {
            number,
            channel: c.channel,
            groups: vec![],
            first: Round::default(),
            reductions: vec![],
            second: Round::default(),
            shares: vec![],
            combiners: vec![],
            ragged: None,
            stage_bytes: 0,
            devices: spread.ranks.iter().filter(|&&r| r == spread.rank).count(),
        };
        let mut builder = Builder { spread, module, out, group: 0, reducer: None, combiners: HashMap::default() };
        for ends in c.ends(program, module) {
            if c.kind == CollectiveKind::RaggedAllToAll {
                builder.ragged(c, program, &ends);
                continue;
            }
            builder.collective(c, &ends, program.bufs[ends.result.0 as usize].bytes)?;
        }
        Ok(builder.out)
    }
}

impl<'a> Builder<'a> {
    fn collective(&mut self, c: &'a Collective, shape: &Ends, bytes: usize) -> Result<(), String> {
        let groups: Vec<Vec<usize>> = c.groups.iter().map(|g| g.iter().map(|&d| d as usize).collect()).collect();
        match &c.kind {
            CollectiveKind::AllReduce(reducer) | CollectiveKind::ReduceScatter { reducer, .. } => {
                self.reducer = Some((reducer, shape.elem));
                self.combiners.clear();
                for group in &groups {
                    self.enter(group);
                    match c.kind {
                        CollectiveKind::ReduceScatter { dim, .. } => self.reduce_scatter(group, shape, dim)?,
                        _ => self.all_reduce(group, shape)?,
                    }
                }
            }
            CollectiveKind::Reduce(reducer) => {
                self.reducer = Some((reducer, shape.elem));
                self.combiners.clear();
                let count = shape.from.iter().product::<i64>().max(0);
                let (dims, zero) = ([count], [0]);
                let place = |buf: Buf| Place { buf, at: Region { dims: &dims, start: &zero } };
                for group in &groups {
                    self.enter(group);
                    let (exact, target) = (self.is_exact(group, &shape.from, shape.elem), place(shape.result));
                    self.reduction(group, &place(shape.operand), (group[0], &target), &dims, shape.elem, exact)?;
                }
                let reached: Vec<usize> = groups.iter().map(|g| g[0]).collect();
                self.silence(&reached, shape.result, bytes);
            }
            CollectiveKind::AllGather { dim } => {
                for group in &groups {
                    self.enter(group);
                    self.all_gather(group, shape, *dim);
                }
            }
            CollectiveKind::AllToAll { split_dim, concat_dim, .. } => {
                for group in &groups {
                    self.enter(group);
                    self.all_to_all(group, shape, *split_dim, *concat_dim);
                }
            }
            // Done otherwise.
            CollectiveKind::RaggedAllToAll => {}
            CollectiveKind::Broadcast => {
                for group in &groups {
                    self.enter(group);
                    self.whole(group[0], group, shape);
                }
                let reached: Vec<usize> = groups.concat();
                self.silence(&reached, shape.result, bytes);
            }
            CollectiveKind::Permute { pairs } => {
                let pairs: Vec<(usize, usize)> = pairs.iter().map(|&(a, b)| (a as usize, b as usize)).collect();
                for &(a, b) in &pairs {
                    self.enter(&[a, b]);
                    self.whole(a, &[b], shape);
                }
                let reached: Vec<usize> = pairs.iter().map(|p| p.1).collect();
                self.silence(&reached, shape.result, bytes);
            }
        }
        Ok(())
    }

    fn ragged(&mut self, c: &Collective, program: &Program, ends: &Ends) {
        let Some(ragged) = Ragged::new(c, program, &ends.from, &ends.to, ends.elem.storage_bytes()) else { return };
        ragged.groups().iter().for_each(|group| self.enter(group));
        self.out.ragged = Some((ragged, self.spread.clone()));
    }

    fn rank(&self, device: usize) -> usize {
        self.spread.ranks[device]
    }

    fn is_here(&self, device: usize) -> bool {
        self.rank(device) == self.spread.rank
    }

    /// What follows is about these devices.
    fn enter(&mut self, group: &[usize]) {
        let mut here: Vec<usize> = group.iter().copied().filter(|&d| self.is_here(d)).collect();
        here.sort_unstable();
        here.dedup();
        self.group = self.out.groups.len();
        self.out.groups.push(here);
    }

    fn stage(&mut self, bytes: usize) -> usize {
        let at = self.out.stage_bytes;
        self.out.stage_bytes = (at + bytes).next_multiple_of(ALIGN);
        at
    }

    /// Devices that receive nothing get zeros.
    fn silence(&mut self, reached: &[usize], buf: Buf, bytes: usize) {
        let spread = self.spread;
        let here = (0..spread.ranks.len()).filter(|&d| spread.ranks[d] == spread.rank);
        for device in here.filter(|d| !reached.contains(d)) {
            self.out.first.zeros.push((device, buf, bytes));
        }
    }

    /// All of what `from` has goes to each of `to`.
    fn whole(&mut self, from: usize, to: &[usize], shape: &Ends) {
        let zero = vec![0; shape.from.len()];
        let place = |buf: Buf| Place { buf, at: Region { dims: &shape.from, start: &zero } };
        let targets: Vec<(usize, Place<'_>)> = to.iter().map(|&d| (d, place(shape.result))).collect();
        self.transfer(0, from, &place(shape.operand), &targets, &shape.from, shape.elem.storage_bytes());
    }

    fn all_gather(&mut self, group: &[usize], shape: &Ends, dim: usize) {
        let zero = vec![0; shape.from.len()];
        for (i, &from) in group.iter().enumerate() {
            let mut start = zero.clone();
            start[dim] = i as i64 * shape.from[dim];
            let place = || Place { buf: shape.result, at: Region { dims: &shape.to, start: &start } };
            let targets: Vec<(usize, Place<'_>)> = group.iter().map(|&d| (d, place())).collect();
            let source = Place { buf: shape.operand, at: Region { dims: &shape.from, start: &zero } };
            self.transfer(0, from, &source, &targets, &shape.from, shape.elem.storage_bytes());
        }
    }

    fn all_to_all(&mut self, group: &[usize], shape: &Ends, split: usize, concat: usize) {
        let mut lengths = shape.from.to_vec();
        lengths[split] /= group.len() as i64;
        for (i, &from) in group.iter().enumerate() {
            for (j, &to) in group.iter().enumerate() {
                let (mut start, mut target) = (vec![0; lengths.len()], vec![0; lengths.len()]);
                start[split] = j as i64 * lengths[split];
                target[concat] = i as i64 * lengths[concat];
                let source = Place { buf: shape.operand, at: Region { dims: &shape.from, start: &start } };
                let place = Place { buf: shape.result, at: Region { dims: &shape.to, start: &target } };
                self.transfer(0, from, &source, &[(to, place)], &lengths, shape.elem.storage_bytes());
            }
        }
    }

    /// A box of `from` goes to boxes of others, in round `round`.
    fn transfer(
        &mut self,
        round: usize,
        from: usize,
        source: &Place<'_>,
        targets: &[(usize, Place<'_>)],
        lengths: &[i64],
        size: usize,
    ) {
        let bytes = lengths.iter().product::<i64>().max(0) as usize * size;
        if bytes == 0 {
            return;
        }
        let zero = vec![0; lengths.len()];
        let dense = Region { dims: lengths, start: &zero };
        let mut ranks: Vec<usize> = targets.iter().map(|t| self.rank(t.0)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let (me, group) = (self.spread.rank, self.group);
        for rank in ranks {
            let there = targets.iter().filter(|t| self.rank(t.0) == rank);
            match (self.rank(from) == me, rank == me) {
                (true, true) => {
                    let local = |(device, place): &(usize, Place<'_>)| Local {
                        group,
                        from: (from, source.buf),
                        to: (*device, place.buf),
                        what: BoxCopy::new(&source.at, &place.at, lengths, size),
                    };
                    let locals: Vec<Local> = there.map(local).collect();
                    self.round(round).locals.extend(locals);
                }
                (true, false) => {
                    let pack = BoxCopy::new(&source.at, &dense, lengths, size);
                    let stage = if pack.span().is_some() { 0 } else { self.stage(bytes) };
                    let what = Source { devices: vec![from], buf: source.buf, pack, combiner: 0, size, stage };
                    parcel(&mut self.round(round).sends, rank, Item { group, bytes, what });
                }
                (false, true) => {
                    let to: Vec<(usize, Buf, BoxCopy)> =
                        there.map(|(d, p)| (*d, p.buf, BoxCopy::new(&dense, &p.at, lengths, size))).collect();
                    let stage = if to[0].2.span().is_some() { 0 } else { self.stage(bytes) };
                    let peer = self.rank(from);
                    let item = Item { group, bytes, what: Target { to, stage } };
                    parcel(&mut self.round(round).receives, peer, item);
                }
                (false, false) => {}
            }
        }
    }

    fn round(&mut self, round: usize) -> &mut Round {
        if round == 0 { &mut self.out.first } else { &mut self.out.second }
    }

    /// The combiner of `count` arrays of the present operand.
    fn combiner(&mut self, count: usize) -> Result<usize, String> {
        if let Some(&known) = self.combiners.get(&count) {
            return Ok(known);
        }
        let (reducer, elem) = self.reducer.ok_or("a reduction without a reducer")?;
        self.out.combiners.push(Combiner::new(reducer, elem, count, self.module)?);
        self.combiners.insert(count, self.out.combiners.len() - 1);
        Ok(self.out.combiners.len() - 1)
    }

    fn reduce_scatter(&mut self, group: &[usize], shape: &Ends, dim: usize) -> Result<(), String> {
        let zero = vec![0; shape.from.len()];
        let exact = self.is_exact(group, &shape.to, shape.elem);
        for (i, &device) in group.iter().enumerate() {
            let mut start = zero.clone();
            start[dim] = i as i64 * shape.to[dim];
            let source = Place { buf: shape.operand, at: Region { dims: &shape.from, start: &start } };
            let target = Place { buf: shape.result, at: Region { dims: &shape.to, start: &zero } };
            self.reduction(group, &source, (device, &target), &shape.to, shape.elem, exact)?;
        }
        Ok(())
    }

    /// Whether the members of a group are combined one by one.
    fn is_exact(&self, group: &[usize], dims: &[i64], elem: ElementType) -> bool {
        let bytes = dims.iter().product::<i64>() as usize * elem.storage_bytes();
        let mut ranks: Vec<usize> = group.iter().map(|&d| self.rank(d)).collect();
        ranks.sort_unstable();
        let alone = ranks.windows(2).all(|w| w[0] != w[1]);
        alone || bytes <= EXACT
    }

    fn all_reduce(&mut self, group: &[usize], shape: &Ends) -> Result<(), String> {
        // One dimension: all arrays are dense.
        let count = shape.from.iter().product::<i64>().max(0);
        let (dims, zero, size) = ([count], [0], shape.elem.storage_bytes());
        let exact = self.is_exact(group, &shape.from, shape.elem);
        // The first member of each process, in order of the group.
        let mut firsts: Vec<usize> = vec![];
        for &device in group {
            if firsts.iter().all(|&f| self.rank(f) != self.rank(device)) {
                firsts.push(device);
            }
        }
        let whole = |buf: Buf| Place { buf, at: Region { dims: &dims, start: &zero } };
        if count as usize * size * firsts.len() <= AT_ONCE {
            for &first in &firsts {
                let (source, target) = (whole(shape.operand), whole(shape.result));
                self.reduction(group, &source, (first, &target), &dims, shape.elem, exact)?;
            }
        } else {
            let n = firsts.len() as i64;
            // Shares start at multiples of a cache line.
            let line = (ALIGN / size.max(1)).max(1) as i64;
            let cut = |i: i64| (count * i / n / line * line).min(count);
            for (i, &first) in firsts.iter().enumerate() {
                let start = [cut(i as i64)];
                let length = [if i as i64 + 1 == n { count } else { cut(i as i64 + 1) } - start[0]];
                let part = |buf: Buf| Place { buf, at: Region { dims: &dims, start: &start } };
                let (source, target) = (part(shape.operand), part(shape.result));
                self.reduction(group, &source, (first, &target), &length, shape.elem, exact)?;
                let others: Vec<(usize, Place<'_>)> =
                    firsts.iter().filter(|&&f| f != first).map(|&f| (f, part(shape.result))).collect();
                self.transfer(1, first, &target, &others, &length, size);
            }
        }
        // What the first has, the others of the same process get from it.
        let at = Region { dims: &dims, start: &zero };
        let what = BoxCopy::new(&at, &at, &dims, size);
        let here = self.out.groups[self.group].clone();
        for device in here {
            if let Some(&first) = firsts.iter().find(|&&f| self.is_here(f) && f != device)
                && what.bytes() > 0
            {
                let (from, to) = ((first, shape.result), (device, shape.result));
                self.out.shares.push(Local { group: self.group, from, to, what: what.clone() });
            }
        }
        Ok(())
    }

    /// A box of all members of a group is combined and goes to one of them.
    fn reduction(
        &mut self,
        group: &[usize],
        source: &Place<'_>,
        (device, target): (usize, &Place<'_>),
        lengths: &[i64],
        elem: ElementType,
        exact: bool,
    ) -> Result<(), String> {
        let size = elem.storage_bytes();
        let bytes = lengths.iter().product::<i64>().max(0) as usize * size;
        if bytes == 0 {
            return Ok(());
        }
        let (me, owner) = (self.spread.rank, self.rank(device));
        let zero = vec![0; lengths.len()];
        let dense = Region { dims: lengths, start: &zero };
        // Contributions, in order: members, or all members of a process.
        let mut contributions: Vec<Vec<usize>> = vec![];
        for &member in group {
            match contributions.iter_mut().find(|c| !exact && self.spread.ranks[c[0]] == self.spread.ranks[member]) {
                Some(same) => same.push(member),
                None => contributions.push(vec![member]),
            }
        }
        let mut parts = vec![];
        for devices in contributions {
            let rank = self.rank(devices[0]);
            if rank == me {
                let pack = BoxCopy::new(&source.at, &dense, lengths, size);
                let stage = if devices.len() == 1 && pack.span().is_some() { 0 } else { self.stage(bytes) };
                // Those that are not one piece are made dense and added one by one.
                let combiner = self.combiner(if pack.span().is_some() { devices.len() } else { 2 })?;
                let what = Source { devices, buf: source.buf, pack, combiner, size, stage };
                if owner == me {
                    parts.push(Part::Here(what))
                } else {
                    parcel(&mut self.out.first.sends, owner, Item { group: self.group, bytes, what })
                }
            } else if owner == me {
                let stage = self.stage(bytes);
                let what = Target { to: vec![], stage };
                parcel(&mut self.out.first.receives, rank, Item { group: self.group, bytes, what });
                parts.push(Part::Stage(stage));
            }
        }
        if owner == me {
            let unpack = BoxCopy::new(&dense, &target.at, lengths, size);
            let stage = if unpack.span().is_some() { 0 } else { self.stage(bytes) };
            let (group, to, combiner) = (self.group, (device, target.buf), self.combiner(parts.len())?);
            self.out.reductions.push(Reduction { group, bytes, combiner, size, parts, to, unpack, stage });
        }
        Ok(())
    }
}

/// Adds a piece to the parcel of a peer.
fn parcel<T>(parcels: &mut Vec<Parcel<T>>, peer: usize, item: Item<T>) {
    let at = match parcels.iter().position(|p| p.peer == peer) {
        Some(at) => at,
        None => {
            parcels.push(Parcel { peer, short: vec![], long: vec![] });
            parcels.len() - 1
        }
    };
    if item.bytes <= INLINE { parcels[at].short.push(item) } else { parcels[at].long.push(item) }
}
