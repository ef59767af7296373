//! Communication between devices.

op_class! {
    /// Collectives of the per-device program.
    Collective CollectiveOp
    AllGather "stablehlo.all_gather" []
        {"all_gather_dim" "replica_groups" "channel_handle" "use_global_device_ids"}: Generic;
    AllReduce "stablehlo.all_reduce" [] {"replica_groups" "channel_handle" "use_global_device_ids"}: Generic;
    AllToAll "stablehlo.all_to_all" []
        {"split_dimension" "concat_dimension" "split_count" "replica_groups" "channel_handle"}: Generic;
    CollectiveBroadcast "stablehlo.collective_broadcast" []
        {"replica_groups" "channel_handle" "has_dynamic_root"}: Generic;
    CollectivePermute "stablehlo.collective_permute" [] {"source_target_pairs" "channel_handle"}: Generic;
    CollectiveReduce "stablehlo.collective_reduce" []
        {"replica_groups" "channel_handle" "use_global_device_ids" "has_dynamic_root"}: Generic;
    CrossReplicaSum "stablehlo.cross-replica-sum" [] {"replica_groups"}: Generic;
    RaggedAllToAll "meshwork.ragged_all_to_all" [] {"replica_groups" "channel_handle"}: Generic;
    ReduceScatter "stablehlo.reduce_scatter" []
        {"scatter_dimension" "replica_groups" "channel_handle" "use_global_device_ids"}: Generic;
}
