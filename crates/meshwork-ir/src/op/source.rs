//! Operations that make values from nothing.

op_class! {
    /// Constants, indices, device numbers and random numbers.
    Source SourceOp
    Constant "stablehlo.constant" [Pure] {"value"}
    Iota "stablehlo.iota" [Pure] {"iota_dimension"}
    PartitionId "stablehlo.partition_id" [Pure] {}
    ReplicaId "stablehlo.replica_id" [Pure] {}
    Rng "stablehlo.rng" [] {"rng_distribution"}
    RngBitGenerator "stablehlo.rng_bit_generator" [Pure] {"rng_algorithm"}
}
