//! Passes that turn a propagated module into what comes next, one file each, named as the pass.
//!
//! All expect a module that has passed verification. [`crate::pipeline`] runs them in this order:
//!
//! 1. Computations become functions again, copies that are placed alike become one, and calls reshard where a
//!    function is placed differently (`export_named_computations`, `propagate_to_func_results`,
//!    `unflatten_call_graph`, `insert_func_call_reshards`).
//! 2. Constants that are placed alike become one (`constant_or_scalar_merger`).
//! 3. Edges, groups and constraints go; their placements stay (`sink_data_flow_edges`, `remove_sharding_groups`,
//!    `sharding_constraint_to_reshard`).
//! 4. Placements at the boundary divide evenly, and all are closed (`update_non_divisible_input_output_shardings`,
//!    `remove_sub_axes_in_input_output_shardings`, `close_shardings`).
//! 5. No partial result is taken for a complete one (`verify_unreduced_axes`), and communication is made explicit
//!    as far as asked for.
//! 6. Rules go, and meshes are written into placements (`drop_sharding_rules`, `inline_meshes`).

use meshwork_ir::Pass;

pub mod close_shardings;
pub mod collectives;
pub mod constant_or_scalar_merger;
pub mod cursor;
pub mod drop_sharding_and_mesh;
pub mod drop_sharding_rules;
pub mod explicit_reshards;
pub mod export_named_computations;
pub mod halo;
mod halo_free;
pub mod inline_meshes;
pub mod insert_func_call_reshards;
pub mod local;
pub mod padding;
pub mod propagate_to_func_results;
pub mod remove_all_gather_reduce_scatter_for_cmv1;
pub mod remove_propagation_debug_info;
pub mod remove_sharding_groups;
pub mod remove_sub_axes_in_input_output_shardings;
pub mod resolve_single_device_sharding;
pub mod sharding_constraint_to_reshard;
pub mod sink_data_flow_edges;
pub mod sink_func_data_flow_edges;
pub mod unflatten_call_graph;
pub mod update_non_divisible_input_output_shardings;
pub mod verify_unreduced_axes;

/// The export passes.
pub const PASSES: &[Pass] = &[
    close_shardings::PASS,
    collectives::PASS,
    constant_or_scalar_merger::PASS,
    drop_sharding_and_mesh::PASS,
    drop_sharding_rules::PASS,
    explicit_reshards::PASS,
    export_named_computations::PASS,
    inline_meshes::PASS,
    insert_func_call_reshards::PASS,
    halo::PASS,
    local::PASS,
    padding::PASS,
    propagate_to_func_results::PASS,
    remove_all_gather_reduce_scatter_for_cmv1::PASS,
    remove_propagation_debug_info::PASS,
    remove_sharding_groups::PASS,
    remove_sub_axes_in_input_output_shardings::PASS,
    resolve_single_device_sharding::PASS,
    sharding_constraint_to_reshard::PASS,
    sink_data_flow_edges::PASS,
    sink_func_data_flow_edges::PASS,
    unflatten_call_graph::PASS,
    update_non_divisible_input_output_shardings::PASS,
    verify_unreduced_axes::PASS,
];
