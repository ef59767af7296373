//! Programs split by algorithms for split dimensions, whatever they cost: sorts, transforms, factorizations, triangular
//! systems, products in rings, single rows, and loops with wide or overlapped halos give on the devices of an engine what the evaluator gives on one device.

use meshwork_eval as eval;
use meshwork_ir::{ElementType, Literal, Module, Type};
use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Compiled, Use, compile};
use meshwork_runtime::{Array, Engine};
use meshwork_testing::Numbers;

use crate::harness::{parse, tensor};

const MESHES: &[(&str, &str)] =
    &[(r#""x"=2"#, r#""x""#), (r#""x"=3"#, r#""x""#), (r#""x"=4"#, r#""x""#), (r#""x"=2, "y"=3"#, r#""y", "x""#)];

/// What the elements of arguments are.
#[derive(Clone, Copy)]
enum Contents {
    /// Small numbers, many of them equal.
    Any,
    /// The first argument holds matrices with a heavy diagonal, of which one triangle is used: the lower one or the upper.
    Triangle { lower: bool },
}

/// Splits `source` with every algorithm used wherever it can be, runs it, and compares with one device. The plan must name
/// `algorithm`, if one is asked for.
fn check(engine: &dyn Engine, source: &str, contents: Contents, algorithm: Option<Algorithm>) {
    check_with(engine, source, contents, algorithm, Algorithms::all(&Algorithm::ALL, Use::Always));
}

/// The same with these algorithms.
fn check_with(
    engine: &dyn Engine,
    source: &str,
    contents: Contents,
    algorithm: Option<Algorithm>,
    algorithms: Algorithms,
) -> Vec<Vec<u8>> {
    let module = parse(source);
    let options = CompileOptions { algorithms, ..CompileOptions::default() };
    let program = compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
    if let Some(algorithm) = algorithm {
        assert!(names(&program, algorithm), "{algorithm} is not used: {:?}\n{source}", program.plan);
    }
    let args = arguments(&module, contents);
    let want = eval::run(&module, None, &args).unwrap_or_else(|e| panic!("evaluator: {e}\n{source}"));
    let loaded = engine.load(&program).unwrap_or_else(|e| panic!("engine: {e}\n{source}"));
    // Otherwise the evaluator would be compared with itself.
    assert!(loaded.fallbacks().is_empty(), "{:?}\n{source}", loaded.fallbacks());
    let bits = |all: &[Literal]| all.iter().map(|l| l.bytes().to_vec()).collect::<Vec<_>>();
    let mut first: Option<Vec<Vec<u8>>> = None;
    for _ in 0..2 {
        let arrays = args.iter().cloned().map(Array::from_literal).collect();
        let got = loaded.run(arrays).unwrap_or_else(|e| panic!("engine: {e}\n{source}"));
        let got: Vec<Literal> =
            got.iter().map(|r| r.literal().unwrap_or_else(|e| panic!("engine: {e}\n{source}")).clone()).collect();
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            compare(got, want, &format!("result {i} of\n{source}"));
        }
        // The same bits on every run.
        assert_eq!(*first.get_or_insert_with(|| bits(&got)), bits(&got), "{source}");
    }
    first.unwrap_or_default()
}

fn names(program: &Compiled, algorithm: Algorithm) -> bool {
    let mut causes = program.plan.collectives.iter().flat_map(|c| &c.causes);
    causes.any(|cause| cause.reason.contains(algorithm.name()))
}

fn arguments(module: &Module, contents: Contents) -> Vec<Literal> {
    let mut numbers = Numbers(17);
    let types = module.func_type(module.entry().expect("an entry")).inputs;
    let one = |(k, ty): (usize, &Type)| {
        let t = ty.as_tensor().expect("a tensor");
        let n = t.dims.last().copied().unwrap_or(1);
        let mut bytes = vec![];
        for i in 0..t.num_elements().expect("static") {
            let (row, column) = (i / n.max(1) % n.max(1), i % n.max(1));
            let mut small = || (numbers.below(17) as f64 - 8.0) / 16.0;
            let (mut real, mut imaginary) = (small(), small());
            if let (0, Contents::Triangle { lower }) = (k, contents) {
                if row == column {
                    (real, imaginary) = (n as f64 + 2.0 + real, 0.0);
                } else if (column > row) == lower {
                    real = f64::NAN;
                }
            }
            match t.elem {
                e if e.is_integer() => {
                    let value = Literal::from_i64s([1], e, &[(real * 16.0) as i64]).expect("it fits");
                    bytes.extend_from_slice(value.bytes());
                }
                e => {
                    meshwork_ir::float::write(e.real_part(), real, &mut bytes);
                    if e.is_complex() {
                        meshwork_ir::float::write(e.real_part(), imaginary, &mut bytes);
                    }
                }
            }
        }
        Literal::from_bytes(t.dims.iter().copied(), t.elem, bytes).expect("as many as there are")
    };
    types.iter().enumerate().map(one).collect()
}

/// Equal, but for rounding in another order of sums.
fn compare(got: &Literal, want: &Literal, what: &str) {
    assert_eq!(got.ty(), want.ty(), "{what}");
    let tolerance = match want.elem().real_part() {
        ElementType::F64 => 1e-12,
        e if e.is_float() => 1e-5,
        _ => {
            assert_eq!(got.bytes(), want.bytes(), "{what}");
            return;
        }
    };
    let parts = |l: &Literal, i: usize| <[f64; 2]>::from(l.get(i).as_complex());
    let finite = (0..want.len()).flat_map(|i| parts(want, i)).filter(|v| v.is_finite());
    let scale = finite.fold(1.0, |most: f64, v| most.max(v.abs()));
    for i in 0..want.len() {
        for (x, y) in parts(got, i).into_iter().zip(parts(want, i)) {
            let near = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * scale;
            assert!(near, "element {i}: {x} instead of {y}; {what}");
        }
    }
}

/// `#sdy.sharding` of an argument or a result, on `@mesh`.
fn placed(lists: &[&str]) -> String {
    let dims: Vec<String> = lists.iter().map(|l| format!("{{{l}}}")).collect();
    format!("{{sdy.sharding = #sdy.sharding<@mesh, [{}]>}}", dims.join(", "))
}

/// Lines, and rows of a matrix, of every size; places go along.
pub fn sorts(engine: &dyn Engine) {
    for (mesh, list) in MESHES {
        for n in [1, 5, 16, 37] {
            for (elem, order, direction) in [
                ("i32", "SIGNED", "LT"),
                ("f32", "TOTALORDER", "GT"),
                ("ui8", "UNSIGNED", "GT"),
                ("f64", "TOTALORDER", "LT"),
            ] {
                let (x, y, s) = (tensor(&[2, n], elem), tensor(&[2, n], "i32"), placed(&["", list]));
                let source = format!(
                    "sdy.mesh @mesh = <[{mesh}]>
                    func.func @main(%x: {x} {s}) -> ({x} {s}, {y} {s}) {{
                      %y = stablehlo.iota dim = 1 : {y}
                      %r:2 = \"stablehlo.sort\"(%x, %y) <{{dimension = 1 : i64, is_stable = true}}> ({{
                      ^bb0(%a: tensor<{elem}>, %b: tensor<{elem}>, %p: tensor<i32>, %q: tensor<i32>):
                        %c = stablehlo.compare {direction}, %a, %b, {order} : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                        stablehlo.return %c : tensor<i1> }}) : ({x}, {y}) -> ({x}, {y})
                      return %r#0, %r#1 : {x}, {y} }}"
                );
                check(engine, &source, Contents::Any, Some(Algorithm::Sort));
            }
        }
    }
}

