//! Collectives of the ranks of a communicator, on bytes: barrier, gather, scatter, all-to-all, reductions, scans.
//!
//! Each begins with a round in which every rank tells all others what it calls and with what. So a mistake of one rank, or
//! two different calls, are the same error on all, and the ranks are still together afterwards. What is combined is
//! combined in order of rank.

use meshwork_ir::ElementType;

use super::communicator::Communicator;
use super::runtime::{ReduceOp, combine_all};
use super::world::{ProcessError, local_devices};

fn failed<T>(text: String) -> Result<T, ProcessError> {
    Err(ProcessError::Failed(text))
}

impl Communicator {
    /// Tells all ranks what this one calls and what with, or why it cannot; returns what all have told, in order of rank.
    /// Different calls, and a rank that cannot, are the same error on all.
    pub fn agree(&self, call: &str, own: Result<&str, &str>) -> Result<Vec<String>, ProcessError> {
        let (sign, words) = match own {
            Ok(words) => ('+', words),
            Err(why) => ('-', why),
        };
        let all = self.exchange(&vec![format!("{call}\n{sign}{words}").into_bytes(); self.size()])?;
        let mut heads = vec![];
        for (rank, message) in all.iter().enumerate() {
            let text = String::from_utf8_lossy(message);
            let (other, words) = text.split_once('\n').unwrap_or((&text, ""));
            heads.push((rank, other.to_string(), words.to_string()));
        }
        let first = heads[0].1.clone();
        if let Some((rank, other, _)) = heads.iter().find(|(_, other, _)| *other != first) {
            return failed(format!("rank 0 calls {first}, rank {rank} calls {other}"));
        }
        if let Some((_, _, why)) = heads.iter().find(|(_, _, words)| words.starts_with('-')) {
            return failed(why[1..].to_string());
        }
        Ok(heads.into_iter().map(|(_, _, words)| words.get(1..).unwrap_or_default().to_string()).collect())
    }

    /// As [`agree`](Communicator::agree) on something that must be the same everywhere.
    pub fn agree_on(&self, call: &str, same: Result<&str, &str>) -> Result<(), ProcessError> {
        let all = self.agree(call, same)?;
        match all.iter().position(|other| *other != all[0]) {
            None => Ok(()),
            Some(rank) => failed(format!("{call}: rank 0 has {}, rank {rank} has {}", all[0], all[rank])),
        }
    }

