//! Loops of stencils that exchange halos once in several turns, or beside the interior of their blocks.
//!
//! A turn of such a loop reads elements of the neighbours' blocks, so each turn waits for an exchange. There are two ways to wait less.
//!
//! *Wide halos*: a device holds more elements on either side of its block than it owns, as many as several turns reach; it computes those
//! turns by itself, among them what its neighbours compute, too, and then exchanges again:
//!
//! ```text
//! while i < 100 { u = exchange(u, 1); u = step(u) }      while i < 25 { u = exchange(u, 4); 4 times: u = step(u); u = block(u) }
//! ```
//!
//! As many bytes are sent, in a quarter of the exchanges.
//!
//! *Overlapped halos*: a turn is cut into the interior of the block, which reads nothing else, and the slabs along its sides. The interior does
//! not depend on the exchange, so that a machine that communicates beside its work does both at once:
//!
//! ```text
//! while i < 100 { h = exchange(ends(u)); inner = step(u); outer = step(h, ends(u)); u = join(outer, inner) }
//! ```
//!
//! `links` says for each operation which elements of its operands it reads, `reach` follows that through a turn. `round` and `turn` write a
//! turn on arrays that hold any elements of a line, `exchange` fetches them; `write` and `overlap` write the loops. A loop with an
//! operation that is not in `links`, or whose number of turns is not known, stays as it is.
//!
//! Elements are computed by the same operations from the same numbers on every device that has them: results are equal to those of
//! the plain loop to the bit.

mod exchange;
mod links;
mod overlap;
mod reach;
mod round;
mod turn;
mod write;

use meshwork_ir::OpId;

use super::{Result, Splitter};
use crate::algorithm::Algorithm;
use crate::collective::{Collective, Peers, wire_bytes};
use crate::plan::{PlannedCollective, human_seconds};
use crate::reshard::moves::Form;

/// When loops of stencils exchange halos.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Exchange {
    /// Where an operation reads them.
    #[default]
    Plain,
    /// The same; loops that could do otherwise are counted.
    Counted,
    /// Once in so many turns.
    Every(i64),
    /// In every turn, beside the interior.
    Beside,
}

/// When loops exchange halos, and which of them could do it otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Halos {
    /// What is asked for.
    pub exchange: Exchange,
    /// Loops that could exchange less often than in every turn.
    pub can_widen: usize,
    /// Loops that could exchange beside their interior.
    pub can_overlap: usize,
    /// Loops that do what is asked for.
    pub used: usize,
}

impl Splitter<'_> {
    /// Splits the loop `op` so that it exchanges halos otherwise than where an operation reads them. Tells whether it could.
    pub fn stencil_loop(&mut self, op: OpId) -> Result<bool> {
        if self.halos.exchange == Exchange::Plain {
            return Ok(false);
        }
        let Some(plan) = reach::reach(self, op) else { return Ok(false) };
        // No shard is to need more than its neighbours have.
        let most = plan.deepest().min(plan.turns);
        let overlaps = self.has_interior(&plan);
        self.halos.can_widen += usize::from(most >= 2);
        self.halos.can_overlap += usize::from(overlaps);
        let values = match self.halos.exchange {
            Exchange::Every(turns) if turns.min(most) >= 2 => self.write_wide(&plan, turns.min(most))?,
            Exchange::Beside if overlaps => self.write_overlapped(&plan)?,
            _ => return Ok(false),
        };
        self.halos.used += 1;
        for ((&result, value), layout) in self.src.op(op).results().to_vec().iter().zip(values).zip(&plan.layouts) {
            self.set(result, Form { value, layout: layout.clone() });
        }
        Ok(true)
    }

    /// Predicted seconds of an exchange.
    fn exchange_seconds(&self, c: &Collective) -> f64 {
        let axes = match &c.peers {
            Peers::Line { atoms, .. } => self.atoms.to_axes(atoms),
            _ => vec![],
        };
        let planned = PlannedCollective { collective: c.clone(), axes, causes: vec![] };
        self.machine.collective_seconds(&planned, self.atoms.mesh())
    }

    /// Says of the exchanges since `from`, one for every `turns` turns, what they took the place of. `repeated` is the share of the work
    /// that is done again.
    fn give_reasons(&mut self, from: usize, turns: i64, repeated: f64) {
        let narrow = |c: &Collective| {
            let operand_bytes = c.operand_bytes / turns;
            Collective {
                operand_bytes,
                wire_bytes: wire_bytes(&c.kind, &c.peers, operand_bytes, self.atoms),
                ..c.clone()
            }
        };
        let exchanges = || self.collectives[from..].iter();
        let together: f64 = exchanges().map(|c| self.exchange_seconds(c)).sum::<f64>() / turns as f64;
        let each: f64 = exchanges().map(|c| self.exchange_seconds(&narrow(c))).sum();
        let reason = format!(
            "{}: halos of {turns} turns at once ({} a turn, {:.0}% of the work done again; an exchange in every turn would take {})",
            Algorithm::WideHalos,
            human_seconds(together),
            100.0 * repeated,
            human_seconds(each)
        );
        self.set_reasons(from, &reason);
    }

    /// Says of the exchanges since `from`, which run beside a part `interior` of the work, what they took the place of.
    fn give_overlap_reasons(&mut self, from: usize, interior: f64) {
        // Lines have links of their own.
        let mut lines: Vec<(&Peers, f64)> = vec![];
        for c in &self.collectives[from..] {
            let seconds = self.exchange_seconds(c);
            match lines.iter_mut().find(|(peers, _)| is_same_line(peers, &c.peers)) {
                Some((_, sum)) => *sum += seconds,
                None => lines.push((&c.peers, seconds)),
            }
        }
        let seconds = lines.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        let reason = format!(
            "{}: halos come beside {:.0}% of the work (waiting for them first would take {} a turn)",
            Algorithm::OverlappedHalos,
            (100.0 * interior).floor(),
            human_seconds(seconds)
        );
        self.set_reasons(from, &reason);
    }

    fn set_reasons(&mut self, from: usize, reason: &str) {
        for origin in self.collectives[from..].iter_mut().flat_map(|c| &mut c.origins) {
            origin.reason = reason.to_string().into();
        }
    }
}

fn is_same_line(a: &Peers, b: &Peers) -> bool {
    matches!((a, b), (Peers::Line { atoms: a, .. }, Peers::Line { atoms: b, .. }) if a == b)
}
