//! From one placement to another by all-slices, permutes, all-to-alls and all-gathers.
//!
//! The state is the difference of both placements: for each dimension the axes that split it now (`ins`) and those that
//! are to (`outs`), without what both start with. Each step brings the two closer, in an order that keeps shards
//! small: slice what can be sliced, permute axes of equal size in one go, move axes between dimensions, gather what
//! is left over. Where all sizes divide each other one round is enough.
//!
//! Invariants: an axis in `ins` and one in `outs` are equal or do not overlap; `current` is the placement, of which
//! `ins` are the last axes of each dimension.

use meshwork_mesh::{AxisRef, DimSharding, Mesh, MeshRef, Reduction, Sharding, axis_list};

use super::align::align;

/// One collective.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Collective {
    /// Gathers these axes of each dimension.
    AllGather(Vec<Vec<AxisRef>>),
    /// Splits each dimension further by these axes.
    AllSlice(Vec<Vec<AxisRef>>),
    /// Moves axes from the end of one dimension to the end of another.
    AllToAll {
        /// The axes.
        axes: Vec<AxisRef>,
        /// Where they leave.
        from: usize,
        /// Where they go.
        to: usize,
    },
    /// Each device sends its shard to another one.
    Permute,
}

/// A collective and the placement after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is done.
    pub collective: Collective,
    /// The placement then.
    pub out: Sharding,
}

pub(super) struct State<'m> {
    pub mesh: &'m Mesh,
    pub shape: &'m [i64],
    /// The axes that split each dimension and must go or move.
    pub ins: Vec<Vec<AxisRef>>,
    /// The axes that are to split each dimension and do not yet.
    pub outs: Vec<Vec<AxisRef>>,
    /// The axes that split each dimension.
    pub current: Vec<Vec<AxisRef>>,
    /// By how much each dimension may still be split in the step being made.
    pub capacity: Vec<i64>,
    /// The mesh of the current placement: its device order may also change.
    mesh_ref: MeshRef,
    unreduced: Vec<AxisRef>,
    reduction: Reduction,
    steps: Vec<Step>,
}

/// How often the steps are tried before everything that differs is gathered. Two rounds are known to be enough.
const ROUNDS: usize = 4;

/// The steps from placement `from` of a tensor of this shape to placement `to`, which differ in axes and in the order of
/// devices only.
///
/// Where the sizes of axes do not divide each other, there may be no permute that keeps the number of shards of each
/// dimension. A plan that would need one is replaced by one that gathers what changes and slices it again.
pub fn plan(from: &Sharding, to: &Sharding, mesh: &Mesh, shape: &[i64]) -> Vec<Step> {
    let (mut state, steps) = (State::new(from, to, mesh, shape), in_place_steps(from, to, mesh, shape));
    let mut at = from;
    for step in &steps {
        if step.collective == Collective::Permute && at.num_shards(mesh) != step.out.num_shards(mesh) {
            state.gather_whole();
            state.slice_all();
            if state.mesh_ref != to.mesh {
                state.mesh_ref = to.mesh.clone();
                state.push(Collective::Permute);
            }
            return state.steps;
        }
        at = &step.out;
    }
    steps
}

fn in_place_steps(from: &Sharding, to: &Sharding, mesh: &Mesh, shape: &[i64]) -> Vec<Step> {
    let mut state = State::new(from, to, mesh, shape);
    for _ in 0..ROUNDS {
        if state.is_done(&to.mesh) {
            return state.steps;
        }
        state.slice();
        if state.should_permute() {
            state.permute();
            state.mesh_ref = to.mesh.clone();
            state.push(Collective::Permute);
        } else if state.mesh_ref != to.mesh {
            // The order of devices changes, the axes do not.
            state.mesh_ref = to.mesh.clone();
            state.push(Collective::Permute);
        }
        state.exchange_in_order();
        state.exchange();
        state.gather();
    }
    if !state.is_done(&to.mesh) {
        state.gather_all();
        state.slice_all();
    }
    state.steps
}

