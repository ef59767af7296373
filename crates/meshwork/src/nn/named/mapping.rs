//! Mappings: which mesh axes split which name, and what follows for a tensor with those names.

use meshwork_mesh::{Mesh, MeshRef, Sharding, ceil_div};
use thiserror::Error as ThisError;

use super::Axis;
use crate::error::{Error, Result};
use crate::spec::P;

/// Which mesh axes split which name. A name may appear several times: its later entries are taken when a mesh axis of
/// an earlier one already splits another axis of the same tensor. Entries are tried in order over all axes of a tensor,
/// so an earlier entry of one name comes before a later one of another.
///
/// ```
/// use meshwork::named::{Axis, Mapping};
/// use meshwork::prelude::*;
///
/// let mesh = Mesh::grid(("data", 2), ("model", 2))?;
/// let mapping = Mapping::new([("mlp", "model"), ("heads", "model"), ("embed", "model")]).or_whole("embed");
/// let (mlp, embed) = (Axis::new("mlp", 8), Axis::new("embed", 4));
/// assert_eq!(mapping.spec(&[embed.clone()], &mesh)?, P!["model"]);
/// // `mlp` comes first; `embed` falls back to being whole.
/// assert_eq!(mapping.spec(&[embed, mlp], &mesh)?, P![_, "model"]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mapping {
    entries: Vec<(String, Vec<String>)>,
}

/// Why a mapping does not fit a tensor and a mesh.
#[derive(Clone, PartialEq, Eq, ThisError)]
pub enum MappingError {
    /// The mesh lacks an axis.
    #[error("{name:?} is mapped to the mesh axis {axis:?}, which the mesh {mesh} does not have")]
    UnknownAxis {
        /// The logical axis.
        name: String,
        /// The mesh axis.
        axis: String,
        /// The mesh.
        mesh: String,
    },
    /// Two axes of one tensor want one mesh axis.
    #[error(
        "{name:?} and {other:?} of one tensor are both mapped to the mesh axis {axis:?}; give {name:?} another entry to \
         fall back to, or .or_whole({name:?})"
    )]
    Conflict {
        /// The axis that has no entry left.
        name: String,
        /// The axis that took the mesh axis.
        other: String,
        /// The mesh axis.
        axis: String,
    },
    /// One tensor has two axes of one name.
    #[error("a tensor has two axes of the name {name:?}; give one of them another name with alias")]
    Duplicate {
        /// The name.
        name: String,
    },
}

meshwork_mesh::debug_as_display!(MappingError);

impl Mapping {
    /// Names with the mesh axis that splits them, in order.
    pub fn new<const N: usize>(entries: [(&str, &str); N]) -> Mapping {
        Mapping { entries: entries.iter().map(|(name, axis)| (name.to_string(), vec![axis.to_string()])).collect() }
    }

    /// And `name` over several mesh axes, major to minor.
    pub fn with(mut self, name: &str, axes: &[&str]) -> Mapping {
        self.entries.push((name.to_string(), axes.iter().map(ToString::to_string).collect()));
        self
    }

    /// And `name` is left whole if its other entries are taken.
    pub fn or_whole(self, name: &str) -> Mapping {
        self.with(name, &[])
    }

    /// The entries of `inner` in place of those of the same names here.
    pub fn merged(&self, inner: &Mapping) -> Mapping {
        let mut entries = inner.entries.clone();
        let given = |name: &String| inner.entries.iter().any(|(n, _)| n == name);
        entries.extend(self.entries.iter().filter(|(name, _)| !given(name)).cloned());
        Mapping { entries }
    }

    /// The mesh axes of the first entry of `name`.
    pub fn get(&self, name: &str) -> Option<&[String]> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, axes)| &axes[..])
    }

    /// The placement of a tensor with these axes.
    pub fn spec(&self, axes: &[Axis], mesh: &Mesh) -> Result<P, MappingError> {
        for (i, axis) in axes.iter().enumerate() {
            if axes[..i].iter().any(|a| a.name() == axis.name()) {
                return Err(MappingError::Duplicate { name: axis.name().to_string() });
            }
        }
        let mut placed: Vec<Option<&[String]>> = vec![None; axes.len()];
        let mut refused: Vec<Option<MappingError>> = vec![None; axes.len()];
        for (name, to) in &self.entries {
            let Some(dim) = axes.iter().position(|a| a.name() == name) else { continue };
            if let Some(axis) = to.iter().find(|axis| mesh.axis_size(axis).is_none()) {
                let (name, axis) = (name.clone(), axis.clone());
                return Err(MappingError::UnknownAxis { name, axis, mesh: mesh.to_string() });
            }
            if placed[dim].is_some() {
                continue;
            }
            let taken = to.iter().find_map(|axis| {
                let other = placed.iter().position(|p| p.is_some_and(|p| p.contains(axis)))?;
                Some((other, axis))
            });
            match taken {
                None => placed[dim] = Some(to),
                Some((other, axis)) => {
                    let (other, axis) = (axes[other].name().to_string(), axis.clone());
                    refused[dim].get_or_insert(MappingError::Conflict { name: name.clone(), other, axis });
                }
            }
        }
        if let Some(error) = (0..axes.len()).find_map(|d| refused[d].clone().filter(|_| placed[d].is_none())) {
            return Err(error);
        }
        let dims = placed.iter().map(|p| p.unwrap_or_default().iter().map(|a| a.as_str().into()).collect());
        Ok(P::of(dims.collect()))
    }
}

/// The mesh axes that split `axis`; `None` if it is not mapped.
pub fn physical_axis_name<'m>(axis: &Axis, mapping: &'m Mapping) -> Option<&'m [String]> {
    mapping.get(axis.name())
}

/// Into how many parts `axis` is split; `None` if it is not mapped.
pub fn physical_axis_size(axis: &Axis, mapping: &Mapping, mesh: &Mesh) -> Result<Option<i64>> {
    let Some(axes) = mapping.get(axis.name()) else { return Ok(None) };
    // Asks for the placement, so that a mesh axis that there is not is an error.
    mapping.spec(std::slice::from_ref(axis), mesh)?;
    Ok(Some(axes.iter().filter_map(|a| mesh.axis_size(a)).product()))
}

/// `axis` with its size rounded up to a multiple of the parts it is split into. Uneven sizes work without it; it saves
/// the padding of a hot axis, as of a vocabulary, from being different on the last device.
pub fn round_axis_for_partitioning(axis: &Axis, mapping: &Mapping, mesh: &Mesh) -> Result<Axis> {
    let parts = physical_axis_size(axis, mapping, mesh)?.unwrap_or(1);
    Ok(axis.resize(ceil_div(axis.size(), parts) * parts))
}

/// The sharding of an array with these axes.
pub fn sharding_for_axis(axes: &[Axis], mapping: &Mapping, mesh: &Mesh) -> Result<Sharding> {
    let spec = mapping.spec(axes, mesh)?;
    let sharding = spec.sharding(MeshRef::from(mesh.clone()), mesh, axes.len());
    sharding.map_err(|error| Error::Sharding { what: format!("{spec} for axes {axes:?}"), error: error.into() })
}
