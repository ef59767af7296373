//! What common patterns may cost at most.

use crate::common::{check, collectives, split};

/// A program on eight devices in a line.
fn on_eight(args: &str, result: &str, body: &str) -> String {
    let x = "{sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}";
    format!(
        "sdy.mesh @mesh = <[\"x\"=8]>\nfunc.func @main({}) -> ({}) {{\n{body}\nreturn %r : {}\n}}",
        args.replace("@x", x),
        result.replace("@x", x),
        result.replace(" @x", "")
    )
}

fn dynamic_slice(n: i64, result: &str) -> String {
    on_eight(
        &format!("%a: tensor<{n}xf32> @x, %i: tensor<i32>"),
        result,
        &format!(
            "%r = stablehlo.dynamic_slice %a, %i, sizes = [16] : (tensor<{n}xf32>, tensor<i32>) -> tensor<16xf32>"
        ),
    )
}

#[test]
fn a_small_dynamic_slice_of_a_large_array_moves_the_slice() {
    for result in ["tensor<16xf32>", "tensor<16xf32> @x"] {
        let (_, program) = split(&dynamic_slice(4_194_304, result));
        let found = collectives(&program);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].1 <= 16 * 4, "{found:?}");
        check(&dynamic_slice(128, result));
        check(&dynamic_slice(101, result));
    }
}

/// Reading or writing a few elements of a shard does not copy the shard.
#[test]
fn dynamic_slices_and_updates_work_on_the_window() {
    let update = |n: i64| {
        on_eight(
            &format!("%a: tensor<{n}xf32> @x, %u: tensor<16xf32>, %i: tensor<i32>"),
            &format!("tensor<{n}xf32> @x"),
            &format!(
                "%r = stablehlo.dynamic_update_slice %a, %u, %i : (tensor<{n}xf32>, tensor<16xf32>, tensor<i32>) -> tensor<{n}xf32>"
            ),
        )
    };
    let shard = 4 * 4_194_304 / 8;
    let (_, slice) = split(&dynamic_slice(4_194_304, "tensor<16xf32>"));
    assert!(slice.plan.peak.bytes < shard + 4096, "{}", slice.plan.peak.bytes);
    let (_, written) = split(&update(4_194_304));
    assert!(written.plan.peak.bytes < 2 * shard + 4096, "{}", written.plan.peak.bytes);
    assert_eq!(collectives(&written), []);
    check(&update(128));
    check(&update(101));
}

#[test]
fn axes_meet_in_one_dimension_by_all_to_alls() {
    let ty = "tensor<16x16x16xi32>";
    let program = check(&format!(
        "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>
func.func @main(%a: {ty} {{sdy.sharding = #sdy.sharding<@mesh, [{{\"y\"}}, {{}}, {{\"x\"}}]>}}) -> ({ty} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{\"x\", \"y\"}}, {{}}]>}}) {{
%r = stablehlo.negate %a : {ty}
return %r : {ty}
}}"
    ));
    let found = collectives(&program);
    assert!(found.len() == 2 && found.iter().all(|c| c.0 == "all-to-all"), "{found:?}");
}

/// Two arrays behind each other: every device sends each of its two shards once, all at the same time.
#[test]
fn a_concatenation_is_two_permutes_of_a_shard() {
    for n in [64, 128] {
        let program = check(&on_eight(
            &format!("%a: tensor<{n}xi32> @x, %b: tensor<{n}xi32> @x"),
            &format!("tensor<{}xi32> @x", 2 * n),
            &format!(
                "%r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<{n}xi32>, tensor<{n}xi32>) -> tensor<{}xi32>",
                2 * n
            ),
        ));
        let found = collectives(&program);
        let shard = 4 * n / 8;
        assert!(found.len() <= 2, "{found:?}");
        assert!(found.iter().all(|c| c.0 == "collective-permute" && c.1 <= shard), "{found:?}");
        assert!(program.plan.wire_bytes() <= 2.0 * shard as f64, "{found:?}");
    }
}

/// Pooling in windows that do not cross shards needs nothing from others; overlapping ones need a border.
#[test]
fn pooling_gradients_exchange_borders_only() {
    let pool = |size: i64, stride: i64| {
        let m = (64 - size) / stride + 1;
        on_eight(
            &format!("%a: tensor<64xf32> @x, %s: tensor<{m}xf32> @x"),
            "tensor<64xf32> @x",
            &format!(
                "%i = stablehlo.constant dense<0.0> : tensor<f32>
%r = \"stablehlo.select_and_scatter\"(%a, %s, %i) ({{
^bb0(%p: tensor<f32>, %q: tensor<f32>):
  %c = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}}, {{
^bb0(%p: tensor<f32>, %q: tensor<f32>):
  %c = stablehlo.add %p, %q : tensor<f32>
  stablehlo.return %c : tensor<f32>
}}) {{window_dimensions = array<i64: {size}>, window_strides = array<i64: {stride}>}} : (tensor<64xf32>, tensor<{m}xf32>, tensor<f32>) -> tensor<64xf32>"
            ),
        )
    };
    assert_eq!(collectives(&check(&pool(2, 2))), []);
    for planned in check(&pool(3, 2)).plan.collectives {
        // Permutes that were combined count for each of their causes.
        let (kind, bytes) = (planned.collective.kind.name(), planned.collective.operand_bytes);
        assert!(kind == "collective-permute" && bytes <= 8 * planned.causes.len() as i64, "{kind} of {bytes}");
    }
}

