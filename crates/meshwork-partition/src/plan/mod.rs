//! The plan: every collective with its causes, and what a device needs.

mod advice;
pub(crate) mod cause;
mod contract;
pub(crate) mod cost;
mod explain;
pub(crate) mod flops;
mod json;
pub(crate) mod lives;
mod lock;
pub(crate) mod memory;
mod notebook;
mod ops;
mod simulate;
mod values;
mod why;

use std::collections::BTreeMap;
use std::sync::Arc;

use meshwork_ir::{Combine, Type};
use meshwork_mesh::{AxisRef, DimSharding, Mesh, MeshRef, Reduction, Sharding};

use crate::collective::{Collective, Peers};
use crate::layout::atoms::Atoms;
use crate::plan::cause::Namer;
use crate::split::Placed;

pub use crate::split::flow::trip_count;
pub use advice::warnings;
pub use cause::{Annotation, Cause, loc_name, place_of, short_type};
pub use contract::{Contract, ContractViolation, KINDS, Limit};
pub use cost::{
    Class, CollectiveRate, Curve, Device, Errors, Host, Level, Link, Links, Machine, NAMES as MACHINES, Parameter,
    Shape, Span, Way, fit,
};
pub use explain::{Detail, human_bytes, human_count, human_seconds, table};
pub use flops::op_flops;
pub use json::{data, data_of, json};
pub use lock::{Change, Lock, LockError};
pub use memory::{Alive, Peak};
pub use ops::{Buffer, Operand, PlannedOp, ops};
pub(crate) use simulate::simulate_program;
pub use simulate::{Lane, Simulation, simulate};
pub use values::{PlacedValue, values};
pub use why::Explainer;

/// What partitioning a program amounts to.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The mesh.
    pub mesh: Mesh,
    /// The function's arguments.
    pub arguments: Vec<Border>,
    /// The function's results.
    pub results: Vec<Border>,
    /// Collectives in program order.
    pub collectives: Vec<PlannedCollective>,
    /// Peak memory of a device.
    pub peak: Peak,
    /// Arithmetic operations of a device.
    pub flops: f64,
}

/// A value that enters or leaves the function.
#[derive(Clone, PartialEq, Debug)]
pub struct Border {
    /// The name it was traced under; empty if not known.
    pub name: String,
    /// Its global type.
    pub ty: Type,
    /// How it is on the devices.
    pub sharding: Arc<Sharding>,
}

/// A collective of the plan, in the mesh's own words.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedCollective {
    /// The collective.
    pub collective: Collective,
    /// The mesh axes it works over; empty if the program lists the devices.
    pub axes: Vec<AxisRef>,
    /// What needs it: one cause, or one for each collective that was combined into this one.
    pub causes: Vec<Cause>,
}

impl PlannedCollective {
    /// Says over which mesh axes a collective works, and for what.
    pub fn new(collective: Collective, atoms: &Atoms, namer: &Namer<'_>) -> PlannedCollective {
        let axes = match &collective.peers {
            Peers::Group(list) | Peers::Line { atoms: list, .. } | Peers::Given { atoms: list, .. } => {
                atoms.to_axes(list)
            }
            Peers::Devices(_) => atoms.to_axes(&atoms.all()),
            Peers::Relabel(pairs) => {
                let mut list: Vec<u8> = pairs.iter().map(|p| p.0).collect();
                list.sort_unstable();
                atoms.to_axes(&list)
            }
        };
        let causes = collective.origins.iter().map(|origin| namer.cause(origin, &axes)).collect();
        PlannedCollective { collective, axes, causes }
    }

    /// The axes as text: `x,y`; `given` if the program lists the devices.
    pub fn axes_text(&self) -> String {
        if self.axes.is_empty() {
            "given".into()
        } else {
            self.axes.iter().map(|a| a.to_string().replace('"', "")).collect::<Vec<_>>().join(",")
        }
    }

    /// Bytes of its operand; of the largest operand if several collectives were combined.
    pub fn largest_operand(&self) -> f64 {
        let sent = || self.causes.iter().map(|c| c.wire_bytes);
        let (all, most) = (sent().sum::<f64>(), sent().fold(0.0, f64::max));
        // Members of a combined collective send in proportion to their operands.
        let share = if all > 0.0 { most / all } else { 1.0 };
        self.collective.operand_bytes as f64 * share
    }

    /// Bytes a device sends for it in a run.
    pub fn sent(&self) -> f64 {
        self.collective.wire_bytes * self.collective.times as f64
    }
}

/// What some collectives add up to, loops multiplied, per device.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Total {
    /// How many run.
    pub count: i64,
    /// Bytes of their operands.
    pub operand_bytes: i64,
    /// Bytes sent under the ring model.
    pub wire_bytes: f64,
}

impl Total {
    fn add(&mut self, c: &Collective) {
        self.count += c.times;
        self.operand_bytes += c.times * c.operand_bytes;
        self.wire_bytes += c.times as f64 * c.wire_bytes;
    }
}

impl Plan {
    /// Totals by kind of collective.
    pub fn totals(&self) -> BTreeMap<&'static str, Total> {
        let mut out: BTreeMap<&'static str, Total> = BTreeMap::new();
        for c in &self.collectives {
            out.entry(c.collective.kind.name()).or_default().add(&c.collective);
        }
        out
    }

    /// Totals by kind and axes.
    pub fn totals_by_axes(&self) -> BTreeMap<(&'static str, String), Total> {
        let mut out: BTreeMap<(&'static str, String), Total> = BTreeMap::new();
        for c in &self.collectives {
            out.entry((c.collective.kind.name(), c.axes_text())).or_default().add(&c.collective);
        }
        out
    }

    /// Number of devices.
    pub fn devices(&self) -> i64 {
        self.mesh.device_count()
    }

    /// Bytes a device sends in all.
    pub fn wire_bytes(&self) -> f64 {
        self.collectives.iter().map(PlannedCollective::sent).sum()
    }

    /// The predicted seconds of a run, if collectives and computation take turns.
    pub fn seconds(&self, machine: &Machine) -> f64 {
        let seconds = |c: &PlannedCollective| machine.collective_seconds(c, &self.mesh) * c.collective.times as f64;
        let sent = self.collectives.iter().map(seconds);
        sent.sum::<f64>() + self.flops / (machine.device.best_peak() * 1e12)
    }

    /// Whether its peak fits the memory of a device of `machine`, as far as that is known.
    pub fn fits(&self, machine: &Machine) -> bool {
        machine.device.capacity.is_none_or(|room| self.peak.bytes as f64 <= room)
    }

    /// Whether a collective stands in a loop whose trip count is not known.
    pub fn has_unknown_trip_counts(&self) -> bool {
        self.collectives.iter().any(|c| c.collective.times_unknown)
    }
}

/// The sharding of a value at the border; over a mesh of its own if its device order is another.
pub(crate) fn sharding_of_placed(placed: &Placed, mesh: &str, atoms: &Atoms) -> Sharding {
    let mut sharding =
        Sharding::new(mesh, placed.layout.dims.iter().map(|d| DimSharding::closed(atoms.to_axes(&d.atoms))));
    if let Some((parts, combine)) = &placed.layout.partial {
        let reduction = match combine {
            Combine::Max => Reduction::Max,
            Combine::Min => Reduction::Min,
            _ => Reduction::Sum,
        };
        sharding = sharding.with_unreduced(reduction, atoms.to_axes(parts));
    }
    if let Some(reordered) = &placed.reordered {
        sharding.mesh = MeshRef::Inline(reordered.clone());
    }
    sharding
}
