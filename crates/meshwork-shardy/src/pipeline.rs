//! Sequences of passes under one name: import, export, and all of propagation between them.

use meshwork_ir::transform::canonicalize::apply;
use meshwork_ir::transform::symbol_dce;
use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};
use meshwork_propagate::{KeepRules, Options, propagate};

use crate::canonicalize::{collective, reshard};
use crate::export::*;
use crate::import::*;

/// The pipelines, as passes.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "sdy-import-pipeline",
        summary: "Prepare a module for propagation",
        options: &[DEDUP, BATCHING],
        run: |module, options, diags| import(module, &PipelineOptions::of(options), diags),
    },
    Pass {
        name: "sdy-export-pipeline",
        summary: "Turn a propagated module into what a partitioner takes",
        options: &[NO_PARTITIONING, COLLECTIVES, CMV1, KEEP, DIVISIBLE, INLINE],
        run: |module, options, diags| export(module, &ExportOptions::of(options), diags),
    },
    Pass {
        name: "sdy-propagation-pipeline",
        summary: "Import, propagate and export",
        options: &[DEDUP, BATCHING],
        run: |module, options, diags| {
            let export = ExportOptions { inline_meshes: false, ..ExportOptions::default() };
            propagation(module, &PipelineOptions::of(options), &export, diags)
        },
    },
];

const DEDUP: (&str, &str) =
    ("dedup-functions-fully", "propagate through calls without a copy of the function for each (default false)");
const BATCHING: (&str, &str) =
    ("enable-explicit-gather-scatter-batching", "make batching dimensions of gather and scatter explicit first");
const NO_PARTITIONING: (&str, &str) =
    ("avoid-export-for-partitioning", "keep the module fit for another propagation (default false)");
const COLLECTIVES: (&str, &str) =
    ("enable-insert-explicit-collectives", "make all communication explicit (default false)");
const CMV1: (&str, &str) = (
    "remove-all-gather-reduce-scatter-for-cmv1",
    "with explicit collectives, leave those around a dot to the backend (default false)",
);
const KEEP: (&str, &str) = ("keep-sharding-rules", "keep the sharding rules of ops (default false)");
const DIVISIBLE: (&str, &str) = (
    "update-non-divisible-input-output-shardings",
    "cut placements of arguments and results to what divides evenly (default true)",
);
const INLINE: (&str, &str) = ("inline-meshes", "write meshes into placements (default true)");

/// How calls and gathers are prepared for propagation.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct PipelineOptions {
    /// Propagate through calls along edges; otherwise each call gets its own copy of the function.
    pub dedup_functions_fully: bool,
    /// Make batching dimensions of gather and scatter explicit.
    pub explicit_batching: bool,
}

impl PipelineOptions {
    fn of(options: &PassOptions) -> PipelineOptions {
        PipelineOptions { dedup_functions_fully: options.flag(DEDUP.0), explicit_batching: options.flag(BATCHING.0) }
    }
}

/// What a propagated module is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Keep groups, constraints and symbols, so that the module can be propagated again.
    pub avoid_partitioning: bool,
    /// Make all communication explicit.
    pub explicit_collectives: bool,
    /// Leave all-gathers and reduce-scatters around a dot to the backend.
    pub remove_for_cmv1: bool,
    /// Keep the sharding rules of ops.
    pub keep_rules: bool,
    /// Cut placements of arguments and results to what divides evenly.
    pub divisible: bool,
    /// Write meshes into placements.
    pub inline_meshes: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        ExportOptions {
            avoid_partitioning: false,
            explicit_collectives: false,
            remove_for_cmv1: false,
            keep_rules: false,
            divisible: true,
            inline_meshes: true,
        }
    }
}

impl ExportOptions {
    fn of(options: &PassOptions) -> ExportOptions {
        ExportOptions {
            avoid_partitioning: options.flag(NO_PARTITIONING.0),
            explicit_collectives: options.flag(COLLECTIVES.0),
            remove_for_cmv1: options.flag(CMV1.0),
            keep_rules: options.flag(KEEP.0),
            divisible: options.flag_or(DIVISIBLE.0, true),
            inline_meshes: options.flag_or(INLINE.0, true),
        }
    }
}

fn run_all(module: &mut Module, passes: &[Pass], diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    passes.iter().try_for_each(|pass| (pass.run)(module, &PassOptions::default(), diags))
}

