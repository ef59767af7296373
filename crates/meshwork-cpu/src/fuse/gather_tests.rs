//! Gathers in fused loops: of single elements and of windows of a few, at places that are computed there, and of rows.

use meshwork_ir::{ElementType, Literal};

use super::tests::steps;
use crate::compile::testing::check_on;
use crate::library::testing::noise;

/// A gather: dimensions of its operand, indices and result, its numbers, and its windows.
struct Gather {
    from: Vec<i64>,
    at: Vec<i64>,
    to: Vec<i64>,
    numbers: &'static str,
    window: &'static str,
}

/// Gathers of `n` vectors, or of rows of them.
fn gathers(n: i64) -> Vec<Gather> {
    let of = |from: &[i64], at: &[i64], to: &[i64], numbers, window| {
        let [from, at, to] = [from, at, to].map(<[i64]>::to_vec);
        Gather { from, at, to, numbers, window }
    };
    let pairs = "collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 1";
    vec![
        of(&[11], &[n], &[n], "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1", "1"),
        of(&[7, 6], &[n, 2], &[n], pairs, "1, 1"),
        // Batches around the vectors, and along them.
        of(
            &[5, 8],
            &[5, n],
            &[5, n],
            "collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
             start_index_map = [1], index_vector_dim = 2",
            "1, 1",
        ),
        of(
            &[8, n],
            &[3, n, 1],
            &[3, n],
            "collapsed_slice_dims = [0], operand_batching_dims = [1], start_indices_batching_dims = [1],
             start_index_map = [0], index_vector_dim = 2",
            "1, 1",
        ),
        // Short rows: beside each other, one after the other, and parts of longer ones.
        of(
            &[7, 6, 3],
            &[n, 2],
            &[n, 3],
            "offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1",
            "1, 1, 3",
        ),
        of(
            &[7, 2],
            &[1, n],
            &[2, n],
            "offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 0",
            "1, 2",
        ),
        of(
            &[7, 6],
            &[n, 2],
            &[2, n, 2],
            "offset_dims = [0, 2], start_index_map = [0, 1], index_vector_dim = 1",
            "2, 2",
        ),
    ]
}

fn tensor(dims: &[i64], elem: &str) -> String {
    let dims: String = dims.iter().map(|n| format!("{n}x")).collect();
    format!("tensor<{dims}{elem}>")
}

fn places(dims: &[i64], elem: &str) -> Literal {
    let least = if elem.starts_with("ui") { 0 } else { -9 };
    let list: Vec<i64> = (0..dims.iter().product()).map(|i: i64| least + i * 7919 % 29).collect();
    Literal::from_i64s(dims.iter().copied(), ElementType::from_text(elem).unwrap(), &list).unwrap()
}

/// Few single elements are loaded by the loop that uses them.
#[test]
fn few_gathered_elements_are_part_of_the_loop() {
    for elem in ["f32", "f64", "i32"] {
        for n in [2, 9, 67] {
            let (ty, places) = (format!("tensor<{n}x{elem}>"), format!("tensor<{n}xi32>"));
            let source = format!(
                "func.func @main(%x: tensor<11x6x{elem}>, %i: {places}, %z: {ty}) -> ({ty}, {ty}) {{
                %t = stablehlo.reverse %x, dims = [0] : tensor<11x6x{elem}>
                %k = stablehlo.iota dim = 0 : {places}
                %j = stablehlo.add %i, %k : {places}
                %a = stablehlo.broadcast_in_dim %j, dims = [0] : ({places}) -> tensor<{n}x1xi32>
                %b = stablehlo.broadcast_in_dim %k, dims = [0] : ({places}) -> tensor<{n}x1xi32>
                %v = stablehlo.concatenate %a, %b, dim = 1 : (tensor<{n}x1xi32>, tensor<{n}x1xi32>) -> tensor<{n}x2xi32>
                %g = \"stablehlo.gather\"(%t, %v) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
                    start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}}
                    : (tensor<11x6x{elem}>, tensor<{n}x2xi32>) -> {ty}
                %h = \"stablehlo.gather\"(%x, %v) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
                    start_index_map = [1, 0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}}
                    : (tensor<11x6x{elem}>, tensor<{n}x2xi32>) -> {ty}
                %s = stablehlo.subtract %g, %z : {ty}
                %p = stablehlo.multiply %s, %h : {ty}
                return %p, %s : {ty}, {ty} }}"
            );
            let e = ElementType::from_text(elem).unwrap();
            let noise = |dims: &[i64], seed| noise(dims, e, seed);
            let i: Vec<i64> = (0..n).map(|i| i * 7919 % 29 - 9).collect();
            let i = Literal::from_i64s([n], ElementType::I32, &i).unwrap();
            let text = check_on(&source, &[noise(&[11, 6], 1), i, noise(&[n], 2)], 1e-6);
            assert_eq!(steps(&text), 1, "{text}");
        }
    }
}

