//! Cholesky factorization of matrices that are split along a side: every device keeps and updates rows of its own, and
//! panels of columns go round.
//!
//! Rows are dealt out in turn first, so that what is left to do after each panel is as much on every device. For a panel,
//! all devices factor its square part; each solves for its rows below, and the solved rows of all devices update what is
//! right of the panel. A device holds its share of the matrix and a panel, sends about half of the matrix in all, and
//! does its share of the arithmetic.
//!
//! The side is filled up to a multiple of the square of the number of devices, block by block, with rows of the identity,
//! which stay what they are. Where bringing the matrix together is predicted to be faster, that is done instead.

use meshwork_ir::op::{BinaryOp, LinalgOp, MixedOp, UnaryOp};
use meshwork_ir::{Attr, Direction, ElementType, OpId, OpKind, Type, ValueId};
use meshwork_propagate::rules::{RuleResult, splitting_rule};

use super::{Result, Splitter};
use crate::algorithm::{Algorithm, Use};
use crate::layout::{DimLayout, Layout};
use crate::plan::cost::Class;
use crate::plan::human_bytes;
use crate::reshard::moves::Form;

/// Panels of a matrix, at most. With more of them less is computed on all devices at once, and more messages are sent.
const MOST_PANELS: i64 = 32;

/// What an algorithm takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bill {
    /// Bytes that a device sends.
    pub sent: f64,
    pub seconds: f64,
}

/// How the sides of a matrix are filled up and cut.
struct Side {
    /// Elements, and how they are split.
    n: i64,
    frame: DimLayout,
    /// Devices.
    p: i64,
    /// Rows of a device, filled up: a multiple of `p`.
    rows: i64,
}

impl Side {
    fn new(n: i64, frame: DimLayout, p: i64) -> Side {
        let rows = (frame.block + p - 1) / p * p;
        Side { n, frame, p, rows }
    }

    /// The side, filled up.
    fn length(&self) -> i64 {
        self.rows * self.p
    }

    /// Where panels begin and end: multiples of `p`.
    fn panels(&self) -> Vec<(i64, i64)> {
        let width = (self.rows + MOST_PANELS - 1) / MOST_PANELS * self.p;
        let starts = (0..self.length()).step_by(width.max(1) as usize);
        starts.map(|at| (at, (at + width).min(self.length()))).collect()
    }
}

