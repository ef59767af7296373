//! Pads values whose shards are uneven at the high end, so that all shards are of one size.
//!
//! The content of the padding is unspecified. It matters only where an op mixes it in: there it is first set to the
//! identity of that op. Arguments and results of functions must divide evenly, so that padding never leaves a function.
//!
//! Invariants: `Padding` knows the type that every value had before; a value is padded where its type differs from
//! that. `zeros` are values whose padding is known to be zero.

mod collective;
mod mask;
mod ops;

use std::collections::{HashMap, HashSet};

use meshwork_ir::build::Builder;
use meshwork_ir::infer::infer_op;
use meshwork_ir::op::{BodyOp, ContractOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Diagnostic, Failed, Module, OpId, OpKind, Pass, PassOptions, Type, ValueId, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{
    Meshes, func_result_sharding, manual_axes, only_manual_axes, set_sharding, sharding_list, sharding_of,
};

use super::rewrite::{Problem, before, own_values, tensor};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-pad-for-divisibility",
    summary: "Pad values so that all their shards are of one size",
    options: &[],
    run,
};

/// The state of the pass.
struct Padding {
    meshes: Meshes,
    originals: HashMap<ValueId, Type>,
    /// Values whose padding is zero.
    zeros: HashSet<ValueId>,
}

fn run(module: &mut Module, _: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let mut cx = Padding { meshes: Meshes::of(module), originals: HashMap::new(), zeros: HashSet::new() };
    for func in module.funcs().collect::<Vec<_>>() {
        cx.pad_func(module, func).map_err(|(op, problem)| problem.report(module, op, diags))?;
    }
    Ok(())
}

impl Padding {
    fn pad_func(&mut self, module: &mut Module, func: OpId) -> Result<(), (OpId, Problem)> {
        self.check_boundary(module, func).map_err(|problem| (func, problem))?;
        let ops = module.ops_below(func, Walk::PreOrder);
        for &op in &ops {
            for value in own_values(module, op) {
                self.originals.insert(value, module.ty(value).clone());
            }
        }
        for op in ops.into_iter().filter(|&op| op != func) {
            self.pad_op(module, op).map_err(|problem| (op, problem))?;
        }
        Ok(())
    }

    fn check_boundary(&self, module: &Module, func: OpId) -> Result<(), Problem> {
        let uneven = |what: &str, i: usize, ty: &Type, sharding: &Sharding| {
            Problem(format!(
                "{what} #{i} has a non-divisible sharding: {ty} by {sharding}; run \
                 sdy-update-non-divisible-input-output-shardings first"
            ))
        };
        let args = module.body_of(func, 0).map_or(&[][..], |body| module.block(body).args());
        for (i, &arg) in args.iter().enumerate() {
            if let Some(sharding) = sharding_of(module, arg).filter(|s| self.is_uneven(module.ty(arg), s)) {
                return Err(uneven("argument", i, module.ty(arg), &sharding));
            }
        }
        for (i, ty) in module.func_type(func).results.iter().enumerate() {
            if let Some(sharding) = func_result_sharding(module, func, i).filter(|s| self.is_uneven(ty, s)) {
                return Err(uneven("result", i, ty, sharding));
            }
        }
        Ok(())
    }

    fn is_uneven(&self, ty: &Type, sharding: &Sharding) -> bool {
        self.padded(ty, Some(sharding)) != *ty
    }

    /// The smallest type that divides evenly.
    fn padded(&self, ty: &Type, sharding: Option<&Sharding>) -> Type {
        let (Type::Tensor(tensor), Some(sharding)) = (ty, sharding) else { return ty.clone() };
        let Some(mesh) = self.meshes.mesh(sharding).filter(|mesh| !mesh.is_maximal()) else { return ty.clone() };
        let dims = tensor.dims.iter().zip(&sharding.dims).map(|(&size, dim)| {
            let shards = dim.num_shards(mesh).max(1);
            if size < 0 { size } else { (size + shards - 1) / shards * shards }
        });
        let dims: Vec<i64> = dims.collect();
        if dims.len() == tensor.rank() { Type::from(tensor.with_dims(dims)) } else { ty.clone() }
    }

    /// The type of `value` before.
    fn original<'a>(&'a self, module: &'a Module, value: ValueId) -> &'a Type {
        self.originals.get(&value).unwrap_or_else(|| module.ty(value))
    }

    fn is_padded(&self, module: &Module, value: ValueId) -> bool {
        self.original(module, value) != module.ty(value)
    }

    /// Replaces `old` by `new` in all uses but those of the op that makes `new`.
    fn stand_in(&mut self, module: &mut Module, old: ValueId, new: ValueId) {
        let original = self.original(module, old).clone();
        self.originals.insert(new, original);
        module.replace_uses_if(old, new, |m, u| m.op(u.op).results().first() != Some(&new));
    }

