//! How a kernel goes over the arrays.
//!
//! Each warp has a tile of its own and needs no other. Its 32 lanes hold [`Plan::columns`] neighboring elements of `x` each,
//! [`Plan::rows`] rows of `y`, and walk along `s` over [`Plan::chunk`] positions. On the way every level of time, from the loaded
//! one to the stored one, keeps the few positions of `s` that the next level reads, in registers. What lanes need of each other
//! goes by shuffles. At the edges of a tile levels become wrong by the reach of the body, one after the other, so tiles overlap by
//! [`Plan::steps`] times the reach, and only what is right is stored.

use super::body::Body;
use super::fold::{self, Region};

/// Threads of a block: four warps, which know nothing of each other.
pub(crate) const THREADS: i64 = 128;
/// Lanes of a warp.
pub(crate) const LANES: i64 = 32;
/// 32-bit registers that the positions of all levels may take.
const MOST_REGISTERS: i64 = 200;
/// The farthest that a body may read along `x`; along the other dimensions half of it.
const MOST_REACH: i64 = 8;
/// Warps that keep a large device busy.
const WARPS: i64 = 2400;

/// What is asked for instead of what would be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wish {
    /// Turns that a pass does.
    pub steps: Option<u64>,
}

/// The shape of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    pub dims: [i64; 3],
    pub reach: [(i64, i64); 3],
    pub periodic: [bool; 3],
    /// Turns that one pass over the arrays does.
    pub steps: i64,
    pub columns: i64,
    pub rows: i64,
    pub chunk: i64,
    /// Positions that are loaded ahead.
    pub ahead: i64,
    /// Elements of `x` before and behind those that a warp stores.
    pub halo: (i64, i64),
    /// Where the simpler body can be used.
    pub middle: Region,
}

impl Plan {
    /// Elements of `x` that a warp stores.
    pub fn stride(&self) -> i64 {
        LANES * self.columns - self.halo.0 - self.halo.1
    }

    /// Tiles per dimension.
    pub fn tiles(&self) -> [i64; 3] {
        let [s, y, x] = self.dims;
        [parts(s, self.chunk), parts(y, self.rows), parts(x, self.stride())]
    }

    /// Blocks of threads.
    pub fn blocks(&self) -> i64 {
        parts(self.tiles().iter().product::<i64>() * LANES, THREADS)
    }

    /// Positions of `s` that a level keeps, the ones loaded ahead included.
    pub fn slots(&self) -> i64 {
        self.reach[0].0 + self.reach[0].1 + 1 + self.ahead
    }

    /// Rows of `y` that a level holds.
    pub fn rows_of(&self, level: i64) -> i64 {
        self.rows + (self.steps - level) * (self.reach[1].0 + self.reach[1].1)
    }
}

/// How to go over the arrays of `body`, for at most `turns` turns at a time; `None` if it reads too far.
pub(crate) fn plan(body: &Body, turns: u64, wish: Wish) -> Option<Plan> {
    let (reach, periodic, dims) = (body.reach(), body.periodic(), body.dims);
    let far = |d: usize| reach[d].0.max(reach[d].1);
    if far(2) > MOST_REACH || far(1) > MOST_REACH / 2 || far(0) > MOST_REACH / 2 {
        return None;
    }
    let words: i64 = body.carried.iter().map(|e| if e.bits() == 64 { 2 } else { 1 }).sum();
    let is_flat = dims[0] == 1 && dims[1] == 1;
    let has_rows = far(1) > 0;
    let mut columns = if is_flat {
        16
    } else if has_rows {
        2
    } else {
        4
    };
    if words > 1 && is_flat {
        columns = 8;
    }
    while columns < far(2) {
        columns *= 2;
    }
    let rows = if has_rows { 4.min(dims[1]) } else { 1 };
    let wanted = wish.steps.unwrap_or(if is_flat {
        16
    } else if has_rows {
        2
    } else {
        4
    });
    let mut plan = Plan {
        dims,
        reach,
        periodic,
        steps: wanted.clamp(1, turns.max(1)) as i64,
        columns,
        rows,
        chunk: 1,
        ahead: if dims[0] == 1 {
            0
        } else if has_rows {
            1
        } else {
            2
        },
        halo: (0, 0),
        middle: fold::middle(body),
    };
    while plan.steps > 1 && !fits(&plan, words) {
        plan.steps -= 1;
    }
    // The far end of a dimension that goes round is at most once round away.
    let round = |d: usize| !periodic[d] || plan.steps * far(d) <= dims[d];
    if !(0..3).all(round) {
        return None;
    }
    plan.halo = halo(&plan);
    let others = plan.tiles()[1] * plan.tiles()[2];
    let chunks = (WARPS / others).max(1);
    let least = 4 * plan.steps * (reach[0].0 + reach[0].1);
    plan.chunk = parts(dims[0], chunks).max(least).clamp(1, dims[0]);
    Some(plan)
}

/// How many parts of `size` there are in `n`, the last of which may be smaller.
fn parts(n: i64, size: i64) -> i64 {
    (n + size - 1) / size
}

/// Whole groups of elements that are loaded at once.
fn halo(plan: &Plan) -> (i64, i64) {
    let group = plan.columns.min(4);
    let round = |n: i64| parts(n, group) * group;
    (round(plan.steps * plan.reach[2].0), round(plan.steps * plan.reach[2].1))
}

/// Whether so many steps at a time are worth it: positions fit into registers, and tiles overlap by a quarter at most.
fn fits(plan: &Plan, words: i64) -> bool {
    let width = plan.columns + plan.reach[2].0 + plan.reach[2].1;
    let window = plan.reach[0].0 + plan.reach[0].1 + 1;
    let levels: i64 =
        (0..plan.steps).map(|t| plan.rows_of(t) * if t == 0 { window + plan.ahead } else { window }).sum();
    let registers = words * width * if window == 1 { 2 * plan.rows_of(0) } else { levels };
    let (low, high) = halo(plan);
    let far = |d: usize| plan.reach[d].0.max(plan.reach[d].1);
    let round = (0..3).all(|d| !plan.periodic[d] || plan.steps * far(d) <= plan.dims[d]);
    registers <= MOST_REGISTERS && 4 * (low + high) <= LANES * plan.columns && round
}
