//! Random programs with nested loops, choices, in-place steps and communication: the planned, threaded run equals a
//! plain one in which every buffer has its own memory. A buffer overwritten while live would show.

use std::sync::Arc;

use meshwork_cpu::DeviceProgram;
use meshwork_cpu::device_program::Replication;
use meshwork_cpu::exec::pool::Pool;
use meshwork_cpu::kernel::ir::Combine;
use meshwork_cpu::program::{Block, BufInfo, Case, Collective, CollectiveKind, Node, Program, Reducer, While};
use meshwork_cpu::step::{Buf, Fault, Frame, Scratch, Step, Work};
use meshwork_ir::DeviceGrid;
use meshwork_ir::{ElementType, FuncSig, FunctionType, Literal, Module, OpId};
use meshwork_runtime::Buffer;

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides.max(1)
    }
}

/// What a step computes on lists of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// Element by element; may work in place on the first operand.
    Mix(u64),
    /// Each element from its neighbor.
    Shift(u64),
    /// Changes one element of the first operand, which is also the result.
    Poke(u64),
    /// Like `Poke`, with a separate result that may reuse the first operand's memory.
    Update(u64),
    /// Whether a loop goes on: the first operand counts, the others, if any, may end it early.
    GoOn(u64),
    /// A branch, as an `i32`.
    Choose,
}

fn hash(seed: u64, values: impl Iterator<Item = u64>) -> u64 {
    values.fold(seed ^ 0x9e37_79b9_7f4a_7c15, |h, v| (h ^ v).wrapping_mul(0x100_0000_01b3).rotate_left(23))
}

fn compute(rule: Rule, reads: &[&[u64]], n: usize) -> Vec<u64> {
    let at = |i: usize| reads.iter().map(move |r| if r.is_empty() { 7 } else { r[i % r.len()] });
    match rule {
        Rule::Mix(seed) => (0..n).map(|i| hash(seed, at(i))).collect(),
        Rule::Shift(seed) => (0..n).map(|i| hash(seed, at(i + 1))).collect(),
        Rule::Poke(seed) | Rule::Update(seed) => {
            let mut out = reads[0].to_vec();
            if n > 0 {
                out[seed as usize % n] = hash(seed, at(0));
            }
            out
        }
        Rule::GoOn(limit) => {
            let early = reads.len() > 1 && hash(3, at(0)) % 5 == 0;
            vec![u64::from(reads[0][0] < limit && !early)]
        }
        Rule::Choose => vec![hash(5, at(0)) % 4],
    }
}

#[derive(Debug)]
struct Rules {
    rule: Rule,
    reads: Vec<(Buf, usize)>,
    write: (Buf, usize),
    parts: usize,
}

impl Work for Rules {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        // Enough for the pool to be asked.
        3_000
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let (buf, n) = self.write;
        // SAFETY: buffers of `n` numbers each, as the test made them. Operands are read in full for the elements of
        // the part before these are written, element by element.
        unsafe {
            let list = |(buf, n): (Buf, usize)| std::slice::from_raw_parts(frame.ptr(buf).cast::<u64>(), n);
            match self.rule {
                Rule::GoOn(_) | Rule::Choose => {
                    let reads: Vec<&[u64]> = self.reads.iter().map(|&r| list(r)).collect();
                    let value = compute(self.rule, &reads, 1)[0];
                    match self.rule {
                        Rule::Choose => frame.ptr(buf).cast::<i32>().write(value as i32 - 1),
                        _ => frame.ptr(buf).write(value as u8),
                    }
                }
                Rule::Mix(seed) => {
                    for i in (part * n / self.parts)..((part + 1) * n / self.parts) {
                        let read = |&(buf, n): &(Buf, usize)| match n {
                            0 => 7,
                            _ => frame.ptr(buf).cast::<u64>().add(i % n).read(),
                        };
                        let value = hash(seed, self.reads.iter().map(read));
                        frame.ptr(buf).cast::<u64>().add(i).write(value);
                    }
                }
                Rule::Poke(_) | Rule::Update(_) | Rule::Shift(_) => {
                    let reads: Vec<&[u64]> = self.reads.iter().map(|&r| list(r)).collect();
                    let out = compute(self.rule, &reads, n);
                    std::ptr::copy_nonoverlapping(out.as_ptr(), frame.ptr(buf).cast::<u64>(), n);
                }
            }
        }
        Ok(())
    }
}

