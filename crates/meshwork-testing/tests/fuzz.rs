//! A bounded run of the differential fuzzer.

use meshwork_ir::text;
use meshwork_testing::fuzz::check::inputs;
use meshwork_testing::fuzz::{Case, Engines, Precision, Verdict, check, try_case};

#[test]
fn random_programs_give_the_same_however_they_are_placed() {
    let findings: Vec<String> = (0..1000)
        .filter_map(|seed| try_case(seed, &[], Engines::All))
        .map(|f| format!("seed {}: {:?}\n{}", f.seed, f.verdict, f.program))
        .collect();
    assert!(findings.is_empty(), "{} of 1000 cases fail, among them\n{}", findings.len(), findings[0]);
}

/// Programs that cases were made small to.
const FOUND: &[&str] = &[
    // What a branch slices was computed again behind it, for the sake of a scatter in place.
    r#"module {
  sdy.mesh @mesh = <["x"=2, "y"=3], device_ids=[4, 2, 3, 1, 5, 0]>
  func.func @main(%arg0: tensor<1xui32>, %arg1: tensor<1xui8>, %arg2: tensor<2xui32>) -> tensor<6x2xui8> {
    %0 = stablehlo.iota dim = 0 : tensor<6x2xui8>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {"y"}]> : tensor<6x2xui8>
    %2 = "stablehlo.scatter"(%1, %arg0, %arg1) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1]>}> ({
    ^bb0(%arg3: tensor<ui8>, %arg4: tensor<ui8>):
      stablehlo.return %arg3 : tensor<ui8>
    }) : (tensor<6x2xui8>, tensor<1xui32>, tensor<1xui8>) -> tensor<6x2xui8>
    %c = stablehlo.constant dense<7> : tensor<i32>
    %3 = "stablehlo.case"(%c) ({
      stablehlo.return %2 : tensor<6x2xui8>
    }, {
      stablehlo.return %2 : tensor<6x2xui8>
    }, {
      stablehlo.return %2 : tensor<6x2xui8>
    }) : (tensor<i32>) -> tensor<6x2xui8>
    %4 = "stablehlo.scatter"(%2, %arg2, %3) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], input_batching_dims = [1], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%arg3: tensor<ui8>, %arg4: tensor<ui8>):
      stablehlo.return %arg3 : tensor<ui8>
    }) : (tensor<6x2xui8>, tensor<2xui32>, tensor<6x2xui8>) -> tensor<6x2xui8>
    return %4 : tensor<6x2xui8>
  }
}"#,
    // The largest none of a split dimension.
    r#"sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%arg0: tensor<1xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y", ?}]>}) -> tensor<0xi32> {
  %values, %indices = chlo.top_k(%arg0, k = 0) : tensor<1xf32> -> (tensor<0xf32>, tensor<0xi32>)
  return %indices : tensor<0xi32>
}"#,
    // Tuples, which propagation refuses.
    r#"sdy.mesh @mesh = <["x"=2]>
func.func @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  %0 = stablehlo.tuple %arg0, %arg0 : tuple<tensor<4xf32>, tensor<4xf32>>
  %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}"#,
    // Parts of a largest element, of a type without infinities.
    r#"sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%arg0: tensor<4x4xf8E4M3FN> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}], unreduced=max{"y"}>}) -> tensor<4x4xf8E4M3FN> {
  return %arg0 : tensor<4x4xf8E4M3FN>
}"#,
];

#[test]
fn what_was_found_stays_right() {
    for source in FOUND {
        let module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("found", source)));
        let case = Case { args: inputs(&module), module, precision: Precision::Exact };
        assert_eq!(check(&case, Engines::All), Verdict::Same, "{source}");
    }
}
