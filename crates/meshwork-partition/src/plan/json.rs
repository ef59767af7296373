//! The plan as JSON for programs. docs/plan.md describes every field.

use std::fmt::Write;

use meshwork_mesh::{AxisRef, Mesh, Reduction, Sharding};
use serde_json::{Map, Value, json};

use super::cause::{place_of, short_name};
use super::ops::{Operand, PlannedOp};
use super::simulate::{Lane, Simulation, simulate};
use super::values::{PlacedValue, values, values_of_ops};
use super::{Border, Cause, Machine, Plan, PlannedCollective, loc_name, short_type};
use crate::compile::Compiled;

/// The version of the format: it changes when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// The whole plan as JSON text: mesh, arguments and results, collectives in program order, totals, memory, operations and
/// values. Columns of operations and values are on a line each.
pub fn json(compiled: &Compiled, machine: &Machine) -> String {
    let Value::Object(mut all) = data(compiled, machine) else { return String::new() };
    let columns: Vec<(&str, Value)> = ["ops", "values"].into_iter().filter_map(|n| Some((n, all.remove(n)?))).collect();
    let text = format!("{:#}", Value::Object(all));
    let mut out = text.strip_suffix("\n}").unwrap_or(&text).to_string();
    for (name, table) in &columns {
        let _ = write!(out, ",\n  \"{name}\": {{");
        for (i, (column, cells)) in table.as_object().into_iter().flatten().enumerate() {
            let _ = write!(out, "{}\n    \"{column}\": {cells}", if i > 0 { "," } else { "" });
        }
        out.push_str("\n  }");
    }
    out.push_str("\n}\n");
    out
}

/// The same as data.
pub fn data(compiled: &Compiled, machine: &Machine) -> Value {
    data_of(compiled, machine, &simulate(compiled, machine), &values(compiled))
}

/// The same for those who have the [run](simulate) and the [values](values) already.
pub fn data_of(compiled: &Compiled, machine: &Machine, run: &Simulation, values: &[PlacedValue]) -> Value {
    let plan = &compiled.plan;
    let totals: Map<String, Value> = plan
        .totals()
        .into_iter()
        .map(|(kind, t)| {
            let total = json!({"count": t.count, "operand_bytes": t.operand_bytes, "wire_bytes": t.wire_bytes});
            (kind.to_string(), total)
        })
        .collect();
    let seconds: f64 =
        plan.collectives.iter().map(|c| machine.collective_seconds(c, &plan.mesh) * c.collective.times as f64).sum();
    let alive: Vec<Value> =
        plan.peak.alive.iter().map(|a| json!({"bytes": a.bytes, "type": a.ty, "from": a.from})).collect();
    json!({
        "version": VERSION,
        "mesh": mesh(&plan.mesh),
        "machine": machine_json(machine),
        "arguments": plan.arguments.iter().map(border).collect::<Vec<_>>(),
        "results": plan.results.iter().map(border).collect::<Vec<_>>(),
        "collectives": plan.collectives.iter().map(|c| collective(c, plan, machine)).collect::<Vec<_>>(),
        "totals": totals,
        "wire_bytes": plan.wire_bytes(),
        "seconds": seconds,
        "run": simulation(run),
        "unknown_trip_counts": plan.has_unknown_trip_counts(),
        "flops": plan.flops,
        "peak": {"bytes": plan.peak.bytes, "at": plan.peak.at, "alive": alive},
        "ops": op_columns(compiled, &run.ops, values),
        "values": value_columns(values),
    })
}

fn mesh(mesh: &Mesh) -> Value {
    let axes: Vec<Value> = mesh.axes().iter().map(|a| json!({"name": &*a.name, "size": a.size})).collect();
    json!({"axes": axes, "device_ids": mesh.device_ids()})
}

fn machine_json(machine: &Machine) -> Value {
    let link =
        |name: &str, l: &super::Link| json!({"axis": name, "latency_us": l.latency_us, "gbps": l.gigabytes_per_second});
    let links: Vec<Value> = std::iter::once(link("*", &machine.links.default))
        .chain(machine.links.by_axis.iter().map(|(name, l)| link(name, l)))
        .collect();
    let device = &machine.device;
    json!({
        "name": machine.name,
        "text": machine.to_string(),
        "teraflops": device.teraflops,
        "memory_gbps": device.memory_gigabytes_per_second,
        "links": links,
    })
}

fn simulation(run: &Simulation) -> Value {
    let lane = |lane: &Lane| json!({"axis": lane.axis, "busy": lane.busy_seconds, "exposed": lane.exposed_seconds});
    json!({
        "seconds": run.seconds,
        "computing": run.compute_seconds,
        "communicating": run.communication_seconds,
        "axes": run.lanes.iter().map(lane).collect::<Vec<_>>(),
        "utilization": run.utilization,
    })
}

