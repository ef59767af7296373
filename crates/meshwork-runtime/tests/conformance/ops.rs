//! Single operations over element types and shapes.

use crate::harness::{Check, SHAPES, tensor};

const FLOATS: &[&str] = &["f32", "f64", "bf16", "f16"];
const INTEGERS: &[&str] = &["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"];

fn one(c: &Check, args: &[(&str, &str)], body: &str, result: &str) {
    let params: Vec<String> = args.iter().map(|(name, ty)| format!("%{name}: {ty}")).collect();
    c.single(&format!("func.func @main({}) -> {result} {{\n{body}\nreturn %r : {result} }}", params.join(", ")));
}

pub fn unary(c: &Check) {
    let float = "abs negate exponential exponential_minus_one tanh logistic sine cosine floor ceil sign cbrt \
                 round_nearest_even round_nearest_afz";
    for elem in FLOATS {
        for dims in SHAPES {
            let ty = tensor(dims, elem);
            for op in float.split(' ') {
                one(c, &[("x", &ty)], &format!("%r = stablehlo.{op} %x : {ty}"), &ty);
            }
            // Of positive numbers.
            for op in ["sqrt", "rsqrt", "log", "log_plus_one"] {
                let body = format!("%a = stablehlo.abs %x : {ty}\n%r = stablehlo.{op} %a : {ty}");
                one(c, &[("x", &ty)], &body, &ty);
            }
        }
    }
    for elem in INTEGERS {
        for dims in SHAPES {
            let ty = tensor(dims, elem);
            let signed: &[&str] = if elem.starts_with('u') { &[] } else { &["abs", "sign"] };
            for op in ["not", "popcnt", "count_leading_zeros", "negate"].iter().chain(signed) {
                one(c, &[("x", &ty)], &format!("%r = stablehlo.{op} %x : {ty}"), &ty);
            }
        }
    }
}

pub fn binary(c: &Check) {
    for elem in FLOATS.iter().chain(INTEGERS).chain(&["complex<f32>", "i1"]) {
        let ops = match *elem {
            "i1" => "and or xor",
            "complex<f32>" => "add subtract multiply divide",
            e if FLOATS.contains(&e) => "add subtract multiply divide maximum minimum atan2",
            _ => {
                "add subtract multiply maximum minimum and or xor shift_left shift_right_logical \
                  shift_right_arithmetic"
            }
        };
        for dims in SHAPES {
            let ty = tensor(dims, elem);
            for op in ops.split_whitespace() {
                one(c, &[("x", &ty), ("y", &ty)], &format!("%r = stablehlo.{op} %x, %y : {ty}"), &ty);
            }
        }
    }
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

pub fn comparisons(c: &Check) {
    for elem in ["f32", "f64", "bf16", "i32", "i64", "ui8", "i1"] {
        for dims in SHAPES {
            let (ty, flags) = (tensor(dims, elem), tensor(dims, "i1"));
            for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
                let body = format!(
                    "%p = stablehlo.compare {direction}, %x, %y : ({ty}, {ty}) -> {flags}
                     %r = stablehlo.select %p, %x, %y : {flags}, {ty}"
                );
                one(c, &[("x", &ty), ("y", &ty)], &body, &ty);
            }
        }
    }
    let ty = tensor(&[5, 3], "f32");
    one(c, &[("a", &ty), ("x", &ty), ("b", &ty)], &format!("%r = stablehlo.clamp %a, %x, %b : {ty}"), &ty);
    let flags = tensor(&[5, 3], "i1");
    one(c, &[("x", &ty)], &format!("%r = stablehlo.is_finite %x : ({ty}) -> {flags}"), &flags);
}

pub fn conversions(c: &Check) {
    let all = ["i1", "i8", "i32", "i64", "ui8", "ui32", "f16", "bf16", "f32", "f64"];
    for from in all {
        for to in all {
            for dims in [&[][..], &[0], &[19]] {
                let (a, b) = (tensor(dims, from), tensor(dims, to));
                // Unsigned integers of negative numbers differ between machines.
                let positive = match from {
                    "f16" | "bf16" | "f32" | "f64" => format!("%a = stablehlo.abs %x : {a}"),
                    _ => format!("%a = stablehlo.reshape %x : ({a}) -> {a}"),
                };
                let body = format!("{positive}\n%r = stablehlo.convert %a : ({a}) -> {b}");
                one(c, &[("x", &a)], &body, &b);
            }
        }
    }
    let (a, b) = (tensor(&[9], "f32"), tensor(&[9], "i32"));
    one(c, &[("x", &a)], &format!("%r = stablehlo.bitcast_convert %x : ({a}) -> {b}"), &b);
}

