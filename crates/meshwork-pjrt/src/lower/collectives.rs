//! Collectives among replicas, and those that plugins lack as others that they have.

use std::collections::HashMap;

use meshwork_ir::attr::{Dense, GatherDims};
use meshwork_ir::build::{BuildError, Builder, Direction, Groups};
use meshwork_ir::groups::{device_groups, device_pairs};
use meshwork_ir::op::{BinaryOp, CollectiveOp, MixedOp, SdyOp, SourceOp};
use meshwork_ir::{
    Attr, BlockId, Combine, DeviceGrid, ElementType, Literal, Module, OpId, OpKind, OpSpec, Type, ValueId,
};

/// Makes the groups of a collective name replicas, or replaces it by others that plugins have.
pub(super) fn name_replicas(module: &mut Module, op: OpId, kind: CollectiveOp, grid: DeviceGrid) -> Result<(), String> {
    if kind == CollectiveOp::CollectivePermute {
        let pairs = device_pairs(module.op(op), grid)?;
        let ids = pairs.iter().flat_map(|&(from, to)| [from as i64, to as i64]).collect::<Vec<_>>();
        set_matrix(module, op, "source_target_pairs", &ids, 2);
    } else {
        let groups = device_groups(module, module.op(op), grid)?;
        let width = groups.first().map_or(0, Vec::len);
        if kind == CollectiveOp::CollectiveBroadcast {
            return broadcast(module, op, &groups, grid.partitions).map_err(|e| e.to_string());
        }
        if kind == CollectiveOp::RaggedAllToAll {
            return ragged(module, op, &groups).map_err(|e| e.to_string());
        }
        let reduces = matches!(kind, CollectiveOp::AllReduce | CollectiveOp::ReduceScatter);
        let covered = groups.iter().map(Vec::len).sum::<usize>() == grid.partitions;
        let is_even = groups.iter().all(|g| g.len() == width);
        if covered && reduces && (!is_even || !plugins_reduce(module, op)) {
            return reduce(module, op, &groups).map_err(|e| e.to_string());
        }
        if !is_even || !covered {
            return Err(format!("{} does not take every device into a group of one size", module.describe(op)));
        }
        let ids: Vec<i64> = groups.iter().flatten().map(|&d| d as i64).collect();
        set_matrix(module, op, "replica_groups", &ids, width);
    }
    let attrs = &mut module.op_mut(op).attrs;
    attrs.remove("channel_handle");
    attrs.remove("use_global_device_ids");
    Ok(())
}

fn set_matrix(module: &mut Module, op: OpId, name: &str, ids: &[i64], columns: usize) {
    let rows = ids.len() / columns.max(1);
    if let Some(matrix) = Literal::from_i64s([rows as i64, columns as i64], ElementType::I64, ids) {
        module.op_mut(op).attrs.set(name, Attr::Dense(Dense::from_literal(&matrix).into()));
    }
}

/// Whether plugins have a reduction with this body: XLA's CPU and GPU devices know few.
fn plugins_reduce(module: &Module, op: OpId) -> bool {
    let combine = module.body_of(op, 0).and_then(|body| Combine::of_body(module, body));
    let is_bool = module.op(op).operands().iter().all(|&x| elem_of(module, x) == ElementType::I1);
    match combine {
        Some(Combine::Add | Combine::Mul | Combine::Max | Combine::Min) => !is_bool,
        Some(Combine::And | Combine::Or) => is_bool,
        Some(Combine::Xor) | None => false,
    }
}

fn elem_of(module: &Module, value: ValueId) -> ElementType {
    module.ty(value).as_tensor().map_or(ElementType::F32, |ty| ty.elem)
}