impl<'m> State<'m> {
    fn new(from: &Sharding, to: &Sharding, mesh: &'m Mesh, shape: &'m [i64]) -> State<'m> {
        let axes = |s: &Sharding| s.dims.iter().map(|d| d.axes.clone()).collect::<Vec<_>>();
        let (mut ins, mut outs) = align(axes(from), axes(to), mesh);
        for (ins, outs) in ins.iter_mut().zip(&mut outs) {
            let common = ins.iter().zip(&*outs).take_while(|(a, b)| a == b).count();
            ins.drain(..common);
            outs.drain(..common);
        }
        State {
            mesh,
            shape,
            ins,
            outs,
            current: axes(from),
            capacity: vec![1; from.rank()],
            mesh_ref: from.mesh.clone(),
            unreduced: to.unreduced.clone(),
            reduction: to.reduction,
            steps: vec![],
        }
    }

    /// Gathers all axes of the dimensions that change, also those that both placements start with.
    fn gather_whole(&mut self) {
        for dim in 0..self.rank() {
            if !(self.ins[dim].is_empty() && self.outs[dim].is_empty()) {
                let kept = self.current[dim].clone();
                let mut kept = axis_list::strip_suffix(&kept, &self.ins[dim], self.mesh).unwrap_or_default();
                self.outs[dim].splice(0..0, kept.iter().cloned());
                kept.append(&mut self.ins[dim]);
                self.ins[dim] = kept;
            }
        }
        self.gather_all();
    }
}

impl State<'_> {
    fn is_done(&self, mesh: &MeshRef) -> bool {
        self.mesh_ref == *mesh && self.ins.iter().chain(&self.outs).all(Vec::is_empty)
    }

    /// Notes a step that led to the current axes.
    pub fn push(&mut self, collective: Collective) {
        let out = Sharding {
            mesh: self.mesh_ref.clone(),
            dims: self.current.iter().map(|axes| DimSharding::closed(axes.iter())).collect(),
            replicated: vec![],
            unreduced: self.unreduced.clone(),
            reduction: self.reduction,
        };
        self.steps.push(Step { collective, out });
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.ins.len()
    }

    /// Whether `axis` splits a dimension and must go or move.
    pub fn is_held(&self, axis: &AxisRef) -> bool {
        self.ins.iter().any(|axes| axes.contains(axis))
    }

    /// The dimension that `axis` is to split and its place among the axes there.
    pub fn home(&self, axis: &AxisRef) -> Option<(usize, usize)> {
        let place = |(dim, axes): (usize, &Vec<AxisRef>)| Some((dim, axes.iter().position(|a| a == axis)?));
        self.outs.iter().enumerate().find_map(place)
    }

    /// Adds an axis to those that split `dim`.
    pub fn add_current(&mut self, dim: usize, axis: AxisRef) {
        axis_list::push(&mut self.current[dim], axis, self.mesh);
    }

    /// Removes `axes` from the end of those that split `dim`; they may be parts of them.
    pub fn pop_current(&mut self, dim: usize, axes: &[AxisRef]) {
        let current = &mut self.current[dim];
        for axis in axes.iter().rev() {
            if let Some(last) = current.pop() {
                current.extend(last.prefix_without_overlap(axis));
            }
        }
    }

    /// Cuts from `axis` what fits into the capacity of `dim`, and takes that from the capacity.
    pub fn fit(&mut self, dim: usize, axis: &AxisRef) -> Option<Fit> {
        fit(axis, &mut self.capacity[dim], self.mesh)
    }
}

/// Number of shards that these axes make.
pub(super) fn product(axes: &[AxisRef], mesh: &Mesh) -> i64 {
    axis_list::product(axes, mesh)
}

/// Whether one of both divides the other.
pub(super) fn divides(a: i64, b: i64) -> bool {
    a % b == 0 || b % a == 0
}

/// An axis cut to a capacity.
pub(super) struct Fit {
    pub within: AxisRef,
    pub rest: Option<AxisRef>,
}

/// Cuts from `axis` what fits into `capacity`, and takes that from it; `None` if neither divides the other.
pub(super) fn fit(axis: &AxisRef, capacity: &mut i64, mesh: &Mesh) -> Option<Fit> {
    let size = axis.size(mesh);
    if *capacity <= 1 || !divides(size, *capacity) {
        return None;
    }
    if *capacity >= size {
        *capacity /= size;
        return Some(Fit { within: axis.clone(), rest: None });
    }
    let within = AxisRef::sub(axis.name.clone(), axis.pre_size(), *capacity);
    let rest = AxisRef::sub(axis.name.clone(), within.next_pre_size(mesh), size / *capacity);
    *capacity = 1;
    Some(Fit { within, rest: Some(rest) })
}

