//! Running compiled programs: threads, devices, communication.

pub mod fallback;
