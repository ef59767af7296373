//! Where a function has a kink, the derivative follows a stated convention.

use crate::common::program;
use meshwork_autodiff::{GradOptions, vjp};
use meshwork_eval as eval;
use meshwork_ir::{ElementType, Literal, Module};

fn at(module: &Module, args: &[&[f64]]) -> Vec<Vec<f64>> {
    let options = GradOptions { wrt: (0..args.len()).collect(), keep_value: false };
    let back = vjp(module, "main", &options).expect("differentiable");
    let results = module.func_type(module.entry().expect("main")).results;
    let literal = |v: &[f64]| Literal::from_f64s([v.len() as i64], ElementType::F64, v).expect("fits");
    let mut all: Vec<Literal> = args.iter().map(|v| literal(v)).collect();
    for ty in results {
        let count = ty.dims().iter().product::<i64>() as usize;
        all.push(Literal::from_f64s(ty.dims().to_vec(), ElementType::F64, &vec![1.0; count]).expect("fits"));
    }
    eval::run(&back, None, &all).expect("runs").iter().map(Literal::to_f64s).collect()
}

#[test]
fn equal_operands_share_evenly() {
    for op in ["maximum", "minimum"] {
        let module = program(
            "(%x: tensor<2xf64>, %y: tensor<2xf64>) -> tensor<2xf64>",
            &format!("%z = ${op} %x, %y : tensor<2xf64>\nreturn %z : tensor<2xf64>"),
        );
        assert_eq!(at(&module, &[&[1.0, 2.0], &[1.0, 2.0]]), [[0.5, 0.5], [0.5, 0.5]]);
    }
}

#[test]
fn equal_elements_of_a_reduction_share_evenly() {
    let module = program(
        "(%x: tensor<4xf64>) -> tensor<f64>",
        "%i = $constant dense<-9.0> : tensor<f64>
         %z = $reduce(%x init: %i) applies $maximum across dimensions = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<f64>
         return %z : tensor<f64>",
    );
    assert_eq!(at(&module, &[&[3.0, 1.0, 3.0, 2.0]]), [[0.5, 0.0, 0.5, 0.0]]);
    // The initial value wins: no element gets anything, and nothing is divided by zero.
    assert_eq!(at(&module, &[&[-10.0, -11.0, -12.0, -13.0]]), [[0.0; 4]]);
}

#[test]
fn flat_and_kinked_points() {
    let module = program(
        "(%x: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)",
        "%a = $abs %x : tensor<3xf64>
         %one = $constant dense<1.0> : tensor<3xf64>
         %c = $clamp %one, %x, %one : tensor<3xf64>
         %zero = $constant dense<0.0> : tensor<3xf64>
         %p = $power %x, %zero : tensor<3xf64>
         return %a, %c, %p : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>",
    );
    assert_eq!(at(&module, &[&[0.0, 1.0, -1.0]]), [[1.0, 1.0, -1.0]]);
}
