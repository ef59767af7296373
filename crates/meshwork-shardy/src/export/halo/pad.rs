//! Pads along split dimensions.

use meshwork_ir::build::Builder;
use meshwork_ir::{Attr, Module, OpId, Type, ValueId};
use meshwork_mesh::{AxisRef, Mesh, Sharding, ceil_div};
use meshwork_propagate::program::{set_sharding, sharding_of};

use super::exchange::{Ends, Neighbors, Shift, exchange, neighbors, shift_line};
use super::shards::{cut_high, even_dims, manual_computation, pad_high, return_from, whole_axes, without_axes};
use super::{Halo, Resolved};
use crate::export::rewrite::{Problem, before, tensor};

/// A pad or slice, as a shift of each split dimension.
pub struct Shifted {
    /// What is shifted.
    pub value: ValueId,
    /// How it is split.
    pub sharding: Sharding,
    /// The mesh.
    pub mesh: Mesh,
    /// The split dimensions.
    pub dims: Vec<(usize, Shift, Neighbors)>,
}

impl Shifted {
    /// The shifts of an op whose element `i` along each dimension goes to `i * dilation + low`; `None` if it is not
    /// split.
    pub fn of(cx: &Halo, module: &Module, op: OpId, low: &[i64], dilation: &[i64]) -> Option<Shifted> {
        let value = module.op(op).operands()[0];
        let sharding = sharding_of(module, value).filter(|s| !s.is_fully_replicated())?;
        let mesh: Mesh = (**cx.meshes.mesh(&sharding)?).clone();
        if mesh.is_maximal() {
            return None;
        }
        let (from, to) = (module.ty(value).dims(), module.ty(module.result(op)).dims());
        let mut dims = vec![];
        for (dim, placed) in sharding.dims.iter().enumerate() {
            let shards = placed.num_shards(&mesh);
            if shards > 1 {
                let shift = Shift {
                    shards,
                    from: ceil_div(from[dim], shards),
                    to: ceil_div(to[dim], shards),
                    low: low[dim],
                    dilation: dilation[dim],
                    extent: from[dim],
                };
                let needed = neighbors(&shift);
                dims.push((dim, shift, needed));
            }
        }
        Some(Shifted { value, sharding, mesh, dims })
    }

    /// Whether elements move between shards.
    pub fn moves(&self) -> bool {
        self.dims.iter().any(|(_, _, n)| n.moves)
    }

    /// Whether all neighbors are near.
    pub fn is_near(&self) -> bool {
        self.dims.iter().all(|(_, _, n)| n.is_near)
    }

    /// Replaces `op` by the exchange; `finish` does on each shard what is left to do along the other dimensions.
    pub fn replace(
        &self,
        cx: &mut Halo,
        module: &mut Module,
        op: OpId,
        padding: ValueId,
        fill: Option<ValueId>,
        finish: impl FnOnce(&mut Builder, ValueId, ValueId, &Sharding) -> Result<ValueId, Problem>,
    ) -> Result<(), Problem> {
        let axes: Vec<&AxisRef> = self.dims.iter().flat_map(|(d, _, _)| &self.sharding.dims[*d].axes).collect();
        let manual = whole_axes(axes, &self.mesh);
        let inner = without_axes(&self.sharding, &manual);
        let result = tensor(module, module.result(op))?;
        let ends = if is_zero(module, padding) { Ends::Zero } else { Ends::Padding };
        let even = even_dims(&tensor(module, self.value)?.dims, &self.sharding, &self.mesh);
        let input = pad_high(module, op, self.value, &even, &self.sharding, fill)?;
        let even = even_dims(&result.dims, &self.sharding, &self.mesh);
        let scalar = Sharding::fully_open(self.sharding.mesh.clone(), 0);
        let operands = [(input, self.sharding.clone()), (padding, scalar)];
        let out = (Type::from(result.with_dims(even)), self.sharding.clone());
        let computation = manual_computation(module, op, &operands, out, &manual, &self.mesh)?;
        let (mut value, padding) = (computation.args[0], computation.args[1]);
        let loc = module.op(op).loc.clone();
        let mut b = Builder::at_end(module, computation.body);
        b.set_loc(loc);
        for (dim, shift, needed) in &self.dims {
            // A dimension where every shard keeps its elements in place needs nothing.
            if needed.moves || shift.from != shift.to || shift.low != 0 || shift.dilation != 1 {
                let line = shift_line(*dim, &self.sharding.dims[*dim].axes, shift, needed, ends);
                value = exchange(cx, &mut b, value, padding, &line, &self.mesh, &inner)?;
            }
        }
        let value = finish(&mut b, value, padding, &inner)?;
        return_from(module, computation.body, value, op);
        let cut = cut_high(module, op, computation.result, &result.dims, &self.sharding)?;
        module.replace_op(op, &[cut]);
        Ok(())
    }
}

/// Exchanges what a pad needs.
pub fn resolve(cx: &mut Halo, module: &mut Module, op: OpId) -> Result<Resolved, Problem> {
    let ints = |name: &str| module.op(op).i64s(name).unwrap_or_default();
    let (low, high) = (ints("edge_padding_low"), ints("edge_padding_high"));
    let interior = ints("interior_padding");
    let dilation: Vec<i64> = interior.iter().map(|n| n + 1).collect();
    let Some(shifted) = Shifted::of(cx, module, op, &low, &dilation) else { return Ok(Resolved::Yes) };
    if !shifted.moves() {
        return Ok(Resolved::Yes);
    }
    if !shifted.is_near() {
        return Ok(Resolved::No);
    }
    let padding = module.op(op).operands()[1];
    let split: Vec<usize> = shifted.dims.iter().map(|(dim, _, _)| *dim).collect();
    shifted.replace(cx, module, op, padding, Some(padding), |b, value, padding, inner| {
        // Dimensions that are not split are padded on each shard.
        let local = |list: &[i64]| -> Vec<i64> {
            list.iter().enumerate().map(|(dim, &n)| if split.contains(&dim) { 0 } else { n }).collect()
        };
        let (low, high, interior) = (local(&low), local(&high), local(&interior));
        if [&low, &high, &interior].into_iter().flatten().all(|&n| n == 0) {
            return Ok(value);
        }
        let padded = b.pad(value, padding, &low, &high, &interior)?;
        set_sharding(b.module_mut(), padded, inner.clone());
        Ok(padded)
    })?;
    Ok(Resolved::Yes)
}

/// A zero of the element type of `value`, in front of `op`.
pub fn zero(module: &mut Module, op: OpId, value: ValueId) -> Result<ValueId, Problem> {
    let elem = tensor(module, value)?.elem;
    Ok(before(module, op).scalar(elem, 0.0)?)
}

/// Whether `value` is known to be zero.
fn is_zero(module: &Module, value: ValueId) -> bool {
    let constant = module.def_op(value).and_then(|op| module.op(op).attr("value"));
    matches!(constant, Some(Attr::Dense(dense)) if dense.splat_bytes().is_some_and(|bytes| bytes.iter().all(|&b| b == 0)))
}
