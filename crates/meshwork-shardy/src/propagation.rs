//! The propagation passes, under Shardy's names and with its options.

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};
use meshwork_propagate::rules::RuleMode;
use meshwork_propagate::{KeepRules, Level, Options, Record, Strategy, populate_rules, propagate};

use crate::debug::{self, origins::Origins};

const KEEP: (&str, &str) = ("keep-sharding-rules", "whether to keep existing and created op sharding rules");
const DUMP: (&str, &str) = ("module-dump-directory", "where to dump any rewritten modules; ignored");
const CONSERVATIVE: (&str, &str) =
    ("conservative-propagation", "whether to disallow split axes and non-divisible sharding axes");
const ORIGINS: (&str, &str) = ("debug-sharding-origins", "whether to save where each sharding axis originates");
const EDGES: (&str, &str) =
    ("debug-propagation-edge-sharding", "whether to save from which operand or result each axis came");
const STRATEGY: (&str, &str) = ("propagation-strategy", "basic, aggressive (default) or basic-then-aggressive");
const RUN_OP_PRIORITY: (&str, &str) = ("run-op-priority-propagation", "whether to run op-priority propagation");

/// The passes of propagation.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "sdy-populate-op-sharding-rules",
        summary: "Put the sharding rule of each op on it.",
        options: &[CONSERVATIVE],
        run: |module, options, diagnostics| {
            populate_rules(module, mode(options), diagnostics);
            Ok(())
        },
    },
    Pass {
        name: "sdy-basic-propagate",
        summary: "Propagate what all tensors of an op agree on.",
        options: &[KEEP, DUMP, CONSERVATIVE, ORIGINS, EDGES],
        run: |module, options, diagnostics| run(module, Level::Plain, "basic", options, diagnostics),
    },
    Pass {
        name: "sdy-aggressive-propagate",
        summary: "Propagate and resolve conflicts.",
        options: &[KEEP, DUMP, CONSERVATIVE, ORIGINS, EDGES, STRATEGY],
        run: |module, options, diagnostics| run(module, Level::Plain, "aggressive", options, diagnostics),
    },
    Pass {
        name: "sdy-op-priority-propagate",
        summary: "Propagate in rounds, simple ops first.",
        options: &[KEEP, DUMP, CONSERVATIVE, ORIGINS, EDGES, STRATEGY, RUN_OP_PRIORITY],
        run: |module, options, diagnostics| run(module, Level::OpPriority, "aggressive", options, diagnostics),
    },
    Pass {
        name: "sdy-user-priority-propagate",
        summary: "Propagate in rounds by user priority, each by op priority.",
        options: &[KEEP, DUMP, CONSERVATIVE, ORIGINS, EDGES, STRATEGY, RUN_OP_PRIORITY],
        run: |module, options, diagnostics| run(module, Level::UserPriority, "aggressive", options, diagnostics),
    },
];

fn mode(options: &PassOptions) -> RuleMode {
    if options.flag("conservative-propagation") { RuleMode::Conservative } else { RuleMode::Full }
}

/// Reports `diagnostic` as the reason for the failure.
fn fail(diagnostics: &mut Vec<Diagnostic>, diagnostic: Diagnostic) -> Failed {
    diagnostics.push(diagnostic);
    Failed
}

fn run(
    module: &mut Module,
    level: Level,
    strategy: &str,
    options: &PassOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(), Failed> {
    let strategies = match options.get("propagation-strategy").unwrap_or(strategy) {
        "basic" => vec![Strategy::Basic],
        "aggressive" => vec![Strategy::Aggressive],
        "basic-then-aggressive" => vec![Strategy::Basic, Strategy::Aggressive],
        other => {
            let message =
                format!("propagation-strategy is '{other}'; it can be basic, aggressive or basic-then-aggressive");
            return Err(fail(diagnostics, Diagnostic::error(Default::default(), message)));
        }
    };
    let level = match level {
        _ if options.flag_or(RUN_OP_PRIORITY.0, true) => level,
        Level::OpPriority => Level::Plain,
        Level::UserPriority => Level::UserPriorityOnly,
        _ => level,
    };
    let (origins, edges) = (options.flag(ORIGINS.0), options.flag(EDGES.0));
    let options = Options {
        level,
        strategies,
        mode: mode(options),
        keep_rules: if options.flag("keep-sharding-rules") { KeepRules::Yes } else { KeepRules::No },
        record: if origins || edges { Record::Trace } else { Record::Nothing },
    };
    let mut origins = origins.then(|| Origins::prepare(module));
    let first_step = debug::edges::next_step(module);
    let trace = propagate(module, &options, diagnostics).map_err(|diagnostic| fail(diagnostics, diagnostic))?;
    if let Some(origins) = &mut origins {
        origins.follow(&trace);
        origins.save(module);
    }
    if edges {
        debug::edges::save(module, &trace, first_step);
    }
    Ok(())
}
