//! Steps that prepare a module for propagation, one file each, named as Shardy's pass.
//!
//! Programs annotated for GSPMD are read by [`import_gspmd`] before anything else.
//!
//! All expect a module that has passed verification. [`import`](crate::import()) runs them in this order:
//!
//! 1. Placements name meshes by symbol, and no axis of size one ([`lift_inlined_meshes`], [`remove_size_one_axes`]).
//! 2. Each use of a constant is a constant of its own ([`split_constants`]).
//! 3. Every placement of a manual computation mentions all manual axes ([`clean_up_manual_axes`]).
//! 4. Values that must share one placement across regions are joined by edges ([`add_data_flow_edges`]).
//! 5. What constraints and groups say is on the values ([`apply_sharding_constraints`], [`import_sharding_groups`]).

mod add_data_flow_edges;
mod apply_sharding_constraints;
mod constant_or_scalar_splitter;
mod gspmd;
mod lift_inlined_meshes;
mod manual_axes_cleanup;
mod remove_size_one_axes;
mod sharding_group_import;

pub use add_data_flow_edges::{
    add_data_flow_edges, add_edges, insert_after_value, is_static_tensor, replace_other_uses,
};
pub use apply_sharding_constraints::apply_sharding_constraints;
pub use constant_or_scalar_splitter::split_constants;
pub use gspmd::{has_gspmd, import_gspmd};
pub use lift_inlined_meshes::lift_inlined_meshes;
pub use manual_axes_cleanup::clean_up_manual_axes;
pub use remove_size_one_axes::remove_size_one_axes;
pub use sharding_group_import::import_sharding_groups;
