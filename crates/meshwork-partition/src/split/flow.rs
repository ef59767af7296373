//! Loops and branches: placements are fixed at the border of a region, bodies are split inside.

use meshwork_ir::op::{BinaryOp, ControlOp, MixedOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind, OpSpec, Type, ValueId};

use super::{Loop, Result, Splitter};
use crate::collective::Site;
use crate::layout::Layout;
use crate::reshard::moves::Form;

/// How often a `while` runs its body, where that can be read off: a counter that starts at a constant, is compared
/// with a constant and grows by a constant.
pub fn trip_count(module: &Module, op: OpId) -> Option<i64> {
    let (cond, body) = (module.body_of(op, 0)?, module.body_of(op, 1)?);
    let compare = module.op(module.def_op(*module.returned(cond).first()?)?);
    if compare.kind() != MixedOp::Compare {
        return None;
    }
    let counter = module.block(cond).args().iter().position(|a| *a == compare.operands()[0])?;
    let limit = scalar_constant(module, *compare.operands().get(1)?, &[(op, cond)])?;
    let start = scalar_constant(module, *module.op(op).operands().get(counter)?, &[])?;
    let next = module.op(module.def_op(*module.returned(body).get(counter)?)?);
    let argument = module.block(body).args()[counter];
    if next.kind() != BinaryOp::Add {
        return None;
    }
    let step = match next.operands() {
        [a, b] if *a == argument => scalar_constant(module, *b, &[(op, body)])?,
        [a, b] if *b == argument => scalar_constant(module, *a, &[(op, body)])?,
        _ => return None,
    };
    if step <= 0 {
        return None;
    }
    let distance = match compare.enum_value("comparison_direction")? {
        "LT" => limit - start,
        "LE" => limit - start + 1,
        _ => return None,
    };
    Some((distance + step - 1).max(0) / step)
}

/// The value of a constant integer scalar. A block argument of a loop counts if the loop passes it on unchanged.
fn scalar_constant(module: &Module, v: ValueId, loops: &[(OpId, BlockId)]) -> Option<i64> {
    if let Some(op) = module.def_op(v) {
        return match (module.op(op).kind(), module.op(op).attr("value")) {
            (OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant), Some(Attr::Dense(d))) => {
                d.to_i64s()?.first().copied()
            }
            _ => None,
        };
    }
    let &(op, block) = loops.first()?;
    let index = module.block(block).args().iter().position(|a| *a == v)?;
    let body = module.body_of(op, 1)?;
    let unchanged = module.returned(body).get(index) == module.block(body).args().get(index);
    if unchanged { scalar_constant(module, *module.op(op).operands().get(index)?, &[]) } else { None }
}

