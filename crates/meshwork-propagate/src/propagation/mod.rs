//! Propagation: from placements of some values to placements of all.
//!
//! | file | one idea |
//! |---|---|
//! | `state` | the placement of each value, beside the module while propagation runs |
//! | `factor`, `basic`, `aggressive` | how axes move along the factors of one op: what all tensors agree on, who wins a conflict |
//! | `visit` | one op: placements in, placements out (remembered) |
//! | `driver`, `flow`, `dead` | which op is next, until nothing changes, in the order of MLIR's greedy driver |
//! | `op_priority`, `user_priority`, `groups` | what takes part in which round; values that share a placement |

mod aggressive;
mod basic;
mod dead;
mod driver;
mod factor;
mod flow;
mod groups;
mod op_priority;
mod state;
mod user_priority;
mod visit;

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, Diagnostic, Module, OpId, Type, Walk};

use self::driver::{Driver, Schedule, warn_unknown};
pub use self::factor::Strategy;
use self::groups::Groups;
use self::op_priority::ROUNDS;
use self::state::State;
use crate::rules::{RuleMode, RuleResult, SHARDING_RULE, sharding_rule, stored_rule};
use crate::why::Trace;

/// How many rounds propagation runs; each level refines the one before.
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

/// Whether computed rules stay on the ops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeepRules {
    /// Only custom rules stay on the ops.
    #[default]
    No,
    /// All rules stay on the ops.
    Yes,
}

/// Whether to record where placements come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Record {
    /// No trace.
    #[default]
    Nothing,
    /// A trace, for [`Trace::why`].
    Trace,
}

/// What to propagate and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which rounds to run.
    pub level: Level,
    /// The strategies of each fixed point, in order.
    pub strategies: Vec<Strategy>,
    /// Full or conservative rules.
    pub mode: RuleMode,
    /// Whether rules stay on the ops.
    pub keep_rules: KeepRules,
    /// Whether to record a trace.
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

/// Puts the rule of each op on it, for tests and debugging.
pub fn populate_rules(module: &mut Module, mode: RuleMode, diagnostics: &mut Vec<Diagnostic>) {
    for op in module.all_ops(Walk::PreOrder) {
        // Only ops inside functions.
        if module.op(op).kind() == ControlOp::Func || module.parent_op(op).is_none() {
            continue;
        }
        match sharding_rule(module, op, mode) {
            RuleResult::Rule(rule) => drop(module.op_mut(op).attrs.set(SHARDING_RULE, Attr::ShardingRule(rule))),
            RuleResult::None(reason) => warn_unknown(module, op, &reason, diagnostics),
        }
    }
}
