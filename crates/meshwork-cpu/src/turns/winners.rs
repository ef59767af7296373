//! The largest or smallest elements and their positions, as `argmax` and `argmin` ask for them: a comparison and a choice for each
//! element.

use std::rc::Rc;

use meshwork_ir::op::{MovementOp, SourceOp};
use meshwork_ir::{ElementType, Module, OpId, OpKind, ValueId};

use super::code::Element;
use super::elements::Expansion;
use super::expand::{Expand, offsets};
use crate::fuse::{self, Arithmetic};
use crate::kernel::ir::{BinaryOp, Cmp, Combine, Ty};
use crate::step::{Buf, View};

/// How one pair is compared with another.
struct Order {
    larger: bool,
    is_float: bool,
    /// Whether the position of the left one is always lower.
    ascending: bool,
    /// Whether the values of winners are asked for: of two zeros, the later one wins as a value.
    with_values: bool,
}

impl Expansion<'_, '_> {
    /// Both results of the reduction `op`, whose lanes are `lane`.
    pub(super) fn winners(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Element>> {
        // Numbers are compared in routines, which keep them in registers.
        if self.lanes == 1 {
            return None;
        }
        let module = self.module();
        let data = module.op(op);
        let larger = crate::library::takes_largest(module, module.body_of(op, 0)?)?;
        let (&[from, at, init, init_at], &[values, places]) = (data.operands(), data.results()) else { return None };
        let reduced = fuse::reduced_dims(module, op);
        let kept: Vec<usize> = (0..self.dims(from).len()).filter(|d| !reduced.contains(d)).collect();
        let own = match lane {
            Some(d) => Some(*kept.get(d)?),
            None => None,
        };
        let elements = self.value(from, own)?;
        let counted = positions(module, at).filter(|d| reduced == [*d]);
        let listed = if counted.is_none() { Some(self.value(at, own)?) } else { None };
        let (first, first_at) = (self.value(init, None)?[0], self.value(init_at, None)?[0]);
        let (value_ty, place_ty) = (Ty::of(self.elem(from)?)?, Ty::of(self.elem(at)?)?);
        let shape = self.rest(from, own);
        let strides = View::dense(Buf(0), ElementType::UI8, &shape).strides;
        let pick = |list: &[usize], of: &[i64]| list.iter().map(|&d| of[d]).collect::<Vec<i64>>();
        let inner = offsets(&pick(&reduced, &shape), &pick(&reduced, &strides), 0);
        let combine = if larger { Combine::Max } else { Combine::Min };
        // Position 0 is the first of the counted ones: what starts there with the least value never wins alone.
        let is_neutral = self.is_neutral(combine, first) && self.bits(first_at) == Some((place_ty, 0));
        let is_counted = counted.is_some() && is_neutral && !inner.is_empty();
        let order = Order {
            larger,
            is_float: value_ty.is_float(),
            ascending: is_counted,
            with_values: !module.value(values).uses().is_empty(),
        };
        self.spend(elements.len() as u64 * 4);
        let mut out = (vec![], vec![]);
        for start in offsets(&pick(&kept, &shape), &pick(&kept, &strides), 0) {
            let pair = |(n, i): (usize, &i64)| {
                let place = (start + i) as usize;
                let at = listed.as_ref().map_or(Element::Const(place_ty, n as u64), |list| list[place]);
                (elements[place], at)
            };
            let init = [(first, first_at)].into_iter().filter(|_| !is_counted);
            let mut terms: Vec<(Element, Element)> = init.chain(inner.iter().enumerate().map(pair)).collect();
            // Neighbors first: a short chain.
            while terms.len() > 1 {
                let two = |p: &[(Element, Element)]| if let &[a, b] = p { self.winner(&order, a, b) } else { p[0] };
                terms = terms.chunks(2).map(two).collect();
            }
            let (value, place) = terms.pop()?;
            out.0.push(value);
            out.1.push(place);
        }
        let (is_value, out) = (value == values, (Rc::new(out.0), Rc::new(out.1)));
        // What stands for a value that nobody asks for may differ in the sign of a zero.
        if order.with_values {
            self.know((values, lane), out.0.clone());
        }
        self.know((places, lane), out.1.clone());
        Some(if is_value { out.0.to_vec() } else { out.1.to_vec() })
    }

    /// The winner of two pairs: a NaN wins, of equal values the lower position does.
    fn winner(&mut self, order: &Order, a: (Element, Element), b: (Element, Element)) -> (Element, Element) {
        let code = &mut self.code;
        let (beats, ties) = if order.larger { (Cmp::Gt, Cmp::Ge) } else { (Cmp::Lt, Cmp::Le) };
        let nan = order.is_float.then(|| code.compare(Cmp::Ne, a.0, a.0));
        let or_nan = |code: &mut super::code::Code, p: Element| match nan {
            Some(nan) => code.binary(BinaryOp::Or, p, nan),
            None => p,
        };
        if order.ascending {
            let first = code.compare(ties, a.0, b.0);
            let first = or_nan(code, first);
            let place = code.select(first, a.1, b.1);
            if !order.with_values {
                return (code.select(first, a.0, b.0), place);
            }
            let wins = code.compare(beats, a.0, b.0);
            let wins = or_nan(code, wins);
            return (code.select(wins, a.0, b.0), place);
        }
        let wins = code.compare(beats, a.0, b.0);
        let wins = or_nan(code, wins);
        let equal = code.compare(Cmp::Eq, a.0, b.0);
        let lower = code.compare(Cmp::Lt, a.1, b.1);
        let tie = code.binary(BinaryOp::And, equal, lower);
        let first = code.binary(BinaryOp::Or, wins, tie);
        (code.select(wins, a.0, b.0), code.select(first, a.1, b.1))
    }
}

/// The dimension along which `value` counts from 0.
fn positions(module: &Module, value: ValueId) -> Option<usize> {
    let data = module.op(module.def_op(value)?);
    match data.kind() {
        OpKind::Source(SourceOp::Iota) => usize::try_from(data.int("iota_dimension")?).ok(),
        OpKind::Movement(MovementOp::BroadcastInDim) => {
            let from = *data.operands().first()?;
            let d = positions(module, from)?;
            let along = usize::try_from(*data.i64s("broadcast_dimensions")?.get(d)?).ok()?;
            (module.ty(from).dims()[d] == module.ty(value).dims()[along]).then_some(along)
        }
        OpKind::Movement(MovementOp::Reshape) => {
            let from = *data.operands().first()?;
            let kept = |dims: &[i64]| (0..dims.len()).filter(|&d| dims[d] != 1).collect::<Vec<usize>>();
            let (old, new) = (kept(module.ty(from).dims()), kept(module.ty(value).dims()));
            let same =
                old.iter().map(|&d| module.ty(from).dims()[d]).eq(new.iter().map(|&d| module.ty(value).dims()[d]));
            let d = positions(module, from)?;
            new.get(old.iter().position(|&o| o == d)?).copied().filter(|_| same)
        }
        _ => None,
    }
}
