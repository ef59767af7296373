//! `compile`: programs with and without a mesh, donated arguments, names, errors.

use meshwork_ir::{Attr, Diagnostic, ElementType, Literal, Module, TextPos, text};
use meshwork_partition::{Causes, CompileError, CompileOptions, Compiled, Donation, compile};

fn parse(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)))
}

fn compiled(source: &str) -> Compiled {
    compile(&parse(source), &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

#[test]
fn donated_arguments_stay_donated() {
    let program = compiled(
        r#"sdy.mesh @mesh = <["x"=2]>
        func.func @main(
            %a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>, tf.aliasing_output = 1 : i32},
            %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>, tf.aliasing_output = 0 : i32},
            %c: tensor<4xf32> {jax.buffer_donor = true}, %d: tensor<4xf32>)
            -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<8xf32>) {
          %0 = stablehlo.add %a, %a : tensor<8xf32>
          return %b, %0 : tensor<8xf32>, tensor<8xf32>
        }"#,
    );
    // Argument 1 is split and the result that it was to become is not: on a device they differ in size.
    let donation = [(0, Some(1)), (1, None), (2, None)].map(|(argument, result)| Donation { argument, result });
    assert_eq!(program.donation, donation);
    let entry = program.module.entry().unwrap();
    let mark = |i: usize, name: &str| program.module.arg_attr(entry, i, name).cloned();
    assert_eq!(mark(0, "tf.aliasing_output"), Some(Attr::i32(1)));
    assert_eq!((mark(1, "tf.aliasing_output"), mark(1, "jax.buffer_donor")), (None, Some(Attr::Bool(true))));
    assert_eq!(mark(2, "jax.buffer_donor"), Some(Attr::Bool(true)));
    assert_eq!((mark(3, "tf.aliasing_output"), mark(3, "jax.buffer_donor")), (None, None));
}

#[test]
fn a_program_without_a_mesh_stays_as_it_is() {
    let source = r#"func.func private @twice(%a: tensor<?xf32>) -> tensor<?xf32> {
          %0 = stablehlo.add %a, %a : tensor<?xf32>
          return %0 : tensor<?xf32>
        }
        func.func @main(%a: tensor<?xf32> {tf.aliasing_output = 0 : i32} loc("a"))
            -> (tensor<?xf32> {jax.result_info = "out"}) {
          %0 = call @twice(%a) : (tensor<?xf32>) -> tensor<?xf32>
          return %0 : tensor<?xf32>
        }"#;
    let program = compiled(source);
    assert_eq!(text::print(&program.module), text::print(&parse(source)));
    assert!(program.mesh.is_none() && program.plan.collectives.is_empty());
    assert_eq!(program.devices(), 1);
    assert_eq!((program.inputs()[0].name.as_str(), program.outputs()[0].name.as_str()), ("a", "out"));
    assert!(program.inputs()[0].sharding.dim_axes().next().is_none());
    assert_eq!(program.donation, [Donation { argument: 0, result: Some(0) }]);
}

#[test]
fn one_device_needs_memory_and_computes() {
    let program = compiled(
        "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          %0 = stablehlo.add %a, %a : tensor<4xf32>
          return %0 : tensor<4xf32>
        }",
    );
    assert_eq!((program.plan.peak.bytes, program.plan.flops), (32, 4.0));
}

#[test]
fn on_a_mesh_of_one_device_what_cannot_be_split_stays_whole() {
    let program = compiled(
        r#"sdy.mesh @mesh = <["x"=1]>
        func.func @main(%t: !stablehlo.token, %a: tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>) {
          return %t, %a : !stablehlo.token, tensor<4xf32>
        }"#,
    );
    assert_eq!((program.mesh.as_ref().map(|m| m.device_count()), program.devices()), (Some(1), 1));
}

