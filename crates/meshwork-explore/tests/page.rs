//! The page as a file: its data is the plan's, it is the same on every run, and nothing in a program can break out of it.

use meshwork_explore::{Against, Page, Program, Run};
use meshwork_partition::{Lock, plan};
use serde_json::{Value, json};

const MOST_COMBINED: i64 = 4 << 20;

fn program(text: &str) -> Program {
    let module = meshwork_ir::text::parse(text).unwrap();
    Program::compile(module, Some(text), &Default::default(), MOST_COMBINED).unwrap()
}

/// The programs of the repository that have a mesh, those of the examples, and those in the folder `MESHWORK_PROGRAMS` names.
fn programs() -> Vec<(String, Program)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let folders = [format!("{root}/examples/mlir"), format!("{root}/tests/golden")];
    let files = folders.iter().flat_map(|f| std::fs::read_dir(f).unwrap()).map(|entry| entry.unwrap().path());
    let wanted = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.ends_with(".mlir")
            && (path.starts_with(&folders[0]) || name.starts_with("explain_") || name.starts_with("why_"))
    };
    let mut files: Vec<_> = files.filter(wanted).collect();
    files.sort();
    assert!(files.len() >= 9, "{files:?}");
    if let Some(more) = std::env::var_os("MESHWORK_PROGRAMS") {
        let entries = std::fs::read_dir(&more).unwrap_or_else(|e| panic!("{}: {e}", more.display()));
        let given = entries.map(|entry| entry.unwrap().path());
        files.extend(given.filter(|path| path.extension().is_some_and(|e| e == "mlir")));
    }
    files.iter().map(|f| (f.display().to_string(), program(&std::fs::read_to_string(f).unwrap()))).collect()
}

/// Undoes what makes columns small, as `decode.js` does.
fn absolute(column: &Value, how: &str) -> Vec<Value> {
    let mut sum = 0;
    let cell = |n: &Value, row: usize| match n.as_str() {
        Some(text) => json!(text.parse::<i64>().unwrap()),
        None => json!(n.as_i64().unwrap() + row as i64),
    };
    let cells = column.as_array().unwrap().iter().enumerate().map(|(row, n)| match (how, n) {
        ("differences", n) => {
            sum += n.as_i64().unwrap();
            json!(sum)
        }
        (_, Value::Array(list)) => list.iter().map(|n| cell(n, row)).collect(),
        (_, n) => cell(n, row),
    });
    cells.collect()
}

/// A text with the line that a mark at its end stands for.
fn with_line((text, line): (&Value, &Value)) -> Value {
    json!(text.as_str().unwrap().replace('\u{e000}', &format!("line {line}")))
}

#[test]
fn data_is_what_explain_says() {
    for (name, program) in programs() {
        let page = Page::new(&name, &program);
        let shown = &page.data()["plan"];
        let said = plan::data(program.compiled(), &Default::default());
        for (field, value) in said.as_object().unwrap() {
            if field != "ops" && field != "values" {
                assert_eq!(&shown[field], value, "{name}: {field}");
            }
        }
        for (column, cells) in said["ops"].as_object().unwrap() {
            let own = &shown["ops"][column];
            let own: Value = match column.as_str() {
                "line" | "alive" => absolute(own, "differences").into(),
                "start" => {
                    let whole = absolute(own, "differences");
                    whole.iter().map(|n| json!(n.as_i64().unwrap() as f64 / 1e12)).collect()
                }

                "place" => {
                    own.as_array().unwrap().iter().zip(said["ops"]["line"].as_array().unwrap()).map(with_line).collect()
                }
                "operands" | "until" | "parent" | "value" | "collective" => absolute(own, "rows").into(),
                _ => own.clone(),
            };
            assert_eq!(&own, cells, "{name}: {column}");
        }
    }
}

#[test]
fn the_text_of_explain_is_its_data() {
    let program = program(PROGRAM);
    let text = plan::json(program.compiled(), &Default::default());
    let read: Value = serde_json::from_str(&text).unwrap();
    let said = plan::data(program.compiled(), &Default::default());
    let fields = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&read), fields(&said));
    for table in ["ops", "values"] {
        assert_eq!(fields(&read[table]), fields(&said[table]));
        assert_eq!(read[table]["name"], said[table]["name"]);
    }
    assert_eq!(read["collectives"][0]["causes"], said["collectives"][0]["causes"]);
}

