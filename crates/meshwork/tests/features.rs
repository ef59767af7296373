//! One test per feature of docs/features.md that has no test elsewhere.

#![allow(clippy::single_range_in_vec_init)] // slices of arrays of one dimension

use meshwork::prelude::*;
use meshwork::{CustomCall, Engine, Reference, Split, Topology};
use meshwork_ir::text::parse;
use meshwork_mesh::AxisRef;
use meshwork_partition::{CompileOptions, compile};
use meshwork_propagate::rules::RuleMode;
use meshwork_propagate::{Level, Options, Strategy, propagate};
use meshwork_testing::wave_f32 as wave;

fn kinds<A, F: meshwork::Function<A>>(f: &meshwork::Jit<F, A>, args: F::Args<'_>) -> Vec<String> {
    f.plan(args).unwrap().totals_by_axes().keys().map(|(kind, axes)| format!("{kind} {axes}")).collect()
}

#[test]
fn named_n_d_mesh() {
    let mesh = Mesh::new([("pod", 2), ("data", 3), ("model", 4)]).unwrap();
    assert_eq!((mesh.device_count(), mesh.axis_size("data"), mesh.axis_size("x")), (24, Some(3), None));
}

#[test]
fn one_axis_inferred() {
    let mesh = Mesh::infer(&[("data", None), ("model", Some(4))], 8).unwrap();
    assert_eq!(mesh.axis_size("data"), Some(2));
    assert!(Mesh::infer(&[("data", None), ("model", None)], 8).is_err());
    assert!(Mesh::infer(&[("data", Some(2)), ("model", Some(2))], 8).is_err());
}

#[test]
fn topology_aware_device_order() {
    let topology = Topology::torus([2, 2, 4]);
    let mesh = topology.mesh(&[("x", 4), ("y", 4)], Split::Never).unwrap();
    // Each line of four devices is three links long; in the order of the devices' numbers one is longer.
    assert_eq!((topology.hops(&mesh, "x"), topology.hops(&mesh, "y")), (Some(3), Some(3)));
    let plain = Mesh::grid(("x", 4), ("y", 4)).unwrap();
    assert_eq!(topology.hops(&plain, "x"), Some(4));
}

#[test]
fn control_over_splitting_physical_axes() {
    let topology = Topology::torus([4, 4, 4]);
    assert!(topology.mesh(&[("x", 8), ("y", 8)], Split::Never).is_err());
    assert_eq!(topology.mesh(&[("x", 8), ("y", 8)], Split::Allowed).unwrap().device_count(), 64);
}

#[test]
fn arbitrary_device_order() {
    let mesh = Mesh::linear("x", 4).unwrap().with_device_ids(vec![2, 0, 3, 1]).unwrap();
    let x = wave(&[8]).shard(&mesh, P!["x"]).unwrap();
    assert_eq!(x.shard_data(2).unwrap().to_vec::<f32>().unwrap(), wave(&[8]).to_vec::<f32>().unwrap()[..2]);
    let f = jit(|x: Tensor| x.cumsum(0));
    assert!(f.call(&x).unwrap().all_close(&f.call(&wave(&[8])).unwrap(), 1e-5));
}

#[test]
fn several_meshes_in_one_program() {
    let program = r#"
        sdy.mesh @rows = <["x"=4]>
        sdy.mesh @grid = <["a"=2, "b"=2]>
        func.func @main(%0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@rows, [{"x"}, {}]>})
            -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"a"}, {"b"}]>}) {
          %1 = stablehlo.sine %0 : tensor<8x8xf32>
          return %1 : tensor<8x8xf32>
        }"#;
    let compiled = compile(&parse(program).unwrap(), &CompileOptions::default()).unwrap();
    let x = wave(&[8, 8]);
    let y = Engine::load(&Reference, &compiled).unwrap().run(vec![x.clone()]).unwrap();
    let alone = jit(|x: Tensor| x.sin()).call(&x).unwrap();
    assert!(y[0].all_close(&alone, 1e-6));
    // Rows over four devices to squares over the same four: each device has a part of its result already.
    assert_eq!(compiled.plan.totals().keys().copied().collect::<Vec<_>>(), ["all-to-all"]);
}

