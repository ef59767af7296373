//! Which devices take part in a collective together: StableHLO's process groups.

use std::sync::Arc;

use meshwork_mesh::verify::AxisUse;
use meshwork_mesh::{Mesh, MeshRef, ShardingError, axis_list};

use crate::attr::GroupAxes;
use crate::op::{CollectiveOp, SdyOp};
use crate::{Attr, AttrDict, DeviceGrid, Module, Op, OpKind};

const GROUPS: &str = "replica_groups";

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

impl GroupAxes {
    /// The mesh; `None` if `module` defines no mesh of its name.
    pub fn mesh_in<'m>(&'m self, module: &'m Module) -> Option<&'m Arc<Mesh>> {
        match &self.mesh {
            MeshRef::Inline(mesh) => Some(mesh),
            MeshRef::Symbol(name) => {
                let op = module.op(module.symbol(name)?);
                match op.attr("mesh") {
                    Some(Attr::Mesh(mesh)) if op.kind() == SdyOp::Mesh => Some(mesh),
                    _ => None,
                }
            }
        }
    }

    /// The number of devices in a group on `mesh`; the error continues a sentence about the groups.
    pub fn size_on(&self, mesh: &Mesh) -> Result<i64, String> {
        mesh.verify().map_err(|e| format!("has a wrong mesh: {e}"))?;
        let mut axes = AxisUse::new(mesh);
        match axes.list(&self.axes).and_then(|()| axes.finish()) {
            Ok(()) => Ok(axis_list::product(&self.axes, mesh)),
            Err(ShardingError::UnknownAxis { axis, mesh }) => {
                Err(format!("names axis \"{axis}\", but the mesh is {mesh}"))
            }
            Err(ShardingError::DuplicateAxis { axis }) => Err(format!("names axis {axis} twice")),
            Err(e) => Err(format!("has wrong axes: {e}")),
        }
    }
}

/// The number of devices in a group of the collective `op`, if all groups have one size.
pub fn group_size(module: &Module, op: &Op) -> Option<i64> {
    match op.attr(GROUPS)? {
        Attr::Dense(ids) => ids.ty.dims.get(1).copied(),
        Attr::GroupAxes(groups) => groups.size_on(groups.mesh_in(module)?).ok(),
        _ => None,
    }
}

/// Writes the mesh into groups that name one of `module`, for a program that does not define it.
pub fn inline_mesh(module: &Module, attrs: &mut AttrDict) {
    if let Some(Attr::GroupAxes(groups)) = attrs.get(GROUPS)
        && groups.mesh.symbol().is_some()
        && let Some(mesh) = groups.mesh_in(module)
    {
        let groups = GroupAxes { mesh: mesh.clone().into(), axes: groups.axes.clone() };
        attrs.set(GROUPS, Attr::GroupAxes(groups.into()));
    }
}

/// The replica groups of `op` as they are written, of `count` ids.
fn listed(module: &Module, op: &Op, count: usize) -> Result<Vec<Vec<usize>>, String> {
    let Some(Attr::GroupAxes(groups)) = op.attr(GROUPS) else { return rows(op, GROUPS) };
    let Some(mesh) = groups.mesh_in(module) else {
        let name = groups.mesh.symbol().map_or("", |name| name);
        return Err(format!("attribute '{GROUPS}' names axes of @{name}, which is not a mesh"));
    };
    let size = groups.size_on(mesh).map_err(|why| format!("attribute '{GROUPS}' {why}"))?;
    if mesh.device_count() > count as i64 {
        let devices = mesh.device_count();
        return Err(format!("attribute '{GROUPS}' names axes of {devices} devices where there are {count}: {mesh}"));
    }
    if let Some(parts) = op.int("split_count").filter(|&parts| parts != size) {
        return Err(format!("attribute '{GROUPS}' has groups of {size}, but split_count is {parts}"));
    }
    let rows = meshwork_mesh::device_groups(mesh, &groups.axes).map_err(|e| e.to_string())?;
    Ok(rows.into_iter().map(|row| row.into_iter().map(|id| id as usize).collect()).collect())
}

impl Strategy {
    /// How many ids there are.
    fn ids(self, grid: DeviceGrid) -> usize {
        match self {
            Strategy::CrossReplica | Strategy::CrossReplicaAndPartition => grid.replicas,
            Strategy::CrossPartition => grid.partitions,
            Strategy::FlattenedIds => grid.len(),
        }
    }
}

