//! Loops whose turns want a vector and each of its elements, or what lanes are combined to, compared with the evaluator.

use meshwork_ir::{ElementType, Literal};

use super::tests::{is_one_step, looped};
use crate::compile::testing::{check, check_on};

/// Sums over all pairs of a carry, along either dimension.
#[test]
fn pairs_of_a_carry() {
    for (n, elem) in [(5, "f32"), (7, "f64"), (8, "f32"), (13, "f64"), (17, "f32"), (31, "f32"), (9, "f64")] {
        for over in [0, 1] {
            let (ty, all) = (format!("tensor<{n}x{elem}>"), format!("tensor<{n}x{n}x{elem}>"));
            let body = format!(
                "%a = stablehlo.broadcast_in_dim %x, dims = [0] : ({ty}) -> {all}
                %b = stablehlo.broadcast_in_dim %x, dims = [1] : ({ty}) -> {all}
                %d = stablehlo.subtract %a, %b : {all}
                %t = stablehlo.cosine %d : {all}
                %m = stablehlo.multiply %t, %d : {all}
                %none1 = stablehlo.constant dense<0.0> : tensor<{elem}>
                %s = stablehlo.reduce(%m init: %none1) applies stablehlo.add across dimensions = [{over}] : ({all}, tensor<{elem}>) -> {ty}
                %h = stablehlo.constant dense<0.01> : {ty}
                %hs = stablehlo.multiply %h, %s : {ty}
                %y = stablehlo.add %x, %hs : {ty}"
            );
            let text = check(&looped(&format!("%x0: {ty}"), &[("x", "%x0", &ty)], 9, &body, &["%y"]), 1e-4);
            assert!(!text.contains("while") && (n < 7 || text.contains("lanes")), "{text}");
        }
    }
}

/// Products with a carry, from both sides.
#[test]
fn products_with_a_carry() {
    for n in [8, 11, 16, 24] {
        for side in [0, 1] {
            let (ty, all) = (format!("tensor<{n}xf32>"), format!("tensor<{n}x{n}xf32>"));
            let body = format!(
                "%p = stablehlo.dot_general %a, %x, contracting_dims = [{side}] x [0] : ({all}, {ty}) -> {ty}
                %h = stablehlo.constant dense<0.1> : {ty}
                %hp = stablehlo.multiply %h, %p : {ty}
                %y = stablehlo.sine %hp : {ty}"
            );
            let source = looped(&format!("%x0: {ty}, %a: {all}"), &[("x", "%x0", &ty)], 9, &body, &["%y"]);
            is_one_step(&check(&source, 1e-3));
        }
    }
}

/// What a turn computes with lanes, and wants one by one in the same turn.
#[test]
fn lanes_that_change_sides_in_a_turn() {
    for n in [8, 12, 19] {
        let (ty, all) = (format!("tensor<{n}xf32>"), format!("tensor<{n}x{n}xf32>"));
        let half = |from: &str, to: &str, dim: usize| {
            format!(
                "%b{to} = stablehlo.broadcast_in_dim %{from}, dims = [{dim}] : ({ty}) -> {all}
                %d{to} = stablehlo.subtract %b{to}, %cost : {all}
                %e{to} = stablehlo.exponential %d{to} : {all}
                %s{to} = stablehlo.reduce(%e{to} init: %none) applies stablehlo.add across dimensions = [{dim}] : ({all}, tensor<f32>) -> {ty}
                %l{to} = stablehlo.log %s{to} : {ty}
                %{to} = stablehlo.negate %l{to} : {ty}"
            )
        };
        let body = [half("g", "f1", 1), half("f1", "g1", 0)].join("\n");
        let carries = [("f", "%f0", &ty[..]), ("g", "%g0", &ty[..])];
        let source = looped(&format!("%f0: {ty}, %g0: {ty}, %cost: {all}"), &carries, 9, &body, &["%f1", "%g1"]);
        is_one_step(&check(&source, 1e-4));
    }
}

