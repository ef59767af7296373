//! How the loops of a computer are predicted: rows that stay in a cache, values that are made again, sums of columns, and
//! functions that share registers.

use meshwork_ir::text;
use meshwork_partition::plan::{Machine, Simulation, simulate};
use meshwork_partition::{CompileOptions, compile};

fn run(source: &str, machine: &str) -> Simulation {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e:?}"));
    let compiled = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    simulate(&compiled, &machine.parse::<Machine>().unwrap_or_else(|e| panic!("{e}")))
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-6 * b.abs().max(1e-12), "{a} is not {b}");
}

const ELEMENTS: f64 = 512.0 * 1024.0;

/// Each row less its mean.
const CENTERED: &str = "func.func @main(%a: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<512x1024xf32>, tensor<f32>) -> tensor<512xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<512xf32>) -> tensor<512x1024xf32>
    %r = stablehlo.subtract %a, %b : tensor<512x1024xf32>
    return %r : tensor<512x1024xf32> }";

/// The first phase waits for memory, the second for arithmetic: neither hides the other.
#[test]
fn phases_of_a_row_come_one_after_the_other() {
    let bytes = 4.0 * ELEMENTS;
    let fast = "device=1,1\nhost=1,1,0,1e6\nelementwise=1e9,0,0\nreduction=1e9,0,0";
    close(run(CENTERED, fast).seconds, 2.0 * bytes / 1e9);
    // Subtractions take longer than to write their results, sums do not take longer than to read.
    let slow = "device=1,1\nhost=1,1,0,1e6\nelementwise=1e-4,0,0\nreduction=1e9,0,0";
    close(run(CENTERED, slow).seconds, bytes / 1e9 + ELEMENTS / 1e8);
    // The second phase loads from the innermost cache what the first has read, and stores through it.
    let cached = "device=1,1\ncache=1024,1.5\ncache=1048576,1\nhost=1,1,0,1e6\nelementwise=1e9,0,0\nreduction=1e9,0,0";
    close(run(CENTERED, cached).seconds, bytes / 1e9 + 2.0 * bytes / 1.5e9);
}

/// An array that is read at three places passes through memory once and is loaded three times.
#[test]
fn elements_at_several_places_are_loaded_several_times() {
    let source = "func.func @main(%a: tensor<524288xf32>) -> tensor<524286xf32> {
        %l = stablehlo.slice %a [0:524286] : (tensor<524288xf32>) -> tensor<524286xf32>
        %m = stablehlo.slice %a [1:524287] : (tensor<524288xf32>) -> tensor<524286xf32>
        %r = stablehlo.slice %a [2:524288] : (tensor<524288xf32>) -> tensor<524286xf32>
        %0 = stablehlo.add %l, %m : tensor<524286xf32>
        %1 = stablehlo.add %0, %r : tensor<524286xf32>
        return %1 : tensor<524286xf32> }";
    let array = 4.0 * 524286.0;
    let machine = |innermost: f64| {
        format!("device=1,1\ncache=1024,{innermost}\ncache=65536,1\nhost=1,1,0,1e6\nelementwise=1e9,0,0")
    };
    close(run(source, &machine(1.5)).seconds, 4.0 * array / 1.5e9);
    close(run(source, &machine(8.0)).seconds, 2.0 * array / 1e9);
}

/// Sums over the first dimension have a rate of their own, unless they are so short that a loop writes them out.
#[test]
fn sums_of_columns_have_a_rate_of_their_own() {
    let sum = |rows: i64, columns: i64| {
        format!(
            "func.func @main(%a: tensor<{rows}x{columns}xf32>) -> tensor<{columns}xf32> {{
                %zero = stablehlo.constant dense<0.0> : tensor<f32>
                %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
                  : (tensor<{rows}x{columns}xf32>, tensor<f32>) -> tensor<{columns}xf32>
                return %s : tensor<{columns}xf32> }}"
        )
    };
    let machine = "device=1,1e9\nhost=1,1,0,1e6\nelementwise=1e-1,0,0\nreduction=1e-2,0,0\ncolumns=1e-3,0,0";
    let ratio = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.02, "{a} is not about {b}");
    ratio(run(&sum(512, 1024), machine).seconds, ELEMENTS / 1e9);
    ratio(run(&sum(8, 65536), machine).seconds, ELEMENTS / 1e11);
    // Accelerators have one rate for all, unless they say otherwise.
    ratio(run(&sum(8, 65536), "device=1,1e9\nreduction=1e-2,0,0").seconds, ELEMENTS / 1e10);
}

/// What two loops read is made by each if that is cheaper than to store it.
#[test]
fn cheap_values_are_made_again() {
    let shared = |f: &str| {
        format!(
            "func.func @main(%a: tensor<512x1024xf32>) -> (tensor<512x1024xf32>, tensor<1024xf32>) {{
                %zero = stablehlo.constant dense<0.0> : tensor<f32>
                %v = {f} : tensor<512x1024xf32>
                %r = stablehlo.negate %v : tensor<512x1024xf32>
                %s = stablehlo.reduce(%v init: %zero) applies stablehlo.add across dimensions = [0]
                  : (tensor<512x1024xf32>, tensor<f32>) -> tensor<1024xf32>
                return %r, %s : tensor<512x1024xf32>, tensor<1024xf32> }}"
        )
    };
    let traffic = |f: &str, machine: &str| {
        let bytes: i64 = run(&shared(f), machine).ops.iter().map(|op| op.traffic).sum();
        (bytes as f64 / (4.0 * ELEMENTS)).round()
    };
    let host = "device=1,1\nhost=1,1,0,1e6";
    // Read by both loops, and one result written.
    assert_eq!(traffic("stablehlo.add %a, %a", host), 3.0);
    // A function is stored: read and written, read by both, and one result written.
    assert_eq!(traffic("stablehlo.exponential %a", host), 5.0);
    assert_eq!(traffic("stablehlo.add %a, %a", "device=1,1"), 5.0);
}

#[test]
fn functions_in_one_loop_slow_each_other() {
    let chain = |names: &[&str]| {
        let line = |(i, name): (usize, &&str)| {
            let from = if i == 0 { "%a".to_string() } else { format!("%{}", i - 1) };
            format!("%{i} = stablehlo.{name} {from} : tensor<512x1024xf32>\n")
        };
        let body: String = names.iter().enumerate().map(line).collect();
        format!(
            "func.func @main(%a: tensor<512x1024xf32>) -> tensor<512x1024xf32> {{ {body} return %{} : tensor<512x1024xf32> }}",
            names.len() - 1
        )
    };
    let machine = "device=1,1e9\nfunction=1e-3,0,0\ncrowding=0.6";
    let seconds = |names: &[&str]| run(&chain(names), machine).seconds;
    let one = ELEMENTS / 1e9;
    close(seconds(&["tanh"]), one);
    close(seconds(&["tanh", "exponential"]), 2.0 * one * 1.3);
    close(seconds(&["tanh", "exponential", "log"]), 3.0 * one * 1.4);
    // A root is an instruction.
    close(seconds(&["tanh", "sqrt"]), 2.0 * one);
}
