//! Communication between devices.

op_class! {
    /// Collectives of the per-device program.
    Collective CollectiveOp
    AllGather "stablehlo.all_gather" []
        {"all_gather_dim" "replica_groups" "channel_handle" "use_global_device_ids"}
    AllReduce "stablehlo.all_reduce" [] {"replica_groups" "channel_handle" "use_global_device_ids"}
    AllToAll "stablehlo.all_to_all" []
        {"split_dimension" "concat_dimension" "split_count" "replica_groups" "channel_handle"}
    CollectiveBroadcast "stablehlo.collective_broadcast" []
        {"replica_groups" "channel_handle" "has_dynamic_root"}
    CollectivePermute "stablehlo.collective_permute" [] {"source_target_pairs" "channel_handle"}
    CollectiveReduce "stablehlo.collective_reduce" []
        {"replica_groups" "channel_handle" "use_global_device_ids" "has_dynamic_root"}
    CrossReplicaSum "stablehlo.cross-replica-sum" [] {"replica_groups"}
    ReduceScatter "stablehlo.reduce_scatter" []
        {"scatter_dimension" "replica_groups" "channel_handle" "use_global_device_ids"}
}
