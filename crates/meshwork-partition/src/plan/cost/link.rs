//! Links: what lies between neighbors along each mesh axis.

use meshwork_mesh::{AxisRef, Mesh};

use super::collective::{self, Span, Way};
use super::file::number;
use super::level::Level;
use crate::collective::{CollectiveKind, Peers};
use crate::layout::atoms::strides;
use crate::plan::PlannedCollective;

/// A link between neighbors along a mesh axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Microseconds until the first byte arrives.
    pub latency_us: f64,
    /// Bytes per second and direction, in units of 10⁹.
    pub gigabytes_per_second: f64,
}

impl Default for Link {
    /// One microsecond and 50 GB/s: about what one link between accelerators of a node gives.
    fn default() -> Self {
        Link { latency_us: 1.0, gigabytes_per_second: 50.0 }
    }
}

impl Link {
    /// A link from its latency in microseconds and its speed in 10⁹ bytes per second, in digits.
    pub fn parse(latency_us: &str, gigabytes_per_second: &str) -> Result<Link, String> {
        match (number(latency_us), number(gigabytes_per_second)) {
            (Some(latency_us), Some(gigabytes_per_second)) if latency_us >= 0.0 && gigabytes_per_second > 0.0 => {
                Ok(Link { latency_us, gigabytes_per_second })
            }
            _ => Err(format!("'{latency_us},{gigabytes_per_second}' is not LATENCY_US,GBPS, two positive numbers")),
        }
    }
}

/// The links of a mesh.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Links {
    /// Of every axis that is not named, unless there are levels.
    pub default: Link,
    /// Of these axes.
    pub by_axis: Vec<(String, Link)>,
    /// Groups of devices inside groups of devices, innermost first. Where the devices of an axis that is not named stand
    /// in them follows from its place in the mesh: the last axis of a mesh has neighbors side by side.
    pub levels: Vec<Level>,
}

impl Links {
    /// Sets the link of an axis, or of all that are not named: there are no levels then.
    pub fn set(&mut self, axis: Option<&str>, link: Link) {
        match axis {
            None => {
                self.default = link;
                self.levels.clear();
            }
            Some(axis) => {
                self.by_axis.retain(|(name, _)| name != axis);
                self.by_axis.push((axis.into(), link));
            }
        }
    }

    /// The link of an axis of `mesh`: the slowest between its neighbors.
    pub fn of(&self, axis: &AxisRef, mesh: &Mesh) -> Link {
        let named = self.by_axis.iter().find(|(name, _)| **name == *axis.name);
        match (named, strides(mesh, axis)) {
            (Some((_, link)), _) => *link,
            (None, Some((low, high))) => self.between(low, high).unwrap_or(self.default),
            (None, None) => self.default,
        }
    }

    /// The link of the outermost level between devices `low`, 2·`low`, … below `high` apart.
    fn between(&self, low: i64, high: i64) -> Option<Link> {
        let members = collective::members(&self.levels, &[Span { stride: low, size: high / low.max(1) }]);
        let outermost = members.iter().rposition(|&n| n > 1).unwrap_or(0);
        self.levels.get(outermost).map(Level::each)
    }

    /// 10⁹ bytes per second over the fastest links of `mesh`.
    pub fn fastest(&self, mesh: &Mesh) -> f64 {
        let named = |axis: &AxisRef| self.by_axis.iter().any(|(name, _)| **name == *axis.name);
        let speed = |axis: AxisRef| {
            let next = strides(mesh, &axis).filter(|_| !named(&axis)).and_then(|(low, _)| self.between(low, 2 * low));
            next.unwrap_or_else(|| self.of(&axis, mesh)).gigabytes_per_second
        };
        let speeds = mesh.axes().iter().map(|a| speed(AxisRef::full(a.name.clone())));
        speeds.reduce(f64::max).unwrap_or(self.default.gigabytes_per_second)
    }

    /// How the devices of a group along `axes` stand in the levels; `None` if one of these has a link of its own, or there are no
    /// levels.
    fn spans(&self, axes: &[AxisRef], mesh: &Mesh) -> Option<Vec<Span>> {
        let named = |axis: &AxisRef| self.by_axis.iter().any(|(name, _)| **name == *axis.name);
        if self.levels.is_empty() || axes.is_empty() || axes.iter().any(named) {
            return None;
        }
        let span = |axis| strides(mesh, axis).map(|(low, high)| Span { stride: low, size: high / low });
        axes.iter().map(span).collect()
    }

