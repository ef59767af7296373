//! Calls and functions as the passes around propagation see them: their order and their placements.

use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, Type};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{Meshes, SHARDING, calls_below, func_result_sharding, funcs_callees_first};

/// All calls of the module, those of callees before those of callers. Fails as [`funcs_callees_first`] does.
pub fn calls_callees_first(module: &Module, diags: &mut Vec<Diagnostic>) -> Result<Vec<OpId>, Failed> {
    let funcs = funcs_callees_first(module, diags)?;
    Ok(funcs.into_iter().flat_map(|func| calls_below(module, func)).collect())
}

/// The entry function; reports an error if there are several functions and none is called `main`.
pub fn entry(module: &Module, diags: &mut Vec<Diagnostic>) -> Result<OpId, Failed> {
    module.entry().ok_or_else(|| {
        let message = format!("the module has {} functions and none is called @main", module.funcs().count());
        diags.push(Diagnostic::error(Default::default(), message));
        Failed
    })
}

/// The placements of all arguments of `func`, open where one has none; `None` if no argument is spread
/// over a mesh.
pub fn func_arg_shardings(module: &Module, func: OpId, meshes: &Meshes) -> Option<Vec<Sharding>> {
    let types = module.func_type(func).inputs;
    let stored = |i| module.arg_attr(func, i, SHARDING).and_then(Attr::as_sharding);
    fill_shardings(&types, (0..types.len()).map(stored).collect(), meshes)
}

/// The placements of all results of `func`, as [`func_arg_shardings`].
pub fn func_result_shardings(module: &Module, func: OpId, meshes: &Meshes) -> Option<Vec<Sharding>> {
    let types = module.func_type(func).results;
    let stored = |i| func_result_sharding(module, func, i);
    fill_shardings(&types, (0..types.len()).map(stored).collect(), meshes)
}

fn fill_shardings(types: &[Type], stored: Vec<Option<&Sharding>>, meshes: &Meshes) -> Option<Vec<Sharding>> {
    let mesh = meshes.first_spread(stored.iter().flatten().copied())?;
    let open = |ty: &Type| Sharding::fully_open(&mesh, ty.rank().unwrap_or(0));
    Some(types.iter().zip(stored).map(|(ty, s)| s.cloned().unwrap_or_else(|| open(ty))).collect())
}