/// Each device sends its own candidates, not its block.
#[test]
fn top_k_exchanges_candidates() {
    let text = on_eight(
        "%a: tensor<128xf32> @x",
        "tensor<3xi32>",
        "%v, %r = chlo.top_k(%a, k = 3) : tensor<128xf32> -> (tensor<3xf32>, tensor<3xi32>)",
    );
    for (kind, bytes, _) in collectives(&check(&text)) {
        assert!(kind == "all-gather" && bytes == 12, "{kind} of {bytes}");
    }
}

/// The gradient of a convolution by its kernel: borders move, and the sum of the small result.
#[test]
fn kernel_gradients_sum_over_split_taps() {
    let text = "sdy.mesh @mesh = <[\"x\"=4]>
func.func @main(%a: tensor<2x64x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"x\"}, {}]>}, %g: tensor<2x64x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"x\"}, {}]>}) -> tensor<3x3x5xf32> {
%r = stablehlo.convolution(%a, %g) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x64x3xf32>, tensor<2x64x5xf32>) -> tensor<3x3x5xf32>
return %r : tensor<3x3x5xf32>
}";
    for (kind, bytes, _) in collectives(&check(text)) {
        let most = if kind == "all-reduce" { 4 * 3 * 3 * 5 } else { 4 * 2 * 3 };
        assert!(matches!(kind, "all-reduce" | "collective-permute") && bytes <= most, "{kind} of {bytes}");
    }
}

/// A program of one operation on eight devices; `@s` stands for the placement.
fn one_operation(args: &[&str], result: &str, placement: &str, operation: &str) -> String {
    let sharding = format!("{{sdy.sharding = #sdy.sharding<@mesh, {placement}>}}");
    let list: Vec<String> = args.iter().enumerate().map(|(i, ty)| format!("%a{i}: {ty} {sharding}")).collect();
    format!(
        "sdy.mesh @mesh = <[\"x\"=8]>\nfunc.func @main({}) -> ({result} {sharding}) {{\n{operation}\nreturn %r : {result}\n}}",
        list.join(", ")
    )
}

fn only_all_to_alls(source: &str, most: usize) {
    let program = check(source);
    let found = collectives(&program);
    assert!(found.len() <= most && found.iter().all(|c| c.0 == "all-to-all"), "{found:?}\n{source}");
}

/// What needs a dimension whole lends its split to another dimension meanwhile.
#[test]
fn a_split_steps_aside_for_a_dimension_that_must_be_whole() {
    let sort = |ty: &str, dim: usize| {
        format!(
            "%r = \"stablehlo.sort\"(%a0) <{{dimension = {dim} : i64, is_stable = true}}> ({{
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %c = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}}) : ({ty}) -> {ty}"
        )
    };
    // Uneven rows and columns as well.
    for ty in ["tensor<16x32xi32>", "tensor<11x32xi32>", "tensor<16x13xi32>"] {
        only_all_to_alls(&one_operation(&[ty], ty, "[{}, {\"x\"}]", &sort(ty, 1)), 2);
        only_all_to_alls(&one_operation(&[ty], ty, "[{\"x\"}, {}]", &sort(ty, 0)), 2);
    }
    // Two dimensions together have room for what neither can take.
    let ty = "tensor<2x4x16xi32>";
    let program = check(&one_operation(&[ty], ty, "[{}, {}, {\"x\"}]", &sort(ty, 2)));
    assert!(program.plan.wire_bytes() <= 160.0, "{:?}", collectives(&program));
    let (a, b) = ("tensor<8x8x8xf32>", "tensor<8x8x3xf32>");
    // The matrices are made to have a solution that is not lost in rounding.
    let solve = format!(
        "%i = stablehlo.iota dim = 1 : tensor<8x8xi32>
%j = stablehlo.iota dim = 0 : tensor<8x8xi32>
%d = stablehlo.compare EQ, %i, %j : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
%m = stablehlo.broadcast_in_dim %d, dims = [1, 2] : (tensor<8x8xi1>) -> tensor<8x8x8xi1>
%big = stablehlo.constant dense<64.0> : {a}
%x = stablehlo.select %m, %big, %a0 : (tensor<8x8x8xi1>, {a}, {a}) -> {a}
%r = \"stablehlo.triangular_solve\"(%x, %a1) <{{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}}> : ({a}, {b}) -> {b}"
    );
    only_all_to_alls(&one_operation(&[a, b], b, "[{}, {\"x\"}, {}]", &solve), 3);
}

