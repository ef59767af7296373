//! Lists of axes, major to minor, as they shard one dimension.
//!
//! A list is *merged* when no axis in it can merge with the next one. All functions here keep merged
//! lists merged. A list `a` is a prefix of `b` when `b` can be split into `a` and a rest: all axes of `a`
//! but the last are equal to those of `b`, and the last is an axis prefix.

use crate::axis::AxisRef;
use crate::mesh::Mesh;
use crate::sort::sort_by;

/// How one list of axes relates to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixStatus {
    /// Both lists are equal.
    Equal,
    /// The first is a prefix of the second, and shorter.
    StrictPrefix,
    /// Neither.
    NotAPrefix,
}

/// Product of the sizes: the number of shards this list makes. Saturates on overflow.
pub fn product(axes: &[AxisRef], mesh: &Mesh) -> i64 {
    axes.iter().fold(1, |product, axis| product.saturating_mul(axis.size(mesh)))
}

/// How `first` relates to `second`.
pub fn prefix_status(first: &[AxisRef], second: &[AxisRef]) -> PrefixStatus {
    if first == second {
        return PrefixStatus::Equal;
    }
    let Some((last, init)) = first.split_last() else {
        return PrefixStatus::StrictPrefix;
    };
    let prefix = first.len() <= second.len() && *init == second[..init.len()] && last.prefix_of(&second[init.len()]);
    if prefix { PrefixStatus::StrictPrefix } else { PrefixStatus::NotAPrefix }
}

/// Whether `first` is `second` or a prefix of it.
pub fn is_prefix(first: &[AxisRef], second: &[AxisRef]) -> bool {
    prefix_status(first, second) != PrefixStatus::NotAPrefix
}

/// Whether any axis of `first` overlaps with any of `second`.
pub fn overlaps(first: &[AxisRef], second: &[AxisRef]) -> bool {
    first.iter().any(|axis| second.iter().any(|other| axis.overlaps(other)))
}

/// Appends an axis, merged with the last one where that is possible.
pub fn push(list: &mut Vec<AxisRef>, axis: AxisRef, mesh: &Mesh) {
    match list.last().and_then(|last| last.merge(&axis, mesh)) {
        Some(merged) => {
            list.pop();
            list.push(merged);
        }
        None => list.push(axis),
    }
}

/// Appends all axes of `more`, as [`push`] does.
pub fn extend(list: &mut Vec<AxisRef>, more: impl IntoIterator<Item = AxisRef>, mesh: &Mesh) {
    for axis in more {
        push(list, axis, mesh);
    }
}

/// Sorts axes that do not overlap into mesh order and merges adjacent ones.
pub fn sort_and_merge(axes: &mut Vec<AxisRef>, mesh: &Mesh) {
    sort_by(axes, |a, b| a.cmp_in(b, mesh));
    let sorted = std::mem::take(axes);
    extend(axes, sorted, mesh);
}

/// The longest list that is a prefix of both.
pub fn greatest_common_prefix(first: &[AxisRef], second: &[AxisRef]) -> Vec<AxisRef> {
    let mut prefix = Vec::new();
    for (a, b) in first.iter().zip(second) {
        if a == b {
            prefix.push(a.clone());
            continue;
        }
        prefix.extend(a.greatest_common_prefix(b));
        break;
    }
    prefix
}

/// What is left of `list` after `prefix`; `None` if `prefix` is not a prefix of it.
pub fn strip_prefix(list: &[AxisRef], prefix: &[AxisRef], mesh: &Mesh) -> Option<Vec<AxisRef>> {
    if !is_prefix(prefix, list) {
        return None;
    }
    let Some((last, init)) = prefix.split_last() else {
        return Some(list.to_vec());
    };
    let mut rest: Vec<AxisRef> = list[init.len()].suffix_without_overlap(last, mesh).into_iter().collect();
    rest.extend_from_slice(&list[prefix.len()..]);
    Some(rest)
}

/// What is left of `list` before `suffix`; `None` if `suffix` is not a suffix of it.
///
/// The first axis of the suffix may be a minor part of an axis of the list. Like Shardy's gather, it
/// also accepts a suffix whose axes are split finer than those of the list.
pub fn strip_suffix(list: &[AxisRef], suffix: &[AxisRef], mesh: &Mesh) -> Option<Vec<AxisRef>> {
    let mut rest = list.to_vec();
    for axis in suffix.iter().rev() {
        let last = rest.pop()?;
        if !axis.suffix_of(&last, mesh) {
            return None;
        }
        rest.extend(last.prefix_without_overlap(axis));
    }
    Some(rest)
}

/// Removes the longest common prefix from both lists and returns it.
pub fn remove_common_prefix(first: &mut Vec<AxisRef>, second: &mut Vec<AxisRef>, mesh: &Mesh) -> Vec<AxisRef> {
    let prefix = greatest_common_prefix(first, second);
    for list in [first, second] {
        // The common prefix is a prefix of both by construction.
        *list = strip_prefix(list, &prefix, mesh).unwrap_or_default();
    }
    prefix
}

/// The largest major part of `axis` that overlaps with no axis of `others`.
pub fn prefix_without_overlap(axis: &AxisRef, others: &[AxisRef]) -> Option<AxisRef> {
    others.iter().try_fold(axis.clone(), |rest, other| rest.prefix_without_overlap(other))
}

/// Cuts `list` to its longest prefix that does not overlap with `others`; returns whether it was cut.
pub fn truncate_without_overlap(list: &mut Vec<AxisRef>, others: &[AxisRef]) -> bool {
    for index in 0..list.len() {
        let prefix = prefix_without_overlap(&list[index], others);
        if prefix.as_ref() != Some(&list[index]) {
            list.truncate(index);
            list.extend(prefix);
            return true;
        }
    }
    false
}

/// Cuts the mesh into its finest parts that these axes need, in mesh order.
///
/// Axes that are mentioned as a whole, or not at all, stay whole. `None` if two axes cannot coexist.
pub fn mesh_parts<'a>(axes: impl IntoIterator<Item = &'a AxisRef>, mesh: &Mesh) -> Option<Vec<AxisRef>> {
    let mut cuts: Vec<Vec<i64>> = mesh.axes().iter().map(|axis| vec![1, axis.size]).collect();
    for axis in axes {
        let cuts = &mut cuts[mesh.axis_index(&axis.name)?];
        cuts.extend([axis.pre_size(), axis.next_pre_size(mesh)]);
    }
    let mut parts = Vec::new();
    for (axis, cuts) in mesh.axes().iter().zip(&mut cuts) {
        cuts.sort_unstable();
        cuts.dedup();
        if axis.size == 1 {
            parts.push(AxisRef::full(axis.name.clone()));
        }
        for pair in cuts.windows(2) {
            if pair[1].checked_rem(pair[0]) != Some(0) {
                return None;
            }
            parts.push(AxisRef::between(axis.name.clone(), pair[0], pair[1], mesh));
        }
    }
    Some(parts)
}
