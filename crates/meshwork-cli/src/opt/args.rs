//! Arguments as MLIR's opt tools take them: one or two dashes, `name=value`, passes in the order given.

use meshwork_ir::text::PrintOptions;
use meshwork_ir::{Pass, PassOptions};

use super::pipeline;

/// A pass to run and its options.
pub struct PassCall {
    /// The pass.
    pub pass: Pass,
    /// Its options.
    pub options: PassOptions,
}

/// The arguments of `meshwork opt`.
pub struct OptArgs {
    /// File to read; standard input if none.
    pub input: Option<String>,
    /// File to write; standard output if none.
    pub output: Option<String>,
    /// Passes in order.
    pub passes: Vec<PassCall>,
    /// Treat the input as several programs.
    pub split_input_file: bool,
    /// Compare diagnostics with `expected-…` comments.
    pub verify_diagnostics: bool,
    /// Accept operations of unknown dialects.
    pub allow_unregistered: bool,
    /// Verify after each pass.
    pub verify_each: bool,
    /// How to print.
    pub style: PrintOptions,
    /// Print the help text and stop.
    pub help: bool,
}

/// Reads the arguments; the error is one line.
pub fn parse(words: &[String], passes: &[Pass]) -> Result<OptArgs, String> {
    let mut args = OptArgs {
        input: None,
        output: None,
        passes: vec![],
        split_input_file: false,
        verify_diagnostics: false,
        allow_unregistered: false,
        verify_each: true,
        style: PrintOptions::default(),
        help: false,
    };
    let mut words = words.iter();
    let mut only_files = false;
    while let Some(word) = words.next() {
        if word == "--" && !only_files {
            only_files = true;
            continue;
        }
        let Some(flag) =
            word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|f| !f.is_empty() && !only_files)
        else {
            if let Some(first) = &args.input {
                return Err(format!("two input files: '{first}' and '{word}'"));
            }
            args.input = Some(word.clone());
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        match name {
            "h" | "help" => args.help = true,
            "o" => {
                let file = value.map(str::to_string).or_else(|| words.next().cloned());
                args.output = Some(file.ok_or("-o needs a file name")?);
            }
            "split-input-file" => args.split_input_file = switch(name, value)?,
            "verify-diagnostics" => args.verify_diagnostics = switch(name, value)?,
            "allow-unregistered-dialect" => args.allow_unregistered = switch(name, value)?,
            "verify-each" => args.verify_each = switch(name, value)?,
            "mlir-print-debuginfo" => args.style.locations = switch(name, value)?,
            "mlir-print-op-generic" => args.style.generic = switch(name, value)?,
            "pass-pipeline" => {
                let text = value.map(str::to_string).or_else(|| words.next().cloned());
                let text = text.ok_or("-pass-pipeline needs a value")?;
                for (name, options) in pipeline::parse(&text)? {
                    args.passes.push(call(&name, &options, passes)?);
                }
            }
            name => args.passes.push(call(name, value.unwrap_or(""), passes)?),
        }
    }
    Ok(args)
}

fn switch(name: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(other) => Err(format!("-{name}={other}: the value is true or false")),
    }
}

/// The pass called `name` with its options checked.
fn call(name: &str, options: &str, passes: &[Pass]) -> Result<PassCall, String> {
    let Some(&pass) = passes.iter().find(|p| p.name == name) else {
        let hint = closest(name, passes.iter().map(|p| p.name)).map(|n| format!(" (is -{n} meant?)"));
        return Err(format!(
            "unknown option or pass '-{name}'{}; 'meshwork opt --help' lists them",
            hint.unwrap_or_default()
        ));
    };
    let options = pipeline::options(options).map_err(|e| format!("-{name}: {e}"))?;
    for given in options.0.keys() {
        if !pass.options.iter().any(|(known, _)| known == given) {
            let known: Vec<&str> = pass.options.iter().map(|(n, _)| *n).collect();
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            return Err(format!("pass '{name}' has no option '{given}'; its options: {known}"));
        }
    }
    Ok(PassCall { pass, options })
}

/// The name most like `word`, if any is close.
fn closest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let best = names.map(|n| (edit_distance(word, n), n)).min()?;
    (best.0 <= word.len().max(6) / 3).then_some(best.1)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let swap = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = swap.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSES: &[Pass] = &[
        Pass { name: "first-pass", summary: "", options: &[], run: |_, _, _| Ok(()) },
        Pass { name: "second-pass", summary: "", options: &[("x", ""), ("y", "")], run: |_, _, _| Ok(()) },
    ];

    fn parse_line(line: &[&str]) -> Result<OptArgs, String> {
        parse(&line.iter().map(|w| w.to_string()).collect::<Vec<_>>(), PASSES)
    }

    #[test]
    fn order_dashes_and_options() {
        let args = parse_line(&["-second-pass=x=1", "in", "--first-pass", "--split-input-file", "-o", "out"]).unwrap();
        assert_eq!(args.passes.iter().map(|c| c.pass.name).collect::<Vec<_>>(), ["second-pass", "first-pass"]);
        assert_eq!(args.passes[0].options.get("x"), Some("1"));
        assert_eq!((args.input.as_deref(), args.output.as_deref()), (Some("in"), Some("out")));
        assert!(args.split_input_file && !args.verify_diagnostics);
        assert_eq!(parse_line(&["--", "-first-pass"]).unwrap().input.as_deref(), Some("-first-pass"));
    }

    #[test]
    fn pipelines_are_flattened() {
        let args = parse_line(&["--pass-pipeline=builtin.module(func.func(second-pass{x=2}),first-pass)"]).unwrap();
        assert_eq!(args.passes.iter().map(|c| c.pass.name).collect::<Vec<_>>(), ["second-pass", "first-pass"]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |line: &[&str]| parse_line(line).err().unwrap();
        assert_eq!(
            error(&["-frist-pass"]),
            "unknown option or pass '-frist-pass' (is -first-pass meant?); 'meshwork opt --help' lists them"
        );
        assert_eq!(error(&["-second-pass=z=1"]), "pass 'second-pass' has no option 'z'; its options: x, y");
        assert_eq!(error(&["-first-pass=z"]), "pass 'first-pass' has no option 'z'; its options: none");
        assert_eq!(error(&["a", "b"]), "two input files: 'a' and 'b'");
        assert_eq!(error(&["-split-input-file=maybe"]), "-split-input-file=maybe: the value is true or false");
    }
}
