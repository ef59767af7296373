//! Loops as kernels, compared with the evaluator.

use meshwork_ir::{ElementType, Literal};

use crate::compile::testing::{check, check_on};

/// A loop of `turns` turns with the counter `%i` and the carries `carries` (name, first value, type), whose body is `body` and
/// gives `next`.
pub(super) fn looped(args: &str, carries: &[(&str, &str, &str)], turns: u32, body: &str, next: &[&str]) -> String {
    let inits: String = carries.iter().map(|(name, init, _)| format!(", %{name} = {init}")).collect();
    let types: String = carries.iter().map(|(_, _, ty)| format!(", {ty}")).collect();
    let next: String = next.iter().map(|n| format!(", {n}")).collect();
    let results: Vec<String> = (1..=carries.len()).map(|i| format!("%r#{i}")).collect();
    let outer: Vec<&str> = carries.iter().map(|c| c.2).collect();
    format!(
        "func.func @main({args}) -> ({}) {{
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %none = stablehlo.constant dense<0.0> : tensor<f32>
        %r:{} = stablehlo.while(%i = %zero{inits}) : tensor<i32>{types}
        cond {{
            %n = stablehlo.constant dense<{turns}> : tensor<i32>
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
        }} do {{
            %one = stablehlo.constant dense<1> : tensor<i32>
            %o = stablehlo.constant dense<0> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            {body}
            stablehlo.return %j{next} : tensor<i32>{types}
        }}
        return {} : {} }}",
        outer.join(", "),
        carries.len() + 1,
        results.join(", "),
        outer.join(", "),
    )
}

pub(super) fn is_one_step(text: &str) {
    assert!(text.contains("turns of") && !text.contains("while"), "{text}");
}

/// Turns of arithmetic on an array of many rows are fused loops; a few rows are elements of lanes.
#[test]
fn arithmetic_on_many_rows_stays_a_loop() {
    for (rows, one_step) in [(2, true), (4, true), (32, false)] {
        let ty = format!("tensor<{rows}x24xf32>");
        let body = format!(
            "%h = stablehlo.constant dense<0.4> : {ty}
            %a = stablehlo.multiply %x, %h : {ty}
            %y = stablehlo.add %a, %x0 : {ty}"
        );
        let text = check(&looped(&format!("%x0: {ty}"), &[("x", "%x0", &ty)], 20, &body, &["%y"]), 1e-5);
        assert_eq!(text.contains("turns of"), one_step, "{rows} rows: {text}");
    }
}

#[test]
fn a_system_of_three_numbers() {
    let source = looped(
        "%x0: tensor<3xf32>",
        &[("x", "%x0", "tensor<3xf32>")],
        50,
        "%a = stablehlo.slice %x [0:1] : (tensor<3xf32>) -> tensor<1xf32>
        %b = stablehlo.slice %x [1:2] : (tensor<3xf32>) -> tensor<1xf32>
        %c3 = stablehlo.slice %x [2:3] : (tensor<3xf32>) -> tensor<1xf32>
        %d = stablehlo.subtract %b, %a : tensor<1xf32>
        %e = stablehlo.multiply %a, %c3 : tensor<1xf32>
        %f = stablehlo.cosine %e : tensor<1xf32>
        %s = stablehlo.concatenate %d, %f, %e, dim = 0 : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<3xf32>
        %h = stablehlo.constant dense<0.01> : tensor<3xf32>
        %hs = stablehlo.multiply %h, %s : tensor<3xf32>
        %y = stablehlo.add %x, %hs : tensor<3xf32>",
        &["%y"],
    );
    is_one_step(&check(&source, 1e-5));
}

#[test]
fn lanes_are_a_dimension_that_turns_treat_alike() {
    for (rows, columns, first) in [(3, 100, false), (100, 3, true), (2, 1000, false), (8, 2, true)] {
        let (ty, row) = (format!("tensor<{rows}x{columns}xf32>"), if first { 1 } else { 0 });
        let (part, a, b) = if first {
            (format!("tensor<{rows}x1xf32>"), format!("[0:{rows}, 0:1]"), format!("[0:{rows}, 1:2]"))
        } else {
            (format!("tensor<1x{columns}xf32>"), format!("[0:1, 0:{columns}]"), format!("[1:2, 0:{columns}]"))
        };
        let body = format!(
            "%a = stablehlo.slice %x {a} : ({ty}) -> {part}
            %b = stablehlo.slice %x {b} : ({ty}) -> {part}
            %s = stablehlo.sine %b : {part}
            %d = stablehlo.subtract %s, %a : {part}
            %sum = stablehlo.reduce(%x init: %none) applies stablehlo.add across dimensions = [{row}] : ({ty}, tensor<f32>) -> tensor<{lanes}xf32>
            %wide = stablehlo.broadcast_in_dim %sum, dims = [{other}] : (tensor<{lanes}xf32>) -> {ty}
            %h = stablehlo.constant dense<0.01> : {ty}
            %g = stablehlo.broadcast_in_dim %d, dims = [0, 1] : ({part}) -> {ty}
            %hs = stablehlo.multiply %h, %g : {ty}
            %z = stablehlo.add %hs, %wide : {ty}
            %q = stablehlo.multiply %h, %z : {ty}
            %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
            %k = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> {ty}
            %u = stablehlo.multiply %q, %k : {ty}
            %m = stablehlo.tanh %u : {ty}
            %y = stablehlo.add %x, %m : {ty}",
            lanes = if first { rows } else { columns },
            other = 1 - row,
        );
        let text = check(&looped(&format!("%x0: {ty}"), &[("x", "%x0", &ty)], 20, &body, &["%y"]), 1e-4);
        is_one_step(&text);
        assert!(text.contains("lanes"), "{text}");
    }
}

