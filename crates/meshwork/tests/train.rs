//! Optimizers, schedules, the training step, gradient synchronization and suggested strategies.

use meshwork::prelude::*;
use meshwork::rules::{FsdpRule, TreePathRule};
use meshwork::train::{
    Inputs, Method, Optimizer, Role, Schedule, ShardedContext, Step, Sync, SyncPattern, Trainer, Usage, Zero,
    clip_by_global_norm, global_norm, gradient_sync_pattern, guide, suggest,
};
use meshwork_testing::half_wave as wave;

#[derive(Clone, Debug, Tree)]
struct Net<T = Tensor> {
    w1: T,
    b1: T,
    w2: T,
}

type Batch = (Tensor, Tensor);

fn net() -> Net<Array> {
    Net { w1: wave(&[8, 16], 0.3), b1: wave(&[16], 0.1), w2: wave(&[16, 4], 0.7) }
}

fn batch() -> (Array, Array) {
    (wave(&[16, 8], 1.0), wave(&[16, 4], 2.0))
}

fn loss(p: &Net, (x, y): &Batch) -> Tensor {
    ((x.matmul(&p.w1) + &p.b1).tanh().matmul(&p.w2) - y).square().mean_all()
}

fn losses(step: &Step<Net, Batch>, steps: usize) -> Vec<f32> {
    let mut state = step.init(&net()).unwrap();
    let mut out = vec![];
    for _ in 0..steps {
        let (value, next) = step.step(&state, &batch()).unwrap();
        out.push(value.item::<f32>().unwrap());
        state = next;
    }
    out
}

#[track_caller]
fn same(a: &[f32], b: &[f32], tolerance: f32) {
    assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() <= tolerance), "{a:?}\n{b:?}");
}

/// One number under five rules, against the rules written out in f64.
#[test]
fn optimizer_helper() {
    let (g, p0, rate, decay) = ([0.5, -0.25, 0.125], 2.0f64, 0.1, 0.01);
    let run = |optimizer: Optimizer| {
        let f = jit(move |p: Tensor, g: Tensor| {
            let mut state = optimizer.init(&p);
            let mut p = p;
            for i in 0..3 {
                (p, state) = optimizer.update(&p, &g.slice(s![i]), &state);
            }
            p
        });
        let g: Array = g.map(|v| v as f32).into();
        f64::from(f.call((&Array::scalar(p0 as f32), &g)).unwrap().item::<f32>().unwrap())
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-5, "{a} and {b}");
    close(run(Optimizer::sgd(rate)), p0 - rate * (0.5 - 0.25 + 0.125));
    let (mut p, mut m) = (p0, 0.0);
    g.iter().for_each(|g| (m, p) = (0.9 * m + g, p - rate * (0.9 * m + g)));
    close(run(Optimizer::momentum(rate, 0.9)), p);
    let (mut p, mut m) = (p0, 0.0);
    for g in g {
        m = 0.9 * m + g;
        p -= rate * (0.9 * m + g);
    }
    close(run(Optimizer::new(Method::Momentum { beta: 0.9, nesterov: true }, rate)), p);
    for decay in [0.0, decay] {
        let (mut p, mut m, mut v) = (p0, 0.0, 0.0);
        for (t, g) in g.iter().enumerate() {
            (m, v) = (0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g);
            let t = t as i32 + 1;
            let (a, b): (f64, f64) = (m / (1.0 - 0.9f64.powi(t)), v / (1.0 - 0.999f64.powi(t)));
            p -= rate * (a / (b.sqrt() + 1e-8) + decay * p);
        }
        close(run(Optimizer::adamw(rate, decay)), p);
    }
    let (mut p, mut m) = (p0, 0.0f64);
    for g in g {
        p -= rate * ((0.9 * m + 0.1 * g).signum() + decay * p);
        m = 0.99 * m + 0.01 * g;
    }
    close(run(Optimizer::lion(rate, decay)), p);
}

#[test]
fn schedules_on_the_host_and_in_programs_agree() {
    let schedules = [
        Schedule::Constant(0.3),
        Schedule::warm_up(0.1, 4).then(4, Schedule::cosine(0.1, 0.0, 6)),
        Schedule::Exponential { from: 1.0, factor: 0.5, every: 3 },
        Schedule::Linear { from: 1.0, to: 0.2, steps: 5 },
    ];
    for schedule in schedules {
        let own = schedule.clone();
        let f = jit(move |step: Tensor| own.tensor(&step));
        for step in 0..12 {
            let there = f.call(&Array::scalar(step)).unwrap().item::<f32>().unwrap();
            assert!((f64::from(there) - schedule.at(step.into())).abs() < 1e-6, "{schedule:?} at {step}");
        }
    }
}

