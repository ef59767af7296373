#![doc = include_str!("README.md")]

mod builtin;
mod container;
mod cursor;
mod dense;
mod export;
mod ir;
mod names;
mod resource;
mod sdy;
mod stablehlo;
mod table;
mod vhlo;

use crate::{Diagnostic, Module};

/// Whether `bytes` start as MLIR bytecode does.
pub fn is_bytecode(bytes: &[u8]) -> bool {
    bytes.starts_with(&container::MAGIC)
}

/// The bytecode that a file is, or that a file of `jax.export` holds; `None` for any other file.
pub fn find(file: &[u8]) -> Option<&[u8]> {
    if is_bytecode(file) { Some(file) } else { export::program(file) }
}

/// Reads the program of a bytecode file.
///
/// ```
/// let error = meshwork_ir::bytecode::read(b"ML\xefR\x03").unwrap_err();
/// assert_eq!(error.to_string(), "not supported: MLIR bytecode, byte 4: version 1 of the format; \
///     StableHLO 0.15 and later write version 6");
/// ```
pub fn read(bytes: &[u8]) -> Result<Module, Diagnostic> {
    ir::module(container::open(bytes)?, bytes.len())
}
