//! Training: optimizers, schedules, clipping, and a step whose state is split over the mesh.
//!
//! | | |
//! |---|---|
//! | [`Optimizer`], [`OptimizerState`] | SGD, momentum, Adam, AdamW, Lion |
//! | [`Schedule`] | the learning rate over time |
//! | [`global_norm`], [`clip_by_global_norm`] | norms that count each element once, however it is placed |
//! | [`Trainer`], [`Zero`] | a step with accumulation, mixed precision and split state |
//! | [`Learner`], [`Settings`] | the same with metrics, statistics (batch norm), random keys and loss scaling |
//! | [`fit`], [`Patience`] | the loop around a step, early stop |
//! | [`ShardedContext`], [`Role`] | a program from typed inputs, as MLIR with `sdy` annotations |
//! | [`gradient_sync_pattern`] | what a gradient needs after the backward pass, and why |
//! | [`suggest`] | which axes a model of some size needs on some devices, with reasons |
//!
//! ```
//! use meshwork::prelude::*;
//! use meshwork::train::{Optimizer, Trainer, Zero};
//!
//! let loss = |w: &Tensor, (x, y): &(Tensor, Tensor)| (x.matmul(w) - y).square().mean_all();
//! let trainer = Trainer::new(loss, Optimizer::adam(0.1))
//!     .on(&Mesh::linear("data", 4)?)
//!     .batch(P!["data"])
//!     .zero(Zero::One, "data")
//!     .build();
//! let x = Array::from_fn([8, 4], |i| ((i[0] * 3 + i[1] * 5) as f32).sin());
//! let y = Array::from_fn([8, 1], |i| (i[0] as f32).cos());
//! let mut state = trainer.init(&Array::zeros([4, 1], F32))?;
//! let mut losses = vec![];
//! for _ in 0..20 {
//!     let (value, next) = trainer.step(&state, &(x.clone(), y.clone()))?;
//!     losses.push(value.item::<f32>()?);
//!     state = next;
//! }
//! assert!(losses[19] < losses[0]);
//! // Each device keeps a quarter of both moments.
//! assert_eq!(state.1.first.as_ref().map(|m| m.shards()[1].slice.clone()), Some(vec![1..2, 0..1]));
//! # Ok::<(), meshwork::Error>(())
//! ```

mod clip;
mod context;
mod fit;
mod inputs;
mod learner;
mod optimizer;
mod schedule;
mod settings;
mod state;
mod step;
mod suggest;
mod sync;

pub use clip::{clip_by_global_norm, global_norm};
pub use context::{Role, ShardedContext};
#[cfg(feature = "progress")]
pub use fit::Bar;
pub use fit::{Patience, Report, fit};
pub use inputs::Inputs;
pub use learner::{HostLearnState, LearnState, Learner, LossScale};
pub use optimizer::{Method, Optimizer};
pub use schedule::Schedule;
pub use settings::Settings;
pub use state::OptimizerState;
pub use step::{Step, StepFunction, TrainState, Trainer, Zero};
pub use suggest::{GuideRow, Strategy, guide, suggest};
pub use sync::{Loss, Sync, SyncPattern, Usage, gradient_sync_pattern};
