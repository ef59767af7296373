//! Replaces meshes written inside shardings by symbols, and equal symbols by one.

use std::sync::Arc;

use meshwork_ir::attr::list_of_ids;
use meshwork_ir::hash::HashMap;
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, AttrDict, Module, OpId, OpSpec, Walk};
use meshwork_mesh::{Mesh, MeshRef, Sharding};

use crate::program::{
    Symbols, mesh_in_replica_groups, mesh_of_op, mesh_ops, set_mesh_in_replica_groups, transform_shardings,
};

/// Attribute of `sdy.mesh` that repeats the mesh for StableHLO.
const STABLEHLO_MESH: &str = "stablehlo.mesh";

/// Replaces meshes written inside shardings by symbols, and equal symbols by one.
pub fn lift_inlined_meshes(module: &mut Module) {
    let mut lift = Lift::new(module);
    lift.lift_shardings(module);
    lift.lift_replica_groups(module);
    for op in mesh_ops(module) {
        if let (Some(mesh), None) = (mesh_of_op(module, op), module.op(op).attr(STABLEHLO_MESH)) {
            let dict = stablehlo_mesh(mesh);
            module.op_mut(op).attrs.set(STABLEHLO_MESH, dict);
        }
    }
}

struct Lift {
    symbols: Symbols,
    /// The name to use instead of a mesh or of the name of an erased duplicate.
    new_names: HashMap<MeshRef, Arc<str>>,
    /// New meshes go after this one.
    last: Option<OpId>,
}

impl Lift {
    /// Erases duplicate meshes.
    fn new(module: &mut Module) -> Lift {
        let mut new_names: HashMap<MeshRef, Arc<str>> = HashMap::default();
        let mut last = None;
        for op in mesh_ops(module) {
            let (Some(mesh), Some(name)) = (mesh_of_op(module, op), module.symbol_name(op)) else { continue };
            let (mesh, name): (MeshRef, Arc<str>) = (mesh.clone().into(), name.into());
            match new_names.get(&mesh) {
                Some(first) => {
                    new_names.insert(name.into(), first.clone());
                    module.erase(op);
                }
                None => {
                    new_names.insert(mesh, name);
                    last = Some(op);
                }
            }
        }
        Lift { symbols: Symbols::of(module), new_names, last }
    }

    fn lift_shardings(&mut self, module: &mut Module) {
        // Collects the meshes that need a symbol before the shardings change.
        let mut inline: Vec<Arc<Mesh>> = vec![];
        transform_shardings(module, |sharding, _| {
            inline.extend(sharding.mesh.inline().cloned());
            None
        });
        for mesh in inline {
            self.name_of(module, mesh);
        }
        let new_names = &self.new_names;
        transform_shardings(module, |sharding, _| {
            let name = new_names.get(&sharding.mesh)?;
            Some(Sharding { mesh: name.clone().into(), ..sharding.clone() })
        });
    }

    fn lift_replica_groups(&mut self, module: &mut Module) {
        for op in module.all_ops(Walk::PostOrder) {
            let Some(found) = mesh_in_replica_groups(module, op) else { continue };
            let name = match found.inline().cloned() {
                None => self.new_names.get(found).cloned(),
                Some(mesh) => Some(self.name_of(module, mesh)),
            };
            if let Some(name) = name {
                set_mesh_in_replica_groups(module, op, name);
            }
        }
    }

    /// The name of the symbol for `mesh`, defined here if it is new.
    fn name_of(&mut self, module: &mut Module, mesh: Arc<Mesh>) -> Arc<str> {
        let key = MeshRef::Inline(mesh.clone());
        if let Some(name) = self.new_names.get(&key) {
            return name.clone();
        }
        let wanted = match mesh.maximal_device() {
            Some(device) => format!("maximal_mesh_{device}"),
            None if mesh.is_empty() => "empty_mesh".to_string(),
            None => "mesh".to_string(),
        };
        let spec = OpSpec::new(SdyOp::Mesh)
            .attr("sym_name", Attr::str(wanted))
            .attr("mesh", Attr::Mesh(mesh))
            .loc(module.loc.clone());
        let op = module.create(spec);
        match self.last.replace(op) {
            Some(last) => module.insert_after(last, op),
            None => module.prepend(module.body(), op),
        }
        let name: Arc<str> = self.symbols.insert(module, op).into();
        self.new_names.insert(key, name.clone());
        name
    }
}

fn stablehlo_mesh(mesh: &Mesh) -> Attr {
    let dict = |entries: AttrDict| Attr::Dict(Arc::new(entries));
    let axis = |name: &str, size| dict([("name", Attr::str(name)), ("size", Attr::i64(size))].into_iter().collect());
    let axes = mesh.axes().iter().map(|a| axis(&a.name, a.size)).collect();
    let mut entries: AttrDict = [("axes", Attr::Array(axes))].into_iter().collect();
    if let Some(ids) = mesh.device_ids() {
        entries.set("device_ids", Attr::Dense(Arc::new(list_of_ids(ids))));
    }
    dict(entries)
}
