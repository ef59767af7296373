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

pub use check::{Case, Engines, Precision, Verdict, check, record_panics};

use crate::Numbers;
use crate::generate::Options;

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

/// The case `seed`: a random program or, if `given` has any, one of those, with random placements.
pub fn case(seed: u64, given: &[Module]) -> Result<Case, String> {
    let mut numbers = Numbers(seed);
    numbers.bits();
    let mesh = place::mesh(&mut numbers);
    let (mut case, name, mesh) = if !given.is_empty() {
        let mut module = numbers.pick(given).clone();
        let (name, mesh) = mesh_of(&module).unwrap_or_else(|| {
            place::define(&mut module, "mesh", &mesh);
            ("mesh".into(), mesh)
        });
        (Case { args: check::inputs(&module), precision: Precision::of(&module), module }, name, mesh)
    } else if numbers.one_in(3) {
        let mut made = crate::generate::program(numbers.bits(), &Options { ops: 8, ..Options::default() });
        place::define(&mut made.module, "mesh", &mesh);
        let precision = Precision::Errors(made.errors);
        (Case { module: made.module, args: made.args.swap_remove(0), precision }, "mesh".to_string(), mesh)
    } else {
        let steps = 1 + numbers.below(10);
        let source = generate::program(&mut numbers, &mesh, steps);
        let mut module = text::parse(&source).map_err(|d| d.render("generated", &source))?;
        place::define(&mut module, "mesh", &mesh);
        (Case { args: check::inputs(&module), module, precision: Precision::Exact }, "mesh".to_string(), mesh)
    };
    place::place(&mut numbers, &mut case.module, &name, &mesh);
    Ok(case)
}

/// Runs case `seed`; `None` if all is well.
pub fn try_case(seed: u64, given: &[Module], engines: Engines) -> Option<Finding> {
    let case = match case(seed, given) {
        Ok(case) => case,
        Err(what) => return Some(Finding { seed, verdict: Verdict::Invalid(what), program: String::new() }),
    };
    let verdict = check(&case, engines);
    if verdict == Verdict::Same {
        return None;
    }
    let kind = verdict.kind();
    let small = shrink::shrink(&case, SHRINK_BUDGET, |c| check(c, engines).kind() == kind);
    Some(Finding { seed, verdict: check(&small, engines), program: text::print(&small.module) })
}
