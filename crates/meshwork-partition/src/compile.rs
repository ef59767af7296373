//! `compile`: the only way from a program to something that runs.
//!
//! A program with a mesh is placed and split over it. A program without one is for a single device and stays as it is.
//! On a mesh of one device placements say nothing: unless causes are asked for, they are dropped.

use std::sync::Arc;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::transform::tokens::{drop_border_tokens, has_border_tokens};
use meshwork_ir::transform::tuples;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, Type, Walk};
use meshwork_mesh::{Mesh, MeshRef, Sharding};
use meshwork_propagate::import::{has_gspmd, import_gspmd};
use meshwork_propagate::{Provenance, import, place_imported, place_imported_traced};
use thiserror::Error;

use crate::algorithm::Algorithms;
use crate::collective::{Collective, DEFAULT_COMBINE_BYTES, rings};
use crate::donation::{self, Donation};
use crate::layout::atoms::{Atoms, strides};
use crate::one_device::{for_one_device, without_placements};
use crate::plan::cause::{Namer, Sources};
use crate::plan::cost::Machine;
use crate::plan::{Border, PlannedCollective, sharding_of_placed};
use crate::plan::{cause, flops, memory};
use crate::split::wide::Exchange;
use crate::split::{Placed, SplitFunction, split_function};
use crate::{PartitionError, Plan, choose, collective, halos, orders, prepare, spread};

/// Why a program could not be placed and split.
#[derive(Error)]
pub enum CompileError {
    /// Propagation refused the program.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Placement(Vec<Diagnostic>),
    /// The placed program could not be split.
    #[error(transparent)]
    Partition(#[from] PartitionError),
}

meshwork_mesh::debug_as_display!(CompileError);

impl CompileError {
    /// What is wrong, at its place in the program's text.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        match self {
            CompileError::Placement(diagnostics) => diagnostics.clone(),
            CompileError::Partition(error) => vec![error.diagnostic()],
        }
    }
}

/// What the causes in a plan name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Causes {
    /// The operation that needs a collective, and why.
    #[default]
    Operations,
    /// The annotation to blame as well. Recording where placements come from makes compiling about a quarter slower.
    Annotations,
}

/// How to place and split a program.
#[derive(Clone, PartialEq, Debug)]
pub struct CompileOptions {
    /// What causes name. [`Compiled::provenance`] is there with [`Causes::Annotations`] only.
    pub causes: Causes,
    /// Independent collectives of one kind and group are combined up to this many bytes, or, where the machine has levels, as far as
    /// their latency is worth it; 0 combines none.
    pub combine_bytes: i64,
    /// Which algorithms for split dimensions are used.
    pub algorithms: Algorithms,
    /// What the program is to run on: ways to compute an operation are weighed by the time they would take there.
    pub machine: Machine,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            causes: Causes::Operations,
            combine_bytes: DEFAULT_COMBINE_BYTES,
            algorithms: Algorithms::default(),
            machine: Machine::default(),
        }
    }
}

/// A compiled program: what each device runs, and what is known about it.
pub struct Compiled {
    /// The per-device program. Its entry carries the marks of donated arguments.
    pub module: Arc<Module>,
    /// Arguments and results with their shardings, collectives with their causes, peak memory, arithmetic.
    pub plan: Plan,
    /// The mesh it runs on; `None` for a program without one, which `module` then is itself.
    pub mesh: Option<Arc<Mesh>>,
    /// The arguments whose memory the caller gives away.
    pub donation: Vec<Donation>,
    /// Where placements came from, if that was asked for.
    pub provenance: Option<Provenance>,
    /// The global program with a placement on every value; for one device, without causes, it has none.
    pub placed: Module,
    /// Warnings of propagation.
    pub warnings: Vec<Diagnostic>,
}

impl Compiled {
    /// The global arguments: names, types, and how each is cut into the local ones. Tokens are not among them.
    pub fn inputs(&self) -> &[Border] {
        &self.plan.arguments
    }

    /// The global results: names, types, and how the local ones make up each of them. Tokens are not among them.
    pub fn outputs(&self) -> &[Border] {
        &self.plan.results
    }

