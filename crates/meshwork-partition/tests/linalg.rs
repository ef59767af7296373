//! Factorizations, triangular systems and transforms of a split side give what one device gives, on every mesh.

mod common;

use common::{close, try_check_on};
use meshwork_ir::{Literal, Module, Type};
use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Compiled, Use};
use meshwork_testing::Numbers;

const MESHES: &[(&str, &[&str])] = &[
    (r#""x"=2"#, &[r#""x""#]),
    (r#""x"=3"#, &[r#""x""#]),
    (r#""x"=4"#, &[r#""x""#, r#""x":(1)2"#, r#""x":(2)2"#]),
    (r#""x"=2, "y"=3"#, &[r#""x""#, r#""y""#, r#""x", "y""#, r#""y", "x""#]),
    (r#""x"=8"#, &[r#""x""#]),
];

fn always() -> CompileOptions {
    let algorithms = Algorithms::all(&Algorithm::ALL, Use::Always);
    CompileOptions { algorithms, ..CompileOptions::default() }
}

fn never() -> CompileOptions {
    CompileOptions { algorithms: Algorithms::all(&Algorithm::ALL, Use::Never), ..CompileOptions::default() }
}

/// Random matrices that are positive definite, if `square`, by a heavy diagonal; what is not in the lower (or upper)
/// triangle is NaN.
fn matrices(module: &Module, seed: u64, lower: bool) -> Vec<Literal> {
    let mut numbers = Numbers(seed);
    let func = module.entry().expect("a function");
    let types = module.func_type(func).inputs;
    types.iter().enumerate().map(|(k, ty)| matrix(ty, &mut numbers, (k == 0).then_some(lower))).collect()
}

fn matrix(ty: &Type, numbers: &mut Numbers, triangle: Option<bool>) -> Literal {
    let t = ty.as_tensor().expect("a tensor");
    let (n, count) = (t.dims[t.dims.len() - 1], t.num_elements().expect("static"));
    let mut values = vec![];
    for i in 0..count {
        let (row, column) = (i / n % n.max(1), i % n);
        let outside = triangle.is_some_and(|lower| if lower { column > row } else { column < row });
        let mut small = || (numbers.below(17) as f64 - 8.0) / 16.0;
        let diagonal = triangle.is_some() && row == column;
        let real = if outside { f64::NAN } else { small() + if diagonal { n as f64 + 2.0 } else { 0.0 } };
        values.push(real);
        if t.elem.is_complex() {
            values.push(if diagonal { 0.0 } else { small() });
        }
    }
    let real = t.elem.real_part();
    let mut bytes = vec![];
    values.iter().for_each(|&v| meshwork_ir::float::write(real, v, &mut bytes));
    Literal::from_bytes(t.dims.iter().copied(), t.elem, bytes).expect("as many as there are")
}

fn check(source: &str, options: &CompileOptions, seed: u64, lower: bool) -> Compiled {
    try_check_on(source, options, |m| matrices(m, seed, lower), close).unwrap_or_else(|what| panic!("{what}"))
}

fn tensor(dims: &[i64], elem: &str) -> String {
    let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{elem}>")
}

fn sharded(lists: &[&str]) -> String {
    let dims: Vec<String> = lists.iter().map(|l| format!("{{{l}}}")).collect();
    format!("{{sdy.sharding = #sdy.sharding<@mesh, [{}]>}}", dims.join(", "))
}

fn factorization(mesh: &str, a: &str, from: &str, to: &str, lower: bool) -> String {
    format!(
        "sdy.mesh @mesh = <[{mesh}]>
        func.func @main(%a: {a} {from}) -> ({a} {to}) {{
          %r = stablehlo.cholesky %a, lower = {lower} : {a}
          return %r : {a} }}"
    )
}

fn names(program: &Compiled, algorithm: Algorithm) -> bool {
    let mut causes = program.plan.collectives.iter().flat_map(|c| &c.causes);
    causes.any(|cause| cause.reason.contains(algorithm.name()))
}

#[test]
fn factors_of_every_size_on_every_mesh() {
    for (mesh, lists) in MESHES {
        for list in *lists {
            for (i, n) in [1, 2, 3, 4, 7, 8, 16, 17].into_iter().enumerate() {
                for lower in [true, false] {
                    let a = tensor(&[n, n], "f64");
                    let (rows, columns, none) = (sharded(&[list, ""]), sharded(&["", list]), sharded(&["", ""]));
                    let pairs =
                        [(&rows, &rows), (&columns, &rows), (&rows, &columns), (&columns, &columns), (&rows, &none)];
                    let (from, to) = pairs[(i + usize::from(lower)) % pairs.len()];
                    let source = factorization(mesh, &a, from, to, lower);
                    let program = check(&source, &always(), n as u64, lower);
                    assert!(names(&program, Algorithm::Cholesky), "{source}\n{:?}", program.plan);
                }
            }
        }
    }
}

#[test]
fn factors_of_stacks_and_of_every_element_type() {
    let (batch, rows) = (sharded(&[r#""y""#, r#""x""#, ""]), sharded(&["", r#""x", "y""#, ""]));
    let both = sharded(&["", r#""x""#, r#""y""#]);
    for elem in ["f32", "f64", "complex<f32>", "complex<f64>"] {
        for placed in [&batch, &rows, &both] {
            for lower in [true, false] {
                let a = tensor(&[3, 7, 7], elem);
                let source = factorization(r#""x"=2, "y"=2"#, &a, placed, placed, lower);
                check(&source, &always(), 7, lower);
            }
        }
    }
}

/// A matrix that is not positive definite has no factor: all of it is NaN, and the others of its stack are not.
#[test]
fn a_matrix_without_a_factor() {
    let a = tensor(&[2, 5, 5], "f64");
    let source = factorization(r#""x"=2"#, &a, &sharded(&["", r#""x""#, ""]), &sharded(&["", r#""x""#, ""]), true);
    for bad in [0, 24 + 25, 25 + 12] {
        let inputs = |m: &Module| {
            let mut inputs = matrices(m, 3, true);
            inputs[0].set_element(bad, &(-100.0f64).to_le_bytes());
            inputs
        };
        try_check_on(&source, &always(), inputs, close).unwrap_or_else(|what| panic!("{what}"));
    }
}

/// More columns than panels: several columns a panel, the last one narrower.
#[test]
fn many_columns() {
    for n in [70, 131] {
        let a = tensor(&[n, n], "f64");
        let rows = sharded(&[r#""x""#, ""]);
        check(&factorization(r#""x"=3"#, &a, &rows, &rows, true), &always(), 5, true);
    }
}

fn system(mesh: &str, a: &str, b: &str, placed: [&str; 3], how: (bool, bool, bool, &str)) -> String {
    let (left, lower, unit, transpose) = how;
    let [pa, pb, pr] = placed;
    format!(
        "sdy.mesh @mesh = <[{mesh}]>
        func.func @main(%a: {a} {pa}, %b: {b} {pb}) -> ({b} {pr}) {{
          %r = \"stablehlo.triangular_solve\"(%a, %b) <{{left_side = {left}, lower = {lower}, unit_diagonal = {unit}, \
             transpose_a = #stablehlo<transpose {transpose}>}}> : ({a}, {b}) -> {b}
          return %r : {b} }}"
    )
}

#[test]
fn systems_of_every_kind() {
    let mut seed = 0;
    for (mesh, lists) in MESHES {
        for list in *lists {
            for n in [1, 3, 4, 7, 13] {
                for left in [true, false] {
                    for lower in [true, false] {
                        for (transpose, unit) in [("NO_TRANSPOSE", false), ("TRANSPOSE", true), ("ADJOINT", false)] {
                            seed += 1;
                            let a = tensor(&[n, n], "f64");
                            let b = if left { tensor(&[n, 2], "f64") } else { tensor(&[2, n], "f64") };
                            let (rows, columns) = (sharded(&[list, ""]), sharded(&["", list]));
                            let matrix = if seed % 2 == 0 { &rows } else { &columns };
                            let sides = if left { &rows } else { &columns };
                            let source = system(mesh, &a, &b, [matrix, sides, sides], (left, lower, unit, transpose));
                            let program = check(&source, &always(), seed, lower);
                            assert!(names(&program, Algorithm::TriangularSolve), "{source}\n{:?}", program.plan);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn systems_of_stacks_and_of_every_element_type() {
    for elem in ["f32", "f64", "complex<f32>", "complex<f64>"] {
        for transpose in ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"] {
            for left in [true, false] {
                let a = tensor(&[3, 5, 5], elem);
                let b = if left { tensor(&[3, 5, 4], elem) } else { tensor(&[3, 4, 5], elem) };
                let matrix = sharded(&["", r#""x""#, ""]);
                let sides = if left { sharded(&["", r#""x""#, r#""y""#]) } else { sharded(&["", r#""y""#, r#""x""#]) };
                let how = (left, true, false, transpose);
                check(&system(r#""x"=2, "y"=2"#, &a, &b, [&matrix, &sides, &sides], how), &always(), 9, true);
                let batch = sharded(&[r#""y""#, r#""x""#, ""]);
                check(&system(r#""x"=2, "y"=2"#, &a, &b, [&batch, &batch, &batch], how), &always(), 9, true);
            }
        }
    }
}

fn transform(mesh: &str, (from, to): (&str, &str), kind: &str, n: i64, placed: [&str; 2]) -> String {
    let [s, r] = placed;
    format!(
        "sdy.mesh @mesh = <[{mesh}]>
        func.func @main(%x: {from} {s}) -> ({to} {r}) {{
          %r = stablehlo.fft %x, type = {kind}, length = [{n}] : ({from}) -> {to}
          return %r : {to} }}"
    )
}

#[test]
fn transforms_of_every_length() {
    for (mesh, lists) in MESHES {
        for n in [1, 2, 3, 4, 6, 9, 12, 13, 16, 20, 24, 30, 35, 64] {
            for (i, kind) in ["FFT", "IFFT", "RFFT", "IRFFT"].into_iter().enumerate() {
                let list = lists[(n as usize + i) % lists.len()];
                let half = tensor(&[2, n / 2 + 1], "complex<f64>");
                let (whole, real) = (tensor(&[2, n], "complex<f64>"), tensor(&[2, n], "f64"));
                let types = match kind {
                    "RFFT" => (&real, &half),
                    "IRFFT" => (&half, &real),
                    _ => (&whole, &whole),
                };
                let placed = sharded(&["", list]);
                let source = transform(mesh, (types.0, types.1), kind, n, [&placed, &placed]);
                let inputs = |m: &Module| {
                    let mut numbers = Numbers(n as u64);
                    let types = m.func_type(m.entry().expect("a function")).inputs;
                    types.iter().map(|ty| matrix(ty, &mut numbers, None)).collect::<Vec<_>>()
                };
                let program = try_check_on(&source, &always(), inputs, close).unwrap_or_else(|what| panic!("{what}"));
                let composite = (2..n).any(|d| n % d == 0);
                assert_eq!(names(&program, Algorithm::Fft), composite, "{source}\n{:?}", program.plan);
            }
        }
    }
}

/// What is chosen where nothing is asked for: large ones go across, small ones are brought together.
#[test]
fn costs_decide() {
    let options = CompileOptions::default();
    let compile = |source: &str, options: &CompileOptions| {
        let module = meshwork_ir::text::parse(source).expect("a program");
        meshwork_partition::compile(&module, options).expect("it compiles")
    };
    for (n, across) in [(16, false), (8192, true)] {
        let (a, b, rows) = (tensor(&[n, n], "f32"), tensor(&[n, 1], "f32"), sharded(&[r#""x""#, ""]));
        let factor = factorization(r#""x"=8"#, &a, &rows, &rows, true);
        assert_eq!(names(&compile(&factor, &options), Algorithm::Cholesky), across, "{n}");
        assert!(!names(&compile(&factor, &never()), Algorithm::Cholesky));
        let solve = system(r#""x"=8"#, &a, &b, [&rows, &rows, &rows], (true, true, false, "NO_TRANSPOSE"));
        let program = compile(&solve, &options);
        assert_eq!(names(&program, Algorithm::TriangularSolve), across, "{n}");
        if across {
            // Twice the right-hand sides, not the matrix.
            assert!(program.plan.wire_bytes() <= (2 * n * 4) as f64, "{:?}", program.plan);
            let factored = compile(&factor, &options);
            assert!(factored.plan.wire_bytes() < 0.8 * (n * n * 4) as f64, "{:?}", factored.plan);
            assert!(factored.plan.flops < compile(&factor, &never()).plan.flops / 4.0);
        }
    }
    let line = tensor(&[15 * 4096], "complex<f32>");
    let placed = sharded(&[r#""x""#]);
    let source = transform(r#""x"=8"#, (&line, &line), "FFT", 15 * 4096, [&placed, &placed]);
    let program = compile(&source, &options);
    assert!(names(&program, Algorithm::Fft), "{:?}", program.plan);
    assert!(program.plan.wire_bytes() < 3.01 * (15.0 * 512.0 * 8.0), "{:?}", program.plan);
}