/// What is gathered from an array is what it was before a scatter into it, in a turn and from turn to turn.
#[test]
fn elements_are_gathered_before_they_are_overwritten() {
    let numbers = "{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
        start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}
        : (tensor<40xf32>, tensor<30x1xi32>) -> tensor<30xf32>";
    let source = format!(
        "func.func @main(%x: tensor<40xf32>, %at: tensor<30x1xi32>, %to: tensor<30x1xi32>) -> (tensor<40xf32>, tensor<30xf32>) {{
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %none = stablehlo.constant dense<0.0> : tensor<30xf32>
        %r:3 = stablehlo.while(%i = %zero, %t = %x, %s = %none) : tensor<i32>, tensor<40xf32>, tensor<30xf32>
        cond {{
            %n = stablehlo.constant dense<5> : tensor<i32>
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
        }} do {{
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %k = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i32>) -> tensor<30x1xi32>
            %v = stablehlo.add %at, %k : tensor<30x1xi32>
            %a = \"stablehlo.gather\"(%t, %v) {numbers}
            %b = \"stablehlo.gather\"(%t, %to) {numbers}
            %h = stablehlo.constant dense<0.5> : tensor<30xf32>
            %u = stablehlo.multiply %b, %h : tensor<30xf32>
            %t2 = \"stablehlo.scatter\"(%t, %to, %u) ({{
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                stablehlo.return %q : tensor<f32>
            }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
                scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
                : (tensor<40xf32>, tensor<30x1xi32>, tensor<30xf32>) -> tensor<40xf32>
            %s2 = stablehlo.add %a, %s : tensor<30xf32>
            stablehlo.return %j, %t2, %s2 : tensor<i32>, tensor<40xf32>, tensor<30xf32>
        }}
        return %r#1, %r#2 : tensor<40xf32>, tensor<30xf32> }}"
    );
    let places = |by: i64| {
        let list: Vec<i64> = (0..30).map(|i| i * by % 40 - 1).collect();
        Literal::from_i64s([30, 1], ElementType::I32, &list).unwrap()
    };
    let x = noise(&[40], ElementType::F32, 3);
    check_on(&source, &[x, places(7), places(11)], 1e-6);
}

/// Batches, windows and types of numbers; places out of bounds, and an array that is read backward.
#[test]
fn elements_of_any_gather_are_part_of_the_loop() {
    let kinds = [("f32", "i32"), ("f64", "i32"), ("i32", "i64"), ("ui32", "ui8"), ("f32", "i16"), ("f32", "ui32")];
    let narrow = [("ui8", "i32"), ("i16", "i32"), ("bf16", "i32"), ("f16", "i32")];
    for (elem, index) in kinds.into_iter().chain(narrow) {
        for n in [0, 1, 2, 9, 67, 5003] {
            // Of nothing there are no windows.
            let some = gathers(n).into_iter().filter(|g| !g.from.contains(&0));
            for Gather { from, at, to, numbers, window } in some {
                let [x, i, y] = [tensor(&from, elem), tensor(&at, index), tensor(&to, elem)];
                let all = (0..from.len()).map(|d| d.to_string()).collect::<Vec<_>>().join(", ");
                let source = format!(
                    "func.func @main(%x: {x}, %i: {i}, %z: {y}) -> {y} {{
                    %t = stablehlo.reverse %x, dims = [{all}] : {x}
                    %j = stablehlo.add %i, %i : {i}
                    %g = \"stablehlo.gather\"(%t, %j) {{dimension_numbers = #stablehlo.gather<{numbers}>,
                        slice_sizes = array<i64: {window}>}} : ({x}, {i}) -> {y}
                    %h = \"stablehlo.gather\"(%x, %i) {{dimension_numbers = #stablehlo.gather<{numbers}>,
                        slice_sizes = array<i64: {window}>}} : ({x}, {i}) -> {y}
                    %s = stablehlo.subtract %g, %z : {y}
                    %p = stablehlo.multiply %s, %h : {y}
                    return %p : {y} }}"
                );
                let e = ElementType::from_text(elem).unwrap();
                let tolerance = if elem.ends_with("f16") { 3e-2 } else { 1e-6 };
                let text = check_on(&source, &[noise(&from, e, 1), places(&at, index), noise(&to, e, 2)], tolerance);
                // Few bytes side by side are copied.
                let copied = e.storage_bytes() < 4 && window.chars().any(|c| ('2'..='9').contains(&c));
                assert!(n < 2 || copied || steps(&text) == 1, "{n} {elem} {index} {numbers}: {text}");
            }
        }
    }
}

