//! Which annotation each axis of a value started from: `sdy.sharding_origins`.
//!
//! Origins are function inputs (`input: 0`) and outputs (`output: 0`), constraints (`constraint_0`) and the inputs
//! and outputs of manual computations (`mc_0_input: 0`); on the annotated value itself it is `self`.

use std::collections::HashMap;
use std::sync::Arc;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, AttrDict, Def, Module, OpId, OpKind, ValueId, Walk};
use meshwork_mesh::{AxisRef, Sharding};
use meshwork_propagate::program::{
    SHARDING, argument_owners, edge_of_owner, edge_sources, owning_op, result_owners, shardable_value, sharding_list,
    sharding_of,
};
use meshwork_propagate::why::{Node, Trace};

/// Name of the attribute.
pub const SHARDING_ORIGINS: &str = "sdy.sharding_origins";
/// Name of the list for block arguments of ops with data-flow edges.
pub const BLOCK_ARG_ORIGINS: &str = "sdy.block_arg_sharding_origins";
/// Name of the list for results of ops with data-flow edges.
pub const RESULT_ORIGINS: &str = "sdy.result_sharding_origins";
/// Name of the attribute that names a constraint or manual computation as an origin.
pub const ORIGIN_NAME: &str = "sdy.sharding_origin_name";

/// Per value the origin of each axis, in the order they came.
#[derive(Default)]
pub struct Origins {
    by_value: HashMap<ValueId, Vec<(AxisRef, String)>>,
}

impl Origins {
    /// The annotations of `module` before propagation. Names its constraints and manual computations.
    pub fn prepare(module: &mut Module) -> Origins {
        let mut origins = Origins::default();
        let ops = module.all_ops(Walk::PostOrder);
        let of_kind = |module: &Module, kind| -> Vec<OpId> {
            ops.iter().copied().filter(|&op| module.op(op).kind() == kind).collect()
        };
        for (i, op) in of_kind(module, OpKind::Sdy(SdyOp::ShardingConstraint)).into_iter().enumerate() {
            let name = format!("constraint_{i}");
            let (&[input], &[result]) = (module.op(op).operands(), module.op(op).results()) else { continue };
            origins.annotate(module, result, sharding_of(module, result).as_ref(), &name);
            origins.annotate(module, input, sharding_of(module, input).as_ref(), &name);
            module.op_mut(op).attrs.set(ORIGIN_NAME, Attr::str(name));
        }
        for (i, op) in of_kind(module, OpKind::Sdy(SdyOp::ManualComputation)).into_iter().enumerate() {
            origins.annotate_manual(module, op, &format!("mc_{i}"));
            module.op_mut(op).attrs.set(ORIGIN_NAME, Attr::str(format!("mc_{i}")));
        }
        for func in module.funcs().collect::<Vec<_>>() {
            let Some(body) = module.body_of(func, 0) else { continue };
            for (i, &arg) in module.block(body).args().iter().enumerate() {
                origins.annotate(module, arg, sharding_of(module, arg).as_ref(), &format!("input: {i}"));
            }
            for (i, &value) in module.returned(body).iter().enumerate() {
                let sharding = module.res_attr(func, i, SHARDING).and_then(Attr::as_sharding);
                origins.annotate(module, value, sharding, &format!("output: {i}"));
            }
        }
        origins
    }

    fn annotate_manual(&mut self, module: &Module, op: OpId, name: &str) {
        for (i, &owner) in argument_owners(module, op).iter().enumerate() {
            let origin = format!("{name}_input: {i}");
            let outer = sharding_list(module, op, "in_shardings").and_then(|l| l.get(i));
            self.annotate(module, owner, outer, &origin);
            for source in edge_sources(module, owner) {
                self.annotate(module, source, sharding_of(module, source).as_ref(), &origin);
            }
        }
        for (i, &owner) in result_owners(module, op).iter().enumerate() {
            let outer = sharding_list(module, op, "out_shardings").and_then(|l| l.get(i));
            self.annotate(module, owner, outer, &format!("{name}_output: {i}"));
        }
    }

    fn annotate(&mut self, module: &Module, value: ValueId, sharding: Option<&Sharding>, origin: &str) {
        if let (Some(slot), Some(sharding)) = (shardable_value(module, value), sharding) {
            for axis in sharding.dim_axes() {
                self.add(slot, axis, origin.to_string());
            }
        }
    }

    /// The first origin of an axis stays.
    fn add(&mut self, value: ValueId, axis: &AxisRef, origin: String) {
        let list = self.by_value.entry(value).or_default();
        if list.iter().all(|(a, _)| a != axis) {
            list.push((axis.clone(), origin));
        }
    }

