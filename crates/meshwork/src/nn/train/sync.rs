//! What a gradient needs before it can be used: derived from what is split over which axis.
//!
//! The gradient of a weight is a sum over the examples of the batch. Where a mesh axis splits the batch, each device
//! has the sum over its own examples, a partial sum over that axis. What follows depends on where the weight lives:
//!
//! | the axis splits | the gradient needs | and before, the weight |
//! |---|---|---|
//! | the batch only | an all-reduce over the axis | nothing |
//! | the batch and a dimension of the weight | a reduce-scatter over the axis onto that dimension | an all-gather |
//! | a dimension of the weight only | nothing: each device has all examples and its part | nothing |
//! | neither | nothing: all devices compute the same | nothing |
//!
//! The gradient of an activation is a sum over the outputs of the matrix it goes into: the same table with the axes that
//! split those (columns) in place of those that split the batch. A loss is a sum over the batch.
//!
//! Sums or means: the gradient of a global loss, as in every program of this crate, is summed, whatever the loss is: a
//! mean over the batch has its division inside. Only if each device takes the mean of its own part is the reduction a
//! mean.

use std::fmt;

use meshwork_mesh::Mesh;

use super::Role;
use crate::error::{Error, Result};
use crate::spec::{MESH, P};

/// One collective that a value needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sync {
    /// Sums over these axes, result everywhere.
    AllReduceSum {
        /// The axes.
        axes: Vec<String>,
    },
    /// Means over these axes, result everywhere.
    AllReduceMean {
        /// The axes.
        axes: Vec<String>,
    },
    /// Reduces over an axis and leaves each device its part of a dimension.
    ReduceScatter {
        /// The axis.
        axis: String,
        /// The dimension.
        dim: usize,
        /// Whether it is a mean.
        mean: bool,
    },
    /// Gathers the parts of a dimension.
    AllGather {
        /// The axis.
        axis: String,
        /// The dimension.
        dim: usize,
    },
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sync::AllReduceSum { axes } => write!(f, "all-reduce sum over {}", axes.join(", ")),
            Sync::AllReduceMean { axes } => write!(f, "all-reduce mean over {}", axes.join(", ")),
            Sync::ReduceScatter { axis, dim, mean } => {
                write!(f, "reduce-scatter {} over {axis} onto dimension {dim}", if *mean { "mean" } else { "sum" })
            }
            Sync::AllGather { axis, dim } => write!(f, "all-gather over {axis} of dimension {dim}"),
        }
    }
}

/// What a value and its gradient need.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SyncPattern {
    /// Before the value is used.
    pub forward: Vec<Sync>,
    /// Before its gradient is used.
    pub backward: Vec<Sync>,
}

impl fmt::Display for SyncPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[Sync]| {
            if all.is_empty() {
                "none".to_string()
            } else {
                all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
        };
        if self.forward.is_empty() {
            write!(f, "{}", list(&self.backward))
        } else {
            write!(f, "{}; before use {}", list(&self.backward), list(&self.forward))
        }
    }
}

/// Over what the loss is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Loss {
    /// The whole batch: what every program of this crate computes. Gradients are summed.
    #[default]
    Global,
    /// Each device takes the mean over its own part of the batch. Gradients are averaged.
    MeanOfEachDevice,
}

/// What else of a program the gradient of a value depends on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// The axes that split the batch, or whatever else the gradient of a weight sums over.
    pub batch: Vec<String>,
    /// The axes that split the outputs of the matrices that activations go into.
    pub columns: Vec<String>,
    /// Over what the loss is taken.
    pub loss: Loss,
}

impl Usage {
    /// The batch split over these axes, a global loss.
    pub fn batch(axes: &[&str]) -> Usage {
        Usage { batch: axes.iter().map(ToString::to_string).collect(), ..Usage::default() }
    }

    /// And matrices' outputs over these.
    pub fn columns(mut self, axes: &[&str]) -> Usage {
        self.columns = axes.iter().map(ToString::to_string).collect();
        self
    }

    /// The mean of each device's own part.
    pub fn mean_of_each_device(mut self) -> Usage {
        self.loss = Loss::MeanOfEachDevice;
        self
    }
}

/// What a value placed like `spec` and its gradient need, on `mesh`, used as `usage` says.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::train::{Role, Usage, gradient_sync_pattern};
///
/// let mesh = Mesh::grid(("data", 2), ("model", 4))?;
/// let usage = Usage::batch(&["data"]);
/// let ask = |spec: P| gradient_sync_pattern(&mesh, &spec, 2, Role::Weight, &usage).map(|p| p.to_string());
/// assert_eq!(ask(P![])?, "all-reduce sum over data");
/// assert_eq!(ask(P::column_parallel("model"))?, "all-reduce sum over data");
/// assert_eq!(
///     ask(P!["data"])?,
///     "reduce-scatter sum over data onto dimension 0; before use all-gather over data of dimension 0"
/// );
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn gradient_sync_pattern(mesh: &Mesh, spec: &P, rank: usize, role: Role, usage: &Usage) -> Result<SyncPattern> {
    let what = || format!("{spec} for a value of rank {rank}");
    spec.sharding(MESH.into(), mesh, rank).map_err(|error| Error::Sharding { what: what(), error: error.into() })?;
    for axis in usage.batch.iter().chain(&usage.columns) {
        if mesh.axis_size(axis).is_none() {
            let has = mesh.axes().iter().map(|a| a.name.to_string()).collect();
            return Err(crate::rule::RuleError::UnknownAxis { axis: axis.clone(), has }.into());
        }
    }
    if let Some(part) = spec.dims().iter().flat_map(|d| &d.axes).find(|a| !a.is_full()) {
        return Err(Error::Invalid {
            what: "gradient_sync_pattern",
            message: format!("it works on whole axes, and {spec} has {part}"),
        });
    }
    let dim_of = |axis: &str| spec.dims().iter().position(|d| d.axes.iter().any(|a| *a.name == *axis));
    // Axes of one device neither split nor need anything.
    let real = |axis: &&String| mesh.axis_size(axis).is_some_and(|n| n > 1);
    let mean = usage.loss == Loss::MeanOfEachDevice;
    let reduce = |axes: Vec<String>, mean: bool| match (axes.is_empty(), mean) {
        (true, _) => None,
        (false, true) => Some(Sync::AllReduceMean { axes }),
        (false, false) => Some(Sync::AllReduceSum { axes }),
    };
    let mut out = SyncPattern::default();
    // Over these axes the gradient is a partial sum.
    let (partial, mean) = match role {
        Role::Weight => (&usage.batch, mean),
        Role::Activation => (&usage.columns, false),
        Role::Loss => {
            out.forward.extend(reduce(usage.batch.iter().filter(real).cloned().collect(), mean));
            return Ok(out);
        }
    };
    let mut whole = vec![];
    for axis in partial.iter().filter(real) {
        match dim_of(axis) {
            None => whole.push(axis.clone()),
            Some(dim) => {
                out.forward.push(Sync::AllGather { axis: axis.clone(), dim });
                out.backward.push(Sync::ReduceScatter { axis: axis.clone(), dim, mean });
            }
        }
    }
    out.backward.extend(reduce(whole, mean));
    Ok(out)
}
