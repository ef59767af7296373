//! Index algebra: where an op's operands are read when its result is wanted at an affine position.

use meshwork_ir::op::{BinaryOp, BodyOp, MovementOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, ValueId};

use super::range::{Devices, range};

/// One coordinate as a function of the coordinates of a domain: `coef * i[dim] + base`, or just `base`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lin {
    /// Dimension of the domain; meaningless if `coef` is 0.
    pub dim: u8,
    pub coef: i64,
    pub base: i64,
}

impl Lin {
    /// Coordinate `dim` of the domain itself.
    pub fn of(dim: usize) -> Lin {
        Lin { dim: dim as u8, coef: 1, base: 0 }
    }

    /// Always `base`.
    pub fn at(base: i64) -> Lin {
        Lin { dim: 0, coef: 0, base }
    }

    /// `self * factor + shift`.
    pub fn scaled(self, factor: i64, shift: i64) -> Lin {
        let coef = self.coef * factor;
        Lin { dim: if coef == 0 { 0 } else { self.dim }, coef, base: self.base * factor + shift }
    }

    /// Least and greatest value over the box `lo..hi`.
    pub fn range(self, lo: &[i64], hi: &[i64]) -> (i64, i64) {
        if self.coef == 0 {
            return (self.base, self.base);
        }
        let d = self.dim as usize;
        let (a, b) = (self.coef * lo[d] + self.base, self.coef * (hi[d] - 1) + self.base);
        (a.min(b), a.max(b))
    }

    /// The first coordinate of `dim` where `self >= limit` changes from what it was before.
    pub fn crossing(self, limit: i64) -> i64 {
        let gap = limit - self.base;
        if self.coef > 0 { -(-gap).div_euclid(self.coef) } else { (-gap).div_euclid(-self.coef) + 1 }
    }
}

/// Where a value is read: one coordinate per dimension of it.
pub(crate) type Map = Vec<Lin>;

/// The whole of a value whose extents are the domain's.
pub(crate) fn identity(rank: usize) -> Map {
    (0..rank).map(Lin::of).collect()
}

/// A slice-assign at a fixed place: `target` outside the window, `update` (combined with it or not) inside.
pub(crate) struct Window {
    pub target: ValueId,
    pub update: ValueId,
    pub start: Vec<i64>,
    /// Dimension of the update for each dimension of the target; `None` where the window is one wide and dropped.
    pub update_dims: Vec<Option<usize>>,
    pub extent: Vec<i64>,
    /// How the old element enters; `None` if it is replaced.
    pub combine: Option<OpKind>,
}

/// `op` as a window, if it is a `dynamic_update_slice` or a `scatter` of one window at constant indices.
pub(crate) fn window(module: &Module, op: OpId) -> Option<Window> {
    let data = module.op(op);
    let target = *data.operands().first()?;
    let dims = module.ty(target).dims();
    match data.kind() {
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => {
            let update = data.operands()[1];
            let extent = module.ty(update).dims().to_vec();
            let starts = data.operands()[2..].iter().map(|&v| crate::compile::constant(module, v));
            let starts = starts.collect::<Option<Vec<i64>>>()?;
            let start = (0..dims.len()).map(|d| starts[d].clamp(0, dims[d] - extent[d])).collect();
            let update_dims = (0..dims.len()).map(Some).collect();
            Some(Window { target, update, start, update_dims, extent, combine: None })
        }
        OpKind::Body(BodyOp::Scatter) => {
            let ScatterParts { places, update_dims, extent, combine, .. } = scatter_parts(module, op)?;
            let &[target, indices, update] = data.operands() else { return None };
            let at = constant_list(module, indices)?;
            let mut start = vec![0; dims.len()];
            for (&d, &i) in places.iter().zip(&at) {
                start[d] = i;
            }
            let inside = (0..dims.len()).all(|d| start[d] >= 0 && start[d] + extent[d] <= dims[d]);
            inside.then_some(Window { target, update, start, update_dims, extent, combine })
        }
        _ => None,
    }
}

/// A scatter of one window.
pub(crate) struct ScatterParts {
    /// The dimension of the target that each index is of.
    pub places: Vec<usize>,
    /// The dimension of the update that each of the target comes from.
    pub update_dims: Vec<Option<usize>>,
    /// The dimension of the target that each of the update goes to.
    pub window: Vec<usize>,
    /// Extents of the window.
    pub extent: Vec<i64>,
    /// What the old element is combined with the new one by; `None` if it is replaced.
    pub combine: Option<OpKind>,
}

/// The scatter `op`, if it writes one window.
pub(crate) fn scatter_parts(module: &Module, op: OpId) -> Option<ScatterParts> {
    let data = module.op(op);
    let &[target, indices, update] = data.operands() else { return None };
    let Some(Attr::Scatter(numbers)) = data.attr("scatter_dimension_numbers") else { return None };
    let index_dims = module.ty(indices).dims();
    let one_index = index_dims.iter().enumerate().all(|(d, &n)| n == 1 || d as i64 == numbers.index_vector_dim);
    let update_shape = module.ty(update).dims();
    let all_window = numbers.update_window_dims.len() == update_shape.len();
    if !one_index || !all_window || !numbers.input_batching_dims.is_empty() {
        return None;
    }
    let mut window_dims = numbers.update_window_dims.iter();
    let (mut update_dims, mut extent, mut window) = (vec![], vec![], vec![0; update_shape.len()]);
    for d in 0..module.ty(target).dims().len() {
        let inserted = numbers.inserted_window_dims.contains(&(d as i64));
        let from = if inserted { None } else { Some(*window_dims.next()? as usize) };
        extent.push(from.map_or(1, |u| update_shape[u]));
        update_dims.push(from);
        if let Some(u) = from {
            window[u] = d;
        }
    }
    let places = numbers.scatter_dims_to_operand_dims.iter().map(|&d| d as usize).collect();
    Some(ScatterParts { places, update_dims, window, extent, combine: scatter_body(module, op)? })
}

