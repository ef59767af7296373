//! Placements by factor: the axes of a tensor's dimensions, divided over the factors of a rule, and joined again.
//!
//! [`Axis`] and [`Placement`] are the small numbers that propagation computes with; a [`Projection`] is what the
//! placements of an op's tensors say about the factors of its rule.

mod axis;
mod placement;
mod projection;

pub use axis::{Axis, AxisList, Prefix, prefix_status, product, push_merged};
pub use placement::{BadSharding, Dim, MeshId, Placement, PlacementId, Placements};
pub use projection::{CompiledRule, Expanded, FactorSharding, Projection, TensorFactors};
