//! Which symbols an operation or attribute names.

use smol_str::SmolStr;

use crate::hash::HashMap;
use crate::{Attr, Module, OpId, Walk};
use meshwork_mesh::MeshRef;

/// Calls `found` with the name of every symbol in `attr`, without the `@`.
pub fn in_attr(attr: &Attr, found: &mut dyn FnMut(&str)) {
    let mut mesh = |mesh: &MeshRef| {
        if let MeshRef::Symbol(name) = mesh {
            found(name);
        }
    };
    match attr {
        Attr::Symbol(name) => found(name.split("::").next().unwrap_or(name)),
        Attr::Array(items) => items.iter().for_each(|a| in_attr(a, found)),
        Attr::Dict(dict) => dict.iter().for_each(|(_, a)| in_attr(a, found)),
        Attr::Sharding(s) => mesh(&s.mesh),
        Attr::ShardingPerValue(list) => list.iter().for_each(|s| mesh(&s.mesh)),
        Attr::GroupAxes(groups) => mesh(&groups.mesh),
        Attr::Opaque(text) => in_text(text, found),
        Attr::Unit
        | Attr::Bool(_)
        | Attr::Int(..)
        | Attr::Float(..)
        | Attr::Str(_)
        | Attr::Type(_)
        | Attr::Dense(_)
        | Attr::I64Array(_)
        | Attr::BoolArray(_)
        | Attr::Enum(_)
        | Attr::Dot(_)
        | Attr::Conv(_)
        | Attr::Gather(_)
        | Attr::Scatter(_)
        | Attr::Channel(_)
        | Attr::Mesh(_)
        | Attr::ShardingRule(_)
        | Attr::Axes(_)
        | Attr::AxesPerDim(_)
        | Attr::AllToAll(_) => {}
    }
}

/// Anything that looks like a symbol in text that is kept as it is.
fn in_text(text: &str, found: &mut dyn FnMut(&str)) {
    for part in text.split('@').skip(1) {
        match part.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
            Some((name, _)) => found(name),
            None => {
                let end = part.find(|c: char| !(c.is_alphanumeric() || "_$.-".contains(c))).unwrap_or(part.len());
                found(&part[..end]);
            }
        }
    }
}

/// The symbols that `op` and everything nested in it name.
pub fn used_by(module: &Module, op: OpId) -> Vec<SmolStr> {
    let mut names = vec![];
    for inner in module.ops_below(op, Walk::PreOrder) {
        for (_, attr) in module.op(inner).attrs.iter() {
            in_attr(attr, &mut |name| names.push(name.into()));
        }
    }
    names
}

/// Functions by name.
pub(super) type Functions = HashMap<SmolStr, OpId>;

/// The functions of `module`, to find many by name.
pub(super) fn functions(module: &Module) -> Functions {
    // Of two with one name, the first.
    module
        .funcs()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .filter_map(|f| Some((module.symbol_name(f)?.into(), f)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_text_is_searched() {
        let mut names = vec![];
        in_attr(&Attr::Opaque("#x<@a, [@\"b c\"::@d.e]>".into()), &mut |n| names.push(n.to_string()));
        assert_eq!(names, ["a", "b c", "d.e"]);
    }
}
