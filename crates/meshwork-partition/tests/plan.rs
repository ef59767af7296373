//! Plans: causes, contracts, lock files, and what optimizing collectives leaves.

mod common;

use common::{check, collectives, split};
use meshwork_ir::text;
use meshwork_partition::plan::Limit;
use meshwork_partition::{Causes, CompileOptions, Contract, Lock, Plan, compile};

fn plan(source: &str) -> Plan {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
    let options = CompileOptions { causes: Causes::Annotations, ..CompileOptions::default() };
    compile(&module, &options).unwrap_or_else(|e| panic!("{e}")).plan
}

const MLP: &str = r#"
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(
    %x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>} loc("x"),
    %w1: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>} loc("w1"),
    %w2: tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>} loc("w2")) -> tensor<16x64xf32> {
  %0 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
    : (tensor<16x64xf32>, tensor<64x128xf32>) -> tensor<16x128xf32> loc("mlp/up"("model.py":7:3))
  %1 = stablehlo.tanh %0 : tensor<16x128xf32>
  %2 = stablehlo.dot_general %1, %w2, contracting_dims = [1] x [0]
    : (tensor<16x128xf32>, tensor<128x64xf32>) -> tensor<16x64xf32> loc("mlp/down"("model.py":9:3))
  return %2 : tensor<16x64xf32>
}
"#;

