//! Gradients of whole programs.

use crate::common::{check, check_transposed, program};
use meshwork_ir::Module;

/// Both modes.
fn both(module: &Module) {
    check(module);
    check_transposed(module);
}

const SUM: &str = "applies $add across dimensions =";

#[test]
fn mlp_loss() {
    both(&program(
        "(%x: tensor<4x3xf64>, %w1: tensor<3x5xf64>, %b1: tensor<5xf64>, %w2: tensor<5x2xf64>, %t: tensor<4x2xf64>) -> tensor<f64>",
        &format!(
            "%h = $dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<4x3xf64>, tensor<3x5xf64>) -> tensor<4x5xf64>
             %bb = $broadcast_in_dim %b1, dims = [1] : (tensor<5xf64>) -> tensor<4x5xf64>
             %hb = $add %h, %bb : tensor<4x5xf64>
             %a = $tanh %hb : tensor<4x5xf64>
             %y = $dot_general %a, %w2, contracting_dims = [1] x [0] : (tensor<4x5xf64>, tensor<5x2xf64>) -> tensor<4x2xf64>
             %d = $subtract %y, %t : tensor<4x2xf64>
             %q = $multiply %d, %d : tensor<4x2xf64>
             %zero = $constant dense<0.0> : tensor<f64>
             %s = $reduce(%q init: %zero) {SUM} [0, 1] : (tensor<4x2xf64>, tensor<f64>) -> tensor<f64>
             %n = $constant dense<8.0> : tensor<f64>
             %l = $divide %s, %n : tensor<f64>
             return %l : tensor<f64>"
        ),
    ));
}

#[test]
fn layer_norm() {
    both(&program(
        "(%x: tensor<3x5xf64>, %g: tensor<5xf64>, %b: tensor<5xf64>) -> tensor<3x5xf64>",
        &format!(
            "%zero = $constant dense<0.0> : tensor<f64>
             %n = $constant dense<5.0> : tensor<3xf64>
             %s = $reduce(%x init: %zero) {SUM} [1] : (tensor<3x5xf64>, tensor<f64>) -> tensor<3xf64>
             %m = $divide %s, %n : tensor<3xf64>
             %mb = $broadcast_in_dim %m, dims = [0] : (tensor<3xf64>) -> tensor<3x5xf64>
             %c = $subtract %x, %mb : tensor<3x5xf64>
             %q = $multiply %c, %c : tensor<3x5xf64>
             %v = $reduce(%q init: %zero) {SUM} [1] : (tensor<3x5xf64>, tensor<f64>) -> tensor<3xf64>
             %vm = $divide %v, %n : tensor<3xf64>
             %e = $constant dense<1.0e-3> : tensor<3xf64>
             %ve = $add %vm, %e : tensor<3xf64>
             %r = $rsqrt %ve : tensor<3xf64>
             %rb = $broadcast_in_dim %r, dims = [0] : (tensor<3xf64>) -> tensor<3x5xf64>
             %h = $multiply %c, %rb : tensor<3x5xf64>
             %gb = $broadcast_in_dim %g, dims = [1] : (tensor<5xf64>) -> tensor<3x5xf64>
             %bb = $broadcast_in_dim %b, dims = [1] : (tensor<5xf64>) -> tensor<3x5xf64>
             %hg = $multiply %h, %gb : tensor<3x5xf64>
             %y = $add %hg, %bb : tensor<3x5xf64>
             return %y : tensor<3x5xf64>"
        ),
    ));
}

#[test]
fn softmax_cross_entropy_of_labels() {
    both(&program(
        "(%x: tensor<3x4xf64>) -> tensor<f64>",
        &format!(
            "%zero = $constant dense<0.0> : tensor<f64>
             %inf = $constant dense<0xFFF0000000000000> : tensor<f64>
             %m = $reduce(%x init: %inf) applies $maximum across dimensions = [1] : (tensor<3x4xf64>, tensor<f64>) -> tensor<3xf64>
             %mb = $broadcast_in_dim %m, dims = [0] : (tensor<3xf64>) -> tensor<3x4xf64>
             %c = $subtract %x, %mb : tensor<3x4xf64>
             %e = $exponential %c : tensor<3x4xf64>
             %s = $reduce(%e init: %zero) {SUM} [1] : (tensor<3x4xf64>, tensor<f64>) -> tensor<3xf64>
             %ls = $log %s : tensor<3xf64>
             %lb = $broadcast_in_dim %ls, dims = [0] : (tensor<3xf64>) -> tensor<3x4xf64>
             %p = $subtract %c, %lb : tensor<3x4xf64>
             %i = $constant dense<[[0, 1], [1, 3], [2, 1]]> : tensor<3x2xi32>
             %t = \"$gather\"(%p, %i) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}}> : (tensor<3x4xf64>, tensor<3x2xi32>) -> tensor<3xf64>
             %l = $reduce(%t init: %zero) {SUM} [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
             %n = $negate %l : tensor<f64>
             return %n : tensor<f64>"
        ),
    ));
}

#[test]
fn causal_attention() {
    both(&program(
        "(%q: tensor<2x3x4xf64>, %k: tensor<2x3x4xf64>, %v: tensor<2x3x4xf64>) -> tensor<2x3x4xf64>",
        &format!(
            "%zero = $constant dense<0.0> : tensor<f64>
             %inf = $constant dense<0xFFF0000000000000> : tensor<f64>
             %s = $dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x3x4xf64>, tensor<2x3x4xf64>) -> tensor<2x3x3xf64>
             %row = $iota dim = 1 : tensor<2x3x3xi32>
             %col = $iota dim = 2 : tensor<2x3x3xi32>
             %see = $compare GE, %row, %col : (tensor<2x3x3xi32>, tensor<2x3x3xi32>) -> tensor<2x3x3xi1>
             %low = $constant dense<-1.0e9> : tensor<2x3x3xf64>
             %w = $select %see, %s, %low : tensor<2x3x3xi1>, tensor<2x3x3xf64>
             %m = $reduce(%w init: %inf) applies $maximum across dimensions = [2] : (tensor<2x3x3xf64>, tensor<f64>) -> tensor<2x3xf64>
             %mb = $broadcast_in_dim %m, dims = [0, 1] : (tensor<2x3xf64>) -> tensor<2x3x3xf64>
             %c = $subtract %w, %mb : tensor<2x3x3xf64>
             %e = $exponential %c : tensor<2x3x3xf64>
             %z = $reduce(%e init: %zero) {SUM} [2] : (tensor<2x3x3xf64>, tensor<f64>) -> tensor<2x3xf64>
             %zb = $broadcast_in_dim %z, dims = [0, 1] : (tensor<2x3xf64>) -> tensor<2x3x3xf64>
             %p = $divide %e, %zb : tensor<2x3x3xf64>
             %y = $dot_general %p, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x3x3xf64>, tensor<2x3x4xf64>) -> tensor<2x3x4xf64>
             return %y : tensor<2x3x4xf64>"
        ),
    ));
}

