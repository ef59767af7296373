//! Searches for the shardings of a program: which arrays to split over which axes of which mesh, so that the exact plan
//! takes the least time and fits into memory.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod network;
