//! Shardings of batched values: one dimension more.

use meshwork_ir::{Attr, AttrDict};
use meshwork_mesh::{DimSharding, Sharding};

/// `sharding` with a dimension put in at `axis`.
pub(super) fn inserted(sharding: &Sharding, axis: usize, dim: &DimSharding) -> Sharding {
    let mut out = sharding.clone();
    out.dims.insert(axis.min(out.dims.len()), dim.clone());
    out
}

/// Gives every sharding among `attrs` a new first dimension, and shifts dimension numbers of placement operations.
pub(super) fn widen(attrs: &mut AttrDict, dim: &DimSharding) {
    let names: Vec<String> = attrs.iter().map(|(name, _)| name.to_string()).collect();
    for name in names {
        let wide = match attrs.get(&name) {
            Some(Attr::Sharding(s)) => Attr::Sharding(inserted(s, 0, dim).into()),
            Some(Attr::ShardingPerValue(list)) => {
                Attr::ShardingPerValue(list.iter().map(|s| inserted(s, 0, dim)).collect())
            }
            Some(Attr::AxesPerDim(list)) => {
                Attr::AxesPerDim(std::iter::once(vec![]).chain(list.iter().cloned()).collect())
            }
            Some(Attr::AllToAll(moves)) => Attr::AllToAll(
                moves
                    .iter()
                    .map(|m| {
                        let mut m = m.clone();
                        (m.src, m.tgt) = (m.src + 1, m.tgt + 1);
                        m
                    })
                    .collect(),
            ),
            _ => continue,
        };
        attrs.set(name, wide);
    }
    // A rule is about the dimensions that were.
    attrs.remove("sdy.sharding_rule");
}
