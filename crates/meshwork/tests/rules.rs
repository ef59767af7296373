//! Rules over trees: choices, composition, the linter, and the mistakes that rules elsewhere make.

use std::collections::BTreeMap;

use meshwork::prelude::*;
use meshwork::rules::{
    FsdpRule, Leaf, MeshHelper, RuleError, ShardingRule, TreePathRule, Unmatched, constrain, gather_tree, lint,
    match_sharding_rule, shard_tree,
};

#[derive(Clone, Debug, Tree)]
struct Block<T = Tensor> {
    q: T,
    w1: T,
    w2: T,
    norm: T,
}

#[derive(Clone, Debug, Tree)]
struct Model<T = Tensor> {
    embed: T,
    blocks: Vec<Block<T>>,
    scale: T,
}

fn model() -> Model<Array> {
    let block = || Block {
        q: Array::zeros([16, 16], F32),
        w1: Array::zeros([16, 64], F32),
        w2: Array::zeros([64, 16], F32),
        norm: Array::zeros([16], F32),
    };
    Model { embed: Array::zeros([48, 16], F32), blocks: vec![block(), block()], scale: Array::scalar(1.0f32) }
}

fn megatron() -> TreePathRule {
    TreePathRule::new([("embed$", P!["tp"]), ("(q|w1)$", P![_, "tp"]), ("w2$", P!["tp"]), ("norm$", P![])]).unwrap()
}

fn spec(rule: impl Into<Rule>, path: &str, shape: &[i64], mesh: &Mesh) -> Result<String, RuleError> {
    let found = rule.into().spec(&Leaf { path, shape, dtype: F32 }, mesh)?;
    Ok(found.map_or("free".into(), |p| p.to_string()))
}

