//! Loops of stencils that exchange halos once in several turns.
//!
//! A turn of such a loop reads elements of the neighbours' blocks, so each turn waits for an exchange. Here a device holds more elements
//! on either side of its block than it owns, as many as several turns reach; it computes those turns by itself, among them what its
//! neighbours compute, too, and then exchanges again:
//!
//! ```text
//! while i < 100 { u = exchange(u, 1); u = step(u) }      while i < 25 { u = exchange(u, 4); 4 times: u = step(u); u = block(u) }
//! ```
//!
//! As many bytes are sent, in a quarter of the exchanges. `links` says for each operation which elements of its operands it
//! reads, `reach` follows that through a turn, `write` writes the loop. A loop with an operation that is not in `links`, or whose number of
//! turns is not known, stays as it is.
//!
//! Elements are computed by the same operations from the same numbers on every device that has them: results are equal to those of
//! the plain loop to the bit.

mod links;
mod reach;
mod write;

use meshwork_ir::OpId;

use super::{Result, Splitter};
use crate::algorithm::Algorithm;
use crate::collective::{Collective, Peers, wire_bytes};
use crate::plan::{PlannedCollective, human_seconds};
use crate::reshard::moves::Form;

/// How often loops exchange halos, and which of them could do it less often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WideHalos {
    /// Turns from one exchange to the next; 1, or less, leaves all loops as they are.
    pub turns: i64,
    /// Loops that could exchange less often than in every turn.
    pub possible: usize,
    /// Loops that do.
    pub used: usize,
}

impl Splitter<'_> {
    /// Splits the loop `op` so that it exchanges halos once in several turns. Tells whether it could.
    pub fn wide_loop(&mut self, op: OpId) -> Result<bool> {
        if self.wide.turns < 1 {
            return Ok(false);
        }
        let Some(plan) = reach::reach(self, op) else { return Ok(false) };
        // No shard is to need more than its neighbours have.
        let most = plan.deepest().min(plan.turns);
        if most < 2 {
            return Ok(false);
        }
        self.wide.possible += 1;
        let turns = self.wide.turns.min(most);
        if turns < 2 {
            return Ok(false);
        }
        self.wide.used += 1;
        let values = self.write_wide(&plan, turns)?;
        for ((&result, value), layout) in self.src.op(op).results().to_vec().iter().zip(values).zip(&plan.layouts) {
            self.set(result, Form { value, layout: layout.clone() });
        }
        Ok(true)
    }

    /// Says of the exchanges since `from`, one for every `turns` turns, what they took the place of. `repeated` is the share of the work
    /// that is done again.
    fn give_reasons(&mut self, from: usize, turns: i64, repeated: f64) {
        let mesh = self.atoms.mesh();
        let seconds = |c: &Collective| {
            let axes = match &c.peers {
                Peers::Line { atoms, .. } => self.atoms.to_axes(atoms),
                _ => vec![],
            };
            let planned = PlannedCollective { collective: c.clone(), axes, causes: vec![] };
            self.machine.collective_seconds(&planned, mesh)
        };
        let narrow = |c: &Collective| {
            let operand_bytes = c.operand_bytes / turns;
            Collective {
                operand_bytes,
                wire_bytes: wire_bytes(&c.kind, &c.peers, operand_bytes, self.atoms),
                ..c.clone()
            }
        };
        let exchanges = || self.collectives[from..].iter();
        let together: f64 = exchanges().map(seconds).sum::<f64>() / turns as f64;
        let each: f64 = exchanges().map(|c| seconds(&narrow(c))).sum();
        let reason = format!(
            "{}: halos of {turns} turns at once ({} a turn, {:.0}% of the work done again; an exchange in every turn would take {})",
            Algorithm::WideHalos,
            human_seconds(together),
            100.0 * repeated,
            human_seconds(each)
        );
        for origin in self.collectives[from..].iter_mut().flat_map(|c| &mut c.origins) {
            origin.reason = reason.clone().into();
        }
    }
}
