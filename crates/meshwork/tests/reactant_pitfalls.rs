//! The mistakes of sharding in Reactant.jl, one test each; `docs/mistakes.md` lists them.

#![allow(clippy::single_range_in_vec_init)] // slices of arrays of one dimension

use meshwork::prelude::*;
use meshwork_mesh::{AxisRef, parse_sharding};
use meshwork_runtime::memory::usage;
use meshwork_testing::wave_f32 as wave;

#[test]
fn a_mesh_of_one_device_is_a_mesh() {
    let mesh = Mesh::linear("x", 1).unwrap();
    let f = jit(|x: Tensor| x.roll(1, 0).shard(P!["x"]).sum_all());
    let x = wave(&[5]).shard(&mesh, P!["x"]).unwrap();
    assert!(f.call(&x).unwrap().all_close(&jit(|x: Tensor| x.sum_all()).call(&wave(&[5])).unwrap(), 1e-6));
    assert_eq!(f.plan(&x).unwrap().devices(), 1);
}

#[test]
fn names_and_devices_of_a_mesh_are_checked_when_it_is_made() {
    assert!(Mesh::new([("x", 2), ("x", 2)]).is_err());
    assert!(Mesh::new([("", 2)]).is_err());
    assert!(Mesh::new([("x", -2)]).is_err());
    let line = || Mesh::linear("x", 4).unwrap();
    assert!(line().with_device_ids(vec![0, 0, 0, 0]).is_err());
    assert!(line().with_device_ids(vec![0, 1, 2]).is_err());
    assert!(line().with_device_ids(vec![0, 1, 2, 4]).is_err());
    // Planning for devices that are not there needs no made-up numbers.
    let f = jit(|x: Tensor| x.sum_all()).on(&Mesh::linear("x", 4096).unwrap()).in_shardings([P!["x"]]);
    assert_eq!(f.plan(&Array::shape_only([8192], F32)).unwrap().devices(), 4096);
}

#[test]
fn an_unknown_axis_does_not_count_as_one_of_size_one() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    for spec in [P!["z"], P![["x", "z"]], P![_, "z"]] {
        let error = wave(&[4, 4]).shard(&mesh, &spec).unwrap_err().to_string();
        assert!(error.contains("unknown axis name: \"z\""), "{error}");
        let inside = jit(move |x: Tensor| x.shard(&spec)).on(&mesh).call(&wave(&[4, 4])).unwrap_err().to_string();
        assert!(inside.contains("unknown axis name: \"z\""), "{inside}");
    }
}

#[test]
fn an_axis_that_is_named_twice_is_refused_in_lists_too() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    for spec in [P!["x", "x"], P![["x", "x"]], P![["x", "y"], "x"], P::of(vec![vec!["x".into(), "x".into()]])] {
        let error = wave(&[4, 4]).shard(&mesh, &spec).unwrap_err().to_string();
        assert!(error.contains("duplicate axis ref: \"x\""), "{error}");
    }
    let overlapping = P::of(vec![vec![AxisRef::sub("y", 1, 2)], vec!["y".into()]]);
    assert!(wave(&[4, 4]).shard(&mesh, overlapping).is_err());
}

#[test]
fn a_placement_of_another_rank_is_refused_where_it_is_given() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let error = wave(&[4]).shard(&mesh, P![_, "x"]).unwrap_err().to_string();
    assert!(
        error.contains("it names 2 dimensions, and there are 1") && error.contains("reactant_pitfalls.rs"),
        "{error}"
    );
    // From the end, for arrays of any rank that has the dimension; a scalar has none.
    for shape in [&[4][..], &[3, 4], &[2, 3, 4]] {
        let x = wave(shape).shard(&mesh, P![.., "x"]).unwrap();
        assert_eq!(x.shards()[1].slice.last(), Some(&(2..4)));
    }
    assert!(Array::scalar(1.0f32).shard(&mesh, P![.., "x"]).is_err());
}

#[test]
fn open_dimensions_priorities_and_parts_of_axes_stay_with_their_dimension() {
    let text = r#"<@mesh, [{"x":(1)2, ?}p1, {}, {"x":(2)2}p0, {?}]>"#;
    let sharding = parse_sharding(text).unwrap();
    assert_eq!(sharding.to_string(), text);
    let dims: Vec<(bool, Option<i64>)> = sharding.dims.iter().map(|d| (d.is_closed, d.priority)).collect();
    assert_eq!(dims, [(false, Some(1)), (true, None), (true, Some(0)), (false, None)]);
}

#[test]
fn an_array_that_is_given_twice_is_placed_as_each_argument_says() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let x = wave(&[4, 4]);
    let f = jit(|a: Tensor, b: Tensor| (a, b)).on(&mesh).in_shardings([P!["x"], P![_, "x"]]);
    let (a, b) = f.call((&x, &x)).unwrap();
    assert_eq!((a.shards()[1].slice.clone(), b.shards()[1].slice.clone()), (vec![2..4, 0..4], vec![0..4, 2..4]));
    assert!(a.all_close(&x, 0.0) && b.all_close(&x, 0.0));
}

