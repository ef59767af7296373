//! The placements of all values of a module while propagation runs, beside the module.
//!
//! Invariants: only [`shardable values`](crate::program::shardable_value) have an entry in `current`; what the module
//! says is `stored`, and [`State::store`] writes back exactly what differs.

use std::sync::Arc;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, AttrDict, Def, Diagnostic, Module, OpId, OpKind, ValueId, Walk};
use meshwork_mesh::Sharding;

use crate::factors::{Placement, PlacementId, Placements};
use crate::program::{
    SHARDING, Slot, manual_axes, result_slot, shardable_value, sharding_list, stored_sharding, with_manual_axes,
};

/// Placements of all values and of the entry function's results.
pub struct State {
    /// The placements themselves.
    pub placements: Placements,
    /// By value: the value whose placement it shares.
    slots: Vec<Option<ValueId>>,
    /// By shardable value.
    current: Vec<Option<PlacementId>>,
    stored: Vec<Option<PlacementId>>,
    /// The function whose results take part.
    pub entry: Option<OpId>,
    results: Vec<Option<PlacementId>>,
    stored_results: Vec<Option<PlacementId>>,
}

impl State {
    /// Reads the placements of `module`; `entry` is the function whose results take part.
    pub fn load(module: &Module, entry: Option<OpId>) -> Result<State, Diagnostic> {
        let count = module.value_slots();
        let mut state = State {
            placements: Placements::of(module),
            slots: vec![None; count],
            current: vec![None; count],
            stored: vec![],
            entry,
            results: vec![],
            stored_results: vec![],
        };
        for op in module.all_ops(Walk::PreOrder) {
            let data = module.op(op);
            let at = |message: String| Diagnostic::at(data, format!("'{}' op {message}", data.name()));
            for &value in data.results() {
                state.slots[value.index()] = shardable_value(module, value);
            }
            match (result_slot(data.kind()), data.results()) {
                (Slot::Single(name), &[value]) => {
                    if let Some(sharding) = data.attr(name).and_then(Attr::as_sharding) {
                        state.current[value.index()] = Some(state.placements.import(sharding).map_err(at)?);
                    }
                }
                (Slot::PerValue(name), values) => {
                    for (&value, sharding) in values.iter().zip(sharding_list(module, op, name).unwrap_or(&[])) {
                        state.current[value.index()] = Some(state.placements.import(sharding).map_err(at)?);
                    }
                }
                _ => {}
            }
            let blocks = data.regions().iter().flat_map(|&r| module.region(r).blocks());
            for (i, &arg) in blocks.flat_map(|&b| module.block(b).args().iter().enumerate()) {
                state.slots[arg.index()] = shardable_value(module, arg);
                if let Some(sharding) = stored_sharding(module, arg) {
                    let id = state.placements.import(&sharding).map_err(|m| at(format!("argument {i}: {m}")))?;
                    state.current[arg.index()] = Some(id);
                }
            }
        }
        if let Some(func) = entry {
            for i in 0..module.func_type(func).results.len() {
                let sharding = module.res_attr(func, i, SHARDING).and_then(Attr::as_sharding);
                let id = sharding.map(|s| state.placements.import(s)).transpose();
                let id = id.map_err(|m| Diagnostic::at(module.op(func), format!("'func.func' op result {i}: {m}")))?;
                state.results.push(id);
            }
        }
        state.stored = state.current.clone();
        state.stored_results = state.results.clone();
        Ok(state)
    }

    /// The value whose placement `value` shares.
    pub fn slot(&self, value: ValueId) -> Option<ValueId> {
        self.slots[value.index()]
    }

    /// The placement of `value`.
    pub fn get(&self, value: ValueId) -> Option<PlacementId> {
        self.current[self.slot(value)?.index()]
    }

    /// Sets the placement of the shardable value `slot`. The first placement among the results of an op, or the
    /// arguments of a named computation, makes the others fully open.
    pub fn set(&mut self, module: &Module, slot: ValueId, id: PlacementId) {
        if self.current[slot.index()].is_none() {
            let siblings: &[ValueId] = match module.value(slot).def() {
                Def::Result(op, _) => module.op(op).results(),
                Def::Arg(block, _) => match module.block_parent_op(block).map(|op| module.op(op).kind()) {
                    Some(OpKind::Sdy(SdyOp::NamedComputation)) => module.block(block).args(),
                    _ => &[],
                },
            };
            if siblings.len() > 1 && siblings.iter().all(|v| self.current[v.index()].is_none()) {
                let mesh = self.placements.get(id).mesh;
                for &v in siblings {
                    let open = Placement::open(mesh, module.ty(v).rank().unwrap_or(0));
                    self.current[v.index()] = Some(self.placements.intern(open));
                }
            }
        }
        self.current[slot.index()] = Some(id);
    }

    /// The placement of result `index` of the entry function.
    pub fn func_result(&self, index: usize) -> Option<PlacementId> {
        self.results.get(index).copied().flatten()
    }

