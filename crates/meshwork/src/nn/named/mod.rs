//! Named axes: tensors whose dimensions have names, and mappings from those names to mesh axes.
//!
//! A model is written in terms of `batch`, `embed`, `heads`; how it is split is one [`Mapping`], outside the model.
//!
//! | | |
//! |---|---|
//! | [`Axis`], [`NamedTensor`] | a dimension with a name; a tensor made of them |
//! | [`dot`], [`NamedTensor::sum`], [`NamedTensor::take`], [`vmap_axis`], … | operations by name |
//! | `&x + &y`, `-&x`, [`NamedTensor::gt`], [`NamedTensor::exp`], [`choose`], … | operations of elements; tensors with different axes broadcast |
//! | [`NamedTensor::slice`], [`concatenate`], [`stack`], [`NamedTensor::argmax`], [`NamedTensor::sort`], … | parts and orders along an axis |
//! | [`Mapping`] | which mesh axes split which name, in order of preference |
//! | [`axis_mapping`], [`merged_axis_mapping`], [`on_mesh`] | a mapping or a mesh for everything inside a scope |
//! | [`shard`](shard()), [`sharded`], [`auto_sharded`] | places a value or a tree by the names of axes, inside and outside programs |
//! | [`named_jit`], [`fsdp`] | functions with mappings for arguments, results and the body |
//! | [`physical_axis_name`], [`physical_axis_size`], [`round_axis_for_partitioning`], [`sharding_for_axis`] | questions |
//!
//! ```
//! use meshwork::named::{Axis, Mapping, NamedTensor, dot, named_jit};
//! use meshwork::prelude::*;
//!
//! let (batch, embed, out) = (Axis::new("batch", 8), Axis::new("embed", 4), Axis::new("out", 6));
//! let model = |(x, w): (NamedTensor, NamedTensor)| dot(&[&x, &w], &["embed"]).apply(|t| t.relu());
//! let x = NamedTensor::host(Array::full([8, 4], 1.0f32), [&batch, &embed])?;
//! let w = NamedTensor::host(Array::full([4, 6], 0.5f32), [&embed, &out])?;
//!
//! let mesh = Mesh::grid(("data", 2), ("model", 2))?;
//! let split = named_jit(&mesh, model).mapping(Mapping::new([("batch", "data"), ("out", "model")]));
//! let y = split.call(&(x, w))?;
//! assert_eq!(y.axes().iter().map(Axis::name).collect::<Vec<_>>(), ["batch", "out"]);
//! assert_eq!(y.array().shards()[3].slice, [4..8, 3..6]);
//! assert_eq!(y.array().to_vec::<f32>()?, [2.0; 48]);
//! # Ok::<(), meshwork::Error>(())
//! ```

mod axis;
mod elementwise;
mod jit;
mod mapping;
mod ops;
mod parts;
mod reduce;
mod scope;
mod shard;
mod tensor;

pub use axis::Axis;
pub use elementwise::{NamedOperand, choose};
pub use jit::{NamedJit, fsdp, named_jit};
pub use mapping::{
    Mapping, MappingError, physical_axis_name, physical_axis_size, round_axis_for_partitioning, sharding_for_axis,
};
pub use ops::{dot, vmap_axis};
pub use parts::{concatenate, stack};
pub use scope::{axis_mapping, current_mapping, current_mesh, merged_axis_mapping, on_mesh, shard_named};
pub use shard::{Inside, Outside, Shardable, auto_sharded, shard, sharded};
pub use tensor::NamedTensor;
