//! `sdy` attributes.

use super::out::Out;
use std::fmt::{Display, Write};

use meshwork_mesh::{AxisList, Mesh, Sharding};

use super::write::{push_i64, push_list, push_quoted};
use crate::Attr;
use crate::attr::{AllToAllParam, OpShardingRule};

/// Appends an `sdy` attribute without its `#sdy.name` prefix.
pub(super) fn push_stripped(out: &mut Out, attr: &Attr) {
    match attr {
        Attr::Mesh(mesh) => push_mesh(out, mesh),
        Attr::Sharding(sharding) => push_sharding(out, sharding),
        Attr::ShardingPerValue(_) => {
            out.push('<');
            push_sharding_list(out, attr);
            out.push('>');
        }
        Attr::Axes(axes) => push_display(out, AxisList(axes)),
        Attr::AxesPerDim(dims) => {
            out.push('[');
            push_list(out, dims.iter(), |out, axes| push_display(out, AxisList(axes)));
            out.push(']');
        }
        Attr::AllToAll(params) => {
            out.push('[');
            push_list(out, params.iter(), push_all_to_all);
            out.push(']');
        }
        _ => super::attr::push_attr(out, attr),
    }
}

/// Appends `[<@mesh, [...]>, ...]`.
pub(super) fn push_sharding_list(out: &mut Out, attr: &Attr) {
    let Attr::ShardingPerValue(list) = attr else { return super::attr::push_attr(out, attr) };
    out.push('[');
    push_list(out, list.iter(), push_sharding);
    out.push(']');
}

/// Appends `<@mesh, [{"x"}, {?}]>`: what [`Sharding`] displays as, with the usual parts written at once.
fn push_sharding(out: &mut Out, sharding: &Sharding) {
    if !(sharding.replicated.is_empty() && sharding.unreduced.is_empty()) {
        return push_display(out, sharding);
    }
    out.push('<');
    match sharding.mesh.symbol() {
        Some(name) if name.bytes().all(|b| b.is_ascii_lowercase()) && !name.is_empty() => {
            out.push('@');
            out.push_str(name);
        }
        _ => push_display(out, &sharding.mesh),
    }
    out.push_str(", [");
    push_list(out, &sharding.dims, |out, dim| {
        if dim.priority.is_some() {
            return push_display(out, dim);
        }
        out.push('{');
        push_list(out, &dim.axes, |out, axis| match axis.sub {
            None => push_quoted(out, &axis.name),
            Some(_) => push_display(out, axis),
        });
        match (dim.is_closed, dim.axes.is_empty()) {
            (true, _) => {}
            (false, true) => out.push('?'),
            (false, false) => out.push_str(", ?"),
        }
        out.push('}');
    });
    out.push_str("]>");
}

/// Appends `<["x"=2, "y"=4]>`: what [`Mesh`] displays as.
fn push_mesh(out: &mut Out, mesh: &Mesh) {
    if mesh.device_ids().is_some() {
        return push_display(out, mesh);
    }
    out.push_str("<[");
    push_list(out, mesh.axes(), |out, axis| {
        push_quoted(out, &axis.name);
        out.push('=');
        push_i64(out, axis.size);
    });
    out.push_str("]>");
}

/// The cases of an enum of `sdy`, in the order of their numbers.
pub(super) fn cases(kind: &str) -> &'static [&'static str] {
    match kind {
        "propagation_direction" => &["NONE", "FORWARD", "BACKWARD", "BOTH"],
        "reduction_op" => &["sum", "max", "min"],
        _ => &[],
    }
}

fn push_display(out: &mut Out, item: impl Display) {
    // Writing to a string does not fail.
    let _ = write!(out, "{item}");
}

fn push_all_to_all(out: &mut Out, param: &AllToAllParam) {
    push_display(out, AxisList(&param.axes));
    out.push_str(": ");
    push_i64(out, param.src);
    out.push_str("->");
    push_i64(out, param.tgt);
}

/// Appends `#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=2, k=4, j=8} reduction={k}>`.
pub(super) fn push_rule(out: &mut Out, rule: &OpShardingRule) {
    out.push_str("#sdy.op_sharding_rule<(");
    push_mappings(out, &rule.operands);
    out.push_str(")->(");
    push_mappings(out, &rule.results);
    out.push(')');
    if !rule.factor_sizes.is_empty() {
        out.push_str(" {");
        push_list(out, rule.factor_sizes.iter().enumerate(), |out, (i, &size)| {
            push_factor(out, i);
            out.push('=');
            push_i64(out, size);
        });
        out.push('}');
    }
    for (kind, factors) in [
        (" reduction={", &rule.reduction),
        (" need_replication={", &rule.need_replication),
        (" permutation={", &rule.permutation),
        (" blocked_propagation={", &rule.blocked),
    ] {
        if !factors.is_empty() {
            out.push_str(kind);
            push_list(out, factors, |out, &f| push_factor(out, f));
            out.push('}');
        }
    }
    if rule.custom {
        out.push_str(", custom");
    }
    out.push('>');
}

fn push_mappings(out: &mut Out, tensors: &[Vec<Vec<usize>>]) {
    push_list(out, tensors, |out, dims| {
        out.push('[');
        push_list(out, dims, |out, factors| factors.iter().for_each(|&f| push_factor(out, f)));
        out.push(']');
    });
}

fn push_factor(out: &mut Out, factor: usize) {
    out.push_str(&OpShardingRule::factor_name(factor));
}

#[cfg(test)]
mod tests {
    use meshwork_mesh::{AxisRef, DimSharding};

    use super::*;

    #[test]
    fn shardings_are_written_as_they_display() {
        let axes = || [AxisRef::full("a\"b"), AxisRef::sub("y", 2, 4)];
        let dims = || [DimSharding::closed(axes()), DimSharding::open(axes()), DimSharding::open([AxisRef::full("x")])];
        let late = DimSharding { priority: Some(2), ..DimSharding::open(axes()) };
        let none: [AxisRef; 0] = [];
        let mut replicated = Sharding::new("mesh", dims());
        replicated.replicated = vec![AxisRef::full("z")];
        let shardings = [
            Sharding::new("mesh", [DimSharding::open(none.clone()), DimSharding::closed(none)]),
            Sharding::new("my mesh", dims()),
            Sharding::new("mesh_1", [late]),
            Sharding::new("mesh", []),
            replicated,
        ];
        for sharding in shardings {
            let mut out = Out::default();
            push_sharding(&mut out, &sharding);
            assert_eq!(out.into_string(), sharding.to_string());
        }
    }
}
