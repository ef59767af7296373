//! What a device computes from its id: the place of its shards.

use meshwork_ir::build::Builder;
use meshwork_ir::{Diagnostic, ElementType, Failed, Literal, PassOptions, ValueId};
use meshwork_mesh::{AxisRef, Mesh, shard_index};

use crate::export::rewrite::Problem;

/// Which id identifies a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DeviceId {
    /// `stablehlo.partition_id`.
    Partition,
    /// `stablehlo.replica_id`.
    Replica,
}

impl DeviceId {
    /// As the options `replica-count` and `partition-count` say; only one of them may be above 1.
    pub(crate) fn of(options: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<DeviceId, Failed> {
        DeviceId::read(options).map_err(|message| {
            diags.push(Diagnostic::error(Default::default(), message));
            Failed
        })
    }

    fn read(options: &PassOptions) -> Result<DeviceId, String> {
        let count = |name: &str| match options.get(name).map(str::parse::<i64>) {
            None => Ok(1),
            Some(Ok(n)) if n > 0 => Ok(n),
            Some(_) => Err(format!("option {name}={} is not a count", options.get(name).unwrap_or_default())),
        };
        let (replicas, partitions) = (count("replica-count")?, count("partition-count")?);
        if replicas > 1 && partitions > 1 {
            return Err(format!(
                "replica-count={replicas} and partition-count={partitions} are both above 1: a mesh is made of replicas or \
                 of partitions, not of both"
            ));
        }
        Ok(if replicas > 1 { DeviceId::Replica } else { DeviceId::Partition })
    }
}

/// The id of the device, as a scalar `i64`.
pub(crate) fn device_id(b: &mut Builder, kind: DeviceId) -> Result<ValueId, Problem> {
    let id = match kind {
        DeviceId::Partition => b.partition_id()?,
        DeviceId::Replica => b.replica_id()?,
    };
    Ok(b.convert(id, ElementType::I64)?)
}

/// The shard that each device has along `axes`.
pub(crate) fn shard_indices(mesh: &Mesh, axes: &[AxisRef]) -> Vec<i64> {
    let shard = |device| mesh.coordinates(device).map_or(0, |coordinates| shard_index(axes, &coordinates, mesh));
    (0..mesh.device_count()).map(shard).collect()
}

/// A rank-1 constant.
pub(crate) fn table(b: &mut Builder, values: &[i64]) -> Result<ValueId, Problem> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let literal = Literal::from_bytes([values.len() as i64], ElementType::I64, bytes);
    Ok(b.constant(&literal.ok_or("needs a table of a size that does not fit")?)?)
}

/// A scalar constant.
pub(crate) fn scalar(b: &mut Builder, elem: ElementType, value: i64) -> Result<ValueId, Problem> {
    Ok(b.scalar(elem, value as f64)?)
}

/// The entry of `table` for this device, as a scalar.
pub(crate) fn look_up(b: &mut Builder, device: ValueId, values: &[i64]) -> Result<ValueId, Problem> {
    let table = table(b, values)?;
    let entry = b.dynamic_slice(table, &[device], &[1])?;
    Ok(b.reshape(entry, [])?)
}

/// Where the shard of this device starts along a dimension that is split by `axes` into shards of this size.
pub(crate) fn offset(
    b: &mut Builder,
    kind: DeviceId,
    mesh: &Mesh,
    axes: &[AxisRef],
    shard_size: i64,
) -> Result<ValueId, Problem> {
    let device = device_id(b, kind)?;
    let starts: Vec<i64> = shard_indices(mesh, axes).into_iter().map(|index| index * shard_size).collect();
    look_up(b, device, &starts)
}

/// The shard of `whole` that this device has, split by `axes` of each dimension into shards of these sizes.
pub(crate) fn slice_shard(
    b: &mut Builder,
    kind: DeviceId,
    mesh: &Mesh,
    whole: ValueId,
    axes: &[Vec<AxisRef>],
    sizes: &[i64],
) -> Result<ValueId, Problem> {
    let mut starts = vec![];
    for (axes, &size) in axes.iter().zip(sizes) {
        starts.push(if axes.is_empty() { scalar(b, ElementType::I64, 0)? } else { offset(b, kind, mesh, axes, size)? });
    }
    Ok(b.dynamic_slice(whole, &starts, sizes)?)
}