/// The carry trades places with another; one never changes; inputs and outputs move with the turns, forwards and backwards.
#[test]
fn scans_read_and_write_rows() {
    let source = looped(
        "%a0: tensor<4xf32>, %b0: tensor<4xf32>, %u: tensor<20x4xf32>, %y0: tensor<20x4xf32>, %z0: tensor<21x4xf32>",
        &[
            ("a", "%a0", "tensor<4xf32>"),
            ("b", "%b0", "tensor<4xf32>"),
            ("y", "%y0", "tensor<20x4xf32>"),
            ("z", "%z0", "tensor<21x4xf32>"),
        ],
        20,
        "%t = stablehlo.constant dense<20> : tensor<i32>
        %neg = stablehlo.compare LT, %i, %o : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %it = stablehlo.add %i, %t : tensor<i32>
        %at = stablehlo.select %neg, %it, %i : tensor<i1>, tensor<i32>
        %nineteen = stablehlo.constant dense<19> : tensor<i32>
        %back = stablehlo.subtract %nineteen, %i : tensor<i32>
        %row = stablehlo.dynamic_slice %u, %at, %o, sizes = [1, 4] : (tensor<20x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
        %flat = stablehlo.reshape %row : (tensor<1x4xf32>) -> tensor<4xf32>
        %mirrored = stablehlo.reverse %flat, dims = [0] : tensor<4xf32>
        %s = stablehlo.add %b, %mirrored : tensor<4xf32>
        %w = stablehlo.reshape %s : (tensor<4xf32>) -> tensor<1x4xf32>
        %y1 = stablehlo.dynamic_update_slice %y, %w, %back, %o : (tensor<20x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<20x4xf32>
        %z1 = stablehlo.dynamic_update_slice %z, %row, %j, %o : (tensor<21x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<21x4xf32>",
        &["%s", "%a", "%y1", "%z1"],
    );
    is_one_step(&check(&source, 1e-5));
}

#[test]
fn products_choices_and_loops_inside() {
    let source = looped(
        "%p0: tensor<3x3xf32>, %x0: tensor<3xf32>, %f: tensor<3x3xf32>",
        &[("p", "%p0", "tensor<3x3xf32>"), ("x", "%x0", "tensor<3xf32>"), ("count", "%zero", "tensor<i32>")],
        30,
        "%q = stablehlo.dot_general %f, %p, contracting_dims = [1] x [0] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
        %qt = stablehlo.dot_general %q, %f, contracting_dims = [1] x [1] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
        %h = stablehlo.constant dense<0.3> : tensor<3x3xf32>
        %ht = stablehlo.multiply %h, %qt : tensor<3x3xf32>
        %v = stablehlo.dot_general %p, %x, contracting_dims = [1] x [0] : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3xf32>
        %total = stablehlo.reduce(%v init: %none) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
        %up = stablehlo.compare GT, %total, %none : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %w = \"stablehlo.if\"(%up) ({
            %s = stablehlo.tanh %v : tensor<3xf32>
            stablehlo.return %s : tensor<3xf32>
        }, {
            %g = stablehlo.logistic %v : tensor<3xf32>
            stablehlo.return %g : tensor<3xf32>
        }) : (tensor<i1>) -> tensor<3xf32>
        %in:2 = stablehlo.while(%k = %o, %a = %w) : tensor<i32>, tensor<3xf32>
        cond {
            %three = stablehlo.constant dense<3> : tensor<i32>
            %lt = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %lt : tensor<i1>
        } do {
            %k1 = stablehlo.add %k, %one : tensor<i32>
            %half = stablehlo.constant dense<0.5> : tensor<3xf32>
            %a1 = stablehlo.multiply %a, %half : tensor<3xf32>
            %a2 = stablehlo.add %a1, %x : tensor<3xf32>
            stablehlo.return %k1, %a2 : tensor<i32>, tensor<3xf32>
        }
        %y = stablehlo.tanh %in#1 : tensor<3xf32>
        %more = stablehlo.convert %up : (tensor<i1>) -> tensor<i32>
        %n1 = stablehlo.add %count, %more : tensor<i32>",
        &["%ht", "%y", "%n1"],
    );
    is_one_step(&check(&source, 1e-4));
}

/// Many lanes are cut into parts; what has no lanes is computed in each of them.
#[test]
fn many_lanes_with_numbers_of_their_own() {
    let source = looped(
        "%x0: tensor<5000xf32>, %s0: tensor<2xf32>, %w: tensor<5000x30xf32>",
        &[("x", "%x0", "tensor<5000xf32>"), ("s", "%s0", "tensor<2xf32>"), ("y", "%w", "tensor<5000x30xf32>")],
        30,
        "%s1 = stablehlo.cosine %s : tensor<2xf32>
        %first = stablehlo.slice %s [1:2] : (tensor<2xf32>) -> tensor<1xf32>
        %k = stablehlo.broadcast_in_dim %first, dims = [0] : (tensor<1xf32>) -> tensor<5000xf32>
        %col = stablehlo.dynamic_slice %w, %o, %i, sizes = [5000, 1] : (tensor<5000x30xf32>, tensor<i32>, tensor<i32>) -> tensor<5000x1xf32>
        %flat = stablehlo.reshape %col : (tensor<5000x1xf32>) -> tensor<5000xf32>
        %m = stablehlo.multiply %flat, %k : tensor<5000xf32>
        %at = stablehlo.iota dim = 0 : tensor<5000xf32>
        %small = stablehlo.constant dense<1.0e-5> : tensor<5000xf32>
        %p = stablehlo.multiply %at, %small : tensor<5000xf32>
        %mp = stablehlo.add %m, %p : tensor<5000xf32>
        %x1 = stablehlo.add %x, %mp : tensor<5000xf32>
        %out = stablehlo.reshape %x1 : (tensor<5000xf32>) -> tensor<5000x1xf32>
        %y1 = stablehlo.dynamic_update_slice %y, %out, %o, %i : (tensor<5000x30xf32>, tensor<5000x1xf32>, tensor<i32>, tensor<i32>) -> tensor<5000x30xf32>",
        &["%x1", "%s1", "%y1"],
    );
    let text = check(&source, 1e-4);
    is_one_step(&text);
    assert!(text.contains("5000 lanes"), "{text}");
}

/// Neighbors mix along the only dimension, and there are too many elements for one by one.
#[test]
fn loops_that_mix_their_lanes_stay_loops() {
    let source = looped(
        "%x0: tensor<600xf32>",
        &[("x", "%x0", "tensor<600xf32>")],
        20,
        "%a = stablehlo.slice %x [0:599] : (tensor<600xf32>) -> tensor<599xf32>
        %b = stablehlo.slice %x [1:600] : (tensor<600xf32>) -> tensor<599xf32>
        %s = stablehlo.add %a, %b : tensor<599xf32>
        %h = stablehlo.constant dense<0.5> : tensor<599xf32>
        %m = stablehlo.multiply %h, %s : tensor<599xf32>
        %e = stablehlo.slice %x [599:600] : (tensor<600xf32>) -> tensor<1xf32>
        %y = stablehlo.concatenate %m, %e, dim = 0 : (tensor<599xf32>, tensor<1xf32>) -> tensor<600xf32>",
        &["%y"],
    );
    let text = check(&source, 1e-5);
    assert!(!text.contains("turns of"), "{text}");
}

/// Narrow floats, integers and truth values as carries.
#[test]
fn carries_of_all_kinds() {
    let source = looped(
        "%h0: tensor<2xbf16>, %k0: tensor<2xi8>, %d0: tensor<f64>, %t0: tensor<3xi1>",
        &[
            ("h", "%h0", "tensor<2xbf16>"),
            ("k", "%k0", "tensor<2xi8>"),
            ("d", "%d0", "tensor<f64>"),
            ("t", "%t0", "tensor<3xi1>"),
        ],
        17,
        "%half = stablehlo.constant dense<0.5> : tensor<2xbf16>
        %h1 = stablehlo.multiply %h, %half : tensor<2xbf16>
        %five = stablehlo.constant dense<5> : tensor<2xi8>
        %k1 = stablehlo.add %k, %five : tensor<2xi8>
        %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f64>
        %d1 = stablehlo.add %d, %f : tensor<f64>
        %t1 = stablehlo.not %t : tensor<3xi1>",
        &["%h1", "%k1", "%d1", "%t1"],
    );
    is_one_step(&check(&source, 1e-2));
}

/// Places that are data in what never changes.
#[test]
fn tables_that_are_read() {
    for elem in ["i32", "i16", "f64", "f32"] {
        let source = looped(
            &format!("%t: tensor<37x2x{elem}>, %next: tensor<37xi32>"),
            &[("at", "%zero", "tensor<i32>"), ("log", "%f", &format!("tensor<60x2x{elem}>"))],
            60,
            &format!(
                "%s = stablehlo.dynamic_slice %next, %at, sizes = [1] : (tensor<37xi32>, tensor<i32>) -> tensor<1xi32>
            %m = stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>
            %k = stablehlo.constant dense<13> : tensor<i32>
            %p = stablehlo.multiply %m, %k : tensor<i32>
            %q = stablehlo.add %p, %i : tensor<i32>
            %row = stablehlo.dynamic_slice %t, %q, %o, sizes = [1, 2] : (tensor<37x2x{elem}>, tensor<i32>, tensor<i32>) -> tensor<1x2x{elem}>
            %w = stablehlo.dynamic_update_slice %log, %row, %i, %o : (tensor<60x2x{elem}>, tensor<1x2x{elem}>, tensor<i32>, tensor<i32>) -> tensor<60x2x{elem}>"
            ),
            &["%q", "%w"],
        );
        let zeros = format!(
            "%f = stablehlo.constant dense<{}> : tensor<60x2x{elem}>\n",
            if elem.starts_with('f') { "0.0" } else { "0" }
        );
        let source = source.replacen("%none =", &format!("{zeros}        %none ="), 1);
        is_one_step(&check(&source, 0.0));
    }
}

/// A histogram, and what lies outside of it.
#[test]
fn tables_that_are_scattered_into() {
    for (f, elem, one) in [("add", "i32", "1"), ("maximum", "f32", "1.5"), ("multiply", "f64", "-2.0")] {
        let source = looped(
            &format!("%x: tensor<90xi32>, %c0: tensor<3x{elem}>"),
            &[("t", "%c0", &format!("tensor<3x{elem}>"))],
            90,
            &format!(
                "%s = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<90xi32>, tensor<i32>) -> tensor<1xi32>
            %u = stablehlo.constant dense<{one}> : tensor<{elem}>
            %d = \"stablehlo.scatter\"(%t, %s, %u) <{{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}}> ({{
            ^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>):
              %v = stablehlo.{f} %p, %q : tensor<{elem}>
              stablehlo.return %v : tensor<{elem}>
            }}) : (tensor<3x{elem}>, tensor<1xi32>, tensor<{elem}>) -> tensor<3x{elem}>"
            ),
            &["%d"],
        );
        is_one_step(&check(&source, 0.0));
    }
}

