//! Composites are split through their decomposition, and tokens cross borders and control flow.

#[path = "common/mod.rs"]
mod common;

use common::{check, split};
use meshwork_ir::{text, verify};

/// `%a`, split over `x`, goes through `body`, which makes `%r`; `@twice` and `@deep` are decompositions.
fn program(body: &str) -> String {
    let t = "tensor<4x6xf32>";
    format!(
        "module {{
          sdy.mesh @m = <[\"x\"=2, \"y\"=3]>
          func.func public @main(%a: {t} {{sdy.sharding = #sdy.sharding<@m, [{{\"x\"}}, {{}}]>}}) -> {t} {{
            {body}
            return %r : {t}
          }}
          func.func private @twice(%v: {t}) -> {t} {{
            %0 = stablehlo.add %v, %v : {t}
            return %0 : {t}
          }}
          func.func private @deep(%v: {t}) -> {t} attributes {{no_inline}} {{
            %0 = stablehlo.composite \"my.twice\" %v {{decomposition = @twice}} : ({t}) -> {t}
            %1 = func.call @twice(%0) : ({t}) -> {t}
            return %1 : {t}
          }}
        }}"
    )
}

#[test]
fn composites_anywhere_need_no_communication() {
    let t = "tensor<4x6xf32>";
    let call = |name: &str, v: &str| {
        format!(
            "stablehlo.composite \"my.{name}\" {v} {{composite_attributes = {{k = 1 : i64}}, decomposition = @{name}, version = 2 : i32}} : ({t}) -> {t}"
        )
    };
    for name in ["twice", "deep"] {
        for body in [
            format!("%r = {}", call(name, "%a")),
            format!("%0 = {}\n%r = {}", call(name, "%a"), call("twice", "%0")),
            format!(
                "%zero = stablehlo.constant dense<0> : tensor<i32>
                 %s:2 = stablehlo.while(%i = %zero, %v = %a) : tensor<i32>, {t} cond {{
                   %n = stablehlo.constant dense<3> : tensor<i32>
                   %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                   stablehlo.return %go : tensor<i1>
                 }} do {{
                   %one = stablehlo.constant dense<1> : tensor<i32>
                   %next = stablehlo.add %i, %one : tensor<i32>
                   %w = {}
                   stablehlo.return %next, %w : tensor<i32>, {t}
                 }}
                 %r = stablehlo.negate %s#1 : {t}",
                call(name, "%v")
            ),
        ] {
            let program = check(&program(&body));
            assert_eq!(common::collectives(&program), [], "{body}");
            assert_eq!(verify::verify(&program.module), []);
        }
    }
    let inside = "%r = sdy.manual_computation(%a) in_shardings=[<@m, [{\"x\"}, {}]>] out_shardings=[<@m, [{\"x\"}, {}]>] manual_axes={\"x\"} (%b: tensor<2x6xf32>) {
        %0 = stablehlo.composite \"my.part\" %b {decomposition = @part} : (tensor<2x6xf32>) -> tensor<2x6xf32>
        sdy.return %0 : tensor<2x6xf32>
      } : (tensor<4x6xf32>) -> tensor<4x6xf32>";
    let part = "func.func private @part(%v: tensor<2x6xf32>) -> tensor<2x6xf32> {
        %0 = stablehlo.sine %v : tensor<2x6xf32>
        return %0 : tensor<2x6xf32>
      }";
    check(&program(inside).replace("func.func private @twice", &format!("{part}\nfunc.func private @twice")));
}

#[test]
fn tokens_at_the_border_and_in_control_flow() {
    let source = "module {
      sdy.mesh @m = <[\"x\"=2]>
      func.func @main(%t: !stablehlo.token {jax.token = true}, %a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"x\"}]>}, %i: tensor<i32>)
          -> (!stablehlo.token {jax.token = true}, tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"x\"}]>}) {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %s:3 = stablehlo.while(%k = %t, %n = %zero, %v = %a) : !stablehlo.token, tensor<i32>, tensor<4xf32> cond {
          %three = stablehlo.constant dense<3> : tensor<i32>
          %go = stablehlo.compare LT, %n, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %go : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %next = stablehlo.add %n, %one : tensor<i32>
          %l = stablehlo.after_all %k : !stablehlo.token
          %w = stablehlo.add %v, %a : tensor<4xf32>
          stablehlo.return %l, %next, %w : !stablehlo.token, tensor<i32>, tensor<4xf32>
        }
        %u = stablehlo.create_token : !stablehlo.token
        %j = stablehlo.after_all %s#0, %u : !stablehlo.token
        %c:2 = \"stablehlo.case\"(%i) ({
          stablehlo.return %j, %s#2 : !stablehlo.token, tensor<4xf32>
        }, {
          %o = stablehlo.after_all %j : !stablehlo.token
          %d = stablehlo.negate %s#2 : tensor<4xf32>
          stablehlo.return %o, %d : !stablehlo.token, tensor<4xf32>
        }) : (tensor<i32>) -> (!stablehlo.token, tensor<4xf32>)
        return %c#0, %c#1 : !stablehlo.token, tensor<4xf32>
      }
    }";
    let (module, program) = split(source);
    assert_eq!((program.inputs().len(), program.outputs().len()), (2, 1));
    assert_eq!(verify::verify(&program.module), [], "{}", text::print(&program.module));
    let plain = source
        .replace("%t: !stablehlo.token {jax.token = true}, ", "")
        .replace("!stablehlo.token {jax.token = true}, ", "");
    let plain = plain.replace("%zero = ", "%t = stablehlo.create_token : !stablehlo.token\n%zero = ");
    let plain = plain.replace("return %c#0, %c#1 : !stablehlo.token, ", "return %c#1 : ");
    check(&plain);
    assert_eq!(text::print(&split(&plain).1.module), text::print(&program.module));
    drop(module);
}
