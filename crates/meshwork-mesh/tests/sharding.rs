//! Making shardings and asking about them.

mod common;

use common::placed;
use meshwork_mesh::verify::{verify_divisible, verify_non_shaped, verify_not_manual};
use meshwork_mesh::{Mesh, MeshRef, Reduction, Sharding, parse_sharding, verify_sharding};
use proptest::prelude::*;

fn mesh() -> Mesh {
    Mesh::new([("x", 2), ("y", 4), ("z", 3)]).unwrap()
}

#[test]
fn constructors_print_as_shardy() {
    let cases = [
        (Sharding::replicated("m", 2), "<@m, [{}, {}]>"),
        (Sharding::fully_open("m", 2), "<@m, [{?}, {?}]>"),
        (Sharding::fully_closed("m", 0), "<@m, []>"),
        (Sharding::data_parallel("m", 3, "x").unwrap(), r#"<@m, [{"x"}, {}, {}]>"#),
        (Sharding::model_parallel("m", 3, 1, "x").unwrap(), r#"<@m, [{}, {"x"}, {}]>"#),
        (Sharding::column_parallel("m", 2, "x").unwrap(), r#"<@m, [{}, {"x"}]>"#),
        (Sharding::row_parallel("m", 3, "x").unwrap(), r#"<@m, [{}, {"x"}, {}]>"#),
        (
            Sharding::on_dims("m", &[(-1, &["y", "z"]), (0, &["x"])], 2).unwrap().opened(),
            r#"<@m, [{"x", ?}, {"y", "z", ?}]>"#,
        ),
        (
            Sharding::replicated(Mesh::linear("x", 2).unwrap(), 0).with_replicated(["x"]),
            r#"<mesh<["x"=2]>, [], replicated={"x"}>"#,
        ),
        (Sharding::replicated("m", 1).with_unreduced(Reduction::Max, ["x"]), r#"<@m, [{}], unreduced=max{"x"}>"#),
    ];
    for (sharding, text) in cases {
        assert_eq!(sharding.to_string(), text);
    }
}

#[test]
fn constructors_reject_bad_dimensions() {
    let message = |result: Result<Sharding, _>| result.map_err(|e: meshwork_mesh::ShardingError| e.to_string());
    assert_eq!(
        message(Sharding::data_parallel("m", 0, "x")),
        Err("dimension 0 is out of range for rank 0; a scalar has no dimensions".into())
    );
    assert_eq!(
        message(Sharding::row_parallel("m", 1, "x")),
        Err("dimension -2 is out of range for rank 1; use -1..1".into())
    );
    assert_eq!(
        message(Sharding::on_dims("m", &[(1, &["x"]), (-1, &["y"])], 2)),
        Err("dimension -1 is given twice; list all of its axes in one entry".into())
    );
}

#[test]
fn queries() {
    let sharding =
        parse_sharding(r#"<@m, [{"x", "y":(1)2}, {}, {?}], replicated={"z"}, unreduced={"y":(2)2}>"#).unwrap();
    let mesh = mesh();
    assert_eq!(sharding.num_shards(&mesh), [4, 1, 1]);
    assert!(!sharding.is_fully_replicated() && !sharding.is_fully_closed() && !sharding.has_no_axes());
    assert!(sharding.uses(&"y".into()) && sharding.is_bound("z") && !sharding.is_bound("w"));
    assert_eq!(sharding.axes().count(), 4);
    assert_eq!(sharding.free_axes(&mesh), Some(vec![]));
    assert_eq!(Sharding::replicated("m", 1).free_axes(&mesh).unwrap().len(), 3);
    assert_eq!(sharding.local_shape(&mesh, &[9, 0, 7]).unwrap(), [3, 0, 7]);
    assert_eq!(sharding.global_shape(&mesh, &[3, 0, 7]).unwrap(), [12, 0, 7]);
    assert_eq!(sharding.local_shape(&mesh, &[i64::MIN, 1, 1]).unwrap(), [i64::MIN, 1, 1]);
    assert!(sharding.is_even(&mesh, &[8, 5, 5]) && !sharding.is_even(&mesh, &[9, 5, 5]));
    assert_eq!(
        sharding.local_shape(&mesh, &[1]).unwrap_err().to_string(),
        "sharding doesn't match tensor rank: 3 != 1; write one {...} per dimension"
    );
}

#[test]
fn equivalent_up_to_openness_and_replicated_axes() {
    let parse = |text| parse_sharding(text).unwrap();
    let base = parse(r#"<@m, [{"x"}, {}]>"#);
    assert!(base.is_equivalent(&parse(r#"<@m, [{"x", ?}p2, {?}], replicated={"y"}>"#)));
    assert!(!base.is_equivalent(&parse(r#"<@n, [{"x"}, {}]>"#)));
    assert!(!base.is_equivalent(&parse(r#"<@m, [{"x"}, {}], unreduced={"y"}>"#)));
    assert!(parse("<@m, [{}]>").is_equivalent(&parse("<@n, [{?}]>")));
    let reduced = |kind| Sharding::replicated("m", 1).with_unreduced(kind, ["x"]);
    assert!(!reduced(Reduction::Max).is_equivalent(&reduced(Reduction::Min)));
}

#[test]
fn mesh_is_resolved_inline_or_by_name() {
    let known = mesh();
    let by_name = Sharding::replicated("m", 1);
    assert_eq!(by_name.resolve_mesh(|_| Some(&known)), Ok(&known));
    assert_eq!(by_name.resolve_mesh(|_| None).unwrap_err().to_string(), "unknown mesh: @m; define it with sdy.mesh");
    let inline = Sharding::replicated(known.clone(), 1);
    assert_eq!(inline.resolve_mesh(|_| None), Ok(&known));
    assert!(matches!(inline.mesh, MeshRef::Inline(_)));
}

/// Sharding, mesh, rank, message: every rule once and more, with Shardy's wording.
#[test]
fn messages_of_verification() {
    let mesh = r#"<["c"=2, "a"=8, "b"=2, "d"=6]>"#;
    let maximal = "<[], device_ids=[0]>";
    let cases = [
        (
            r#"<@m, [{}, {"b"}], replicated={"a"}>"#,
            mesh,
            "sharding doesn't match tensor rank: 2 != 1; write one {...} per dimension",
        ),
        (
            r#"<@m, [{}p3]>"#,
            mesh,
            "dim 0 is empty and closed but has a priority; drop p3, or open the dimension with {?}",
        ),
        (r#"<@m, [{"e"}]>"#, mesh, r#"unknown axis name: "e"; the mesh is <["c"=2, "a"=8, "b"=2, "d"=6]>"#),
        (
            r#"<@m, [{}], replicated={"e"}>"#,
            mesh,
            r#"unknown axis name: "e"; the mesh is <["c"=2, "a"=8, "b"=2, "d"=6]>"#,
        ),
        (r#"<@m, [{"e":(2)2}]>"#, mesh, r#"unknown axis name: "e"; the mesh is <["c"=2, "a"=8, "b"=2, "d"=6]>"#),
        (r#"<@m, [{"a", "a"}]>"#, mesh, r#"duplicate axis ref: "a"; an axis can be used once in a sharding"#),
        (
            r#"<@m, [{"a"}], replicated={"a"}>"#,
            mesh,
            r#"duplicate axis ref: "a"; an axis can be used once in a sharding"#,
        ),
        (
            r#"<@m, [{}], replicated={"a"}, unreduced={"a"}>"#,
            mesh,
            r#"duplicate axis ref: "a"; an axis can be used once in a sharding"#,
        ),
        (
            r#"<@m, [{"a":(2)2}], unreduced={"a":(2)2}>"#,
            mesh,
            r#"duplicate axis ref: "a":(2)2; an axis can be used once in a sharding"#,
        ),
        (
            r#"<@m, [{}], replicated={"a", "b", "c"}>"#,
            mesh,
            r#"replicated axes are not ordered w.r.t. mesh; the mesh is <["c"=2, "a"=8, "b"=2, "d"=6]>"#,
        ),
        (
            r#"<@m, [{}], unreduced={"a":(4)2, "a":(1)2, "b"}>"#,
            mesh,
            r#"unreduced axes are not ordered w.r.t. mesh; the mesh is <["c"=2, "a"=8, "b"=2, "d"=6]>"#,
        ),
        (
            r#"<@m, [{"a"}], replicated={"a":(2)2}>"#,
            mesh,
            r#"both sub-axis and full-axis are used for axis name: "a"; split the full axis into sub-axes"#,
        ),
        (
            r#"<@m, [{"a":(2)2, "a":(4)4}]>"#,
            mesh,
            r#"two consecutive sub-axes can be merged: "a":(2)2, "a":(4)4; write their product"#,
        ),
        (r#"<@m, [{"a":(-1)2}]>"#, mesh, r#"sub-axis pre-size must be at least 1: "a":(-1)2"#),
        (r#"<@m, [{"a":(2)1}]>"#, mesh, r#"sub-axis sizes must be greater than 1: "a":(2)1"#),
        (
            r#"<@m, [{"a":(3)2}]>"#,
            mesh,
            r#"sub-axis next pre-size 6 doesn't divide the size of the full axis 8: "a":(3)2; (pre-size)size must multiply to a divisor of 8"#,
        ),
        (
            r#"<@m, [{"a":(4)4}]>"#,
            mesh,
            r#"sub-axis next pre-size 16 doesn't divide the size of the full axis 8: "a":(4)4; (pre-size)size must multiply to a divisor of 8"#,
        ),
        (
            r#"<@m, [{"a":(1)8}]>"#,
            mesh,
            r#"sub-axis size is equal to the full axis size: "a":(1)8; write the axis without (..)"#,
        ),
        (
            r#"<@m, [{"a":(2)4}], replicated={"a":(1)4}>"#,
            mesh,
            r#"overlapping sub-axes: "a":(1)4, "a":(2)4; an axis can be used once in a sharding"#,
        ),
        (
            r#"<@m, [{"d":(1)2}], replicated={"d":(3)2}>"#,
            mesh,
            r#"sub-axes "d":(1)2 and "d":(3)2 cannot be used together: no reshape of the axis has both as dimensions"#,
        ),
        (
            r#"<@m, [{}]>"#,
            maximal,
            "a maximal sharding can only have a sharding with rank 0 and no replicated or unreduced axes; got <@m, [{}]>",
        ),
        (
            r#"<@m, [], unreduced={"a"}>"#,
            maximal,
            r#"a maximal sharding can only have a sharding with rank 0 and no replicated or unreduced axes; got <@m, [], unreduced={"a"}>"#,
        ),
    ];
    for (sharding, mesh, message) in cases {
        let (sharding, mesh) = (parse_sharding(sharding).unwrap(), mesh.parse().unwrap());
        let error = verify_sharding(&sharding, &mesh, Some(1)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let mut negative = Sharding::fully_open("m", 1);
    negative.dims[0].priority = Some(-1);
    let error = verify_sharding(&negative, &mesh.parse().unwrap(), None).unwrap_err();
    assert_eq!(error.to_string(), "dim 0 has a negative priority; got -1, 0 is the highest");
}

#[test]
fn valid_shardings_pass() {
    let cases = [
        (r#"<@m, [{"a":(1)2, "b", "a":(2)2}, {}]>"#, r#"<["a"=4, "b"=2]>"#),
        (r#"<@m, [{"a":(2)2, "a":(1)2}, {?}p0]>"#, r#"<["a"=4, "b"=2]>"#),
        (r#"<@m, [{"a"}p0, {"b"}p1]>"#, r#"<["a"=4, "b"=2]>"#),
        ("<@m, []>", "<[], device_ids=[3]>"),
        ("<@m, [{?}, {}]>", "<[]>"),
    ];
    for (sharding, mesh) in cases {
        let (sharding, mesh) = (parse_sharding(sharding).unwrap(), mesh.parse().unwrap());
        assert_eq!(verify_sharding(&sharding, &mesh, None), Ok(()), "{sharding}");
    }
}

#[test]
fn tokens_manual_axes_and_divisibility() {
    let mesh = mesh();
    let sharding = Sharding::data_parallel("m", 1, "y").unwrap();
    assert_eq!(
        verify_non_shaped(&sharding, &mesh, "!stablehlo.token").unwrap_err().to_string(),
        "non-shaped tensors can only have a sharding with rank 0 and no replicated or unreduced axes. \
         type: !stablehlo.token, sharding: #sdy.sharding<@m, [{\"y\"}]>"
    );
    assert_eq!(verify_non_shaped(&Sharding::replicated("m", 0), &mesh, "!stablehlo.token"), Ok(()));
    assert_eq!(
        verify_not_manual(&sharding, &["x", "y"]).unwrap_err().to_string(),
        "operates on axis \"y\" which is already bound by a parent sdy.manual_computation op"
    );
    assert_eq!(verify_not_manual(&sharding, &["x"]), Ok(()));
    assert_eq!(
        verify_divisible(&sharding, &mesh, &[102]).unwrap_err().to_string(),
        "dim 0 with size 102 is not divisible by its sharded size 4"
    );
    assert_eq!(verify_divisible(&sharding, &mesh, &[100]), Ok(()));
}

proptest! {
    #[test]
    fn generated_shardings_are_valid((mesh, sharding, shape) in placed()) {
        prop_assert_eq!(verify_sharding(&sharding, &mesh, Some(shape.len())), Ok(()));
    }

    #[test]
    fn free_axes_and_used_axes_make_the_mesh((mesh, sharding, _) in placed()) {
        let free = sharding.free_axes(&mesh).unwrap();
        prop_assert!(free.iter().all(|axis| !sharding.uses(axis)));
        let all: i64 = sharding.axes().chain(&free).map(|axis| axis.size(&mesh)).product();
        prop_assert_eq!(all, mesh.device_count());
    }
}
