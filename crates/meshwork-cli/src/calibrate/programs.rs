//! The programs that calibration measures: each has one kind of work in one size, on one number of devices.

/// A program to measure.
pub struct Case {
    /// What it is for, in reports.
    pub group: &'static str,
    /// Devices and extents.
    pub size: String,
    /// The program.
    pub text: String,
}

/// A function of one array `f32[ROWS,COLUMNS]` on `devices` devices, its rows split, that ends in `result`, with the
/// placement of the result.
fn program(devices: i64, (rows, columns): (i64, i64), body: &str, result: &str, placed: &str) -> String {
    format!(
        "sdy.mesh @mesh = <[\"x\"={devices}]>
func.func @main(%a: tensor<{rows}x{columns}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\"}}, {{}}]>}})
  -> (tensor<{result}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{placed}]>}}) {{
{body}
  return %r : tensor<{result}xf32>
}}
"
    )
}

const ROWS: &str = "{\"x\"}, {}";

/// `count` operations one after the other, on elements of `f32[ROWS,COLUMNS]`.
fn chain(
    devices: i64,
    (rows, columns): (i64, i64),
    count: usize,
    operation: impl Fn(usize, &str, &str) -> String,
) -> String {
    let ty = format!("tensor<{rows}x{columns}xf32>");
    let mut body = String::new();
    let mut last = "%a".to_string();
    for i in 0..count {
        let name = if i + 1 == count { "%r".to_string() } else { format!("%{i}") };
        body += &format!("  {name} = {}\n", operation(i, &last, &ty));
        last = name;
    }
    program(devices, (rows, columns), body.trim_end(), &format!("{rows}x{columns}"), ROWS)
}

fn add(_: usize, last: &str, ty: &str) -> String {
    format!("stablehlo.add {last}, %a : {ty}")
}

fn arithmetic(i: usize, last: &str, ty: &str) -> String {
    let name = if i.is_multiple_of(2) { "multiply" } else { "add" };
    format!("stablehlo.{name} {last}, %a : {ty}")
}

fn function(i: usize, last: &str, ty: &str) -> String {
    let name = ["cbrt", "log_plus_one", "exponential_minus_one", "tan"][i % 4];
    format!("stablehlo.{name} {last} : {ty}")
}

/// A sum over `dims` of the array.
fn sum(dims: &str, (rows, columns): (i64, i64), result: &str) -> String {
    format!(
        "  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [{dims}]
    : (tensor<{rows}x{columns}xf32>, tensor<f32>) -> tensor<{result}xf32>"
    )
}

/// A product of the array with itself, transposed.
fn product(devices: i64, (rows, columns): (i64, i64)) -> String {
    let body = format!(
        "  %w = sdy.sharding_constraint %b <@mesh, [{{}}, {{}}]> : tensor<{columns}x{columns}xf32>
  %r = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
    : (tensor<{rows}x{columns}xf32>, tensor<{columns}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>"
    );
    let text = program(devices, (rows, columns), &body, &format!("{rows}x{columns}"), ROWS);
    text.replace(
        "})\n  -> ",
        &format!(
            "}}, %b: tensor<{columns}x{columns}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}})\n  -> "
        ),
    )
}

/// Each row becomes the next one.
fn rolled(devices: i64, (rows, columns): (i64, i64)) -> String {
    let (ty, last) = (format!("tensor<{rows}x{columns}xf32>"), rows - 1);
    let body = format!(
        "  %d = stablehlo.add %a, %a : {ty}
  %0 = stablehlo.slice %d [1:{rows}, 0:{columns}] : ({ty}) -> tensor<{last}x{columns}xf32>
  %1 = stablehlo.slice %d [0:1, 0:{columns}] : ({ty}) -> tensor<1x{columns}xf32>
  %r = stablehlo.concatenate %0, %1, dim = 0 : (tensor<{last}x{columns}xf32>, tensor<1x{columns}xf32>) -> {ty}"
    );
    program(devices, (rows, columns), &body, &format!("{rows}x{columns}"), ROWS)
}

/// Functions of one element that are measured one by one.
pub const FUNCTIONS: [&str; 9] =
    ["exponential", "log", "tanh", "logistic", "sine", "cosine", "sqrt", "rsqrt", "divide"];

/// The function `name` of what came last.
fn repeated(name: &str, last: &str, ty: &str) -> String {
    let more = if name == "divide" { ", %a" } else { "" };
    format!("stablehlo.{name} {last}{more} : {ty}")
}

/// A convolution of images with 3 x 3 kernels.
fn convolution(devices: i64, (images, side, features): (i64, i64, i64)) -> String {
    let (image, inner) = (format!("{images}x{side}x{side}x{features}"), side - 2);
    format!(
        "sdy.mesh @mesh = <[\"x\"={devices}]>
func.func @main(%a: tensor<{image}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\"}}, {{}}, {{}}, {{}}]>}},
    %k: tensor<3x3x{features}x{features}xf32>) -> tensor<{images}x{inner}x{inner}x{features}xf32> {{
  %r = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<{image}xf32>, tensor<3x3x{features}x{features}xf32>) -> tensor<{images}x{inner}x{inner}x{features}xf32>
  return %r : tensor<{images}x{inner}x{inner}x{features}xf32>
}}
"
    )
}