    /// How many devices it runs on.
    pub fn devices(&self) -> usize {
        self.plan.devices() as usize
    }
}

/// Compiles the entry function of `module`: places every value, and splits the program over its mesh in the way that
/// takes the least time by the model of `plan::cost`.
pub fn compile(module: &Module, options: &CompileOptions) -> Result<Compiled, CompileError> {
    let entry = entry_of(module)?;
    if has_border_tokens(module, entry) {
        let mut plain = module.clone();
        drop_border_tokens(&mut plain, entry);
        return compile(&plain, options);
    }
    if has_gspmd(module) {
        let (mut read, mut diagnostics) = (module.clone(), vec![]);
        return match import_gspmd(&mut read, &mut diagnostics) {
            Ok(()) => compile(&read, options),
            Err(Failed) => Err(CompileError::Placement(diagnostics)),
        };
    }
    if !has_mesh(module) {
        return for_one_device(module.clone(), None, options);
    }
    let one_device = is_for_one_device(module);
    if one_device && options.causes == Causes::Operations {
        return for_one_device(without_placements(module), mesh_of(module), options);
    }
    match choose::compile_on_mesh(module, options) {
        // One device needs no splitting.
        Err(CompileError::Partition(PartitionError::Unsupported { .. })) if one_device => {
            for_one_device(module.clone(), mesh_of(module), options)
        }
        other => other,
    }
}

pub(crate) fn entry_of(module: &Module) -> Result<OpId, PartitionError> {
    module.entry().ok_or_else(|| PartitionError::Invalid {
        op: "module".into(),
        what: match module.funcs().count() {
            0 => "has no function".into(),
            n => format!("has no function @main, and {n} others to choose from"),
        },
    })
}

/// The mesh that the shardings of `module` refer to: the only one, or the only one with axes.
pub fn mesh_of(module: &Module) -> Option<(String, Mesh)> {
    let meshes = module.ops_in(module.body()).filter(|&op| module.op(op).kind() == SdyOp::Mesh);
    let found = meshes.filter_map(|op| match module.op(op).attr("mesh") {
        Some(Attr::Mesh(mesh)) if !mesh.axes().is_empty() => {
            Some((module.symbol_name(op)?.to_string(), (**mesh).clone()))
        }
        _ => None,
    });
    let found: Vec<(String, Mesh)> = found.collect();
    let manual = if found.len() > 1 { manual_meshes(module) } else { vec![] };
    // Of meshes over the same devices, manual computations with free axes must be on this one; else the one in plain
    // order is the easiest to work with.
    let key = |(name, mesh): &(String, Mesh)| {
        (mesh.device_count(), manual.contains(&name.as_str()), mesh.device_ids().is_none())
    };
    found.into_iter().max_by_key(key)
}

/// The meshes of the manual computations of `module`.
fn manual_meshes(module: &Module) -> Vec<&str> {
    let ops = module.all_ops(Walk::PreOrder).into_iter().filter(|&op| module.op(op).kind() == SdyOp::ManualComputation);
    let lists = ops.flat_map(|op| ["in_shardings", "out_shardings"].map(|name| module.op(op).attr(name)));
    let first = lists.filter_map(|attr| match attr {
        Some(Attr::ShardingPerValue(list)) => list.first()?.mesh.symbol(),
        _ => None,
    });
    first.map(|name| &**name).collect()
}

/// Whether every mesh of `module` has one device.
fn is_for_one_device(module: &Module) -> bool {
    let is_one = |s: &Sharding| s.mesh.inline().is_none_or(|mesh| mesh.device_count() == 1);
    mesh_of(module).is_some_and(|(_, mesh)| mesh.device_count() == 1) && shardings(module).into_iter().all(is_one)
}

/// Whether `module` declares a mesh with axes, or a sharding in it brings its own.
fn has_mesh(module: &Module) -> bool {
    let is_inline = |s: &Sharding| s.mesh.inline().is_some_and(|mesh| !mesh.axes().is_empty());
    mesh_of(module).is_some() || shardings(module).into_iter().any(is_inline)
}

