//! Operations whose results are elements of their operands, or arithmetic on these: for any kind of element.

use std::rc::Rc;

use meshwork_ir::{Attr, ElementType, Module, OpId, ValueId};

use crate::compile::view_of;
use crate::fuse::{self, Arithmetic};
use crate::kernel::ir::{BinaryOp, Combine, Ty};
use crate::step::{Buf, View};

/// The stride of lanes in views of elements.
const LANE: i64 = 1 << 40;

/// What stands for an element.
pub(crate) type Of<'m, E> = <<E as Expand<'m>>::Code as Arithmetic>::Value;

/// Values of a program as their elements, in row-major order of all dimensions but the one that is their lanes, if there is one.
pub(crate) trait Expand<'m> {
    /// What the elements are made with.
    type Code: Arithmetic;

    /// The program.
    fn module(&self) -> &'m Module;

    /// Code under construction.
    fn code(&mut self) -> &mut Self::Code;

    /// Extent of the lanes; 1 if there are none.
    fn lanes(&self) -> i64;

    /// Operations that are worth it.
    fn most(&self) -> usize;

    /// Takes note of work, in additions.
    fn spend(&mut self, additions: u64);

    /// The element that always has these bits.
    fn constant(&self, ty: Ty, bits: u64) -> Of<'m, Self>;

    /// The bits of `element`, if they are always the same.
    fn bits(&self, element: Of<'m, Self>) -> Option<(Ty, u64)>;

    /// The elements of `value` whose lanes are `lane`.
    fn value(&mut self, value: ValueId, lane: Option<usize>) -> Option<Rc<Vec<Of<'m, Self>>>>;

    /// `index` between 0 and `most`, as 32 bits.
    fn clamped(&mut self, index: Of<'m, Self>, most: i64) -> Option<Of<'m, Self>> {
        let ty = self.code().ty(index);
        if let Some((_, bits)) = self.bits(index).filter(|_| ty.is_signed()) {
            let unused = 64 - 8 * ty.size() as u32;
            let number = (bits << unused).cast_signed() >> unused;
            return Some(self.constant(Ty::I32, number.clamp(0, most) as u64));
        }
        let (least, greatest) = fuse::whole(ty.elem())?;
        let mut inside = index;
        if least < 0 {
            let zero = self.constant(ty, 0);
            inside = self.code().binary(BinaryOp::Maximum, inside, zero);
        }
        if greatest > most {
            let most = self.constant(ty, most as u64);
            inside = self.code().binary(BinaryOp::Minimum, inside, most);
        }
        Some(self.code().convert(Ty::I32, inside))
    }

    /// A number of 32 bits times `stride`.
    fn scaled(&mut self, index: Of<'m, Self>, stride: i64) -> Of<'m, Self> {
        if stride == 1 {
            return index;
        }
        if let Some((_, bits)) = self.bits(index) {
            return self.constant(Ty::I32, (bits.cast_signed() * stride) as u64 & mask(Ty::I32));
        }
        let stride = self.constant(Ty::I32, stride as u64);
        self.code().binary(BinaryOp::Multiply, index, stride)
    }

    /// The extents of `value`.
    fn dims(&self, value: ValueId) -> &'m [i64] {
        self.module().ty(value).dims()
    }

    /// The type of its elements.
    fn elem(&self, value: ValueId) -> Option<ElementType> {
        self.module().ty(value).elem()
    }

    /// The extents of `value` without its lanes.
    fn rest(&self, value: ValueId, lane: Option<usize>) -> Vec<i64> {
        rest(self.dims(value), lane)
    }

    fn arithmetic(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Of<'m, Self>>> {
        let module = self.module();
        if !fuse::is_arithmetic(module, op) {
            return None;
        }
        let mut operands = vec![];
        for &v in module.op(op).operands() {
            // The bounds of a clamp and the predicate of a select may be scalars.
            let scalar = self.dims(v).is_empty() && !self.dims(value).is_empty();
            operands.push((self.value(v, if scalar { None } else { lane })?, scalar));
        }
        let count = self.rest(value, lane).iter().product::<i64>() as usize;
        self.spend(count as u64 * u64::from(fuse::cost(module.op(op).kind())));
        let one = |i: usize| {
            let elements: Vec<Of<'m, Self>> =
                operands.iter().map(|(e, scalar)| e[if *scalar { 0 } else { i }]).collect();
            fuse::apply(self.code(), module, op, &elements)
        };
        (0..count).map(one).collect()
    }

    /// An op that only renames elements: the strides of a view of the operand's elements say which.
    fn renamed(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Of<'m, Self>>> {
        let module = self.module();
        let from = module.op(op).operands()[0];
        let dims = self.dims(from).to_vec();
        let with_lanes = (0..dims.len()).filter(|&d| lane.is_some() && dims[d] == self.lanes()).map(Some);
        for own in with_lanes.chain([None]) {
            let mut view = View::dense(Buf(0), ElementType::UI8, &rest(&dims, own));
            view.dims.clone_from(&dims);
            view.elem = self.elem(from)?;
            if let Some(d) = own {
                view.strides[d] = LANE;
            }
            let Some(to) = view_of(module, op, &view) else { continue };
            let is_lane = |d: usize| to.strides[d].abs() >= LANE / 2;
            let wanted = if own.is_some() { lane } else { None };
            let fits = to.offset.abs() < LANE / 2
                && (0..to.dims.len()).all(|d| is_lane(d) == (Some(d) == wanted))
                && wanted.is_none_or(|d| to.strides[d] == LANE)
                && (own.is_some() || lane.is_none_or(|d| to.strides[d] == 0));
            if !fits {
                continue;
            }
            let elements = self.value(from, own)?;
            let shape = self.rest(value, lane);
            return Some(offsets(&shape, &to.strides, to.offset).into_iter().map(|i| elements[i as usize]).collect());
        }
        None
    }

    fn concatenated(&mut self, op: OpId, lane: Option<usize>) -> Option<Vec<Of<'m, Self>>> {
        let data = self.module().op(op);
        let dim = data.int("dimension")? as usize;
        if lane == Some(dim) {
            return None;
        }
        let mut parts = vec![];
        for &v in data.operands() {
            let shape = self.rest(v, lane);
            parts.push((self.value(v, lane)?, shape[dim..].iter().product::<i64>() as usize));
        }
        let outer: i64 = self.rest(data.operands()[0], lane)[..dim].iter().product();
        let row = |i: usize| parts.iter().flat_map(move |(e, n)| e[i * n..(i + 1) * n].iter().copied());
        Some((0..outer as usize).flat_map(row).collect())
    }

    fn padded(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Of<'m, Self>>> {
        let data = self.module().op(op);
        let &[from, with] = data.operands() else { return None };
        let (low, inner) = (data.i64s("edge_padding_low")?, data.i64s("interior_padding")?);
        let (shape, source) = (self.rest(value, lane), self.rest(from, lane));
        if lane.is_some_and(|d| low[d] != 0 || inner[d] != 0 || self.dims(from)[d] != self.lanes()) {
            return None;
        }
        let (elements, padding) = (self.value(from, lane)?, self.value(with, None)?[0]);
        let one = |at: Vec<i64>| {
            let mut flat = 0;
            for d in 0..at.len() {
                let (place, step) = (at[d] - low[d], inner[d] + 1);
                if place < 0 || place % step != 0 || place / step >= source[d] {
                    return padding;
                }
                flat = flat * source[d] + place / step;
            }
            elements[flat as usize]
        };
        Some(positions(&shape).into_iter().map(one).collect())
    }

    fn reduced(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Of<'m, Self>>> {
        let module = self.module();
        let combine = fuse::reduce_kind(module, op)?;
        let &[from, init] = module.op(op).operands() else { return None };
        let reduced = fuse::reduced_dims(module, op);
        let kept: Vec<usize> = (0..self.dims(from).len()).filter(|d| !reduced.contains(d)).collect();
        let own = match lane {
            Some(d) => Some(*kept.get(d)?),
            None => None,
        };
        let elements = self.value(from, own)?;
        let first = self.value(init, None)?[0];
        let source = View::dense(Buf(0), ElementType::UI8, &self.rest(from, own));
        let pick = |list: &[usize], of: &[i64]| list.iter().map(|&d| of[d]).collect::<Vec<i64>>();
        let shape = self.rest(from, own);
        let outer = offsets(&pick(&kept, &shape), &pick(&kept, &source.strides), 0);
        let inner = offsets(&pick(&reduced, &shape), &pick(&reduced, &source.strides), 0);
        debug_assert_eq!(outer.len() as i64, self.rest(value, lane).iter().product::<i64>());
        self.spend(elements.len() as u64);
        let one = |start: i64| {
            let terms: Vec<Of<'m, Self>> = inner.iter().map(|i| elements[(start + i) as usize]).collect();
            match self.folded(combine.into(), terms) {
                Some(sum) if self.is_neutral(combine, first) => sum,
                Some(sum) => self.code().binary(combine.into(), first, sum),
                None => first,
            }
        };
        Some(outer.into_iter().map(one).collect())
    }

    fn is_neutral(&self, combine: Combine, element: Of<'m, Self>) -> bool {
        matches!(self.bits(element), Some((ty, bits)) if bits == ty.identity(combine))
    }

    /// All of `terms` combined, neighbors first: a short chain.
    fn folded(&mut self, f: BinaryOp, mut terms: Vec<Of<'m, Self>>) -> Option<Of<'m, Self>> {
        while terms.len() > 1 {
            let pair = |p: &[Of<'m, Self>]| if let &[a, b] = p { self.code().binary(f, a, b) } else { p[0] };
            terms = terms.chunks(2).map(pair).collect();
        }
        terms.pop()
    }

    fn product(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Of<'m, Self>>> {
        let data = self.module().op(op);
        let (&[lhs, rhs], Some(Attr::Dot(dims))) = (data.operands(), data.attr("dot_dimension_numbers")) else {
            return None;
        };
        let elem = self.elem(value)?;
        let ty = Ty::of(elem)?;
        if self.elem(lhs)? != elem || self.elem(rhs)? != elem || ty.elem() != elem || ty == Ty::Pred {
            return None;
        }
        let free = |v: ValueId, batch: &[i64], contract: &[i64]| -> Vec<usize> {
            (0..self.dims(v).len())
                .filter(|&d| !batch.contains(&(d as i64)) && !contract.contains(&(d as i64)))
                .collect()
        };
        let own = |list: &[i64]| list.iter().map(|&d| d as usize).collect::<Vec<_>>();
        let (left, right) =
            (free(lhs, &dims.lhs_batch, &dims.lhs_contract), free(rhs, &dims.rhs_batch, &dims.rhs_contract));
        let (lb, rb, lk, rk) =
            (own(&dims.lhs_batch), own(&dims.rhs_batch), own(&dims.lhs_contract), own(&dims.rhs_contract));
        let (b, m) = (lb.len(), left.len());
        let (l_lane, r_lane) = match lane {
            None => (None, None),
            Some(d) if d < b => (Some(lb[d]), Some(rb[d])),
            Some(d) if d < b + m => (Some(left[d - b]), None),
            Some(d) => (None, Some(right[d - b - m])),
        };
        let (l, r) = (self.value(lhs, l_lane)?, self.value(rhs, r_lane)?);
        let list = |v: ValueId, lane: Option<usize>, dims: &[usize]| {
            let shape = self.rest(v, lane);
            let strides = View::dense(Buf(0), ElementType::UI8, &shape).strides;
            let pick = |of: &[i64]| dims.iter().map(|&d| of[d]).collect::<Vec<_>>();
            offsets(&pick(&shape), &pick(&strides), 0)
        };
        let batches: Vec<(i64, i64)> = list(lhs, l_lane, &lb).into_iter().zip(list(rhs, r_lane, &rb)).collect();
        let (rows, columns) = (list(lhs, l_lane, &left), list(rhs, r_lane, &right));
        let terms: Vec<(i64, i64)> = list(lhs, l_lane, &lk).into_iter().zip(list(rhs, r_lane, &rk)).collect();
        let count = batches.len() * rows.len() * columns.len();
        self.spend((count * terms.len()) as u64);
        if terms.is_empty() || count * terms.len() > self.most() {
            return None;
        }
        // Few sums are cut into several that do not wait for each other.
        let sums = (8 / count.max(1)).clamp(1, 4);
        let mut out = vec![];
        for &(lb, rb) in &batches {
            for &row in &rows {
                for &column in &columns {
                    let mut partial: Vec<Of<'m, Self>> = vec![];
                    for (k, &(a, b)) in terms.iter().enumerate() {
                        let (x, y) = (l[(lb + row + a) as usize], r[(rb + column + b) as usize]);
                        let product = self.code().binary(BinaryOp::Multiply, x, y);
                        match partial.get(k % sums) {
                            Some(&sum) => partial[k % sums] = self.code().binary(BinaryOp::Add, sum, product),
                            None => partial.push(product),
                        }
                    }
                    out.push(self.folded(BinaryOp::Add, partial)?);
                }
            }
        }
        Some(out)
    }
}

/// All bits that a number of this type has.
pub(super) fn mask(ty: Ty) -> u64 {
    if ty == Ty::Pred { 1 } else { u64::MAX >> (64 - 8 * ty.size()) }
}

/// `dims` with one element along `lane`.
pub(super) fn rest(dims: &[i64], lane: Option<usize>) -> Vec<i64> {
    dims.iter().enumerate().map(|(d, &n)| if Some(d) == lane { 1 } else { n }).collect()
}

/// All positions of an array in row-major order.
fn positions(dims: &[i64]) -> Vec<Vec<i64>> {
    dims.iter().fold(vec![vec![]], |all, &n| {
        all.into_iter().flat_map(|at: Vec<i64>| (0..n).map(move |i| [&at[..], &[i]].concat())).collect()
    })
}

/// `start` and the strides of each position, in row-major order.
pub(super) fn offsets(dims: &[i64], strides: &[i64], start: i64) -> Vec<i64> {
    dims.iter().zip(strides).fold(vec![start], |all, (&n, &stride)| {
        all.into_iter().flat_map(|at| (0..n).map(move |i| at + i * stride)).collect()
    })
}