/// Single rows of a split matrix that are replaced or added to, at places that are known, data, or outside.
pub fn rows(engine: &dyn Engine) {
    for (mesh, list) in MESHES {
        for place in [0, 5, 11, 12, -1] {
            for (elem, is_sum) in [("f32", false), ("i32", true)] {
                let (x, row, s) = (tensor(&[12, 5], elem), tensor(&[5], elem), placed(&[list, ""]));
                let body = if is_sum {
                    format!("%c = stablehlo.add %a, %b : tensor<{elem}>\n stablehlo.return %c : tensor<{elem}>")
                } else {
                    format!("stablehlo.return %b : tensor<{elem}>")
                };
                let scatter = |from: &str, at: &str| {
                    format!(
                        "\"stablehlo.scatter\"({from}, {at}, %u) ({{
                        ^bb0(%a: tensor<{elem}>, %b: tensor<{elem}>):
                          {body} }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0],
                          scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}} : ({x}, tensor<1xi32>, {row}) -> {x}"
                    )
                };
                let (known, data) = (scatter("%x", "%at"), scatter("%0", "%i"));
                let source = format!(
                    "sdy.mesh @mesh = <[{mesh}]>
                    func.func @main(%x: {x} {s}, %u: {row}, %i: tensor<1xi32>) -> ({x} {s}) {{
                      %at = stablehlo.constant dense<{place}> : tensor<1xi32>
                      %0 = {known}
                      %1 = {data}
                      return %1 : {x} }}"
                );
                check(engine, &source, Contents::Any, None);
            }
        }
    }
}

