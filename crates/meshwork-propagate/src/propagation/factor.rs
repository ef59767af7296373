//! What all strategies share: directions, the axes that tensors agree on, and what conflicts cut off.

use meshwork_mesh::gcd;

use crate::factors::{Axis, AxisList, CompiledRule, FactorSharding, Projection, TensorFactors};

/// Which way placements may spread through an op.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Not at all.
    None,
    /// From operands to results.
    Forward,
    /// From results to operands.
    Backward,
    /// Both ways, and between operands.
    Both,
}

impl Direction {
    fn bits(self) -> u8 {
        match self {
            Direction::None => 0,
            Direction::Forward => 1,
            Direction::Backward => 2,
            Direction::Both => 3,
        }
    }

    fn from_bits(bits: u8) -> Direction {
        match bits & 3 {
            0 => Direction::None,
            1 => Direction::Forward,
            2 => Direction::Backward,
            _ => Direction::Both,
        }
    }

    /// What either allows.
    pub fn union(self, other: Direction) -> Direction {
        Direction::from_bits(self.bits() | other.bits())
    }
}

/// The directions of an op, by the kind of factor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Directions {
    /// Along pass-through factors.
    pub pass_through: Direction,
    /// Along all other factors.
    pub other: Direction,
}

impl Directions {
    /// The same along every factor.
    pub const fn all(direction: Direction) -> Directions {
        Directions { pass_through: direction, other: direction }
    }

    /// What either allows.
    pub fn union(self, other: Directions) -> Directions {
        Directions { pass_through: self.pass_through.union(other.pass_through), other: self.other.union(other.other) }
    }

    /// The direction along `factor`.
    pub fn along(self, rule: &CompiledRule, factor: usize) -> Direction {
        if rule.blocked[factor] {
            Direction::None
        } else if rule.pass_through[factor] {
            self.pass_through
        } else {
            self.other
        }
    }
}

/// The op at hand, beyond its rule.
#[derive(Clone, Copy, Debug)]
pub struct OpTraits<'a> {
    /// Whether it works element by element.
    pub elementwise: bool,
    /// In conservative mode, the sizes of the mesh's axes: any smaller part is a cut axis, which is not allowed.
    pub whole_axes_only: Option<&'a [u32]>,
}

/// How placements move along the factors of one op; see `basic.rs` and `aggressive.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Strategy {
    /// Only what all tensors agree on.
    Basic,
    /// Resolves conflicts.
    Aggressive,
}

