//! Loops, branches and composition with derivatives.

use crate::common::{check, program};
use meshwork_autodiff::{BatchOptions, GradOptions, grad, vmap};
use meshwork_ir::op::ControlOp;
use meshwork_ir::{OpKind, Walk};

#[test]
fn counted_loops_stay_loops() {
    let module = program(
        "(%x: tensor<2xf64>, %w: tensor<2xf64>) -> (tensor<2xf64>, tensor<i32>)",
        "%i0 = $constant dense<0> : tensor<i32>
         %n = $constant dense<4> : tensor<i32>
         %one = $constant dense<1> : tensor<i32>
         %r:2 = $while(%i = %i0, %y = %x) : tensor<i32>, tensor<2xf64>
           cond {
             %c = $compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             $return %c : tensor<i1>
           } do {
             %j = $add %i, %one : tensor<i32>
             %z = $multiply %y, %w : tensor<2xf64>
             $return %j, %z : tensor<i32>, tensor<2xf64>
           }
         return %r#1, %r#0 : tensor<2xf64>, tensor<i32>",
    );
    check(&module);
    let options = BatchOptions { size: 2, in_axes: vec![Some(0), None], ..BatchOptions::default() };
    let wide = vmap(&module, "main", &options).unwrap();
    let loops: Vec<_> = wide
        .all_ops(Walk::PreOrder)
        .into_iter()
        .filter(|&op| wide.op(op).kind() == OpKind::Control(ControlOp::While))
        .collect();
    assert_eq!(loops.len(), 1);
    // The counter is the same for all.
    assert_eq!(wide.ty(wide.op(loops[0]).results()[0]).dims(), []);
}

/// Examples leave at different steps; a value from outside is batched, a carried one depends on a batched one later.
#[test]
fn loops_that_end_at_different_steps() {
    check(&program(
        "(%x: tensor<f64>, %limit: tensor<f64>) -> (tensor<f64>, tensor<i32>, tensor<2xf64>)",
        "%i0 = $constant dense<0> : tensor<i32>
         %s0 = $constant dense<0.0> : tensor<2xf64>
         %one = $constant dense<1> : tensor<i32>
         %r:3 = $while(%y = %x, %i = %i0, %s = %s0) : tensor<f64>, tensor<i32>, tensor<2xf64>
           cond {
             %ten = $constant dense<10.0> : tensor<f64>
             %most = $multiply %limit, %ten : tensor<f64>
             %c = $compare LT, %y, %most : (tensor<f64>, tensor<f64>) -> tensor<i1>
             $return %c : tensor<i1>
           } do {
             %j = $add %i, %one : tensor<i32>
             %k = $constant dense<1.5> : tensor<f64>
             %z = $multiply %y, %k : tensor<f64>
             %b = $broadcast_in_dim %y, dims = [] : (tensor<f64>) -> tensor<2xf64>
             %t = $add %s, %b : tensor<2xf64>
             $return %z, %j, %t : tensor<f64>, tensor<i32>, tensor<2xf64>
           }
         return %r#0, %r#1, %r#2 : tensor<f64>, tensor<i32>, tensor<2xf64>",
    ));
}

#[test]
fn branches_chosen_for_all_or_by_each() {
    check(&program(
        "(%p: tensor<i1>, %x: tensor<3xf64>, %y: tensor<3xf64>) -> (tensor<3xf64>, tensor<i32>)",
        "%r:2 = \"$if\"(%p) ({
           %m = $multiply %x, %y : tensor<3xf64>
           %a = $constant dense<1> : tensor<i32>
           $return %m, %a : tensor<3xf64>, tensor<i32>
         }, {
           %b = $constant dense<2> : tensor<i32>
           $return %x, %b : tensor<3xf64>, tensor<i32>
         }) : (tensor<i1>) -> (tensor<3xf64>, tensor<i32>)
         return %r#0, %r#1 : tensor<3xf64>, tensor<i32>",
    ));
    check(&program(
        "(%i: tensor<i32>, %x: tensor<3xf64>) -> tensor<3xf64>",
        "%r = \"$case\"(%i) ({
           %a = $sine %x : tensor<3xf64>
           $return %a : tensor<3xf64>
         }, {
           %b = $multiply %x, %x : tensor<3xf64>
           $return %b : tensor<3xf64>
         }, {
           %c = $constant dense<1.0> : tensor<3xf64>
           $return %c : tensor<3xf64>
         }) : (tensor<i32>) -> tensor<3xf64>
         return %r : tensor<3xf64>",
    ));
}

fn curve() -> meshwork_ir::Module {
    program(
        "(%x: tensor<3xf64>, %w: tensor<3x3xf64>) -> tensor<f64>",
        "%y = $dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<3x3xf64>, tensor<3xf64>) -> tensor<3xf64>
         %t = $tanh %y : tensor<3xf64>
         %z = $constant dense<0.0> : tensor<f64>
         %r = $reduce(%t init: %z) applies $add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
         return %r : tensor<f64>",
    )
}

/// Gradients per example.
#[test]
fn batched_gradients_equal_gradients_of_examples() {
    check(&grad(&curve(), "main", &GradOptions { wrt: vec![0, 1], keep_value: true }).unwrap());
}

#[test]
fn batched_twice() {
    let inner = BatchOptions { size: 2, in_axes: vec![Some(1), None], ..BatchOptions::default() };
    check(&vmap(&curve(), "main", &inner).unwrap());
}

#[test]
fn errors_name_argument_and_operation() {
    let wrong = BatchOptions { size: 2, in_axes: vec![Some(2)], ..BatchOptions::default() };
    let error = vmap(&curve(), "main", &wrong).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot batch argument 0 of @main of type tensor<3xf64> along dimension 2: it has 2 dimensions with the batch"
    );
    let shared = BatchOptions { size: 2, in_axes: vec![Some(0)], out_axes: vec![None], ..BatchOptions::default() };
    let error = vmap(&curve(), "main", &shared).unwrap_err().to_string();
    assert!(error.starts_with("result 0 depends on a batched argument"), "{error}");
    let dynamic = program(
        "(%x: tensor<?xf64>, %y: tensor<f64>) -> tensor<?xf64>",
        "%r = $add %x, %x : tensor<?xf64>\nreturn %r : tensor<?xf64>",
    );
    let error = vmap(&dynamic, "main", &wrong_axis(0)).unwrap_err().to_string();
    assert!(error.contains("'stablehlo.add'") && error.contains("not known before the run"), "{error}");
}

fn wrong_axis(axis: usize) -> BatchOptions {
    BatchOptions { size: 2, in_axes: vec![Some(axis)], ..BatchOptions::default() }
}
