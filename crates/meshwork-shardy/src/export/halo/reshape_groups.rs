//! The groups of dimensions that a reshape splits or joins, and how axes split them.

use std::ops::Range;

use meshwork_mesh::{AxisRef, Mesh, Sharding, ceil_div};

/// Dimensions before and after that hold the same elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Dimensions before.
    pub from: Range<usize>,
    /// Dimensions after.
    pub to: Range<usize>,
    /// How many of those before are longer than 1.
    pub long_from: usize,
    /// How many of those after are longer than 1.
    pub long_to: usize,
}

impl Group {
    /// Whether one dimension stays one dimension.
    pub fn passes_through(&self) -> bool {
        self.long_from <= 1 && self.long_to <= 1
    }

    /// Whether one dimension becomes several.
    pub fn splits(&self) -> bool {
        self.long_from <= 1 && self.long_to > 1
    }

    /// Whether dimensions of length 1 are among others.
    pub fn has_short_dims(&self) -> bool {
        self.long_from != self.from.len() || self.long_to != self.to.len()
    }
}

/// The smallest groups of dimensions with equal products, in order.
pub fn groups(from: &[i64], to: &[i64]) -> Vec<Group> {
    let (mut groups, mut i, mut j) = (vec![], 0, 0);
    let take = |dims: &[i64], at: &mut usize| {
        let size = dims.get(*at).copied().unwrap_or(1);
        *at = (*at + 1).min(dims.len());
        size
    };
    while i < from.len() || j < to.len() {
        let (start_i, start_j) = (i, j);
        let (mut a, mut b) = (take(from, &mut i), take(to, &mut j));
        while a != b {
            if a < b && i < from.len() {
                a *= take(from, &mut i);
            } else if b < a && j < to.len() {
                b *= take(to, &mut j);
            } else {
                break;
            }
        }
        let long = |dims: &[i64]| dims.iter().filter(|&&d| d != 1).count();
        groups.push(Group {
            from: start_i..i,
            to: start_j..j,
            long_from: long(&from[start_i..i]),
            long_to: long(&to[start_j..j]),
        });
    }
    groups
}

/// How far apart, in elements of the whole array, neighbors along an axis are, and how many blocks come before it.
#[derive(Clone, Debug)]
struct Stride {
    axis: AxisRef,
    stride: f64,
    blocks: i64,
    extent: i64,
}

/// How shards that do not divide count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uneven {
    /// As fractions.
    Fraction,
    /// Rounded up.
    RoundUp,
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

/// The strides of all axes, smallest first, parts of one axis joined where they are neighbors.
fn strides(sharding: &Sharding, dims: &[i64], mesh: &Mesh, uneven: Uneven) -> Vec<Stride> {
    let mut all: Vec<Stride> = vec![];
    let mut inner = 1.0;
    for (dim, placed) in sharding.dims.iter().enumerate().rev() {
        let shards = placed.num_shards(mesh);
        let size = match uneven {
            Uneven::Fraction => dims[dim] as f64 / shards as f64,
            Uneven::RoundUp => ceil_div(dims[dim], shards) as f64,
        };
        let mut stride = inner * size;
        let before: i64 = dims[..dim].iter().product();
        let mut preceding = shards;
        for axis in placed.axes.iter().rev() {
            preceding /= axis.size(mesh);
            all.push(Stride { axis: axis.clone(), stride, blocks: before * preceding, extent: dims[dim] });
            stride *= axis.size(mesh) as f64;
        }
        inner *= dims[dim] as f64;
    }
    all.sort_by(|a, b| a.stride.total_cmp(&b.stride));
    let mut merged: Vec<Stride> = vec![];
    for next in all {
        if let Some(last) = merged.last_mut() {
            let follows = match uneven {
                Uneven::Fraction => {
                    last.blocks == next.blocks
                        || (last.blocks == next.blocks * next.extent && next.axis.size(mesh) == next.extent)
                }
                Uneven::RoundUp => near(next.stride, last.stride * last.axis.size(mesh) as f64),
            };
            if let Some(joined) = next.axis.merge(&last.axis, mesh).filter(|_| follows) {
                last.axis = joined;
                last.blocks = last.blocks.min(next.blocks);
                continue;
            }
        }
        merged.push(next);
    }
    merged
}

/// Whether both placements put the same elements on the same devices, seen through the reshape.
pub fn same_through_reshape(
    (from, from_dims): (&Sharding, &[i64]),
    (to, to_dims): (&Sharding, &[i64]),
    mesh: &Mesh,
    uneven: Uneven,
) -> bool {
    let (a, b) = (strides(from, from_dims, mesh, uneven), strides(to, to_dims, mesh, uneven));
    from.mesh == to.mesh
        && from.replicated == to.replicated
        && a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| {
            let same = match uneven {
                Uneven::Fraction => a.blocks == b.blocks,
                Uneven::RoundUp => near(a.stride, b.stride),
            };
            a.axis == b.axis && same
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_equal_products() {
        let found = groups(&[6, 4], &[2, 3, 4]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].from.clone(), found[0].to.clone()), (0..1, 0..2));
        assert!(found[0].splits() && found[1].passes_through());
        let crossing = groups(&[6, 2], &[4, 3]);
        assert_eq!(crossing.len(), 1);
        assert!(!crossing[0].splits() && !crossing[0].passes_through());
        assert_eq!(groups(&[], &[1]).len(), 1);
    }
}
