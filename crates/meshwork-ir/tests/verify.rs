//! Golden messages of the verifier: each `// error: text` comment is the message for the next line.

use std::fs;
use std::path::Path;

use meshwork_ir::{text, verify};

/// Line and message of each error that `source` gives, from the parser or the verifier.
fn errors(source: &str) -> Vec<(u32, String)> {
    let found = match text::parse(source) {
        Ok(module) => verify::verify(&module),
        Err(e) => vec![e],
    };
    found.into_iter().map(|d| (d.pos.line, d.message)).collect()
}

/// Line and message of each error that the comments of `source` announce.
fn announced(source: &str) -> Vec<(u32, String)> {
    let comment = |(i, line): (usize, &str)| {
        line.trim().strip_prefix("// error: ").map(|message| (i as u32 + 2, message.to_owned()))
    };
    source.lines().enumerate().filter_map(comment).collect()
}

fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verify").join(file);
    let source = fs::read_to_string(&path).expect("the case file is there");
    let cases: Vec<&str> = source.split("// -----\n").collect();
    assert!(cases.len() > 1, "{file} has no cases");
    for case in cases {
        assert_eq!(errors(case), announced(case), "in {file}:\n{case}");
    }
}

#[test]
fn shapes() {
    check("shapes.mlir");
}

#[test]
fn bodies() {
    check("bodies.mlir");
}

#[test]
fn collectives() {
    check("collectives.mlir");
}

#[test]
fn functions() {
    check("functions.mlir");
}

#[test]
fn placements() {
    check("placements.mlir");
}