/// Arguments on a line, on a grid and on the line in another order, and a value inside that is held to the grid: one program.
#[test]
fn several_meshes_in_one_jit() {
    let line = Mesh::linear("x", 4).unwrap();
    let grid = Mesh::grid(("a", 2), ("b", 2)).unwrap();
    let turned = Mesh::linear("t", 4).unwrap().with_device_ids(vec![3, 1, 0, 2]).unwrap();
    let (x, y, z) = (wave(&[8, 8]), Array::from_fn([8, 8], |i| (i[0] * 3 - i[1]) as f32 * 0.1), wave(&[8]));
    let inner = grid.clone();
    let program = move |x: Tensor, y: Tensor, z: Tensor| {
        let product = x.matmul(&y).shard_on(&inner, P!["b", "a"]);
        (&product + z, product)
    };
    let (sum, product) = jit(program.clone()).single_device().call((&x, &y, &z)).unwrap();
    let args = (
        &x.clone().shard(&line, P!["x"]).unwrap(),
        &y.clone().shard(&grid, P![_, "b"]).unwrap(),
        &z.clone().shard(&turned, P!["t"]).unwrap(),
    );
    for jit in [jit(program.clone()), jit(program.clone()).on(&grid), jit(program).engine(Reference)] {
        let got = jit.call(args).unwrap();
        assert!(got.0.all_close(&sum, 1e-4) && got.1.all_close(&product, 1e-4));
        assert_eq!(got.1.shards()[1].slice, [4..8, 0..4]);
    }
    let three = Array::zeros([6], F32).shard(&Mesh::linear("x", 3).unwrap(), P!["x"]).unwrap();
    let two = Array::zeros([6], F32).shard(&Mesh::linear("x", 2).unwrap(), P!["x"]).unwrap();
    let error = jit(|a: Tensor, b: Tensor| a + b).call((&three, &two)).unwrap_err().to_string();
    assert!(error.contains(r#"argument 1 is on the mesh <["x"=2]>, the program on <["x"=3]>"#), "{error}");
    let error = jit(move |a: Tensor| a.shard_on(&grid, P!["a"])).call(&three).unwrap_err().to_string();
    assert!(error.contains("has 4 devices, that of the program"), "{error}");
}

#[test]
fn plan_for_devices_you_do_not_have() {
    let mesh = Mesh::grid(("data", 512), ("model", 8)).unwrap();
    let f = jit(|x: Tensor, w: Tensor| x.matmul(&w)).on(&mesh).in_shardings([P!["data", "model"], P!["model"]]);
    let plan = f.plan((&Array::shape_only([4096, 1024], F32), &Array::shape_only([1024, 256], F32))).unwrap();
    assert_eq!((plan.devices(), plan.totals()["all-reduce"].count), (4096, 1));
}

#[test]
fn one_device_mesh_is_ordinary() {
    let mesh = Mesh::linear("x", 1).unwrap();
    let f = jit(|x: Tensor| x.roll(1, 0).shard(P!["x"]) * 2.0);
    let y = f.call(&wave(&[5]).shard(&mesh, P!["x"]).unwrap()).unwrap();
    let alone = jit(|x: Tensor| x.roll(1, 0) * 2.0).call(&wave(&[5])).unwrap();
    assert!(y.all_close(&alone, 0.0));
}

#[test]
fn several_axes_per_dim() {
    let mesh = Mesh::grid(("x", 2), ("y", 3)).unwrap();
    let x = wave(&[12]).shard(&mesh, P![["x", "y"]]).unwrap();
    assert_eq!(x.shards()[4].slice, vec![8..10]);
}

#[test]
fn major_to_minor_order_honoured() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let first = |spec: P| wave(&[8]).shard(&mesh, spec).unwrap().shards()[1].slice[0].clone();
    assert_eq!((first(P![["x", "y"]]), first(P![["y", "x"]])), (2..4, 4..6));
}

#[test]
fn sub_axes() {
    let mesh = Mesh::linear("x", 8).unwrap();
    let spec = P::of(vec![vec![AxisRef::sub("x", 1, 2)], vec![AxisRef::sub("x", 2, 4)]]);
    let x = wave(&[4, 8]).shard(&mesh, spec).unwrap();
    assert_eq!(x.shards()[5].slice, [2..4, 2..4]);
    let f = jit(|x: Tensor| x.exp().sum(&[1]));
    assert!(f.call(&x).unwrap().all_close(&f.call(&wave(&[4, 8])).unwrap(), 1e-5));
}

#[test]
fn open_and_closed_dims() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let placed = |spec: P| {
        let f = jit(move |a: Tensor, b: Tensor| (a + b).shard(&spec)).on(&mesh).in_shardings([P!["x"], P!["x"]]);
        f.call((&wave(&[8]), &wave(&[8]))).unwrap().placement().unwrap().sharding.num_shards(&mesh)
    };
    assert_eq!(placed(P![dim([]).open()]), [4]);
    assert_eq!(placed(P![_]), [1]);
}

#[test]
fn propagation_priorities() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let placed = |first: i64, second: i64| {
        let specs = [P![dim("x").priority(first)], P![_, dim("x").priority(second)]];
        let f = jit(|a: Tensor, b: Tensor| a + b).on(&mesh).in_shardings(specs);
        f.call((&wave(&[4, 4]), &wave(&[4, 4]))).unwrap().placement().unwrap().sharding.num_shards(&mesh)
    };
    assert_eq!((placed(0, 1), placed(1, 0)), (vec![2, 1], vec![1, 2]));
}

