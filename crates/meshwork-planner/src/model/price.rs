//! What communication takes in the model: rings over the links of the axes, as the plan's predictions have them.

use meshwork_mesh::{AxisRef, Mesh};
use meshwork_partition::Machine;

use super::place::{MOST_AXES, Place};

/// The axes of a mesh with their links.
pub(super) struct Axes {
    pub(super) sizes: Vec<i64>,
    /// Seconds until the first byte arrives, and for each byte.
    links: Vec<(f64, f64)>,
}

impl Axes {
    pub(super) fn new(mesh: &Mesh, machine: &Machine) -> Axes {
        let axes = || mesh.axes().iter().take(MOST_AXES);
        let link = |name: &AxisRef| {
            let link = machine.links.of(name, mesh);
            (link.latency_us * 1e-6, 1e-9 / link.gigabytes_per_second)
        };
        Axes {
            sizes: axes().map(|axis| axis.size).collect(),
            links: axes().map(|axis| link(&AxisRef::full(axis.name.clone()))).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Seconds of `turns` times a ring over some axes in which each device sends all of `bytes` but its own share.
    fn ring(&self, axes: impl Iterator<Item = usize> + Clone, turns: f64, bytes: f64) -> f64 {
        let group: f64 = axes.clone().map(|a| self.sizes[a] as f64).product();
        if group <= 1.0 {
            return 0.0;
        }
        let (latency, per_byte) =
            axes.map(|a| self.links[a]).fold((0.0f64, 0.0f64), |(l, b), (latency, byte)| (l.max(latency), b.max(byte)));
        turns * ((group - 1.0) * latency + bytes * (group - 1.0) / group * per_byte)
    }

    /// Seconds to add up `bytes` of partial results: over the `scattered` axes each device keeps a part, over the `summed` ones all
    /// get what is left.
    pub(super) fn combine(&self, scattered: &[usize], summed: &[usize], bytes: f64) -> f64 {
        let parts: f64 = scattered.iter().map(|&a| self.sizes[a] as f64).product();
        self.ring(scattered.iter().copied(), 1.0, bytes) + self.ring(summed.iter().copied(), 2.0, bytes / parts)
    }

    /// Seconds to fetch `bytes` from the neighbours along an axis.
    pub(super) fn neighbours(&self, axis: usize, bytes: f64) -> f64 {
        self.links[axis].0 + bytes * self.links[axis].1
    }

    /// Seconds to bring a value of `bytes` bytes from one place to another: what is split more is cut first, then axes change
    /// dimensions, then what is split less is gathered.
    pub(super) fn reshard(&self, from: Place, to: Place, bytes: f64) -> f64 {
        if from == to {
            return 0.0;
        }
        let all = 0..self.len();
        let cut = all.clone().filter(|&a| from.dim(a).is_none() && to.dim(a).is_some());
        let moved = all.clone().filter(|&a| from.dim(a).is_some() && to.dim(a).is_some() && from.dim(a) != to.dim(a));
        let gathered = all.clone().filter(|&a| from.dim(a).is_some() && to.dim(a).is_none());
        let held = bytes / from.parts(&self.sizes) / cut.map(|a| self.sizes[a] as f64).product::<f64>();
        let wanted = bytes / to.parts(&self.sizes);
        let mut seconds = self.ring(moved, 1.0, held) + self.ring(gathered, 1.0, wanted);
        // An axis that stays where another one before it comes or goes splits at other places than before.
        let shifted = |&a: &usize| {
            let dim = from.dim(a);
            let before = |place: Place| (0..a).filter(|&b| place.dim(b) == dim).collect::<Vec<_>>();
            dim.is_some() && dim == to.dim(a) && before(from) != before(to)
        };
        for axis in all.filter(shifted) {
            seconds += self.neighbours(axis, held);
        }
        seconds
    }
}
