//! Sorting along a split dimension: every order, element type and size gives what one device gives, to the bit.

mod common;

use common::try_check_on;
use meshwork_ir::{ElementType, Literal, Module, float, text};
use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Compiled, Use, compile};
use meshwork_testing::Numbers;

fn always() -> CompileOptions {
    CompileOptions { algorithms: Algorithms::default().with(Algorithm::Sort, Use::Always), ..CompileOptions::default() }
}

/// Random numbers of which many are equal; of floats also both zeros, infinities and several NaNs.
fn inputs(module: &Module, seed: u64) -> Vec<Literal> {
    let mut numbers = Numbers(seed);
    let func = module.entry().expect("a function");
    let types = module.func_type(func).inputs;
    let one = |ty: &meshwork_ir::Type| {
        let t = ty.as_tensor().expect("a tensor");
        let count = t.num_elements().expect("static") as usize;
        let mut bytes = vec![];
        for _ in 0..count {
            let parts = if t.elem.is_complex() { 2 } else { 1 };
            for _ in 0..parts {
                let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 1.5, -2.0];
                let pick = numbers.below(3 * special.len());
                let elem = t.elem.real_part();
                match elem {
                    ElementType::I1 => bytes.push((pick % 2) as u8),
                    e if e.is_integer() => {
                        let value = Literal::from_i64s([1], e, &[pick as i64 % 7]).expect("it fits");
                        bytes.extend_from_slice(value.bytes());
                    }
                    e => float::write(e, special.get(pick).copied().unwrap_or(pick as f64 / 8.0), &mut bytes),
                }
            }
        }
        Literal::from_bytes(t.dims.iter().copied(), t.elem, bytes).expect("as many as there are")
    };
    types.iter().map(one).collect()
}

fn same_bits(a: &Literal, b: &Literal) -> bool {
    a == b || a.bytes() == b.bytes()
}

fn check(source: &str, seed: u64) -> Compiled {
    try_check_on(source, &always(), |m| inputs(m, seed), same_bits).unwrap_or_else(|what| panic!("{what}"))
}

/// JAX's comparator of floats `%a` and `%b` of type `elem` as `%name`: zeros are equal, and NaNs come last.
fn canonical(name: &str, a: &str, b: &str, elem: &str, direction: &str) -> String {
    let t = format!("tensor<{elem}>");
    let one = |x: &str, n: &str| {
        format!(
            "%{name}{n}0 = stablehlo.constant dense<0.0> : {t}
            %{name}{n}1 = stablehlo.compare EQ, {x}, %{name}{n}0, FLOAT : ({t}, {t}) -> tensor<i1>
            %{name}{n}2 = stablehlo.select %{name}{n}1, %{name}{n}0, {x} : tensor<i1>, {t}
            %{name}{n}3 = stablehlo.compare NE, {x}, {x}, FLOAT : ({t}, {t}) -> tensor<i1>
            %{name}{n}4 = stablehlo.constant dense<{}> : {t}
            %{name}{n}5 = stablehlo.select %{name}{n}3, %{name}{n}4, %{name}{n}2 : tensor<i1>, {t}",
            match elem {
                "f32" => "0x7FC00000",
                "f64" => "0x7FF8000000000000",
                "bf16" => "0x7FC0",
                _ => "0x7E00",
            }
        )
    };
    format!(
        "{}\n{}\n%{name} = stablehlo.compare {direction}, %{name}x5, %{name}y5, TOTALORDER : ({t}, {t}) -> tensor<i1>",
        one(a, "x"),
        one(b, "y")
    )
}

fn plain(elem: &str, direction: &str, order: &str) -> String {
    format!("%c = stablehlo.compare {direction}, %a, %b, {order} : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>")
}

