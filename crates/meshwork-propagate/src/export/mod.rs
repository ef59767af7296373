//! Passes that turn a propagated module into what comes next, one file each, named as the pass.

use meshwork_ir::Pass;

pub mod close_shardings;
pub mod collectives;
pub mod constant_or_scalar_merger;
pub mod cursor;
pub mod drop_sharding_and_mesh;
pub mod drop_sharding_rules;
pub mod explicit_reshards;
pub mod export_named_computations;
pub mod inline_meshes;
pub mod insert_func_call_reshards;
pub mod propagate_to_func_results;
pub mod remove_all_gather_reduce_scatter_for_cmv1;
pub mod remove_propagation_debug_info;
pub mod remove_sharding_groups;
pub mod remove_sub_axes_in_input_output_shardings;
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
    propagate_to_func_results::PASS,
    remove_all_gather_reduce_scatter_for_cmv1::PASS,
    remove_propagation_debug_info::PASS,
    remove_sharding_groups::PASS,
    remove_sub_axes_in_input_output_shardings::PASS,
    sharding_constraint_to_reshard::PASS,
    sink_data_flow_edges::PASS,
    sink_func_data_flow_edges::PASS,
    unflatten_call_graph::PASS,
    update_non_divisible_input_output_shardings::PASS,
    verify_unreduced_axes::PASS,
];
