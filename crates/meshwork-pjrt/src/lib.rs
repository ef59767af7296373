//! Runs Meshwork programs on the devices of PJRT plugins: GPUs, TPUs, XLA's CPU devices.
//!
//! [`PjrtEngine`] is an [`Engine`](meshwork_runtime::Engine) like the others. The README beside this crate tells what
//! happens to a program on its way to a device.

#![deny(missing_docs)]

#[cfg(unix)]
mod abort;
mod buffer;
mod cache;
mod client;
mod compile_options;
mod discover;
mod engine;
mod event;
mod executable;
mod kernels;
mod lower;
mod plugin;
mod precision;
mod processes;
mod rewrite;
mod staging;

pub use client::{Client, Device, OptionValue, Transfers};
pub use discover::{Installed, installed};
pub use engine::{Opening, Partitioner, PjrtEngine};
pub use plugin::{PjrtError, Plugin};
pub use precision::Precision;
