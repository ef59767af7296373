//! A program from a file or standard input, and text to a file or standard output.

use std::io::{Read, Write};

use meshwork_ir::transform::entry::make_entry;
use meshwork_ir::verify::verify;
use meshwork_ir::{Module, OpId, bytecode};
use meshwork_partition::{CompileOptions, Compiled};

use crate::fail::{Failure, render_all};
use crate::processes;

/// The program that a command is about.
#[derive(clap::Args)]
pub struct ProgramArgs {
    /// Program; `-` reads standard input
    file: String,
    /// Function to use instead of @main
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
}

impl ProgramArgs {
    /// Reads and verifies the program, as it is stored and in memory.
    pub fn read(&self) -> Result<(Source, Module), Failure> {
        let source = Source::read(&self.file)?;
        let module = source.program(self.entry.as_deref())?;
        Ok((source, module))
    }
}

/// A program as it is stored, and the name it goes by in messages.
pub struct Source {
    /// File name, or `<stdin>`.
    pub name: String,
    /// The text, for the lines that messages are about; empty for bytecode.
    pub text: String,
    /// Bytecode.
    pub bytes: Vec<u8>,
}

impl Source {
    /// Reads `path`; `-` is standard input.
    pub fn read(path: &str) -> Result<Source, Failure> {
        let (name, bytes) = if path == "-" {
            let mut bytes = vec![];
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            ("<stdin>", read.map(|_| bytes))
        } else {
            (path, std::fs::read(path))
        };
        let bytes = bytes.map_err(|e| Failure::error(format!("cannot read {name}: {e}")))?;
        Source::new(name, bytes)
    }

    /// The program in these bytes: MLIR text, bytecode or a file of `jax.export`.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<Source, Failure> {
        let name = name.to_string();
        if bytecode::find(&bytes).is_some() {
            return Ok(Source { name, text: String::new(), bytes });
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Failure::error(format!("{name} is neither a text file nor MLIR bytecode: byte {at} is not UTF-8"))
        })?;
        Ok(Source { name, text, bytes: vec![] })
    }

    /// The stored program: its text, or bytecode.
    pub fn bytes(&self) -> &[u8] {
        if self.bytes.is_empty() { self.text.as_bytes() } else { &self.bytes }
    }

    /// Reads the program and verifies the module.
    pub fn module(&self) -> Result<Module, Failure> {
        let module = self.parse()?;
        match Failure::from_diagnostics(&verify(&module), &self.name, &self.text) {
            Some(failure) => Err(failure),
            None => Ok(module),
        }
    }

    /// Reads and verifies as [`module`](Source::module) does, and makes function `entry`, if given, the entry function.
    pub fn program(&self, entry: Option<&str>) -> Result<Module, Failure> {
        let mut module = self.module()?;
        let func = entry_function(&module, entry)?;
        if entry.is_some() {
            make_entry(&mut module, func);
        }
        Ok(module)
    }

    /// Places every value of `module`, which this program is, and splits it over its mesh. Warnings are printed.
    pub fn compile(&self, module: &Module, options: &CompileOptions) -> Result<Compiled, Failure> {
        let compiled = meshwork_partition::compile(module, options).map_err(|error| {
            Failure::from_diagnostics(&error.diagnostics(), &self.name, &self.text)
                .unwrap_or_else(|| Failure::error(error.to_string()))
        })?;
        if processes::reports() {
            eprint!("{}", render_all(&compiled.warnings, &self.name, &self.text));
        }
        Ok(compiled)
    }

    /// Reads the program only.
    pub fn parse(&self) -> Result<Module, Failure> {
        meshwork_ir::read(self.bytes()).map_err(|d| {
            Failure::from_diagnostics(std::slice::from_ref(&d), &self.name, &self.text)
                .unwrap_or_else(|| Failure::error(d.to_string()))
        })
    }
}

/// Function `name` of `module`, or its entry function.
pub fn entry_function(module: &Module, name: Option<&str>) -> Result<OpId, Failure> {
    let names: Vec<String> =
        module.funcs().filter_map(|f| module.symbol_name(f)).map(|name| format!("@{name}")).collect();
    let list = if names.is_empty() { "none".into() } else { names.join(", ") };
    match name {
        Some(name) => module
            .func(name)
            .ok_or_else(|| Failure::error(format!("the module has no function @{name}; its functions: {list}"))),
        None => module.entry().ok_or_else(|| {
            Failure::error(format!(
                "the module has no function @main; choose another with --entry; its functions: {list}"
            ))
        }),
    }
}

/// Writes `text` to `path`, or to standard output when there is none or it is `-`.
pub fn write_text(path: Option<&str>, text: &str) -> Result<(), Failure> {
    match path {
        None | Some("-") => write_stdout(text),
        Some(path) => std::fs::write(path, text).map_err(|e| Failure::error(format!("cannot write {path}: {e}"))),
    }
}

/// Writes to standard output. A closed reader (`| head`) is not an error.
pub fn write_stdout(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::error(format!("cannot write standard output: {e}")))
        }
        _ => Ok(()),
    }
}
