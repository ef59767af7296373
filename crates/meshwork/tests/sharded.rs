//! Programs on a mesh: the same results as on one device, and the communication that they need.

use std::sync::{Arc, Mutex};

use meshwork::prelude::*;
use meshwork_testing::wave_f32 as wave;

/// Runs `f` on each mesh and placement, and compares with one device.
fn same_everywhere<O: Tree<Host = Array>>(f: impl Fn(Tensor) -> O + Copy, shape: &[i64]) {
    let x = wave(shape);
    let alone = jit(f).call(&x).unwrap();
    let line = Mesh::linear("x", 4).unwrap();
    let grid = Mesh::grid(("x", 2), ("y", 3)).unwrap();
    let mut cases = vec![(&line, P!["x"]), (&grid, P!["x"]), (&grid, P![["x", "y"]]), (&grid, P![])];
    if shape.len() > 1 {
        cases.extend([(&line, P![_, "x"]), (&grid, P!["x", "y"]), (&grid, P!["y", "x"])]);
    }
    for (mesh, spec) in cases {
        let split = jit(f).on(mesh).in_shardings([spec.clone()]).call(&x).unwrap_or_else(|e| panic!("{spec}: {e}"));
        assert!(split.all_close(&alone, 1e-4), "{spec} on {mesh}: {split} and {alone}");
    }
}

#[test]
fn results_do_not_depend_on_the_mesh() {
    same_everywhere(|x| (x.sin() + 1.0).sum_all(), &[13]);
    same_everywhere(|x| x.softmax(-1), &[6, 10]);
    same_everywhere(|x| x.matmul(x.t()), &[7, 5]);
    same_everywhere(|x| x.cumsum(0), &[11]);
    same_everywhere(|x| x.roll(3, 0) - x.roll(-2, 1), &[7, 9]);
    same_everywhere(|x| x.sort(0), &[9]);
    same_everywhere(|x| x.reshape([3, 4, 5]).permute(&[2, 0, 1]), &[12, 5]);
    same_everywhere(|x| x.at(s![..; 2]).mul(-1.0), &[9, 4]);
    same_everywhere(|x| for_loop(0..3, x, |_, x| (x.slice(s![1..]) * 0.5).pad(&[(0, 1)], 0.0) + x), &[10]);
    same_everywhere(|x| scan(x.slice(s![0]), x, |c, x| (&c * 0.5 + &x, c.sum_all())).1, &[5, 6]);
    same_everywhere(|x| cond(x.sum_all().gt(0.0), || x.mean(&[0]), || x.max(&[0])), &[6, 4]);
}

#[test]
fn random_numbers_do_not_depend_on_the_mesh() {
    let draw = |x: Tensor| Key::new(7).uniform([10, 6], F32) + x * 0.0;
    let (x, mesh) = (wave(&[10, 6]), Mesh::grid(("x", 2), ("y", 3)).unwrap());
    let alone = jit(draw).call(&x).unwrap();
    for spec in [P!["x", "y"], P![["y", "x"]]] {
        let split = jit(draw).on(&mesh).in_shardings([spec]).call(&x).unwrap();
        assert_eq!(split.to_vec::<f32>().unwrap(), alone.to_vec::<f32>().unwrap());
    }
}

#[test]
fn the_bits_are_those_of_jax() {
    // jax.random.key(42), jax_threefry_partitionable: bits, uniform and normal of shape (2, 3).
    let f = jit(|_: ()| {
        let key = Key::new(42);
        (key.bits([2, 3]), key.uniform([2, 3], F32), key.normal([2, 3], F32), key.split(2)[1].tensor())
    });
    let (bits, uniform, normal, second) = f.call(&()).unwrap();
    assert_eq!(bits.to_vec::<u32>().unwrap(), JAX_BITS);
    let close = |a: &Array, b: &[f64]| assert!(a.to_f64s().unwrap().iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-6));
    close(&uniform, &JAX_UNIFORM);
    close(&normal, &JAX_NORMAL);
    assert_eq!(second.to_vec::<u32>().unwrap(), JAX_SECOND);
}

const JAX_BITS: [u32; 6] = [2_098_992_034, 2_919_706_841, 2_646_866_425, 2_409_546_199, 1_935_504_149, 2_516_274_904];
const JAX_UNIFORM: [f64; 6] = [0.48870957, 0.67979717, 0.6162715, 0.56101608, 0.45064461, 0.58586586];
const JAX_NORMAL: [f64; 6] = [-0.02830462, 0.46713185, 0.29570296, 0.15354592, -0.12403282, 0.21692315];
const JAX_SECOND: [u32; 2] = [64_467_757, 2_916_123_636];

