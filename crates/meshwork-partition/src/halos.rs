//! Choosing when loops exchange halos: as the options ask, or by simulated runs of the program.

use meshwork_ir::Module;

use crate::algorithm::{Algorithm, Use};
use crate::compile::CompileOptions;
use crate::plan::simulate_program;
use crate::split::wide::{Exchange, Halos};
use crate::{PartitionError, Plan};

/// Turns between exchanges that are tried, as long as more of them are faster.
const TRIED: [i64; 6] = [2, 4, 8, 16, 32, 64];
/// Turns between exchanges where they are asked for.
const ALWAYS: i64 = 4;

/// A per-device program, its plan, and what its loops do about halos.
pub type Built = (Module, Plan, Halos);

/// What `build` makes of a program whose loops exchange halos so: where operations read them, unless `options` ask for something else or a
/// run is predicted to be shorter, on a machine about which something is known. Where both are asked for, halos are wide.
pub fn choose(
    options: &CompileOptions,
    build: impl Fn(Exchange) -> Result<Built, PartitionError>,
) -> Result<(Module, Plan), PartitionError> {
    let machine = &options.machine;
    let (wide, overlapped) =
        (options.algorithms.of(Algorithm::WideHalos), options.algorithms.of(Algorithm::OverlappedHalos));
    let weighed = |when: Use| when == Use::Weighed && machine.is_given_network();
    let first = match (wide, overlapped) {
        (Use::Always, _) => Exchange::Every(ALWAYS),
        (_, Use::Always) => Exchange::Beside,
        _ if weighed(wide) || weighed(overlapped) => Exchange::Counted,
        _ => Exchange::Plain,
    };
    let (module, plan, halos) = build(first)?;
    let overlaps = weighed(overlapped) && halos.can_overlap > 0;
    let widens = weighed(wide) && halos.can_widen > 0;
    if first != Exchange::Counted || !(overlaps || widens) {
        return Ok((module, plan));
    }
    let mut best = (module, plan);
    let plain = simulate_program(&best.0, &best.1, machine).seconds;
    let mut least = plain;
    let mut try_on = |exchange: Exchange, than: f64| -> Result<Option<f64>, PartitionError> {
        let (module, plan, halos) = build(exchange)?;
        let seconds = simulate_program(&module, &plan, machine).seconds;
        let fits = plan.fits(machine) || !best.1.fits(machine);
        let shorter = halos.used > 0 && fits && seconds < than;
        if shorter && seconds < least {
            (best, least) = ((module, plan), seconds);
        }
        Ok(shorter.then_some(seconds))
    };
    if overlaps {
        try_on(Exchange::Beside, plain)?;
    }
    if widens {
        let mut than = plain;
        for turns in TRIED {
            match try_on(Exchange::Every(turns), than)? {
                Some(seconds) => than = seconds,
                None => break,
            }
        }
    }
    Ok(best)
}
