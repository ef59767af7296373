//! Programs over more than one mesh: other device orders, other axes over the same devices, single devices.

mod common;

use common::{check, split};
use meshwork_ir::text;

fn kinds(program: &meshwork_partition::Compiled) -> Vec<&'static str> {
    program.plan.collectives.iter().map(|c| c.collective.kind.name()).collect()
}

#[test]
fn a_result_in_another_device_order_is_one_permute_away() {
    let program = check(
        r#"sdy.mesh @a = <["x"=4]>
        sdy.mesh @b = <["x"=4], device_ids=[1, 2, 3, 0]>
        func.func @main(%0: tensor<6xi32> {sdy.sharding = #sdy.sharding<@a, [{"x"}]>})
            -> (tensor<6xi32> {sdy.sharding = #sdy.sharding<@b, [{"x"}]>}) {
          %1 = stablehlo.negate %0 : tensor<6xi32>
          return %1 : tensor<6xi32>
        }"#,
    );
    assert_eq!(kinds(&program), ["collective-permute"]);
    let local = text::print(&program.module);
    assert!(local.contains("dense<[[0, 1], [1, 2], [2, 3], [3, 0]]>"), "{local}");
}

#[test]
fn an_argument_in_another_device_order_comes_in_by_a_permute() {
    let program = check(
        r#"sdy.mesh @a = <["x"=2, "y"=2]>
        sdy.mesh @b = <["x"=2, "y"=2], device_ids=[3, 1, 2, 0]>
        func.func @main(%0: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@b, [{"x"}, {"y"}]>},
                        %1: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {"y"}]>})
            -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {"y"}]>}) {
          %2 = stablehlo.add %0, %1 : tensor<4x6xf32>
          return %2 : tensor<4x6xf32>
        }"#,
    );
    assert_eq!(kinds(&program), ["collective-permute"]);
    // Two of four devices keep what they have.
    assert_eq!(program.plan.wire_bytes(), 0.5 * 2.0 * 3.0 * 4.0);
}

#[test]
fn axes_of_two_meshes_over_the_same_devices_mix_without_communication() {
    let program = check(
        r#"sdy.mesh @a = <["x"=2, "y"=4]>
        sdy.mesh @b = <["all"=8]>
        func.func @main(%0: tensor<16xi32> {sdy.sharding = #sdy.sharding<@a, [{"x", "y"}]>})
            -> (tensor<16xi32> {sdy.sharding = #sdy.sharding<@b, [{"all"}]>}) {
          %1 = stablehlo.negate %0 : tensor<16xi32>
          return %1 : tensor<16xi32>
        }"#,
    );
    assert_eq!(kinds(&program), [""; 0]);
}

#[test]
fn a_value_on_a_single_device_that_all_can_compute_needs_nothing() {
    let program = check(
        r#"sdy.mesh @a = <["x"=4]>
        sdy.mesh @one = <[], device_ids=[2]>
        func.func @main(%0: tensor<4xi32>) -> tensor<4xi32> {
          %1 = stablehlo.negate %0 {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : tensor<4xi32>
          return %1 : tensor<4xi32>
        }"#,
    );
    assert_eq!(kinds(&program), [""; 0]);
}

#[test]
fn what_depends_on_the_device_is_computed_by_the_one_it_is_placed_on() {
    let source = r#"sdy.mesh @a = <["x"=4]>
        sdy.mesh @one = <[], device_ids=[2]>
        func.func @main(%0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}]>}) -> tensor<4xf32> {
          %id = stablehlo.partition_id : tensor<ui32>
          %1 = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
          %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<4xf32>
          %3 = stablehlo.multiply %0, %2 {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : tensor<4xf32>
          return %3 : tensor<4xf32>
        }"#;
    let (_, program) = split(source);
    let input = meshwork_ir::Literal::from_f64s([4], meshwork_ir::ElementType::F32, &[1.0, -0.0, 3.0, 4.0]).unwrap();
    let out = common::run(&program, &[input]).unwrap();
    let found = out[0].to_f64s();
    assert_eq!(found, [2.0, 0.0, 6.0, 8.0]);
    assert!(found[1].is_sign_negative(), "a broadcast changes no bit");
    assert_eq!(kinds(&program), ["all-gather", "all-reduce"]);
}

#[test]
fn what_acts_on_the_world_acts_on_one_device_only() {
    let source = r#"sdy.mesh @a = <["x"=4]>
        sdy.mesh @one = <[], device_ids=[2]>
        func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {
          %1 = stablehlo.custom_call @log(%0) {has_side_effect = true,
            sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : (tensor<4xf32>) -> tensor<4xf32>
          return %1 : tensor<4xf32>
        }"#;
    let (_, program) = split(source);
    let local = text::print(&program.module);
    let (branch, call) = (local.find("stablehlo.if"), local.find("stablehlo.custom_call"));
    assert!(branch.is_some() && branch < call, "{local}");
    assert_eq!(kinds(&program), ["all-reduce"]);
}

/// Two manual computations over one axis each, the other free, on meshes in different device orders.
const TWO_ORDERS: &str = r#"sdy.mesh @a = <["x"=2, "y"=2]>
        sdy.mesh @b = <["x"=2, "y"=2], device_ids=[2, 0, 3, 1]>
        func.func @main(%0: tensor<4x6xi32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {"y"}]>}) -> tensor<4x6xi32> {
          %1 = sdy.manual_computation(%0) in_shardings=[<@a, [{"x"}, {"y"}]>] out_shardings=[<@a, [{"x"}, {?}]>] manual_axes={"x"}
              (%p: tensor<2x6xi32>) {
            %2 = "stablehlo.all_reduce"(%p) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> ({
            ^bb0(%a: tensor<i32>, %b: tensor<i32>):
              %s = stablehlo.add %a, %b : tensor<i32>
              stablehlo.return %s : tensor<i32>
            }) : (tensor<2x6xi32>) -> tensor<2x6xi32>
            sdy.return %2 : tensor<2x6xi32>
          } : (tensor<4x6xi32>) -> tensor<4x6xi32>
          %3 = sdy.manual_computation(%1) in_shardings=[<@b, [{"y"}, {"x"}]>] out_shardings=[<@b, [{"y", ?}, {"x"}]>] manual_axes={"y"}
              (%p: tensor<2x6xi32>) {
            %id = stablehlo.partition_id : tensor<ui32>
            %n = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
            %two = stablehlo.constant dense<2> : tensor<i32>
            // Devices 0 and 1 of this order are those at y = 1.
            %row = stablehlo.divide %n, %two : tensor<i32>
            %rows = stablehlo.broadcast_in_dim %row, dims = [] : (tensor<i32>) -> tensor<2x6xi32>
            %4 = stablehlo.multiply %p, %rows : tensor<2x6xi32>
            %5 = "stablehlo.collective_permute"(%4) <{source_target_pairs = dense<[[0, 2], [2, 0], [1, 3], [3, 1]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>}> : (tensor<2x6xi32>) -> tensor<2x6xi32>
            %6 = stablehlo.reverse %5, dims = [1] : tensor<2x6xi32>
            sdy.return %6 : tensor<2x6xi32>
          } : (tensor<4x6xi32>) -> tensor<4x6xi32>
          return %3 : tensor<4x6xi32>
        }"#;

#[test]
fn manual_computations_with_free_axes_may_be_on_meshes_in_different_orders() {
    check(TWO_ORDERS);
}
