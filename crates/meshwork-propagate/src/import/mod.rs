//! Passes that prepare a module for propagation, one file each, named as the pass.
//!
//! All expect a module that has passed verification. [`crate::pipeline`] runs them in this order:
//!
//! 1. Placements name meshes by symbol, and no axis of size one (`lift_inlined_meshes`, `remove_size_one_axes`).
//! 2. Calls have the placements of what they call (`propagate_sharding_from_func_to_call`).
//! 3. Each use of a constant is a constant of its own (`constant_or_scalar_splitter`).
//! 4. Every placement of a manual computation mentions all manual axes (`manual_axes_cleanup`).
//! 5. Values that must be placed alike across regions are joined by edges (`add_data_flow_edges`), across calls
//!    either by giving each call a copy of the function in place (`flatten_call_graph`, `import_func_calls`) or by
//!    edges, too (`add_func_data_flow_edges`).
//! 6. What constraints and groups say is on the values (`apply_sharding_constraints`, `sharding_group_import`).

use meshwork_ir::Pass;

pub mod add_data_flow_edges;
pub mod add_func_data_flow_edges;
pub mod apply_sharding_constraints;
pub mod constant_or_scalar_splitter;
pub mod explicit_gather_scatter_batching;
pub mod flatten_call_graph;
pub mod import_func_calls;
pub mod lift_inlined_meshes;
pub mod manual_axes_cleanup;
pub mod pre_order_funcs;
pub mod propagate_sharding_from_func_to_call;
pub mod remove_size_one_axes;
pub mod sharding_group_import;

/// The import passes.
pub const PASSES: &[Pass] = &[
    add_data_flow_edges::PASS,
    add_func_data_flow_edges::PASS,
    apply_sharding_constraints::PASS,
    constant_or_scalar_splitter::PASS,
    explicit_gather_scatter_batching::PASS,
    flatten_call_graph::PASS,
    import_func_calls::PASS,
    lift_inlined_meshes::PASS,
    manual_axes_cleanup::PASS,
    pre_order_funcs::PASS,
    propagate_sharding_from_func_to_call::PASS,
    remove_size_one_axes::PASS,
    sharding_group_import::PASS,
];
