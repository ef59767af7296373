//! The outline of a program: loops and branches, and layers that repeat.
//!
//! Layers are found by their structure. A run of operations that equals the run before it, operation by operation in name and
//! types, is a repetition; long ones are looked for first, then shorter ones inside a layer. Time is linear in the number of
//! operations for each length that is tried.

use std::hash::{BuildHasher, BuildHasherDefault};
use std::ops::Range;

use meshwork_ir::hash::HashMap;
use serde_json::{Value, json};

/// How many operations in a row have to be equal for a repetition to be considered, longest first.
const WINDOWS: [usize; 4] = [64, 24, 10, 5];

struct Node {
    kind: &'static str,
    label: String,
    /// Operations, with everything inside them.
    first: usize,
    last: usize,
    parent: i64,
    /// How often it runs or repeats.
    times: i64,
}

/// The outline in columns: parents before children. `ops` are the columns of the plan.
pub fn outline(ops: &Value) -> Value {
    let program = Ops::new(ops);
    let mut nodes = vec![Node {
        kind: "program",
        label: "program".into(),
        first: 0,
        last: program.names.len().max(1) - 1,
        parent: -1,
        times: 1,
    }];
    let top: Vec<usize> = (0..program.names.len()).filter(|&i| program.parents[i] < 0).collect();
    program.block(&top, 0, &mut nodes);
    let column = |cell: &dyn Fn(&Node) -> Value| nodes.iter().map(cell).collect::<Value>();
    json!({
        "kind": column(&|n| n.kind.into()),
        "label": column(&|n| n.label.as_str().into()),
        "first": column(&|n| n.first.into()),
        "last": column(&|n| n.last.into()),
        "parent": column(&|n| n.parent.into()),
        "times": column(&|n| n.times.into()),
    })
}

/// What the outline needs to know of the operations.
struct Ops<'a> {
    names: Vec<&'a str>,
    paths: Vec<&'a str>,
    places: Vec<&'a str>,
    parents: Vec<i64>,
    trips: Vec<i64>,
    /// Name and types of the operation and of all that is inside it.
    looks: Vec<u64>,
    /// One past the last operation inside.
    ends: Vec<usize>,
    children: HashMap<usize, Vec<usize>>,
}

