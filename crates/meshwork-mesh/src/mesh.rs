//! A mesh: named axes of devices, in order, with an optional device order.
//!
//! Invariants of every mesh made by a checked constructor:
//! - axis names are not empty and differ from each other; sizes are at least 1;
//! - the product of the sizes fits in an `i64`;
//! - device ids, when present, are a permutation of `0..n` other than the identity, where `n` is the
//!   product of the sizes.
//!
//! Two meshes have no axes: the *empty mesh* (no device ids either), which means "any mesh", and
//! the *maximal mesh*, whose single device id names the one device that holds the whole array.
//!
//! Positions are row-major: the last axis varies fastest. Position `p` is device `device_ids[p]`.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::MeshError;

/// One named axis of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MeshAxis {
    /// The name that shardings refer to.
    pub name: Arc<str>,
    /// The number of devices along the axis.
    pub size: i64,
}

/// Devices arranged along named axes.
///
/// ```
/// use meshwork_mesh::Mesh;
/// let mesh = Mesh::new([("data", 2), ("model", 4)])?;
/// assert_eq!(mesh.device_count(), 8);
/// assert_eq!(mesh.coordinates(6), Some(vec![1, 2]));
/// assert_eq!(mesh.to_string(), r#"<["data"=2, "model"=4]>"#);
/// # Ok::<(), meshwork_mesh::MeshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Mesh {
    axes: Vec<MeshAxis>,
    device_ids: Option<Vec<i64>>,
}

impl Mesh {
    /// The mesh with these axes, major to minor.
    pub fn new<N: Into<Arc<str>>>(axes: impl IntoIterator<Item = (N, i64)>) -> Result<Self, MeshError> {
        let mesh = Self::from_raw(axes, None);
        mesh.check_names()?;
        mesh.verify()?;
        Ok(mesh)
    }

    /// The mesh of one axis.
    pub fn linear(name: impl Into<Arc<str>>, size: i64) -> Result<Self, MeshError> {
        Self::new([(name, size)])
    }

    /// The mesh of two axes: neighbors along `major` are farther apart.
    pub fn grid(major: (&str, i64), minor: (&str, i64)) -> Result<Self, MeshError> {
        Self::new([major, minor])
    }

    /// The mesh of `device_count` devices in which at most one axis leaves its size open.
    ///
    /// ```
    /// use meshwork_mesh::Mesh;
    /// let mesh = Mesh::infer(&[("x", Some(2)), ("y", None)], 8)?;
    /// assert_eq!(mesh.axis_size("y"), Some(4));
    /// # Ok::<(), meshwork_mesh::MeshError>(())
    /// ```
    pub fn infer(axes: &[(&str, Option<i64>)], device_count: i64) -> Result<Self, MeshError> {
        let mut open: Option<&str> = None;
        for &(name, size) in axes {
            match (size, open) {
                (None, Some(first)) => {
                    return Err(MeshError::TwoInferred { first: first.into(), second: name.into() });
                }
                (None, None) => open = Some(name),
                (Some(_), _) => {}
            }
        }
        let known = Self::new(axes.iter().map(|&(name, size)| (name, size.unwrap_or(1))))?;
        let product = known.device_count();
        let inferred = match open {
            Some(_) if device_count > 0 && device_count % product == 0 => device_count / product,
            Some(name) => {
                return Err(MeshError::NotDivisible { axis: name.into(), product, device_count });
            }
            None if product == device_count => 1,
            None => {
                return Err(MeshError::CountMismatch { product, device_count });
            }
        };
        Self::new(axes.iter().map(|&(name, size)| (name, size.unwrap_or(inferred))))
    }

    /// The empty mesh, which means any mesh.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The maximal mesh: the whole array on one device.
    pub fn maximal(device_id: i64) -> Result<Self, MeshError> {
        let mesh = Self { axes: Vec::new(), device_ids: Some(vec![device_id]) };
        mesh.verify()?;
        Ok(mesh)
    }

    /// The same axes over another device order: position `p` becomes device `device_ids[p]`.
    ///
    /// The identity order is dropped, so that equal placements are equal meshes.
    pub fn with_device_ids(self, device_ids: Vec<i64>) -> Result<Self, MeshError> {
        let mesh = Self { device_ids: Some(device_ids), ..self }.without_identity_ids();
        mesh.verify()?;
        Ok(mesh)
    }