/// All programs, for these numbers of devices.
pub fn cases(devices: &[i64]) -> Vec<Case> {
    let mut out = vec![];
    for &d in devices {
        let mut case = |group, (rows, columns): (i64, i64), text| {
            let size = format!("{d} device{}, {rows}x{columns}", if d == 1 { "" } else { "s" });
            out.push(Case { group, size, text });
        };
        case("run", (d, 16), chain(d, (d, 16), 1, add));
        for bits in [12, 14, 16, 18, 20, 22, 24] {
            let shape = (64, (1 << bits) / 64);
            case("memory", shape, chain(d, shape, 1, add));
            if bits <= 20 {
                case("elementwise", shape, chain(d, shape, 24, arithmetic));
                case("function", shape, chain(d, shape, 8, function));
            }
            if bits <= 22 {
                case("reduction", shape, program(d, shape, &sum("1", shape, "64"), "64", "{\"x\"}"));
            }
            if d == 1 && bits <= 22 {
                let body = format!(
                    "  %r = stablehlo.transpose %a, dims = [1, 0] : (tensor<64x{0}xf32>) -> tensor<{0}x64xf32>",
                    shape.1
                );
                case("movement", shape, program(d, shape, &body, &format!("{}x64", shape.1), "{}, {\"x\"}"));
            }
        }
        if d == 1 {
            // Alone, and several in one loop.
            for (name, count) in FUNCTIONS.into_iter().flat_map(|name| [(name, 1), (name, 4)]) {
                for columns in [256, 4096] {
                    let chained = |_: usize, last: &str, ty: &str| repeated(name, last, ty);
                    case(name, (64, columns), chain(d, (64, columns), count, chained));
                }
            }
            for bits in [14, 16, 18, 20, 22] {
                for columns in [64, 512] {
                    let (shape, n) = (((1 << bits) / columns, columns), columns.to_string());
                    case("columns", shape, program(d, shape, &sum("0", shape, &n), &n, "{}"));
                }
            }
        }
        for shape in [(8, 16, 16), (8, 34, 32), (16, 18, 64)] {
            case("convolution", (shape.0, shape.1), convolution(d, shape));
        }
        for (rows, columns) in [(256, 64), (256, 256), (512, 512), (1024, 256), (512, 1024), (2048, 128)] {
            case("product", (rows, columns), product(d, (rows, columns)));
        }
        if d > 1 {
            for bits in [10, 14, 17, 20, 22] {
                let (rows, columns) = (64, (1 << bits) / 64);
                let body = chain_body("  %r = stablehlo.add %a, %a", rows, columns);
                let whole = format!("{rows}x{columns}");
                case("all-gather", (rows, columns), program(d, (rows, columns), &body, &whole, "{}, {}"));
                case("all-to-all", (rows, columns), program(d, (rows, columns), &body, &whole, "{}, {\"x\"}"));
                let (shape, n) = ((8 * d, 1 << (bits - 3)), (1_i64 << (bits - 3)).to_string());
                case("all-reduce", shape, program(d, shape, &sum("0", shape, &n), &n, "{}"));
                case("reduce-scatter", shape, program(d, shape, &sum("0", shape, &n), &n, "{\"x\"}"));
                case("permute", (2 * d, 1 << (bits - 3)), rolled(d, (2 * d, 1 << (bits - 3))));
            }
        }
    }
    out
}

fn chain_body(line: &str, rows: i64, columns: i64) -> String {
    format!("{line} : tensor<{rows}x{columns}xf32>")
}

#[cfg(test)]
mod tests {
    use meshwork_ir::text;
    use meshwork_partition::{CompileOptions, compile};

    use super::*;

    #[test]
    fn every_program_is_split_and_every_kind_of_collective_is_there() {
        let mut kinds: Vec<&str> = vec![];
        for case in cases(&[1, 2]) {
            let module = text::parse(&case.text).unwrap_or_else(|e| panic!("{e:?}\n{}", case.text));
            let compiled =
                compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{}", case.text));
            kinds.extend(compiled.plan.collectives.iter().map(|c| c.collective.kind.name()));
        }
        // The model takes an exchange of pieces for one of blocks.
        for kind in meshwork_partition::plan::KINDS.into_iter().filter(|kind| *kind != "ragged-all-to-all") {
            assert!(kinds.contains(&kind), "no {kind}");
        }
    }
}
