//! Programs annotated for GSPMD: strings and custom calls become shardings, constraints and manual computations.

#[path = "common/mod.rs"]
mod common;

use common::{check, split};
use meshwork_ir::{text, verify};
use meshwork_partition::compile;
use meshwork_propagate::import::{has_gspmd, import_gspmd};

/// Reads the annotations of `source`, checks the program that this gives, and returns its text.
fn read(source: &str) -> String {
    let mut module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
    assert!(has_gspmd(&module), "{source}");
    let mut diagnostics = vec![];
    import_gspmd(&mut module, &mut diagnostics).unwrap_or_else(|_| panic!("{diagnostics:?}\n{source}"));
    assert!(!has_gspmd(&module));
    let printed = text::print(&module);
    assert_eq!(verify::verify(&module), [], "{printed}");
    let program = check(&printed);
    let (_, same) = split(source);
    assert_eq!(text::print(&same.module), text::print(&program.module));
    printed
}

fn refused(source: &str) -> String {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
    compile(&module, &Default::default()).err().unwrap_or_else(|| panic!("{source}")).to_string()
}

/// A product of two matrices, with these strings on arguments and result.
fn product(a: &str, b: &str, r: &str) -> String {
    let t = "tensor<8x8xf32>";
    format!(
        "module attributes {{mhlo.num_partitions = 8 : i32}} {{
           func.func @main(%a: {t} {{mhlo.sharding = \"{a}\"}}, %b: {t} {{mhlo.sharding = \"{b}\"}}) -> ({t} {{mhlo.sharding = \"{r}\"}}) {{
             %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({t}, {t}) -> {t}
             %1 = stablehlo.custom_call @Sharding(%0) {{mhlo.sharding = \"{a}\"}} : ({t}) -> {t}
             %2 = stablehlo.add %1, %1 {{mhlo.sharding = \"{b}\"}} : {t}
             return %2 : {t}
           }}
         }}"
    )
}

#[test]
fn every_form_on_arguments_results_operations_and_calls() {
    let forms = [
        "{replicated}",
        "{devices=[2,4]<=[8]}",
        "{devices=[4,2]<=[8]}",
        "{devices=[2,4]<=[4,2]T(1,0)}",
        "{devices=[8,1]<=[8]}",
        "{devices=[1,8]<=[2,2,2]T(2,0,1)}",
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={replicated}}",
        "{devices=[2,2,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}",
        "{devices=[2,4]0,1,2,3,4,5,6,7}",
        "{maximal device=3}",
        "{unreduced}",
        "{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}",
    ];
    for (i, a) in forms.iter().enumerate() {
        for b in &forms {
            read(&product(a, b, forms[(i + 3) % forms.len()]));
        }
    }
}

#[test]
fn one_mesh_has_the_axes_of_all_strings() {
    let text = read(&product(
        "{devices=[2,4]<=[8]}",
        "{devices=[4,2]<=[4,2]}",
        "{devices=[1,2,4]<=[8] last_tile_dim_replicate}",
    ));
    assert!(text.contains(r#"["axis_0"=2, "axis_1"=2, "axis_2"=2]"#), "{text}");
    assert!(text.contains(r#"[{"axis_0"}, {"axis_1", "axis_2"}]"#), "{text}");
    assert!(text.contains(r#"[{"axis_0", "axis_1"}, {"axis_2"}]"#), "{text}");
}

#[test]
fn unspecified_dimensions_are_open() {
    let text = read(
        "func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
           %0 = stablehlo.custom_call @Sharding(%a) {backend_config = \"unspecified_dims=[1]\", mhlo.sharding = \"{devices=[2,1,2]<=[4] last_tile_dim_replicate}\"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
           return %0 : tensor<4x4xf32>
         }",
    );
    assert!(text.contains(r#"[{"axis_0"}, {?}]"#), "{text}");
}

#[test]
fn several_results_have_a_tuple_of_strings() {
    let text = read(
        "func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
           %0 = stablehlo.iota dim = 0 : tensor<4xi32>
           %1:2 = \"stablehlo.sort\"(%a, %0) <{dimension = 0 : i64}> ({
           ^bb0(%x: tensor<f32>, %y: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
             %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
             stablehlo.return %c : tensor<i1>
           }) {mhlo.sharding = \"{{devices=[4]<=[4]}, {devices=[2,2]<=[4] last_tile_dim_replicate}}\"} : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
           return %1#0, %1#1 : tensor<4xf32>, tensor<4xi32>
         }",
    );
    assert!(text.contains(r#"[{"axis_0", "axis_1"}]"#) && text.contains(r#"[{"axis_0"}]"#), "{text}");
}

/// From full shapes to shards and back, over all axes, as exporters write it: the body in a function of its own.
#[test]
fn shards_are_worked_on_in_a_manual_computation() {
    let source = "module attributes {mhlo.num_partitions = 4 : i32} {
      func.func @main(%a: tensor<8x4xf32> {mhlo.sharding = \"{devices=[2,2]<=[4]}\"}, %b: tensor<f32>) -> tensor<8x4xf32> {
        %k = stablehlo.constant dense<2.0> : tensor<4x2xf32>
        %s = stablehlo.sine %b : tensor<f32>
        %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = \"{devices=[2,2]<=[4]}\"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
        %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = \"{manual}\"} : (tensor<8x4xf32>) -> tensor<4x2xf32>
        %2 = func.call @body(%1) : (tensor<4x2xf32>) -> tensor<4x2xf32>
        %3 = stablehlo.multiply %2, %k : tensor<4x2xf32>
        %t = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
        %4 = stablehlo.add %3, %t : tensor<4x2xf32>
        %5 = stablehlo.custom_call @Sharding(%4) {mhlo.sharding = \"{manual}\"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
        %6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {mhlo.sharding = \"{devices=[2,2]<=[4]}\"} : (tensor<4x2xf32>) -> tensor<8x4xf32>
        %7 = stablehlo.cosine %6 : tensor<8x4xf32>
        return %7 : tensor<8x4xf32>
      }
      func.func private @body(%a: tensor<4x2xf32> {mhlo.sharding = \"{manual}\"}) -> (tensor<4x2xf32> {mhlo.sharding = \"{manual}\"}) {
        %0 = \"stablehlo.all_reduce\"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) : (tensor<4x2xf32>) -> tensor<4x2xf32>
        return %0 : tensor<4x2xf32>
      }
    }";
    let text = read(source);
    assert!(text.contains(r#"manual_axes={"axis_0", "axis_1"}"#), "{text}");
    assert_eq!(text.matches("sdy.manual_computation").count(), 1, "{text}");
}

/// Two computations on shards over some of the axes, one without operands, and one inside another.
#[test]
fn some_axes_may_be_manual_and_computations_may_nest() {
    let inner = "{devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}";
    let source = format!(
        "module attributes {{mhlo.num_partitions = 4 : i32}} {{
          func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xui32>) {{
            %0 = stablehlo.custom_call @Sharding(%a) {{backend_config = \"unspecified_dims=[0]\", mhlo.sharding = \"{{devices=[2,2]<=[4] last_tile_dim_replicate}}\"}} : (tensor<8xf32>) -> tensor<8xf32>
            %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {{backend_config = \"unspecified_dims=[0]\", mhlo.sharding = \"{inner}\"}} : (tensor<8xf32>) -> tensor<4xf32>
            %2 = func.call @body(%1) : (tensor<4xf32>) -> tensor<4xf32>
            %3 = stablehlo.custom_call @Sharding(%2) {{backend_config = \"unspecified_dims=[0]\", mhlo.sharding = \"{inner}\"}} : (tensor<4xf32>) -> tensor<4xf32>
            %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {{backend_config = \"unspecified_dims=[0]\", mhlo.sharding = \"{{devices=[2,2]<=[4] last_tile_dim_replicate}}\"}} : (tensor<4xf32>) -> tensor<8xf32>
            %5 = stablehlo.partition_id : tensor<ui32>
            %6 = stablehlo.reshape %5 : (tensor<ui32>) -> tensor<1xui32>
            %7 = stablehlo.custom_call @Sharding(%6) {{mhlo.sharding = \"{{manual}}\"}} : (tensor<1xui32>) -> tensor<1xui32>
            %8 = stablehlo.custom_call @SPMDShardToFullShape(%7) {{mhlo.sharding = \"{{devices=[4]<=[4]}}\"}} : (tensor<1xui32>) -> tensor<4xui32>
            return %4, %8 : tensor<8xf32>, tensor<4xui32>
          }}
          func.func private @body(%a: tensor<4xf32>) -> tensor<4xf32> {{
            %0 = stablehlo.custom_call @Sharding(%a) {{mhlo.sharding = \"{inner}\"}} : (tensor<4xf32>) -> tensor<4xf32>
            %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {{mhlo.sharding = \"{{manual}}\"}} : (tensor<4xf32>) -> tensor<4xf32>
            %2 = stablehlo.add %1, %1 : tensor<4xf32>
            %3 = stablehlo.custom_call @Sharding(%2) {{mhlo.sharding = \"{{manual}}\"}} : (tensor<4xf32>) -> tensor<4xf32>
            %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {{mhlo.sharding = \"{inner}\"}} : (tensor<4xf32>) -> tensor<4xf32>
            return %4 : tensor<4xf32>
          }}
        }}"
    );
    let text = read(&source);
    assert_eq!(text.matches("sdy.manual_computation").count(), 3, "{text}");
    assert!(text.contains(r#"manual_axes={"axis_0"}"#) && text.contains(r#"manual_axes={"axis_1"}"#), "{text}");
}

#[test]
fn what_cannot_be_read_is_an_error_with_the_string() {
    let main = |text: &str| {
        format!(
            "func.func @main(%a: tensor<8xf32> {{mhlo.sharding = \"{text}\"}}) -> tensor<8xf32> {{\n return %a : tensor<8xf32>\n}}"
        )
    };
    for (text, why) in [
        ("{unknown}", "not a sharding"),
        ("devices=[2]<=[2]", "not a sharding"),
        ("{devices=[3]<=[2]}", "not a sharding"),
        ("{devices=[2]<=[2] shard_as 1}", "not a sharding"),
        ("{devices=[2,2]<=[4]}", "splits 2 dimensions of a value that has 1"),
        ("{devices=[4]1,0,3,2}", "order of devices"),
        ("{{replicated}, {replicated}}", "for 2 values, not 1"),
        ("{manual}", "split already"),
    ] {
        let error = refused(&main(text));
        assert!(error.contains(text) && error.contains(why), "{text}: {error}");
    }
    let both = |a: &str, b: &str| {
        format!(
            "func.func @main(%a: tensor<6xf32> {{mhlo.sharding = \"{a}\"}}, %b: tensor<6xf32> {{mhlo.sharding = \"{b}\"}}) {{\n return\n}}"
        )
    };
    let error =
        refused(&both("{devices=[2,3]<=[6] last_tile_dim_replicate}", "{devices=[3,2]<=[6] last_tile_dim_replicate}"));
    assert!(error.contains("fits no mesh"), "{error}");
    let error = refused(&both("{devices=[2]<=[2]}", "{devices=[3]<=[3]}"));
    assert!(error.contains("over 3 devices") && error.contains("for 2"), "{error}");
    let lost = "func.func @main(%a: tensor<8xf32>) -> tensor<4xf32> {
        %0 = stablehlo.custom_call @SPMDFullToShardShape(%a) {mhlo.sharding = \"{manual}\"} : (tensor<8xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }";
    assert!(refused(lost).contains("@SPMDShardToFullShape"), "{}", refused(lost));
}
