//! The memory plan: where each value is stored.

pub mod live;
pub mod peer_args;
pub mod place;
pub mod plan;
pub mod share;
