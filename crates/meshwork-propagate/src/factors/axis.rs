//! Axes as small numbers: what the inner loops of propagation work on.
//!
//! An [`Axis`] names an axis of one mesh by its position and the part `[pre, pre * size)` of it, in the
//! multiplicative sense of [`meshwork_mesh::AxisRef`]. A full axis is the part from 1 to its size, so that all
//! relations are plain interval arithmetic and need no mesh.

use smallvec::SmallVec;

/// A part of an axis, or all of it. The order is that of the mesh, then by parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Axis {
    /// Position of the axis in its mesh.
    pub id: u16,
    /// Product of the parts to the left of this one.
    pub pre: u32,
    /// Size of this part.
    pub size: u32,
}

/// Axes, major to minor. Nearly always at most two.
pub type AxisList = SmallVec<[Axis; 2]>;

impl Axis {
    /// Where the part to the right of this one starts.
    pub fn next(self) -> u64 {
        u64::from(self.pre) * u64::from(self.size)
    }

    /// The part of the same axis that starts here and has this size.
    pub fn with_size(self, size: u32) -> Axis {
        Axis { size, ..self }
    }

    /// Whether `other` is this or a part of this.
    pub fn contains(self, other: Axis) -> bool {
        self.id == other.id && self.pre <= other.pre && self.next() >= other.next()
    }

    /// Whether this is `other` or a major part of it.
    pub fn prefix_of(self, other: Axis) -> bool {
        self.pre == other.pre && other.contains(self)
    }

    /// Whether both cover a common part.
    pub fn overlaps(self, other: Axis) -> bool {
        // An axis of size 1 covers an empty interval, but still overlaps with itself.
        self.id == other.id
            && (self == other || (u64::from(self.pre) < other.next() && u64::from(other.pre) < self.next()))
    }

    /// Whether one view of the mesh has both.
    pub fn can_coexist(self, other: Axis) -> bool {
        if self.id != other.id {
            return true;
        }
        let (min_pre, max_pre) = (u64::from(self.pre.min(other.pre)), u64::from(self.pre.max(other.pre)));
        let (min_next, max_next) = (self.next().min(other.next()), self.next().max(other.next()));
        if max_pre < min_next {
            min_next % max_pre == 0 && max_pre % min_pre == 0 && max_next % min_next == 0
        } else {
            max_pre % min_next == 0
        }
    }

    /// Whether `other` is the part right after this one.
    pub fn can_merge(self, other: Axis) -> bool {
        self.id == other.id && other.pre > 1 && self.next() == u64::from(other.pre)
    }

    /// The largest major part that does not overlap with `other`; `None` if there is none or both cannot coexist.
    pub fn prefix_without_overlap(self, other: Axis) -> Option<Axis> {
        if self.id != other.id {
            return Some(self);
        }
        if !self.can_coexist(other) {
            None
        } else if !self.overlaps(other) {
            Some(self)
        } else if self.pre < other.pre {
            Some(self.with_size(other.pre / self.pre))
        } else {
            None
        }
    }

    /// The same for all axes of a list.
    pub fn prefix_without_overlaps(self, others: &[Axis]) -> Option<Axis> {
        others.iter().try_fold(self, |axis, &other| axis.prefix_without_overlap(other))
    }
}

/// Appends `axis`, merged with the last one if it is the part right after it.
pub fn push_merged(list: &mut AxisList, axis: Axis) {
    match list.last_mut() {
        Some(last) if last.can_merge(axis) => last.size *= axis.size,
        _ => list.push(axis),
    }
}

/// Product of the sizes.
pub fn product(axes: &[Axis]) -> i64 {
    axes.iter().fold(1i64, |n, a| n.saturating_mul(i64::from(a.size)))
}

/// How one list relates to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefix {
    /// Both are equal.
    Equal,
    /// The first is a prefix of the second, and shorter.
    Strict,
    /// Neither.
    No,
}

/// How `first` relates to `second`: all but its last axis are equal, and the last is an axis prefix.
pub fn prefix_status(first: &[Axis], second: &[Axis]) -> Prefix {
    if first == second {
        return Prefix::Equal;
    }
    match first.split_last() {
        None => Prefix::Strict,
        Some((last, init)) => {
            let prefix =
                first.len() <= second.len() && *init == second[..init.len()] && last.prefix_of(second[init.len()]);
            if prefix { Prefix::Strict } else { Prefix::No }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_mesh::{AxisRef, Mesh};

    /// Every part of an axis of size 24, as both kinds of reference.
    fn parts(mesh: &Mesh) -> Vec<(Axis, AxisRef)> {
        let mut out = vec![];
        for pre in 1..=24u32 {
            for size in 2..=24u32 {
                if 24 % (pre * size) == 0 {
                    let whole = AxisRef::between("a", i64::from(pre), i64::from(pre * size), mesh);
                    out.push((Axis { id: 0, pre, size }, whole));
                }
            }
        }
        out
    }

    #[test]
    fn small_axes_agree_with_axis_references() -> Result<(), meshwork_mesh::MeshError> {
        let mesh = Mesh::linear("a", 24)?;
        let parts = parts(&mesh);
        assert!(parts.len() > 20);
        for (x, rx) in &parts {
            for (y, ry) in &parts {
                assert_eq!(x.contains(*y), rx.contains(ry), "{rx} {ry}");
                assert_eq!(x.prefix_of(*y), rx.prefix_of(ry), "{rx} {ry}");
                assert_eq!(x.overlaps(*y), rx.overlaps(ry), "{rx} {ry}");
                assert_eq!(x.can_coexist(*y), rx.can_coexist(ry), "{rx} {ry}");
                let prefix = x.prefix_without_overlap(*y).map(|p| (i64::from(p.pre), i64::from(p.size)));
                let expected = rx.prefix_without_overlap(ry).map(|p| (p.pre_size(), p.size(&mesh)));
                assert_eq!(prefix, expected, "{rx} {ry}");
            }
        }
        Ok(())
    }
}