/// Carries that change places are read by all stages as they were when the turn began.
#[test]
fn carries_are_written_when_all_stages_have_read_them() {
    for n in [8, 21] {
        let ty = format!("tensor<{n}xf32>");
        let body = format!(
            "%m = stablehlo.reduce(%x init: %none) applies stablehlo.maximum across dimensions = [0] : ({ty}, tensor<f32>) -> tensor<f32>
            %mb = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> {ty}
            %d = stablehlo.subtract %x, %mb : {ty}
            %e = stablehlo.exponential %d : {ty}
            %s = stablehlo.reduce(%e init: %none) applies stablehlo.add across dimensions = [0] : ({ty}, tensor<f32>) -> tensor<f32>
            %first = stablehlo.slice %y [2:3] : ({ty}) -> tensor<1xf32>
            %one1 = stablehlo.reshape %first : (tensor<1xf32>) -> tensor<f32>
            %t = stablehlo.multiply %s, %one1 : tensor<f32>
            %sb = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> {ty}
            %q = stablehlo.divide %e, %sb : {ty}
            %z = stablehlo.add %q, %y : {ty}
            %w = stablehlo.sine %z : {ty}
            %entry = stablehlo.reshape %t : (tensor<f32>) -> tensor<1xf32>
            %l2 = stablehlo.dynamic_update_slice %l, %entry, %i : (tensor<9xf32>, tensor<1xf32>, tensor<i32>) -> tensor<9xf32>"
        );
        let carries =
            [("x", "%x0", &ty[..]), ("y", "%y0", &ty[..]), ("k", "%k0", "tensor<f32>"), ("l", "%l0", "tensor<9xf32>")];
        let args = format!("%x0: {ty}, %y0: {ty}, %k0: tensor<f32>, %l0: tensor<9xf32>");
        is_one_step(&check(&looped(&args, &carries, 9, &body, &["%w", "%x", "%t", "%l2"]), 1e-4));
    }
}

/// Truth values as lanes and as numbers: what can be reached in so many steps.
#[test]
fn truth_values_of_all_lanes() {
    for n in [8, 15] {
        let (ty, all) = (format!("tensor<{n}xi1>"), format!("tensor<{n}x{n}xi1>"));
        let body = format!(
            "%no = stablehlo.constant dense<false> : tensor<i1>
            %b = stablehlo.broadcast_in_dim %x, dims = [1] : ({ty}) -> {all}
            %p = stablehlo.and %a, %b : {all}
            %r1 = stablehlo.reduce(%p init: %no) applies stablehlo.or across dimensions = [1] : ({all}, tensor<i1>) -> {ty}
            %y = stablehlo.xor %r1, %x : {ty}"
        );
        is_one_step(&check(&looped(&format!("%x0: {ty}, %a: {all}"), &[("x", "%x0", &ty)], 9, &body, &["%y"]), 0.0));
    }
}

/// The body of JAX's `argmax` and `argmin`.
fn winner(elem: &str, larger: bool) -> String {
    let direction = if larger { "GT" } else { "LT" };
    format!(
        "reducer(%p: tensor<{elem}>, %q: tensor<{elem}>) (%pi: tensor<i32>, %qi: tensor<i32>) {{
            %g0 = stablehlo.compare {direction}, %p, %q : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
            %nan = stablehlo.compare NE, %p, %p : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
            %w = stablehlo.or %g0, %nan : tensor<i1>
            %eq = stablehlo.compare EQ, %p, %q : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
            %lo = stablehlo.compare LT, %pi, %qi : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %ti = stablehlo.and %eq, %lo : tensor<i1>
            %se = stablehlo.or %w, %ti : tensor<i1>
            %v = stablehlo.select %w, %p, %q : tensor<i1>, tensor<{elem}>
            %x1 = stablehlo.select %se, %pi, %qi : tensor<i1>, tensor<i32>
            stablehlo.return %v, %x1 : tensor<{elem}>, tensor<i32>
        }}"
    )
}

