//! How much a device computes.

use meshwork_ir::op::{BodyOp, ChloOp, CollectiveOp, ContractOp, ControlOp, LinalgOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind};

use crate::split::flow::trip_count;

/// Arithmetic operations of function `func`, loops multiplied where their trip count is known.
///
/// Products and convolutions count a multiplication and an addition for each pair they contract; operations that work
/// element by element count one for each element of the result, reductions one for each element they take in. Sorting
/// n elements counts n·log n, a transform 5·n·log n, a Cholesky factorization n³/3, a triangular solve n² for each column.
pub fn flops(module: &Module, func: OpId) -> f64 {
    module.body_of(func, 0).map_or(0.0, |body| block_flops(module, body))
}

/// Arithmetic operations of `block`.
pub(super) fn block_flops(module: &Module, block: BlockId) -> f64 {
    module.ops_in(block).map(|op| op_flops(module, op)).sum()
}

/// Arithmetic operations of `op`, with those of its regions.
pub fn op_flops(module: &Module, op: OpId) -> f64 {
    let data = module.op(op);
    let elements = |list: &[meshwork_ir::ValueId], i: usize| {
        list.get(i).and_then(|&v| module.ty(v).as_tensor()?.num_elements()).unwrap_or(0) as f64
    };
    let result = elements(data.results(), 0);
    let operand = elements(data.operands(), 0);
    let body = |region: usize| module.body_of(op, region).map_or(0.0, |b| block_flops(module, b));
    let window = || data.i64s("window_dimensions").unwrap_or_default().iter().product::<i64>() as f64;
    let extent = |name: &str| {
        let dim = data.int(name).unwrap_or(0).max(0) as usize;
        data.operands().first().and_then(|&v| module.ty(v).dims().get(dim).copied()).unwrap_or(1) as f64
    };
    let last = || data.operands().first().and_then(|&v| module.ty(v).dims().last().copied()).unwrap_or(1) as f64;
    match data.kind() {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => result,
        OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot) => 2.0 * result * contracted(module, op),
        OpKind::Chlo(ChloOp::RaggedDot) => 2.0 * result * last(),
        OpKind::Contract(ContractOp::Convolution) => 2.0 * result * kernel_per_result(module, op),
        OpKind::Body(BodyOp::Reduce) => data.operands().iter().take(data.results().len()).map(|_| operand).sum(),
        OpKind::Body(BodyOp::ReduceWindow) => result * window(),
        OpKind::Body(BodyOp::SelectAndScatter) => operand + elements(data.operands(), 1) * window(),
        OpKind::Body(BodyOp::Scatter) => elements(data.operands(), data.operands().len().saturating_sub(1)),
        OpKind::Body(BodyOp::Sort) => operand * extent("dimension").max(2.0).log2(),
        OpKind::Chlo(ChloOp::TopK) => operand,
        OpKind::Linalg(LinalgOp::Fft) => 5.0 * operand.max(result) * transformed(module, op).max(2.0).log2(),
        OpKind::Linalg(LinalgOp::Cholesky) => operand * last() / 3.0,
        OpKind::Linalg(LinalgOp::TriangularSolve) => result * last(),
        OpKind::Linalg(LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining | LinalgOp::BatchNormGrad) => {
            5.0 * operand
        }
        OpKind::Source(SourceOp::Rng) => result,
        OpKind::Source(SourceOp::RngBitGenerator) => elements(data.results(), 1),
        OpKind::Body(BodyOp::Map) => result * body(0),
        OpKind::Control(ControlOp::While) => trip_count(module, op).unwrap_or(1) as f64 * (body(0) + body(1)),
        OpKind::Chlo(ChloOp::Scan) => data.int("scan_dim_size").unwrap_or(1) as f64 * body(0),
        // Every branch may be the one that runs.
        OpKind::Control(ControlOp::Case | ControlOp::If) => (0..data.regions().len()).map(body).fold(0.0, f64::max),
        OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation) => body(0),
        OpKind::Collective(
            CollectiveOp::AllReduce
            | CollectiveOp::ReduceScatter
            | CollectiveOp::CollectiveReduce
            | CollectiveOp::CrossReplicaSum,
        ) => (0..data.operands().len()).map(|i| elements(data.operands(), i)).sum(),
        // What these compute is not spelled out; moving data and choosing it is not counted.
        OpKind::Contract(ContractOp::Einsum | ContractOp::UnaryEinsum)
        | OpKind::Source(SourceOp::Constant | SourceOp::Iota | SourceOp::PartitionId | SourceOp::ReplicaId)
        | OpKind::Collective(
            CollectiveOp::AllGather
            | CollectiveOp::AllToAll
            | CollectiveOp::CollectiveBroadcast
            | CollectiveOp::CollectivePermute
            | CollectiveOp::RaggedAllToAll,
        )
        | OpKind::Chlo(ChloOp::Constant | ChloOp::ConstantLike)
        | OpKind::Movement(_)
        | OpKind::Dynamic(_)
        | OpKind::Control(_)
        | OpKind::Token(_)
        | OpKind::Sdy(_)
        | OpKind::Check(_)
        | OpKind::Unregistered => 0.0,
    }
}

/// Elements of one transform.
fn transformed(module: &Module, op: OpId) -> f64 {
    module.op(op).i64s("fft_length").unwrap_or_default().iter().product::<i64>() as f64
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

    #[test]
    fn sorting_and_transforming_count_by_the_logarithm() {
        let sort = "func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
          %0 = \"stablehlo.sort\"(%a) <{dimension = 1 : i64}> ({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %1 : tensor<i1>
          }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
          return %0 : tensor<4x8xf32> }";
        assert_eq!(flops_of(sort), 32.0 * 3.0);
        let fft = "func.func @main(%a: tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>> {
          %0 = stablehlo.fft %a, type = FFT, length = [8] : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
          return %0 : tensor<4x8xcomplex<f32>> }";
        assert_eq!(flops_of(fft), 5.0 * 32.0 * 3.0);
    }
}