#[test]
fn on_a_mesh_of_one_device_placements_go() {
    let source = r#"sdy.mesh @mesh = <["x"=1, "y"=1]>
        func.func private @twice(%a: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
          %0 = stablehlo.add %a, %a : tensor<4xf32>
          return %0 : tensor<4xf32>
        }
        func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>, tf.aliasing_output = 0 : i32})
            -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
          %0 = sdy.sharding_constraint %a <@mesh, [{"y"}]> : tensor<4xf32>
          sdy.sharding_group %0 group_id=0 : tensor<4xf32>
          %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>]
              manual_axes={"x"} (%b: tensor<4xf32>) {
            %5 = "stablehlo.all_reduce"(%b) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
              %6 = stablehlo.add %p, %q : tensor<f32>
              stablehlo.return %6 : tensor<f32>
            }) : (tensor<4xf32>) -> tensor<4xf32>
            sdy.return %5 : tensor<4xf32>
          } : (tensor<4xf32>) -> tensor<4xf32>
          %2 = call @twice(%1) : (tensor<4xf32>) -> tensor<4xf32>
          %3 = sdy.reshard %2 <@mesh, [{}]> : tensor<4xf32>
          return %3 : tensor<4xf32>
        }"#;
    let (program, module) = (compiled(source), parse(source));
    let printed = text::print(&program.module);
    assert!(!printed.contains("sdy.") && !printed.contains("call"), "{printed}");
    assert_eq!((program.devices(), &program.donation[..]), (1, &[Donation { argument: 0, result: Some(0) }][..]));
    let options = CompileOptions { causes: Causes::Annotations, ..CompileOptions::default() };
    let explained = compile(&module, &options).unwrap();
    assert!(explained.provenance.is_some());
    assert_eq!((program.plan.flops, &program.plan.arguments), (explained.plan.flops, &explained.plan.arguments));
    let x = Literal::from_bytes([4], ElementType::F32, [1f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat()).unwrap();
    for module in [&program.module, &explained.module] {
        let out = meshwork_eval::run(module, None, std::slice::from_ref(&x)).unwrap();
        assert_eq!(out[0].bytes(), [2f32, 4.0, 6.0, 8.0].map(f32::to_le_bytes).concat());
    }
}

#[test]
fn a_mesh_that_only_a_sharding_names_is_a_mesh() {
    let program = compiled(
        r#"func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>}) -> tensor<4xf32> {
          return %a : tensor<4xf32>
        }"#,
    );
    assert_eq!(program.devices(), 2);
}

#[test]
fn errors_stand_on_lines_of_their_own() {
    let at = |line| TextPos { line, col: 1 };
    let error = CompileError::Placement(vec![Diagnostic::error(at(1), "a"), Diagnostic::error(at(2), "b")]);
    assert_eq!(error.to_string().lines().count(), 2, "{error}");
    assert_eq!(error.diagnostics().len(), 2);
}

/// A program on `mesh` whose manual computation sums over the axis "x", with groups written as axes of it.
fn sum_along_axes(mesh: &str, rows: i64) -> String {
    format!(
        r#"sdy.mesh @mesh = <{mesh}>
        func.func @main(%a: tensor<{rows}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> tensor<4xf32> {{
          %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}]>] out_shardings=[<@mesh, [{{}}]>]
              manual_axes={{"x", "y"}} (%b: tensor<4xf32>) {{
            %1 = "stablehlo.all_reduce"(%b) ({{
            ^bb0(%c: tensor<f32>, %d: tensor<f32>):
              %2 = stablehlo.add %c, %d : tensor<f32>
              stablehlo.return %2 : tensor<f32>
            }}) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups =
              #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>}}
              : (tensor<4xf32>) -> tensor<4xf32>
            sdy.return %1 : tensor<4xf32>
          }} : (tensor<{rows}xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }}"#
    )
}

#[test]
fn groups_along_axes_are_not_listed() {
    let program = compiled(&sum_along_axes(r#"["x"=512, "y"=128]"#, 2048));
    let [sum] = &program.plan.collectives[..] else { panic!("{} collectives", program.plan.collectives.len()) };
    assert_eq!(sum.axes_text(), "x");
    assert_eq!(sum.collective.wire_bytes, 2.0 * 511.0 / 512.0 * 16.0);
    let text = text::print(&program.module);
    let inline = "#stablehlo.mesh<axes=[<name = \"x\", size = 512>, <name = \"y\", size = 128>]>, axes = [#stablehlo.axis_ref<name = \"x\">]";
    assert!(text.contains(inline) && text.len() < 2000, "{text}");
}

#[test]
fn groups_along_axes_need_no_mesh_on_one_device() {
    let program = compiled(&sum_along_axes(r#"["x"=1, "y"=1]"#, 4));
    assert!(meshwork_ir::verify::verify(&program.module).is_empty(), "{}", text::print(&program.module));
}
