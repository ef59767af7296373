//! What can go wrong with arrays, with loading a program, and with running it.

use std::fmt;
use std::panic::Location;

use meshwork_eval::EvalError;
use meshwork_ir::{Module, OpId, OpPlace};
use meshwork_mesh::{ShardingError, spec};

use crate::memory::buffer::OutOfMemory;
use crate::transport::world::ProcessError;

/// A line of the user's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceLine(pub &'static Location<'static>);

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.0.file(), self.0.line(), self.0.column())
    }
}

/// Why an array could not be made, placed or read.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum ArrayError {
    /// As many elements as the shape says are needed.
    #[error("{given} elements do not fill the shape {shape:?}, which has {wanted}")]
    Count {
        /// Number of elements given.
        given: usize,
        /// The shape.
        shape: Vec<i64>,
        /// Number of elements of the shape.
        wanted: i64,
    },
    /// Read as another element type than it has.
    #[error("the array has elements of type {has}, not {asked}; read it with to_f64s, or convert it in the program")]
    ElementType {
        /// The array's element type.
        has: meshwork_ir::ElementType,
        /// The one asked for.
        asked: meshwork_ir::ElementType,
    },
    /// Parts of these elements cannot be combined in this way.
    #[error("elements of type {elem} cannot be in parts as {sharding} says")]
    NoParts {
        /// The element type.
        elem: meshwork_ir::ElementType,
        /// The placement.
        sharding: String,
    },
    /// The array is in parts, and whole slices were asked for.
    #[error(
        "the array of shape {shape:?} is in parts over the unreduced axes of {sharding}; combine them in the program first"
    )]
    InParts {
        /// The shape.
        shape: Vec<i64>,
        /// The placement.
        sharding: String,
    },
    /// A scalar was asked of an array of several elements.
    #[error("an array of shape {shape:?} is not a single element")]
    NotScalar {
        /// The shape.
        shape: Vec<i64>,
    },
    /// An array that is only a shape has no elements.
    #[error("the array of shape {shape:?} is abstract: it can be lowered and planned with, not run")]
    Abstract {
        /// The shape.
        shape: Vec<i64>,
    },
    /// A call that it was donated to has its memory.
    #[error(
        "the array of shape {shape:?} was donated to the call at {at}, whose results have its memory now; use those, or \
         leave the argument out of donate"
    )]
    Donated {
        /// The shape.
        shape: Vec<i64>,
        /// The call.
        at: SourceLine,
    },
    /// Pieces do not cover the array.
    #[error("piece {piece} has shape {given:?}; device {device} holds {wanted:?} of the array")]
    Piece {
        /// Which piece.
        piece: usize,
        /// The device it is for.
        device: i64,
        /// Its shape.
        given: Vec<i64>,
        /// The shape of the slice of that device.
        wanted: Vec<i64>,
    },
    /// One piece per device.
    #[error("{given} pieces for {wanted} devices; give one piece per device, in order of device id")]
    Pieces {
        /// Number of pieces.
        given: usize,
        /// Number of devices.
        wanted: i64,
    },
    /// A shard of the wrong size.
    #[error("the shard of device {device} has {given} bytes; {wanted} are needed")]
    ShardSize {
        /// The device.
        device: usize,
        /// Size of its buffer.
        given: usize,
        /// Size of all shards of the array.
        wanted: usize,
    },
    /// A placement that does not fit the array or the mesh.
    #[error("{what}: {}", spec::explain(.error))]
    Placement {
        /// What was to be placed.
        what: String,
        /// Why it does not fit.
        error: Box<ShardingError>,
    },
    /// A file could not be read or written.
    #[error("{path}: {what}")]
    File {
        /// Which file.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// A list of files without an entry.
    #[error("load_npy_pieces: no files given")]
    NoFiles,
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// The device could not be read.
    #[error("device: {0}")]
    Device(String),
    /// The processes could not do it together.
    #[error(transparent)]
    Processes(#[from] ProcessError),
    /// One of the others, and the line of the program that asked for what failed.
    #[error("{error}\n  at {at}")]
    Located {
        /// What went wrong.
        error: Box<ArrayError>,
        /// The line.
        at: SourceLine,
    },
}

meshwork_mesh::debug_as_display!(ArrayError);

impl ArrayError {
    /// The error with the line that asked for what failed, if that line can do something about it.
    pub(crate) fn at(self, at: &'static Location<'static>) -> ArrayError {
        match self {
            ArrayError::Located { .. }
            | ArrayError::File { .. }
            | ArrayError::Memory(_)
            | ArrayError::Device(_)
            | ArrayError::Processes(_) => self,
            other => ArrayError::Located { error: Box::new(other), at: SourceLine(at) },
        }
    }
}

/// Why an array of this shape cannot be placed so.
pub(crate) fn placing(shape: &[i64]) -> impl Fn(ShardingError) -> ArrayError + use<> {
    let what = format!("array of shape {shape:?}");
    move |error| ArrayError::Placement { what: what.clone(), error: error.into() }
}

/// Why an engine does not load a program.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// Legal, but not for this engine.
    #[error("{op}: the engine does not do {what}")]
    Unsupported {
        /// The operation and where it stands.
        op: String,
        /// What about it.
        what: String,
    },
    /// The program is not well formed.
    #[error("{op}: {message}")]
    Invalid {
        /// The operation and where it stands.
        op: String,
        /// What is wrong.
        message: String,
    },
    /// The mesh is larger than the engine.
    #[error("the mesh has {devices} devices; {engine} runs at most {most}")]
    TooManyDevices {
        /// The engine.
        engine: String,
        /// How many devices the mesh has.
        devices: usize,
        /// How many the engine runs.
        most: usize,
    },
    /// There is no memory for its constants.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// The other processes cannot be reached.
    #[error(transparent)]
    Processes(#[from] ProcessError),
}

meshwork_mesh::debug_as_display!(LoadError);

impl LoadError {
    /// Operation `op` of `module` is legal, but not for this engine.
    pub fn unsupported(module: &Module, op: OpId, what: impl Into<String>) -> LoadError {
        LoadError::Unsupported { op: module.describe(op), what: what.into() }
    }

    /// Operation `op` of `module` is wrong.
    pub fn invalid(module: &Module, op: OpId, message: impl Into<String>) -> LoadError {
        LoadError::Invalid { op: module.describe(op), message: message.into() }
    }
}

/// Why a run failed. The executable can be run again.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum RunError {
    /// The arguments do not fit the program.
    #[error("{0}")]
    Arguments(String),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// An array could not be put on the devices, or taken from them.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// An operation failed.
    #[error("{op}{}: {message}", on(.device))]
    Failed {
        /// The operation and where it stands.
        op: OpPlace,
        /// The device, unless it is a matter of several.
        device: Option<usize>,
        /// What went wrong.
        message: String,
    },
    /// The evaluator stopped.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// It failed in another process, and is over in all.
    #[error("rank {rank}: {message}")]
    Elsewhere {
        /// The lowest process in which it failed.
        rank: usize,
        /// What went wrong there.
        message: String,
    },
    /// The processes have lost each other.
    #[error(transparent)]
    Processes(#[from] ProcessError),
}

meshwork_mesh::debug_as_display!(RunError);

fn on(device: &Option<usize>) -> String {
    device.map_or(String::new(), |d| format!(" on device {d}"))
}
