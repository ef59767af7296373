//! Processes: the same program on several of them, with devices spread over all.
//!
//! | file | what it is |
//! |---|---|
//! | `launcher` | who started this process |
//! | `runtime` | the handle that programs have |
//! | `world` | the processes as one of them sees them |
//! | `link`, `mpi`, `none` | what carries bytes: MPI, or nothing |
//! | `swap`, `stamp` | one exchange of messages, and their headers |
//! | `note`, `record`, `exit` | control messages, the record of recent operations, shutdown |
//! | `calls` | barrier, broadcast, gather, scatter on bytes |

pub mod calls;
mod exit;
pub mod launcher;
pub mod link;
#[cfg(feature = "mpi")]
mod mpi;
#[cfg(not(feature = "mpi"))]
mod none;
mod note;
mod record;
pub mod runtime;
pub mod stamp;
pub mod swap;
pub mod world;