fn border(b: &Border) -> Value {
    json!({"name": b.name, "type": short_type(&b.ty), "sharding": dims(&b.sharding)})
}

/// Axes per dimension, sub-axes as `x:(1)2`.
fn dims(sharding: &Sharding) -> Vec<Vec<String>> {
    sharding.dims.iter().map(|d| names(&d.axes)).collect()
}

fn names(axes: &[AxisRef]) -> Vec<String> {
    axes.iter().map(|a| a.to_string().replace('"', "")).collect()
}

fn collective(planned: &PlannedCollective, plan: &Plan, machine: &Machine) -> Value {
    let c = &planned.collective;
    json!({
        "kind": c.kind.name(),
        "axes": names(&planned.axes),
        "operand_bytes": c.operand_bytes,
        "wire_bytes": c.wire_bytes,
        "times": c.times,
        "times_unknown": c.times_unknown,
        "seconds": machine.collective_seconds(planned, &plan.mesh),
        "causes": planned.causes.iter().map(cause).collect::<Vec<_>>(),
    })
}

fn cause(c: &Cause) -> Value {
    json!({
        "op": c.op,
        "place": c.place,
        "path": c.path,
        "tensor": c.tensor,
        "argument": c.argument,
        "reason": c.reason,
        "explicit": c.explicit,
        "wire_bytes": c.wire_bytes,
        "annotation": c.annotation.as_ref().map(|a| json!({"what": a.what, "sharding": a.sharding})),
    })
}

/// A column of a table.
fn column<T>(rows: &[T], cell: impl Fn(&T) -> Value) -> Value {
    rows.iter().map(cell).collect()
}

fn op_columns(compiled: &Compiled, ops: &[PlannedOp], values: &[PlacedValue]) -> Value {
    let module = &*compiled.module;
    let data = |op: &PlannedOp| module.op(op.op);
    let number = |n: Option<usize>| n.map_or(json!(-1), |n| json!(n));
    let operand = |o: &Operand| match *o {
        Operand::Argument(i) => -1 - i as i64,
        Operand::Op(i) => i as i64,
    };
    let results =
        |op: &PlannedOp, cell: &dyn Fn(&super::Buffer) -> Value| op.results.iter().map(cell).collect::<Value>();
    let of_value = values_of_ops(compiled, ops, values);
    json!({
        "name": column(ops, |o| short_name(data(o).name()).into()),
        "line": column(ops, |o| data(o).pos.line.into()),
        "place": column(ops, |o| place_of(module, o.op).into()),
        "path": column(ops, |o| loc_name(&data(o).loc).unwrap_or("").into()),
        "parent": column(ops, |o| number(o.parent)),
        "trips": column(ops, |o| o.trips.into()),
        "trips_unknown": column(ops, |o| u8::from(o.trips_unknown).into()),
        "counted": column(ops, |o| u8::from(o.counted).into()),
        "flops": column(ops, |o| o.flops.into()),
        "bytes": column(ops, |o| o.bytes.into()),
        "traffic": column(ops, |o| o.traffic.into()),
        "seconds": column(ops, |o| o.seconds.into()),
        // Whole picoseconds.
        "start": column(ops, |o| ((o.start * 1e12).round() / 1e12).into()),
        "operands": column(ops, |o| o.operands.iter().map(operand).collect()),
        "types": column(ops, |o| results(o, &|b| short_type(module.ty(b.value)).into())),
        "result_bytes": column(ops, |o| results(o, &|b| b.bytes.into())),
        "until": column(ops, |o| results(o, &|b| b.until.into())),
        "collective": column(ops, |o| number(o.collective)),
        "alive": column(ops, |o| o.alive.into()),
        "value": of_value.into_iter().map(number).collect::<Value>(),
    })
}

fn value_columns(values: &[PlacedValue]) -> Value {
    let sharding = |v: &PlacedValue| v.sharding.as_deref().map_or(vec![vec![]; v.ty.dims().len()], dims);
    let reduction = |s: &Sharding| match s.reduction {
        Reduction::Sum => "sum",
        Reduction::Max => "max",
        Reduction::Min => "min",
    };
    json!({
        "name": column(values, |v| v.name.as_str().into()),
        "type": column(values, |v| short_type(&v.ty).into()),
        "line": column(values, |v| v.line.into()),
        "sharding": column(values, |v| sharding(v).into()),
        "unreduced": column(values, |v| v.sharding.as_ref().map_or(vec![], |s| names(&s.unreduced)).into()),
        "reduction": column(values, |v| v.sharding.as_ref().map_or("sum", |s| reduction(s)).into()),
        "order": column(values, |v| v.sharding.as_ref().and_then(|s| s.mesh.inline()).map_or(Value::Null, |m| mesh(m))),
    })
}
