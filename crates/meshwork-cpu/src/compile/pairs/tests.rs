//! Programs on complex numbers, against the evaluator.

use meshwork_ir::{ElementType, Literal, Scalar};

use crate::compile::testing::{check, check_on};

const ELEMENTS: [(&str, &str, f64); 2] = [("complex<f32>", "f32", 2e-5), ("complex<f64>", "f64", 1e-13)];

/// `body` with `Z` for arrays of complex numbers, `R` for their parts, `P` for truth values and `S` for a complex scalar.
fn sources(body: &str) -> Vec<(String, f64)> {
    let mut out = vec![];
    for (z, r, tolerance) in ELEMENTS {
        for dims in ["", "0x", "1x", "7x", "3x5x", "1037x", "16x64x"] {
            let text = body
                .replace("tensor<Z>", &format!("tensor<{dims}{z}>"))
                .replace("tensor<R>", &format!("tensor<{dims}{r}>"))
                .replace("tensor<P>", &format!("tensor<{dims}i1>"))
                .replace("tensor<S>", &format!("tensor<{z}>"));
            out.push((text, tolerance));
        }
    }
    out
}

#[test]
fn functions_of_one_number() {
    for (f, to) in [
        ("negate", "tensor<Z>"),
        ("abs", "tensor<R>"),
        ("real", "tensor<R>"),
        ("imag", "tensor<R>"),
        ("exponential", "tensor<Z>"),
        ("sqrt", "tensor<Z>"),
        ("log", "tensor<Z>"),
        ("sine", "tensor<Z>"),
    ] {
        let ty = if to == "tensor<Z>" { "tensor<Z>".to_string() } else { format!("(tensor<Z>) -> {to}") };
        let body =
            format!("func.func @main(%a: tensor<Z>) -> {to} {{ %0 = stablehlo.{f} %a : {ty} return %0 : {to} }}");
        for (text, tolerance) in sources(&body) {
            check(&text, 20.0 * tolerance);
        }
    }
}

/// Powers, those of zero and those to the power of zero included.
#[test]
fn powers() {
    let parts = [-3.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.5];
    let all: Vec<Scalar> = parts.iter().flat_map(|&x| parts.iter().map(move |&y| Scalar::Complex(x, y))).collect();
    let count = all.len() * all.len();
    for (elem, tolerance) in [("complex<f32>", 2e-5), ("complex<f64>", 1e-12)] {
        let e = ElementType::from_text(elem).unwrap();
        let list = |pick: &dyn Fn(usize) -> Scalar| {
            let numbers: Vec<Scalar> = (0..count).map(pick).collect();
            Literal::from_scalars([count as i64], e, numbers).unwrap()
        };
        let (x, y) = (list(&|i| all[i / all.len()]), list(&|i| all[i % all.len()]));
        let ty = format!("tensor<{count}x{elem}>");
        let source = format!(
            "func.func @main(%a: {ty}, %b: {ty}) -> {ty} {{ %0 = stablehlo.power %a, %b : {ty} return %0 : {ty} }}"
        );
        let text = check_on(&source, &[x, y], tolerance);
        assert_eq!(text.contains("scalar"), elem == "complex<f64>", "{text}");
    }
}

#[test]
fn chains_are_one_loop() {
    let body = "func.func @main(%a: tensor<Z>, %b: tensor<Z>, %x: tensor<R>) -> (tensor<Z>, tensor<R>) {
        %0 = stablehlo.multiply %a, %b : tensor<Z>
        %1 = stablehlo.complex %x, %x : tensor<Z>
        %2 = stablehlo.subtract %0, %1 : tensor<Z>
        %3 = stablehlo.divide %2, %b : tensor<Z>
        %4 = stablehlo.compare EQ, %a, %b : (tensor<Z>, tensor<Z>) -> tensor<P>
        %5 = stablehlo.select %4, %a, %3 : tensor<P>, tensor<Z>
        %6 = stablehlo.convert %x : (tensor<R>) -> tensor<Z>
        %7 = stablehlo.add %5, %6 : tensor<Z>
        %8 = stablehlo.imag %7 : (tensor<Z>) -> tensor<R>
        return %7, %8 : tensor<Z>, tensor<R> }";
    for (text, tolerance) in sources(body) {
        let program = check(&text, 50.0 * tolerance);
        assert!(!program.contains("scalar") && !program.contains("elements"), "{program}");
    }
}

