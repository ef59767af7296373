//! Operations that make values from nothing.

op_class! {
    /// Constants, indices, device numbers and random numbers.
    Source SourceOp
    Constant "stablehlo.constant" [Pure] {"value"}: Own(Constant);
    Iota "stablehlo.iota" [Pure] {"iota_dimension"}: Source(&[key("dim", "iota_dimension", I64)]);
    PartitionId "stablehlo.partition_id" [Pure] {}: Source(&[]);
    ReplicaId "stablehlo.replica_id" [Pure] {}: Source(&[]);
    Rng "stablehlo.rng" [] {"rng_distribution"}:
        Functional(Exactly(3), &[key("distribution", "rng_distribution", Enum("rng_distribution"))]);
    RngBitGenerator "stablehlo.rng_bit_generator" [Pure] {"rng_algorithm"}:
        Functional(Exactly(1), &[key("algorithm", "rng_algorithm", Enum("rng_algorithm"))]);
}