/// The norm counts each element once, on every placement; a norm summed over devices would count copies.
#[test]
fn clip_norm_counts_copies_once() {
    let mesh = Mesh::grid(("data", 2), ("model", 2)).unwrap();
    let f = |p: Net| (global_norm(&p), clip_by_global_norm(&p, 0.5).0);
    let (norm, clipped) = jit(f).call(&net()).unwrap();
    assert!(norm.item::<f32>().unwrap() > 0.5);
    for rule in [Rule::All(P![]), Rule::All(P!["model"]), Rule::All(P![["data", "model"]]), Rule::All(P!["data"])] {
        let (other, cut) = jit(f).on(&mesh).in_shardings([rule]).call(&net()).unwrap();
        assert!(other.all_close(&norm, 1e-5));
        assert!(cut.w1.all_close(&clipped.w1, 1e-6));
    }
}

fn trainer(zero: Zero) -> Trainer<Net, Batch> {
    let mesh = Mesh::linear("data", 4).unwrap();
    Trainer::new(loss, Optimizer::adam(0.01).clip(1.0)).on(&mesh).batch(P!["data"]).zero(zero, "data")
}

#[test]
fn zero_1_2_3() {
    let alone = losses(&Trainer::new(loss, Optimizer::adam(0.01).clip(1.0)).build(), 5);
    assert!(alone[4] < alone[0]);
    let held = |zero: Zero| {
        let step = trainer(zero).build();
        let state = step.init(&net()).unwrap();
        let part = |a: &Array| a.size() / a.shard_data(0).unwrap().size();
        let plan = step.plan(&state, &batch()).unwrap();
        same(&losses(&step, 5), &alone, 1e-5);
        let kinds: Vec<&str> = plan.totals().keys().copied().collect();
        (part(&state.0.w1), part(&state.1.first.unwrap().w1), kinds)
    };
    let (params, moments, kinds) = held(Zero::None);
    assert_eq!((params, moments, kinds), (1, 1, vec!["all-reduce"]));
    let (params, moments, kinds) = held(Zero::One);
    assert_eq!((params, moments), (1, 4));
    assert!(kinds.contains(&"all-gather"), "{kinds:?}");
    let (params, moments, kinds) = held(Zero::Two);
    assert_eq!((params, moments), (1, 4));
    assert!(kinds.contains(&"reduce-scatter") && kinds.contains(&"all-gather"), "{kinds:?}");
    let (params, moments, kinds) = held(Zero::Three);
    assert_eq!((params, moments), (4, 4));
    assert!(kinds.contains(&"reduce-scatter") && kinds.contains(&"all-gather"), "{kinds:?}");
}

#[test]
fn training_step_helper() {
    let mesh = Mesh::grid(("data", 2), ("model", 2)).unwrap();
    let rule = || Rule::by_name([("w1", P![_, "model"]), ("b1", P!["model"]), ("w2", P!["model"])]);
    for optimizer in [Optimizer::sgd(0.1), Optimizer::momentum(0.1, 0.9), Optimizer::lion(0.01, 0.1)] {
        let alone = losses(&Trainer::new(loss, optimizer.clone()).build(), 4);
        let split = Trainer::new(loss, optimizer).on(&mesh).params(rule()).batch(P!["data"]).zero(Zero::Three, "data");
        same(&losses(&split.build(), 4), &alone, 1e-5);
    }
}

#[test]
fn gradient_accumulation() {
    let alone = losses(&Trainer::new(loss, Optimizer::adam(0.01)).build(), 4);
    let mesh = Mesh::linear("data", 2).unwrap();
    let parts = |n: i64| Trainer::new(loss, Optimizer::adam(0.01)).on(&mesh).batch(P!["data"]).accumulate(n);
    same(&losses(&parts(4).build(), 4), &alone, 1e-5);
    same(&losses(&parts(2).zero(Zero::Two, "data").build(), 4), &alone, 1e-5);
    let step = parts(3).build();
    let line = line!() + 1;
    let error = step.step(&step.init(&net()).unwrap(), &batch()).unwrap_err().to_string();
    assert!(error.contains("16 rows of the batch in 3 parts"), "{error}");
    assert!(error.contains(&format!("tests/train.rs:{line}:")), "{error}");
    // The rows of each part are on the devices that hold them: only gradients move.
    let step = parts(4).build();
    let rows = (Array::shape_only([4096, 8], F32), Array::shape_only([4096, 4], F32));
    let plan = step.plan(&step.init(&net()).unwrap(), &rows).unwrap();
    assert_eq!(plan.totals().keys().copied().collect::<Vec<_>>(), ["all-reduce"]);
}

