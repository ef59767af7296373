//! Choosing whether products run in rings: as the options ask, or by simulated runs of the program with them and without.

use meshwork_ir::Module;

use super::{Ring, find, write};
use crate::Plan;
use crate::algorithm::{Algorithm, Use};
use crate::collective::Collective;
use crate::compile::CompileOptions;
use crate::layout::atoms::Atoms;
use crate::plan::simulate_program;

/// A per-device program and its collectives.
type Local = (Module, Vec<Collective>);

/// What `finish` makes of `local`, with products in rings where `options` ask for them, or where a run is predicted to be
/// shorter.
pub fn choose(
    local: Local,
    atoms: &Atoms,
    options: &CompileOptions,
    finish: impl Fn(Local) -> (Module, Plan),
) -> (Module, Plan) {
    let machine = &options.machine;
    let when = options.algorithms.of(Algorithm::RingProducts);
    if when == Use::Never || (when == Use::Weighed && !machine.is_given_network()) {
        return finish(local);
    }
    let mut found = find(&local.0, &local.1, atoms, machine);
    let with = |rings: &[Ring]| finish(write(local.0.clone(), local.1.clone(), rings, atoms));
    if when == Use::Weighed {
        found.retain(Ring::pays);
    }
    if found.is_empty() {
        return finish(local);
    }
    if when == Use::Always {
        return with(&found);
    }
    let mut best = with(&[]);
    let run = simulate_program(&best.0, &best.1, machine);
    found.retain(|ring| ring.is_waited_for(&local.1, &run.ops));
    let mut least = run.seconds;
    let (operands, results): (Vec<Ring>, Vec<Ring>) = found.iter().cloned().partition(Ring::gathers);
    let both = !operands.is_empty() && !results.is_empty();
    for rings in [&found, &operands, &results].into_iter().take(if both { 3 } else { 1 }).filter(|set| !set.is_empty())
    {
        let other = with(rings);
        let seconds = simulate_program(&other.0, &other.1, machine).seconds;
        if seconds < least && (other.1.fits(machine) || !best.1.fits(machine)) {
            (best, least) = (other, seconds);
        }
    }
    best
}
