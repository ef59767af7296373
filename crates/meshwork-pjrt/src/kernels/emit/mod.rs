//! The text of a kernel.
//!
//! Position `j` of `s` is loaded [`Plan::ahead`] turns of the walk before it is used. When it is there, level 1 can be computed
//! at `j - reach`, level 2 at `j - 2 reach`, and so on; the last level is stored. A level keeps [`Plan::slots`] positions in
//! registers of their own: the walk is written out as many times, so that each time every position is in a known register.

mod memory;
mod value;

use std::collections::HashMap;

use meshwork_ir::ElementType;

use super::body::{Body, Id, Node};
use super::plan::{LANES, Plan, THREADS};
use super::writer::{Width, Writer};
use memory::kept;
use value::depends;

/// The oldest PTX that has all that kernels use.
const VERSION: &str = "7.1";

/// A module of the functions with these names, plans and bodies, the second of which is for the middle of the arrays. `None` if
/// a body computes what kernels do not.
pub(super) fn module(functions: &[(&str, &Plan)], bodies: [&Body; 2], step: i64) -> Option<String> {
    let uses = |elem: ElementType| {
        bodies[0].carried.contains(&elem) || bodies[0].live().iter().any(|&id| bodies[0].elem(id) == elem)
    };
    // Older devices cannot round to bf16.
    let target = if uses(ElementType::BF16) { "sm_80" } else { "sm_70" };
    let mut text = format!(".version {VERSION}\n.target {target}\n.address_size 64\n");
    for (name, plan) in functions {
        text += &function(name, plan, bodies, step)?;
    }
    Some(text)
}

/// Parameters: carried arrays to read, carried arrays to write, inputs, the counter.
fn function(name: &str, plan: &Plan, bodies: [&Body; 2], step: i64) -> Option<String> {
    let (arrays, inputs) = (bodies[0].carried.len(), bodies[0].inputs.len());
    let count = 2 * arrays + inputs + 1;
    let mut w = Writer::default();
    let params: Vec<String> = (0..count).map(|k| format!("{name}_{k}")).collect();
    let pointer = |w: &mut Writer, k: usize| {
        let raw = w.set(Width::Double, |r| format!("ld.param.u64 {r}, [{}];", params[k]));
        w.set(Width::Double, |r| format!("cvta.to.global.u64 {r}, {raw};"))
    };
    let from = (0..arrays).map(|k| pointer(&mut w, k)).collect();
    let to = (0..arrays).map(|k| pointer(&mut w, arrays + k)).collect();
    let inputs = (0..inputs).map(|k| pointer(&mut w, 2 * arrays + k)).collect();
    let turn = w.set(Width::Double, |r| format!("ld.param.u64 {r}, [{}];", params[count - 1]));
    let done = w.label();
    let tile = Tile::write(&mut w, plan, &done);
    let args = Arguments { from, to, inputs, turn, step };
    let is_middle = tile.is_middle(&mut w, plan);
    let middle = w.label();
    w.line(format!("@{is_middle} bra {middle};"));
    Walk::write(&mut w, plan, bodies[0], &args, &tile, Part::Anywhere)?;
    w.line(format!("bra {done};"));
    w.place(&middle);
    Walk::write(&mut w, plan, bodies[1], &args, &tile, Part::Middle)?;
    w.place(&done);
    w.line("ret;");
    let params: Vec<String> = params.iter().map(|p| format!("\t.param .u64 {p}")).collect();
    let head = format!(".visible .entry {name}(\n{}\n)\n.maxntid {THREADS}, 1, 1\n", params.join(",\n"));
    Some(format!("{head}{{\n{}}}\n", w.finish()))
}

/// What a kernel is called with, in registers.
struct Arguments {
    from: Vec<String>,
    to: Vec<String>,
    inputs: Vec<String>,
    turn: String,
    /// By how much the counter grows in a turn.
    step: i64,
}

/// The tile of a warp, in registers.
struct Tile {
    /// The first element of `x` of the warp and of the lane, those of the halo included.
    start: String,
    x: String,
    y: String,
    /// The first position of `s`, and the one behind the last.
    s: String,
    end: String,
}

