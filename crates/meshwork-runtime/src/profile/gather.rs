//! The records of all processes on one clock.
//!
//! Each process has a clock that starts with its run. After the run all read their clocks at the same time, as near as a
//! barrier brings them, several times. The median of the differences brings all records to the clock of the first process:
//! a process that was not running after one of the barriers does not count.

use super::recorder::{Raw, Recorder, What};
use crate::transport::world::ProcessError;
use meshwork_ir::hash::HashMap;
use meshwork_mesh::sort_by_key;

/// What a process without others gives as the records of all: its own.
pub fn alone(own: &OwnRecord<'_>) -> Result<Vec<Vec<u8>>, ProcessError> {
    Ok(vec![own.bytes(&[own.now()])])
}

/// The record of this process, for the others.
pub struct OwnRecord<'a> {
    pub(super) recorder: &'a Recorder,
    pub(super) part: Part,
}

impl OwnRecord<'_> {
    /// What its clock shows.
    pub fn now(&self) -> u64 {
        self.recorder.now()
    }

    /// The record, with what the clock showed at moments that are the same for all processes.
    pub fn bytes(&self, clocks: &[u64]) -> Vec<u8> {
        self.part.bytes(clocks)
    }
}

/// The record of one process: events, each with the number of its name.
#[derive(Default)]
pub(super) struct Part {
    names: Vec<String>,
    rows: Vec<(Raw, u32)>,
}

/// An event of any process, on the common clock.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Noted {
    pub raw: Raw,
    pub name: String,
    pub rank: u32,
}

const KINDS: [What; 5] = [What::Step, What::Exchange, What::Await, What::Move, What::Allocate];
/// Numbers of an event on the wire.
const COLUMNS: usize = 8;
/// Years, in nanoseconds: no process starts this long before another.
const BEFORE: u64 = 1 << 60;

impl Part {
    pub(super) fn new(events: impl Iterator<Item = (Raw, String)>) -> Part {
        let mut part = Part::default();
        let mut known: HashMap<String, u32> = HashMap::default();
        for (raw, name) in events {
            let next = part.names.len() as u32;
            let number = *known.entry(name).or_insert_with_key(|name| {
                part.names.push(name.clone());
                next
            });
            part.rows.push((raw, number));
        }
        part
    }

    /// As bytes: what the clock showed, names, rows; all numbers as eight bytes.
    fn bytes(&self, clocks: &[u64]) -> Vec<u8> {
        let mut out = vec![];
        let mut number = |n: u64| out.extend_from_slice(&n.to_le_bytes());
        number(clocks.len() as u64);
        clocks.iter().for_each(|&clock| number(clock));
        number(self.names.len() as u64);
        self.names.iter().for_each(|name| number(name.len() as u64));
        number(self.rows.len() as u64);
        for (raw, name) in &self.rows {
            let kind = KINDS.iter().position(|k| *k == raw.what).unwrap_or(0) as u64;
            let Raw { number: n, device, thread, start, end, bytes, .. } = *raw;
            let row: [u64; COLUMNS] = [kind, n.into(), device.into(), thread.into(), start, end, bytes, (*name).into()];
            row.into_iter().for_each(&mut number);
        }
        self.names.iter().for_each(|name| out.extend_from_slice(name.as_bytes()));
        out
    }

    /// The clocks and the record that [`bytes`](Part::bytes) wrote.
    fn read(bytes: &[u8]) -> Option<(Vec<u64>, Part)> {
        let mut rest = bytes;
        let mut number = || {
            let (first, others) = rest.split_first_chunk::<8>()?;
            rest = others;
            Some(u64::from_le_bytes(*first))
        };
        let clocks: Vec<u64> = (0..number()?).map(|_| number()).collect::<Option<_>>()?;
        let lengths: Vec<usize> = (0..number()?).map(|_| Some(number()? as usize)).collect::<Option<_>>()?;
        let mut part = Part::default();
        for _ in 0..number()? {
            let mut row = [0; COLUMNS];
            for cell in &mut row {
                *cell = number()?;
            }
            let [kind, n, device, thread, start, end, bytes, name] = row;
            let what = *KINDS.get(kind as usize)?;
            let raw = Raw { what, number: n as u32, device: device as u32, thread: thread as u32, start, end, bytes };
            part.rows.push((raw, name as u32));
        }
        for length in lengths {
            let (name, others) = rest.split_at_checked(length)?;
            part.names.push(String::from_utf8_lossy(name).into_owned());
            rest = others;
        }
        Some((clocks, part))
    }
}

/// All records as one, from the first event on, by start.
pub(super) fn join(parts: &[Vec<u8>]) -> Result<Vec<Noted>, ProcessError> {
    let mut out: Vec<Noted> = vec![];
    let mut first_clocks: Option<Vec<u64>> = None;
    for (rank, bytes) in parts.iter().enumerate() {
        let bad = || ProcessError::Failed(format!("rank {rank} sent a profile that cannot be read"));
        let (clocks, part) = Part::read(bytes).ok_or_else(bad)?;
        let first = first_clocks.get_or_insert_with(|| clocks.clone());
        let mut differences: Vec<i64> = first.iter().zip(&clocks).map(|(a, b)| *a as i64 - *b as i64).collect();
        differences.sort_unstable();
        let difference = differences.get(differences.len() / 2).copied().unwrap_or(0);
        for (mut raw, name) in part.rows {
            // What was before the start of the first process must not fall below zero yet.
            let shift = |t: u64| (t + BEFORE).saturating_add_signed(difference);
            (raw.start, raw.end) = (shift(raw.start), shift(raw.end));
            let name = part.names.get(name as usize).ok_or_else(bad)?.clone();
            out.push(Noted { raw, name, rank: rank as u32 });
        }
    }
    // One process keeps its clock, which starts with the run; of several the first event is the start.
    let start = match parts.len() {
        1 => BEFORE,
        _ => out.iter().map(|n| n.raw.start).min().unwrap_or(0),
    };
    for Noted { raw, .. } in &mut out {
        (raw.start, raw.end) = (raw.start - start, raw.end - start);
    }
    sort_by_key(&mut out, |n| (n.raw.start, n.raw.end, n.raw.device));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(what: What, device: u32, start: u64, end: u64) -> Raw {
        Raw { what, number: 3, device, thread: 1, start, end, bytes: 9 }
    }

    #[test]
    fn records_of_processes_come_to_one_clock() {
        let of = |events: Vec<(Raw, &str)>, clocks: [u64; 3]| {
            Part::new(events.into_iter().map(|(r, n)| (r, n.to_string()))).bytes(&clocks)
        };
        let first = of(vec![(raw(What::Step, 0, 5, 9), "dot"), (raw(What::Move, 0, 9, 10), "größer")], [100, 200, 300]);
        // The clock of the second started 70 later, and the process was late once.
        let second = of(vec![(raw(What::Exchange, 1, 1, 2), "dot")], [30, 170, 230]);
        let joined = join(&[first.clone(), second]).unwrap();
        let seen: Vec<_> = joined.iter().map(|n| (n.name.as_str(), n.rank, n.raw.start, n.raw.end)).collect();
        assert_eq!(seen, [("dot", 0, 0, 4), ("größer", 0, 4, 5), ("dot", 1, 66, 67)]);
        assert_eq!(joined[1].raw, raw(What::Move, 0, 4, 5));
        assert_eq!(join(std::slice::from_ref(&first)).unwrap()[0].raw.start, 5);
        assert!(join(&[first[..first.len() - 1].to_vec()]).is_err());
        assert!(join(&[vec![]]).is_err());
    }
}