/// The longest axes along `factor` that no tensor contradicts, other conflicts aside.
///
/// Tensors are folded in order, those that may add axes first. A tensor that splits the factor differently
/// ends the list there, and no later tensor may extend it.
pub fn compatible_major_axes(projection: &Projection, factor: usize, direction: Direction) -> AxisList {
    let (operands, results) = projection.tensors.split_at(projection.num_operands);
    let (first, second) = match direction {
        Direction::None => return AxisList::new(),
        Direction::Both | Direction::Forward => (operands, results),
        Direction::Backward => (results, operands),
    };
    let mut state = (AxisList::new(), Expand::Allowed);
    for tensor in first {
        if let Some(axes) = tensor.axes(factor) {
            merge(&mut state, axes);
        }
    }
    if direction != Direction::Both {
        state.1 = Expand::Forbidden;
    }
    for tensor in second {
        if let Some(axes) = tensor.axes(factor) {
            merge(&mut state, axes);
        }
    }
    state.0
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expand {
    Allowed,
    Forbidden,
}

fn merge((axes, expand): &mut (AxisList, Expand), new: &[Axis]) {
    for i in 0..axes.len().min(new.len()) {
        let (old_axis, new_axis) = (axes[i], new[i]);
        if old_axis == new_axis {
            continue;
        }
        if new_axis.prefix_of(old_axis) {
            if i + 1 == new.len() {
                continue;
            }
            axes[i] = new_axis;
            axes.truncate(i + 1);
        } else if old_axis.prefix_of(new_axis) {
            if *expand == Expand::Allowed && i + 1 == axes.len() {
                axes[i] = new_axis;
                continue;
            }
            axes.truncate(i + 1);
        } else {
            axes.truncate(i);
        }
        *expand = Expand::Forbidden;
        return;
    }
    if *expand == Expand::Allowed && new.len() > axes.len() {
        axes.extend_from_slice(&new[axes.len()..]);
    }
}

/// The largest major part of `axis` that overlaps with no other factor of `tensor`.
pub fn without_other_factors(axis: Axis, tensor: &TensorFactors, factor: usize) -> Option<Axis> {
    let others = tensor.factors.iter().enumerate().filter(|&(f, _)| f != factor);
    others.filter_map(|(_, s)| s.as_ref()).try_fold(axis, |axis, sharding| {
        axis.prefix_without_overlaps(&sharding.overflow)?.prefix_without_overlaps(&sharding.axes)
    })
}

/// The largest major part of `axis` that `tensor` can take along a factor it has, its other factors aside.
///
/// `before` is the product of the axes that come first, `size` that of the factor.
pub fn within_factor(
    axis: Axis,
    tensor: &TensorFactors,
    sharding: &FactorSharding,
    before: i64,
    size: i64,
) -> Option<Axis> {
    let axis = axis.prefix_without_overlaps(&tensor.replicated)?.prefix_without_overlaps(&tensor.unreduced)?;
    if sharding.axes.iter().any(|a| a.contains(axis)) {
        return Some(axis);
    }
    if !sharding.closed && sharding.overflow.is_empty() {
        if sharding.minor_most {
            return Some(axis);
        }
        if before > 0 && size % before == 0 {
            // A divisor of the axis size, so it fits.
            let fits = gcd(size / before, i64::from(axis.size)) as u32;
            if fits == axis.size {
                return Some(axis);
            }
            if fits != 1 {
                return Some(axis.with_size(fits));
            }
        }
    }
    // What the tensor has already may stay.
    sharding.axes.last().copied().filter(|last| last.prefix_of(axis))
}

/// Cuts `axes` at the first one that `limit` shortens or loses; it sees the product of the axes before.
pub fn truncate_conflicts(
    axes: &mut AxisList,
    whole_axes_only: Option<&[u32]>,
    mut limit: impl FnMut(Axis, i64) -> Option<Axis>,
) {
    let mut before = 1i64;
    for i in 0..axes.len() {
        let is_cut = |a: &Axis| whole_axes_only.is_some_and(|sizes| sizes.get(a.id as usize) != Some(&a.size));
        match limit(axes[i], before).filter(|a| !is_cut(a)) {
            None => return axes.truncate(i),
            Some(axis) if axis != axes[i] => {
                axes[i] = axis;
                return axes.truncate(i + 1);
            }
            Some(axis) => before = before.saturating_mul(i64::from(axis.size)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sub(id: u16, pre: u32, size: u32) -> Axis {
        Axis { id, pre, size }
    }

    fn merged(old: &[Axis], new: &[Axis], expand: Expand) -> (Vec<Axis>, bool) {
        let mut state = (AxisList::from(old), expand);
        merge(&mut state, new);
        (state.0.to_vec(), state.1 == Expand::Allowed)
    }

    #[test]
    fn merging_lists_of_axes() {
        let (a, b, c) = (sub(0, 1, 8), sub(1, 1, 2), sub(2, 1, 2));
        let (a2, a4) = (a.with_size(2), a.with_size(4));
        assert_eq!(merged(&[a], &[a, b], Expand::Allowed), (vec![a, b], true));
        assert_eq!(merged(&[a, b], &[a, c], Expand::Allowed), (vec![a], false));
        assert_eq!(merged(&[a2], &[a4], Expand::Allowed), (vec![a4], true));
        assert_eq!(merged(&[a2, b], &[a4, b], Expand::Allowed), (vec![a2], false));
        assert_eq!(merged(&[a4, b], &[a2], Expand::Allowed), (vec![a4, b], true));
        assert_eq!(merged(&[a4], &[a2, b], Expand::Allowed), (vec![a2], false));
        assert_eq!(merged(&[a], &[a, b], Expand::Forbidden), (vec![a], false));
        assert_eq!(merged(&[a, b], &[a], Expand::Forbidden), (vec![a, b], false));
        assert_eq!(merged(&[a2], &[a4], Expand::Forbidden), (vec![a2], false));
        assert_eq!(merged(&[a2], &[sub(0, 2, 2)], Expand::Allowed), (vec![], false));
    }

    #[test]
    fn directions_form_a_lattice() {
        use Direction::*;
        assert_eq!(Forward.union(Backward), Both);
        assert_eq!(None.union(Forward), Forward);
    }
}
