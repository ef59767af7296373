//! Turns a program on global arrays into the program that each device runs on its shards.
//!
//! Every value gets the type of its shard. Most ops then compute on shards as they did on whole arrays; those that do
//! not are rewritten, one file for each family. Placements must fit: reshards are collectives already, and all
//! shards are of equal size.
//!
//! Invariants: `Local` knows the placement and the global type of every value of the program before, and of every value
//! that replaces one; values made in between have neither and are local.

mod collective;
mod contract;
pub(crate) mod device;
mod gather;
pub(crate) mod groups;
pub(crate) mod indices;
mod movement;
mod pad;
mod scatter;
mod source;
mod window;

use std::collections::HashMap;

use meshwork_ir::op::{BodyOp, ContractOp, ControlOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Diagnostic, Failed, FunctionType, Module, OpId, OpKind, Pass, PassOptions, Type, ValueId, Walk};
use meshwork_mesh::{AxisRef, Mesh, Sharding};
use meshwork_propagate::program::{Meshes, func_result_sharding, sharding_of};

use self::device::DeviceId;
use super::rewrite::{Channels, Problem, own_values};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-convert-global-to-local",
    summary: "Turn a program on global arrays into the one that each device runs",
    options: &[
        ("per-dim-all-gather", "gather one dimension after the other (default false: all at once)"),
        ("combine-multi-dimension-reduce-scatter", "scatter several dimensions at once (default false)"),
        ("enable-rgv3", "write replica groups as mesh axes where these are whole (default false)"),
        ("replica-count", "number of replicas (default 1)"),
        ("partition-count", "number of partitions (default 1)"),
    ],
    run,
};

/// What is known of a value of the program before.
#[derive(Clone)]
struct Known {
    sharding: Option<Sharding>,
    global: Type,
}

/// The state of the pass.
pub(crate) struct Local {
    meshes: Meshes,
    known: HashMap<ValueId, Known>,
    device_id: DeviceId,
    per_dim_all_gather: bool,
    combine_reduce_scatter: bool,
    groups_by_axes: bool,
    channels: Channels,
}

fn run(module: &mut Module, options: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let device_id = DeviceId::of(options, diags)?;
    let mut cx = Local {
        meshes: Meshes::of(module),
        known: HashMap::new(),
        device_id,
        per_dim_all_gather: options.flag("per-dim-all-gather"),
        combine_reduce_scatter: options.flag("combine-multi-dimension-reduce-scatter"),
        groups_by_axes: options.flag("enable-rgv3"),
        channels: Channels::unused(module),
    };
    for func in module.funcs().collect::<Vec<_>>() {
        cx.localize_func(module, func).map_err(|(op, problem)| problem.report(module, op, diags))?;
    }
    Ok(())
}

impl Local {
    fn localize_func(&mut self, module: &mut Module, func: OpId) -> Result<(), (OpId, Problem)> {
        let ops = module.ops_below(func, Walk::PreOrder);
        for &op in &ops {
            for value in own_values(module, op) {
                let known = Known { sharding: sharding_of(module, value), global: module.ty(value).clone() };
                self.known.insert(value, known);
            }
        }
        for &op in &ops {
            self.set_local_types(module, op).map_err(|problem| (op, problem))?;
        }
        for &op in &ops {
            // A rewrite may erase ops that belong to it.
            if !module.is_erased(op) {
                self.localize_op(module, op).map_err(|problem| (op, problem))?;
            }
        }
        // Inner ones first, and only now: what is inside sees placements without the manual axes.
        for op in ops.into_iter().rev() {
            if module.op(op).kind() == SdyOp::ManualComputation && !module.is_erased(op) {
                inline_body(module, op);
            }
        }
        Ok(())
    }

    fn set_local_types(&self, module: &mut Module, op: OpId) -> Result<(), Problem> {
        for value in own_values(module, op) {
            let ty = self.local_type(module.ty(value), self.sharding(value))?;
            module.set_ty(value, ty);
        }
        if module.op(op).kind() == ControlOp::Func {
            let ty = module.func_type(op);
            let args = module.body_of(op, 0).map_or(&[][..], |body| module.block(body).args());
            let results = ty.results.iter().enumerate();
            let results: Result<Vec<Type>, Problem> =
                results.map(|(i, ty)| self.local_type(ty, func_result_sharding(module, op, i))).collect();
            let inputs = if args.is_empty() { ty.inputs } else { args.iter().map(|&v| module.ty(v).clone()).collect() };
            module.set_func_type(op, FunctionType { inputs, results: results? });
        }
        Ok(())
    }

