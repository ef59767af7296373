//! Rewrites that leave less to do: each looks at one operation and its operands.

use meshwork_ir::attr::DotDims;
use meshwork_ir::op::{CollectiveOp, ContractOp, MovementOp};
use meshwork_ir::{Attr, Dense, Module, OpId, OpKind, OpSpec, Type, ValueId, ValueMap};

use super::expand::replace;
use crate::kernel::ir::Combine;
use crate::library::is_identity;

/// A reduction over dimensions of one element is a reshape, if its initial value changes nothing.
pub(crate) fn reduce_of_ones(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[operand, init], &[result]) = (data.operands(), data.results()) else { return false };
    let dims = module.ty(operand).dims();
    let Some(reduced) = data.i64s("dimensions") else { return false };
    let ones = reduced.iter().all(|&d| dims.get(d as usize) == Some(&1));
    let combine = module.body_of(op, 0).and_then(|body| Combine::of_body(module, body));
    let zero = module.def_op(init).is_some_and(|def| match module.op(def).attr("value") {
        Some(Attr::Dense(dense)) => is_zero(dense),
        _ => false,
    });
    let same = module.ty(operand).elem() == module.ty(result).elem();
    if !(ones && same && combine == Some(Combine::Add) && zero) {
        return false;
    }
    let spec = OpSpec::new(OpKind::Movement(MovementOp::Reshape))
        .operands([operand])
        .results([module.ty(result).clone()])
        .loc(data.loc.clone());
    let reshape = module.push_before(op, spec);
    module.replace_op(op, &[module.result(reshape)]);
    true
}

/// A reduction with dimensions of one element behind it is one of rows.
pub(crate) fn reduce_before_ones(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (operands, results, loc) = (data.operands().to_vec(), data.results().to_vec(), data.loc.clone());
    let Some(reduced) = data.i64s("dimensions") else { return false };
    let (Some(&operand), Some(&last)) = (operands.first(), reduced.iter().max()) else { return false };
    let dims = module.ty(operand).dims().to_vec();
    let (kept, behind) = dims.split_at(last as usize + 1);
    if behind.is_empty() || behind.iter().any(|&n| n != 1) {
        return false;
    }
    for (i, &value) in operands[..results.len()].iter().enumerate() {
        let Some(ty) = module.ty(value).as_tensor().map(|ty| Type::tensor(kept.to_vec(), ty.elem)) else {
            return false;
        };
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Reshape)).operands([value]).results([ty]).loc(loc.clone());
        let reshape = module.push_before(op, spec);
        let reshaped = module.result(reshape);
        module.set_operand(op, i, reshaped);
    }
    let rows = module.clone_op(op, &mut ValueMap::default());
    module.insert_before(op, rows);
    let mut whole = vec![];
    for (i, &result) in results.iter().enumerate() {
        let ty = module.ty(result).clone();
        let dims = ty.dims();
        let row = module.op(rows).results()[i];
        let Some(elem) = ty.elem() else { return false };
        module.set_ty(row, Type::tensor(dims[..dims.len() - behind.len()].to_vec(), elem));
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Reshape)).operands([row]).results([ty]).loc(loc.clone());
        let reshape = module.push_before(op, spec);
        whole.push(module.result(reshape));
    }
    module.replace_op(op, &whole);
    true
}

/// A reshape of a reshape is one, or nothing: what is between would be stored for it.
pub(crate) fn reshape_of_reshape(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[operand], &[result]) = (data.operands(), data.results()) else { return false };
    let is_reshape = |&def: &OpId| module.op(def).kind() == OpKind::Movement(MovementOp::Reshape);
    let Some(before) = module.def_op(operand).filter(is_reshape) else { return false };
    let &[from] = module.op(before).operands() else { return false };
    if module.ty(from) == module.ty(result) {
        module.replace_op(op, &[from]);
    } else {
        module.set_operand(op, 0, from);
    }
    true
}