/// Two elements change places: both are read before either is written.
#[test]
fn tables_that_are_shuffled() {
    let source = looped(
        "%x: tensor<50xi32>, %a0: tensor<20xf32>",
        &[("a", "%a0", "tensor<20xf32>")],
        50,
        "%s = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<50xi32>, tensor<i32>) -> tensor<1xi32>
            %m = stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>
            %k = stablehlo.constant dense<7> : tensor<i32>
            %p = stablehlo.add %m, %k : tensor<i32>
            %q = stablehlo.subtract %i, %p : tensor<i32>
            %e = stablehlo.dynamic_slice %a, %p, sizes = [1] : (tensor<20xf32>, tensor<i32>) -> tensor<1xf32>
            %f = stablehlo.dynamic_slice %a, %q, sizes = [1] : (tensor<20xf32>, tensor<i32>) -> tensor<1xf32>
            %b = stablehlo.dynamic_update_slice %a, %f, %p : (tensor<20xf32>, tensor<1xf32>, tensor<i32>) -> tensor<20xf32>
            %d = stablehlo.dynamic_update_slice %b, %e, %q : (tensor<20xf32>, tensor<1xf32>, tensor<i32>) -> tensor<20xf32>",
        &["%d"],
    );
    is_one_step(&check(&source, 0.0));
}