    /// The type of a shard.
    fn local_type(&self, ty: &Type, sharding: Option<&Sharding>) -> Result<Type, Problem> {
        let (Type::Tensor(tensor), Some(sharding)) = (ty, sharding) else { return Ok(ty.clone()) };
        let Some(mesh) = self.meshes.mesh(sharding) else { return Ok(ty.clone()) };
        if mesh.is_maximal() {
            return Ok(ty.clone());
        }
        let mut dims = tensor.dims.to_vec();
        for (i, (size, dim)) in dims.iter_mut().zip(&sharding.dims).enumerate() {
            let shards = dim.num_shards(mesh);
            if *size >= 0 && *size % shards != 0 {
                return Err(format!(
                    "dimension {i} of {ty} does not divide into {shards} shards ({sharding}); run sdy-pad-for-divisibility first"
                )
                .into());
            }
            if *size >= 0 {
                *size /= shards;
            }
        }
        Ok(Type::from(tensor.with_dims(dims)))
    }

    /// The placement that `value` had.
    fn sharding(&self, value: ValueId) -> Option<&Sharding> {
        self.known.get(&value)?.sharding.as_ref()
    }

    /// The placement that `value` had, if it splits a dimension, with its mesh.
    fn split(&self, value: ValueId) -> Option<(&Sharding, &Mesh)> {
        let sharding = self.sharding(value).filter(|s| !s.is_fully_replicated())?;
        Some((sharding, self.meshes.mesh(sharding)?))
    }

    /// The axes that split dimension `dim` of `value`.
    fn axes(&self, value: ValueId, dim: usize) -> &[AxisRef] {
        self.sharding(value).and_then(|s| s.dims.get(dim)).map_or(&[], |d| &d.axes)
    }

    /// The extents of the whole array.
    fn global_dims(&self, value: ValueId) -> &[i64] {
        self.known.get(&value).map_or(&[], |known| known.global.dims())
    }

    /// Replaces the results of `op` and erases it; what was known of a result is then known of its replacement.
    fn replace(&mut self, module: &mut Module, op: OpId, values: &[ValueId]) {
        for (old, &new) in module.op(op).results().to_vec().into_iter().zip(values) {
            if let Some(known) = self.known.get(&old).cloned() {
                self.known.insert(new, known);
            }
        }
        module.replace_op(op, values);
    }

    /// Rewrites one op; its results and operands have local types already.
    fn localize_op(&mut self, module: &mut Module, op: OpId) -> Result<(), Problem> {
        match module.op(op).kind() {
            OpKind::Sdy(SdyOp::AllGather) => collective::all_gather(self, module, op),
            OpKind::Sdy(SdyOp::AllReduce) => collective::all_reduce(self, module, op),
            OpKind::Sdy(SdyOp::AllSlice) => collective::all_slice(self, module, op),
            OpKind::Sdy(SdyOp::AllToAll) => collective::all_to_all(self, module, op),
            OpKind::Sdy(SdyOp::CollectivePermute) => collective::permute(self, module, op),
            OpKind::Sdy(SdyOp::ReduceScatter) => collective::reduce_scatter(self, module, op),
            OpKind::Sdy(SdyOp::Constant) | OpKind::Source(SourceOp::Constant) => source::constant(self, module, op),
            OpKind::Source(SourceOp::Iota) => source::iota(self, module, op),
            OpKind::Contract(ContractOp::Dot | ContractOp::DotGeneral) => contract::check_dot(self, module, op),
            OpKind::Contract(ContractOp::Convolution) => contract::convolution(self, module, op),
            OpKind::Movement(MovementOp::Gather) => gather::gather(self, module, op),
            OpKind::Body(BodyOp::Scatter) => scatter::scatter(self, module, op),
            OpKind::Movement(MovementOp::Pad) => pad::pad(self, module, op),
            OpKind::Movement(MovementOp::Slice) => movement::slice(self, module, op),
            OpKind::Movement(MovementOp::DynamicSlice) => movement::dynamic_slice(self, module, op),
            OpKind::Movement(MovementOp::Concatenate) => movement::check_concatenate(self, module, op),
            OpKind::Body(BodyOp::ReduceWindow | BodyOp::SelectAndScatter) => window::check(self, module, op),
            OpKind::Sdy(
                SdyOp::Reshard
                | SdyOp::ShardingConstraint
                | SdyOp::DataFlowEdge
                | SdyOp::FuncDataFlowEdge
                | SdyOp::PropagationBarrier
                | SdyOp::ShardingGroup
                | SdyOp::ShardedToUnreduced
                | SdyOp::ReplicatedToUnreduced,
            ) => {
                Err("has no counterpart on shards; run sdy-reshard-to-collectives and the passes before it first"
                    .into())
            }
            _ => Ok(()),
        }
    }
}

/// Replaces a manual computation by its body.
fn inline_body(module: &mut Module, op: OpId) {
    let Some(body) = module.body_of(op, 0) else { return };
    let args: Vec<ValueId> = module.block(body).args().to_vec();
    for (arg, operand) in args.into_iter().zip(module.op(op).operands().to_vec()) {
        module.replace_all_uses(arg, operand);
    }
    let results = module.op(op).results().to_vec();
    for (result, value) in results.into_iter().zip(module.returned(body).to_vec()) {
        module.replace_all_uses(result, value);
    }
    for inner in module.op_list(body) {
        if module.op(inner).kind() != SdyOp::Return {
            module.move_before(inner, op);
        }
    }
    module.erase(op);
}
