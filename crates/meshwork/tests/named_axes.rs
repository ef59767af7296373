//! Named axes: operations, mappings, scopes, and the mistakes that named axes elsewhere make.

use meshwork::named::{
    Axis, Mapping, NamedTensor, auto_sharded, axis_mapping, choose, concatenate, current_mapping, dot, fsdp,
    merged_axis_mapping, named_jit, on_mesh, physical_axis_name, physical_axis_size, round_axis_for_partitioning,
    shard, shard_named, sharded, sharding_for_axis, stack, vmap_axis,
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

/// The same elements as plain operations, on one device and split by names.
#[test]
fn more_operations_by_name() {
    let (batch, embed, _) = axes();
    type Both = (NamedTensor, Tensor);
    let f = |(x, y): (NamedTensor, NamedTensor)| {
        let (a, b) = (x.array().clone(), y.array().expand_dims(0));
        let of = |named: NamedTensor, plain: Tensor| -> Both { (named, plain) };
        vec![
            of(-&x, -&a),
            of(x.gt(&y).to(F32), a.gt(&b).to(F32)),
            of(x.le(0.25).to(F32), a.le(0.25).to(F32)),
            of((&x.gt(0.0) & &!&y.gt(0.0)).to(F32), (a.gt(0.0) & !b.gt(0.0)).to(F32)),
            of(choose(&x.gt(&y), &x, 7), select(a.gt(&b), &a, 7)),
            of(x.maximum(&y).pow(2.0), a.maximum(&b).pow(2.0)),
            of(2.0 * &x % 0.5, 2.0 * &a % 0.5),
            of(1 - &x / 3, 1 - &a / 3),
            of(x.clip(-0.1, &y), a.maximum(-0.1).minimum(&b)),
            of(x.exp().log1p().tanh().abs().sqrt(), a.exp().log1p().tanh().abs().sqrt()),
            of(x.slice("batch", 1..6), a.slice(s![1..6])),
            of(x.index("embed", -1), a.slice(s![.., -1])),
            of(x.updated_slice("embed", 1..3, &x.slice("embed", 0..2)), a.at(s![.., 1..3]).set(a.slice(s![.., 0..2]))),
            of(
                concatenate("batch", &[&x, &x.slice("batch", ..3)]),
                meshwork::concatenate(&[a.clone(), a.slice(s![..3])], 0),
            ),
            of(
                stack(&Axis::new("two", 2), &[&x, &x.rearrange(&["embed", "batch"])]),
                meshwork::stack(&[a.clone(), a.clone()], 0),
            ),
            of(x.argmax("embed").to(F32), a.argmax(1).to(F32)),
            of(x.argmin("batch").to(F32), a.argmin(0).to(F32)),
            of(x.sort("batch"), a.sort(0)),
            of(x.argsort("embed").to(F32), a.argsort(1).to(F32)),
            of(x.cumsum("batch"), a.cumsum(0)),
            of(x.min(&["batch"]), a.min(&[0])),
            of(x.std(&["embed"]), a.std(&[1])),
            of(x.gt(9.0).any(&["embed"]).to(F32), a.gt(9.0).any(&[1]).to(F32)),
            of(x.logsumexp("embed"), a.logsumexp(1)),
            of(x.roll("batch", 3), a.roll(3, 0)),
            of(x.flip("embed"), a.flip(&[1])),
            of(x.flatten_axes(&["embed", "batch"], "all"), a.t().flatten()),
            of(x.top_k("batch", &Axis::new("k", 2)).0, a.t().top_k(2).0),
            of(x.argmax("embed").one_hot(&embed_of(&x), F32), a.argmax(1).one_hot(4, F32)),
            of(x.split("embed", &[1, 3]).remove(1), a.slice(s![.., 1..])),
            of(x.unbind("embed").remove(2), a.slice(s![.., 2])),
        ]
    };
    let args = (wave(&[&batch, &embed]), wave(&[&embed]));
    let alone = jit(f).call(&args).unwrap();
    for mapping in [Mapping::default(), Mapping::new([("batch", "data"), ("embed", "model")])] {
        let split = named_jit(&mesh(), f).mapping(mapping.clone()).call(&args).unwrap();
        for (i, (one, many)) in alone.iter().zip(&split).enumerate() {
            assert!(one.0.array().all_close(&one.1, 1e-6), "operation {i}");
            assert!(one.0.array().all_close(many.0.array(), 1e-5), "operation {i} under {mapping:?}");
            assert_eq!(names(&one.0), names(&many.0));
        }
    }
    let named: Vec<Vec<&str>> = alone.iter().map(|(x, _)| names(x)).collect();
    assert_eq!(
        (&named[0][..], &named[11][..], &named[14][..]),
        (&["batch", "embed"][..], &["batch"][..], &["two", "batch", "embed"][..])
    );
    assert_eq!((&named[26][..], &named[27][..]), (&["all"][..], &["embed", "k"][..]));
}

fn embed_of(x: &NamedTensor) -> Axis {
    x.find_axis("embed").unwrap().alias("class")
}

#[test]
fn misused_parts_are_reported() {
    let (batch, embed, _) = axes();
    let x = wave(&[&batch, &embed]);
    let error = |f: fn(NamedTensor) -> NamedTensor| jit(f).call(&x).unwrap_err().to_string();
    assert!(error(|x| x.slice("batch", 3)).contains("is taken by index"));
    assert!(error(|x| x.index("batch", 1..2)).contains("slice or take"));
    assert!(error(|x| x.split("batch", &[3, 4]).remove(0)).contains("the sizes [3, 4] do not cut batch=8"));
    assert!(error(|x| stack(&Axis::new("two", 2), &[&x])).contains("1 tensors along two=2"));
    assert!(error(|x| x.top_k("embed", &Axis::new("k", 9)).0).contains("k=9 is longer than embed=4"));
    assert!(error(|x| choose(&x, 1.0, &x)).contains("compare first"));
    assert!(error(|x| x.argmax("embd")).contains("there is no axis \"embd\""));
}

/// One word inside and outside programs, for values and for trees, by argument or by what is in scope.
#[test]
fn shard_inside_and_outside() {
    let (batch, embed, _) = axes();
    let mapping = Mapping::new([("batch", "data")]);
    let tree = || (wave(&[&batch, &embed]), vec![wave(&[&batch])], Array::zeros([3], F32));
    let placed = |(x, y, plain): &(NamedTensor<Array>, Vec<NamedTensor<Array>>, Array)| {
        (
            x.array().shards().len(),
            y[0].array().placement().map(|p| p.sharding.num_shards(&p.mesh)),
            plain.placement().is_some(),
        )
    };
    let wanted = (4, Some(vec![2]), false);
    // Outside, by argument and by scope.
    let by_argument = on_mesh(&mesh(), || shard(&tree(), &mapping)).unwrap();
    let by_scope = || (sharded(&tree()).unwrap(), auto_sharded(&tree()).unwrap());
    let (scoped, auto) = on_mesh(&mesh(), || axis_mapping(mapping.clone(), by_scope));
    for got in [by_argument, scoped, auto] {
        assert_eq!(placed(&got), wanted);
    }
    // Without a mesh or a mapping: an error, or nothing where that is fine.
    let error = shard(&tree(), &mapping).unwrap_err().to_string();
    assert_eq!(error, "shard: there is no mesh in scope to map named axes to; use on_mesh");
    let error = on_mesh(&mesh(), || sharded(&tree())).unwrap_err().to_string();
    assert!(error.starts_with("sharded: there is no mapping in scope"), "{error}");
    assert!(auto_sharded(&tree()).unwrap().0.array().placement().is_none());
    assert!(axis_mapping(mapping.clone(), || auto_sharded(&tree())).unwrap().0.array().placement().is_none());
    // Inside: the mesh is that of the program, or the one in scope.
    type Inner = (NamedTensor, Vec<NamedTensor>, Tensor);
    let own = mapping.clone();
    let f = jit(move |t: Inner| shard(&t, &own));
    assert_eq!(placed(&on_mesh(&mesh(), || f.call(&tree())).unwrap()), (4, Some(vec![2]), true));
    assert!(f.call(&tree()).unwrap_err().to_string().contains("there is no mesh to map named axes to"));
    let f = jit(|t: Inner| auto_sharded(&t));
    let got = on_mesh(&mesh(), || axis_mapping(mapping.clone(), || f.call(&tree()))).unwrap();
    assert_eq!(got.0.array().shards()[3].slice, [4..8, 0..4]);
    assert!(f.call(&tree()).unwrap().0.array().placement().is_none());
    // An inner mesh wins, and a mesh of one's own.
    let line = Mesh::linear("data", 2).unwrap();
    let inner = on_mesh(&mesh(), || on_mesh(&line, || shard(&tree(), &mapping))).unwrap();
    assert_eq!(inner.0.array().shards().len(), 2);
    let own = jit(|t: NamedTensor| auto_sharded(&t)).on(&line);
    let got = on_mesh(&mesh(), || axis_mapping(mapping, || own.call(&tree().0))).unwrap();
    assert_eq!(got.array().shards().len(), 2);
}

/// A function with mappings has what a `jit` has.
#[test]
fn named_jit_donates_explains_and_keeps_contracts() {
    let (batch, embed, out) = axes();
    let step = |(w, x): (NamedTensor, NamedTensor)| &w - &(&dot(&[&x, &dot(&[&x, &w], &["embed"])], &["batch"]) * 0.1);
    let mapping = Mapping::new([("batch", "data"), ("out", "model")]);
    let args = || {
        let args = (wave(&[&embed, &out]), wave(&[&batch, &embed]));
        on_mesh(&mesh(), || shard(&args, &Mapping::new([("batch", "data"), ("out", "model")]))).unwrap()
    };
    let f = || named_jit(&mesh(), step).mapping(mapping.clone());
    let text = f().explain(&args()).unwrap();
    assert!(text.contains("all-reduce") && text.contains("named_axes.rs:"), "{text}");
    let why = f().why(&args(), "result").unwrap();
    assert!(why.contains(r#"split by "model""#), "{why}");
    assert!(f().compile(&args()).unwrap().plan().unwrap().totals().contains_key("all-reduce"));
    assert!(f().profile(&args()).unwrap().results.array().all_close(f().call(&args()).unwrap().array(), 1e-6));
    let none = Contract { allowed: Some(vec![]), ..Contract::default() };
    assert!(f().contract(none.clone()).call(&args()).unwrap_err().to_string().contains("all-reduce"));
    // Options may be given in any order.
    let before = named_jit(&mesh(), step).contract(none).mapping(mapping.clone());
    assert!(before.call(&args()).is_err());
    let given = args();
    let donating = f().donate([0]);
    assert!(donating.lower(&given).unwrap().text().contains("tf.aliasing_output = 0"));
    let new = donating.call(&given).unwrap();
    assert!(new.array().all_close(f().call(&args()).unwrap().array(), 1e-6));
    assert!(given.0.array().to_vec::<f32>().is_err() && given.1.array().to_vec::<f32>().is_ok());
    let error = f().donate([2]).call(&args()).unwrap_err().to_string();
    assert!(error.contains("donate names argument 2, but there are 2"), "{error}");
}
