//! Operations on values in parts: what distributes over a reduction works on the parts, and gives parts.
//!
//! Along the atoms of the parts every device has a value of its own, as inside a manual computation; the operation is
//! split over the other atoms. Everything else combines the parts of its operands first.

use meshwork_ir::op::{BinaryOp, BodyOp, ContractOp, MixedOp, MovementOp, UnaryOp};
use meshwork_ir::{Combine, ElementClass, OpId, OpKind, ValueId};
use smallvec::SmallVec;

use super::{Result, Splitter};
use crate::layout::atoms::AtomList;
use crate::layout::{DimLayout, Layout};
use crate::reshard::moves::Form;

/// How an operation takes an operand if its result is to be in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// In parts.
    Parts,
    /// Whole: every part is treated with all of it.
    Whole,
}

impl Splitter<'_> {
    /// Splits `op` on the parts of its operands, if its results are placed in such parts and it distributes over their
    /// reduction.
    pub(super) fn on_parts(&mut self, op: OpId) -> Result<bool> {
        let src = self.src;
        let (operands, results) = (src.op(op).operands(), src.op(op).results());
        let Some((parts, combine)) = operands.iter().find_map(|&v| self.produced(v)?.layout.partial.clone()) else {
            return Ok(false);
        };
        for &r in results {
            let kept = |(list, how): (AtomList, Combine)| how == combine && parts.iter().all(|a| list.contains(a));
            if !self.placed(r).partial.is_some_and(kept) {
                return Ok(false);
            }
        }
        let in_parts = |v: ValueId| self.produced(v).is_some_and(|f| f.layout.partial.is_some());
        let Some(roles) = self.roles(op, combine, in_parts) else { return Ok(false) };
        self.reason = "it works on parts over other atoms".into();
        let mut forms: Vec<(ValueId, Form)> = vec![];
        for (&v, role) in operands.iter().zip(roles) {
            let bare = self.without(v, &parts);
            let layout = match role {
                Role::Parts => bare.clone().with_partial(parts.clone(), combine),
                Role::Whole => bare.clone(),
            };
            let value = self.get(v, &layout)?;
            forms.push((v, Form { value, layout: bare }));
        }
        let outside = self.paths.manual.clone();
        self.paths.manual.extend(parts.iter().copied());
        let taken: Vec<_> = forms.iter().map(|(v, _)| std::mem::take(&mut self.forms[v.index()])).collect();
        let wants: Vec<_> = forms.iter().map(|(v, form)| self.wants[v.index()].replace(form.layout.clone())).collect();
        let made = self.scoped(|s| {
            let mut held = vec![];
            for (v, form) in &forms {
                held.push((*v, s.held.insert(*v)));
                s.set(*v, form.clone());
            }
            let done = s.dispatch(op);
            let mut made: Vec<Form> = vec![];
            if done.is_ok() {
                for &r in results {
                    if s.produced(r).is_none() {
                        let layout = s.want(r);
                        s.get(r, &layout)?;
                    }
                    made.extend(s.produced(r).cloned());
                }
            }
            for (v, _) in held.into_iter().filter(|(_, new)| *new) {
                s.held.remove(&v);
            }
            done.map(|()| made)
        });
        // A value that is an operand twice was taken once.
        for ((v, _), (old, want)) in forms.iter().zip(taken.into_iter().zip(wants)).rev() {
            (self.forms[v.index()], self.wants[v.index()]) = (old, want);
        }
        self.paths.manual = outside;
        for (r, Form { value, layout }) in results.iter().zip(made?) {
            let mut list = layout.partial.as_ref().map_or(AtomList::new(), |p| p.0.clone());
            list.extend(parts.iter().copied());
            self.set(*r, Form { value, layout: layout.with_partial(list, combine) });
        }
        Ok(true)
    }

    /// The layout that `v` was produced in, with `gone` splitting nothing.
    fn without(&mut self, v: ValueId, gone: &[u8]) -> Layout {
        let (current, extents) = (self.current(v), self.extents(v));
        let frame = |(frame, &n): (&DimLayout, &i64)| {
            if frame.atoms.iter().any(|a| gone.contains(a)) {
                DimLayout::split(n, frame.atoms.iter().copied().filter(|a| !gone.contains(a)).collect(), self.atoms)
            } else {
                frame.clone()
            }
        };
        Layout { dims: current.dims.iter().zip(&extents).map(frame).collect(), partial: None }
    }

    /// How `op` takes its operands to give parts that combine by `combine`; `None` if it does not distribute.
    fn roles(&self, op: OpId, combine: Combine, in_parts: impl Fn(ValueId) -> bool) -> Option<SmallVec<[Role; 4]>> {
        use Role::{Parts, Whole};
        let data = self.src.op(op);
        let operands = data.operands();
        let count = operands.len();
        let first = |parts: usize| (0..count).map(|i| if i < parts { Parts } else { Whole }).collect();
        // A product is linear in either factor, not in both.
        let factor = || match operands {
            [a, b] if in_parts(*a) && !in_parts(*b) => Some([Parts, Whole].into_iter().collect()),
            [a, b] if in_parts(*b) && !in_parts(*a) => Some([Whole, Parts].into_iter().collect()),
            _ => None,
        };
        let class = |v: ValueId| self.src.ty(v).elem().map(|e| (e.class(), e.bits()));
        let sum = combine == Combine::Add;
        let own_body = || self.src.body_of(op, 0).and_then(|b| Combine::of_body(self.src, b)) == Some(combine);
        match data.kind() {
            OpKind::Movement(kind) => match kind {
                MovementOp::Reshape
                | MovementOp::Transpose
                | MovementOp::Broadcast
                | MovementOp::BroadcastInDim
                | MovementOp::Slice
                | MovementOp::Reverse
                | MovementOp::Concatenate
                | MovementOp::Pad => Some(first(count)),
                MovementOp::DynamicSlice | MovementOp::Gather => Some(first(1)),
                MovementOp::DynamicUpdateSlice => Some(first(2)),
                MovementOp::BitcastConvert
                | MovementOp::GetDimensionSize
                | MovementOp::SetDimensionSize
                | MovementOp::TorchIndexSelect => None,
            },
            OpKind::Mixed(MixedOp::Select) => Some([Whole, Parts, Parts].into_iter().collect()),
            OpKind::Mixed(MixedOp::Convert) => {
                // Rounding does not distribute: only what keeps every number.
                let (from, to) = (class(operands[0])?, class(data.results()[0])?);
                let keeps = from.0 == to.0 && matches!(from.0, ElementClass::Float | ElementClass::Complex);
                (keeps && from.1 < to.1).then(|| first(1))
            }
            OpKind::Binary(BinaryOp::Add | BinaryOp::Subtract) if sum => Some(first(2)),
            OpKind::Binary(BinaryOp::Maximum) if combine == Combine::Max => Some(first(2)),
            OpKind::Binary(BinaryOp::Minimum) if combine == Combine::Min => Some(first(2)),
            OpKind::Binary(BinaryOp::Multiply) if sum => factor(),
            OpKind::Binary(BinaryOp::Divide) if sum => {
                let (kind, _) = class(operands[0])?;
                let exact = matches!(kind, ElementClass::Float | ElementClass::Complex);
                (exact && !in_parts(operands[1])).then(|| first(1))
            }
            OpKind::Unary(UnaryOp::Negate | UnaryOp::Real | UnaryOp::Imag) if sum => Some(first(1)),
            OpKind::Contract(ContractOp::Dot | ContractOp::DotGeneral | ContractOp::Convolution) if sum => factor(),
            OpKind::Body(BodyOp::Reduce | BodyOp::ReduceWindow) if own_body() => Some(first(count)),
            OpKind::Body(BodyOp::Scatter) if own_body() && count == 3 => {
                Some([Parts, Whole, Parts].into_iter().collect())
            }
            _ => None,
        }
    }
}
