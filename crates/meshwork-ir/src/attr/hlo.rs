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

/// A field of a structured attribute.
pub(crate) enum Field<'d> {
    /// A number, 0 if it is left out.
    Int(&'d mut i64),
    /// A list, empty if it is left out.
    Ints(&'d mut Vec<i64>),
}

/// A structured attribute as `<name = value, ...>`, which the parser reads and the printer writes.
pub(crate) trait Fields: Clone + Default {
    /// The fields under their names in MLIR, in the order in which they are printed.
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)>;
}

impl Fields for DotDims {
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("lhs_batching_dimensions", Field::Ints(&mut self.lhs_batch)),
            ("rhs_batching_dimensions", Field::Ints(&mut self.rhs_batch)),
            ("lhs_contracting_dimensions", Field::Ints(&mut self.lhs_contract)),
            ("rhs_contracting_dimensions", Field::Ints(&mut self.rhs_contract)),
        ]
    }
}

impl Fields for ConvDims {
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("input_batch_dimension", Field::Int(&mut self.input_batch)),
            ("input_feature_dimension", Field::Int(&mut self.input_feature)),
            ("input_spatial_dimensions", Field::Ints(&mut self.input_spatial)),
            ("kernel_input_feature_dimension", Field::Int(&mut self.kernel_input_feature)),
            ("kernel_output_feature_dimension", Field::Int(&mut self.kernel_output_feature)),
            ("kernel_spatial_dimensions", Field::Ints(&mut self.kernel_spatial)),
            ("output_batch_dimension", Field::Int(&mut self.output_batch)),
            ("output_feature_dimension", Field::Int(&mut self.output_feature)),
            ("output_spatial_dimensions", Field::Ints(&mut self.output_spatial)),
        ]
    }
}

impl Fields for GatherDims {
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("offset_dims", Field::Ints(&mut self.offset_dims)),
            ("collapsed_slice_dims", Field::Ints(&mut self.collapsed_slice_dims)),
            ("operand_batching_dims", Field::Ints(&mut self.operand_batching_dims)),
            ("start_indices_batching_dims", Field::Ints(&mut self.start_indices_batching_dims)),
            ("start_index_map", Field::Ints(&mut self.start_index_map)),
            ("index_vector_dim", Field::Int(&mut self.index_vector_dim)),
        ]
    }
}

impl Fields for ScatterDims {
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![
            ("update_window_dims", Field::Ints(&mut self.update_window_dims)),
            ("inserted_window_dims", Field::Ints(&mut self.inserted_window_dims)),
            ("input_batching_dims", Field::Ints(&mut self.input_batching_dims)),
            ("scatter_indices_batching_dims", Field::Ints(&mut self.scatter_indices_batching_dims)),
            ("scatter_dims_to_operand_dims", Field::Ints(&mut self.scatter_dims_to_operand_dims)),
            ("index_vector_dim", Field::Int(&mut self.index_vector_dim)),
        ]
    }
}

impl Fields for ChannelHandle {
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        vec![("handle", Field::Int(&mut self.handle)), ("type", Field::Int(&mut self.channel_type))]
    }
}
