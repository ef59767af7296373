//! The propagation passes, under Shardy's names and with its options.

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, OpKind, Pass, PassOptions, Type, Walk};

use crate::debug::{self, origins::Origins};
use crate::driver::{Driver, Schedule, warn_unknown};
use crate::factor::Strategy;
use crate::groups::Groups;
use crate::op_priority::ROUNDS;
use crate::rules::{RuleMode, RuleResult, SHARDING_RULE, sharding_rule, stored_rule};
use crate::state::State;
use crate::user_priority;
use crate::why::Trace;

/// How far a propagation goes; each level refines the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Level {
    /// One fixed point.
    Plain,
    /// Rounds by op priority.
    OpPriority,
    /// Rounds by user priority, each one fixed point.
    UserPriorityOnly,
    /// Rounds by user priority, each by op priority.
    UserPriority,
}

/// Whether rules that were made stay on the ops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeepRules {
    /// Only custom rules stay.
    #[default]
    No,
    /// All stay.
    Yes,
}

/// Whether to note where placements come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Record {
    /// No trace.
    #[default]
    Nothing,
    /// A trace to ask [`Trace::why`].
    Trace,
}

/// What to propagate and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// How far to go.
    pub level: Level,
    /// The strategies of each fixed point, one after the other.
    pub strategies: Vec<Strategy>,
    /// How far rules go.
    pub mode: RuleMode,
    /// Whether rules stay.
    pub keep_rules: KeepRules,
    /// Whether to note causes.
    pub record: Record,
}

impl Default for Options {
    /// User priorities, the aggressive strategy, full rules.
    fn default() -> Self {
        Options {
            level: Level::UserPriority,
            strategies: vec![Strategy::Aggressive],
            mode: RuleMode::Full,
            keep_rules: KeepRules::No,
            record: Record::Nothing,
        }
    }
}

/// Finds a placement for every value of `module`. Warnings go to `diagnostics`.
///
/// Dynamic shapes and tuples are errors.
pub fn propagate(
    module: &mut Module,
    options: &Options,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Trace, Diagnostic> {
    check_types(module)?;
    let groups = Groups::sync(module, diagnostics)?;
    let entry = entry(module)?;
    let references = match options.level {
        Level::UserPriority | Level::UserPriorityOnly => user_priority::set_aside(module),
        Level::Plain | Level::OpPriority => user_priority::References::new(),
    };
    let state = State::load(module, entry)?;
    let mut driver = Driver::new(module, state, groups, options.mode);
    driver.trace = (options.record == Record::Trace).then(Trace::default);
    fixed_points(&mut driver, options);
    for (priority, places) in &references {
        driver.refresh(|module| user_priority::restore(module, *priority, places))?;
        fixed_points(&mut driver, options);
    }
    let trace = driver.finish(options.keep_rules, diagnostics);
    if options.keep_rules == KeepRules::No {
        remove_rules(module);
    }
    Ok(trace.unwrap_or_default())
}

fn fixed_points(driver: &mut Driver, options: &Options) {
    let schedules: Vec<Schedule> = match options.level {
        Level::Plain | Level::UserPriorityOnly => vec![Schedule::Any],
        Level::OpPriority | Level::UserPriority => (0..ROUNDS).map(Schedule::OpPriority).collect(),
    };
    for schedule in schedules {
        for &strategy in &options.strategies {
            driver.run(strategy, schedule);
        }
    }
}

/// The function whose results are matched: the only one, or `main`.
fn entry(module: &Module) -> Result<Option<OpId>, Diagnostic> {
    let count = module.funcs().count();
    let only = module.funcs().next().filter(|_| count == 1);
    match only.or_else(|| module.func("main")) {
        Some(func) => Ok(Some(func)),
        None if count == 0 => Ok(None),
        None => {
            let message = format!("module has {count} functions and none is called main; rename the entry to @main");
            Err(Diagnostic::error(Default::default(), message))
        }
    }
}

fn check_types(module: &Module) -> Result<(), Diagnostic> {
    for op in module.all_ops(Walk::PreOrder) {
        for &value in module.op(op).results() {
            let (data, ty) = (module.op(op), module.ty(value));
            let message = match ty {
                Type::Tensor(t) if !t.is_static() => "propagation needs static shapes",
                Type::Tuple(_) => "propagation does not look into tuples",
                _ => continue,
            };
            return Err(Diagnostic::unsupported(data.pos, format!("'{}' op has type {ty}; {message}", data.name())));
        }
    }
    Ok(())
}

/// Removes all rules that are not custom.
pub fn remove_rules(module: &mut Module) {
    for op in module.all_ops(Walk::PreOrder) {
        if stored_rule(module, op).is_some_and(|rule| !rule.custom) {
            module.op_mut(op).attrs.remove(SHARDING_RULE);
        }
    }
}

/// Puts its rule on every op that has one; for tests and debugging.
pub fn populate_rules(module: &mut Module, mode: RuleMode, diagnostics: &mut Vec<Diagnostic>) {
    for op in module.all_ops(Walk::PreOrder) {
        // Only what is inside of functions.
        if module.op(op).kind() == OpKind::Control(ControlOp::Func) || module.parent_op(op).is_none() {
            continue;
        }
        match sharding_rule(module, op, mode) {
            RuleResult::Rule(rule) => drop(module.op_mut(op).attrs.set(SHARDING_RULE, Attr::ShardingRule(rule))),
            RuleResult::None(reason) => warn_unknown(module, op, &reason, diagnostics),
        }
    }
}

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

fn run(
    module: &mut Module,
    level: Level,
    strategy: &str,
    options: &PassOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(), Failed> {
    let mut fail = |diagnostic: Diagnostic| {
        diagnostics.push(diagnostic);
        Failed
    };
    let strategies = match options.get("propagation-strategy").unwrap_or(strategy) {
        "basic" => vec![Strategy::Basic],
        "aggressive" => vec![Strategy::Aggressive],
        "basic-then-aggressive" => vec![Strategy::Basic, Strategy::Aggressive],
        other => {
            let message =
                format!("propagation-strategy is '{other}'; it can be basic, aggressive or basic-then-aggressive");
            return Err(fail(Diagnostic::error(Default::default(), message)));
        }
    };
    let level = match options.flag_or("run-op-priority-propagation", true) {
        false if level == Level::OpPriority => Level::Plain,
        false if level == Level::UserPriority => Level::UserPriorityOnly,
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
    let trace = match propagate(module, &options, diagnostics) {
        Ok(trace) => trace,
        Err(diagnostic) => {
            diagnostics.push(diagnostic);
            return Err(Failed);
        }
    };
    if let Some(origins) = &mut origins {
        origins.follow(&trace);
        origins.save(module);
    }
    if edges {
        debug::edges::save(module, &trace, first_step);
    }
    Ok(())
}
