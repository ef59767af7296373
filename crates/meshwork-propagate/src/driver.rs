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
//!
//! Visits are remembered: what a visit does depends only on the rule, the directions and the placements of the
//! tensors, and programs repeat themselves.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::{Attr, Def, Diagnostic, Dims, Module, OpId, OpKind, ValueId, Values, Walk};
use smallvec::SmallVec;

use crate::dead::is_trivially_dead;
use crate::edges;
use crate::factor::{Direction, Directions, OpTraits, Strategy};
use crate::groups::Groups;
use crate::manual::{manual_axes, with_manual_axes, without_manual_axes};
use crate::op_priority;
use crate::pass::KeepRules;
use crate::placement::PlacementId;
use crate::projection::{CompiledRule, Projection};
use crate::properties::is_elementwise;
use crate::rules::{NoRule, RuleBuilder, RuleMode, RuleResult, SHARDING_RULE, sharding_rule};
use crate::state::State;
use crate::why::{Node, Step, Trace};
use crate::{aggressive, basic};

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
    Unknown,
    Nothing,
    /// Propagates by the rule of this index.
    Rule(u32),
    /// Propagates between the sources of a data-flow edge and its result.
    Edge(u32),
    /// The same between a function and its callers.
    FuncEdge,
    Barrier(u32, Direction),
}

/// The updates of one visit: tensor, new placement.
type Updates = Rc<[(usize, PlacementId)]>;

/// What a visit depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct VisitKey {
    rule: u32,
    strategy: Strategy,
    directions: Directions,
    elementwise: bool,
    conservative: bool,
    placements: SmallVec<[Option<PlacementId>; 4]>,
}

/// Runs fixed points over one module.
pub struct Driver<'m> {
    module: &'m mut Module,
    /// The placements.
    pub state: State,
    groups: Groups,
    mode: RuleMode,
    actions: Vec<Action>,
    rules: Vec<CompiledRule>,
    rule_ids: HashMap<Arc<OpShardingRule>, u32>,
    /// Rules of identities by shape and number of operands.
    identity_ids: HashMap<(Dims, usize), u32>,
    work: WorkList,
    memo: HashMap<VisitKey, Updates>,
    projection: Projection,
    calls: Calls,
    /// Manual-axes conversions that were done already: edge, placement, whether before the visit.
    converted: HashMap<(OpId, PlacementId, bool), PlacementId>,
    /// What was learned about causes, if asked for.
    pub trace: Option<Trace>,
    /// Warnings.
    pub diagnostics: Vec<Diagnostic>,
}