/// What a step sends: bytes over all collectives and rounds, by kind.
fn sent(trainer: Trainer<Net, Batch>) -> Vec<(&'static str, i64)> {
    let step = trainer.build();
    let rows = (Array::shape_only([4096, 8], F32), Array::shape_only([4096, 4], F32));
    let plan = step.plan(&step.init(&net()).unwrap(), &rows).unwrap();
    let often = plan.collectives.iter().find(|c| c.collective.times > 1);
    assert!(often.is_none(), "{often:?}");
    plan.totals().iter().map(|(kind, total)| (*kind, total.wire_bytes as i64)).collect()
}

/// Gradients are added up where they are computed, and reduced once, however many parts the batch has.
#[test]
fn gradients_of_many_parts_are_synchronised_once() {
    for zero in [Zero::None, Zero::One, Zero::Two, Zero::Three] {
        let parts = |n: i64| trainer(zero).accumulate(n);
        let two = sent(parts(2));
        assert_eq!(sent(parts(4)), two, "{zero:?}");
        assert_eq!(sent(parts(32)), two, "{zero:?}");
        // As much as without parts, but for a few scalars.
        let bytes = |sent: &[(&str, i64)]| sent.iter().map(|(_, bytes)| bytes).sum::<i64>();
        let one = sent(trainer(zero));
        assert!(bytes(&two) <= bytes(&one) * 21 / 20, "{zero:?}: {two:?} in parts, {one:?} without");
        same(&losses(&parts(4).build(), 4), &losses(&trainer(zero).build(), 4), 1e-5);
        // In mixed precision they are added up, and reduced, in f32.
        let mixed = |n: i64| sent(trainer(zero).compute_in(BF16).accumulate(n));
        assert_eq!(mixed(2), mixed(4), "{zero:?}");
        same(&losses(&parts(4).compute_in(BF16).build(), 4), &losses(&trainer(zero).build(), 4), 0.02);
    }
}

/// A step works in the memory of the state before, which is gone afterwards.
#[test]
fn the_state_is_donated() {
    for trainer in [trainer(Zero::Two), Trainer::new(loss, Optimizer::adam(0.01))] {
        let step = trainer.build();
        let (params, state) = (net(), step.init(&net()).unwrap());
        let text = step.lower(&state, &batch()).unwrap().text();
        assert_eq!(text.matches("tf.aliasing_output").count(), 10, "{text}");
        let kept = state.0.w1.copy().unwrap();
        step.step(&state, &batch()).unwrap();
        let line = line!() + 1;
        let error = step.step(&state, &batch()).unwrap_err().to_string();
        assert!(
            error.contains("was donated to the call at") && error.contains(&format!("train.rs:{line}:")),
            "{error}"
        );
        assert!(kept.all_close(&params.w1, 0.0) && step.init(&params).is_ok());
    }
}

/// A mistake in a rule or in the loss is reported where the program stands.
#[test]
fn errors_of_a_step_name_the_line_of_the_program() {
    let mesh = Mesh::linear("data", 2).unwrap();
    let misspelt = || Rule::by_name([("w1", P!["data"]), ("w3", P!["data"])]);
    let step = Trainer::new(loss, Optimizer::sgd(0.1)).on(&mesh).params(misspelt()).build();
    let line = line!() + 1;
    let error = step.init(&net()).unwrap_err().to_string();
    let wanted = r#"by_name places "w3", but no array has this name; there are "w1", "b1", "w2""#;
    assert!(error.starts_with(wanted) && error.contains(&format!("tests/train.rs:{line}:")), "{error}");
    let vector = |p: &Net, (x, _): &Batch| x.matmul(&p.w1);
    let step = Trainer::new(vector, Optimizer::sgd(0.1)).build();
    let state = step.init(&net()).unwrap();
    let line = line!() + 1;
    let error = step.step(&state, &batch()).unwrap_err().to_string();
    assert!(error.contains("it must be a float scalar"), "{error}");
    assert!(error.contains(&format!("tests/train.rs:{line}:")), "{error}");
    let wrong = |p: &Net, (x, _): &Batch| x.matmul(&p.w2).mean_all();
    let line = line!() - 1;
    let step = Trainer::new(wrong, Optimizer::sgd(0.1)).build();
    let error = step.step(&step.init(&net()).unwrap(), &batch()).unwrap_err().to_string();
    assert!(error.starts_with("matmul: [16, 8] x [16, 4]") && error.contains(&format!("train.rs:{line}:")), "{error}");
}

