//! Loops that exchange halos once in several turns: the same results to the bit, and fewer exchanges.

mod common;

use common::stencils::{BODIES, looped, update};
use common::{inputs, try_check_on};
use meshwork_ir::{Literal, text};
use meshwork_partition::plan::{Machine, simulate};
use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Compiled, Use, compile};

fn options(when: Use, machine: Machine) -> CompileOptions {
    let algorithms = Algorithms::default().with(Algorithm::WideHalos, when);
    CompileOptions { algorithms, machine, ..CompileOptions::default() }
}

fn equal(a: &Literal, b: &Literal) -> bool {
    a == b
}

/// Exchanges of halos for several turns, and how often they run.
fn exchanges(program: &Compiled) -> Vec<i64> {
    let wide = |c: &&meshwork_partition::plan::PlannedCollective| {
        c.causes.iter().any(|cause| cause.reason.starts_with("wide-halos: "))
    };
    program.plan.collectives.iter().filter(wide).map(|c| c.collective.times).collect()
}

/// Checks `source` with wide halos wherever they can be.
fn check(source: &str) -> Compiled {
    let always = options(Use::Always, Machine::default());
    try_check_on(source, &always, inputs, equal).unwrap_or_else(|what| panic!("{what}"))
}

/// Every spelling, even and uneven blocks, turns that divide and that do not.
#[test]
fn every_spelling_on_every_mesh() {
    for (name, body) in BODIES {
        for (n, devices) in [(128, 8), (102, 4), (41, 3), (29, 4), (24, 2)] {
            for (turns, elem) in [(2, "i32"), (4, "f32"), (11, "i32"), (9, "i64")] {
                let (mesh, ty) = (format!(r#""x"={devices}"#), format!("tensor<{n}x{elem}>"));
                let program = check(&looped(&mesh, r#"{"x"}"#, &ty, turns, &body(n, elem)));
                let times = exchanges(&program);
                assert!(!times.is_empty(), "{name}, {n} on {devices}\n{}", text::print(&program.module));
                assert!(times.iter().all(|&t| t <= turns / 4 + 1), "{name}: {times:?}");
            }
        }
    }
}

/// Halos of four turns do not fit into these blocks; those of three or two do.
#[test]
fn short_blocks_exchange_more_often() {
    for (n, devices) in [(12, 4), (9, 3), (7, 3), (8, 4), (6, 8), (3, 2)] {
        for (_, body) in BODIES {
            let (mesh, ty) = (format!(r#""x"={devices}"#), format!("tensor<{n}xi32>"));
            check(&looped(&mesh, r#"{"x"}"#, &ty, 7, &body(n, "i32")));
        }
    }
}

/// The sum of the four neighbours in two dimensions, one of them a ring, with a field from outside the loop.
#[test]
fn two_dimensions() {
    let meshes = [(r#""x"=2"#, r#"{"x"}, {}"#), (r#""x"=4"#, r#"{}, {"x"}"#), (r#""x"=2, "y"=3"#, r#"{"y"}, {"x"}"#)];
    for (n, m) in [(24, 18), (23, 17)] {
        let (ty, wide) = (format!("tensor<{n}x{m}xi32>"), format!("tensor<{}x{m}xi32>", n + 2));
        let body = format!(
            "%fill = stablehlo.constant dense<1> : tensor<i32>
            %wide = stablehlo.pad %u, %fill, low = [1, 0], high = [1, 0], interior = [0, 0] : ({ty}, tensor<i32>) -> {wide}
            %up = stablehlo.slice %wide [0:{n}, 0:{m}] : ({wide}) -> {ty}
            %down = stablehlo.slice %wide [2:{}, 0:{m}] : ({wide}) -> {ty}
            %a0 = stablehlo.slice %u [0:{n}, {}:{m}] : ({ty}) -> tensor<{n}x1xi32>
            %a1 = stablehlo.slice %u [0:{n}, 0:{}] : ({ty}) -> tensor<{n}x{}xi32>
            %left = stablehlo.concatenate %a0, %a1, dim = 1 : (tensor<{n}x1xi32>, tensor<{n}x{}xi32>) -> {ty}
            %s0 = stablehlo.add %up, %down : {ty}
            %s1 = stablehlo.subtract %s0, %left : {ty}
            %new = stablehlo.add %s1, %x : {ty}",
            n + 2,
            m - 1,
            m - 1,
            m - 1,
            m - 1
        );
        for (mesh, dims) in meshes {
            let program = check(&looped(mesh, dims, &ty, 6, &body));
            assert!(!exchanges(&program).is_empty(), "{mesh}\n{}", text::print(&program.module));
        }
    }
}

/// A turn that adds up the whole array needs all devices in every turn.
#[test]
fn sums_of_a_line_stay() {
    let body = format!(
        "%nothing = stablehlo.constant dense<0> : tensor<i32>
        %sum = stablehlo.reduce(%u init: %nothing) applies stablehlo.add across dimensions = [0] : (tensor<32xi32>, tensor<i32>) -> tensor<i32>
        %all = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<i32>) -> tensor<32xi32>
        {}
        %new = stablehlo.add %inner2, %all : tensor<32xi32>",
        update(32, "i32").replace("%new", "%inner2")
    );
    let program = check(&looped(r#""x"=4"#, r#"{"x"}"#, "tensor<32xi32>", 5, &body));
    assert_eq!(exchanges(&program), [0; 0]);
}

/// Where latency dominates, halos of several turns are exchanged at once, and the plan says what that beat.
#[test]
fn latency_decides() {
    let source = looped(r#""x"=8"#, r#"{"x"}"#, "tensor<8192xf32>", 100, &update(8192, "f32"));
    let module = text::parse(&source).unwrap_or_else(|d| panic!("{}", d.render("test", &source)));
    let machine: Machine = "* 10 50\ndevice=100,1000".parse().expect("a machine");
    let on = |when: Use, machine: &Machine| {
        let compiled = compile(&module, &options(when, machine.clone())).unwrap_or_else(|e| panic!("{e}"));
        let seconds = simulate(&compiled, machine).seconds;
        (compiled, seconds)
    };
    let ((with, fast), (without, slow)) = (on(Use::Weighed, &machine), on(Use::Never, &machine));
    assert!(fast < 0.5 * slow, "{fast} {slow}");
    assert_eq!(exchanges(&without), [0; 0]);
    let reason = &with.plan.collectives[0].causes[0].reason;
    assert!(
        reason.starts_with("wide-halos: halos of ") && reason.contains("an exchange in every turn would take"),
        "{reason}"
    );
    assert!(reason.contains("would take 20.0 us)"), "{reason}");
    // Nothing is known about a machine that is not given.
    assert_eq!(exchanges(&on(Use::Weighed, &Machine::default()).0), [0; 0]);
    assert_eq!("wide-halos".parse(), Ok(Algorithm::WideHalos));
}
