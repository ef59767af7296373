//! From a per-device module to a program of steps over buffers.

pub mod lower;
