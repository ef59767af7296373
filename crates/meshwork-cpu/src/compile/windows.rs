//! Updates of one window of an array at a place that is data.

use meshwork_ir::build::{BuildError, Builder, Direction};
use meshwork_ir::op::{MixedOp, MovementOp};
use meshwork_ir::{ElementType, Module, OpId, OpKind, ValueId};

use super::expand::replace;
use crate::fuse::{self, Devices};

/// A scatter of one window becomes an update of a slice. What is not inside stays as it is: the update is then the slice itself.
pub(crate) fn scatter(module: &mut Module, op: OpId) -> bool {
    let Some(parts) = fuse::scatter_parts(module, op) else { return false };
    let &[target, indices, update] = module.op(op).operands() else { return false };
    let dims = module.ty(target).dims().to_vec();
    let (Some(elem), Some(index)) = (module.ty(target).elem(), module.ty(indices).elem()) else { return false };
    // Wider windows are cut at the rim; places that are always the same are parts of fused loops.
    let thin = parts.places.iter().all(|&d| parts.extent[d] == 1);
    let room = dims.iter().zip(&parts.extent).all(|(n, e)| n >= e && *n > 0);
    let in_order = parts.window.is_sorted();
    if !thin || !room || !in_order || fuse::window(module, op).is_some() || module.ty(update).elem() != Some(elem) {
        return false;
    }
    let (count, shape) = (parts.places.len() as i64, module.ty(update).dims().to_vec());
    let known: Vec<Option<(i64, i64)>> = places(module, indices, parts.places.len());
    replace(module, op, |b| {
        let list = b.reshape(indices, [count])?;
        let zero = b.splat([], index, 0.0)?;
        let mut starts = vec![zero; dims.len()];
        let mut inside: Option<ValueId> = None;
        for (i, &d) in parts.places.iter().enumerate() {
            let (at, last) = (i as i64, dims[d] - 1);
            let one = b.slice(list, &[at], &[at + 1], &[1])?;
            starts[d] = b.reshape(one, [])?;
            if known[i].is_some_and(|(low, high)| low >= 0 && high <= last) {
                continue;
            }
            let most = b.splat([], index, last as f64)?;
            let low = b.compare(Direction::Ge, starts[d], zero)?;
            let high = b.compare(Direction::Le, starts[d], most)?;
            let both = b.and(low, high)?;
            inside = Some(match inside {
                Some(before) => b.and(before, both)?,
                None => both,
            });
        }
        let mut new = update;
        if inside.is_some() || parts.combine.is_some() {
            let old = b.dynamic_slice(target, &starts, &parts.extent)?;
            let old = b.reshape(old, shape.iter().copied())?;
            if let Some(kind) = parts.combine {
                new = b.apply(kind, &[old, new])?;
            }
            if let Some(inside) = inside {
                new = b.select(inside, new, old)?;
            }
        }
        let new = b.reshape(new, parts.extent.iter().copied())?;
        Ok(Some(vec![b.dynamic_update_slice(target, new, &starts)?]))
    })
}

/// The same for complex numbers, before they are written with their parts: those of an array of which a slice is replaced are two arrays,
/// those of one that is scattered into are not.
pub(crate) fn scatter_of_complex(module: &mut Module, op: OpId) -> bool {
    let target = module.op(op).operands().first().and_then(|&v| module.ty(v).elem());
    target.is_some_and(ElementType::is_complex) && scatter(module, op)
}

/// What each of the `count` indices of one window can be, on any device.
fn places(module: &Module, indices: ValueId, count: usize) -> Vec<Option<(i64, i64)>> {
    let mut list = indices;
    while let Some(op) = module.def_op(list) {
        let data = module.op(op);
        match data.kind() {
            OpKind::Movement(MovementOp::Reshape | MovementOp::BroadcastInDim) if count == 1 => {
                list = data.operands()[0]
            }
            OpKind::Movement(MovementOp::Concatenate) if data.operands().len() == count => {
                return data.operands().iter().map(|&v| fuse::range(module, v, Devices::ALL)).collect();
            }
            _ => break,
        }
    }
    let own = if count == 1 { fuse::range(module, list, Devices::ALL) } else { None };
    vec![own; count]
}

/// A choice between an array and itself with a slice replaced: only the slice is chosen.
pub(crate) fn chosen_update(module: &mut Module, op: OpId) -> bool {
    let &[pred, yes, no] = module.op(op).operands() else { return false };
    let Some(pred) = one_truth(module, pred) else { return false };
    let (updated, other, is_yes) = if is_update_of(module, yes, no) {
        (yes, no, true)
    } else if is_update_of(module, no, yes) {
        (no, yes, false)
    } else {
        return false;
    };
    let Some(update_op) = module.def_op(updated) else { return false };
    let &[before, update, ref starts @ ..] = module.op(update_op).operands() else { return false };
    let (starts, sizes) = (starts.to_vec(), module.ty(update).dims().to_vec());
    let done = replace(module, op, |b| {
        let pick = |b: &mut Builder<'_>, new, old| -> Result<ValueId, BuildError> {
            if is_yes { b.select(pred, new, old) } else { b.select(pred, old, new) }
        };
        let base = if before == other { other } else { pick(b, before, other)? };
        let old = b.dynamic_slice(base, &starts, &sizes)?;
        let new = pick(b, update, old)?;
        Ok(Some(vec![b.dynamic_update_slice(base, new, &starts)?]))
    });
    if done {
        module.erase(update_op);
    }
    done
}