/// Of every kind, of lengths that are composite and of some that are not.
pub fn transforms(engine: &dyn Engine) {
    for (mesh, list) in MESHES {
        for n in [1, 4, 12, 13, 30] {
            for kind in ["FFT", "IFFT", "RFFT", "IRFFT"] {
                let elem = if n % 4 == 0 { "f32" } else { "f64" };
                let complex = format!("complex<{elem}>");
                let (whole, real) = (tensor(&[3, n], &complex), tensor(&[3, n], elem));
                let half = tensor(&[3, n / 2 + 1], &complex);
                let (from, to) = match kind {
                    "RFFT" => (&real, &half),
                    "IRFFT" => (&half, &real),
                    _ => (&whole, &whole),
                };
                let s = placed(&["", list]);
                let source = format!(
                    "sdy.mesh @mesh = <[{mesh}]>
                    func.func @main(%x: {from} {s}) -> ({to} {s}) {{
                      %r = stablehlo.fft %x, type = {kind}, length = [{n}] : ({from}) -> {to}
                      return %r : {to} }}"
                );
                let composite = (2..n).any(|d| n % d == 0);
                check(engine, &source, Contents::Any, composite.then_some(Algorithm::Fft));
            }
        }
    }
}

/// Matrices and stacks of them, split by rows or columns.
pub fn factors(engine: &dyn Engine) {
    for (mesh, list) in MESHES {
        for n in [1, 4, 7, 18] {
            for (lower, elem) in [(true, "f64"), (false, "f32"), (true, "complex<f64>"), (false, "complex<f32>")] {
                let a = tensor(&[2, n, n], elem);
                let (rows, columns) = (placed(&["", list, ""]), placed(&["", "", list]));
                let (from, to) = if n % 2 == 0 { (&rows, &columns) } else { (&columns, &rows) };
                // The other triangle is not specified.
                let keep = if lower { "GE" } else { "LE" };
                let (square, mask, zero) = (tensor(&[2, n, n], "i32"), tensor(&[2, n, n], "i1"), nothing(elem));
                let source = format!(
                    "sdy.mesh @mesh = <[{mesh}]>
                    func.func @main(%a: {a} {from}) -> ({a} {to}) {{
                      %f = stablehlo.cholesky %a, lower = {lower} : {a}
                      %i = stablehlo.iota dim = 1 : {square}
                      %j = stablehlo.iota dim = 2 : {square}
                      %m = stablehlo.compare {keep}, %i, %j : ({square}, {square}) -> {mask}
                      %z = stablehlo.constant dense<{zero}> : {a}
                      %r = stablehlo.select %m, %f, %z : {mask}, {a}
                      return %r : {a} }}"
                );
                check(engine, &source, Contents::Triangle { lower }, Some(Algorithm::Cholesky));
            }
        }
    }
}

fn nothing(elem: &str) -> &'static str {
    if elem.starts_with("complex") { "(0.0, 0.0)" } else { "0.0" }
}

/// From both sides, with either triangle, transposed or not.
pub fn systems(engine: &dyn Engine) {
    for (mesh, list) in MESHES {
        for n in [1, 4, 7, 13] {
            for (left, lower) in [(true, true), (true, false), (false, true), (false, false)] {
                for (transpose, unit, elem) in
                    [("NO_TRANSPOSE", false, "f64"), ("TRANSPOSE", true, "f32"), ("ADJOINT", false, "complex<f64>")]
                {
                    let (a, sides) = (tensor(&[n, n], elem), if left { [n, 3] } else { [3, n] });
                    let b = tensor(&sides, elem);
                    let (rows, columns) = (placed(&[list, ""]), placed(&["", list]));
                    let (pa, pb) = (if lower { &rows } else { &columns }, if left { &rows } else { &columns });
                    let source = format!(
                        "sdy.mesh @mesh = <[{mesh}]>
                        func.func @main(%a: {a} {pa}, %b: {b} {pb}) -> ({b} {pb}) {{
                          %r = \"stablehlo.triangular_solve\"(%a, %b) <{{left_side = {left}, lower = {lower}, unit_diagonal = {unit}, \
                             transpose_a = #stablehlo<transpose {transpose}>}}> : ({a}, {b}) -> {b}
                          return %r : {b} }}"
                    );
                    check(engine, &source, Contents::Triangle { lower }, Some(Algorithm::TriangularSolve));
                }
            }
        }
    }
}

