//! Layouts: how the elements of a global value are on the devices.

pub(crate) mod atoms;
pub(crate) mod meshes;

use meshwork_ir::Combine;
use smallvec::SmallVec;

use crate::layout::atoms::{AtomList, Atoms};

/// How one dimension is split: element `g` stands at position `g + offset` of a line of `p * block` positions, and
/// shard `t` of `p` holds positions `t*block .. (t+1)*block`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DimLayout {
    /// What splits the dimension, major to minor. Empty: not split, `offset` is 0 and `block` the extent.
    pub atoms: AtomList,
    /// Positions per shard.
    pub block: i64,
    /// Position of element 0.
    pub offset: i64,
}

impl DimLayout {
    /// A dimension of extent `n` that is not split.
    pub fn whole(n: i64) -> DimLayout {
        DimLayout { atoms: AtomList::new(), block: n, offset: 0 }
    }

    /// The ordinary split of extent `n`: blocks of ceil(n / p), the last ones short or empty.
    pub fn split(n: i64, list: AtomList, atoms: &Atoms) -> DimLayout {
        let p = atoms.product(&list);
        DimLayout { atoms: list, block: (n + p - 1) / p, offset: 0 }
    }

    /// Whether the dimension is split.
    pub fn is_split(&self) -> bool {
        !self.atoms.is_empty()
    }

    /// The frame of `n` elements that stand in one shard of this frame: that shard has all of them, in a block as long as
    /// they are, so that they stay where they are. `None` if several shards have some.
    pub fn alone(&self, n: i64) -> Option<DimLayout> {
        if !self.is_split() || n < 1 {
            return None;
        }
        let owner = self.offset / self.block;
        let last = (self.offset + n - 1) / self.block;
        (owner == last).then(|| DimLayout { atoms: self.atoms.clone(), block: n, offset: owner * n })
    }

    /// Whether every position of an extent of `n` holds an element.
    pub fn is_full(&self, n: i64, atoms: &Atoms) -> bool {
        self.offset == 0 && self.block * atoms.product(&self.atoms) == n
    }

    /// Whether this is the ordinary split of extent `n`.
    pub fn is_ordinary(&self, n: i64, atoms: &Atoms) -> bool {
        *self == DimLayout::split(n, self.atoms.clone(), atoms)
    }
}

/// A layout of a value: a frame per dimension, and what is still to be combined.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// One per dimension.
    pub dims: SmallVec<[DimLayout; 4]>,
    /// Atoms over which the value is partial, sorted, and how the parts combine.
    pub partial: Option<(AtomList, Combine)>,
}

impl Layout {
    /// Every device holds the whole value.
    pub fn replicated(extents: &[i64]) -> Layout {
        Layout { dims: extents.iter().map(|&n| DimLayout::whole(n)).collect(), partial: None }
    }

    /// The ordinary split of `extents` by these atoms per dimension.
    pub fn ordinary(extents: &[i64], lists: &[AtomList], atoms: &Atoms) -> Layout {
        let dims = extents.iter().zip(lists).map(|(&n, l)| DimLayout::split(n, l.clone(), atoms)).collect();
        Layout { dims, partial: None }
    }

    /// Whether some dimension is split.
    pub fn is_split(&self) -> bool {
        self.dims.iter().any(DimLayout::is_split)
    }

    /// Local extents.
    pub fn local_extents(&self) -> SmallVec<[i64; 4]> {
        self.dims.iter().map(|d| d.block).collect()
    }

    /// Positions a device holds.
    pub fn local_elements(&self) -> i64 {
        self.dims.iter().map(|d| d.block).product()
    }

    /// The same without partial atoms.
    pub fn reduced(&self) -> Layout {
        Layout { dims: self.dims.clone(), partial: None }
    }

    /// The same with these partial atoms (sorted here); an empty list means none.
    pub fn with_partial(mut self, mut list: AtomList, combine: Combine) -> Layout {
        list.sort_unstable();
        self.partial = (!list.is_empty()).then_some((list, combine));
        self
    }

    /// Atom lists per dimension.
    pub fn lists(&self) -> SmallVec<[AtomList; 4]> {
        self.dims.iter().map(|d| d.atoms.clone()).collect()
    }

    /// Whether every dimension is in its ordinary frame.
    pub fn is_ordinary(&self, extents: &[i64], atoms: &Atoms) -> bool {
        self.dims.iter().zip(extents).all(|(d, &n)| d.is_ordinary(n, atoms))
    }
}
