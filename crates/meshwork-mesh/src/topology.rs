//! Physical topologies: devices at the points of a grid with links between neighbors, and meshes that follow them.
//!
//! A logical axis is laid along one or several physical axes, in snake order, so that consecutive devices of the axis
//! are physical neighbors wherever possible. Of all ways to distribute the physical axes over the logical ones
//! the one with the fewest hops wins, the last logical axis, which communicates most, counting first.

use crate::error::MeshError;
use crate::mesh::Mesh;
use crate::number::prime_factors;

/// How devices are wired: a grid of them, where axes may close to rings.
///
/// ```
/// use meshwork_mesh::{Mesh, Split, Topology};
///
/// let pod = Topology::torus([4, 4]);
/// let mesh = pod.mesh(&[("data", 2), ("model", 8)], Split::Allowed)?;
/// // Along "model" every step is one hop.
/// assert_eq!(pod.hops(&mesh, "model"), Some(7));
/// assert!(pod.mesh(&[("data", 2), ("model", 8)], Split::Never).is_err());
/// # Ok::<(), meshwork_mesh::MeshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    dims: Vec<i64>,
    rings: Vec<bool>,
    hosts: Option<Vec<i64>>,
    ids: Option<Vec<i64>>,
}

/// Whether one physical axis may serve several logical ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Split {
    /// Every physical axis belongs to one logical axis as a whole: all its links work for that.
    #[default]
    Never,
    /// A physical axis may be split. Neighbors along its major part are then several hops apart.
    Allowed,
}

/// A part of a physical axis: `size` points, `stride` apart.
#[derive(Clone, Copy, Debug)]
struct Part {
    axis: usize,
    stride: i64,
    size: i64,
}

/// The largest number of distributions of the physical axes to compare.
const MOST: usize = 4096;

impl Topology {
    /// Devices `0..n` in row-major order on a grid of these extents, each axis closed to a ring.
    pub fn torus(dims: impl Into<Vec<i64>>) -> Topology {
        let dims = dims.into();
        Topology { rings: vec![true; dims.len()], dims, hosts: None, ids: None }
    }

    /// Devices `0..n` in row-major order on a grid of these extents, without links from end to end.
    pub fn grid(dims: impl Into<Vec<i64>>) -> Topology {
        let dims = dims.into();
        Topology { rings: vec![false; dims.len()], dims, hosts: None, ids: None }
    }

    /// Says for each physical axis whether its ends are linked.
    pub fn with_rings(mut self, rings: impl Into<Vec<bool>>) -> Topology {
        self.rings = rings.into();
        self.rings.resize(self.dims.len(), false);
        self
    }

    /// The device ids in row-major order of the grid, where they are not `0..n`.
    pub fn with_device_ids(mut self, ids: impl Into<Vec<i64>>) -> Topology {
        self.ids = Some(ids.into());
        self
    }

    /// Hosts that each have a block of these extents: in meshes, the devices of a host then form a block too.
    pub fn with_hosts(mut self, block: impl Into<Vec<i64>>) -> Topology {
        self.hosts = Some(block.into());
        self
    }

    /// Number of devices.
    pub fn device_count(&self) -> i64 {
        self.dims.iter().product()
    }

    /// Links on the shortest way between two devices.
    pub fn distance(&self, a: i64, b: i64) -> Option<i64> {
        let (a, b) = (self.point(a)?, self.point(b)?);
        let along = |d: usize| {
            let direct = (a[d] - b[d]).abs();
            if self.rings[d] { direct.min(self.dims[d] - direct) } else { direct }
        };
        Some((0..self.dims.len()).map(along).sum())
    }

    /// The most hops that the devices of a line along a mesh axis need, added over the steps from each to the next.
    pub fn hops(&self, mesh: &Mesh, axis: &str) -> Option<i64> {
        let index = mesh.axis_index(axis)?;
        let size = mesh.axes()[index].size;
        let stride: i64 = mesh.axes()[index + 1..].iter().map(|a| a.size).product();
        let starts = (0..mesh.device_count()).filter(|p| (p / stride) % size == 0);
        let device = |p: i64| mesh.device_at_position(p);
        let line = |start: i64| -> Option<i64> {
            (1..size).map(|i| self.distance(device(start + (i - 1) * stride)?, device(start + i * stride)?)).sum()
        };
        starts.map(line).collect::<Option<Vec<i64>>>()?.into_iter().max()
    }