#[test]
fn mixed_precision_keeps_the_master_copy_in_f32() {
    let step = trainer(Zero::Three).compute_in(BF16).build();
    let state = step.init(&net()).unwrap();
    let text = step.lower(&state, &batch()).unwrap().text();
    assert!(text.contains("stablehlo.dot_general") && text.contains("xbf16>"));
    let (_, next) = step.step(&state, &batch()).unwrap();
    assert_eq!(next.0.w1.dtype(), F32);
    let exact = losses(&trainer(Zero::Three).build(), 5);
    same(&losses(&step, 5), &exact, 0.02);
}

#[test]
fn hybrid_shard() {
    // Parameters split within a group of devices, copied between groups.
    let mesh = Mesh::grid(("replica", 2), ("shard", 2)).unwrap();
    let alone = losses(&Trainer::new(loss, Optimizer::adam(0.01)).build(), 4);
    let trainer = Trainer::new(loss, Optimizer::adam(0.01)).on(&mesh).batch(P![["replica", "shard"]]);
    let step = trainer.zero_by(Zero::Three, FsdpRule::new("shard").least(64)).build();
    same(&losses(&step, 4), &alone, 1e-5);
    let state = step.init(&net()).unwrap();
    assert_eq!(state.0.w1.shard_data(0).unwrap().size() * 2, state.0.w1.size());
    let plan = step.plan(&state, &batch()).unwrap();
    let over: Vec<String> = plan.totals_by_axes().keys().map(|(kind, axes)| format!("{kind} {axes}")).collect();
    assert!(
        over.contains(&"all-reduce replica".to_string()) && over.contains(&"all-gather shard".to_string()),
        "{over:?}"
    );
}

/// For every placement of a weight and of the batch on a mesh of two axes: what is predicted is what the partitioned
/// gradient program does, and nothing else.
#[test]
fn gradient_sync_pattern_can_be_asked() {
    let mesh = Mesh::grid(("a", 2), ("b", 2)).unwrap();
    // The gradient of x·w by w, from the cotangent of the product.
    let gradient = |x: Tensor, dy: Tensor| {
        let w = zeros([8, 8], F32);
        vjp(move |w: Tensor| x.matmul(&w), w).1(dy)
    };
    let (x, dy) = (wave(&[8, 8], 0.2), wave(&[8, 8], 0.9));
    let alone = jit(gradient).call((&x, &dy)).unwrap();
    let places = |a: Option<usize>, b: Option<usize>| {
        let spec = a.map_or(P![], |dim| P![].with_axis(dim, "a"));
        b.map_or(spec.clone(), |dim| spec.with_axis(dim, "b"))
    };
    let dims = [None, Some(0), Some(1)];
    for (a, b) in dims.iter().flat_map(|&a| dims.map(|b| (a, b))) {
        for split in [&[][..], &["a"], &["b"], &["a", "b"]] {
            let spec = places(a, b);
            let pattern = gradient_sync_pattern(&mesh, &spec, 2, Role::Weight, &Usage::batch(split)).unwrap();
            let batch = split.iter().fold(P![], |p, axis| p.with_axis(0, axis));
            let f = jit(gradient).on(&mesh).in_shardings([batch.clone(), batch]).out_shardings([spec.clone()]);
            let plan = f.plan((&x, &dy)).unwrap();
            let mut found: Vec<(String, String)> = vec![];
            for c in &plan.collectives {
                for axis in &c.axes {
                    found.push((c.collective.kind.name().to_string(), axis.name.to_string()));
                }
            }
            let mut wanted: Vec<(String, String)> = vec![];
            for sync in &pattern.backward {
                match sync {
                    Sync::AllReduceSum { axes } => wanted.extend(axes.iter().map(|a| ("all-reduce".into(), a.clone()))),
                    Sync::ReduceScatter { axis, .. } => wanted.push(("reduce-scatter".into(), axis.clone())),
                    other => panic!("{other}"),
                }
            }
            // With two axes on one dimension it can be cheaper to compute with one of them elsewhere, and move that.
            if a.is_some() && a == b {
                found.retain(|(kind, _)| kind != "all-to-all");
            }
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{spec}, batch over {split:?}: {pattern}");
            assert!(f.call((&x, &dy)).unwrap().all_close(&alone, 1e-5));
        }
    }
}

