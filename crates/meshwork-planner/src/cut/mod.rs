//! Programs of many equal blocks, cut down to a few: assignments can be judged on those, many times as fast.
//!
//! A run is a stretch of the program in which the same operations repeat, each repetition reading what the one before it made:
//! the layers of a forward pass are one, those of the backward pass another. From all runs the same number of repetitions
//! is taken out of the middle. What read a repetition that is gone reads its counterpart nearest to it that is still there; what is left
//! over, as the update of a layer's weights, goes with its results and arguments. Two cuts that differ by one block say what
//! a block costs, and so what the whole program does:
//!
//! ```text
//! whole = few + (blocks that few has less) * (more - few)
//! ```
//!
//! A few blocks may wait for something else than many do: collectives that run beside two blocks fall behind in thirty. So a run also takes
//! as long as the device computes, and as long as the links of any axis are in use, with the time before their first collective and
//! after their last. Each of these is estimated in the same way.
//!
//! This is an estimate, for ranking: what is found by it is judged on the whole program.

mod runs;
mod write;

use meshwork_ir::{Module, Walk};

use self::runs::runs;
use self::write::cut_to;
use crate::judge::{Held, Timed, Verdict};
use crate::space::View;

/// Operations below which cutting is not worth it.
const MANY: usize = 3000;
/// Blocks that the smaller cut has left, at least.
const LEFT: usize = 2;
/// Repetitions that stay in front of what is taken out of a run: from 1 to this many are tried.
const FRONTS: usize = 2;
/// The least share of the operations that cutting has to take out.
const SHARE: f64 = 0.5;

/// A program in two shorter forms.
pub struct Cut {
    /// With few blocks.
    pub few: View,
    /// With one more.
    pub more: View,
    /// How many blocks `few` has less than the whole program.
    pub missing: usize,
}

impl Cut {
    /// The cut of a program; `None` if it is short, or does not consist of blocks.
    pub fn of(whole: &View) -> Option<Cut> {
        if operations(&whole.module) < MANY { None } else { cut(whole) }
    }

    /// What the whole program is estimated to cost if its cuts cost so.
    pub fn estimate(&self, few: &Timed, more: &Timed) -> Verdict {
        let missing = self.missing as f64;
        let whole = |few: f64, more: f64| (few + missing * (more - few)).max(few);
        let lane = |more: &Held| {
            let none = Held::default();
            let few = few.lanes.iter().find(|few| few.axis == more.axis).unwrap_or(&none);
            whole(few.before, more.before) + whole(few.during, more.during) + whole(few.after, more.after)
        };
        let busiest = more.lanes.iter().map(lane).fold(0.0, f64::max);
        let (few, more) = (&few.verdict, &more.verdict);
        let compute = whole(few.compute, more.compute);
        let seconds = whole(few.seconds, more.seconds).max(compute).max(busiest);
        let busy = whole(few.utilization * few.seconds, more.utilization * more.seconds);
        Verdict {
            seconds,
            peak: whole(few.peak as f64, more.peak as f64) as i64,
            sent: whole(few.sent, more.sent),
            compute,
            communication: whole(few.communication, more.communication),
            utilization: if seconds > 0.0 { busy / seconds } else { 0.0 },
        }
    }
}

fn cut(whole: &View) -> Option<Cut> {
    let before = operations(&whole.module);
    let all = runs(&whole.module);
    let least = all.iter().map(|run| run.count).min()?;
    // How many repetitions stay in front of each run: what fits depends on where the runs start within a block. Blocks that are left in
    // one run and gone in another keep more than is needed.
    let shortest = |missing: usize| {
        let tries = (0..FRONTS.pow(all.len() as u32)).filter_map(|number| {
            let front = |r: usize| 1 + number / FRONTS.pow(r as u32) % FRONTS;
            let fronts: Vec<usize> = (0..all.len()).map(front).collect();
            cut_to(whole, &all, &fronts, missing)
        });
        tries.min_by_key(|view| (arguments(view), operations(&view.module)))
    };
    for left in [LEFT, LEFT + 1] {
        let missing = least.checked_sub(left).filter(|&missing| missing > LEFT)?;
        let (Some(few), Some(more)) = (shortest(missing), shortest(missing - 1)) else { continue };
        if operations(&few.module) as f64 <= (1.0 - SHARE) * before as f64 {
            return Some(Cut { few, more, missing });
        }
    }
    None
}