#[cfg(test)]
mod tests {
    use meshwork_mesh::parse_sharding;

    use super::*;

    /// All placements of two dimensions by at most two of these axes each, without overlaps.
    fn placements(axes: &[AxisRef]) -> Vec<Sharding> {
        let mut lists: Vec<Vec<AxisRef>> = vec![vec![]];
        lists.extend(axes.iter().map(|a| vec![a.clone()]));
        for (i, a) in axes.iter().enumerate() {
            let others = axes.iter().enumerate().filter(|(j, b)| *j != i && !a.overlaps(b) && !a.can_merge(b));
            lists.extend(others.map(|(_, b)| vec![a.clone(), b.clone()]));
        }
        let pairs = lists.iter().flat_map(|a| lists.iter().map(move |b| (a, b)));
        let disjoint = pairs.filter(|(a, b)| !axis_list::overlaps(a, b));
        disjoint.map(|(a, b)| Sharding::new("mesh", [DimSharding::closed(a), DimSharding::closed(b)])).collect()
    }

    /// The placement that a step leads to, from what it says that it does.
    fn after(from: &Sharding, step: &Step, mesh: &Mesh) -> Option<Sharding> {
        let mut out = from.clone();
        match &step.collective {
            Collective::AllGather(axes) => {
                for (dim, axes) in out.dims.iter_mut().zip(axes) {
                    dim.axes = axis_list::strip_suffix(&dim.axes, axes, mesh)?;
                }
            }
            Collective::AllSlice(axes) => {
                for (dim, axes) in out.dims.iter_mut().zip(axes) {
                    axis_list::extend(&mut dim.axes, axes.iter().cloned(), mesh);
                }
            }
            Collective::AllToAll { axes, from, to } => {
                out.dims[*from].axes = axis_list::strip_suffix(&out.dims[*from].axes, axes, mesh)?;
                axis_list::extend(&mut out.dims[*to].axes, axes.iter().cloned(), mesh);
            }
            Collective::Permute => {
                if out.num_shards(mesh) != step.out.num_shards(mesh) {
                    return None;
                }
                out = step.out.clone();
            }
        }
        Some(out)
    }

    fn check_all_pairs(mesh: &Mesh, axes: &[AxisRef]) {
        // Even, and not even anywhere.
        check_all_pairs_of(mesh, axes, &[48, 48]);
        check_all_pairs_of(mesh, axes, &[7, 13]);
    }

    fn check_all_pairs_of(mesh: &Mesh, axes: &[AxisRef], shape: &[i64]) {
        let all = placements(axes);
        for from in &all {
            for to in &all {
                let mut at = from.clone();
                for step in plan(from, to, mesh, shape) {
                    let next = after(&at, &step, mesh);
                    assert_eq!(next.as_ref(), Some(&step.out), "{from} to {to}: {:?} at {at}", step.collective);
                    at = step.out;
                }
                assert_eq!(&at, to, "{from} to {to}");
            }
        }
    }

    #[test]
    fn an_axis_moves_by_one_all_to_all() -> Result<(), Box<dyn std::error::Error>> {
        let mesh = Mesh::new([("x", 2), ("y", 2)])?;
        let (from, to) = (parse_sharding(r#"<@mesh, [{"x"}, {}]>"#)?, parse_sharding(r#"<@mesh, [{}, {"x"}]>"#)?);
        let steps = plan(&from, &to, &mesh, &[8, 8]);
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].collective, Collective::AllToAll { axes: vec![AxisRef::full("x")], from: 0, to: 1 });
        assert_eq!(steps[0].out, to);
        Ok(())
    }

    #[test]
    fn every_plan_ends_where_it_should() -> Result<(), meshwork_mesh::MeshError> {
        let full = |names: &[&str]| names.iter().map(|&n| AxisRef::full(n)).collect::<Vec<_>>();
        check_all_pairs(&Mesh::new([("x", 2), ("y", 4), ("z", 2)])?, &full(&["x", "y", "z"]));
        check_all_pairs(&Mesh::new([("x", 2), ("y", 3), ("z", 4)])?, &full(&["x", "y", "z"]));
        let parts = [AxisRef::full("x"), AxisRef::sub("y", 1, 2), AxisRef::sub("y", 2, 3), AxisRef::full("y")];
        check_all_pairs(&Mesh::new([("x", 4), ("y", 6)])?, &parts);
        Ok(())
    }
}
