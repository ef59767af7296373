//! Products in rings: the same results, the same bytes, and communication that a run does not wait for.

mod common;

use common::{close, inputs, try_check_on};
use meshwork_ir::{Literal, text};
use meshwork_partition::plan::{Machine, Simulation, simulate};
use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Compiled, Use, compile};

fn options(when: Use, machine: Machine) -> CompileOptions {
    let algorithms = Algorithms::default().with(Algorithm::RingProducts, when);
    CompileOptions { algorithms, machine, ..CompileOptions::default() }
}

/// Sums that are rounded to 8 bits on their way.
fn roughly(a: &Literal, b: &Literal) -> bool {
    let (x, y) = (a.to_f64s(), b.to_f64s());
    x.len() == y.len() && x.iter().zip(&y).all(|(p, q)| (p - q).abs() <= 0.02 * p.abs().max(1.0))
}

fn names(program: &Compiled) -> usize {
    let causes = program.plan.collectives.iter().flat_map(|c| &c.causes);
    causes.filter(|cause| cause.reason.starts_with("ring-products: ")).count()
}

/// [`check_any`], and that the rings have as many steps as this together.
fn check(source: &str, steps: usize) -> Compiled {
    let program = check_any(source);
    assert_eq!(names(&program), steps, "{source}\n{:?}", program.plan);
    program
}

/// Checks `source` with rings wherever they can be.
fn check_any(source: &str) -> Compiled {
    let always = options(Use::Always, Machine::default());
    let alike = if source.contains("bf16") { roughly } else { close };
    try_check_on(source, &always, inputs, alike).unwrap_or_else(|what| panic!("{what}"))
}

