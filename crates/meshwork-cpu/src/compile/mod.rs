//! From a per-device module to a program of steps over buffers.
//!
//! | file | what it is |
//! |---|---|
//! | `prepare` | a copy of the module with calls inlined, equal things merged, constants near their uses |
//! | `simplify`, `small`, `stencil`, `pooling`, `dilated`, `interleave` | rewrites of single ops into cheaper ones |
//! | `expand` | ops that stand for others |
//! | `constants` | integers that follow from constants |
//! | `windows` | scatters of one window as updates of a slice, of which only what changes is chosen |
//! | `narrow` | 64-bit integers of which only the low half counts |
//! | `unroll` | short loops over large arrays, written out |
//! | `iotas` | iotas that something reads from memory |
//! | `carries` | carries of loops that never change |
//! | `scanned` | products with one row after the other of an array, all rows at once |
//! | `pairs` | complex numbers as pairs of real ones |
//! | `block` | blocks of the module to blocks of nodes: one arm per kind of op, loops, branches |
//! | `views` | slices, broadcasts, transposes, reshapes as strides |
//! | `collective` | who meets whom |
//! | `trips` | how often a loop runs |
//! | `ids` | the numbers that a device knows |
//! | [`strips`](strips/README.md) | groups that run a few rows at a time: attention without the matrix of scores |
//! | `lower` | the state of a lowering, which the library shares |
//! | `display` | a program as text |

mod block;
mod carries;
mod collective;
mod components;
mod computed;
mod constants;
mod counters;
mod dilated;
mod display;
mod expand;
mod ids;
mod interleave;
mod invariants;
mod iotas;
pub mod lower;
mod narrow;
mod pairs;
mod pooling;
mod prepare;
mod repeated;
mod scanned;
mod simplify;
mod small;
mod stencil;
mod strips;
#[cfg(test)]
pub(crate) mod testing;
mod trips;
mod unroll;
mod views;
mod windows;

pub(crate) use block::{Compiler, captured};
pub(crate) use trips::{constant, step_of, trip_count};
pub(crate) use views::view_of;

use std::sync::Arc;

use meshwork_ir::DeviceGrid;
use meshwork_ir::Module;
use meshwork_runtime::LoadError;

use crate::program::Program;

/// Where the devices of a program are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// All in this process.
    OneProcess,
    /// Spread over several processes, to which buffers are sent whole.
    Processes,
}

/// Compiles function `entry` (by default the module's entry function) for the devices of `grid`, all of which run it.
pub fn compile(module: &Module, entry: Option<&str>, grid: DeviceGrid, span: Span) -> Result<Program, LoadError> {
    compile_within(module, entry, (grid, span), &strips::Limits::default())
}

/// [`compile`], with other limits for strips.
fn compile_within(
    module: &Module,
    entry: Option<&str>,
    (grid, span): (DeviceGrid, Span),
    limits: &strips::Limits,
) -> Result<Program, LoadError> {
    let found = match entry {
        Some(name) => module.func(name),
        None => module.entry(),
    };
    let Some(func) = found else {
        let message = match entry {
            Some(name) => format!("no function @{name}"),
            None => "neither a function @main nor a single function".into(),
        };
        return Err(LoadError::Invalid { op: "module".into(), message });
    };
    let (mut module, func) = prepare::prepare(module, func, grid)?;
    let strips = strips::outline(&mut module, func, limits);
    block::program(&Arc::new(module), func, (grid, span), strips)
}
