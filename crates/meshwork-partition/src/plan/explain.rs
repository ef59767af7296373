//! The plan as a table for people: what is sent, over which axes, for which operation, placed by whom.

use std::collections::BTreeMap;
use std::fmt::Write;

use meshwork_mesh::sort_by;

use crate::compile::Compiled;
use crate::plan::advice::warnings;
use crate::plan::cause::Annotation;
use crate::plan::cost::Machine;
use crate::plan::simulate::{Lane, Simulation, simulate};
use crate::plan::{Plan, PlannedCollective};

/// How much of a plan to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// The most expensive lines of each section.
    #[default]
    Short,
    /// Every line, with the reason and the annotation below it.
    Full,
}

/// Lines of a section that a short table shows.
const SHORT: usize = 20;

/// Collectives that differ only in their place share a line.
struct Line<'p> {
    first: &'p PlannedCollective,
    all: Vec<&'p PlannedCollective>,
}

impl Line<'_> {
    fn runs(&self) -> i64 {
        self.all.iter().map(|c| c.collective.times).sum()
    }

    fn sent(&self) -> f64 {
        self.all.iter().map(|c| c.sent()).sum()
    }

    fn seconds(&self, plan: &Plan, machine: &Machine) -> f64 {
        self.all.iter().map(|c| seconds(c, plan, machine)).sum()
    }
}

fn seconds(c: &PlannedCollective, plan: &Plan, machine: &Machine) -> f64 {
    machine.collective_seconds(c, &plan.mesh) * c.collective.times as f64
}

/// The lines of a plan, most expensive first; those that send equally much in program order.
fn lines(plan: &Plan) -> Vec<Line<'_>> {
    let mut out: Vec<Line<'_>> = vec![];
    for c in &plan.collectives {
        match out.iter_mut().find(|line| share_line(line.first, c)) {
            Some(line) => line.all.push(c),
            None => out.push(Line { first: c, all: vec![c] }),
        }
    }
    sort_by(&mut out, |a, b| b.sent().total_cmp(&a.sent()));
    out
}

fn share_line(a: &PlannedCollective, b: &PlannedCollective) -> bool {
    let (x, y) = (&a.collective, &b.collective);
    (&x.kind, x.operand_bytes, x.times_unknown) == (&y.kind, y.operand_bytes, y.times_unknown)
        && a.axes == b.axes
        && a.causes.len() == b.causes.len()
        && a.causes.iter().zip(&b.causes).all(|(p, q)| (&p.op, &p.tensor, &p.reason) == (&q.op, &q.tensor, &q.reason))
}

/// Bytes with a unit that keeps the number short.
pub fn human_bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
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

/// Seconds with a unit that keeps the number short.
pub fn human_seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

/// A count with a unit that keeps the number short.
pub fn human_count(count: f64) -> String {
    let units = ["", "K", "M", "G", "T", "P"];
    let mut value = count;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} "),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

/// The plan as tables: what a run on `machine` takes, collectives (most expensive first), totals, the annotations behind
/// them, memory.
pub fn table(compiled: &Compiled, machine: &Machine, detail: Detail) -> String {
    tables(&compiled.plan, machine, detail, Some(&simulate(compiled, machine)))
}

/// The same of a plan alone; what a run takes is there if it was simulated.
pub(super) fn tables(plan: &Plan, machine: &Machine, detail: Detail, run: Option<&Simulation>) -> String {
    let mut out = String::new();
    header(plan, machine, &mut out);
    if let Some(run) = run {
        time(plan, run, machine, &mut out);
    }
    if !plan.collectives.is_empty() {
        collectives(plan, machine, detail, &mut out);
        totals(plan, machine, &mut out);
        annotations(plan, detail, &mut out);
    }
    memory(plan, detail, &mut out);
    for warning in warnings(plan) {
        let _ = writeln!(out, "\nwarning: {warning}");
    }
    out
}

fn header(plan: &Plan, machine: &Machine, out: &mut String) {
    let axes: Vec<String> = plan.mesh.axes().iter().map(|a| format!("{}={}", a.name, a.size)).collect();
    let runs: i64 = plan.collectives.iter().map(|c| c.collective.times).sum();
    let time: f64 = plan.collectives.iter().map(|c| seconds(c, plan, machine)).sum();
    let _ = match plan.devices() {
        1 => write!(out, "1 device: "),
        n => write!(out, "{n} devices ({}): ", axes.join(", ")),
    };
    let _ = match runs {
        0 => writeln!(out, "no communication"),
        _ => writeln!(
            out,
            "{} sent per device and run in {runs} collective{}, about {}",
            human_bytes(plan.wire_bytes()),
            if runs == 1 { "" } else { "s" },
            human_seconds(time)
        ),
    };
    let (flops, peak) = (human_count(plan.flops), human_bytes(plan.peak.bytes as f64));
    let _ = writeln!(out, "{flops}FLOP and {peak} of memory per device");
    if plan.has_unknown_trip_counts() {
        let _ = writeln!(out, "runs marked + stand in a loop whose trip count is not known, and count once");
    }
}

