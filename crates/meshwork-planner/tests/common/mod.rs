//! Small programs, and the machine that they are planned for.
#![allow(dead_code, reason = "each test file uses some")]

use meshwork_ir::{Module, text};
use meshwork_mesh::Mesh;
use meshwork_partition::Machine;

/// Devices with links of 50 GB/s.
pub fn machine() -> Machine {
    "* 1 50\ndevice=100,1000".parse().expect("a machine")
}

/// The program of a text.
pub fn parse(program: &str) -> Module {
    text::parse(program).unwrap_or_else(|e| panic!("{e}\n{program}"))
}

/// x [rows, a] times w1 [a, b], tanh, times w2 [b, a], with these names.
pub fn mlp(rows: i64, a: i64, b: i64) -> Module {
    parse(&format!(
        r#"func.func @main(%x: tensor<{rows}x{a}xf32> loc("x"), %w1: tensor<{a}x{b}xf32> loc("layer/w1"), %w2: tensor<{b}x{a}xf32> loc("layer/w2")) -> tensor<{rows}x{a}xf32> {{
          %0 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<{rows}x{a}xf32>, tensor<{a}x{b}xf32>) -> tensor<{rows}x{b}xf32>
          %1 = stablehlo.tanh %0 : tensor<{rows}x{b}xf32>
          %2 = stablehlo.dot_general %1, %w2, contracting_dims = [1] x [0] : (tensor<{rows}x{b}xf32>, tensor<{b}x{a}xf32>) -> tensor<{rows}x{a}xf32>
          return %2 : tensor<{rows}x{a}xf32>
        }}"#
    ))
}

/// Numbers from a seed, the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn extent(&mut self) -> i64 {
        [48, 64, 96, 128, 256, 1024][self.below(6)]
    }
}

/// A chain of products, functions of elements, transposes and sums, of two or three arguments.
pub fn random_program(seed: u64) -> Module {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut rows, mut columns) = (numbers.extent(), numbers.extent());
    let mut arguments = vec![format!("%a0: tensor<{rows}x{columns}xf32>")];
    let mut body = String::new();
    let mut last = "%a0".to_string();
    for step in 0..4 {
        let ty = format!("tensor<{rows}x{columns}xf32>");
        let next = format!("%v{step}");
        match numbers.below(5) {
            0 | 1 if arguments.len() < 3 => {
                let (n, weight) = (numbers.extent(), format!("%a{}", arguments.len()));
                arguments.push(format!("{weight}: tensor<{columns}x{n}xf32>"));
                body += &format!(
                    "{next} = stablehlo.dot_general {last}, {weight}, contracting_dims = [1] x [0] : ({ty}, tensor<{columns}x{n}xf32>) -> tensor<{rows}x{n}xf32>\n"
                );
                columns = n;
            }
            2 => {
                body += &format!(
                    "{next} = stablehlo.transpose {last}, dims = [1, 0] : ({ty}) -> tensor<{columns}x{rows}xf32>\n"
                );
                (rows, columns) = (columns, rows);
            }
            3 => body += &format!("{next} = stablehlo.tanh {last} : {ty}\n"),
            _ => body += &format!("{next} = stablehlo.add {last}, {last} : {ty}\n"),
        }
        last = next;
    }
    parse(&format!(
        "func.func @main({}) -> tensor<{rows}x{columns}xf32> {{\n{body}return {last} : tensor<{rows}x{columns}xf32>\n}}",
        arguments.join(", ")
    ))
}

