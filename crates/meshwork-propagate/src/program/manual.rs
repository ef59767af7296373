//! Manual axes: the placement of an argument or result of a manual computation, seen from outside and inside.
//!
//! Outside, every dimension lists its manual axes first, then the free ones. Inside, only the free axes exist.

use meshwork_ir::{Attr, Module, OpId};
use meshwork_mesh::{AxisRef, DimSharding, Sharding};

/// The manual axes of an `sdy.manual_computation`.
pub fn manual_axes(module: &Module, op: OpId) -> &[AxisRef] {
    match module.op(op).attr("manual_axes") {
        Some(Attr::Axes(axes)) => axes,
        _ => &[],
    }
}

fn is_manual(axis: &AxisRef, manual: &[AxisRef]) -> bool {
    manual.iter().any(|m| m.name == axis.name)
}

fn free_only(axes: &[AxisRef], manual: &[AxisRef]) -> Vec<AxisRef> {
    axes.iter().filter(|a| !is_manual(a, manual)).cloned().collect()
}

/// The placement inside: the manual axes at the front of each dimension are dropped.
pub fn without_manual_axes(outer: &Sharding, manual: &[AxisRef]) -> Sharding {
    keep_part(outer, manual, |dim, first_free| dim.axes[first_free..].to_vec())
}

/// Only the manual axes of each dimension.
pub fn only_manual_axes(outer: &Sharding, manual: &[AxisRef]) -> Sharding {
    keep_part(outer, manual, |dim, first_free| dim.axes[..first_free].to_vec())
}

fn keep_part(outer: &Sharding, manual: &[AxisRef], keep: impl Fn(&DimSharding, usize) -> Vec<AxisRef>) -> Sharding {
    let dims = outer.dims.iter().map(|dim| {
        let first_free = dim.axes.iter().position(|a| !is_manual(a, manual)).unwrap_or(dim.axes.len());
        DimSharding { axes: keep(dim, first_free), ..dim.clone() }
    });
    Sharding {
        mesh: outer.mesh.clone(),
        dims: dims.collect(),
        replicated: free_only(&outer.replicated, manual),
        unreduced: free_only(&outer.unreduced, manual),
        reduction: outer.reduction,
    }
}

/// The placement outside whose manual axes are those of `outer` and whose free axes are those of `inner`.
pub fn with_manual_axes(outer: &Sharding, inner: &Sharding, manual: &[AxisRef]) -> Sharding {
    let mut result = only_manual_axes(outer, manual);
    for (dim, new) in result.dims.iter_mut().zip(&inner.dims) {
        dim.axes.extend(new.axes.iter().cloned());
        dim.is_closed = new.is_closed;
        dim.priority = new.priority;
    }
    Sharding {
        mesh: inner.mesh.clone(),
        replicated: outer.replicated.clone(),
        unreduced: outer.unreduced.clone(),
        ..result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_mesh::parse_sharding;

    #[test]
    fn manual_axes_are_a_prefix() -> Result<(), Box<dyn std::error::Error>> {
        let manual = [AxisRef::full("a")];
        let outer = parse_sharding(r#"<@mesh, [{"a", "b", ?}, {"c"}], replicated={"d"}>"#)?;
        let inner = without_manual_axes(&outer, &manual);
        assert_eq!(inner.to_string(), r#"<@mesh, [{"b", ?}, {"c"}], replicated={"d"}>"#);
        assert_eq!(with_manual_axes(&outer, &inner, &manual), outer);
        Ok(())
    }
}
