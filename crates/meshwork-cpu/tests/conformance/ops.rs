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

pub fn first_elements_of_sorted(c: &Check) {
    let (x, place) = (tensor(&[3, 90], "f32"), tensor(&[3, 90], "i32"));
    let sorted = "%s:2 = \"stablehlo.sort\"(%x, %y) <{dimension = 1 : i64, is_stable = true}> ({
         ^bb0(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>):
           %c = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
           stablehlo.return %c : tensor<i1>
         })";
    for (from, to, step) in [(0, 3, 1), (0, 0, 1), (2, 9, 3), (0, 40, 1), (88, 90, 1)] {
        let part = tensor(&[3, (to - from + step - 1) / step], "i32");
        // What is used of one result alone, and with a few of the other.
        for also in ["", "%t = stablehlo.slice %s#0 [1:2, 0:5] : (tensor<3x90xf32>) -> tensor<1x5xf32>"] {
            let (more, ty) = if also.is_empty() { ("", "") } else { (", %t", ", tensor<1x5xf32>") };
            c.single(&format!(
                "func.func @main(%x: {x}, %y: {place}) -> ({part}{ty}) {{
                   {sorted} : ({x}, {place}) -> ({x}, {place})
                   %r = stablehlo.slice %s#1 [0:3, {from}:{to}:{step}] : ({place}) -> {part}
                   {also}
                   return %r{more} : {part}{ty}
                 }}"
            ));
        }
    }
}

