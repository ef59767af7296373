//! Triangular systems whose equations are split: each device solves for its unknowns in turn and broadcasts them, and all
//! take them off their right-hand sides.
//!
//! The matrix stays where it is. A device sends as many bytes as twice the right-hand sides have, however long the matrix
//! is, and does its share of the arithmetic. Equations behind the end are those of the identity, with nothing on the right.
//! Where bringing the matrix together, or splitting the right-hand sides, is predicted to be faster, that is done instead.

use meshwork_ir::op::{BinaryOp, LinalgOp};
use meshwork_ir::{Attr, Combine, Direction, ElementType, OpId, OpKind, ValueId};
use meshwork_propagate::rules::{RuleResult, splitting_rule};

use super::cholesky::Bill;
use super::{Result, Splitter};
use crate::algorithm::{Algorithm, Use};
use crate::layout::{DimLayout, Layout};
use crate::plan::cost::Class;
use crate::plan::human_bytes;
use crate::reshard::moves::Form;

/// Devices that take turns, at most: each turn is a message.
const MOST_TURNS: i64 = 64;

/// A triangular system as `m x = b`, where `m` is the operand, or its transpose, or the conjugate of one of them.
struct System {
    /// Whether rows of `m` are columns of the operand.
    transposed: bool,
    conjugated: bool,
    /// Whether `b` and the result are transposed.
    right: bool,
    /// Whether `m` is lower triangular.
    lower: bool,
    unit_diagonal: bool,
}

/// Where a system is solved.
struct Place {
    matrix: Layout,
    sides: Layout,
    /// How equations are split.
    frame: DimLayout,
}

