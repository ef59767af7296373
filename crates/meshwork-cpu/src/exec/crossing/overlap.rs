//! The order of a program whose collectives take time: they are started as soon as what they send is there and awaited as
//! late as their readers allow, with the work in between that depends on neither.
//!
//! The nodes of a block are taken in their order, with two liberties:
//! - a collective starts when all it reads is there, if there is a channel for it;
//! - where the next node needs what is still under way, later ones that do not are done first, until they take as long as
//!   the messages are likely to. Then the collective is awaited.
//!
//! Before that, steps of which a part does not need what is under way are cut in two (`interior`).
//!
//! What is written here depends on the program alone, so all processes start and await in one order. A program in which
//! data decides who communicates stays as it is: there a collective that some of a group do not reach is found by its
//! place in the order.

use std::collections::BTreeSet;

use meshwork_ir::OpId;
use meshwork_ir::hash::{HashMap, HashSet};

use super::build::Spread;
use super::interior::cut_steps;
use crate::program::{Await, Block, BufInfo, Collective, CollectiveKind, Node, Program};
use crate::step::Buf;
use meshwork_runtime::transport::link::CHANNELS;

/// Nanoseconds until a short message has come, and bytes that come in a nanosecond: rather pessimistic ones, for the other
/// side may be late.
const LATENCY_NS: u64 = 50_000;
const BYTES_PER_NS: u64 = 1;
/// Less work than this between a start and its end is not worth the trouble.
const LEAST_NS: u64 = 500;
/// Limits on how far, and how many bytes, work is hoisted for one collective.
const WINDOW: usize = 256;
const EARLY_BYTES: usize = 64 << 20;
/// Bytes of several collectives that are under way at once.
const FLYING_BYTES: usize = 256 << 20;

/// Gives `program`, whose devices are spread over processes, an order in which messages and work overlap.
pub(crate) fn overlap(program: &mut Program, spread: &Spread) {
    // A program is planned again for other arguments.
    if has_order(&program.main) || program.can_part() {
        return;
    }
    let crosses = |c: &Collective| {
        let apart = |a: u32, b: u32| spread.ranks[a as usize] != spread.ranks[b as usize];
        let group = |g: &Vec<u32>| g.iter().any(|&d| apart(g[0], d));
        match &c.kind {
            CollectiveKind::Permute { pairs } => pairs.iter().any(|&(a, b)| apart(a, b)),
            // Only when it runs is it known what it sends.
            CollectiveKind::RaggedAllToAll => false,
            _ => c.groups.iter().any(group),
        }
    };
    let fallbacks: HashSet<OpId> = program.fallbacks.iter().copied().collect();
    let planner = Planner { bufs: &program.bufs, crosses: &crosses, fallbacks: &fallbacks };
    planner.block(&mut program.main, &BTreeSet::new());
}

fn has_order(block: &Block) -> bool {
    block.nodes.iter().any(|node| match node {
        Node::Await(_) => true,
        Node::While(w) => has_order(&w.body),
        Node::Step(_) | Node::Collective(_) | Node::Case(_) => false,
    })
}

struct Planner<'a> {
    bufs: &'a [BufInfo],
    crosses: &'a dyn Fn(&Collective) -> bool,
    fallbacks: &'a HashSet<OpId>,
}

/// A collective under way while a block is put in order.
struct Flying {
    node: usize,
    channel: u8,
    bytes: usize,
    /// Work that must be done before it is likely to have ended.
    left: u64,
    /// Bytes of what was done early for it.
    early: usize,
}

/// What is done when: a node of the old order, or the end of one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Do(usize),
    Start(usize, u8),
    End(usize),
}

/// Who waits for whom in a block.
struct Graph {
    /// How many that are not done each node waits for.
    open: Vec<usize>,
    after: Vec<Vec<usize>>,
}

