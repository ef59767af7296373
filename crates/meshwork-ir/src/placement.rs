//! Shardings in programs, for transformations that do not look into them: a new dimension, and who holds copies of the
//! arguments and results of a manual computation.

use meshwork_mesh::{AxisRef, Mesh, MeshRef, device_groups};
pub use meshwork_mesh::{DimSharding, Reduction, Sharding};

use crate::{Attr, AttrDict, Module, Op, OpId};

/// `sharding` with a dimension inserted at `axis`.
pub fn insert_dim(sharding: &Sharding, axis: usize, dim: &DimSharding) -> Sharding {
    let mut out = sharding.clone();
    out.dims.insert(axis.min(out.dims.len()), dim.clone());
    out
}

/// Gives every sharding in `attrs` a new first dimension, and shifts the dimension numbers of `sdy` collectives. An
/// `sdy.sharding_rule` is removed: it describes the old dimensions.
pub fn insert_first_dim(attrs: &mut AttrDict, dim: &DimSharding) {
    let names: Vec<String> = attrs.iter().map(|(name, _)| name.to_string()).collect();
    for name in names {
        let wide = match attrs.get(&name) {
            Some(Attr::Sharding(s)) => Attr::Sharding(insert_dim(s, 0, dim).into()),
            Some(Attr::ShardingPerValue(list)) => {
                Attr::ShardingPerValue(list.iter().map(|s| insert_dim(s, 0, dim)).collect())
            }
            Some(Attr::AxesPerDim(list)) => {
                Attr::AxesPerDim(std::iter::once(vec![]).chain(list.iter().cloned()).collect())
            }
            Some(Attr::AllToAll(moves)) => {
                let shifted = moves.iter().map(|m| {
                    let mut m = m.clone();
                    (m.src, m.tgt) = (m.src + 1, m.tgt + 1);
                    m
                });
                Attr::AllToAll(shifted.collect())
            }
            _ => continue,
        };
        attrs.set(name, wide);
    }
    attrs.remove("sdy.sharding_rule");
}

/// The devices that hold copies of the arguments and results of an `sdy.manual_computation`.
pub struct ManualCopies {
    mesh: Mesh,
    axes: Vec<AxisRef>,
    arguments: Vec<Sharding>,
    results: Vec<Sharding>,
}

impl ManualCopies {
    /// Those of `op`; `None` if the mesh of its shardings is unknown.
    pub fn of(module: &Module, op: OpId) -> Option<ManualCopies> {
        let data = module.op(op);
        let (arguments, results) = (shardings(data, "in_shardings"), shardings(data, "out_shardings"));
        let axes = match data.attr("manual_axes") {
            Some(Attr::Axes(axes)) => axes.to_vec(),
            _ => vec![],
        };
        let mesh = arguments.iter().chain(&results).find_map(|s| mesh_of(module, s))?;
        Some(ManualCopies { mesh, axes, arguments, results })
    }

    /// The number of devices that hold a copy of result `i`.
    pub fn of_result(&self, i: usize) -> i64 {
        self.replicated(&self.results[i]).iter().map(|axis| axis.size(&self.mesh)).product()
    }

    /// The groups of devices that hold the same part of argument `i`; `None` if each device holds its own. The error
    /// says why the axes do not divide the mesh into groups.
    pub fn of_argument(&self, i: usize) -> Result<Option<Vec<Vec<i64>>>, String> {
        let axes = self.replicated(&self.arguments[i]);
        if axes.is_empty() {
            return Ok(None);
        }
        device_groups(&self.mesh, &axes).map(Some).map_err(|e| e.to_string())
    }

    /// The manual axes along which devices hold copies of a value: those that split no dimension and make no parts.
    fn replicated(&self, sharding: &Sharding) -> Vec<AxisRef> {
        let used = |axis: &AxisRef| sharding.dim_axes().chain(&sharding.unreduced).any(|a| a.overlaps(axis));
        self.axes.iter().filter(|axis| !used(axis)).cloned().collect()
    }
}

fn shardings(op: &Op, name: &str) -> Vec<Sharding> {
    match op.attr(name) {
        Some(Attr::ShardingPerValue(list)) => list.to_vec(),
        _ => vec![],
    }
}

fn mesh_of(module: &Module, sharding: &Sharding) -> Option<Mesh> {
    match &sharding.mesh {
        MeshRef::Inline(mesh) => Some((**mesh).clone()),
        MeshRef::Symbol(name) => match module.op(module.symbol(name)?).attr("mesh")? {
            Attr::Mesh(mesh) => Some((**mesh).clone()),
            _ => None,
        },
    }
}
