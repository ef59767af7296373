//! The index of operations, docs/operations.md: made from the comments of the sources. `MESHWORK_WRITE=1 cargo test --test operations`
//! writes it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Headings, and where their functions are.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Making tensors", &["ops/create.rs"]),
    ("Elementwise", &["ops/elementwise.rs", "ops/arithmetic.rs", "ops/special.rs"]),
    ("Activations", &["ops/nn.rs", "ops/activation.rs"]),
    ("Sums, means, extremes", &["ops/reduce.rs", "ops/cumulative.rs", "ops/statistics.rs"]),
    ("Slices and updates", &["ops/index.rs", "ops/assign.rs", "ops/lookup.rs"]),
    ("Shapes", &["ops/movement.rs", "ops/arrange.rs", "ops/broadcast.rs", "ops/diagonal.rs"]),
    ("Order and sets", &["ops/sort.rs", "ops/order.rs"]),
    ("Products", &["ops/contract.rs", "ops/einsum.rs"]),
    ("Convolutions and windows", &["ops/conv.rs", "ops/windows.rs"]),
    ("Fourier transforms", &["ops/fourier.rs"]),
    ("Linear algebra: `meshwork::linalg`", &["linalg/system.rs", "linalg/factor.rs", "linalg/function.rs"]),
    (
        "Random numbers: `Key`",
        &[
            "ops/random/mod.rs",
            "ops/random/choose.rs",
            "ops/random/transformed.rs",
            "ops/random/gamma.rs",
            "ops/random/counts.rs",
        ],
    ),
    ("Loops and branches", &["control/mod.rs", "control/switch.rs", "control/associative.rs"]),
    (
        "Functions of functions",
        &[
            "transform/grad.rs",
            "transform/linear.rs",
            "transform/jacobian.rs",
            "transform/custom.rs",
            "transform/checkpoint.rs",
            "transform/vmap.rs",
        ],
    ),
    ("Placement", &["ops/place.rs", "annotate.rs"]),
    ("Manual regions", &["manual/mod.rs", "manual/collective.rs"]),
    ("The host and other libraries", &["host.rs", "ops/custom_call.rs"]),
    ("Losses: `meshwork::losses`", &["nn/losses.rs"]),
    ("Attention: `meshwork::attention`, `meshwork::sequence`", &["nn/attention.rs", "nn/sequence.rs"]),
    (
        "Optimizers: `meshwork::optim`",
        &[
            "nn/optim/adaptive.rs",
            "nn/optim/factored.rs",
            "nn/optim/basic.rs",
            "nn/optim/select.rs",
            "nn/optim/lbfgs.rs",
            "nn/optim/mod.rs",
        ],
    ),
    ("Schedules: `meshwork::train::Schedule`", &["nn/train/schedule.rs"]),
];

/// The functions of a source that users call, each as it is called, and the first sentence about it.
fn functions(source: &str) -> Vec<(String, String)> {
    let mut out = vec![];
    let mut doc: Vec<&str> = vec![];
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    for (i, line) in lines.iter().enumerate() {
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim());
        } else if let Some(rest) = line.strip_prefix("pub fn ") {
            let last = lines[i..].iter().position(|l| l.ends_with('{')).unwrap_or(0);
            // A macro has no name yet.
            if !rest.starts_with('$') {
                out.push((called(rest, &lines[i..=i + last].join(" ")), first_sentence(&doc)));
            }
            doc.clear();
        } else if is_row(line) && !doc.is_empty() {
            // A name, an operation, and for functions of one tensor what it takes.
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            let other = if rest.contains(' ') { "" } else { "other" };
            out.push((format!("{name}({other})"), first_sentence(&doc)));
            doc.clear();
        } else if !line.starts_with("#[") {
            doc.clear();
        }
    }
    out
}

/// Whether a line declares a function by a macro: `sin Sine Float;`.
fn is_row(line: &str) -> bool {
    let words: Vec<&str> = line.trim_end_matches(';').split(' ').collect();
    let named = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
    line.ends_with(';') && (2..=3).contains(&words.len()) && words.iter().all(|w| named(w)) && words[0] != "return"
}

