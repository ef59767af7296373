//! Shardings of batched values.

use meshwork_autodiff::{BatchOptions, vmap};
use meshwork_ir::{text, verify};

#[test]
fn constraints_get_an_open_dimension_or_the_one_given() {
    let module = text::parse(
        "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>
         func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) -> tensor<4x4xf32> {
           %b = stablehlo.sine %a : tensor<4x4xf32>
           %c = sdy.sharding_constraint %b <@mesh, [{}, {\"x\"}]> : tensor<4x4xf32>
           return %c : tensor<4x4xf32>
         }",
    )
    .unwrap();
    let mut options = BatchOptions { size: 2, in_axes: vec![Some(1)], ..BatchOptions::default() };
    let wide = vmap(&module, "main", &options).unwrap();
    assert_eq!(verify::verify(&wide), []);
    let shown = text::print(&wide);
    assert!(shown.contains("sdy.sharding_constraint") && shown.contains("[{?}, {}, {\"x\"}]"), "{shown}");
    assert!(shown.contains("[{\"x\"}, {?}, {}]"), "{shown}");
    options.placement = meshwork_ir::placement::DimSharding::closed(["y"]);
    let shown = text::print(&vmap(&module, "main", &options).unwrap());
    assert!(shown.contains("[{\"y\"}, {}, {\"x\"}]"), "{shown}");
}

#[test]
fn manual_computations_keep_their_collectives() {
    let module = text::parse(
        "sdy.mesh @mesh = <[\"x\"=2]>
         func.func @main(%a: tensor<4x4xf32>) -> tensor<4xf32> {
           %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{\"x\"}, {}]>] out_shardings=[<@mesh, [{}]>] manual_axes={\"x\"} (%b: tensor<2x4xf32>) {
             %z = stablehlo.constant dense<0.0> : tensor<f32>
             %s = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>
             %t = \"stablehlo.all_reduce\"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
               ^bb0(%c: tensor<f32>, %d: tensor<f32>):
                 %e = stablehlo.add %c, %d : tensor<f32>
                 stablehlo.return %e : tensor<f32>
             }) : (tensor<4xf32>) -> tensor<4xf32>
             sdy.return %t : tensor<4xf32>
           } : (tensor<4x4xf32>) -> tensor<4xf32>
           return %r : tensor<4xf32>
         }",
    )
    .unwrap();
    let options = BatchOptions { size: 3, in_axes: vec![Some(0)], ..BatchOptions::default() };
    let wide = vmap(&module, "main", &options).unwrap();
    assert_eq!(verify::verify(&wide), [], "{}", text::print(&wide));
    let shown = text::print(&wide);
    assert!(shown.contains("tensor<3x2x4xf32>") && shown.contains("(tensor<3x4xf32>) -> tensor<3x4xf32>"), "{shown}");
}
