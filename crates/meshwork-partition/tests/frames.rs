//! What reads a value whose shards do not begin at multiples of a block: reversed and sliced arrays that are split unevenly.

mod common;

use common::check;

/// `body` computes `%out` of type `out` from `%r`, an array of 8x7x8 that was reversed or cut, with each dimension split in
/// turn.
fn check_reader(out: &str, body: &str) {
    let ty = "tensor<8x7x8xf32>";
    let made = [
        "%r = stablehlo.reverse %x, dims = [0, 1, 2] : TY",
        "%p = stablehlo.pad %x, %zero, low = [1, 1, 1], high = [0, 0, 0], interior = [0, 0, 0] : (TY, tensor<f32>) -> tensor<9x8x9xf32>
         %r = stablehlo.slice %p [1:9, 1:8, 1:9] : (tensor<9x8x9xf32>) -> TY",
        "%s = stablehlo.concatenate %x, %x, dim = 0 : (TY, TY) -> tensor<16x7x8xf32>
         %r = stablehlo.slice %s [3:11, 0:7, 0:8] : (tensor<16x7x8xf32>) -> TY",
    ];
    for made in made {
        for dims in [r#"{"x"}, {}, {}"#, r#"{}, {"x"}, {}"#, r#"{}, {}, {"x"}"#] {
            let source = format!(
                r#"sdy.mesh @mesh = <["x"=3]>
                func.func @main(%x: TY {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}) -> {out} {{
                %zero = stablehlo.constant dense<0.0> : tensor<f32>
                {made}
                {body}
                return %out : {out} }}"#
            );
            check(&source.replace("TY", ty));
        }
    }
}

#[test]
fn convolutions() {
    let kernel = "%k = stablehlo.iota dim = 0 : tensor<2x8x3xf32>";
    for (pad, n) in [("[1, 0]", 7), ("[1, 1]", 8), ("[0, 0]", 6)] {
        let out = format!("tensor<8x{n}x3xf32>");
        check_reader(
            &out,
            &format!(
                "{kernel}
                %out = stablehlo.convolution(%r, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{stride = [1], pad = [{pad}], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (TY, tensor<2x8x3xf32>) -> {out}"
            ),
        );
    }
}

#[test]
fn products() {
    let other = "%w = stablehlo.iota dim = 1 : tensor<8x8x5xf32>";
    check_reader(
        "tensor<8x7x5xf32>",
        &format!(
            "{other}
            %out = stablehlo.dot_general %r, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (TY, tensor<8x8x5xf32>) -> tensor<8x7x5xf32>"
        ),
    );
    check_reader(
        "tensor<8x8xf32>",
        "%out = stablehlo.dot_general %r, %r, contracting_dims = [1, 2] x [1, 2] : (TY, TY) -> tensor<8x8xf32>",
    );
}

#[test]
fn windows_reductions_and_sorts() {
    let add = "^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>";
    check_reader(
        "tensor<8x7x7xf32>",
        &format!(
            "%out = \"stablehlo.reduce_window\"(%r, %zero) <{{window_dimensions = array<i64: 1, 1, 2>}}> ({{ {add} }}) : (TY, tensor<f32>) -> tensor<8x7x7xf32>"
        ),
    );
    for (dims, out) in [("0", "7x8"), ("1", "8x8"), ("0, 2", "7")] {
        check_reader(
            &format!("tensor<{out}xf32>"),
            &format!(
                "%out = stablehlo.reduce(%r init: %zero) applies stablehlo.add across dimensions = [{dims}] : (TY, tensor<f32>) -> tensor<{out}xf32>"
            ),
        );
    }
    check_reader(
        "TY",
        "%out = \"stablehlo.sort\"(%r) <{dimension = 1 : i64, is_stable = true}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }) : (TY) -> TY",
    );
}

#[test]
fn movements() {
    check_reader("tensor<8x8x7xf32>", "%out = stablehlo.transpose %r, dims = [2, 0, 1] : (TY) -> tensor<8x8x7xf32>");
    check_reader("tensor<56x8xf32>", "%out = stablehlo.reshape %r : (TY) -> tensor<56x8xf32>");
    check_reader(
        "tensor<8x2x7x8xf32>",
        "%out = stablehlo.broadcast_in_dim %r, dims = [0, 2, 3] : (TY) -> tensor<8x2x7x8xf32>",
    );
    check_reader("TY", "%q = stablehlo.reverse %r, dims = [0, 2] : TY\n%out = stablehlo.add %q, %r : TY");
    check_reader(
        "tensor<4x7x8xf32>",
        "%at = stablehlo.constant dense<[[5], [0], [7], [2]]> : tensor<4x1xi32>
        %out = \"stablehlo.gather\"(%r, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 7, 8>}> : (TY, tensor<4x1xi32>) -> tensor<4x7x8xf32>",
    );
}
