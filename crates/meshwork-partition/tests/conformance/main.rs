//! Conformance by enumeration: each operation under all shardings of small meshes, at sizes 0, 1, prime, even and
//! uneven, gives what it gives on one device. Exact for integers and data movement; floats within `common::close`.

#[path = "../common/mod.rs"]
mod common;

mod algebra;
mod cases;
mod contraction;
mod control;
mod elementwise;
mod every_op;
mod indexing;
mod manual;
mod movement;
mod places;
mod random;
mod reductions;
mod reshards;
mod sub_axes;
mod targets;
