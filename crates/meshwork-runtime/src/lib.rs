//! What every engine needs: the one [`Array`], device buffers, the seam between programs and engines ([`Engine`],
//! [`Executable`]), and the processes that run a program together.
//!
//! ```
//! use meshwork_ir::text;
//! use meshwork_partition::{CompileOptions, compile};
//! use meshwork_runtime::{Array, Engine, Evaluator};
//!
//! let module = text::parse("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
//!   %y = stablehlo.add %x, %x : tensor<3xf32>
//!   return %y : tensor<3xf32>
//! }")?;
//! let program = Evaluator.load(&compile(&module, &CompileOptions::default())?)?;
//! let results = program.run(vec![Array::from([1.0f32, 2.0, 3.0])])?;
//! assert_eq!(results[0].to_vec::<f32>()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(missing_docs)]

pub mod array;
pub mod border;
pub mod boxes;
pub mod device;
pub mod element;
pub mod engine;
pub mod error;
pub mod evaluator;
pub mod memory;
pub mod number;
pub mod profile;
pub mod shape;
pub mod stream;
pub mod transport;

pub use array::{Array, Placement, Shard, Shards};
pub use boxes::{BoxCopy, Region};
pub use device::DeviceBuffer;
pub use element::Element;
pub use engine::{Engine, Executable, Fallback, MemoryUse};
pub use error::{ArrayError, LoadError, RunError, SourceLine};
pub use evaluator::Evaluator;
pub use memory::Buffer;
pub use number::Number;
pub use profile::Profile;
pub use shape::{Int, Shape};
pub use transport::collectives::Scan;
pub use transport::communicator::{Communicator, Receiving, Sending};
pub use transport::runtime::{ProcessError, ReduceOp, Runtime};