/// Every device gets the operands of all and combines those of its group; of a reduce-scatter it keeps its own block.
fn reduce(module: &mut Module, op: OpId, groups: &[Vec<usize>]) -> Result<(), BuildError> {
    let (operands, results) = (module.op(op).operands().to_vec(), module.op(op).results().to_vec());
    let body = module.body_of(op, 0);
    let scatter = module.op(op).int("scatter_dimension");
    let devices = groups.iter().map(Vec::len).sum::<usize>();
    let widest = groups.iter().map(Vec::len).max().unwrap_or(0);
    let member = |d: usize, i: usize| groups.iter().find(|g| g.contains(&d)).and_then(|g| g.get(i));
    for (x, result) in operands.into_iter().zip(results) {
        let dims = module.ty(x).dims().to_vec();
        let mut b = Builder::before(module, op);
        let all = gather_all(&mut b, x, devices)?;
        let mut sum = None;
        for i in 0..widest {
            let table: Vec<i64> = (0..devices).map(|d| member(d, i).map_or(-1, |&m| m as i64)).collect();
            let (part, is_there) = row_by_device(&mut b, all, &table)?;
            sum = Some(match (sum, body) {
                (Some(sum), Some(body)) => {
                    let more = apply(&mut b, body, sum, part)?;
                    b.select(is_there, more, sum)?
                }
                _ => part,
            });
        }
        let mut value = sum.unwrap_or(x);
        if let Some(dim) = scatter {
            let place = |d: usize| groups.iter().find_map(|g| g.iter().position(|&other| other == d)).unwrap_or(0);
            let size = module.ty(result).dims()[dim as usize];
            let starts: Vec<i64> = (0..devices).map(|d| place(d) as i64 * size).collect();
            let mut b = Builder::before(module, op);
            let start = by_device(&mut b, &starts)?;
            let zero = b.scalar(ElementType::I32, 0.0)?;
            let starts: Vec<ValueId> = (0..dims.len() as i64).map(|d| if d == dim { start } else { zero }).collect();
            let mut sizes = dims.clone();
            sizes[dim as usize] = size;
            value = b.dynamic_slice(value, &starts, &sizes)?;
        }
        module.replace_all_uses(result, value);
    }
    module.erase(op);
    Ok(())
}

/// The body of a reduction, a function of two scalars, on all elements of `x` and `y`.
fn apply(b: &mut Builder<'_>, body: BlockId, x: ValueId, y: ValueId) -> Result<ValueId, BuildError> {
    let dims = b.ty(x).dims().to_vec();
    let args = b.module().block(body).args().to_vec();
    let mut map: HashMap<ValueId, ValueId> = args.into_iter().zip([x, y]).collect();
    for op in b.module().ops_in(body).collect::<Vec<_>>() {
        let data = b.module().op(op).clone();
        if let (OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant), Some(Attr::Dense(value))) =
            (data.kind(), data.attr("value"))
        {
            let (elem, result) = (value.ty.elem, data.results()[0]);
            let bytes = value.splat_bytes().map(<[u8]>::to_vec).unwrap_or_default();
            map.insert(result, b.splat_bytes(&dims, elem, &bytes)?);
        } else if let Some(&result) = data.results().first() {
            let mut spec = OpSpec::new(data.kind());
            spec = spec.operands(data.operands().iter().map(|v| map.get(v).copied().unwrap_or(*v)));
            spec.attrs = data.attrs.clone();
            if data.kind() == OpKind::Mixed(MixedOp::Convert) {
                let elem = elem_of(b.module(), result);
                spec = spec.results([Type::tensor(dims.iter().copied(), elem)]);
            }
            map.insert(result, b.value(spec)?);
        }
    }
    let returned = b.module().returned(body)[0];
    Ok(map.get(&returned).copied().unwrap_or(returned))
}

/// The entry of `table` for this device.
fn by_device(b: &mut Builder<'_>, table: &[i64]) -> Result<ValueId, BuildError> {
    let table = Literal::from_i64s([table.len() as i64], ElementType::I32, table);
    let table = b.constant(&table.expect("an entry for each device"))?;
    let here = b.replica_id()?;
    let own = b.dynamic_slice(table, &[here], &[1])?;
    b.reshape(own, [])
}

/// `x` of all devices, a row for each.
fn gather_all(b: &mut Builder<'_>, x: ValueId, devices: usize) -> Result<ValueId, BuildError> {
    let row: Vec<i64> = [&[1], b.ty(x).dims()].concat();
    let row = b.reshape(x, row)?;
    b.all_gather(row, 0, &Groups::replicas(vec![(0..devices as i64).collect()]))
}