struct Maker {
    dice: Dice,
    bufs: Vec<BufInfo>,
    /// What the plain run does for each step, by the address of its work.
    rules: Vec<(Arc<dyn Work>, Arc<Rules>)>,
    op: OpId,
    devices: usize,
}

const SIZES: [usize; 4] = [0, 1, 3, 40];

impl Maker {
    fn buf(&mut self, n: usize) -> Buf {
        let dims = vec![n as i64];
        self.bufs.push(BufInfo { bytes: n * 8, elem: ElementType::UI64, dims, constant: None });
        Buf(self.bufs.len() as u32 - 1)
    }

    fn len(&self, buf: Buf) -> usize {
        self.bufs[buf.0 as usize].bytes / 8
    }

    fn step(&mut self, rule: Rule, reads: &[Buf], write: Buf) -> Node {
        let parts = if matches!(rule, Rule::Mix(_)) { 1 + self.dice.roll(3) } else { 1 };
        let with = |b: &Buf| (*b, self.len(*b));
        let work =
            Arc::new(Rules { rule, reads: reads.iter().map(with).collect(), write: (write, self.len(write)), parts });
        self.rules.push((work.clone(), work.clone()));
        // In place with an operand of the same size that is read at the same elements only.
        let once = |b: &Buf| reads.iter().filter(|r| *r == b).count() == 1;
        let in_place = match rule {
            Rule::Mix(_) => reads.iter().filter(|b| self.len(**b) == self.len(write)).map(|&b| (b, write)).collect(),
            Rule::Update(_) if once(&reads[0]) => vec![(reads[0], write)],
            _ => vec![],
        };
        let mut all = reads.to_vec();
        all.dedup();
        Node::Step(Step { work, reads: all, writes: vec![write], in_place, op: self.op, name: format!("{rule:?}") })
    }

    fn pick(&mut self, from: &[Buf]) -> Buf {
        from[self.dice.roll(from.len())]
    }

    fn sized(&mut self, from: &[Buf], n: usize) -> Buf {
        let fit: Vec<Buf> = from.iter().copied().filter(|&b| self.len(b) == n).collect();
        self.pick(&fit)
    }

    /// Nodes that add to what is visible; `even` where all devices pass.
    fn nodes(&mut self, visible: &mut Vec<Buf>, depth: usize, even: bool) -> Vec<Node> {
        let mut nodes = vec![];
        // Buffers made by steps of this block: only they may be poked.
        let mut own = vec![];
        for _ in 0..2 + self.dice.roll(6) {
            let seed = self.dice.roll(1 << 20) as u64;
            match self.dice.roll(if depth < 3 { 12 } else { 7 }) {
                0..=3 => {
                    let n = SIZES[self.dice.roll(4)];
                    let reads: Vec<Buf> = (0..1 + self.dice.roll(3)).map(|_| self.pick(visible)).collect();
                    let (rule, to) =
                        (if seed.is_multiple_of(3) { Rule::Shift(seed) } else { Rule::Mix(seed) }, self.buf(n));
                    nodes.push(self.step(rule, &reads, to));
                    visible.push(to);
                    own.push(to);
                }
                4 => {
                    let from = self.pick(visible);
                    let to = self.buf(self.len(from));
                    nodes.push(self.step(Rule::Update(seed), &[from, visible[0]], to));
                    visible.push(to);
                }
                5 if !own.is_empty() => {
                    let at = self.pick(&own);
                    nodes.push(self.step(Rule::Poke(seed), &[at], at));
                }
                6 if even && self.devices > 1 => {
                    let from = self.pick(visible);
                    let to = self.buf(self.len(from));
                    let all: Vec<u32> = (0..self.devices as u32).collect();
                    let (kind, groups) = match seed % 2 {
                        0 => (CollectiveKind::AllReduce(Reducer::Combine(Combine::Add)), vec![all]),
                        _ => {
                            let pairs = all.iter().map(|&d| (d, (d + 1) % all.len() as u32)).skip(seed as usize % 3);
                            (CollectiveKind::Permute { pairs: pairs.collect() }, vec![])
                        }
                    };
                    let (operands, results, name) = (vec![from], vec![to], "exchange".to_string());
                    nodes.push(Node::Collective(Collective {
                        kind,
                        groups,
                        operands,
                        starts: vec![0],
                        results,
                        op: self.op,
                        name,
                        channel: None,
                    }));
                    visible.push(to);
                }
                7..=9 if depth < 3 => nodes.push(self.loop_node(visible, depth, even)),
                10 | 11 if depth < 3 => nodes.extend(self.case_nodes(visible, depth)),
                _ => {}
            }
        }
        nodes
    }