impl Planner<'_> {
    /// Puts a block in order, and those inside; the channels in `taken` are not free.
    fn block(&self, block: &mut Block, taken: &BTreeSet<u8>) {
        let crossing = |node: &Node| matches!(node, Node::Collective(c) if (self.crosses)(c));
        let acts = if block.nodes.iter().any(crossing) {
            block.nodes = cut_steps(std::mem::take(&mut block.nodes), self.crosses);
            self.worthwhile(&block.nodes, self.order(&block.nodes, taken))
        } else {
            (0..block.nodes.len()).map(Act::Do).collect()
        };
        let mut old: Vec<Option<Node>> = std::mem::take(&mut block.nodes).into_iter().map(Some).collect();
        let mut ends: HashMap<usize, (Await, u8)> = HashMap::default();
        let mut taken = taken.clone();
        for act in acts {
            match act {
                Act::Do(i) => {
                    if let Some(mut node) = old[i].take() {
                        if let Node::While(w) = &mut node {
                            self.block(&mut w.body, &taken);
                        }
                        block.nodes.push(node);
                    }
                }
                Act::Start(i, channel) => {
                    if let Some(Node::Collective(mut c)) = old[i].take() {
                        c.channel = Some(channel);
                        taken.insert(channel);
                        let (operands, results) = (c.operands.clone(), c.results.clone());
                        ends.insert(i, (Await { op: c.op, operands, results }, channel));
                        block.nodes.push(Node::Collective(c));
                    }
                }
                Act::End(i) => {
                    if let Some((end, channel)) = ends.remove(&i) {
                        taken.remove(&channel);
                        block.nodes.push(Node::Await(end));
                    }
                }
            }
        }
    }

    /// What is done when.
    fn order(&self, nodes: &[Node], taken: &BTreeSet<u8>) -> Vec<Act> {
        let mut graph = self.graph(nodes);
        let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&i| graph.open[i] == 0).collect();
        let mut left: BTreeSet<usize> = (0..nodes.len()).collect();
        let mut channels: BTreeSet<u8> = (0..CHANNELS).filter(|b| !taken.contains(b)).collect();
        let mut flying: Vec<Flying> = vec![];
        let mut acts = vec![];
        while let Some(&next) = left.first() {
            // Start what can be started.
            let can_start = ready.iter().copied().take_while(|&i| i < next + WINDOW).find(|&i| {
                let Node::Collective(c) = &nodes[i] else { return false };
                let bytes = self.bytes(c);
                let room = flying.is_empty() || bytes + flying.iter().map(|f| f.bytes).sum::<usize>() <= FLYING_BYTES;
                // Not before its turn if it takes much memory.
                let early = i == next || bytes <= EARLY_BYTES;
                room && early && !channels.is_empty() && (self.crosses)(c)
            });
            if let Some(i) = can_start
                && let Some(channel) = channels.pop_first()
                && let Node::Collective(c) = &nodes[i]
            {
                let bytes = self.bytes(c);
                let left_ns = LATENCY_NS + bytes as u64 / BYTES_PER_NS;
                flying.push(Flying { node: i, channel, bytes, left: left_ns, early: 0 });
                acts.push(Act::Start(i, channel));
                ready.remove(&i);
                left.remove(&i);
                continue;
            }
            // Then what comes next, or what can be done instead.
            let is_crossing = |i: usize| matches!(&nodes[i], Node::Collective(c) if (self.crosses)(c));
            let first = ready.range(..next + WINDOW).copied().find(|&i| i == next || !is_crossing(i));
            let blocking = flying.iter().position(|f| graph.after[f.node].contains(&next)).unwrap_or(0);
            let chosen = match first {
                Some(i) if i == next => Some(i),
                Some(i) => flying.get_mut(blocking).and_then(|f| {
                    f.early += self.written(&nodes[i]);
                    (f.left > 0 && f.early <= EARLY_BYTES).then_some(i)
                }),
                None => None,
            };
            // A collective that could not be started waits for a channel.
            let no_berth = chosen.is_some_and(is_crossing);
            match chosen {
                Some(i) if !no_berth || flying.is_empty() => {
                    let cost = self.cost(&nodes[i]);
                    flying.iter_mut().for_each(|f| f.left = f.left.saturating_sub(cost));
                    acts.push(Act::Do(i));
                    ready.remove(&i);
                    left.remove(&i);
                    graph.done(i, &mut ready);
                }
                _ => {
                    // The one that the next node needs, or the oldest.
                    let f = flying.remove(if no_berth { 0 } else { blocking });
                    channels.insert(f.channel);
                    acts.push(Act::End(f.node));
                    graph.done(f.node, &mut ready);
                }
            }
        }
        acts.extend(flying.iter().map(|f| Act::End(f.node)));
        acts
    }

    /// Collectives with next to no work between their start and end run at once, where they would end.
    fn worthwhile(&self, nodes: &[Node], mut acts: Vec<Act>) -> Vec<Act> {
        loop {
            let idle = acts.iter().enumerate().find_map(|(at, &act)| {
                let Act::Start(i, _) = act else { return None };
                let end = at + acts[at..].iter().position(|&a| a == Act::End(i))?;
                let between = &acts[at + 1..end];
                let cost = |a: &Act| if let Act::Do(n) = *a { self.cost(&nodes[n]) } else { LEAST_NS };
                (between.iter().map(cost).fold(0, u64::saturating_add) < LEAST_NS).then_some((i, at, end))
            });
            let Some((node, start, end)) = idle else { return acts };
            acts[end] = Act::Do(node);
            acts.remove(start);
        }
    }

    fn bytes(&self, c: &Collective) -> usize {
        c.operands.iter().chain(&c.results).map(|b| self.bufs[b.0 as usize].bytes).sum()
    }

    fn written(&self, node: &Node) -> usize {
        let (_, writes) = uses(node);
        writes.iter().map(|b| self.bufs[b.0 as usize].bytes).sum()
    }

    /// Nanoseconds, roughly.
    fn cost(&self, node: &Node) -> u64 {
        let all = |b: &Block| b.nodes.iter().map(|n| self.cost(n)).fold(0, u64::saturating_add);
        match node {
            Node::Step(step) => step.work.cost(),
            Node::Collective(c) => LEAST_NS + self.bytes(c) as u64 / 10,
            Node::Await(_) => 0,
            Node::While(w) => all(&w.body).saturating_add(all(&w.cond)).saturating_mul(w.trips.unwrap_or(1)),
            Node::Case(c) => c.branches.iter().map(all).max().unwrap_or(0),
        }
    }

    fn graph(&self, nodes: &[Node]) -> Graph {
        let mut graph = Graph { open: vec![0; nodes.len()], after: vec![vec![]; nodes.len()] };
        let mut writer: HashMap<Buf, usize> = HashMap::default();
        let mut readers: HashMap<Buf, Vec<usize>> = HashMap::default();
        let mut last_fallback = None;
        for (i, node) in nodes.iter().enumerate() {
            let (reads, writes) = uses(node);
            let mut before: BTreeSet<usize> = reads.iter().filter_map(|b| writer.get(b).copied()).collect();
            for b in &writes {
                before.extend(writer.get(b));
                before.extend(readers.remove(b).unwrap_or_default());
            }
            // Those of the evaluator may have effects.
            if self.has_fallback(node) {
                before.extend(last_fallback.replace(i));
            }
            before.remove(&i);
            graph.open[i] = before.len();
            before.into_iter().for_each(|b| graph.after[b].push(i));
            reads.into_iter().for_each(|b| readers.entry(b).or_default().push(i));
            writes.into_iter().for_each(|b| {
                writer.insert(b, i);
            });
        }
        graph
    }

    fn has_fallback(&self, node: &Node) -> bool {
        let any = |b: &Block| b.nodes.iter().any(|n| self.has_fallback(n));
        match node {
            Node::Step(step) => self.fallbacks.contains(&step.op),
            Node::Collective(_) | Node::Await(_) => false,
            Node::While(w) => any(&w.cond) || any(&w.body),
            Node::Case(c) => c.branches.iter().any(any),
        }
    }
}

