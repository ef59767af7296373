//! Errors in the user's terms: the operation, the numbers, and the line that asked for it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;

use meshwork_ir::{Diagnostic, Type};
use meshwork_mesh::{Mesh, MeshError, ShardingError};
use meshwork_partition::{CompileError, ContractViolation};
use meshwork_runtime::{LoadError, RunError};
use smol_str::SmolStr;
use thiserror::Error;

pub use meshwork_runtime::{ArrayError, SourceLine as At};

/// An operation that does not fit its operands. Found while tracing.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{op}: {message}\n  at {at}")]
pub struct TraceError {
    /// The operation, as the user called it.
    pub op: String,
    /// What is wrong, with names and numbers.
    pub message: String,
    /// The line that asked for it.
    pub at: At,
}

meshwork_mesh::debug_as_display!(TraceError);

/// Why a [`Jit`](crate::Jit) cannot trace, plan or run its function.
#[derive(Error)]
#[non_exhaustive]
pub enum JitError {
    /// An argument is on another mesh than the program.
    #[error("argument {argument} is on the mesh {found}, the program on {program}")]
    OtherMesh {
        /// The path of the argument.
        argument: String,
        /// Its mesh.
        found: Arc<Mesh>,
        /// The mesh of the program.
        program: Arc<Mesh>,
    },
    /// There is no such engine.
    #[error("engine {name:?}: {message}")]
    Engine {
        /// Its name.
        name: String,
        /// Why not.
        message: String,
    },
    /// An option needs a mesh, and there is none.
    #[error("{options} a mesh: give jit one with .on(&mesh)")]
    NoMesh {
        /// The options, with the verb.
        options: &'static str,
    },
    /// A plan was asked for, and there is no mesh.
    #[error(
        "there is no mesh to split the program over; give jit one with .on(&mesh), or pass an array that is on one"
    )]
    NothingToSplit,
    /// An option has more or fewer rules than there are arguments or results.
    #[error("{option} has {given} rules for {wanted} {of}")]
    RuleCount {
        /// The option.
        option: &'static str,
        /// Number of rules.
        given: usize,
        /// Number of arguments or results.
        wanted: usize,
        /// `arguments` or `results`.
        of: &'static str,
    },
    /// `donate` names an argument that does not exist.
    #[error("donate names argument {number}, but there are {count}")]
    DonatedNumber {
        /// The number given.
        number: usize,
        /// Number of arguments.
        count: usize,
    },
    /// A donated array is another argument as well.
    #[error("argument {donated} is donated, and argument {other} is the same array")]
    DonatedTwice {
        /// The path of the donated argument.
        donated: String,
        /// The path of the other one.
        other: String,
    },
    /// An argument has no elements: it is only a shape, or was donated.
    #[error("argument {argument}: {error}")]
    Argument {
        /// The path of the argument.
        argument: String,
        /// Why it has none.
        error: Box<Error>,
    },
    /// The function uses a tensor of a trace around it.
    #[error("the function uses {tensor} of the trace around it; pass it as an argument")]
    Captured {
        /// The tensor, with its type.
        tensor: String,
    },
    /// A name in `annotations` that the program does not have.
    #[error("annotations has {name:?}, but the program annotates {}", list(.annotated))]
    UnusedAnnotation {
        /// The name.
        name: String,
        /// The names that the program has.
        annotated: Vec<String>,
    },
    /// `why` was asked about something that the program does not have.
    #[error(
        "why: the program has nothing called {name:?}; its arguments are {arguments:?}, its results {results:?}, and \
         `file:line` names what a line computes"
    )]
    UnknownName {
        /// The name.
        name: String,
        /// Paths of the arguments.
        arguments: Vec<SmolStr>,
        /// Paths of the results.
        results: Vec<String>,
    },
    /// The engine returned another number of results than the program has.
    #[error("the engine returned {given} results, the program has {wanted}")]
    ResultCount {
        /// Number of arrays returned.
        given: usize,
        /// Number of results of the program.
        wanted: usize,
    },
}

meshwork_mesh::debug_as_display!(JitError);

/// Names in quotes, or that there are none.
fn list(names: &[String]) -> String {
    match names {
        [] => "no names".into(),
        names => names.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", "),
    }
}

/// Why a program could not be [imported](crate::Imported) or called.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The text is not a program.
    #[error(transparent)]
    Parse(Box<Diagnostic>),
    /// The program is not valid.
    #[error("{first} ({count} errors)")]
    Invalid {
        /// The first thing that is wrong.
        first: Box<Diagnostic>,
        /// How many things are wrong.
        count: usize,
    },
    /// There is no function to call.
    #[error("there is no function @main among {count} functions")]
    NoEntry {
        /// Number of functions.
        count: usize,
    },
    /// An argument or result whose extents are not fixed.
    #[error("{which} has the type {ty}; export the function for fixed shapes")]
    Dynamic {
        /// `argument` or `result`, and its number.
        which: String,
        /// Its type.
        ty: Type,
    },
    /// A call that does not become part of the entry function.
    #[error("{op} cannot be inlined")]
    NotInlined {
        /// The call.
        op: String,
    },
    /// Called with arguments of other types.
    #[error("it takes {wanted}, not {given}")]
    Arguments {
        /// The types of its arguments.
        wanted: String,
        /// The types given.
        given: String,
    },
}

meshwork_mesh::debug_as_display!(ImportError);

