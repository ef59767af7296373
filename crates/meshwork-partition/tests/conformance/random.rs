//! Random programs under random shardings, shrunk to the smallest that fails.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::cases::{MESHES, Program, axis_names, shardings, source, t};
use crate::common::try_check;

/// One operation: which, on which values, and a number it may use.
type Step = (u8, u8, u8, u8);

/// A program being written: values with their extents.
struct Writer {
    values: Vec<(String, Vec<i64>)>,
    body: String,
}

impl Writer {
    fn push(&mut self, dims: Vec<i64>, text: impl FnOnce(&str, &str) -> String) {
        let name = format!("%v{}", self.values.len());
        let ty = t(&dims, "i32");
        self.body += &text(&name, &ty);
        self.body.push('\n');
        self.values.push((name, dims));
    }

    /// Writes one step if it makes sense on the values it picks.
    fn step(&mut self, (op, a, b, n): Step) {
        let (x, dims) = self.values[a as usize % self.values.len()].clone();
        let (ty, rank, n) = (t(&dims, "i32"), dims.len(), i64::from(n));
        let d = n as usize % rank.max(1);
        let others = |f: &dyn Fn(usize) -> String| (0..rank).map(f).collect::<Vec<_>>().join(", ");
        match op % 14 {
            0..=2 => {
                let same = self.values.iter().filter(|v| v.1 == dims);
                let same: Vec<String> = same.map(|v| v.0.clone()).collect();
                let y = same[b as usize % same.len()].clone();
                let kind = ["add", "multiply", "maximum"][op as usize % 3];
                self.push(dims, |r, ty| format!("{r} = stablehlo.{kind} {x}, {y} : {ty}"));
            }
            3 if rank == 2 => self.push(vec![dims[1], dims[0]], |r, to| {
                format!("{r} = stablehlo.transpose {x}, dims = [1, 0] : ({ty}) -> {to}")
            }),
            4 if rank > 0 => {
                let start = n % (dims[d] + 1);
                let limit = (start + i64::from(b) % (dims[d] + 1)).min(dims[d]);
                let mut out = dims.clone();
                out[d] = limit - start;
                let ranges = others(&|i| if i == d { format!("{start}:{limit}") } else { format!("0:{}", dims[i]) });
                self.push(out, |r, to| format!("{r} = stablehlo.slice {x} [{ranges}] : ({ty}) -> {to}"));
            }
            5 if rank > 0 => {
                let (low, high) = (i64::from(b) % 5 - 2, n % 5 - 2);
                let interior = i64::from(b) % 2;
                let mut out = dims.clone();
                out[d] += low + high + interior * (dims[d] - 1).max(0);
                if out[d] < 0 || out[d] > 12 {
                    return;
                }
                let at = |v: i64| others(&|i| if i == d { v.to_string() } else { "0".into() });
                let (low, high, interior) = (at(low), at(high), at(interior));
                self.push(out, |r, to| {
                    format!("{r} = stablehlo.pad {x}, %c, low = [{low}], high = [{high}], interior = [{interior}] : ({ty}, tensor<i32>) -> {to}")
                });
            }
            6 if rank > 0 => {
                let fits = |v: &&(String, Vec<i64>)| {
                    v.1.len() == rank && (0..rank).all(|i| i == d || v.1[i] == dims[i]) && v.1[d] + dims[d] <= 12
                };
                let same: Vec<(String, Vec<i64>)> = self.values.iter().filter(fits).cloned().collect();
                if same.is_empty() {
                    return;
                }
                let (y, more) = same[b as usize % same.len()].clone();
                let mut out = dims.clone();
                out[d] += more[d];
                let other = t(&more, "i32");
                self.push(out, |r, to| {
                    format!("{r} = stablehlo.concatenate {x}, {y}, dim = {d} : ({ty}, {other}) -> {to}")
                });
            }
            7 if rank > 0 => self.push(dims, |r, ty| format!("{r} = stablehlo.reverse {x}, dims = [{d}] : {ty}")),
            8 if rank > 0 => {
                let mut out = dims.clone();
                out.remove(d);
                let kind = ["add", "maximum"][b as usize % 2];
                let init = ["%zero", "%least"][b as usize % 2];
                self.push(out, |r, to| {
                    format!("{r} = stablehlo.reduce({x} init: {init}) applies stablehlo.{kind} across dimensions = [{d}] : ({ty}, tensor<i32>) -> {to}")
                });
            }
            9 if rank < 3 => {
                let mut out = dims.clone();
                let at = n as usize % (rank + 1);
                out.insert(at, 1 + i64::from(b) % 5);
                let along = others(&|i| (i + usize::from(i >= at)).to_string());
                self.push(out, |r, to| {
                    format!("{r} = stablehlo.broadcast_in_dim {x}, dims = [{along}] : ({ty}) -> {to}")
                });
            }
            10 if rank == 2 => self.push(vec![dims[0], dims[0]], |r, to| {
                format!("{r} = stablehlo.dot_general {x}, {x}, contracting_dims = [1] x [1] : ({ty}, {ty}) -> {to}")
            }),
            11 if rank > 0 && dims[d] > 0 => {
                let (window, low) = (
                    others(&|i| if i == d { dims[d].to_string() } else { "1".into() }),
                    others(&|i| if i == d { format!("[{}, 0]", dims[d] - 1) } else { "[0, 0]".into() }),
                );
                self.push(dims, |r, ty| {
                    format!("{r} = \"stablehlo.reduce_window\"({x}, %zero) ({{\n^bb0(%p: tensor<i32>, %q: tensor<i32>):\n  %s = stablehlo.add %p, %q : tensor<i32>\n  stablehlo.return %s : tensor<i32>\n}}) {{window_dimensions = array<i64: {window}>, padding = dense<[{low}]> : tensor<{rank}x2xi64>}} : ({ty}, tensor<i32>) -> {ty}")
                });
            }
            12 if rank > 0 => {
                let out = vec![dims.iter().product()];
                self.push(out, |r, to| format!("{r} = stablehlo.reshape {x} : ({ty}) -> {to}"));
            }
            13 if rank > 0 && dims[d] > 1 => {
                let mut out = dims.clone();
                out[d] = 1 + i64::from(b) % (dims[d] - 1);
                let sizes = others(&|i| out[i].to_string());
                let starts = others(&|i| if i == d { "%c".into() } else { "%zero".into() });
                let types = others(&|_| "tensor<i32>".into());
                self.push(out.clone(), |r, to| {
                    format!("{r} = stablehlo.dynamic_slice {x}, {starts}, sizes = [{sizes}] : ({ty}, {types}) -> {to}")
                });
            }
            _ => {}
        }
    }
}