impl Splitter<'_> {
    /// Splits a `while`: carried values keep the placement of the results.
    pub fn while_loop(&mut self, op: OpId) -> Result<()> {
        if self.stencil_loop(op)? {
            return Ok(());
        }
        let results = self.src.op(op).results().to_vec();
        let layouts: Vec<Layout> = results.iter().map(|&r| self.placed(r)).collect();
        self.reason = "the loop carries it in this placement".into();
        let operands = self.src.op(op).operands().to_vec();
        let mut locals = vec![];
        for (&v, layout) in operands.iter().zip(&layouts) {
            locals.push(self.get(v, layout)?);
        }
        let types: Vec<Type> = locals.iter().map(|&v| self.local.module.ty(v).clone()).collect();
        let spec = self.spec_of(op).operands(locals).results(types.clone());
        let copy = self.local.push(spec);
        let trips = trip_count(self.src, op);
        let (times, unknown) = (self.times, self.times_unknown);
        let Some(body) = self.src.body_of(op, 1) else { return self.unsupported(op, "a loop without a body") };
        let args = self.src.block(body).args();
        let returned = self.src.returned(body);
        let kept = (0..args.len()).filter(|&i| returned.get(i) == Some(&args[i]));
        let unchanged = kept.map(|i| (args[i], operands[i])).collect();
        let mark = (self.trail.len(), self.marks.len());
        let at = self.local.block;
        self.loops.push(Loop { src: op, op: copy, at, unchanged, times: (times, unknown), mark });
        self.times *= trips.unwrap_or(1);
        self.times_unknown |= trips.is_none();
        for region in 0..2 {
            let Some(block) = self.src.body_of(op, region) else {
                return self.unsupported(op, "a loop without condition or body");
            };
            let wanted = if region == 0 { None } else { Some(&layouts[..]) };
            self.region(copy, block, &types, &layouts, wanted)?;
        }
        self.loops.pop();
        (self.times, self.times_unknown) = (times, unknown);
        self.register(op, copy, layouts);
        Ok(())
    }

    /// Splits the branches of a `case` or `if`.
    pub fn branches(&mut self, op: OpId) -> Result<()> {
        let results = self.src.op(op).results().to_vec();
        let layouts: Vec<Layout> = results.iter().map(|&r| self.placed(r)).collect();
        let choice = self.src.op(op).operands()[0];
        let choice = self.get(choice, &Layout::replicated(&[]))?;
        let mut types = vec![];
        for (&r, layout) in results.iter().zip(&layouts) {
            types.push(self.local_type(r, layout)?);
        }
        let spec = self.spec_of(op).operands([choice]).results(types);
        let copy = self.local.push(spec);
        for region in 0..self.src.op(op).regions().len() {
            if let Some(block) = self.src.body_of(op, region) {
                self.region(copy, block, &[], &[], Some(&layouts))?;
            }
        }
        self.register(op, copy, layouts);
        Ok(())
    }

    /// Splits the body of a named computation in its place; operands and results have the placements it says.
    pub fn named_computation(&mut self, op: OpId) -> Result<()> {
        let Some(body) = self.src.body_of(op, 0) else { return self.unsupported(op, "it has no body") };
        let (operands, args) = (self.src.op(op).operands().to_vec(), self.src.block(body).args().to_vec());
        self.reason = "the named computation takes it in this placement".into();
        let mut forms = vec![];
        for (v, arg) in operands.into_iter().zip(args) {
            let layout = self.placed(arg);
            forms.push((arg, Form { value: self.get(v, &layout)?, layout }));
        }
        let results = self.src.op(op).results().to_vec();
        let made = self.scoped(|s| {
            forms.into_iter().for_each(|(arg, form)| s.set(arg, form));
            s.block(body)?;
            let mut made = vec![];
            for (r, v) in results.into_iter().zip(s.src.returned(body).to_vec()) {
                let layout = s.placed(r);
                s.site = Site::Op(op);
                s.reason = "the named computation returns it in this placement".into();
                made.push((r, Form { value: s.get(v, &layout)?, layout }));
            }
            Ok(made)
        })?;
        made.into_iter().for_each(|(r, form)| self.set(r, form));
        Ok(())
    }

    /// Splits `block` into a new region of `copy`. Returned values are brought to `wanted`, or replicated if `None`.
    fn region(
        &mut self,
        copy: OpId,
        block: BlockId,
        types: &[Type],
        layouts: &[Layout],
        wanted: Option<&[Layout]>,
    ) -> Result<()> {
        let local = self.local.module.add_body(copy, types.iter().cloned());
        let args = self.local.module.block(local).args().to_vec();
        self.scoped(|s| {
            (s.local.block, s.local.before) = (local, None);
            for ((&arg, value), layout) in s.src.block(block).args().to_vec().iter().zip(args).zip(layouts) {
                s.set(arg, Form { value, layout: layout.clone() });
            }
            s.block(block)?;
            let mut returned = vec![];
            for (i, v) in s.src.returned(block).to_vec().into_iter().enumerate() {
                let layout = match wanted {
                    Some(layouts) => layouts[i].clone(),
                    None => Layout::replicated(&s.extents(v)),
                };
                s.site = s.src.terminator(block).map_or(Site::default(), Site::Op);
                s.reason = "the region returns it in this placement".into();
                returned.push(s.get(v, &layout)?);
            }
            s.local.push(OpSpec::new(ControlOp::HloReturn).operands(returned));
            Ok(())
        })
    }
}