/// A sort of `elem` with a second operand of `other`, placed so, by this comparator of `%a`, `%b`, `%p` and `%q`.
fn source(mesh: &str, dims: &[i64], dim: i64, placed: &str, (elem, other): (&str, &str), compare: &str) -> String {
    let shape: String = dims.iter().map(|d| format!("{d}x")).collect();
    let (x, y) = (format!("tensor<{shape}{elem}>"), format!("tensor<{shape}{other}>"));
    let s = format!("{{sdy.sharding = #sdy.sharding<@mesh, {placed}>}}");
    format!(
        "sdy.mesh @mesh = <[{mesh}]>
        func.func @main(%x: {x} {s}, %y: {y} {s}) -> ({x} {s}, {y} {s}) {{
          %r:2 = \"stablehlo.sort\"(%x, %y) <{{dimension = {dim} : i64, is_stable = true}}> ({{
          ^bb0(%a: tensor<{elem}>, %b: tensor<{elem}>, %p: tensor<{other}>, %q: tensor<{other}>):
            {compare}
            stablehlo.return %c : tensor<i1>
          }}) : ({x}, {y}) -> ({x}, {y})
          return %r#0, %r#1 : {x}, {y} }}"
    )
}

fn is_distributed(program: &Compiled) -> bool {
    program.plan.totals().contains_key("ragged-all-to-all")
}

