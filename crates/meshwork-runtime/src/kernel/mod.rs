//! Kernels: straight-line code over rows, interpreted in tiles or compiled to machine code.

pub mod ir;
