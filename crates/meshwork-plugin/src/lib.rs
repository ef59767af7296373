//! Meshwork as a PJRT plugin: JAX hands it a program for all devices, and it is placed, split and run here.
//!
//! [`GetPjrtApi`] is what JAX looks up in the library; [`tools`] has what the Python package calls besides. The README
//! beside this crate tells the way of a call.

#![deny(missing_docs)]

mod api;
mod border;
mod buffer;
pub mod callback;
mod client;
mod copy;
mod event;
mod executable;
mod execute;
mod failure;
pub mod ffi;
mod layouts;
mod named;
mod op_sharding;
mod options;
mod program;
mod queue;
mod shardings;
pub mod tools;
mod topology;
mod transfer;

pub use api::GetPjrtApi;
