//! A bound on what fusion computes again: what is fused costs at most twice what its operations cost one by one.

use crate::compile::testing::compiled;
use crate::program::Node;

/// What the steps of a program without loops cost by their own account.
fn cost(source: &str) -> u64 {
    let one = |node: &Node| match node {
        Node::Step(step) => step.work.cost(),
        Node::Collective(_) | Node::Await(_) | Node::While(_) | Node::Case(_) => 0,
    };
    compiled(source).main.nodes.iter().map(one).sum()
}

/// `count` links, each of which is `link(number, operand)`, with `{to}` for its result.
fn chain(ty: &str, count: usize, link: impl Fn(usize) -> String) -> String {
    let mut text =
        format!("func.func @main(%v0: {ty}) -> {ty} {{\n  %k = stablehlo.constant dense<0.0> : tensor<f32>\n");
    for i in 0..count {
        text += &link(i)
            .replace("FROM", &format!("%v{i}"))
            .replace("TO", &format!("%v{}", i + 1))
            .replace("NAME", &format!("%s{i}_"));
    }
    text + &format!("  return %v{count} : {ty} }}")
}

/// Both ways: fused, and each link in a program of its own.
fn is_within_bounds(ty: &str, count: usize, link: impl Fn(usize) -> String) {
    let whole = cost(&chain(ty, count, &link));
    let single: u64 = (0..count).map(|i| cost(&chain(ty, 1, |_| link(i)))).sum();
    assert!(whole <= 2 * single, "{count} links of {ty}: {whole} fused, {single} one by one");
}

/// `x[i] + x[i - by]`, with zeros where there is none.
fn shifted(n: usize, by: usize) -> String {
    format!(
        "  NAMEp = stablehlo.pad FROM, %k, low = [{by}], high = [-{by}], interior = [0] : (tensor<{n}xf32>, tensor<f32>) -> tensor<{n}xf32>
  TO = stablehlo.add FROM, NAMEp : tensor<{n}xf32>\n"
    )
}

#[test]
fn chains_of_shifted_sums() {
    let mut state = 7u64;
    let mut roll = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    for count in [1, 2, 3, 5, 8, 13, 21, 40] {
        for n in [1000, 100_000] {
            let by: Vec<usize> = (0..count).map(|_| 1 + roll(9) as usize).collect();
            is_within_bounds(&format!("tensor<{n}xf32>"), count, |i| shifted(n, by[i]));
        }
    }
}

#[test]
fn sums_by_doubling() {
    for log in [4, 8, 12, 16] {
        is_within_bounds(&format!("tensor<{}xf32>", 1 << log), log, |i| shifted(1 << log, 1 << i));
    }
}

/// Expensive functions between neighbors.
#[test]
fn stencils_of_stencils() {
    for count in [1, 2, 4, 9, 16] {
        let ty = "tensor<300x400xf32>";
        is_within_bounds(ty, count, |_| {
            format!(
                "  NAMEp = stablehlo.pad FROM, %k, low = [1, 0], high = [-1, 0], interior = [0, 0] : ({ty}, tensor<f32>) -> {ty}
  NAMEq = stablehlo.pad FROM, %k, low = [0, 1], high = [0, -1], interior = [0, 0] : ({ty}, tensor<f32>) -> {ty}
  NAMEa = stablehlo.add NAMEp, NAMEq : {ty}
  NAMEt = stablehlo.tanh NAMEa : {ty}
  TO = stablehlo.add NAMEt, FROM : {ty}\n"
            )
        });
    }
}

/// Concatenations of concatenations double positions.
#[test]
fn rolls_of_rolls() {
    for count in [1, 3, 6, 12, 24] {
        let ty = "tensor<5000xf32>";
        is_within_bounds(ty, count, |i| {
            let by = 1 + 3 * i;
            format!(
                "  NAMEa = stablehlo.slice FROM [{by}:5000] : ({ty}) -> tensor<{}xf32>
  NAMEb = stablehlo.slice FROM [0:{by}] : ({ty}) -> tensor<{by}xf32>
  NAMEc = stablehlo.concatenate NAMEa, NAMEb, dim = 0 : (tensor<{}xf32>, tensor<{by}xf32>) -> {ty}
  TO = stablehlo.multiply NAMEc, FROM : {ty}\n",
                5000 - by,
                5000 - by
            )
        });
    }
}
