//! Visiting every placement that a module stores, in program order, and changing it.

use std::sync::Arc;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, ValueId, Walk};
use meshwork_mesh::Sharding;

use crate::program::{SHARDING, Slot, argument_owners, result_slot, sharding_list};

/// What a stored placement belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// A value.
    Value(ValueId),
    /// Result number `1` of function `0`.
    FuncResult(OpId, usize),
    /// An op without results, which may name a device.
    Op(OpId),
}

/// Calls `change` on every stored placement; `Some` replaces it.
///
/// The `in_shardings` of a manual computation are passed as written, with manual axes.
pub fn transform_shardings(module: &mut Module, mut change: impl FnMut(&Sharding, Place) -> Option<Sharding>) {
    for op in module.all_ops(Walk::PreOrder) {
        let kind = module.op(op).kind();
        if kind == ControlOp::Func {
            transform_func(module, op, &mut change);
            continue;
        }
        if matches!(kind, OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation)) {
            let places: Vec<Place> = argument_owners(module, op).into_iter().map(Place::Value).collect();
            transform_list(module, op, "in_shardings", &places, &mut change);
        }
        let mut places: Vec<Place> = module.op(op).results().iter().map(|&v| Place::Value(v)).collect();
        if places.is_empty() {
            places.push(Place::Op(op));
        }
        match result_slot(kind) {
            Slot::Single(name) => {
                let old = module.op(op).attr(name).and_then(Attr::as_sharding);
                if let Some(new) = old.and_then(|s| change(s, places[0])) {
                    module.op_mut(op).attrs.set(name, Attr::Sharding(Arc::new(new)));
                }
            }
            Slot::PerValue(name) => transform_list(module, op, name, &places, &mut change),
        }
    }
}

fn transform_func(module: &mut Module, func: OpId, change: &mut impl FnMut(&Sharding, Place) -> Option<Sharding>) {
    let ty = module.func_type(func);
    let args: Vec<ValueId> = module.body_of(func, 0).map_or(vec![], |b| module.block(b).args().to_vec());
    for (i, &arg) in args.iter().enumerate() {
        let old = module.arg_attr(func, i, SHARDING).and_then(Attr::as_sharding);
        if let Some(new) = old.and_then(|s| change(s, Place::Value(arg))) {
            module.set_arg_attr(func, i, SHARDING, Some(Attr::Sharding(Arc::new(new))));
        }
    }
    for i in 0..ty.results.len() {
        let old = module.res_attr(func, i, SHARDING).and_then(Attr::as_sharding);
        if let Some(new) = old.and_then(|s| change(s, Place::FuncResult(func, i))) {
            module.set_res_attr(func, i, SHARDING, Some(Attr::Sharding(Arc::new(new))));
        }
    }
}

fn transform_list(
    module: &mut Module,
    op: OpId,
    name: &str,
    places: &[Place],
    change: &mut impl FnMut(&Sharding, Place) -> Option<Sharding>,
) {
    let Some(old) = sharding_list(module, op, name) else { return };
    let changed: Vec<Option<Sharding>> = old.iter().zip(places).map(|(s, &place)| change(s, place)).collect();
    if changed.iter().any(Option::is_some) {
        let new = old.iter().zip(changed).map(|(s, c)| c.unwrap_or_else(|| s.clone())).collect();
        module.op_mut(op).attrs.set(name, Attr::ShardingPerValue(new));
    }
}