/// Layers whose tokens are split between them and whose features are split inside, even and uneven.
pub fn rings(engine: &dyn Engine) {
    for (mesh, list) in MESHES {
        for (tokens, elem) in [(12, "f32"), (7, "f64"), (1, "i32"), (24, "f64")] {
            let (x, v, w) = (tensor(&[tokens, 24], elem), tensor(&[24, 60], elem), tensor(&[60, 24], elem));
            let (rows, columns, h) = (placed(&[list, ""]), placed(&["", list]), tensor(&[tokens, 60], elem));
            let source = format!(
                "sdy.mesh @mesh = <[{mesh}]>
                func.func @main(%x: {x} {rows}, %v: {v} {columns}, %w: {w} {rows}) -> ({x} {rows}) {{
                  %0 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : ({x}, {v}) -> {h}
                  %1 = sdy.sharding_constraint %0 <@mesh, [{{}}, {{{list}}}]> : {h}
                  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : ({h}, {w}) -> {x}
                  return %2 : {x} }}"
            );
            check(engine, &source, Contents::Any, (tokens % 12 == 0).then_some(Algorithm::RingProducts));
        }
    }
}

/// Loops of stencils that exchange halos once in four turns, beside their interior, and in every turn: fixed ends and rings, along one
/// dimension and two, turns that divide and that do not, blocks that are long enough for steps of their own.
pub fn halos(engine: &dyn Engine) {
    for (mesh, list) in MESHES {
        for (n, turns, elem) in [(48, 8, "f32"), (61, 6, "f64"), (37, 5, "i32")] {
            let (x, y) = (tensor(&[n], elem), tensor(&[n - 2], elem));
            let fixed = format!(
                "%a = stablehlo.slice %u [0:{}] : ({x}) -> {y}
                 %b = stablehlo.slice %u [2:{n}] : ({x}) -> {y}
                 %c = stablehlo.subtract %b, %a : {y}
                 %new = stablehlo.dynamic_update_slice %u, %c, %one : ({x}, {y}, tensor<i32>) -> {x}",
                n - 2
            );
            stencil(engine, mesh, &[list], &[n], elem, turns, &fixed);
            let (m, most) = (n - 1, tensor(&[n - 1], elem));
            let ring = format!(
                "%a0 = stablehlo.slice %u [{m}:{n}] : ({x}) -> {one}
                 %a1 = stablehlo.slice %u [0:{m}] : ({x}) -> {most}
                 %a = stablehlo.concatenate %a0, %a1, dim = 0 : ({one}, {most}) -> {x}
                 %new = stablehlo.subtract %a, %u : {x}",
                one = tensor(&[1], elem)
            );
            stencil(engine, mesh, &[list], &[n], elem, turns, &ring);
        }
    }
    for [n, m] in [[20, 24], [117, 130]] {
        let (x, y) = (tensor(&[n, m], "f32"), tensor(&[n + 2, m + 2], "f32"));
        let neighbours = |diagonal: i64| {
            format!(
                "%fill = stablehlo.constant dense<0.5> : tensor<f32>
                 %w = stablehlo.pad %u, %fill, low = [1, 1], high = [1, 1], interior = [0, 0] : ({x}, tensor<f32>) -> {y}
                 %a = stablehlo.slice %w [0:{n}, 1:{right}] : ({y}) -> {x}
                 %b = stablehlo.slice %w [2:{below}, 1:{right}] : ({y}) -> {x}
                 %c = stablehlo.slice %w [{diagonal}:{end}, 0:{m}] : ({y}) -> {x}
                 %s = stablehlo.add %a, %b : {x}
                 %new = stablehlo.subtract %s, %c : {x}",
                right = m + 1,
                below = n + 2,
                end = n + diagonal,
            )
        };
        for (mesh, lists) in [(r#""x"=2"#, [r#""x""#, ""]), (r#""x"=2, "y"=2"#, [r#""x""#, r#""y""#])] {
            for diagonal in [1, 2] {
                stencil(engine, mesh, &lists, &[n, m], "f32", 9, &neighbours(diagonal));
            }
        }
    }
}

fn stencil(engine: &dyn Engine, mesh: &str, lists: &[&str], dims: &[i64], elem: &str, turns: i64, body: &str) {
    let (x, at) = (tensor(dims, elem), placed(lists));
    let source = format!(
        "sdy.mesh @mesh = <[{mesh}]>
        func.func @main(%x: {x} {at}) -> ({x} {at}) {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %turns = stablehlo.constant dense<{turns}> : tensor<i32>
          %r:2 = stablehlo.while(%i = %zero, %u = %x) : tensor<i32>, {x}
          cond {{
            %go = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %go : tensor<i1>
          }} do {{
            {body}
            %j = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %j, %new : tensor<i32>, {x}
          }}
          return %r#1 : {x} }}"
    );
    let forms = [None, Some(Algorithm::WideHalos), Some(Algorithm::OverlappedHalos)].map(|used| {
        let never = Algorithms::all(&Algorithm::ALL, Use::Never);
        let algorithms = used.into_iter().fold(never, |all, used| all.with(used, Use::Always));
        check_with(engine, &source, Contents::Any, used, algorithms)
    });
    // The same bits in every form.
    assert!(forms.iter().all(|form| *form == forms[0]), "{source}");
}