/// The elements of a small integer array that is always the same.
fn constant_list(module: &Module, value: ValueId) -> Option<Vec<i64>> {
    let op = module.op(module.def_op(value)?);
    let count = module.ty(value).as_tensor()?.num_elements()? as usize;
    match (op.kind(), op.attr("value")) {
        (_, Some(Attr::Dense(dense))) => dense.to_i64s(),
        (OpKind::Movement(MovementOp::Concatenate), _) if module.ty(value).dims().len() == 1 => {
            let parts = op.operands().iter().map(|&v| constant_list(module, v)).collect::<Option<Vec<_>>>()?;
            Some(parts.concat())
        }
        (OpKind::Movement(MovementOp::Reshape), _) => constant_list(module, *op.operands().first()?),
        _ => Some(vec![crate::compile::constant(module, value)?; count]),
    }
}

/// What the body of a scatter does with the old element: nothing (`Some(None)`), or one of the usual combinations.
fn scatter_body(module: &Module, op: OpId) -> Option<Option<OpKind>> {
    let body = module.body_of(op, 0)?;
    let args = module.block(body).args();
    let &[result] = module.returned(body) else { return None };
    if args.len() != 2 || result == args[1] {
        return (args.len() == 2).then_some(None);
    }
    let inner = module.op(module.def_op(result)?);
    let plain = inner.operands() == args || inner.operands() == [args[1], args[0]];
    let kind = inner.kind();
    let known =
        matches!(kind, OpKind::Binary(BinaryOp::Add | BinaryOp::Multiply | BinaryOp::Maximum | BinaryOp::Minimum));
    (plain && known).then_some(Some(kind))
}

/// Where `op`, a `dynamic_slice`, starts in each dimension, if it starts there on all of `devices`.
pub(crate) fn offsets(module: &Module, op: OpId, devices: Devices) -> Option<Vec<i64>> {
    let data = module.op(op);
    let (&from, starts) = data.operands().split_first()?;
    let (dims, sizes) = (module.ty(from).dims(), module.ty(*data.results().first()?).dims());
    let one = |(d, &start): (usize, &ValueId)| {
        let (low, high) = range(module, start, devices)?;
        (low == high).then(|| low.clamp(0, dims[d] - sizes[d]))
    };
    starts.iter().enumerate().map(one).collect()
}

/// Where `op`, one that only renames elements, reads its operand for a result at `map`. `None` for a reshape that
/// changes more than extents of one.
pub(crate) fn renamed(module: &Module, op: OpId, map: &[Lin]) -> Option<Map> {
    let data = module.op(op);
    let from = module.ty(*data.operands().first()?).dims();
    let to = module.ty(*data.results().first()?).dims();
    Some(match data.kind() {
        OpKind::Movement(MovementOp::Slice) => {
            let (start, step) = (data.i64s("start_indices")?, data.i64s("strides")?);
            map.iter().enumerate().map(|(d, l)| l.scaled(step[d], start[d])).collect()
        }
        OpKind::Movement(MovementOp::Reverse) => {
            let mut map = map.to_vec();
            for d in data.i64s("dimensions")? {
                map[d as usize] = map[d as usize].scaled(-1, from[d as usize] - 1);
            }
            map
        }
        OpKind::Movement(MovementOp::Transpose) => {
            let mut out = vec![Lin::at(0); map.len()];
            for (to, from) in data.i64s("permutation")?.into_iter().enumerate() {
                out[from as usize] = map[to];
            }
            out
        }
        OpKind::Movement(MovementOp::BroadcastInDim) => {
            let dims = data.i64s("broadcast_dimensions")?;
            let one = |(i, &d): (usize, &i64)| if from[i] == to[d as usize] { map[d as usize] } else { Lin::at(0) };
            dims.iter().enumerate().map(one).collect()
        }
        OpKind::Movement(MovementOp::Broadcast) => map[to.len() - from.len()..].to_vec(),
        OpKind::Movement(MovementOp::Reshape) => {
            let mut rest = to.iter().zip(map).filter(|&(&n, _)| n != 1);
            let mut out = vec![];
            for &n in from {
                out.push(match n {
                    1 => Lin::at(0),
                    _ => *rest.next().filter(|&(&m, _)| m == n)?.1,
                });
            }
            if rest.next().is_some() {
                return None;
            }
            out
        }
        OpKind::Movement(MovementOp::BitcastConvert) => map.to_vec(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossings_of_rising_and_falling_lines() {
        let brute = |l: Lin, limit: i64| {
            let holds = |i: i64| l.coef * i + l.base >= limit;
            (-50..50).find(|&i| holds(i) != holds(i - 1)).unwrap()
        };
        for coef in [-3, -1, 1, 2, 5] {
            for base in -4..5 {
                for limit in -6..7 {
                    let l = Lin { dim: 0, coef, base };
                    assert_eq!(l.crossing(limit), brute(l, limit), "{coef} {base} {limit}");
                }
            }
        }
    }
}