    /// The share of a device's arithmetic that is lost while `planned` runs beside it.
    pub(super) fn lost_beside(&self, planned: &PlannedCollective, mesh: &Mesh) -> f64 {
        let Some(spans) = self.spans(&planned.axes, mesh) else { return 0.0 };
        let members = collective::members(&self.levels, &spans);
        let used = self.levels.iter().zip(&members).filter(|(_, n)| **n > 1);
        used.map(|(level, _)| level.lost).fold(0.0, f64::max)
    }

    /// The predicted seconds of a collective over devices that stand like `spans`, by the levels. `operand` is in bytes.
    pub fn group_seconds(&self, kind: &CollectiveKind, spans: &[Span], operand: f64) -> f64 {
        collective::fastest(&self.levels, kind, spans, operand).0
    }

    /// The predicted seconds of one run of `planned` on `mesh`.
    pub fn seconds(&self, planned: &PlannedCollective, mesh: &Mesh) -> f64 {
        self.fastest_way(planned, mesh).0
    }

    /// The predicted seconds of one run of `planned` on `mesh`, and how it goes.
    pub fn fastest_way(&self, planned: &PlannedCollective, mesh: &Mesh) -> (f64, Way) {
        let c = &planned.collective;
        let group = match c.peers {
            Peers::Given { group, .. } => group,
            Peers::Group(_) | Peers::Line { .. } | Peers::Relabel(_) | Peers::Devices(_) => {
                planned.axes.iter().map(|a| a.size(mesh)).product()
            }
        };
        self.over(&c.kind, (&planned.axes, group), mesh, (c.operand_bytes as f64, c.wire_bytes))
    }

    /// The predicted seconds of a collective over groups along whole axes, with an operand of `operand` bytes on each device.
    pub fn axes_seconds(&self, kind: &CollectiveKind, axes: &[AxisRef], mesh: &Mesh, operand: f64) -> f64 {
        let group: i64 = axes.iter().map(|a| a.size(mesh)).product();
        if group <= 1 {
            return 0.0;
        }
        let others = (group - 1) as f64;
        let wire = match kind {
            CollectiveKind::AllReduce(_) => 2.0 * operand * others / group as f64,
            CollectiveKind::AllGather => operand * others,
            CollectiveKind::ReduceScatter(_) | CollectiveKind::AllToAll | CollectiveKind::RaggedAllToAll => {
                operand * others / group as f64
            }
            CollectiveKind::Permute => operand,
        };
        self.over(kind, (axes, group), mesh, (operand, wire)).0
    }

    /// Seconds and way of a collective over groups of `group` devices along `axes`; `wire` are the bytes that a device sends.
    fn over(
        &self,
        kind: &CollectiveKind,
        (axes, group): (&[AxisRef], i64),
        mesh: &Mesh,
        (operand, wire): (f64, f64),
    ) -> (f64, Way) {
        if let Some(spans) = self.spans(axes, mesh) {
            return collective::fastest(&self.levels, kind, &spans, operand);
        }
        let links = || axes.iter().map(|a| self.of(a, mesh));
        let (latency, speed) = if axes.is_empty() {
            let link = self.between(1, mesh.device_count()).unwrap_or(self.default);
            (link.latency_us, link.gigabytes_per_second)
        } else {
            let latency = links().map(|l| l.latency_us).fold(0.0, f64::max);
            (latency, links().map(|l| l.gigabytes_per_second).fold(f64::INFINITY, f64::min))
        };
        let (steps, bytes) = match kind {
            CollectiveKind::AllReduce(_) => (2 * (group - 1), wire),
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter(_)
            | CollectiveKind::AllToAll
            | CollectiveKind::RaggedAllToAll => (group - 1, wire),
            // Every sender sends its whole operand, however few they are.
            CollectiveKind::Permute => (1, operand),
        };
        (steps.max(0) as f64 * latency * 1e-6 + bytes / (speed * 1e9), Way::Ring)
    }
}
