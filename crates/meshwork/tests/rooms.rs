//! Who may use whom inside the crate: tracing, arrays and `jit` know neither `nn` nor `store`, which do not know each other.

use std::fs;
use std::path::{Path, PathBuf};

const NN: [&str; 7] = ["nn", "experts", "named", "pipeline", "rules", "sequence", "train"];
const STORE: [&str; 4] = ["store", "data", "files", "save"];

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Lines of code that name a module which the file may not use.
fn violations(path: &Path, forbidden: &[&str]) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let names = |line: &str| {
        let mut after = line.split("crate::").skip(1);
        after.any(|rest| forbidden.contains(&rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()))
    };
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.filter(|line| names(line)).map(|line| format!("{}: {}", path.display(), line.trim())).collect()
}

#[test]
fn rooms_use_only_what_is_below_them() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![];
    sources(&src, &mut files);
    let mut found = vec![];
    for path in &files {
        let inside = path.strip_prefix(&src).unwrap();
        let forbidden = match inside.iter().next().and_then(|first| first.to_str()) {
            // The facade names everything; the one error type has a variant for each room.
            Some("lib.rs" | "error.rs") => vec![],
            Some("nn") => STORE.to_vec(),
            Some("store") => NN.to_vec(),
            _ => [&NN[..], &STORE[..]].concat(),
        };
        found.extend(violations(path, &forbidden));
    }
    assert!(files.len() > 50);
    assert_eq!(found, Vec::<String>::new());
}