/// Whether `value` is made from `other` by updates of slices alone, and nothing else needs what they make.
fn is_update_of(module: &Module, value: ValueId, other: ValueId) -> bool {
    let mut at = value;
    for _ in 0..8 {
        let is_update = |op: &OpId| module.op(*op).kind() == OpKind::Movement(MovementOp::DynamicUpdateSlice);
        let Some(op) = module.def_op(at).filter(is_update) else { return false };
        if module.value(at).uses().len() != 1 {
            return false;
        }
        at = module.op(op).operands()[0];
        if at == other {
            return true;
        }
    }
    false
}

/// The truth value that `pred` is everywhere.
fn one_truth(module: &Module, pred: ValueId) -> Option<ValueId> {
    if module.ty(pred).dims().is_empty() {
        return Some(pred);
    }
    let data = module.op(module.def_op(pred)?);
    match data.kind() {
        OpKind::Movement(MovementOp::BroadcastInDim) => one_truth(module, data.operands()[0]),
        OpKind::Mixed(MixedOp::Convert) => {
            one_truth(module, data.operands()[0]).filter(|&v| module.ty(v).elem() == module.ty(pred).elem())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use meshwork_ir::{ElementType, Literal};

    use crate::compile::testing::check_on;
    use crate::library::testing::noise;

    fn at(values: &[i64]) -> Literal {
        Literal::from_i64s([values.len() as i64], ElementType::I32, values).unwrap()
    }

    #[test]
    fn windows_at_places_that_are_data() {
        for (elem, op) in
            [("f32", "set"), ("f32", "add"), ("i32", "maximum"), ("i1", "set"), ("bf16", "set"), ("f64", "multiply")]
        {
            let body = match op {
                "set" => "stablehlo.return %q".to_string(),
                op => format!("%s = stablehlo.{op} %p, %q : tensor<{elem}>\n stablehlo.return %s"),
            };
            let source = format!(
                "func.func @main(%x: tensor<5x7x3x{elem}>, %i: tensor<2xi32>, %u: tensor<7x{elem}>) -> tensor<5x7x3x{elem}> {{
                %r = \"stablehlo.scatter\"(%x, %i, %u) ({{
                ^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>):
                    {body} : tensor<{elem}>
                }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0, 2],
                    scatter_dims_to_operand_dims = [2, 0], index_vector_dim = 0>}}
                    : (tensor<5x7x3x{elem}>, tensor<2xi32>, tensor<7x{elem}>) -> tensor<5x7x3x{elem}>
                return %r : tensor<5x7x3x{elem}> }}"
            );
            let e = ElementType::from_text(elem).unwrap();
            for place in [[0, 0], [2, 4], [-1, 2], [1, 5], [3, 0], [1, 3]] {
                let text = check_on(&source, &[noise(&[5, 7, 3], e, 1), at(&place), noise(&[7], e, 2)], 1e-6);
                assert!(!text.contains("scatter"), "{text}");
            }
        }
    }

    #[test]
    fn only_the_slice_is_chosen() {
        let source = "func.func @main(%p: tensor<1xi32>, %x: tensor<40x50xf32>, %i: tensor<1xi32>, %u: tensor<1x50xf32>, %v: tensor<3x1xf32>)
                -> (tensor<40x50xf32>, tensor<40x50xf32>) {
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %p0 = stablehlo.reshape %p : (tensor<1xi32>) -> tensor<i32>
            %at = stablehlo.reshape %i : (tensor<1xi32>) -> tensor<i32>
            %c = stablehlo.compare GT, %p0, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %wide = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<40x50xi1>
            %y = stablehlo.dynamic_update_slice %x, %u, %at, %zero : (tensor<40x50xf32>, tensor<1x50xf32>, tensor<i32>, tensor<i32>) -> tensor<40x50xf32>
            %a = stablehlo.select %wide, %x, %y : tensor<40x50xi1>, tensor<40x50xf32>
            %s = stablehlo.dynamic_update_slice %a, %u, %zero, %at : (tensor<40x50xf32>, tensor<1x50xf32>, tensor<i32>, tensor<i32>) -> tensor<40x50xf32>
            %t = stablehlo.dynamic_update_slice %s, %v, %at, %at : (tensor<40x50xf32>, tensor<3x1xf32>, tensor<i32>, tensor<i32>) -> tensor<40x50xf32>
            %b = stablehlo.select %c, %t, %a : tensor<i1>, tensor<40x50xf32>
            return %a, %b : tensor<40x50xf32>, tensor<40x50xf32> }";
        let f = |dims: &[i64], seed| noise(dims, ElementType::F32, seed);
        for p in [0, 1] {
            for i in [0, 7, 39, 60, -3] {
                let args = [at(&[p]), f(&[40, 50], 1), at(&[i]), f(&[1, 50], 2), f(&[3, 1], 3)];
                let text = check_on(source, &args, 0.0);
                assert!(!text.contains("select 40"), "{text}");
            }
        }
    }
}
