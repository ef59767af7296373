//! The operations of the `sdy` dialect.

op_class! {
    /// Placements, and collectives in terms of mesh axes.
    Sdy SdyOp
    AllGather "sdy.all_gather" [] {"gathering_axes" "out_sharding"}
    AllReduce "sdy.all_reduce" [] {"reduction_axes" "reduction_op" "out_sharding"}
    AllSlice "sdy.all_slice" [] {"slicing_axes" "out_sharding"}
    AllToAll "sdy.all_to_all" [] {"params" "out_sharding"}
    CollectivePermute "sdy.collective_permute" [] {"out_sharding"}
    Constant "sdy.constant" [Pure] {"value"}
    DataFlowEdge "sdy.data_flow_edge" [] {"sharding"}
    FuncDataFlowEdge "sdy.func_data_flow_edge" [] {}
    ManualComputation "sdy.manual_computation" [] {"in_shardings" "out_shardings" "manual_axes"}
    Mesh "sdy.mesh" [Symbol] {"sym_name" "mesh"}
    NamedComputation "sdy.named_computation" [] {"name" "in_shardings" "out_shardings"}
    PropagationBarrier "sdy.propagation_barrier" [Pure] {"allowed_direction"}
    ReduceScatter "sdy.reduce_scatter" [] {"reduce_scatter_axes" "reduction_op" "out_sharding"}
    ReplicatedToUnreduced "sdy.replicated_to_unreduced" [] {"axes" "out_sharding"}
    Reshard "sdy.reshard" [Pure] {"sharding"}
    Return "sdy.return" [Terminator] {}
    ShardedToUnreduced "sdy.sharded_to_unreduced" [] {"axes" "out_sharding"}
    ShardingConstraint "sdy.sharding_constraint" [] {"sharding"}
    ShardingGroup "sdy.sharding_group" [] {"group_id"}
}