/// Every sharding in `module`, those of arguments and results of a function before those inside it.
fn shardings(module: &Module) -> Vec<&Sharding> {
    let mut attrs: Vec<&Attr> = vec![];
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() == ControlOp::Func {
            let ty = module.func_type(op);
            attrs.extend((0..ty.inputs.len()).filter_map(|i| module.arg_attr(op, i, "sdy.sharding")));
            attrs.extend((0..ty.results.len()).filter_map(|i| module.res_attr(op, i, "sdy.sharding")));
        }
        attrs.extend(module.op(op).attrs.iter().map(|(_, attr)| attr));
    }
    let all = attrs.into_iter().flat_map(|attr| match attr {
        Attr::Sharding(s) => std::slice::from_ref(&**s),
        Attr::ShardingPerValue(list) => list,
        _ => &[],
    });
    all.collect()
}

/// The strides at which the shardings of `module` cut `mesh`.
pub(crate) fn cuts(module: &Module, mesh: &Mesh) -> Vec<i64> {
    let own = |s: &Sharding| match &s.mesh {
        MeshRef::Inline(mesh) => Some(mesh.clone()),
        MeshRef::Symbol(name) => match module.op(module.symbol(name)?).attr("mesh")? {
            Attr::Mesh(mesh) => Some(mesh.clone()),
            _ => None,
        },
    };
    let on_mesh = |s: &Sharding| own(s).is_some_and(|own| own.same_axes(mesh));
    // Few shardings have sub-axes: only for these the mesh is looked up.
    let has_sub_axes = |s: &Sharding| s.axes().any(|axis| !axis.is_full());
    let cutting = shardings(module).into_iter().filter(|s| has_sub_axes(s) && on_mesh(s));
    let axes = cutting.flat_map(Sharding::axes).filter(|axis| !axis.is_full());
    axes.filter_map(|axis| strides(mesh, axis)).flat_map(|(low, high)| [low, high]).collect()
}

/// A program whose values have their placements.
pub(crate) struct Spread {
    /// The program.
    pub(crate) module: Module,
    warnings: Vec<Diagnostic>,
    provenance: Option<Provenance>,
}

/// Places and splits `placed`, which was imported from the program as `written`.
pub(crate) fn compile_imported(
    written: &Module,
    placed: Module,
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    split(written, place(placed, options)?, options)
}

/// Places `module`, which was imported.
pub(crate) fn place(mut module: Module, options: &CompileOptions) -> Result<Spread, CompileError> {
    #[cfg(feature = "tracing")]
    let _span = tracing::info_span!("place").entered();
    let (warnings, provenance) = match options.causes {
        Causes::Operations => (place_imported(&mut module).map_err(CompileError::Placement)?, None),
        Causes::Annotations => {
            let (warnings, provenance) = place_imported_traced(&mut module).map_err(CompileError::Placement)?;
            (warnings, Some(provenance))
        }
    };
    Ok(Spread { module, warnings, provenance })
}

/// Splits what was placed, of the program as `written`.
pub(crate) fn split(written: &Module, placed: Spread, options: &CompileOptions) -> Result<Compiled, CompileError> {
    #[cfg(feature = "tracing")]
    let _span = tracing::info_span!("split").entered();
    let Spread { module: mut placed, warnings, provenance } = placed;
    spread::forget_rules(&mut placed);
    prepare::prepare(&mut placed);
    let sources = provenance.as_ref().map(|provenance| Sources { written, provenance });
    let (module, plan) = split_placed(&placed, sources, options)?;
    let donation = module.entry().map_or(vec![], |entry| donation::of(&module, entry));
    let mesh = Some(Arc::new(plan.mesh.clone()));
    Ok(Compiled { module: Arc::new(module), plan, mesh, donation, provenance, placed, warnings })
}

