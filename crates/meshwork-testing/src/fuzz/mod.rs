//! A differential fuzzer of whole programs.
//!
//! A case is a one-device program, random or given, on which random placements are put. It runs on the evaluator on one
//! device, on the evaluator on all devices of the mesh, and on the CPU engine; all must agree. What fails is made smaller.
//! A case follows from its seed alone.

pub mod check;
mod generate;
mod place;
mod shrink;

use meshwork_ir::{Module, text};
use meshwork_partition::mesh_of;

pub use check::{Engines, Verdict, check, record_panics};

use crate::Numbers;

/// How many programs are tried to make a failing one smaller.
const SHRINK_BUDGET: usize = 600;

/// What was wrong with a case.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The seed of the case.
    pub seed: u64,
    /// What came of the smallest program.
    pub verdict: Verdict,
    /// The smallest program that fails in the same way.
    pub program: String,
}

/// The program of case `seed`: a random one or, if `given` has any, one of those, with random placements.
pub fn case(seed: u64, given: &[Module]) -> Result<Module, String> {
    let mut numbers = Numbers(seed);
    numbers.bits();
    let mesh = place::mesh(&mut numbers);
    let (mut module, name, mesh) = if given.is_empty() {
        let steps = 1 + numbers.below(10);
        let source = generate::program(&mut numbers, &mesh, steps);
        let mut module = text::parse(&source).map_err(|d| d.render("generated", &source))?;
        place::define(&mut module, "mesh", &mesh);
        (module, "mesh".to_string(), mesh)
    } else {
        let mut module = numbers.pick(given).clone();
        let (name, mesh) = mesh_of(&module).unwrap_or_else(|| {
            place::define(&mut module, "mesh", &mesh);
            ("mesh".into(), mesh)
        });
        (module, name, mesh)
    };
    place::place(&mut numbers, &mut module, &name, &mesh);
    Ok(module)
}

/// Runs case `seed`; `None` if all is well.
pub fn try_case(seed: u64, given: &[Module], engines: Engines) -> Option<Finding> {
    let module = match case(seed, given) {
        Ok(module) => module,
        Err(what) => return Some(Finding { seed, verdict: Verdict::Invalid(what), program: String::new() }),
    };
    let verdict = check(&module, engines);
    if verdict == Verdict::Same {
        return None;
    }
    let kind = verdict.kind();
    let small = shrink::shrink(&module, SHRINK_BUDGET, |m| check(m, engines).kind() == kind);
    Some(Finding { seed, verdict: check(&small, engines), program: text::print(&small) })
}