pub fn movement(c: &Check) {
    for elem in ["f32", "f64", "i8", "bf16", "complex<f64>", "i1"] {
        let ty = |dims: &[i64]| tensor(dims, elem);
        let (x, y) = (ty(&[5, 6, 7]), ty(&[5, 2, 7]));
        let cases = [
            (format!("stablehlo.transpose %x, dims = [2, 0, 1] : ({x}) -> {}", ty(&[7, 5, 6])), ty(&[7, 5, 6])),
            (format!("stablehlo.reverse %x, dims = [0, 2] : {x}"), x.clone()),
            (format!("stablehlo.reshape %x : ({x}) -> {}", ty(&[35, 6])), ty(&[35, 6])),
            (format!("stablehlo.slice %x [1:4, 0:6:2, 3:7] : ({x}) -> {}", ty(&[3, 3, 4])), ty(&[3, 3, 4])),
            (format!("stablehlo.slice %x [2:2, 0:6, 0:7] : ({x}) -> {}", ty(&[0, 6, 7])), ty(&[0, 6, 7])),
            (format!("stablehlo.concatenate %x, %y, dim = 1 : ({x}, {y}) -> {}", ty(&[5, 8, 7])), ty(&[5, 8, 7])),
            (
                format!(
                    "stablehlo.pad %x, %s, low = [1, -1, 0], high = [0, 2, -2], interior = [1, 0, 0] : \
                     ({x}, {}) -> {}",
                    ty(&[]),
                    ty(&[10, 7, 5])
                ),
                ty(&[10, 7, 5]),
            ),
            (
                format!("stablehlo.broadcast_in_dim %x, dims = [0, 2, 3] : ({x}) -> {}", ty(&[5, 2, 6, 7])),
                ty(&[5, 2, 6, 7]),
            ),
        ];
        for (op, result) in cases {
            one(c, &[("x", &x), ("y", &y), ("s", &ty(&[]))], &format!("%r = {op}"), &result);
        }
    }
    for elem in ["i32", "f32", "f64", "ui8"] {
        let ty = tensor(&[3, 40], elem);
        one(c, &[], &format!("%r = stablehlo.iota dim = 1 : {ty}"), &ty);
    }
}

pub fn indexing(c: &Check) {
    for elem in ["f32", "i64", "i8"] {
        let (x, u, i) = (tensor(&[6, 8], elem), tensor(&[2, 3], elem), "tensor<i32>");
        let args = [("x", &x[..]), ("u", &u), ("i", i), ("j", i)];
        one(c, &args, &format!("%r = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 3] : ({x}, {i}, {i}) -> {u}"), &u);
        one(c, &args, &format!("%r = stablehlo.dynamic_update_slice %x, %u, %i, %j : ({x}, {u}, {i}, {i}) -> {x}"), &x);
        let (rows, picked) = (tensor(&[4, 1], "i32"), tensor(&[4, 8], elem));
        let gather = format!(
            "%r = \"stablehlo.gather\"(%x, %k) {{dimension_numbers = #stablehlo.gather<offset_dims = [1], \
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, \
             slice_sizes = array<i64: 1, 8>}} : ({x}, {rows}) -> {picked}"
        );
        one(c, &[("x", &x), ("k", &rows)], &gather, &picked);
        let scatter = format!(
            "%r = \"stablehlo.scatter\"(%x, %k, %v) ({{ ^bb0(%a: tensor<{elem}>, %b: tensor<{elem}>):
               %s = stablehlo.add %a, %b : tensor<{elem}>
               stablehlo.return %s : tensor<{elem}> }})
             {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], \
             scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}} : ({x}, {rows}, {picked}) -> {x}"
        );
        one(c, &[("x", &x), ("k", &rows), ("v", &picked)], &scatter, &x);
    }
}

pub fn reductions(c: &Check) {
    for elem in ["f32", "f64", "bf16", "i32", "i64", "ui8"] {
        for (op, init) in [("add", "0"), ("multiply", "1"), ("maximum", "0"), ("minimum", "1")] {
            for (dims, over) in
                [(&[7][..], &[0][..]), (&[5, 33], &[1]), (&[5, 33], &[0]), (&[4, 0, 3], &[1]), (&[3, 4, 5], &[0, 2])]
            {
                let kept: Vec<i64> = (0..dims.len()).filter(|d| !over.contains(d)).map(|d| dims[d]).collect();
                let (x, z, r) = (tensor(dims, elem), tensor(&[], elem), tensor(&kept, elem));
                let dot = if elem.contains('f') { ".0" } else { "" };
                let body = format!(
                    "%z = stablehlo.constant dense<{init}{dot}> : {z}
                     %r = stablehlo.reduce(%x init: %z) applies stablehlo.{op} across dimensions = {over:?} : \
                     ({x}, {z}) -> {r}"
                );
                one(c, &[("x", &x)], &body, &r);
            }
        }
    }
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
    let (w, wr) = (tensor(&[12], "f32"), tensor(&[10], "f32"));
    let body = format!(
        "%z = stablehlo.constant dense<0.0> : {z}
         %r = \"stablehlo.reduce_window\"(%x, %z) ({{ ^bb0(%a: {z}, %b: {z}):
           %s = stablehlo.add %a, %b : {z}
           stablehlo.return %s : {z} }}) {{window_dimensions = array<i64: 3>}} : ({w}, {z}) -> {wr}"
    );
    one(c, &[("x", &w)], &body, &wr);
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

pub fn others(c: &Check) {
    let x = tensor(&[4, 11], "f32");
    let body = format!(
        "%r = \"stablehlo.sort\"(%x) ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
           %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }}) {{dimension = 1 : i64}} : ({x}) -> {x}"
    );
    one(c, &[("x", &x)], &body, &x);
    let (x, r) = (tensor(&[3, 8], "complex<f32>"), tensor(&[3, 8], "complex<f32>"));
    one(c, &[("x", &x)], &format!("%r = stablehlo.fft %x, type = FFT, length = [8] : ({x}) -> {r}"), &r);
    let (s, bits) = (tensor(&[2], "ui64"), tensor(&[5], "ui32"));
    let body = format!("%s, %r = stablehlo.rng_bit_generator %x, algorithm = THREE_FRY : ({s}) -> ({s}, {bits})");
    one(c, &[("x", &s)], &body, &bits);
    // A result that is an argument, a constant, and the beginning of a larger buffer.
    c.single(
        "func.func @main(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>, tensor<12xf32>) {
           %c = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
           %s = stablehlo.slice %x [0:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
           %f = stablehlo.reshape %x : (tensor<4x3xf32>) -> tensor<12xf32>
           return %x, %c, %s, %f : tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>, tensor<12xf32> }",
    );
}