/// The transpose of a stack of a few along which its elements become neighbors is such a stack: written so in the first place, it need
/// not be copied.
pub(crate) fn transposed_stack(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[stack], &[result], loc) = (data.operands(), data.results(), data.loc.clone()) else { return false };
    let is_stack = |&def: &OpId| module.op(def).kind() == OpKind::Movement(MovementOp::Concatenate);
    let Some(def) = module.def_op(stack).filter(is_stack) else { return false };
    let (Some(d), Some(order)) = (module.op(def).int("dimension"), data.i64s("permutation")) else { return false };
    let (dims, last) = (module.ty(stack).dims(), order.len() - 1);
    let others_stay = order[..last].windows(2).all(|pair| pair[0] < pair[1]);
    let fits = order[last] == d && others_stay && dims[d as usize] <= MOST_STACKED;
    let parts = module.op(def).operands().to_vec();
    let ones = parts.iter().all(|&v| module.ty(v).dims()[d as usize] == 1);
    if !fits || !ones || module.value(stack).uses().len() != 1 {
        return false;
    }
    let mut turned = vec![];
    for part in parts {
        let Some(ty) = module.ty(part).as_tensor() else { return false };
        let mut dims = ty.dims.to_vec();
        dims.remove(d as usize);
        dims.push(1);
        let ty = Type::tensor(dims, ty.elem);
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Reshape)).operands([part]).results([ty]).loc(loc.clone());
        let reshape = module.push_before(op, spec);
        turned.push(module.result(reshape));
    }
    let spec = OpSpec::new(OpKind::Movement(MovementOp::Concatenate))
        .operands(turned)
        .results([module.ty(result).clone()])
        .attr("dimension", Attr::i64(last as i64))
        .loc(loc);
    let joined = module.push_before(op, spec);
    module.replace_op(op, &[module.result(joined)]);
    true
}

/// Elements that the fusion computes side by side.
const MOST_STACKED: i64 = 8;

/// A slice of arrays that are joined for it alone needs only those that it touches.
pub(crate) fn slice_of_joined(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let &[whole] = data.operands() else { return false };
    let (Some(mut start), Some(mut limit)) = (data.i64s("start_indices"), data.i64s("limit_indices")) else {
        return false;
    };
    let strides = data.i64s("strides").unwrap_or_else(|| vec![1; start.len()]);
    let Some(def) = module.def_op(whole).filter(|_| module.value(whole).uses().len() == 1) else { return false };
    let join = module.op(def);
    let dim = join.int("dimension").and_then(|d| usize::try_from(d).ok()).filter(|&d| d < start.len());
    let (Some(dim), true) = (dim, join.kind() == OpKind::Movement(MovementOp::Concatenate)) else { return false };
    let (mut touched, mut at, mut before) = (vec![], 0, 0);
    for &part in join.operands() {
        let size = module.ty(part).dims()[dim];
        if at + size <= start[dim] {
            before = at + size;
        } else if at < limit[dim] {
            touched.push(part);
        }
        at += size;
    }
    if touched.is_empty() || touched.len() == join.operands().len() {
        return false;
    }
    (start[dim], limit[dim]) = (start[dim] - before, limit[dim] - before);
    replace(module, op, |b| {
        let x = if let [one] = touched[..] { one } else { b.concatenate(&touched, dim as i64)? };
        Ok(Some(vec![b.slice(x, &start, &limit, &strides)?]))
    })
}

/// The only slice of padding is padding by less, possibly less than nothing: its elements are then side by side.
pub(crate) fn slice_of_pad(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[operand], &[result]) = (data.operands(), data.results()) else { return false };
    let is_pad = |&def: &OpId| module.op(def).kind() == OpKind::Movement(MovementOp::Pad);
    let Some(pad) = module.def_op(operand).filter(is_pad) else { return false };
    let read = |op: OpId, name: &str| module.op(op).i64s(name).unwrap_or_default();
    let (low, starts, limits) = (read(pad, "edge_padding_low"), read(op, "start_indices"), read(op, "limit_indices"));
    let &[from, with] = module.op(pad).operands() else { return false };
    let extents = module.ty(from).dims().to_vec();
    let plain = read(pad, "interior_padding").iter().all(|&i| i == 0) && read(op, "strides").iter().all(|&s| s == 1);
    // Something of what was padded is left.
    let meets = (0..extents.len()).all(|d| starts[d] < low[d] + extents[d] && limits[d] > low[d]);
    if !plain || !meets || module.value(operand).uses().len() != 1 {
        return false;
    }
    let lower: Vec<i64> = low.iter().zip(&starts).map(|(l, s)| l - s).collect();
    let higher: Vec<i64> = (0..extents.len()).map(|d| limits[d] - low[d] - extents[d]).collect();
    let spec = OpSpec::new(OpKind::Movement(MovementOp::Pad))
        .operands([from, with])
        .results([module.ty(result).clone()])
        .attr("edge_padding_low", Attr::i64s(lower))
        .attr("edge_padding_high", Attr::i64s(higher))
        .attr("interior_padding", Attr::i64s(vec![0; extents.len()]))
        .loc(data.loc.clone());
    let padded = module.push_before(op, spec);
    module.replace_op(op, &[module.result(padded)]);
    module.erase(pad);
    true
}