    /// Follows the steps of a propagation.
    pub fn follow(&mut self, trace: &Trace) {
        for step in trace.steps() {
            // A function result is the value that is returned.
            let value = |index: usize| match (step.nodes.get(index)?.as_ref()?, step.nodes.first()?.as_ref()?) {
                (Node::Value(value), _) | (Node::FuncResult(_), Node::Value(value)) => Some(*value),
                _ => None,
            };
            for m in &step.moves {
                let (Some(source), Some(target)) = (m.source.and_then(value), value(m.target)) else { continue };
                for axis in &m.axes {
                    if let Some(origin) = self.origin(source, axis) {
                        self.add(target, axis, origin);
                    }
                }
            }
        }
    }

    /// The origin of `axis` on `value`, or of an axis that contains it or is a part of it.
    fn origin(&self, value: ValueId, axis: &AxisRef) -> Option<String> {
        let list = self.by_value.get(&value)?;
        let exact = list.iter().find(|(a, _)| a == axis);
        let near = || list.iter().find(|(a, _)| a.contains(axis) || axis.contains(a));
        exact.or_else(near).map(|(_, origin)| origin.clone())
    }

    /// Puts the origins on the values of `module`.
    pub fn save(&self, module: &mut Module) {
        let mut values: Vec<ValueId> = self.by_value.keys().copied().collect();
        values.sort();
        for value in values {
            let Some(op) = owning_op(module, value) else { continue };
            if module.is_erased(op) {
                continue;
            }
            self.save_on_func_result(module, value);
            let place = (module.op(op).kind(), module.value(value).def());
            match place {
                (OpKind::Control(ControlOp::Func), Def::Arg(_, i)) => {
                    let dict = self.dict(value, &format!("input: {i}"));
                    module.set_arg_attr(op, i as usize, SHARDING_ORIGINS, Some(dict));
                }
                (OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::DataFlowEdge), _) => {
                    let own = own_origin(module, op).unwrap_or_default();
                    module.op_mut(op).attrs.set(SHARDING_ORIGINS, self.dict(value, &own));
                }
                (_, Def::Result(_, i)) => {
                    let empty = || Attr::Dict(Arc::new(AttrDict::new()));
                    let mut list = match module.op(op).attr(SHARDING_ORIGINS).and_then(Attr::as_array) {
                        Some(list) => list.to_vec(),
                        None => module.op(op).results().iter().map(|_| empty()).collect(),
                    };
                    if let Some(slot) = list.get_mut(i as usize) {
                        *slot = self.dict(value, "");
                    }
                    module.op_mut(op).attrs.set(SHARDING_ORIGINS, Attr::Array(list.into()));
                }
                (_, Def::Arg(..)) => {}
            }
        }
    }

    fn save_on_func_result(&self, module: &mut Module, value: ValueId) {
        // MLIR finds the latest use first.
        let mut uses = module.value(value).uses().iter().rev();
        let Some(&returned) = uses.find(|u| module.op(u.op).kind() == ControlOp::FuncReturn) else {
            return;
        };
        if let Some(func) = module.parent_op(returned.op) {
            let index = returned.operand as usize;
            let dict = self.dict(value, &format!("output: {index}"));
            module.set_res_attr(func, index, SHARDING_ORIGINS, Some(dict));
        }
    }

    /// The origins of `value` by axis, `own` being called `self`.
    fn dict(&self, value: ValueId, own: &str) -> Attr {
        let entries = self.by_value.get(&value).into_iter().flatten();
        let dict: AttrDict = entries
            .map(|(axis, origin)| {
                let origin = if origin == own { "self" } else { origin };
                (axis.to_string().replace('"', ""), Attr::str(origin))
            })
            .collect();
        Attr::Dict(Arc::new(dict))
    }
}

/// The name that an op's own annotation has as an origin.
fn own_origin(module: &Module, op: OpId) -> Option<String> {
    if module.op(op).kind() == SdyOp::ShardingConstraint {
        return module.op(op).attr(ORIGIN_NAME)?.as_str().map(str::to_string);
    }
    let owner = *module.op(op).operands().first()?;
    debug_assert_eq!(edge_of_owner(module, owner), Some(op));
    let name = module.op(owning_op(module, owner)?).attr(ORIGIN_NAME)?.as_str()?;
    Some(match module.value(owner).def() {
        Def::Arg(_, i) => format!("{name}_input: {i}"),
        Def::Result(_, i) => format!("{name}_output: {i}"),
    })
}
