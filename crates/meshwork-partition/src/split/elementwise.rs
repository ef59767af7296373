//! Operations that work element by element: all operands in one layout, and so the result.

use meshwork_ir::{OpId, ValueId};

use super::{Result, Splitter};
use crate::layout::Layout;
use crate::reshard::moves::Form;

impl Splitter<'_> {
    /// Splits an elementwise operation.
    pub fn elementwise(&mut self, op: OpId) -> Result<()> {
        let operands = self.src.op(op).operands().to_vec();
        let result = self.src.op(op).results()[0];
        let layout = self.elementwise_layout(&operands, result);
        let rank = self.extents(result).len();
        let mut locals = vec![];
        for v in operands {
            // Clamp and select take scalars beside tensors.
            let wanted = match self.extents(v).len() {
                0 if rank > 0 => Layout::replicated(&[]),
                _ => layout.clone(),
            };
            locals.push(self.get(v, &wanted)?);
        }
        let ty = self.local_type(result, &layout)?;
        let copy = self.copy(op, &locals, vec![ty])?;
        let value = self.local.module.result(copy);
        self.set(result, Form { value, layout });
        Ok(())
    }

    /// The layout with the least traffic: that of an operand, or the one wanted for the result.
    pub fn elementwise_layout(&mut self, operands: &[ValueId], result: ValueId) -> Layout {
        let want = self.want(result);
        let extents = self.extents(result);
        let movable: Vec<ValueId> =
            operands.iter().copied().filter(|&v| self.extents(v) == extents && !self.is_free(v)).collect();
        let mut candidates: Vec<Layout> = vec![];
        for &v in &movable {
            let layout = self.current(v);
            if !candidates.contains(&layout) {
                candidates.push(layout);
            }
        }
        if candidates.iter().any(|l| !l.is_ordinary(&extents, self.atoms))
            && let Some(hint) = self.frame_hint(result, &want)
        {
            // The hint weighs the whole chain; a frame that is nearer to this operation's operands alone would be left
            // again by the next.
            return hint;
        }
        if !candidates.contains(&want) {
            candidates.push(want.clone());
        }
        if let [only] = &candidates[..] {
            return only.clone();
        }
        let mut best: Option<(f64, Layout)> = None;
        for layout in candidates {
            let operands: f64 = movable.iter().map(|&v| self.cost_to(v, &layout)).sum();
            let back = self.paths.find(&layout, &want, &extents, self.atoms);
            // A frame other than the ordinary one may suit the next operation: moving back is not certain.
            let same_atoms = layout.lists() == want.lists();
            let cost = operands + if same_atoms { 0.0 } else { back.cost * self.element_bytes(result) };
            if best.as_ref().is_none_or(|b| cost < b.0) {
                best = Some((cost, layout));
            }
        }
        best.map_or(want, |b| b.1)
    }
}