/// A prefix sum in place: each turn reads what the one before wrote.
#[test]
fn tables_that_grow_from_themselves() {
    let source = looped(
        "%a0: tensor<40xf32>",
        &[("a", "%a0", "tensor<40xf32>")],
        39,
        "%e = stablehlo.dynamic_slice %a, %i, sizes = [1] : (tensor<40xf32>, tensor<i32>) -> tensor<1xf32>
            %f = stablehlo.dynamic_slice %a, %j, sizes = [1] : (tensor<40xf32>, tensor<i32>) -> tensor<1xf32>
            %g = stablehlo.add %e, %f : tensor<1xf32>
            %d = stablehlo.dynamic_update_slice %a, %g, %j : (tensor<40xf32>, tensor<1xf32>, tensor<i32>) -> tensor<40xf32>",
        &["%d"],
    );
    is_one_step(&check(&source, 1e-6));
}

/// What is read again in the same turn is an ordinary loop's.
#[test]
fn tables_that_are_read_after_a_write() {
    let source = looped(
        "%x: tensor<50xi32>, %a0: tensor<20xf32>",
        &[("a", "%a0", "tensor<20xf32>"), ("sum", "%none", "tensor<f32>")],
        50,
        "%s = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<50xi32>, tensor<i32>) -> tensor<1xi32>
            %m = stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>
            %u = stablehlo.constant dense<2.5> : tensor<1xf32>
            %b = stablehlo.dynamic_update_slice %a, %u, %m : (tensor<20xf32>, tensor<1xf32>, tensor<i32>) -> tensor<20xf32>
            %e = stablehlo.dynamic_slice %b, %i, sizes = [1] : (tensor<20xf32>, tensor<i32>) -> tensor<1xf32>
            %f = stablehlo.reshape %e : (tensor<1xf32>) -> tensor<f32>
            %g = stablehlo.add %sum, %f : tensor<f32>",
        &["%b", "%g"],
    );
    check(&source, 1e-6);
}

#[test]
fn numbers_that_change_places_with_others() {
    for (elem, op) in [("f32", "add"), ("f64", "subtract"), ("i32", "add"), ("i64", "multiply")] {
        let ty = format!("tensor<{elem}>");
        let names = ["a", "b", "k", "d", "e"];
        let inits: Vec<String> = names.iter().map(|n| format!("%{n}0")).collect();
        let carries: Vec<(&str, &str, &str)> =
            names.iter().zip(&inits).map(|(n, i)| (*n, i.as_str(), ty.as_str())).collect();
        let args: Vec<String> = inits.iter().map(|i| format!("{i}: {ty}")).collect();
        // One moves on from another, two are exchanged, one stays, and one is computed from all.
        let body = format!("%s = stablehlo.{op} %a, %b : {ty}\n%t = stablehlo.{op} %s, %k : {ty}");
        for turns in [9, 12] {
            let source = looped(&args.join(", "), &carries, turns, &body, &["%t", "%a", "%d", "%k", "%e"]);
            is_one_step(&check(&source, 1e-5));
        }
    }
}

#[test]
fn numbers_of_two_sizes() {
    let source = looped(
        "%x0: tensor<f32>, %y0: tensor<f64>, %k0: tensor<i32>",
        &[("x", "%x0", "tensor<f32>"), ("y", "%y0", "tensor<f64>"), ("k", "%k0", "tensor<i32>")],
        9,
        "%wide = stablehlo.convert %x : (tensor<f32>) -> tensor<f64>
        %h = stablehlo.constant dense<0.125> : tensor<f64>
        %p = stablehlo.multiply %wide, %h : tensor<f64>
        %z = stablehlo.add %y, %p : tensor<f64>
        %short = stablehlo.convert %z : (tensor<f64>) -> tensor<f32>
        %kf = stablehlo.convert %k : (tensor<i32>) -> tensor<f32>
        %m = stablehlo.multiply %short, %kf : tensor<f32>
        %w = stablehlo.tanh %m : tensor<f32>
        %three = stablehlo.constant dense<3> : tensor<i32>
        %l = stablehlo.xor %k, %three : tensor<i32>",
        &["%w", "%z", "%l"],
    );
    is_one_step(&check(&source, 1e-5));
}

