//! Predictions: how long a collective takes on the links of a machine, and an operation on one of its devices.
//!
//! The README beside this file has the formulas. The rates that are assumed where none are given stand in the
//! `Default`s here and nowhere else.

mod collective;
mod device;
mod file;
mod fit;
mod host;
mod known;
mod level;
mod link;

use meshwork_mesh::{AxisRef, Mesh};

use crate::collective::CollectiveKind;
use crate::plan::PlannedCollective;

pub use collective::{Span, Way};
pub use device::{Class, Curve, Device};
pub use fit::{Errors, Parameter, fit};
pub use host::{CollectiveRate, Host};
pub use known::NAMES;
pub use level::{Level, Shape};
pub use link::{Link, Links};

/// What a program runs on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Machine {
    /// Its name; empty if none was given.
    pub name: String,
    /// How devices are connected.
    pub links: Links,
    /// What each of them can do.
    pub device: Device,
    /// That all devices are threads of one computer.
    pub host: Option<Host>,
}

impl Machine {
    /// Whether more is known about it than the size of its memory.
    pub fn is_given(&self) -> bool {
        let mut rates = self.clone();
        rates.device.capacity = None;
        rates != Machine::default()
    }

    /// The same machine with at most `bytes` of memory for each device.
    pub fn within(mut self, bytes: Option<f64>) -> Machine {
        let has = self.device.capacity;
        self.device.capacity = has.into_iter().chain(bytes).min_by(f64::total_cmp);
        self
    }

    /// Whether something is known about devices that communicate beside their work, as threads of one computer do not.
    pub(crate) fn is_given_network(&self) -> bool {
        self.host.is_none() && self.is_given()
    }

    /// The predicted seconds of one run of `planned` on `mesh`.
    pub fn collective_seconds(&self, planned: &PlannedCollective, mesh: &Mesh) -> f64 {
        match &self.host {
            Some(host) => host.collective_seconds(planned, mesh),
            None => self.links.seconds(planned, mesh),
        }
    }

    /// The predicted seconds of a collective over groups along whole axes of `mesh`, with an operand of `operand` bytes on each
    /// device.
    pub fn axes_seconds(&self, kind: &CollectiveKind, axes: &[AxisRef], mesh: &Mesh, operand: f64) -> f64 {
        let group: i64 = axes.iter().map(|axis| axis.size(mesh)).product();
        match &self.host {
            _ if group <= 1 => 0.0,
            Some(host) => host.group_seconds(kind, group, mesh.device_count(), operand),
            None => self.links.axes_seconds(kind, axes, mesh, operand),
        }
    }

    /// The share of a device's arithmetic that is lost while `planned` runs beside it; all of it where nothing overlaps.
    pub fn lost_beside(&self, planned: &PlannedCollective, mesh: &Mesh) -> f64 {
        match &self.host {
            Some(_) => 1.0,
            None => self.links.lost_beside(planned, mesh),
        }
    }

    /// What it is called, or its figures in a few words; links that are set for an axis are among them.
    pub fn title(&self) -> String {
        let Link { latency_us, gigabytes_per_second } = self.links.default;
        let mut text = if self.name.is_empty() {
            let Device { teraflops, memory_gigabytes_per_second: memory, .. } = self.device;
            format!(
                "devices of {teraflops} TFLOP/s and {memory} GB/s, links of {latency_us} us and {gigabytes_per_second} GB/s"
            )
        } else {
            self.name.clone()
        };
        for (axis, link) in &self.links.by_axis {
            text += &format!(", {axis} of {} us and {} GB/s", link.latency_us, link.gigabytes_per_second);
        }
        text
    }
}
