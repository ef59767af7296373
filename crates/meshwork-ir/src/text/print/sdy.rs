//! `sdy` attributes.

use meshwork_mesh::{AxisList, Sharding};

use super::write::{push_display, push_int, push_list};
use crate::Attr;
use crate::attr::{AllToAllParam, OpShardingRule};

/// Appends an `sdy` attribute without its `#sdy.name` prefix.
pub(super) fn push_stripped(out: &mut String, attr: &Attr) {
    match attr {
        Attr::Mesh(mesh) => push_display(out, mesh),
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

/// Appends `<@mesh, [{"x"}]>`.
pub(super) fn push_sharding(out: &mut String, sharding: &Sharding) {
    // Writing to a string does not fail.
    let _ = sharding.write(out);
}

/// Appends `[<@mesh, [...]>, ...]`.
pub(super) fn push_sharding_list(out: &mut String, attr: &Attr) {
    let Attr::ShardingPerValue(list) = attr else { return super::attr::push_attr(out, attr) };
    out.push('[');
    push_list(out, list.iter(), push_sharding);
    out.push(']');
}

fn push_all_to_all(out: &mut String, param: &AllToAllParam) {
    push_display(out, AxisList(&param.axes));
    out.push_str(": ");
    push_int(out, param.src);
    out.push_str("->");
    push_int(out, param.tgt);
}

/// Appends `#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=2, k=4, j=8} reduction={k}>`.
pub(super) fn push_rule(out: &mut String, rule: &OpShardingRule) {
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
            push_int(out, size);
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

fn push_mappings(out: &mut String, tensors: &[Vec<Vec<usize>>]) {
    push_list(out, tensors, |out, dims| {
        out.push('[');
        push_list(out, dims, |out, factors| factors.iter().for_each(|&f| push_factor(out, f)));
        out.push(']');
    });
}

fn push_factor(out: &mut String, factor: usize) {
    out.push_str(&OpShardingRule::factor_name(factor));
}
