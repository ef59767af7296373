//! Gradients of each family of operations and of whole programs, against central finite differences.

mod api;
mod common;
mod contract;
mod control;
mod conv;
mod elementwise;
mod expand;
mod index;
mod linalg;
mod manual;
mod movement;
mod programs;
mod reduce;
mod ties;
mod window;
