//! Sorting along one dimension with any comparator, and `top_k`.

use super::body::Body;
use super::fault::Fault;
use super::index::{each_index, position};
use super::machine::Machine;
use super::scalar::{CompareType, Comparison, ScalarOp, apply};
use super::value::allocate;
use meshwork_ir::{Direction, Scalar};
use meshwork_ir::{ElementType, Literal};

/// `stablehlo.sort`: all operands are permuted in the same way, stably, so that the body never holds for a later
/// element against an earlier one. If the body is not an order, the result is some permutation.
pub(crate) fn sort(
    m: &mut Machine<'_>,
    inputs: &[&Literal],
    dim: usize,
    mut body: Body,
) -> Result<Vec<Literal>, Fault> {
    let dims = inputs[0].dims();
    let mut out: Vec<Literal> = inputs.iter().map(|&x| x.clone()).collect();
    let mut lines = dims.to_vec();
    lines[dim] = lines[dim].min(1);
    each_index(&lines, |_, start| {
        let at = |i: usize| {
            let mut index = start.to_vec();
            index[dim] = i as i64;
            position(dims, &index)
        };
        let order = merge_sort(dims[dim] as usize, &mut |a, b| {
            let args: Vec<Scalar> = inputs.iter().flat_map(|x| [x.get(at(a)), x.get(at(b))]).collect();
            let mut less = [Scalar::Bool(false)];
            body.call(m, &args, &mut less)?;
            Ok(less[0].as_bool())
        })?;
        for (to, from) in order.into_iter().enumerate() {
            out.iter_mut().zip(inputs).for_each(|(o, x)| o.set_element(at(to), x.element(at(from))));
        }
        Ok(())
    })?;
    Ok(out)
}

/// `chlo.top_k`: the `k` largest elements of each last-dimension line, largest first, and their indices. Equal
/// elements keep their order; NaN is larger than any number.
pub(crate) fn top_k(x: &Literal, k: usize, index: ElementType) -> Result<(Literal, Literal), Fault> {
    first_k(x, k, index, Direction::Gt)
}

/// The first `k` elements of each last-dimension line sorted so that neighbors compare by `direction`, and their
/// indices. Equal elements keep their order; NaN is larger than any number.
pub(crate) fn first_k(
    x: &Literal,
    k: usize,
    index: ElementType,
    direction: Direction,
) -> Result<(Literal, Literal), Fault> {
    let dims = x.dims();
    let Some((&n, outer)) = dims.split_last() else {
        return Err(Fault::invalid("top_k of a scalar"));
    };
    let n = n as usize;
    if k > n {
        return Err(Fault::invalid(format!("k = {k} is more than the {n} elements of the last dimension")));
    }
    let shape: Vec<i64> = outer.iter().copied().chain([k as i64]).collect();
    let (mut values, mut places) = (allocate(&shape, x.elem())?, allocate(&shape, index)?);
    let before = ScalarOp::compare(x.elem(), Comparison { direction, order: CompareType::TotalOrder });
    for line in 0..x.len().checked_div(n).unwrap_or(0) {
        let order =
            merge_sort(n, &mut |a, b| Ok(apply(&before, &[x.get(line * n + a), x.get(line * n + b)]).as_bool()))?;
        for (i, &from) in order[..k].iter().enumerate() {
            values.set_element(line * k + i, x.element(line * n + from));
            places.set(line * k + i, Scalar::Int(from as i64));
        }
    }
    Ok((values, places))
}

/// Stable bottom-up merge sort of the positions `0..n`; `before` need not be an order.
fn merge_sort(n: usize, before: &mut dyn FnMut(usize, usize) -> Result<bool, Fault>) -> Result<Vec<usize>, Fault> {
    let mut from: Vec<usize> = (0..n).collect();
    let mut to = vec![0; n];
    let mut width = 1;
    while width < n {
        for start in (0..n).step_by(2 * width) {
            let (middle, end) = ((start + width).min(n), (start + 2 * width).min(n));
            let (mut l, mut r) = (start, middle);
            for slot in &mut to[start..end] {
                // The right one goes first only if it must.
                let right = r < end && (l >= middle || before(from[r], from[l])?);
                let side = if right { &mut r } else { &mut l };
                *slot = from[*side];
                *side += 1;
            }
        }
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
    Ok(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{f64s, i64s};

    #[test]
    fn merge_sort_is_stable_and_survives_a_non_order() {
        let keys = [3, 1, 2, 1, 3, 0, 2];
        let order = merge_sort(7, &mut |a, b| Ok(keys[a] < keys[b])).unwrap();
        assert_eq!(order, [5, 1, 3, 2, 6, 0, 4]);
        let mut order = merge_sort(7, &mut |_, _| Ok(true)).unwrap();
        order.sort();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
        assert!(merge_sort(0, &mut |_, _| Ok(true)).unwrap().is_empty());
    }

    #[test]
    fn top_k_keeps_ties_in_order() {
        let x = f64s(&[1, 5], &[1.0, 3.0, f64::NAN, 3.0, 2.0]);
        let (values, places) = top_k(&x, 3, ElementType::I64).unwrap();
        assert_eq!(places, i64s(&[1, 3], &[2, 1, 3]));
        assert!(values.get(0).is_nan());
        assert_eq!(top_k(&x, 0, ElementType::I64).unwrap().1, i64s(&[1, 0], &[]));
        assert!(top_k(&x, 6, ElementType::I64).is_err());
    }
}