    /// A mesh exactly as given, unchecked; see [`Mesh::verify`].
    ///
    /// This is for readers of text that report errors later; no method of such a mesh panics.
    pub fn from_raw<N: Into<Arc<str>>>(axes: impl IntoIterator<Item = (N, i64)>, device_ids: Option<Vec<i64>>) -> Self {
        let axes = axes.into_iter().map(|(name, size)| MeshAxis { name: name.into(), size });
        Self { axes: axes.collect(), device_ids: device_ids.filter(|ids| !ids.is_empty()) }
    }

    /// The same mesh, without device ids if they are `0..n` and the mesh has axes.
    pub fn without_identity_ids(mut self) -> Self {
        if let Some(ids) = &self.device_ids {
            let identity = ids.iter().copied().eq(0..ids.len() as i64);
            if identity && !self.axes.is_empty() && ids.len() as i64 == self.device_count() {
                self.device_ids = None;
            }
        }
        self
    }

    /// The same axes in the default device order; a maximal mesh stays as it is.
    pub fn without_device_ids(&self) -> Self {
        let mut mesh = self.clone();
        if !mesh.axes.is_empty() {
            mesh.device_ids = None;
        }
        mesh
    }

    /// The axes, major to minor.
    pub fn axes(&self) -> &[MeshAxis] {
        &self.axes
    }

    /// The device of each position, if it is not simply the position.
    pub fn device_ids(&self) -> Option<&[i64]> {
        self.device_ids.as_deref()
    }

    /// Whether this is the empty mesh.
    pub fn is_empty(&self) -> bool {
        self.axes.is_empty() && self.device_ids.is_none()
    }

    /// Whether this is a maximal mesh.
    pub fn is_maximal(&self) -> bool {
        self.maximal_device().is_some()
    }

    /// The device of a maximal mesh.
    pub fn maximal_device(&self) -> Option<i64> {
        match self.device_ids.as_deref() {
            Some(&[id]) if self.axes.is_empty() => Some(id),
            _ => None,
        }
    }

    /// The product of the axis sizes; 1 for a mesh without axes.
    ///
    /// Saturates for a raw mesh that is too large.
    pub fn device_count(&self) -> i64 {
        self.axes.iter().fold(1, |product, axis| product.saturating_mul(axis.size))
    }

    /// The position of an axis in the list of axes.
    pub fn axis_index(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| &*axis.name == name)
    }

    /// The size of an axis.
    pub fn axis_size(&self, name: &str) -> Option<i64> {
        self.axis_index(name).map(|index| self.axes[index].size)
    }

    /// Whether both meshes have the same axes; their device orders may differ.
    pub fn same_axes(&self, other: &Mesh) -> bool {
        self.is_maximal() == other.is_maximal() && self.axes == other.axes
    }

    fn check_names(&self) -> Result<(), MeshError> {
        match self.axes.iter().position(|axis| axis.name.is_empty()) {
            Some(index) => Err(MeshError::EmptyName { index }),
            None => Ok(()),
        }
    }

    /// Checks the rules that Shardy checks for a mesh attribute, in its order.
    pub fn verify(&self) -> Result<(), MeshError> {
        if let Some(axis) = self.axes.iter().find(|axis| axis.size < 1) {
            return Err(MeshError::AxisSize { axis: axis.name.clone(), size: axis.size });
        }
        let ids = self.device_ids.as_deref().unwrap_or(&[]);
        if let Some(&id) = ids.iter().find(|&&id| id < 0) {
            return Err(MeshError::NegativeDeviceId { id });
        }
        if self.axes.is_empty() {
            return match ids.len() {
                0 | 1 => Ok(()),
                count => Err(MeshError::IdsWithoutAxes { count }),
            };
        }
        let mut seen = HashSet::new();
        if let Some(axis) = self.axes.iter().find(|axis| !seen.insert(&axis.name)) {
            return Err(MeshError::DuplicateAxis { axis: axis.name.clone() });
        }
        let product = self.axes.iter().try_fold(1i64, |product, axis| product.checked_mul(axis.size));
        let product = product.ok_or(MeshError::TooManyDevices { axes: self.axes.len() })?;
        if ids.is_empty() {
            return Ok(());
        }
        if product != ids.len() as i64 {
            return Err(MeshError::IdCount { product, count: ids.len() });
        }
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..product) {
            return Err(MeshError::NotAPermutation { sorted });
        }
        if ids == sorted {
            return Err(MeshError::IdentityIds { count: ids.len() });
        }
        Ok(())
    }
}