#[test]
fn regex_path_rules() {
    let mesh = Mesh::grid(("data", 2), ("tp", 4)).unwrap();
    let found = match_sharding_rule::<Model>(&megatron().into(), &model(), &mesh).unwrap();
    let text: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(text[0], r#"embed f32[48, 16]: P!["tp"], 768 bytes per device"#);
    assert_eq!(text[2], r#"blocks/0/w1 f32[16, 64]: P![_, "tp"], 1024 bytes per device"#);
    assert_eq!(text[9], r#"scale f32[]: P![], 4 bytes per device"#);
    let wrong = TreePathRule::new([("a(", P![])]).unwrap_err();
    assert!(wrong.to_string().starts_with("the pattern \"a(\" of rule 0 is not a regular expression"), "{wrong}");
}

#[test]
fn size_threshold_fsdp_rule() {
    let mesh = Mesh::linear("fsdp", 4).unwrap();
    let rule = FsdpRule::new("fsdp").least(16);
    // From the largest dimension down, equals from the first.
    assert_eq!(spec(rule.clone(), "", &[12, 8], &mesh).unwrap(), r#"P!["fsdp"]"#);
    assert_eq!(spec(rule.clone(), "", &[8, 8], &mesh).unwrap(), r#"P!["fsdp"]"#);
    assert_eq!(spec(rule.clone(), "", &[8, 30], &mesh).unwrap(), r#"P!["fsdp"]"#);
    // Small, empty and scalar ones are copied.
    for small in [&[4, 3][..], &[0, 64], &[]] {
        assert_eq!(spec(rule.clone(), "", small, &mesh).unwrap(), "P![]");
    }
    assert_eq!(FsdpRule::new("fsdp").least_elements(), 1 << 20);
    // More parts than the axis has: a choice that also fits a larger mesh.
    assert_eq!(spec(rule.clone().parts(8), "", &[12, 8], &mesh).unwrap(), r#"P![_, "fsdp"]"#);
    let error = spec(rule.parts(6), "", &[12, 8], &mesh).unwrap_err();
    assert_eq!(error, RuleError::Parts { axis: "fsdp".into(), parts: 6, size: 4 });
}

#[test]
fn fsdp_never_picks_a_dimension_that_does_not_divide() {
    let mesh = Mesh::linear("fsdp", 4).unwrap();
    let rule = FsdpRule::new("fsdp").least(1);
    for shape in [&[3, 5][..], &[7], &[2, 2, 2]] {
        assert_eq!(spec(rule.clone(), "", shape, &mesh).unwrap(), "P![]");
    }
    // Unless it is allowed to.
    assert_eq!(spec(rule.uneven(), "", &[3, 5], &mesh).unwrap(), r#"P![_, "fsdp"]"#);
}

/// scalax's choice without a number of parts, where it can be split.
#[test]
fn fsdp_by_powers_of_two() {
    let mesh = Mesh::linear("fsdp", 4).unwrap();
    let rule = FsdpRule::new("fsdp").least(1).powers_of_two();
    for (shape, wanted) in [
        (&[12, 8][..], r#"P![_, "fsdp"]"#),
        (&[8, 12], r#"P!["fsdp"]"#),
        (&[12, 20], r#"P!["fsdp"]"#),
        (&[96, 64, 3], r#"P![_, "fsdp"]"#),
        (&[3, 5], "P![]"),
        (&[7], "P![]"),
    ] {
        assert_eq!(spec(rule.clone(), "", shape, &mesh).unwrap(), wanted, "{shape:?}");
    }
}

/// A rule of one's own, alone and after another; and one that knows the element type.
#[test]
fn rules_are_open_to_users() {
    struct Last;
    impl ShardingRule for Last {
        fn place(&self, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<Option<P>, RuleError> {
            let why = || format!("a scalar has no last dimension on {mesh}");
            let last = leaf.shape.len().checked_sub(1);
            let last = last.ok_or_else(|| RuleError::Other { path: leaf.path.into(), why: why() })?;
            Ok(Some(P![].with_axis(last, "x")))
        }
    }
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    assert_eq!(spec(Rule::by(Last), "w", &[4, 4], &mesh).unwrap(), r#"P![_, "x"]"#);
    let error = spec(Rule::by(Last), "w", &[], &mesh).unwrap_err().to_string();
    assert!(error.starts_with(r#"no placement for "w": a scalar"#), "{error}");
    let both = Rule::from(P!["y"]).and(Rule::by(Last));
    assert_eq!(spec(both, "w", &[4, 4], &mesh).unwrap(), r#"P!["y", "x"]"#);
    let floats = Rule::by(|leaf: &Leaf<'_>| (leaf.dtype == F32).then(|| P!["x"]));
    let of = |dtype| floats.spec(&Leaf { path: "", shape: &[4], dtype }, &mesh).unwrap();
    assert_eq!((of(F32), of(I32)), (Some(P!["x"]), None));
    let f = jit(|w: Tensor| w * 2.0).on(&mesh).in_shardings([Rule::by(Last)]);
    assert_eq!(f.call(&Array::zeros([3, 4], F32)).unwrap().shards()[2].slice, [0..3, 2..4]);
}

/// The placements of a tree, as a tree.
#[test]
fn matched_rules_have_the_structure_of_the_tree() {
    let helper = MeshHelper::new(&[("tp", None)], 4).unwrap();
    let placed = helper.match_rule_tree(&megatron().into(), &model()).unwrap();
    let list = helper.match_rule::<Model>(&megatron().into(), &model()).unwrap();
    let of = |path: &str| list.iter().find(|m| m.path == path).unwrap().sharding.clone();
    assert_eq!(placed.embed.placement().unwrap().sharding, of("embed"));
    assert_eq!(placed.blocks[1].w1.placement().unwrap().sharding, of("blocks/1/w1"));
    assert!(placed.embed.to_vec::<f32>().is_err(), "there are no elements");
    // It says where to put a tree of the same shapes.
    let sharded = helper.shard::<Model>(&model(), &megatron().into()).unwrap();
    assert_eq!(sharded.blocks[1].w1.placement(), placed.blocks[1].w1.placement());
    let free = helper.match_rule_tree(&Rule::Free, &model()).unwrap();
    assert!(free.embed.placement().is_none());
}

#[test]
fn policy_closure() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let rule = Rule::policy(|path, shape| (!path.ends_with('b')).then(|| if shape.len() > 1 { P!["x"] } else { P![] }));
    assert_eq!(spec(rule.clone(), "a", &[4, 4], &mesh).unwrap(), r#"P!["x"]"#);
    assert_eq!(spec(rule.clone(), "a", &[], &mesh).unwrap(), "P![]");
    assert_eq!(spec(rule, "b", &[4, 4], &mesh).unwrap(), "free");
}

#[test]
fn rules_cover_optimizer_state() {
    let mesh = Mesh::linear("tp", 4).unwrap();
    let optimizer: BTreeMap<String, Model<Array>> = BTreeMap::from([("mean".into(), model()), ("var".into(), model())]);
    let found = match_sharding_rule::<BTreeMap<String, Model>>(&megatron().into(), &optimizer, &mesh).unwrap();
    let w1: Vec<String> = found.iter().filter(|m| m.path.ends_with("w1")).map(ToString::to_string).collect();
    assert_eq!(w1.len(), 4);
    assert_eq!(w1[0], r#"mean/blocks/0/w1 f32[16, 64]: P![_, "tp"], 1024 bytes per device"#);
}

#[test]
fn strict_unmatched_leaf_is_an_error() {
    let mesh = Mesh::linear("tp", 4).unwrap();
    let rule = TreePathRule::new([("q$", P!["tp"])]).unwrap();
    let error = match_sharding_rule::<Model>(&rule.clone().into(), &model(), &mesh).unwrap_err().to_string();
    assert!(error.starts_with(r#"no pattern is found in the path "embed" of an array of shape [48, 16]"#), "{error}");
    // In a jit as well.
    let f = jit(|m: Model| m.embed.sum_all()).on(&mesh).in_shardings([rule.clone()]);
    assert!(f.call(&model()).unwrap_err().to_string().contains("no pattern is found"));
    let lenient = Rule::from(rule.unmatched(Unmatched::Replicate));
    assert!(match_sharding_rule::<Model>(&lenient, &model(), &mesh).is_ok());
}

#[test]
fn dead_and_shadowed_rule_report() {
    let mesh = Mesh::linear("tp", 4).unwrap();
    let lint_of = |rules: Vec<(&'static str, P)>| {
        let rule = TreePathRule::new(rules).unwrap();
        let report = lint::<Model>(&rule.into(), &model(), &mesh).unwrap();
        report.findings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let good = || vec![("embed$", P!["tp"]), ("(q|w1)$", P![_, "tp"]), ("w2$", P!["tp"]), ("norm$", P![])];
    assert_eq!(lint_of(good()), [""; 0]);
    // The rules above with one thing wrong each.
    let mut misspelt = good();
    misspelt[3].0 = "normm$";
    let found = lint_of(misspelt);
    assert_eq!(found[0], "unmatched: no pattern is found in blocks/0/norm; \"normm$\" comes near");
    assert_eq!(found[2], "dead: pattern 3, \"normm$\", is found in no path");
    let mut late = good();
    late.insert(0, ("blocks", P![]));
    assert_eq!(
        lint_of(late)[0],
        "shadowed: pattern 2, \"(q|w1)$\", decides nothing; blocks/0/q is taken by \"blocks\" before it"
    );
    let mut axis = good();
    axis[0].1 = P!["model"];
    let found = lint_of(axis);
    assert!(found[0].starts_with("invalid: embed: P![\"model\"] for embed of shape [48, 16]"), "{}", found[0]);
    let mut uneven = good();
    uneven[0].1 = P![["tp"]];
    let odd = TreePathRule::new(uneven).unwrap();
    let mut tree = model();
    tree.embed = Array::zeros([49, 16], F32);
    let report = lint::<Model>(&odd.into(), &tree, &mesh).unwrap();
    assert_eq!(report.findings[0].to_string(), "uneven: dimension 0 of embed, 49, over 4 parts leaves 10 for the last");
    let mut large = model();
    large.blocks[0].norm = Array::shape_only([1 << 20], F32);
    let report = lint::<Model>(&megatron().into(), &large, &mesh).unwrap();
    assert_eq!(report.findings[0].to_string(), "replicated: every device holds all 4194304 bytes of blocks/0/norm");
}

#[test]
fn an_unanchored_pattern_that_is_found_in_a_longer_name_is_reported() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let tree: BTreeMap<String, Array> =
        ["w1", "w2", "w10"].iter().map(|n| (n.to_string(), Array::zeros([4, 4], F32))).collect();
    let lint_of = |pattern| {
        let rule = TreePathRule::new([(pattern, P!["x"])]).unwrap().unmatched(Unmatched::Replicate);
        lint::<BTreeMap<String, Tensor>>(&rule.into(), &tree, &mesh).unwrap().findings.len()
    };
    assert_eq!(lint_of("w1"), 1);
    assert_eq!(lint_of("w1$"), 0);
    assert_eq!(lint_of(r"\bw1\b"), 0);
    // A pattern that is never a whole name is meant as a part of one.
    assert_eq!(lint_of("w"), 0);
}

#[test]
fn bytes_per_device_are_those_that_devices_hold() {
    let mesh = Mesh::grid(("fsdp", 2), ("tp", 4)).unwrap();
    let rule = Rule::from(megatron()).and(FsdpRule::new("fsdp").least(256));
    let report = lint::<Model>(&rule, &model(), &mesh).unwrap();
    let placed = shard_tree::<Model>(&model(), &rule, &mesh).unwrap();
    let held = |a: &Array| a.shard_data(5).unwrap().size() * 4;
    let blocks: i64 = placed.blocks.iter().map(|b| held(&b.q) + held(&b.w1) + held(&b.w2) + held(&b.norm)).sum();
    assert_eq!(report.bytes_per_device, held(&placed.embed) + held(&placed.scale) + blocks);
    assert!(report.to_string().contains(&format!("{} per device", report.bytes_per_device)));
}

#[test]
fn fsdp_and_tensor_parallel_on_one_leaf() {
    let mesh = Mesh::grid(("fsdp", 2), ("tp", 4)).unwrap();
    let rule = Rule::from(megatron()).and(FsdpRule::new("fsdp").least(1));
    assert_eq!(spec(rule.clone(), "w1", &[16, 64], &mesh).unwrap(), r#"P!["fsdp", "tp"]"#);
    assert_eq!(spec(rule.clone(), "w2", &[64, 16], &mesh).unwrap(), r#"P!["tp", "fsdp"]"#);
    // The other dimension does not divide: the one that is split already is split further.
    assert_eq!(spec(rule.clone(), "w1", &[15, 64], &mesh).unwrap(), r#"P![_, ["tp", "fsdp"]]"#);
    assert_eq!(spec(rule.clone(), "w1", &[15, 60], &mesh).unwrap(), r#"P![_, "tp"]"#);
    // An axis that is used already is not used again.
    let twice = Rule::All(P!["fsdp"]).and(FsdpRule::new("fsdp").least(1));
    assert_eq!(spec(twice, "", &[8, 8], &mesh).unwrap(), r#"P!["fsdp"]"#);
    // Two placements that both want it are an error with names.
    let clash = Rule::All(P!["tp"]).and(P![_, "tp"]);
    let array = Array::zeros([8, 8], F32);
    let error = shard_tree::<Tensor>(&array, &clash, &mesh).unwrap_err().to_string();
    assert!(error.starts_with(r#"P!["tp", "tp"] for"#) && error.contains("duplicate"), "{error}");
    // The composed program computes what one device computes.
    let w = Array::from_fn([16, 64], |i| ((i[0] * 3 + i[1]) as f32).sin());
    let x = Array::from_fn([8, 16], |i| ((i[0] + 5 * i[1]) as f32).cos());
    let f = |x: Tensor, w: Tensor| x.matmul(&w).tanh();
    let rules = [P!["fsdp"].into(), Rule::All(P![_, "tp"]).and(FsdpRule::new("fsdp").least(1))];
    let split = jit(f).on(&mesh).in_shardings(rules);
    assert!(split.call((&x, &w)).unwrap().all_close(&jit(f).call((&x, &w)).unwrap(), 1e-5));
}

#[test]
fn a_second_shape_gets_its_own_choice() {
    // A cache that does not know shapes would use the first call's dimension for the second.
    let helper = MeshHelper::new(&[("fsdp", None)], 4).unwrap();
    let rule = FsdpRule::new("fsdp").least(1);
    let f = helper.sjit(|x: Tensor| x * 2.0).in_shardings([rule.clone()]).out_shardings([rule]);
    let first = f.call(&Array::full([8, 3], 1.0f32)).unwrap();
    let second = f.call(&Array::full([3, 8], 1.0f32)).unwrap();
    assert_eq!(first.shards()[1].slice, [2..4, 0..3]);
    assert_eq!(second.shards()[1].slice, [0..3, 2..4]);
}

#[test]
fn a_rule_inside_a_function_without_a_mesh_is_an_error() {
    let f = jit(|x: Tensor| constrain(&x, P!["x"]));
    let error = f.call(&Array::zeros([4], F32)).unwrap_err().to_string();
    assert!(error.starts_with("constrain: there is no mesh") && error.contains("rules.rs"), "{error}");
    // On one device, asked for, it changes nothing.
    let f = jit(|x: Tensor| constrain(&x, P!["x"])).single_device();
    assert_eq!(f.call(&Array::full([4], 1.0f32)).unwrap().to_vec::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn a_constraint_that_does_not_divide_still_holds() {
    let helper = MeshHelper::new(&[("x", Some(4))], 4).unwrap();
    let f = helper.sjit(|x: Tensor| constrain(&(x + 1.0), P!["x"])).in_shardings([P![]]);
    let y = f.call(&Array::full([7], 1.0f32)).unwrap();
    assert_eq!(y.shards().iter().map(|s| s.slice[0].clone()).collect::<Vec<_>>(), [0..2, 2..4, 4..6, 6..7]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0; 7]);
}

#[test]
fn an_unknown_axis_is_an_error_everywhere() {
    let helper = MeshHelper::new(&[("x", Some(4))], 4).unwrap();
    let x = Array::zeros([4], F32);
    let fsdp = FsdpRule::new("fsdp").least(1);
    let error = |f: &dyn Fn() -> Result<Array, Error>| f().unwrap_err().to_string();
    let message = r#"the mesh has no axis "fsdp"; it has ["x"]"#;
    assert!(error(&|| helper.sjit(|x: Tensor| x).in_shardings([fsdp.clone()]).call(&x)).starts_with(message));
    assert!(error(&|| helper.sjit(|x: Tensor| x).out_shardings([fsdp.clone()]).call(&x)).starts_with(message));
    let inside = |x: Tensor| constrain(&x, FsdpRule::new("fsdp").least(1));
    assert!(error(&|| helper.sjit(inside).call(&x)).contains(message));
    assert!(error(&|| helper.sjit(|x: Tensor| x).constrain([P!["y"]]).call(&x)).contains("\"y\""));
    assert!(error(&|| helper.sjit(|x: Tensor| x).in_shardings([P!["y"]]).call(&x)).contains("\"y\""));
}

#[test]
fn free_in_a_list_of_rules_leaves_it_to_propagation() {
    let helper = MeshHelper::new(&[("x", Some(4))], 4).unwrap();
    let f = helper.sjit(|a: Tensor, b: Tensor| a + b).in_shardings([P!["x"].into(), Rule::Free]);
    let (a, b) = (Array::full([8], 1.0f32), Array::full([8], 2.0f32));
    let plan = f.plan((&a, &b)).unwrap();
    assert_eq!(plan.arguments[1].sharding.num_shards(helper.mesh()), [4]);
    assert!(plan.collectives.is_empty());
}

#[test]
fn a_wrong_number_of_rules_is_an_error() {
    let helper = MeshHelper::new(&[("x", Some(4))], 4).unwrap();
    let (a, b) = (Array::zeros([8], F32), Array::zeros([8], F32));
    let add = |a: Tensor, b: Tensor| a + b;
    let error = helper.sjit(add).constrain([P![]]).call((&a, &b)).unwrap_err().to_string();
    assert!(error.contains("constrain has 1 rules for 2 arguments"), "{error}");
    let error = helper.sjit(add).in_shardings([P![]]).call((&a, &b)).unwrap_err().to_string();
    assert!(error.contains("in_shardings has 1 rules for 2 arguments"), "{error}");
}

#[test]
fn gather_to_host() {
    let mesh = Mesh::linear("tp", 4).unwrap();
    let mut tree = model();
    tree.embed = Array::from_fn([49, 16], |i| (i[0] * 16 + i[1]) as f32);
    let placed = shard_tree::<Model>(&tree, &megatron().into(), &mesh).unwrap();
    assert_eq!(placed.embed.shards()[3].slice, [39..49, 0..16]);
    let back = gather_tree::<Model>(&placed).unwrap();
    assert!(back.embed.placement().is_none());
    assert_eq!(back.embed.to_vec::<f32>().unwrap(), tree.embed.to_vec::<f32>().unwrap());
}

#[test]
fn created_already_sharded() {
    // The parameters are outputs of a program that places them: no device ever holds them whole.
    let helper = MeshHelper::new(&[("fsdp", None)], 4).unwrap();
    let init = |_: ()| Key::new(3).normal([64, 16], F32);
    let born = helper.sjit(init).out_shardings([FsdpRule::new("fsdp").least(1)]);
    let w = born.call(&()).unwrap();
    assert_eq!(w.shards()[1].slice, [16..32, 0..16]);
    assert!(born.plan(&()).unwrap().collectives.is_empty());
    let whole = jit(init).on(&Mesh::linear("one", 1).unwrap());
    assert!(born.plan(&()).unwrap().peak.bytes * 3 < whole.plan(&()).unwrap().peak.bytes);
    assert!(w.all_close(&jit(init).single_device().call(&()).unwrap(), 1e-6));
}
