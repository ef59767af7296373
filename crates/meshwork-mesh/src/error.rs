//! The errors of this crate: invalid meshes and shardings.
//!
//! If Shardy has a diagnostic for the same mistake, the message starts with Shardy's wording, so that tools and tests
//! that look for it find it. The text after the semicolon says what to do.

use std::sync::Arc;

use thiserror::Error;

use crate::axis::AxisRef;
use crate::text::SymbolName;

/// Why a mesh is not valid.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum MeshError {
    /// An axis has no name.
    #[error("axis {index} of the mesh has an empty name; shardings refer to axes by name")]
    EmptyName {
        /// Position of the axis.
        index: usize,
    },
    /// An axis has a size below 1.
    #[error("axis size must be at least 1, got: {size}; axis \"{axis}\"")]
    AxisSize {
        /// Name of the axis.
        axis: Arc<str>,
        /// Its size.
        size: i64,
    },
    /// Two axes have the same name.
    #[error("duplicate axis name: \"{axis}\"; each axis of a mesh needs its own name")]
    DuplicateAxis {
        /// The repeated name.
        axis: Arc<str>,
    },
    /// Two sizes were left open.
    #[error("sizes of both \"{first}\" and \"{second}\" are left open; only one can be inferred from the device count")]
    TwoInferred {
        /// The first open axis.
        first: Arc<str>,
        /// The second open axis.
        second: Arc<str>,
    },
    /// No integer fits the open size.
    #[error(
        "size of axis \"{axis}\" cannot be inferred: {device_count} devices are not a positive multiple of {product}, the product of the other sizes"
    )]
    NotDivisible {
        /// The open axis.
        axis: Arc<str>,
        /// Product of the given sizes.
        product: i64,
        /// Number of devices.
        device_count: i64,
    },
    /// The sizes do not multiply to the device count.
    #[error(
        "the axis sizes multiply to {product} but there are {device_count} devices; leave one size open to infer it"
    )]
    CountMismatch {
        /// Product of the sizes.
        product: i64,
        /// Number of devices.
        device_count: i64,
    },
    /// The axes do not fit the physical topology.
    #[error("mesh axes of sizes {sizes:?} cannot be laid along the physical axes {dims:?}{hint}")]
    Topology {
        /// Sizes of the mesh axes.
        sizes: Vec<i64>,
        /// Extents of the physical grid.
        dims: Vec<i64>,
        /// What to try.
        hint: &'static str,
    },
    /// An invalid physical grid.
    #[error(
        "invalid physical grid {dims:?}; every extent must be at least 1, and their product must be less than 2^63"
    )]
    Grid {
        /// Its extents.
        dims: Vec<i64>,
    },
    /// Blocks of hosts that do not tile the grid.
    #[error("hosts with blocks of {block:?} devices do not tile a grid of {dims:?}")]
    Hosts {
        /// Extents of a host's block.
        block: Vec<i64>,
        /// Extents of the grid.
        dims: Vec<i64>,
    },
    /// The product of the sizes overflows.
    #[error("the sizes of the {axes} mesh axes multiply to more than 2^63-1 devices")]
    TooManyDevices {
        /// Number of axes.
        axes: usize,
    },
    /// A device id is below 0.
    #[error("device id must be non-negative, got: {id}")]
    NegativeDeviceId {
        /// The id.
        id: i64,
    },
    /// Several device ids but no axes.
    #[error("axes is empty and device_ids has more than one element; {count} ids need axes that multiply to {count}")]
    IdsWithoutAxes {
        /// Number of ids.
        count: usize,
    },
    /// The number of ids differs from the number of devices.
    #[error("total product of axis sizes must match total number of device ids, got: {product} != {count}")]
    IdCount {
        /// Product of the sizes.
        product: i64,
        /// Number of ids.
        count: usize,
    },
    /// The ids are not each of `0..n` once.
    #[error("sorted device ids must be iota(product(axes)), got: {}; list each of 0..{} once", list(.sorted), .sorted.len())]
    NotAPermutation {
        /// The ids in ascending order.
        sorted: Vec<i64>,
    },
    /// The ids are `0..n` in order, which is the default.
    #[error(
        "if the ordered device ids are the same as iota(product(axes)), no need to specify them for simplicity; leave out the {count} ids"
    )]
    IdentityIds {
        /// Number of ids.
        count: usize,
    },
}

crate::debug_as_display!(MeshError);

