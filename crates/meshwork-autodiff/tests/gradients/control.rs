//! Derivatives of branches and loops.

use crate::common::{check, program};
use meshwork_autodiff::{GradOptions, grad, jvp, vjp};
use meshwork_eval as eval;
use meshwork_ir::{ElementType, Literal, text};

#[test]
fn branches_use_values_from_outside() {
    for pred in ["true", "false"] {
        check(&program(
            "(%x: tensor<3xf64>, %y: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>)",
            &format!(
                "%p = $constant dense<{pred}> : tensor<i1>
                 %s = $sine %x : tensor<3xf64>
                 %r:2 = \"$if\"(%p) ({{
                   %m = $multiply %s, %y : tensor<3xf64>
                   %e = $exponential %m : tensor<3xf64>
                   $return %e, %x : tensor<3xf64>, tensor<3xf64>
                 }}, {{
                   $return %s, %s : tensor<3xf64>, tensor<3xf64>
                 }}) : (tensor<i1>) -> (tensor<3xf64>, tensor<3xf64>)
                 return %r#0, %r#1 : tensor<3xf64>, tensor<3xf64>"
            ),
        ));
    }
}

#[test]
fn cases_out_of_range_too() {
    for index in [-1, 0, 1, 2, 7] {
        check(&program(
            "(%x: tensor<3xf64>) -> tensor<3xf64>",
            &format!(
                "%i = $constant dense<{index}> : tensor<i32>
                 %r = \"$case\"(%i) ({{
                   %a = $sine %x : tensor<3xf64>
                   $return %a : tensor<3xf64>
                 }}, {{
                   %b = $multiply %x, %x : tensor<3xf64>
                   $return %b : tensor<3xf64>
                 }}, {{
                   %c = $constant dense<1.0> : tensor<3xf64>
                   $return %c : tensor<3xf64>
                 }}) : (tensor<i32>) -> tensor<3xf64>
                 return %r : tensor<3xf64>"
            ),
        ));
    }
}

fn power_loop(cond: &str, start: i64, step: i64) -> meshwork_ir::Module {
    program(
        "(%x: tensor<2xf64>, %w: tensor<2xf64>) -> tensor<2xf64>",
        &format!(
            "%i0 = $constant dense<{start}> : tensor<i32>
             %n = $constant dense<4> : tensor<i32>
             %r:3 = $while(%i = %i0, %y = %x, %l = %n) : tensor<i32>, tensor<2xf64>, tensor<i32>
               cond {{
                 %c = {cond} : (tensor<i32>, tensor<i32>) -> tensor<i1>
                 $return %c : tensor<i1>
               }} do {{
                 %one = $constant dense<{step}> : tensor<i32>
                 %j = $add %i, %one : tensor<i32>
                 %f = $convert %i : (tensor<i32>) -> tensor<f64>
                 %g = $broadcast_in_dim %f, dims = [] : (tensor<f64>) -> tensor<2xf64>
                 %a = $multiply %y, %w : tensor<2xf64>
                 %s = $sine %a : tensor<2xf64>
                 %t = $multiply %s, %g : tensor<2xf64>
                 $return %j, %t, %l : tensor<i32>, tensor<2xf64>, tensor<i32>
               }}
             return %r#1 : tensor<2xf64>"
        ),
    )
}

#[test]
fn counted_loops_up_and_down() {
    check(&power_loop("$compare LT, %i, %l", 1, 1));
    check(&power_loop("$compare GE, %l, %i", 0, 3));
    check(&power_loop("$compare GT, %i, %l", 9, -2));
    check(&power_loop("$compare NE, %i, %l", 1, 1));
    check(&power_loop("$compare LT, %i, %l", 5, 1));
}

#[test]
fn a_nested_loop() {
    check(&program(
        "(%x: tensor<2xf64>, %w: tensor<2xf64>) -> tensor<2xf64>",
        "%z = $constant dense<0> : tensor<i32>
         %one = $constant dense<1> : tensor<i32>
         %n = $constant dense<3> : tensor<i32>
         %r:2 = $while(%i = %z, %y = %x) : tensor<i32>, tensor<2xf64>
           cond {
             %c = $compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             $return %c : tensor<i1>
           } do {
             %u:2 = $while(%k = %z, %v = %y) : tensor<i32>, tensor<2xf64>
               cond {
                 %c = $compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                 $return %c : tensor<i1>
               } do {
                 %m = $multiply %v, %w : tensor<2xf64>
                 %s = $cosine %m : tensor<2xf64>
                 %kk = $add %k, %one : tensor<i32>
                 $return %kk, %s : tensor<i32>, tensor<2xf64>
               }
             %q = $multiply %u#1, %y : tensor<2xf64>
             %j = $add %i, %one : tensor<i32>
             $return %j, %q : tensor<i32>, tensor<2xf64>
           }
         return %r#1 : tensor<2xf64>",
    ));
}

