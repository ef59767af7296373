//! The plan: every collective with its cause, and what a device needs.

use std::collections::BTreeMap;

use meshwork_mesh::{AxisRef, DimSharding, Sharding};

use crate::atoms::Atoms;
use crate::collective::{Collective, Peers};
use crate::layout::Layout;
use crate::memory::Peak;

/// What partitioning a program amounts to.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Number of devices.
    pub devices: i64,
    /// Collectives in program order.
    pub collectives: Vec<PlannedCollective>,
    /// Peak memory of a device.
    pub peak: Peak,
}

/// A collective of the plan, in the mesh's own words.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedCollective {
    /// The collective.
    pub collective: Collective,
    /// The mesh axes it works over.
    pub axes: Vec<AxisRef>,
}

/// What the collectives of one kind add up to, loops multiplied, per device.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct KindTotal {
    /// How many run.
    pub count: i64,
    /// Bytes of their operands.
    pub operand_bytes: i64,
    /// Bytes sent under the ring model.
    pub wire_bytes: f64,
}

impl Plan {
    /// Totals by kind of collective.
    pub fn totals(&self) -> BTreeMap<&'static str, KindTotal> {
        let mut out: BTreeMap<&'static str, KindTotal> = BTreeMap::new();
        for PlannedCollective { collective: c, .. } in &self.collectives {
            let total = out.entry(c.kind.name()).or_default();
            total.count += c.times;
            total.operand_bytes += c.times * c.operand_bytes;
            total.wire_bytes += c.times as f64 * c.wire_bytes;
        }
        out
    }

    /// Bytes a device sends in all.
    pub fn wire_bytes(&self) -> f64 {
        self.totals().values().map(|t| t.wire_bytes).sum()
    }
}

/// Says over which mesh axes a collective works.
pub fn planned(collective: Collective, atoms: &Atoms) -> PlannedCollective {
    let axes = match &collective.peers {
        Peers::Group(list) | Peers::Line { atoms: list, .. } => atoms.to_axes(list),
        Peers::Given { .. } => vec![],
        Peers::Relabel(pairs) => {
            let mut list: Vec<u8> = pairs.iter().map(|p| p.0).collect();
            list.sort_unstable();
            atoms.to_axes(&list)
        }
    };
    PlannedCollective { collective, axes }
}

/// The sharding that a layout in ordinary frames stands for.
pub fn sharding_of_layout(layout: &Layout, mesh: &str, atoms: &Atoms) -> Sharding {
    Sharding::new(mesh, layout.dims.iter().map(|d| DimSharding::closed(atoms.to_axes(&d.atoms))))
}
