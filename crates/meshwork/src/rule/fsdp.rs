//! Fully sharded by size: one dimension of each large array over one axis.

use meshwork_mesh::{Mesh, axis_list, sort_by_key};

use super::{Leaf, RuleError};
use crate::spec::P;

/// Splits one dimension of each array over an axis, if the array is large and a dimension divides.
///
/// Dimensions are looked at from the largest to the smallest, equals from the first: the first that the number of
/// parts divides is split. If none divides, the array is replicated, unless [`uneven`](FsdpRule::uneven) splits are
/// allowed: then the largest is split. After another rule (see [`Rule::and`](super::Rule::and)) dimensions which that
/// one leaves whole come first, and extents are those of one device.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::rules::{FsdpRule, Leaf};
///
/// let mesh = Mesh::linear("fsdp", 4)?;
/// let place = |rule: FsdpRule, shape: &[i64]| {
///     let leaf = Leaf { path: "w", shape, dtype: F32 };
///     Rule::from(rule).spec(&leaf, &mesh).map(|p| p.unwrap_or_default().to_string())
/// };
/// let rule = FsdpRule::new("fsdp").least(8);
/// assert_eq!(place(rule.clone(), &[12, 8])?, r#"P!["fsdp"]"#);
/// assert_eq!(place(rule.clone(), &[9, 8])?, r#"P![_, "fsdp"]"#);
/// assert_eq!(place(rule.clone(), &[7, 5])?, "P![]");
/// assert_eq!(place(rule.clone().uneven(), &[7, 5])?, r#"P!["fsdp"]"#);
/// // 8 has a larger power of two in it than 12.
/// assert_eq!(place(rule.powers_of_two(), &[12, 8])?, r#"P![_, "fsdp"]"#);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsdpRule {
    axis: String,
    parts: Option<i64>,
    least: i64,
    uneven: bool,
    order: Order,
}

/// Which dimension is looked at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The largest.
    Extent,
    /// The one with the largest power of two in it.
    PowerOfTwo,
}

impl Order {
    /// Larger comes first.
    fn key(self, extent: i64) -> i64 {
        match self {
            Order::Extent => extent,
            Order::PowerOfTwo => 1 << extent.trailing_zeros(),
        }
    }
}

impl FsdpRule {
    /// Over `axis`: arrays of at least 2^20 elements, into as many parts as the axis has devices.
    pub fn new(axis: &str) -> FsdpRule {
        FsdpRule { axis: axis.to_string(), parts: None, least: 1 << 20, uneven: false, order: Order::Extent }
    }

    /// The number of parts that must divide a dimension, if it is more than the axis has devices: choices made for a
    /// larger mesh. It must be a multiple of the size of the axis.
    pub fn parts(mut self, parts: i64) -> FsdpRule {
        self.parts = Some(parts);
        self
    }

    /// Arrays of fewer elements are copied.
    pub fn least(mut self, elements: i64) -> FsdpRule {
        self.least = elements;
        self
    }

    /// Splits the largest dimension if none divides.
    pub fn uneven(mut self) -> FsdpRule {
        self.uneven = true;
        self
    }

    /// Looks at dimensions in order of the largest power of two that divides each, equals from the first, as scalax does if it is
    /// given no number of parts: the choice is then the same on meshes of 2, 4, 8, … devices. Unlike there, a dimension that the
    /// parts do not divide is not split.
    pub fn powers_of_two(mut self) -> FsdpRule {
        self.order = Order::PowerOfTwo;
        self
    }

    /// Arrays of fewer elements than this are copied.
    pub fn least_elements(&self) -> i64 {
        self.least
    }

    /// What is made of an array that is placed like `base`.
    pub(super) fn refine(&self, base: &P, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<P, RuleError> {
        let Some(size) = mesh.axis_size(&self.axis) else {
            let has = mesh.axes().iter().map(|a| a.name.to_string()).collect();
            return Err(RuleError::UnknownAxis { axis: self.axis.clone(), has });
        };
        let parts = self.parts.unwrap_or(size);
        if parts < 1 || parts % size != 0 {
            return Err(RuleError::Parts { axis: self.axis.clone(), parts, size });
        }
        let used = base.dims().iter().any(|d| d.axes.iter().any(|a| *a.name == *self.axis));
        if used || leaf.size() < self.least.max(1) {
            return Ok(base.clone());
        }
        let shards = |dim: usize| base.dims().get(dim).map_or(1, |d| axis_list::product(&d.axes, mesh));
        let mut dims: Vec<usize> = (0..leaf.shape.len()).filter(|&d| leaf.shape[d] > 1).collect();
        // The sort keeps the order of equals.
        sort_by_key(&mut dims, |&d| (shards(d) > 1, std::cmp::Reverse(self.order.key(leaf.shape[d] / shards(d)))));
        let divides = dims.iter().find(|&&d| leaf.shape[d] % (shards(d) * parts) == 0);
        Ok(match divides.or_else(|| dims.first().filter(|_| self.uneven)) {
            Some(&dim) => base.with_axis(dim, &self.axis),
            None => base.clone(),
        })
    }
}