/// The row of `all` that `table` names for this device, and whether it names one: -1 names none.
fn row_by_device(b: &mut Builder<'_>, all: ValueId, table: &[i64]) -> Result<(ValueId, ValueId), BuildError> {
    let mut sizes = b.ty(all).dims().to_vec();
    sizes[0] = 1;
    let (from, zero) = (by_device(b, table)?, b.scalar(ElementType::I32, 0.0)?);
    let mut starts = vec![zero; sizes.len()];
    starts[0] = from;
    let row = b.dynamic_slice(all, &starts, &sizes)?;
    let row = b.reshape(row, sizes[1..].iter().copied())?;
    Ok((row, b.compare(Direction::Ge, from, zero)?))
}

/// Every device gets the operands of all, and picks the pieces that are for it.
fn ragged(module: &mut Module, op: OpId, groups: &[Vec<usize>]) -> Result<(), BuildError> {
    let (x, sizes) = (module.op(op).operands()[0], module.op(op).operands()[1]);
    let result = module.ty(module.op(op).results()[0]).clone();
    let (rows, length, room) = (module.ty(x).dims()[0], module.ty(x).dims()[1], result.dims()[1]);
    let (n, devices) = (groups[0].len() as i64, groups.iter().map(Vec::len).sum::<usize>());
    let group = |d: usize| groups.iter().find(|g| g.contains(&d));
    let (add, index) = (OpKind::Binary(BinaryOp::Add), elem_of(module, sizes));
    let mut b = Builder::before(module, op);
    let all = gather_all(&mut b, x, devices)?;
    let mut parts = vec![];
    for i in 0..n as usize {
        let table: Vec<i64> = (0..devices).map(|d| group(d).map_or(-1, |g| g[i] as i64)).collect();
        parts.push(row_by_device(&mut b, all, &table)?.0);
    }
    let parts = b.concatenate(&parts, 1)?;
    // This device's place in its group, and by sender and row: how long the pieces for it and for those before it are.
    let place = |d: usize| group(d).and_then(|g| g.iter().position(|&other| other == d)).unwrap_or(0) as i64;
    let place = by_device(&mut b, &(0..devices).map(place).collect::<Vec<_>>())?;
    let place = b.convert(place, index)?;
    let zero = b.scalar(index, 0.0)?;
    let mine = b.dynamic_slice(sizes, &[zero, place, zero], &[n, 1, rows])?;
    let mine = b.reshape(mine, [n, rows])?;
    let receiver = b.iota(Type::tensor([n, n, rows], index), 1)?;
    let before = b.broadcast_in_dim(place, [n, n, rows], &[])?;
    let before = b.compare(Direction::Lt, receiver, before)?;
    let nothing = b.splat([n, n, rows], index, 0.0)?;
    let before = b.select(before, sizes, nothing)?;
    let before = b.reduce_by(add, before, zero, &[1])?;
    // Where each element of the result comes from: position t of a row is in the piece that starts at `target`.
    let wide = [rows, room];
    let t = b.iota(Type::tensor(wide, index), 1)?;
    let mut target = b.splat([rows], index, 0.0)?;
    let (mut from, mut found) = (b.splat(wide, index, 0.0)?, b.splat(wide, ElementType::I1, 0.0)?);
    for i in 0..n {
        let of = |b: &mut Builder<'_>, table: ValueId| {
            let row = b.slice(table, &[i, 0], &[i + 1, rows], &[1, 1])?;
            b.reshape(row, [rows])
        };
        let (size, start) = (of(&mut b, mine)?, of(&mut b, before)?);
        let end = b.apply(add, &[target, size])?;
        let spread = |b: &mut Builder<'_>, v: ValueId| b.broadcast_in_dim(v, wide, &[0]);
        let (low, high) = (spread(&mut b, target)?, spread(&mut b, end)?);
        let (behind, ahead) = (b.compare(Direction::Ge, t, low)?, b.compare(Direction::Lt, t, high)?);
        let inside = b.apply(OpKind::Binary(BinaryOp::And), &[behind, ahead])?;
        let shift = b.splat([rows], index, (i * length) as f64)?;
        let shift = b.apply(add, &[shift, start])?;
        let shift = b.apply(OpKind::Binary(BinaryOp::Subtract), &[shift, target])?;
        let shift = spread(&mut b, shift)?;
        let at = b.apply(add, &[t, shift])?;
        from = b.select(inside, at, from)?;
        found = b.apply(OpKind::Binary(BinaryOp::Or), &[found, inside])?;
        target = end;
    }
    let dims = GatherDims {
        collapsed_slice_dims: vec![1],
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        start_index_map: vec![1],
        index_vector_dim: 2,
        ..GatherDims::default()
    };
    let value = b.gather(parts, from, dims, &[1, 1])?;
    let nothing = b.splat(wide, elem_of(b.module(), x), 0.0)?;
    let value = b.select(found, value, nothing)?;
    module.replace_op(op, &[value]);
    Ok(())
}

