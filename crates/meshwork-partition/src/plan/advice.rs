//! Warnings about a plan: whole arrays that are gathered because of a position that only the run knows, and what to write instead.

use meshwork_mesh::sort_by;

use crate::plan::explain::human_bytes;
use crate::plan::{Plan, PlannedCollective};

/// What to write instead of an operation that reads or writes at computed positions.
fn instead(op: &str) -> Option<&'static str> {
    match op {
        "dynamic_slice" | "dynamic_update_slice" => Some(
            "a position that is known when tracing, an integer in s![..], moves only what it touches; otherwise split another \
             dimension, or take a shorter slice",
        ),
        "gather" => {
            Some("take along a dimension that is not split, or split the positions and not what they are taken from")
        }
        "scatter" => Some("scatter along a dimension that is not split, or place the updates like the array"),
        _ => None,
    }
}

/// A line for each place of the program that gathers an array for an operation at computed positions, most expensive first.
pub fn warnings(plan: &Plan) -> Vec<String> {
    let mut found: Vec<(f64, String)> = vec![];
    for planned in plan.collectives.iter().filter(|c| c.collective.kind.name() == "all-gather") {
        for (sent, line) in of_collective(planned) {
            match found.iter_mut().find(|(_, known)| *known == line) {
                Some((all, _)) => *all += sent,
                None => found.push((sent, line)),
            }
        }
    }
    sort_by(&mut found, |a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(sent, line)| line.replacen("{sent}", &human_bytes(sent), 1)).collect()
}

/// What a device sends for each operation that needs the collective, and the line, in which that stands as `{sent}`.
fn of_collective(planned: &PlannedCollective) -> Vec<(f64, String)> {
    let implicit = planned.causes.iter().filter(|cause| !cause.explicit);
    let lines = implicit.filter_map(|cause| {
        let instead = instead(&cause.op)?;
        let at = if cause.place.is_empty() { String::new() } else { format!(" at {}", cause.place) };
        let line = format!(
            "{}{at} gathers all of {} over {}, {{sent}} per device and run, because its positions are computed: {instead}",
            cause.op,
            cause.tensor,
            planned.axes_text()
        );
        Some((cause.wire_bytes * planned.collective.times as f64, line))
    });
    lines.collect()
}