#[test]
fn rank_polymorphic_spec() {
    let mesh = Mesh::linear("x", 2).unwrap();
    for shape in [&[4][..], &[4, 3], &[4, 3, 2]] {
        let x = wave(shape).shard(&mesh, P!["x"]).unwrap();
        assert_eq!(x.shards()[1].slice[0], 2..4);
    }
    // A dimension that an array does not have is an error, not ignored.
    assert!(wave(&[4]).shard(&mesh, P![_, "x"]).is_err());
}

#[test]
fn device_to_slice_map_query() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let x = wave(&[4, 6]).shard(&mesh, P!["x", "y"]).unwrap();
    let all: Vec<_> = x.shards().into_iter().map(|s| (s.device, s.slice)).collect();
    assert_eq!(all[2], (2, vec![2..4, 0..3]));
}

#[test]
fn uneven_dims_inside() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let f = jit(|x: Tensor| ((x.shard(P!["x"]).exp().mean_all()), x.sort(0), x.roll(2, 0)));
    let alone = jit(|x: Tensor| ((x.exp().mean_all()), x.sort(0), x.roll(2, 0))).call(&wave(&[7])).unwrap();
    let split = f.call(&wave(&[7]).shard(&mesh, P!["x"]).unwrap()).unwrap();
    assert!(split.0.all_close(&alone.0, 1e-6) && split.1.all_close(&alone.1, 0.0) && split.2.all_close(&alone.2, 0.0));
}

#[test]
fn named_annotation_points() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = || jit(|x: Tensor| annotate("hidden", x * 2.0)).on(&mesh);
    let placed = f().annotations([("hidden", P!["x"])]).call(&wave(&[4])).unwrap();
    assert_eq!(placed.shards()[1].slice, vec![2..4]);
    // A placement for a name that the program does not have is an error, never a silent no-op.
    assert!(f().annotations([("hiden", P!["x"])]).call(&wave(&[4])).unwrap_err().to_string().contains("hiden"));
    // Without a placement it is only a name.
    assert!(f().call(&wave(&[4])).unwrap().all_close(&placed, 0.0));
    assert!(f().why(&wave(&[4]), "hidden").unwrap().contains("multiply"));
}

#[test]
fn megatron_column_and_row_presets() {
    let mesh = Mesh::grid(("data", 2), ("model", 2)).unwrap();
    let f = jit(|x: Tensor, a: Tensor, b: Tensor| x.matmul(&a).gelu().matmul(&b)).on(&mesh);
    let presets = [P::data_parallel("data"), P::column_parallel("model"), P::row_parallel("model")];
    let f = f.in_shardings(presets).out_shardings([P!["data"]]);
    assert_eq!(kinds(&f, (&wave(&[8, 4]), &wave(&[4, 8]), &wave(&[8, 4]))), ["all-reduce model"]);
}

#[test]
fn both_directions_to_a_fixed_point() {
    let mesh = Mesh::linear("x", 2).unwrap();
    // Backward from the result to both arguments, through the transpose.
    let f = jit(|a: Tensor, b: Tensor| (a + b).t()).on(&mesh).out_shardings([P![_, "x"]]);
    let plan = f.plan((&wave(&[4, 6]), &wave(&[4, 6]))).unwrap();
    assert!(plan.collectives.is_empty());
    assert!(plan.arguments.iter().all(|a| a.sharding.num_shards(&mesh) == [2, 1]));
}

#[test]
fn factor_op_rules_and_collectives_inserted() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = jit(|a: Tensor, b: Tensor| einsum("bij,bjk->bik", &[&a, &b])).on(&mesh);
    let (a, b) = (wave(&[2, 4, 4]), wave(&[2, 4, 4]));
    assert!(kinds(&f.in_shardings([P!["x"], P!["x"]]), (&a, &b)).is_empty());
    let f = jit(|a: Tensor, b: Tensor| einsum("bij,bjk->bik", &[&a, &b])).on(&mesh);
    assert_eq!(kinds(&f.in_shardings([P![_, _, "x"], P![_, "x"]]), (&a, &b)), ["all-reduce x"]);
}

#[test]
fn through_loops_and_branches() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let body = |x: Tensor| cond(x.sum_all().gt(0.0), || &x * 0.5, || &x + 1.0);
    let f = jit(move |x: Tensor| for_loop(0..3, x, |_, x| body(x))).on(&mesh).in_shardings([P!["x"]]);
    let y = f.call(&wave(&[6])).unwrap();
    assert_eq!(y.shards()[1].slice, vec![3..6]);
    let alone = jit(move |x: Tensor| for_loop(0..3, x, |_, x| body(x))).call(&wave(&[6])).unwrap();
    assert!(y.all_close(&alone, 1e-5));
}

