//! The page of names, docs/names.md: made from data/names.tsv, which says for each name of JAX and Optax what is the same here,
//! or why there is nothing. `MESHWORK_WRITE=1 cargo test --test names` writes it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

struct Row<'t> {
    jax: &'t str,
    ours: &'t str,
    note: &'t str,
}

fn rows() -> Vec<Row<'static>> {
    let lines = include_str!("data/names.tsv").lines();
    lines
        .map(|line| {
            let mut cells = line.split('\t');
            let mut next = || cells.next().unwrap_or("");
            Row { jax: next(), ours: next(), note: next() }
        })
        .collect()
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All sources below a folder, or one file.
fn sources(path: &Path, out: &mut Vec<String>) {
    if path.is_dir() {
        let mut entries: Vec<_> =
            std::fs::read_dir(path).expect("a folder").map(|e| e.expect("an entry").path()).collect();
        entries.sort();
        entries.iter().for_each(|p| sources(p, out));
    } else if path.extension().is_some_and(|e| e == "rs") {
        out.push(std::fs::read_to_string(path).expect("a source"));
    }
}

/// Whether a source declares an item of this name: by itself, as a row of a macro, or as a case of an enum.
fn declares(source: &str, item: &str) -> bool {
    let starts = |line: &str, word: &str| {
        line.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    source.lines().map(str::trim).any(|line| {
        let public = ["pub fn ", "pub struct ", "pub enum ", "pub mod ", "pub const fn "];
        let declared = public.iter().any(|p| line.strip_prefix(p).is_some_and(|rest| starts(rest, item)));
        declared || (starts(line, item) && line.ends_with(';') && line.split(' ').count() >= 2 && !line.contains('('))
    })
}

/// The sources where the items of `scope` are.
fn scope(scope: &str) -> Vec<String> {
    let folders: &[&str] = match scope {
        "" => &["meshwork/src", "meshwork-runtime/src/array", "meshwork-mesh/src", "meshwork-ir/src"],
        "Tensor" => &["meshwork/src/ops", "meshwork/src/manual", "meshwork/src/tensor.rs"],
        "Key" => &["meshwork/src/ops/random"],
        "Array" => &["meshwork-runtime/src/array"],
        "Mesh" => &["meshwork-mesh/src"],
        "ElementType" => &["meshwork-ir/src"],
        "Jit" => &["meshwork/src/jit"],
        "Lowered" => &["meshwork/src/lower.rs"],
        "Schedule" | "train" => &["meshwork/src/nn/train"],
        "linalg" => &["meshwork/src/linalg"],
        "losses" => &["meshwork/src/nn/losses.rs"],
        "optim" => &["meshwork/src/nn/optim"],
        "attention" => &["meshwork/src/nn/attention.rs"],
        "experts" => &["meshwork/src/nn/experts.rs"],
        other => panic!("no scope {other}"),
    };
    let mut out = vec![];
    folders.iter().for_each(|f| sources(&crates().join(f), &mut out));
    out
}

/// The items that a cell names: paths, alone or in a sentence.
fn paths(cell: &str) -> Vec<&str> {
    cell.split([' ', ',', ';']).filter(|word| word.contains("::")).collect()
}

#[test]
fn every_name_exists() {
    let mut wrong = vec![];
    for row in rows() {
        let operator = row.ours.starts_with('`');
        let mut items = paths(row.note);
        items.retain(|item| !item.starts_with(|c: char| c.is_lowercase()) || scope_is_ours(item));
        if !operator && row.ours != "-" {
            items.push(row.ours);
        }
        for item in items {
            let (place, name) = item.rsplit_once("::").unwrap_or(("", item));
            if !scope(place).iter().any(|source| declares(source, name)) {
                wrong.push(format!("{}: {item}", row.jax));
            }
        }
        if row.ours == "-" && row.note.is_empty() {
            wrong.push(format!("{}: no reason", row.jax));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether a path in lower case is of this crate, and not of Rust's library.
fn scope_is_ours(item: &str) -> bool {
    ["linalg::", "losses::", "optim::", "attention::", "experts::", "train::"].iter().any(|p| item.starts_with(p))
}

#[test]
fn names_are_sorted_and_nine_of_ten_are_there() {
    let rows = rows();
    let sorted = rows.windows(2).all(|w| w[0].jax.rsplit_once('.') < w[1].jax.rsplit_once('.'));
    assert!(sorted, "not sorted by module and name, or twice");
    let there = rows.iter().filter(|r| r.ours != "-").count();
    assert!(there * 10 >= rows.len() * 9, "{there} of {}", rows.len());
}

/// The page.
fn page() -> String {
    let rows = rows();
    let there = rows.iter().filter(|r| r.ours != "-").count();
    let mut out = format!(
        "# Names\n\nThe functions of JAX and Optax that public programs call most, and what they are called here: {there} of {} are \
         there. Tensors have most of them as methods. Written by the test `names` from \
         [names.tsv](../crates/meshwork/tests/data/names.tsv), which checks that what it names exists; \
         [functions.rs](../crates/meshwork/tests/functions.rs) compares values with those of JAX.\n",
        rows.len()
    );
    let module = |name: &str| name.rsplit_once('.').map_or("", |(module, _)| module).to_string();
    let mut last = String::new();
    for row in &rows {
        let own = module(row.jax);
        if own != last {
            // Writing to a string does not fail.
            let _ = write!(out, "\n## {own}\n\n| {own} | here | |\n|---|---|---|\n");
            last = own;
        }
        let name = row.jax.rsplit('.').next().unwrap_or(row.jax);
        let ours = match row.ours {
            "-" => String::new(),
            operator if operator.starts_with('`') => operator.replace('|', "\\|"),
            path => format!("`{path}`"),
        };
        let _ = writeln!(out, "| `{name}` | {ours} | {} |", row.note);
    }
    out
}

#[test]
fn the_page_is_up_to_date() {
    let path = crates().join("../docs/names.md");
    if std::env::var_os("MESHWORK_WRITE").is_some() {
        std::fs::write(&path, page()).expect("a page");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page(), "docs/names.md is old: run MESHWORK_WRITE=1 cargo test -p meshwork --test names");
}
