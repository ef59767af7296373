//! Which ops may be removed because nothing uses them, as MLIR's greedy driver decides it.

use meshwork_ir::{Attr, Module, OpId, OpKind, Walk};

/// Whether `op` has no uses and no effects.
pub fn is_trivially_dead(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    data.results().iter().all(|&v| module.value(v).uses().is_empty())
        && !data.kind().is_terminator()
        && match effects(module, op) {
            Effects::Free => true,
            Effects::OfRegions => {
                module.ops_below(op, Walk::PreOrder).into_iter().all(|inner| effects(module, inner) != Effects::Some)
            }
            Effects::Some => false,
        }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Effects {
    Free,
    /// Those of the ops in its regions.
    OfRegions,
    Some,
}

fn effects(module: &Module, op: OpId) -> Effects {
    use OpKind as K;
    let data = module.op(op);
    match data.kind() {
        K::If
        | K::Case
        | K::While
        | K::Reduce
        | K::ReduceWindow
        | K::Scatter
        | K::SelectAndScatter
        | K::Sort
        | K::Map
        | K::SdyNamedComputation
        | K::SdyManualComputation => Effects::OfRegions,
        // Constraints and edges say something about other values even when unused.
        K::SdyShardingConstraint
        | K::SdyDataFlowEdge
        | K::SdyFuncDataFlowEdge
        | K::SdyAllGather
        | K::SdyAllReduce
        | K::SdyAllSlice
        | K::SdyAllToAll
        | K::SdyCollectivePermute
        | K::SdyReduceScatter
        | K::SdyReplicatedToUnreduced
        | K::SdyShardedToUnreduced => Effects::Some,
        K::CustomCall if data.attr("has_side_effect").and_then(Attr::as_bool) == Some(false) => Effects::Free,
        K::HloReturn | K::SdyReturn => Effects::Free,
        kind if kind.is_pure() => Effects::Free,
        _ => Effects::Some,
    }
}
