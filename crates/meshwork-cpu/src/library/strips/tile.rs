//! The steps for one strip, and where their buffers are.

use std::sync::Arc;

use meshwork_mesh::sort_by_key;

use crate::program::BufInfo;
use crate::step::{Buf, Fault, Frame, Scratch, Step, Work};

/// Where a buffer of the inner steps is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Home {
    /// At this byte of the thread's memory.
    Own(usize),
    /// The part of an operand.
    Input(usize),
    /// The position along an axis.
    Position(usize),
    /// The part of a result.
    Result(usize),
    /// A buffer of the program.
    Outer(Buf),
    /// It is never touched.
    Nowhere,
}

/// What is done to one strip.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    /// Steps that read nothing of the rows: done once for all strips of a matrix.
    pub once: Vec<Arc<dyn Work>>,
    /// The others.
    pub each: Vec<Arc<dyn Work>>,
    /// By buffer.
    pub homes: Vec<Home>,
    /// Bytes of the thread's memory.
    pub bytes: usize,
}

impl Tile {
    /// The steps `steps` over `bufs`, of which `homes` tells all that are not the thread's own. Buffers of `varying` change
    /// from strip to strip; those of `kept` are read after the last step.
    pub(crate) fn new(steps: Vec<Step>, bufs: &[BufInfo], mut homes: Vec<Home>, varying: &[Buf], kept: &[Buf]) -> Tile {
        let mut varies = vec![false; bufs.len()];
        varying.iter().for_each(|b| varies[b.0 as usize] = true);
        let mut once = vec![];
        let mut each = vec![];
        for step in steps {
            let to_result =
                step.writes.iter().any(|b| matches!(homes[b.0 as usize], Home::Result(_)) || kept.contains(b));
            if to_result || step.reads.iter().any(|b| varies[b.0 as usize]) {
                step.writes.iter().for_each(|b| varies[b.0 as usize] = true);
                each.push(step);
            } else {
                once.push(step);
            }
        }
        let all: Vec<&Step> = once.iter().chain(&each).collect();
        let lives = lives(&all, bufs.len(), once.len(), kept);
        let mut placed: Vec<Placed> = vec![];
        let mut bytes = 0;
        for (i, step) in all.iter().enumerate() {
            for &buf in &step.writes {
                let b = buf.0 as usize;
                if homes[b] != Home::Nowhere || bufs[b].bytes == 0 {
                    continue;
                }
                let over = step.in_place.iter().find_map(|&(from, to)| {
                    let f = from.0 as usize;
                    let free = to == buf && lives[f].1 == i && varies[f] && bufs[f].bytes == bufs[b].bytes;
                    let taken = |at: usize| step.writes.iter().any(|w| homes[w.0 as usize] == Home::Own(at));
                    match homes[f] {
                        Home::Own(at) if free && !taken(at) => Some(at),
                        _ => None,
                    }
                });
                let size = bufs[b].bytes.next_multiple_of(64);
                let at = over.unwrap_or_else(|| gap(&placed, size, lives[b]));
                homes[b] = Home::Own(at);
                placed.push(Placed { at, size, life: lives[b] });
                bytes = bytes.max(at + size);
            }
        }
        let work = |steps: Vec<Step>| steps.into_iter().map(|s| s.work).collect();
        Tile { once: work(once), each: work(each), homes, bytes }
    }

    /// Runs `steps`, all parts of each.
    ///
    /// # Safety
    /// As [`Work::run`] of each of them.
    pub(crate) unsafe fn run(steps: &[Arc<dyn Work>], frame: &Frame<'_>, scratch: &mut Scratch) -> Result<(), Fault> {
        for step in steps {
            for part in 0..step.parts() {
                // SAFETY: the caller's.
                unsafe { step.run(frame, scratch, part)? };
            }
        }
        Ok(())
    }

    /// Rough cost in nanoseconds of what is done once, and for each strip.
    pub(crate) fn costs(&self) -> (u64, u64) {
        let sum = |steps: &[Arc<dyn Work>]| steps.iter().map(|s| s.cost()).sum();
        (sum(&self.once), sum(&self.each))
    }
}

struct Placed {
    at: usize,
    size: usize,
    life: (usize, usize),
}

/// First and last step that touches each buffer. What is made once lives on; what is kept lives to the end.
fn lives(steps: &[&Step], bufs: usize, once: usize, kept: &[Buf]) -> Vec<(usize, usize)> {
    let mut lives = vec![(usize::MAX, 0); bufs];
    for (i, step) in steps.iter().enumerate() {
        for buf in step.reads.iter().chain(&step.writes) {
            let life = &mut lives[buf.0 as usize];
            *life = (life.0.min(i), i);
        }
        if i < once {
            step.writes.iter().for_each(|b| lives[b.0 as usize].1 = usize::MAX);
        }
    }
    for (i, step) in steps.iter().enumerate().take(once) {
        step.writes.iter().for_each(|b| lives[b.0 as usize] = (i, usize::MAX));
    }
    kept.iter().for_each(|b| lives[b.0 as usize].1 = usize::MAX);
    lives
}

/// The lowest place for `size` bytes that nothing needs at the same time.
fn gap(placed: &[Placed], size: usize, life: (usize, usize)) -> usize {
    let mut others: Vec<&Placed> = placed.iter().filter(|p| p.life.0 <= life.1 && life.0 <= p.life.1).collect();
    sort_by_key(&mut others, |p| p.at);
    let mut at = 0;
    for p in others {
        if at + size <= p.at {
            break;
        }
        at = at.max(p.at + p.size);
    }
    at
}