#[test]
fn complex_numbers_are_split_too() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let f = jit(|x: Tensor| {
        let spectrum = x.rfft(1).shard(P!["x"]);
        (&spectrum * &spectrum).real().sum(&[1])
    });
    let x = wave(&[6, 8]);
    let alone = f_alone(&x);
    assert!(f.on(&mesh).call(&x).unwrap().all_close(&alone, 1e-4));

    fn f_alone(x: &Array) -> Array {
        jit(|x: Tensor| {
            let spectrum = x.rfft(1);
            (&spectrum * &spectrum).real().sum(&[1])
        })
        .call(x)
        .unwrap()
    }
}

/// Not padded with uninitialized memory, not moved to another placement, not truncated.
#[test]
fn sizes_that_do_not_divide_are_split_as_they_are() {
    let mesh = Mesh::grid(("x", 4), ("y", 2)).unwrap();
    for n in [1, 3, 5, 7, 9, 102] {
        let x = wave(&[n, 3]).shard(&mesh, P!["x", "y"]).unwrap();
        let f = jit(|x: Tensor| (x.min_all(), x.max_all(), x.mean_all(), (&x * 0.0 + 1.0).sum_all(), x.sort(0)));
        let (on_mesh, alone) = (f.call(&x).unwrap(), f.call(&wave(&[n, 3])).unwrap());
        assert!(on_mesh.0.all_close(&alone.0, 0.0) && on_mesh.1.all_close(&alone.1, 0.0));
        assert!(on_mesh.2.all_close(&alone.2, 1e-6) && on_mesh.4.all_close(&alone.4, 0.0));
        assert_eq!(on_mesh.3.item::<f32>().unwrap(), (n * 3) as f32);
        assert_eq!(x.placement().unwrap().sharding.num_shards(&mesh), [4, 2]);
    }
}

#[test]
fn pieces_of_workers_need_not_be_equal() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let x = wave(&[10, 2]).shard(&mesh, P!["x"]).unwrap();
    let pieces: Vec<Array> = (0..4).map(|d| x.shard_data(d).unwrap()).collect();
    assert_eq!(pieces.iter().map(|p| p.shape()[0]).collect::<Vec<_>>(), [3, 3, 3, 1]);
    assert!(Array::from_shards([10, 2], &mesh, &P!["x"], &pieces).unwrap().all_close(&wave(&[10, 2]), 0.0));
}

#[test]
fn devices_in_any_order_run_everything() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap().with_device_ids(vec![3, 0, 2, 1]).unwrap();
    let f = jit(|x: Tensor, w: Tensor| (x.roll(1, 0).matmul(&w).cumsum(0), w.sum_all()));
    let (x, w) = (wave(&[6, 4]), wave(&[4, 4]));
    let alone = f.call((&x, &w)).unwrap();
    let (x, w) = (x.shard(&mesh, P!["x", "y"]).unwrap(), w.shard(&mesh, P!["y"]).unwrap());
    let found = f.call((&x, &w)).unwrap();
    assert!(found.0.all_close(&alone.0, 1e-5) && found.1.all_close(&alone.1, 1e-5));
}

/// Which part each device holds is arithmetic: no program is compiled to find out.
#[test]
fn slices_of_devices_are_known_without_a_program() {
    let mesh = Mesh::grid(("x", 256), ("y", 256)).unwrap();
    let x = Array::shape_only([1000, 1000], F32).shard(&mesh, P!["x", "y"]).unwrap();
    let shards = x.shards();
    assert_eq!((shards.len(), shards[257].slice.clone()), (65536, vec![4..8, 4..8]));
}

/// To the host without a whole copy on any device.
#[test]
fn reading_an_array_needs_no_memory_of_devices() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let y = jit(|x: Tensor| x + 1.0).call(&wave(&[1 << 16]).shard(&mesh, P!["x"]).unwrap()).unwrap();
    usage::restart();
    let before = usage::live_bytes();
    let sum: f64 = y.to_f64s().unwrap().iter().sum();
    assert!(sum.is_finite());
    // Other tests of this file run concurrently, on small arrays.
    assert!(usage::peak_bytes().saturating_sub(before) < (1 << 16) * 4);
}

#[test]
fn groups_of_values_with_the_same_placement_can_be_merged() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let f = jit(|a: Tensor, b: Tensor, c: Tensor| {
        shard_alike(&[&a, &b]);
        shard_alike(&[&b, &c]);
        c
    });
    let a = wave(&[8]).shard(&mesh, P!["x"]).unwrap();
    assert_eq!(f.call((&a, &wave(&[8]), &wave(&[8]))).unwrap().shards()[1].slice, [2..4]);
}

#[test]
fn a_donated_array_says_so_when_it_is_used() {
    let step = jit(|x: Tensor| x * 2.0).donate([0]);
    let x = wave(&[4]);
    step.call(&x).unwrap();
    assert!(x.to_f64s().unwrap_err().to_string().contains("was donated to the call at"));
}
