//! What the transformations take, return and refuse.

use crate::common::program;
use meshwork_autodiff::{GradOptions, grad, jvp, vjp};
use meshwork_eval as eval;
use meshwork_ir::op::{ControlOp, SourceOp};
use meshwork_ir::{ElementType, Literal, Module, OpKind, Walk, text, verify};

fn options(wrt: &[usize], keep_value: bool) -> GradOptions {
    GradOptions { wrt: wrt.to_vec(), keep_value }
}

fn square() -> Module {
    program(
        "(%x: tensor<f64>, %n: tensor<i32>) -> (tensor<f64>, tensor<i32>, tensor<2xf64>)",
        "%y = $multiply %x, %x : tensor<f64>
         %b = $broadcast_in_dim %x, dims = [] : (tensor<f64>) -> tensor<2xf64>
         return %y, %n, %b : tensor<f64>, tensor<i32>, tensor<2xf64>",
    )
}

fn signature(module: &Module) -> String {
    module.func_type(module.entry().expect("main")).to_string()
}

#[test]
fn results_are_value_gradients_and_the_rest() {
    let (with, without) =
        (grad(&square(), "main", &options(&[0, 0], true)), grad(&square(), "main", &options(&[0], false)));
    let (with, without) = (with.expect("smooth"), without.expect("smooth"));
    let args = "(tensor<f64>, tensor<i32>) ->";
    assert_eq!(signature(&with), format!("{args} (tensor<f64>, tensor<f64>, tensor<f64>, tensor<i32>, tensor<2xf64>)"));
    assert_eq!(signature(&without), format!("{args} (tensor<f64>, tensor<i32>, tensor<2xf64>)"));
    let x = Literal::from_f64s([], ElementType::F64, &[3.0]).expect("fits");
    let n = Literal::from_i64s([], ElementType::I32, &[7]).expect("fits");
    let out = eval::run(&with, None, &[x, n]).expect("runs");
    assert_eq!([out[0].to_f64s(), out[1].to_f64s(), out[2].to_f64s()], [[9.0], [6.0], [6.0]]);
}

#[test]
fn vjp_takes_a_cotangent_for_each_float_result() {
    let back = vjp(&square(), "main", &options(&[0], true)).expect("smooth");
    assert_eq!(
        signature(&back),
        "(tensor<f64>, tensor<i32>, tensor<f64>, tensor<2xf64>) -> (tensor<f64>, tensor<i32>, tensor<2xf64>, tensor<f64>)"
    );
}

#[test]
fn jvp_takes_tangents_instead_of_cotangents() {
    let moved = jvp(&square(), "main", &options(&[0], true)).expect("smooth");
    assert_eq!(
        signature(&moved),
        "(tensor<f64>, tensor<i32>, tensor<f64>) -> (tensor<f64>, tensor<i32>, tensor<2xf64>, tensor<f64>, tensor<2xf64>)"
    );
    let x = Literal::from_f64s([], ElementType::F64, &[3.0]).expect("fits");
    let n = Literal::from_i64s([], ElementType::I32, &[7]).expect("fits");
    let out = eval::run(&moved, None, &[x.clone(), n, x]).expect("runs");
    assert_eq!((out[3].to_f64s(), out[4].to_f64s()), (vec![18.0], vec![3.0, 3.0]));
}

#[test]
fn what_the_gradient_does_not_need_is_not_computed() {
    let module = program(
        "(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64>",
        "%e = $exponential %y : tensor<f64>
         %s = $add %x, %e : tensor<f64>
         return %s : tensor<f64>",
    );
    let back = grad(&module, "main", &options(&[0], false)).expect("smooth");
    let ops = back.all_ops(Walk::PreOrder);
    let kinds: Vec<OpKind> = ops.into_iter().map(|op| back.op(op).kind()).collect();
    assert_eq!(
        kinds,
        [OpKind::Control(ControlOp::Func), OpKind::Source(SourceOp::Constant), OpKind::Control(ControlOp::FuncReturn)]
    );
}

#[test]
fn gradients_of_gradients() {
    let module = program(
        "(%x: tensor<f64>) -> tensor<f64>",
        "%z = $constant dense<0> : tensor<i32>
         %r:2 = $while(%i = %z, %y = %x) : tensor<i32>, tensor<f64>
           cond {
             %n = $constant dense<2> : tensor<i32>
             %c = $compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             $return %c : tensor<i1>
           } do {
             %one = $constant dense<1> : tensor<i32>
             %j = $add %i, %one : tensor<i32>
             %s = $multiply %y, %x : tensor<f64>
             $return %j, %s : tensor<i32>, tensor<f64>
           }
         return %r#1 : tensor<f64>",
    );
    let mut module = module;
    // The derivatives of x³ at 2.
    for want in [12.0, 12.0, 6.0, 0.0] {
        module = grad(&module, "main", &options(&[0], false)).expect("smooth");
        assert_eq!(verify::verify(&module), []);
        let x = Literal::from_f64s([], ElementType::F64, &[2.0]).expect("fits");
        let out = eval::run(&module, None, &[x]).expect("runs");
        assert_eq!(out[0].to_f64s(), [want]);
    }
}

#[test]
fn a_constraint_also_holds_for_the_cotangent() {
    let source = "sdy.mesh @mesh = <[\"x\"=2]>
        func.func @main(%x: tensor<4xf64> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}) -> (tensor<4xf64> {jax.result_info = \"y\"}) {
          %y = sdy.sharding_constraint %x <@mesh, [{\"x\"}]> : tensor<4xf64>
          %z = stablehlo.sine %y : tensor<4xf64>
          return %z : tensor<4xf64>
        }";
    let module = text::parse(source).expect("a program");
    let back = vjp(&module, "main", &options(&[0], true)).expect("smooth");
    assert_eq!(verify::verify(&back), []);
    let printed = text::print(&back);
    assert_eq!(printed.matches("sdy.sharding_constraint").count(), 2, "{printed}");
    assert!(
        printed.contains("%arg1: tensor<4xf64>) -> (tensor<4xf64> {jax.result_info = \"y\"}, tensor<4xf64>)"),
        "{printed}"
    );
}

#[test]
fn refusals_name_what_is_wrong() {
    let message = |module: &Module, func: &str, wrt: &[usize]| {
        grad(module, func, &options(wrt, false)).expect_err("not differentiable").to_string()
    };
    let module = square();
    assert_eq!(message(&module, "loss", &[0]), "no function @loss to differentiate; the module has @main");
    assert_eq!(
        message(&module, "main", &[2]),
        "cannot differentiate @main with respect to argument 2: it has 2 arguments"
    );
    assert_eq!(
        message(&module, "main", &[1]),
        "cannot differentiate @main with respect to argument 1 of type tensor<i32>: gradients need a static shape and float or complex elements"
    );
    let vector = program("(%x: tensor<2xf64>) -> tensor<2xf64>", "return %x : tensor<2xf64>");
    assert_eq!(
        message(&vector, "main", &[0]),
        "the gradient of @main needs a float scalar as its first result, got tensor<2xf64>; use vjp, or sum the result first"
    );
    let outside = program(
        "(%x: tensor<f64>) -> tensor<f64>",
        "%y = $custom_call @mystery(%x) : (tensor<f64>) -> tensor<f64> loc(\"model.py\":12:7)
         return %y : tensor<f64>",
    );
    assert_eq!(
        message(&outside, "main", &[0]),
        "no derivative of 'stablehlo.custom_call' at model.py:12:7: what a custom call computes is not known here; differentiate a version without it"
    );
}
