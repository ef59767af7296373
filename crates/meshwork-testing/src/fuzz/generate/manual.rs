//! Manual computations over some of the axes, and the collectives inside them.

use meshwork_mesh::{AxisRef, device_groups};

use super::reductions::combine_body;
use super::{MOST, MOST_ELEMENTS, Scope, Val, Writer, bound_of, list};

/// An axis list per dimension, and the extents that the shards have.
struct Cut {
    axes: Vec<Vec<usize>>,
    local: Vec<i64>,
}

impl Writer<'_> {
    pub(super) fn manual(&mut self) {
        if !self.scope.manual.is_empty() && !self.scope.diverges && self.numbers.one_in(2) {
            self.collective();
            return;
        }
        let open: Vec<usize> = (0..self.mesh.axes().len()).filter(|a| !self.scope.manual.contains(a)).collect();
        if self.scope.depth >= 2 || open.is_empty() || self.scope.diverges {
            return;
        }
        let held: Vec<usize> =
            self.numbers.order(open.len())[..1 + self.numbers.below(open.len())].iter().map(|&i| open[i]).collect();
        let free: Vec<usize> = open.iter().copied().filter(|a| !held.contains(a)).collect();
        let (mut operands, mut params, mut ins) = (vec![], vec![], vec![]);
        for _ in 0..1 + self.numbers.below(2) {
            let Some(x) = self.pick(|_| true) else { continue };
            let cut = self.cut(&x.dims, &held);
            ins.push(self.sharding(&cut.axes, &free));
            params.push(Val { name: self.fresh_name(), dims: cut.local, ..x.clone() });
            operands.push(x);
        }
        let scope = Scope { sees_arguments: false, manual: [&self.scope.manual[..], &held].concat(), ..self.deeper() };
        let count = 1 + self.numbers.below(5);
        let (text, result) = self.region(scope, params.clone(), |w| {
            w.steps(count);
            w.equalized(&held)
        });
        let Some((local, told)) = result else { return };
        // Every axis along which the result differs cuts one of its dimensions.
        let mut axes: Vec<Vec<usize>> = vec![vec![]; local.rank()];
        let mut dims = local.dims.clone();
        for axis in told {
            let d = self.numbers.below(local.rank());
            axes[d].push(axis);
            dims[d] *= self.mesh.axes()[axis].size;
        }
        if dims.iter().product::<i64>() > MOST_ELEMENTS {
            return;
        }
        let out = self.sharding(&axes, &free);
        let held: Vec<String> = held.iter().map(|&a| format!("\"{}\"", self.mesh.axes()[a].name)).collect();
        let names: Vec<&str> = operands.iter().map(|v| v.name.as_str()).collect();
        let types: Vec<String> = operands.iter().map(Val::ty).collect();
        let params: Vec<String> = params.iter().map(|v| format!("{}: {}", v.name, v.ty())).collect();
        let header = format!(
            "({}) in_shardings=[{}] out_shardings=[{out}] manual_axes={{{}}} ({})",
            names.join(", "),
            ins.join(", "),
            held.join(", "),
            params.join(", ")
        );
        let back = format!("sdy.return {} : {}", local.name, local.ty());
        self.push(dims, local.elem, local.bound, |r, to| {
            format!("{r} = sdy.manual_computation{header} {{\n{text}{back}\n}} : ({}) -> {to}", types.join(", "))
        });
    }

    /// Cuts dimensions by some of the axes `held`, where they divide.
    fn cut(&mut self, dims: &[i64], held: &[usize]) -> Cut {
        let (mut axes, mut local) = (vec![vec![]; dims.len()], dims.to_vec());
        for i in self.numbers.order(held.len()) {
            let d = self.numbers.below(dims.len());
            let size = self.mesh.axes()[held[i]].size;
            if !dims.is_empty() && local[d] % size == 0 && !self.numbers.one_in(4) {
                axes[d].push(held[i]);
                local[d] /= size;
            }
        }
        Cut { axes, local }
    }

    /// A sharding by `axes`, behind which some dimensions are open or split by axes that are not manual.
    fn sharding(&mut self, axes: &[Vec<usize>], free: &[usize]) -> String {
        let mut dims: Vec<Vec<String>> = axes
            .iter()
            .map(|list| list.iter().map(|&a| format!("\"{}\"", self.mesh.axes()[a].name)).collect())
            .collect();
        for &a in free {
            if !dims.is_empty() && self.numbers.one_in(2) {
                let d = self.numbers.below(dims.len());
                dims[d].push(format!("\"{}\"", self.mesh.axes()[a].name));
            }
        }
        for dim in &mut dims {
            if self.numbers.one_in(2) {
                dim.push("?".into());
            }
        }
        let dims: Vec<String> = dims.iter().map(|d| format!("{{{}}}", d.join(", "))).collect();
        format!("<@mesh, [{}]>", dims.join(", "))
    }

    /// The last value with a dimension, made equal along some of the axes `held`; and the others.
    fn equalized(&mut self, held: &[usize]) -> Option<(Val, Vec<usize>)> {
        let last = self.values.last()?.clone();
        if last.rank() == 0 {
            let ty = last.ty();
            self.push(vec![1], last.elem, last.bound, |r, to| {
                format!("{r} = stablehlo.reshape {} : ({ty}) -> {to}", last.name)
            });
        }
        let (mut equal, mut told) = (vec![], vec![]);
        for &a in held {
            if self.numbers.one_in(3) { equal.push(a) } else { told.push(a) }
        }
        let last = self.values.last()?.clone();
        if !equal.is_empty() && !self.all_reduce(&last, &equal) {
            told.append(&mut equal);
        }
        Some((self.values.last()?.clone(), told))
    }

    /// Lists of devices that differ along `axes` only.
    fn groups(&self, axes: &[usize]) -> Vec<Vec<i64>> {
        let axes: Vec<AxisRef> = axes.iter().map(|&a| AxisRef::full(self.mesh.axes()[a].name.clone())).collect();
        device_groups(self.mesh, &axes).expect("axes of the mesh, each once")
    }

    fn channel(&mut self) -> String {
        self.next += 1;
        format!("channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>", self.next)
    }

    fn replica_groups(&mut self, axes: &[usize]) -> String {
        let groups = self.groups(axes);
        let rows: Vec<String> = groups.iter().map(|g| format!("[{}]", list(g))).collect();
        let channel = self.channel();
        format!(
            "{channel}, replica_groups = dense<[{}]> : tensor<{}x{}xi64>",
            rows.join(", "),
            groups.len(),
            groups[0].len()
        )
    }

    fn all_reduce(&mut self, x: &Val, axes: &[usize]) -> bool {
        let parts = axes.iter().map(|&a| self.mesh.axes()[a].size).product::<i64>() as f64;
        let bound = if x.is_float() { x.bound * parts } else { bound_of(x.elem) };
        if (x.is_float() && bound > MOST) || x.is_empty() {
            return false;
        }
        let kind = if x.elem == "i1" { "or" } else { "add" };
        let (groups, body, ty) = (self.replica_groups(axes), combine_body(kind, x.elem), x.ty());
        self.push(x.dims.clone(), x.elem, bound, |r, to| {
            format!(
                "{r} = \"stablehlo.all_reduce\"({}) <{{{groups}, use_global_device_ids}}> {body} : ({ty}) -> {to}",
                x.name
            )
        });
        true
    }

    /// A collective over some of the manual axes.
    fn collective(&mut self) {
        let Some(x) = self.pick(|v| !v.is_empty()) else { return };
        let held = self.scope.manual.clone();
        let count = 1 + self.numbers.below(held.len());
        let axes: Vec<usize> = self.numbers.order(held.len())[..count].iter().map(|&i| held[i]).collect();
        let parts = axes.iter().map(|&a| self.mesh.axes()[a].size).product::<i64>();
        let ty = x.ty();
        let mut out = x.dims.clone();
        let d = self.numbers.below(x.rank());
        match self.numbers.below(4) {
            0 if x.rank() > 0 => {
                let groups = self.replica_groups(&axes);
                out[d] *= parts;
                self.push(out, x.elem, x.bound, |r, to| {
                    format!("{r} = \"stablehlo.all_gather\"({}) <{{all_gather_dim = {d} : i64, {groups}, use_global_device_ids}}> : ({ty}) -> {to}", x.name)
                });
            }
            1 => {
                let groups = self.groups(&axes);
                let pairs =
                    groups.iter().flat_map(|g| (0..g.len()).map(|i| format!("[{}, {}]", g[i], g[(i + 1) % g.len()])));
                let pairs: Vec<String> = pairs.collect();
                let (count, pairs, channel) = (pairs.len(), pairs.join(", "), self.channel());
                self.push(out, x.elem, x.bound, |r, to| {
                    format!("{r} = \"stablehlo.collective_permute\"({}) <{{{channel}, source_target_pairs = dense<[{pairs}]> : tensor<{count}x2xi64>}}> : ({ty}) -> {to}", x.name)
                });
            }
            2 if x.rank() > 0 && x.dims[d] % parts == 0 && x.dims[d] > 0 => {
                let e = self.numbers.below(x.rank());
                out[d] /= parts;
                out[e] *= parts;
                let groups = self.replica_groups(&axes);
                self.push(out, x.elem, x.bound, |r, to| {
                    format!("{r} = \"stablehlo.all_to_all\"({}) <{{split_dimension = {d} : i64, concat_dimension = {e} : i64, split_count = {parts} : i64, {groups}}}> : ({ty}) -> {to}", x.name)
                });
            }
            _ => drop(self.all_reduce(&x, &axes)),
        }
    }
}