/// A visit in progress: which op, its values (operands, then results) and their placements.
struct Visit<'v> {
    op: OpId,
    rule: u32,
    directions: Directions,
    elementwise: bool,
    conservative: bool,
    values: &'v [ValueId],
    placements: SmallVec<[Option<PlacementId>; 4]>,
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
            rules: vec![],
            rule_ids: HashMap::new(),
            identity_ids: HashMap::new(),
            memo: HashMap::new(),
            projection: Projection::default(),
            converted: HashMap::new(),
            trace: None,
            diagnostics: vec![],
        }
    }

    /// Writes placements back to the module, and reads them again after `change`.
    pub fn refresh(&mut self, change: impl FnOnce(&mut Module)) -> Result<(), Diagnostic> {
        self.state.store(self.module);
        change(self.module);
        let mut state = State::load(self.module, self.state.entry)?;
        std::mem::swap(&mut self.state, &mut state);
        // Placement ids are those of the new state.
        self.memo.clear();
        self.converted.clear();
        Ok(())
    }

    /// Writes placements, and rules if they are kept, back to the module. Gives the trace, if one was kept.
    pub fn finish(mut self, keep: KeepRules, diagnostics: &mut Vec<Diagnostic>) -> Option<Trace> {
        self.state.store(self.module);
        if keep == KeepRules::Yes {
            for op in self.module.all_ops(Walk::PreOrder) {
                if let Action::Rule(rule) = self.actions[op.index()] {
                    let rule = self.rules[rule as usize].rule.clone();
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
        let ops = self.module.all_ops(Walk::PreOrder);
        for &op in ops.iter().rev() {
            self.work.push(op);
        }
        while let Some(op) = self.work.pop() {
            if self.module.is_erased(op) {
                continue;
            }
            if is_trivially_dead(self.module, op) {
                self.erase(op);
                continue;
            }
            self.visit(op, strategy, schedule);
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
        match action {
            Action::Unknown | Action::Nothing => {}
            Action::Rule(rule) => {
                let data = self.module.op(op);
                let values: Values = data.operands().iter().chain(data.results()).copied().collect();
                let elementwise = is_elementwise(self.module, op);
                let conservative = self.mode == RuleMode::Conservative;
                self.visit_values(strategy, op, rule, directions, elementwise, conservative, &values);
            }
            Action::Barrier(rule, _) => {
                let data = self.module.op(op);
                let values: Values = data.operands().iter().chain(data.results()).copied().collect();
                self.visit_values(strategy, op, rule, directions, true, false, &values);
            }
            Action::Edge(rule) => self.visit_edge(strategy, op, rule, directions),
            Action::FuncEdge => self.visit_func_edge(strategy, op, directions),
        }
    }

    #[allow(clippy::too_many_arguments)] // one call site per kind of op; a struct would only rename them
    fn visit_values(
        &mut self,
        strategy: Strategy,
        op: OpId,
        rule: u32,
        directions: Directions,
        elementwise: bool,
        conservative: bool,
        values: &[ValueId],
    ) {
        let placements = values.iter().map(|&v| self.state.get(v)).collect();
        let visit = Visit { op, rule, directions, elementwise, conservative, values, placements };
        let updates = self.updates(strategy, &visit);
        self.record(strategy, &visit, &updates, None);
        for &(tensor, placement) in updates.iter() {
            self.set(op, values[tensor], placement);
        }
    }

    fn visit_edge(&mut self, strategy: Strategy, op: OpId, rule: u32, directions: Directions) {
        let data = self.module.op(op);
        let (&[owner], &[result]) = (data.operands(), data.results()) else { return };
        let mut values = edges::edge_sources(self.module, owner);
        values.push(result);
        let mut placements: SmallVec<[Option<PlacementId>; 4]> = values.iter().map(|&v| self.state.get(v)).collect();
        let last = placements.len() - 1;
        placements[last] = placements[last].map(|p| self.convert_manual(op, owner, p, When::Before));
        let visit =
            Visit { op, rule, directions, elementwise: false, conservative: false, values: &values, placements };
        let updates = self.updates(strategy, &visit);
        self.record(strategy, &visit, &updates, None);
        for &(tensor, placement) in updates.iter() {
            let placement =
                if tensor == last { self.convert_manual(op, owner, placement, When::After) } else { placement };
            self.set(op, values[tensor], placement);
        }
    }

    fn visit_func_edge(&mut self, strategy: Strategy, op: OpId, directions: Directions) {
        let data = self.module.op(op);
        let (&[operand], &[result]) = (data.operands(), data.results()) else { return };
        let mut values = self.calls.sources(self.module, operand);
        if values.is_empty() {
            return;
        }
        let rule = self.identity_rule(result, values.len());
        values.push(result);
        self.visit_values(strategy, op, rule, directions, false, false, &values);
    }

    /// What propagating along the rule changes.
    fn updates(&mut self, strategy: Strategy, visit: &Visit) -> Updates {
        let key = VisitKey {
            rule: visit.rule,
            strategy,
            directions: visit.directions,
            elementwise: visit.elementwise,
            conservative: visit.conservative,
            placements: visit.placements.clone(),
        };
        if let Some(updates) = self.memo.get(&key) {
            return updates.clone();
        }
        let updates: Updates = self.compute(strategy, visit).into();
        self.memo.insert(key, updates.clone());
        updates
    }

    fn compute(&mut self, strategy: Strategy, visit: &Visit) -> Vec<(usize, PlacementId)> {
        let placements = &mut self.state.placements;
        let rule = &self.rules[visit.rule as usize];
        let Some(mesh) = placements.common_mesh(visit.placements.iter().flatten().copied()) else { return vec![] };
        let fits = |(i, p): (usize, &Option<PlacementId>)| {
            p.is_none_or(|p| placements.get(p).dims.len() == rule.tensor(i).len())
        };
        // A custom rule may not fit its op; the verifier says so.
        if visit.placements.len() != rule.num_tensors() || !visit.placements.iter().enumerate().all(fits) {
            return vec![];
        }
        let old: SmallVec<[_; 4]> = visit.placements.iter().map(|p| p.map(|p| placements.get(p).clone())).collect();
        self.projection.build(rule, old.iter().map(Option::as_deref));
        let sizes: SmallVec<[u32; 4]> =
            placements.mesh(mesh).axes().iter().map(|a| u32::try_from(a.size).unwrap_or(u32::MAX)).collect();
        let traits =
            OpTraits { elementwise: visit.elementwise, whole_axes_only: visit.conservative.then_some(&sizes[..]) };
        let mut updated: SmallVec<[bool; 8]> = SmallVec::from_elem(false, rule.num_tensors());
        match strategy {
            Strategy::Basic => {
                basic::propagate(&mut self.projection, rule, visit.directions, traits, &mut updated);
            }
            Strategy::Aggressive => {
                aggressive::propagate(&mut self.projection, rule, visit.directions, traits, &mut updated);
            }
        }
        let mut updates = vec![];
        for (i, tensor) in self.projection.tensors.iter().enumerate().filter(|&(i, _)| updated[i]) {
            let new = tensor.placement(old[i].as_deref(), rule.tensor(i), &rule.rule.factor_sizes, mesh);
            if old[i].is_none() && new.has_no_axes() {
                continue;
            }
            let new = placements.intern(new);
            if visit.placements[i] != Some(new) {
                updates.push((i, new));
            }
        }
        updates
    }

    /// Sets the placement of `value` and of its group, and pushes what may change with it.
    fn set(&mut self, op: OpId, value: ValueId, placement: PlacementId) {
        let Some(slot) = self.state.slot(value) else { return };
        self.state.set(self.module, slot, placement);
        self.notify(op, slot);
        for i in 0..self.groups.members(slot).len() {
            let member = self.groups.members(slot)[i];
            if let Some(other) = self.state.slot(member).filter(|_| member != slot) {
                self.state.set(self.module, other, placement);
                if let Some(trace) = &mut self.trace {
                    trace.group(other, slot);
                }
                self.notify(op, other);
            }
        }
    }

    fn notify(&mut self, except: OpId, slot: ValueId) {
        let module = &*self.module;
        let mut push = |op: OpId| {
            if op != except {
                self.work.push(op);
            }
        };
        match module.value(slot).def() {
            Def::Result(op, _) => {
                if module.op(op).kind() == OpKind::SdyDataFlowEdge
                    && let Some(&owner) = module.op(op).operands().first()
                {
                    for target in edges::non_owner_targets(module, owner) {
                        self.calls.users(module, target, &mut push, &mut vec![]);
                    }
                }
                push(op);
            }
            Def::Arg(block, _) => {
                if let Some(parent) = module.block_parent_op(block) {
                    push(parent);
                }
            }
        }
        self.calls.users(module, slot, &mut push, &mut vec![]);
    }

    fn match_func_results(&mut self, strategy: Strategy) {
        let Some(func) = self.state.entry else { return };
        let Some(body) = self.module.body_of(func, 0) else { return };
        for (index, &value) in self.module.returned(body).to_vec().iter().enumerate() {
            if !self.module.ty(value).as_tensor().is_some_and(|t| t.is_static()) {
                continue;
            }
            let rule = self.identity_rule(value, 1);
            let placements = [self.state.get(value), self.state.func_result(index)].into_iter().collect();
            let visit = Visit {
                op: func,
                rule,
                directions: Directions::all(Direction::Both),
                elementwise: false,
                conservative: false,
                values: &[value, value],
                placements,
            };
            let updates = self.updates(strategy, &visit);
            self.record(strategy, &visit, &updates, Some(index));
            for &(tensor, placement) in updates.iter() {
                if tensor == 1 {
                    self.state.set_func_result(index, placement);
                    continue;
                }
                let Some(slot) = self.state.slot(value) else { continue };
                self.state.set(self.module, slot, placement);
                for member in self.groups.members(slot).to_vec() {
                    if let Some(other) = self.state.slot(member) {
                        self.state.set(self.module, other, placement);
                    }
                }
            }
        }
    }

    fn action(&mut self, op: OpId) -> Action {
        let data = self.module.op(op);
        let static_result = |v: ValueId| self.module.ty(v).as_tensor().is_some_and(|t| t.is_static());
        match (data.kind(), data.results()) {
            (OpKind::SdyDataFlowEdge, &[result]) if static_result(result) => {
                let sources = data.operands().first().map_or(0, |&o| edges::edge_sources(self.module, o).len());
                Action::Edge(self.identity_rule(result, sources))
            }
            (OpKind::SdyFuncDataFlowEdge, &[result]) if static_result(result) => Action::FuncEdge,
            (OpKind::SdyPropagationBarrier, &[result]) if static_result(result) => {
                let direction = match data.attr("allowed_direction").and_then(direction_name) {
                    Some("FORWARD") => Direction::Forward,
                    Some("BACKWARD") => Direction::Backward,
                    Some("BOTH") => Direction::Both,
                    _ => Direction::None,
                };
                Action::Barrier(self.identity_rule(result, 1), direction)
            }
            (kind, &[result]) if kind.is_elementwise() && self.is_identity_shaped(op, result) => {
                Action::Rule(self.identity_rule(result, data.operands().len()))
            }
            _ => match sharding_rule(self.module, op, self.mode) {
                RuleResult::Rule(rule) => Action::Rule(self.intern_rule(rule)),
                RuleResult::None(reason) => {
                    warn_unknown(self.module, op, &reason, &mut self.diagnostics);
                    Action::Nothing
                }
            },
        }
    }

    /// Whether the rule of an element-wise op is that of an identity: it brings none of its own, and all its operands
    /// have the shape of its result.
    fn is_identity_shaped(&self, op: OpId, result: ValueId) -> bool {
        let dims = self.module.ty(result).as_tensor().map(|t| &t.dims);
        let same = |&v: &ValueId| self.module.ty(v).as_tensor().map(|t| &t.dims) == dims;
        let data = self.module.op(op);
        dims.is_some() && data.operands().iter().all(same) && data.attr(SHARDING_RULE).is_none()
    }

    fn identity_rule(&mut self, like: ValueId, operands: usize) -> u32 {
        let ty = self.module.ty(like);
        let key = (Dims::from(ty.dims()), operands);
        if let Some(&rule) = self.identity_ids.get(&key) {
            return rule;
        }
        let rule = self.intern_rule(Arc::new(RuleBuilder::identity(ty, operands)));
        self.identity_ids.insert(key, rule);
        rule
    }

    fn intern_rule(&mut self, rule: Arc<OpShardingRule>) -> u32 {
        match self.rule_ids.entry(rule) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let id = self.rules.len() as u32;
                self.rules.push(CompiledRule::new(entry.key().clone()));
                *entry.insert(id)
            }
        }
    }

    /// The placement of an edge's target as its sources see it (`Before`), or the other way (`After`): a manual
    /// computation adds manual axes around its arguments and removes them from its results.
    fn convert_manual(&mut self, edge: OpId, owner: ValueId, placement: PlacementId, when: When) -> PlacementId {
        let Some(op) = edges::owning_op(self.module, owner) else { return placement };
        if self.module.op(op).kind() != OpKind::SdyManualComputation {
            return placement;
        }
        let key = (edge, placement, when == When::Before);
        if let Some(&known) = self.converted.get(&key) {
            return known;
        }
        let manual = manual_axes(self.module, op);
        let (list, index, is_arg) = match self.module.value(owner).def() {
            Def::Arg(_, i) => ("in_shardings", i as usize, true),
            Def::Result(_, i) => ("out_shardings", i as usize, false),
        };
        let sharding = self.state.placements.export(placement);
        let outer = crate::values::sharding_list(self.module, op, list).and_then(|l| l.get(index));
        let sharding = match (outer, is_arg == (when == When::Before)) {
            (Some(outer), true) => with_manual_axes(outer, &sharding, manual),
            _ => without_manual_axes(&sharding, manual),
        };
        // The axes come from placements that were read already.
        let converted = self.state.placements.import(&sharding).unwrap_or(placement);
        self.converted.insert(key, converted);
        converted
    }

    /// Notes where the updates of a visit came from, if a trace is kept.
    fn record(&mut self, strategy: Strategy, visit: &Visit, updates: &Updates, func_result: Option<usize>) {
        if self.trace.is_none() || updates.is_empty() {
            return;
        }
        let mut before = Projection::default();
        let placements = &self.state.placements;
        let Some(mesh) = placements.common_mesh(visit.placements.iter().flatten().copied()) else { return };
        let rule = &self.rules[visit.rule as usize];
        before.build(rule, visit.placements.iter().map(|p| p.map(|p| &**placements.get(p))));
        self.compute(strategy, visit);
        let nodes: Vec<Option<Node>> = match func_result {
            Some(index) => vec![self.state.slot(visit.values[0]).map(Node::Value), Some(Node::FuncResult(index))],
            None => visit.values.iter().map(|&v| self.state.slot(v).map(Node::Value)).collect(),
        };
        let rule = &self.rules[visit.rule as usize];
        let step = Step::between(&before, &self.projection, rule, visit.op, nodes, |axis| {
            self.state.placements.axis_ref(axis, mesh)
        });
        if let Some(trace) = &mut self.trace {
            trace.push(step);
        }
    }

    fn erase(&mut self, op: OpId) {
        let operands: Values = self.module.op(op).operands().iter().copied().collect();
        for operand in operands {
            let Some(def) = self.module.def_op(operand) else { continue };
            let mut others = self.module.value(operand).uses().iter().map(|u| u.op).filter(|&user| user != op);
            // One other user at most is left.
            let first = others.next();
            if others.all(|user| Some(user) == first) {
                self.work.push(def);
            }
        }
        self.module.erase(op);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    After,
}

fn direction_name(attr: &Attr) -> Option<&str> {
    match attr {
        Attr::Enum(e) => Some(&e.value),
        Attr::Str(s) => Some(s),
        Attr::Int(0, _) => Some("NONE"),
        Attr::Int(1, _) => Some("FORWARD"),
        Attr::Int(2, _) => Some("BACKWARD"),
        Attr::Int(3, _) => Some("BOTH"),
        _ => None,
    }
}

/// Warns of an op or custom call that no rule is known for, of each sort once.
pub(crate) fn warn_unknown(module: &Module, op: OpId, reason: &NoRule, diagnostics: &mut Vec<Diagnostic>) {
    let sort = match reason {
        NoRule::UnknownOp(_) => "op '",
        NoRule::UnknownCustomCall(_) => "custom call @",
        _ => return,
    };
    if !diagnostics.iter().any(|d| d.message.starts_with(sort)) {
        diagnostics.push(Diagnostic::warning(module.op(op).pos, reason.to_string()));
    }
}

/// Last in, first out, each op at most once.
struct WorkList {
    list: Vec<OpId>,
    listed: Vec<bool>,
}

impl WorkList {
    fn new(ops: usize) -> WorkList {
        WorkList { list: vec![], listed: vec![false; ops] }
    }

    fn push(&mut self, op: OpId) {
        if !std::mem::replace(&mut self.listed[op.index()], true) {
            self.list.push(op);
        }
    }

    fn pop(&mut self) -> Option<OpId> {
        let op = self.list.pop()?;
        self.listed[op.index()] = false;
        Some(op)
    }
}

/// Who calls which function.
struct Calls {
    callee: HashMap<OpId, OpId>,
    callers: HashMap<OpId, Vec<OpId>>,
}

impl Calls {
    fn of(module: &Module) -> Calls {
        let funcs: HashMap<&str, OpId> = module.funcs().filter_map(|f| Some((module.symbol_name(f)?, f))).collect();
        let mut calls = Calls { callee: HashMap::new(), callers: HashMap::new() };
        for op in module.all_ops(Walk::PreOrder) {
            if module.op(op).kind() != OpKind::Call {
                continue;
            }
            let name = module.op(op).attr("callee").and_then(Attr::as_symbol);
            if let Some(&func) = name.and_then(|n| funcs.get(n)) {
                calls.callee.insert(op, func);
                calls.callers.entry(func).or_default().push(op);
            }
        }
        calls
    }

    fn callers(&self, func: OpId) -> &[OpId] {
        self.callers.get(&func).map_or(&[], Vec::as_slice)
    }

    /// What flows into the operand of a function edge: the operands of all callers, or what the callee returns.
    fn sources(&self, module: &Module, operand: ValueId) -> Values {
        match module.value(operand).def() {
            Def::Arg(block, i) => {
                let func = module.block_parent_op(block);
                let callers = func.map_or(&[][..], |f| self.callers(f));
                callers.iter().filter_map(|&c| module.op(c).operands().get(i as usize).copied()).collect()
            }
            Def::Result(op, i) => {
                let body = self.callee.get(&op).and_then(|&f| module.body_of(f, 0));
                body.and_then(|b| module.returned(b).get(i as usize).copied()).into_iter().collect()
            }
        }
    }

    /// Passes the ops to push when `value` changes, because they use it; `crossed` are the values on the way from one
    /// function to another, which recursion may meet again.
    fn users(&self, module: &Module, value: ValueId, push: &mut impl FnMut(OpId), crossed: &mut Vec<ValueId>) {
        for &u in module.value(value).uses().iter().rev() {
            if let Some(edge) = edges::edge_of_source(module, u) {
                push(edge);
                continue;
            }
            let kind = module.op(u.op).kind();
            if kind == OpKind::FuncReturn {
                let func = module.parent_op(u.op);
                for &caller in func.map_or(&[][..], |f| self.callers(f)) {
                    let result = module.op(caller).results().get(u.operand as usize);
                    self.cross(module, result, push, crossed);
                }
            } else if kind.is_terminator() {
                if let Some(parent) = module.parent_op(u.op) {
                    push(parent);
                }
            } else if let Some(&func) = self.callee.get(&u.op) {
                let args = module.body_of(func, 0).map_or(&[][..], |b| module.block(b).args());
                self.cross(module, args.get(u.operand as usize), push, crossed);
            } else {
                push(u.op);
            }
        }
    }

    fn cross(&self, module: &Module, to: Option<&ValueId>, push: &mut impl FnMut(OpId), crossed: &mut Vec<ValueId>) {
        if let Some(&value) = to
            && !crossed.contains(&value)
        {
            crossed.push(value);
            self.users(module, value, push, crossed);
        }
    }
}
