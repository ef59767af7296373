//! StableHLO's structured attributes: dimension numbers and channel handles.

/// `#stablehlo.dot<...>`: which dimensions of a product are batch and which are contracted.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct DotDims {
    /// Batch dimensions of the left operand.
    pub lhs_batch: Vec<i64>,
    /// Batch dimensions of the right operand, paired with `lhs_batch`.
    pub rhs_batch: Vec<i64>,
    /// Contracted dimensions of the left operand.
    pub lhs_contract: Vec<i64>,
    /// Contracted dimensions of the right operand, paired with `lhs_contract`.
    pub rhs_contract: Vec<i64>,
}

/// `#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ConvDims {
    /// Batch dimension of the input.
    pub input_batch: i64,
    /// Feature dimension of the input.
    pub input_feature: i64,
    /// Spatial dimensions of the input.
    pub input_spatial: Vec<i64>,
    /// Input-feature dimension of the kernel.
    pub kernel_input_feature: i64,
    /// Output-feature dimension of the kernel.
    pub kernel_output_feature: i64,
    /// Spatial dimensions of the kernel.
    pub kernel_spatial: Vec<i64>,
    /// Batch dimension of the result.
    pub output_batch: i64,
    /// Feature dimension of the result.
    pub output_feature: i64,
    /// Spatial dimensions of the result.
    pub output_spatial: Vec<i64>,
}

/// `#stablehlo.gather<...>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct GatherDims {
    /// Result dimensions that run over the slice.
    pub offset_dims: Vec<i64>,
    /// Slice dimensions of extent one that are dropped from the result.
    pub collapsed_slice_dims: Vec<i64>,
    /// Batching dimensions of the operand.
    pub operand_batching_dims: Vec<i64>,
    /// Batching dimensions of the indices, paired with `operand_batching_dims`.
    pub start_indices_batching_dims: Vec<i64>,
    /// Operand dimension of each index component.
    pub start_index_map: Vec<i64>,
    /// Dimension of the indices that holds the components.
    pub index_vector_dim: i64,
}

/// `#stablehlo.scatter<...>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ScatterDims {
    /// Update dimensions that run over the window.
    pub update_window_dims: Vec<i64>,
    /// Window dimensions of extent one that updates leave out.
    pub inserted_window_dims: Vec<i64>,
    /// Batching dimensions of the input.
    pub input_batching_dims: Vec<i64>,
    /// Batching dimensions of the indices, paired with `input_batching_dims`.
    pub scatter_indices_batching_dims: Vec<i64>,
    /// Input dimension of each index component.
    pub scatter_dims_to_operand_dims: Vec<i64>,
    /// Dimension of the indices that holds the components.
    pub index_vector_dim: i64,
}

/// `#stablehlo.channel_handle<handle = 1, type = 1>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ChannelHandle {
    /// Which channel; 0 or less means none.
    pub handle: i64,
    /// StableHLO's channel type: 0 or 1 device to device, 2 device to host, 3 host to device.
    pub channel_type: i64,
}
