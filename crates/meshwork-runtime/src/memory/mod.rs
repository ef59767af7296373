//! Memory: pages and buffers, and the plan of which value lies where.

pub mod buffer;
pub mod handed;
pub mod live;
mod pages;
pub mod place;
pub mod plan;
pub mod share;
pub mod usage;

pub use buffer::Buffer;