/// Any error of this crate.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation cannot do what was asked; found while tracing.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An invalid mesh.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// One of the others, and the line of the program that asked for what failed.
    #[error("{error}\n  at {at}")]
    Located {
        /// What went wrong.
        error: Box<Error>,
        /// The line.
        at: At,
    },
    /// A placement that does not fit.
    #[error("{what}: {}", meshwork_mesh::spec::explain(.error))]
    Sharding {
        /// What was to be placed.
        what: String,
        /// Why it does not fit.
        error: Box<ShardingError>,
    },
    /// The arguments or options of `jit` do not fit the function.
    #[error("jit: {0}")]
    Jit(Box<JitError>),
    /// Another function was called with something that does not fit.
    #[error("{what}: {message}")]
    Invalid {
        /// The function, or what it works on.
        what: &'static str,
        /// What is wrong, with names and numbers.
        message: String,
    },
    /// An array could not be made or read.
    #[error(transparent)]
    Array(ArrayError),
    /// The program could not be placed and split.
    #[error(transparent)]
    Compile(Box<CompileError>),
    /// The engine does not load the program.
    #[error(transparent)]
    Load(Box<LoadError>),
    /// The program failed on the engine.
    #[error(transparent)]
    Run(Box<RunError>),
    /// A file could not be read or written.
    #[error("{path}: {what}")]
    File {
        /// Which file.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// A checkpoint could not be saved or restored.
    #[cfg(feature = "checkpoints")]
    #[error(transparent)]
    Checkpoint(Box<crate::save::CheckpointError>),
    /// An imported program could not be read or called.
    #[error("imported function: {0}")]
    Import(Box<ImportError>),
    /// The processes could not do something together.
    #[error(transparent)]
    Processes(#[from] meshwork_runtime::ProcessError),
    /// A rule has no placement for an array.
    #[error(transparent)]
    Rule(#[from] crate::rule::RuleError),
    /// A mapping of named axes does not fit.
    #[error(transparent)]
    Mapping(#[from] crate::named::MappingError),
    /// The plan breaks a contract.
    #[error(transparent)]
    Contract(Box<ContractViolation>),
    /// A search found no placements.
    #[error("auto: {0}")]
    Planner(#[from] meshwork_planner::PlannerError),
}

meshwork_mesh::debug_as_display!(Error);

impl Error {
    /// The error with the line that asked for what failed, if it does not say where it stands already.
    pub(crate) fn at(self, at: &'static Location<'static>) -> Error {
        match self {
            Error::Mesh(_)
            | Error::Sharding { .. }
            | Error::Jit(_)
            | Error::Invalid { .. }
            | Error::Array(_)
            | Error::Rule(_)
            | Error::Planner(_)
            | Error::Mapping(_) => Error::Located { error: Box::new(self), at: At(at) },
            other => other,
        }
    }
}

impl From<ArrayError> for Error {
    fn from(error: ArrayError) -> Error {
        match error {
            ArrayError::Located { error, at } => Error::Located { error: Box::new(Error::from(*error)), at },
            ArrayError::Placement { what, error } => Error::Sharding { what, error },
            ArrayError::File { path, what } => Error::File { path, what },
            ArrayError::Processes(error) => Error::Processes(error),
            other => Error::Array(other),
        }
    }
}

/// Large errors are boxed, so that results stay small.
macro_rules! boxed {
    ($($name:ident $error:ty),*) => {
        $(
            impl From<$error> for Error {
                fn from(error: $error) -> Error {
                    Error::$name(Box::new(error))
                }
            }
        )*
    };
}

boxed!(Jit JitError, Import ImportError, Compile CompileError, Load LoadError, Contract ContractViolation);

impl From<RunError> for Error {
    fn from(error: RunError) -> Error {
        match error {
            RunError::Array(error) => error.into(),
            RunError::Processes(error) => error.into(),
            other => Error::Run(Box::new(other)),
        }
    }
}

#[cfg(feature = "checkpoints")]
boxed!(Checkpoint crate::save::CheckpointError);

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Stops tracing at the caller's line: [`jit`](crate::jit) returns the error.
///
/// Operators cannot return a `Result`, so a misuse unwinds to the `jit` that runs the trace. It does not go through
/// the panic hook: nothing is printed. Where no `jit` would return it, it is an ordinary panic.
#[track_caller]
pub(crate) fn fail(op: &str, message: impl Into<String>) -> ! {
    fail_at(op, message, crate::trace::pin().unwrap_or(Location::caller()))
}

/// [`fail`], at another line.
pub(crate) fn fail_at(op: &str, message: impl Into<String>, at: &'static Location<'static>) -> ! {
    let error = TraceError { op: op.into(), message: message.into(), at: At(at) };
    if cfg!(panic = "abort") || CATCHING.get() == 0 {
        panic!("{error}");
    }
    resume_unwind(Box::new(error))
}

thread_local! {
    /// How many [`catch`] are around.
    static CATCHING: Cell<usize> = const { Cell::new(0) };
}

/// Runs code that may [`fail`]. Other panics pass through.
pub(crate) fn catch<R>(work: impl FnOnce() -> R) -> Result<R, TraceError> {
    CATCHING.set(CATCHING.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(CATCHING.get() - 1);
    done.or_else(|payload| match payload.downcast::<TraceError>() {
        Ok(error) => Err(*error),
        Err(other) => resume_unwind(other),
    })
}
