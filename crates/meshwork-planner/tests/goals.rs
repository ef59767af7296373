//! What the planner promises about every program, tried on some: memory, reasons, and the bound on any plan.
//!
//! `MESHWORK_PLANNER_PROGRAMS=200` tries that many random programs.

mod common;

use common::{machine, mlp, programs, random_block, random_chain, random_mesh, random_program};
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module, Walk};
use meshwork_mesh::{AxisRef, Mesh, P};
use meshwork_partition::{CompileOptions, Lock, Machine, compile};
use meshwork_planner::{ArrayPlace, Found, Planner, PlannerError, Reason};

/// Every axis on the rows of the first argument, all others whole.
fn data_parallel(mesh: &Mesh) -> P {
    P::of(vec![mesh.axes().iter().map(|axis| AxisRef::full(axis.name.clone())).collect()])
}

/// At most the memory that is allowed; and where one of all assignments keeps to it, the search finds one that does.
#[test]
fn a_plan_that_fits_is_found_wherever_there_is_one() {
    let (machine, mut fit, mut none) = (machine(), 0, 0);
    for seed in 0..programs(6) {
        let (module, mesh) = (random_program(seed), random_mesh(seed));
        let planner = || Planner::new(&module, &machine).mesh(mesh.clone());
        let data = planner().fix("^arg0$", data_parallel(&mesh)).fix("^arg[^0]", P![]).evaluations(1).search();
        let Ok(data) = data else { continue };
        for percent in [100, 75, 50, 30] {
            let limit = data.best().verdict().peak * percent / 100;
            let all = planner().memory(limit).exhaustive_up_to(1 << 20).evaluations(usize::MAX).search();
            match (planner().memory(limit).exhaustive_up_to(0).evaluations(2000).search(), all) {
                (Ok(some), _) => {
                    assert!(some.best().verdict().peak <= limit, "program {seed}, {percent}%");
                    fit += 1;
                }
                (Err(PlannerError::Infeasible { .. }), Err(PlannerError::Infeasible { .. })) => none += 1,
                (Err(error), Ok(_)) => panic!("program {seed}, {percent}%: there is a plan; {error}"),
                (Err(error), Err(_)) => panic!("program {seed}, {percent}%: {error}"),
            }
        }
    }
    println!("{fit} limits were kept to, {none} cannot be");
    assert!(fit > 0 && none > 0);
}

/// A program of which no plan that is among the best eight, or one decision away from those, fits.
#[test]
fn a_plan_that_fits_may_be_several_decisions_away() {
    let (module, mesh, machine) = (random_program(81), random_mesh(81), machine());
    let planner = || Planner::new(&module, &machine).mesh(mesh.clone());
    let data = planner().fix("^arg0$", data_parallel(&mesh)).fix("^arg[^0]", P![]).evaluations(1).search();
    let limit = data.expect("a plan").best().verdict().peak * 3 / 4;
    let found = planner().memory(limit).exhaustive_up_to(0).evaluations(2000).search().expect("a plan that fits");
    assert!(found.best().verdict().peak <= limit);
}

/// `module` without the annotations that `reason` is about.
fn without(module: &Module, found: &Found, reason: &Reason) -> Module {
    let mut module = module.clone();
    let func = module.entry().expect("a function");
    for placed in found.best().annotations().iter().filter(|placed| placed.sharding == reason.sharding) {
        match placed.place {
            ArrayPlace::Argument(i) if reason.names.contains(&placed.name) => {
                module.set_arg_attr(func, i, "sdy.sharding", None);
            }
            // What takes the place of an argument is annotated for it.
            ArrayPlace::Result(r) => module.set_res_attr(func, r, "sdy.sharding", None),
            _ => {}
        }
    }
    if found.best().annotations().iter().any(|p| p.place == ArrayPlace::Products && reason.names.contains(&p.name)) {
        for op in module.ops_below(func, Walk::PreOrder) {
            if module.op(op).kind() == SdyOp::ShardingConstraint
                && matches!(module.op(op).attrs.get("sharding"), Some(Attr::Sharding(s)) if **s == reason.sharding)
            {
                let (from, to) = (module.result(op), module.op(op).operands()[0]);
                module.replace_all_uses(from, to);
                module.erase(op);
            }
        }
    }
    module
}

/// The lock file of a program as it is annotated.
fn lock_of(module: &Module, machine: &Machine) -> Lock {
    let options = CompileOptions { machine: machine.clone(), ..CompileOptions::default() };
    Lock::of(&compile(module, &options).expect("it compiles").plan)
}

/// Checks that each annotation of what was found has a reason with numbers, and that the plan is another one without it. Gives how
/// many there are.
fn check_reasons(what: &str, found: &Found) -> usize {
    let best = found.best();
    let (module, machine) = (best.module(), best.machine());
    let own = lock_of(&module, machine);
    for placed in best.annotations().iter().filter(|placed| !matches!(placed.place, ArrayPlace::Result(_))) {
        assert!(best.reasons().iter().any(|r| r.names.contains(&placed.name)), "{what}: {placed} has no reason");
    }
    for reason in best.reasons() {
        let difference = reason.without.unwrap_or_else(|| panic!("{what}: {reason}"));
        let is_number = difference.seconds.is_finite() && difference.sent.is_finite();
        assert!(is_number, "{what}: {reason}");
        assert!(reason.to_string().contains("without it"), "{what}: {reason}");
        assert!(lock_of(&without(&module, found, reason), machine) != own, "{what}: {reason} changes nothing");
    }
    best.reasons().len()
}