/// The group of `device`, in order; `None` if it is in no group. No groups at all means one group of all.
fn group_in(
    device: usize,
    grid: DeviceGrid,
    strategy: Strategy,
    groups: &[Vec<usize>],
) -> Result<Option<Vec<usize>>, String> {
    let (replica, partition) = (device / grid.partitions, device % grid.partitions);
    let ids = strategy.ids(grid);
    let mine = match strategy {
        Strategy::CrossReplica | Strategy::CrossReplicaAndPartition => replica,
        Strategy::CrossPartition => partition,
        Strategy::FlattenedIds => device,
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
pub fn group_of(module: &Module, op: &Op, device: usize, grid: DeviceGrid) -> Result<Option<Vec<usize>>, String> {
    let strategy = strategy(op)?;
    group_in(device, grid, strategy, &listed(module, op, strategy.ids(grid))?)
}

/// The devices that meet in the collective `op`, numbered `replica * partitions + partition`: all groups, each in
/// order. Devices in no group are left out.
pub fn device_groups(module: &Module, op: &Op, grid: DeviceGrid) -> Result<Vec<Vec<usize>>, String> {
    let strategy = strategy(op)?;
    let rows = listed(module, op, strategy.ids(grid))?;
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

    /// The groups of eight devices along `axes` of `mesh`, in a module with a mesh `@m` and a function `@f`.
    fn by_axes(mesh: &str, axes: &str) -> Result<Vec<Vec<usize>>, String> {
        let source = format!(
            "sdy.mesh @m = <[\"x\"=2, \"y\"=4]>
             func.func private @f()
             func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
               %0 = \"stablehlo.collective_broadcast\"(%x) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
                 replica_groups = #stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = [{axes}]>}} : (tensor<4xf32>) -> tensor<4xf32>
               return %0 : tensor<4xf32>
             }}"
        );
        groups_of_8(&source)
    }

    /// The groups of the collective in `source` among 8 partitions, as [`group_of`] finds them too.
    fn groups_of_8(source: &str) -> Result<Vec<Vec<usize>>, String> {
        let module = crate::text::parse(source).unwrap_or_else(|e| panic!("{}", e.render("test", source)));
        let is_collective = |op: &crate::OpId| module.op(*op).kind().is_collective();
        let op = module.all_ops(crate::Walk::PreOrder).into_iter().find(is_collective).unwrap();
        let (op, grid) = (module.op(op), DeviceGrid { replicas: 1, partitions: 8 });
        let groups = device_groups(&module, op, grid)?;
        for device in 0..8 {
            let mine = groups.iter().find(|g| g.contains(&device)).cloned();
            assert_eq!(group_of(&module, op, device, grid), Ok(mine));
        }
        assert!(groups.iter().all(|g| Some(g.len() as i64) == group_size(&module, op)));
        Ok(groups)
    }

    fn lists(rows: &[&[usize]]) -> Result<Vec<Vec<usize>>, String> {
        Ok(rows.iter().map(|row| row.to_vec()).collect())
    }

    #[test]
    fn groups_along_axes() {
        let axis = |name: &str| format!("#stablehlo.axis_ref<name = \"{name}\">");
        let part = |name: &str, part: &str| format!("#stablehlo.axis_ref<name = \"{name}\", sub_axis_info = {part}>");
        let (x, y) = (axis("x"), axis("y"));
        assert_eq!(by_axes("@m", &x), lists(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]));
        assert_eq!(by_axes("@m", &y), lists(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]));
        assert_eq!(by_axes("@m", &format!("{x}, {y}")), lists(&[&[0, 1, 2, 3, 4, 5, 6, 7]]));
        assert_eq!(by_axes("@m", &format!("{y}, {x}")), lists(&[&[0, 4, 1, 5, 2, 6, 3, 7]]));
        assert_eq!(by_axes("@m", ""), Ok((0..8).map(|d| vec![d]).collect()));
        assert_eq!(by_axes("@m", &part("y", "(1)2")), lists(&[&[0, 2], &[1, 3], &[4, 6], &[5, 7]]));
        assert_eq!(by_axes("@m", &part("y", "(2)2")), lists(&[&[0, 1], &[2, 3], &[4, 5], &[6, 7]]));
        assert_eq!(by_axes("@m", &format!("{}, {x}", part("y", "(2)2"))), lists(&[&[0, 4, 1, 5], &[2, 6, 3, 7]]));
        let mesh = "#stablehlo.mesh<axes=[<name = \"x\", size = 2>, <name = \"y\", size = 2>]";
        let ids = format!("{mesh}, device_ids=dense<[3, 2, 0, 1]> : tensor<4xi64>>");
        assert_eq!(by_axes(&ids, &y), lists(&[&[0, 1], &[3, 2]]));
        assert_eq!(by_axes(&ids, &x), lists(&[&[3, 0], &[2, 1]]));
        assert_eq!(by_axes(&format!("{mesh}>"), &x), lists(&[&[0, 2], &[1, 3]]));
    }

    #[test]
    fn what_is_wrong_with_groups_along_axes() {
        let axis = |name: &str| format!("#stablehlo.axis_ref<name = \"{name}\">");
        let error = |mesh: &str, axes: &str| by_axes(mesh, axes).unwrap_err();
        assert_eq!(error("@other", &axis("x")), "attribute 'replica_groups' names axes of @other, which is not a mesh");
        assert_eq!(error("@f", &axis("x")), "attribute 'replica_groups' names axes of @f, which is not a mesh");
        let unknown = "attribute 'replica_groups' names axis \"z\", but the mesh is <[\"x\"=2, \"y\"=4]>";
        assert_eq!(error("@m", &axis("z")), unknown);
        let twice = error("@m", &format!("{}, {0}", axis("x")));
        assert_eq!(twice, "attribute 'replica_groups' names axis \"x\" twice");
        let large = error("#stablehlo.mesh<axes=[<name = \"x\", size = 16>]>", &axis("x"));
        assert_eq!(large, "attribute 'replica_groups' names axes of 16 devices where there are 8: <[\"x\"=16]>");
    }

    /// The verifier lets such a program pass, for passes that only rewrite it; no engine can run it.
    #[test]
    fn split_counts_that_are_not_the_size_of_groups_along_axes() {
        let groups = |count: i64| {
            let source = format!(
                "sdy.mesh @m = <[\"x\"=2, \"y\"=4]>
                 func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
                   %0 = \"stablehlo.all_to_all\"(%x) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
                     split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {count} : i64,
                     replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = \"x\">]>}}
                     : (tensor<8xf32>) -> tensor<8xf32>
                   return %0 : tensor<8xf32>
                 }}"
            );
            let module = crate::text::parse(&source).unwrap();
            assert!(crate::verify::verify(&module).is_empty());
            groups_of_8(&source)
        };
        assert_eq!(groups(2), lists(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]));
        for count in [1, 4] {
            let wrong = format!("attribute 'replica_groups' has groups of 2, but split_count is {count}");
            assert_eq!(groups(count), Err(wrong));
        }
    }
}