    /// The mesh with these axes, in order of increasing traffic, with a device order that keeps neighbors close.
    pub fn mesh(&self, axes: &[(&str, i64)], split: Split) -> Result<Mesh, MeshError> {
        let logical = Mesh::new(axes.iter().copied())?;
        self.check()?;
        if logical.device_count() != self.device_count() {
            let (product, device_count) = (logical.device_count(), self.device_count());
            return Err(MeshError::CountMismatch { product, device_count });
        }
        let sizes: Vec<i64> = axes.iter().map(|&(_, size)| size).collect();
        let mut found = vec![];
        let whole: Vec<(usize, i64)> = self.dims.iter().copied().enumerate().filter(|&(_, n)| n > 1).collect();
        distribute(&whole, &sizes, &mut vec![vec![]; sizes.len()], &mut found);
        if found.is_empty() && split == Split::Allowed {
            let pieces: Vec<(usize, i64)> =
                whole.iter().flat_map(|&(axis, n)| prime_factors(n).into_iter().map(move |p| (axis, p))).collect();
            distribute(&pieces, &sizes, &mut vec![vec![]; sizes.len()], &mut found);
        }
        let mut best: Option<(Vec<i64>, Mesh)> = None;
        for choice in &found {
            let mesh = logical.clone().with_device_ids(self.order(&sizes, &self.parts(choice)))?;
            let cost: Vec<i64> = axes.iter().rev().map(|(name, _)| self.hops(&mesh, name).unwrap_or(0)).collect();
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, mesh));
            }
        }
        best.map(|(_, mesh)| mesh).ok_or_else(|| MeshError::Topology {
            sizes: sizes.clone(),
            dims: self.dims.clone(),
            hint: match split {
                Split::Never => "; allow splitting physical axes with Split::Allowed",
                Split::Allowed => "",
            },
        })
    }

    fn check(&self) -> Result<(), MeshError> {
        let count = self.dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d).filter(|_| d > 0));
        let Some(count) = count else { return Err(MeshError::Grid { dims: self.dims.clone() }) };
        if let Some(ids) = self.ids.as_ref().filter(|ids| ids.len() as i64 != count) {
            return Err(MeshError::CountMismatch { product: count, device_count: ids.len() as i64 });
        }
        match &self.hosts {
            Some(block)
                if block.len() != self.dims.len() || self.dims.iter().zip(block).any(|(n, b)| *b < 1 || n % b != 0) =>
            {
                Err(MeshError::Hosts { block: block.clone(), dims: self.dims.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Where a device is.
    fn point(&self, device: i64) -> Option<Vec<i64>> {
        let mut at = match &self.ids {
            Some(ids) => ids.iter().position(|&id| id == device)? as i64,
            None => Some(device).filter(|d| (0..self.device_count()).contains(d))?,
        };
        let mut point = vec![0; self.dims.len()];
        for d in (0..point.len()).rev() {
            (point[d], at) = (at % self.dims[d], at / self.dims[d]);
        }
        Some(point)
    }

    /// The parts of physical axes that each logical axis runs over, major to minor, from sizes per logical axis.
    ///
    /// If several logical axes share a physical axis, the last one gets the part with the closest neighbors.
    fn parts(&self, choice: &[Vec<(usize, i64)>]) -> Vec<Vec<Part>> {
        let mut stride = vec![1; self.dims.len()];
        let mut out: Vec<Vec<Part>> = vec![vec![]; choice.len()];
        for (axis, parts) in choice.iter().enumerate().rev() {
            let mut sizes = vec![1; self.dims.len()];
            parts.iter().for_each(|&(d, n)| sizes[d] *= n);
            let (mut outer, mut inner) = (vec![], vec![]);
            for (d, &size) in sizes.iter().enumerate().filter(|(_, n)| **n > 1) {
                // The part within a host comes last, so that its devices stay together.
                let block = self.hosts.as_ref().map_or(1, |h| h[d]);
                let within = if block > stride[d] { (block / stride[d]).min(size) } else { 1 };
                let within = if size % within == 0 { within } else { 1 };
                if size / within > 1 {
                    outer.push(Part { axis: d, stride: stride[d] * within, size: size / within });
                }
                if within > 1 {
                    inner.push(Part { axis: d, stride: stride[d], size: within });
                }
                stride[d] *= size;
            }
            outer.extend(inner);
            out[axis] = outer;
        }
        out
    }

    /// The device at each row-major position of the logical mesh.
    fn order(&self, sizes: &[i64], parts: &[Vec<Part>]) -> Vec<i64> {
        let count: i64 = sizes.iter().product();
        let mut out = Vec::with_capacity(count as usize);
        for position in 0..count {
            let mut point = vec![0i64; self.dims.len()];
            let mut rest = position;
            for (&size, parts) in sizes.iter().zip(parts).rev() {
                let mut index = rest % size;
                rest /= size;
                for (i, part) in parts.iter().enumerate().rev() {
                    let (digit, prefix) = (index % part.size, index / part.size);
                    // A snake reverses direction after an odd number of steps of the axes before it.
                    let turned = i > 0 && prefix % 2 == 1;
                    point[part.axis] += part.stride * if turned { part.size - 1 - digit } else { digit };
                    index = prefix;
                }
            }
            let at = point.iter().zip(&self.dims).fold(0, |at, (p, n)| at * n + p);
            out.push(self.ids.as_ref().map_or(at, |ids| ids[at as usize]));
        }
        out
    }
}

/// All ways to give each piece to a logical axis so that its pieces multiply to its size. Equal pieces of one physical
/// axis are given in order.
fn distribute(
    pieces: &[(usize, i64)],
    sizes: &[i64],
    given: &mut Vec<Vec<(usize, i64)>>,
    found: &mut Vec<Vec<Vec<(usize, i64)>>>,
) {
    fn go(
        pieces: &[(usize, i64)],
        left: &mut [i64],
        last: Option<((usize, i64), usize)>,
        given: &mut Vec<Vec<(usize, i64)>>,
        found: &mut Vec<Vec<Vec<(usize, i64)>>>,
    ) {
        if found.len() >= MOST {
            return;
        }
        let Some((&piece, rest)) = pieces.split_first() else {
            if left.iter().all(|&n| n == 1) {
                found.push(given.clone());
            }
            return;
        };
        let first = last.filter(|(same, _)| *same == piece).map_or(0, |(_, axis)| axis);
        for axis in first..left.len() {
            if left[axis] % piece.1 != 0 {
                continue;
            }
            left[axis] /= piece.1;
            given[axis].push(piece);
            go(rest, left, Some((piece, axis)), given, found);
            given[axis].pop();
            left[axis] *= piece.1;
        }
    }
    go(pieces, &mut sizes.to_vec(), None, given, found);
}
