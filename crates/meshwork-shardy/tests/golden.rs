//! Golden tests: `tests/golden/*.mlir` name the passes to run in their first line, `// RUN: pass pass{option=value}`,
//! and hold the program before and, after a line `// OUTPUT`, the program it must become.
//!
//! With `UPDATE_GOLDEN=1` the outputs are written instead of compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use meshwork_ir::{Module, PassOptions, text};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const MARK: &str = "// OUTPUT\n";

fn run(input: &str) -> Result<String> {
    let line = input.lines().next().and_then(|l| l.strip_prefix("// RUN: ")).ok_or("the first line must be // RUN:")?;
    let mut module: Module = text::parse(input)?;
    let passes = meshwork_shardy::passes();
    for word in line.split_whitespace() {
        let (name, options) = word.strip_suffix('}').and_then(|w| w.split_once('{')).unwrap_or((word, ""));
        let options = options.split(',').filter(|o| !o.is_empty()).map(|o| o.split_once('=').unwrap_or((o, "")));
        let options: BTreeMap<_, _> = options.map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let pass = passes.iter().find(|p| p.name == name).ok_or_else(|| format!("no pass is called {name}"))?;
        let mut diagnostics = vec![];
        if (pass.run)(&mut module, &PassOptions(options), &mut diagnostics).is_err() {
            let messages: Vec<String> = diagnostics.iter().map(|d| format!("// {d}\n")).collect();
            return Ok(messages.concat());
        }
    }
    Ok(text::print(&module))
}

#[test]
fn golden_programs() -> Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<_> = fs::read_dir(dir)?.map(|e| e.map(|e| e.path())).collect::<std::io::Result<_>>()?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "mlir"));
    paths.sort();
    assert!(paths.len() >= 10, "only {} golden programs found", paths.len());
    let mut wrong = vec![];
    for path in paths {
        let file = fs::read_to_string(&path)?;
        let (input, expected) = file.split_once(MARK).unwrap_or((&file, ""));
        let output = run(input).map_err(|e| format!("{}: {e}", path.display()))?;
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, format!("{input}{MARK}{output}"))?;
        } else if output != expected {
            wrong.push(format!("{}: expected\n{expected}\ngot\n{output}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
