//! What `jit` takes besides arrays: donation, annotations, constraints, names, and what its cache depends on.

#![allow(clippy::single_range_in_vec_init)] // slices of arrays of one dimension

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use meshwork::prelude::*;
use meshwork::{Compiled, Engine, Executable, LoadError, Reference};
use meshwork_testing::wave;

/// An engine that records which arguments of a program are donated.
#[derive(Default)]
struct Watching(Arc<Mutex<(usize, usize)>>);

impl Engine for Watching {
    fn name(&self) -> &str {
        "watching"
    }

    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError> {
        let func = program.module.entry().unwrap();
        let has = |i: usize, name: &str| program.module.arg_attr(func, i, name).is_some();
        let count = |name: &str| (0..program.inputs().len()).filter(|&i| has(i, name)).count();
        *self.0.lock().unwrap() = (count("tf.aliasing_output"), count("jax.buffer_donor"));
        Reference.load(program)
    }
}

#[test]
fn donated_arguments_reach_the_engine() {
    let seen = Arc::new(Mutex::new((0, 0)));
    let step = |(x, v): (Tensor, Tensor), dt: Tensor| ((&x + &v * &dt, v.sum(&[0])), dt);
    let state = || (wave(&[8]), wave(&[8]));
    let one = jit(step).donate([0]).engine(Watching(seen.clone()));
    let want = one.call((&state(), &Array::scalar(0.5))).unwrap();
    // The position takes the memory of the old one; nothing takes that of the speed.
    assert_eq!(*seen.lock().unwrap(), (1, 1));
    let mesh = Mesh::linear("x", 4).unwrap();
    let four = jit(step).donate([0]).on(&mesh).in_shardings([P!["x"], P![]]).engine(Watching(seen.clone()));
    *seen.lock().unwrap() = (0, 0);
    assert!(four.call((&state(), &Array::scalar(0.5))).unwrap().0.0.all_close(&want.0.0, 0.0));
    assert_eq!(*seen.lock().unwrap(), (1, 1));
    let error = jit(step).donate([2]).call((&state(), &Array::scalar(0.5))).unwrap_err().to_string();
    assert!(error.starts_with("jit: donate names argument 2, but there are 2\n  at "), "{error}");
}

/// Arrays in messages and in `{:?}` of a struct are short.
#[test]
fn arrays_show_type_elements_and_placement() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let x = Array::from([1.0f32, 2.0]);
    assert_eq!((format!("{x:?}"), format!("{x}")), ("f32[2] [1. 2.]".into(), "[1. 2.]".to_string()));
    let y = jit(|x: Tensor| x).call(&x.shard(&mesh, P!["x"]).unwrap()).unwrap();
    assert_eq!(format!("{y:?}"), r#"f32[2] [1. 2.] <mesh<["x"=2]>, [{"x"}]>"#);
    assert_eq!(format!("{:?}", Array::shape_only([1000, 1000], F32)), "f32[1000, 1000]");
}

