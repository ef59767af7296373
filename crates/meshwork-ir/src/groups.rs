//! Which devices take part in a collective together: StableHLO's process groups.

use crate::op::CollectiveOp;
use crate::{Attr, DeviceGrid, Op, OpKind};

/// What the ids in replica groups (or source-target pairs) name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Strategy {
    /// Replicas; one group per partition.
    CrossReplica,
    /// Partitions; one group per replica.
    CrossPartition,
    /// Replicas; each group holds all partitions of them.
    CrossReplicaAndPartition,
    /// Devices, numbered `replica * partitions + partition`.
    FlattenedIds,
}

/// The channel of a collective; 0 without one.
pub fn channel(op: &Op) -> i64 {
    match op.attr("channel_handle") {
        Some(Attr::Channel(c)) => c.handle,
        Some(attr) => attr.as_int().unwrap_or(0),
        None => 0,
    }
}

/// What the ids of the collective `op` name.
fn strategy(op: &Op) -> Result<Strategy, String> {
    let OpKind::Collective(kind) = op.kind() else { return Err(format!("{} is not a collective", op.name())) };
    let has_channel = channel(op) > 0;
    match kind {
        CollectiveOp::CrossReplicaSum => Ok(Strategy::CrossReplica),
        CollectiveOp::AllToAll
        | CollectiveOp::CollectiveBroadcast
        | CollectiveOp::CollectivePermute
        | CollectiveOp::CollectiveReduce
        | CollectiveOp::RaggedAllToAll => {
            Ok(if has_channel { Strategy::CrossPartition } else { Strategy::CrossReplica })
        }
        CollectiveOp::AllGather | CollectiveOp::AllReduce | CollectiveOp::ReduceScatter => {
            match (has_channel, op.flag("use_global_device_ids")) {
                (false, false) => Ok(Strategy::CrossReplica),
                (true, false) => Ok(Strategy::CrossReplicaAndPartition),
                (true, true) => Ok(Strategy::FlattenedIds),
                (false, true) => Err("use_global_device_ids needs a channel handle above 0".into()),
            }
        }
    }
}

/// The rows of the two-dimensional integer attribute `name`; ids below 0 pad short rows and are left out.
pub fn rows(op: &Op, name: &str) -> Result<Vec<Vec<usize>>, String> {
    let Some(attr) = op.attr(name) else { return Ok(vec![]) };
    let bad = || format!("attribute '{name}' is not a list of lists of integers");
    let Attr::Dense(dense) = attr else { return Err(bad()) };
    let values = dense.to_i64s().ok_or_else(bad)?;
    let &[count, width] = dense.ty.dims.as_slice() else { return Err(bad()) };
    let row = |i: usize| &values[i * width as usize..(i + 1) * width as usize];
    Ok((0..count as usize).map(|i| row(i).iter().filter_map(|&v| usize::try_from(v).ok()).collect()).collect())
}

/// The group of `device`, in order; `None` if it is in no group. No groups at all means one group of all.
fn group_in(
    device: usize,
    grid: DeviceGrid,
    strategy: Strategy,
    groups: &[Vec<usize>],
) -> Result<Option<Vec<usize>>, String> {
    let (replica, partition) = (device / grid.partitions, device % grid.partitions);
    let (ids, mine) = match strategy {
        Strategy::CrossReplica | Strategy::CrossReplicaAndPartition => (grid.replicas, replica),
        Strategy::CrossPartition => (grid.partitions, partition),
        Strategy::FlattenedIds => (grid.len(), device),
    };
    if let Some(id) = groups.iter().flatten().find(|&&id| id >= ids) {
        return Err(format!(
            "replica groups name id {id} where there are {ids} ({strategy:?}); the run has {} replicas of {} partitions",
            grid.replicas, grid.partitions
        ));
    }
    let all: Vec<usize> = (0..ids).collect();
    let row = if groups.is_empty() { Some(&all) } else { groups.iter().find(|g| g.contains(&mine)) };
    Ok(row.map(|row| match strategy {
        Strategy::CrossReplica => row.iter().map(|r| r * grid.partitions + partition).collect(),
        Strategy::CrossPartition => row.iter().map(|p| replica * grid.partitions + p).collect(),
        Strategy::CrossReplicaAndPartition => {
            (0..grid.partitions).flat_map(|p| row.iter().map(move |r| r * grid.partitions + p)).collect()
        }
        Strategy::FlattenedIds => row.clone(),
    }))
}