#[test]
fn every_collective_is_an_operation_and_totals_add_up() {
    for (name, program) in programs() {
        let plan = &program.compiled().plan;
        let ops = plan::ops(program.compiled(), &Default::default());
        let mut found: Vec<usize> = ops.iter().filter_map(|op| op.collective).collect();
        found.sort_unstable();
        assert_eq!(found, (0..plan.collectives.len()).collect::<Vec<_>>(), "{name}");
        let flops: f64 = ops.iter().filter(|op| op.counted).map(|op| op.flops * op.trips as f64).sum();
        assert_eq!(flops, plan.flops, "{name}");
        assert_eq!(ops.iter().map(|op| op.alive).max().unwrap_or(0), plan.peak.bytes, "{name}");
        for op in ops.iter().filter_map(|op| Some((op, &plan.collectives[op.collective?]))) {
            assert_eq!(op.0.trips, op.1.collective.times, "{name}");
        }
    }
}

#[test]
fn histories_are_what_why_says() {
    let mut compared = 0;
    for (name, program) in programs() {
        let compiled = program.compiled();
        let page = Page::new(&name, &program);
        let why = &page.data()["why"];
        let Some(provenance) = &compiled.provenance else { continue };
        let written = meshwork_ir::text::parse(page.data()["text"].as_str().unwrap()).unwrap();
        let explainer = plan::Explainer { written: &written, provenance };
        let columns = |name: &str| absolute(&why["links"][name], "rows");
        let (from, through, next) = (columns("from"), columns("through"), columns("next"));
        let names = why["names"].as_array().unwrap();
        let text = |i: i64| names[i as usize].as_str().unwrap();
        for (value, starts) in plan::values(compiled).iter().zip(why["starts"].as_array().unwrap()) {
            if value.value.index() >= provenance.module.value_slots() {
                continue;
            }
            let said = explainer.explain(value.value, None);
            let mut lines = said.lines().filter(|l| l.starts_with("    ") && !l.starts_with("    not ")).map(str::trim);
            for start in starts.as_array().unwrap() {
                let mut at = start[2].as_i64().unwrap();
                while at >= 0 {
                    let row = at as usize;
                    let (source, dim) = (text(from[row].as_i64().unwrap()), &why["links"]["dim"][row]);
                    let shown = match through[row].as_i64().unwrap() {
                        -1 => format!("as {source}, of the same sharding group"),
                        op if text(op) == source => format!("from dimension {dim} of {source}"),
                        op => format!("from dimension {dim} of {source}, through {}", text(op)),
                    };
                    assert_eq!(Some(shown.as_str()), lines.next(), "{name}: {said}");
                    at = next[row].as_i64().unwrap();
                    compared += 1;
                }
                assert_eq!(Some(text(-1 - at)), lines.next(), "{name}: {said}");
            }
            assert_eq!(lines.next(), None, "{name}: {said}");
        }
    }
    assert!(compared > 50, "{compared}");
}

const PROGRAM: &str = r#"
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                  %b: tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<6x5xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
    return %0 : tensor<6x5xf32>
  }"#;

#[test]
fn the_same_program_gives_the_same_bytes() {
    let html = |title: &str| Page::new(title, &program(PROGRAM)).html();
    assert_eq!(html("a"), html("a"));
    assert_ne!(html("a"), html("b"));
}

#[test]
fn names_cannot_break_out_of_the_page() {
    let evil = r#"</script><script>alert(1)</script><img src=x onerror=alert(2)>'\22"#;
    let long = "n".repeat(10_000);
    let text = PROGRAM
        .replace("tensor<6x5xf32>\n    return", &format!("tensor<6x5xf32> loc(\"{evil}{long}\")\n    return"))
        .replace("[\"x\"=4]", "[\"</script>\"=4]")
        .replace("{\"x\"}", "{\"</script>\"}");
    let program = program(&text);
    let page = Page::new(evil, &program);
    let html = page.html();
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script>").count(), 2);
    assert!(!html.contains("<img"));
    let data = page.data().to_string();
    assert!(data.contains("onerror") && data.contains(&long), "the names are in the data");
}

