//! The fixed point: ops are visited until no placement changes, in the order of MLIR's greedy driver.
//!
//! The work list is last in, first out, without duplicates. It starts with all ops so that they come out in program
//! order. When the placement of a value changes, these are pushed, in this order:
//! 1. if the value is a data-flow edge, the users of its other targets;
//! 2. the op that defines it;
//! 3. its users, latest use first, so that the earliest comes out first.
//!
//! Instead of a user that is a source of an edge, the edge is pushed; for a call, the users of the callee's argument;
//! for a return, the users of the call's result. The op at hand is not pushed by its own change. Ops without uses and
//! effects are removed when they come out.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Def, Diagnostic, Module, OpId, OpKind, ValueId, Values, Walk};

use super::KeepRules;
use super::dead::is_trivially_dead;
use super::factor::{Direction, Directions, Strategy};
use super::flow::{Calls, WorkList};
use super::groups::Groups;
use super::op_priority;
use super::state::State;
use super::visit::{Nature, RuleId, TensorPlacements, Visit, Visitor};
use crate::factors::PlacementId;
use crate::program::{
    edge_sources, is_elementwise, manual_axes, owning_op, sharding_list, with_manual_axes, without_manual_axes,
};
use crate::rules::{NoRule, RuleMode, RuleResult, SHARDING_RULE, sharding_rule};
use crate::why::{Node, Step, Trace};

/// Which directions ops may be passed in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Schedule {
    /// Any op, both ways.
    Any,
    /// A round of [`op_priority`].
    OpPriority(u8),
}

/// What a visit of an op does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    /// Not yet known.
    Unknown,
    Nothing,
    /// Propagates along a rule.
    Rule(RuleId),
    /// Propagates between the sources of a data-flow edge and its result.
    Edge(RuleId),
    /// The same between a function and its callers.
    FuncEdge,
    /// An identity with a direction of its own.
    Barrier(RuleId, Direction),
}

/// Runs fixed points over one module.
pub struct Driver<'m> {
    module: &'m mut Module,
    state: State,
    groups: Groups,
    mode: RuleMode,
    actions: Vec<Action>,
    visitor: Visitor,
    work: WorkList,
    calls: Calls,
    /// Conversions of manual axes that were done already.
    converted: HashMap<(OpId, PlacementId, When), PlacementId>,
    /// What was learned about causes, if asked for.
    pub trace: Option<Trace>,
    diagnostics: Vec<Diagnostic>,
}

/// When a placement is converted: for a visit, or with what it found.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum When {
    Before,
    After,
}

