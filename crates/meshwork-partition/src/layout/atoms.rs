//! Atoms: mesh axes cut into prime pieces, so that every sub-axis is a list of small numbers.

use meshwork_mesh::{AxisRef, Mesh, prime_factors, sort_by_key};
use smallvec::SmallVec;

use crate::plan::cost::Links;

/// Index of an atom in its [`Atoms`] table.
pub type Atom = u8;

/// Atoms from major to minor.
pub type AtomList = SmallVec<[Atom; 8]>;

/// One atom.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AtomInfo {
    /// Position of its axis in the mesh.
    pub axis: usize,
    /// Product of the sizes of the atoms of the same axis before it.
    pub pre_size: i64,
    /// Its size, a prime.
    pub size: i64,
    /// How far apart in row-major mesh order two devices are that differ by one in it.
    pub stride: i64,
    /// How many times longer a byte takes along it than over the fastest links of the mesh.
    pub slowness: f64,
}

/// The atoms of a mesh, in mesh order, major to minor within an axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Atoms {
    mesh: Mesh,
    atoms: Vec<AtomInfo>,
}

impl Atoms {
    /// Cuts the axes of `mesh` into primes; all links are equally fast.
    pub fn of(mesh: &Mesh) -> Atoms {
        Atoms::cut(mesh, &Links::default(), [])
    }

    /// Cuts the axes of `mesh` into primes so that no atom lies across a stride of `cuts`: 6 is 2 times 3, or 3 times 2
    /// if it is cut at stride 2. Of strides that exclude each other the first counts.
    pub fn cut(mesh: &Mesh, links: &Links, cuts: impl IntoIterator<Item = i64>) -> Atoms {
        let fastest = links.fastest(mesh);
        let mut chain = vec![mesh.device_count()];
        for a in mesh.axes() {
            chain.push(chain[chain.len() - 1] / a.size.max(1));
        }
        for stride in cuts {
            if stride > 0 && chain.iter().all(|c| c % stride == 0 || stride % c == 0) {
                chain.push(stride);
            }
        }
        sort_by_key(&mut chain, |&stride| std::cmp::Reverse(stride));
        let mut atoms = vec![];
        let mut stride = mesh.device_count();
        for (axis, a) in mesh.axes().iter().enumerate() {
            let (from, end) = (stride, stride / a.size.max(1));
            for &next in chain.iter().filter(|&&c| c < from && c >= end) {
                for size in prime_factors(stride / next) {
                    let pre_size = from / stride;
                    let part = AxisRef::sub(&*a.name, pre_size, size);
                    let slowness = fastest / links.of(&part, mesh).gigabytes_per_second;
                    stride /= size;
                    atoms.push(AtomInfo { axis, pre_size, size, stride, slowness });
                }
            }
        }
        Atoms { mesh: mesh.clone(), atoms }
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Number of atoms.
    pub fn len(&self) -> usize {
        self.atoms.len()
    }

    /// Whether the mesh has one device.
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty()
    }

    /// All atoms in mesh order.
    pub fn all(&self) -> AtomList {
        (0..self.atoms.len() as Atom).collect()
    }

    /// All atoms but those of `list`, in mesh order.
    pub fn without(&self, list: &[Atom]) -> AtomList {
        self.all().into_iter().filter(|a| !list.contains(a)).collect()
    }

    /// Facts about `atom`.
    pub fn info(&self, atom: Atom) -> AtomInfo {
        self.atoms[atom as usize]
    }

    /// Size of `atom`.
    pub fn size(&self, atom: Atom) -> i64 {
        self.atoms[atom as usize].size
    }

    /// Number of shards that `list` makes.
    pub fn product(&self, list: &[Atom]) -> i64 {
        list.iter().map(|&a| self.size(a)).product()
    }

    /// How many times longer a byte takes along `list` than over the fastest links: the slowest of its atoms counts.
    pub fn slowness(&self, list: &[Atom]) -> f64 {
        list.iter().map(|&a| self.info(a).slowness).fold(1.0, f64::max)
    }

    /// The atoms of `axis`; `None` if the mesh has no such axis or a sub-axis cuts an atom.
    pub fn of_axis(&self, axis: &AxisRef) -> Option<AtomList> {
        self.within(strides(&self.mesh, axis)?)
    }

    /// The atoms whose strides are in `low..high`; `None` if an atom lies across a bound.
    pub fn within(&self, (low, high): (i64, i64)) -> Option<AtomList> {
        let inside = |a: &AtomInfo| a.stride >= low && a.stride * a.size <= high;
        let out: AtomList = (0..).zip(&self.atoms).filter(|(_, a)| inside(a)).map(|(i, _)| i).collect();
        (self.product(&out) == high / low).then_some(out)
    }

