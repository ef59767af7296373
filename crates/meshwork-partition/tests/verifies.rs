//! Split programs verify, or the program is refused with a reason.

mod common;

use common::check;
use meshwork_ir::text;
use meshwork_partition::{CompileOptions, compile};

fn refused(source: &str) -> String {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
    compile(&module, &CompileOptions::default()).map(|_| ()).expect_err("it cannot be split").to_string()
}

#[test]
fn named_computations_with_placements() {
    check(
        r#"sdy.mesh @m = <["a"=2]>
func.func @main(%x: tensor<5xi32>) -> tensor<5xi32> {
  %0 = sdy.named_computation<"f">(%x) in_shardings=[<@m, [{"a"}]>] out_shardings=[<@m, [{}]>] (%y: tensor<5xi32>) {
    %3 = stablehlo.reverse %y, dims = [0] {other.placement = #sdy.sharding_per_value<[<@m, [{"a"}]>]>} : tensor<5xi32>
    sdy.return %3 : tensor<5xi32>
  } : (tensor<5xi32>) -> tensor<5xi32>
  %1 = sdy.named_computation<"f">(%0) in_shardings=[<@m, [{"a"}]>] out_shardings=[<@m, [{"a"}]>] (%y: tensor<5xi32>) {
    %3 = stablehlo.negate %y : tensor<5xi32>
    sdy.return %3 : tensor<5xi32>
  } : (tensor<5xi32>) -> tensor<5xi32>
  return %1 : tensor<5xi32>
}"#,
    );
}

#[test]
fn values_of_index_type_are_not_split() {
    let program = |s: &str, r: &str| {
        format!(
            r#"sdy.mesh @m = <["a"=2]>
func.func @main(%x: tensor<6xindex> {{sdy.sharding = #sdy.sharding<@m, [{{{s}}}]>}}) -> (tensor<6xindex> {{sdy.sharding = #sdy.sharding<@m, [{{{r}}}]>}}) {{
  return %x : tensor<6xindex>
}}"#
        )
    };
    for (s, r) in [("\"a\"", ""), ("", "\"a\"")] {
        let what = refused(&program(s, r));
        assert!(what.contains("values of type tensor<6xindex> cannot be split"), "{what}");
    }
}

#[test]
fn a_function_called_by_a_manual_computation_cannot_use_its_axes() {
    let what = refused(
        r#"sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a"}]>] out_shardings=[<@m, [{"a"}]>] manual_axes={"a"} (%y: tensor<2xi32>) {
    %1 = func.call @f(%y) : (tensor<2xi32>) -> tensor<2xi32>
    sdy.return %1 : tensor<2xi32>
  } : (tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
func.func private @f(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0 = stablehlo.negate %x : tensor<2xi32>
  %1 = sdy.sharding_constraint %0 <@m, [{"a"}]> : tensor<2xi32>
  %2 = stablehlo.negate %1 : tensor<2xi32>
  return %2 : tensor<2xi32>
}"#,
    );
    assert!(what.contains("which is manual here"), "{what}");
}
