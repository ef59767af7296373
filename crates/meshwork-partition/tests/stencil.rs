//! Stencils whose borders repeat, wrap or reflect: right on any mesh, and only neighbors talk.

mod common;

use common::{check, collectives};
use meshwork_ir::Walk;

const MESHES: &[(&str, &str)] = &[
    (r#"["x"=2]"#, r#"{"x"}, {}"#),
    (r#"["x"=4]"#, r#"{}, {"x"}"#),
    (r#"["x"=2, "y"=2]"#, r#"{"x"}, {"y"}"#),
    (r#"["x"=2, "y"=4]"#, r#"{"y"}, {"x"}"#),
    (r#"["x"=3]"#, r#"{"x"}, {}"#),
];

fn on_meshes(rows: i64, cols: i64, body: &str) {
    for (mesh, dims) in MESHES {
        let ty = format!("tensor<{rows}x{cols}xf32>");
        let sharding = format!("{{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}");
        let program = check(&format!(
            "sdy.mesh @mesh = <{mesh}>\nfunc.func @main(%x: {ty} {sharding}) -> ({ty} {sharding}) {{\n{body}\nreturn %out : {ty}\n}}"
        ));
        for (kind, bytes, _) in collectives(&program) {
            let row = 4 * rows.max(cols);
            assert!(
                kind == "collective-permute" || bytes <= row,
                "mesh {mesh}, {rows}x{cols}: {kind} of {bytes} bytes"
            );
        }
    }
}

/// Both dimensions padded with their own edge, then the sum of the four neighbors.
#[test]
fn edge_padding_by_concatenation() {
    for (n, m) in [(16, 16), (12, 8), (15, 17)] {
        let (p, q) = (n + 2, m + 2);
        on_meshes(
            n,
            m,
            &format!(
                "%t = stablehlo.slice %x [0:1, 0:{m}] : (tensor<{n}x{m}xf32>) -> tensor<1x{m}xf32>
%b = stablehlo.slice %x [{}:{n}, 0:{m}] : (tensor<{n}x{m}xf32>) -> tensor<1x{m}xf32>
%v = stablehlo.concatenate %t, %x, %b, dim = 0 : (tensor<1x{m}xf32>, tensor<{n}x{m}xf32>, tensor<1x{m}xf32>) -> tensor<{p}x{m}xf32>
%l = stablehlo.slice %v [0:{p}, 0:1] : (tensor<{p}x{m}xf32>) -> tensor<{p}x1xf32>
%r = stablehlo.slice %v [0:{p}, {}:{m}] : (tensor<{p}x{m}xf32>) -> tensor<{p}x1xf32>
%w = stablehlo.concatenate %l, %v, %r, dim = 1 : (tensor<{p}x1xf32>, tensor<{p}x{m}xf32>, tensor<{p}x1xf32>) -> tensor<{p}x{q}xf32>
%up = stablehlo.slice %w [0:{n}, 1:{}] : (tensor<{p}x{q}xf32>) -> tensor<{n}x{m}xf32>
%down = stablehlo.slice %w [2:{p}, 1:{}] : (tensor<{p}x{q}xf32>) -> tensor<{n}x{m}xf32>
%left = stablehlo.slice %w [1:{}, 0:{m}] : (tensor<{p}x{q}xf32>) -> tensor<{n}x{m}xf32>
%right = stablehlo.slice %w [1:{}, 2:{q}] : (tensor<{p}x{q}xf32>) -> tensor<{n}x{m}xf32>
%s0 = stablehlo.add %up, %down : tensor<{n}x{m}xf32>
%s1 = stablehlo.add %left, %right : tensor<{n}x{m}xf32>
%out = stablehlo.add %s0, %s1 : tensor<{n}x{m}xf32>",
                n - 1,
                m - 1,
                m + 1,
                m + 1,
                n + 1,
                n + 1,
            ),
        );
    }
}

/// A border row that passes through shapes with extents of one on its way.
#[test]
fn reshaped_border() {
    for (n, m) in [(16, 8), (9, 5)] {
        let p = n + 1;
        on_meshes(
            n,
            m,
            &format!(
                "%t = stablehlo.slice %x [0:1, 0:{m}] : (tensor<{n}x{m}xf32>) -> tensor<1x{m}xf32>
%u = stablehlo.broadcast_in_dim %t, dims = [1, 2] : (tensor<1x{m}xf32>) -> tensor<1x1x{m}xf32>
%v = stablehlo.reshape %u : (tensor<1x1x{m}xf32>) -> tensor<1x{m}xf32>
%w = stablehlo.concatenate %v, %x, dim = 0 : (tensor<1x{m}xf32>, tensor<{n}x{m}xf32>) -> tensor<{p}x{m}xf32>
%up = stablehlo.slice %w [0:{n}, 0:{m}] : (tensor<{p}x{m}xf32>) -> tensor<{n}x{m}xf32>
%out = stablehlo.subtract %x, %up : tensor<{n}x{m}xf32>"
            ),
        );
    }
}

/// Each element and its mirror image.
#[test]
fn reversal() {
    for (n, m) in [(8, 8), (12, 10), (7, 5)] {
        on_meshes(
            n,
            m,
            &format!(
                "%r = stablehlo.reverse %x, dims = [0, 1] : tensor<{n}x{m}xf32>
%out = stablehlo.subtract %x, %r : tensor<{n}x{m}xf32>"
            ),
        );
    }
}

/// Every other row, spread out again.
#[test]
fn strided_slice_and_interior_padding() {
    for (n, m) in [(16, 8), (13, 9), (8, 8)] {
        let half = (n + 1) / 2;
        on_meshes(
            n,
            m,
            &format!(
                "%half = stablehlo.slice %x [0:{n}:2, 0:{m}] : (tensor<{n}x{m}xf32>) -> tensor<{half}x{m}xf32>
%c = stablehlo.constant dense<7.0> : tensor<f32>
%wide = stablehlo.pad %half, %c, low = [0, 0], high = [{}, 0], interior = [1, 0] : (tensor<{half}x{m}xf32>, tensor<f32>) -> tensor<{n}x{m}xf32>
%out = stablehlo.add %x, %wide : tensor<{n}x{m}xf32>",
                n - (2 * half - 1)
            ),
        );
    }
}

/// Updates of any length at any place: right, silent, and no device makes more of one than fits around its block.
#[test]
fn short_updates_stay_short() {
    for (n, parts) in [(16, 4), (17, 4), (12, 8)] {
        let block = (n + parts - 1) / parts;
        for (m, start) in (1..n).flat_map(|m| (0..=n - m).map(move |start| (m, start))) {
            let program = check(&format!(
                "sdy.mesh @mesh = <[\"x\"={parts}]>
func.func @main(%x: tensor<{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\"}}]>}}, \
%u: tensor<{m}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}]>}}) -> tensor<{n}xf32> {{
%at = stablehlo.constant dense<{start}> : tensor<i32>
%out = stablehlo.dynamic_update_slice %x, %u, %at : (tensor<{n}xf32>, tensor<{m}xf32>, tensor<i32>) -> tensor<{n}xf32>
return %out : tensor<{n}xf32>
}}"
            ));
            assert_eq!(collectives(&program), [], "{m} elements at {start}");
            let module = &program.module;
            let ops = module.all_ops(Walk::PreOrder);
            let results = ops.iter().flat_map(|&op| module.op(op).results());
            let longest = results.flat_map(|&v| module.ty(v).dims()).max().copied();
            assert!(longest <= Some(m + 2 * block), "{m} elements at {start}: {longest:?}");
        }
    }
}
