//! Runs every program under `tests/golden/` as its first lines say, and compares with the recorded output.
//!
//! `UPDATE_GOLDEN=1 cargo test -p meshwork-cli golden` rewrites the recorded outputs.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// What `meshwork` says to `name`, called as each `// RUN:` line at the start of the file says. `%s` in it is the file;
/// without it the file is the last argument.
fn actual(name: &str, text: &str) -> String {
    let calls: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("// RUN: ")).collect();
    assert!(!calls.is_empty(), "{name}: the first line is not // RUN: …");
    calls.iter().map(|words| call(name, words)).collect()
}

fn call(name: &str, words: &str) -> String {
    let mut args: Vec<&str> = words.split_whitespace().map(|w| if w == "%s" { name } else { w }).collect();
    if !words.contains("%s") {
        args.push(name);
    }
    let out = Command::new(env!("CARGO_BIN_EXE_meshwork"))
        .current_dir(folder())
        .args(args)
        .output()
        .expect("the command starts");
    let mut said = String::from_utf8_lossy(&out.stdout).into_owned();
    if !out.status.success() || !out.stderr.is_empty() {
        said.push_str(&format!("// {}\n{}", out.status, String::from_utf8_lossy(&out.stderr)));
    }
    said
}

#[test]
fn golden_files() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("tests/golden is there")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".mlir"))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let mut different = vec![];
    for name in &names {
        let text = std::fs::read_to_string(folder().join(name)).expect("a listed file can be read");
        let record = folder().join(name).with_extension("out");
        let said = actual(name, &text);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&record, said).expect("the record can be written");
        } else {
            let expected = std::fs::read_to_string(&record).unwrap_or_default();
            if said != expected {
                different.push(format!("--- {name}: expected\n{expected}--- {name}: got\n{said}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
