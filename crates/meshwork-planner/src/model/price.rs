//! What communication takes in the model: as the plan's predictions have it, over whole axes.

use meshwork_ir::Combine;
use meshwork_mesh::{AxisRef, Mesh};
use meshwork_partition::Machine;
use meshwork_partition::collective::CollectiveKind;

use super::place::{MOST_AXES, Place};

/// The axes of a mesh with what collectives over them take.
pub(super) struct Axes<'a> {
    pub(super) sizes: Vec<i64>,
    names: Vec<AxisRef>,
    mesh: &'a Mesh,
    machine: &'a Machine,
}

impl<'a> Axes<'a> {
    pub(super) fn new(mesh: &'a Mesh, machine: &'a Machine) -> Axes<'a> {
        let axes = || mesh.axes().iter().take(MOST_AXES);
        Axes {
            sizes: axes().map(|axis| axis.size).collect(),
            names: axes().map(|axis| AxisRef::full(axis.name.clone())).collect(),
            mesh,
            machine,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// How many devices there are along these axes.
    fn group(&self, axes: &[usize]) -> f64 {
        axes.iter().map(|&a| self.sizes[a] as f64).product()
    }

    /// Seconds of a collective along `axes` with an operand of `bytes`.
    fn seconds(&self, kind: CollectiveKind, axes: &[usize], bytes: f64) -> f64 {
        let names: Vec<AxisRef> = axes.iter().map(|&a| self.names[a].clone()).collect();
        self.machine.axes_seconds(&kind, &names, self.mesh, bytes)
    }

    /// Seconds to add up `bytes` of partial results: over the `scattered` axes each device keeps a part, over the `summed` ones all
    /// get what is left.
    pub(super) fn combine(&self, scattered: &[usize], summed: &[usize], bytes: f64) -> f64 {
        let sum = Combine::Add;
        self.seconds(CollectiveKind::ReduceScatter(sum), scattered, bytes)
            + self.seconds(CollectiveKind::AllReduce(sum), summed, bytes / self.group(scattered))
    }

    /// Seconds to fetch `bytes` from the neighbours along an axis.
    pub(super) fn neighbours(&self, axis: usize, bytes: f64) -> f64 {
        self.seconds(CollectiveKind::Permute, &[axis], bytes)
    }

    /// Seconds to bring a value of `bytes` bytes from one place to another: what is split more is cut first, then axes change
    /// dimensions, then what is split less is gathered.
    pub(super) fn reshard(&self, from: Place, to: Place, bytes: f64) -> f64 {
        if from == to {
            return 0.0;
        }
        let some = |wanted: &dyn Fn(usize) -> bool| (0..self.len()).filter(|&a| wanted(a)).collect::<Vec<usize>>();
        let cut = some(&|a| from.dim(a).is_none() && to.dim(a).is_some());
        let moved = some(&|a| from.dim(a).is_some() && to.dim(a).is_some() && from.dim(a) != to.dim(a));
        let gathered = some(&|a| from.dim(a).is_some() && to.dim(a).is_none());
        let held = bytes / from.parts(&self.sizes) / self.group(&cut);
        let mut seconds = self.seconds(CollectiveKind::AllToAll, &moved, held)
            + self.seconds(CollectiveKind::AllGather, &gathered, held);
        // An axis that stays where another one before it comes or goes splits at other places than before.
        let shifted = |&a: &usize| {
            let dim = from.dim(a);
            let before = |place: Place| (0..a).filter(|&b| place.dim(b) == dim).collect::<Vec<_>>();
            dim.is_some() && dim == to.dim(a) && before(from) != before(to)
        };
        for axis in (0..self.len()).filter(shifted) {
            seconds += self.neighbours(axis, held);
        }
        seconds
    }
}