/// What a run takes, and on what.
fn time(plan: &Plan, run: &Simulation, machine: &Machine, out: &mut String) {
    let _ = write!(out, "about {} a run: {} computing", human_seconds(run.seconds), human_seconds(run.compute_seconds));
    if !plan.collectives.is_empty() {
        let mut lanes: Vec<&Lane> = run.lanes.iter().filter(|lane| lane.exposed_seconds > 0.0).collect();
        sort_by(&mut lanes, |a, b| b.exposed_seconds.total_cmp(&a.exposed_seconds));
        let lanes: Vec<String> =
            lanes.iter().map(|lane| format!("{} {}", lane.axis, human_seconds(lane.exposed_seconds))).collect();
        let of = if lanes.is_empty() { String::new() } else { format!(" ({})", lanes.join(", ")) };
        let _ = write!(out, ", {} waiting for collectives{of}", human_seconds(run.exposed_seconds()));
    }
    if run.utilization >= 0.001 {
        let _ = write!(out, ", products at {:.1} % of the peak", 100.0 * run.utilization);
    }
    let _ = writeln!(out, "\nassumed: {}", machine.title());
    if let Some(capacity) = machine.device.capacity.filter(|&capacity| plan.peak.bytes as f64 > capacity) {
        let (needs, has) = (human_bytes(plan.peak.bytes as f64), human_bytes(capacity));
        let _ = writeln!(out, "does not fit: {needs} of memory per device, which has {has}");
    }
}

fn collectives(plan: &Plan, machine: &Machine, detail: Detail, out: &mut String) {
    let lines = lines(plan);
    let shown = if detail == Detail::Full { lines.len() } else { lines.len().min(SHORT) };
    let mut rows = vec![["sent", "time", "runs", "collective", "over", "operand", "tensor", "for"].map(String::from)];
    for line in &lines[..shown] {
        let c = &line.first.collective;
        let first = &line.first.causes[0];
        let more = match line.first.causes.len() {
            1 => String::new(),
            n => format!(" +{}", n - 1),
        };
        rows.push([
            human_bytes(line.sent()),
            human_seconds(line.seconds(plan, machine)),
            format!("{}{}", line.runs(), if c.times_unknown { "+" } else { "" }),
            c.kind.name().into(),
            line.first.axes_text(),
            human_bytes(c.operand_bytes as f64),
            format!("{}{more}", first.tensor),
            format!("{}{}", ops(line), places(line)),
        ]);
    }
    let text = align(&rows, &[true, true, true, false, false, true, false, false]);
    let mut text = text.lines();
    let _ = writeln!(out, "\n{}", text.next().unwrap_or_default());
    for (line, row) in lines.iter().zip(text) {
        let _ = writeln!(out, "{row}");
        if detail == Detail::Full {
            causes(line, out);
        }
    }
    if lines.len() > shown {
        let rest: f64 = lines[shown..].iter().map(Line::sent).sum();
        let _ = writeln!(out, "  and {} more, {} (--all shows them)", lines.len() - shown, human_bytes(rest));
    }
}

/// The operations that need the collectives of a line: `reduce`, `reduce, dot_general`.
fn ops(line: &Line<'_>) -> String {
    let mut all: Vec<&str> = vec![];
    for cause in &line.first.causes {
        if !all.contains(&cause.op.as_str()) {
            all.push(&cause.op);
        }
    }
    let shown = all.len().min(2);
    let more = if all.len() > shown { format!(", +{}", all.len() - shown) } else { String::new() };
    format!("{}{more}", all[..shown].join(", "))
}

/// Where the collectives of a line come from: ` at lines 3, 8, 12, +2`.
fn places(line: &Line<'_>) -> String {
    let mut all: Vec<&str> = vec![];
    for cause in line.all.iter().flat_map(|c| &c.causes) {
        if !cause.place.is_empty() && !all.contains(&cause.place.as_str()) {
            all.push(&cause.place);
        }
    }
    let Some(first) = all.first() else { return String::new() };
    let numbers: Option<Vec<&str>> = all.iter().map(|p| p.strip_prefix("line ")).collect();
    let (word, items) = match numbers {
        Some(numbers) if all.len() > 1 => (" at lines ", numbers),
        Some(_) => return format!(" at {first}"),
        None => (" at ", all),
    };
    let shown = items.len().min(4);
    let more = if items.len() > shown { format!(", +{}", items.len() - shown) } else { String::new() };
    format!("{word}{}{more}", items[..shown].join(", "))
}

