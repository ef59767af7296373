//! The text of `meshwork opt --help`.

use meshwork_ir::Pass;

const HEAD: &str = "\
Run passes over a program, as MLIR's opt tools do

Usage: meshwork opt [FILE] [OPTIONS] [PASSES]

Reads FILE (standard input if it is missing or `-`), verifies the program, runs the passes in the order given, verifies
after each, and prints the result. Options and passes start with one dash or two. Options of a pass follow it:
-pass=name=value or -pass='a=1 b=true'.

Options:
  -o FILE                      Write here instead of standard output
  -split-input-file            Treat the input as several programs, separated by lines `// -----`
  -verify-diagnostics          Compare diagnostics with comments: // expected-error @+1 {{text}}
  -allow-unregistered-dialect  Accept operations of unknown dialects
  -pass-pipeline=TEXT          Passes as text: builtin.module(pass-a,func.func(pass-b{x=1}))
  -verify-each=false           Do not verify after each pass
  -mlir-print-op-generic       Print operations in generic form
  -mlir-print-debuginfo        Print source locations
  -help                        Print this text

Examples:
  meshwork opt model.mlir -inline -canonicalize
  meshwork opt tests.mlir -split-input-file -verify-diagnostics

Passes:
";

/// The whole text, passes in alphabetical order.
pub fn text(passes: &[Pass]) -> String {
    let mut out = HEAD.to_string();
    let mut passes: Vec<&Pass> = passes.iter().collect();
    passes.sort_by_key(|p| p.name);
    for pass in passes {
        out.push_str(&format!("  -{:<38} {}\n", pass.name, pass.summary));
        for (name, help) in pass.options {
            out.push_str(&format!("      {name:<35} {help}\n"));
        }
    }
    out
}