#[test]
fn provenance_of_a_sharding() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = jit(|w: Tensor, v: Tensor| annotate("sum", w + v)).on(&mesh).in_shardings([P!["x"], P![]]);
    let f = f.annotations([("sum", Rule::All(P!["x"]))]);
    let why = f.why((&wave(&[4]), &wave(&[4])), "sum").unwrap();
    assert!(why.contains("dimension 0 (4): split by \"x\"") && why.contains("annotated: "), "{why}");
    // Not annotated itself: which operation brought it, and from which argument.
    let g = jit(|w: Tensor, v: Tensor| (w + v).sin()).on(&mesh).in_shardings([P!["x"].into(), Rule::Free]);
    let why = g.why((&wave(&[4]), &wave(&[4])), "result").unwrap();
    assert!(why.contains("split by \"x\"") && why.contains("annotated: argument 0 (0)"), "{why}");
    assert!(why.contains("sine") && why.contains("add"), "{why}");
}

/// The order of docs/sharding.md: priorities, then element-wise operations before products, then the larger tensor.
#[test]
fn documented_conflict_order() {
    let mesh = Mesh::linear("x", 2).unwrap();
    // The product would have its columns split, the constraint behind the tanh its rows: the element-wise one is first.
    let f = |a: Tensor, w: Tensor| a.matmul(&w).tanh().shard(P!["x"].open());
    let f = jit(f).on(&mesh).in_shardings([P![_, dim("x").open()].open(), P![_, dim("x").open()].open()]);
    let lowered = f.lower((&wave(&[8, 64]), &wave(&[64, 8]))).unwrap();
    let text = lowered.placed_text().unwrap();
    let line = text.lines().find(|l| l.contains("dot_general")).unwrap();
    assert!(line.contains(r#"[{"x""#), "{line}");
    // All else being equal, the larger of two tensors wins.
    let pair = |n: i64, m: i64| {
        let f = |a: Tensor, b: Tensor| einsum("ik,kj->ij", &[&a, &b]);
        let f = jit(f).on(&mesh).in_shardings([P!["x"], P![_, "x"]]);
        let y = f.call((&wave(&[n, 4]), &wave(&[4, m]))).unwrap();
        y.placement().unwrap().sharding.num_shards(&mesh)
    };
    assert_eq!((pair(32, 4), pair(4, 32)), (vec![2, 1], vec![1, 2]));
}

#[test]
fn sharding_groups() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let f = |grouped: bool| {
        move |a: Tensor, b: Tensor| {
            if grouped {
                shard_alike(&[&a.sin(), &b]);
            }
            b * 2.0
        }
    };
    let a = wave(&[8]).shard(&mesh, P!["x"]).unwrap();
    let block = |grouped| jit(f(grouped)).on(&mesh).call((&a, &wave(&[8]))).unwrap().shards()[1].slice.clone();
    assert_eq!((block(true), block(false)), (vec![2..4], vec![0..8]));
    // Through a gradient, and with a second group.
    let g = jit(|a: Tensor, b: Tensor| {
        let slope = grad(|b: Tensor| (b.sin() * &a).sum_all(), b.clone());
        let momentum = zeros([8], F32) + 1.0;
        shard_alike(&[&slope, &momentum]);
        shard_alike(&[&a, &b]);
        momentum
    });
    assert_eq!(g.on(&mesh).call((&a, &wave(&[8]))).unwrap().shards()[1].slice, [2..4]);
}

/// Conservatively, no axis is cut in two and no dimension split unevenly by propagation.
/// Propagation in conservative mode never splits an axis, and does not pass on what needs an exchange with neighbors; what goes
/// through an operation as it is still does, as in full mode.
#[test]
fn conservative_mode() {
    let placed = |argument: &str, sharding: &str, op: &str, result: &str, mode: RuleMode| {
        let source = format!(
            "sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>
             func.func @main(%a: {argument} {{sdy.sharding = #sdy.sharding<@mesh, [{sharding}]>}}) -> {result} {{
               {op} : ({argument}) -> {result}
               return %0 : {result}
             }}"
        );
        let mut module = parse(&source).unwrap();
        let options = Options { level: Level::Plain, strategies: vec![Strategy::Basic], mode, ..Options::default() };
        propagate(&mut module, &options, &mut vec![]).unwrap();
        let text = meshwork_ir::text::print(&module);
        let (_, after) =
            text.split_once(&format!(") -> ({result} {{sdy.sharding = #sdy.sharding<@mesh, [")).unwrap_or_default();
        after.split_once("]>").map_or(String::new(), |(found, _)| found.to_string())
    };
    let sine = "%0 = \"stablehlo.sine\"(%a)";
    let slice = "%0 = \"stablehlo.slice\"(%a) {start_indices = array<i64: 1>, limit_indices = array<i64: 5>, strides = array<i64: 1>}";
    let reshape = "%0 = \"stablehlo.reshape\"(%a)";
    let cases = [
        // As it is, one axis or two.
        ("tensor<8xf32>", r#"{"x", ?}"#, sine, "tensor<8xf32>", r#"{"x", ?}"#, r#"{"x", ?}"#),
        (
            "tensor<8x6xf32>",
            r#"{"x", ?}, {"y", ?}"#,
            sine,
            "tensor<8x6xf32>",
            r#"{"x", ?}, {"y", ?}"#,
            r#"{"x", ?}, {"y", ?}"#,
        ),
        // Six elements on four devices.
        ("tensor<6xf32>", r#"{"x", ?}"#, sine, "tensor<6xf32>", r#"{"x", ?}"#, r#"{"x", ?}"#),
        // Four devices along two dimensions of two.
        ("tensor<8xf32>", r#"{"x", ?}"#, reshape, "tensor<2x4xf32>", r#"{"x":(1)2, ?}, {"x":(2)2, ?}"#, ""),
        ("tensor<8xf32>", r#"{"x", ?}"#, reshape, "tensor<4x2xf32>", r#"{"x", ?}, {?}"#, r#"{"x", ?}, {?}"#),
        // Part of a dimension.
        ("tensor<8xf32>", r#"{"x", ?}"#, slice, "tensor<4xf32>", r#"{"x", ?}"#, ""),
    ];
    for (argument, sharding, op, result, full, conservative) in cases {
        assert_eq!(placed(argument, sharding, op, result, RuleMode::Full), full, "{op} in full mode");
        assert_eq!(placed(argument, sharding, op, result, RuleMode::Conservative), conservative, "{op}");
    }
}

/// A budget of bytes, of kinds, of the largest collective: kept or an error before anything runs, with who broke it.
#[test]
fn communication_budget_as_an_assertion() {
    let mesh = Mesh::grid(("data", 2), ("model", 2)).unwrap();
    let step = |x: Tensor, w: Tensor| x.matmul(&w);
    let f = || jit(step).on(&mesh).in_shardings([P!["data", "model"], P!["model"]]);
    let (x, w) = (wave(&[8, 16]), wave(&[16, 4]));
    let plan = f().plan((&x, &w)).unwrap();
    let (sent, operand) = (plan.wire_bytes(), plan.collectives[0].collective.operand_bytes);
    assert!(sent > 0.0);
    let alone = jit(step).call((&x, &w)).unwrap();
    let budgets = [
        (Contract { max_bytes: Some(sent), ..Contract::default() }, true),
        (Contract { max_bytes: Some(sent - 1.0), ..Contract::default() }, false),
        (Contract { max_collective: Some(operand), ..Contract::default() }, true),
        (Contract { max_collective: Some(operand - 1), ..Contract::default() }, false),
        (Contract { allowed: Some(vec!["all-reduce".into()]), ..Contract::default() }, true),
        (Contract { allowed: Some(vec!["all-gather".into()]), ..Contract::default() }, false),
        (Contract { nothing_implicit: true, ..Contract::default() }, false),
    ];
    for (budget, kept) in budgets {
        match f().contract(budget.clone()).call((&x, &w)) {
            Ok(y) => assert!(kept && y.all_close(&alone, 1e-5), "{budget:?}"),
            Err(error) => {
                let text = error.to_string();
                assert!(!kept, "{budget:?}: {text}");
                for part in ["all-reduce", "model", "dot_general", "features.rs:"] {
                    assert!(text.contains(part), "{budget:?}: no {part} in {text}");
                }
            }
        }
    }
    // As an assertion on a plan.
    assert!(plan.check(&Contract { max_bytes: Some(0.0), ..Contract::default() }).is_err());
}

/// An operation that only the engine knows, with a rule written in Rust: placements follow it in both directions, and devices call
/// the operation on their parts.
#[test]
fn user_defined_op_rules() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let decompose = |rule: Option<&'static str>| {
        move |x: Tensor| {
            let call = CustomCall::new("lapack_sgeqrf_ffi");
            let call = rule.map_or(call.clone(), |rule| call.rule(rule));
            let mut out = call.call(&[&(x * 2.0)], &[(F32, &[8, 4, 4]), (F32, &[8, 4])]);
            (out.remove(0), out.remove(0))
        }
    };
    let x = Array::from_fn([8, 4, 4], |i| ((i[0] * 5 + i[1] * 3 + i[2] * i[1]) as f32).sin());
    let alone = jit(decompose(None)).call(&x).unwrap();
    let by_batch = jit(decompose(Some("b i j -> b k l, b m"))).on(&mesh);
    // Forward: the argument is split, so the results are.
    let split = x.clone().shard(&mesh, P!["x"]).unwrap();
    let got = by_batch.call(&split).unwrap();
    assert!(got.0.all_close(&alone.0, 1e-5) && got.1.all_close(&alone.1, 1e-5));
    assert_eq!((&got.0.shards()[1].slice[0], &got.1.shards()[1].slice[0]), (&(2..4), &(2..4)));
    assert!(by_batch.plan(&split).unwrap().collectives.is_empty());
    // Backward: a result is split, so the operand is computed in parts.
    let back = jit(decompose(Some("b i j -> b k l, b m"))).on(&mesh).out_shardings([P!["x"], P!["x"]]);
    assert!(back.plan(&x).unwrap().collectives.is_empty());
    assert!(back.lower(&x).unwrap().placed_text().unwrap().contains("stablehlo.custom_call @lapack_sgeqrf_ffi"));
    // A rule without the batch needs whole matrices on every device.
    let whole = jit(decompose(Some("a i j -> b k l, c m"))).on(&mesh);
    assert!(whole.plan(&split).unwrap().totals().contains_key("all-gather"));
    assert!(whole.call(&split).unwrap().0.all_close(&alone.0, 1e-5));
    let error = jit(decompose(Some("b i -> b k l, b m"))).call(&x).unwrap_err().to_string();
    assert!(error.contains("operand 0 has 2 names for 3 dimensions") && error.contains("features.rs:"), "{error}");
}

/// Positions that only the run knows: where they need a whole array, the plan says so and what to write.
#[test]
fn gathers_for_computed_positions_are_warned_of() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let (u, at) = (Array::zeros([4096], F32).shard(&mesh, P!["x"]).unwrap(), Array::scalar(5i32));
    let computed = jit(|u: Tensor, at: Tensor| u.dynamic_slice(&[at], &[4000]));
    let text = computed.explain((&u, &at)).unwrap();
    let plan = computed.plan((&u, &at)).unwrap();
    assert!(plan.totals().contains_key("all-gather"), "{text}");
    let line = text.lines().find(|line| line.starts_with("warning: ")).unwrap_or_else(|| panic!("{text}"));
    for part in ["dynamic_slice at ", "features.rs:", "f32[4096]", "over x", "s![..]"] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    // A short slice, and a known position, move only what they touch.
    for short in [1, 16] {
        let f = jit(move |u: Tensor, at: Tensor| u.dynamic_slice(&[at], &[short]));
        assert!(!f.explain((&u, &at)).unwrap().contains("warning"), "{short}");
    }
    let known = jit(|u: Tensor, _: Tensor| u.slice(s![5..4005]));
    assert!(!known.explain((&u, &at)).unwrap().contains("warning"));
}

/// Devices have numbers and processes, and make meshes in any order.
#[test]
fn devices_are_things_with_ids() {
    assert_eq!(meshwork::devices().unwrap().len(), Runtime::init().unwrap().devices());
    let devices = meshwork::devices_of(6).unwrap();
    assert!(devices.iter().enumerate().all(|(i, d)| (d.id(), d.rank(), d.is_local()) == (i as i64, 0, true)));
    assert_eq!(devices[3].to_string(), "device 3 of rank 0");
    let order: Vec<_> = [4, 0, 5, 2].map(|i| devices[i]).into();
    // Numbers of a mesh are those of its own devices.
    assert!(meshwork::mesh_of_devices(&[("x", 4)], &order).is_err());
    let order: Vec<_> = [2, 0, 3, 1].map(|i| devices[i]).into();
    let mesh = meshwork::mesh_of_devices(&[("x", 2), ("y", 2)], &order).unwrap();
    let x = wave(&[4]).shard(&mesh, P![["x", "y"]]).unwrap();
    let all = wave(&[4]).to_vec::<f32>().unwrap();
    for (i, device) in order.iter().enumerate() {
        assert_eq!(x.shard_data(device.id()).unwrap().to_vec::<f32>().unwrap(), [all[i]]);
    }
    let error = meshwork::mesh_of_devices(&[("x", 3)], &order).unwrap_err().to_string();
    assert!(error.contains("are 3 devices, and 4 are given"), "{error}");
}

/// What each device will hold is known without running, without elements and without the devices.
#[test]
fn per_device_memory_before_running() {
    let mesh = Mesh::grid(("data", 64), ("model", 8)).unwrap();
    let memory = |w: P| {
        let f = jit(|x: Tensor, w: Tensor| x.matmul(&w).relu()).on(&mesh).in_shardings([P!["data"], w]);
        let args = (&Array::shape_only([1 << 16, 1024], F32), &Array::shape_only([1024, 4096], F32));
        let plan = f.plan(args).unwrap();
        let own: Vec<i64> = plan
            .arguments
            .iter()
            .map(|a| a.sharding.local_shape(&mesh, a.ty.dims()).unwrap().iter().product::<i64>() * 4)
            .collect();
        (plan.peak.bytes, own)
    };
    let (whole, arguments) = memory(P![]);
    assert_eq!(arguments, [1024 * 1024 * 4, 1024 * 4096 * 4]);
    let (split, arguments) = memory(P![_, "model"]);
    assert_eq!(arguments, [1024 * 1024 * 4, 1024 * 512 * 4]);
    // An eighth of the weights and of the results: at least the 14 MB and 14 MB less.
    assert!(whole - split >= 2 * 1024 * 7 * 512 * 4, "{whole} {split}");
}

/// Along a split dimension, with another dimension to lend the split to: nothing is gathered.
#[test]
fn sort_scan_and_top_k_without_gather() {
    let mesh = Mesh::linear("x", 4).unwrap();
    type Program = fn(Tensor) -> Tensor;
    let programs: [(&str, Program); 4] = [
        ("sort", |x| x.sort(0)),
        ("argsort", |x| x.argsort(0).to(F32)),
        ("scan", |x| x.cumsum(0)),
        ("top-k", |x| x.t().top_k(2).0),
    ];
    let x = wave(&[8, 12]);
    for (name, f) in programs {
        let f = jit(f);
        let placed = x.clone().shard(&mesh, P!["x"]).unwrap();
        let kinds: Vec<&str> = f.plan(&placed).unwrap().totals().keys().copied().collect();
        assert!(!kinds.contains(&"all-gather"), "{name}: {kinds:?}");
        assert!(f.call(&placed).unwrap().all_close(&f.call(&x).unwrap(), 1e-4), "{name}");
    }
}

#[test]
fn reshard_planner() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    // One axis from one dimension to another is one all-to-all, not two gathers.
    let f = jit(|a: Tensor| a.shard(P![_, "x"])).on(&mesh).in_shardings([P!["x"]]);
    assert_eq!(kinds(&f, &wave(&[8, 8])), ["all-to-all x"]);
}

#[test]
fn halo_exchange_from_slices_and_communication_optimisation() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let f = jit(|u: Tensor| {
        let inner = u.slice(s![1..-1]) * 0.5 + (u.slice(s![..-2]) + u.slice(s![2..])) * 0.25;
        u.at(s![1..-1]).set(inner)
    });
    let plan = f.plan(&wave(&[102]).shard(&mesh, P!["x"]).unwrap()).unwrap();
    let totals = plan.totals();
    assert_eq!(totals.keys().copied().collect::<Vec<_>>(), ["collective-permute"]);
    assert_eq!((totals["collective-permute"].count, totals["collective-permute"].operand_bytes), (2, 8));
}

#[test]
fn halo_for_convolution() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let conv = |x: Tensor, k: Tensor| x.conv(&k, &Conv { padding: Padding::Same, ..Conv::default() });
    let (x, k) = (wave(&[1, 32, 2]), wave(&[3, 2, 2]));
    let f = jit(conv).on(&mesh).in_shardings([P![_, "x"], P![]]).out_shardings([P![_, "x"]]);
    assert_eq!(f.plan((&x, &k)).unwrap().totals().keys().copied().collect::<Vec<_>>(), ["collective-permute"]);
    assert!(f.call((&x, &k)).unwrap().all_close(&jit(conv).call((&x, &k)).unwrap(), 1e-5));
}

#[test]
fn global_array_view_and_assemble_from_shards() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let whole = wave(&[7]).shard(&mesh, P!["x"]).unwrap();
    let pieces: Vec<Array> = (0..4).map(|d| whole.shard_data(d).unwrap()).collect();
    let again = Array::from_shards([7], &mesh, &P!["x"], &pieces).unwrap();
    assert_eq!(again.shape(), [7]);
    assert!(again.all_close(&whole, 0.0));
    assert!(Array::from_shards([8], &mesh, &P!["x"], &pieces).unwrap_err().to_string().contains("piece 3"));
}