#[test]
fn a_small_conv_net() {
    both(&program(
        "(%x: tensor<2x5x5x1xf64>, %k: tensor<2x2x1x3xf64>, %w: tensor<12x2xf64>) -> tensor<2x2xf64>",
        "%c = $convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x5x5x1xf64>, tensor<2x2x1x3xf64>) -> tensor<2x4x4x3xf64>
         %z = $constant dense<0.0> : tensor<2x4x4x3xf64>
         %r = $maximum %c, %z : tensor<2x4x4x3xf64>
         %inf = $constant dense<0xFFF0000000000000> : tensor<f64>
         %p = \"$reduce_window\"(%r, %inf) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
           ^bb0(%a: tensor<f64>, %b: tensor<f64>):
             %m = $maximum %a, %b : tensor<f64>
             $return %m : tensor<f64>
         }) : (tensor<2x4x4x3xf64>, tensor<f64>) -> tensor<2x2x2x3xf64>
         %f = $reshape %p : (tensor<2x2x2x3xf64>) -> tensor<2x12xf64>
         %y = $dot_general %f, %w, contracting_dims = [1] x [0] : (tensor<2x12xf64>, tensor<12x2xf64>) -> tensor<2x2xf64>
         return %y : tensor<2x2xf64>",
    ));
}

/// A scan as JAX writes it: sequence and weights carried unchanged, outputs written row by row.
#[test]
fn a_scanned_recurrent_net() {
    both(&program(
        "(%xs: tensor<4x3xf64>, %h0: tensor<2xf64>, %w: tensor<2x2xf64>, %u: tensor<3x2xf64>) -> (tensor<2xf64>, tensor<4x2xf64>)",
        "%z = $constant dense<0> : tensor<i32>
         %e = $constant dense<0.0> : tensor<4x2xf64>
         %r:5 = $while(%xs_ = %xs, %w_ = %w, %i = %z, %h = %h0, %ys = %e) : tensor<4x3xf64>, tensor<2x2xf64>, tensor<i32>, tensor<2xf64>, tensor<4x2xf64>
           cond {
             %n = $constant dense<4> : tensor<i32>
             %c = $compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             $return %c : tensor<i1>
           } do {
             %zero = $constant dense<0> : tensor<i32>
             %row = $dynamic_slice %xs_, %i, %zero, sizes = [1, 3] : (tensor<4x3xf64>, tensor<i32>, tensor<i32>) -> tensor<1x3xf64>
             %x = $reshape %row : (tensor<1x3xf64>) -> tensor<3xf64>
             %a = func.call @cell(%h, %x, %w_, %u) : (tensor<2xf64>, tensor<3xf64>, tensor<2x2xf64>, tensor<3x2xf64>) -> tensor<2xf64>
             %o = $reshape %a : (tensor<2xf64>) -> tensor<1x2xf64>
             %out = $dynamic_update_slice %ys, %o, %i, %zero : (tensor<4x2xf64>, tensor<1x2xf64>, tensor<i32>, tensor<i32>) -> tensor<4x2xf64>
             %one = $constant dense<1> : tensor<i32>
             %j = $add %i, %one : tensor<i32>
             $return %xs_, %w_, %j, %a, %out : tensor<4x3xf64>, tensor<2x2xf64>, tensor<i32>, tensor<2xf64>, tensor<4x2xf64>
           }
         return %r#3, %r#4 : tensor<2xf64>, tensor<4x2xf64>
       }
       func.func private @cell(%h: tensor<2xf64>, %x: tensor<3xf64>, %w: tensor<2x2xf64>, %u: tensor<3x2xf64>) -> tensor<2xf64> {
         %a = $dot_general %h, %w, contracting_dims = [0] x [0] : (tensor<2xf64>, tensor<2x2xf64>) -> tensor<2xf64>
         %b = $dot_general %x, %u, contracting_dims = [0] x [0] : (tensor<3xf64>, tensor<3x2xf64>) -> tensor<2xf64>
         %s = $add %a, %b : tensor<2xf64>
         %y = $tanh %s : tensor<2xf64>
         return %y : tensor<2xf64>",
    ));
}
