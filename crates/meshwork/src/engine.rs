//! What runs a program.

use meshwork_ir::{Literal, Module, Type, eval};
use meshwork_partition::Partitioned;

use crate::error::Result;

/// A program that is ready to run.
pub enum Program<'p> {
    /// On one device.
    Single(&'p Module),
    /// Split over the devices of a mesh.
    Split(&'p Partitioned),
}

/// Runs programs on global arrays. This is the seam behind which faster engines stand.
pub trait Engine {
    /// Runs `program`; `results` are the types of its global results.
    fn run(&self, program: Program<'_>, inputs: &[Literal], results: &[Type]) -> Result<Vec<Literal>>;
}

/// The reference evaluator, and its devices in lock step: slow, and right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Engine for Reference {
    fn run(&self, program: Program<'_>, inputs: &[Literal], results: &[Type]) -> Result<Vec<Literal>> {
        match program {
            Program::Single(module) => Ok(eval::run(module, None, inputs)?),
            Program::Split(split) => Ok(meshwork_partition::run::run(split, inputs, results)?),
        }
    }
}
