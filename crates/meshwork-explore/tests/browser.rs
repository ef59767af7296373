//! The page's own checks in a real browser. `scripts/test explorer` runs them; they need Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;

use meshwork_explore::{Against, Page, Program, Run};
use meshwork_mesh::{AxisRef, DimSharding, Mesh, Sharding, slices};
use meshwork_partition::Lock;
use serde_json::{Value, json};

/// `MESHWORK_CHROMIUM`, or what is called `chromium`.
fn chromium() -> String {
    std::env::var("MESHWORK_CHROMIUM").unwrap_or("chromium".into())
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Opens a page with `#selftest` and returns the report that it writes into itself.
fn selftest(name: &str, html: &str) -> Value {
    let path = folder().join(format!("{name}.html"));
    std::fs::write(&path, html).unwrap();
    let profile = folder().join(format!("profile-{name}"));
    let output = Command::new(chromium())
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--window-size=1280,800", "--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}#selftest", path.display()))
        .output()
        .unwrap_or_else(|e| panic!("{} does not start: {e}", chromium()));
    let _ = std::fs::remove_dir_all(&profile);
    let dom = String::from_utf8_lossy(&output.stdout);
    let report = dom.split("<pre id=\"report\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let report = report.unwrap_or_else(|| panic!("{name} wrote no report; {} bytes of DOM", dom.len()));
    let report = report.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&report).unwrap_or_else(|e| panic!("{name}: {e}: {report}"))
}

fn check(name: &str, html: &str) {
    let report = selftest(name, html);
    assert_eq!(report["failed"], json!([]), "{name}");
    assert!(report["checks"].as_i64().unwrap() > 50, "{name}: {report}");
}

fn program(text: &str) -> Program {
    Program::compile(meshwork_ir::text::parse(text).unwrap(), Some(text), &Default::default(), 4 << 20).unwrap()
}

fn file(path: &str) -> String {
    std::fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
#[ignore = "needs Chromium"]
fn pages_check_themselves() {
    let names = ["examples/mlir/matmul", "examples/mlir/heat", "tests/golden/explain_loop", "tests/golden/why_block"];
    for name in names {
        let text = file(&format!("{name}.mlir"));
        check(&name.replace('/', "-"), &Page::new(name, &program(&text)).html());
    }
}

#[test]
#[ignore = "needs Chromium"]
fn a_page_with_everything_checks_itself() {
    let text = file("tests/golden/explain_train.mlir");
    let (before, now) = (program(&text.replacen("[{\"y\"}, {}]", "[{}, {}]", 1)), program(&text));
    let trace = r#"[{"ph": "X", "name": "dot_general at line 13", "pid": 0, "tid": 0, "ts": 1, "dur": 2},
        {"ph": "X", "name": "wait for all_reduce at line 13", "cat": "waiting", "pid": 0, "tid": 0, "ts": 3, "dur": 1},
        {"ph": "X", "name": "allocate", "cat": "allocation", "pid": 1, "tid": 1, "ts": 0, "dur": 1, "args": {"bytes": 64}},
        {"ph": "X", "name": "all_reduce at line 13", "cat": "collective", "pid": 1, "tid": 0, "ts": 3, "dur": 2}]"#;
    let wide = program(&text.replace("\"y\"=4", "\"y\"=8"));
    let page = Page::new("train", &now).with_run(&Run::parse(trace).unwrap()).budget(60_000).what_if("y=8", &wide);
    check("against-program", &page.against("before", &now, &Against::Program(Box::new(before))).html());
    let lock = Lock::of(&now.compiled().plan);
    check("against-lock", &Page::new("train", &now).against("train.lock", &now, &Against::Lock(lock)).html());
}

#[test]
#[ignore = "needs Chromium"]
fn evil_names_do_nothing() {
    let evil = r#"</script><script>document.title=1/0</script><img src=x onerror=document.write(7)>'"#;
    let text = file("tests/golden/explain_train.mlir")
        .replace("\"x\"", "\"</script><b>\"")
        .replace("-> tensor<16x128xf32>\n", &format!("-> tensor<16x128xf32> loc(\"{evil}{}\")\n", "n".repeat(10_000)));
    check("evil", &Page::new(evil, &program(&text)).html());
}

/// A small generator of random numbers: the cases are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// A mesh, a shape and a placement of it: sub-axes, device orders, uneven extents, ranks from 0 to 8.
fn case(random: &mut Random) -> Value {
    let sizes: Vec<i64> = (0..random.below(4)).map(|_| [1, 2, 3, 4, 6, 8][random.below(6)]).collect();
    let named = sizes.iter().enumerate().map(|(i, &size)| (format!("a{i}"), size));
    let mut mesh = Mesh::new(named).unwrap();
    let count = mesh.device_count();
    if random.below(3) == 0 && !sizes.is_empty() {
        let mut ids: Vec<i64> = (0..count).collect();
        (1..ids.len()).for_each(|i| ids.swap(i, random.below(i + 1)));
        mesh = mesh.with_device_ids(ids).unwrap();
    }
    let rank = random.below(9);
    let shape: Vec<i64> = (0..rank).map(|_| [0, 1, 2, 3, 5, 7, 8, 12, 31][random.below(9)]).collect();
    let mut dims: Vec<Vec<AxisRef>> = vec![vec![]; rank];
    for (i, &size) in sizes.iter().enumerate() {
        if rank == 0 || random.below(4) == 0 {
            continue;
        }
        let name = format!("a{i}");
        let part = [2, 3].into_iter().find(|p| size % p == 0 && size > *p).filter(|_| random.below(2) == 0);
        match part {
            // Two parts of the axis, in two places.
            Some(p) => {
                dims[random.below(rank)].push(AxisRef::sub(name.clone(), 1, p));
                dims[random.below(rank)].push(AxisRef::sub(name, p, size / p));
            }
            None => dims[random.below(rank)].push(AxisRef::full(name)),
        }
    }
    let sharding = Sharding::new("mesh", dims.iter().map(|axes| DimSharding::closed(axes.clone())));
    let held = slices(&sharding, &mesh, &shape).unwrap();
    let held: Vec<Value> =
        held.map(|(d, r)| json!([d, r.iter().map(|r| [r.start, r.end]).collect::<Vec<_>>()])).collect();
    let names = |axes: &Vec<AxisRef>| axes.iter().map(|a| a.to_string().replace('"', "")).collect::<Vec<_>>();
    let axes: Vec<Value> = mesh.axes().iter().map(|a| json!({"name": &*a.name, "size": a.size})).collect();
    json!({
        "shape": shape,
        "sharding": dims.iter().map(names).collect::<Vec<_>>(),
        "mesh": {"axes": axes, "device_ids": mesh.device_ids()},
        "slices": held,
    })
}

#[test]
#[ignore = "needs Chromium"]
fn blocks_are_the_shards_of_the_mesh() {
    let mut random = Random(22);
    let cases: Vec<Value> = (0..500).map(|_| case(&mut random)).collect();
    let html = Page::new("cases", &program(&file("examples/mlir/matmul.mlir"))).html();
    let cases = format!("<script id=\"cases\" type=\"application/json\">{}</script>", json!(cases));
    check("cases", &html.replacen("<div id=\"app\">", &format!("{cases}\n<div id=\"app\">"), 1));
}
