//! The collective permute: axes are exchanged for others while each dimension keeps its number of shards.

use meshwork_mesh::AxisRef;

use super::plan::{State, divides, fit, product};
use super::slice::{Available, End};

impl State<'_> {
    /// Whether a permute helps:
    ///
    /// 1. a dimension has axes to give away and wants others of sizes that divide each other;
    /// 2. some axis must go, another must come, and their sizes divide each other;
    /// 3. axes of a dimension that belong to another one are not adjacent there, or
    /// 4. are not in the order in which they are wanted;
    /// 5. an axis to gather comes after one to move.
    pub fn should_permute(&self) -> bool {
        let (mut to_go, mut to_come): (Option<&AxisRef>, Option<&AxisRef>) = (None, None);
        for (dim, (ins, outs)) in self.ins.iter().zip(&self.outs).enumerate() {
            if let (Some(first_in), Some(first_out)) = (ins.first(), outs.first())
                && divides(first_in.size(self.mesh), first_out.size(self.mesh))
            {
                return true;
            }
            to_come = outs.iter().rev().find(|axis| !self.is_held(axis)).or(to_come);
            let mut last: Option<(usize, usize)> = None;
            let mut seen = vec![false; self.rank()];
            for axis in ins {
                let home = self.home(axis);
                match home {
                    Some((to, index)) => {
                        let follows = last.is_some_and(|(dim, before)| dim == to && index == before + 1);
                        if (to == dim || seen[to]) && !follows {
                            return true;
                        }
                        seen[to] = true;
                    }
                    None if last.is_some() && outs.is_empty() => return true,
                    None => to_go = Some(axis),
                }
                last = home;
            }
        }
        matches!((to_go, to_come), (Some(a), Some(b)) if divides(a.size(self.mesh), b.size(self.mesh)))
    }

    /// Exchanges axes; each dimension keeps its number of shards.
    ///
    /// 1. Wanted axes go to their place.
    /// 2. Other wanted axes go to the back of dimensions that have capacity left.
    /// 3. Axes to gather go to the front of the dimension they were in, so that others can move first,
    /// 4. or to the front of any other.
    pub fn permute(&mut self) {
        let mut wanted = vec![];
        let mut left_over = vec![vec![]; self.rank()];
        let is_wanted: Vec<Vec<bool>> =
            self.ins.iter().map(|axes| axes.iter().map(|a| self.home(a).is_some()).collect()).collect();
        for dim in 0..self.rank() {
            let ins = std::mem::take(&mut self.ins[dim]);
            let shards = product(&ins, self.mesh);
            self.capacity[dim] = shards;
            self.pop_current(dim, &ins);
            while let Some(axis) = self.outs[dim].first().cloned() {
                let Some(fit) = self.fit(dim, &axis) else { break };
                self.outs[dim].remove(0);
                self.add_current(dim, fit.within);
                self.outs[dim].splice(0..0, fit.rest);
            }
            wanted.extend(self.outs[dim].iter().cloned());
            let to_gather = ins.into_iter().zip(&is_wanted[dim]).filter(|(_, wanted)| !**wanted).map(|(axis, _)| axis);
            left_over[dim] = self.unreplaced_first(to_gather.collect(), shards / self.capacity[dim]);
        }
        self.distribute(&mut Available::Shared(wanted), End::Back);
        let mut left_over = Available::PerDim(left_over);
        self.distribute(&mut left_over, End::Front);
        if let Available::PerDim(lists) = left_over {
            self.distribute(&mut Available::Shared(lists.concat()), End::Front);
        }
        for dim in 0..self.rank() {
            for axis in self.ins[dim].clone() {
                self.add_current(dim, axis);
            }
        }
    }

    /// The axes, first those that come after what was replaced by `replaced` shards of other axes.
    fn unreplaced_first(&self, mut axes: Vec<AxisRef>, mut replaced: i64) -> Vec<AxisRef> {
        let mut taken = vec![];
        while replaced > 1
            && let Some(axis) = axes.first()
        {
            let Some(fit) = fit(axis, &mut replaced, self.mesh) else { break };
            taken.push(fit.within);
            match fit.rest {
                Some(rest) => axes[0] = rest,
                None => drop(axes.remove(0)),
            }
        }
        axes.extend(taken);
        axes
    }
}