/// A reduction over several innermost dimensions of what is computed from arrays that have some of them only, such as all pairs
/// of two lists of vectors: rows of it are no rows of these arrays. The last dimension goes first.
pub(crate) fn reduce_of_pairs(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[operand, init], &[result]) = (data.operands(), data.results()) else { return false };
    let (Some(mut dims), Some(from)) = (data.i64s("dimensions"), module.ty(operand).as_tensor().cloned()) else {
        return false;
    };
    dims.sort_unstable();
    let last = from.dims.len() as i64 - 1;
    let combine = module.body_of(op, 0).and_then(|body| Combine::of_body(module, body));
    let start = module.def_op(init).and_then(|def| match module.op(def).attr("value") {
        Some(Attr::Dense(dense)) => dense.to_literal(),
        _ => None,
    });
    let (Some(combine), Some(start)) = (combine, start) else { return false };
    let pairs = dims.len() > 1 && dims.last() == Some(&last) && is_identity(&start, combine);
    if !pairs || module.ty(result).elem() != Some(from.elem) || !has_part(module, operand, &dims) {
        return false;
    }
    let inner = module.clone_op(op, &mut ValueMap::default());
    module.insert_before(op, inner);
    module.op_mut(inner).attrs.set("dimensions", Attr::i64s(vec![last]));
    let sums = module.result(inner);
    module.set_ty(sums, Type::tensor(from.dims[..last as usize].to_vec(), from.elem));
    dims.pop();
    module.op_mut(op).attrs.set("dimensions", Attr::i64s(dims));
    module.set_operand(op, 0, sums);
    true
}

