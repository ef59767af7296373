//! Copying operations of the global program into the per-device one.

use meshwork_ir::groups::inline_mesh;
use meshwork_ir::hash::HashMap;
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, BlockId, OpId, OpKind, OpSpec, Type, ValueId};

use super::{Result, Splitter};
use crate::layout::Layout;

/// Whether `attr` says something about placement, under whatever name: the mesh it refers to is not there any more.
fn is_placement(attr: &Attr) -> bool {
    match attr {
        Attr::Sharding(_) | Attr::ShardingPerValue(_) | Attr::Mesh(_) => true,
        Attr::Array(items) => items.iter().any(is_placement),
        Attr::Dict(entries) => entries.iter().any(|(_, attr)| is_placement(attr)),
        _ => false,
    }
}

impl Splitter<'_> {
    /// Copies `op` with these local operands and result types. Bodies are copied as they are: they work on scalars.
    pub fn copy(&mut self, op: OpId, operands: &[ValueId], results: Vec<Type>) -> Result<OpId> {
        let spec = self.spec_of(op).operands(operands.iter().copied()).results(results);
        let copy = self.local.push(spec);
        self.copy_regions(op, copy)?;
        Ok(copy)
    }

    /// The kind, attributes and location of `op`, without placements.
    pub fn spec_of(&self, op: OpId) -> OpSpec {
        let op = self.src.op(op);
        let mut spec = OpSpec::new(op.kind()).loc(op.loc.clone());
        spec.pos = op.pos;
        spec.name = op.name().into();
        spec.attrs = op.attrs.clone();
        spec.attrs.retain(|name, attr| !name.starts_with("sdy.") && name != "mhlo.sharding" && !is_placement(attr));
        inline_mesh(self.src, &mut spec.attrs);
        spec
    }

    /// Copies the regions of `from`, an op of the global program, into `to`.
    pub fn copy_regions(&mut self, from: OpId, to: OpId) -> Result<()> {
        let mut map = HashMap::default();
        // What the regions use from outside has to stand before the operation.
        let before = self.local.before.replace(to);
        let done = self.copy_regions_with(from, to, &mut map);
        self.local.before = before;
        done
    }

    fn copy_regions_with(&mut self, from: OpId, to: OpId, map: &mut HashMap<ValueId, ValueId>) -> Result<()> {
        for &region in self.src.op(from).regions() {
            let copy = self.local.module.add_region(to);
            for &block in self.src.region(region).blocks() {
                let types: Vec<Type> = self.src.block(block).args().iter().map(|&a| self.src.ty(a).clone()).collect();
                let new = self.local.module.add_block(copy, types);
                for (i, &arg) in self.src.block(block).args().iter().enumerate() {
                    map.insert(arg, self.local.module.block(new).args()[i]);
                }
                self.copy_block(block, new, map)?;
            }
        }
        Ok(())
    }

    /// Copies the operations of `from`; `map` says what stands for its arguments.
    pub fn copy_block(&mut self, from: BlockId, to: BlockId, map: &mut HashMap<ValueId, ValueId>) -> Result<()> {
        for op in self.src.op_list(from) {
            let mut operands = vec![];
            for &v in self.src.op(op).operands() {
                operands.push(match map.get(&v) {
                    Some(&local) => local,
                    None => {
                        // A value from outside: bodies see it whole.
                        let extents = self.extents(v);
                        self.get(v, &Layout::replicated(&extents))?
                    }
                });
            }
            if matches!(self.src.op(op).kind(), OpKind::Sdy(SdyOp::Reshard | SdyOp::ShardingConstraint)) {
                // Bodies work on whole values: there is nothing to place.
                map.extend(self.src.op(op).results().iter().copied().zip(operands));
                continue;
            }
            let types: Vec<Type> = self.src.op(op).results().iter().map(|&r| self.src.ty(r).clone()).collect();
            let spec = self.spec_of(op).operands(operands).results(types);
            let copy = self.local.module.push(to, spec);
            for (i, &r) in self.src.op(op).results().iter().enumerate() {
                map.insert(r, self.local.module.op(copy).results()[i]);
            }
            self.copy_regions_with(op, copy, map)?;
        }
        Ok(())
    }
}