impl<'a> Ops<'a> {
    fn new(ops: &'a Value) -> Ops<'a> {
        let list = |name: &str| ops[name].as_array().map_or(&[][..], Vec::as_slice);
        let texts = |name: &str| list(name).iter().map(|v| v.as_str().unwrap_or("")).collect::<Vec<_>>();
        let numbers = |name: &str| list(name).iter().map(|v| v.as_i64().unwrap_or(-1)).collect::<Vec<_>>();
        let (names, parents) = (texts("name"), numbers("parent"));
        let hasher = BuildHasherDefault::<std::hash::DefaultHasher>::default();
        let types = list("types");
        let mut looks: Vec<u64> =
            names.iter().enumerate().map(|(i, name)| hasher.hash_one((name, &types[i]))).collect();
        let mut ends: Vec<usize> = (1..=names.len()).collect();
        let mut children: HashMap<usize, Vec<usize>> = HashMap::default();
        for i in (0..names.len()).rev() {
            if let Ok(parent) = usize::try_from(parents[i]) {
                looks[parent] = hasher.hash_one((looks[parent], looks[i]));
                ends[parent] = ends[parent].max(ends[i]);
                children.entry(parent).or_default().push(i);
            }
        }
        children.values_mut().for_each(|list| list.reverse());
        Ops {
            names,
            paths: texts("path"),
            places: texts("place"),
            parents,
            trips: numbers("trips"),
            looks,
            ends,
            children,
        }
    }

    /// The outline of the operations `list`, which follow each other, below node `parent`.
    fn block(&self, list: &[usize], parent: usize, nodes: &mut Vec<Node>) {
        self.repeats(list, parent, &WINDOWS, nodes);
    }

    fn repeats(&self, list: &[usize], parent: usize, windows: &[usize], nodes: &mut Vec<Node>) {
        let Some((&window, shorter)) = windows.split_first() else {
            list.iter().for_each(|&op| self.inside(op, parent, nodes));
            return;
        };
        let mut done = 0;
        for run in runs(list, &self.looks, window) {
            self.repeats(&list[done..run.start], parent, shorter, nodes);
            done = run.start + run.period * run.times;
            let all = run.start..done;
            let repeat = nodes.len();
            nodes.push(self.node("repeat", String::new(), list, all.clone(), parent, run.times as i64));
            for i in 0..run.times {
                let part = run.start + i * run.period..run.start + (i + 1) * run.period;
                let number = nodes.len();
                let label = self.label(&list[part.clone()]);
                nodes.push(self.node("layer", label, list, part.clone(), repeat, 1));
                self.repeats(&list[part], number, shorter, nodes);
            }
            nodes[repeat].label = nodes[repeat + 1].label.clone();
        }
        self.repeats(&list[done..], parent, shorter, nodes);
    }

    fn node(
        &self,
        kind: &'static str,
        label: String,
        list: &[usize],
        part: Range<usize>,
        parent: usize,
        times: i64,
    ) -> Node {
        let (first, last) = (list[part.start], self.ends[list[part.end - 1]] - 1);
        Node { kind, label, first, last, parent: parent as i64, times }
    }

    /// Loops and branches among the operations are nodes of their own.
    fn inside(&self, op: usize, parent: usize, nodes: &mut Vec<Node>) {
        let Some(children) = self.children.get(&op) else { return };
        let times = self.trips[children[0]] / self.trips[op].max(1);
        let (kind, times) = if self.names[op] == "while" { ("loop", times) } else { ("branch", 1) };
        let number = nodes.len();
        let label = format!("{}{}", self.names[op], at(self.places[op]));
        nodes.push(Node { kind, label, first: op, last: self.ends[op] - 1, parent: parent as i64, times });
        self.block(children, number, nodes);
    }

    /// What the names of traced operations have in common, or the operation that stands out.
    fn label(&self, list: &[usize]) -> String {
        let mut common = "";
        let mut paths = list.iter().map(|&op| self.paths[op]).filter(|p| !p.is_empty());
        if let Some(first) = paths.next() {
            common = paths.fold(first, |common, path| {
                let same = common.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
                common.get(..same).unwrap_or("")
            });
        }
        let name = common.rsplit_once('/').map_or("", |(head, _)| head);
        match name.rsplit('/').next() {
            Some(last) if !last.is_empty() => last.to_string(),
            _ => format!("{} operations{}", list.len(), at(self.places[list[0]])),
        }
    }
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at {place}") }
}

/// Equal runs behind each other.
#[derive(PartialEq, Debug)]
struct Run {
    start: usize,
    period: usize,
    times: usize,
}

/// The repetitions in `list` whose period is at least `window`, in order and apart from each other.
fn runs(list: &[usize], looks: &[u64], window: usize) -> Vec<Run> {
    let mut out: Vec<Run> = vec![];
    let count = list.len();
    if count < 2 * window {
        return out;
    }
    let hasher = BuildHasherDefault::<std::hash::DefaultHasher>::default();
    let look = |i: usize| looks[list[i]];
    let gram = |i: usize| hasher.hash_one((i..i + window).map(look).collect::<Vec<_>>());
    let mut seen: HashMap<u64, usize> = HashMap::default();
    let mut i = 0;
    while i + window <= count {
        let before = seen.insert(gram(i), i);
        let Some(start) =
            before.filter(|&b| i - b >= window && out.last().is_none_or(|r| b >= r.start + r.period * r.times))
        else {
            i += 1;
            continue;
        };
        let period = i - start;
        let mut same = 0;
        while i + same < count && look(i + same) == look(start + same) {
            same += 1;
        }
        if same < period {
            i += 1;
            continue;
        }
        let times = 1 + same / period;
        out.push(Run { start, period, times });
        i = start + period * times;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, window: usize) -> Vec<(usize, usize, usize)> {
        let looks: Vec<u64> = text.bytes().map(u64::from).collect();
        let list: Vec<usize> = (0..looks.len()).collect();
        runs(&list, &looks, window).into_iter().map(|r| (r.start, r.period, r.times)).collect()
    }

    #[test]
    fn repetitions_are_found() {
        assert_eq!(found("xabcdeabcdeabcdey", 5), [(1, 5, 3)]);
        assert_eq!(found("abcdefgh", 3), []);
        assert_eq!(found("abcabcxyzxyzxyz", 3), [(0, 3, 2), (6, 3, 3)]);
        assert_eq!(found("", 3), []);
    }

    #[test]
    fn layers_and_loops_are_nested() {
        // Eight operations, of which the second is a loop with three rounds of two; then six times five operations.
        let mut names = vec!["tanh", "while", "add", "return"];
        let mut parents = vec![-1, -1, 1, 1];
        for _ in 0..6 {
            names.extend(["dot", "add", "exp", "reduce", "div"]);
            parents.extend([-1; 5]);
        }
        let count = names.len();
        let trips: Vec<i64> = (0..count).map(|i| if parents[i] == 1 { 3 } else { 1 }).collect();
        let ops = json!({
            "name": names, "parent": parents, "trips": trips, "types": vec![json!([]); count],
            "path": vec![""; count], "place": vec![""; count],
        });
        let outline = outline(&ops);
        let kinds: Vec<&str> = outline["kind"].as_array().unwrap().iter().map(|k| k.as_str().unwrap()).collect();
        assert_eq!(kinds, ["program", "loop", "repeat", "layer", "layer", "layer", "layer", "layer", "layer"]);
        assert_eq!(outline["times"], json!([1, 3, 6, 1, 1, 1, 1, 1, 1]));
        assert_eq!(outline["first"], json!([0, 1, 4, 4, 9, 14, 19, 24, 29]));
        assert_eq!(outline["last"], json!([33, 3, 33, 8, 13, 18, 23, 28, 33]));
        assert_eq!(outline["parent"], json!([-1, 0, 0, 2, 2, 2, 2, 2, 2]));
    }
}