    fn loop_node(&mut self, visible: &mut Vec<Buf>, depth: usize, even: bool) -> Node {
        // The first carry counts.
        let mut init = vec![Buf(0)];
        init.extend((0..1 + self.dice.roll(3)).map(|_| self.pick(visible)));
        let carry = |m: &mut Maker| init.iter().map(|&b| m.buf(m.len(b))).collect::<Vec<_>>();
        let body_args = carry(self);
        let cond_args = if self.dice.roll(2) == 0 { body_args.clone() } else { carry(self) };
        let uniform = even && self.dice.roll(2) == 0;
        let go_on = self.buf(0);
        let info = &mut self.bufs[go_on.0 as usize];
        (info.bytes, info.elem, info.dims) = (1, ElementType::I1, vec![]);
        let read = if uniform { cond_args[..1].to_vec() } else { cond_args[..2].to_vec() };
        let limit = self.dice.roll(4) as u64;
        let cond =
            Block { args: cond_args, nodes: vec![self.step(Rule::GoOn(limit), &read, go_on)], results: vec![go_on] };
        let mut inner = visible.clone();
        inner.extend(&body_args);
        let mut nodes = self.nodes(&mut inner, depth + 1, uniform);
        let count = self.buf(1);
        nodes.push(Node::Step(self.count(body_args[0], count)));
        let mut results = vec![count];
        for &arg in &body_args[1..] {
            let n = self.len(arg);
            // Often something new, sometimes a carry, a value from outside, or the same twice.
            results.push(self.sized(&inner, n));
        }
        visible.extend(&body_args);
        let body = Block { args: body_args, nodes, results };
        let trips = uniform.then_some(limit);
        Node::While(While { init, cond, body, trips, op: self.op })
    }

    fn count(&mut self, from: Buf, to: Buf) -> Step {
        #[derive(Debug)]
        struct Count(Buf, Buf);
        impl Work for Count {
            fn parts(&self) -> usize {
                1
            }
            fn cost(&self) -> u64 {
                1
            }
            unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, _: usize) -> Result<(), Fault> {
                // SAFETY: both hold one number.
                unsafe { frame.ptr(self.1).cast::<u64>().write(frame.ptr(self.0).cast::<u64>().read() + 1) };
                Ok(())
            }
        }
        let work = Arc::new(Count(from, to));
        let (reads, writes, in_place) = (vec![from], vec![to], vec![(from, to)]);
        Step { work, reads, writes, in_place, op: self.op, name: "count".into() }
    }

    fn case_nodes(&mut self, visible: &mut Vec<Buf>, depth: usize) -> Vec<Node> {
        let index = self.buf(0);
        let info = &mut self.bufs[index.0 as usize];
        (info.bytes, info.elem, info.dims) = (4, ElementType::I32, vec![]);
        let from = self.pick(visible);
        let choose = self.step(Rule::Choose, &[from], index);
        let like: Vec<Buf> = (0..1 + self.dice.roll(2)).map(|_| self.pick(visible)).collect();
        let branches = (0..1 + self.dice.roll(3))
            .map(|_| {
                let mut inner = visible.clone();
                let nodes = self.nodes(&mut inner, depth + 1, false);
                let results = like.iter().map(|&l| self.sized(&inner, self.len(l))).collect();
                Block { args: vec![], nodes, results }
            })
            .collect();
        let results: Vec<Buf> = like.iter().map(|&l| self.buf(self.len(l))).collect();
        visible.extend(&results);
        vec![choose, Node::Case(Case { index, branches, results, op: self.op })]
    }
}

/// The plain run: every buffer of every device is a separate list.
struct Plain<'a> {
    rules: &'a [(Arc<dyn Work>, Arc<Rules>)],
    env: Vec<Vec<Vec<u64>>>,
}

