//! What was found, as a table for people and as data.

use std::fmt::Write;

use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::plan::{human_bytes, human_seconds};
use serde_json::{Value, json};

use crate::evaluate::Improvement;
use crate::found::{ArrayPlace, Candidate, Found};
use crate::judge::Verdict;

/// Reasons that the table shows; the rest is counted.
const SHOWN: usize = 24;
/// A plan that takes at most this many times as long as the last one is near it.
const CLOSE: f64 = 1.03;
/// A second bound that is at least this many times the first is told.
const WORTH_SAYING: f64 = 1.01;
/// Seconds of a search for which it is told when plans were found.
const LONG: f64 = 1.0;

impl Found {
    /// What was found, for people.
    pub fn text(&self) -> String {
        let best = self.best();
        let verdict = best.verdict();
        let mut out = format!("{}: {}\n", mesh_text(best.mesh()), verdict_text(verdict));
        for axis in best.useless_axes() {
            let _ = writeln!(out, "{axis} {}", best.useless_reason());
        }
        let share = |part: f64| if verdict.seconds > 0.0 { 100.0 * part / verdict.seconds } else { 0.0 };
        let gap = match self.gap() {
            Some(_) => "all placements of the arguments were tried".to_string(),
            None => "not all placements were tried".into(),
        };
        // Nothing is known of devices that share the threads of a computer.
        let bound = match self.bound() {
            0.0 => String::new(),
            bound => format!("; no plan takes less than {} ({:.0}% of this)", human_seconds(bound), share(bound)),
        };
        let waits = match self.whole_axes_bound() {
            bound if bound <= WORTH_SAYING * self.bound() => String::new(),
            bound => format!(", none of whole axes less than {} ({:.0}%)", human_seconds(bound), share(bound)),
        };
        // Writing to a string does not fail.
        let _ = writeln!(out, "{gap}{bound}{waits}");
        if let Some(gap) = self.model_gap() {
            let _ = writeln!(out, "gap in the model: {:.2}%", 100.0 * gap);
        }
        let estimated = match self.estimates() {
            0 => String::new(),
            n => format!(", {n} assignments judged on a few blocks"),
        };
        let plans = match self.evaluations() {
            1 => "1 plan".to_string(),
            n => format!("{n} plans"),
        };
        let _ = writeln!(out, "{plans} compiled in {:.1} s{estimated}", self.seconds());
        let _ = writeln!(out, "assumed: {}", best.machine().title());
        if let [first, .., last] = self.improvements()
            && last.after >= LONG
        {
            let at = |i: &Improvement| format!("{} after {:.1} s", human_seconds(i.verdict.seconds), i.after);
            let near = self.improvements().iter().find(|i| i.verdict.seconds <= CLOSE * last.verdict.seconds);
            let near = near.map_or(0.0, |i| i.after);
            let _ = writeln!(out, "first plan: {}; last: {}; within 3% of it after {near:.1} s", at(first), at(last));
        }
        let reasons = best.reasons();
        out += match (reasons.is_empty(), best.annotations().is_empty()) {
            (false, _) => "\nannotation\n",
            (true, true) => "\nno annotation is needed\n",
            (true, false) => "\nno annotation is needed besides those that are given\n",
        };
        for reason in reasons.iter().take(SHOWN) {
            let _ = writeln!(out, "  {reason}");
        }
        if reasons.len() > SHOWN {
            let _ = writeln!(out, "  … {} more", reasons.len() - SHOWN);
        }
        if self.candidates().len() > 1 {
            out += "\nothers\n";
        }
        for other in &self.candidates()[1..] {
            let _ = writeln!(out, "  {}: {}", mesh_text(other.mesh()), verdict_text(other.verdict()));
        }
        out
    }

    /// What was found, as data.
    pub fn json(&self) -> Value {
        json!({
            "candidates": self.candidates().iter().map(candidate_json).collect::<Vec<_>>(),
            "gap": self.gap(),
            "model_gap": self.model_gap(),
            "bound_seconds": self.bound(),
            "whole_axes_bound_seconds": self.whole_axes_bound(),
            "evaluations": self.evaluations(),
            "estimates": self.estimates(),
            "improvements": self.improvements().iter()
                .map(|i| json!({ "after_seconds": i.after, "verdict": verdict_json(&i.verdict) })).collect::<Vec<_>>(),
            "seconds": self.seconds(),
        })
    }
}

/// `data=2 model=4`.
pub fn mesh_text(mesh: &Mesh) -> String {
    let axes: Vec<String> = mesh.axes().iter().map(|a| format!("{}={}", a.name, a.size)).collect();
    if axes.is_empty() { "one device".into() } else { axes.join(" ") }
}

/// What a plan costs, in a line.
pub fn verdict_text(verdict: &Verdict) -> String {
    format!(
        "{} a run, {} of memory and {} sent per device",
        human_seconds(verdict.seconds),
        human_bytes(verdict.peak as f64),
        human_bytes(verdict.sent)
    )
}

/// What a plan costs, as data.
pub fn verdict_json(verdict: &Verdict) -> Value {
    json!({
        "seconds": verdict.seconds,
        "compute_seconds": verdict.compute,
        "communication_seconds": verdict.communication,
        "peak_bytes": verdict.peak,
        "sent_bytes": verdict.sent,
        "utilization": verdict.utilization,
    })
}

fn candidate_json(candidate: &Candidate) -> Value {
    let annotations = candidate.annotations().into_iter().map(|placed| {
        let (kind, number) = match placed.place {
            ArrayPlace::Argument(i) => ("argument", Some(i)),
            ArrayPlace::Result(r) => ("result", Some(r)),
            ArrayPlace::Products => ("products", None),
        };
        json!({ "on": kind, "number": number, "name": placed.name, "axes": axes(&placed.sharding),
                "sharding": placed.sharding.to_string() })
    });
    let reasons = candidate.reasons().iter().map(|reason| {
        let without =
            reason.without.map(|d| json!({ "seconds": d.seconds, "peak_bytes": d.peak, "sent_bytes": d.sent }));
        json!({ "site": reason.site, "arrays": reason.names, "axes": axes(&reason.sharding), "without": without })
    });
    json!({
        "mesh": candidate.mesh().axes().iter().map(|a| json!([&*a.name, a.size])).collect::<Vec<_>>(),
        "verdict": verdict_json(candidate.verdict()),
        "annotations": annotations.collect::<Vec<_>>(),
        "reasons": reasons.collect::<Vec<_>>(),
    })
}

/// The axes of each dimension, by name.
fn axes(sharding: &Sharding) -> Vec<Vec<String>> {
    sharding.dims.iter().map(|d| d.axes.iter().map(|a| a.name.to_string()).collect()).collect()
}