/// Why a sharding does not fit its mesh or its tensor.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum ShardingError {
    /// The mesh itself is not valid.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// The mesh symbol is not defined.
    #[error("unknown mesh: {}; define it with sdy.mesh", SymbolName(.name))]
    UnknownMesh {
        /// The symbol.
        name: Arc<str>,
    },
    /// A sharding on a maximal mesh has dimensions or axes.
    #[error(
        "a maximal sharding can only have a sharding with rank 0 and no replicated or unreduced axes; got {sharding}"
    )]
    Maximal {
        /// The sharding in text form.
        sharding: String,
    },
    /// A token or other value without a shape has a sharding with dimensions or axes.
    #[error(
        "non-shaped tensors can only have a sharding with rank 0 and no replicated or unreduced axes. type: {ty}, sharding: #sdy.sharding{sharding}"
    )]
    NonShaped {
        /// The type in text form.
        ty: String,
        /// The sharding in text form.
        sharding: String,
    },
    /// The ranks differ.
    #[error("sharding doesn't match tensor rank: {sharding} != {tensor}; write one {{...}} per dimension")]
    Rank {
        /// Rank of the sharding.
        sharding: usize,
        /// Rank of the tensor.
        tensor: usize,
    },
    /// A priority is below 0.
    #[error("dim {dim} has a negative priority; got {priority}, 0 is the highest")]
    NegativePriority {
        /// The dimension.
        dim: usize,
        /// The priority.
        priority: i64,
    },
    /// A priority on a closed dimension without axes.
    #[error("dim {dim} is empty and closed but has a priority; drop p{priority}, or open the dimension with {{?}}")]
    PriorityOnEmptyClosed {
        /// The dimension.
        dim: usize,
        /// The priority.
        priority: i64,
    },
    /// An axis is not in the mesh.
    #[error("unknown axis name: \"{axis}\"; the mesh is {mesh}")]
    UnknownAxis {
        /// The name.
        axis: Arc<str>,
        /// The mesh in text form, without device ids.
        mesh: String,
    },
    /// An axis is used twice.
    #[error("duplicate axis ref: {axis}; an axis can be used once in a sharding")]
    DuplicateAxis {
        /// The axis.
        axis: AxisRef,
    },
    /// Adjacent sub-axes should be written as one.
    #[error("two consecutive sub-axes can be merged: {first}, {second}; write their product")]
    Mergeable {
        /// The major sub-axis.
        first: AxisRef,
        /// The minor sub-axis.
        second: AxisRef,
    },
    /// A set of axes is not in mesh order.
    #[error("{list} axes are not ordered w.r.t. mesh; the mesh is {mesh}")]
    NotSorted {
        /// Which list.
        list: &'static str,
        /// The mesh in text form, without device ids.
        mesh: String,
    },
    /// A full axis and a part of it.
    #[error("both sub-axis and full-axis are used for axis name: \"{axis}\"; split the full axis into sub-axes")]
    FullAndSub {
        /// The name.
        axis: Arc<str>,
    },
    /// A pre-size below 1.
    #[error("sub-axis pre-size must be at least 1: {axis}")]
    PreSize {
        /// The sub-axis.
        axis: AxisRef,
    },
    /// A sub-axis size below 2.
    #[error("sub-axis sizes must be greater than 1: {axis}")]
    SubAxisSize {
        /// The sub-axis.
        axis: AxisRef,
    },
    /// A sub-axis that does not tile its axis.
    #[error(
        "sub-axis next pre-size {next} doesn't divide the size of the full axis {size}: {axis}; (pre-size)size must multiply to a divisor of {size}"
    )]
    NextPreSize {
        /// The sub-axis.
        axis: AxisRef,
        /// Pre-size times size.
        next: i64,
        /// Size of the full axis.
        size: i64,
    },
    /// A sub-axis that is the full axis.
    #[error("sub-axis size is equal to the full axis size: {axis}; write the axis without (..)")]
    SubAxisIsFull {
        /// The sub-axis.
        axis: AxisRef,
    },
    /// Two sub-axes share devices.
    #[error("overlapping sub-axes: {first}, {second}; an axis can be used once in a sharding")]
    Overlap {
        /// The major one.
        first: AxisRef,
        /// The minor one.
        second: AxisRef,
    },
    /// Two sub-axes that belong to different factorings of their axis.
    #[error("sub-axes {first} and {second} cannot be used together: no reshape of the axis has both as dimensions")]
    CannotCoexist {
        /// The major one.
        first: AxisRef,
        /// The minor one.
        second: AxisRef,
    },
    /// A dimension is not a multiple of its number of shards.
    #[error("dim {dim} with size {size} is not divisible by its sharded size {shards}")]
    NotDivisible {
        /// The dimension.
        dim: usize,
        /// Its size.
        size: i64,
        /// Its number of shards.
        shards: i64,
    },
    /// An axis belongs to an enclosing manual computation.
    #[error("operates on axis \"{axis}\" which is already bound by a parent sdy.manual_computation op")]
    ManualAxis {
        /// The name.
        axis: Arc<str>,
    },
    /// A dimension number outside the rank.
    #[error("dimension {dim} is out of range for rank {rank}; {}", dim_hint(.rank))]
    DimOutOfRange {
        /// The dimension as given.
        dim: i64,
        /// The rank.
        rank: usize,
    },
    /// A dimension was given axes twice.
    #[error("dimension {dim} is given twice; list all of its axes in one entry")]
    RepeatedDim {
        /// The dimension as given.
        dim: i64,
    },
    /// A device that the mesh does not have.
    #[error("device {device} is not in the mesh {mesh}")]
    UnknownDevice {
        /// The device.
        device: i64,
        /// The mesh in text form, without device ids.
        mesh: String,
    },
}

crate::debug_as_display!(ShardingError);

fn dim_hint(rank: &usize) -> String {
    match rank {
        0 => "a scalar has no dimensions".to_owned(),
        rank => format!("use -{rank}..{rank}"),
    }
}

fn list(ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    ids.join(", ")
}
