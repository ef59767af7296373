//! The memory plan: where each value is stored.

pub mod handed;
pub mod live;
pub mod place;
pub mod plan;
pub mod share;