#[test]
fn every_annotation_has_a_reason_and_changes_the_plan() {
    let machine = machine();
    let mut count = 0;
    for seed in 0..programs(10) {
        let module = random_program(seed);
        let found = Planner::new(&module, &machine).mesh(random_mesh(seed)).evaluations(300).search();
        count += check_reasons(&format!("program {seed}"), &found.expect("a plan"));
    }
    // Rows, columns and rows, and state that is split to fit.
    for (rows, memory) in [(8192, None), (64, None), (8192, Some(9 << 20)), (512, Some(12 << 20))] {
        let module = mlp(rows, 512, 2048);
        for mesh in [Mesh::linear("x", 8), Mesh::grid(("data", 2), ("model", 4))] {
            let planner = Planner::new(&module, &machine).mesh(mesh.expect("a mesh")).evaluations(300);
            let planner = memory.into_iter().fold(planner, Planner::memory);
            match planner.search() {
                Ok(found) => count += check_reasons(&format!("{rows} rows within {memory:?}"), &found),
                Err(error) => assert!(memory.is_some(), "{error}"),
            }
        }
    }
    println!("{count} reasons");
    assert!(count > 10);
}

/// However little time a search has, if it is enough for a plan.
#[test]
fn reasons_are_complete_when_time_is_over() {
    let (machine, module) = (machine(), mlp(64, 512, 2048));
    let mut count = 0;
    for seconds in [0.03, 0.3, 3.0] {
        let mesh = Mesh::grid(("data", 2), ("model", 4)).expect("a mesh");
        let planner = Planner::new(&module, &machine).mesh(mesh).exhaustive_up_to(0).seconds(seconds);
        let Ok(found) = planner.search() else { continue };
        count += check_reasons(&format!("after {seconds} s"), &found);
    }
    assert!(count > 0);
}

/// No plan of all is faster than the bound on any plan.
#[test]
fn no_plan_of_all_is_below_the_bound() {
    let machines = [machine(), Machine::default(), Machine::named("h100").expect("it is known")];
    let (mut closest, mut sum, mut count) = (0.0_f64, 0.0, 0.0);
    for seed in 0..programs(12) {
        let machine = &machines[seed as usize % machines.len()];
        for module in [random_block(seed), random_program(seed)] {
            let planner = Planner::new(&module, machine).mesh(random_mesh(seed / 3)).evaluations(usize::MAX);
            let all = planner.exhaustive_up_to(1 << 20).search().expect("all");
            let share = all.bound() / all.best().verdict().seconds;
            assert!(share <= 1.0 + 1e-9, "program {seed}: {} of {}", all.bound(), all.best().verdict().seconds);
            (closest, sum, count) = (closest.max(share), sum + share, count + 1.0);
        }
    }
    println!("the bound is {:.0}% of the best plan in the mean, {:.0}% at most", 100.0 * sum / count, 100.0 * closest);
    assert!(closest > 0.5);
}

/// On meshes so large that collectives count: no plan of all is below the bound with what it waits for.
#[test]
fn no_plan_of_all_is_below_the_bound_of_whole_axes() {
    let machines =
        [machine(), Machine::named("h100").expect("it is known"), Machine::named("tpu-v4").expect("it is known")];
    let meshes = [Mesh::linear("x", 128), Mesh::grid(("x", 128), ("y", 128)), Mesh::grid(("x", 2), ("y", 256))];
    let meshes = meshes.map(|mesh| mesh.expect("a mesh"));
    let (mut closest, mut sum, mut waits, mut count) = (0.0_f64, 0.0, 0, 0.0);
    for seed in 0..programs(6) {
        let machine = &machines[seed as usize % machines.len()];
        let mesh = &meshes[seed as usize / 3 % meshes.len()];
        for module in [random_block(seed), random_program(seed), random_chain(seed)] {
            let planner = Planner::new(&module, machine).mesh(mesh.clone()).evaluations(usize::MAX);
            let all = planner.exhaustive_up_to(1 << 20).search().expect("all");
            let share = all.whole_axes_bound() / all.best().verdict().seconds;
            assert!(
                share <= 1.0 + 1e-9,
                "program {seed}: {} of {}",
                all.whole_axes_bound(),
                all.best().verdict().seconds
            );
            (closest, sum, count) = (closest.max(share), sum + share, count + 1.0);
            waits += usize::from(all.whole_axes_bound() > all.bound() * 1.01);
        }
    }
    println!("{:.0}% of the best plan in the mean, {:.0}% at most; {waits} wait", 100.0 * sum / count, 100.0 * closest);
    assert!(closest > 0.5 && waits > 0);
}
