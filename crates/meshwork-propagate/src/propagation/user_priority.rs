//! The user-priority strategy: dimensions take part in the order of the priorities that are written on them.
//!
//! Before the first round every dimension of a lower priority is closed and empty, and its axes are kept free for it
//! by being replicated. Each round gives the dimensions of one priority back what they had, and runs the op-priority
//! strategy on top of what was found so far.

use std::collections::{BTreeMap, BTreeSet};

use meshwork_ir::hash::HashMap;
use meshwork_ir::{Module, ValueId, Walk};
use meshwork_mesh::{AxisRef, DimSharding, Sharding, sort_by};

use crate::program::{Meshes, Place, edge_of_target, transform_shardings};

/// Per priority above 0, the places that have it and what they had before.
pub type References = BTreeMap<i64, Vec<(Place, Sharding)>>;

/// Sets aside all dimensions of a priority above 0 and drops the marks of priority 0.
pub fn set_aside(module: &mut Module) -> References {
    let mut references = References::new();
    let has_mark = |sharding: &Sharding| sharding.dims.iter().any(|d| d.priority.is_some());
    let mut any_mark = false;
    transform_shardings(module, |sharding, _| {
        any_mark |= has_mark(sharding);
        None
    });
    if !any_mark {
        return references;
    }
    let meshes = Meshes::of(module);
    let mut targets: BTreeSet<ValueId> = BTreeSet::new();
    for op in module.all_ops(Walk::PreOrder) {
        let blocks = module.op(op).regions().iter().flat_map(|&r| module.region(r).blocks());
        let args = blocks.flat_map(|&b| module.block(b).args());
        targets.extend(args.chain(module.op(op).results()).filter(|&&v| edge_of_target(module, v).is_some()));
    }
    transform_shardings(module, |sharding, place| {
        // The edge holds the placement of its targets.
        if matches!(place, Place::Value(v) if targets.contains(&v)) {
            return None;
        }
        if !has_mark(sharding) {
            return None;
        }
        let priorities: BTreeSet<i64> = sharding.dims.iter().map(DimSharding::priority_or_default).collect();
        for &priority in priorities.iter().filter(|&&p| p > 0) {
            references.entry(priority).or_default().push((place, sharding.clone()));
        }
        Some(first_round(sharding, &meshes))
    });
    references
}

fn first_round(sharding: &Sharding, meshes: &Meshes) -> Sharding {
    let mut first = sharding.clone();
    for dim in &mut first.dims {
        if dim.priority_or_default() == 0 {
            dim.priority = None;
        } else {
            let aside = std::mem::replace(dim, DimSharding { is_closed: true, ..DimSharding::default() });
            first.replicated.extend(aside.axes);
        }
    }
    if let Some(mesh) = meshes.mesh(sharding) {
        sort_by(&mut first.replicated, |a, b| a.cmp_in(b, mesh));
    }
    first
}

/// Gives the dimensions of `priority` back what they had.
pub fn restore(module: &mut Module, priority: i64, references: &[(Place, Sharding)]) {
    let original: HashMap<Place, &Sharding> = references.iter().map(|(p, s)| (*p, s)).collect();
    transform_shardings(module, |current, place| {
        let original = original.get(&place)?;
        let mut restored = current.clone();
        let mut back: Vec<AxisRef> = vec![];
        for (dim, had) in restored.dims.iter_mut().zip(&original.dims) {
            if had.priority_or_default() == priority {
                *dim = DimSharding { priority: None, ..had.clone() };
                back.extend(had.axes.iter().cloned());
            }
        }
        restored.replicated.retain(|axis| !back.contains(axis));
        Some(restored)
    });
}
