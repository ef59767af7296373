//! Running compiled programs: threads, devices, communication.
//!
//! | file | what it is |
//! |---|---|
//! | `gate`, `tasks`, `pool` | threads: who may work on a job, which task is whose, the pool of them |
//! | `tape` | a program whose memory is planned, ready to walk |
//! | `device` | the pointers of one device |
//! | `run` | the coordinator |
//! | `wave` | several turns of a loop at once |
//! | `exchange`, `combine`, `ragged` | communication: what goes where, sums, and pieces of lengths that are data |
//! | `crossing`, `processes` | communication between processes, and running together with them |
//! | `fallback` | operations without a kernel |

pub(crate) mod combine;
pub(crate) mod crossing;
pub(crate) mod device;
pub(crate) mod exchange;
pub mod fallback;
mod gate;
pub mod pool;
pub(crate) mod processes;
mod ragged;
pub(crate) mod run;
mod sync;
pub(crate) mod tape;
mod tasks;
pub(crate) mod wave;