impl Splitter<'_> {
    /// Splits a `triangular_solve`.
    pub fn triangular_solve(&mut self, op: OpId) -> Result<()> {
        let system = self.system(op);
        let Some((place, mut bill)) = self.distributed_solve(op, &system) else { return self.generic(op) };
        let RuleResult::Rule(rule) = splitting_rule(self.src, op) else { return self.generic(op) };
        let problem = self.problem(op, rule, None);
        let assignment = self.choose(&problem).assignment;
        let other = self.cost(&problem, &assignment);
        let (operands, result) = (self.src.op(op).operands().to_vec(), self.src.op(op).results()[0]);
        let (want, extents) = (self.want(result), self.extents(result));
        let back = self.paths.cost(&place.sides, &want, &extents, self.atoms) * self.element_bytes(result);
        bill.sent += back;
        bill.seconds += back / (self.fastest * 1e9);
        let slower = bill.seconds >= other.seconds(&problem.work, &self.machine, self.fastest);
        if slower && self.algorithms.of(Algorithm::TriangularSolve) == Use::Weighed {
            return self.generic(op);
        }
        self.reason = format!(
            "{}: devices solve for their unknowns in turn ({} sent; the other way would send {})",
            Algorithm::TriangularSolve,
            human_bytes(bill.sent),
            human_bytes(other.sent)
        )
        .into();
        let (matrix, sides) = (self.get(operands[0], &place.matrix)?, self.get(operands[1], &place.sides)?);
        let value = self.solve_in_turn(matrix, sides, &system, &place, extents.len());
        self.set(result, Form { value, layout: place.sides });
        Ok(())
    }

    fn system(&self, op: OpId) -> System {
        let data = self.src.op(op);
        let right = !data.flag("left_side");
        let (turned, adjoint) = match data.enum_value("transpose_a") {
            Some("ADJOINT") => (true, true),
            Some("TRANSPOSE") => (true, false),
            _ => (false, false),
        };
        // x op(a) = b is op(a)ᵀ xᵀ = bᵀ.
        let transposed = turned != right;
        System {
            transposed,
            conjugated: adjoint,
            right,
            lower: data.flag("lower") != transposed,
            unit_diagonal: data.flag("unit_diagonal"),
        }
    }

    /// Where `op` can be solved with its equations split, and what that takes. `None` if they are not split, or the
    /// algorithm is switched off.
    fn distributed_solve(&mut self, op: OpId, system: &System) -> Option<(Place, Bill)> {
        if self.algorithms.of(Algorithm::TriangularSolve) == Use::Never {
            return None;
        }
        let &[a, b] = self.src.op(op).operands() else { return None };
        let (extents, sides) = (self.extents(a), self.extents(b));
        let rank = extents.len();
        if rank < 2 || extents.contains(&0) || sides.contains(&0) || self.is_free(a) {
            return None;
        }
        let (row, column) = if system.transposed { (rank - 1, rank - 2) } else { (rank - 2, rank - 1) };
        let (equation, free) = if system.right { (rank - 1, rank - 2) } else { (rank - 2, rank - 1) };
        let (matrix, right) = (self.current(a).lists(), self.current(b).lists());
        let joint = [&matrix[row][..], &matrix[column][..]].concat();
        let mut found: Option<(Place, Bill)> = None;
        for list in [&joint[..], &right[equation][..]] {
            let mut lists = matrix.clone();
            let used: Vec<u8> = lists[..rank - 2].iter().flatten().copied().collect();
            if list.is_empty() || list.iter().any(|atom| used.contains(atom)) {
                continue;
            }
            let p = self.atoms.product(list);
            if p > MOST_TURNS {
                continue;
            }
            (lists[row], lists[column]) = (list.iter().copied().collect(), Default::default());
            let mut side_lists = lists.clone();
            side_lists[equation] = list.iter().copied().collect();
            let rest = right[free].iter().copied().filter(|atom| !list.contains(atom) && !used.contains(atom));
            side_lists[free] = rest.collect();
            let place = Place {
                matrix: Layout::ordinary(&extents, &lists, self.atoms),
                sides: Layout::ordinary(&sides, &side_lists, self.atoms),
                frame: DimLayout::split(extents[row], list.iter().copied().collect(), self.atoms),
            };
            let bill = self.solve_bill(a, b, &place);
            if found.as_ref().is_none_or(|f| bill.seconds < f.1.seconds) {
                found = Some((place, bill));
            }
        }
        found
    }

    /// What it takes to bring the operands to `place` and to solve there.
    fn solve_bill(&mut self, a: ValueId, b: ValueId, place: &Place) -> Bill {
        let (block, p) = (place.frame.block as f64, self.atoms.product(&place.frame.atoms) as f64);
        let sides = place.sides.local_elements() as f64;
        let elem = self.src.ty(a).elem().unwrap_or(ElementType::F32);
        let bytes = self.element_bytes(b);
        let sent = 2.0 * (p - 1.0) * sides * bytes;
        let brought = self.cost_to(a, &place.matrix) + self.cost_to(b, &place.sides);
        let device = &self.machine.device;
        let touched = place.matrix.local_elements() as f64 * self.element_bytes(a);
        let work = device.rate_seconds(Class::Product, elem, 2.0 * p * block * sides, touched)
            + device.rate_seconds(Class::Other, elem, p * block * sides, 0.0);
        let seconds = (brought + sent * self.atoms.slowness(&place.frame.atoms)) / (self.fastest * 1e9)
            + self.hop_seconds(&place.frame.atoms) * 2.0 * (p - 1.0) * p
            + work;
        Bill { sent: brought + sent, seconds }
    }

    /// Solves local rows of the system.
    fn solve_in_turn(
        &mut self,
        matrix: ValueId,
        sides: ValueId,
        system: &System,
        place: &Place,
        rank: usize,
    ) -> ValueId {
        let (frame, n) = (&place.frame, self.whole_side(matrix, system, rank));
        let (p, block) = (self.atoms.product(&frame.atoms), frame.block);
        let m = if system.transposed { self.swapped(matrix, rank - 2, rank - 1) } else { matrix };
        let m = if system.conjugated { self.conjugate(m) } else { m };
        let right = if system.right { self.swapped(sides, rank - 2, rank - 1) } else { sides };
        let dims = self.local.dims(right);
        let batch: i64 = dims[..rank - 2].iter().product();
        let m = self.local.reshape(m, &[batch, block, n]);
        let m = self.equations(m, frame, n);
        let mut right = self.local.reshape(right, &[batch, block, dims[rank - 1]]);
        if let Some(mask) = self.local.element_mask(frame, n) {
            let elem = self.local.elem(right);
            let zero = self.local.zeros(&[], elem);
            right = self.local.mask_dim(right, 1, mask, zero);
        }
        let shape = self.local.dims(right);
        let attrs = [
            ("left_side", Attr::Bool(true)),
            ("lower", Attr::Bool(system.lower)),
            ("unit_diagonal", Attr::Bool(system.unit_diagonal)),
            ("transpose_a", Attr::hlo_enum("transpose", "NO_TRANSPOSE")),
        ];
        let mut solution: Option<ValueId> = None;
        for turn in 0..p {
            let owner = if system.lower { turn } else { p - 1 - turn };
            let square = self.local.slice(m, 2, owner * block, (owner + 1) * block);
            let ty = self.local.module.ty(right).clone();
            let mine = self.local.op(OpKind::Linalg(LinalgOp::TriangularSolve), &[square, right], ty, &attrs);
            let (here, at) = (self.local.shard_index(&frame.atoms), self.local.index_constant(owner));
            let is_owner = self.local.compare(Direction::Eq, here, at);
            let is_owner = self.local.broadcast(is_owner, &shape, &[]);
            solution = Some(solution.map_or(mine, |known| self.local.select(is_owner, mine, known)));
            if turn + 1 < p {
                let elem = self.local.elem(mine);
                let nothing = self.local.nothing(elem);
                let nothing = self.local.broadcast(nothing, &shape, &[]);
                let part = self.local.select(is_owner, mine, nothing);
                let layout = Layout::replicated(&shape).with_partial(frame.atoms.clone(), Combine::Add);
                let known = self.all_reduce(Form { value: part, layout }, &frame.atoms).value;
                let taken = self.local.product(square, known, [2, 1]);
                right = self.local.same(OpKind::Binary(BinaryOp::Subtract), &[right, taken]);
            }
        }
        let solution = solution.unwrap_or(right);
        let solution = self.local.reshape(solution, &dims);
        if system.right { self.swapped(solution, rank - 2, rank - 1) } else { solution }
    }

    /// The side of the matrix that is not split.
    fn whole_side(&self, matrix: ValueId, system: &System, rank: usize) -> i64 {
        self.local.dims(matrix)[if system.transposed { rank - 2 } else { rank - 1 }]
    }

    /// Rows `[batch, block, n]` of the matrix with columns for all blocks; those behind the end are rows of the identity.
    fn equations(&mut self, m: ValueId, frame: &DimLayout, n: i64) -> ValueId {
        let (elem, p) = (self.local.elem(m), self.atoms.product(&frame.atoms));
        let Some(mask) = self.local.element_mask(frame, n) else { return m };
        let zero = self.local.zeros(&[], elem);
        let m = self.local.mask_dim(m, 1, mask, zero);
        let m = self.local.pad(m, 2, 0, p * frame.block - n);
        let matrix = [frame.block, p * frame.block];
        let e = &mut self.local;
        let (row, column) = (e.iota(&matrix, 0, e.index), e.iota(&matrix, 1, e.index));
        let start = e.shard_offset(&frame.atoms, frame.block, 0);
        let start = e.broadcast(start, &matrix, &[]);
        let row = e.same(OpKind::Binary(BinaryOp::Add), &[row, start]);
        let end = e.index_splat(&matrix, n);
        let (diagonal, behind) = (e.compare(Direction::Eq, row, column), e.compare(Direction::Ge, row, end));
        let ones = e.same(OpKind::Binary(BinaryOp::And), &[diagonal, behind]);
        let dims = e.dims(m);
        let ones = e.broadcast(ones, &dims, &[1, 2]);
        let one = e.real(&dims, elem, 1.0);
        e.select(ones, one, m)
    }
}
