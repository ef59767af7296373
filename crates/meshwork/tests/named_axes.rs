//! Named axes: operations, mappings, scopes, and the mistakes that named axes elsewhere make.

use meshwork::named::{
    Axis, Mapping, NamedTensor, axis_mapping, current_mapping, dot, fsdp, merged_axis_mapping, named_jit,
    physical_axis_name, physical_axis_size, round_axis_for_partitioning, shard_named, sharding_for_axis, vmap_axis,
};
use meshwork::prelude::*;
use meshwork_testing::wave_f32;

fn axes() -> (Axis, Axis, Axis) {
    (Axis::new("batch", 8), Axis::new("embed", 4), Axis::new("out", 6))
}

fn mesh() -> Mesh {
    Mesh::grid(("data", 2), ("model", 2)).unwrap()
}

fn wave(axes: &[&Axis]) -> NamedTensor<Array> {
    let shape: Vec<i64> = axes.iter().map(|a| a.size()).collect();
    NamedTensor::host(wave_f32(&shape), axes.iter().copied()).unwrap()
}

fn names<T>(x: &NamedTensor<T>) -> Vec<&str> {
    x.axes().iter().map(Axis::name).collect()
}

#[test]
fn operations_by_name() {
    let (batch, embed, out) = axes();
    let f = |(x, w): (NamedTensor, NamedTensor)| {
        let y = dot(&[&x, &w], &["embed"]);
        let by_hand = x.array().matmul(w.array());
        let turned = y.rearrange(&["out", "batch"]);
        let wide = &x.sum(&["batch"]) + &y.mean(&["out"]);
        let picked =
            w.take("out", &NamedTensor::new(Tensor::constant(&Array::from([4i32, 0])), [Axis::new("pick", 2)]));
        let rows = vmap_axis("batch", |row| &row * &row.sum(&["embed"]), &x);
        let check = rows.array() - x.array() * x.array().sum(&[1]).expand_dims(1);
        (y.array() - by_hand, (turned, wide), picked, check)
    };
    let out4 = jit(f).call(&(wave(&[&batch, &embed]), wave(&[&embed, &out]))).unwrap();
    assert!(out4.0.all_close(&Array::zeros([8, 6], F32), 1e-6));
    assert_eq!(names(&out4.1.0), ["out", "batch"]);
    assert_eq!(names(&out4.1.1), ["embed", "batch"]);
    assert_eq!(names(&out4.2), ["embed", "pick"]);
    assert_eq!(out4.2.array().shape(), [4, 2]);
    assert!(out4.3.all_close(&Array::zeros([8, 4], F32), 1e-5));
}

#[test]
fn misused_names_are_reported() {
    let (batch, embed, _) = axes();
    let x = wave(&[&batch, &embed]);
    let error = |f: fn(NamedTensor) -> NamedTensor| jit(f).call(&x).unwrap_err().to_string();
    assert!(error(|x| x.sum(&["embd"])).starts_with("sum: there is no axis \"embd\" among [batch=8, embed=4]"));
    assert!(error(|x| dot(&[&x], &["heads"])).contains("no axis \"heads\""));
    assert!(error(|x| &x + &NamedTensor::zeros([Axis::new("embed", 5)], F32)).contains("sizes 4 and 5"));
    assert!(error(|x| x.rename("embed", "batch")).contains("stands twice"));
    assert!(NamedTensor::host(Array::zeros([3], F32), [&batch]).unwrap_err().to_string().contains("do not fit"));
}

#[test]
fn logical_tensor_axes_to_mesh_axes() {
    let (batch, embed, out) = axes();
    let model = |(x, w): (NamedTensor, NamedTensor)| dot(&[&x, &w], &["embed"]);
    let arguments = (wave(&[&batch, &embed]), wave(&[&embed, &out]));
    let alone = jit(model).call(&arguments).unwrap();
    let ways = [
        Mapping::default(),
        Mapping::new([("batch", "data")]),
        Mapping::new([("out", "model"), ("batch", "data")]),
        Mapping::new([("embed", "model")]),
        Mapping::default().with("batch", &["data", "model"]),
    ];
    for mapping in ways {
        let y = named_jit(&mesh(), model).mapping(mapping.clone()).call(&arguments).unwrap();
        assert!(y.array().all_close(alone.array(), 1e-5), "{mapping:?}");
        let wanted = mapping.spec(y.axes(), &mesh()).unwrap();
        let held = alone.array().clone().shard(&mesh(), wanted).unwrap().shards();
        assert_eq!(y.array().shards(), held, "{mapping:?}");
    }
}

#[test]
fn ordered_fallback_rules() {
    let (batch, embed, _) = axes();
    let heads = Axis::new("heads", 2);
    let mapping = Mapping::new([("heads", "model"), ("embed", "model"), ("embed", "data")]).or_whole("embed");
    let spec = |axes: &[&Axis]| {
        let axes: Vec<Axis> = axes.iter().map(|a| (*a).clone()).collect();
        mapping.spec(&axes, &mesh()).unwrap()
    };
    assert_eq!(spec(&[&embed]), P!["model"]);
    // The order of entries decides, not that of axes.
    assert_eq!(spec(&[&embed, &heads]), P!["data", "model"]);
    let all =
        Mapping::new([("batch", "data"), ("heads", "model"), ("embed", "model"), ("embed", "data")]).or_whole("embed");
    assert_eq!(all.spec(&[batch, heads, embed], &mesh()).unwrap(), P!["data", "model", _]);
}

