//! Writing to a slice at a constant place: `dynamic_update_slice` with constant starts, and the `scatter` that array
//! libraries emit for `x.at[1:-1].set(..)`.

use meshwork_ir::op::{BodyOp, MixedOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Literal, OpId, OpKind, ValueId};

use super::{Result, Splitter};
use meshwork_ir::Combine;

impl Splitter<'_> {
    /// The update, where it goes and how it combines with what is there, if `op` writes a slice at a constant place
    /// inside its operand. No combination means that it overwrites.
    pub fn constant_assignment(&self, op: OpId) -> Option<(ValueId, Vec<i64>, Option<Combine>)> {
        let data = self.src.op(op);
        let (update, starts, combine) = match data.kind() {
            OpKind::Movement(MovementOp::DynamicUpdateSlice) => {
                let starts: Option<Vec<i64>> =
                    data.operands()[2..].iter().map(|&v| self.constant_i64s(v, 0)?.first().copied()).collect();
                (data.operands()[1], starts?, None)
            }
            OpKind::Body(BodyOp::Scatter) => self.scatter_assignment(op)?,
            _ => return None,
        };
        let (whole, part) = (self.src.ty(data.operands()[0]).dims(), self.src.ty(update).dims());
        // dynamic_update_slice moves a start that is too large; scatter drops such an update.
        let clamp = data.kind() == MovementOp::DynamicUpdateSlice;
        let mut out = vec![];
        for ((&n, &m), start) in whole.iter().zip(part).zip(starts) {
            let start = if clamp { start.clamp(0, n - m) } else { start };
            if start < 0 || start + m > n {
                return None;
            }
            out.push(start);
        }
        Some((update, out, combine))
    }

    fn scatter_assignment(&self, op: OpId) -> Option<(ValueId, Vec<i64>, Option<Combine>)> {
        let data = self.src.op(op);
        let Some(Attr::Scatter(dims)) = data.attr("scatter_dimension_numbers") else { return None };
        let [operand, indices, update] = data.operands()[..] else { return None };
        let rank = self.src.ty(operand).rank()?;
        let whole_window = dims.update_window_dims.iter().copied().eq(0..rank as i64)
            && self.src.ty(update).rank() == Some(rank)
            && dims.inserted_window_dims.is_empty()
            && dims.input_batching_dims.is_empty();
        let body = self.src.body_of(op, 0)?;
        let combine = if self.keeps_update(body) { None } else { Some(Combine::of_body(self.src, body)?) };
        if !whole_window {
            return None;
        }
        let index = self.constant_i64s(indices, 0)?;
        if index.len() != dims.scatter_dims_to_operand_dims.len() {
            return None;
        }
        let mut starts = vec![0; rank];
        for (&d, start) in dims.scatter_dims_to_operand_dims.iter().zip(index) {
            starts[d as usize] = start;
        }
        Some((update, starts, combine))
    }

    /// Whether a scatter body returns the update as it is.
    fn keeps_update(&self, body: BlockId) -> bool {
        self.src.returned(body).first() == self.src.block(body).args().get(1)
    }

    /// The elements of an integer value that is made of constants.
    pub fn constant_i64s(&self, v: ValueId, depth: usize) -> Option<Vec<i64>> {
        let op = self.src.op(self.src.def_op(v)?);
        let count = self.src.ty(v).as_tensor()?.num_elements()? as usize;
        if depth > 8 || count > 64 {
            return None;
        }
        match op.kind() {
            OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant) => match op.attr("value")? {
                Attr::Dense(d) => d.to_i64s(),
                _ => None,
            },
            OpKind::Movement(MovementOp::Reshape) => self.constant_i64s(op.operands()[0], depth + 1),
            OpKind::Mixed(MixedOp::Convert) => {
                let of = self.constant_i64s(op.operands()[0], depth + 1)?;
                let kept = Literal::from_i64s([of.len() as i64], self.src.ty(v).elem()?, &of)?;
                of.iter().enumerate().all(|(i, &n)| kept.get_i64(i) == n).then_some(of)
            }
            OpKind::Movement(MovementOp::BroadcastInDim) if self.src.ty(op.operands()[0]).rank()? <= 1 => {
                let of = self.constant_i64s(op.operands()[0], depth + 1)?;
                (of.len() == 1 || of.len() == count).then(|| of.into_iter().cycle().take(count).collect())
            }
            OpKind::Movement(MovementOp::Concatenate) => {
                let parts: Option<Vec<Vec<i64>>> =
                    op.operands().iter().map(|&p| self.constant_i64s(p, depth + 1)).collect();
                // Only vectors join by placing one behind the other.
                (self.src.ty(v).rank() == Some(1)).then_some(parts?.concat())
            }
            _ => None,
        }
    }

    /// Splits a `dynamic_update_slice` or `scatter`.
    pub fn update(&mut self, op: OpId) -> Result<()> {
        match self.constant_assignment(op) {
            Some((update, starts, combine)) => {
                let (operand, result) = (self.src.op(op).operands()[0], self.src.op(op).results()[0]);
                self.assign(result, operand, update, &starts, combine)
            }
            None if self.src.op(op).kind() == BodyOp::Scatter => self.scatter(op),
            None => self.dynamic_update_slice(op),
        }
    }
}