/// Samples between the points of an image: places are computed from floats, some of them not numbers.
#[test]
fn places_are_computed_from_floats() {
    for n in [1, 3, 130, 4099] {
        let (v, i, p) = (format!("tensor<{n}xf32>"), format!("tensor<{n}xi32>"), format!("tensor<{n}xi1>"));
        let gather = |name: &str, at: &str| {
            format!(
                "%{name} = \"stablehlo.gather\"(%x, %{at}) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
                 start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}} : (tensor<50xf32>, {i}) -> {v}"
            )
        };
        let source = format!(
            "func.func @main(%x: tensor<50xf32>, %at: {v}) -> {v} {{
            %one = stablehlo.constant dense<1> : {i}
            %none = stablehlo.constant dense<0> : {i}
            %zero = stablehlo.constant dense<0.0> : {v}
            %low = stablehlo.floor %at : {v}
            %part = stablehlo.subtract %at, %low : {v}
            %a = stablehlo.convert %low : ({v}) -> {i}
            %b = stablehlo.add %a, %one : {i}
            {}
            {}
            %inside = stablehlo.compare GE, %a, %none : ({i}, {i}) -> {p}
            %k = stablehlo.select %inside, %g, %zero : {p}, {v}
            %d = stablehlo.subtract %h, %k : {v}
            %w = stablehlo.multiply %part, %d : {v}
            %y = stablehlo.add %k, %w : {v}
            return %y : {v} }}",
            gather("g", "a"),
            gather("h", "b")
        );
        let odd = [f64::NAN, 1e20, -1e20, f64::INFINITY, -0.0, 49.0, 48.999];
        let at: Vec<f64> = (0..n).map(|i| odd.get(i as usize).map_or(i as f64 * 7.3 % 61.0 - 5.0, |&v| v)).collect();
        let at = Literal::from_f64s([n], ElementType::F32, &at).unwrap();
        let text = check_on(&source, &[noise(&[50], ElementType::F32, 1), at], 1e-5);
        assert!(n < 2 || steps(&text) == 1, "{text}");
    }
}

/// Truth values, of which each is a byte.
#[test]
fn truth_values_are_gathered_in_the_loop() {
    for n in [1, 2, 9, 67, 5003] {
        let (v, i, p) = (format!("tensor<{n}xf32>"), format!("tensor<{n}xi32>"), format!("tensor<{n}xi1>"));
        let source = format!(
            "func.func @main(%x: tensor<41xi1>, %i: {i}, %a: {v}, %b: {v}) -> ({v}, {p}) {{
            %j = stablehlo.add %i, %i : {i}
            %g = \"stablehlo.gather\"(%x, %j) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
                 start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}} : (tensor<41xi1>, {i}) -> {p}
            %y = stablehlo.select %g, %a, %b : {p}, {v}
            %c = stablehlo.compare LT, %a, %b : ({v}, {v}) -> {p}
            %d = stablehlo.and %c, %g : {p}
            return %y, %d : {v}, {p} }}"
        );
        let noise = |seed| noise(&[n], ElementType::F32, seed);
        let truth: Vec<i64> = (0..41).map(|i| i * i % 3 % 2).collect();
        let truth = Literal::from_i64s([41], ElementType::I1, &truth).unwrap();
        let text = check_on(&source, &[truth, places(&[n], "i32"), noise(1), noise(2)], 0.0);
        assert!(n < 2 || steps(&text) == 1, "{text}");
    }
}

/// What is gathered is computed once where it is spread over rows, columns or other loops.
#[test]
fn what_is_gathered_may_be_repeated() {
    let source =
        "func.func @main(%x: tensor<50xf32>, %i: tensor<300xi32>, %m: tensor<300x40xf32>, %w: tensor<40x300xf32>)
        -> (tensor<300x40xf32>, tensor<40x300xf32>, tensor<300xf32>, tensor<40xf32>) {
        %g = \"stablehlo.gather\"(%x, %i) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
            start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}
            : (tensor<50xf32>, tensor<300xi32>) -> tensor<300xf32>
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %a = stablehlo.broadcast_in_dim %g, dims = [0] : (tensor<300xf32>) -> tensor<300x40xf32>
        %b = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<300xf32>) -> tensor<40x300xf32>
        %p = stablehlo.multiply %a, %m : tensor<300x40xf32>
        %q = stablehlo.multiply %b, %w : tensor<40x300xf32>
        %r = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [1]
            : (tensor<300x40xf32>, tensor<f32>) -> tensor<300xf32>
        %c = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0]
            : (tensor<300x40xf32>, tensor<f32>) -> tensor<40xf32>
        return %p, %q, %r, %c : tensor<300x40xf32>, tensor<40x300xf32>, tensor<300xf32>, tensor<40xf32> }";
    let noise = |dims: &[i64], seed| noise(dims, ElementType::F32, seed);
    check_on(source, &[noise(&[50], 1), places(&[300], "i32"), noise(&[300, 40], 2), noise(&[40, 300], 3)], 1e-4);
}