/// The best state before each, as the Viterbi algorithm asks for it: values and positions, with ties, along either dimension.
#[test]
fn winners_of_pairs() {
    for (n, elem, over, larger) in [
        (8, "f32", 0, true),
        (12, "f32", 1, true),
        (13, "i32", 0, false),
        (9, "f64", 1, false),
        (5, "f32", 0, true),
        (20, "i32", 1, true),
    ] {
        let (ty, all, places) =
            (format!("tensor<{n}x{elem}>"), format!("tensor<{n}x{n}x{elem}>"), format!("tensor<{n}x{n}xi32>"));
        let least = match (elem, larger) {
            ("i32", true) => "-2147483648",
            ("i32", false) => "2147483647",
            ("f32", true) => "0xFF800000",
            ("f32", false) => "0x7F800000",
            (_, true) => "0xFFF0000000000000",
            (_, false) => "0x7FF0000000000000",
        };
        let log = format!("tensor<9x{n}xi32>");
        for with_values in [false, true] {
            let next = if with_values { "%r1#0" } else { "%m" };
            let body = format!(
                "%b = stablehlo.broadcast_in_dim %x, dims = [{over}] : ({ty}) -> {all}
                %c1 = stablehlo.add %b, %a : {all}
                %least = stablehlo.constant dense<{least}> : tensor<{elem}>
                %at = stablehlo.iota dim = {over} : {places}
                %m = stablehlo.reduce(%c1 init: %least) applies stablehlo.{} across dimensions = [{over}] : ({all}, tensor<{elem}>) -> {ty}
                %r1:2 = stablehlo.reduce(%c1 init: %least), (%at init: %o) across dimensions = [{over}]
                    : ({all}, {places}, tensor<{elem}>, tensor<i32>) -> ({ty}, tensor<{n}xi32>) {}
                %row = stablehlo.reshape %r1#1 : (tensor<{n}xi32>) -> tensor<1x{n}xi32>
                %l2 = stablehlo.dynamic_update_slice %l, %row, %i, %o : ({log}, tensor<1x{n}xi32>, tensor<i32>, tensor<i32>) -> {log}",
                if larger { "maximum" } else { "minimum" },
                winner(elem, larger)
            );
            let carries = [("x", "%x0", &ty[..]), ("l", "%l0", &log[..])];
            let source = looped(&format!("%x0: {ty}, %l0: {log}, %a: {all}"), &carries, 9, &body, &[next, "%l2"]);
            // Small whole numbers: many are equal.
            let numbers = |dims: &[i64], by: i64| {
                let count = dims.iter().product::<i64>();
                let list: Vec<f64> = (0..count).map(|i| ((i * by + 3) % 5) as f64).collect();
                let elem = ElementType::from_text(elem).unwrap();
                match elem {
                    ElementType::F32 => Literal::from_bytes(
                        dims.iter().copied(),
                        elem,
                        list.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect(),
                    ),
                    ElementType::F64 => Literal::from_bytes(
                        dims.iter().copied(),
                        elem,
                        list.iter().flat_map(|v| v.to_le_bytes()).collect(),
                    ),
                    _ => Literal::from_i64s(
                        dims.iter().copied(),
                        elem,
                        &list.iter().map(|&v| v as i64).collect::<Vec<_>>(),
                    ),
                }
                .unwrap()
            };
            let none = Literal::from_i64s([9, n], ElementType::I32, &vec![0; 9 * n as usize]).unwrap();
            for text in [check_on(&source, &[numbers(&[n], 7), none, numbers(&[n, n], 11)], 1e-6), check(&source, 1e-5)]
            {
                assert!(!text.contains("while") && (n < 8 || text.contains("lanes")), "{text}");
            }
        }
    }
}