/// The program that `steps` write, on arguments of these extents and a scalar; its last two values are returned.
fn write(args: &[Vec<i64>], steps: &[Step]) -> Program {
    let values = args.iter().enumerate().map(|(i, dims)| (format!("%a{i}"), dims.clone())).collect();
    let body = format!(
        "%zero = stablehlo.constant dense<0> : tensor<i32>\n%least = stablehlo.constant dense<{}> : tensor<i32>\n%c = stablehlo.add %a{}, %zero : tensor<i32>\n",
        i32::MIN,
        args.len()
    );
    let mut writer = Writer { values, body };
    steps.iter().for_each(|&s| writer.step(s));
    let last: Vec<(String, Vec<i64>)> = writer.values.iter().rev().take(2).cloned().collect();
    for (i, (name, dims)) in last.iter().enumerate() {
        let ty = t(dims, "i32");
        writer.body += &format!("%r{i} = stablehlo.not {name} : {ty}\n");
    }
    let mut types: Vec<String> = args.iter().map(|dims| t(dims, "i32")).collect();
    types.push("tensor<i32>".into());
    Program { args: types, results: last.iter().map(|l| t(&l.1, "i32")).collect(), body: writer.body }
}

#[test]
fn random_programs() {
    let extent = prop_oneof![4 => 1i64..9, 1 => Just(0i64)];
    let args = prop::collection::vec(prop::collection::vec(extent, 1..3), 1..3);
    let steps = prop::collection::vec(any::<Step>(), 1..9);
    let picks = prop::collection::vec(any::<u16>(), 6);
    let scale: u32 = std::env::var("MESHWORK_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(1);
    let config = Config { cases: 400 * scale, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&(args, steps, 0..MESHES.len(), picks), |(args, steps, mesh, picks)| {
        let program = write(&args, &steps);
        let axes = axis_names(MESHES[mesh]);
        let rank = |ty: &String| ty.matches('x').count();
        let options: Vec<Vec<String>> =
            program.args.iter().chain(&program.results).map(|ty| shardings(rank(ty), &axes)).collect();
        let pick = |i: usize| picks[i % picks.len()] as usize;
        let args: Vec<&str> =
            (0..program.args.len()).map(|i| options[i][pick(i) % options[i].len()].as_str()).collect();
        let results: Vec<Option<&str>> = (program.args.len()..options.len())
            .map(|i| options[i].get(pick(i) % (options[i].len() + 1)).map(String::as_str))
            .collect();
        let text = source(&program, MESHES[mesh], &args, &results);
        let found = std::panic::catch_unwind(|| try_check(&text).err());
        let found = found.unwrap_or_else(|_| Some(format!("panics\n{text}")));
        prop_assert!(found.is_none(), "{}", found.unwrap_or_default());
        Ok(())
    });
    if let Err(e) = outcome {
        panic!("{e}");
    }
}