    /// Sets the placement of result `index` of the entry function.
    pub fn set_func_result(&mut self, index: usize, id: PlacementId) {
        if let Some(slot) = self.results.get_mut(index) {
            *slot = Some(id);
        }
    }

    /// Writes the placements that changed back to the module.
    pub fn store(&mut self, module: &mut Module) {
        let mut writer =
            Writer { placements: &self.placements, single: HashMap::default(), per_value: HashMap::default() };
        for op in module.all_ops(Walk::PreOrder) {
            writer.store_results(module, op, &self.current, &self.stored);
            for region in module.op(op).regions().to_vec() {
                for block in module.region(region).blocks().to_vec() {
                    let args = module.block(block).args().to_vec();
                    if args.iter().any(|v| self.current[v.index()] != self.stored[v.index()]) {
                        writer.store_args(module, op, &args, &self.current);
                    }
                }
            }
        }
        if let Some(func) = self.entry
            && self.results != self.stored_results
        {
            writer.store_func(module, func, "res_attrs", &self.results);
        }
        self.stored.clone_from(&self.current);
        self.stored_results.clone_from(&self.results);
    }
}

/// Converts placements to attributes, each one once.
struct Writer<'a> {
    placements: &'a Placements,
    single: HashMap<PlacementId, Arc<Sharding>>,
    per_value: HashMap<PlacementId, Attr>,
}

impl Writer<'_> {
    fn sharding(&mut self, id: PlacementId) -> Arc<Sharding> {
        self.single.entry(id).or_insert_with(|| Arc::new(self.placements.export(id))).clone()
    }

    fn store_results(
        &mut self,
        module: &mut Module,
        op: OpId,
        current: &[Option<PlacementId>],
        stored: &[Option<PlacementId>],
    ) {
        let results = module.op(op).results();
        if results.iter().all(|v| current[v.index()] == stored[v.index()]) {
            return;
        }
        let ids: Option<Vec<PlacementId>> = results.iter().map(|v| current[v.index()]).collect();
        let Some(ids) = ids else { return };
        let (name, attr) = match result_slot(module.op(op).kind()) {
            Slot::Single(name) => (name, Attr::Sharding(self.sharding(ids[0]))),
            Slot::PerValue(name) => (name, self.list(&ids)),
        };
        module.op_mut(op).attrs.set(name, attr);
    }

    fn list(&mut self, ids: &[PlacementId]) -> Attr {
        if let [id] = ids {
            if let Some(attr) = self.per_value.get(id) {
                return attr.clone();
            }
            let attr = Attr::ShardingPerValue([(*self.sharding(*id)).clone()].into());
            self.per_value.insert(*id, attr.clone());
            return attr;
        }
        Attr::ShardingPerValue(ids.iter().map(|&id| (*self.sharding(id)).clone()).collect())
    }

    fn store_args(&mut self, module: &mut Module, op: OpId, args: &[ValueId], current: &[Option<PlacementId>]) {
        let ids: Vec<Option<PlacementId>> = args.iter().map(|v| current[v.index()]).collect();
        match module.op(op).kind() {
            OpKind::Control(ControlOp::Func) => self.store_func(module, op, "arg_attrs", &ids),
            OpKind::Sdy(SdyOp::NamedComputation) => {
                if let Some(ids) = ids.into_iter().collect::<Option<Vec<_>>>() {
                    let attr = self.list(&ids);
                    module.op_mut(op).attrs.set("in_shardings", attr);
                }
            }
            OpKind::Sdy(SdyOp::ManualComputation) => {
                let Some(outer) = sharding_list(module, op, "in_shardings") else { return };
                let manual = manual_axes(module, op);
                let merged = outer.iter().zip(ids).map(|(outer, id)| match id {
                    Some(id) => with_manual_axes(outer, &self.sharding(id), manual),
                    None => outer.clone(),
                });
                let merged: Vec<Sharding> = merged.collect();
                module.op_mut(op).attrs.set("in_shardings", Attr::ShardingPerValue(merged.into()));
            }
            _ => {}
        }
    }

    /// Sets the placements of all arguments or results of a function at once.
    fn store_func(&mut self, module: &mut Module, func: OpId, list: &str, ids: &[Option<PlacementId>]) {
        let attrs = &mut module.op_mut(func).attrs;
        let mut slots: Vec<Attr> = attrs.get(list).and_then(Attr::as_array).map_or(vec![], <[Attr]>::to_vec);
        slots.resize_with(ids.len(), || Attr::Dict(Arc::new(AttrDict::new())));
        for (slot, &id) in slots.iter_mut().zip(ids) {
            let Some(id) = id else { continue };
            let mut dict = match slot {
                Attr::Dict(d) => (**d).clone(),
                _ => AttrDict::new(),
            };
            dict.set(SHARDING, Attr::Sharding(self.sharding(id)));
            *slot = Attr::Dict(Arc::new(dict));
        }
        attrs.set(list, Attr::Array(slots.into()));
    }
}
