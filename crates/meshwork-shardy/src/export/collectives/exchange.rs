//! The all-to-alls: axes at the end of one dimension move to the end of another.

use meshwork_mesh::{AxisRef, axis_list};

use super::plan::{Collective, State};

impl State<'_> {
    /// Moves axes that arrive in their right place. Several dimensions that give to one come in the right order so.
    pub fn exchange_in_order(&mut self) {
        self.exchange_where(|state, axes, to| state.outs[to].starts_with(axes));
    }

    /// Moves axes to the dimension they belong to, whatever their place there.
    pub fn exchange(&mut self) {
        self.exchange_where(|_, _, _| true);
    }

    fn exchange_where(&mut self, allowed: impl Fn(&Self, &[AxisRef], usize) -> bool) {
        for from in 0..self.rank() {
            while let Some((to, start)) =
                self.last_group(from).filter(|&(to, start)| allowed(self, &self.ins[from][start..], to))
            {
                self.move_axes(from, to, start);
            }
        }
    }

    /// The dimension that the last axis of `from` belongs to, if that is another, and where those that go with it start.
    fn last_group(&self, from: usize) -> Option<(usize, usize)> {
        let to = self.home(self.ins[from].last()?)?.0;
        let goes_along = |axis: &AxisRef| self.home(axis).is_some_and(|(dim, _)| dim == to);
        let count = self.ins[from].iter().rev().take_while(|axis| goes_along(axis)).count();
        (to != from).then_some((to, self.ins[from].len() - count))
    }

    fn move_axes(&mut self, from: usize, to: usize, start: usize) {
        let moved = self.ins[from].split_off(start);
        self.pop_current(from, &moved);
        let mut axes = vec![];
        for axis in moved {
            axis_list::push(&mut axes, axis.clone(), self.mesh);
            self.add_current(to, axis.clone());
            if self.ins[to].is_empty() && self.outs[to].first() == Some(&axis) {
                self.outs[to].remove(0);
            } else {
                self.ins[to].push(axis);
            }
        }
        self.push(Collective::AllToAll { axes, from, to });
    }
}
