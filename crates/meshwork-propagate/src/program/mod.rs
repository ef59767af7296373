//! How a program says where its values are placed: which attribute holds each placement, and which values share one.
//!
//! | file | one idea |
//! |---|---|
//! | `values` | where the placement of each value is stored |
//! | `edges` | data-flow edges: values across regions that must have one placement |
//! | `manual` | manual axes, and placements inside and outside a manual computation |
//! | `meshes` | meshes by name |
//! | `walker` | every placement of a module, wherever it is stored |
//! | `calls` | functions, their order, and copies of them |
//! | `replica_groups` | the mesh in replica groups that are written by axes |
//! | `properties` | which ops work element by element |

mod calls;
mod edges;
mod manual;
mod meshes;
mod properties;
mod replica_groups;
mod values;
mod walker;

pub use calls::{
    ORIGINAL_NAME, Symbols, callee, callee_name, calls_below, clone_callee, clone_func, funcs_callees_first,
    original_name, set_callee,
};
pub use edges::{
    argument_owners, edge_of_owner, edge_of_source, edge_of_target, edge_sources, has_data_flow, non_owner_targets,
    owner_of_target, owning_op, result_owners,
};
pub use manual::{manual_axes, only_manual_axes, with_manual_axes, without_manual_axes};
pub use meshes::{Meshes, axes_without, mesh_of_op, mesh_ops};
pub use properties::is_elementwise;
pub use replica_groups::{mesh_in_replica_groups, set_mesh_in_replica_groups};
pub use values::{
    SHARDING, Slot, func_result_sharding, result_slot, set_func_result_sharding, set_sharding, shardable_value,
    sharding_list, sharding_of, stored_sharding,
};
pub use walker::{Place, transform_shardings};