/// Which device sends to which in the `collective_permute` `op`.
pub fn device_pairs(op: &Op, grid: DeviceGrid) -> Result<Vec<(usize, usize)>, String> {
    let across = strategy(op)? == Strategy::CrossPartition;
    let (ids, others) = if across { (grid.partitions, grid.replicas) } else { (grid.replicas, grid.partitions) };
    let mut out = vec![];
    for pair in rows(op, "source_target_pairs")? {
        let &[from, to] = &pair[..] else { return Err("a source-target pair is not two ids".into()) };
        if from >= ids || to >= ids {
            return Err(format!("pair ({from}, {to}) names a device beyond the {ids} there are"));
        }
        for other in 0..others {
            let device = |id| if across { other * grid.partitions + id } else { id * grid.partitions + other };
            out.push((device(from), device(to)));
        }
    }
    Ok(out)
}

/// The devices that meet `device` in the collective `op`, in order; `None` if it is in no group.
pub fn group_of(op: &Op, device: usize, grid: DeviceGrid) -> Result<Option<Vec<usize>>, String> {
    group_in(device, grid, strategy(op)?, &rows(op, "replica_groups")?)
}

/// The devices that meet in the collective `op`, numbered `replica * partitions + partition`: all groups, each in
/// order. Devices in no group are left out.
pub fn device_groups(op: &Op, grid: DeviceGrid) -> Result<Vec<Vec<usize>>, String> {
    let (strategy, rows) = (strategy(op)?, rows(op, "replica_groups")?);
    let mut groups: Vec<Vec<usize>> = vec![];
    for device in 0..grid.len() {
        if !groups.iter().any(|g| g.contains(&device)) {
            groups.extend(group_in(device, grid, strategy, &rows)?);
        }
    }
    Ok(groups)
}

/// Checks the table of a `ragged_all_to_all` between `devices`: no length is negative, no row sends more than the `from`
/// elements it has, or receives more than the `to` it has room for. `size` is the length by sender, receiver and row.
pub fn ragged_fits(
    devices: usize,
    rows: usize,
    (from, to): (i64, i64),
    size: impl Fn(usize, usize, usize) -> i64,
) -> Result<(), String> {
    let all = || (0..devices).flat_map(|a| (0..devices).flat_map(move |b| (0..rows).map(move |row| (a, b, row))));
    if let Some((a, b, row)) = all().find(|&(a, b, row)| size(a, b, row) < 0) {
        return Err(format!("device {a} of the group is to send {} elements of row {row} to {b}", size(a, b, row)));
    }
    for (device, row) in (0..devices).flat_map(|d| (0..rows).map(move |row| (d, row))) {
        // Lengths are numbers of a program: their sum may be beyond any array.
        let sum = |of: &dyn Fn(usize) -> i64| (0..devices).map(|other| i128::from(of(other))).sum::<i128>();
        let (sent, received) = (sum(&|to| size(device, to, row)), sum(&|from| size(from, device, row)));
        if sent > i128::from(from) {
            return Err(format!(
                "device {device} of the group is to send {sent} elements of row {row}, which has {from}"
            ));
        }
        if received > i128::from(to) {
            let what = format!("is to receive {received} elements of row {row}, which has room for {to}");
            return Err(format!("device {device} of the group {what}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_by_strategy() {
        let grid = DeviceGrid { replicas: 2, partitions: 3 };
        let of = |device, strategy, groups: &[Vec<usize>]| group_in(device, grid, strategy, groups).unwrap();
        assert_eq!(of(4, Strategy::CrossReplica, &[vec![1, 0]]), Some(vec![4, 1]));
        assert_eq!(of(4, Strategy::CrossPartition, &[vec![0, 1], vec![2]]), Some(vec![3, 4]));
        let all = of(4, Strategy::CrossReplicaAndPartition, &[vec![0, 1]]);
        assert_eq!(all, Some(vec![0, 3, 1, 4, 2, 5]));
        assert_eq!(of(4, Strategy::FlattenedIds, &[vec![0, 1], vec![5, 4]]), Some(vec![5, 4]));
        assert_eq!(of(4, Strategy::FlattenedIds, &[vec![0, 1]]), None);
        assert_eq!(of(4, Strategy::CrossReplica, &[]), Some(vec![1, 4]));
        assert!(group_in(0, grid, Strategy::CrossReplica, &[vec![0, 2]]).is_err());
    }
}
