//! The plan as a table for people and as JSON for programs.

use std::fmt::Write;

use meshwork_mesh::AxisRef;

use crate::plan::{Plan, PlannedCollective};

/// Collectives that have the same kind, axes, size and cause share a line.
struct Line<'p> {
    collective: &'p PlannedCollective,
    places: i64,
    runs: i64,
    wire: f64,
}

fn lines(plan: &Plan) -> Vec<Line<'_>> {
    let mut out: Vec<Line<'_>> = vec![];
    for c in &plan.collectives {
        let same = |l: &&mut Line<'_>| {
            let (a, b) = (&l.collective.collective, &c.collective);
            (a.kind.name(), a.operand_bytes, a.times, &a.op, &a.reason)
                == (b.kind.name(), b.operand_bytes, b.times, &b.op, &b.reason)
                && l.collective.axes == c.axes
        };
        let (runs, wire) = (c.collective.times, c.collective.wire_bytes * c.collective.times as f64);
        match out.iter_mut().find(same) {
            Some(line) => {
                line.places += 1;
                line.runs += runs;
                line.wire += wire;
            }
            None => out.push(Line { collective: c, places: 1, runs, wire }),
        }
    }
    out
}

/// Bytes with a unit that keeps the number short.
pub fn human_bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

fn axes_text(axes: &[AxisRef]) -> String {
    axes.iter().map(|a| a.to_string().replace('"', "")).collect::<Vec<_>>().join(",")
}

/// The plan as a table, most expensive first.
pub fn table(plan: &Plan) -> String {
    let mut out = String::new();
    let mut lines = lines(plan);
    lines.sort_by(|a, b| b.wire.total_cmp(&a.wire));
    let total = plan.wire_bytes();
    let _ = writeln!(out, "{} devices, {} sent per device and run", plan.devices, human_bytes(total));
    if lines.is_empty() {
        let _ = writeln!(out, "no communication");
    } else {
        let _ = writeln!(
            out,
            "\n{:>10}  {:>6}  {:<18} {:<10} {:>10}  cause",
            "sent", "runs", "collective", "axes", "operand"
        );
    }
    for line in &lines {
        let c = &line.collective.collective;
        let runs = format!("{}{}", line.runs, if c.times_unknown { "+" } else { "" });
        let _ = writeln!(
            out,
            "{:>10}  {:>6}  {:<18} {:<10} {:>10}  {}: {}",
            human_bytes(line.wire),
            runs,
            c.kind.name(),
            axes_text(&line.collective.axes),
            human_bytes(c.operand_bytes as f64),
            c.op,
            c.reason
        );
    }
    let _ = writeln!(out, "\npeak memory {} per device, at {}", human_bytes(plan.peak.bytes as f64), plan.peak.at);
    for (bytes, what) in plan.peak.alive.iter().take(5) {
        let _ = writeln!(out, "{:>10}  {what}", human_bytes(*bytes as f64));
    }
    out
}