#[test]
fn stacked_outputs_are_not_kept_step_by_step() {
    let module = program(
        "(%x: tensor<2xf64>) -> tensor<5x2xf64>",
        "%z = $constant dense<0> : tensor<i32>
         %one = $constant dense<1> : tensor<i32>
         %n = $constant dense<5> : tensor<i32>
         %e = $constant dense<0.0> : tensor<5x2xf64>
         %r:3 = $while(%i = %z, %y = %x, %ys = %e) : tensor<i32>, tensor<2xf64>, tensor<5x2xf64>
           cond {
             %c = $compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             $return %c : tensor<i1>
           } do {
             %s = $sine %y : tensor<2xf64>
             %row = $reshape %s : (tensor<2xf64>) -> tensor<1x2xf64>
             %out = $dynamic_update_slice %ys, %row, %i, %z : (tensor<5x2xf64>, tensor<1x2xf64>, tensor<i32>, tensor<i32>) -> tensor<5x2xf64>
             %j = $add %i, %one : tensor<i32>
             $return %j, %s, %out : tensor<i32>, tensor<2xf64>, tensor<5x2xf64>
           }
         return %r#2 : tensor<5x2xf64>",
    );
    check(&module);
    let back = vjp(&module, "main", &GradOptions { wrt: vec![0], keep_value: false }).expect("differentiable");
    let printed = text::print(&back);
    assert!(!printed.contains("tensor<5x5x2xf64>"), "{printed}");
}

/// Doubles until above the argument's own bound.
fn doubling() -> meshwork_ir::Module {
    program(
        "(%x: tensor<f64>, %w: tensor<f64>) -> tensor<f64>",
        "%one = $constant dense<1.0> : tensor<f64>
         %r = $while(%y = %x) : tensor<f64>
           cond {
             %c = $compare LT, %y, %one : (tensor<f64>, tensor<f64>) -> tensor<i1>
             $return %c : tensor<i1>
           } do {
             %s = $add %y, %y : tensor<f64>
             %t = $multiply %s, %w : tensor<f64>
             $return %t : tensor<f64>
           }
         return %r : tensor<f64>",
    )
}

#[test]
fn a_loop_of_unknown_length_is_refused_on_the_way_back() {
    let e = grad(&doubling(), "main", &GradOptions { wrt: vec![0], keep_value: false }).expect_err("no trip count");
    assert_eq!(
        e.to_string(),
        "no derivative of 'stablehlo.while' at line 3, column 15: the trip count of the loop is unknown: its condition must compare a counter, which changes by a constant, with a constant; give it a number of steps that is known before the run (for_loop, scan), or use jvp, which needs none"
    );
}

#[test]
fn a_loop_of_unknown_length_has_tangents() {
    let ahead = jvp(&doubling(), "main", &GradOptions { wrt: vec![0, 1], keep_value: true }).expect("forward");
    assert_eq!(meshwork_ir::verify::verify(&ahead), [], "{}", text::print(&ahead));
    let number = |v: f64| Literal::from_f64s([], ElementType::F64, &[v]).unwrap();
    let run = |x: f64, w: f64, dx: f64, dw: f64| {
        let out = eval::run(&ahead, None, &[x, w, dx, dw].map(number)).unwrap();
        (out[0].to_f64s()[0], out[1].to_f64s()[0])
    };
    // 0.2 takes three steps with w = 1: y = 8 x w^3.
    let (y, dy) = run(0.2, 1.0, 1.0, 0.0);
    assert!((y - 1.6).abs() < 1e-12 && (dy - 8.0).abs() < 1e-12, "{y} {dy}");
    assert!((run(0.2, 1.0, 0.0, 1.0).1 - 24.0 * 0.2).abs() < 1e-12);
    // 3 takes none.
    assert_eq!(run(3.0, 1.0, 1.0, 5.0), (3.0, 1.0));
}

#[test]
fn scans_both_ways_along_any_dimension() {
    for reverse in [false, true] {
        check(&program(
            "(%x: tensor<2x4xf64>, %c: tensor<2xf64>) -> (tensor<2x4xf64>, tensor<2xf64>)",
            &format!(
                "%y, %d = \"chlo.scan\"(%x, %c) <{{dimension = 1 : i64, is_reverse = {reverse},
                   operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}}> ({{
                 ^bb0(%a: tensor<2xf64>, %b: tensor<2xf64>):
                   %p = $multiply %a, %b : tensor<2xf64>
                   %s = $sine %p : tensor<2xf64>
                   %n = $add %s, %b : tensor<2xf64>
                   $return %p, %n : tensor<2xf64>, tensor<2xf64>
                 }}) : (tensor<2x4xf64>, tensor<2xf64>) -> (tensor<2x4xf64>, tensor<2xf64>)
                 return %y, %d : tensor<2x4xf64>, tensor<2xf64>"
            ),
        ));
    }
}
