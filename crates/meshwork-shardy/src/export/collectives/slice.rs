//! The all-slice: axes that hold copies split dimensions further, each at most as far as in the end.

use meshwork_mesh::{AxisRef, axis_list, gcd};

use super::align::cut_at;
use super::plan::{Collective, State, product};

impl State<'_> {
    /// Slices along axes that hold copies and are wanted.
    ///
    /// 1. Where axes of one dimension are about to move to another, together with axes that follow them there: slice
    ///    those at the source, so that all move at once.
    /// 2. Slice axes in the dimension they belong to, as far as its capacity goes.
    /// 3. Slice the others in the first dimension that has capacity.
    pub fn slice(&mut self) {
        for dim in 0..self.rank() {
            let (ins, outs) = (product(&self.ins[dim], self.mesh), product(&self.outs[dim], self.mesh));
            self.capacity[dim] = outs / gcd(ins, outs);
        }
        let mut sliced = vec![vec![]; self.rank()];
        for (source, sliced) in sliced.iter_mut().enumerate() {
            for axis in self.take_along(source).unwrap_or_default() {
                self.ins[source].push(axis.clone());
                axis_list::push(sliced, axis.clone(), self.mesh);
                self.add_current(source, axis);
            }
        }
        let mut elsewhere = vec![];
        for (dim, sliced) in sliced.iter_mut().enumerate() {
            self.slice_at_home(dim, sliced, &mut elsewhere);
        }
        for (axis, dim) in self.distribute(&mut Available::Shared(elsewhere), End::Back) {
            axis_list::push(&mut sliced[dim], axis.clone(), self.mesh);
            self.add_current(dim, axis);
        }
        if sliced.iter().any(|axes| !axes.is_empty()) {
            self.push(Collective::AllSlice(sliced));
        }
    }

    /// Slices everything that is still wanted, in its place.
    pub fn slice_all(&mut self) {
        let outs = std::mem::take(&mut self.outs);
        self.outs = vec![vec![]; outs.len()];
        let mut sliced = vec![vec![]; outs.len()];
        for (dim, axes) in outs.into_iter().enumerate() {
            for axis in axes {
                axis_list::push(&mut sliced[dim], axis.clone(), self.mesh);
                self.add_current(dim, axis);
            }
        }
        if sliced.iter().any(|axes| !axes.is_empty()) {
            self.push(Collective::AllSlice(sliced));
        }
    }

    fn slice_at_home(&mut self, dim: usize, sliced: &mut Vec<AxisRef>, elsewhere: &mut Vec<AxisRef>) {
        let mut i = 0;
        while let Some(axis) = self.outs[dim].get(i).cloned() {
            if self.is_held(&axis) {
                i += 1;
                continue;
            }
            let Some(fit) = self.fit(dim, &axis) else {
                elsewhere.push(axis);
                i += 1;
                continue;
            };
            axis_list::push(sliced, fit.within.clone(), self.mesh);
            self.add_current(dim, fit.within.clone());
            if self.ins[dim].is_empty() && i == 0 {
                self.outs[dim].remove(0);
            } else {
                self.ins[dim].push(fit.within.clone());
                self.outs[dim][i] = fit.within;
                i += 1;
            }
            if let Some(rest) = fit.rest {
                self.outs[dim].insert(i, rest.clone());
                elsewhere.push(rest);
                i += 1;
            }
        }
    }

    /// The axes to slice at `source` because they follow its last axes in the dimension where those belong.
    ///
    /// Only if `source` wants no axes itself, the target has none to give away, the axes are in order, and the
    /// dimension can be split by all of them evenly. The capacity is that of the target.
    fn take_along(&mut self, source: usize) -> Option<Vec<AxisRef>> {
        let ins = &self.ins[source];
        let last = ins.last().filter(|_| self.outs[source].is_empty())?;
        let (target, index) = self.home(last)?;
        if !self.ins[target].is_empty() {
            return None;
        }
        let outs = &self.outs[target];
        let start = index + 1;
        if outs.get(start).is_none_or(|axis| self.is_held(axis)) {
            return None;
        }
        let together = ins.iter().rev().zip(outs[..start].iter().rev()).take_while(|(a, b)| a == b).count();
        let common = product(&ins[ins.len() - together..], self.mesh);
        let is_out_of_order = |axis: &AxisRef| self.home(axis).is_some_and(|(dim, _)| dim == target);
        if ins[..ins.len() - together].iter().any(is_out_of_order) {
            return None;
        }
        let added: Vec<AxisRef> = outs[start..].iter().take_while(|axis| !self.is_held(axis)).cloned().collect();
        let added_size = product(&added, self.mesh);
        if self.shape[source] % (product(&self.current[source], self.mesh) * added_size) != 0 {
            return None;
        }
        self.capacity[target] /= common * added_size;
        Some(added)
    }

    /// Adds available axes, or parts of them, to dimensions that have capacity; returns them with their dimensions.
    pub fn distribute(&mut self, available: &mut Available, end: End) -> Vec<(AxisRef, usize)> {
        let (mut placed, mut cut) = (vec![], vec![]);
        for dim in 0..self.rank() {
            let mut at = if end == End::Front { 0 } else { self.ins[dim].len() };
            let mut i = 0;
            while self.capacity[dim] > 1 {
                let Some(axis) = available.of(dim).get(i).cloned() else { break };
                let Some(fit) = self.fit(dim, &axis) else {
                    i += 1;
                    continue;
                };
                available.of(dim).remove(i);
                self.ins[dim].insert(at, fit.within.clone());
                at += 1;
                placed.push((fit.within.clone(), dim));
                if let Some(rest) = fit.rest {
                    cut.push(fit.within);
                    available.of(dim).insert(0, rest);
                    i += 1;
                }
            }
        }
        cut.sort();
        self.outs = cut_at(std::mem::take(&mut self.outs), &cut, self.mesh);
        placed
    }
}

/// Axes to hand out.
pub enum Available {
    /// The same for all dimensions.
    Shared(Vec<AxisRef>),
    /// Some for each dimension.
    PerDim(Vec<Vec<AxisRef>>),
}

impl Available {
    fn of(&mut self, dim: usize) -> &mut Vec<AxisRef> {
        match self {
            Available::Shared(axes) => axes,
            Available::PerDim(axes) => &mut axes[dim],
        }
    }
}

/// Where among the axes of a dimension new ones go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Before all others, in order.
    Front,
    /// After all others.
    Back,
}