#[test]
fn pages_are_small_and_load_nothing() {
    let html = Page::new("small", &program(PROGRAM)).html();
    assert!(html.len() <= 150_000, "{} bytes", html.len());
    assert!(html.contains("default-src 'none'"));
    // The only address is the name of SVG.
    assert_eq!(html.matches("http://").count(), html.matches("http://www.w3.org/2000/svg").count());
    assert_eq!(html.matches("https://").count(), 0);
}

#[test]
fn comparison_is_what_check_says() {
    let (before, after) = (program(PROGRAM), program(&PROGRAM.replacen("[{\"x\"}, {}]", "[{}, {\"x\"}]", 1)));
    let (was, is) = (Lock::of(&before.compiled().plan), Lock::of(&after.compiled().plan));
    let said: Vec<Value> = was.changes(&is).iter().map(|c| json!([c.name, c.was, c.is])).collect();
    assert!(!said.is_empty());
    let page = |against: &Against| Page::new("p", &after).against("before", &after, against).data()["against"].clone();
    let from_lock = page(&Against::Lock(Lock::parse(&was.to_string()).unwrap()));
    let from_program = page(&Against::Program(Box::new(before)));
    assert_eq!(from_lock["changes"], json!(said));
    assert_eq!(from_program["changes"], json!(said));
}

#[test]
fn comparison_is_what_check_says_for_all_pairs() {
    let programs = programs();
    let locks: Vec<Lock> = programs.iter().map(|(_, p)| Lock::of(&p.compiled().plan)).collect();
    let mut changed = 0;
    for (i, (name, program)) in programs.iter().enumerate() {
        for (j, lock) in locks.iter().enumerate() {
            // What `--check` prints, line by line, from a lock file that was read back.
            let read = Lock::parse(&lock.to_string()).unwrap();
            let said: Vec<String> = read.changes(&locks[i]).iter().map(|c| c.to_string()).collect();
            let page = Page::new("p", program).against("other", program, &Against::Lock(read));
            let line = |c: &Value| match (c[1].as_str(), c[2].as_str()) {
                (None, Some(is)) => format!("+ {}: {is}", c[0].as_str().unwrap()),
                (Some(was), None) => format!("- {}: {was}", c[0].as_str().unwrap()),
                (was, is) => format!("~ {}: {} -> {}", c[0].as_str().unwrap(), was.unwrap(), is.unwrap()),
            };
            let shown: Vec<String> = page.data()["against"]["changes"].as_array().unwrap().iter().map(line).collect();
            assert_eq!(shown, said, "{name} and {}", programs[j].0);
            assert_eq!(shown.is_empty(), i == j || locks[i] == locks[j], "{name} and {}", programs[j].0);
            changed += shown.len();
        }
    }
    assert!(changed > 100, "{changed}");
}

#[test]
fn another_program_is_shown_in_every_view() {
    let (before, after) = (program(PROGRAM), program(&PROGRAM.replacen("[{\"x\"}, {}]", "[{}, {\"x\"}]", 1)));
    let plan = plan::data(before.compiled(), &Default::default());
    let page = Page::new("p", &after).against("before", &after, &Against::Program(Box::new(before)));
    let against = &page.data()["against"];
    for field in ["wire_bytes", "seconds", "flops", "mesh"] {
        assert_eq!(against["plan"][field], plan[field], "{field}");
    }
    assert_eq!(against["plan"]["peak"], plan["peak"]["bytes"]);
    let most = |list: &Value| list.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).max();
    assert_eq!(most(&against["plan"]["alive"]), plan["peak"]["bytes"].as_i64());
    let long = plan["ops"]["seconds"].as_array().unwrap().iter().filter(|s| s.as_f64() > Some(0.0)).count();
    assert_eq!(against["plan"]["bars"]["name"].as_array().unwrap().len(), long);
    // The first argument was split by rows and is by columns.
    assert_eq!(against["values"][0], json!([0, [["x"], []]]));
}

