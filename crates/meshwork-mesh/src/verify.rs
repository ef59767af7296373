//! The rules that a sharding obeys on its mesh, checked in the order in which Shardy checks them.
//!
//! - As many dimensions as the tensor has; on a maximal mesh none at all, and no axes.
//! - Priorities are not negative, and not on a dimension that is empty and closed.
//! - Every axis is in the mesh, is used once, and shares no part with another.
//! - Neighboring sub-axes that can merge are merged; replicated and unreduced axes are in mesh order.
//! - A sub-axis tiles its axis and is smaller than it.
//!
//! One rule is stricter than Shardy's: sub-axes of one axis must belong to one factoring of it, because
//! no reshape of the mesh has the others as dimensions. A dimension need not divide evenly.

use crate::axis::AxisRef;
use crate::error::ShardingError;
use crate::mesh::Mesh;
use crate::sharding::Sharding;
use crate::sort::sort_by;

/// Checks a sharding against its mesh and, if given, the rank of its tensor.
pub fn verify_sharding(sharding: &Sharding, mesh: &Mesh, rank: Option<usize>) -> Result<(), ShardingError> {
    if mesh.is_maximal() {
        if is_bare(sharding) {
            return Ok(());
        }
        return Err(ShardingError::Maximal { sharding: sharding.to_string() });
    }
    if let Some(rank) = rank {
        sharding.check_rank(rank)?;
    }
    let mut axes = AxisUse::new(mesh);
    for (dim, entry) in sharding.dims.iter().enumerate() {
        if let Some(priority) = entry.priority {
            if priority < 0 {
                return Err(ShardingError::NegativePriority { dim, priority });
            }
            if entry.is_closed && entry.axes.is_empty() {
                return Err(ShardingError::PriorityOnEmptyClosed { dim, priority });
            }
        }
        axes.list(&entry.axes)?;
    }
    axes.sorted_list("replicated", &sharding.replicated)?;
    axes.sorted_list("unreduced", &sharding.unreduced)?;
    axes.finish()
}

/// Checks the sharding of a value without a shape, such as a token; `ty` is its type in text form.
pub fn verify_non_shaped(sharding: &Sharding, mesh: &Mesh, ty: &str) -> Result<(), ShardingError> {
    if is_bare(sharding) {
        Ok(())
    } else if mesh.is_maximal() {
        Err(ShardingError::Maximal { sharding: sharding.to_string() })
    } else {
        Err(ShardingError::NonShaped { ty: ty.to_owned(), sharding: sharding.to_string() })
    }
}

/// Checks that every dimension splits evenly. Unknown sizes (below 0) pass.
pub fn verify_divisible(sharding: &Sharding, mesh: &Mesh, shape: &[i64]) -> Result<(), ShardingError> {
    sharding.check_rank(shape.len())?;
    for (dim, (&size, entry)) in shape.iter().zip(&sharding.dims).enumerate() {
        let shards = entry.num_shards(mesh);
        if size >= 0 && size.checked_rem(shards) != Some(0) {
            return Err(ShardingError::NotDivisible { dim, size, shards });
        }
    }
    Ok(())
}

/// Checks that no axis belongs to one of these axes of an enclosing manual computation.
pub fn verify_not_manual<S: AsRef<str>>(sharding: &Sharding, manual: &[S]) -> Result<(), ShardingError> {
    let is_manual = |axis: &&AxisRef| manual.iter().any(|name| name.as_ref() == &*axis.name);
    match sharding.axes().find(is_manual) {
        Some(axis) => Err(ShardingError::ManualAxis { axis: axis.name.clone() }),
        None => Ok(()),
    }
}

fn is_bare(sharding: &Sharding) -> bool {
    sharding.dims.is_empty() && sharding.replicated.is_empty() && sharding.unreduced.is_empty()
}

/// The axes seen so far in several lists that together use each axis at most once.
///
/// Feed it the lists one by one, then call [`AxisUse::finish`].
pub struct AxisUse<'a> {
    mesh: &'a Mesh,
    /// A few: a mesh has few axes.
    seen: Vec<&'a AxisRef>,
}

impl<'a> AxisUse<'a> {
    /// Nothing seen yet.
    pub fn new(mesh: &'a Mesh) -> Self {
        Self { mesh, seen: vec![] }
    }

    /// Checks one list: known axes, none seen before, adjacent sub-axes merged.
    pub fn list(&mut self, axes: &'a [AxisRef]) -> Result<(), ShardingError> {
        for (index, axis) in axes.iter().enumerate() {
            if self.mesh.axis_index(&axis.name).is_none() {
                let (axis, mesh) = (axis.name.clone(), self.mesh.without_device_ids().to_string());
                return Err(ShardingError::UnknownAxis { axis, mesh });
            }
            if self.seen.contains(&axis) {
                return Err(ShardingError::DuplicateAxis { axis: axis.clone() });
            }
            self.seen.push(axis);
            let before = index.checked_sub(1).map(|before| &axes[before]);
            if let Some(first) = before.filter(|first| first.can_merge(axis)) {
                let (first, second) = (first.clone(), axis.clone());
                return Err(ShardingError::Mergeable { first, second });
            }
        }
        Ok(())
    }

    /// Checks one list that must be in mesh order; `name` says in the error which one it is.
    pub fn sorted_list(&mut self, name: &'static str, axes: &'a [AxisRef]) -> Result<(), ShardingError> {
        if !axes.is_sorted_by(|a, b| a.cmp_in(b, self.mesh).is_le()) {
            return Err(ShardingError::NotSorted { list: name, mesh: self.mesh.without_device_ids().to_string() });
        }
        self.list(axes)
    }

    /// Checks the sub-axes that were seen: each valid, and no two in each other's way.
    pub fn finish(self) -> Result<(), ShardingError> {
        let mut subs: Vec<&AxisRef> = self.seen.iter().copied().filter(|a| !a.is_full()).collect();
        sort_by(&mut subs, |a, b| a.cmp_in(b, self.mesh));
        for (index, &axis) in subs.iter().enumerate() {
            if self.seen.contains(&&AxisRef::full(axis.name.clone())) {
                return Err(ShardingError::FullAndSub { axis: axis.name.clone() });
            }
            verify_sub_axis(axis, self.mesh)?;
            let before = index.checked_sub(1).map(|before| subs[before]);
            let Some(first) = before.filter(|first| first.name == axis.name) else {
                continue;
            };
            if first.overlaps(axis) {
                let (first, second) = (first.clone(), axis.clone());
                return Err(ShardingError::Overlap { first, second });
            }
            if !first.can_coexist(axis) {
                let (first, second) = (first.clone(), axis.clone());
                return Err(ShardingError::CannotCoexist { first, second });
            }
        }
        Ok(())
    }
}

/// Checks that a sub-axis of a known axis tiles it. Full axes pass.
pub fn verify_sub_axis(axis: &AxisRef, mesh: &Mesh) -> Result<(), ShardingError> {
    let Some(sub) = axis.sub else { return Ok(()) };
    let size = mesh.axis_size(&axis.name).unwrap_or(1);
    let (axis, next) = (axis.clone(), sub.next_pre_size());
    if sub.pre_size < 1 {
        Err(ShardingError::PreSize { axis })
    } else if sub.size <= 1 {
        Err(ShardingError::SubAxisSize { axis })
    } else if size % next != 0 {
        Err(ShardingError::NextPreSize { axis, next, size })
    } else if sub.size == size {
        Err(ShardingError::SubAxisIsFull { axis })
    } else {
        Ok(())
    }
}