/// A stencil along rows of many elements is one fused loop a turn, also if its rows never mix.
#[test]
fn stencils_along_long_rows_stay_loops() {
    for (columns, one_step) in [(6, true), (90, false)] {
        let (ty, less) = (format!("tensor<16x{columns}xf32>"), format!("tensor<16x{}xf32>", columns - 1));
        let body = format!(
            "%a = stablehlo.slice %x [0:16, 1:{columns}] : ({ty}) -> {less}
            %b = stablehlo.slice %x [0:16, 0:1] : ({ty}) -> tensor<16x1xf32>
            %c2 = stablehlo.concatenate %a, %b, dim = 1 : ({less}, tensor<16x1xf32>) -> {ty}
            %s = stablehlo.add %c2, %x : {ty}
            %h = stablehlo.constant dense<0.45> : {ty}
            %y = stablehlo.multiply %s, %h : {ty}"
        );
        let text = check(&looped(&format!("%x0: {ty}"), &[("x", "%x0", &ty)], 9, &body, &["%y"]), 1e-5);
        assert_eq!(text.contains("turns of"), one_step, "{columns} columns: {text}");
    }
}

/// Lanes that are not side by side in what no turn changes.
#[test]
fn lanes_of_columns() {
    for lanes in [8, 19, 70] {
        let (ty, across) = (format!("tensor<3x{lanes}xf32>"), format!("tensor<{lanes}x3xf32>"));
        let (two, row) = (format!("tensor<2x{lanes}xf32>"), format!("tensor<1x{lanes}xf32>"));
        let body = format!(
            "%w = stablehlo.transpose %w0, dims = [1, 0] : ({across}) -> {ty}
            %a = stablehlo.slice %x [1:3, 0:{lanes}] : ({ty}) -> {two}
            %b = stablehlo.slice %x [0:1, 0:{lanes}] : ({ty}) -> {row}
            %t = stablehlo.concatenate %a, %b, dim = 0 : ({two}, {row}) -> {ty}
            %u = stablehlo.multiply %t, %w : {ty}
            %y = stablehlo.tanh %u : {ty}"
        );
        let args = format!("%x0: {ty}, %w0: {across}");
        is_one_step(&check(&looped(&args, &[("x", "%x0", &ty)], 11, &body, &["%y"]), 1e-5));
    }
}

/// Turns that a number from outside switches off.
#[test]
fn turns_until_a_number_that_is_data() {
    for (compare, n) in [("LT, %i, %most", 0), ("LT, %i, %most", 5), ("GT, %most, %i", 40), ("LT, %i, %most", -3)] {
        let (ty, number) = ("tensor<24xf32>", "tensor<i32>");
        let body = format!(
            "%h = stablehlo.constant dense<0.5> : {ty}
            %a = stablehlo.multiply %x, %h : {ty}
            %b = stablehlo.add %a, %x0 : {ty}
            %p = stablehlo.compare {compare} : ({number}, {number}) -> tensor<i1>
            %y = stablehlo.select %p, %b, %x : tensor<i1>, {ty}"
        );
        let args = format!("%x0: {ty}, %most: {number}");
        let source = looped(&args, &[("x", "%x0", ty)], 12, &body, &["%y"]);
        let x = crate::library::testing::noise(&[24], ElementType::F32, 3);
        let most = Literal::from_i64s([], ElementType::I32, &[n]).unwrap();
        is_one_step(&check_on(&source, &[x, most], 1e-6));
    }
}

/// Each lane reads what no turn changes at a place of its own.
#[test]
fn gathers_on_lanes() {
    for elem in ["f32", "f64", "i32", "i64"] {
        for lanes in [8, 21] {
            let (ty, places) = (format!("tensor<{lanes}x{elem}>"), format!("tensor<{lanes}xi32>"));
            let column = format!("tensor<{lanes}x1xi32>");
            let body = format!(
                "%k = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i32>) -> {places}
                %at = stablehlo.add %first, %k : {places}
                %r0 = stablehlo.broadcast_in_dim %at, dims = [0] : ({places}) -> {column}
                %c0 = stablehlo.broadcast_in_dim %first, dims = [0] : ({places}) -> {column}
                %v = stablehlo.concatenate %r0, %c0, dim = 1 : ({column}, {column}) -> tensor<{lanes}x2xi32>
                %g = \"stablehlo.gather\"(%t, %v) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
                    start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}}
                    : (tensor<7x5x{elem}>, tensor<{lanes}x2xi32>) -> {ty}
                %w = \"stablehlo.gather\"(%t, %r0) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
                    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
                    slice_sizes = array<i64: 1, 2>}} : (tensor<7x5x{elem}>, {column}) -> tensor<{lanes}x2x{elem}>
                %w1 = stablehlo.slice %w [0:{lanes}, 1:2] : (tensor<{lanes}x2x{elem}>) -> tensor<{lanes}x1x{elem}>
                %w2 = stablehlo.reshape %w1 : (tensor<{lanes}x1x{elem}>) -> {ty}
                %s = stablehlo.subtract %g, %x : {ty}
                %y = stablehlo.maximum %s, %w2 : {ty}"
            );
            let args = format!("%x0: {ty}, %first: {places}, %t: tensor<7x5x{elem}>");
            let source = looped(&args, &[("x", "%x0", &ty)], 6, &body, &["%y"]);
            let e = ElementType::from_text(elem).unwrap();
            let noise = |dims: &[i64], seed| crate::library::testing::noise(dims, e, seed);
            let first: Vec<i64> = (0..lanes).map(|i| i * 7 % 13 - 4).collect();
            let first = Literal::from_i64s([lanes], ElementType::I32, &first).unwrap();
            is_one_step(&check_on(&source, &[noise(&[lanes], 1), first, noise(&[7, 5], 2)], 1e-6));
        }
    }
}