impl<'m> Driver<'m> {
    /// A driver over the placements of `module`.
    pub fn new(module: &'m mut Module, state: State, groups: Groups, mode: RuleMode) -> Driver<'m> {
        Driver {
            actions: vec![Action::Unknown; module.op_slots()],
            work: WorkList::new(module.op_slots()),
            calls: Calls::of(module),
            module,
            state,
            groups,
            mode,
            visitor: Visitor::default(),
            converted: HashMap::default(),
            trace: None,
            diagnostics: vec![],
        }
    }

    /// Writes placements back to the module, and reads them again after `change`.
    pub fn refresh(&mut self, change: impl FnOnce(&mut Module)) -> Result<(), Diagnostic> {
        self.state.store(self.module);
        change(self.module);
        self.state = State::load(self.module, self.state.entry)?;
        self.visitor.forget();
        self.converted.clear();
        Ok(())
    }

    /// Writes placements, and rules if they are kept, back to the module. Gives the trace, if one was kept.
    pub fn finish(mut self, keep: KeepRules, diagnostics: &mut Vec<Diagnostic>) -> Option<Trace> {
        self.state.store(self.module);
        if keep == KeepRules::Yes {
            for op in self.module.all_ops(Walk::PreOrder) {
                if let Action::Rule(rule) = self.actions[op.index()] {
                    let rule = self.visitor.rules.get(rule).rule.clone();
                    self.module.op_mut(op).attrs.set(SHARDING_RULE, Attr::ShardingRule(rule));
                }
            }
        }
        diagnostics.append(&mut self.diagnostics);
        self.trace
    }

    /// Visits ops until nothing changes; before and after, values returned by the entry function are matched with its
    /// results.
    pub fn run(&mut self, strategy: Strategy, schedule: Schedule) {
        self.match_func_results(strategy);
        for &op in self.module.all_ops(Walk::PreOrder).iter().rev() {
            self.work.push(op);
        }
        while let Some(op) = self.work.pop() {
            if self.module.is_erased(op) {
                continue;
            }
            if is_trivially_dead(self.module, op) {
                self.erase(op);
            } else {
                self.visit(op, strategy, schedule);
            }
        }
        self.match_func_results(strategy);
    }

    fn visit(&mut self, op: OpId, strategy: Strategy, schedule: Schedule) {
        if self.actions[op.index()] == Action::Unknown {
            self.actions[op.index()] = self.action(op);
        }
        let action = self.actions[op.index()];
        if action == Action::Nothing {
            return;
        }
        let directions = match (action, schedule) {
            (Action::Barrier(_, direction), _) => Directions::all(direction),
            (_, Schedule::Any) => Directions::all(Direction::Both),
            (_, Schedule::OpPriority(round)) => op_priority::directions(self.module, op, round),
        };
        if directions == Directions::all(Direction::None) {
            return;
        }
        let plain = |rule| Visit {
            rule,
            strategy,
            directions,
            nature: Nature::Other,
            mode: RuleMode::Full,
            placements: TensorPlacements::new(),
        };
        let data = self.module.op(op);
        let tensors = || -> Values { data.operands().iter().chain(data.results()).copied().collect() };
        match action {
            Action::Unknown | Action::Nothing => {}
            Action::Rule(rule) => {
                let elementwise = is_elementwise(self.module, op);
                let nature = if elementwise { Nature::Elementwise } else { Nature::Other };
                let values = tensors();
                self.visit_values(op, &values, Visit { nature, mode: self.mode, ..plain(rule) });
            }
            Action::Barrier(rule, _) => {
                let values = tensors();
                self.visit_values(op, &values, Visit { nature: Nature::Elementwise, ..plain(rule) });
            }
            Action::Edge(rule) => self.visit_edge(op, plain(rule)),
            Action::FuncEdge => {
                let (&[operand], &[result]) = (data.operands(), data.results()) else { return };
                let mut values = self.calls.sources(self.module, operand);
                if !values.is_empty() {
                    let rule = self.visitor.rules.identity(self.module.ty(result), values.len());
                    values.push(result);
                    self.visit_values(op, &values, plain(rule));
                }
            }
        }
    }

    fn visit_values(&mut self, op: OpId, values: &[ValueId], visit: Visit) {
        let visit = Visit { placements: values.iter().map(|&v| self.state.get(v)).collect(), ..visit };
        let updates = self.visitor.updates(&mut self.state.placements, &visit);
        if updates.is_empty() {
            return;
        }
        self.record(op, &visit, || values.iter().map(|&v| Some(Node::Value(v))).collect());
        for &(tensor, placement) in updates.iter() {
            self.set(op, values[tensor], placement);
        }
    }

    fn visit_edge(&mut self, op: OpId, visit: Visit) {
        let data = self.module.op(op);
        let (&[owner], &[result]) = (data.operands(), data.results()) else { return };
        let mut values = edge_sources(self.module, owner);
        let last = values.len();
        values.push(result);
        let mut placements: TensorPlacements = values.iter().map(|&v| self.state.get(v)).collect();
        placements[last] = placements[last].map(|p| self.convert_manual(op, owner, p, When::Before));
        let visit = Visit { placements, ..visit };
        let updates = self.visitor.updates(&mut self.state.placements, &visit);
        if updates.is_empty() {
            return;
        }
        self.record(op, &visit, || values.iter().map(|&v| Some(Node::Value(v))).collect());
        for &(tensor, mut placement) in updates.iter() {
            if tensor == last {
                placement = self.convert_manual(op, owner, placement, When::After);
            }
            self.set(op, values[tensor], placement);
        }
    }

    /// Matches what the entry function returns with the placements of its results, both ways.
    fn match_func_results(&mut self, strategy: Strategy) {
        let Some(func) = self.state.entry else { return };
        let Some(body) = self.module.body_of(func, 0) else { return };
        for (index, value) in self.module.returned(body).to_vec().into_iter().enumerate() {
            if !is_static_tensor(self.module, value) {
                continue;
            }
            let visit = Visit {
                rule: self.visitor.rules.identity(self.module.ty(value), 1),
                strategy,
                directions: Directions::all(Direction::Both),
                nature: Nature::Other,
                mode: RuleMode::Full,
                placements: [self.state.get(value), self.state.func_result(index)].into_iter().collect(),
            };
            let updates = self.visitor.updates(&mut self.state.placements, &visit);
            if updates.is_empty() {
                continue;
            }
            self.record(func, &visit, || vec![Some(Node::Value(value)), Some(Node::FuncResult(index))]);
            for &(tensor, placement) in updates.iter() {
                match (tensor, self.state.slot(value)) {
                    (1, _) => self.state.set_func_result(index, placement),
                    (_, Some(slot)) => self.set_with_group(slot, placement, |_, _| {}),
                    (_, None) => {}
                }
            }
        }
    }

    /// Sets the placement of `value` and of its group, and pushes what that concerns, except for `op`.
    fn set(&mut self, op: OpId, value: ValueId, placement: PlacementId) {
        let Some(slot) = self.state.slot(value) else { return };
        self.set_with_group(slot, placement, |driver, changed| {
            driver.calls.concerned(driver.module, changed, |concerned| {
                if concerned != op {
                    driver.work.push(concerned);
                }
            });
        });
    }

    fn set_with_group(&mut self, slot: ValueId, placement: PlacementId, mut changed: impl FnMut(&mut Driver, ValueId)) {
        self.state.set(self.module, slot, placement);
        changed(self, slot);
        for i in 0..self.groups.members(slot).len() {
            let member = self.groups.members(slot)[i];
            let Some(other) = self.state.slot(member).filter(|_| member != slot) else { continue };
            self.state.set(self.module, other, placement);
            if let Some(trace) = &mut self.trace {
                trace.group(other, slot);
            }
            changed(self, other);
        }
    }

    fn action(&mut self, op: OpId) -> Action {
        let data = self.module.op(op);
        let operands = data.operands().len();
        match (data.kind(), data.results()) {
            (OpKind::Sdy(SdyOp::DataFlowEdge), &[result]) if is_static_tensor(self.module, result) => {
                let sources = data.operands().first().map_or(0, |&o| edge_sources(self.module, o).len());
                Action::Edge(self.visitor.rules.identity(self.module.ty(result), sources))
            }
            (OpKind::Sdy(SdyOp::FuncDataFlowEdge), &[result]) if is_static_tensor(self.module, result) => {
                Action::FuncEdge
            }
            (OpKind::Sdy(SdyOp::PropagationBarrier), &[result]) if is_static_tensor(self.module, result) => {
                let direction = data.attr("allowed_direction").map_or(Direction::None, allowed_direction);
                Action::Barrier(self.visitor.rules.identity(self.module.ty(result), 1), direction)
            }
            (kind, &[result]) if kind.is_elementwise() && has_identity_rule(self.module, op, result) => {
                Action::Rule(self.visitor.rules.identity(self.module.ty(result), operands))
            }
            _ => match sharding_rule(self.module, op, self.mode) {
                RuleResult::Rule(rule) => Action::Rule(self.visitor.rules.intern(rule)),
                RuleResult::None(reason) => {
                    warn_unknown(self.module, op, &reason, &mut self.diagnostics);
                    Action::Nothing
                }
            },
        }
    }

    /// The placement of an edge's target as its sources see it (`Before`), or the other way (`After`): a manual
    /// computation adds manual axes around its arguments and removes them from its results.
    fn convert_manual(&mut self, edge: OpId, owner: ValueId, placement: PlacementId, when: When) -> PlacementId {
        let Some(op) = owning_op(self.module, owner) else { return placement };
        if self.module.op(op).kind() != SdyOp::ManualComputation {
            return placement;
        }
        if let Some(&known) = self.converted.get(&(edge, placement, when)) {
            return known;
        }
        let (list, index, outwards) = match self.module.value(owner).def() {
            Def::Arg(_, i) => ("in_shardings", i as usize, when == When::Before),
            Def::Result(_, i) => ("out_shardings", i as usize, when == When::After),
        };
        let manual = manual_axes(self.module, op);
        let sharding = self.state.placements.export(placement);
        let outer = sharding_list(self.module, op, list).and_then(|l| l.get(index));
        let sharding = match outer {
            Some(outer) if outwards => with_manual_axes(outer, &sharding, manual),
            _ => without_manual_axes(&sharding, manual),
        };
        // Cannot fail: the axes come from placements that were read already.
        let converted = self.state.placements.import(&sharding).unwrap_or(placement);
        self.converted.insert((edge, placement, when), converted);
        converted
    }

    /// Notes where the updates of a visit come from, if a trace is kept.
    fn record(&mut self, op: OpId, visit: &Visit, nodes: impl FnOnce() -> Vec<Option<Node>>) {
        let Some(trace) = &mut self.trace else { return };
        let nodes = nodes().into_iter().map(|node| match node {
            Some(Node::Value(value)) => self.state.slot(value).map(Node::Value),
            other => other,
        });
        let nodes = nodes.collect();
        let Some((before, after, mesh)) = self.visitor.explain(&mut self.state.placements, visit) else { return };
        let (before, after) = (before, after.clone());
        let name = |axis| self.state.placements.axis_ref(axis, mesh);
        trace.push(Step::between(&before, &after, self.visitor.rules.get(visit.rule), op, nodes, name));
    }

    /// Removes an op, and pushes the ops that define its operands if they may now go too.
    fn erase(&mut self, op: OpId) {
        let operands: Values = self.module.op(op).operands().iter().copied().collect();
        for operand in operands {
            let Some(def) = self.module.def_op(operand) else { continue };
            let mut others = self.module.value(operand).uses().iter().map(|u| u.op).filter(|&user| user != op);
            let first = others.next();
            if others.all(|user| Some(user) == first) {
                self.work.push(def);
            }
        }
        self.module.erase(op);
    }
}

fn is_static_tensor(module: &Module, value: ValueId) -> bool {
    module.ty(value).as_tensor().is_some_and(|t| t.is_static())
}

/// Whether the rule of an element-wise op is that of an identity: it brings none of its own, and all its operands have
/// the shape of its result.
fn has_identity_rule(module: &Module, op: OpId, result: ValueId) -> bool {
    let dims = |v: ValueId| module.ty(v).as_tensor().map(|t| &t.dims);
    let data = module.op(op);
    dims(result).is_some()
        && data.operands().iter().all(|&v| dims(v) == dims(result))
        && data.attr(SHARDING_RULE).is_none()
}

fn allowed_direction(attr: &Attr) -> Direction {
    match attr {
        Attr::Enum(e) if e.value == "FORWARD" => Direction::Forward,
        Attr::Enum(e) if e.value == "BACKWARD" => Direction::Backward,
        Attr::Enum(e) if e.value == "BOTH" => Direction::Both,
        Attr::Int(1, _) => Direction::Forward,
        Attr::Int(2, _) => Direction::Backward,
        Attr::Int(3, _) => Direction::Both,
        _ => Direction::None,
    }
}

/// Warns of an op or custom call that no rule is known for, of each sort once.
pub(crate) fn warn_unknown(module: &Module, op: OpId, reason: &NoRule, diagnostics: &mut Vec<Diagnostic>) {
    let sort = match reason {
        NoRule::UnknownOp(_) => "op '",
        NoRule::UnknownCustomCall(_) => "custom call @",
        NoRule::Misfit(_) => "its sharding rule",
        _ => return,
    };
    if !diagnostics.iter().any(|d| d.message.starts_with(sort)) {
        diagnostics.push(Diagnostic::warning(module.op(op).pos, reason.to_string()));
    }
}