/// What is derived from placements is what the plan of the gradient program has, for every placement of two weights and of the
/// batch on a mesh of two axes.
#[test]
fn gradient_sync_pattern_is_that_of_the_plan() {
    let mesh = Mesh::grid(("a", 2), ("b", 2)).unwrap();
    let model = |i: &Inputs| i["x"].matmul(&i["w"]).tanh().square().mean_all();
    for rows in [P![], P!["a"], P!["b"], P![["a", "b"]]] {
        for spec in [P![], P!["a"], P![_, "a"], P!["b"], P![_, "b"]] {
            let mut context = ShardedContext::new(&mesh);
            // No two values have the same type.
            context.input("x", [32, 8], F32, rows.clone(), Role::Activation).unwrap();
            context.input("w", [8, 16], F32, spec.clone(), Role::Weight).unwrap();
            let asked = gradient_sync_pattern(&mesh, &spec, 2, Role::Weight, &context.usage()).unwrap();
            let planned = context.planned_sync_pattern("w", model).unwrap();
            let backward = |p: &SyncPattern| collectives_of(&p.backward);
            assert_eq!(backward(&planned), backward(&asked), "x {rows}, w {spec}: {planned}, asked {asked}");
            for gather in &planned.forward {
                assert!(asked.forward.contains(gather), "x {rows}, w {spec}: {planned}, asked {asked}");
            }
        }
    }
    let mut context = ShardedContext::new(&mesh);
    context.input("x", [8, 8], F32, P![], Role::Activation).unwrap();
    let error = context.planned_sync_pattern("y", |i| i["x"].sum_all()).unwrap_err().to_string();
    assert!(error.contains(r#"there is no input "y"; there are ["x"]"#), "{error}");
}

/// Each kind and axis.
fn collectives_of(syncs: &[Sync]) -> Vec<String> {
    let each = |sync: &Sync| match sync {
        Sync::AllReduceSum { axes } => axes.iter().map(|axis| format!("all-reduce {axis}")).collect(),
        other => vec![other.to_string()],
    };
    let mut out: Vec<String> = syncs.iter().flat_map(each).collect();
    out.sort();
    out
}

/// Every subset of the axes of a mesh of two.
const SUBSETS: [&[&str]; 4] = [&[], &["a"], &["b"], &["a", "b"]];

/// The collectives of a plan by kind and axis, in order of both.
fn collectives(plan: &meshwork::Plan) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = vec![];
    for c in &plan.collectives {
        out.extend(c.axes.iter().map(|axis| (c.collective.kind.name().to_string(), axis.name.to_string())));
    }
    out.sort();
    out
}

/// The same of a prediction.
fn predicted(syncs: &[Sync]) -> Vec<(String, String)> {
    let each = |sync: &Sync| match sync {
        Sync::AllReduceSum { axes } => axes.iter().map(|a| ("all-reduce".to_string(), a.clone())).collect(),
        Sync::ReduceScatter { axis, .. } => vec![("reduce-scatter".to_string(), axis.clone())],
        other => panic!("{other}"),
    };
    let mut out: Vec<(String, String)> = syncs.iter().flat_map(each).collect();
    out.sort();
    out
}

/// For every placement of an activation on a mesh of two axes, and every split of the outputs of the matrix it goes
/// into: what is predicted is what the partitioned gradient program does.
#[test]
fn sync_patterns_of_activations_hold_for_every_placement() {
    let mesh = Mesh::grid(("a", 2), ("b", 2)).unwrap();
    // The gradient of x·w by x, from the cotangent of the product.
    let gradient = |dy: Tensor, w: Tensor| vjp(move |x: Tensor| x.matmul(&w), zeros([8, 8], F32)).1(dy);
    let (dy, w) = (wave(&[8, 8], 0.2), wave(&[8, 8], 0.9));
    let alone = jit(gradient).call((&dy, &w)).unwrap();
    let dims = [None, Some(0), Some(1)];
    for (a, b) in dims.iter().flat_map(|&a| dims.map(|b| (a, b))) {
        for columns in SUBSETS {
            let at = [("a", a), ("b", b)];
            let spec = at.iter().fold(P![], |p, (axis, dim)| dim.map_or(p.clone(), |dim| p.with_axis(dim, axis)));
            let usage = Usage::batch(&[]).columns(columns);
            let pattern = gradient_sync_pattern(&mesh, &spec, 2, Role::Activation, &usage).unwrap();
            // The cotangent comes with its columns split; its rows are those of the activation.
            let rows = at.iter().filter(|(axis, dim)| *dim == Some(0) && !columns.contains(axis));
            let dy_spec = rows.fold(P![], |p, (axis, _)| p.with_axis(0, axis));
            let dy_spec = columns.iter().fold(dy_spec, |p, axis| p.with_axis(1, axis));
            let w_spec = columns.iter().fold(P![], |p, axis| p.with_axis(1, axis));
            let f = jit(gradient).on(&mesh).in_shardings([dy_spec, w_spec]).out_shardings([spec.clone()]);
            let mut found = collectives(&f.plan((&dy, &w)).unwrap());
            let mut wanted = predicted(&pattern.backward);
            // With two axes on one dimension the part of a device need not be contiguous, and what is summed is then
            // sliced, or one axis is moved: the sums are the same, over the same axes.
            if a.is_some() && a == b {
                found.retain(|(kind, _)| kind != "all-to-all" && kind != "collective-permute");
                found.iter_mut().chain(&mut wanted).for_each(|(kind, _)| *kind = "sum".into());
                found.sort();
                wanted.sort();
            }
            assert_eq!(found, wanted, "{spec}, columns over {columns:?}: {pattern}");
            assert!(f.call((&dy, &w)).unwrap().all_close(&alone, 1e-5));
        }
    }
}

/// A loss is summed over the axes that split the batch, once, and its gradient sends nothing more.
#[test]
fn sync_patterns_of_losses_hold_for_every_placement() {
    let mesh = Mesh::grid(("a", 2), ("b", 2)).unwrap();
    let x = wave(&[8, 8], 0.4);
    let loss = |x: Tensor| (x.sin() * &x).mean_all();
    let alone = jit(loss).call(&x).unwrap();
    for split in SUBSETS {
        let pattern = gradient_sync_pattern(&mesh, &P![], 0, Role::Loss, &Usage::batch(split)).unwrap();
        let batch = split.iter().fold(P![], |p, axis| p.with_axis(0, axis));
        let f = jit(loss).on(&mesh).in_shardings([batch.clone()]);
        assert_eq!(collectives(&f.plan(&x).unwrap()), predicted(&pattern.forward), "{split:?}");
        assert!(f.call(&x).unwrap().all_close(&alone, 1e-6));
        let both = jit(move |x: Tensor| value_and_grad(loss, x)).on(&mesh).in_shardings([batch]);
        assert_eq!(collectives(&both.plan(&x).unwrap()), predicted(&pattern.forward), "{split:?}");
        assert!(pattern.backward.is_empty());
    }
}

/// The rows of the usual table, where they hold.
#[test]
fn sync_patterns_reproduce_the_guide_where_it_is_right() {
    let line = Mesh::linear("batch", 4).unwrap();
    let grid = Mesh::grid(("data", 2), ("model", 4)).unwrap();
    let ask = |mesh: &Mesh, spec: P, role: Role, usage: &Usage| {
        gradient_sync_pattern(mesh, &spec, 2, role, usage).unwrap().to_string()
    };
    let each = Usage::batch(&["batch"]).mean_of_each_device();
    assert_eq!(ask(&line, P![], Role::Weight, &each), "all-reduce mean over batch");
    let data = Usage::batch(&["data"]).columns(&["model"]);
    assert_eq!(ask(&grid, P![_, "model"], Role::Weight, &data), "all-reduce sum over data");
    assert_eq!(ask(&grid, P!["model"], Role::Weight, &data), "all-reduce sum over data");
    assert_eq!(ask(&grid, P!["data"], Role::Activation, &data), "all-reduce sum over model");
    assert_eq!(ask(&line, P!["batch"], Role::Activation, &Usage::batch(&["batch"])), "none");
    let of_loss = gradient_sync_pattern(&grid, &P![], 0, Role::Loss, &data).unwrap();
    assert_eq!(of_loss.forward[0].to_string(), "all-reduce sum over data");
    // Fully sharded data parallel: the guide's own text, which its table contradicts with "none".
    let shard = Usage::batch(&["batch"]);
    assert_eq!(
        ask(&line, P!["batch"], Role::Weight, &shard),
        "reduce-scatter sum over batch onto dimension 0; before use all-gather over batch of dimension 0"
    );
}

/// A replicated weight is not averaged over a model axis, and the reduction does not change with placement.
#[test]
fn sum_and_mean_are_not_mixed_up() {
    let grid = Mesh::grid(("data", 2), ("model", 4)).unwrap();
    for usage in [Usage::batch(&["data"]), Usage::batch(&["data"]).mean_of_each_device()] {
        let ask = |spec: P| gradient_sync_pattern(&grid, &spec, 2, Role::Weight, &usage).unwrap().backward;
        assert_eq!(ask(P![]), ask(P![_, "model"]));
        let axes = match &ask(P![])[..] {
            [Sync::AllReduceSum { axes } | Sync::AllReduceMean { axes }] => axes.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(axes, ["data"]);
    }
}

#[test]
fn the_context_checks_names_axes_and_ranks() {
    let mut context = ShardedContext::new(&Mesh::linear("batch", 4).unwrap());
    let error = context.input("x", [4, 4], F32, P!["data"], Role::Activation).unwrap_err().to_string();
    assert!(error.starts_with("P![\"data\"] for the input x of shape [4, 4]") && error.contains("\"data\""), "{error}");
    assert!(context.input("x", [4], F32, P![_, "batch"], Role::Activation).is_err());
    context.input("x", [4, 4], F32, P!["batch"], Role::Activation).unwrap();
    assert!(context.input("x", [4, 4], F32, P![], Role::Weight).unwrap_err().to_string().contains("already"));
    assert!(context.gradient_sync_pattern("w").unwrap_err().to_string().contains("there is no input \"w\""));
}

/// Two contexts do not see each other, and the backward program is a program.
#[test]
fn the_context_builds_forward_and_backward_programs() {
    let mut context = ShardedContext::new(&Mesh::grid(("data", 2), ("model", 2)).unwrap());
    context.input("x", [8, 8], F32, P!["data"], Role::Activation).unwrap();
    context.input("w1", [8, 16], F32, P![_, "model"], Role::Weight).unwrap();
    context.input("w2", [16, 8], F32, P!["model"], Role::Weight).unwrap();
    let mut other = ShardedContext::new(&Mesh::linear("x", 2).unwrap());
    other.input("a", [2], F32, P!["x"], Role::Weight).unwrap();
    context.output(P!["data"]);
    let forward = context.build_sharded_module(|i| i["x"].matmul(&i["w1"]).relu().matmul(&i["w2"])).unwrap();
    assert!(forward.contains("-> (tensor<8x8xf32> {"), "{forward}");
    assert!(forward.contains("sdy.sharding = #sdy.sharding<@mesh, [{}, {\"model\"}]>"), "{forward}");
    let model = |i: &Inputs| i["x"].matmul(&i["w1"]).relu().matmul(&i["w2"]).square().mean_all();
    let backward = context.build_sharded_gradient(model).unwrap();
    assert_eq!(backward.matches("stablehlo.dot_general").count(), 5, "{backward}");
    // What the weights need is what the program does: all-reduces over data; the forward pair needs one over model.
    let plan = context.gradient_plan(model).unwrap();
    assert_eq!(context.gradient_sync_pattern("w1").unwrap().to_string(), "all-reduce sum over data");
    let kinds: Vec<String> = plan.totals_by_axes().keys().map(|(k, a)| format!("{k} {a}")).collect();
    assert_eq!(kinds, ["all-reduce data", "all-reduce model"]);
}

/// Arguments in the order in which they were declared, several results, names, forward and backward in one text.
#[test]
fn programs_of_a_context_are_as_declared() {
    let mesh = Mesh::grid(("data", 2), ("model", 2)).unwrap();
    let mut context = ShardedContext::new(&mesh).mesh_name("pod").module_name("two_layers");
    context.input("z", [4, 8], F32, P!["data"], Role::Activation).unwrap();
    context.input("w2", [16, 2], F32, P!["model"], Role::Weight).unwrap();
    context.input("a1", [8, 16], F32, P![_, "model"], Role::Weight).unwrap();
    let hidden = |i: &Inputs| i["z"].matmul(&i["a1"]).relu();
    let both = |i: &Inputs| (hidden(i).matmul(&i["w2"]), hidden(i));
    context.output(P!["data"]).output(P!["data", "model"]);
    let text = context.build_sharded_module(both).unwrap();
    let types = ["tensor<4x8xf32>", "tensor<16x2xf32>", "tensor<8x16xf32>"];
    let at = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}"));
    let places = types.map(|ty| at(&text, &format!(": {ty} {{sdy")));
    assert!(places.is_sorted(), "{text}");
    assert!(
        text.starts_with("module @two_layers") && text.contains(r#"sdy.mesh @pod = <["data"=2, "model"=2]>"#),
        "{text}"
    );
    assert!(!text.contains("@mesh"), "{text}");
    assert!(text.contains(r#"tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@pod, [{"data"}, {}]>}"#), "{text}");
    assert!(text.contains(r#"tensor<4x16xf32> {sdy.sharding = #sdy.sharding<@pod, [{"data"}, {"model"}]>}"#), "{text}");
    // What it says is what it computes.
    let imported = Imported::from_mlir(&text).unwrap();
    let args = [wave(&[4, 8], 0.1), wave(&[16, 2], 0.2), wave(&[8, 16], 0.3)];
    let got = imported.call(&[&args[0], &args[1], &args[2]]).unwrap();
    let named: Vec<(String, Array)> = ["z", "w2", "a1"].iter().map(|n| n.to_string()).zip(args).collect();
    let wanted = jit(move |i: Inputs| both(&i)).call(&named.into_iter().collect()).unwrap();
    assert!(got[0].all_close(&wanted.0, 1e-5) && got[1].all_close(&wanted.1, 1e-5));

    let pair = context.build_sharded_pair(both, |i| both(i).0.square().mean_all()).unwrap();
    let (forward, backward) = pair.split_at(at(&pair, "@backward("));
    assert!(forward.contains("@forward(") && pair.matches("sdy.mesh").count() == 1, "{pair}");
    // The value, and the gradients of both weights in order.
    let head = &backward[..at(backward, "{\n")];
    assert!(
        head.contains("-> (tensor<f32>") && at(head, "tensor<16x2xf32> {sdy") < at(head, "tensor<8x16xf32> {sdy"),
        "{head}"
    );
    let module = meshwork_ir::text::parse(&pair).unwrap();
    assert!(meshwork_ir::verify::verify(&module).is_empty());
    assert_eq!(module.funcs().count(), 2);
    let error = ShardedContext::new(&mesh).mesh_name("a b").build_sharded_module(|_| zeros([2], F32)).unwrap_err();
    assert!(error.to_string().contains("no names"), "{error}");
}

/// The rule of the parameters places the averages of the optimizer, without a word about them.
#[test]
fn rules_place_the_state_of_the_optimizer() {
    let mesh = Mesh::grid(("data", 2), ("model", 2)).unwrap();
    let rule = TreePathRule::new([("w1$", P![_, "model"]), ("w2$", P!["model"]), ("b1$", P!["model"])]).unwrap();
    for optimizer in [Optimizer::momentum(0.1, 0.9), Optimizer::adam(0.01), Optimizer::adamw(0.01, 0.1)] {
        let step = Trainer::new(loss, optimizer).on(&mesh).params(rule.clone()).batch(P!["data"]).build();
        let mut state = step.init(&net()).unwrap();
        for _ in 0..2 {
            let (params, moments) = &state;
            let averages = [moments.first.as_ref(), moments.second.as_ref()];
            for average in averages.into_iter().flatten() {
                for (own, of) in [(&average.w1, &params.w1), (&average.w2, &params.w2), (&average.b1, &params.b1)] {
                    assert_eq!(own.placement().unwrap().sharding, of.placement().unwrap().sharding);
                    assert!(own.shards()[1].slice != own.shards()[0].slice);
                }
            }
            assert!(averages[0].is_some());
            state = step.step(&state, &batch()).unwrap().1;
        }
    }
}

#[test]
fn suggest_reproduces_the_guide_where_it_is_right() {
    let memory = 80 << 30;
    let rows = [(500_000_000, 8), (7_000_000_000, 64), (30_000_000_000, 256), (175_000_000_000, 1024)];
    for (parameters, devices) in rows {
        let s = suggest(parameters, devices, memory);
        let row = guide(parameters);
        assert!(s.fits && s.follows_guide, "{s}");
        assert!(row.model.0 <= s.model && s.model <= row.model.1, "{s}");
        assert_eq!(s.pipeline > 1, row.pipeline, "{s}");
        assert_eq!(s.data * s.model * s.pipeline, devices);
        assert_eq!(s.mesh().unwrap().device_count(), devices);
    }
}

#[test]
fn suggest_reports_where_the_guide_is_wrong() {
    // 0.9e9 parameters: "data parallelism only" is 14.4 GB of state on each device of 16 GB.
    let s = suggest(900_000_000, 8, 16 << 30);
    assert!(s.fits && !s.follows_guide && s.zero > Zero::None && s.model == 1, "{s}");
    assert!(s.to_string().contains("does not fit on these devices"), "{s}");
    // 7e9 on 64 large devices: the table splits layers, split state would do.
    let s = suggest(7_000_000_000, 64, 80 << 30);
    assert!(s.to_string().contains("more than is needed here"), "{s}");
    // 7e9 on 8 devices of 24 GB: no copy split over 2 to 4 of them fits.
    let s = suggest(7_000_000_000, 8, 24 << 30);
    assert!(s.fits && !s.follows_guide && s.state_bytes <= (24 << 30) / 5 * 3, "{s}");
    // If nothing fits, it reports how many devices the state needs.
    let s = suggest(1_000_000_000_000, 8, 80 << 30);
    assert!(!s.fits && s.to_string().contains("nothing fits"), "{s}");
}