/// Sums and extremes of all lanes, logged and carried on to the next turn.
#[test]
fn lanes_that_are_combined() {
    for (lanes, elem) in [(8, "f32"), (19, "f32"), (70, "f64"), (33, "f32")] {
        let (ty, two, one) =
            (format!("tensor<{lanes}x{elem}>"), format!("tensor<2x{lanes}x{elem}>"), format!("tensor<{elem}>"));
        let log = format!("tensor<9x{elem}>");
        let body = format!(
            "%b = stablehlo.broadcast_in_dim %s, dims = [] : ({one}) -> {ty}
            %d = stablehlo.subtract %x, %b : {ty}
            %c1 = stablehlo.cosine %d : {ty}
            %y = stablehlo.tanh %c1 : {ty}
            %none2 = stablehlo.constant dense<0.0> : {one}
            %least = stablehlo.constant dense<-3.0> : {one}
            %m = stablehlo.reduce(%y init: %least) applies stablehlo.maximum across dimensions = [0] : ({ty}, {one}) -> {one}
            %r1 = stablehlo.reshape %y : ({ty}) -> tensor<1x{lanes}x{elem}>
            %r2 = stablehlo.reshape %x : ({ty}) -> tensor<1x{lanes}x{elem}>
            %r3 = stablehlo.concatenate %r1, %r2, dim = 0 : (tensor<1x{lanes}x{elem}>, tensor<1x{lanes}x{elem}>) -> {two}
            %t = stablehlo.reduce(%r3 init: %none2) applies stablehlo.add across dimensions = [0, 1] : ({two}, {one}) -> {one}
            %h = stablehlo.constant dense<0.01> : {one}
            %th = stablehlo.multiply %t, %h : {one}
            %n2 = stablehlo.add %th, %s : {one}
            %entry = stablehlo.reshape %m : ({one}) -> tensor<1x{elem}>
            %l2 = stablehlo.dynamic_update_slice %l, %entry, %i : ({log}, tensor<1x{elem}>, tensor<i32>) -> {log}"
        );
        let carries = [("x", "%x0", &ty[..]), ("s", "%s0", &one[..]), ("l", "%l0", &log[..])];
        let args = format!("%x0: {ty}, %s0: {one}, %l0: {log}");
        is_one_step(&check(&looped(&args, &carries, 9, &body, &["%y", "%n2", "%l2"]), 1e-4));
    }
}

/// What lanes are combined to is wanted by the same lanes in the same turn.
#[test]
fn lanes_that_wait_for_all_others() {
    let body = "%t = stablehlo.reduce(%x init: %none) applies stablehlo.add across dimensions = [0] : (tensor<300xf32>, tensor<f32>) -> tensor<f32>
        %b = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<300xf32>
        %e = stablehlo.tanh %b : tensor<300xf32>
        %f = stablehlo.tanh %x : tensor<300xf32>
        %y = stablehlo.subtract %f, %e : tensor<300xf32>";
    let source = looped("%x0: tensor<300xf32>", &[("x", "%x0", "tensor<300xf32>")], 9, body, &["%y"]);
    is_one_step(&check(&source, 1e-4));
}

/// Lanes whose turns end when data says so, as `vmap` writes such loops; each chunk of them ends by itself.
#[test]
fn lanes_that_go_on_as_long_as_they_like() {
    for (dims, over, elem) in [
        ("9", "0", "i32"),
        ("64", "0", "ui32"),
        ("3000", "0", "i32"),
        ("700", "0", "ui8"),
        ("257", "0", "i64"),
        ("3x80", "0, 1", "i32"),
        ("600x2", "0, 1", "i16"),
    ] {
        let (ty, truth) = (format!("tensor<{dims}x{elem}>"), format!("tensor<{dims}xi1>"));
        let source = format!(
            "func.func @main(%x: {ty}, %y: {ty}, %most: {ty}) -> ({ty}, {ty}) {{
            %zero = stablehlo.constant dense<0> : {ty}
            %one = stablehlo.constant dense<1> : {ty}
            %no = stablehlo.constant dense<false> : tensor<i1>
            %r:3 = stablehlo.while(%a = %x, %b = %y, %n = %zero) : {ty}, {ty}, {ty}
            cond {{
                %p = stablehlo.compare NE, %b, %zero : ({ty}, {ty}) -> {truth}
                %q = stablehlo.compare LT, %n, %most : ({ty}, {ty}) -> {truth}
                %both = stablehlo.and %p, %q : {truth}
                %any = stablehlo.reduce(%both init: %no) applies stablehlo.or across dimensions = [{over}]
                    : ({truth}, tensor<i1>) -> tensor<i1>
                stablehlo.return %any : tensor<i1>
            }} do {{
                %p = stablehlo.compare NE, %b, %zero : ({ty}, {ty}) -> {truth}
                %q = stablehlo.compare LT, %n, %most : ({ty}, {ty}) -> {truth}
                %both = stablehlo.and %p, %q : {truth}
                %rest = stablehlo.remainder %a, %b : {ty}
                %m = stablehlo.add %n, %one : {ty}
                %c = stablehlo.select %both, %b, %a : {truth}, {ty}
                %d = stablehlo.select %both, %rest, %b : {truth}, {ty}
                %e = stablehlo.select %both, %m, %n : {truth}, {ty}
                stablehlo.return %c, %d, %e : {ty}, {ty}, {ty}
            }}
            return %r#0, %r#2 : {ty}, {ty} }}"
        );
        let extents: Vec<i64> = dims.split('x').map(|n| n.parse().unwrap()).collect();
        let count = extents.iter().product::<i64>();
        let elem = ElementType::from_text(elem).unwrap();
        let numbers = |by: i64, below: i64| {
            let list: Vec<i64> = (0..count).map(|i| (i * by + 11) % below).collect();
            Literal::from_i64s(extents.iter().copied(), elem, &list).unwrap()
        };
        for most in [1, 7, 120] {
            let text = check_on(&source, &[numbers(7919, 127), numbers(104_729, 113), numbers(31, most)], 0.0);
            assert!(text.contains("open turns") && !text.contains("while"), "{text}");
        }
    }
}

