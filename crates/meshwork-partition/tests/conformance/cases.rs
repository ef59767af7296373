//! Programs under every sharding: all of them where they are few, a fixed sample where they are many.

use std::panic::{AssertUnwindSafe, catch_unwind};

use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Use};
use meshwork_testing::Numbers;

use crate::common::{close, inputs, try_check, try_check_on};

/// The meshes of the suite.
pub const MESHES: &[&[(&str, i64)]] =
    &[&[("x", 2)], &[("x", 3)], &[("x", 4)], &[("x", 2), ("y", 2)], &[("x", 2), ("y", 3)], &[("x", 2), ("y", 4)]];

/// Empty, one, prime, even, and not divisible by anything around.
pub const SIZES: &[i64] = &[0, 1, 3, 4, 7];

/// A program without shardings: arguments `%a0`, .. and results `%r0`, .. which `body` defines.
#[derive(Clone, Debug)]
pub struct Program {
    /// Types of the arguments.
    pub args: Vec<String>,
    /// Types of the results.
    pub results: Vec<String>,
    /// The operations.
    pub body: String,
}

/// `tensor<2x3xf32>`.
pub fn t(dims: &[i64], elem: &str) -> String {
    let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{elem}>")
}

/// A program from its parts.
pub fn program(args: &[&String], results: &[&String], body: impl Into<String>) -> Program {
    let owned = |types: &[&String]| types.iter().map(|t| t.to_string()).collect();
    Program { args: owned(args), results: owned(results), body: body.into() }
}

/// A list as MLIR writes it.
pub fn list(items: &[i64]) -> String {
    items.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

fn rank(ty: &str) -> usize {
    let inner = ty.trim_start_matches("tensor<");
    inner.split('x').take_while(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit())).count()
}

/// All ways to split `rank` dimensions by some of `axes`, in every order.
pub fn shardings(rank: usize, axes: &[String]) -> Vec<String> {
    let mut all: Vec<Vec<Vec<&str>>> = vec![vec![vec![]; rank]];
    for axis in axes {
        let mut next = all.clone();
        for lists in &all {
            for d in 0..rank {
                for at in 0..=lists[d].len() {
                    let mut more = lists.clone();
                    more[d].insert(at, axis);
                    next.push(more);
                }
            }
        }
        all = next;
    }
    let text = |lists: &Vec<Vec<&str>>| {
        let dims: Vec<String> = lists.iter().map(|l| format!("{{{}}}", l.join(", "))).collect();
        // Two halves of an axis in order are the axis.
        format!("[{}]", dims.join(", ")).replace("\"x\":(1)2, \"x\":(2)2", "\"x\"")
    };
    let mut out: Vec<String> = all.iter().map(text).collect();
    out.sort();
    out.dedup();
    out
}

/// The axes of a mesh as shardings name them; an axis of 4 alone in its mesh is cut in two.
pub fn axis_names(mesh: &[(&str, i64)]) -> Vec<String> {
    match mesh {
        [(name, 4)] => vec![format!("\"{name}\":(1)2"), format!("\"{name}\":(2)2")],
        _ => mesh.iter().map(|(name, _)| format!("\"{name}\"")).collect(),
    }
}

/// The text of `program` on `mesh` with these shardings; `None` leaves a result to propagation.
pub fn source(program: &Program, mesh: &[(&str, i64)], args: &[&str], results: &[Option<&str>]) -> String {
    let axes: Vec<String> = mesh.iter().map(|(name, size)| format!("\"{name}\"={size}")).collect();
    let attr = |s: &str| format!(" {{sdy.sharding = #sdy.sharding<@mesh, {s}>}}");
    let params: Vec<String> =
        program.args.iter().zip(args).enumerate().map(|(i, (ty, s))| format!("%a{i}: {ty}{}", attr(s))).collect();
    let outs: Vec<String> =
        program.results.iter().zip(results).map(|(ty, s)| format!("{ty}{}", s.map(attr).unwrap_or_default())).collect();
    let names: Vec<String> = (0..outs.len()).map(|i| format!("%r{i}")).collect();
    format!(
        "sdy.mesh @mesh = <[{}]>\nfunc.func @main({}) -> ({}) {{\n{}\nreturn {} : {}\n}}",
        axes.join(", "),
        params.join(", "),
        outs.join(", "),
        program.body,
        names.join(", "),
        program.results.join(", ")
    )
}