impl Graph {
    fn done(&mut self, node: usize, ready: &mut BTreeSet<usize>) {
        for i in std::mem::take(&mut self.after[node]) {
            self.open[i] -= 1;
            if self.open[i] == 0 {
                ready.insert(i);
            }
        }
    }
}

/// What a node reads and writes, in all blocks inside it.
pub(super) fn uses(node: &Node) -> (Vec<Buf>, Vec<Buf>) {
    let (mut reads, mut writes) = (vec![], vec![]);
    collect(node, &mut reads, &mut writes);
    (reads, writes)
}

fn collect(node: &Node, reads: &mut Vec<Buf>, writes: &mut Vec<Buf>) {
    let mut inside = |block: &Block, reads: &mut Vec<Buf>| {
        block.nodes.iter().for_each(|n| collect(n, reads, writes));
        writes.extend(&block.args);
        reads.extend(&block.results);
    };
    match node {
        Node::Step(step) => {
            reads.extend(&step.reads);
            writes.extend(&step.writes);
        }
        Node::Collective(c) => {
            reads.extend(&c.operands);
            writes.extend(&c.results);
        }
        Node::Await(a) => {
            reads.extend(&a.operands);
            writes.extend(&a.results);
        }
        Node::While(w) => {
            reads.extend(&w.init);
            inside(&w.cond, reads);
            inside(&w.body, reads);
        }
        Node::Case(case) => {
            reads.push(case.index);
            case.branches.iter().for_each(|b| inside(b, reads));
            writes.extend(&case.results);
        }
    }
}