#[test]
fn autodiff_through_shardings_and_gradient_sync_derived() {
    let mesh = Mesh::linear("data", 4).unwrap();
    let f = |w: Tensor, x: Tensor| grad(|w: Tensor| x.matmul(&w).tanh().shard(P!["data"]).square().mean_all(), w);
    let (w, x) = (wave(&[4, 4]), wave(&[64, 4]));
    let split = jit(f).on(&mesh).in_shardings([P![], P!["data"]]).out_shardings([P![]]);
    assert_eq!(kinds(&split, (&w, &x)), ["all-reduce data"]);
    assert!(split.call((&w, &x)).unwrap().all_close(&jit(f).single_device().call((&w, &x)).unwrap(), 1e-6));
}

#[test]
fn buffer_donation() {
    let f = jit(|w: Tensor, g: Tensor| w - g * 0.1).donate([0]);
    let (w, g) = (wave(&[4]), wave(&[4]));
    assert!(f.lower((&w, &g)).unwrap().text().contains("tf.aliasing_output"));
    // What is donated is gone; `tests/donation.rs` counts the bytes.
    f.call((&w, &g)).unwrap();
    assert!(w.to_f64s().unwrap_err().to_string().contains("was donated to the call at"));
    assert!(g.to_f64s().is_ok());
}