pub fn slices_of_joined(c: &Check) {
    let (x, y, all) = (tensor(&[3, 4], "f32"), tensor(&[3, 2], "f32"), tensor(&[3, 10], "f32"));
    for (from, to, step) in
        [(0, 4, 1), (4, 6, 1), (5, 6, 1), (1, 6, 2), (3, 7, 1), (6, 10, 3), (4, 4, 1), (6, 6, 1), (0, 10, 1)]
    {
        let part = tensor(&[2, (to - from + step - 1) / step], "f32");
        let body = format!(
            "%0 = stablehlo.concatenate %x, %y, %z, dim = 1 : ({x}, {y}, {x}) -> {all}
             %r = stablehlo.slice %0 [1:3, {from}:{to}:{step}] : ({all}) -> {part}"
        );
        one(c, &[("x", &x), ("y", &y), ("z", &x)], &body, &part);
    }
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

/// Bodies that are more than one operation, on few elements and on many.
pub fn bodies(c: &Check) {
    let z = tensor(&[], "f32");
    // A sum of exponentials whose logarithm is carried, along rows and columns.
    let log_add = format!(
        "({{ ^bb0(%a: {z}, %b: {z}):
           %m = stablehlo.maximum %a, %b : {z}
           %d = stablehlo.subtract %a, %b : {z}
           %n = stablehlo.compare NE, %d, %d : ({z}, {z}) -> tensor<i1>
           %s = stablehlo.add %a, %b : {z}
           %p = stablehlo.abs %d : {z}
           %q = stablehlo.negate %p : {z}
           %e = stablehlo.exponential %q : {z}
           %l = stablehlo.log_plus_one %e : {z}
           %t = stablehlo.add %m, %l : {z}
           %o = stablehlo.select %n, %s, %t : tensor<i1>, {z}
           stablehlo.return %o : {z} }})"
    );
    let low = format!("%low = stablehlo.constant dense<0xFF800000> : {z}");
    for (dims, sizes, padding) in [
        ([5, 7], "1, 7", "[[0, 0], [6, 0]]"),
        ([40, 130], "1, 130", "[[0, 0], [129, 0]]"),
        ([40, 130], "1, 130", "[[0, 0], [0, 129]]"),
        ([130, 40], "130, 1", "[[129, 0], [0, 0]]"),
        ([40, 130], "1, 3", "[[0, 0], [1, 1]]"),
    ] {
        let x = tensor(&dims, "f32");
        let body = format!(
            "{low}\n%r = \"stablehlo.reduce_window\"(%x, %low) <{{window_dimensions = array<i64: {sizes}>,
                padding = dense<{padding}> : tensor<2x2xi64>}}> {log_add} : ({x}, {z}) -> {x}"
        );
        one(c, &[("x", &x)], &body, &x);
    }
    // The mean and the number of what it is the mean of.
    for (dims, over) in [([5, 7], 1), ([70, 90], 1), ([90, 70], 0), ([3, 5003], 1), ([9001, 1], 0)] {
        let (x, r) = (tensor(&dims, "f32"), tensor(&[dims[1 - over]], "f32"));
        let body = format!(
            "%zero = stablehlo.constant dense<0.0> : {z}
             %ones = stablehlo.constant dense<1.0> : {x}
             %both:2 = stablehlo.reduce(%x init: %zero), (%ones init: %zero) across dimensions = [{over}]
                 : ({x}, {x}, {z}, {z}) -> ({r}, {r})
             reducer(%a: {z}, %b: {z}) (%m: {z}, %n: {z}) {{
                 %one = stablehlo.constant dense<1.0> : {z}
                 %am = stablehlo.multiply %a, %m : {z}
                 %bn = stablehlo.multiply %b, %n : {z}
                 %s = stablehlo.add %am, %bn : {z}
                 %k = stablehlo.add %m, %n : {z}
                 %d = stablehlo.maximum %k, %one : {z}
                 %q = stablehlo.divide %s, %d : {z}
                 stablehlo.return %q, %k : {z}, {z}
             }}
             %r = stablehlo.multiply %both#0, %both#1 : {r}"
        );
        one(c, &[("x", &x)], &body, &r);
    }
    // Loops, branches and small arrays inside a body.
    let x = tensor(&[4, 9], "i32");
    let (r, i) = (tensor(&[4], "i32"), "tensor<i32>");
    let body = format!(
        "%zero = stablehlo.constant dense<0> : {i}
         %r = stablehlo.reduce(%x init: %zero) across dimensions = [1] : ({x}, {i}) -> {r}
         reducer(%a: {i}, %b: {i}) {{
             %three = stablehlo.constant dense<3> : {i}
             %one = stablehlo.constant dense<1> : {i}
             %w:2 = stablehlo.while(%n = %zero, %v = %a) : {i}, {i}
             cond {{
                 %go = stablehlo.compare LT, %n, %three : ({i}, {i}) -> tensor<i1>
                 stablehlo.return %go : tensor<i1>
             }} do {{
                 %m = stablehlo.add %n, %one : {i}
                 %u = stablehlo.add %v, %b : {i}
                 stablehlo.return %m, %u : {i}, {i}
             }}
             %a1 = stablehlo.reshape %w#1 : ({i}) -> tensor<1xi32>
             %b1 = stablehlo.broadcast_in_dim %b, dims = [] : ({i}) -> tensor<2xi32>
             %all = stablehlo.concatenate %a1, %b1, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>
             %sum = stablehlo.reduce(%all init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xi32>, {i}) -> {i}
             %p = stablehlo.compare GT, %sum, %three : ({i}, {i}) -> tensor<i1>
             %o = \"stablehlo.if\"(%p) ({{ stablehlo.return %sum : {i} }}, {{ stablehlo.return %b : {i} }}) : (tensor<i1>) -> {i}
             stablehlo.return %o : {i}
         }}"
    );
    one(c, &[("x", &x)], &body, &r);
    // Integers whose product is a float, and complex arithmetic.
    let (a, b, f) = (tensor(&[5, 6], "i32"), tensor(&[6, 4], "i32"), tensor(&[5, 4], "f32"));
    let body = format!("%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({a}, {b}) -> {f}");
    one(c, &[("a", &a), ("b", &b)], &body, &f);
    let (y, w) = (tensor(&[300, 7], "complex<f32>"), tensor(&[300, 7], "f32"));
    let body = format!(
        "%0 = stablehlo.multiply %y, %y : {y}
         %1 = stablehlo.divide %0, %y : {y}
         %2 = stablehlo.exponential %1 : {y}
         %3 = stablehlo.imag %2 : ({y}) -> {w}
         %4 = stablehlo.real %1 : ({y}) -> {w}
         %5 = stablehlo.complex %3, %4 : {y}
         %6 = stablehlo.abs %5 : ({y}) -> {w}
         %r = stablehlo.add %6, %4 : {w}"
    );
    one(c, &[("y", &y)], &body, &w);
}