    fn pad_op(&mut self, module: &mut Module, op: OpId) -> Result<(), Problem> {
        let values = own_values(module, op);
        let touched =
            values.iter().any(|&v| self.padded(module.ty(v), sharding_of(module, v).as_ref()) != *module.ty(v))
                || module.op(op).operands().iter().any(|&v| self.is_padded(module, v));
        if !touched {
            return Ok(());
        }
        match module.op(op).kind() {
            OpKind::Sdy(SdyOp::AllGather) => collective::all_gather(self, module, op),
            OpKind::Sdy(SdyOp::AllSlice | SdyOp::ReduceScatter) => collective::all_slice(self, module, op),
            OpKind::Sdy(SdyOp::AllToAll) => collective::all_to_all(self, module, op),
            OpKind::Sdy(SdyOp::ManualComputation) => self.check_manual(module, op),
            OpKind::Movement(MovementOp::Slice) => ops::slice(self, module, op),
            OpKind::Movement(MovementOp::Pad) => ops::pad(self, module, op),
            OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot) => ops::dot(self, module, op),
            OpKind::Contract(ContractOp::Convolution) => ops::convolution(self, module, op),
            OpKind::Body(BodyOp::Reduce) => ops::reduce(self, module, op),
            OpKind::Body(BodyOp::Scatter) => ops::scatter(self, module, op),
            OpKind::Movement(MovementOp::Gather | MovementOp::DynamicSlice) => ops::take(self, module, op),
            OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant) => ops::constant(self, module, op),
            kind if kind.is_terminator() => Ok(()),
            _ => {
                self.set_padded_types(module, op);
                Ok(())
            }
        }
    }

    /// Gives results and block arguments the types that divide evenly, or larger ones where operands make them so.
    fn set_padded_types(&self, module: &mut Module, op: OpId) {
        for value in own_values(module, op) {
            let ty = self.padded(module.ty(value), sharding_of(module, value).as_ref());
            module.set_ty(value, ty);
        }
        let Ok(inferred) = infer_op(module, op) else { return };
        for (value, ty) in module.op(op).results().to_vec().into_iter().zip(inferred) {
            if let (Type::Tensor(a), Type::Tensor(b)) = (module.ty(value), &ty) {
                let dims: Vec<i64> = a.dims.iter().zip(&b.dims).map(|(&a, &b)| a.max(b)).collect();
                module.set_ty(value, Type::from(a.with_dims(dims)));
            }
        }
    }

    /// Padding goes to the end of the whole array; a manual computation whose own parts are uneven would need it
    /// inside.
    fn check_manual(&self, module: &Module, op: OpId) -> Result<(), Problem> {
        let manual = manual_axes(module, op);
        let lists = [
            (sharding_list(module, op, "in_shardings"), module.op(op).operands()),
            (sharding_list(module, op, "out_shardings"), module.op(op).results()),
        ];
        for (shardings, values) in lists {
            for (sharding, &value) in shardings.unwrap_or(&[]).iter().zip(values) {
                let ty = self.original(module, value);
                let is_free = only_manual_axes(sharding, manual).dims.iter().all(|d| d.axes.is_empty());
                if self.is_uneven(ty, sharding) && !is_free {
                    return Err(format!("splits {ty} unevenly within its manual axes ({sharding})").into());
                }
            }
        }
        Ok(())
    }

    /// Pads `value` with zeros at the high end to `ty`.
    fn extend(&mut self, module: &mut Module, at: OpId, value: ValueId, ty: &Type) -> Result<ValueId, Problem> {
        let from = tensor(module, value)?;
        let high: Vec<i64> = ty.dims().iter().zip(&from.dims).map(|(new, old)| new - old).collect();
        let none = vec![0; high.len()];
        let sharding = sharding_of(module, value);
        let mut b = before(module, at);
        let padding = b.scalar(from.elem, 0.0)?;
        let padded = b.pad(value, padding, &none, &high, &none)?;
        place(module, padded, sharding.as_ref());
        let original = self.original(module, value).clone();
        self.originals.insert(padded, original);
        Ok(padded)
    }

    /// Cuts `dims` of `value` back to the extents of `ty`, right after it.
    fn trim(
        &mut self,
        module: &mut Module,
        op: OpId,
        ty: &Type,
        dims: &[usize],
        sharding: Option<&Sharding>,
    ) -> Result<(), Problem> {
        let value = module.result(op);
        let from = tensor(module, value)?;
        let limit = |(dim, (&now, &then)): (usize, (&i64, &i64))| if dims.contains(&dim) { now.min(then) } else { now };
        let limits: Vec<i64> = from.dims.iter().zip(ty.dims()).enumerate().map(limit).collect();
        if limits[..] == from.dims[..] {
            return Ok(());
        }
        let Some(next) = module.next_op(op) else { return Ok(()) };
        let loc = module.op(op).loc.clone();
        let mut b = Builder::before(module, next);
        b.set_loc(loc);
        let trimmed = b.slice(value, &vec![0; limits.len()], &limits, &vec![1; limits.len()])?;
        place(module, trimmed, sharding);
        if self.zeros.contains(&value) {
            self.zeros.insert(trimmed);
        }
        self.stand_in(module, value, trimmed);
        Ok(())
    }
}

/// Sets the placement of `value`, if there is one.
fn place(module: &mut Module, value: ValueId, sharding: Option<&Sharding>) {
    if let Some(sharding) = sharding {
        set_sharding(module, value, sharding.clone());
    }
}
