//! Reductions over whole dimensions, `map`, and the combining half of `scatter`.

use super::fault::Fault;
use super::gather::scatter_positions;
use super::index::{View, Walk, extents, strides};
use super::program::Body;
use super::value::allocate;
use meshwork_ir::Scalar;
use meshwork_ir::attr::ScatterDims;
use meshwork_ir::{ElementType, Literal};

/// `stablehlo.reduce` of one or more operands of one shape; element types of the results in `elems`.
pub(crate) fn reduce(
    inputs: &[&Literal],
    inits: &[&Literal],
    dimensions: &[i64],
    elems: &[ElementType],
    body: &mut Body<'_>,
) -> Result<Vec<Literal>, Fault> {
    let dims = inputs[0].dims();
    let kept: Vec<usize> = (0..dims.len()).filter(|&d| !dimensions.contains(&(d as i64))).collect();
    let shape: Vec<i64> = kept.iter().map(|&d| dims[d]).collect();
    let mut out = elems.iter().map(|&e| allocate(&shape, e)).collect::<Result<Vec<_>, _>>()?;
    let n = inputs.len();
    let out_strides = strides(&shape);
    let mut to = View { offset: 0, strides: vec![0; dims.len()] };
    for (i, &d) in kept.iter().enumerate() {
        to.strides[d] = out_strides[i];
    }
    let len = out[0].len();
    let mut walk = Walk::new(&extents(dims), [&to]);
    if let (Some(f), 1) = (body.float_fold(), n) {
        let mut acc = vec![inits[0].get(0).as_f64(); len];
        let mut i = 0;
        while let Some([at]) = walk.next() {
            let slot = &mut acc[at as usize];
            *slot = f(*slot, inputs[0].get(i).as_f64());
            i += 1;
        }
        for (i, v) in acc.into_iter().enumerate() {
            out[0].set(i, Scalar::Float(v));
        }
        return Ok(out);
    }
    let first: Vec<Scalar> = inits.iter().map(|x| x.get(0)).collect();
    let mut acc = first.repeat(len);
    let mut x = first;
    let mut i = 0;
    while let Some([at]) = walk.next() {
        for (slot, input) in x.iter_mut().zip(inputs) {
            *slot = input.get(i);
        }
        let at = at as usize * n;
        body.fold(&mut acc[at..at + n], &x)?;
        i += 1;
    }
    for (i, values) in acc.chunks_exact(n).enumerate() {
        for (o, &v) in out.iter_mut().zip(values) {
            o.set(i, v);
        }
    }
    Ok(out)
}

/// `stablehlo.map`: the body on corresponding elements.
pub(crate) fn map(inputs: &[&Literal], dims: &[i64], elem: ElementType, body: &mut Body<'_>) -> Result<Literal, Fault> {
    let mut out = allocate(dims, elem)?;
    let mut args = vec![Scalar::Bool(false); inputs.len()];
    for i in 0..out.len() {
        for (a, x) in args.iter_mut().zip(inputs) {
            *a = x.get(i);
        }
        let mut result = [Scalar::Bool(false)];
        body.call(&args, &mut result)?;
        out.set(i, result[0]);
    }
    Ok(out)
}

/// `stablehlo.scatter`: folds the updates into the inputs, in row-major order of the updates.
pub(crate) fn scatter(
    mut inputs: Vec<Literal>,
    indices: &Literal,
    updates: &[&Literal],
    dims: &ScatterDims,
    body: &mut Body<'_>,
) -> Result<Vec<Literal>, Fault> {
    let input_dims = inputs[0].dims().to_vec();
    if inputs.len() == 1 && inputs[0].elem() == updates[0].elem() && body.is_second_argument() {
        let x = &mut inputs[0];
        scatter_positions(&input_dims, indices, updates[0].dims(), dims, |to, from| {
            x.set_element(to, updates[0].element(from));
            Ok(())
        })?;
        return Ok(inputs);
    }
    let mut acc = vec![Scalar::Bool(false); inputs.len()];
    let mut update = acc.clone();
    scatter_positions(&input_dims, indices, updates[0].dims(), dims, |to, from| {
        for i in 0..acc.len() {
            acc[i] = inputs[i].get(to);
            update[i] = updates[i].get(from);
        }
        body.fold(&mut acc, &update)?;
        for (x, &v) in inputs.iter_mut().zip(&acc) {
            x.set(to, v);
        }
        Ok(())
    })?;
    Ok(inputs)
}
