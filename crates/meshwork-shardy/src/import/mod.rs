//! Passes that prepare a module for propagation, one file each, named as the pass.
//!
//! Those that every placed program needs are functions of [`meshwork_propagate::import`]; here they get their names.
//! All expect a module that has passed verification. [`crate::pipeline`] runs them in this order:
//!
//! 1. Placements name meshes by symbol, and no axis of size one (`lift_inlined_meshes`, `remove_size_one_axes`).
//! 2. Calls have the placements of what they call (`propagate_sharding_from_func_to_call`).
//! 3. Each use of a constant is a constant of its own (`split_constants`).
//! 4. Every placement of a manual computation mentions all manual axes (`clean_up_manual_axes`).
//! 5. Values that must share one placement across regions are joined by edges (`add_data_flow_edges`), across calls
//!    either by giving each call a copy of the function in place (`flatten_call_graph`, `import_func_calls`) or by
//!    edges, too (`add_func_data_flow_edges`).
//! 6. What constraints and groups say is on the values (`apply_sharding_constraints`, `import_sharding_groups`).

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};
use meshwork_propagate::import;

use crate::debug::edges::save_constraint;

pub mod add_func_data_flow_edges;
pub mod explicit_gather_scatter_batching;
pub mod flatten_call_graph;
pub mod import_func_calls;
pub mod pre_order_funcs;
pub mod propagate_sharding_from_func_to_call;

/// The import passes.
pub const PASSES: &[Pass] = &[
    ADD_DATA_FLOW_EDGES,
    add_func_data_flow_edges::PASS,
    APPLY_SHARDING_CONSTRAINTS,
    CONSTANT_OR_SCALAR_SPLITTER,
    explicit_gather_scatter_batching::PASS,
    flatten_call_graph::PASS,
    import_func_calls::PASS,
    LIFT_INLINED_MESHES,
    MANUAL_AXES_CLEANUP,
    pre_order_funcs::PASS,
    propagate_sharding_from_func_to_call::PASS,
    REMOVE_SIZE_ONE_AXES,
    SHARDING_GROUP_IMPORT,
];

/// Put an sdy.data_flow_edge on the owner of every data-flow edge.
pub const ADD_DATA_FLOW_EDGES: Pass = Pass {
    name: "sdy-add-data-flow-edges",
    summary: "Put an sdy.data_flow_edge on the owner of every data-flow edge",
    options: &[],
    run: |module, _, _| {
        import::add_data_flow_edges(module);
        Ok(())
    },
};

/// Copy closed constraints to the values they constrain.
pub const APPLY_SHARDING_CONSTRAINTS: Pass = Pass {
    name: "sdy-apply-sharding-constraints",
    summary: "Copy closed constraints to the values they constrain",
    options: &[
        ("debug-sharding-origins", "whether to save where each sharding axis originates; propagation does so too"),
        ("debug-propagation-edge-sharding", "whether to save from which operand or result each axis came"),
    ],
    run: apply_sharding_constraints,
};

/// Give every use of a constant or a broadcast scalar its own copy.
pub const CONSTANT_OR_SCALAR_SPLITTER: Pass = Pass {
    name: "sdy-constant-or-scalar-splitter",
    summary: "Give every use of a constant or a broadcast scalar its own copy",
    options: &[],
    run: |module, _, diags| import::split_constants(module, diags),
};

/// Replace meshes inside shardings by symbols, and equal symbols by one.
pub const LIFT_INLINED_MESHES: Pass = Pass {
    name: "sdy-lift-inlined-meshes",
    summary: "Replace meshes inside shardings by symbols, and equal symbols by one",
    options: &[],
    run: |module, _, _| {
        import::lift_inlined_meshes(module);
        Ok(())
    },
};

/// Sort manual axes, and list those that a placement does not mention as replicated.
pub const MANUAL_AXES_CLEANUP: Pass = Pass {
    name: "sdy-manual-axes-cleanup",
    summary: "Sort manual axes, and list those that a placement does not mention as replicated",
    options: &[],
    run: |module, _, diags| import::clean_up_manual_axes(module, diags),
};

/// Remove axes of size one from placements.
pub const REMOVE_SIZE_ONE_AXES: Pass = Pass {
    name: "sdy-remove-size-one-axes",
    summary: "Remove axes of size one from placements",
    options: &[],
    run: |module, _, _| {
        import::remove_size_one_axes(module);
        Ok(())
    },
};

/// Check sharding groups, unite those that share a value, number them from zero.
pub const SHARDING_GROUP_IMPORT: Pass = Pass {
    name: "sdy-sharding-group-import",
    summary: "Check sharding groups, unite those that share a value, number them from zero",
    options: &[],
    run: |module, _, diags| import::import_sharding_groups(module, diags),
};

fn apply_sharding_constraints(
    module: &mut Module,
    options: &PassOptions,
    _: &mut Vec<Diagnostic>,
) -> Result<(), Failed> {
    let applied = import::apply_sharding_constraints(module);
    if options.flag("debug-propagation-edge-sharding") {
        for (step, constraint) in applied.into_iter().enumerate() {
            save_constraint(module, constraint, step);
        }
    }
    Ok(())
}
