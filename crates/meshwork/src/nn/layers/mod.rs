//! Layers: plain structs of parameters with a function that makes them and one that applies them.
//!
//! Each is a tree, so a model is a struct of layers that derives [`Tree`](crate::Tree). Nothing is registered anywhere: a layer that does not
//! fit is copied and changed. They are made as Flax makes them, from keys, inside a program, and so already split:
//!
//! ```
//! use meshwork::layers::{LayerNorm, Linear};
//! use meshwork::prelude::*;
//!
//! #[derive(Clone, Debug, Tree)]
//! struct Mlp<T = Tensor> {
//!     up: Linear<T>,
//!     norm: LayerNorm<T>,
//!     down: Linear<T>,
//! }
//!
//! impl Mlp {
//!     fn init(key: &Key) -> Mlp {
//!         let keys = key.split(2);
//!         Mlp { up: Linear::init(&keys[0], 4, 16), norm: LayerNorm::init(16), down: Linear::init(&keys[1], 16, 2) }
//!     }
//!
//!     fn apply(&self, x: &Tensor) -> Tensor {
//!         self.down.apply(&self.norm.apply(&self.up.apply(x)).relu())
//!     }
//! }
//!
//! let model = jit(|_: ()| Mlp::init(&Key::new(0))).call(&())?;
//! let y = jit(|model: Mlp, x: Tensor| model.apply(&x)).call((&model, &Array::full([3, 4], 1.0f32)))?;
//! assert_eq!(y.shape(), [3, 2]);
//! # Ok::<(), meshwork::Error>(())
//! ```

mod attention;
mod conv;
mod dense;
pub mod init;
mod norm;
mod recurrent;

pub use attention::{Attention, KvCache};
pub use conv::ConvLayer;
pub use dense::{Embedding, Linear};
pub use norm::{BatchNorm, BatchStats, GroupNorm, LayerNorm, RmsNorm};
pub use recurrent::{Lstm, LstmState};