/// Two layers whose tokens are split between them and whose features are split inside: a gather before the first product, a
/// reduce-scatter behind the second.
fn layers(mesh: &str, axes: &str, elem: &str, [tokens, width, hidden]: [i64; 3]) -> String {
    format!(
        "sdy.mesh @mesh = <[{mesh}]>
        func.func @main(%x: tensor<{tokens}x{width}x{elem}> {{sdy.sharding = #sdy.sharding<@mesh, [{{{axes}}}, {{}}]>}},
            %v: tensor<{width}x{hidden}x{elem}> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{{axes}}}]>}},
            %w: tensor<{hidden}x{width}x{elem}> {{sdy.sharding = #sdy.sharding<@mesh, [{{{axes}}}, {{}}]>}})
            -> (tensor<{tokens}x{width}x{elem}> {{sdy.sharding = #sdy.sharding<@mesh, [{{{axes}}}, {{}}]>}}) {{
          %0 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0]
            : (tensor<{tokens}x{width}x{elem}>, tensor<{width}x{hidden}x{elem}>) -> tensor<{tokens}x{hidden}x{elem}>
          %1 = sdy.sharding_constraint %0 <@mesh, [{{}}, {{{axes}}}]> : tensor<{tokens}x{hidden}x{elem}>
          %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
            : (tensor<{tokens}x{hidden}x{elem}>, tensor<{hidden}x{width}x{elem}>) -> tensor<{tokens}x{width}x{elem}>
          return %2 : tensor<{tokens}x{width}x{elem}>
        }}"
    )
}

#[test]
fn layers_on_every_mesh() {
    let meshes = [(r#""x"=2"#, r#""x""#, 2), (r#""x"=3"#, r#""x""#, 3), (r#""x"=4"#, r#""x""#, 4)];
    let more =
        [(r#""x"=4"#, r#""x":(2)2"#, 2), (r#""x"=2, "y"=3"#, r#""y", "x""#, 6), (r#""x"=2, "y"=2"#, r#""y""#, 2)];
    for (mesh, axes, p) in meshes.into_iter().chain(more) {
        for elem in ["f32", "f64", "i32", "bf16"] {
            // Both products in rings of p - 1 steps each.
            let even = layers(mesh, axes, elem, [2 * p, 24, 48]);
            let program = check(&even, 2 * (p as usize - 1));
            let never = compile(&text::parse(&even).expect("a program"), &options(Use::Never, Machine::default()));
            let never = never.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(names(&never), 0);
            assert!((never.plan.wire_bytes() - program.plan.wire_bytes()).abs() < 1e-6, "{even}");
        }
    }
}

/// What is behind the end of the tokens goes round, too, and is cut off the result.
#[test]
fn uneven_blocks() {
    for (tokens, p) in [(1, 2), (5, 2), (7, 3), (7, 4), (13, 4), (15, 8)] {
        let source = layers(&format!(r#""x"={p}"#), r#""x""#, "f32", [tokens, 24, 40]);
        let program = check_any(&source);
        assert!(names(&program) > 0, "{source}\n{:?}", program.plan);
    }
}

/// One ring for all products that read what would be gathered, on either side of them and with batches.
#[test]
fn several_products_of_one_operand() {
    let source = r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%x: tensor<2x8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>},
            %v: tensor<6x40xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
            %w: tensor<2x44x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>})
            -> (tensor<2x8x40xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>},
                tensor<2x44x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) {
          %0 = stablehlo.dot_general %x, %v, contracting_dims = [2] x [0]
            : (tensor<2x8x6xf32>, tensor<6x40xf32>) -> tensor<2x8x40xf32>
          %1 = stablehlo.tanh %w : tensor<2x44x6xf32>
          %2 = stablehlo.dot_general %1, %x, batching_dims = [0] x [0], contracting_dims = [2] x [2]
            : (tensor<2x44x6xf32>, tensor<2x8x6xf32>) -> tensor<2x44x8xf32>
          return %0, %2 : tensor<2x8x40xf32>, tensor<2x44x8xf32>
        }"#;
    check(source, 3);
}

/// Copies of a result would differ in their last bits: what a product sums over does not go round.
#[test]
fn a_gathered_dimension_that_is_summed_over_stays() {
    let source = r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
            -> tensor<4x4xf32> {
          %g = sdy.sharding_constraint %w <@mesh, [{}, {}]> : tensor<8x4xf32>
          %0 = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
          return %0 : tensor<4x4xf32>
        }"#;
    check(source, 0);
}

#[test]
fn products_in_loops() {
    let source = r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%x: tensor<8x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
            %v: tensor<24x48xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
            %w: tensor<48x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
            -> (tensor<8x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %three = stablehlo.constant dense<3> : tensor<i32>
          %small = stablehlo.constant dense<0.001> : tensor<8x24xf32>
          %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<8x24xf32>
          cond {
            %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %0 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<8x24xf32>, tensor<24x48xf32>) -> tensor<8x48xf32>
            %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x"}]> : tensor<8x48xf32>
            %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<8x48xf32>, tensor<48x24xf32>) -> tensor<8x24xf32>
            %3 = stablehlo.multiply %2, %small : tensor<8x24xf32>
            %4 = sdy.sharding_constraint %3 <@mesh, [{"x"}, {}]> : tensor<8x24xf32>
            %j = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %j, %4 : tensor<i32>, tensor<8x24xf32>
          }
          return %r#1 : tensor<8x24xf32>
        }"#;
    let program = check(source, 6);
    assert!(program.plan.collectives.iter().all(|c| c.collective.times == 3), "{:?}", program.plan);
}

fn planned(source: &str, when: Use, machine: &Machine) -> (Compiled, Simulation) {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
    let compiled = compile(&module, &options(when, machine.clone())).unwrap_or_else(|e| panic!("{e}"));
    let run = simulate(&compiled, machine);
    (compiled, run)
}

/// Large layers on a machine whose links work beside its processors: steps are hidden, and the plan says what they beat.
#[test]
fn a_run_does_not_wait_for_steps() {
    let machine = Machine::named("h100").expect("its name");
    let source = layers(r#""x"=8"#, r#""x""#, "bf16", [16384, 8192, 32768]);
    let ((with, run), (without, before)) =
        (planned(&source, Use::Weighed, &machine), planned(&source, Use::Never, &machine));
    assert_eq!("ring-products".parse(), Ok(Algorithm::RingProducts));
    assert_eq!((names(&with), names(&without)), (14, 0), "{:?}", with.plan);
    let why = &with.plan.collectives[0].causes[0].reason;
    assert!(why.starts_with("ring-products: blocks of the operand go round beside the product ("), "{why}");
    assert!(why.contains("; gathering it first would take "), "{why}");
    assert!(run.seconds < before.seconds, "{} {}", run.seconds, before.seconds);
    assert!(run.exposed_seconds() < 0.25 * before.exposed_seconds(), "{run:?}\n{before:?}");
    assert!((with.plan.wire_bytes() / without.plan.wire_bytes() - 1.0).abs() < 1e-9);
}

/// Small products do not hide anything, and nothing is known about a machine that is not given.
#[test]
fn rings_that_do_not_pay_are_not_used() {
    let machine = Machine::named("h100").expect("its name");
    let small = layers(r#""x"=8"#, r#""x""#, "bf16", [64, 64, 128]);
    assert_eq!(names(&planned(&small, Use::Weighed, &machine).0), 0);
    let large = layers(r#""x"=8"#, r#""x""#, "bf16", [16384, 8192, 32768]);
    assert_eq!(names(&planned(&large, Use::Weighed, &Machine::default()).0), 0);
}
