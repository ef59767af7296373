//! What a program is compared with: another program, or a lock file.

use std::cmp::Ordering;

use meshwork_ir::hash::HashMap;
use meshwork_mesh::{sort_by, sort_by_key};
use meshwork_partition::{Lock, plan};
use serde_json::{Value, json};

use crate::program::Program;

/// Operations of the other program that the lanes of time show, at most: the longest.
const MOST_BARS: usize = 3000;
/// Points of the other program's memory.
const POINTS: usize = 800;

/// What a program is compared with.
pub enum Against {
    /// A plan that was kept in a lock file.
    Lock(Lock),
    /// Another program, or the same on another mesh.
    Program(Box<Program>),
}

impl Against {
    /// The facts of both plans and what changed, as `explain --check` says it; of another program also its totals, its
    /// simulated run, its memory, and values that it places differently.
    pub(crate) fn data(&self, name: &str, program: &Program) -> Value {
        let now = Lock::of(&program.compiled.plan);
        let (was, other) = match self {
            Against::Lock(lock) => (lock.clone(), None),
            Against::Program(other) => (Lock::of(&other.compiled.plan), Some(&**other)),
        };
        let changes = was.changes(&now);
        json!({
            "name": name,
            "was": was.facts(),
            "is": now.facts(),
            "changes": changes.iter().map(|c| json!([c.name, c.was, c.is])).collect::<Value>(),
            "plan": other.map(|other| shown(name, &plan::data(&other.compiled, &other.machine))),
            "values": other.map(|other| moved(other, program)),
        })
    }
}

/// The totals of a plan, under a name.
pub(crate) fn totals(name: &str, plan: &Value) -> Value {
    let column = |name: &str| plan["ops"][name].as_array().map_or(&[][..], Vec::as_slice);
    let number = |name: &str, i: usize| column(name)[i].as_f64().unwrap_or(0.0);
    let time = |i: usize| number("counted", i) * number("seconds", i) * number("trips", i);
    let end = (0..column("name").len()).map(|i| number("start", i) + time(i)).fold(0.0, f64::max);
    json!({
        "name": name,
        "mesh": plan["mesh"],
        "wire_bytes": plan["wire_bytes"],
        "seconds": plan["seconds"],
        "flops": plan["flops"],
        "peak": plan["peak"]["bytes"],
        "end": end,
    })
}

/// What the views show of the other plan: its totals, under `name`, its simulated run and its memory.
fn shown(name: &str, plan: &Value) -> Value {
    let ops = &plan["ops"];
    let column = |name: &str| ops[name].as_array().map_or(&[][..], Vec::as_slice);
    let number = |name: &str, i: usize| column(name)[i].as_f64().unwrap_or(0.0);
    let count = column("name").len();
    let time = |i: usize| number("counted", i) * number("seconds", i) * number("trips", i);
    let mut long: Vec<usize> = (0..count).filter(|&i| time(i) > 0.0).collect();
    let longer = |&a: &usize, &b: &usize| time(b).partial_cmp(&time(a)).unwrap_or(Ordering::Equal).then(a.cmp(&b));
    sort_by(&mut long, longer);
    long.truncate(MOST_BARS);
    long.sort_unstable();
    let collective = |i: usize| {
        let c = usize::try_from(column("collective")[i].as_i64().unwrap_or(-1)).ok()?;
        Some(json!([plan["collectives"][c]["kind"], plan["collectives"][c]["axes"]]))
    };
    let points = count.min(POINTS);
    let most_alive = |k: usize| {
        let range = k * count / points..(k + 1) * count / points;
        range.map(|i| column("alive")[i].as_i64().unwrap_or(0)).max().unwrap_or(0)
    };
    let mut out = totals(name, plan);
    out["bars"] = json!({
        "name": long.iter().map(|&i| column("name")[i].clone()).collect::<Value>(),
        "place": long.iter().map(|&i| column("place")[i].clone()).collect::<Value>(),
        "start": long.iter().map(|&i| column("start")[i].clone()).collect::<Value>(),
        "time": long.iter().map(|&i| time(i)).collect::<Value>(),
        "collective": long.iter().map(|&i| collective(i)).collect::<Value>(),
    });
    out["alive"] = (0..points).map(most_alive).collect();
    out
}

/// Values that both programs have once, under the same name, and place differently: `[number, placement in the other]`.
fn moved(other: &Program, program: &Program) -> Value {
    let placements = |program: &Program| {
        let values = plan::data(&program.compiled, &program.machine)["values"].take();
        let column = |name: &str| values[name].as_array().cloned().unwrap_or_default();
        column("name").into_iter().zip(column("sharding")).collect::<Vec<_>>()
    };
    let once = |list: &[(Value, Value)]| {
        let mut at: HashMap<Value, Option<usize>> = HashMap::default();
        for (i, (name, _)) in list.iter().enumerate() {
            at.entry(name.clone()).and_modify(|n| *n = None).or_insert(Some(i));
        }
        at
    };
    let (was, is) = (placements(other), placements(program));
    let (before, now) = (once(&was), once(&is));
    let mut out: Vec<(usize, Value)> = vec![];
    for (name, &at) in &now {
        if let (Some(i), Some(Some(j))) = (at, before.get(name))
            && was[*j].1 != is[i].1
        {
            out.push((i, was[*j].1.clone()));
        }
    }
    sort_by_key(&mut out, |(i, _)| *i);
    out.into_iter().map(|(i, sharding)| json!([i, sharding])).collect()
}
