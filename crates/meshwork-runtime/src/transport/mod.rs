//! Processes: the same program on several of them, with devices spread over all.
//!
//! | file | what it is |
//! |---|---|
//! | `launcher` | who started this process |
//! | `runtime` | the handle that programs have |
//! | `world` | the processes as one of them sees them |
//! | `link`, `mpi`, `no_mpi` | what carries bytes: MPI, or nothing |
//! | `swap`, `stamp` | one exchange of messages, and their headers |
//! | `control`, `flight_recorder`, `exit` | control messages, the last operations before a failure, shutdown |
//! | `calls` | barrier, broadcast, gather, scatter on bytes, by all processes |
//! | `communicator`, `collectives` | groups of ranks: messages with tags, collectives on bytes |
//! | `wire`, `post`, `threads`, `mailbox` | their messages: between processes, between threads, which goes to which receive |

pub mod calls;
pub mod collectives;
pub mod communicator;
mod control;
mod exit;
mod flight_recorder;
pub mod launcher;
pub mod link;
mod mailbox;
#[cfg(feature = "mpi")]
mod mpi;
#[cfg(not(feature = "mpi"))]
mod no_mpi;
mod post;
pub mod runtime;
pub mod stamp;
pub mod swap;
mod threads;
mod wire;
pub mod world;
