//! Cuts placements at the boundary of functions and manual computations to what divides evenly.
//!
//! Per dimension, the longest list of leading axes whose product divides the size is kept; the last one
//! may be cut to a part of the axis.

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Diagnostic, Failed, Module, OpId, OpKind, Pass, PassOptions, Type, ValueId, Walk};
use meshwork_mesh::{AxisRef, DimSharding, Mesh, Sharding, gcd};
use meshwork_propagate::program::{
    Meshes, SHARDING, argument_owners, func_result_sharding, set_func_result_sharding, set_sharding, sharding_list,
    sharding_of,
};
use meshwork_propagate::settle::{set_argument_shardings, set_result_shardings};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-update-non-divisible-input-output-shardings",
    summary: "Cut placements of function arguments and results to what divides evenly",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let meshes = Meshes::of(module);
    for func in module.funcs().collect::<Vec<_>>() {
        let args = module.body_of(func, 0).map_or(vec![], |body| module.block(body).args().to_vec());
        for arg in args {
            let even = sharding_of(module, arg).and_then(|s| evenly(&s, module.ty(arg), &meshes));
            if let Some(even) = even {
                set_sharding(module, arg, even);
            }
        }
        for (i, ty) in module.func_type(func).results.iter().enumerate() {
            if let Some(even) = func_result_sharding(module, func, i).and_then(|s| evenly(s, ty, &meshes)) {
                set_func_result_sharding(module, func, i, even);
            }
        }
    }
    for op in module.all_ops(Walk::PreOrder) {
        match module.op(op).kind() {
            OpKind::Control(ControlOp::Call) => update_results(module, op, SHARDING, &meshes),
            OpKind::Sdy(SdyOp::ManualComputation) => {
                update_arguments(module, op, &meshes);
                update_results(module, op, "out_shardings", &meshes);
            }
            _ => {}
        }
    }
    Ok(())
}

fn update_results(module: &mut Module, op: OpId, attr: &str, meshes: &Meshes) {
    let Some(old) = sharding_list(module, op, attr) else { return };
    if let Some(new) = evenly_all(module, old, module.op(op).results(), meshes) {
        set_result_shardings(module, op, new);
    }
}

/// The placements of block arguments are looked at from inside, where sizes are local to the manual axes.
fn update_arguments(module: &mut Module, op: OpId, meshes: &Meshes) {
    let args = argument_owners(module, op);
    let Some(old) = args.iter().map(|&arg| sharding_of(module, arg)).collect::<Option<Vec<_>>>() else { return };
    if let Some(new) = evenly_all(module, &old, &args, meshes) {
        set_argument_shardings(module, op, new);
    }
}

/// The placements cut to what divides evenly; `None` if all do already.
fn evenly_all(module: &Module, old: &[Sharding], values: &[ValueId], meshes: &Meshes) -> Option<Vec<Sharding>> {
    let new: Vec<Option<Sharding>> =
        old.iter().zip(values).map(|(s, &value)| evenly(s, module.ty(value), meshes)).collect();
    new.iter()
        .any(Option::is_some)
        .then(|| old.iter().zip(new).map(|(old, new)| new.unwrap_or_else(|| old.clone())).collect())
}

/// The placement cut to what divides evenly; `None` if it does already.
fn evenly(sharding: &Sharding, ty: &Type, meshes: &Meshes) -> Option<Sharding> {
    let ty = ty.as_tensor().filter(|t| t.is_static() && t.rank() == sharding.rank())?;
    let mesh = meshes.mesh(sharding)?;
    let mut even = sharding.clone();
    for (dim, &size) in even.dims.iter_mut().zip(&ty.dims) {
        if size % dim.num_shards(mesh) != 0 {
            *dim = DimSharding { axes: dividing_prefix(&dim.axes, size, mesh), priority: None, ..dim.clone() };
        }
    }
    (even != *sharding).then_some(even)
}

fn dividing_prefix(axes: &[AxisRef], size: i64, mesh: &Mesh) -> Vec<AxisRef> {
    let (mut left, mut prefix) = (size, vec![]);
    for axis in axes {
        let common = gcd(axis.size(mesh), left);
        if common == 1 {
            break;
        }
        if common < axis.size(mesh) {
            prefix.push(AxisRef::sub(axis.name.clone(), axis.pre_size(), common));
            break;
        }
        prefix.push(axis.clone());
        left /= common;
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_dividing_prefix() -> Result<(), meshwork_mesh::MeshError> {
        let mesh = Mesh::new([("x", 4), ("y", 2)])?;
        let cut = |axes: &[&str], size| {
            let axes: Vec<AxisRef> = axes.iter().map(|&a| a.into()).collect();
            dividing_prefix(&axes, size, &mesh)
        };
        assert_eq!(cut(&["x", "y"], 4), [AxisRef::full("x")]);
        assert_eq!(cut(&["y", "x"], 4), [AxisRef::full("y"), AxisRef::sub("x", 1, 2)]);
        assert_eq!(cut(&["x"], 6), [AxisRef::sub("x", 1, 2)]);
        assert_eq!(cut(&["x"], 3), []);
        assert_eq!(cut(&["x"], 1), []);
        Ok(())
    }
}