/// A lane that changes after its condition ends, or one that another lane changes, makes it an ordinary loop.
#[test]
fn lanes_that_wait_for_each_other() {
    let loop_of = |b: &str| {
        format!(
            "func.func @main(%x: tensor<40xi32>, %y: tensor<40xi32>) -> (tensor<40xi32>, tensor<40xi32>) {{
            %zero = stablehlo.constant dense<0> : tensor<40xi32>
            %one = stablehlo.constant dense<1> : tensor<40xi32>
            %no = stablehlo.constant dense<false> : tensor<i1>
            %r:2 = stablehlo.while(%a = %x, %b = %y) : tensor<40xi32>, tensor<40xi32>
            cond {{
                %p = stablehlo.compare GT, %a, %zero : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
                %any = stablehlo.reduce(%p init: %no) applies stablehlo.or across dimensions = [0]
                    : (tensor<40xi1>, tensor<i1>) -> tensor<i1>
                stablehlo.return %any : tensor<i1>
            }} do {{
                %p = stablehlo.compare GT, %a, %zero : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
                %less = stablehlo.subtract %a, %one : tensor<40xi32>
                %more = stablehlo.add %b, %a : tensor<40xi32>
                %turned = stablehlo.reverse %more, dims = [0] : tensor<40xi32>
                %q = stablehlo.compare GE, %a, %zero : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
                %c = stablehlo.select %p, %less, %a : tensor<40xi1>, tensor<40xi32>
                %d = {b} : tensor<40xi1>, tensor<40xi32>
                stablehlo.return %c, %d : tensor<40xi32>, tensor<40xi32>
            }}
            return %r#0, %r#1 : tensor<40xi32>, tensor<40xi32> }}"
        )
    };
    let numbers = |by: i64, below: i64| {
        let list: Vec<i64> = (0..40).map(|i| (i * by + 11) % below).collect();
        Literal::from_i64s([40], ElementType::I32, &list).unwrap()
    };
    for b in ["stablehlo.select %p, %turned, %b", "stablehlo.select %q, %more, %b", "stablehlo.select %p, %b, %more"] {
        let text = check_on(&loop_of(b), &[numbers(7, 9), numbers(3, 1000)], 0.0);
        assert!(!text.contains("open turns"), "{text}");
    }
}