/// Prepares `module` for propagation.
pub fn import(module: &mut Module, options: &PipelineOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let first = [
        symbol_dce::PASS,
        LIFT_INLINED_MESHES,
        REMOVE_SIZE_ONE_AXES,
        propagate_sharding_from_func_to_call::PASS,
        CONSTANT_OR_SCALAR_SPLITTER,
    ];
    run_all(module, &first, diags)?;
    if options.explicit_batching {
        run_all(module, &[explicit_gather_scatter_batching::PASS], diags)?;
    }
    run_all(module, &[symbol_dce::PASS, MANUAL_AXES_CLEANUP, ADD_DATA_FLOW_EDGES], diags)?;
    if options.dedup_functions_fully {
        // Groups come after constraints, so that conflicts between members that constraints cause are seen.
        run_all(module, &[APPLY_SHARDING_CONSTRAINTS, SHARDING_GROUP_IMPORT], diags)?;
    }
    Ok(())
}

/// Imports, propagates with user and op priorities, and exports.
pub fn propagation(
    module: &mut Module,
    options: &PipelineOptions,
    export_options: &ExportOptions,
    diags: &mut Vec<Diagnostic>,
) -> Result<(), Failed> {
    import(module, options, diags)?;
    let calls: &[Pass] = if options.dedup_functions_fully {
        &[add_func_data_flow_edges::PASS]
    } else {
        &[
            flatten_call_graph::PASS,
            symbol_dce::PASS,
            import_func_calls::PASS,
            symbol_dce::PASS,
            APPLY_SHARDING_CONSTRAINTS,
            SHARDING_GROUP_IMPORT,
        ]
    };
    run_all(module, calls, diags)?;
    run_all(module, &[pre_order_funcs::PASS], diags)?;
    let keep = Options { keep_rules: KeepRules::Yes, ..Options::default() };
    propagate(module, &keep, diags).map_err(|error| {
        diags.push(error);
        Failed
    })?;
    let calls: &[Pass] = if options.dedup_functions_fully {
        &[propagate_to_func_results::PASS, sink_func_data_flow_edges::PASS]
    } else {
        &[export_named_computations::PASS, propagate_to_func_results::PASS]
    };
    run_all(module, calls, diags)?;
    run_all(module, &[unflatten_call_graph::PASS, symbol_dce::PASS, insert_func_call_reshards::PASS], diags)?;
    export(module, export_options, diags)
}

/// Turns a propagated module into what a partitioner takes.
pub fn export(module: &mut Module, options: &ExportOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    run_all(module, &[constant_or_scalar_merger::PASS, SINK_DATA_FLOW_EDGES], diags)?;
    if !options.avoid_partitioning {
        run_all(module, &[REMOVE_SHARDING_GROUPS, SHARDING_CONSTRAINT_TO_RESHARD], diags)?;
    }
    if options.divisible {
        let boundary =
            [update_non_divisible_input_output_shardings::PASS, remove_sub_axes_in_input_output_shardings::PASS];
        run_all(module, &boundary, diags)?;
    }
    run_all(module, &[CLOSE_SHARDINGS], diags)?;
    if !options.avoid_partitioning {
        make_reshards_explicit(module, options, diags)?;
    }
    if !options.keep_rules {
        run_all(module, &[DROP_SHARDING_RULES], diags)?;
    }
    if !options.avoid_partitioning && options.inline_meshes {
        run_all(module, &[inline_meshes::PASS], diags)?;
    }
    Ok(())
}

fn make_reshards_explicit(
    module: &mut Module,
    options: &ExportOptions,
    diags: &mut Vec<Diagnostic>,
) -> Result<(), Failed> {
    run_all(module, &[verify_unreduced_axes::PASS], diags)?;
    let full = PassOptions([("enable-full-version".into(), options.explicit_collectives.to_string())].into());
    (explicit_reshards::PASS.run)(module, &full, diags)?;
    if options.explicit_collectives {
        apply(module, reshard::PATTERNS);
        run_all(module, &[collectives::PASS], diags)?;
    }
    apply(module, collective::PATTERNS);
    if options.explicit_collectives && options.remove_for_cmv1 {
        run_all(module, &[remove_all_gather_reduce_scatter_for_cmv1::PASS], diags)?;
    }
    Ok(())
}