#[test]
fn annotations_place_named_values() {
    let mesh = Mesh::grid(("d", 2), ("m", 2)).unwrap();
    let model = |x: Tensor| {
        let (a, b) = annotate("pair", (x.sin(), x.cos()));
        annotate("out", a * b)
    };
    let x = wave(&[4, 4]);
    let by_path = Rule::policy(|path, _| Some(if path == "0" { P!["d"] } else { P![_, "m"] }));
    let placed = jit(model).on(&mesh).annotations([("pair", by_path), ("out", P!["d", "m"].into())]);
    assert!(placed.call(&x).unwrap().all_close(&jit(model).call(&x).unwrap(), 1e-15));
    let text = placed.lower(&x).unwrap().text();
    for wanted in [r#"[{"d"}, {}]"#, r#"[{}, {"m"}]"#, r#"[{"d"}, {"m"}]"#] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    assert_eq!(placed.call(&x).unwrap().shards()[3].slice, [2..4, 2..4]);

    let unused = jit(model).on(&mesh).annotations([("pair", P![]), ("out", P![]), ("more", P![])]);
    let error = unused.call(&x).unwrap_err().to_string();
    assert!(error.starts_with(r#"jit: annotations has "more", but the program annotates "out", "pair""#), "{error}");
    // What has no placement has a name, which changes nothing else.
    let bare = jit(model).on(&mesh);
    assert_eq!(bare.plan(&x).unwrap().collectives.len(), 0);
    assert!(bare.why(&x, "pair/1").unwrap().contains("cosine"));
    let some = jit(model).on(&mesh).annotations([("pair", P!["d"])]);
    assert!(some.why(&x, "out").unwrap().contains("split by \"d\""), "{}", some.why(&x, "out").unwrap());
    let rank = jit(model).on(&mesh).annotations([("pair", P![]), ("out", P![_, _, "d"])]).call(&x).unwrap_err();
    assert!(rank.to_string().starts_with(r#"annotate: P![_, _, "d"] for "out", an f64 tensor"#), "{rank}");
}

/// Names are found inside loops, gradients and batches too.
#[test]
fn annotations_reach_inside_transformations() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = |x: Tensor| grad(|x: Tensor| vmap(|x: Tensor| annotate("h", x.sin()), x).sum_all(), x);
    let x = wave(&[3, 4]);
    let placed = jit(f).on(&mesh).annotations([("h", P!["x"])]);
    assert!(placed.call(&x).unwrap().all_close(&jit(f).call(&x).unwrap(), 1e-15));
    assert!(placed.lower(&x).unwrap().text().contains(r#"[{?}, {"x"}]"#));
}

#[test]
fn constraints_on_arguments() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let f = jit(|x: Tensor, y: Tensor| x + y).on(&mesh).constrain([P!["x"], P!["x"]]);
    let (x, y) = (wave(&[8]), wave(&[8]));
    assert_eq!(f.call((&x, &y)).unwrap().shards()[1].slice, [2..4]);
    assert_eq!(f.lower((&x, &y)).unwrap().text().matches("sdy.sharding_constraint").count(), 2);
    let error = jit(|x: Tensor, y: Tensor| x + y).on(&mesh).constrain([P!["x"]]).call((&x, &y)).unwrap_err();
    assert!(error.to_string().starts_with("jit: constrain has 1 rules for 2 arguments\n  at "), "{error}");
}

#[test]
fn why_follows_names_paths_and_lines() {
    let mesh = Mesh::grid(("d", 2), ("m", 2)).unwrap();
    let f = jit(|p: (Tensor, Tensor), x: Tensor| {
        let h = x.matmul(&p.0);
        let y = annotate("hidden", h).tanh().matmul(&p.1); // the line asked about below
        (y.clone(), y.sum(&[1]))
    });
    let f = f.on(&mesh).in_shardings([Rule::Free, P!["d"].into()]).annotations([("hidden", P!["d", "m"])]);
    let args = (&(wave(&[4, 8]), wave(&[8, 2])), &wave(&[6, 4]));
    let lowered = f.lower(args).unwrap();
    let why = lowered.why("0/0").unwrap();
    assert!(why.contains("argument 0 (0/0), f64[4,8]") && why.contains(r#"dimension 1 (8): split by "m""#), "{why}");
    let why = lowered.why("result/1").unwrap();
    assert!(why.contains(r#"dimension 0 (6): split by "d""#) && why.contains("annotated:"), "{why}");
    let why = lowered.why("hidden").unwrap();
    assert!(why.contains(r#"split by "m""#), "{why}");
    let line = include_str!("jit.rs").lines().position(|l| l.contains("// the line asked")).unwrap() + 1;
    assert!(lowered.why(&format!("jit.rs:{line}")).unwrap().contains("tanh"));
    let error = f.why(args, "hiden").unwrap_err().to_string();
    assert!(error.contains(r#"nothing called "hiden"; its arguments are ["0/0", "0/1", "1"]"#), "{error}");
    assert!(f.plan(args).unwrap().arguments[1].name.contains("0/1"));
}

#[test]
fn the_cache_depends_on_all_that_matters() {
    let traced = Rc::new(Cell::new(0));
    let count = traced.clone();
    let f = jit(move |x: Tensor, n: Static<i64>| {
        count.set(count.get() + 1);
        x * n.0
    });
    let mesh = Mesh::grid(("d", 2), ("m", 2)).unwrap();
    let x = wave(&[4, 4]);
    let mut expected = 0;
    let mut is_new = |x: &Array, n: i64, new: bool| {
        f.lower((x, &Static(n))).unwrap();
        expected += usize::from(new);
        assert_eq!(traced.get(), expected, "{x} {n}");
    };
    is_new(&x, 2, true);
    is_new(&wave(&[4, 4]), 2, false);
    is_new(&x, 3, true);
    is_new(&wave(&[4, 3]), 2, true);
    is_new(&Array::zeros([4, 4], F32), 2, true);
    is_new(&x.clone().shard(&mesh, P!["d"]).unwrap(), 2, true);
    is_new(&x.clone().shard(&mesh, P!["d"]).unwrap(), 2, false);
    is_new(&x.clone().shard(&mesh, P![_, "d"]).unwrap(), 2, true);
    is_new(&x.clone().shard(&mesh, P!["d"].open()).unwrap(), 2, true);
    is_new(&x.clone().shard(&mesh, P!["d"].copies_over(&["m"])).unwrap(), 2, true);
    let turned = Mesh::grid(("m", 2), ("d", 2)).unwrap();
    is_new(&x.clone().shard(&turned, P!["d"]).unwrap(), 2, true);
    is_new(&x, 2, false);
}

#[test]
fn results_and_arguments_are_named_in_the_plan() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = jit(|p: (Tensor, Tensor)| (p.0, vec![p.1])).on(&mesh);
    let plan = f.plan(&(wave(&[1]), wave(&[2]))).unwrap();
    let names =
        |borders: &[meshwork_partition::plan::Border]| borders.iter().map(|b| b.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&plan.arguments), ["0/0", "0/1"]);
    assert_eq!(names(&plan.results), ["result/0", "result/1/0"]);
}

#[test]
fn a_number_is_one_constant_of_each_block() {
    let text = || {
        let f = jit(|x: Tensor| {
            let doubled = for_loop(0..3, &x * 2.0 + 2.0, |_, y| (y + 2.0) * 2.0);
            doubled * 2.0 + 2
        });
        f.lower(&Array::zeros([4], F32)).unwrap().text()
    };
    let first = text();
    assert_eq!(first.matches("dense<2.000000e+00> : tensor<4xf32>").count(), 3, "{first}");
    // What the thread remembers of a program does not show in the next one.
    assert_eq!(first, text());
}

/// Options change programs: those traced before do not count.
#[test]
fn options_given_after_a_call_hold() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let x = wave(&[4]);
    let f = jit(|x: Tensor| x.sin());
    assert!(f.call(&x).unwrap().placement().is_none());
    let f = f.on(&mesh);
    assert_eq!(f.call(&x).unwrap().shards()[1].slice, [0..4]);
    let f = f.out_shardings([P!["x"]]);
    assert_eq!(f.call(&x).unwrap().shards()[1].slice, [2..4]);
    let f = f.in_shardings([P!["x"]]);
    assert!(
        f.lower(&x).unwrap().text().contains(r#"%arg0: tensor<4xf64> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}"#)
    );
    let none = Contract { allowed: Some(vec![]), ..Contract::default() };
    let f = f.contract(none.clone()).out_shardings([P![]]);
    assert!(f.call(&x).unwrap_err().to_string().contains("all-gather"));
    let f = f.out_shardings([P!["x"]]).donate([0]);
    let given = x.copy().unwrap();
    f.call(&given).unwrap();
    assert!(f.call(&given).unwrap_err().to_string().contains("was donated"));
    let f = f.single_device().donate([]);
    assert!(f.call(&x).unwrap().placement().is_none());
}

#[test]
fn the_least_recently_used_program_is_traced_again() {
    let count = std::cell::Cell::new(0);
    let f = jit(|x: Tensor| {
        count.set(count.get() + 1);
        x * 2.0
    })
    .cache_limit(3);
    let mut call = |n: i64| {
        f.call(&wave(&[n])).unwrap();
        count.get()
    };
    assert_eq!([1, 2, 3, 1, 2, 3].map(&mut call), [1, 2, 3, 3, 3, 3]);
    // 1 is the one that was not used for longest.
    assert_eq!([2, 4, 2, 3, 1], [2, 4, 2, 3, 1].map(|n| (call(n), n).1));
    assert_eq!(count.get(), 5);
    assert_eq!(f.cached(), 3);
}