fn arguments(view: &View) -> usize {
    view.members.iter().map(|site| site.arguments.len()).sum()
}

fn operations(module: &Module) -> usize {
    module.entry().map_or(0, |func| module.ops_below(func, Walk::PreOrder).len())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use meshwork_ir::{text, verify::verify};
    use meshwork_mesh::Mesh;
    use meshwork_partition::Machine;

    use super::*;
    use crate::judge::timed_plan_of;
    use crate::problem::{Annotated, Base, Problem};
    use crate::site::Layers;
    use crate::space::{Choice, Results, annotate};

    /// A training step of `layers` layers: `x = x + tanh(x w) v`, the squared result, its gradient by hand, and weights less that.
    fn step(layers: usize) -> String {
        let (x, w) = ("tensor<256x128xf32>", "tensor<128x128xf32>");
        let dot = |out: &str, a: &str, b: &str, dims: &str, ty: [&str; 3]| {
            format!(
                "{out} = stablehlo.dot_general {a}, {b}, contracting_dims = {dims} : ({}, {}) -> {}\n",
                ty[0], ty[1], ty[2]
            )
        };
        let (mut arguments, mut body) = (vec![format!("%x0: {x}")], String::new());
        for i in 0..layers {
            arguments.extend([format!("%w{i}: {w}"), format!("%v{i}: {w}")]);
            body += &dot(&format!("%a{i}"), &format!("%x{i}"), &format!("%w{i}"), "[1] x [0]", [x, w, x]);
            let _ = writeln!(body, "%h{i} = stablehlo.tanh %a{i} : {x}");
            body += &dot(&format!("%b{i}"), &format!("%h{i}"), &format!("%v{i}"), "[1] x [0]", [x, w, x]);
            for (n, from) in ["b", "s0_", "s1_", "s2_", "s3_", "s4_", "s5_", "s6_"].iter().enumerate() {
                let _ = writeln!(body, "%s{n}_{i} = stablehlo.sine %{from}{i} : {x}");
            }
            let _ = writeln!(body, "%x{} = stablehlo.add %x{i}, %s7_{i} : {x}", i + 1);
        }
        let _ = writeln!(body, "%g{layers} = stablehlo.add %x{layers}, %x{layers} : {x}");
        for i in (0..layers).rev() {
            let g = format!("%g{}", i + 1);
            body += &dot(&format!("%dv{i}"), &format!("%h{i}"), &g, "[0] x [0]", [x, x, w]);
            body += &dot(&format!("%dh{i}"), &g, &format!("%v{i}"), "[1] x [1]", [x, w, x]);
            for (n, from) in ["dh", "c0_", "c1_", "c2_", "c3_", "c4_"].iter().enumerate() {
                let _ = writeln!(body, "%c{n}_{i} = stablehlo.multiply %{from}{i}, %h{i} : {x}");
            }
            body += &dot(&format!("%dw{i}"), &format!("%x{i}"), &format!("%c5_{i}"), "[0] x [0]", [x, x, w]);
            body += &dot(&format!("%e{i}"), &format!("%c5_{i}"), &format!("%w{i}"), "[1] x [1]", [x, w, x]);
            let _ = writeln!(body, "%g{i} = stablehlo.add {g}, %e{i} : {x}");
        }
        let mut results = vec![];
        for i in 0..layers {
            for name in ["w", "v"] {
                let _ = writeln!(body, "%n{name}{i} = stablehlo.subtract %{name}{i}, %d{name}{i} : {w}");
                results.push(format!("%n{name}{i}"));
            }
        }
        let types = vec![w; results.len()].join(", ");
        format!(
            "func.func @main({}) -> ({types}) {{\n{body}return {} : {types}\n}}",
            arguments.join(", "),
            results.join(", ")
        )
    }

    fn problem(layers: usize) -> Problem {
        let source = step(layers);
        let module = text::parse(&source).unwrap_or_else(|d| panic!("{}", d.render("test", &source)));
        let mesh = Mesh::linear("x", 4).expect("a mesh");
        let base = Base::of(&module, Annotated::Kept).expect("a program");
        base.on(&mesh, &[], Layers::Auto).expect("a problem")
    }

    #[test]
    fn what_is_left_is_a_program_with_every_site() {
        for layers in [18, 25] {
            let whole = problem(layers).whole;
            let cut = cut(&whole).expect("blocks");
            for (view, left) in [(&cut.few, layers - cut.missing), (&cut.more, layers - cut.missing + 1)] {
                assert!(left <= LEFT + 3, "{layers} layers, {left} left");
                assert_eq!(arguments(view), 1 + 2 * left);
                assert_eq!(verify(&view.module), [], "{}", text::print(&view.module));
            }
        }
    }

    #[test]
    fn two_cuts_say_what_the_whole_costs() {
        let problem = problem(20);
        let cut = cut(&problem.whole).expect("blocks");
        // Latency would count: short programs combine all their collectives. Weights are too large to be copied for that, else nothing
        // would run beside the one that is left at the end.
        let machine: Machine = "* 0.001 50\ndevice=100,1000".parse().expect("a machine");
        for choice in [Choice::Free, Choice::Dim(0), Choice::Dim(1)] {
            let assignment = vec![choice; problem.space.nothing().len()];
            let verdict = |view: &View| {
                let module = annotate(view, &problem.space, &assignment, Results::Annotated);
                timed_plan_of(&module, &machine).unwrap_or_else(|e| panic!("{e}")).0
            };
            let (whole, estimate) =
                (verdict(&problem.whole).verdict, cut.estimate(&verdict(&cut.few), &verdict(&cut.more)));
            let within = |share: f64, a: f64, b: f64| (a - b).abs() <= share * b.max(1e-9);
            let near = |a: f64, b: f64| within(0.02, a, b);
            assert!(near(estimate.seconds, whole.seconds), "{choice:?}: {estimate:?}, {whole:?}");
            assert!(near(estimate.sent, whole.sent), "{choice:?}: {estimate:?}, {whole:?}");
            assert!(within(0.25, estimate.peak as f64, whole.peak as f64), "{choice:?}: {estimate:?}, {whole:?}");
        }
    }

    /// Two blocks hide what is sent beside them, twenty do not.
    #[test]
    fn what_is_busy_for_longer_counts() {
        let cut = cut(&problem(20).whole).expect("blocks");
        let timed = |seconds, compute, during| Timed {
            verdict: Verdict { seconds, compute, ..Verdict::default() },
            lanes: vec![Held { axis: "x".into(), before: 1.0, during, after: 0.5 }],
        };
        let missing = cut.missing as f64;
        let seconds = |few: Timed, more: Timed| cut.estimate(&few, &more).seconds;
        assert_eq!(seconds(timed(4.0, 2.0, 1.0), timed(5.0, 2.5, 1.5)), 4.0 + missing);
        assert_eq!(seconds(timed(4.0, 2.0, 1.0), timed(4.5, 3.0, 1.5)), f64::max(4.0 + 0.5 * missing, 2.0 + missing));
        assert_eq!(seconds(timed(4.0, 2.0, 1.0), timed(4.5, 2.5, 3.0)), 1.0 + (1.0 + 2.0 * missing) + 0.5);
    }

    /// Every weight changes by the size of all gradients: nothing can be left out.
    #[test]
    fn what_reads_all_blocks_is_not_cut() {
        let (layers, ty) = (20, "tensor<128x128xf32>");
        let all = (1..layers).fold(format!("%t0 = stablehlo.add %dv0, %dw0 : {ty}\n"), |all, i| {
            format!("{all}%t{i} = stablehlo.add %t{}, %dw{i} : {ty}\n", i - 1)
        });
        let mut source = step(layers).replacen("%nw0 =", &format!("{all}%nw0 ="), 1);
        for i in 0..layers {
            for name in ["w", "v"] {
                let update = format!("%n{name}{i} = stablehlo.subtract %{name}{i}, ");
                source = source.replace(&format!("{update}%d{name}{i} "), &format!("{update}%t{} ", layers - 1));
            }
        }
        let module = text::parse(&source).unwrap_or_else(|d| panic!("{}", d.render("test", &source)));
        let base = Base::of(&module, Annotated::Kept).expect("a program");
        let problem = base.on(&Mesh::linear("x", 4).expect("a mesh"), &[], Layers::Untied).expect("a problem");
        assert!(cut(&problem.whole).is_none());
    }
}