/// Gathers of rows of `n` elements.
fn row_gathers(count: i64, n: i64) -> Vec<(Gather, String)> {
    let of = |from: Vec<i64>, at: Vec<i64>, to: Vec<i64>, numbers, window: String| {
        (Gather { from, at, to, numbers, window: "" }, window)
    };
    let row = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1";
    let pair = "offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 0";
    let batch = "offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0],
        start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2";
    let window = "offset_dims = [1, 2], start_index_map = [0, 1], index_vector_dim = 1";
    vec![
        of(vec![11, n], vec![count, 1], vec![count, n], row, format!("1, {n}")),
        of(vec![5, 7, n], vec![2, count], vec![count, n], pair, format!("1, 1, {n}")),
        of(vec![3, 9, n], vec![3, count, 1], vec![3, count, n], batch, format!("1, 1, {n}")),
        of(vec![9, n + 3], vec![count, 2], vec![count, 2, n], window, format!("2, {n}")),
    ]
}

/// Rows are read where they are by the loops that use them, along which they may be summed; two positions of the row, too.
#[test]
fn gathered_rows_are_part_of_the_loop() {
    let kinds = [("f32", "i32"), ("f64", "i64"), ("i32", "ui32"), ("bf16", "i16"), ("ui8", "i32"), ("i16", "ui8")];
    for (elem, index) in kinds {
        for (count, n) in [(0, 8), (1, 8), (2, 13), (67, 8), (67, 19), (200, 64), (5, 300), (9, 7)] {
            for (Gather { from, at, to, numbers, .. }, window) in row_gathers(count, n) {
                let [x, i, y] = [tensor(&from, elem), tensor(&at, index), tensor(&to, elem)];
                let (last, sums) = (to.len() - 1, tensor(&to[..to.len() - 1], elem));
                let gather = |name: &str, at: &str| {
                    format!(
                        "%{name} = \"stablehlo.gather\"(%x, %{at}) {{dimension_numbers = #stablehlo.gather<{numbers}>,
                            slice_sizes = array<i64: {window}>}} : ({x}, {i}) -> {y}"
                    )
                };
                let source = format!(
                    "func.func @main(%x: {x}, %i: {i}, %z: {y}) -> ({y}, {sums}) {{
                    %zero = stablehlo.constant dense<0> : tensor<{elem}>
                    %j = stablehlo.add %i, %i : {i}
                    {}
                    {}
                    %s = stablehlo.subtract %g, %z : {y}
                    %p = stablehlo.multiply %s, %h : {y}
                    %m = stablehlo.maximum %h, %z : {y}
                    %t = stablehlo.reduce(%m init: %zero) applies stablehlo.maximum across dimensions = [{last}]
                        : ({y}, tensor<{elem}>) -> {sums}
                    return %p, %t : {y}, {sums} }}",
                    gather("g", "j"),
                    gather("h", "i")
                );
                let source = source.replace("dense<0>", if elem.contains('f') { "dense<0.0>" } else { "dense<0>" });
                let e = ElementType::from_text(elem).unwrap();
                let tolerance = if elem == "bf16" { 3e-2 } else { 1e-6 };
                let args = [noise(&from, e, 1), places(&at, index), noise(&to, e, 2)];
                let text = check_on(&source, &args, tolerance);
                let alone = text.contains(&format!("gather {elem}"));
                assert!(count < 2 || n <= 8 || !alone, "{count} {n} {elem} {numbers}: {text}");
            }
        }
    }
}

