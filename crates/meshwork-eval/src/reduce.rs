//! Reductions over whole dimensions, `map`, and the combining half of `scatter`.

use super::body::Body;
use super::fault::Fault;
use super::gather::scatter_positions;
use super::index::{each_index, position};
use super::machine::Machine;
use super::value::allocate;
use meshwork_ir::attr::ScatterDims;
use meshwork_ir::{ElementType, Literal, Scalar};

/// `stablehlo.reduce` of one or more operands of one shape; element types of the results in `elems`.
pub(crate) fn reduce(
    m: &mut Machine<'_>,
    inputs: &[&Literal],
    inits: &[&Literal],
    dimensions: &[i64],
    elems: &[ElementType],
    mut body: Body,
) -> Result<Vec<Literal>, Fault> {
    let dims = inputs[0].dims();
    let kept: Vec<usize> = (0..dims.len()).filter(|&d| !dimensions.contains(&(d as i64))).collect();
    let shape: Vec<i64> = kept.iter().map(|&d| dims[d]).collect();
    let mut out = elems.iter().map(|&e| allocate(&shape, e)).collect::<Result<Vec<_>, _>>()?;
    let first: Vec<Scalar> = inits.iter().map(|x| x.get(0)).collect();
    let n = inputs.len();
    let mut acc = first.repeat(out[0].len());
    each_index(dims, |at, index| {
        let to: Vec<i64> = kept.iter().map(|&d| index[d]).collect();
        let to = position(&shape, &to) * n;
        body.fold(m, &mut acc[to..to + n], &elements(inputs, at))
    })?;
    for (i, values) in acc.chunks_exact(n).enumerate() {
        out.iter_mut().zip(values).for_each(|(o, &v)| o.set(i, v));
    }
    Ok(out)
}

/// Element `i` of each tensor.
pub(crate) fn elements(tensors: &[&Literal], i: usize) -> Vec<Scalar> {
    tensors.iter().map(|x| x.get(i)).collect()
}

/// `stablehlo.map`: the body on corresponding elements.
pub(crate) fn map(
    m: &mut Machine<'_>,
    inputs: &[&Literal],
    elem: ElementType,
    mut body: Body,
) -> Result<Literal, Fault> {
    let mut out = allocate(inputs[0].dims(), elem)?;
    for i in 0..out.len() {
        let mut result = [Scalar::zero(elem)];
        body.call(m, &elements(inputs, i), &mut result)?;
        out.set(i, result[0]);
    }
    Ok(out)
}

/// `stablehlo.scatter`: folds the updates into the inputs, in row-major order of the updates.
pub(crate) fn scatter(
    m: &mut Machine<'_>,
    inputs: &[&Literal],
    indices: &Literal,
    updates: &[&Literal],
    dims: &ScatterDims,
    mut body: Body,
) -> Result<Vec<Literal>, Fault> {
    let mut out: Vec<Literal> = inputs.iter().map(|&x| x.clone()).collect();
    scatter_positions(inputs[0].dims(), indices, updates[0].dims(), dims, |to, from| {
        let mut acc: Vec<Scalar> = out.iter().map(|x| x.get(to)).collect();
        body.fold(m, &mut acc, &elements(updates, from))?;
        out.iter_mut().zip(acc).for_each(|(x, v)| x.set(to, v));
        Ok(())
    })?;
    Ok(out)
}
