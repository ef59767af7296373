//! Deep copies of operations within one module.

use super::context::TypeIds;
use super::*;

/// The value of the copy for each value of the original.
pub type ValueMap = std::collections::HashMap<ValueId, ValueId>;

impl Module {
    /// Copies `op` with all its regions, detached. Operands are looked up in `map` (values not in it are kept),
    /// and the map learns the results and block arguments of the copy.
    pub fn clone_op(&mut self, op: OpId, map: &mut ValueMap) -> OpId {
        let old = self.op(op).clone();
        let operands: Values = old.operands.iter().map(|v| *map.get(v).unwrap_or(v)).collect();
        let types: TypeIds = old.results.iter().map(|&v| self.type_id(v)).collect();
        let copy = self.add_op(old.kind, &operands, &types, old.attrs, old.loc, old.pos);
        self.ops[copy.index()].name = old.name;
        for (i, &result) in old.results.iter().enumerate() {
            map.insert(result, self.op(copy).results[i]);
        }
        for &region in &old.regions {
            let new_region = self.add_region(copy);
            for block in self.region(region).blocks.clone() {
                self.clone_block_into(block, new_region, map);
            }
        }
        copy
    }

    fn clone_block_into(&mut self, block: BlockId, region: RegionId, map: &mut ValueMap) {
        let args = self.block(block).args.clone();
        let types: TypeIds = args.iter().map(|&a| self.type_id(a)).collect();
        let copy = self.add_block_typed(region, &types);
        self.blocks[copy.index()].arg_locs = self.block(block).arg_locs.clone();
        for (i, arg) in args.into_iter().enumerate() {
            map.insert(arg, self.block(copy).args[i]);
        }
        for op in self.op_list(block) {
            let inner = self.clone_op(op, map);
            self.append(copy, inner);
        }
    }
}

impl Module {
    /// Copies `op` of `other`, with all its regions, to the end of `block`. Operands are looked up in `map`, which
    /// learns the results and block arguments of the copy; an operand that is not in it is an error.
    pub fn import_op(&mut self, other: &Module, op: OpId, block: BlockId, map: &mut ValueMap) -> Result<OpId, String> {
        let old = other.op(op);
        let operands: Result<Values, String> = old
            .operands
            .iter()
            .map(|v| map.get(v).copied().ok_or_else(|| format!("{} uses a value from outside", other.describe(op))))
            .collect();
        let spec = OpSpec {
            kind: old.kind,
            name: old.name.as_deref().cloned().unwrap_or_default(),
            operands: operands?,
            result_types: old.results.iter().map(|&v| other.ty(v).clone()).collect(),
            attrs: old.attrs.clone(),
            loc: old.loc.clone(),
            pos: old.pos,
        };
        let copy = self.push(block, spec);
        for (i, &result) in old.results.iter().enumerate() {
            map.insert(result, self.op(copy).results[i]);
        }
        for &region in &old.regions {
            let new_region = self.add_region(copy);
            for &from in &other.region(region).blocks {
                let types: Vec<Type> = other.block(from).args.iter().map(|&a| other.ty(a).clone()).collect();
                let to = self.add_block(new_region, types);
                self.blocks[to.index()].arg_locs = other.block(from).arg_locs.clone();
                for (i, &arg) in other.block(from).args.iter().enumerate() {
                    map.insert(arg, self.block(to).args[i]);
                }
                for inner in other.op_list(from) {
                    self.import_op(other, inner, to, map)?;
                }
            }
        }
        Ok(copy)
    }
}