fn fft(kind: &str, lengths: &str, from: &str, to: &str) -> String {
    format!("%r = stablehlo.fft %a0, type = {kind}, length = [{lengths}] : ({from}) -> {to}")
}

/// Transforms of several dimensions go one dimension at a time.
#[test]
fn transforms_move_the_split_between_dimensions() {
    let c = "tensor<16x24xcomplex<f32>>";
    for kind in ["FFT", "IFFT"] {
        for placement in ["[{\"x\"}, {}]", "[{}, {\"x\"}]"] {
            only_all_to_alls(&one_operation(&[c], c, placement, &fft(kind, "16, 24", c, c)), 2);
        }
    }
    let uneven = "tensor<11x13xcomplex<f32>>";
    only_all_to_alls(&one_operation(&[uneven], uneven, "[{\"x\"}, {}]", &fft("FFT", "11, 13", uneven, uneven)), 2);
    let (r, h) = ("tensor<16x24xf32>", "tensor<16x13xcomplex<f32>>");
    only_all_to_alls(&one_operation(&[r], h, "[{\"x\"}, {}]", &fft("RFFT", "16, 24", r, h)), 2);
    only_all_to_alls(&one_operation(&[h], r, "[{\"x\"}, {}]", &fft("IRFFT", "16, 24", h, r)), 2);
    let batch = "tensor<8x4x6xcomplex<f32>>";
    only_all_to_alls(&one_operation(&[batch], batch, "[{}, {\"x\"}, {}]", &fft("FFT", "4, 6", batch, batch)), 2);
}

/// A transform of the only dimension goes across its shards.
#[test]
fn a_transform_of_one_dimension_takes_three_exchanges() {
    for (n, most) in [(64, 3), (192, 3)] {
        let c = format!("tensor<{n}xcomplex<f64>>");
        for kind in ["FFT", "IFFT"] {
            let source = one_operation(&[&c], &c, "[{\"x\"}]", &fft(kind, &n.to_string(), &c, &c));
            only_all_to_alls(&source, most);
            let shard = 16.0 * n as f64 / 8.0;
            assert_eq!(check(&source).plan.wire_bytes(), 3.0 * 7.0 / 8.0 * shard);
        }
    }
    // Of real numbers the first exchange is half as long; half of the result moves to its blocks.
    for (elem, n) in [("f32", 64), ("f64", 192)] {
        let (r, h) = (format!("tensor<{n}x{elem}>"), format!("tensor<{}xcomplex<{elem}>>", n / 2 + 1));
        let program = check(&one_operation(&[&r], &h, "[{\"x\"}]", &fft("RFFT", &n.to_string(), &r, &h)));
        let totals = program.plan.totals();
        assert_eq!(totals.keys().copied().collect::<Vec<_>>(), ["all-to-all", "collective-permute"]);
        let shard = if elem == "f32" { 4.0 } else { 8.0 } * n as f64 / 8.0;
        assert_eq!(totals["all-to-all"].wire_bytes, 5.0 * 7.0 / 8.0 * shard);
        let back = check(&one_operation(&[&h], &r, "[{\"x\"}]", &fft("IRFFT", &n.to_string(), &h, &r)));
        assert_eq!(back.plan.totals()["all-to-all"].wire_bytes, 5.0 * 7.0 / 8.0 * shard);
        assert!(!back.plan.totals().contains_key("all-gather"));
    }
    // An odd length has no element in the middle of its spectrum.
    let (r, h) = ("tensor<49xf64>", "tensor<25xcomplex<f64>>");
    let odd = one_operation(&[h], r, "[{\"x\"}]", &fft("IRFFT", "49", h, r)).replace("\"x\"=8", "\"x\"=7");
    let found = check(&odd).plan;
    assert!(found.mesh.device_count() == 7 && found.totals()["all-to-all"].count == 3, "{:?}", found.totals());
    // Lengths that do not divide are gathered.
    let c = "tensor<24xcomplex<f64>>";
    let found = collectives(&check(&one_operation(&[c], c, "[{\"x\"}]", &fft("FFT", "24", c, c))));
    assert_eq!(found, [("all-gather", 48, 1)]);
}