/// Two axes of one tensor on one mesh axis: an error with both names, not one of a library below.
#[test]
fn a_conflict_names_both_axes() {
    let (batch, embed, _) = axes();
    let mapping = Mapping::new([("batch", "data"), ("embed", "data")]);
    let error = mapping.spec(&[batch.clone(), embed.clone()], &mesh()).unwrap_err().to_string();
    assert!(
        error.starts_with("\"embed\" and \"batch\" of one tensor are both mapped to the mesh axis \"data\""),
        "{error}"
    );
    assert!(
        mapping.spec(&[batch.clone(), batch.alias("batch")], &mesh()).unwrap_err().to_string().contains("two axes")
    );
}

/// An inner mapping wins over an outer one; merging the other way round surprises.
#[test]
fn inner_mappings_win() {
    let outer = Mapping::new([("batch", "data"), ("embed", "data")]);
    let get = |name: &str| current_mapping().and_then(|m| m.get(name).map(<[String]>::to_vec));
    axis_mapping(outer, || {
        merged_axis_mapping(Mapping::new([("batch", "model")]), || {
            assert_eq!(get("batch").unwrap(), ["model"]);
            assert_eq!(get("embed").unwrap(), ["data"]);
        });
        axis_mapping(Mapping::new([("batch", "model")]), || assert_eq!(get("embed"), None));
        assert_eq!(get("batch").unwrap(), ["data"]);
    });
    assert_eq!(current_mapping(), None);
    // An argument wins over the scope.
    let (batch, embed, _) = axes();
    let f = |x: NamedTensor| {
        let own = x.shard(&Mapping::new([("batch", "model")]));
        (own, x.sharded())
    };
    let f = named_jit(&mesh(), f).inputs(Mapping::default());
    let in_scope = axis_mapping(Mapping::new([("batch", "data")]), || f.call(&wave(&[&batch, &embed])));
    let (own, scoped) = in_scope.unwrap();
    assert_eq!(own.array().shards()[1].slice, [4..8, 0..4]);
    assert_eq!(scoped.array().shards()[1].slice, [0..4, 0..4]);
}

/// A scope belongs to its thread.
#[test]
fn threads_do_not_see_each_others_mapping() {
    axis_mapping(Mapping::new([("batch", "data")]), || {
        let other = std::thread::spawn(current_mapping).join().unwrap();
        assert_eq!(other, None);
        assert!(current_mapping().is_some());
    });
}

#[test]
fn sharding_without_a_mapping_or_a_mesh_is_never_silent() {
    let (batch, embed, _) = axes();
    let x = wave(&[&batch, &embed]);
    let error = named_jit(&mesh(), |x: NamedTensor| x.sharded()).call(&x).unwrap_err().to_string();
    assert!(error.starts_with("sharded: there is no mapping in scope") && error.contains("named_axes.rs"), "{error}");
    let error = jit(|x: NamedTensor| x.shard(&Mapping::new([("batch", "data")]))).call(&x).unwrap_err().to_string();
    assert!(error.starts_with("shard: there is no mesh"), "{error}");
    let error = named_jit(&mesh(), |x: NamedTensor| x).mapping(Mapping::new([("batch", "dta")])).call(&x).unwrap_err();
    assert!(error.to_string().starts_with("\"batch\" is mapped to the mesh axis \"dta\""), "{error}");
    // Library code that may run without either asks for it.
    assert!(jit(|x: NamedTensor| x.auto_sharded()).call(&x).is_ok());
}

/// An axis that is not divisible is still split, inside and outside a program.
#[test]
fn uneven_axes_are_split() {
    let odd = Axis::new("batch", 7);
    let mapping = Mapping::new([("batch", "data")]);
    let x = wave(&[&odd]);
    let outside = shard_named::<NamedTensor>(&x, &mapping, &mesh()).unwrap();
    assert_eq!(outside.array().shards()[2].slice, vec![4..7]);
    let inside = named_jit(&mesh(), |x: NamedTensor| &x * 2.0).mapping(mapping).call(&x).unwrap();
    assert_eq!(inside.array().shards()[2].slice, vec![4..7]);
    assert!(inside.array().to_f64s().unwrap().iter().zip(x.array().to_f64s().unwrap()).all(|(a, b)| *a == 2.0 * b));
}

