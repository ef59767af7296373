//! Choosing how often loops exchange halos: as the options ask, or by simulated runs of the program.

use meshwork_ir::Module;

use crate::algorithm::{Algorithm, Use};
use crate::compile::CompileOptions;
use crate::plan::simulate_program;
use crate::split::wide::WideHalos;
use crate::{PartitionError, Plan};

/// Turns between exchanges that are tried, as long as more of them are faster.
const TRIED: [i64; 6] = [2, 4, 8, 16, 32, 64];
/// Turns between exchanges where they are asked for.
const ALWAYS: i64 = 4;

/// A per-device program, its plan, and what its loops do about halos.
pub type Built = (Module, Plan, WideHalos);

/// What `build` makes of a program whose loops exchange halos every so many turns: every turn, unless `options` ask for less often or a
/// run is predicted to be shorter, on a machine about which something is known.
pub fn choose(
    options: &CompileOptions,
    build: impl Fn(i64) -> Result<Built, PartitionError>,
) -> Result<(Module, Plan), PartitionError> {
    let machine = &options.machine;
    let turns = match options.algorithms.of(Algorithm::WideHalos) {
        Use::Never => 0,
        Use::Always => ALWAYS,
        Use::Weighed if machine.is_given_network() => 1,
        Use::Weighed => 0,
    };
    let (module, plan, wide) = build(turns)?;
    if turns != 1 || wide.possible == 0 {
        return Ok((module, plan));
    }
    let mut best = (module, plan);
    let mut least = simulate_program(&best.0, &best.1, machine).seconds;
    for turns in TRIED {
        let (module, plan, wide) = build(turns)?;
        let seconds = simulate_program(&module, &plan, machine).seconds;
        if wide.used == 0 || seconds >= least || (best.1.fits(machine) && !plan.fits(machine)) {
            break;
        }
        (best, least) = ((module, plan), seconds);
    }
    Ok(best)
}
