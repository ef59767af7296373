//! Windows: along split dimensions none may reach into the next shard.

use meshwork_ir::{Module, OpId};

use super::Local;
use crate::export::rewrite::Problem;

/// Checks that windows along split dimensions are not padded and stay within a shard.
pub fn check(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let data = module.op(op);
    let input = data.operands()[0];
    let Some((sharding, mesh)) = cx.split(input) else { return Ok(()) };
    let at = |list: &Option<Vec<i64>>, i: usize, default: i64| {
        list.as_ref().and_then(|l| l.get(i)).copied().unwrap_or(default)
    };
    let list = |name: &str| data.i64s(name);
    let (sizes, strides, padding) = (list("window_dimensions"), list("window_strides"), list("padding"));
    let (spread, holes) = (list("base_dilations"), list("window_dilations"));
    for (dim, axes) in sharding.dims.iter().enumerate() {
        let shards = axes.num_shards(mesh);
        if shards == 1 {
            continue;
        }
        let size = (at(&sizes, dim, 1) - 1) * at(&holes, dim, 1) + 1;
        let stride = at(&strides, dim, 1);
        let padded = at(&padding, 2 * dim, 0) != 0 || at(&padding, 2 * dim + 1, 0) != 0;
        let local = cx.global_dims(input)[dim] / shards;
        let stays = stride >= size && local % stride == 0 && at(&spread, dim, 1) == 1;
        if padded || !stays {
            return Err(format!(
                "dimension {dim} is split into shards of {local}, but windows of {size} with stride {stride}{} reach \
                 across them",
                if padded { " and padding" } else { "" }
            )
            .into());
        }
    }
    Ok(())
}
