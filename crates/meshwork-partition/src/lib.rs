//! Splits a program whose values have placements into one per-device program with collectives.
//!
//! The README beside this file explains atoms, frames, layouts and forms, with a worked example.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod atoms;
pub mod cause;
mod choose;
pub mod collective;
mod combine;
pub mod contract;
pub mod cost;
mod emit;
mod error;
pub mod explain;
mod fetch;
pub mod flops;
mod frames;
mod identity;
pub mod json;
pub mod layout;
pub mod lock;
pub mod memory;
pub mod meshes;
mod moves;
pub mod optimize;
mod pass;
pub mod plan;
mod prepare;
mod reshard;
pub mod run;
pub mod shards;
mod split;
mod strategy;
pub mod tell;
pub mod xla;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module, OpKind, Type};
use meshwork_mesh::{Mesh, Sharding};

pub use choose::{CompileError, CompileOptions, Compiled, Trace, compile, compile_with};
pub use contract::{Contract, ContractViolation};
pub use error::PartitionError;
pub use lock::Lock;
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
    let meshes = module.ops_in(module.body()).filter(|&op| module.op(op).kind() == OpKind::Sdy(SdyOp::Mesh));
    let found = meshes.filter_map(|op| match module.op(op).attr("mesh") {
        Some(Attr::Mesh(mesh)) if !mesh.axes().is_empty() => {
            Some((module.symbol_name(op)?.to_string(), (**mesh).clone()))
        }
        _ => None,
    });
    // Of meshes over the same devices the one in plain order is the easiest to work with.
    found.max_by_key(|(_, mesh)| (mesh.device_count(), mesh.device_ids().is_none()))
}

/// The largest mesh for which collectives are written: each lists every device.
const MAX_LISTED: i64 = 1 << 22;

/// Splits the entry function of `module`, whose values have their final placements.
pub fn partition(module: &Module) -> Result<Partitioned, PartitionError> {
    partition_with(module, None, &CompileOptions::default())
}

/// Splits as [`partition`] does. With `sources`, causes name the annotations; collectives are combined, and ways to
/// compute an operation weighed, as `options` say.
pub fn partition_with(
    module: &Module,
    sources: Option<cause::Sources<'_>>,
    options: &CompileOptions,
) -> Result<Partitioned, PartitionError> {
    let Some(func) = module.entry() else {
        return Err(PartitionError::Invalid {
            op: "module".into(),
            what: match module.funcs().count() {
                0 => "has no function".into(),
                n => format!("has no function @main, and {n} others to choose from"),
            },
        });
    };
    let (name, mesh) = mesh_of(module).unwrap_or_else(|| ("mesh".into(), Mesh::empty()));
    let atoms = Atoms::linked(&mesh, &options.machine.links);
    let split = split::split_function(module, func, &atoms, &options.machine)?;
    let (mut local, mut collectives) = (split.mover.e.out, split.mover.collectives);
    optimize::optimize(&mut local, &mut collectives, options.combine_bytes);
    if mesh.device_count() > MAX_LISTED && !collectives.is_empty() {
        let what = format!(
            "mesh @{name} has {} devices; collectives, which list them all, are written for at most {MAX_LISTED}",
            mesh.device_count()
        );
        return Err(PartitionError::Unsupported { op: module.place(func), what });
    }
    collective::write_device_lists(&mut local, &collectives, &atoms);
    let as_shardings = |all: &[split::Placed]| all.iter().map(|p| plan::sharding_of_placed(p, &name, &atoms)).collect();
    let (inputs, outputs): (Vec<Sharding>, Vec<Sharding>) = (as_shardings(&split.inputs), as_shardings(&split.outputs));
    let namer = cause::Namer { program: module, sources };
    let collectives = collectives.into_iter().map(|c| plan::PlannedCollective::new(c, &atoms, &namer)).collect();
    let local_func = local.entry();
    let plan = Plan {
        mesh: mesh.clone(),
        arguments: borders(&module.func_type(func).inputs, &inputs, |i| argument_label(module, func, i)),
        results: borders(&module.func_type(func).results, &outputs, |i| result_label(module, func, i)),
        collectives,
        peak: local_func.map(|f| memory::peak(&local, f)).unwrap_or_default(),
        flops: local_func.map_or(0.0, |f| flops::flops(&local, f)),
    };
    Ok(Partitioned { module: local, plan, mesh, inputs, outputs })
}

fn borders(types: &[Type], shardings: &[Sharding], name: impl Fn(usize) -> Option<String>) -> Vec<plan::Border> {
    let all = types.iter().zip(shardings).enumerate();
    all.map(|(i, (ty, sharding))| plan::Border {
        name: name(i).unwrap_or_default(),
        ty: ty.clone(),
        sharding: sharding.clone(),
    })
    .collect()
}

fn argument_label(module: &Module, func: meshwork_ir::OpId, index: usize) -> Option<String> {
    let body = module.body_of(func, 0)?;
    module.block(body).arg_locs.get(index).and_then(cause::loc_name).map(str::to_string)
}

/// JAX notes the path of each result in the tree it returns.
fn result_label(module: &Module, func: meshwork_ir::OpId, index: usize) -> Option<String> {
    module.res_attr(func, index, "jax.result_info").and_then(Attr::as_str).map(str::to_string)
}