/// Reasons and annotations below a line.
fn causes(line: &Line<'_>, out: &mut String) {
    let mut said: Vec<String> = vec![];
    for cause in line.all.iter().flat_map(|c| &c.causes) {
        let annotation = cause.annotation.as_ref().map_or(String::new(), |a| format!("; placed by {a}"));
        let text = format!("{}{annotation}", cause.reason);
        if !said.contains(&text) {
            let _ = writeln!(out, "{:22}{text}", "");
            said.push(text);
        }
    }
}

fn totals(plan: &Plan, machine: &Machine, out: &mut String) {
    let mut time: BTreeMap<(&'static str, String), f64> = BTreeMap::new();
    for c in &plan.collectives {
        *time.entry((c.collective.kind.name(), c.axes_text())).or_default() += seconds(c, plan, machine);
    }
    let mut rows = vec![];
    for (key, total) in plan.totals_by_axes() {
        rows.push([
            human_bytes(total.wire_bytes),
            human_seconds(time.get(&key).copied().unwrap_or(0.0)),
            total.count.to_string(),
            key.0.to_string(),
            key.1,
        ]);
    }
    let _ = writeln!(out, "\nin total\n{}", align(&rows, &[true, true, true, false, false]).trim_end());
}

/// What each annotation costs.
fn annotations(plan: &Plan, detail: Detail, out: &mut String) {
    let mut sent: Vec<(&Annotation, f64)> = vec![];
    for c in &plan.collectives {
        for cause in &c.causes {
            let Some(annotation) = &cause.annotation else { continue };
            let bytes = cause.wire_bytes * c.collective.times as f64;
            match sent.iter_mut().find(|(a, _)| *a == annotation) {
                Some((_, sum)) => *sum += bytes,
                None => sent.push((annotation, bytes)),
            }
        }
    }
    if sent.is_empty() {
        return;
    }
    sort_by(&mut sent, |a, b| b.1.total_cmp(&a.1));
    let shown = if detail == Detail::Full { sent.len() } else { sent.len().min(SHORT / 2) };
    let rows: Vec<[String; 2]> = sent[..shown].iter().map(|(a, bytes)| [human_bytes(*bytes), a.to_string()]).collect();
    let _ = writeln!(out, "\nplaced by\n{}", align(&rows, &[true, false]).trim_end());
    if sent.len() > shown {
        let rest: f64 = sent[shown..].iter().map(|s| s.1).sum();
        let _ = writeln!(out, "  and {} more, {}", sent.len() - shown, human_bytes(rest));
    }
}

fn memory(plan: &Plan, detail: Detail, out: &mut String) {
    let peak = &plan.peak;
    let _ = writeln!(out, "\nmost memory at {}: {}", peak.at, human_bytes(peak.bytes as f64));
    let (arguments, values): (Vec<_>, Vec<_>) = peak.alive.iter().partition(|a| a.from.starts_with("argument"));
    let mut rows = vec![];
    let group = detail == Detail::Short && arguments.len() > 3;
    let alone: Vec<_> = if group { values } else { peak.alive.iter().collect() };
    if group {
        let bytes: i64 = arguments.iter().map(|a| a.bytes).sum();
        rows.push([human_bytes(bytes as f64), String::new(), format!("{} arguments", arguments.len())]);
    }
    let shown = if detail == Detail::Full { alone.len() } else { alone.len().min(SHORT / 2) };
    rows.extend(alone[..shown].iter().map(|a| [human_bytes(a.bytes as f64), a.ty.clone(), a.from.clone()]));
    out.push_str(&align(&rows, &[true, false, false]));
    if alone.len() > shown {
        let rest: i64 = alone[shown..].iter().map(|a| a.bytes).sum();
        let _ = writeln!(out, "  and {} more values, {}", alone.len() - shown, human_bytes(rest as f64));
    }
}

/// Columns of equal width, two spaces apart; `right` says which are aligned to the right.
fn align<const N: usize>(rows: &[[String; N]], right: &[bool; N]) -> String {
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, &right), &width) in row.iter().zip(right).zip(&widths) {
            let _ = if right { write!(line, "  {cell:>width$}") } else { write!(line, "  {cell:<width$}") };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(human_bytes(1023.0), "1023 B");
        assert_eq!(human_bytes(1536.0), "1.5 KiB");
        assert_eq!(human_seconds(2.5e-6), "2.5 us");
        assert_eq!(human_seconds(0.0123), "12.30 ms");
        assert_eq!(human_count(1_250_000.0), "1.2 M");
    }
}
