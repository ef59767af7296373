//! Cuts open dimensions of the arguments and results of the entry at the first part of an axis.

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};
use meshwork_mesh::{AxisRef, Sharding};
use meshwork_propagate::program::{func_result_sharding, set_func_result_sharding, set_sharding, sharding_of};

use crate::calls::entry;

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-remove-sub-axes-in-input-output-shardings",
    summary: "Cut open dimensions of the entry's arguments and results at the first part of an axis",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let main = entry(module, diags)?;
    let args = module.body_of(main, 0).map_or(vec![], |body| module.block(body).args().to_vec());
    for arg in args {
        if let Some(cut) = sharding_of(module, arg).as_ref().and_then(cut) {
            set_sharding(module, arg, cut);
        }
    }
    for i in 0..module.func_type(main).results.len() {
        if let Some(cut) = func_result_sharding(module, main, i).and_then(cut) {
            set_func_result_sharding(module, main, i, cut);
        }
    }
    Ok(())
}

/// The placement without parts of axes in open dimensions; `None` if there are none.
fn cut(sharding: &Sharding) -> Option<Sharding> {
    let mut cut = sharding.clone();
    for dim in cut.dims.iter_mut().filter(|dim| !dim.is_closed) {
        let whole = dim.axes.iter().take_while(|axis: &&AxisRef| axis.is_full()).count();
        dim.axes.truncate(whole);
    }
    (cut != *sharding).then_some(cut)
}
