//! The search against all assignments, memory limits, constraints and what comes out.

mod common;

use common::{machine, mlp, parse, programs, random_mesh, random_program};
use meshwork_ir::{Module, text};
use meshwork_mesh::{Mesh, P};
use meshwork_partition::{CompileOptions, Contract, Lock, compile};
use meshwork_planner::{Case, Planner, PlannerError, scale_batch, what_if};

/// `MESHWORK_PLANNER_PROGRAMS=200` tries as many as the goals ask for.
#[test]
fn the_search_is_as_good_as_trying_everything() {
    let count = programs(12);
    let machine = machine();
    let (mut within, mut worst) = (0, 0.0_f64);
    for seed in 0..count {
        let module = random_program(seed);
        let mesh = random_mesh(seed);
        let planner = || Planner::new(&module, &machine).mesh(mesh.clone());
        let all = planner().exhaustive_up_to(1 << 20).evaluations(usize::MAX).search().expect("all");
        let some = planner().exhaustive_up_to(0).evaluations(2000).search().expect("some");
        assert_eq!(all.gap(), Some(0.0));
        assert_eq!(some.gap(), None);
        let over = some.best().verdict().seconds / all.best().verdict().seconds - 1.0;
        (within, worst) = (within + usize::from(over < 0.01), worst.max(over));
    }
    println!("{within} of {count} within 1%, the worst {:.2}% over", 100.0 * worst);
    assert!(within * 100 >= 95 * count as usize && worst < 0.05, "{within} of {count} within 1%, the worst {worst}");
}

