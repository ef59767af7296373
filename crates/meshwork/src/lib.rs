//! Tensor programs, written once as if for one very large device and split over a mesh of them.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! // One step of the heat equation, written with slices.
//! fn step(u: Tensor) -> Tensor {
//!     let next = 0.5 * u.slice(s![1..-1]) + 0.25 * u.slice(s![..-2]) + 0.25 * u.slice(s![2..]);
//!     u.at(s![1..-1]).set(next)
//! }
//!
//! let mesh = Mesh::linear("x", 4)?;
//! let simulate = jit(|u: Tensor| for_loop(0..10, u, |_, u| step(u)));
//!
//! // 102 points over 4 devices: blocks of 26, the last one short.
//! let u = Array::from_fn([102], |i| if i[0] == 51 { 1.0f32 } else { 0.0 }).shard(&mesh, P!["x"])?;
//!
//! // What each device sends: one element to each neighbour, each step.
//! assert_eq!(simulate.plan(&u)?.totals()["collective-permute"].count, 20);
//! let v = simulate.call(&u)?;
//! assert!((v.to_f64s()?.iter().sum::<f64>() - 1.0).abs() < 1e-6);
//! # Ok::<(), meshwork::Error>(())
//! ```
//!
//! | | |
//! |---|---|
//! | [`Tensor`] | a value of a program; operators, slices, sums, products, … |
//! | [`jit`] | traces a function, places it, splits it, runs it |
//! | [`for_loop`], [`while_loop`], [`scan`], [`cond`] | loops and branches, traced once |
//! | [`grad`], [`value_and_grad`], [`vjp`], [`jvp`], [`hessian`] | derivatives; [`custom_vjp`] gives a function its own |
//! | [`Key`] | random numbers |
//! | [`linalg`] | linear algebra |
//! | [`debug_print`], [`pure_callback`] | values printed, and functions of the host called, while a program runs |
//! | [`shard_map`] | parts written for one device, with the communication spelled out |
//! | [`vmap`] | functions of one example on many |
//! | [`checkpoint`] | less memory for more arithmetic |
//! | [`Array`] | elements on the host, and where they live on a mesh |
//! | [`Mesh`], [`P!`], [`Rule`] | devices along named axes; which axis splits which dimension |
//! | [`rules`], [`named`] | placements of trees by path or size; axes with names |
//! | [`layers`] | linear, convolution, embedding, norms, attention, LSTM |
//! | [`train`] | optimizers, split state, a training step |
//! | [`losses`], [`attention`], [`optim`] | losses, attention with masks and groups, optimizers made of parts |
//! | `save` | checkpoints, restored on any mesh |
//! | [`pipeline`], [`experts`], [`sequence`], [`data`] | stages, mixtures of experts, ring attention, batches from pieces |
//! | [`Runtime`], [`processes`] | several processes under `mpirun`, and arrays between them |
//! | [`Tree`] | arguments and results made of several tensors |
//!
//! # Types
//!
//! A program is an ordinary Rust function of tensors and structs of them. What it is called with and what it returns is known to the
//! compiler:
//!
//! ```compile_fail,E0308
//! # use meshwork::prelude::*;
//! // One argument too few.
//! jit(|a: Tensor, b: Tensor| a + b).call(&Array::scalar(1.0)).unwrap();
//! ```
//!
//! ```compile_fail,E0308
//! # use meshwork::prelude::*;
//! // The result is one array, not a pair.
//! let (a, b) = jit(|x: Tensor| x * 2.0).call(&Array::scalar(1.0)).unwrap();
//! ```
//!
//! ```compile_fail,E0277
//! # use meshwork::prelude::*;
//! // An array is not a tensor: it is an argument, or a constant by `Tensor::constant`.
//! jit(|x: Array| x);
//! ```
//!
//! ```compile_fail,E0599
//! # use meshwork::prelude::*;
//! // Tensors are values of a program, without elements.
//! jit(|x: Tensor| { x.to_vec::<f32>(); x });
//! ```
//!
//! ```compile_fail,E0277
//! # use meshwork::prelude::*;
//! // A text beside a tensor.
//! jit(|x: Tensor| x + "1");
//! ```
//!
//! # Errors
//!
//! Operations on tensors cannot return a `Result` without spoiling arithmetic. A misuse ends the trace by unwinding,
//! and the call of the [`jit`] function returns it as an [`Error`] with the operation, the shapes and the line. Other
//! panics pass through. With `panic = "abort"` the message is printed and the process ends.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

// `#[derive(Tree)]` names this crate, also within it.
extern crate self as meshwork;

mod annotate;
mod captured;
mod control;
mod devices;
mod donate;
mod element;
mod engine;
mod error;
mod function;
mod host;
mod import;
mod jit;
pub mod linalg;
mod lower;
mod manual;
mod nn;
mod ops;
pub mod processes;
mod rule;
mod scope;
mod spec;
mod store;
mod tensor;
mod trace;
mod transform;
mod tree;

