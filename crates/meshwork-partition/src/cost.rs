//! Predictions: how long a collective takes on a link, and how much a device computes.
//!
//! A link has a latency α and a bandwidth β. A collective over a group of g devices goes round a ring: an all-reduce
//! takes 2(g-1) steps, all-gather, reduce-scatter and all-to-all g-1, a permute one. Its time is steps·α + bytes/β,
//! bytes being what one device sends. Over several axes the slowest of their links counts.

use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind};
use meshwork_mesh::{AxisRef, Mesh};

use crate::collective::{CollectiveKind, Peers};
use crate::plan::PlannedCollective;
use crate::split::flow::trip_count;

/// A link between neighbours along a mesh axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Microseconds until the first byte arrives.
    pub latency_us: f64,
    /// Bytes per second and direction, in units of 10⁹.
    pub gigabytes_per_second: f64,
}

impl Default for Link {
    /// One microsecond and 50 GB/s: about what one link between accelerators of a node gives.
    fn default() -> Self {
        Link { latency_us: 1.0, gigabytes_per_second: 50.0 }
    }
}

/// The links of a mesh.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Links {
    /// Of every axis that is not named.
    pub default: Link,
    /// Of these axes.
    pub by_axis: Vec<(String, Link)>,
}

impl Links {
    /// The link of an axis.
    pub fn of(&self, axis: &AxisRef) -> Link {
        self.by_axis.iter().find(|(name, _)| **name == *axis.name).map_or(self.default, |(_, link)| *link)
    }

    /// The predicted seconds of one run of `planned` on `mesh`.
    pub fn seconds(&self, planned: &PlannedCollective, mesh: &Mesh) -> f64 {
        let c = &planned.collective;
        let links = || planned.axes.iter().map(|a| self.of(a));
        let latency = links().map(|l| l.latency_us).fold(0.0, f64::max);
        let speed = links().map(|l| l.gigabytes_per_second).fold(f64::INFINITY, f64::min);
        let (latency, speed) = match planned.axes.is_empty() {
            true => (self.default.latency_us, self.default.gigabytes_per_second),
            false => (latency, speed),
        };
        let group: i64 = match c.peers {
            Peers::Given { group, .. } => group,
            Peers::Group(_) | Peers::Line { .. } | Peers::Relabel(_) | Peers::Devices(_) => {
                planned.axes.iter().map(|a| a.size(mesh)).product()
            }
        };
        let (steps, bytes) = match c.kind {
            CollectiveKind::AllReduce(_) => (2 * (group - 1), c.wire_bytes),
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter(_) | CollectiveKind::AllToAll => {
                (group - 1, c.wire_bytes)
            }
            // Every sender sends its whole operand, however few they are.
            CollectiveKind::Permute => (1, c.operand_bytes as f64),
        };
        steps.max(0) as f64 * latency * 1e-6 + bytes / (speed * 1e9)
    }
}

/// Arithmetic operations of function `func`, loops multiplied where their trip count is known.
///
/// Products and convolutions count a multiplication and an addition for each pair they contract; operations that work
/// element by element count one for each element of the result, reductions one for each element they take in.
pub fn flops(module: &Module, func: OpId) -> f64 {
    module.body_of(func, 0).map_or(0.0, |body| block_flops(module, body))
}

fn block_flops(module: &Module, block: BlockId) -> f64 {
    module.ops_in(block).map(|op| op_flops(module, op)).sum()
}

fn op_flops(module: &Module, op: OpId) -> f64 {
    let data = module.op(op);
    let elements = |list: &[meshwork_ir::ValueId], i: usize| {
        list.get(i).and_then(|&v| module.ty(v).as_tensor()?.num_elements()).unwrap_or(0) as f64
    };
    let result = elements(data.results(), 0);
    let operand = elements(data.operands(), 0);
    let body = |region: usize| module.body_of(op, region).map_or(0.0, |b| block_flops(module, b));
    let window = || data.i64s("window_dimensions").unwrap_or_default().iter().product::<i64>() as f64;
    match data.kind() {
        kind if kind.is_elementwise() => result,
        OpKind::DotGeneral | OpKind::Dot => 2.0 * result * contracted(module, op),
        OpKind::Convolution => 2.0 * result * kernel_per_result(module, op),
        OpKind::Reduce => data.operands().iter().take(data.results().len()).map(|_| operand).sum(),
        OpKind::ReduceWindow => result * window(),
        OpKind::SelectAndScatter => operand + elements(data.operands(), 1) * window(),
        OpKind::Scatter => elements(data.operands(), data.operands().len().saturating_sub(1)),
        OpKind::Map => result * body(0),
        OpKind::While => trip_count(module, op).unwrap_or(1) as f64 * (body(0) + body(1)),
        // Every branch may be the one that runs.
        OpKind::Case | OpKind::If => (0..data.regions().len()).map(body).fold(0.0, f64::max),
        OpKind::AllReduce | OpKind::ReduceScatter => {
            (0..data.operands().len()).map(|i| elements(data.operands(), i)).sum()
        }
        // Moving data and choosing it are not counted, nor what is not spelled out.
        _ => 0.0,
    }
}

/// Extent of what a product sums over.
fn contracted(module: &Module, op: OpId) -> f64 {
    let data = module.op(op);
    let lhs = module.ty(data.operands()[0]).dims();
    match data.attr("dot_dimension_numbers") {
        Some(Attr::Dot(dims)) => {
            dims.lhs_contract.iter().map(|&d| lhs.get(d as usize).copied().unwrap_or(1)).product::<i64>() as f64
        }
        _ => lhs.last().copied().unwrap_or(1) as f64,
    }
}

/// Elements of the kernel that go into one element of the result.
fn kernel_per_result(module: &Module, op: OpId) -> f64 {
    let data = module.op(op);
    let kernel = module.ty(data.operands()[1]).dims();
    let Some(Attr::Conv(dims)) = data.attr("dimension_numbers") else { return 0.0 };
    let used = dims.kernel_spatial.iter().chain([&dims.kernel_input_feature]);
    used.map(|&d| kernel.get(d as usize).copied().unwrap_or(1)).product::<i64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flops_of(text: &str) -> f64 {
        let module = meshwork_ir::text::parse(text).unwrap();
        flops(&module, module.entry().unwrap())
    }

    #[test]
    fn products_convolutions_and_loops() {
        let dot = "func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) -> tensor<4x16xf32> {
          %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
            : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
          %1 = stablehlo.tanh %0 : tensor<4x16xf32>
          return %1 : tensor<4x16xf32> }";
        assert_eq!(flops_of(dot), 2.0 * 4.0 * 8.0 * 16.0 + 64.0);
        let conv = "func.func @main(%a: tensor<1x8x8x3xf32>, %b: tensor<3x3x3x5xf32>) -> tensor<1x6x6x5xf32> {
          %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
            window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<1x8x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<1x6x6x5xf32>
          return %0 : tensor<1x6x6x5xf32> }";
        assert_eq!(flops_of(conv), 2.0 * 180.0 * 27.0);
    }
}
