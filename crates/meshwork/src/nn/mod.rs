//! What models are built of: training, rules over trees, named axes, and pipeline, expert and sequence parallelism.
//!
//! Everything here is written with tensors, arrays, `jit` and trees, as a user's program is. Tracing and running know
//! nothing of it, and neither does [`store`](crate::store).

pub mod attention;
pub mod experts;
pub mod layers;
pub mod losses;
pub mod named;
pub mod optim;
pub mod pipeline;
pub mod rules;
pub mod sequence;
pub mod train;