pub use annotate::annotate;
pub use control::{associative_scan, cond, for_loop, fori_loop, map, scan, switch, while_loop};
pub use devices::{MeshDevice, devices, devices_of, mesh_of_devices};
pub use element::{Element, Number, Operand};
pub use engine::{Cpu, Devices, OnEngine, Place, engine};
pub use error::{ArrayError, At as SourceLine, Error, ImportError, JitError, Result, TraceError};
pub use function::Function;
pub use host::{debug_callback, debug_print, pure_callback};
pub use import::Imported;
pub use jit::{Jit, LoweredFor, Profiled, jit};
pub use lower::Lowered;
pub use manual::{axis_index, axis_size, shard_map};
pub use meshwork_derive::Tree;
pub use meshwork_explore::{Curves, Page};
pub use meshwork_ir::ElementType;
pub use meshwork_ir::attr::DotDims;
pub use meshwork_mesh::{Mesh, Picture, Reduction, Sharding, Split, Topology};
pub use meshwork_partition::plan::{Machine, Simulation};
pub use meshwork_partition::{Compiled, Contract, Plan};
/// Searches for placements, under constraints; what [`auto`](Jit::auto) uses.
pub use meshwork_planner as planner;
pub use meshwork_runtime::{
    Array, Engine, Evaluator as Reference, Executable, Fallback, Int, LoadError, MemoryUse, Placement, ProcessError,
    Profile, ReduceOp, RunError, Runtime, Shape, Shard,
};
pub use nn::{attention, experts, layers, losses, named, optim, pipeline, rules, sequence, train};
pub use ops::{
    At, Conv, CustomCall, Float, Index, Key, NEW_AXIS, Padding, arange, arange_from, block_diag, broadcast_arrays,
    broadcast_shapes, concatenate, einsum, eye, fftfreq, finfo, full, geomspace, hstack, iota, linspace, logspace,
    meshgrid, ones, optimization_barrier, polyfit, rfftfreq, select, shard_alike, stack, tri, tril_indices,
    triu_indices, unravel_index, vander, vstack, zeros,
};
pub use processes::{Communicator, HostArrays};
pub use rule::{Policy, Rule, Rules, ShardingRule};
pub use spec::{Axes, Dim, P, dim};
pub use store::data;
#[cfg(feature = "safetensors")]
pub use store::files::{SafeTensors, load_tree, save_safetensors, save_tree};
#[cfg(feature = "npz")]
pub use store::files::{load_npz, save_npz};
#[cfg(feature = "checkpoints")]
pub use store::save;
pub use tensor::Tensor;
pub use transform::{
    MapAxes, Vmap, checkpoint, custom_jvp, custom_vjp, grad, hessian, jacfwd, jacrev, jvp, linear_transpose, linearize,
    value_and_grad, value_and_grad_aux, vjp, vmap,
};
pub use tree::{HostTree, MapKey, Path, Static, Tree, Visit, map_arrays, named_arrays, tree_map};

/// What most programs need: `use meshwork::prelude::*;`.
pub mod prelude {
    pub use crate::ElementType::{self, BF16, F16, F32, F64, I1, I8, I32, I64, UI8, UI32, UI64};
    pub use crate::{
        Array, Contract, Conv, Error, HostArrays, Imported, Key, Mesh, NEW_AXIS, Number, OnEngine, P, Padding, Rule,
        Runtime, Static, Tensor, Tree, Vmap, annotate, arange, axis_index, axis_size, checkpoint, concatenate, cond,
        dim, einsum, eye, for_loop, full, grad, iota, jit, jvp, linspace, ones, s, scan, select, shard_alike,
        shard_map, stack, tree_map, value_and_grad, vjp, vmap, while_loop, zeros,
    };
}

/// The chapters of the book, so that their code is compiled and run.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/ten-minutes.md")]
    mod ten_minutes {}
    #[doc = include_str!("../../../docs/sharding.md")]
    mod sharding {}
    #[doc = include_str!("../../../docs/planner.md")]
    mod planner {}
    #[doc = include_str!("../../../docs/stencils.md")]
    mod stencils {}
    #[doc = include_str!("../../../docs/gradients.md")]
    mod gradients {}
    #[cfg(feature = "checkpoints")]
    #[doc = include_str!("../../../docs/training.md")]
    mod training {}
    #[cfg(all(feature = "safetensors", feature = "npz"))]
    #[doc = include_str!("../../../docs/inference.md")]
    mod inference {}
    #[doc = include_str!("../../../docs/debugging.md")]
    mod debugging {}
    #[doc = include_str!("../../../docs/explorer.md")]
    mod explorer {}
    #[doc = include_str!("../../../docs/machines.md")]
    mod machines {}
    #[doc = include_str!("../../../docs/mistakes.md")]
    mod mistakes {}
    #[cfg(feature = "checkpoints")]
    #[doc = include_str!("../../../docs/from-jax.md")]
    mod from_jax {}
    #[doc = include_str!("../../../docs/from-reactant.md")]
    mod from_reactant {}
    #[doc = include_str!("../../../docs/from-scalax.md")]
    mod from_scalax {}
    #[doc = include_str!("../../../docs/from-haliax.md")]
    mod from_haliax {}
    #[doc = include_str!("../../../docs/from-swiftir.md")]
    mod from_swiftir {}
    #[doc = include_str!("../../../docs/from-mpi.md")]
    mod from_mpi {}
    #[doc = include_str!("../../../docs/processes.md")]
    mod processes {}
    #[doc = include_str!("../../../docs/ranks.md")]
    mod ranks {}
}