#[test]
fn no_plan_needs_more_memory_than_it_may() {
    let (module, machine) = (mlp(2048, 256, 1024), machine());
    let mesh = Mesh::grid(("data", 2), ("model", 4)).expect("a mesh");
    let planner = || Planner::new(&module, &machine).mesh(mesh.clone()).evaluations(600);
    let data = planner().fix("^x$", P![["data", "model"]]).fix("w", P![]).search().expect("data parallelism");
    let peak = data.best().verdict().peak;
    for percent in [100, 75, 50, 30] {
        let limit = peak * percent / 100;
        let all = planner().memory(limit).exhaustive_up_to(1 << 20).evaluations(usize::MAX).search();
        match planner().memory(limit).exhaustive_up_to(0).search() {
            Ok(found) => assert!(found.best().verdict().peak <= limit, "{percent}%"),
            Err(PlannerError::Infeasible { missing, least, conflict }) => {
                assert!(all.is_err(), "{percent}%: there is a plan");
                assert!(missing > 0 && least - missing == limit, "{percent}%");
                assert_eq!(conflict.len(), 1);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn constraints_hold() {
    let (module, machine) = (mlp(4096, 256, 1024), machine());
    let mesh = Mesh::linear("x", 8).expect("a mesh");
    let planner = || Planner::new(&module, &machine).mesh(mesh.clone()).evaluations(300);
    let arguments = |planner: Planner<'_>| {
        let found = planner.search().expect("a plan");
        let plan = found.best().plan().expect("a plan");
        let axes = |i: usize| plan.arguments[i].sharding.dims.iter().map(|d| d.axes.len()).collect::<Vec<_>>();
        [axes(0), axes(1), axes(2)]
    };
    assert_eq!(arguments(planner())[0], [1, 0], "rows, if nothing is said");
    assert_eq!(arguments(planner().fix("w1$", P![_, "x"]))[1], [0, 1]);
    assert_eq!(arguments(planner().forbid("^x$", "x"))[0], [0, 0]);
    assert_eq!(arguments(planner().forbid("^x$", 0))[0][0], 0);
    let tied = arguments(planner().tie("w1$", "w2$").fix("^x$", P![]));
    assert_eq!(tied[1], tied[2]);
    let quiet = Contract { allowed: Some(vec![]), ..Contract::default() };
    let found = planner().contract(quiet).search().expect("a plan without communication");
    assert_eq!(found.best().verdict().sent, 0.0);
}

#[test]
fn uneven_splits_can_be_excluded() {
    let (module, machine) = (mlp(4099, 256, 1024), machine());
    let planner = Planner::new(&module, &machine).mesh(Mesh::linear("x", 8).expect("a mesh")).evaluations(300);
    let found = planner.even_only().search().expect("a plan");
    for placed in found.best().annotations() {
        assert!(!placed.sharding.dims[0].axes.iter().any(|_| placed.name == "x"), "{placed}");
    }
}

#[test]
fn a_lock_file_is_kept_except_for_some() {
    let (module, machine) = (mlp(4096, 256, 1024), machine());
    let mesh = Mesh::linear("x", 8).expect("a mesh");
    let planner = || Planner::new(&module, &machine).mesh(mesh.clone()).evaluations(300);
    let columns = planner().fix("^x$", P![]).fix("w1$", P![_, "x"]).search().expect("a plan");
    let lock = columns.best().lock().expect("a lock");
    let kept = planner().keep_lock(lock.clone(), None).search().expect("a plan");
    let arguments = |lock: &Lock| -> Vec<String> {
        lock.facts().iter().filter(|(name, _)| name.starts_with("argument")).map(|(_, v)| v.clone()).collect()
    };
    assert_eq!(arguments(&kept.best().lock().expect("a lock")), arguments(&lock));
    let freed = planner().keep_lock(lock.clone(), Some(".")).search().expect("a plan");
    assert_ne!(arguments(&freed.best().lock().expect("a lock")), arguments(&lock));
}

#[test]
fn conflicting_constraints_are_named() {
    let (module, machine) = (mlp(4096, 256, 1024), machine());
    let planner = Planner::new(&module, &machine).mesh(Mesh::linear("x", 8).expect("a mesh")).evaluations(300);
    // x alone takes 4 MiB if it is whole; w1 has nothing to do with it.
    let error =
        planner.fix("^x$", P![]).fix("w1$", P![_, "x"]).memory(8 << 20).search().err().expect("no plan").to_string();
    assert!(error.contains("fix ^x$ P![]; memory 8.0 MiB"), "{error}");
    assert!(!error.contains("w1"), "{error}");
    let planner = Planner::new(&module, &machine).mesh(Mesh::linear("x", 8).expect("a mesh")).evaluations(300);
    let nothing = Contract { max_bytes: Some(0.0), allowed: Some(vec![]), ..Contract::default() };
    let error = planner.fix("w1$", P!["x"]).contract(nothing).search().err().expect("no plan").to_string();
    assert!(error.contains("contract (no collectives; at most 0 B sent)"), "{error}");
}

#[test]
fn mistakes_are_named() {
    let (module, machine) = (mlp(64, 16, 32), machine());
    let mesh = Mesh::linear("x", 8).expect("a mesh");
    let planner = || Planner::new(&module, &machine).mesh(mesh.clone());
    let said = |planner: Planner<'_>| planner.search().err().expect("an error").to_string();
    assert_eq!(
        said(planner().fix("w9", P![])),
        "fix w9 P![]: no argument is called so; the arguments: x, layer/w1, layer/w2"
    );
    assert_eq!(said(planner().forbid("w1", "y")), r#"forbid w1 y: <["x"=8]> has no axis y"#);
    assert!(said(planner().fix("(", P![])).starts_with("fix ( P![]: '(' is not a pattern"));
    assert_eq!(
        said(Planner::new(&module, &machine)),
        "the program has no mesh; give one, as data=2,model=4; a search also takes a number of devices"
    );
    assert_eq!(said(planner().devices(0)), "0 devices make no mesh; give at least 1");
    assert_eq!(said(planner().forbid("w1", 2)), "forbid w1 2: layer/w1 has 2 dimensions, counted from 0");
    assert_eq!(said(planner().evaluations(0)), "no plan was made within the limit; give more time or more evaluations");
}

#[test]
fn contradictions_are_named() {
    let (module, machine) = (mlp(64, 16, 32), machine());
    let mesh = Mesh::linear("x", 8).expect("a mesh");
    let planner = || Planner::new(&module, &machine).mesh(mesh.clone()).evaluations(50);
    let said = |planner: Planner<'_>| planner.search().err().expect("an error").to_string();
    let rows = || planner().fix("w1$", P!["x"]);
    let placed = r#"layer/w1 is placed as [{"x"}, {}] by fix w1$ P!["x"]; leave out one of the two"#;
    assert_eq!(said(rows().fix("w1", P![_, "x"])), format!(r#"fix w1 P![_, "x"]: {placed}"#));
    assert_eq!(said(rows().forbid("w1", "x")), format!("forbid w1 x: {placed}"));
    assert_eq!(said(planner().forbid("w1", 0).fix("w1$", P!["x"])), format!("forbid w1 0: {placed}"));
    let uneven = Mesh::linear("x", 7).expect("a mesh");
    assert_eq!(
        said(rows().mesh(uneven).even_only()),
        format!("even splits only: 16 elements make no 7 equal parts: {placed}")
    );
    // The same twice, and what does not concern it.
    rows().even_only().search().expect("a plan");
    rows().fix("w1", P!["x"]).forbid("w1", 1).search().expect("a plan");
}

/// What is fixed for one of several that are tied is for all, in whatever order that is said.
#[test]
fn tied_arguments_are_fixed_together() {
    let (module, machine) = (mlp(64, 16, 32), machine());
    let mesh = Mesh::linear("x", 8).expect("a mesh");
    let planner = || Planner::new(&module, &machine).mesh(mesh.clone()).evaluations(50);
    for planner in [planner().tie("w1", "w2").fix("w2", P!["x"]), planner().fix("w2", P!["x"]).tie("w1", "w2")] {
        let found = planner.search().expect("a plan");
        let plan = found.best().plan().expect("a plan");
        let axes = |i: usize| plan.arguments[i].sharding.dims.iter().map(|d| d.axes.len()).collect::<Vec<_>>();
        assert_eq!((axes(1), axes(2)), (vec![1, 0], vec![1, 0]));
    }
    let error = planner().fix("w1", P!["x"]).fix("w2", P![]).tie("w1", "w2").search().err().expect("an error");
    assert!(error.to_string().starts_with("tie w1 w2: layer/w2 is placed as [{}, {}] by fix w2 P![]"), "{error}");
}

/// Each annotation changes the plan, and the annotated program has the plan that was promised.
#[test]
fn annotations_are_needed_and_have_reasons() {
    let (module, machine) = (mlp(512, 1024, 4096), machine());
    let mesh = Mesh::grid(("data", 2), ("model", 4)).expect("a mesh");
    let found = Planner::new(&module, &machine).mesh(mesh).evaluations(400).search().expect("a plan");
    let best = found.best();
    assert!(!best.annotations().is_empty() && best.reasons().len() <= best.annotations().len());
    let options = CompileOptions { machine: machine.clone(), ..CompileOptions::default() };
    let printed = text::print(&best.module());
    let compiled = compile(&parse(&printed), &options).expect("the annotated program");
    assert_eq!(Lock::of(&compiled.plan), best.lock().expect("a lock"));
    assert_eq!(compiled.plan.peak.bytes, best.verdict().peak);
    for reason in best.reasons() {
        let without = reason.without.expect("a plan without it");
        assert!(without.seconds != 0.0 || without.peak != 0 || without.sent != 0.0, "{reason}");
        assert!(found.why(&reason.names[0].replace('/', ".")).expect("a pattern").contains("without it"));
    }
}

#[test]
fn the_mesh_can_be_chosen() {
    let (module, machine) = (mlp(4096, 256, 1024), machine());
    let found = Planner::new(&module, &machine).devices(8).evaluations(150).top(4).search().expect("a plan");
    assert_eq!(found.best().mesh().device_count(), 8);
    assert_eq!(found.candidates().len(), 4);
    let seconds: Vec<f64> = found.candidates().iter().map(|c| c.verdict().seconds).collect();
    assert!(seconds.is_sorted(), "{seconds:?}");
}

#[test]
fn what_if_answers_without_a_search() {
    let machine = machine();
    let found_on = |module: &Module| {
        let mesh = Mesh::linear("x", 4).expect("a mesh");
        let found = Planner::new(module, &machine).mesh(mesh).fix("w1$", P![_, "x"]).fix("^x$", P![]).search();
        found.expect("a plan").best().module()
    };
    let module = found_on(&mlp(1024, 256, 1024));
    let as_it_is = what_if(&module, &Case { machine: machine.clone(), ..Case::default() }).expect("a plan");
    assert!(as_it_is.verdict.sent > 0.0);
    let batch = Case { machine: machine.clone(), batch: Some(2.0), ..Case::default() };
    let twice = what_if(&module, &batch).expect("a plan");
    assert!(twice.verdict.compute > 1.5 * as_it_is.verdict.compute);
    let scaled = scale_batch(&mlp(1024, 256, 1024), 2.0).expect("a program");
    assert_eq!(text::print(&scaled), text::print(&mlp(2048, 256, 1024)));
    let slow = Case { machine: "* 1 1\ndevice=100,1000".parse().expect("a machine"), ..Case::default() };
    assert!(what_if(&module, &slow).expect("a plan").verdict.seconds > as_it_is.verdict.seconds);
    let mesh = Some(Mesh::linear("x", 8).expect("a mesh"));
    let larger = what_if(&module, &Case { machine, mesh, batch: None }).expect("a plan");
    assert!(larger.verdict.compute < as_it_is.verdict.compute);
}
