//! The operations of the `sdy` dialect.

op_class! {
    /// Placements, and collectives in terms of mesh axes.
    Sdy SdyOp
    AllGather "sdy.all_gather" [] {"gathering_axes" "out_sharding"}: Axes("gathering_axes", PerDim);
    AllReduce "sdy.all_reduce" [] {"reduction_axes" "reduction_op" "out_sharding"}: Axes("reduction_axes", List);
    AllSlice "sdy.all_slice" [] {"slicing_axes" "out_sharding"}: Axes("slicing_axes", PerDim);
    AllToAll "sdy.all_to_all" [] {"params" "out_sharding"}: Axes("params", Moves);
    CollectivePermute "sdy.collective_permute" [] {"out_sharding"}: Placed(OUT_SHARDING);
    Constant "sdy.constant" [Pure] {"value"}: Own(Constant);
    DataFlowEdge "sdy.data_flow_edge" [] {"sharding"}: Placed(&[optional("sharding", "sharding", Sharding)]);
    FuncDataFlowEdge "sdy.func_data_flow_edge" [] {}: Placed(&[]);
    ManualComputation "sdy.manual_computation" [Isolated] {"in_shardings" "out_shardings" "manual_axes"}:
        Own(ManualComputation);
    Mesh "sdy.mesh" [Symbol] {"sym_name" "mesh"}: Own(Mesh);
    NamedComputation "sdy.named_computation" [Isolated] {"name" "in_shardings" "out_shardings"}: Own(NamedComputation);
    PropagationBarrier "sdy.propagation_barrier" [Pure] {"allowed_direction"}:
        Placed(&[key("allowed_direction", "allowed_direction", SdyEnum("propagation_direction"))]);
    ReduceScatter "sdy.reduce_scatter" [] {"reduce_scatter_axes" "reduction_op" "out_sharding"}:
        Axes("reduce_scatter_axes", PerDim);
    ReplicatedToUnreduced "sdy.replicated_to_unreduced" [] {"axes" "out_sharding"}: Axes("axes", List);
    Reshard "sdy.reshard" [Pure] {"sharding"}: Own(Reshard);
    Return "sdy.return" [Terminator] {}: Own(Return);
    ShardedToUnreduced "sdy.sharded_to_unreduced" [] {"axes" "out_sharding"}: Axes("axes", PerDim);
    ShardingConstraint "sdy.sharding_constraint" [] {"sharding"}: Own(Reshard);
    ShardingGroup "sdy.sharding_group" [] {"group_id"}: Placed(&[key("group_id", "group_id", I64)]);
}

impl SdyOp {
    /// Moves or combines data between devices; its `out_sharding` is the placement of the result.
    pub fn is_collective(self) -> bool {
        self.info().attrs.contains(&"out_sharding")
    }
}
