//! `meshwork opt`: run named passes over a program, with the command line of MLIR's opt tools.
//!
//! | file | one idea |
//! |---|---|
//! | `args` | MLIR-style arguments, one or two dashes, passes in the order given |
//! | `pipeline` | pass options and `-pass-pipeline` text |
//! | `split` | `-split-input-file` |
//! | `expect` | `-verify-diagnostics` |
//! | `help` | the text of `--help` |

mod args;
mod expect;
mod help;
mod pipeline;
mod split;

use meshwork_ir::text::print_with;
use meshwork_ir::verify::verify;
use meshwork_ir::{Diagnostic, Module, OpKind, Pass, Severity, Walk};

use crate::fail::{Failure, render_all};
use crate::source::{Source, write_stdout, write_text};
use args::OptArgs;

/// Runs the command.
pub fn main(words: &[String]) -> Result<(), Failure> {
    let passes = all_passes();
    let args = args::parse(words, &passes).map_err(Failure::error)?;
    if args.help {
        return write_stdout(&help::text(&passes));
    }
    let source = Source::read(args.input.as_deref().unwrap_or("-"))?;
    let is_text = source.bytes.is_empty();
    let chunks = if args.split_input_file && is_text { split::chunks(&source.text) } else { vec![source.text.clone()] };
    let mut failure = None;
    let mut outputs = vec![];
    for chunk in &chunks {
        let module = meshwork_ir::read(if is_text { chunk.as_bytes() } else { &source.bytes });
        let (output, diagnostics) = process(module, &args);
        if args.verify_diagnostics {
            let complaints = expect::check(chunk, &diagnostics);
            if !complaints.is_empty() {
                let text = render_all(&complaints, &source.name, chunk);
                failure = failure.or(Some(Failure { status: 1, text: String::new() }));
                eprint!("{text}");
            }
        } else {
            eprint!("{}", render_all(&diagnostics, &source.name, chunk));
            failure =
                failure.or_else(|| Failure::from_diagnostics(&diagnostics, &source.name, chunk).map(Failure::printed));
        }
        outputs.push(output.unwrap_or_default());
    }
    write_text(args.output.as_deref(), &outputs.join("// -----\n"))?;
    failure.map_or(Ok(()), Err)
}

/// Runs the passes over one program and prints it; no text after an error.
fn process(program: Result<Module, Diagnostic>, args: &OptArgs) -> (Option<String>, Vec<Diagnostic>) {
    let mut diagnostics = vec![];
    let mut module = match program {
        Ok(module) => module,
        Err(d) => return (None, vec![d]),
    };
    if !args.allow_unregistered {
        diagnostics.extend(unregistered(&module));
    }
    diagnostics.extend(verify(&module));
    for call in &args.passes {
        if has_error(&diagnostics) {
            return (None, diagnostics);
        }
        let outcome = (call.pass.run)(&mut module, &call.options, &mut diagnostics);
        if outcome.is_err() {
            if !has_error(&diagnostics) {
                let message = format!("pass '{}' failed without saying why", call.pass.name);
                diagnostics.push(Diagnostic::error(Default::default(), message));
            }
            return (None, diagnostics);
        }
        if args.verify_each {
            let broken = verify(&module).into_iter().map(|mut d| {
                d.message = format!("{} (after pass '{}')", d.message, call.pass.name);
                d
            });
            diagnostics.extend(broken);
        }
    }
    if has_error(&diagnostics) {
        return (None, diagnostics);
    }
    (Some(print_with(&module, &args.style)), diagnostics)
}

fn has_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity >= Severity::Error)
}

/// One error for each operation that is in no known dialect.
fn unregistered(module: &Module) -> Vec<Diagnostic> {
    let ops = module.all_ops(Walk::PreOrder).into_iter().map(|id| module.op(id));
    ops.filter(|op| op.kind() == OpKind::Unregistered)
        .map(|op| {
            let message = format!("unknown operation '{}' (-allow-unregistered-dialect accepts it)", op.name());
            Diagnostic::at(op, message)
        })
        .collect()
}

/// Every pass that `meshwork opt` knows.
fn all_passes() -> Vec<Pass> {
    // The canonicalizer of `meshwork-shardy` has the patterns of all dialects and replaces the general one.
    let mut all = meshwork_shardy::passes();
    let known: Vec<&str> = all.iter().map(|p| p.name).collect();
    let general: Vec<Pass> =
        meshwork_ir::transform::passes().into_iter().filter(|p| !known.contains(&p.name)).collect();
    all.extend(general);
    all.push(meshwork_partition::PASS);
    all
}