/// The import passes, which all ways to place a program share.
pub(crate) fn imported(module: &Module) -> Result<(Module, Vec<Diagnostic>), CompileError> {
    #[cfg(feature = "tracing")]
    let _span = tracing::info_span!("import").entered();
    let mut imported = module.clone();
    // Placements are on arrays.
    tuples::forward(&mut imported);
    orders::unify(&mut imported);
    let warnings = import(&mut imported).map_err(CompileError::Placement)?;
    Ok((imported, warnings))
}

/// The largest mesh for which collectives are written: each lists every device.
const MAX_LISTED: i64 = 1 << 22;

/// Splits the entry function of `placed`, whose values have their final placements. With `sources`, causes name the
/// annotations.
fn split_placed(
    placed: &Module,
    sources: Option<Sources<'_>>,
    options: &CompileOptions,
) -> Result<(Module, Plan), PartitionError> {
    let func = entry_of(placed)?;
    let (name, mesh) = mesh_of(placed).unwrap_or_else(|| ("mesh".into(), Mesh::empty()));
    let atoms = Atoms::cut(&mesh, &options.machine.links, cuts(placed, &mesh));
    let network = (!options.machine.links.levels.is_empty() && options.machine.host.is_none())
        .then_some((&options.machine, &atoms));
    let limit = collective::Limit { bytes: options.combine_bytes, network };
    let namer = Namer { program: placed, sources };
    let ty = placed.func_type(func);
    let build = |exchange: Exchange| {
        let split = split_function(placed, func, &atoms, &options.machine, &options.algorithms, exchange)?;
        let SplitFunction { module: mut local, mut collectives, inputs, outputs, halos } = split;
        collective::optimize::optimize(&mut local, &mut collectives, &limit, options.machine.device.capacity);
        if mesh.device_count() > MAX_LISTED && !collectives.is_empty() {
            let what = format!(
                "mesh @{name} has {} devices; collectives, which list them all, are written for at most {MAX_LISTED}",
                mesh.device_count()
            );
            return Err(PartitionError::Unsupported { op: placed.place(func), what });
        }
        let shardings =
            |all: &[Placed]| all.iter().map(|p| Arc::new(sharding_of_placed(p, &name, &atoms))).collect::<Vec<_>>();
        let (inputs, outputs) = (shardings(&inputs), shardings(&outputs));
        let finish = |(mut local, collectives): (Module, Vec<Collective>)| {
            collective::write_device_lists(&mut local, &collectives, &atoms);
            donation::carry(placed, func, &mut local);
            let collectives = collectives.into_iter().map(|c| PlannedCollective::new(c, &atoms, &namer)).collect();
            let local_func = local.entry();
            let plan = Plan {
                arguments: borders(&ty.inputs, inputs.clone(), |i| argument_label(placed, func, i)),
                results: borders(&ty.results, outputs.clone(), |i| result_label(placed, func, i)),
                collectives,
                peak: local_func.map(|f| memory::peak(&local, f)).unwrap_or_default(),
                flops: local_func.map_or(0.0, |f| flops::flops(&local, f)),
                mesh: mesh.clone(),
            };
            (local, plan)
        };
        let (module, plan) = rings::choose((local, collectives), &atoms, options, finish);
        Ok((module, plan, halos))
    };
    halos::choose(options, build)
}

pub(crate) fn borders(
    types: &[Type],
    shardings: Vec<Arc<Sharding>>,
    name: impl Fn(usize) -> Option<String>,
) -> Vec<Border> {
    let all = types.iter().zip(shardings).enumerate();
    all.map(|(i, (ty, sharding))| Border { name: name(i).unwrap_or_default(), ty: ty.clone(), sharding }).collect()
}

pub(crate) fn argument_label(module: &Module, func: OpId, index: usize) -> Option<String> {
    let body = module.body_of(func, 0)?;
    module.block(body).arg_locs.get(index).and_then(cause::loc_name).map(str::to_string)
}

/// JAX notes the path of each result in the tree it returns.
pub(crate) fn result_label(module: &Module, func: OpId, index: usize) -> Option<String> {
    module.res_attr(func, index, "jax.result_info").and_then(Attr::as_str).map(str::to_string)
}
