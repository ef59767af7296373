//! Fourier transforms: one dimension after the other, each whole while it is transformed.
//!
//! A transform of several dimensions is one of each in turn, so only one has to be whole at a time, and the split moves
//! between dimensions by all-to-alls. A dimension that has nowhere to move its split to is transformed across shards: as
//! a matrix whose rows are split, first along the columns, then along the rows, in three exchanges. Any length that has
//! two factors is such a matrix; the best one has about as many rows and columns as devices divide. Real numbers are
//! sent as such in the first exchange; of their transform the first half is kept, where it stands. A transform to real
//! numbers starts from that half, doubled, and sends real numbers in the last exchange.

use meshwork_ir::op::{BinaryOp, LinalgOp, MixedOp, MovementOp, UnaryOp};
use meshwork_ir::{Attr, Direction, ElementType, OpId, OpKind, Type, ValueId};
use meshwork_mesh::sort_by_key;
use smallvec::SmallVec;

use super::{Result, Splitter};
use crate::algorithm::{Algorithm, Use};
use crate::layout::atoms::AtomList;
use crate::layout::{DimLayout, Layout};
use crate::plan::human_bytes;
use crate::reshard::moves::Form;

type Extents = SmallVec<[i64; 4]>;

/// The transform of one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Forward,
    Inverse,
    FromReal,
    ToReal,
}

impl Kind {
    fn of(text: &str) -> Option<Kind> {
        Some(match text {
            "FFT" => Kind::Forward,
            "IFFT" => Kind::Inverse,
            "RFFT" => Kind::FromReal,
            "IRFFT" => Kind::ToReal,
            _ => return None,
        })
    }

    fn text(self) -> &'static str {
        match self {
            Kind::Forward => "FFT",
            Kind::Inverse => "IFFT",
            Kind::FromReal => "RFFT",
            Kind::ToReal => "IRFFT",
        }
    }

    /// The transform of a dimension that is not the last.
    fn complex(self) -> Kind {
        match self {
            Kind::Forward | Kind::FromReal => Kind::Forward,
            Kind::Inverse | Kind::ToReal => Kind::Inverse,
        }
    }
}

/// One dimension's transform and how it is done.
#[derive(Clone, Debug)]
struct Step {
    dim: usize,
    kind: Kind,
    /// Extents before it.
    extents: Extents,
    /// Elements of the longer side of the transform.
    length: i64,
    /// The layout it is done in.
    layout: Layout,
    /// As which matrix the dimension is transformed, if it stays split.
    across: Option<Grid>,
}

/// A line of elements as a matrix, row after row, whose rows are split over devices, and then its columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Grid {
    rows: i64,
    columns: i64,
    devices: i64,
}

impl Grid {
    /// The matrices that a line of `n` elements can be for as many devices, those that exchange least first.
    fn all(n: i64, devices: i64) -> Vec<Grid> {
        let mut out: Vec<Grid> = vec![];
        let mut small = 2;
        while small * small <= n {
            if n % small == 0 {
                out.push(Grid { rows: small, columns: n / small, devices });
                out.push(Grid { rows: n / small, columns: small, devices });
            }
            small += 1;
        }
        // Even shares of rows leave the elements where they are before, even shares of columns after.
        sort_by_key(&mut out, |g| (g.sent(), (g.rows % devices != 0) as u8 + (g.columns % devices != 0) as u8, g.rows));
        out.dedup();
        out
    }

    /// Rows of a device.
    fn own_rows(&self) -> i64 {
        (self.rows + self.devices - 1) / self.devices
    }

    /// Columns of a device.
    fn own_columns(&self) -> i64 {
        (self.columns + self.devices - 1) / self.devices
    }

    /// Elements that a device sends in an exchange.
    fn sent(&self) -> i64 {
        (self.devices - 1) * self.own_rows() * self.own_columns()
    }

    /// The same with rows for columns.
    fn turned(self) -> Grid {
        Grid { rows: self.columns, columns: self.rows, ..self }
    }
}

/// Matrices that are tried for a dimension, at most.
const MOST_GRIDS: usize = 3;

/// A transform being planned.
struct Plan {
    operand: ValueId,
    result: ValueId,
    kind: Kind,
    /// Length of the last dimension in the real or complex form it has before the transform, and after.
    last: (i64, i64),
    /// Whether dimensions may be transformed across shards.
    across: Use,
    best: Option<(f64, Vec<Step>)>,
}

