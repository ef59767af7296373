//! Passes that turn a propagated module into what comes next, one file each, named as the pass.
//!
//! Those that every placed program needs are functions of [`meshwork_propagate::settle`]; here they get their names.
//! All expect a module that has passed verification. [`crate::pipeline`] runs them in this order:
//!
//! 1. Computations become functions again, copies with equal placements become one, and calls reshard where a
//!    function is placed differently (`export_named_computations`, `propagate_to_func_results`,
//!    `unflatten_call_graph`, `insert_func_call_reshards`).
//! 2. Constants with equal placements become one (`constant_or_scalar_merger`).
//! 3. Edges, groups and constraints go; their placements stay (`sink_data_flow_edges`, `remove_sharding_groups`,
//!    `sharding_constraint_to_reshard`).
//! 4. Placements at the boundary divide evenly, and all are closed (`update_non_divisible_input_output_shardings`,
//!    `remove_sub_axes_in_input_output_shardings`, `close_shardings`).
//! 5. No partial result is used as a complete one (`verify_unreduced_axes`), and communication is made explicit
//!    as far as asked for.
//! 6. Rules go, and meshes are written into placements (`drop_sharding_rules`, `inline_meshes`).

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};
use meshwork_propagate::{remove_rules, settle};

use crate::debug;

pub mod collectives;
pub mod constant_or_scalar_merger;
pub mod cursor;
pub mod drop_sharding_and_mesh;
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
pub mod remove_sub_axes_in_input_output_shardings;
pub mod resolve_single_device_sharding;
mod rewrite;
pub mod sink_func_data_flow_edges;
pub mod unflatten_call_graph;
pub mod update_non_divisible_input_output_shardings;
pub mod verify_unreduced_axes;

/// The export passes.
pub const PASSES: &[Pass] = &[
    CLOSE_SHARDINGS,
    collectives::PASS,
    constant_or_scalar_merger::PASS,
    drop_sharding_and_mesh::PASS,
    DROP_SHARDING_RULES,
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
    REMOVE_SHARDING_GROUPS,
    remove_sub_axes_in_input_output_shardings::PASS,
    resolve_single_device_sharding::PASS,
    SHARDING_CONSTRAINT_TO_RESHARD,
    SINK_DATA_FLOW_EDGES,
    sink_func_data_flow_edges::PASS,
    unflatten_call_graph::PASS,
    update_non_divisible_input_output_shardings::PASS,
    verify_unreduced_axes::PASS,
];

/// Closes every dimension of every placement and drops the axes that had to stay replicated.
pub const CLOSE_SHARDINGS: Pass = Pass {
    name: "sdy-close-shardings",
    summary: "Close every dimension of every placement and drop replicated axes",
    options: &[],
    run: |module, _, _| {
        settle::close_shardings(module);
        Ok(())
    },
};

/// Removes sharding rules from ops, except those that a user wrote.
pub const DROP_SHARDING_RULES: Pass = Pass {
    name: "sdy-drop-sharding-rules",
    summary: "Remove sharding rules from ops, except those a user wrote",
    options: &[],
    run: |module, _, _| {
        remove_rules(module);
        Ok(())
    },
};

/// Removes all sharding groups.
pub const REMOVE_SHARDING_GROUPS: Pass = Pass {
    name: "sdy-remove-sharding-groups",
    summary: "Remove all sharding groups",
    options: &[],
    run: |module, _, _| {
        settle::remove_sharding_groups(module);
        Ok(())
    },
};

/// Turns every `sdy.sharding_constraint` into an `sdy.reshard`.
pub const SHARDING_CONSTRAINT_TO_RESHARD: Pass = Pass {
    name: "sdy-sharding-constraint-to-reshard",
    summary: "Turn every sdy.sharding_constraint into an sdy.reshard",
    options: &[],
    run: |module, _, _| {
        settle::constraints_to_reshards(module);
        Ok(())
    },
};

/// Writes the placement of every data-flow edge back to the op it belongs to and removes the edge.
pub const SINK_DATA_FLOW_EDGES: Pass = Pass {
    name: "sdy-sink-data-flow-edges",
    summary: "Write placements of data-flow edges back to their ops and remove the edges",
    options: &[
        ("sink-debug-sharding-origins", "whether to keep where each sharding axis originates"),
        ("sink-debug-propagation-edge-sharding", "whether to keep from which operand or result each axis came"),
    ],
    run: sink_data_flow_edges,
};

fn sink_data_flow_edges(module: &mut Module, options: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    if options.flag("sink-debug-sharding-origins") {
        debug::sink_origins(module);
    }
    if options.flag("sink-debug-propagation-edge-sharding") {
        debug::sink_edges(module);
    }
    settle::sink_data_flow_edges(module);
    Ok(())
}