#[test]
fn a_cause_names_tensor_operation_place_and_annotation() {
    let plan = plan(MLP);
    let [c] = &plan.collectives[..] else { panic!("{:?}", plan.collectives) };
    assert_eq!((c.collective.kind.name(), c.axes_text().as_str()), ("all-reduce", "y"));
    let [cause] = &c.causes[..] else { panic!("{:?}", c.causes) };
    assert_eq!((cause.op.as_str(), cause.place.as_str()), ("dot_general", "model.py:9"));
    assert_eq!((cause.path.as_str(), cause.tensor.as_str()), ("mlp/down", "f32[16,64]"));
    assert!(!cause.explicit);
    let annotation = cause.annotation.as_ref().map(ToString::to_string);
    assert_eq!(annotation.as_deref(), Some(r#"argument 1 (w1) [{}, {"y"}]"#));
}

#[test]
fn contracts_hold_by_region() {
    let plan = plan(MLP);
    let only = |region: &str| Contract {
        region: Some(region.into()),
        allowed: Some(vec!["collective-permute".into()]),
        ..Contract::default()
    };
    assert!(plan.check(&only("mlp/up")).is_ok());
    assert!(plan.check(&only("other.py")).is_ok());
    for region in ["mlp/down", "model.py:9", "mlp", ""] {
        let violation = plan.check(&only(region)).expect_err(region);
        assert_eq!(violation.limit, Limit::Kind { allowed: vec!["collective-permute".into()] });
    }
    let most = Contract { max_bytes: Some(plan.wire_bytes()), ..Contract::default() };
    assert!(plan.check(&most).is_ok());
}

#[test]
fn one_changed_annotation_is_a_diff_of_a_few_lines() {
    let before = Lock::of(&plan(MLP));
    assert_eq!(Lock::parse(&before.to_string()).as_ref(), Ok(&before));
    // Only the second weight is replicated now.
    let changed = MLP.replace(
        r#"%w2: tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}"#,
        r#"%w2: tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}"#,
    );
    assert_ne!(changed, MLP);
    let changes = before.changes(&Lock::of(&plan(&changed)));
    let said: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(said[0], r#"~ argument 2: f32[128,64] [{"y"}, {}] -> f32[128,64] [{}, {}]"#);
    assert!(said.len() <= 3, "{said:#?}");
}

#[test]
fn independent_sums_are_combined_and_dependent_ones_are_not() {
    // The sum of squares needs the first sum; the other two need nothing of each other.
    let program = check(
        r#"
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
  %2 = stablehlo.subtract %a, %1 : tensor<16x8xf32>
  %3 = stablehlo.multiply %2, %2 : tensor<16x8xf32>
  %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = stablehlo.negate %a : tensor<16x8xf32>
  %6 = stablehlo.reduce(%5 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0, %4, %6 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
"#,
    );
    assert_eq!(collectives(&program), [("all-reduce", 64, 1), ("all-reduce", 32, 1)]);
    assert_eq!(program.plan.collectives[0].causes.len(), 2);
    assert_eq!(program.plan.wire_bytes(), 3.0 * 2.0 * 3.0 / 4.0 * 32.0);
}

#[test]
fn sums_of_other_kinds_stay_apart() {
    let program = check(
        r#"
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<f32>, tensor<f32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<16xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<16xf32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
"#,
    );
    assert_eq!(collectives(&program), [("all-reduce", 4, 1), ("all-reduce", 4, 1)]);
}

/// Two arrays of different shapes, split in different dimensions, that need the same kind of collective.
fn pair(from: [&str; 2], to: [&str; 2]) -> String {
    let at = |placement: &str| format!("{{sdy.sharding = #sdy.sharding<@mesh, {placement}>}}");
    let (a, b) = ("tensor<8x6xf32>", "tensor<3x2x12xf32>");
    format!(
        "sdy.mesh @mesh = <[\"x\"=4]>
func.func @main(%a: {a} {}, %b: {b} {}) -> ({a} {}, {b} {}) {{
  %0 = stablehlo.negate %a : {a}
  %1 = stablehlo.negate %b : {b}
  return %0, %1 : {a}, {b}
}}",
        at(from[0]),
        at(from[1]),
        at(to[0]),
        at(to[1])
    )
}

#[test]
fn small_gathers_of_one_group_are_one() {
    let program = check(&pair(["[{\"x\"}, {}]", "[{}, {}, {\"x\"}]"], ["[{}, {}]", "[{}, {}, {}]"]));
    assert_eq!(collectives(&program), [("all-gather", 4 * (12 + 18), 1)]);
    assert_eq!(program.plan.collectives[0].causes.len(), 2);
}

#[test]
fn sums_that_are_split_afterwards_are_one_reduce_scatter() {
    let dot = |name: &str, out: &str, n: i64| {
        format!(
            "%{out} = stablehlo.dot_general %a, %{name}, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x{n}xf32>) -> tensor<8x{n}xf32>"
        )
    };
    let program = check(&format!(
        "sdy.mesh @mesh = <[\"x\"=4]>
func.func @main(%a: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{\"x\"}}]>}},
    %b: tensor<16x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\"}}, {{}}]>}},
    %c: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\"}}, {{}}]>}})
    -> (tensor<8x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\"}}, {{}}]>}},
        tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{\"x\"}}]>}}) {{
  {}
  {}
  return %0, %1 : tensor<8x4xf32>, tensor<8x8xf32>
}}",
        dot("b", "0", 4),
        dot("c", "1", 8)
    ));
    assert_eq!(collectives(&program), [("reduce-scatter", 4 * (32 + 64), 1)]);
}

#[test]
fn halos_of_two_arrays_share_their_permutes() {
    let roll = |v: &str, out: &str| {
        let (t, one) = ("tensor<16xf32>", "tensor<1xf32>");
        format!(
            "%{out}e = stablehlo.slice %{v} [15:16] : ({t}) -> {one}
  %{out}b = stablehlo.slice %{v} [0:15] : ({t}) -> tensor<15xf32>
  %{out} = stablehlo.concatenate %{out}e, %{out}b, dim = 0 : ({one}, tensor<15xf32>) -> {t}"
        )
    };
    let x = "{sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}";
    let program = check(&format!(
        "sdy.mesh @mesh = <[\"x\"=4]>
func.func @main(%a: tensor<16xf32> {x}, %b: tensor<16xf32> {x}) -> (tensor<16xf32> {x}, tensor<16xf32> {x}) {{
  {}
  {}
  return %r, %s : tensor<16xf32>, tensor<16xf32>
}}",
        roll("a", "r"),
        roll("b", "s")
    ));
    assert_eq!(collectives(&program), [("collective-permute", 8, 1)]);
}

#[test]
fn large_gathers_stay_apart() {
    let big = pair(["[{\"x\"}, {}]", "[{}, {}, {\"x\"}]"], ["[{}, {}]", "[{}, {}, {}]"])
        .replace("8x6xf32", "80x600xf32")
        .replace("3x2x12xf32", "3x2x1200xf32");
    assert_eq!(collectives(&split(&big).1).len(), 2);
}

#[test]
fn a_body_keeps_no_placement() {
    // JAX writes constraints into the bodies of collectives: the per-device program must not.
    let source = r#"
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 0>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    %t = sdy.sharding_constraint %s <@mesh, []> : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) : (tensor<16xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
"#;
    let program = check(source);
    assert!(!text::print(&program.module).contains("sdy."), "{}", text::print(&program.module));
}