#[test]
fn movements_between_arithmetic() {
    for (z, _, tolerance) in ELEMENTS {
        let body = "func.func @main(%a: tensor<6x9xZ>, %i: tensor<i32>) -> (tensor<9x6xZ>, tensor<6xZ>, tensor<2x9xZ>) {
            %k = stablehlo.constant dense<(0.5, 2.0)> : tensor<Z>
            %o = stablehlo.constant dense<0> : tensor<i32>
            %zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<Z>
            %0 = stablehlo.multiply %a, %a : tensor<6x9xZ>
            %1 = stablehlo.pad %0, %k, low = [0, 1], high = [0, -1], interior = [0, 0] : (tensor<6x9xZ>, tensor<Z>) -> tensor<6x9xZ>
            %2 = stablehlo.reverse %1, dims = [1] : tensor<6x9xZ>
            %3 = stablehlo.add %2, %a : tensor<6x9xZ>
            %4 = stablehlo.transpose %3, dims = [1, 0] : (tensor<6x9xZ>) -> tensor<9x6xZ>
            %5 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x9xZ>, tensor<Z>) -> tensor<6xZ>
            %6 = stablehlo.dynamic_slice %3, %i, %o, sizes = [2, 9] : (tensor<6x9xZ>, tensor<i32>, tensor<i32>) -> tensor<2x9xZ>
            %7 = stablehlo.negate %6 : tensor<2x9xZ>
            return %4, %5, %7 : tensor<9x6xZ>, tensor<6xZ>, tensor<2x9xZ> }";
        check(&body.replace('Z', z), 20.0 * tolerance);
    }
}

/// What is only moved stays whole, and a transform gets and gives whole numbers.
#[test]
fn transforms_in_a_loop() {
    let text = check(
        "func.func @main(%x: tensor<16xcomplex<f32>>, %w: tensor<16xcomplex<f32>>) -> tensor<16xcomplex<f32>> {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %0:2 = stablehlo.while(%i = %zero, %z = %x) : tensor<i32>, tensor<16xcomplex<f32>>
        cond {
            %n = stablehlo.constant dense<5> : tensor<i32>
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
        } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %next = stablehlo.add %i, %one : tensor<i32>
            %v = stablehlo.multiply %z, %w : tensor<16xcomplex<f32>>
            %f = stablehlo.fft %v, type = FFT, length = [16] : (tensor<16xcomplex<f32>>) -> tensor<16xcomplex<f32>>
            %q = stablehlo.constant dense<(0.1, 0.0)> : tensor<16xcomplex<f32>>
            %g = stablehlo.multiply %f, %q : tensor<16xcomplex<f32>>
            stablehlo.return %next, %g : tensor<i32>, tensor<16xcomplex<f32>>
        }
        return %0#1 : tensor<16xcomplex<f32>> }",
        1e-4,
    );
    assert!(text.contains("transform") && !text.contains("scalar"), "{text}");
}

#[test]
fn carries_and_branches() {
    for (z, r, tolerance) in ELEMENTS {
        for (n, trips) in [("40x", 9), ("", 30), ("5x33x", 3)] {
            let body = "func.func @main(%x: tensor<NZ>, %w: tensor<NZ>, %p: tensor<i1>) -> (tensor<NZ>, tensor<NR>) {
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %0:3 = stablehlo.while(%i = %zero, %a = %x, %sum = %w) : tensor<i32>, tensor<NZ>, tensor<NZ>
            cond {
                %n = stablehlo.constant dense<TRIPS> : tensor<i32>
                %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
            } do {
                %one = stablehlo.constant dense<1> : tensor<i32>
                %next = stablehlo.add %i, %one : tensor<i32>
                %h = stablehlo.constant dense<(0.1, 0.2)> : tensor<NZ>
                %b = stablehlo.multiply %a, %h : tensor<NZ>
                %d = stablehlo.add %b, %w : tensor<NZ>
                %e = \"stablehlo.if\"(%p) ({
                    stablehlo.return %d : tensor<NZ>
                }, {
                    %m = stablehlo.negate %d : tensor<NZ>
                    stablehlo.return %m : tensor<NZ>
                }) : (tensor<i1>) -> tensor<NZ>
                %s = stablehlo.add %sum, %e : tensor<NZ>
                stablehlo.return %next, %e, %s : tensor<i32>, tensor<NZ>, tensor<NZ>
            }
            %r = stablehlo.real %0#2 : (tensor<NZ>) -> tensor<NR>
            return %0#1, %r : tensor<NZ>, tensor<NR> }";
            let text = body.replace('Z', z).replace("NR", &format!("N{r}")).replace("TRIPS", &trips.to_string());
            check(&text.replace("tensor<N", &format!("tensor<{n}")), 20.0 * tolerance);
        }
    }
}

