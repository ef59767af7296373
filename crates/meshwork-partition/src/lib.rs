//! Splits a program whose values have placements into one per-device program with collectives.
//!
//! The README beside this file explains atoms, frames, layouts and forms, with a worked example.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod atoms;
mod choose;
pub mod collective;
mod emit;
mod error;
pub mod explain;
mod fetch;
mod frames;
mod identity;
pub mod layout;
pub mod memory;
mod moves;
mod pass;
pub mod plan;
mod prepare;
mod reshard;
pub mod run;
pub mod shards;
mod split;
mod strategy;

use meshwork_ir::{Module, OpKind};
use meshwork_mesh::{Mesh, Sharding};

pub use choose::{CompileError, Compiled, compile};
pub use error::PartitionError;
pub use pass::PASS;
pub use plan::Plan;
pub use prepare::prepare;

use crate::atoms::Atoms;

/// A partitioned program.
pub struct Partitioned {
    /// The per-device program.
    pub module: Module,
    /// What was inserted and why.
    pub plan: Plan,
    /// The mesh it runs on.
    pub mesh: Mesh,
    /// How the global arguments are cut into the local ones.
    pub inputs: Vec<Sharding>,
    /// How the local results make up the global ones.
    pub outputs: Vec<Sharding>,
}

/// The mesh that the shardings of `module` refer to: the only one, or the only one with axes.
pub fn mesh_of(module: &Module) -> Option<(String, Mesh)> {
    let meshes = module.ops_in(module.body()).filter(|&op| module.op(op).kind() == OpKind::SdyMesh);
    let found = meshes.filter_map(|op| match module.op(op).attr("mesh") {
        Some(meshwork_ir::Attr::Mesh(mesh)) if !mesh.axes().is_empty() => {
            Some((module.symbol_name(op)?.to_string(), (**mesh).clone()))
        }
        _ => None,
    });
    found.max_by_key(|(_, mesh)| mesh.device_count())
}

/// Splits the entry function of `module`, whose values have their final placements.
pub fn partition(module: &Module) -> Result<Partitioned, PartitionError> {
    let Some(func) = module.entry() else {
        return Err(PartitionError::Invalid {
            op: "module".into(),
            what: "has no function @main, and more than one function to choose from".into(),
        });
    };
    let (name, mesh) = mesh_of(module).unwrap_or_else(|| ("mesh".into(), Mesh::empty()));
    let atoms = Atoms::of(&mesh);
    let mut split = split::split_function(module, func, &atoms)?;
    split.mover.write_device_lists();
    let as_shardings =
        |layouts: &[layout::Layout]| layouts.iter().map(|l| plan::sharding_of_layout(l, &name, &atoms)).collect();
    let (inputs, outputs) = (as_shardings(&split.inputs), as_shardings(&split.outputs));
    let collectives =
        std::mem::take(&mut split.mover.collectives).into_iter().map(|c| plan::planned(c, &atoms)).collect();
    let module = split.mover.e.out;
    let peak = module.entry().map(|f| memory::peak(&module, f)).unwrap_or_default();
    let plan = Plan { devices: mesh.device_count(), collectives, peak };
    Ok(Partitioned { module, plan, mesh, inputs, outputs })
}
