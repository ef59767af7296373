//! The plan as JSON for programs.

use meshwork_mesh::{AxisRef, Sharding};
use serde_json::{Value, json};

use super::{Border, Cause, Links, Plan, PlannedCollective, short_type};

/// The whole plan as JSON: mesh, arguments and results, collectives in program order, totals, memory.
pub fn json(plan: &Plan, links: &Links) -> String {
    let axes: Vec<Value> = plan.mesh.axes().iter().map(|a| json!({"name": &*a.name, "size": a.size})).collect();
    let totals: serde_json::Map<String, Value> = plan
        .totals()
        .into_iter()
        .map(|(kind, t)| {
            let total = json!({"count": t.count, "operand_bytes": t.operand_bytes, "wire_bytes": t.wire_bytes});
            (kind.to_string(), total)
        })
        .collect();
    let seconds: f64 = plan.collectives.iter().map(|c| links.seconds(c, &plan.mesh) * c.collective.times as f64).sum();
    let alive: Vec<Value> =
        plan.peak.alive.iter().map(|a| json!({"bytes": a.bytes, "type": a.ty, "from": a.from})).collect();
    let all = json!({
        "mesh": {"axes": axes, "device_ids": plan.mesh.device_ids()},
        "arguments": plan.arguments.iter().map(border).collect::<Vec<_>>(),
        "results": plan.results.iter().map(border).collect::<Vec<_>>(),
        "collectives": plan.collectives.iter().map(|c| collective(c, plan, links)).collect::<Vec<_>>(),
        "totals": totals,
        "wire_bytes": plan.wire_bytes(),
        "seconds": seconds,
        "unknown_trip_counts": plan.has_unknown_trip_counts(),
        "flops": plan.flops,
        "peak": {"bytes": plan.peak.bytes, "at": plan.peak.at, "alive": alive},
    });
    format!("{all:#}\n")
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

fn collective(planned: &PlannedCollective, plan: &Plan, links: &Links) -> Value {
    let c = &planned.collective;
    json!({
        "kind": c.kind.name(),
        "axes": names(&planned.axes),
        "operand_bytes": c.operand_bytes,
        "wire_bytes": c.wire_bytes,
        "times": c.times,
        "times_unknown": c.times_unknown,
        "seconds": links.seconds(planned, &plan.mesh),
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
        "annotation": c.annotation.as_ref().map(|a| json!({"what": a.what, "sharding": a.sharding})),
    })
}