/// Zeros, infinities, the ends of the range, and all pairs of them.
#[test]
fn functions_at_the_limits() {
    let plain = [0.0, -0.0, 1.0, -2.5, 3e-5, 5e5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    // The squares of the extremes leave the range, their quotients do not.
    for (z, elem, (small, large)) in
        [("complex<f32>", ElementType::C64, (1e-19, 2e19)), ("complex<f64>", ElementType::C128, (1e-154, 1.5e154))]
    {
        let wide: Vec<f64> = plain.into_iter().chain([small, large, -small]).collect();
        for (f, parts) in [("divide", &wide[..]), ("multiply", &plain)] {
            let all = of_parts(parts);
            let n = all.len();
            let above: Vec<Scalar> = all.iter().flat_map(|&a| std::iter::repeat_n(a, n)).collect();
            let below: Vec<Scalar> = all.iter().copied().cycle().take(n * n).collect();
            let ty = format!("tensor<{}x{z}>", n * n);
            let text = format!(
                "func.func @main(%a: {ty}, %b: {ty}) -> {ty} {{ %0 = stablehlo.{f} %a, %b : {ty} return %0 : {ty} }}"
            );
            check_on(&text, &[list_of(&above, elem), list_of(&below, elem)], 1e-5);
        }
        // Of constants, some of which are finite.
        for top in ["(1.0, 0.0)", "(0.0, 0.0)", "(-3.0, 2.5)", "(INF, 1.0)", "(0.0, INF)"] {
            let (all, infinity) =
                (of_parts(&wide), if elem == ElementType::C64 { "0x7F800000" } else { "0x7FF0000000000000" });
            let ty = format!("tensor<{}x{z}>", all.len());
            let text = format!(
                "func.func @main(%b: {ty}) -> {ty} {{ %a = stablehlo.constant dense<{}> : {ty}
                %0 = stablehlo.divide %a, %b : {ty} return %0 : {ty} }}",
                top.replace("INF", infinity)
            );
            check_on(&text, &[list_of(&all, elem)], 1e-5);
        }
        let ends = if elem == ElementType::C64 {
            [f32::MAX, f32::MAX / 1.5, f32::MIN_POSITIVE].map(f64::from)
        } else {
            [f64::MAX, f64::MAX / 1.5, f64::MIN_POSITIVE]
        };
        let all = of_parts(&wide.into_iter().chain(ends).chain(ends.map(|x| -x)).collect::<Vec<_>>());
        let n = all.len();
        let (one, real) = (list_of(&all, elem), if elem == ElementType::C64 { "f32" } else { "f64" });
        let (ty, to) = (format!("tensor<{n}x{z}>"), format!("tensor<{n}x{real}>"));
        let text =
            format!("func.func @main(%a: {ty}) -> {to} {{ %0 = stablehlo.abs %a : ({ty}) -> {to} return %0 : {to} }}");
        check_on(&text, std::slice::from_ref(&one), 1e-6);
        for f in
            ["stablehlo.sqrt %a : ", "stablehlo.exponential %a : ", "stablehlo.log %a : ", "chlo.square %a : TY -> "]
        {
            let f = f.replace("TY", &ty);
            let text = format!("func.func @main(%a: {ty}) -> {ty} {{ %0 = {f}{ty} return %0 : {ty} }}");
            check_on(&text, std::slice::from_ref(&one), 1e-5);
        }
    }
}

/// All complex numbers with these parts.
fn of_parts(parts: &[f64]) -> Vec<Scalar> {
    parts.iter().flat_map(|&x| parts.iter().map(move |&y| Scalar::Complex(x, y))).collect()
}

fn list_of(all: &[Scalar], elem: ElementType) -> Literal {
    Literal::from_scalars([all.len() as i64], elem, all.to_vec()).unwrap()
}

/// An array that a loop sets element by element, at places that are data, some of them outside.
#[test]
fn elements_that_loops_set() {
    for (z, tolerance) in [("complex<f32>", 2e-5), ("complex<f64>", 1e-13)] {
        for n in [1, 2, 7, 16] {
            let text = format!(
                "func.func @main(%a: tensor<{n}x{n}x{z}>, %z: tensor<{z}>) -> tensor<{n}x{n}x{z}> {{
                    %zero = stablehlo.constant dense<0> : tensor<i32>
                    %one = stablehlo.constant dense<1> : tensor<i32>
                    %end = stablehlo.constant dense<{end}> : tensor<i32>
                    %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<{n}x{n}x{z}>
                    cond {{
                        %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
                        stablehlo.return %c : tensor<i1>
                    }} do {{
                        %j = stablehlo.subtract %end, %i : tensor<i32>
                        %s = stablehlo.dynamic_slice %x, %i, %j, sizes = [1, 1] : (tensor<{n}x{n}x{z}>, tensor<i32>, tensor<i32>) -> tensor<1x1x{z}>
                        %v = stablehlo.reshape %s : (tensor<1x1x{z}>) -> tensor<{z}>
                        %w = stablehlo.multiply %v, %z : tensor<{z}>
                        %p = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
                        %q = stablehlo.reshape %j : (tensor<i32>) -> tensor<1xi32>
                        %at = stablehlo.concatenate %p, %q, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
                        %y = \"stablehlo.scatter\"(%x, %at, %w) ({{
                        ^bb0(%old: tensor<{z}>, %new: tensor<{z}>):
                            stablehlo.return %new : tensor<{z}>
                        }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1],
                            scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0>}}
                            : (tensor<{n}x{n}x{z}>, tensor<2xi32>, tensor<{z}>) -> tensor<{n}x{n}x{z}>
                        %next = stablehlo.add %i, %one : tensor<i32>
                        stablehlo.return %next, %y : tensor<i32>, tensor<{n}x{n}x{z}>
                    }}
                    return %r#1 : tensor<{n}x{n}x{z}> }}",
                end = n + 1,
            );
            let steps = check(&text, tolerance);
            assert!(!steps.contains("update complex") && !steps.contains("scatter"), "{steps}");
        }
    }
}