/// Rows that a loop cannot read along: turned, backward, every other element, repeated. Rows that others need, and sums of them.
#[test]
fn gathered_rows_are_moved_first_where_they_must_be() {
    let numbers =
        "{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],
        index_vector_dim = 1>, slice_sizes = array<i64: 1, 24>}";
    for n in [1, 30, 600] {
        let (rows, turned) = (format!("tensor<{n}x24xf32>"), format!("tensor<24x{n}xf32>"));
        let source = format!(
            "func.func @main(%x: tensor<40x24xf32>, %i: tensor<{n}x1xi32>, %z: {rows}, %w: {turned}) -> ({turned}, {rows},
                tensor<{n}x12xf32>, tensor<{n}x24x3xf32>, tensor<24xf32>, {rows}, tensor<{n}x{n}xf32>) {{
            %zero = stablehlo.constant dense<0.0> : tensor<f32>
            %g = \"stablehlo.gather\"(%x, %i) {numbers} : (tensor<40x24xf32>, tensor<{n}x1xi32>) -> {rows}
            %t = stablehlo.transpose %g, dims = [1, 0] : ({rows}) -> {turned}
            %a = stablehlo.multiply %t, %w : {turned}
            %r = stablehlo.reverse %g, dims = [1] : {rows}
            %b = stablehlo.add %r, %z : {rows}
            %c = stablehlo.slice %b [0:{n}, 0:24:2] : ({rows}) -> tensor<{n}x12xf32>
            %s = stablehlo.slice %g [0:{n}, 1:24:2] : ({rows}) -> tensor<{n}x12xf32>
            %d = stablehlo.multiply %c, %s : tensor<{n}x12xf32>
            %e = stablehlo.broadcast_in_dim %g, dims = [0, 1] : ({rows}) -> tensor<{n}x24x3xf32>
            %f = stablehlo.negate %e : tensor<{n}x24x3xf32>
            %p = stablehlo.multiply %g, %z : {rows}
            %h = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0]
                : ({rows}, tensor<f32>) -> tensor<24xf32>
            %k = stablehlo.dot_general %g, %z, contracting_dims = [1] x [1] : ({rows}, {rows}) -> tensor<{n}x{n}xf32>
            return %a, %b, %d, %f, %h, %g, %k : {turned}, {rows}, tensor<{n}x12xf32>, tensor<{n}x24x3xf32>, tensor<24xf32>,
                {rows}, tensor<{n}x{n}xf32> }}"
        );
        let noise = |dims: &[i64], seed| noise(dims, ElementType::F32, seed);
        check_on(&source, &[noise(&[40, 24], 1), places(&[n, 1], "i32"), noise(&[n, 24], 2), noise(&[24, n], 3)], 1e-4);
    }
}

/// Rows that were gathered from an array are what they were before it is written to.
#[test]
fn rows_are_read_before_they_are_overwritten() {
    let gather = "{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],
        index_vector_dim = 1>, slice_sizes = array<i64: 1, 16>} : (tensor<40x16xf32>, tensor<30x1xi32>) -> tensor<30x16xf32>";
    let source = format!(
        "func.func @main(%x: tensor<40x16xf32>, %at: tensor<30x1xi32>, %to: tensor<30x1xi32>) -> (tensor<40x16xf32>, tensor<30x16xf32>) {{
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %none = stablehlo.constant dense<0.0> : tensor<30x16xf32>
        %r:3 = stablehlo.while(%i = %zero, %t = %x, %s = %none) : tensor<i32>, tensor<40x16xf32>, tensor<30x16xf32>
        cond {{
            %n = stablehlo.constant dense<5> : tensor<i32>
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
        }} do {{
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %k = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i32>) -> tensor<30x1xi32>
            %v = stablehlo.add %at, %k : tensor<30x1xi32>
            %a = \"stablehlo.gather\"(%t, %v) {gather}
            %b = \"stablehlo.gather\"(%t, %to) {gather}
            %h = stablehlo.constant dense<0.5> : tensor<30x16xf32>
            %u = stablehlo.multiply %b, %h : tensor<30x16xf32>
            %t2 = \"stablehlo.scatter\"(%t, %to, %u) ({{
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                stablehlo.return %q : tensor<f32>
            }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
                scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
                : (tensor<40x16xf32>, tensor<30x1xi32>, tensor<30x16xf32>) -> tensor<40x16xf32>
            %s2 = stablehlo.add %a, %s : tensor<30x16xf32>
            stablehlo.return %j, %t2, %s2 : tensor<i32>, tensor<40x16xf32>, tensor<30x16xf32>
        }}
        return %r#1, %r#2 : tensor<40x16xf32>, tensor<30x16xf32> }}"
    );
    let places = |by: i64| {
        let list: Vec<i64> = (0..30).map(|i| i * by % 40 - 1).collect();
        Literal::from_i64s([30, 1], ElementType::I32, &list).unwrap()
    };
    let x = noise(&[40, 16], ElementType::F32, 3);
    check_on(&source, &[x, places(7), places(11)], 1e-6);
}