/// The name and the names of the parameters.
fn called(rest: &str, whole: &str) -> String {
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let after = &whole[whole.find(&name).map_or(0, |at| at + name.len())..];
    // Behind what stands in angle brackets.
    let (mut depth, mut open) = (0i32, None);
    let mut close = after.len();
    for (at, c) in after.char_indices() {
        match c {
            '<' | '(' | '[' => {
                if c == '(' && depth == 0 && open.is_none() {
                    open = Some(at + 1);
                }
                depth += 1;
            }
            ')' | ']' => {
                depth -= 1;
                if c == ')' && depth == 0 && open.is_some() {
                    close = at;
                    break;
                }
            }
            '>' if !after[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
    }
    let inside = &after[open.unwrap_or(close).min(close)..close];
    let mut names = vec![];
    let mut depth = 0i32;
    let mut part = String::new();
    for c in inside.chars().chain([',']) {
        match c {
            '<' | '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '>' if !part.ends_with('-') => depth -= 1,
            ',' if depth == 0 => {
                let own = part.split(':').next().unwrap_or_default().trim().trim_start_matches("mut ").to_string();
                if !own.is_empty() && !own.ends_with("self") {
                    names.push(own);
                }
                part.clear();
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    format!("{name}({})", names.join(", "))
}

/// The first sentence, without links.
fn first_sentence(doc: &[&str]) -> String {
    let text = doc.iter().take_while(|l| !l.is_empty()).copied().collect::<Vec<_>>().join(" ");
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    let mut out = String::new();
    let mut rest = &text[..end];
    // [`name`](path) and [`name`] become `name`.
    while let Some(at) = rest.find("[`") {
        out.push_str(&rest[..at]);
        let Some(close) = rest[at..].find("`]") else { break };
        out.push_str(&rest[at + 1..at + close + 1]);
        rest = &rest[at + close + 2..];
        if rest.starts_with('(') {
            rest = &rest[rest.find(')').map_or(0, |at| at + 1)..];
        }
    }
    out.push_str(rest);
    let mut plain = String::new();
    let mut rest = out.as_str();
    // [words](path) become words.
    while let Some(middle) = rest.find("](") {
        let Some(open) = rest[..middle].rfind('[') else { break };
        let Some(close) = rest[middle..].find(')') else { break };
        plain.push_str(&rest[..open]);
        plain.push_str(&rest[open + 1..middle]);
        rest = &rest[middle + close + 1..];
    }
    plain.push_str(rest);
    plain.trim_end_matches([':', '.']).replace('|', "\\|")
}

fn page() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut out = String::from(
        "# Operations\n\nEvery function of programs by theme, with the first sentence of its documentation; `cargo doc --open` has the rest, \
         with examples. Most are methods of `Tensor`; numbers and operators (`+ - * / %`, `& | ^ !`, `<< >>`) work on both sides. \
         [Names](names.md) goes from JAX's names to these. Written by the test `operations`.\n",
    );
    for (heading, files) in SECTIONS {
        // Writing to a string does not fail.
        let _ = write!(out, "\n## {heading}\n\n| | |\n|---|---|\n");
        for file in *files {
            let path = sources.join(file);
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (name, sentence) in functions(text) {
                let _ = writeln!(out, "| `{name}` | {sentence} |");
            }
        }
    }
    out
}

#[test]
fn the_index_is_up_to_date() {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    if std::env::var_os("MESHWORK_WRITE").is_some() {
        std::fs::write(&path, page()).expect("a page");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page(),
        "docs/operations.md is old: run MESHWORK_WRITE=1 cargo test -p meshwork --test operations"
    );
}

/// A file with operations that no section has would be left out without a word.
#[test]
fn every_file_of_operations_is_in_a_section() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops");
    let known: Vec<&str> = SECTIONS.iter().flat_map(|(_, files)| files.iter().copied()).collect();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let name = entry.expect("an entry").file_name().to_string_lossy().to_string();
        let own = format!("ops/{name}");
        let is_operators = name == "operators.rs" || name == "mod.rs";
        assert!(is_operators || !name.ends_with(".rs") || known.contains(&own.as_str()), "{own} is in no section");
    }
}

#[test]
fn functions_are_found_with_parameters_and_sentences() {
    let source = "/// Cut in [`parts`](Tensor::parts) of [equal size](x). More.\n#[track_caller]\npub fn cut<T: Into<Vec<u8>>>(&self, parts: i64, f: impl Fn(i64) -> T) -> Vec<Tensor> {\n/// The sine.\nsin Sine Float;";
    let wanted = [("cut(parts, f)", "Cut in `parts` of equal size"), ("sin()", "The sine")];
    assert_eq!(functions(source), wanted.map(|(a, b)| (a.to_string(), b.to_string())));
}
