//! A program in any of the formats that this crate reads.

use crate::{Diagnostic, Module, TextPos, bytecode, text};

/// Reads a program: MLIR text, MLIR bytecode, or a file of `jax.export`. The bytes themselves say which.
///
/// ```
/// let module = meshwork_ir::read(b"func.func @f() { return }")?;
/// assert_eq!(module.funcs().count(), 1);
/// # Ok::<(), meshwork_ir::Diagnostic>(())
/// ```
pub fn read(bytes: &[u8]) -> Result<Module, Diagnostic> {
    if let Some(program) = bytecode::find(bytes) {
        return bytecode::read(program);
    }
    match std::str::from_utf8(bytes) {
        Ok(source) => text::parse(source),
        Err(e) => {
            let message = format!("neither MLIR text nor bytecode: byte {} is not UTF-8", e.valid_up_to());
            Err(Diagnostic::error(TextPos::default(), message))
        }
    }
}
