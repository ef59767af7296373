//! What every engine needs: global [`Array`]s in shards, device buffers, profiles, and the processes that run a
//! program together.

pub mod array;
pub mod boxes;
pub mod error;
pub mod memory;
pub mod profile;
pub mod stream;
pub mod transport;

pub use array::{Array, Shards};
pub use boxes::{At, BoxCopy};
pub use error::RunError;
pub use memory::Buffer;
pub use profile::Profile;
pub use transport::runtime::{ProcessError, Reduction, Runtime};