impl Tile {
    fn write(w: &mut Writer, plan: &Plan, done: &str) -> Tile {
        let mut r = |code: &dyn Fn(&str) -> String| w.set(Width::Single, |r| code(r));
        let block = r(&|r| format!("mov.u32 {r}, %ctaid.x;"));
        let thread = r(&|r| format!("mov.u32 {r}, %tid.x;"));
        let own = r(&|r| format!("shr.u32 {r}, {thread}, 5;"));
        let lane = r(&|r| format!("and.b32 {r}, {thread}, 31;"));
        let warp = r(&|r| format!("mad.lo.s32 {r}, {block}, {}, {own};", THREADS / LANES));
        let [ns, ny, nx] = plan.tiles();
        let too_far = w.set(Width::Truth, |p| format!("setp.ge.s32 {p}, {warp}, {};", ns * ny * nx));
        w.line(format!("@{too_far} bra {done};"));
        let mut r = |code: &dyn Fn(&str) -> String| w.set(Width::Single, |r| code(r));
        let tx = r(&|r| format!("rem.u32 {r}, {warp}, {nx};"));
        let rest = r(&|r| format!("div.u32 {r}, {warp}, {nx};"));
        let ty = r(&|r| format!("rem.u32 {r}, {rest}, {ny};"));
        let ts = r(&|r| format!("div.u32 {r}, {rest}, {ny};"));
        let start = r(&|r| format!("mad.lo.s32 {r}, {tx}, {}, {};", plan.stride(), -plan.halo.0));
        let x = r(&|r| format!("mad.lo.s32 {r}, {lane}, {}, {start};", plan.columns));
        let y = r(&|r| format!("mul.lo.s32 {r}, {ty}, {};", plan.rows));
        let s = r(&|r| format!("mul.lo.s32 {r}, {ts}, {};", plan.chunk));
        let far = r(&|r| format!("add.s32 {r}, {s}, {};", plan.chunk));
        let end = r(&|r| format!("min.s32 {r}, {far}, {};", plan.dims[0]));
        Tile { start, x, y, s, end }
    }

    /// Whether the tile with all its overlap is in the middle.
    fn is_middle(&self, w: &mut Writer, plan: &Plan) -> String {
        let k = plan.steps;
        let [s, y, x] = plan.middle;
        let [rs, ry, _] = plan.reach;
        let mut tests = vec![];
        let mut test = |w: &mut Writer, order: &str, value: &str, bound: i64| {
            tests.push(w.set(Width::Truth, |p| format!("setp.{order}.s32 {p}, {value}, {bound};")));
        };
        test(w, "ge", &self.s, s.0 + k * rs.0);
        test(w, "le", &self.end, s.1 - k * rs.1);
        test(w, "ge", &self.y, y.0 + k * ry.0);
        test(w, "le", &self.y, y.1 - k * ry.1 - plan.rows);
        test(w, "ge", &self.start, x.0);
        test(w, "le", &self.start, x.1 - LANES * plan.columns);
        let (first, rest) = (tests[0].clone(), &tests[1..]);
        rest.iter().fold(first, |all, test| w.set(Width::Truth, |p| format!("and.pred {p}, {all}, {test};")))
    }
}

/// Which tiles the code is for.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Anywhere,
    Middle,
}

/// The walk of a warp along `s`.
struct Walk<'a> {
    w: &'a mut Writer,
    plan: &'a Plan,
    body: &'a Body,
    args: &'a Arguments,
    tile: &'a Tile,
    part: Part,
    /// The position of `s` that has just become usable.
    j: String,
    /// By array, slot, row and column, for each level but the last; columns start before those of the lane.
    levels: Vec<Vec<Vec<Vec<Vec<String>>>>>,
    /// How far each array is read before and behind along `x`.
    sides: Vec<(i64, i64)>,
    scalars: HashMap<usize, String>,
    /// The index of each column, where the body asks for it.
    columns: Vec<String>,
    /// For each width of accesses, by group, where to load and whether to store.
    groups: HashMap<i64, Vec<(String, String)>>,
    depends: Vec<(bool, bool)>,
}

/// What is being computed: level, slot of the newest position, position of `s`, and what is known already.
struct Now {
    level: i64,
    slot: i64,
    s: String,
    known: HashMap<(Id, i64, i64), String>,
}

