//! References to a mesh axis or to a part of one, and their algebra.
//!
//! An axis of size `n` can be viewed as a reshape `[.., pre, size, rest]` of its `n` positions. The
//! sub-axis `"a":(pre)size` is one dimension of such a view: `pre` is the product of what is to the
//! left of it. It covers the multiplicative interval from `pre` to `pre * size`; all relations below
//! are interval arithmetic on these bounds.
//!
//! The relations assume valid references (see [`crate::verify`]). On invalid ones they return
//! something, without panicking. An axis that is not in the mesh counts as one of size 1.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::mesh::Mesh;

/// Which part of its full axis a sub-axis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubAxis {
    /// Product of the sizes to the left of this part.
    pub pre_size: i64,
    /// Size of this part.
    pub size: i64,
}

impl SubAxis {
    /// The pre-size of the part to the right of this one.
    pub fn next_pre_size(self) -> i64 {
        self.pre_size.saturating_mul(self.size)
    }
}

/// A full axis, or a part of one.
///
/// The order is by name, then `"a":(1)k` before `"a"` before `"a":(p)k` with `p > 1`, then by pre-size
/// and size. For the order of a mesh see [`AxisRef::cmp_in`].
///
/// ```
/// use meshwork_mesh::{AxisRef, Mesh};
/// let mesh = Mesh::linear("a", 8)?;
/// let (major, minor) = (AxisRef::sub("a", 1, 2), AxisRef::sub("a", 2, 4));
/// assert!(major.prefix_of(&AxisRef::full("a")));
/// assert_eq!(major.merge(&minor, &mesh), Some(AxisRef::full("a")));
/// assert_eq!(minor.to_string(), r#""a":(2)4"#);
/// # Ok::<(), meshwork_mesh::MeshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AxisRef {
    /// Name of the full axis.
    pub name: Arc<str>,
    /// The part meant, if not all of it.
    pub sub: Option<SubAxis>,
}