#[test]
fn every_size_and_number_of_devices() {
    let compare = canonical("c", "%a", "%b", "f32", "LT");
    for (mesh, p) in [(r#""x"=2"#, 2), (r#""x"=3"#, 3), (r#""x"=4"#, 4), (r#""x"=8"#, 8), (r#""x"=11"#, 11)] {
        for n in [1, 2, 3, 5, 8, 13, 16, 17, 64, 100, 131] {
            let source = source(mesh, &[n], 0, r#"[{"x"}]"#, ("f32", "i32"), &compare);
            let program = check(&source, n as u64);
            assert!(is_distributed(&program), "{n} over {p}");
        }
    }
}

/// More elements than samples in a window: several rounds.
#[test]
fn several_rounds() {
    let compare = canonical("c", "%a", "%b", "f32", "LT");
    for (mesh, n) in [(r#""x"=2"#, 400), (r#""x"=3"#, 401), (r#""x"=8"#, 800)] {
        let source = source(mesh, &[n], 0, r#"[{"x"}]"#, ("f32", "i32"), &compare);
        let program = check(&source, n as u64);
        assert!(program.plan.collectives.iter().any(|c| c.collective.times > 1), "{n}: {:?}", program.plan);
    }
}

#[test]
fn every_element_type_and_direction() {
    let orders = [
        ("i1", "UNSIGNED"),
        ("i4", "SIGNED"),
        ("i8", "SIGNED"),
        ("ui8", "UNSIGNED"),
        ("i16", "SIGNED"),
        ("i32", "SIGNED"),
        ("ui64", "UNSIGNED"),
        ("i64", "SIGNED"),
        ("f16", "TOTALORDER"),
        ("bf16", "TOTALORDER"),
        ("f32", "TOTALORDER"),
        ("f64", "TOTALORDER"),
    ];
    for (i, (elem, order)) in orders.into_iter().enumerate() {
        for direction in ["LT", "GT"] {
            for n in [12, 15] {
                let compare = plain(elem, direction, order);
                let source = source(r#""x"=4"#, &[n], 0, r#"[{"x"}]"#, (elem, "i32"), &compare);
                assert!(is_distributed(&check(&source, i as u64)), "{source}");
            }
        }
    }
    for elem in ["f16", "bf16", "f32", "f64"] {
        for direction in ["LT", "GT"] {
            let compare = canonical("c", "%a", "%b", elem, direction);
            let source = source(r#""x"=4"#, &[18], 0, r#"[{"x"}]"#, (elem, "i32"), &compare);
            assert!(is_distributed(&check(&source, 3)), "{source}");
        }
    }
}

#[test]
fn several_keys_and_complex_numbers() {
    let both = |first: &str, second: &str| {
        format!(
            "%1 = stablehlo.compare {first}, %a, %b, SIGNED : (tensor<i8>, tensor<i8>) -> tensor<i1>
            %2 = stablehlo.compare EQ, %a, %b, SIGNED : (tensor<i8>, tensor<i8>) -> tensor<i1>
            %3 = stablehlo.compare {second}, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %4 = stablehlo.and %2, %3 : tensor<i1>
            %c = stablehlo.or %1, %4 : tensor<i1>"
        )
    };
    for (first, second) in [("LT", "LT"), ("GT", "LT"), ("LT", "GT"), ("GT", "GT")] {
        for n in [16, 21] {
            let source = source(r#""x"=4"#, &[n], 0, r#"[{"x"}]"#, ("i8", "f32"), &both(first, second));
            assert!(is_distributed(&check(&source, 1)), "{source}");
        }
    }
    // As JAX compares complex numbers: by their real parts, then by their imaginary parts.
    let part = |name: &str, x: &str| {
        let kind = if name.starts_with('r') { "real" } else { "imag" };
        format!("%{name} = stablehlo.{kind} {x} : (tensor<complex<f32>>) -> tensor<f32>\n")
    };
    let parts = [part("ra", "%a"), part("rb", "%b"), part("ia", "%a"), part("ib", "%b")].concat();
    let compare = format!(
        "{parts}{}\n{}\n{}
        %n = stablehlo.and %e, %i : tensor<i1>
        %c = stablehlo.or %l, %n : tensor<i1>",
        canonical("l", "%ra", "%rb", "f32", "LT"),
        canonical("e", "%ra", "%rb", "f32", "EQ"),
        canonical("i", "%ia", "%ib", "f32", "LT"),
    );
    for n in [16, 19] {
        let source = source(r#""x"=4"#, &[n], 0, r#"[{"x"}]"#, ("complex<f32>", "i32"), &compare);
        assert!(is_distributed(&check(&source, 2)), "{source}");
    }
}

#[test]
fn batches_and_several_axes() {
    let compare = plain("i32", "LT", "SIGNED");
    let mesh = r#""x"=2, "y"=3"#;
    let two = [
        (r#"[{"x"}, {"y"}]"#, 1),
        (r#"[{"x"}, {"y"}]"#, 0),
        (r#"[{}, {"x", "y"}]"#, 1),
        (r#"[{"y", "x"}, {}]"#, 0),
        (r#"[{}, {"y"}]"#, 1),
    ];
    for (placed, dim) in two {
        for dims in [[3, 13], [4, 12], [1, 7], [5, 1]] {
            let source = source(mesh, &dims, dim, placed, ("i32", "i8"), &compare);
            assert!(is_distributed(&check(&source, 5)), "{source}");
        }
    }
    let three = source(r#""x"=4"#, &[3, 10, 2], 1, r#"[{}, {"x"}, {}]"#, ("i32", "i8"), &compare);
    assert!(is_distributed(&check(&three, 6)));
    let halves = source(r#""x"=4"#, &[2, 11], 1, r#"[{"x":(1)2}, {"x":(2)2}]"#, ("i32", "i8"), &compare);
    assert!(is_distributed(&check(&halves, 7)));
}

#[test]
fn orders_that_are_not_known_bring_lines_together() {
    let compare = "%1 = stablehlo.abs %a : tensor<i32>
        %2 = stablehlo.abs %b : tensor<i32>
        %c = stablehlo.compare LT, %1, %2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>";
    let program = check(&source(r#""x"=4"#, &[13], 0, r#"[{"x"}]"#, ("i32", "i8"), compare), 8);
    assert!(!is_distributed(&program));
}

#[test]
fn a_long_sort_sends_a_shard_and_samples_and_the_plan_says_what_it_beats() {
    let source =
        source(r#""x"=8"#, &[1 << 22], 0, r#"[{"x"}]"#, ("f32", "i32"), &canonical("c", "%a", "%b", "f32", "LT"));
    let source = source.replace(", %y: tensor<4194304xi32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}", "");
    let source = source.replace("%r:2 = ", "%y = stablehlo.iota dim = 0 : tensor<4194304xi32>\n%r:2 = ");
    let module = text::parse(&source).unwrap_or_else(|d| panic!("{}", d.render("test", &source)));
    let plan = |algorithms: Algorithms| {
        let options = CompileOptions { algorithms, ..CompileOptions::default() };
        compile(&module, &options).expect("it compiles").plan
    };
    let (with, without) = (plan(Algorithms::default()), plan(Algorithms::default().with(Algorithm::Sort, Use::Never)));
    // Two operands: a shard of each is 2 MiB.
    let shards = with.wire_bytes() / f64::from(2 << 21);
    assert!(shards < 1.02, "{shards} shards");
    assert!(without.wire_bytes() >= f64::from(14 << 20), "{}", without.wire_bytes());
    assert!(!without.totals().contains_key("ragged-all-to-all"));
    let why = &with.collectives[0].causes[0].reason;
    assert!(why.starts_with("distributed-sort: "), "{why}");
    assert!(why.contains("(at most 4.0 MiB sent; bringing lines together would send 14.0 MiB)"), "{why}");
}

/// What is not placed is placed as the operand where that is faster.
#[test]
fn a_sorted_line_stays_split_unless_it_is_wanted_whole() {
    let sort = |n: i64, result: &str| {
        let compare = plain("i32", "LT", "SIGNED");
        let source = source(r#""x"=8"#, &[n], 0, r#"[{"x"}]"#, ("i32", "i8"), &compare);
        let placed = r#" {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}"#;
        let (arguments, results) = source.split_once("->").expect("results");
        let source = format!("{arguments}->{}", results.replace(placed, result));
        let module = text::parse(&source).unwrap_or_else(|d| panic!("{}", d.render("test", &source)));
        compile(&module, &CompileOptions::default()).expect("it compiles")
    };
    let long = sort(1 << 20, "");
    assert!(is_distributed(&long));
    assert_eq!(long.plan.results[0].sharding.dims[0].axes.len(), 1);
    let whole = r#" {sdy.sharding = #sdy.sharding<@mesh, [{}]>}"#;
    assert!(!is_distributed(&sort(1 << 20, whole)));
    assert!(!is_distributed(&sort(64, "")));
}

#[test]
fn a_short_line_is_brought_together() {
    let compare = plain("i32", "LT", "SIGNED");
    let source = source(r#""x"=8"#, &[64], 0, r#"[{"x"}]"#, ("i32", "i8"), &compare);
    let module = text::parse(&source).unwrap_or_else(|d| panic!("{}", d.render("test", &source)));
    let plan = compile(&module, &CompileOptions::default()).expect("it compiles").plan;
    assert_eq!(plan.totals().keys().collect::<Vec<_>>(), [&"all-gather"]);
}

/// Random shapes, placements and orders. `MESHWORK_SORTS=1000` tries as many.
#[test]
fn random_sorts() {
    let count = std::env::var("MESHWORK_SORTS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut numbers = Numbers(23);
    for seed in 0..count {
        let meshes = [(r#""x"=2, "y"=2"#, 4), (r#""x"=8"#, 8), (r#""x"=3, "y"=2"#, 6), (r#""x"=5"#, 5)];
        let (mesh, _) = meshes[numbers.below(meshes.len())];
        let axes: &[&str] = if mesh.contains('y') { &[r#""x""#, r#""y""#, r#""y", "x""#] } else { &[r#""x""#] };
        let rank = 1 + numbers.below(3);
        let dim = numbers.below(rank);
        let dims: Vec<i64> =
            (0..rank).map(|d| numbers.between(1, if d == dim { 300 / [1, 4, 16][rank - 1] } else { 4 })).collect();
        let along = axes[numbers.below(axes.len())];
        let rest = if along.len() == 3 && axes.len() > 1 && numbers.below(2) == 0 {
            if along == axes[0] { axes[1] } else { axes[0] }
        } else {
            ""
        };
        let aside = (0..rank).find(|&d| d != dim);
        let place = |d: usize| match d {
            d if d == dim => along,
            d if Some(d) == aside => rest,
            _ => "",
        };
        let placed: Vec<String> = (0..rank).map(|d| format!("{{{}}}", place(d))).collect();
        let placed = format!("[{}]", placed.join(", "));
        let direction = ["LT", "GT"][numbers.below(2)];
        let (elem, compare) = match numbers.below(4) {
            0 => ("f32", canonical("c", "%a", "%b", "f32", direction)),
            1 => ("f64", plain("f64", direction, "TOTALORDER")),
            2 => ("ui8", plain("ui8", direction, "UNSIGNED")),
            _ => ("i32", plain("i32", direction, "SIGNED")),
        };
        let source = source(mesh, &dims, dim as i64, &placed, (elem, "i32"), &compare);
        assert!(is_distributed(&check(&source, seed)), "{source}");
    }
}
