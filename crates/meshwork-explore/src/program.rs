//! A compiled program together with the text that the page shows of it.

use meshwork_ir::{Module, text};
use meshwork_partition::{Causes, CompileError, CompileOptions, Compiled, Machine, compile};

/// A compiled program, its text, and what it was compiled for.
pub struct Program {
    /// As it was written. Every operation knows its line in `text`.
    pub(crate) written: Module,
    pub(crate) text: String,
    pub(crate) compiled: Compiled,
    pub(crate) machine: Machine,
}

impl Program {
    /// Compiles `written` with the history of its placements. `source` is the text it was read from; a program that was not
    /// read from text is printed, and its operations get the lines of that.
    pub fn compile(
        written: Module,
        source: Option<&str>,
        machine: &Machine,
        combine_bytes: i64,
    ) -> Result<Program, CompileError> {
        let (written, text) = match source {
            Some(text) => (written, text.to_string()),
            None => Program::numbered(written),
        };
        let options = CompileOptions {
            causes: Causes::Annotations,
            combine_bytes,
            machine: machine.clone(),
            ..CompileOptions::default()
        };
        let compiled = compile(&written, &options)?;
        Ok(Program { written, text, compiled, machine: options.machine })
    }

    /// A program that was compiled already, with [`Causes::Annotations`] for the history of its placements. Its operations
    /// have the lines of `text`.
    pub fn new(written: Module, text: String, compiled: Compiled, machine: Machine) -> Program {
        Program { written, text, compiled, machine }
    }

    /// The text of a program that was not read from text, and the program with the lines of that on its operations.
    pub fn numbered(mut written: Module) -> (Module, String) {
        let (text, lines) = text::print_lines(&written);
        for (op, line) in lines {
            let pos = &mut written.op_mut(op).pos;
            (pos.line, pos.col) = (line, 1);
        }
        (written, text)
    }

    /// What it was compiled to.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }
}