impl AxisRef {
    /// The full axis of this name.
    pub fn full(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), sub: None }
    }

    /// The sub-axis `"name":(pre_size)size`.
    pub fn sub(name: impl Into<Arc<str>>, pre_size: i64, size: i64) -> Self {
        Self { name: name.into(), sub: Some(SubAxis { pre_size, size }) }
    }

    /// The part of `name` from `pre_size` up to `next_pre_size`: the full axis if that is all of it.
    pub fn between(name: impl Into<Arc<str>>, pre_size: i64, next_pre_size: i64, mesh: &Mesh) -> Self {
        let name = name.into();
        if pre_size == 1 && mesh.axis_size(&name) == Some(next_pre_size) {
            return Self::full(name);
        }
        Self::sub(name, pre_size, next_pre_size / pre_size.max(1))
    }

    /// Whether this is a full axis.
    pub fn is_full(&self) -> bool {
        self.sub.is_none()
    }

    /// Number of positions along this axis or part.
    pub fn size(&self, mesh: &Mesh) -> i64 {
        match self.sub {
            Some(sub) => sub.size,
            None => mesh.axis_size(&self.name).unwrap_or(1),
        }
    }

    /// Product of the sizes to the left of this part; 1 for a full axis.
    pub fn pre_size(&self) -> i64 {
        self.sub.map_or(1, |sub| sub.pre_size)
    }

    /// Pre-size of the part to the right of this one; the size of the axis if there is none.
    pub fn next_pre_size(&self, mesh: &Mesh) -> i64 {
        self.sub.map_or_else(|| self.size(mesh), SubAxis::next_pre_size)
    }

    /// Whether `other` is this or a part of this.
    pub fn contains(&self, other: &AxisRef) -> bool {
        self.name == other.name
            && match (self.sub, other.sub) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(a), Some(b)) => a.pre_size <= b.pre_size && a.next_pre_size() >= b.next_pre_size(),
            }
    }

    /// Whether `other` is a part of this but not this.
    pub fn strictly_contains(&self, other: &AxisRef) -> bool {
        self != other && self.contains(other)
    }

    /// Whether this is `other` or a major part of it.
    pub fn prefix_of(&self, other: &AxisRef) -> bool {
        other.contains(self) && self.pre_size() == other.pre_size()
    }

    /// Whether this is a major part of `other` but not `other`.
    pub fn strict_prefix_of(&self, other: &AxisRef) -> bool {
        self != other && self.prefix_of(other)
    }

    /// Whether this is `other` or a minor part of it.
    pub fn suffix_of(&self, other: &AxisRef, mesh: &Mesh) -> bool {
        other.contains(self) && self.next_pre_size(mesh) == other.next_pre_size(mesh)
    }

    /// Whether this is a minor part of `other` but not `other`.
    pub fn strict_suffix_of(&self, other: &AxisRef, mesh: &Mesh) -> bool {
        self != other && self.suffix_of(other, mesh)
    }

    /// Whether both cover a common part.
    pub fn overlaps(&self, other: &AxisRef) -> bool {
        self.name == other.name
            && match (self.sub, other.sub) {
                (Some(a), Some(b)) => a.pre_size < b.next_pre_size() && b.pre_size < a.next_pre_size(),
                _ => true,
            }
    }

    /// Whether one view of the mesh has both: what they share, what they do not share and what is
    /// between them are all valid parts.
    pub fn can_coexist(&self, other: &AxisRef) -> bool {
        match (self.sub, other.sub) {
            (Some(a), Some(b)) if self.name == other.name => Bounds::of(a, b).can_coexist(),
            _ => true,
        }
    }

    /// The common part; `None` if there is none or both cannot coexist.
    pub fn overlap(&self, other: &AxisRef) -> Option<AxisRef> {
        if self.name != other.name {
            return None;
        }
        let (a, b) = match (self.sub, other.sub) {
            (None, _) => return Some(other.clone()),
            (_, None) => return Some(self.clone()),
            (Some(a), Some(b)) => (a, b),
        };
        let bounds = Bounds::of(a, b);
        (bounds.overlap() && bounds.can_coexist())
            .then(|| Self::sub(self.name.clone(), bounds.max_pre, bounds.min_next / bounds.max_pre))
    }

    /// The largest major part that does not overlap with `other`.
    ///
    /// `None` if there is none or both cannot coexist.
    pub fn prefix_without_overlap(&self, other: &AxisRef) -> Option<AxisRef> {
        if !self.can_coexist(other) {
            return None;
        }
        if !self.overlaps(other) {
            return Some(self.clone());
        }
        let (start, end) = (self.pre_size(), other.pre_size());
        (start < end).then(|| Self::sub(self.name.clone(), start, end / start.max(1)))
    }

    /// The largest minor part that does not overlap with `other`.
    ///
    /// `None` if there is none or both cannot coexist.
    pub fn suffix_without_overlap(&self, other: &AxisRef, mesh: &Mesh) -> Option<AxisRef> {
        if !self.can_coexist(other) {
            return None;
        }
        if !self.overlaps(other) {
            return Some(self.clone());
        }
        let (start, end) = (other.next_pre_size(mesh), self.next_pre_size(mesh));
        (start < end).then(|| Self::sub(self.name.clone(), start, end / start.max(1)))
    }

    /// The shorter of both, if it is a major part of the longer one.
    pub fn greatest_common_prefix(&self, other: &AxisRef) -> Option<AxisRef> {
        if !self.can_coexist(other) {
            None
        } else if self.prefix_of(other) {
            Some(self.clone())
        } else if other.prefix_of(self) {
            Some(other.clone())
        } else {
            None
        }
    }

    /// Whether `other` is the part right after this one.
    pub fn can_merge(&self, other: &AxisRef) -> bool {
        match (self.sub, other.sub) {
            (Some(a), Some(b)) => self.name == other.name && a.next_pre_size() == b.pre_size,
            _ => false,
        }
    }

    /// This and the part right after it as one; `None` unless [`AxisRef::can_merge`].
    pub fn merge(&self, other: &AxisRef, mesh: &Mesh) -> Option<AxisRef> {
        self.can_merge(other)
            .then(|| Self::between(self.name.clone(), self.pre_size(), other.next_pre_size(mesh), mesh))
    }

    /// The order of the mesh: by position of the axis, then as in the order by name.
    ///
    /// Axes that are not in the mesh come last, by name.
    pub fn cmp_in(&self, other: &AxisRef, mesh: &Mesh) -> Ordering {
        let position = |axis: &AxisRef| mesh.axis_index(&axis.name).unwrap_or(usize::MAX);
        position(self).cmp(&position(other)).then_with(|| self.cmp(other))
    }
}

impl Ord for AxisRef {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |axis: &AxisRef| (axis.pre_size(), axis.is_full(), axis.sub.map(|sub| sub.size));
        self.name.cmp(&other.name).then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for AxisRef {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&str> for AxisRef {
    fn from(name: &str) -> Self {
        Self::full(name)
    }
}

impl From<&AxisRef> for AxisRef {
    fn from(axis: &AxisRef) -> Self {
        axis.clone()
    }
}

/// The sorted bounds of two sub-axes of one axis.
struct Bounds {
    min_pre: i64,
    max_pre: i64,
    min_next: i64,
    max_next: i64,
}

impl Bounds {
    fn of(a: SubAxis, b: SubAxis) -> Self {
        Self {
            min_pre: a.pre_size.min(b.pre_size),
            max_pre: a.pre_size.max(b.pre_size),
            min_next: a.next_pre_size().min(b.next_pre_size()),
            max_next: a.next_pre_size().max(b.next_pre_size()),
        }
    }

    fn overlap(&self) -> bool {
        self.max_pre < self.min_next
    }

    fn can_coexist(&self) -> bool {
        let divides = |part: i64, whole: i64| whole.checked_rem(part) == Some(0);
        if self.overlap() {
            divides(self.max_pre, self.min_next)
                && divides(self.min_pre, self.max_pre)
                && divides(self.min_next, self.max_next)
        } else {
            divides(self.min_next, self.max_pre)
        }
    }
}
