//! A few operations together, which a compiler may make one of.

use crate::harness::{Check, tensor};

fn one(c: &Check, args: &[(&str, &str)], body: &str, result: &str) {
    let params: Vec<String> = args.iter().map(|(name, ty)| format!("%{name}: {ty}")).collect();
    c.single(&format!("func.func @main({}) -> {result} {{\n{body}\nreturn %r : {result} }}", params.join(", ")));
}

pub fn chains(c: &Check) {
    // A chain that a compiler makes one loop of, with a scalar and a row stretched over it.
    let (ty, row) = (tensor(&[6, 33], "f32"), tensor(&[33], "f32"));
    let body = format!(
        "%b = stablehlo.broadcast_in_dim %s, dims = [1] : ({row}) -> {ty}
         %k = stablehlo.constant dense<0.5> : {ty}
         %0 = stablehlo.add %x, %b : {ty}
         %1 = stablehlo.multiply %0, %k : {ty}
         %2 = stablehlo.tanh %1 : {ty}
         %r = stablehlo.subtract %2, %x : {ty}"
    );
    one(c, &[("x", &ty), ("s", &row)], &body, &ty);
}

pub fn softmax(c: &Check) {
    // Softmax over rows.
    let (x, rows, z) = (tensor(&[9, 21], "f32"), tensor(&[9], "f32"), tensor(&[], "f32"));
    let body = format!(
        "%low = stablehlo.constant dense<0xFF800000> : {z}
         %zero = stablehlo.constant dense<0.0> : {z}
         %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : ({x}, {z}) -> {rows}
         %mb = stablehlo.broadcast_in_dim %m, dims = [0] : ({rows}) -> {x}
         %d = stablehlo.subtract %x, %mb : {x}
         %e = stablehlo.exponential %d : {x}
         %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : ({x}, {z}) -> {rows}
         %sb = stablehlo.broadcast_in_dim %s, dims = [0] : ({rows}) -> {x}
         %r = stablehlo.divide %e, %sb : {x}"
    );
    one(c, &[("x", &x)], &body, &x);
}

pub fn products(c: &Check) {
    for elem in ["f32", "f64", "bf16", "i32"] {
        for (m, k, n) in [(1, 1, 1), (0, 3, 2), (3, 0, 2), (17, 31, 13), (64, 48, 40)] {
            let (a, b, r) = (tensor(&[m, k], elem), tensor(&[k, n], elem), tensor(&[m, n], elem));
            let body = format!("%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({a}, {b}) -> {r}");
            one(c, &[("x", &a), ("y", &b)], &body, &r);
        }
        let (a, b, r) = (tensor(&[3, 5, 7], elem), tensor(&[3, 4, 7], elem), tensor(&[3, 5, 4], elem));
        let body = format!(
            "%r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [2] : \
             ({a}, {b}) -> {r}"
        );
        one(c, &[("x", &a), ("y", &b)], &body, &r);
    }
    let (a, b, r) = (tensor(&[2, 9, 9, 3], "f32"), tensor(&[3, 3, 3, 4], "f32"), tensor(&[2, 9, 9, 4], "f32"));
    let body = format!(
        "%r = stablehlo.convolution(%x, %y) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], \
         window = {{stride = [1, 1], pad = [[1, 1], [1, 1]]}} \
         {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({a}, {b}) -> {r}"
    );
    one(c, &[("x", &a), ("y", &b)], &body, &r);
}

pub fn results(c: &Check) {
    // A result that is an argument, a constant, and the beginning of a larger buffer.
    c.single(
        "func.func @main(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>, tensor<12xf32>) {
           %c = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
           %s = stablehlo.slice %x [0:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
           %f = stablehlo.reshape %x : (tensor<4x3xf32>) -> tensor<12xf32>
           return %x, %c, %s, %f : tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>, tensor<12xf32> }",
    );
}