    /// One message to each and one from each.
    fn exchange(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, ProcessError> {
        for step in 0..self.size() {
            let to = (self.rank() + step) % self.size();
            self.give(to, &parts[to])?;
        }
        (0..self.size()).map(|from| self.take(from)).collect()
    }

    /// That `root` is a rank, and the same on all.
    fn agree_on_root(&self, call: &str, root: usize) -> Result<(), ProcessError> {
        self.check_rank(call, root)?;
        self.agree_on(call, Ok(&format!("root {root}")))
    }

    /// Waits until all ranks have reached it.
    pub fn barrier(&self) -> Result<(), ProcessError> {
        self.agree("barrier", Ok("")).map(drop)
    }

    /// All get the bytes of `root`; those of the others are ignored.
    pub fn broadcast(&self, root: usize, bytes: &[u8]) -> Result<Vec<u8>, ProcessError> {
        self.agree_on_root("broadcast", root)?;
        if self.rank() != root {
            return self.take(root);
        }
        (0..self.size()).filter(|&to| to != root).try_for_each(|to| self.give(to, bytes))?;
        Ok(bytes.to_vec())
    }

    /// `root` gets the bytes of all, of any lengths, in order of rank; the others get none.
    pub fn gather(&self, root: usize, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, ProcessError> {
        self.agree_on_root("gather", root)?;
        self.give(root, bytes)?;
        if self.rank() != root {
            return Ok(None);
        }
        (0..self.size()).map(|from| self.take(from)).collect::<Result<_, _>>().map(Some)
    }

    /// All get the bytes of all, in order of rank.
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, ProcessError> {
        self.agree("all_gather", Ok(""))?;
        self.exchange(&vec![bytes.to_vec(); self.size()])
    }

    /// Each rank gets its part of what `root` has: one part per rank, of any lengths. What the others give is ignored.
    pub fn scatter(&self, root: usize, parts: &[Vec<u8>]) -> Result<Vec<u8>, ProcessError> {
        self.check_rank("scatter", root)?;
        let text = format!("scatter: rank {root} has {} parts for {} ranks", parts.len(), self.size());
        let fits = self.rank() != root || parts.len() == self.size();
        let head = format!("root {root}");
        self.agree_on("scatter", if fits { Ok(&head) } else { Err(&text) })?;
        if self.rank() == root {
            (0..self.size()).try_for_each(|to| self.give(to, &parts[to]))?;
        }
        self.take(root)
    }

    /// Rank `r` gets part `r` of each, in order of rank; parts may have any lengths.
    pub fn all_to_all(&self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, ProcessError> {
        let text = format!("all_to_all: rank {} has {} parts for {} ranks", self.rank(), parts.len(), self.size());
        self.agree("all_to_all", if parts.len() == self.size() { Ok("") } else { Err(&text) })?;
        self.exchange(parts)
    }

    /// That all have as many elements of one type, and combine them in one way.
    fn agree_on_elements(
        &self,
        call: &str,
        elem: ElementType,
        how: ReduceOp,
        bytes: &[u8],
    ) -> Result<(), ProcessError> {
        // What has no combination has none of no elements either.
        if let Err(why) = combine_all(elem, how, &[vec![], vec![]]) {
            let why = format!("{call}: {why}");
            return self.agree(call, Err(&why)).map(drop);
        }
        self.agree_on(call, Ok(&format!("{how:?} of {elem} in {} bytes", bytes.len())))
    }

    fn combined(&self, elem: ElementType, how: ReduceOp, arrays: &[Vec<u8>]) -> Result<Vec<u8>, ProcessError> {
        combine_all(elem, how, arrays).map_err(ProcessError::Failed)
    }

    /// `root` gets the combination, element by element, of the arrays that each has; the others get none.
    pub fn reduce(
        &self,
        root: usize,
        elem: ElementType,
        how: ReduceOp,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, ProcessError> {
        self.agree_on_elements("reduce", elem, how, bytes)?;
        let all = self.gather(root, bytes)?;
        all.map(|all| self.combined(elem, how, &all)).transpose()
    }

    /// All get the combination, element by element, of the arrays that each has.
    pub fn all_reduce(&self, elem: ElementType, how: ReduceOp, bytes: &[u8]) -> Result<Vec<u8>, ProcessError> {
        self.agree_on_elements("all_reduce", elem, how, bytes)?;
        // Each combines a part.
        let (size, count) = (elem.storage_bytes(), bytes.len() / elem.storage_bytes().max(1));
        let cut = |range: std::ops::Range<usize>| bytes[range.start * size..range.end * size].to_vec();
        let parts: Vec<Vec<u8>> = (0..self.size()).map(|r| cut(local_devices(r, self.size(), count))).collect();
        let own = self.combined(elem, how, &self.exchange(&parts)?)?;
        Ok(self.exchange(&vec![own; self.size()])?.concat())
    }

    /// The combination of the arrays that each has, of which rank `r` gets the part of `counts[r]` elements.
    pub fn reduce_scatter(
        &self,
        elem: ElementType,
        how: ReduceOp,
        bytes: &[u8],
        counts: &[usize],
    ) -> Result<Vec<u8>, ProcessError> {
        let (size, count) = (elem.storage_bytes(), bytes.len() / elem.storage_bytes().max(1));
        let sum: usize = counts.iter().sum();
        let why = format!(
            "reduce_scatter: the counts {counts:?} of rank {} do not cut {count} elements for {} ranks",
            self.rank(),
            self.size()
        );
        let fit = counts.len() == self.size() && sum == count;
        let head = format!("the counts {counts:?}");
        self.agree_on("reduce_scatter", if fit { Ok(&head) } else { Err(&why) })?;
        self.agree_on_elements("reduce_scatter", elem, how, bytes)?;
        let mut rest = bytes;
        let mut parts = vec![];
        for &count in counts {
            let (part, after) = rest.split_at(count * size);
            parts.push(part.to_vec());
            rest = after;
        }
        self.combined(elem, how, &self.exchange(&parts)?)
    }

    /// The combination of the arrays of the ranks up to this one, and with [`Scan::Exclusive`] of those before it: rank 0
    /// then gets `None`.
    pub fn scan(
        &self,
        elem: ElementType,
        how: ReduceOp,
        bytes: &[u8],
        kind: Scan,
    ) -> Result<Option<Vec<u8>>, ProcessError> {
        self.agree_on("scan", Ok(&format!("{kind:?}")))?;
        self.agree_on_elements("scan", elem, how, bytes)?;
        let before = if self.rank() == 0 { None } else { Some(self.take(self.rank() - 1)?) };
        let through = match &before {
            None => bytes.to_vec(),
            Some(before) => self.combined(elem, how, &[before.clone(), bytes.to_vec()])?,
        };
        if self.rank() + 1 < self.size() {
            self.give(self.rank() + 1, &through)?;
        }
        Ok(match kind {
            Scan::Inclusive => Some(through),
            Scan::Exclusive => before,
        })
    }
}

/// Whether a [scan](Communicator::scan) counts the array of the rank itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// Up to and with this rank.
    Inclusive,
    /// The ranks before this one.
    Exclusive,
}
