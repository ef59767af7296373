//! The all-gather: axes that split a dimension and are to split none.

use meshwork_mesh::{AxisRef, axis_list};

use super::plan::{Collective, State};

impl State<'_> {
    /// Gathers the last axes of each dimension that are wanted nowhere.
    pub fn gather(&mut self) {
        let counts: Vec<usize> = (0..self.rank())
            .map(|dim| self.ins[dim].iter().rev().take_while(|axis| self.home(axis).is_none()).count())
            .collect();
        self.gather_last(&counts);
    }

    /// Gathers all axes that differ.
    pub fn gather_all(&mut self) {
        let counts: Vec<usize> = self.ins.iter().map(Vec::len).collect();
        self.gather_last(&counts);
    }

    fn gather_last(&mut self, counts: &[usize]) {
        let mut axes_per_dim = vec![];
        for (dim, &count) in counts.iter().enumerate() {
            let kept = self.ins[dim].len() - count;
            let gone: Vec<AxisRef> = self.ins[dim].split_off(kept);
            self.pop_current(dim, &gone);
            let mut merged = vec![];
            axis_list::extend(&mut merged, gone, self.mesh);
            axes_per_dim.push(merged);
        }
        if counts.iter().any(|&n| n > 0) {
            self.push(Collective::AllGather(axes_per_dim));
        }
    }
}
