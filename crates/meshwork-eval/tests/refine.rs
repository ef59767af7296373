//! Programs with unknown extents, for arguments of known ones.

use meshwork_eval::{is_symbolic, refine, run};
use meshwork_ir::verify::verify;
use meshwork_ir::{ElementType, Literal, Module, Type, text};

fn refined(source: &str, dims: &[&[i64]]) -> Result<Module, String> {
    let module = text::parse(source).unwrap();
    let main = module.func("main").unwrap();
    assert!(is_symbolic(&module, main));
    let types: Vec<Type> = dims.iter().map(|d| Type::tensor(d.iter().copied(), ElementType::F32)).collect();
    let module = refine(&module, main, &types).map_err(|e| e.to_string())?;
    assert!(verify(&module).is_empty(), "{:?}\n{}", verify(&module), text::print(&module));
    assert!(!text::print(&module).contains('?'), "{}", text::print(&module));
    Ok(module)
}

/// A function of the extents, called with them as JAX does.
const CALLS: &str = r#"
  func.func @main(%x: tensor<?x4xf32>) -> tensor<?xf32> {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %ok = stablehlo.compare GE, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%ok, %n) {has_side_effect = true, error_message = "n is {0}"} : (tensor<i1>, tensor<i32>) -> ()
    %0 = call @flat(%n, %x) : (tensor<i32>, tensor<?x4xf32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
  func.func private @flat(%n: tensor<i32>, %x: tensor<?x4xf32>) -> tensor<?xf32> {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %m = stablehlo.multiply %n, %four : tensor<i32>
    %shape = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
    %0 = stablehlo.dynamic_reshape %x, %shape : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>
    %i = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    %1 = stablehlo.add %0, %i : tensor<?xf32>
    return %1 : tensor<?xf32>
  }"#;

#[test]
fn extents_are_computed_through_calls() {
    let module = refined(CALLS, &[&[2, 4]]).unwrap();
    let printed = text::print(&module);
    assert!(printed.contains("stablehlo.reshape %arg0 : (tensor<2x4xf32>) -> tensor<8xf32>"), "{printed}");
    assert!(!printed.contains("get_dimension_size") && !printed.contains("custom_call"), "{printed}");
    let x = Literal::from_f64s([2, 4], ElementType::F32, &[0.0; 8]).unwrap();
    assert_eq!(run(&module, None, &[x]).unwrap()[0].to_f64s(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn assertions_are_checked_and_arguments_must_fit() {
    assert!(refined(CALLS, &[&[0, 4]]).unwrap_err().contains("n is 0"));
    assert!(refined(CALLS, &[&[2, 5]]).unwrap_err().contains("tensor<2x5xf32> is given"));
    assert!(refined(CALLS, &[]).unwrap_err().contains("takes 1 arguments, 0 given"));
}

#[test]
fn loops_and_branches_carry_what_they_are_given() {
    let source = r#"
      func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %r:3 = stablehlo.while(%i = %zero, %k = %n, %y = %x) : tensor<i32>, tensor<i32>, tensor<?xf32>
          cond {
            %c = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %next = stablehlo.add %i, %one : tensor<i32>
            %s = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
            %f = stablehlo.constant dense<1.0> : tensor<f32>
            %b = stablehlo.dynamic_broadcast_in_dim %f, %s, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
            %z = stablehlo.add %y, %b : tensor<?xf32>
            stablehlo.return %next, %k, %z : tensor<i32>, tensor<i32>, tensor<?xf32>
          }
        %three = stablehlo.constant dense<3> : tensor<i32>
        %many = stablehlo.compare GT, %n, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %out = "stablehlo.if"(%many) ({
          %a = stablehlo.negate %r#2 : tensor<?xf32>
          stablehlo.return %a : tensor<?xf32>
        }, {
          stablehlo.return %r#2 : tensor<?xf32>
        }) : (tensor<i1>) -> tensor<?xf32>
        return %out : tensor<?xf32>
      }"#;
    let value = |n: usize| {
        let x = Literal::from_f64s([n as i64], ElementType::F32, &vec![0.0; n]).unwrap();
        run(&refined(source, &[&[n as i64]]).unwrap(), None, &[x]).unwrap()[0].to_f64s()
    };
    assert_eq!((value(2), value(4)), (vec![2.0; 2], vec![-4.0; 4]));
}

#[test]
fn shapes_among_the_operands_become_attributes() {
    let source = r#"
      func.func @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
        %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %v = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
        %zero = stablehlo.constant dense<0> : tensor<1xi32>
        %one = stablehlo.constant dense<1> : tensor<1xi32>
        %f = stablehlo.constant dense<0.0> : tensor<f32>
        %padded = stablehlo.dynamic_pad %x, %f, %one, %one, %zero : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
        %sliced = stablehlo.real_dynamic_slice %padded, %one, %v, %one : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
        %pad = stablehlo.constant dense<0> : tensor<1x2xi32>
        %sums = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %f, %v, %one, %one, %one, %pad) {called_computations = [@add]} : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> tensor<?xf32>
        %k = stablehlo.constant dense<1> : tensor<i32>
        %top:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k) : (tensor<?xf32>, tensor<i32>) -> (tensor<?xf32>, tensor<?xi32>)
        return %padded, %sliced, %sums, %top#0 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
      }
      func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.add %a, %b : tensor<f32>
        return %0 : tensor<f32>
      }"#;
    let module = refined(source, &[&[3]]).unwrap();
    let x = Literal::from_f64s([3], ElementType::F32, &[1.0, 2.0, 3.0]).unwrap();
    let results: Vec<Vec<f64>> = run(&module, None, &[x]).unwrap().iter().map(Literal::to_f64s).collect();
    assert_eq!(results, [vec![0.0, 1.0, 2.0, 3.0, 0.0], vec![1.0, 2.0], vec![6.0], vec![3.0]]);
}

#[test]
fn slices_of_known_extents_may_move() {
    let source = r#"
      func.func @main(%x: tensor<?x?xf32>, %f: tensor<f32>) -> tensor<1x?xf32> {
        %m = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<1xi32>
        %zero = stablehlo.constant dense<0> : tensor<1xi32>
        %mv = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
        %sizes = stablehlo.concatenate %one, %mv, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
        %i = stablehlo.convert %f : (tensor<f32>) -> tensor<i32>
        %iv = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
        %starts = stablehlo.concatenate %iv, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
        %limits = stablehlo.add %starts, %sizes : tensor<2xi32>
        %strides = stablehlo.constant dense<1> : tensor<2xi32>
        %row = stablehlo.real_dynamic_slice %x, %starts, %limits, %strides : (tensor<?x?xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x?xf32>
        return %row : tensor<1x?xf32>
      }"#;
    let module = refined(source, &[&[3, 2], &[]]).unwrap();
    let x = Literal::from_f64s([3, 2], ElementType::F32, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let i = Literal::from_f64s([], ElementType::F32, &[2.0]).unwrap();
    assert_eq!(run(&module, None, &[x, i]).unwrap()[0].to_f64s(), [4.0, 5.0]);
}