/// Two arguments and some of products, functions, sums of rows that rows are divided by, and sums with what was before: what
/// several loops read.
pub fn random_block(seed: u64) -> Module {
    let mut numbers = Numbers(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1);
    let n = numbers.extent();
    let (ty, row) = (format!("tensor<{n}x{n}xf32>"), format!("tensor<{n}xf32>"));
    let mut body = "%zero = stablehlo.constant dense<0.0> : tensor<f32>\n".to_string();
    let mut values = vec!["%a0".to_string(), "%a1".to_string()];
    for step in 0..5 {
        let (last, other) = (values[values.len() - 1].clone(), values[numbers.below(values.len())].clone());
        let next = format!("%v{step}");
        body += &match numbers.below(5) {
            0 => format!("{next} = stablehlo.dot_general {last}, {other}, contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty}\n"),
            1 => format!("{next} = stablehlo.exponential {last} : {ty}\n"),
            2 => format!("{next} = stablehlo.multiply {last}, {other} : {ty}\n"),
            3 => format!("{next} = stablehlo.transpose {last}, dims = [1, 0] : ({ty}) -> {ty}\n"),
            _ => format!(
                "%s{step} = stablehlo.reduce({last} init: %zero) applies stablehlo.add across dimensions = [1] : ({ty}, tensor<f32>) -> {row}
                 %b{step} = stablehlo.broadcast_in_dim %s{step}, dims = [0] : ({row}) -> {ty}
                 {next} = stablehlo.divide {last}, %b{step} : {ty}\n"
            ),
        };
        values.push(next);
    }
    let (first, last) = (&values[2 + numbers.below(values.len() - 2)], &values[values.len() - 1]);
    parse(&format!(
        "func.func @main(%a0: {ty}, %a1: {ty}) -> ({ty}, {ty}) {{\n{body}return {first}, {last} : {ty}, {ty}\n}}"
    ))
}

/// Rows times weights that are large for them, with functions of elements or norms of rows between: devices that share a weight have to
/// meet, and there is nothing to compute beside it.
pub fn random_chain(seed: u64) -> Module {
    let mut numbers = Numbers(seed.wrapping_mul(0xa076_1d64_78bd_642f) | 1);
    let rows = [16, 64, 128, 256][numbers.below(4)];
    let (mut columns, mut arguments, mut last) =
        (4096, vec![format!("%a0: tensor<{rows}x4096xf32>")], "%a0".to_string());
    let mut body = "%zero = stablehlo.constant dense<0.0> : tensor<f32>\n".to_string();
    for step in 0..2 + numbers.below(2) {
        let n = [2048, 4096, 8192][numbers.below(3)];
        let (from, to) = (format!("tensor<{rows}x{columns}xf32>"), format!("tensor<{rows}x{n}xf32>"));
        arguments.push(format!("%w{step}: tensor<{columns}x{n}xf32>"));
        body += &format!(
            "%p{step} = stablehlo.dot_general {last}, %w{step}, contracting_dims = [1] x [0] : ({from}, tensor<{columns}x{n}xf32>) -> {to}\n"
        );
        body += &match numbers.below(3) {
            0 => format!("%v{step} = stablehlo.tanh %p{step} : {to}\n"),
            1 => format!("%v{step} = stablehlo.add %p{step}, %p{step} : {to}\n"),
            _ => format!(
                "%s{step} = stablehlo.reduce(%p{step} init: %zero) applies stablehlo.add across dimensions = [1] : ({to}, tensor<f32>) -> tensor<{rows}xf32>
                 %b{step} = stablehlo.broadcast_in_dim %s{step}, dims = [0] : (tensor<{rows}xf32>) -> {to}
                 %v{step} = stablehlo.divide %p{step}, %b{step} : {to}\n"
            ),
        };
        (columns, last) = (n, format!("%v{step}"));
    }
    let ty = format!("tensor<{rows}x{columns}xf32>");
    parse(&format!("func.func @main({}) -> {ty} {{\n{body}return {last} : {ty}\n}}", arguments.join(", ")))
}

/// Four devices along one axis or two.
pub fn random_mesh(seed: u64) -> Mesh {
    if seed.is_multiple_of(2) { Mesh::linear("x", 4) } else { Mesh::grid(("x", 2), ("y", 2)) }.expect("a mesh")
}

/// How many random programs to try: `sample`, or as many as `MESHWORK_PLANNER_PROGRAMS` says.
pub fn programs(sample: u64) -> u64 {
    std::env::var("MESHWORK_PLANNER_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(sample)
}