#[test]
fn questions_about_the_mesh() {
    let axis = Axis::new("batch", 30);
    let four = Mesh::linear("data", 4).unwrap();
    let grid = Mesh::grid(("data", 4), ("model", 2)).unwrap();
    let mapping = Mapping::new([("batch", "data")]);
    let both = Mapping::default().with("batch", &["data", "model"]);
    assert_eq!(physical_axis_name(&axis, &mapping), Some(&["data".to_string()][..]));
    assert_eq!(physical_axis_name(&Axis::new("embed", 4), &mapping), None);
    assert_eq!(physical_axis_size(&axis, &mapping, &four).unwrap(), Some(4));
    assert_eq!(physical_axis_size(&axis, &both, &grid).unwrap(), Some(8));
    assert_eq!(physical_axis_size(&Axis::new("embed", 4), &mapping, &four).unwrap(), None);
    assert!(
        physical_axis_size(&axis, &Mapping::new([("batch", "x")]), &four).unwrap_err().to_string().contains("\"x\"")
    );
    assert_eq!(round_axis_for_partitioning(&axis, &mapping, &four).unwrap().size(), 32);
    assert_eq!(round_axis_for_partitioning(&axis.resize(17), &both, &grid).unwrap().size(), 24);
    assert_eq!(round_axis_for_partitioning(&axis, &Mapping::default(), &four).unwrap().size(), 30);
    assert_eq!(sharding_for_axis(&[axis], &both, &grid).unwrap().num_shards(&grid), [8]);
}

#[test]
fn fsdp_stores_one_way_and_computes_another() {
    let (batch, embed, out) = axes();
    let step = |(w, x): (NamedTensor, NamedTensor)| {
        let loss = |w: NamedTensor| dot(&[&x, &w.auto_sharded()], &["embed"]).apply(|t| t.square()).mean_all();
        let slope = grad(loss, w.clone());
        &w - &(&slope * 0.1)
    };
    let arguments = (wave(&[&embed, &out]), wave(&[&batch, &embed]));
    let alone = jit(step).single_device().call(&arguments).unwrap();
    let f =
        fsdp(&mesh(), step, Mapping::new([("embed", "data"), ("batch", "model")]), Mapping::new([("batch", "data")]));
    let new = f.call(&arguments).unwrap();
    assert!(new.array().all_close(alone.array(), 1e-5));
    assert_eq!(new.array().shards()[2].slice, [2..4, 0..6]);
    assert!(f.plan(&arguments).unwrap().totals().contains_key("all-gather"));
}

/// Sizes of plain arrays are part of what a program is kept for.
#[test]
fn another_shape_is_another_program() {
    let f = named_jit(&mesh(), |x: (NamedTensor, Tensor)| &x.0 * 2.0).mapping(Mapping::new([("a", "data")]));
    for n in [4, 6] {
        let x = wave(&[&Axis::new("a", n)]);
        assert_eq!(f.call(&(x, Array::zeros([n], F32))).unwrap().array().shape(), [n]);
    }
}

/// One function under two mappings is two programs, also for a `jit` that knows nothing of mappings.
#[test]
fn a_jit_is_traced_again_under_another_mapping() {
    let (batch, embed, _) = axes();
    let x = wave(&[&batch, &embed]);
    let f = jit(|x: NamedTensor| (&x * 2.0).auto_sharded()).on(&mesh());
    let slice = |mapping: Mapping| axis_mapping(mapping, || f.call(&x)).unwrap().array().shards()[3].slice.clone();
    assert_eq!(slice(Mapping::new([("batch", "data")])), [4..8, 0..4]);
    assert_eq!(slice(Mapping::new([("embed", "model")])), [0..8, 2..4]);
    assert_eq!(f.call(&x).unwrap().array().shards()[3].slice, [0..8, 0..4]);
    // Merged, and the innermost counts.
    let both = || merged_axis_mapping(Mapping::new([("embed", "model")]), || f.call(&x)).unwrap();
    let merged = axis_mapping(Mapping::new([("batch", "data")]), both);
    assert_eq!(merged.array().shards()[3].slice, [4..8, 2..4]);
    assert_eq!(f.cached(), 4);
}

#[test]
fn named_jit_takes_the_mapping_in_scope() {
    let (batch, embed, out) = axes();
    let arguments = (wave(&[&batch, &embed]), wave(&[&embed, &out]));
    let f = named_jit(&mesh(), |(x, w): (NamedTensor, NamedTensor)| dot(&[&x, &w], &["embed"]));
    let placed = |mapping: Mapping| {
        let (y, lowered) = axis_mapping(mapping, || (f.call(&arguments).unwrap(), f.lower(&arguments).unwrap().text()));
        (y.array().shards()[3].slice.clone(), lowered)
    };
    let (slice, text) = placed(Mapping::new([("batch", "data"), ("out", "model")]));
    assert_eq!(slice, [4..8, 3..6]);
    assert!(text.contains(r#"%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}"#), "{text}");
    assert_eq!(placed(Mapping::new([("batch", "model")])).0, [4..8, 0..6]);
    // Without one, and with one of its own, the scope does not count.
    assert_eq!(f.call(&arguments).unwrap().array().shards()[3].slice, [0..8, 0..6]);
    let own = named_jit(&mesh(), |(x, w): (NamedTensor, NamedTensor)| dot(&[&x, &w], &["embed"]));
    let own = own.mapping(Mapping::new([("out", "data")]));
    let y = axis_mapping(Mapping::new([("batch", "model")]), || own.call(&arguments)).unwrap();
    assert_eq!(y.array().shards()[3].slice, [0..8, 3..6]);
}