#[test]
fn a_heat_step_sends_one_element_each_way() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let inner = |u: &Tensor| 0.5 * u.slice(s![1..-1]) + 0.25 * u.slice(s![..-2]) + 0.25 * u.slice(s![2..]);
    let assign = |u: Tensor| u.at(s![1..-1]).set(inner(&u));
    let joined = |u: Tensor| concatenate(&[u.slice(s![..1]), inner(&u), u.slice(s![-1..])], 0);
    for n in [102, 128] {
        let u = wave(&[n]).shard(&mesh, P!["x"]).unwrap();
        for step in [&assign as &dyn Fn(Tensor) -> Tensor, &joined] {
            let f = jit(|u: Tensor| for_loop(0..5, u, |_, u| step(u)));
            let plan = f.plan(&u).unwrap();
            let total = plan.totals()["collective-permute"];
            assert_eq!(
                (plan.totals().len(), total.count, total.operand_bytes),
                (1, 10, 40),
                "{}",
                f.explain(&u).unwrap()
            );
            let alone = jit(|u: Tensor| for_loop(0..5, u, |_, u| step(u))).single_device().call(&u).unwrap();
            assert!(f.call(&u).unwrap().all_close(&alone, 1e-6));
        }
    }
}

#[test]
fn arrays_know_where_they_live() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let x = wave(&[5, 4]).shard(&mesh, P!["y"]).unwrap();
    assert_eq!(x.picture(), "     0..4\n0..3 0,2 \n3..5 1,3 \n");
    assert_eq!(x.shard_data(3).unwrap().shape(), [2, 4]);
    let pieces: Vec<Array> = (0..4).map(|d| x.shard_data(d).unwrap()).collect();
    let joined = Array::from_shards([5, 4], &mesh, &P!["y"], &pieces).unwrap();
    assert!(joined.all_close(&x, 0.0));
    let wrong = Array::from_shards([6, 4], &mesh, &P!["y"], &pieces).unwrap_err().to_string();
    assert!(wrong.starts_with("piece 1 has shape [2, 4]; device 1 holds [3, 4] of the array"), "{wrong}");
    // Results are placed as propagation found.
    let y = jit(|x: Tensor| x + 1.0).call(&x).unwrap();
    assert_eq!(y.shards(), x.shards());
}

#[test]
fn programs_are_cached_by_all_that_matters() {
    let traces = std::cell::Cell::new(0);
    let f = jit(|x: Tensor, k: Static<i64>| {
        traces.set(traces.get() + 1);
        x * k.0
    });
    let (a, b) = (wave(&[4]), wave(&[6]));
    let mesh = Mesh::linear("x", 2).unwrap();
    let on_mesh = a.clone().shard(&mesh, P!["x"]).unwrap();
    for _ in 0..2 {
        f.call((&a, &Static(2))).unwrap();
        f.call((&b, &Static(2))).unwrap();
        f.call((&a, &Static(3))).unwrap();
        f.call((&on_mesh, &Static(2))).unwrap();
    }
    assert_eq!(traces.get(), 4);
}

#[test]
fn results_are_placed_as_asked() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = jit(|x: Tensor| (x.clone() * 2.0, x.t())).on(&mesh).out_shardings([P!["x"], P![_, "x"]]);
    let (a, b) = f.call(&wave(&[4, 6])).unwrap();
    assert_eq!((&a.shards()[1].slice, &b.shards()[1].slice), (&vec![2..4, 0..6], &vec![0..6, 2..4]));
}

#[derive(Clone, Debug, Tree)]
struct Model<T = Tensor> {
    layers: Vec<Layer<T>>,
    scale: Option<T>,
    depth: Static<usize>,
}

#[derive(Clone, Debug, Tree)]
struct Layer<T = Tensor> {
    w: T,
    b: T,
}

#[test]
fn structs_are_trees_with_paths() {
    let layer = || Layer { w: wave(&[4, 4]), b: wave(&[4]) };
    let model = Model { layers: vec![layer(), layer()], scale: None, depth: Static(2) };
    let mesh = Mesh::linear("x", 2).unwrap();
    let seen = Arc::new(Mutex::new(vec![]));
    let paths = seen.clone();
    let rule = Rule::policy(move |path, shape| {
        paths.lock().unwrap().push(format!("{path} {shape:?}"));
        Some(if shape.len() == 2 { P![_, "x"] } else { P!["x"] })
    });
    let apply = |m: Model, x: Tensor| {
        assert_eq!(m.layers.len(), m.depth.0);
        let y = m.layers.iter().fold(x, |x, l| (x.matmul(&l.w) + &l.b).tanh());
        m.scale.map_or(y.clone(), |s| y * s)
    };
    let alone = jit(apply).call((&model, &wave(&[3, 4]))).unwrap();
    let f = jit(apply).on(&mesh).in_shardings([rule, Rule::Free]);
    assert!(f.call((&model, &wave(&[3, 4]))).unwrap().all_close(&alone, 1e-5));
    assert_eq!(*seen.lock().unwrap(), ["layers/0/w [4, 4]", "layers/0/b [4]", "layers/1/w [4, 4]", "layers/1/b [4]"]);
}

#[test]
fn lowered_programs_are_valid_text() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = jit(|x: Tensor| for_loop(0..3, x, |_, x| x.sin().shard(P!["x"]))).on(&mesh);
    let text = f.lower(&Array::shape_only([4], F32)).unwrap().text();
    let module = meshwork_ir::text::parse(&text).unwrap();
    assert!(meshwork_ir::verify::verify(&module).is_empty());
    assert!(text.contains("sdy.mesh @mesh") && text.contains("stablehlo.while"), "{text}");
}
