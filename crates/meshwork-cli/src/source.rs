//! Program text from a file or standard input, and text to a file or standard output.

use std::io::{Read, Write};

use meshwork_ir::Module;

use crate::fail::Failure;
use crate::stages;

/// A text and the name it goes by in messages.
pub struct Source {
    /// File name, or `<stdin>`.
    pub name: String,
    /// The text.
    pub text: String,
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
        let bytes = bytes.map_err(|e| Failure::error(format!("can not read {name}: {e}")))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Failure::error(format!("{name} is not a text file: byte {at} is not UTF-8"))
        })?;
        Ok(Source { name: name.to_string(), text })
    }

    /// Parses the text and verifies the module.
    pub fn module(&self) -> Result<Module, Failure> {
        let module = self.parse()?;
        match Failure::from_diagnostics(&stages::verify(&module), &self.name, &self.text) {
            Some(failure) => Err(failure),
            None => Ok(module),
        }
    }

    /// Parses the text only.
    pub fn parse(&self) -> Result<Module, Failure> {
        stages::parse(&self.text).map_err(|d| {
            Failure::from_diagnostics(std::slice::from_ref(&d), &self.name, &self.text)
                .unwrap_or_else(|| Failure::error(d.to_string()))
        })
    }
}

/// Writes `text` to `path`, or to standard output when there is none or it is `-`.
pub fn write_text(path: Option<&str>, text: &str) -> Result<(), Failure> {
    match path {
        None | Some("-") => write_stdout(text),
        Some(path) => std::fs::write(path, text).map_err(|e| Failure::error(format!("can not write {path}: {e}"))),
    }
}

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
pub fn write_stdout(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::error(format!("can not write standard output: {e}")))
        }
        _ => Ok(()),
    }
}
