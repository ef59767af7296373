//! What XLA wants to see on a per-device program.

use meshwork_ir::{Attr, ElementType, Module};

/// Marks `module`, a per-device program for `devices` devices, as partitioned already: XLA then compiles it with
/// `num_partitions` = `devices` and leaves arguments, results and collectives as they are.
pub fn mark_partitioned(module: &mut Module, devices: i64) {
    module.attrs.set("mhlo.num_partitions", Attr::Int(devices, ElementType::I32));
    module.attrs.set("mhlo.num_replicas", Attr::Int(1, ElementType::I32));
    let Some(func) = module.entry() else { return };
    let ty = module.func_type(func);
    let manual = || Some(Attr::str("{manual}"));
    for i in 0..ty.inputs.len() {
        module.set_arg_attr(func, i, "mhlo.sharding", manual());
    }
    for i in 0..ty.results.len() {
        module.set_res_attr(func, i, "mhlo.sharding", manual());
    }
}