#[cfg(test)]
mod tests {
    use meshwork_ir::{DeviceGrid, Module, text};
    use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Use};

    use super::*;
    use crate::compile::{Span, compile};

    const SUM: &str = "({ ^bb0(%l: tensor<f32>, %m: tensor<f32>):
        %k = stablehlo.add %l, %m : tensor<f32>
        stablehlo.return %k : tensor<f32> }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}";

    /// The program on two devices of two processes, put in order; a line per node without the buffers.
    fn ordered(source: &str) -> Vec<String> {
        ordered_module(&text::parse(&source.replace("SUM", SUM)).unwrap())
    }

    fn ordered_module(module: &Module) -> Vec<String> {
        let mut program = compile(module, None, DeviceGrid { replicas: 1, partitions: 2 }, Span::Processes).unwrap();
        overlap(&mut program, &Spread { ranks: vec![0, 1], rank: 0 });
        let again = program.to_string();
        overlap(&mut program, &Spread { ranks: vec![0, 1], rank: 0 });
        assert_eq!(program.to_string(), again, "the order of an ordered program stays");
        let word = |line: &str| {
            let line = line.trim();
            let what = line.split_once(" = ").map_or(line, |(_, what)| what);
            what.split(" (").next().unwrap_or(what).to_string()
        };
        again.lines().map(word).filter(|l| !l.starts_with('(') && !l.starts_with("->")).collect()
    }

    #[test]
    fn a_sum_is_started_before_work_that_does_not_need_it_and_awaited_after_it() {
        let lines = ordered(
            "func.func @main(%x: tensor<4096xf32>, %w: tensor<512x512xf32>) -> (tensor<4096xf32>, tensor<512x512xf32>) {
               %g = stablehlo.sine %x : tensor<4096xf32>
               %r = \"stablehlo.all_reduce\"(%g) SUM : (tensor<4096xf32>) -> tensor<4096xf32>
               %u = stablehlo.negate %r : tensor<4096xf32>
               %y = stablehlo.dot %w, %w : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
               return %u, %y : tensor<4096xf32>, tensor<512x512xf32> }",
        );
        let at =
            |what: &str| lines.iter().position(|l| l.contains(what)).unwrap_or_else(|| panic!("{what}: {lines:?}"));
        assert!(at("sine") < at("start all_reduce 4096"), "{lines:?}");
        assert!(at("start all_reduce 4096") < at("dot"), "{lines:?}");
        assert!(at("dot") < at("await"), "{lines:?}");
        assert!(at("await") < at("negate"), "{lines:?}");
    }

    #[test]
    fn what_is_needed_at_once_is_not_cut_in_two() {
        let lines = ordered(
            "func.func @main(%x: tensor<4096xf32>) -> tensor<4096xf32> {
               %r = \"stablehlo.all_reduce\"(%x) SUM : (tensor<4096xf32>) -> tensor<4096xf32>
               %u = stablehlo.negate %r : tensor<4096xf32>
               return %u : tensor<4096xf32> }",
        );
        assert!(lines.iter().any(|l| l == "all_reduce 4096"), "{lines:?}");
        assert!(!lines.iter().any(|l| l.starts_with("await")), "{lines:?}");
    }

    #[test]
    fn two_that_follow_each_other_are_under_way_together() {
        let lines = ordered(
            "func.func @main(%x: tensor<4096xf32>, %y: tensor<99xf32>) -> (tensor<4096xf32>, tensor<99xf32>) {
               %r = \"stablehlo.all_reduce\"(%x) SUM : (tensor<4096xf32>) -> tensor<4096xf32>
               %s = \"stablehlo.all_reduce\"(%y) SUM : (tensor<99xf32>) -> tensor<99xf32>
               return %r, %s : tensor<4096xf32>, tensor<99xf32> }",
        );
        let kinds: Vec<&str> = lines.iter().filter_map(|l| l.split(' ').next()).collect();
        assert_eq!(kinds, ["start", "start", "await", "await"], "{lines:?}");
    }

    #[test]
    fn a_loop_that_may_turn_differently_often_is_left_as_it_is() {
        let source = |limit: &str| {
            format!(
                "func.func @main(%x: tensor<4096xf32>, %y: tensor<9xf32>, %n: tensor<i32>) -> tensor<4096xf32> {{
                   %zero = stablehlo.constant dense<0> : tensor<i32>
                   %one = stablehlo.constant dense<1> : tensor<i32>
                   %five = stablehlo.constant dense<5> : tensor<i32>
                   %r:3 = stablehlo.while(%i = %zero, %a = %x, %b = %y) : tensor<i32>, tensor<4096xf32>, tensor<9xf32>
                   cond {{
                     %p = stablehlo.compare LT, %i, {limit} : (tensor<i32>, tensor<i32>) -> tensor<i1>
                     stablehlo.return %p : tensor<i1>
                   }} do {{
                     %s = \"stablehlo.all_reduce\"(%a) SUM : (tensor<4096xf32>) -> tensor<4096xf32>
                     %t = \"stablehlo.all_reduce\"(%b) SUM : (tensor<9xf32>) -> tensor<9xf32>
                     %j = stablehlo.add %i, %one : tensor<i32>
                     stablehlo.return %j, %s, %t : tensor<i32>, tensor<4096xf32>, tensor<9xf32>
                   }}
                   return %r#1 : tensor<4096xf32> }}"
            )
        };
        let starts = |limit: &str| ordered(&source(limit)).iter().filter(|l| l.starts_with("start")).count();
        assert_eq!(starts("%five"), 2);
        assert_eq!(starts("%n"), 0);
    }
    /// What the loop of a stencil does in a turn on two devices of two processes.
    fn turn_of(body: &str, when: Use) -> Vec<String> {
        let ty = "tensor<64x1024xf32>";
        let at = r#"{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}"#;
        let source = format!(
            r#"sdy.mesh @mesh = <["x"=2]>
            func.func @main(%x: {ty} {at}) -> ({ty} {at}) {{
              %zero = stablehlo.constant dense<0> : tensor<i32>
              %one = stablehlo.constant dense<1> : tensor<i32>
              %ten = stablehlo.constant dense<10> : tensor<i32>
              %r:2 = stablehlo.while(%i = %zero, %u = %x) : tensor<i32>, {ty}
              cond {{
                %p = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %p : tensor<i1>
              }} do {{
                {body}
                %j = stablehlo.add %i, %one : tensor<i32>
                stablehlo.return %j, %new : tensor<i32>, {ty}
              }}
              return %r#1 : {ty}
            }}"#
        );
        let algorithms = Algorithms::default().with(Algorithm::OverlappedHalos, when);
        let options = CompileOptions { algorithms, ..CompileOptions::default() };
        let compiled = meshwork_partition::compile(&text::parse(&source).unwrap(), &options).unwrap();
        let lines = ordered_module(&compiled.module);
        let from = lines.iter().position(|l| l == "do").unwrap_or(0);
        lines[from..].to_vec()
    }

    /// Asserts that exchanges are started before the interior is computed, and awaited between it and the edges. Nothing but what is sent is
    /// copied.
    fn assert_beside(lines: &[String]) {
        let all = |what: &str| (0..lines.len()).filter(|&i| lines[i].starts_with(what)).collect::<Vec<usize>>();
        let at = |what: &str| lines.iter().position(|l| l.ends_with(what)).unwrap_or_else(|| panic!("{lines:#?}"));
        let (interior, edges) = (at(", interior"), at(", edges"));
        let (starts, ends) = (all("start "), all("await "));
        assert!(!starts.is_empty() && starts.len() == ends.len(), "{lines:#?}");
        assert!(starts.iter().all(|&i| i < interior), "{lines:#?}");
        assert!(ends.iter().all(|&i| interior < i && i < edges), "{lines:#?}");
        let copies = lines.iter().filter(|l| l.starts_with("copy") && !l.contains("[1, 1024]"));
        assert_eq!(copies.count() + all("concatenate").len(), 0, "{lines:#?}");
        assert_eq!(all("fused").len(), 3, "the interior, the edges and the counter: {lines:#?}");
    }

    /// The interior is written into the result before the halos are there, and the edges after that, in any form of the program.
    #[test]
    fn halos_are_under_way_while_the_interior_is_computed() {
        let (ty, short) = ("tensor<64x1024xf32>", "tensor<62x1024xf32>");
        let difference = format!(
            "%up = stablehlo.slice %u [0:62, 0:1024] : ({ty}) -> {short}
            %mid = stablehlo.slice %u [1:63, 0:1024] : ({ty}) -> {short}
            %down = stablehlo.slice %u [2:64, 0:1024] : ({ty}) -> {short}
            %s0 = stablehlo.add %up, %down : {short}
            %s1 = stablehlo.subtract %s0, %mid : {short}
            %new = stablehlo.dynamic_update_slice %u, %s1, %one, %zero : ({ty}, {short}, tensor<i32>, tensor<i32>) -> {ty}"
        );
        let image = "tensor<1x64x1024x1xf32>";
        let window = "window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]}";
        let convolution = format!(
            "%img = stablehlo.reshape %u : ({ty}) -> {image}
            %ker = stablehlo.constant dense<0.25> : tensor<3x3x1x1xf32>
            %res = stablehlo.convolution(%img, %ker) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], {window} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({image}, tensor<3x3x1x1xf32>) -> {image}
            %new = stablehlo.reshape %res : ({image}) -> {ty}"
        );
        for body in [difference, convolution] {
            for when in [Use::Never, Use::Always] {
                assert_beside(&turn_of(&body, when));
            }
        }
    }
}
