//! A machine whose devices are threads of one computer, as those of the CPU engine: they share its processors and its
//! memory, and exchange data by copying it.

use meshwork_mesh::Mesh;

use crate::collective::{CollectiveKind, Peers};
use crate::plan::PlannedCollective;

/// What the devices of a mesh share. Rates of the device are those of one thread.
#[derive(Clone, PartialEq, Debug)]
pub struct Host {
    /// Threads that do the work of all devices.
    pub threads: f64,
    /// Microseconds of work that one thread does before it is worth dividing.
    pub grain_us: f64,
    /// Microseconds that a run takes besides its operations.
    pub run_us: f64,
    /// Bytes per second that all threads together read and write at most, in units of 10⁹.
    pub memory_gigabytes_per_second: f64,
    /// How fast collectives are, by kind.
    pub collectives: Vec<(String, CollectiveRate)>,
}

impl Default for Host {
    /// One thread that does everything itself.
    fn default() -> Self {
        Host { threads: 1.0, grain_us: 50.0, run_us: 0.0, memory_gigabytes_per_second: 1e3, collectives: vec![] }
    }
}

/// A collective takes `microseconds + operand / read + result / write` for the operands and results of all devices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CollectiveRate {
    /// However small it is.
    pub microseconds: f64,
    /// 10⁹ bytes of operands per second.
    pub read: f64,
    /// 10⁹ bytes of results per second.
    pub write: f64,
}

impl Host {
    /// Seconds until `devices` devices have each done work of `seconds` on one thread that touches `bytes` bytes of
    /// memory outside the caches.
    pub fn seconds(&self, seconds: f64, bytes: f64, devices: i64) -> f64 {
        let devices = devices.max(1) as f64;
        let parts = (seconds / (self.grain_us * 1e-6)).clamp(1.0, self.threads);
        let busy = self.threads.min(devices * parts);
        (seconds * devices / busy).max(bytes * devices / (self.memory_gigabytes_per_second * 1e9))
    }

    /// The predicted seconds of one run of `planned` on `mesh`.
    pub fn collective_seconds(&self, planned: &PlannedCollective, mesh: &Mesh) -> f64 {
        let c = &planned.collective;
        let group = match c.peers {
            Peers::Given { group, .. } => group,
            _ => planned.axes.iter().map(|axis| axis.size(mesh)).product(),
        };
        self.group_seconds(&c.kind, group, mesh.device_count(), c.operand_bytes as f64)
    }

    /// The predicted seconds of a collective over groups of `group` of all `devices`, with an operand of `operand` bytes on each.
    pub fn group_seconds(&self, kind: &CollectiveKind, group: i64, devices: i64, operand: f64) -> f64 {
        let operand = operand * devices as f64;
        let result = match kind {
            CollectiveKind::AllGather => operand * group as f64,
            CollectiveKind::ReduceScatter(_) => operand / group as f64,
            CollectiveKind::AllReduce(_)
            | CollectiveKind::AllToAll
            | CollectiveKind::RaggedAllToAll
            | CollectiveKind::Permute => operand,
        };
        // An exchange of pieces takes as long as one of blocks.
        let name = match kind {
            CollectiveKind::RaggedAllToAll => CollectiveKind::AllToAll.name(),
            kind => kind.name(),
        };
        let rate = self.collectives.iter().find(|(kind, _)| *kind == name).map(|(_, rate)| rate);
        rate.map_or(0.0, |r| r.microseconds * 1e-6 + operand / (r.read * 1e9) + result / (r.write * 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_share_the_threads() {
        let host =
            Host { threads: 4.0, grain_us: 10.0, run_us: 0.0, memory_gigabytes_per_second: 10.0, collectives: vec![] };
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} is not {b}");
        // Too little to divide; enough for all threads; many devices; more memory than the bus has.
        close(host.seconds(5e-6, 0.0, 1), 5e-6);
        close(host.seconds(1e-3, 0.0, 1), 0.25e-3);
        close(host.seconds(5e-6, 0.0, 8), 10e-6);
        close(host.seconds(1e-6, 1e6, 2), 2e-4);
    }
}