/// Every device gets the operands of all, and takes that of the first device of its group; zeros if it is in none.
fn broadcast(module: &mut Module, op: OpId, groups: &[Vec<usize>], devices: usize) -> Result<(), BuildError> {
    let x = module.op(op).operands()[0];
    let (dims, elem) = (module.ty(x).dims().to_vec(), elem_of(module, x));
    let root = |d: usize| groups.iter().find(|g| g.contains(&d)).map_or(-1, |g| g[0] as i64);
    let roots: Vec<i64> = (0..devices).map(root).collect();
    let mut b = Builder::before(module, op);
    let all = gather_all(&mut b, x, devices)?;
    let (found, is_there) = row_by_device(&mut b, all, &roots)?;
    let nothing = b.splat(dims, elem, 0.0)?;
    let value = b.select(is_there, found, nothing)?;
    module.replace_op(op, &[value]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use meshwork_eval as eval;
    use meshwork_ir::{DeviceGrid, ElementType, Literal, text};

    use crate::lower::for_replicas;

    /// What plugins lack gives, as what they have, the same on every device.
    #[test]
    fn pieces_of_lengths_that_are_data() {
        for (groups, shape, n) in [("[[0, 1, 2, 3]]", "1x4", 4), ("[[3, 1], [0, 2]]", "2x2", 2)] {
            let size = |a: i64, b: i64, row: i64| ((a + 2 * b + row) % 3).to_string();
            let row = |a: i64, b: i64| (0..2).map(|r| size(a, b, r)).collect::<Vec<_>>().join(", ");
            let sender = |a: i64| (0..n).map(|b| format!("[{}]", row(a, b))).collect::<Vec<_>>().join(", ");
            let sizes = (0..n).map(|a| format!("[{}]", sender(a))).collect::<Vec<_>>().join(", ");
            let source = format!(
                "func.func @main(%x: tensor<2x8xf32>) -> tensor<2x9xf32> {{
                   %s = stablehlo.constant dense<[{sizes}]> : tensor<{n}x{n}x2xi32>
                   %r = \"meshwork.ragged_all_to_all\"(%x, %s) {{
                     replica_groups = dense<{groups}> : tensor<{shape}xi64>,
                     channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
                   }} : (tensor<2x8xf32>, tensor<{n}x{n}x2xi32>) -> tensor<2x9xf32>
                   return %r : tensor<2x9xf32> }}"
            );
            let module = text::parse(&source).unwrap_or_else(|d| panic!("{}", d.render("test", &source)));
            let shard = |d: i64| {
                let values: Vec<f64> = (0..16).map(|i| (100 * d + i) as f64).collect();
                vec![Literal::from_f64s([2, 8], ElementType::F32, &values).expect("it fits")]
            };
            let shards: Vec<Vec<Literal>> = (0..4).map(shard).collect();
            let partitions = DeviceGrid { replicas: 1, partitions: 4 };
            let want = eval::run_devices(&module, None, shards.clone(), partitions).expect("it runs");
            let lowered = for_replicas(&module, 4).expect("plugins have a form of it");
            let replicas = DeviceGrid { replicas: 4, partitions: 1 };
            let got = eval::run_devices(&lowered, None, shards, replicas).expect("it runs");
            assert_eq!(got, want, "{}", text::print(&lowered));
        }
    }
}