impl Walk<'_> {
    fn write(w: &mut Writer, plan: &Plan, body: &Body, args: &Arguments, tile: &Tile, part: Part) -> Option<()> {
        let mut sides = vec![(0, 0); body.carried.len()];
        for id in body.live() {
            if let &Node::Carried { array, offset, .. } = body.node(id) {
                let side = &mut sides[array];
                *side = (side.0.max(-offset[2]), side.1.max(offset[2]));
            }
        }
        let j = w.fresh(Width::Single);
        let depends = depends(body);
        let mut walk = Walk {
            w,
            plan,
            body,
            args,
            tile,
            part,
            j,
            levels: vec![],
            sides,
            scalars: HashMap::new(),
            columns: vec![],
            groups: HashMap::new(),
            depends,
        };
        walk.prepare()?;
        walk.walk()
    }

    /// Registers and numbers that stay the same on the way.
    fn prepare(&mut self) -> Option<()> {
        let plan = self.plan;
        for level in 0..plan.steps {
            let mut arrays = vec![];
            for (&elem, &(low, high)) in self.body.carried.iter().zip(&self.sides) {
                let width = kept(elem)?;
                let mut slots = vec![];
                for _ in 0..plan.slots() {
                    let mut rows = vec![];
                    for _ in 0..plan.rows_of(level) {
                        rows.push((0..low + plan.columns + high).map(|_| self.w.fresh(width)).collect::<Vec<_>>());
                    }
                    slots.push(rows);
                }
                arrays.push(slots);
            }
            self.levels.push(arrays);
        }
        // What is read before it is computed does not count, but is a number.
        for (array, &elem) in self.body.carried.iter().enumerate() {
            let bits = if kept(elem)? == Width::Double { 64 } else { 32 };
            for level in 0..plan.steps as usize {
                for r in self.levels[level][array].iter().flatten().flatten() {
                    self.w.line(format!("mov.b{bits} {r}, 0;"));
                }
            }
        }
        for id in self.body.live() {
            match *self.body.node(id) {
                Node::Scalar(input) => {
                    let elem = self.body.inputs[input].elem;
                    let address = self.args.inputs[input].clone();
                    let value = self.load(elem, &address, 0)?;
                    self.scalars.insert(input, value);
                }
                Node::Index { dim: 2, .. } if self.columns.is_empty() => {
                    for e in 0..plan.columns {
                        let x = self.w.set(Width::Single, |r| format!("add.s32 {r}, {}, {e};", self.tile.x));
                        let x = self.brought_back(2, x);
                        self.columns.push(x);
                    }
                }
                _ => {}
            }
        }
        for elem in self.body.carried.clone() {
            let size = self.group(elem);
            if !self.groups.contains_key(&size) {
                let groups = (0..plan.columns / size).map(|q| self.place_group(q * size, size)).collect();
                self.groups.insert(size, groups);
            }
        }
        Some(())
    }

    /// Elements that are loaded and stored at once.
    fn group(&self, elem: ElementType) -> i64 {
        let most = self.plan.columns.min(4).min(16 / elem.storage_bytes() as i64);
        let [s, y, x] = self.plan.dims;
        let is_flat = self.part == Part::Middle && s == 1 && y == 1;
        if is_flat || x % most == 0 { most } else { 1 }
    }

    /// Where the group that starts at column `e` is loaded from, and whether it is stored.
    fn place_group(&mut self, e: i64, size: i64) -> (String, String) {
        let plan = self.plan;
        let x = self.w.set(Width::Single, |r| format!("add.s32 {r}, {}, {e};", self.tile.x));
        let own = self.w.set(Width::Single, |r| format!("sub.s32 {r}, {x}, {};", self.tile.start));
        let mut stores = self.w.set(Width::Truth, |p| format!("setp.ge.s32 {p}, {own}, {};", plan.halo.0));
        let mut and = |w: &mut Writer, code: String, p: String| {
            w.line(code);
            stores = w.set(Width::Truth, |r| format!("and.pred {r}, {stores}, {p};"));
        };
        let p = self.w.fresh(Width::Truth);
        and(self.w, format!("setp.lt.s32 {p}, {own}, {};", plan.halo.0 + plan.stride()), p);
        if self.part == Part::Middle {
            return (x, stores);
        }
        let p = self.w.fresh(Width::Truth);
        and(self.w, format!("setp.lt.s32 {p}, {x}, {};", plan.dims[2]), p);
        let x = self.brought_back(2, x);
        (self.clamped(x, plan.dims[2] - size), stores)
    }

    /// The index that a position is, in a dimension that goes round.
    fn brought_back(&mut self, dim: usize, x: String) -> String {
        let is_round = self.part == Part::Anywhere && self.plan.periodic[dim];
        if is_round { self.wrapped(dim, x) } else { x }
    }

    fn wrapped(&mut self, dim: usize, x: String) -> String {
        let n = self.plan.dims[dim];
        let w = &mut *self.w;
        let below = w.set(Width::Truth, |p| format!("setp.lt.s32 {p}, {x}, 0;"));
        let up = w.set(Width::Single, |r| format!("add.s32 {r}, {x}, {n};"));
        let x = w.set(Width::Single, |r| format!("selp.s32 {r}, {up}, {x}, {below};"));
        let above = w.set(Width::Truth, |p| format!("setp.ge.s32 {p}, {x}, {n};"));
        let down = w.set(Width::Single, |r| format!("sub.s32 {r}, {x}, {n};"));
        w.set(Width::Single, |r| format!("selp.s32 {r}, {down}, {x}, {above};"))
    }

    /// `x`, but no less than 0 and no more than `last`: what is beside an array does not count, but is read.
    fn clamped(&mut self, x: String, last: i64) -> String {
        let low = self.w.set(Width::Single, |r| format!("max.s32 {r}, {x}, 0;"));
        self.w.set(Width::Single, |r| format!("min.s32 {r}, {low}, {last};"))
    }

    /// The index of position `x` of a dimension to load from.
    fn loadable(&mut self, dim: usize, x: String) -> String {
        if self.part == Part::Middle {
            return x;
        }
        let x = self.brought_back(dim, x);
        self.clamped(x, self.plan.dims[dim] - 1)
    }

    fn walk(&mut self) -> Option<()> {
        let plan = self.plan;
        let (k, (low, high), slots) = (plan.steps, plan.reach[0], plan.slots());
        self.w.line(format!("sub.s32 {}, {}, {};", self.j, self.tile.s, k * low));
        let last = self.w.set(Width::Single, |r| format!("add.s32 {r}, {}, {};", self.tile.end, k * high - 1));
        let first = self.w.set(Width::Single, |r| format!("add.s32 {r}, {}, {};", self.tile.s, k * high));
        let (again, end) = (self.w.label(), self.w.label());
        for slot in 0..plan.ahead {
            self.load_position(slot, &last)?;
        }
        self.w.place(&again);
        for u in 0..slots {
            self.load_position_from(u, plan.ahead, &last)?;
            self.share(0, u);
            for level in 1..=k {
                let slot = (u - level * high).rem_euclid(slots);
                let s = self.w.set(Width::Single, |r| format!("sub.s32 {r}, {}, {};", self.j, level * high));
                let skip = (level == k).then(|| self.w.label());
                if let Some(skip) = &skip {
                    let early = self.w.set(Width::Truth, |p| format!("setp.lt.s32 {p}, {}, {first};", self.j));
                    self.w.line(format!("@{early} bra {skip};"));
                }
                self.level(level, slot, s)?;
                if let Some(skip) = skip {
                    self.w.place(&skip);
                }
            }
            let is_last = self.w.set(Width::Truth, |p| format!("setp.ge.s32 {p}, {}, {last};", self.j));
            self.w.line(format!("@{is_last} bra {end};"));
            self.w.line(format!("add.s32 {0}, {0}, 1;", self.j));
        }
        self.w.line(format!("bra {again};"));
        self.w.place(&end);
        Some(())
    }

    /// Loads the position `slot` behind the first.
    fn load_position(&mut self, slot: i64, last: &str) -> Option<()> {
        let s = self.w.set(Width::Single, |r| format!("add.s32 {r}, {}, {slot};", self.j));
        self.load_into(slot, s, last)
    }

    /// Loads the position `ahead` behind the one that is used next, which is in slot `u`.
    fn load_position_from(&mut self, u: i64, ahead: i64, last: &str) -> Option<()> {
        let s = self.w.set(Width::Single, |r| format!("add.s32 {r}, {}, {ahead};", self.j));
        self.load_into((u + ahead).rem_euclid(self.plan.slots()), s, last)
    }

    fn load_into(&mut self, slot: i64, s: String, last: &str) -> Option<()> {
        let plan = self.plan;
        let s = self.w.set(Width::Single, |r| format!("min.s32 {r}, {s}, {last};"));
        let s = self.loadable(0, s);
        for m in 0..plan.rows_of(0) {
            let y = m - plan.steps * plan.reach[1].0;
            let row = self.row(&s, y);
            for array in 0..self.body.carried.len() {
                let (elem, low) = (self.body.carried[array], self.sides[array].0 as usize);
                let size = self.group(elem);
                let targets =
                    self.levels[0][array][slot as usize][m as usize][low..low + plan.columns as usize].to_vec();
                for (q, into) in targets.chunks(size as usize).enumerate() {
                    let address = self.address(&self.args.from[array].clone(), &row, elem, q, size);
                    self.load_group(elem, &address, into)?;
                }
            }
        }
        Some(())
    }

    /// Gets what the lanes beside this one have of the position in a slot of a level.
    fn share(&mut self, level: i64, slot: i64) {
        let columns = self.plan.columns;
        for array in 0..self.body.carried.len() {
            let (low, high) = self.sides[array];
            let is_wide = self.body.carried[array].bits() == 64;
            for m in 0..self.plan.rows_of(level) {
                let row = self.levels[level as usize][array][slot as usize][m as usize].clone();
                let at = |e: i64| &row[(e + low) as usize];
                for e in (-low..0).chain(columns..columns + high) {
                    let (way, from) = if e < 0 { ("up", e + columns) } else { ("down", e - columns) };
                    self.shuffle(way, at(e), at(from), is_wide);
                }
            }
        }
    }

    fn shuffle(&mut self, way: &str, into: &str, from: &str, is_wide: bool) {
        // Below lane 0 and above lane 31 there is none; the lane's own number is as good as any.
        let bound = if way == "up" { 0 } else { 31 };
        let w = &mut *self.w;
        if !is_wide {
            return w.line(format!("shfl.sync.{way}.b32 {into}, {from}, 1, {bound}, 0xffffffff;"));
        }
        let [low, high] = [w.fresh(Width::Single), w.fresh(Width::Single)];
        w.line(format!("mov.b64 {{{low}, {high}}}, {from};"));
        let half = |w: &mut Writer, x: &str| {
            w.set(Width::Single, |r| format!("shfl.sync.{way}.b32 {r}, {x}, 1, {bound}, 0xffffffff;"))
        };
        let [low, high] = [half(w, &low), half(w, &high)];
        w.line(format!("mov.b64 {into}, {{{low}, {high}}};"));
    }

    /// Computes a level at the position `s`, which goes to `slot`, or to memory if it is the last.
    fn level(&mut self, level: i64, slot: i64, s: String) -> Option<()> {
        let plan = self.plan;
        let mut now = Now { level, slot, s, known: HashMap::new() };
        let mut row_of = None;
        for m in 0..plan.rows_of(level) {
            if level == plan.steps {
                let s = now.s.clone();
                row_of = Some(self.row(&s, m));
            }
            for array in 0..self.body.carried.len() {
                let elem = self.body.carried[array];
                let values = (0..plan.columns)
                    .map(|e| self.value(&mut now, self.body.results[array], m, e))
                    .collect::<Option<Vec<_>>>()?;
                let values = values.into_iter().map(|v| self.keep(elem, v)).collect::<Option<Vec<_>>>()?;
                match &row_of {
                    Some(row) => self.store(array, elem, row, m, &values)?,
                    None => {
                        let low = self.sides[array].0 as usize;
                        let bits = if kept(elem)? == Width::Double { 64 } else { 32 };
                        for (e, value) in values.iter().enumerate() {
                            let into = &self.levels[level as usize][array][slot as usize][m as usize][low + e];
                            self.w.line(format!("mov.b{bits} {into}, {value};"));
                        }
                    }
                }
            }
        }
        if level < plan.steps {
            self.share(level, slot);
        }
        Some(())
    }
}
