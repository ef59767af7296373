//! Collectives: their kind, and the devices that meet.

use meshwork_ir::DeviceGrid;
use meshwork_ir::groups::{device_groups, device_pairs};
use meshwork_ir::op::CollectiveOp;
use meshwork_ir::{Module, OpId, OpKind};

use super::LoadError;
use super::lower::Lower;
use crate::kernel::ir::Combine;
use crate::program::{Collective, CollectiveKind, Node, Reducer};

/// Adds the collective `op`, whose operands are runs of bytes.
pub(crate) fn lower(cx: &mut Lower<'_>, op: OpId, grid: DeviceGrid) -> Result<(), LoadError> {
    let module = cx.module;
    let data = module.op(op);
    if data.flag("has_dynamic_root") {
        return Err(LoadError::unsupported(module, op, "a root known at run time only"));
    }
    let invalid = |message: String| LoadError::invalid(module, op, message);
    let dim = |name: &str| {
        let value = data.int(name).and_then(|d| usize::try_from(d).ok());
        value.ok_or_else(|| LoadError::invalid(module, op, format!("attribute '{name}' is missing")))
    };
    let mut groups: Vec<Vec<u32>> = vec![];
    if data.kind() != OpKind::Collective(CollectiveOp::CollectivePermute) {
        let found = device_groups(module, data, grid).map_err(invalid)?;
        groups = found.into_iter().map(|g| g.into_iter().map(|d| d as u32).collect()).collect();
    }
    let OpKind::Collective(kind) = data.kind() else {
        return Err(LoadError::unsupported(module, op, "this collective"));
    };
    let kind = match kind {
        CollectiveOp::AllReduce => CollectiveKind::AllReduce(reducer(module, op)),
        CollectiveOp::CrossReplicaSum => CollectiveKind::AllReduce(Reducer::Combine(Combine::Add)),
        CollectiveOp::ReduceScatter => {
            CollectiveKind::ReduceScatter { dim: dim("scatter_dimension")?, reducer: reducer(module, op) }
        }
        CollectiveOp::AllGather => CollectiveKind::AllGather { dim: dim("all_gather_dim")? },
        CollectiveOp::AllToAll => CollectiveKind::AllToAll {
            split_dim: dim("split_dimension")?,
            concat_dim: dim("concat_dimension")?,
            split_count: dim("split_count")?,
        },
        CollectiveOp::CollectivePermute => {
            let pairs = device_pairs(data, grid).map_err(invalid)?;
            CollectiveKind::Permute { pairs: pairs.into_iter().map(|(a, b)| (a as u32, b as u32)).collect() }
        }
        CollectiveOp::RaggedAllToAll => CollectiveKind::RaggedAllToAll,
        CollectiveOp::CollectiveBroadcast => CollectiveKind::Broadcast,
        CollectiveOp::CollectiveReduce => CollectiveKind::Reduce(reducer(module, op)),
    };
    let covered = groups.iter().map(Vec::len).sum::<usize>();
    let partial = matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce(_));
    if !groups.is_empty() && covered != grid.len() && !partial {
        let message = format!("its groups hold {covered} of {} devices", grid.len());
        return Err(LoadError::invalid(module, op, message));
    }
    let views = data.operands().iter().filter_map(|&v| cx.view(v));
    let (operands, starts) = views.map(|view| (view.buf, view.offset as usize)).unzip();
    let results = data.results().to_vec().into_iter().map(|r| cx.result(r)).collect();
    let (_, dims) = cx.shape(data.operands()[0]);
    let short = data.kind().name().trim_start_matches("stablehlo.");
    let name = format!("{short} {}", dims.iter().map(i64::to_string).collect::<Vec<_>>().join("×"));
    cx.nodes.push(Node::Collective(Collective { kind, groups, operands, starts, results, op, name, channel: None }));
    Ok(())
}

fn reducer(module: &Module, op: OpId) -> Reducer {
    match module.body_of(op, 0).and_then(|body| Combine::of_body(module, body)) {
        Some(combine) => Reducer::Combine(combine),
        None => Reducer::Body(op),
    }
}