/// A loop inside counts columns: what it slices, masks and replaces is known in each of its turns.
#[test]
fn elimination_in_a_loop_inside() {
    let body = "%x0 = stablehlo.dynamic_slice %x, %i, %o, %o, sizes = [1, 5, 5] : (tensor<9x5x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x5x5xf32>
        %x1 = stablehlo.reshape %x0 : (tensor<1x5x5xf32>) -> tensor<5x5xf32>
        %at = stablehlo.iota dim = 0 : tensor<5xi32>
        %none5 = stablehlo.constant dense<0.0> : tensor<5xf32>
        %e:2 = stablehlo.while(%k = %o, %a = %x1) : tensor<i32>, tensor<5x5xf32>
        cond {
            %m = stablehlo.constant dense<5> : tensor<i32>
            %p = stablehlo.compare LT, %k, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
        } do {
            %k1 = stablehlo.add %k, %one : tensor<i32>
            %five = stablehlo.constant dense<5> : tensor<i32>
            %low = stablehlo.compare LT, %k, %o : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %further = stablehlo.add %k, %five : tensor<i32>
            %kk = stablehlo.select %low, %further, %k : tensor<i1>, tensor<i32>
            %c0 = stablehlo.dynamic_slice %a, %o, %kk, sizes = [5, 1] : (tensor<5x5xf32>, tensor<i32>, tensor<i32>) -> tensor<5x1xf32>
            %c = stablehlo.reshape %c0 : (tensor<5x1xf32>) -> tensor<5xf32>
            %r0 = stablehlo.dynamic_slice %a, %kk, %o, sizes = [1, 5] : (tensor<5x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x5xf32>
            %r = stablehlo.reshape %r0 : (tensor<1x5xf32>) -> tensor<5xf32>
            %d0 = stablehlo.dynamic_slice %a, %kk, %kk, sizes = [1, 1] : (tensor<5x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
            %d1 = stablehlo.reshape %d0 : (tensor<1x1xf32>) -> tensor<f32>
            %d2 = stablehlo.abs %d1 : tensor<f32>
            %two = stablehlo.constant dense<2.0> : tensor<f32>
            %d3 = stablehlo.add %d2, %two : tensor<f32>
            %d = stablehlo.broadcast_in_dim %d3, dims = [] : (tensor<f32>) -> tensor<5xf32>
            %kb = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<i32>) -> tensor<5xi32>
            %below = stablehlo.compare GT, %at, %kb : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
            %q = stablehlo.divide %c, %d : tensor<5xf32>
            %f = stablehlo.select %below, %q, %none5 : tensor<5xi1>, tensor<5xf32>
            %fb = stablehlo.broadcast_in_dim %f, dims = [0] : (tensor<5xf32>) -> tensor<5x5xf32>
            %rb = stablehlo.broadcast_in_dim %r, dims = [1] : (tensor<5xf32>) -> tensor<5x5xf32>
            %s = stablehlo.multiply %fb, %rb : tensor<5x5xf32>
            %b = stablehlo.subtract %a, %s : tensor<5x5xf32>
            %new = stablehlo.reshape %f : (tensor<5xf32>) -> tensor<5x1xf32>
            %u = stablehlo.dynamic_update_slice %b, %new, %o, %kk : (tensor<5x5xf32>, tensor<5x1xf32>, tensor<i32>, tensor<i32>) -> tensor<5x5xf32>
            stablehlo.return %k1, %u : tensor<i32>, tensor<5x5xf32>
        }
        %y0 = stablehlo.reshape %e#1 : (tensor<5x5xf32>) -> tensor<1x5x5xf32>
        %y = stablehlo.dynamic_update_slice %log, %y0, %i, %o, %o : (tensor<9x5x5xf32>, tensor<1x5x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<9x5x5xf32>";
    let args = "%x: tensor<9x5x5xf32>, %log0: tensor<9x5x5xf32>";
    let text = check(&looped(args, &[("log", "%log0", "tensor<9x5x5xf32>")], 9, body, &["%y"]), 1e-5);
    is_one_step(&text);
}

/// Rows of a table that every turn updates, some of them out of its bounds, and the one that the turn writes.
#[test]
fn gathers_from_a_table() {
    let dimensions =
        "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],
        index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>";
    for (count, from) in [(1, -1), (3, -2), (5, 9)] {
        let body = format!(
            "%f = stablehlo.constant dense<{from}> : tensor<i32>
            %k = stablehlo.add %i, %f : tensor<i32>
            %l = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<i32>) -> tensor<{count}xi32>
            %p = stablehlo.iota dim = 0 : tensor<{count}xi32>
            %at = stablehlo.xor %l, %p : tensor<{count}xi32>
            %v = stablehlo.reshape %at : (tensor<{count}xi32>) -> tensor<{count}x1xi32>
            %g = \"stablehlo.gather\"(%t, %v) <{{{dimensions}}}> : (tensor<12x4xf32>, tensor<{count}x1xi32>) -> tensor<{count}x4xf32>
            %s = stablehlo.reduce(%g init: %none) applies stablehlo.add across dimensions = [0] : (tensor<{count}x4xf32>, tensor<f32>) -> tensor<4xf32>
            %h = stablehlo.constant dense<0.3> : tensor<4xf32>
            %m = stablehlo.multiply %s, %h : tensor<4xf32>
            %u = stablehlo.reshape %m : (tensor<4xf32>) -> tensor<1x4xf32>
            %n = stablehlo.dynamic_update_slice %t, %u, %i, %o : (tensor<12x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<12x4xf32>"
        );
        let ty = "tensor<12x4xf32>";
        is_one_step(&check(&looped(&format!("%t0: {ty}"), &[("t", "%t0", ty)], 12, &body, &["%n"]), 1e-5));
    }
}

/// A matrix of more rows than there are registers, each of which is wanted as it was and as it becomes.
#[test]
fn many_rows_are_written_early() {
    for (rows, lanes) in [(17, 16), (24, 33), (40, 8)] {
        let ty = format!("tensor<{rows}x{lanes}xf32>");
        let body = format!(
            "%w = stablehlo.slice %x [0:{rows}, 0:{lanes}] : ({ty}) -> {ty}
            %p = stablehlo.dot_general %a, %w, contracting_dims = [0] x [0] : (tensor<{rows}xf32>, {ty}) -> tensor<{lanes}xf32>
            %b = stablehlo.broadcast_in_dim %p, dims = [1] : (tensor<{lanes}xf32>) -> {ty}
            %c = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<{rows}xf32>) -> {ty}
            %d = stablehlo.multiply %b, %c : {ty}
            %e = stablehlo.subtract %x, %d : {ty}
            %r = stablehlo.reverse %e, dims = [0] : {ty}
            %h = stablehlo.constant dense<0.5> : {ty}
            %f = stablehlo.multiply %r, %h : {ty}
            %q = stablehlo.dot_general %a, %f, contracting_dims = [0] x [0] : (tensor<{rows}xf32>, {ty}) -> tensor<{lanes}xf32>"
        );
        let own = format!("tensor<{lanes}xf32>");
        let source = looped(
            &format!("%x0: {ty}, %y0: {own}, %a: tensor<{rows}xf32>"),
            &[("x", "%x0", &ty), ("y", "%y0", &own)],
            9,
            &body,
            &["%f", "%q"],
        );
        check(&source, 1e-4);
    }
}
