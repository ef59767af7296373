//! Fourier transforms: one dimension after the other, each whole while it is transformed.
//!
//! A transform of several dimensions is one of each in turn, so only one has to be whole at a time, and the split moves
//! between dimensions by all-to-alls. A dimension that has nowhere to move its split to is transformed across shards: as
//! a matrix of p rows on p devices, first along the columns, then along the rows, in three exchanges. Real numbers are
//! sent as such in the first; of their transform the first half is kept, where it stands. A transform to real numbers
//! starts from that half, doubled, and sends real numbers in the last exchange.

use meshwork_ir::op::{BinaryOp, LinalgOp, MixedOp, MovementOp, UnaryOp};
use meshwork_ir::{Attr, Direction, ElementType, OpId, OpKind, Type, ValueId};
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
    /// Whether the dimension stays split.
    across: bool,
}

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
        let other = if steps.iter().any(|s| s.across) { best(Use::Never).map(|b| b.0) } else { None };
        let mut form: Option<Form> = None;
        for step in steps {
            self.reason = if step.across {
                let less = other.map_or(String::new(), |other| {
                    format!(" ({} sent; bringing it together would send {})", human_bytes(sent), human_bytes(other))
                });
                format!(
                    "{}: dimension {} is transformed across its shards in three exchanges{less}",
                    Algorithm::Fft,
                    step.dim
                )
            } else {
                format!("the transform needs dimension {} whole", step.dim)
            }
            .into();
            let Form { value, layout } = match form.take() {
                None => Form { value: self.get(operand, &step.layout)?, layout: step.layout.clone() },
                Some(form) => self.reshard(form, &step.layout, &step.extents),
            };
            form = Some(if step.across {
                Form { value: self.transform_across(value, &step), layout }
            } else {
                self.transform_dim(value, layout, &step, last.1)
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
            if across {
                let p = self.atoms.product(&layout.dims[dim].atoms) as f64;
                // One exchange of three is of real numbers, half as long as complex ones.
                let sent = match kind {
                    Kind::Forward | Kind::Inverse => 3.0,
                    Kind::FromReal => 5.0,
                    Kind::ToReal => 2.5,
                };
                cost += sent * (p - 1.0) / p * layout.local_elements() as f64 * bytes;
            }
            let mut after = layout.clone();
            if dim + 1 == rank && !across {
                after.dims[dim] = DimLayout::whole(plan.last.1);
            }
            let length = if kind == Kind::ToReal { plan.last.1 } else { extents[dim] };
            done.push(Step { dim, kind, extents: extents.clone(), length, layout, across });
            self.plan_steps(plan, rest, &after, so_far + cost, done);
            done.pop();
        }
    }

    /// Layouts in which `dim` can be transformed, from `at`; whether it stays split.
    fn step_layouts(
        &mut self,
        plan: &Plan,
        at: &Layout,
        dim: usize,
        kind: Kind,
        extents: &[i64],
    ) -> Vec<(Layout, bool)> {
        let atoms = self.atoms;
        if !at.dims[dim].is_split() {
            return vec![(at.clone(), false)];
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
                out.push((layout, false));
            }
        }
        let want = self.want(plan.result).lists();
        if want[dim].is_empty() {
            out.push((Layout::ordinary(extents, &want, atoms), false));
        }
        let p = atoms.product(moving);
        let n = if kind == Kind::ToReal { plan.last.1 } else { extents[dim] };
        if n % (p * p) == 0 && n * p < 1 << 30 && plan.across != Use::Never {
            let mut layout = at.clone();
            layout.dims[dim] = DimLayout::split(n, moving.clone(), atoms);
            if plan.across == Use::Always {
                return vec![(layout, true)];
            }
            out.push((layout, true));
        }
        out.push((whole(at), false));
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

    /// The transform of a dimension that stays split in p shards of m elements.
    ///
    /// With j = d·m + c and k = k' + p·k", the sum over j is one over d for each c, a factor, and one over c for each k'.
    /// A real line of n elements gives n too, the first n/2 + 1 of which are asked for; from those come n real ones.
    fn transform_across(&mut self, value: ValueId, step: &Step) -> ValueId {
        let frame = step.layout.dims[step.dim].clone();
        let rank = step.layout.dims.len();
        let (p, m) = (self.atoms.product(&frame.atoms), frame.block);
        let value = self.swapped(value, step.dim, rank - 1);
        let value = if step.kind == Kind::ToReal { self.spectrum(value, &frame, step) } else { value };
        let outer = self.local.dims(value)[..rank - 1].to_vec();
        let shape = |tail: &[i64]| [&outer[..], tail].concat();
        // From [.., c] to [.., d, c]: every device gets its share of the columns, all rows of it.
        let value = self.local.reshape(value, &shape(&[p, m / p]));
        let value = self.exchange(value, rank - 1, &frame.atoms);
        let value = self.swapped(value, rank - 1, rank);
        let (value, kind) = (self.as_complex(value), step.kind.complex());
        let value = self.transform_last(value, kind, p);
        let factors = self.twiddles(&frame, step, p, self.local.elem(value));
        let dims = self.local.dims(value);
        let factors = self.local.broadcast(factors, &dims, &[rank as i64 - 1, rank as i64]);
        let value = self.local.same(OpKind::Binary(BinaryOp::Multiply), &[value, factors]);
        // From [.., c, k'] to all of c for one k'.
        let value = self.exchange(value, rank, &frame.atoms);
        let value = self.swapped(value, rank - 1, rank);
        let value = self.local.reshape(value, &shape(&[m]));
        let mut value = self.transform_last(value, kind, m);
        if step.kind == Kind::ToReal {
            let t = self.local.tensor(value).clone();
            let ty = Type::tensor(t.dims.iter().copied(), t.elem.real_part());
            value = self.local.op(OpKind::Unary(UnaryOp::Real), &[value], ty, &[]);
        }
        // From k" for one k' to a run of k' + p·k".
        let value = self.local.reshape(value, &shape(&[p, m / p]));
        let value = self.exchange(value, rank - 1, &frame.atoms);
        let value = self.swapped(value, rank - 1, rank);
        let value = self.local.reshape(value, &shape(&[m]));
        self.swapped(value, step.dim, rank - 1)
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

    /// exp(∓2πi·c·k/n) for this device's columns c and all k < p.
    fn twiddles(&mut self, frame: &DimLayout, step: &Step, p: i64, elem: ElementType) -> ValueId {
        let real = elem.real_part();
        let n = step.length;
        let dims = [frame.block / p, p];
        let e = &mut self.local;
        let index = e.index;
        let start = e.shard_offset(&frame.atoms, dims[0], 0);
        let start = e.broadcast(start, &dims, &[]);
        let (column, k) = (e.iota(&dims, 0, index), e.iota(&dims, 1, index));
        let column = e.same(OpKind::Binary(BinaryOp::Add), &[column, start]);
        let turns = e.same(OpKind::Binary(BinaryOp::Multiply), &[column, k]);
        let count = e.index_constant(n);
        let count = e.broadcast(count, &dims, &[]);
        let turns = e.same(OpKind::Binary(BinaryOp::Remainder), &[turns, count]);
        let turns = e.op(OpKind::Mixed(MixedOp::Convert), &[turns], Type::tensor(dims, real), &[]);
        let sign = if step.kind.complex() == Kind::Inverse { 1.0 } else { -1.0 };
        let unit = e.splat_number(&dims, real, sign * std::f64::consts::TAU / n as f64);
        let angle = e.same(OpKind::Binary(BinaryOp::Multiply), &[turns, unit]);
        let (cosine, sine) =
            (e.same(OpKind::Unary(UnaryOp::Cosine), &[angle]), e.same(OpKind::Unary(UnaryOp::Sine), &[angle]));
        e.op(OpKind::Binary(BinaryOp::Complex), &[cosine, sine], Type::tensor(dims, elem), &[])
    }

    /// A local value with two dimensions swapped.
    fn swapped(&mut self, value: ValueId, a: usize, b: usize) -> ValueId {
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