impl Plain<'_> {
    fn get(&self, d: usize, buf: Buf) -> &[u64] {
        &self.env[d][buf.0 as usize]
    }

    fn block(&mut self, block: &Block, active: &[usize]) {
        for node in &block.nodes {
            match node {
                Node::Step(step) => {
                    let rule = self.rules.iter().find(|(w, _)| Arc::ptr_eq(w, &step.work)).map(|(_, r)| r.clone());
                    for &d in active {
                        let to = step.writes[0];
                        let value = match &rule {
                            Some(r) => {
                                let reads: Vec<&[u64]> = r.reads.iter().map(|&(b, _)| self.get(d, b)).collect();
                                compute(r.rule, &reads, r.write.1)
                            }
                            None => vec![self.get(d, step.reads[0])[0] + 1],
                        };
                        self.env[d][to.0 as usize] = value;
                    }
                }
                Node::Collective(c) => {
                    let (from, to) = (c.operands[0], c.results[0].0 as usize);
                    let all: Vec<Vec<u64>> = active.iter().map(|&d| self.get(d, from).to_vec()).collect();
                    let n = all[0].len();
                    for &d in active {
                        self.env[d][to] = match &c.kind {
                            CollectiveKind::Permute { pairs } => {
                                let source = pairs.iter().find(|p| p.1 as usize == d);
                                source.map_or(vec![0; n], |p| all[p.0 as usize].clone())
                            }
                            _ => (0..n).map(|i| all.iter().fold(0u64, |s, x| s.wrapping_add(x[i]))).collect(),
                        };
                    }
                }
                Node::Await(_) => {}
                Node::While(w) => {
                    let mut going = active.to_vec();
                    for (&from, &to) in w.init.iter().zip(&w.body.args) {
                        going.iter().for_each(|&d| self.env[d][to.0 as usize] = self.get(d, from).to_vec());
                    }
                    loop {
                        for (&from, &to) in w.body.args.iter().zip(&w.cond.args) {
                            going.iter().for_each(|&d| self.env[d][to.0 as usize] = self.get(d, from).to_vec());
                        }
                        self.block(&w.cond, &going);
                        going.retain(|&d| self.get(d, w.cond.results[0])[0] != 0);
                        if going.is_empty() {
                            break;
                        }
                        self.block(&w.body, &going);
                        self.hand_over(&w.body.results, &w.body.args, &going);
                    }
                }
                Node::Case(c) => {
                    for (b, branch) in c.branches.iter().enumerate() {
                        let taken = |d: &usize| {
                            let index = self.get(*d, c.index)[0] as i64 - 1;
                            let last = c.branches.len() as i64 - 1;
                            (if (0..=last).contains(&index) { index } else { last }) == b as i64
                        };
                        let some: Vec<usize> = active.iter().copied().filter(taken).collect();
                        self.block(branch, &some);
                        self.hand_over(&branch.results, &c.results, &some);
                    }
                }
            }
        }
    }

    fn hand_over(&mut self, from: &[Buf], to: &[Buf], active: &[usize]) {
        for &d in active {
            let values: Vec<Vec<u64>> = from.iter().map(|&b| self.get(d, b).to_vec()).collect();
            to.iter().zip(values).for_each(|(b, v)| self.env[d][b.0 as usize] = v);
        }
    }
}

