//! `interpreter.run_parallel` over processes: the same function on every device of a grid, by the engine. Every process
//! runs the rest of the program.

use std::collections::HashMap;
use std::sync::Arc;

use meshwork_cpu::{CpuEngine, DeviceProgram};
use meshwork_eval::run_op;
use meshwork_ir::DeviceGrid;
use meshwork_ir::op::{CheckOp, ControlOp};
use meshwork_ir::{Attr, Literal, Module, OpId, OpKind, ValueId};
use meshwork_runtime::{Buffer, Runtime, Shards};

use crate::fail::Failure;
use crate::source::Source;

/// A call of one function on all devices of a grid.
struct Call {
    program: DeviceProgram,
    devices: usize,
}

/// Runs function `entry` if its only work for other devices is to call one function on all of them; else `None`.
pub fn run(
    runtime: &Runtime,
    source: &Source,
    module: &Module,
    entry: OpId,
    inputs: &[Literal],
) -> Result<Option<Vec<Literal>>, Failure> {
    let Some(body) = module.body_of(entry, 0) else { return Ok(None) };
    let ops: Vec<OpId> = module.ops_in(body).collect();
    let calls: HashMap<OpId, Option<Call>> = ops
        .iter()
        .filter(|&&op| module.op(op).kind() == OpKind::Check(CheckOp::RunParallel))
        .map(|&op| (op, call(module, op)))
        .collect();
    if calls.is_empty() || calls.values().any(Option::is_none) {
        return Ok(None);
    }
    let mut values: HashMap<ValueId, Literal> = HashMap::new();
    values.extend(module.block(body).args().iter().copied().zip(inputs.iter().cloned()));
    let mut results = vec![];
    for op in ops {
        let data = module.op(op);
        let args: Vec<Literal> = data.operands().iter().filter_map(|v| values.get(v).cloned()).collect();
        if args.len() != data.operands().len() || !data.regions().is_empty() {
            return Ok(None);
        }
        let made = match calls.get(&op) {
            Some(Some(call)) => on_devices(runtime, source, call, args)?,
            _ if data.kind() == OpKind::Control(ControlOp::FuncReturn) => {
                results = args;
                continue;
            }
            _ => run_op(module, op, args).map_err(|e| Failure::from_eval(&e, &source.name, &source.text))?,
        };
        values.extend(data.results().iter().copied().zip(made));
    }
    Ok(Some(results))
}

/// The call that `op` is, if all programs are one function that the engine compiles and there is no infeed.
fn call(module: &Module, op: OpId) -> Option<Call> {
    let data = module.op(op);
    if data.attr("infeed").and_then(Attr::as_array).is_some_and(|queue| !queue.is_empty()) {
        return None;
    }
    let rows: Vec<&[Attr]> = data.attr("programs")?.as_array()?.iter().map(Attr::as_array).collect::<Option<_>>()?;
    let names: Vec<&str> = rows.iter().copied().flatten().map(Attr::as_symbol).collect::<Option<_>>()?;
    let (first, partitions) = (*names.first()?, rows.first()?.len());
    if names.iter().any(|n| *n != first) || names.len() != rows.len() * partitions {
        return None;
    }
    let grid = DeviceGrid { replicas: rows.len(), partitions };
    let program = CpuEngine::shared().compile(module, Some(first), grid).ok()?;
    Some(Call { program, devices: grid.len() })
}

/// Runs the function on the devices of this process, and gives the results of all.
fn on_devices(runtime: &Runtime, source: &Source, call: &Call, args: Vec<Literal>) -> Result<Vec<Literal>, Failure> {
    let (inputs, outputs) = (call.program.inputs().len(), call.program.outputs());
    if args.len() != inputs * call.devices {
        let message = format!("the programs take {} operands, {} given", inputs * call.devices, args.len());
        return Err(Failure::error(message));
    }
    let memory = |e: meshwork_runtime::memory::buffer::OutOfMemory| Failure::error(e.to_string());
    let here = if call.devices == 1 { 0..1 } else { runtime.local_devices_of(call.devices) };
    let mut shards: Vec<Shards> = vec![];
    for i in 0..inputs {
        let shard = |d: usize| {
            if here.contains(&d) {
                Buffer::from_bytes(args[d * inputs + i].bytes()).map(Arc::new)
            } else {
                Buffer::absent()
            }
        };
        shards.push((0..call.devices).map(shard).collect::<Result<_, _>>().map_err(memory)?);
    }
    let results = call.program.run(shards).map_err(|e| Failure::from_run(&e, &source.name, &source.text))?;
    let mut pieces: Vec<Vec<Vec<u8>>> = vec![];
    for shards in &results {
        let mine: Vec<u8> = here.clone().flat_map(|d| shards[d].as_slice().to_vec()).collect();
        let all = match call.devices {
            1 => mine,
            _ => runtime.all_gather(&mine).map_err(|e| Failure::error(e.to_string()))?.concat(),
        };
        let bytes = all.len() / call.devices;
        pieces.push((0..call.devices).map(|d| all[d * bytes..(d + 1) * bytes].to_vec()).collect());
    }
    let mut out = vec![];
    for device in 0..call.devices {
        for (ty, pieces) in outputs.iter().zip(&pieces) {
            let literal = Literal::from_bytes(ty.dims.iter().copied(), ty.elem, pieces[device].clone());
            out.push(literal.ok_or_else(|| Failure::error("a result is not of its type"))?);
        }
    }
    Ok(out)
}
