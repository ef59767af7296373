//! Specs: open dimensions, priorities, any rank, presets; arrays born in blocks; pictures.

use meshwork::prelude::*;
use meshwork::{Reduction, Reference};

fn shown(p: P, rank: usize) -> String {
    let mesh = Mesh::new([("x", 2), ("y", 2), ("z", 2)]).unwrap();
    match p.sharding("mesh".into(), &mesh, rank) {
        Ok(sharding) => sharding.to_string(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn specs_in_the_words_of_shardy() {
    assert_eq!(shown(P![], 2), "<@mesh, [{}, {}]>");
    assert_eq!(shown(P![["x", "y"], "z"], 2), r#"<@mesh, [{"x", "y"}, {"z"}]>"#);
    assert_eq!(shown(P![dim("x").open(), _, dim([]).open()], 3), r#"<@mesh, [{"x", ?}, {}, {?}]>"#);
    assert_eq!(shown(P![dim("x").priority(1), "y"], 2), r#"<@mesh, [{"x"}p1, {"y"}]>"#);
    assert_eq!(shown(P!["x"].open().priority(2).copies_over(&["z"]), 1), r#"<@mesh, [{"x", ?}p2], replicated={"z"}>"#);
}

#[test]
fn specs_for_any_rank() {
    for rank in 1..4 {
        let last = shown(P![.., "x"], rank);
        assert_eq!(last, format!("<@mesh, [{}{}]>", "{}, ".repeat(rank - 1), r#"{"x"}"#));
    }
    assert_eq!(shown(P!["x", .., "y"], 4), r#"<@mesh, [{"x"}, {}, {}, {"y"}]>"#);
    assert_eq!(shown(P!["x", .., "y"], 2), r#"<@mesh, [{"x"}, {"y"}]>"#);
    assert!(shown(P!["x", .., "y"], 1).contains("rank"), "{}", shown(P!["x", .., "y"], 1));
    assert_eq!(P!["x", .., dim("y").open()].to_string(), r#"P!["x", .., dim("y").open()]"#);
    assert_eq!(P!["x"].copies_over(&["y"]).to_string(), r#"P!["x"].copies_over(&["y"])"#);
}

#[test]
fn presets() {
    assert_eq!(shown(P::replicated(), 2), "<@mesh, [{}, {}]>");
    assert_eq!(shown(P::data_parallel("x"), 3), r#"<@mesh, [{"x"}, {}, {}]>"#);
    assert_eq!(shown(P::model_parallel("x"), 3), r#"<@mesh, [{}, {}, {"x"}]>"#);
    assert_eq!(shown(P::column_parallel("x"), 2), r#"<@mesh, [{}, {"x"}]>"#);
    // The bias of a column-parallel layer goes with its outputs.
    assert_eq!(shown(P::column_parallel("x"), 1), r#"<@mesh, [{"x"}]>"#);
    assert_eq!(shown(P::row_parallel("x"), 2), r#"<@mesh, [{"x"}, {}]>"#);
    assert_eq!(shown(P::row_parallel("x"), 3), r#"<@mesh, [{}, {"x"}, {}]>"#);
}

/// The two matrices of a feed-forward block: one sum, and nothing else, is exchanged.
#[test]
fn a_column_parallel_layer_then_a_row_parallel_one() {
    let mesh = Mesh::linear("m", 4).unwrap();
    let f = jit(|x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor| (x.matmul(&w1) + b1).relu().matmul(&w2)).on(&mesh);
    let (column, row) = (P::column_parallel("m"), P::row_parallel("m"));
    let f = f.in_shardings([P::replicated(), column.clone(), column, row]);
    let args = [[8, 4], [4, 16], [16, 0], [16, 4]]
        .map(|s| Array::zeros(s.into_iter().filter(|&n| n > 0).collect::<Vec<i64>>(), F32));
    let plan = f.plan((&args[0], &args[1], &args[2], &args[3])).unwrap();
    assert_eq!(plan.totals().keys().copied().collect::<Vec<_>>(), ["all-reduce"]);
    assert_eq!(plan.totals()["all-reduce"].count, 1);
}

#[test]
fn meshes_along_physical_links() {
    use meshwork::{Split, Topology};
    let mesh = Topology::torus([2, 2, 4]).mesh(&[("data", 4), ("model", 4)], Split::Never).unwrap();
    let f = jit(|x: Tensor| x.roll(1, 0)).on(&mesh).in_shardings([P!["model"]]);
    let x = Array::from_fn([8], |i| i[0] as f32);
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn arrays_born_in_blocks() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let mut asked = vec![];
    let x = Array::from_blocks([5, 4], &mesh, &P!["x"], |slice| {
        asked.push(slice.to_vec());
        let (at, rows) = (slice[0].start, slice[0].end - slice[0].start);
        Array::from_fn([rows, 4], |i| (10 * (at + i[0]) + i[1]) as i32)
    });
    let x = x.unwrap();
    assert_eq!(asked, [[0..3, 0..4], [3..5, 0..4]]);
    assert_eq!(x.to_vec::<i32>().unwrap()[16..], [40, 41, 42, 43]);
    assert_eq!(x.shard_data(2).unwrap().shape(), [2, 4]);
    let error = Array::from_blocks([4], &mesh, &P!["x"], |_| Array::zeros([1], F32)).unwrap_err().to_string();
    assert!(error.contains("piece 0 has shape [1]; device 0 holds [2]"), "{error}");
}

#[test]
fn pictures_of_arrays() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let x = Array::zeros([2, 3, 4], F32).shard(&mesh, P!["x", _, "y"]).unwrap();
    let want = "[0..1]\n     0..2 2..4\n0..3 0    1   \n[1..2]\n     0..2 2..4\n0..3 2    3   \n";
    assert_eq!(x.picture(), want);
    assert!(x.picture_svg().contains("f32[2, 3, 4] on"));
    assert!(Array::zeros([2], F32).picture_svg().contains("one device"));
}

/// Parts are given, taken and returned as the devices hold them; read as one array they are combined.
#[test]
fn arrays_in_parts() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let (sum, least) = (P![].unreduced(&["x"]), P!["y"].parts(Reduction::Min, &["x"]));
    assert_eq!(shown(P!["x"].unreduced(&["z", "y"]), 1), r#"<@mesh, [{"x"}], unreduced={"y", "z"}>"#);
    assert_eq!(least.to_string(), r#"P!["y"].parts(Reduction::Min, &["x"])"#);
    let values = [1.0f32, -2.0, 3.0, -4.0];
    let whole = Array::from(values);
    let x = whole.clone().shard(&mesh, &sum).unwrap();
    assert_eq!(x.shard_data(1).unwrap().to_vec::<f32>().unwrap(), values);
    assert_eq!(x.shard_data(2).unwrap().to_vec::<f32>().unwrap(), [0.0; 4]);
    // Devices 0 and 1 have one part, 2 and 3 the other.
    let piece = |first: f32| Array::from_fn([4], |i| first + i[0] as f32);
    let given = Array::from_shards([4], &mesh, &sum, &[piece(1.0), piece(1.0), piece(10.0), piece(10.0)]).unwrap();
    let want: Vec<f32> = (0..4).map(|i| 11.0 + 2.0 * i as f32).collect();
    assert_eq!(given.to_vec::<f32>().unwrap(), want);
    for engine in ["cpu", "evaluator"] {
        let double = |x: Tensor| &x + &x;
        let f = jit(double).on(&mesh).in_shardings([sum.clone()]).out_shardings([sum.clone()]);
        let f = if engine == "cpu" { f } else { f.engine(Reference) };
        let out = f.call(&given).unwrap();
        assert_eq!(out.to_vec::<f32>().unwrap(), want.iter().map(|v| 2.0 * v).collect::<Vec<_>>());
        let plan = f.plan(&given).unwrap();
        assert_eq!(plan.arguments[0].sharding.unreduced.len(), 1);
        assert_eq!(plan.results[0].sharding.unreduced.len(), 1);
        let f = jit(|x: Tensor| x.sin()).on(&mesh).in_shardings([sum.clone()]).out_shardings([least.clone()]);
        let f = if engine == "cpu" { f } else { f.engine(Reference) };
        let out = f.call(&x).unwrap();
        assert!(out.all_close(&Array::from(values.map(f32::sin)), 1e-6));
        assert_eq!(out.shard_data(2).unwrap().to_vec::<f32>().unwrap(), [f32::INFINITY; 2]);
        let back = jit(|x: Tensor| x.exp()).on(&mesh).in_shardings([least.clone()]).call(&out).unwrap();
        assert!(back.all_close(&Array::from(values.map(|v| v.sin().exp())), 1e-6));
    }
    assert!(x.holders().unwrap_err().to_string().contains("in parts"));
}
