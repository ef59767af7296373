//! The plan of memory: which value lies where.

pub mod handed;
pub mod live;
pub mod place;
pub mod plan;
pub mod share;