/// Whether `value` is computed from something that was broadcast along some of the dimensions `dims` and not along others.
fn has_part(module: &Module, value: ValueId, dims: &[i64]) -> bool {
    let mut work = vec![value];
    let mut seen = 0;
    while let Some(v) = work.pop() {
        seen += 1;
        let Some(op) = module.def_op(v).filter(|_| seen < 64) else { continue };
        let data = module.op(op);
        match data.kind() {
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => work.extend(data.operands()),
            OpKind::Movement(MovementOp::BroadcastInDim) => {
                let small = module.ty(data.operands()[0]).dims();
                let to = data.i64s("broadcast_dimensions").unwrap_or_default();
                let has = |d: &&i64| to.iter().zip(small).any(|(t, &n)| t == *d && n > 1);
                let count = dims.iter().filter(has).count();
                if count > 0 && count < dims.iter().filter(|&&d| module.ty(v).dims()[d as usize] > 1).count() {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// The transpose of a matrix product summed over devices is the sum of its transposes, which cost nothing: see
/// [`transposed_product`].
pub(crate) fn transposed_sum(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[sum], &[result]) = (data.operands(), data.results()) else { return false };
    let Some(reduce) =
        module.def_op(sum).filter(|&d| module.op(d).kind() == OpKind::Collective(CollectiveOp::AllReduce))
    else {
        return false;
    };
    let at = module.op(reduce).results().iter().position(|&r| r == sum);
    let Some((at, product)) = at.and_then(|i| Some((i, *module.op(reduce).operands().get(i)?))) else { return false };
    let only = module.value(sum).uses().len() == 1;
    let turned = module.ty(result).clone();
    // The sum takes the type of the transpose, if it has not another one than the product.
    if !only || turned_dims(module, op, product).is_none() || module.ty(product) != module.ty(sum) {
        return false;
    }
    module.move_before(op, reduce);
    module.set_operand(op, 0, product);
    module.replace_all_uses(result, sum);
    module.set_operand(reduce, at, result);
    module.set_ty(sum, turned);
    true
}

/// A matrix product that only its transpose is wanted of is the product of its operands in the other order.
pub(crate) fn transposed_product(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[product], &[result]) = (data.operands(), data.results()) else { return false };
    let Some((dot, dims)) = turned_dims(module, op, product) else { return false };
    let dot_data = module.op(dot);
    let &[lhs, rhs] = dot_data.operands() else { return false };
    let mut spec = OpSpec::new(OpKind::Contract(ContractOp::DotGeneral))
        .operands([rhs, lhs])
        .results([module.ty(result).clone()])
        .attr("dot_dimension_numbers", Attr::Dot(dims.into()))
        .loc(dot_data.loc.clone());
    if let Some(precision) = dot_data.attr("precision_config").and_then(Attr::as_array) {
        spec = spec.attr("precision_config", Attr::Array(precision.iter().rev().cloned().collect()));
    }
    let turned = module.push_before(dot, spec);
    module.replace_op(op, &[module.result(turned)]);
    module.erase(dot);
    true
}

/// Rows that the micro-kernel takes at once, about.
const FEW_ROWS: i64 = 16;

/// The product that `value` is and its dimensions with the operands in the other order, if nothing else uses it and
/// `transpose` exchanges what comes from one operand with what comes from the other.
fn turned_dims(module: &Module, transpose: OpId, value: ValueId) -> Option<(OpId, DotDims)> {
    let order = module.op(transpose).i64s("permutation")?;
    let dot = module.def_op(value).filter(|&d| module.op(d).kind() == OpKind::Contract(ContractOp::DotGeneral))?;
    let data = module.op(dot);
    let (&[lhs, _], Attr::Dot(dims)) = (data.operands(), data.attr("dot_dimension_numbers")?) else { return None };
    // Dimensions of the product: those of the batch, the free ones of the left operand, those of the right one.
    let (batch, rank) = (dims.lhs_batch.len(), order.len());
    let left = batch + module.ty(lhs).dims().len().saturating_sub(batch + dims.lhs_contract.len());
    let swapped = (0..batch).chain(left..rank).chain(batch..left);
    // A product of few rows is faster than one of few columns, and its transpose is soon made.
    let extents = module.ty(value).dims();
    let (rows, columns) = (extents.get(batch..left)?, extents.get(left..)?);
    let few = rows.iter().product::<i64>();
    if few <= FEW_ROWS && few < columns.iter().product() {
        return None;
    }
    // An algorithm names the types of the operands in turn.
    let only = module.value(value).uses().len() == 1 && data.attr("algorithm").is_none();
    let turned = DotDims {
        lhs_batch: dims.rhs_batch.clone(),
        rhs_batch: dims.lhs_batch.clone(),
        lhs_contract: dims.rhs_contract.clone(),
        rhs_contract: dims.lhs_contract.clone(),
    };
    (only && swapped.eq(order.iter().map(|&d| d as usize))).then_some((dot, turned))
}

fn is_zero(dense: &Dense) -> bool {
    dense.splat_bytes().is_some_and(|b| b.iter().all(|&x| x == 0))
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    #[test]
    fn pairs_are_reduced_without_copies() {
        let text = check(
            "func.func @main(%x: tensor<40x5xf32>, %y: tensor<30x5xf32>) -> tensor<40xf32> {
            %zero = stablehlo.constant dense<0.0> : tensor<f32>
            %a = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<40x5xf32>) -> tensor<40x30x5xf32>
            %b = stablehlo.broadcast_in_dim %y, dims = [1, 2] : (tensor<30x5xf32>) -> tensor<40x30x5xf32>
            %d = stablehlo.subtract %a, %b : tensor<40x30x5xf32>
            %c = stablehlo.abs %d : tensor<40x30x5xf32>
            %s = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [1, 2]
                : (tensor<40x30x5xf32>, tensor<f32>) -> tensor<40xf32>
            return %s : tensor<40xf32> }",
            1e-5,
        );
        assert!(!text.contains("40×30×5") && !text.contains("[40, 30, 5]"), "{text}");
    }

    #[test]
    fn dimensions_of_one_element_behind_a_reduction_leave_it_one_of_rows() {
        for (dims, kept, reduced) in [("40x300x1", "40x1", "1"), ("6x40x70x1x1", "40x1x1", "0, 2"), ("400x1", "1", "0")]
        {
            let text = check(
                &format!(
                    "func.func @main(%x: tensor<{dims}xf32>) -> (tensor<{kept}xf32>, tensor<{kept}xf32>, tensor<{kept}xi32>) {{
                    %zero = stablehlo.constant dense<0.5> : tensor<f32>
                    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
                    %i0 = stablehlo.constant dense<0> : tensor<i32>
                    %e = stablehlo.exponential %x : tensor<{dims}xf32>
                    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [{reduced}]
                        : (tensor<{dims}xf32>, tensor<f32>) -> tensor<{kept}xf32>
                    %i = stablehlo.iota dim = 0 : tensor<{dims}xi32>
                    %m:2 = stablehlo.reduce(%x init: %least), (%i init: %i0) across dimensions = [{reduced}]
                        : (tensor<{dims}xf32>, tensor<{dims}xi32>, tensor<f32>, tensor<i32>) -> (tensor<{kept}xf32>, tensor<{kept}xi32>)
                      reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {{
                        %p = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
                        %q = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
                        %r = stablehlo.select %p, %c, %d : tensor<i1>, tensor<i32>
                        stablehlo.return %q, %r : tensor<f32>, tensor<i32>
                      }}
                    return %s, %m#0, %m#1 : tensor<{kept}xf32>, tensor<{kept}xf32>, tensor<{kept}xi32> }}"
                ),
                1e-5,
            );
            let of_ones = |line: &&str| line.contains("reduce columns") && line.contains("×1 (");
            assert_eq!(text.lines().find(of_ones), None, "{text}");
        }
    }

    #[test]
    fn a_transposed_stack_is_not_copied() {
        for (perm, out) in [("1, 2, 0", "50x40x3"), ("2, 1, 0", "40x50x3"), ("1, 0, 2", "50x3x40")] {
            let text = check(
                &format!(
                    "func.func @main(%x: tensor<50x40xf32>, %y: tensor<50x40xf32>) -> tensor<{out}xf32> {{
                    %s = stablehlo.add %x, %y : tensor<50x40xf32>
                    %p = stablehlo.multiply %x, %y : tensor<50x40xf32>
                    %0 = stablehlo.reshape %s : (tensor<50x40xf32>) -> tensor<1x50x40xf32>
                    %1 = stablehlo.reshape %p : (tensor<50x40xf32>) -> tensor<1x50x40xf32>
                    %2 = stablehlo.reshape %x : (tensor<50x40xf32>) -> tensor<1x50x40xf32>
                    %3 = stablehlo.concatenate %0, %1, %2, dim = 0
                        : (tensor<1x50x40xf32>, tensor<1x50x40xf32>, tensor<1x50x40xf32>) -> tensor<3x50x40xf32>
                    %4 = stablehlo.transpose %3, dims = [{perm}] : (tensor<3x50x40xf32>) -> tensor<{out}xf32>
                    return %4 : tensor<{out}xf32> }}"
                ),
                0.0,
            );
            assert_eq!(text.contains("copy"), perm != "1, 2, 0", "{text}");
        }
    }

    #[test]
    fn nothing_is_stored_between_reshapes() {
        let text = check(
            "func.func @main(%x: tensor<64x8xf32>) -> (tensor<64xf32>, tensor<8x64xf32>) {
            %zero = stablehlo.constant dense<0.0> : tensor<f32>
            %a = stablehlo.multiply %x, %x : tensor<64x8xf32>
            %0 = stablehlo.reshape %a : (tensor<64x8xf32>) -> tensor<512xf32>
            %1 = stablehlo.reshape %0 : (tensor<512xf32>) -> tensor<64x8xf32>
            %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
                : (tensor<64x8xf32>, tensor<f32>) -> tensor<64xf32>
            %3 = stablehlo.reshape %x : (tensor<64x8xf32>) -> tensor<2x256xf32>
            %4 = stablehlo.reshape %3 : (tensor<2x256xf32>) -> tensor<8x64xf32>
            return %2, %4 : tensor<64xf32>, tensor<8x64xf32> }",
            1e-5,
        );
        assert!(!text.contains("512"), "{text}");
    }

    #[test]
    fn slices_of_padding() {
        for (low, high) in [(1, 0), (0, 2), (3, 3), (0, 0), (-1, 2)] {
            let n = 6 + low + high;
            for (start, limit) in [(0, n - 1), (1, n), (n / 2, n / 2 + 1), (0, 1), (n - 1, n), (0, n)] {
                let m = limit - start;
                let source = format!(
                    "func.func @main(%x: tensor<2x6xf32>) -> tensor<2x{m}xf32> {{
                    %z = stablehlo.constant dense<-1.5> : tensor<f32>
                    %p = stablehlo.pad %x, %z, low = [0, {low}], high = [0, {high}], interior = [0, 0] : (tensor<2x6xf32>, tensor<f32>) -> tensor<2x{n}xf32>
                    %s = stablehlo.slice %p [0:2, {start}:{limit}] : (tensor<2x{n}xf32>) -> tensor<2x{m}xf32>
                    %y = stablehlo.add %s, %s : tensor<2x{m}xf32>
                    return %y : tensor<2x{m}xf32> }}"
                );
                check(&source, 0.0);
            }
        }
    }

    #[test]
    fn a_product_is_computed_transposed_if_only_that_is_used() {
        let text = check(
            "func.func @main(%a: tensor<9x25xf32>, %b: tensor<9x7xf32>) -> tensor<7x25xf32> {
            %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0], precision = [DEFAULT, HIGHEST]
                : (tensor<9x25xf32>, tensor<9x7xf32>) -> tensor<25x7xf32>
            %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<25x7xf32>) -> tensor<7x25xf32>
            %2 = stablehlo.add %1, %1 : tensor<7x25xf32>
            return %2 : tensor<7x25xf32> }",
            1e-5,
        );
        assert!(text.contains("dot f32 7×25×9") && !text.contains("copy"), "{text}");
        let text = check(
            "func.func @main(%a: tensor<3x9x2x8xf32>, %b: tensor<8x6x3xf32>) -> tensor<3x6x9x2xf32> {
            %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [2], contracting_dims = [3] x [0]
                : (tensor<3x9x2x8xf32>, tensor<8x6x3xf32>) -> tensor<3x9x2x6xf32>
            %1 = stablehlo.transpose %0, dims = [0, 3, 1, 2] : (tensor<3x9x2x6xf32>) -> tensor<3x6x9x2xf32>
            return %1 : tensor<3x6x9x2xf32> }",
            1e-5,
        );
        assert!(text.contains("dot f32 3 of 6×18×8"), "{text}");
    }

    #[test]
    fn a_sum_of_products_over_devices_is_computed_transposed() {
        let text = check(
            "func.func @main(%a: tensor<9x25xf32>, %b: tensor<9x7xf32>) -> tensor<7x25xf32> {
            %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
                : (tensor<9x25xf32>, tensor<9x7xf32>) -> tensor<25x7xf32>
            %1 = \"stablehlo.all_reduce\"(%0) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
            ^bb0(%x: tensor<f32>, %y: tensor<f32>):
              %s = stablehlo.add %x, %y : tensor<f32>
              stablehlo.return %s : tensor<f32>
            }) : (tensor<25x7xf32>) -> tensor<25x7xf32>
            %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<25x7xf32>) -> tensor<7x25xf32>
            return %2 : tensor<7x25xf32> }",
            1e-5,
        );
        assert!(text.contains("dot f32 7×25×9") && !text.contains("copy"), "{text}");
    }

    #[test]
    fn a_product_that_is_used_both_ways_is_computed_once() {
        let text = check(
            "func.func @main(%a: tensor<9x25xf32>, %b: tensor<9x7xf32>) -> (tensor<7x25xf32>, tensor<25x7xf32>) {
            %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
                : (tensor<9x25xf32>, tensor<9x7xf32>) -> tensor<25x7xf32>
            %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<25x7xf32>) -> tensor<7x25xf32>
            return %1, %0 : tensor<7x25xf32>, tensor<25x7xf32> }",
            1e-5,
        );
        assert_eq!(text.matches("dot f32").count(), 1, "{text}");
    }

    #[test]
    fn few_rows_stay_rows() {
        let text = check(
            "func.func @main(%a: tensor<9x4xf32>, %b: tensor<9x30xf32>) -> tensor<30x4xf32> {
            %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
                : (tensor<9x4xf32>, tensor<9x30xf32>) -> tensor<4x30xf32>
            %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x30xf32>) -> tensor<30x4xf32>
            return %1 : tensor<30x4xf32> }",
            1e-5,
        );
        assert!(text.contains("dot f32 4×30×9"), "{text}");
    }
}