/// Devices of this process are those in `here`.
fn check(seed: u64, devices: usize, here: std::ops::Range<usize>, pool: &Arc<Pool>) {
    let mut module = Module::new();
    let ty = FunctionType { inputs: vec![], results: vec![] };
    let op = module.add_func(FuncSig { name: "main".into(), ty, visibility: None });
    let mut maker = Maker { dice: Dice(seed * 7919 + 17), bufs: vec![], rules: vec![], op, devices };
    // Buffer 0 is a constant zero, then arguments and constants of every size.
    let mut visible = vec![];
    let mut args = vec![];
    for (i, n) in [1].into_iter().chain(SIZES).chain(SIZES).chain(SIZES).enumerate() {
        let buf = maker.buf(n);
        if i < 5 {
            let bytes: Vec<u8> = (0..n).flat_map(|k| ((i * 100 + k) as u64 * u64::from(i > 0)).to_le_bytes()).collect();
            maker.bufs[buf.0 as usize].constant = Literal::from_bytes([n as i64], ElementType::UI64, bytes);
        } else {
            args.push(buf);
        }
        visible.push(buf);
    }
    let nodes = maker.nodes(&mut visible, 0, true);
    let mut results: Vec<Buf> = visible.iter().copied().filter(|b| b.0 % 3 != 0 || b.0 as usize > 13).collect();
    results.push(results[0]);
    let donated: Vec<bool> = args.iter().enumerate().map(|(i, _)| i % 2 == 0).collect();
    let main = Block { args: args.clone(), nodes, results: results.clone() };
    let program =
        Program { module: Arc::new(module), bufs: maker.bufs.clone(), main: main.clone(), donated, fallbacks: vec![] };

    let value = |d: usize, buf: Buf, k: usize| hash(seed, [d as u64, u64::from(buf.0), k as u64].into_iter());
    let mut env = vec![vec![vec![]; maker.bufs.len()]; devices];
    for (d, env) in env.iter_mut().enumerate() {
        for (b, info) in maker.bufs.iter().enumerate() {
            if let Some(c) = &info.constant {
                env[b] = c.bytes().chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect();
            }
        }
        for &arg in &args {
            env[arg.0 as usize] = (0..maker.len(arg)).map(|k| value(d, arg, k)).collect();
        }
    }
    let mut plain = Plain { rules: &maker.rules, env };
    let all: Vec<usize> = (0..devices).collect();
    plain.block(&main, &all);

    let grid = DeviceGrid { replicas: 1, partitions: devices };
    let executable = DeviceProgram::new(program, grid, pool.clone(), Replication::default()).unwrap();
    for round in 0..2 {
        let shard = |d: usize, arg: Buf| {
            let bytes: Vec<u8> = (0..maker.len(arg)).flat_map(|k| value(d, arg, k).to_le_bytes()).collect();
            Arc::new(Buffer::from_bytes(&bytes).unwrap())
        };
        let given = args.iter().map(|&arg| (0..devices).map(|d| shard(d, arg)).collect()).collect::<Vec<Vec<_>>>();
        // In the second round the caller keeps references, so that nothing can be taken over.
        let kept = if round == 1 { given.clone() } else { vec![] };
        let got = executable.run(given).unwrap();
        for (shards, &arg) in kept.iter().zip(&args) {
            for (d, kept) in shards.iter().enumerate() {
                assert_eq!(kept.as_slice(), shard(d, arg).as_slice(), "seed {seed}: argument {arg:?} was written");
            }
        }
        assert_eq!(got.len(), results.len());
        for (&buf, shards) in results.iter().zip(&got) {
            assert_eq!(shards.len(), devices);
            for (d, shard) in shards.iter().enumerate().filter(|(d, _)| here.contains(d)) {
                let numbers: Vec<u64> =
                    shard.as_slice().chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect();
                // A value that no device of a branch or loop computed is unspecified.
                let want = plain.get(d, buf);
                assert_eq!(numbers, want, "seed {seed}, {devices} devices, round {round}: {buf:?} on device {d}");
            }
        }
    }
}

#[test]
fn planned_runs_equal_plain_ones() {
    let pools: Vec<Arc<Pool>> = [1, 2, 5].into_iter().map(|t| Arc::new(Pool::new(t))).collect();
    let seeds = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(150);
    for seed in 0..seeds {
        for devices in [1, 3] {
            check(seed, devices, 0..devices, &pools[seed as usize % 3]);
        }
    }
}

/// As above with messages, which are under way while other steps run.
#[cfg(feature = "mpi")]
#[test]
fn planned_runs_on_several_processes_equal_plain_ones() {
    meshwork_testing::ranks::across(&[2, 3], "planned_runs_on_several_processes_equal_plain_ones", || {
        let runtime = meshwork_runtime::Runtime::init().unwrap();
        let pools: Vec<Arc<Pool>> = [1, 2].into_iter().map(|t| Arc::new(Pool::new(t))).collect();
        let seeds = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(150);
        for seed in 0..seeds {
            check(seed, 3, runtime.local_devices_of(3), &pools[seed as usize % 2]);
        }
    });
}