#[test]
fn variants_have_the_totals_of_their_plans() {
    let (own, wide) = (program(PROGRAM), program(&PROGRAM.replace("[\"x\"=4]", "[\"x\"=8]")));
    let plan = plan::data(wide.compiled(), &Default::default());
    let page = Page::new("p", &own).what_if("x=8", &wide).what_if("again", &own);
    let variants = page.data()["variants"].as_array().unwrap();
    assert_eq!(variants.len(), 2);
    for field in ["wire_bytes", "seconds", "flops", "mesh"] {
        assert_eq!(variants[0][field], plan[field], "{field}");
    }
    assert_eq!((&variants[0]["name"], &variants[0]["peak"]), (&json!("x=8"), &plan["peak"]["bytes"]));
    assert!(variants[1]["end"].as_f64() > Some(0.0));
}

/// The type of a field: a name for numbers and texts, or what it has inside.
enum Kind {
    Number,
    Flag,
    Text,
    Mesh,
    /// Axes of each dimension.
    Dims,
    List(&'static Kind),
    OrNull(&'static Kind),
    /// A record with exactly these fields.
    Record(&'static [(&'static str, Kind)]),
    /// A record with any names.
    ByName(&'static Kind),
}
use Kind::{ByName, Dims, Flag, List, Number, OrNull, Record, Text};

const BORDER: Kind = Record(&[("name", Text), ("type", Text), ("sharding", Dims)]);
const CAUSE: Kind = Record(&[
    ("op", Text),
    ("place", Text),
    ("path", Text),
    ("tensor", Text),
    ("argument", Text),
    ("reason", Text),
    ("explicit", Flag),
    ("wire_bytes", Number),
    ("annotation", OrNull(&Record(&[("what", Text), ("sharding", Text)]))),
]);
const COLLECTIVE: Kind = Record(&[
    ("kind", Text),
    ("axes", List(&Text)),
    ("operand_bytes", Number),
    ("wire_bytes", Number),
    ("times", Number),
    ("times_unknown", Flag),
    ("seconds", Number),
    ("causes", List(&CAUSE)),
]);
const LINK: Kind = Record(&[("axis", Text), ("latency_us", Number), ("gbps", Number)]);
const ALIVE: Kind = Record(&[("bytes", Number), ("type", Text), ("from", Text)]);
const TOTAL: Kind = Record(&[("count", Number), ("operand_bytes", Number), ("wire_bytes", Number)]);
/// The plan as docs/plan.md describes it.
const PLAN: Kind = Record(&[
    ("version", Number),
    ("mesh", Kind::Mesh),
    (
        "machine",
        Record(&[
            ("name", Text),
            ("text", Text),
            ("teraflops", Number),
            ("memory_gbps", Number),
            ("links", List(&LINK)),
        ]),
    ),
    ("arguments", List(&BORDER)),
    ("results", List(&BORDER)),
    ("collectives", List(&COLLECTIVE)),
    ("totals", ByName(&TOTAL)),
    ("wire_bytes", Number),
    ("seconds", Number),
    (
        "run",
        Record(&[
            ("seconds", Number),
            ("computing", Number),
            ("communicating", Number),
            ("axes", List(&Record(&[("axis", Text), ("busy", Number), ("exposed", Number)]))),
            ("utilization", Number),
        ]),
    ),
    ("unknown_trip_counts", Flag),
    ("flops", Number),
    ("peak", Record(&[("bytes", Number), ("at", Text), ("alive", List(&ALIVE))])),
    (
        "ops",
        Record(&[
            ("name", List(&Text)),
            ("line", List(&Number)),
            ("place", List(&Text)),
            ("path", List(&Text)),
            ("parent", List(&Number)),
            ("trips", List(&Number)),
            ("trips_unknown", List(&Number)),
            ("counted", List(&Number)),
            ("flops", List(&Number)),
            ("bytes", List(&Number)),
            ("traffic", List(&Number)),
            ("seconds", List(&Number)),
            ("start", List(&Number)),
            ("operands", List(&List(&Number))),
            ("types", List(&List(&Text))),
            ("result_bytes", List(&List(&Number))),
            ("until", List(&List(&Number))),
            ("collective", List(&Number)),
            ("alive", List(&Number)),
            ("value", List(&Number)),
        ]),
    ),
    (
        "values",
        Record(&[
            ("name", List(&Text)),
            ("type", List(&Text)),
            ("line", List(&Number)),
            ("sharding", List(&Dims)),
            ("unreduced", List(&List(&Text))),
            ("reduction", List(&Text)),
            ("order", List(&OrNull(&Kind::Mesh))),
        ]),
    ),
]);
const MESH: Kind =
    Record(&[("axes", List(&Record(&[("name", Text), ("size", Number)]))), ("device_ids", OrNull(&List(&Number)))]);

/// Holds a value to its type; every field is named once in `names`.
fn conforms(value: &Value, kind: &Kind, at: &str, names: &mut std::collections::BTreeSet<&'static str>) {
    match kind {
        Number => assert!(value.is_number(), "{at}: {value}"),
        Flag => assert!(value.is_boolean(), "{at}: {value}"),
        Text => assert!(value.is_string(), "{at}: {value}"),
        Kind::Mesh => conforms(value, &MESH, at, names),
        Dims => conforms(value, &List(&List(&Text)), at, names),
        List(of) => {
            let list = value.as_array().unwrap_or_else(|| panic!("{at}: {value}"));
            list.iter().for_each(|v| conforms(v, of, at, names));
        }
        OrNull(of) => {
            if !value.is_null() {
                conforms(value, of, at, names);
            }
        }
        ByName(of) => {
            let record = value.as_object().unwrap_or_else(|| panic!("{at}: {value}"));
            record.iter().for_each(|(name, v)| conforms(v, of, &format!("{at}.{name}"), names));
        }
        Record(fields) => {
            let record = value.as_object().unwrap_or_else(|| panic!("{at}: {value}"));
            for (name, of) in *fields {
                names.insert(name);
                let v = record.get(*name).unwrap_or_else(|| panic!("{at} has no {name}"));
                conforms(v, of, &format!("{at}.{name}"), names);
            }
            let extra = record.keys().find(|k| fields.iter().all(|(name, _)| name != k));
            assert!(extra.is_none(), "{at}.{} is not described in docs/plan.md", extra.unwrap());
        }
    }
}

#[test]
fn the_plan_as_data_is_as_the_documentation_says() {
    let mut names = Default::default();
    for (name, program) in programs() {
        let text = plan::json(program.compiled(), &Default::default());
        conforms(&serde_json::from_str(&text).unwrap(), &PLAN, &name, &mut names);
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan.md")).unwrap();
    let section = page.split("## The plan as data").nth(1).unwrap();
    for name in &names {
        assert!(section.contains(&format!("`{name}`")), "docs/plan.md does not describe `{name}`");
    }
    // The rows of its tables are fields and columns.
    for row in section.lines().filter(|l| l.starts_with("| `")) {
        for name in row.split('|').nth(1).unwrap().split(',').map(|n| n.trim().trim_matches('`')) {
            assert!(names.contains(name), "docs/plan.md describes `{name}`, which plans do not have");
        }
    }
}

#[test]
fn a_run_is_kept() {
    let trace = r#"[{"ph": "X", "name": "dot_general at line 5", "pid": 0, "tid": 0, "ts": 1, "dur": 2}]"#;
    let page = Page::new("p", &program(PROGRAM)).with_run(&Run::parse(trace).unwrap()).budget(1000);
    assert_eq!(page.data()["run"]["events"]["length"], json!([2000]));
    assert_eq!(page.data()["budget"], 1000);
}

#[test]
fn programs_without_text_are_printed() {
    let mut module = meshwork_ir::text::parse(PROGRAM).unwrap();
    for op in module.op_ids().collect::<Vec<_>>() {
        module.op_mut(op).pos = Default::default();
    }
    let program = Program::compile(module, None, &Default::default(), MOST_COMBINED).unwrap();
    let page = Page::new("p", &program);
    let text = page.data()["text"].as_str().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let numbers = absolute(&page.data()["plan"]["ops"]["line"], "differences");
    let dot = page.data()["plan"]["ops"]["name"].as_array().unwrap().iter().position(|n| n == "dot_general").unwrap();
    assert!(lines[numbers[dot].as_u64().unwrap() as usize - 1].contains("stablehlo.dot_general"), "{text}");
    let device: Vec<&str> = page.data()["device"].as_str().unwrap().lines().collect();
    let own = absolute(&page.data()["device_line"], "differences");
    assert!(device[own[dot].as_u64().unwrap() as usize - 1].contains("stablehlo.dot_general"));
}
