//! Placements as users write them.

pub use meshwork_mesh::{Axes, Dim, P, dim};

/// The symbol of the mesh in programs.
pub(crate) const MESH: &str = "mesh";