    /// The atoms of a list of axes; `None` as for [`of_axis`](Atoms::of_axis).
    pub fn of_axes<'a>(&self, axes: impl IntoIterator<Item = &'a AxisRef>) -> Option<AtomList> {
        let mut out = AtomList::new();
        for axis in axes {
            out.extend(self.of_axis(axis)?);
        }
        Some(out)
    }

    /// The shortest list of axes and sub-axes that equals `list`.
    pub fn to_axes(&self, list: &[Atom]) -> Vec<AxisRef> {
        let mut out = vec![];
        let mut i = 0;
        while i < list.len() {
            let first = self.info(list[i]);
            let mut next_pre = first.pre_size * first.size;
            let mut j = i + 1;
            while j < list.len() {
                let a = self.info(list[j]);
                if a.axis != first.axis || a.pre_size != next_pre {
                    break;
                }
                next_pre *= a.size;
                j += 1;
            }
            let axis = &self.mesh.axes()[first.axis];
            out.push(match (first.pre_size, next_pre == axis.size) {
                (1, true) => AxisRef::full(axis.name.clone()),
                (pre, _) => AxisRef::sub(axis.name.clone(), pre, next_pre / pre),
            });
            i = j;
        }
        out
    }

    /// Shard index along `list` of the device at `position` in row-major mesh order.
    pub fn index_at(&self, list: &[Atom], position: i64) -> i64 {
        list.iter().fold(0, |t, &a| {
            let info = self.info(a);
            t * info.size + (position / info.stride) % info.size
        })
    }

    /// The position whose shard index along `list` is `index`, all other coordinates as at `position`.
    pub fn with_index(&self, list: &[Atom], position: i64, mut index: i64) -> i64 {
        let mut out = position;
        for &a in list.iter().rev() {
            let info = self.info(a);
            out += (index % info.size - (position / info.stride) % info.size) * info.stride;
            index /= info.size;
        }
        out
    }

    /// The positions that differ from position 0 along `list` only, by their shard index along it.
    pub fn line(&self, list: &[Atom]) -> Vec<i64> {
        let mut out = vec![0];
        for &a in list {
            let info = self.info(a);
            out = out.iter().flat_map(|&p| (0..info.size).map(move |i| p + i * info.stride)).collect();
        }
        out
    }

    /// The device id at `position` in row-major mesh order.
    pub fn device(&self, position: i64) -> i64 {
        self.mesh.device_ids().map_or(position, |ids| ids[position as usize])
    }
}

/// How far apart in row-major mesh order devices are that differ by one in `axis`, and by one in what is major to it.
pub fn strides(mesh: &Mesh, axis: &AxisRef) -> Option<(i64, i64)> {
    let index = mesh.axis_index(&axis.name)?;
    let minor: i64 = mesh.axes()[index + 1..].iter().map(|a| a.size).product();
    let whole = minor * mesh.axes()[index].size;
    let (low, high) =
        axis.sub.map_or((minor, whole), |s| (whole / s.next_pre_size().max(1), whole / s.pre_size.max(1)));
    (low > 0 && high > 0).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_cut_where_it_is_asked_to_be() {
        let mesh = Mesh::new([("x", 12), ("y", 2)]).unwrap();
        let sizes = |cuts: &[i64]| {
            let atoms = Atoms::cut(&mesh, &Links::default(), cuts.iter().copied());
            atoms.all().into_iter().map(|a| atoms.size(a)).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[]), [2, 2, 3, 2]);
        let (low, high) = strides(&mesh, &AxisRef::sub("x", 2, 3)).unwrap();
        assert_eq!((low, high), (4, 12));
        assert_eq!(sizes(&[low, high]), [2, 3, 2, 2]);
        // A cut at 8 comes too late, as 12 and 8 exclude each other.
        assert_eq!(sizes(&[12, 8]), [2, 2, 3, 2]);
        assert_eq!(sizes(&[8]), [3, 2, 2, 2]);
    }

    #[test]
    fn axes_and_atoms_convert_both_ways() {
        let mesh = Mesh::new([("x", 8), ("y", 6), ("z", 1)]).unwrap();
        let atoms = Atoms::of(&mesh);
        assert_eq!(atoms.len(), 5);
        for axes in [
            vec![AxisRef::full("x")],
            vec![AxisRef::full("y"), AxisRef::sub("x", 2, 2)],
            vec![AxisRef::sub("x", 1, 2), AxisRef::sub("y", 2, 3)],
        ] {
            let list = atoms.of_axes(&axes).unwrap();
            assert_eq!(atoms.to_axes(&list), axes);
        }
        assert_eq!(atoms.of_axis(&AxisRef::full("z")).unwrap().len(), 0);
        assert_eq!(atoms.of_axis(&AxisRef::full("w")), None);
    }

    #[test]
    fn positions_and_indices_convert_both_ways() {
        let atoms = Atoms::of(&Mesh::new([("x", 2), ("y", 6)]).unwrap());
        let list = atoms.of_axes(&[AxisRef::full("y"), AxisRef::full("x")]).unwrap();
        for position in 0..12 {
            let t = atoms.index_at(&list, position);
            assert_eq!(t, (position % 6) * 2 + position / 6);
            assert_eq!(atoms.line(&list)[t as usize], position);
            for u in 0..12 {
                assert_eq!(atoms.index_at(&list, atoms.with_index(&list, position, u)), u);
            }
        }
    }
}