/// Columns that a loop inside counts are scattered to, as `a.at[:, k].add(f)` does.
#[test]
fn windows_scattered_at_known_places() {
    for n in [4, 8] {
        let (ty, line) = (format!("tensor<{n}x{n}xf32>"), format!("tensor<{n}xf32>"));
        let body = format!(
            "%x0 = stablehlo.dynamic_slice %x, %i, %o, %o, sizes = [1, {n}, {n}] : (tensor<9x{n}x{n}xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x{n}x{n}xf32>
            %x1 = stablehlo.reshape %x0 : (tensor<1x{n}x{n}xf32>) -> {ty}
            %e:2 = stablehlo.while(%k = %o, %a = %x1) : tensor<i32>, {ty}
            cond {{
                %m = stablehlo.constant dense<{n}> : tensor<i32>
                %p = stablehlo.compare LT, %k, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %p : tensor<i1>
            }} do {{
                %k1 = stablehlo.add %k, %one : tensor<i32>
                %half = stablehlo.constant dense<1.5> : {line}
                %c0 = stablehlo.dynamic_slice %a, %o, %k, sizes = [{n}, 1] : ({ty}, tensor<i32>, tensor<i32>) -> tensor<{n}x1xf32>
                %c = stablehlo.reshape %c0 : (tensor<{n}x1xf32>) -> {line}
                %f = stablehlo.divide %c, %half : {line}
                %fb = stablehlo.broadcast_in_dim %f, dims = [0] : ({line}) -> {ty}
                %b = stablehlo.subtract %a, %fb : {ty}
                %at = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
                %u = \"stablehlo.scatter\"(%b, %at, %f) ({{
                ^bb0(%v: tensor<f32>, %w: tensor<f32>):
                    %s = stablehlo.add %v, %w : tensor<f32>
                    stablehlo.return %s : tensor<f32>
                }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1],
                    scatter_dims_to_operand_dims = [1]>}} : ({ty}, tensor<1xi32>, {line}) -> {ty}
                stablehlo.return %k1, %u : tensor<i32>, {ty}
            }}
            %y0 = stablehlo.reshape %e#1 : ({ty}) -> tensor<1x{n}x{n}xf32>
            %y = stablehlo.dynamic_update_slice %log, %y0, %i, %o, %o : (tensor<9x{n}x{n}xf32>, tensor<1x{n}x{n}xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<9x{n}x{n}xf32>"
        );
        let whole = format!("tensor<9x{n}x{n}xf32>");
        let args = format!("%x: {whole}, %log0: {whole}");
        let text = check(&looped(&args, &[("log", "%log0", &whole)], 9, &body, &["%y"]), 1e-4);
        assert!(!text.contains("while"), "{text}");
    }
}

/// Arithmetic on more elements than are worth code of their own, along few lanes that never mix.
#[test]
fn few_lanes_of_much_arithmetic() {
    for n in [4, 5, 7] {
        let (ty, sums, log) =
            (format!("tensor<3x{n}x3xf32>"), format!("tensor<3x{n}xf32>"), format!("tensor<9x3x{n}xf32>"));
        let row = format!("tensor<1x3x{n}xf32>");
        let body = format!(
            "%a = stablehlo.cosine %s : {ty}
            %b = stablehlo.multiply %a, %w : {ty}
            %e = stablehlo.exponential %b : {ty}
            %m = stablehlo.multiply %e, %s : {ty}
            %h = stablehlo.constant dense<0.1> : {ty}
            %t = stablehlo.multiply %m, %h : {ty}
            %sum = stablehlo.reduce(%t init: %none) applies stablehlo.add across dimensions = [2] : ({ty}, tensor<f32>) -> {sums}
            %r0 = stablehlo.reshape %sum : ({sums}) -> {row}
            %l = stablehlo.dynamic_update_slice %log, %r0, %i, %o, %o : ({log}, {row}, tensor<i32>, tensor<i32>, tensor<i32>) -> {log}"
        );
        let args = format!("%s0: {ty}, %w: {ty}, %log0: {log}");
        let text = check(&looped(&args, &[("s", "%s0", &ty), ("log", "%log0", &log)], 9, &body, &["%t", "%l"]), 1e-4);
        is_one_step(&text);
        assert!(text.contains(&format!("on {n} lanes")), "{text}");
    }
}
