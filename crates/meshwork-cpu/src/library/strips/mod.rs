//! A group of steps that is run strip by strip, in memory of the thread that runs it.
//!
//! What is recognised and why is in `compile/strips/README.md`. Here a group is numbers: where the parts of its operands are,
//! which steps to run on them, and where the results go.
//!
//! | file | what it is |
//! |---|---|
//! | `tile` | the steps for one strip and where their buffers are in the thread's memory |
//! | `work` | the walk over stacks and strips |
//! | `sum` | sums of strips, added up and rounded |

mod sum;
mod tile;
mod work;

pub(crate) use sum::SumChunks;
pub(crate) use tile::{Home, Tile};
pub(crate) use work::{Ending, Input, MAX_AXES, StripWork, Target};
