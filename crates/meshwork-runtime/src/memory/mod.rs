//! Host memory: pages, buffers, and how much of it is in use.

pub mod buffer;
mod pages;
pub mod usage;

pub use buffer::Buffer;