/// Failures of a suite; reported together, the shortest first.
#[derive(Default)]
pub struct Failures {
    ran: usize,
    found: Vec<String>,
}

impl Failures {
    /// Checks one program text, and once more with algorithms that small programs do not gain by, if it may have one.
    pub fn check(&mut self, source: &str) {
        self.check_by(source, || try_check(source).err());
        let names = ["sort", "fft", "cholesky", "triangular_solve", "dot_general"];
        if names.iter().any(|name| source.contains(&format!("stablehlo.{name}"))) {
            let algorithms = Algorithms::all(&Algorithm::ALL, Use::Always);
            let options = CompileOptions { algorithms, ..CompileOptions::default() };
            self.check_by(source, || try_check_on(source, &options, inputs, close).err());
        }
    }

    fn check_by(&mut self, source: &str, failure: impl FnOnce() -> Option<String>) {
        self.ran += 1;
        match catch_unwind(AssertUnwindSafe(failure)) {
            Ok(None) => {}
            Ok(Some(what)) => self.found.push(what),
            Err(_) => self.found.push(format!("panics\n{source}")),
        }
    }

    /// Checks `program` on every mesh under all shardings of its arguments and results, at most `budget` a mesh.
    pub fn enumerate(&mut self, program: &Program, budget: usize) {
        for mesh in MESHES {
            // Every device is a thread: fewer programs on many of them.
            let many = mesh.iter().map(|a| a.1).product::<i64>() > 4;
            self.enumerate_on(mesh, program, if many { budget.div_ceil(2) } else { budget });
        }
    }

    /// The same on one mesh.
    pub fn enumerate_on(&mut self, mesh: &[(&str, i64)], program: &Program, budget: usize) {
        let axes = axis_names(mesh);
        let per_arg: Vec<Vec<String>> = program.args.iter().map(|ty| shardings(rank(ty), &axes)).collect();
        let per_result: Vec<Vec<String>> = program.results.iter().map(|ty| shardings(rank(ty), &axes)).collect();
        // A result may also have no sharding.
        let counts: Vec<usize> = per_arg.iter().map(Vec::len).chain(per_result.iter().map(|r| r.len() + 1)).collect();
        let total = counts.iter().try_fold(1usize, |a, &b| a.checked_mul(b)).unwrap_or(usize::MAX);
        let budget = budget * scale();
        let mut numbers = Numbers(program.body.len() as u64 * 31 + total as u64);
        for i in 0..total.min(budget) {
            let mut pick = i;
            let picks: Vec<usize> = counts
                .iter()
                .map(|&n| {
                    if total <= budget {
                        let digit = pick % n;
                        pick /= n;
                        digit
                    } else {
                        numbers.below(n)
                    }
                })
                .collect();
            let args: Vec<&str> = per_arg.iter().zip(&picks).map(|(s, &i)| s[i].as_str()).collect();
            let results: Vec<Option<&str>> =
                per_result.iter().zip(&picks[per_arg.len()..]).map(|(s, &i)| s.get(i).map(String::as_str)).collect();
            self.check(&source(program, mesh, &args, &results));
        }
    }

    /// Panics with the number of failures and the shortest of each kind.
    pub fn report(mut self) {
        self.found.sort_by_key(String::len);
        let kind = |what: &str| -> String {
            what.lines().next().unwrap_or("").chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
        };
        let mut kinds: Vec<String> = vec![];
        let mut shown = String::new();
        for what in &self.found {
            if !kinds.contains(&kind(what)) && kinds.len() < 4 {
                kinds.push(kind(what));
                shown += what;
                shown += "\n\n";
            }
        }
        assert!(self.found.is_empty(), "{} of {} programs fail, among them\n{shown}", self.found.len(), self.ran);
    }
}

/// How many times more programs than usual to try: `MESHWORK_CASES`, 1 if it is not set.
fn scale() -> usize {
    std::env::var("MESHWORK_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(1)
}

/// Checks all `programs`, at most `budget` shardings of each on each mesh.
pub fn conform(programs: impl IntoIterator<Item = Program>, budget: usize) {
    let mut failures = Failures::default();
    for program in programs {
        failures.enumerate(&program, budget);
    }
    failures.report();
}