impl Splitter<'_> {
    /// Splits an `fft`.
    pub fn fft(&mut self, op: OpId) -> Result<()> {
        let data = self.src.op(op);
        let (operand, result) = (data.operands()[0], data.results()[0]);
        let lengths = data.i64s("fft_length").unwrap_or_default();
        let rank = self.extents(operand).len();
        let kind = data.enum_value("fft_type").and_then(Kind::of);
        let (Some(kind), false) = (kind, self.is_free(operand)) else { return self.generic(op) };
        let last = self.extents(operand).last().copied().zip(self.extents(result).last().copied());
        let (Some(last), true) = (last, !lengths.is_empty() && lengths.len() <= rank) else { return self.generic(op) };
        let dims: Vec<usize> = (rank - lengths.len()..rank).collect();
        let start = self.current(operand);
        let across = self.algorithms.of(Algorithm::Fft);
        let mut best = |across: Use| {
            let mut plan = Plan { operand, result, kind, last, across, best: None };
            for order in orders(&dims, kind) {
                self.plan_steps(&mut plan, &order, &start, 0.0, &mut vec![]);
            }
            plan.best
        };
        let Some((sent, steps)) = best(across) else { return self.generic(op) };
        let other = if steps.iter().any(|s| s.across.is_some()) { best(Use::Never).map(|b| b.0) } else { None };
        let mut form: Option<Form> = None;
        for step in steps {
            self.reason = if step.across.is_some() {
                let less = other.map_or(String::new(), |other| {
                    format!(" ({} sent; bringing it together would send {})", human_bytes(sent), human_bytes(other))
                });
                format!(
                    "{}: dimension {} is transformed across its shards in three exchanges{less}",
                    Algorithm::Fft,
                    step.dim
                )
            } else if step.length > 3 && Grid::all(step.length, 1).is_empty() && across != Use::Never {
                let (dim, n) = (step.dim, step.length);
                format!("the transform needs dimension {dim} whole: {n} is prime, so it cannot go across shards")
            } else {
                format!("the transform needs dimension {} whole", step.dim)
            }
            .into();
            let Form { value, layout } = match form.take() {
                None => Form { value: self.get(operand, &step.layout)?, layout: step.layout.clone() },
                Some(form) => self.reshard(form, &step.layout, &step.extents),
            };
            form = Some(match step.across {
                Some(grid) => self.transform_across(value, layout, &step, grid),
                None => self.transform_dim(value, layout, &step, last.1),
            });
        }
        if let Some(form) = form {
            self.set(result, form);
        }
        Ok(())
    }

    /// Tries all ways to do the dimensions of `order` from `at` on, which cost `so_far`.
    fn plan_steps(&mut self, plan: &mut Plan, order: &[usize], at: &Layout, so_far: f64, done: &mut Vec<Step>) {
        if plan.best.as_ref().is_some_and(|b| b.0 <= so_far) {
            return;
        }
        let Some((&dim, rest)) = order.split_first() else {
            let (want, extents) = (self.want(plan.result), self.extents(plan.result));
            let back = self.paths.cost(at, &want, &extents, self.atoms) * self.element_bytes(plan.result);
            // Less work per device decides between equals.
            let work: i64 = done.iter().map(|s| s.layout.local_elements()).sum();
            let cost = so_far + back + 1e-9 * work as f64;
            if plan.best.as_ref().is_none_or(|b| cost < b.0) {
                plan.best = Some((cost, done.clone()));
            }
            return;
        };
        let rank = at.dims.len();
        let kind = if dim + 1 == rank { plan.kind } else { plan.kind.complex() };
        let mut extents = self.extents(plan.operand);
        let last_done = done.iter().any(|s| s.dim + 1 == rank);
        extents[rank - 1] = if last_done { plan.last.1 } else { plan.last.0 };
        let real = done.is_empty() && plan.kind == Kind::FromReal;
        let bytes = self.element_bytes(if real { plan.operand } else { plan.result });
        let bytes = if plan.kind == Kind::ToReal { 2.0 * bytes } else { bytes };
        for (layout, across) in self.step_layouts(plan, at, dim, kind, &extents) {
            let mut cost = if done.is_empty() {
                self.cost_to(plan.operand, &layout)
            } else {
                self.paths.cost(at, &layout, &extents, self.atoms) * bytes
            };
            let mut after = layout.clone();
            if let Some(grid) = across {
                // One exchange of three is of real numbers, half as long as complex ones.
                let exchanges = match kind {
                    Kind::Forward | Kind::Inverse => 3.0,
                    Kind::FromReal => 5.0,
                    Kind::ToReal => 2.5,
                };
                let lines = layout.local_elements() as f64 / layout.dims[dim].block.max(1) as f64;
                let slowness = self.atoms.slowness(&layout.dims[dim].atoms);
                cost += exchanges * grid.sent() as f64 * lines * bytes * slowness;
                after.dims[dim].block = grid.rows * grid.own_columns();
            } else if dim + 1 == rank {
                after.dims[dim] = DimLayout::whole(plan.last.1);
            }
            let length = if kind == Kind::ToReal { plan.last.1 } else { extents[dim] };
            done.push(Step { dim, kind, extents: extents.clone(), length, layout, across });
            self.plan_steps(plan, rest, &after, so_far + cost, done);
            done.pop();
        }
    }

    /// Layouts in which `dim` can be transformed, from `at`; as which matrix if it stays split.
    fn step_layouts(
        &mut self,
        plan: &Plan,
        at: &Layout,
        dim: usize,
        kind: Kind,
        extents: &[i64],
    ) -> Vec<(Layout, Option<Grid>)> {
        let atoms = self.atoms;
        if !at.dims[dim].is_split() {
            return vec![(at.clone(), None)];
        }
        let mut out = vec![];
        let whole = |layout: &Layout| {
            let mut layout = layout.clone();
            layout.dims[dim] = DimLayout::whole(extents[dim]);
            layout
        };
        let moving = &at.dims[dim].atoms;
        for e in (0..extents.len()).filter(|&e| e != dim) {
            let list: AtomList = at.dims[e].atoms.iter().chain(moving).copied().collect();
            if atoms.product(&list) <= extents[e] {
                let mut layout = whole(at);
                layout.dims[e] = DimLayout::split(extents[e], list, atoms);
                out.push((layout, None));
            }
        }
        let want = self.want(plan.result).lists();
        if want[dim].is_empty() {
            out.push((Layout::ordinary(extents, &want, atoms), None));
        }
        let p = atoms.product(moving);
        let n = if kind == Kind::ToReal { plan.last.1 } else { extents[dim] };
        if n + p < (1 << 30) / p && plan.across != Use::Never {
            let mut across = vec![];
            for grid in Grid::all(n, p).into_iter().take(MOST_GRIDS) {
                let mut layout = at.clone();
                let block = grid.own_rows() * grid.columns;
                layout.dims[dim] = DimLayout { atoms: moving.clone(), block, offset: 0 };
                across.push((layout, Some(grid)));
            }
            if plan.across == Use::Always && !across.is_empty() {
                return across;
            }
            out.extend(across);
        }
        out.push((whole(at), None));
        out
    }

    /// The transform of one whole dimension; `last` is what the last dimension's extent becomes.
    fn transform_dim(&mut self, value: ValueId, mut layout: Layout, step: &Step, last: i64) -> Form {
        let rank = layout.dims.len();
        if step.dim + 1 == rank {
            layout.dims[step.dim] = DimLayout::whole(last);
        }
        let value = self.swapped(value, step.dim, rank - 1);
        let value = self.transform_last(value, step.kind, step.length);
        Form { value: self.swapped(value, step.dim, rank - 1), layout }
    }

    /// The transform of the last dimension of a local value.
    fn transform_last(&mut self, value: ValueId, kind: Kind, length: i64) -> ValueId {
        let t = self.local.tensor(value).clone();
        let mut dims = t.dims.clone();
        let last = dims.len() - 1;
        let elem = match kind {
            Kind::Forward | Kind::Inverse => t.elem,
            Kind::FromReal => {
                dims[last] = length / 2 + 1;
                if t.elem == ElementType::F64 { ElementType::C128 } else { ElementType::C64 }
            }
            Kind::ToReal => {
                dims[last] = length;
                t.elem.real_part()
            }
        };
        let attrs = [("fft_type", Attr::hlo_enum("fft_type", kind.text())), ("fft_length", Attr::i64s(vec![length]))];
        self.local.op(OpKind::Linalg(LinalgOp::Fft), &[value], Type::tensor(dims.iter().copied(), elem), &attrs)
    }

    /// The transform of a dimension that stays split.
    ///
    /// With j = j'·columns + j" and k = k' + rows·k", the sum over j is one over j' for each j", a factor, and one over j"
    /// for each k'. A real line of n elements gives n too, the first n/2 + 1 of which are asked for; from those come n real
    /// ones.
    fn transform_across(&mut self, value: ValueId, mut layout: Layout, step: &Step, grid: Grid) -> Form {
        let frame = layout.dims[step.dim].clone();
        let rank = layout.dims.len();
        let value = self.swapped(value, step.dim, rank - 1);
        let value = if step.kind == Kind::ToReal { self.spectrum(value, &frame, step) } else { value };
        let outer = self.local.dims(value)[..rank - 1].to_vec();
        let rows = [&outer[..], &[grid.own_rows(), grid.columns]].concat();
        // Every device gets its share of the columns, all rows of it.
        let value = self.local.reshape(value, &rows);
        let value = self.turn(value, grid, &frame);
        let (value, kind) = (self.as_complex(value), step.kind.complex());
        let value = self.transform_last(value, kind, grid.rows);
        let factors = self.twiddles(&frame, step, grid, self.local.elem(value));
        let dims = self.local.dims(value);
        let factors = self.local.broadcast(factors, &dims, &[rank as i64 - 1, rank as i64]);
        let value = self.local.same(OpKind::Binary(BinaryOp::Multiply), &[value, factors]);
        // All of j" for its share of k'.
        let value = self.turn(value, grid.turned(), &frame);
        let mut value = self.transform_last(value, kind, grid.columns);
        if step.kind == Kind::ToReal {
            let t = self.local.tensor(value).clone();
            let ty = Type::tensor(t.dims.iter().copied(), t.elem.real_part());
            value = self.local.op(OpKind::Unary(UnaryOp::Real), &[value], ty, &[]);
        }
        // From all k" for some k' to all k' for some k": a run of k' + rows·k".
        let value = self.turn(value, grid, &frame);
        let line = [&outer[..], &[grid.own_columns() * grid.rows]].concat();
        let value = self.local.reshape(value, &line);
        layout.dims[step.dim].block = grid.rows * grid.own_columns();
        Form { value: self.swapped(value, step.dim, rank - 1), layout }
    }

    /// From `[.., rows of this device, columns]` to `[.., columns of this device, rows]`. Columns behind the end are zero.
    fn turn(&mut self, value: ValueId, grid: Grid, frame: &DimLayout) -> ValueId {
        let dims = self.local.dims(value);
        let (row, column) = (dims.len() - 2, dims.len() - 1);
        let (rows, columns, p) = (grid.own_rows(), grid.own_columns(), grid.devices);
        let shape = |tail: &[i64]| [&dims[..row], tail].concat();
        let value = self.local.pad(value, column, 0, columns * p - grid.columns);
        let value = self.local.reshape(value, &shape(&[rows, p, columns]));
        let value = self.exchange(value, column, &frame.atoms);
        // [.., own rows, devices, columns] of all devices: the columns outermost, then devices, then their rows.
        let value = self.swapped(value, row, column + 1);
        let value = self.local.reshape(value, &shape(&[columns, p * rows]));
        self.local.slice(value, column, 0, grid.rows)
    }

    /// The first half of the spectrum of real numbers, as one whose inverse transform has them as its real part: what is
    /// left out, the mirror image of all but the ends, is made up for by doubling, and nothing stands in its place.
    fn spectrum(&mut self, value: ValueId, frame: &DimLayout, step: &Step) -> ValueId {
        let (dims, elem) = (self.local.dims(value), self.local.elem(value));
        let last = dims.len() - 1;
        let nothing = self.local.zeros(&[], elem);
        let value = match self.local.element_mask(frame, step.extents[step.dim]) {
            Some(mask) => self.local.mask_dim(value, last, mask, nothing),
            None => value,
        };
        let (e, line, real) = (&mut self.local, [frame.block], elem.real_part());
        let place = e.iota(&line, 0, e.index);
        let start = e.shard_offset(&frame.atoms, frame.block, 0);
        let start = e.broadcast(start, &line, &[]);
        let place = e.same(OpKind::Binary(BinaryOp::Add), &[place, start]);
        let mut ends = vec![0];
        ends.extend((step.length % 2 == 0).then_some(step.length / 2));
        let mut factor = e.splat_number(&line, real, 2.0);
        let one = e.splat_number(&line, real, 1.0);
        for end in ends {
            let end = e.index_constant(end);
            let end = e.broadcast(end, &line, &[]);
            let is_end = e.compare(Direction::Eq, place, end);
            factor = e.select(is_end, one, factor);
        }
        let zero = e.zeros(&line, real);
        let factor = e.op(OpKind::Binary(BinaryOp::Complex), &[factor, zero], Type::tensor(line, elem), &[]);
        let factor = e.broadcast(factor, &dims, &[last as i64]);
        e.same(OpKind::Binary(BinaryOp::Multiply), &[value, factor])
    }

    /// A local value as complex numbers.
    fn as_complex(&mut self, value: ValueId) -> ValueId {
        let t = self.local.tensor(value).clone();
        let elem = match t.elem {
            ElementType::F64 => ElementType::C128,
            ElementType::F32 => ElementType::C64,
            _ => return value,
        };
        let zero = self.local.zeros(&t.dims, t.elem);
        self.local.op(
            OpKind::Binary(BinaryOp::Complex),
            &[value, zero],
            Type::tensor(t.dims.iter().copied(), elem),
            &[],
        )
    }

    /// exp(∓2πi·c·k/n) for this device's columns c and all k < rows.
    fn twiddles(&mut self, frame: &DimLayout, step: &Step, grid: Grid, elem: ElementType) -> ValueId {
        let real = elem.real_part();
        let n = step.length;
        let dims = [grid.own_columns(), grid.rows];
        let e = &mut self.local;
        let index = e.index;
        let start = e.shard_offset(&frame.atoms, dims[0], 0);
        let start = e.broadcast(start, &dims, &[]);
        let (column, k) = (e.iota(&dims, 0, index), e.iota(&dims, 1, index));
        let column = e.same(OpKind::Binary(BinaryOp::Add), &[column, start]);
        let turns = e.same(OpKind::Binary(BinaryOp::Multiply), &[column, k]);
        let turns = e.op(OpKind::Mixed(MixedOp::Convert), &[turns], Type::tensor(dims, real), &[]);
        let sign = if step.kind.complex() == Kind::Inverse { 1.0 } else { -1.0 };
        let unit = e.splat_number(&dims, real, sign * std::f64::consts::TAU / n as f64);
        let angle = e.same(OpKind::Binary(BinaryOp::Multiply), &[turns, unit]);
        let (cosine, sine) =
            (e.same(OpKind::Unary(UnaryOp::Cosine), &[angle]), e.same(OpKind::Unary(UnaryOp::Sine), &[angle]));
        e.op(OpKind::Binary(BinaryOp::Complex), &[cosine, sine], Type::tensor(dims, elem), &[])
    }

    /// A local value with two dimensions swapped.
    pub(super) fn swapped(&mut self, value: ValueId, a: usize, b: usize) -> ValueId {
        if a == b {
            return value;
        }
        let t = self.local.tensor(value).clone();
        let mut order: Vec<i64> = (0..t.rank() as i64).collect();
        order.swap(a, b);
        let dims: Vec<i64> = order.iter().map(|&d| t.dims[d as usize]).collect();
        self.local.op(
            OpKind::Movement(MovementOp::Transpose),
            &[value],
            t.with_dims(dims).into(),
            &[("permutation", Attr::i64s(order))],
        )
    }
}

/// The orders in which `dims` may be transformed: a real transform starts with the last dimension, one to real numbers
/// ends with it.
fn orders(dims: &[usize], kind: Kind) -> Vec<Vec<usize>> {
    let mut out: Vec<Vec<usize>> = vec![vec![]];
    for _ in dims {
        let longer = out.iter().flat_map(|o| dims.iter().filter(|d| !o.contains(d)).map(|&d| [&o[..], &[d]].concat()));
        out = longer.collect();
    }
    let last = dims.last();
    out.retain(|order| match kind {
        Kind::Forward | Kind::Inverse => true,
        Kind::FromReal => order.first() == last,
        Kind::ToReal => order.last() == last,
    });
    out
}
