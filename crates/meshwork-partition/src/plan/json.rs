//! The plan as JSON for programs.

use std::fmt;
use std::fmt::Write;

use meshwork_mesh::Sharding;

use crate::plan::cause::{Cause, short_type};
use crate::plan::cost::Links;
use crate::plan::{Border, Plan, PlannedCollective};

/// The whole plan as JSON: mesh, arguments and results, collectives in program order, totals, memory.
pub fn json(plan: &Plan, links: &Links) -> String {
    let axes = plan.mesh.axes().iter().map(|a| format!("{{\"name\": {}, \"size\": {}}}", Quoted(&a.name), a.size));
    let ids = plan.mesh.device_ids().map_or("null".to_string(), list);
    let mut out = String::from("{\n");
    let _ = writeln!(out, "\"mesh\": {{\"axes\": {}, \"device_ids\": {ids}}},", list(axes));
    let _ = writeln!(out, "\"arguments\": {},", rows(plan.arguments.iter().map(border)));
    let _ = writeln!(out, "\"results\": {},", rows(plan.results.iter().map(border)));
    let collectives = plan.collectives.iter().map(|c| collective(c, plan, links));
    let _ = writeln!(out, "\"collectives\": {},", rows(collectives));
    let totals = plan.totals().into_iter().map(|(kind, t)| {
        let (count, operand, wire) = (t.count, t.operand_bytes, t.wire_bytes);
        format!("\"{kind}\": {{\"count\": {count}, \"operand_bytes\": {operand}, \"wire_bytes\": {wire}}}")
    });
    let _ = writeln!(out, "\"totals\": {{{}}},", totals.collect::<Vec<_>>().join(", "));
    let time: f64 = plan.collectives.iter().map(|c| links.seconds(c, &plan.mesh) * c.collective.times as f64).sum();
    let _ = writeln!(out, "\"wire_bytes\": {}, \"seconds\": {time:.4e},", plan.wire_bytes());
    let _ = writeln!(out, "\"unknown_trip_counts\": {},", plan.has_unknown_trip_counts());
    let _ = writeln!(out, "\"flops\": {},", plan.flops);
    let alive = plan
        .peak
        .alive
        .iter()
        .map(|a| format!("{{\"bytes\": {}, \"type\": {}, \"from\": {}}}", a.bytes, Quoted(&a.ty), Quoted(&a.from)));
    let (bytes, at) = (plan.peak.bytes, Quoted(&plan.peak.at));
    let _ = writeln!(out, "\"peak\": {{\"bytes\": {bytes}, \"at\": {at}, \"alive\": {}}}", rows(alive));
    out.push_str("}\n");
    out
}

fn border(b: &Border) -> String {
    let (name, ty, sharding) = (Quoted(&b.name), short_type(&b.ty), dims(&b.sharding));
    format!("{{\"name\": {name}, \"type\": {}, \"sharding\": {sharding}}}", Quoted(&ty))
}

/// Axes per dimension, sub-axes as `x:(1)2`.
fn dims(sharding: &Sharding) -> String {
    list(sharding.dims.iter().map(|d| list(d.axes.iter().map(|a| Quoted(&a.to_string().replace('"', "")).to_string()))))
}

fn collective(planned: &PlannedCollective, plan: &Plan, links: &Links) -> String {
    let c = &planned.collective;
    let axes = list(planned.axes.iter().map(|a| Quoted(&a.to_string().replace('"', "")).to_string()));
    format!(
        "{{\"kind\": \"{}\", \"axes\": {axes}, \"operand_bytes\": {}, \"wire_bytes\": {}, \"times\": {}, \
         \"times_unknown\": {}, \"seconds\": {:.4e}, \"causes\": {}}}",
        c.kind.name(),
        c.operand_bytes,
        c.wire_bytes,
        c.times,
        c.times_unknown,
        links.seconds(planned, &plan.mesh),
        list(planned.causes.iter().map(cause))
    )
}

fn cause(c: &Cause) -> String {
    let annotation = c.annotation.as_ref().map_or("null".to_string(), |a| {
        format!("{{\"what\": {}, \"sharding\": {}}}", Quoted(&a.what), Quoted(&a.sharding))
    });
    format!(
        "{{\"op\": {}, \"place\": {}, \"path\": {}, \"tensor\": {}, \"argument\": {}, \"reason\": {}, \
         \"explicit\": {}, \"annotation\": {annotation}}}",
        Quoted(&c.op),
        Quoted(&c.place),
        Quoted(&c.path),
        Quoted(&c.tensor),
        Quoted(&c.argument),
        Quoted(&c.reason),
        c.explicit
    )
}

/// One item a line.
fn rows(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.map(|i| format!("\n  {i}")).collect();
    format!("[{}]", items.join(","))
}

/// A string as JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// `[a, b]` of things that are JSON already.
fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|i| i.to_string()).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(Quoted("a\"b\\c\n\u{1}é").to_string(), "\"a\\\"b\\\\c\\n\\u0001é\"");
        assert_eq!(list([1, 2]), "[1, 2]");
    }
}