#[test]
fn picture() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let text = wave(&[4, 4]).shard(&mesh, P!["x", "y"]).unwrap().picture();
    assert!((0..4).all(|device: i32| text.contains(&device.to_string())), "{text}");
}

/// Everything that a program depends on makes another program, and nothing else does.
#[test]
fn every_dependency_is_in_the_cache_key() {
    let (two, other) = (Mesh::linear("x", 2).unwrap(), Mesh::linear("y", 2).unwrap());
    let f = jit(|xs: Vec<Tensor>, n: Static<i64>| xs.iter().map(|x| x * *n).collect::<Vec<_>>());
    let x = wave(&[4, 4]);
    let on = |mesh: &Mesh, p: P| x.clone().shard(mesh, p).unwrap();
    let calls: Vec<(Vec<Array>, i64)> = vec![
        (vec![x.clone()], 2),
        // Another number, structure, shape, element type, placement, mesh.
        (vec![x.clone()], 3),
        (vec![x.clone(), x.clone()], 2),
        (vec![wave(&[4, 5])], 2),
        (vec![Array::zeros([4, 4], I32)], 2),
        (vec![on(&two, P!["x"])], 2),
        (vec![on(&two, P![_, "x"])], 2),
        (vec![on(&other, P!["y"])], 2),
    ];
    for (i, (xs, n)) in calls.iter().enumerate() {
        for _ in 0..2 {
            let got = f.call((xs, &Static(*n))).unwrap();
            let (got_all, given) = (got[0].to_f64s().unwrap(), xs[0].to_f64s().unwrap());
            assert!(got_all.iter().zip(given).all(|(y, x)| (y - x * *n as f64).abs() < 1e-5));
            assert_eq!(got[0].placement().map(|p| &p.sharding), xs[0].placement().map(|p| &p.sharding));
            assert_eq!(f.cached(), i + 1, "after call {i}");
        }
    }
    // Other elements are not another program.
    f.call((&vec![Array::full([4, 4], 1.0f32)], &Static(2))).unwrap();
    assert_eq!(f.cached(), calls.len());
    // An option that is given later starts a new cache.
    assert_eq!(f.single_device().cached(), 0);
}