impl Splitter<'_> {
    /// Splits a `cholesky`.
    pub fn cholesky(&mut self, op: OpId) -> Result<()> {
        let Some((layout, mut bill)) = self.distributed_cholesky(op) else { return self.generic(op) };
        let RuleResult::Rule(rule) = splitting_rule(self.src, op) else { return self.generic(op) };
        let problem = self.problem(op, rule, None);
        let assignment = self.choose(&problem).assignment;
        let other = self.cost(&problem, &assignment);
        let (operand, result) = (self.src.op(op).operands()[0], self.src.op(op).results()[0]);
        let (want, extents) = (self.want(result), self.extents(result));
        let back = self.paths.cost(&layout, &want, &extents, self.atoms) * self.element_bytes(result);
        bill.sent += back;
        bill.seconds += back / (self.fastest * 1e9);
        let slower = bill.seconds >= other.seconds(&problem.work, &self.machine, self.fastest);
        if slower && self.algorithms.of(Algorithm::Cholesky) == Use::Weighed {
            return self.generic(op);
        }
        self.reason = format!(
            "{}: panels of columns go round ({} sent; bringing the matrix together would send {} and factor it on each \
             device)",
            Algorithm::Cholesky,
            human_bytes(bill.sent),
            human_bytes(other.sent)
        )
        .into();
        let value = self.get(operand, &layout)?;
        let rank = extents.len();
        let (value, dim) =
            if self.src.op(op).flag("lower") { (value, rank - 2) } else { (self.adjoint(value), rank - 1) };
        let p = self.atoms.product(&layout.dims[dim].atoms);
        let side = Side::new(extents[dim], layout.dims[dim].clone(), p);
        let dims = self.local.dims(value);
        let batch = dims[..rank - 2].iter().product();
        let value = self.local.reshape(value, &[batch, side.frame.block, side.n]);
        let value = self.factor_rows(value, &side);
        let value = self.local.reshape(value, &dims);
        let value = if self.src.op(op).flag("lower") { value } else { self.adjoint(value) };
        self.set(result, Form { value, layout });
        Ok(())
    }

    /// The layout in which `op` can be factored with its side split, and what that takes. `None` if the side is not split,
    /// or the algorithm is switched off.
    fn distributed_cholesky(&mut self, op: OpId) -> Option<(Layout, Bill)> {
        if self.algorithms.of(Algorithm::Cholesky) == Use::Never {
            return None;
        }
        let (operand, result) = (self.src.op(op).operands()[0], self.src.op(op).results()[0]);
        let extents = self.extents(operand);
        let rank = extents.len();
        if rank < 2 || extents.contains(&0) || self.is_free(operand) {
            return None;
        }
        let (split, whole) = if self.src.op(op).flag("lower") { (rank - 2, rank - 1) } else { (rank - 1, rank - 2) };
        let mut found: Option<(Layout, Bill)> = None;
        for mut lists in [self.current(operand).lists(), self.want(result).lists()] {
            let other = std::mem::take(&mut lists[whole]);
            lists[split].extend(other);
            if lists[split].is_empty() {
                continue;
            }
            let layout = Layout::ordinary(&extents, &lists, self.atoms);
            let bill = self.cholesky_bill(operand, &layout, split);
            if found.as_ref().is_none_or(|f| bill.seconds < f.1.seconds) {
                found = Some((layout, bill));
            }
        }
        found
    }

    /// What it takes to bring `operand` to `layout`, and to factor it there.
    fn cholesky_bill(&mut self, operand: ValueId, layout: &Layout, split: usize) -> Bill {
        let frame = &layout.dims[split];
        let p = self.atoms.product(&frame.atoms);
        let side = Side::new(self.extents(operand)[split], frame.clone(), p);
        let batch = layout.local_elements() as f64 / (frame.block * side.n).max(1) as f64;
        let elem = self.src.ty(operand).elem().unwrap_or(ElementType::F32);
        let (length, rows, devices) = (side.length() as f64, side.rows as f64, p as f64);
        let (mut gathered, mut products, mut others) = (0.0, 0.0, 0.0);
        let panels = side.panels();
        for &(from, to) in &panels {
            let (w, below) = ((to - from) as f64, rows - to as f64 / devices);
            gathered += w * w / devices + below * w;
            products += 2.0 * below * w * (length - to as f64);
            others += w * w * w / 3.0 + below * w * w;
        }
        let exchanged = 2.0 * (devices - 1.0) / devices * rows * length;
        let sent = ((devices - 1.0) * gathered + exchanged) * batch * self.element_bytes(operand);
        let brought = self.cost_to(operand, layout);
        let touched = 2.0 * rows * length * batch * self.element_bytes(operand);
        let device = &self.machine.device;
        let work = device.rate_seconds(Class::Product, elem, products * batch, touched)
            + device.rate_seconds(Class::Other, elem, others * batch, 0.0);
        let messages = 2.0 + 2.0 * panels.len() as f64;
        let seconds = (brought + sent * self.atoms.slowness(&frame.atoms)) / (self.fastest * 1e9)
            + self.hop_seconds(&frame.atoms) * (devices - 1.0) * messages
            + work;
        Bill { sent: brought + sent, seconds }
    }

    /// The lower factor of `a`, rows of matrices `[batch, rows of this device, n]`, in the same form.
    fn factor_rows(&mut self, a: ValueId, side: &Side) -> ValueId {
        let (batch, elem) = (self.local.dims(a)[0], self.local.elem(a));
        let a = self.filled_up(a, side);
        let a = self.deal_out(a, side);
        let mut rest = a;
        let (mut columns, mut failed): (Vec<ValueId>, Option<ValueId>) = (vec![], None);
        for (from, to) in side.panels() {
            let (width, above) = (to - from, from / side.p);
            let (own, rows) = (width / side.p, side.rows - above);
            let panel = self.local.slice(rest, 2, 0, width);
            let top = self.local.slice(panel, 1, 0, own);
            let square = self.gather_dealt(top, side);
            let attrs = [("lower", Attr::Bool(true))];
            let ty = self.local.module.ty(square).clone();
            let factor = self.local.op(OpKind::Linalg(LinalgOp::Cholesky), &[square], ty, &attrs);
            let bad = self.first_is_nan(factor);
            failed = Some(failed.map_or(bad, |all| self.local.same(OpKind::Binary(BinaryOp::Or), &[all, bad])));
            let mine = self.own_rows(factor, side);
            let mut parts = vec![self.local.zeros(&[batch, above, width], elem), mine];
            if own < rows {
                let below = self.local.slice(panel, 1, own, rows);
                let solved = self.solve_adjoint(factor, below);
                let all = self.gather_dealt(solved, side);
                let all = self.conjugate(all);
                let product = self.local.product(solved, all, [2, 2]);
                let trailing = self.local.slice(rest, 1, own, rows);
                let trailing = self.local.slice(trailing, 2, width, side.length() - from);
                rest = self.local.same(OpKind::Binary(BinaryOp::Subtract), &[trailing, product]);
                parts.push(solved);
            }
            columns.push(self.local.concatenate(&parts, 1));
        }
        let factor = self.local.concatenate(&columns, 2);
        let factor = match failed {
            Some(failed) => self.nan_where(failed, factor),
            None => factor,
        };
        let factor = self.take_back(factor, side);
        self.cut_off(factor, side)
    }

    /// Rows `[batch, block, n]` with both sides filled up by rows of the identity, each block at its end.
    fn filled_up(&mut self, a: ValueId, side: &Side) -> ValueId {
        let (batch, elem) = (self.local.dims(a)[0], self.local.elem(a));
        let Side { n, frame, p, rows } = side;
        let (n, p, rows, block) = (*n, *p, *rows, frame.block);
        let zero = self.local.zeros(&[], elem);
        let a = match self.local.element_mask(frame, n) {
            Some(mask) => self.local.mask_dim(a, 1, mask, zero),
            None => a,
        };
        let a = self.local.pad(a, 2, 0, p * block - n);
        let a = self.local.reshape(a, &[batch, block, p, block]);
        let a = self.local.pad(a, 3, 0, rows - block);
        let a = self.local.reshape(a, &[batch, block, side.length()]);
        let a = self.local.pad(a, 1, 0, rows - block);
        if side.length() == n {
            return a;
        }
        let e = &mut self.local;
        let bound = |e: &mut super::local::LocalBuilder<'_>, v: ValueId, at: i64| {
            let at = e.index_splat(&[rows], at);
            e.compare(Direction::Ge, v, at)
        };
        let place = e.iota(&[rows], 0, e.index);
        let shifted = |e: &mut super::local::LocalBuilder<'_>, scale: i64| {
            let start = e.shard_offset(&frame.atoms, scale, 0);
            let start = e.broadcast(start, &[rows], &[]);
            e.same(OpKind::Binary(BinaryOp::Add), &[place, start])
        };
        let element = shifted(e, block);
        let (behind_block, behind_end) = (bound(e, place, block), bound(e, element, n));
        let filling = e.same(OpKind::Binary(BinaryOp::Or), &[behind_block, behind_end]);
        let position = shifted(e, rows);
        let matrix = [rows, side.length()];
        let (position, column) = (e.broadcast(position, &matrix, &[0]), e.iota(&matrix, 1, e.index));
        let diagonal = e.compare(Direction::Eq, position, column);
        let filling = e.broadcast(filling, &matrix, &[0]);
        let ones = e.same(OpKind::Binary(BinaryOp::And), &[diagonal, filling]);
        let dims = e.dims(a);
        let ones = e.broadcast(ones, &dims, &[1, 2]);
        let one = e.real(&dims, elem, 1.0);
        e.select(ones, one, a)
    }

    /// What [`filled_up`](Splitter::filled_up) added, cut off again.
    fn cut_off(&mut self, a: ValueId, side: &Side) -> ValueId {
        let (batch, block) = (self.local.dims(a)[0], side.frame.block);
        let a = self.local.slice(a, 1, 0, block);
        let a = self.local.reshape(a, &[batch, block, side.p, side.rows]);
        let a = self.local.slice(a, 3, 0, block);
        let a = self.local.reshape(a, &[batch, block, side.p * block]);
        self.local.slice(a, 2, 0, side.n)
    }

    /// Rows in blocks, dealt out in turn: row q goes to device q mod p, as its row q / p.
    fn deal_out(&mut self, a: ValueId, side: &Side) -> ValueId {
        let dims = self.local.dims(a);
        let a = self.local.reshape(a, &[dims[0], side.rows / side.p, side.p, dims[2]]);
        let a = self.exchange(a, 2, &side.frame.atoms);
        let a = self.middle_swapped(a);
        self.local.reshape(a, &dims)
    }

    /// The inverse of [`deal_out`](Splitter::deal_out).
    fn take_back(&mut self, a: ValueId, side: &Side) -> ValueId {
        let dims = self.local.dims(a);
        let a = self.local.reshape(a, &[dims[0], side.p, side.rows / side.p, dims[2]]);
        let a = self.middle_swapped(a);
        let a = self.exchange(a, 2, &side.frame.atoms);
        self.local.reshape(a, &dims)
    }

    /// All rows of what each device has some rows of, dealt out in turn.
    fn gather_dealt(&mut self, a: ValueId, side: &Side) -> ValueId {
        let dims = self.local.dims(a);
        let all = self.gather_lines(a, 1, &side.frame.atoms);
        let all = self.local.reshape(all, &[dims[0], side.p, dims[1], dims[2]]);
        let all = self.middle_swapped(all);
        self.local.reshape(all, &[dims[0], dims[1] * side.p, dims[2]])
    }

    /// The rows of a matrix that this device has of rows that are dealt out in turn.
    fn own_rows(&mut self, a: ValueId, side: &Side) -> ValueId {
        let dims = self.local.dims(a);
        let a = self.local.reshape(a, &[dims[0], dims[1] / side.p, side.p, dims[2]]);
        let here = self.local.shard_index(&side.frame.atoms);
        let a = self.local.dynamic_slice(a, 2, here, 1);
        self.local.reshape(a, &[dims[0], dims[1] / side.p, dims[2]])
    }

    fn middle_swapped(&mut self, a: ValueId) -> ValueId {
        self.swapped(a, 1, 2)
    }

    /// `x` with `x l* = b`.
    fn solve_adjoint(&mut self, l: ValueId, b: ValueId) -> ValueId {
        let attrs = [
            ("left_side", Attr::Bool(false)),
            ("lower", Attr::Bool(true)),
            ("unit_diagonal", Attr::Bool(false)),
            ("transpose_a", Attr::hlo_enum("transpose", "ADJOINT")),
        ];
        let ty = self.local.module.ty(b).clone();
        self.local.op(OpKind::Linalg(LinalgOp::TriangularSolve), &[l, b], ty, &attrs)
    }

    /// Which matrices of `[batch, n, n]` begin with a number that is none: a factorization that fails is all NaN.
    fn first_is_nan(&mut self, factor: ValueId) -> ValueId {
        let batch = self.local.dims(factor)[0];
        let first = self.local.slice(factor, 1, 0, 1);
        let first = self.local.slice(first, 2, 0, 1);
        let mut first = self.local.reshape(first, &[batch]);
        let elem = self.local.elem(first);
        if elem.is_complex() {
            let ty = Type::tensor([batch], elem.real_part());
            first = self.local.op(OpKind::Unary(UnaryOp::Real), &[first], ty, &[]);
        }
        let attrs = [
            ("comparison_direction", Attr::hlo_enum("comparison_direction", Direction::Ne.text())),
            ("compare_type", Attr::hlo_enum("comparison_type", "FLOAT")),
        ];
        let ty = Type::tensor([batch], ElementType::I1);
        self.local.op(OpKind::Mixed(MixedOp::Compare), &[first, first], ty, &attrs)
    }

    /// `a` of `[batch, ..]`, all NaN where `failed` holds.
    fn nan_where(&mut self, failed: ValueId, a: ValueId) -> ValueId {
        let (dims, elem) = (self.local.dims(a), self.local.elem(a));
        let nan = self.local.real(&dims, elem, f64::NAN);
        let failed = self.local.broadcast(failed, &dims, &[0]);
        self.local.select(failed, nan, a)
    }

    /// Matrices of the last two dimensions, transposed and conjugated.
    pub(super) fn adjoint(&mut self, a: ValueId) -> ValueId {
        let rank = self.local.dims(a).len();
        let a = self.swapped(a, rank - 2, rank - 1);
        self.conjugate(a)
    }

    /// The conjugate of a local value, if it is complex.
    pub(super) fn conjugate(&mut self, a: ValueId) -> ValueId {
        let t = self.local.tensor(a).clone();
        if !t.elem.is_complex() {
            return a;
        }
        let part = Type::from(t.with_elem(t.elem.real_part()));
        let real = self.local.op(OpKind::Unary(UnaryOp::Real), &[a], part.clone(), &[]);
        let imaginary = self.local.op(OpKind::Unary(UnaryOp::Imag), &[a], part, &[]);
        let imaginary = self.local.same(OpKind::Unary(UnaryOp::Negate), &[imaginary]);
        self.local.op(OpKind::Binary(BinaryOp::Complex), &[real, imaginary], t.into(), &[])
    }
}