#[test]
fn correct_compile_cache() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = jit(|x: Tensor| x * 2.0);
    let whole = f.call(&wave(&[4])).unwrap();
    let placed = f.call(&wave(&[4]).shard(&mesh, P!["x"]).unwrap()).unwrap();
    let longer = f.call(&wave(&[6]).shard(&mesh, P!["x"]).unwrap()).unwrap();
    assert!(whole.placement().is_none());
    assert_eq!((placed.shards()[1].slice[0].clone(), longer.shards()[1].slice[0].clone()), (2..4, 3..6));
}

/// A dimension that is split over axes that name it twice, or an axis that the mesh lacks: refused where it is given.
#[test]
fn unknown_and_repeated_axes_are_refused_where_they_are_given() {
    let mesh = Mesh::linear("x", 2).unwrap();
    for spec in [P!["y"], P!["x", "x"], P![["x", "x"]], P![_, _, "x"]] {
        assert!(wave(&[4, 4]).shard(&mesh, &spec).is_err(), "{spec}");
    }
    assert!(Mesh::new([("x", 2), ("x", 2)]).is_err());
    assert!(Mesh::new([("x", 0)]).is_err());
}

/// Sums over padding, or elements lost at the end: the mistakes of uneven splits elsewhere.
#[test]
fn no_element_is_lost_or_counted_twice() {
    let mesh = Mesh::linear("x", 4).unwrap();
    for n in [1, 3, 5, 100, 102] {
        let x = Array::full([n], 1.0f32).shard(&mesh, P!["x"]).unwrap();
        let f = jit(|x: Tensor| (x.sum_all(), x.mean_all(), x.exp().sum_all()));
        let (sum, mean, exp) = f.call(&x).unwrap();
        assert_eq!((sum.item::<f32>().unwrap(), mean.item::<f32>().unwrap()), (n as f32, 1.0));
        assert!((exp.item::<f32>().unwrap() - n as f32 * 1f32.exp()).abs() < 1e-3);
        assert_eq!((0..4).map(|d| x.shard_data(d).unwrap().size()).sum::<i64>(), n);
    }
}

/// Compiled ahead of time from shapes, run, profiled: one program, its table and its trace as a file.
#[test]
fn compiled_ahead_of_time_and_profiled() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let f = jit(|x: Tensor| x.tanh().sum_all()).on(&mesh).in_shardings([P!["x"]]);
    let compiled = f.compile(&Array::shape_only([64], F32)).unwrap();
    assert_eq!((f.cached(), compiled.shapes().shape()), (1, &[][..]));
    let x = wave(&[64]);
    let run = f.profile(&x).unwrap();
    assert_eq!(f.cached(), 1);
    assert!(run.results.all_close(&f.call(&x).unwrap(), 1e-6));
    let table = run.profile.table(10);
    assert!(table.contains("all_reduce"), "{table}");
    let folder = meshwork_testing::Folder::new("profile");
    let file = folder.path().join("trace.json");
    run.profile.write_trace(&file).unwrap();
    let trace = std::fs::read_to_string(file).unwrap();
    assert_eq!(trace, run.profile.chrome_trace());
    assert!(trace.contains("traceEvents") && trace.contains("device 3"), "{trace}");
}
