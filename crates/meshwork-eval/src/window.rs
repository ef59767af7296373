//! Reductions over sliding windows: `reduce_window` and `select_and_scatter`.

use super::body::Body;
use super::fault::Fault;
use super::index::{each_index, position};
use super::machine::Machine;
use super::reduce::elements;
use super::value::{allocate, filled};
use meshwork_ir::{ElementType, Literal, Scalar};

/// The windows of an op, one entry per dimension.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub size: Vec<i64>,
    pub strides: Vec<i64>,
    pub base_dilations: Vec<i64>,
    pub window_dilations: Vec<i64>,
    pub padding: Vec<(i64, i64)>,
}

impl Window {
    /// Number of window positions per dimension.
    pub(crate) fn result_dims(&self, dims: &[i64]) -> Vec<i64> {
        let dilated = |n: i64, by: i64| if n == 0 { 0 } else { (n - 1) * by + 1 };
        (0..dims.len())
            .map(|d| {
                let padded = self.padding[d].0 + dilated(dims[d], self.base_dilations[d]) + self.padding[d].1;
                let window = dilated(self.size[d], self.window_dilations[d]);
                if padded <= 0 || window > padded { 0 } else { (padded - window) / self.strides[d].max(1) + 1 }
            })
            .collect()
    }

    /// The position in an input of extents `dims` of element `within` of the window at `at`; `None` in the padding or
    /// between elements of a dilated input.
    fn place(&self, dims: &[i64], at: &[i64], within: &[i64]) -> Option<usize> {
        let mut index = vec![];
        for d in 0..dims.len() {
            let dilated = at[d] * self.strides[d] + within[d] * self.window_dilations[d] - self.padding[d].0;
            let i = dilated / self.base_dilations[d];
            if dilated < 0 || dilated % self.base_dilations[d] != 0 || i >= dims[d] {
                return None;
            }
            index.push(i);
        }
        Some(position(dims, &index))
    }
}

/// `stablehlo.reduce_window`; places outside the input count as the initial value.
pub(crate) fn reduce_window(
    m: &mut Machine<'_>,
    inputs: &[&Literal],
    inits: &[&Literal],
    window: &Window,
    elems: &[ElementType],
    mut body: Body,
) -> Result<Vec<Literal>, Fault> {
    let dims = inputs[0].dims();
    let shape = window.result_dims(dims);
    let mut out = elems.iter().map(|&e| allocate(&shape, e)).collect::<Result<Vec<_>, _>>()?;
    let first = elements(inits, 0);
    each_index(&shape, |to, at| {
        let mut acc = first.clone();
        each_index(&window.size, |_, within| match window.place(dims, at, within) {
            Some(i) => body.fold(m, &mut acc, &elements(inputs, i)),
            None => body.fold(m, &mut acc, &first),
        })?;
        out.iter_mut().zip(acc).for_each(|(o, v)| o.set(to, v));
        Ok(())
    })?;
    Ok(out)
}

/// `stablehlo.select_and_scatter`: in each window of `operand` picks an element with `select` and folds the source
/// element of that window into its place with `scatter`.
pub(crate) fn select_and_scatter(
    m: &mut Machine<'_>,
    [operand, source, init]: [&Literal; 3],
    window: &Window,
    mut select: Body,
    mut scatter: Body,
) -> Result<Literal, Fault> {
    let mut out = filled(operand.dims(), init)?;
    each_index(source.dims(), |from, at| {
        let mut chosen: Option<usize> = None;
        each_index(&window.size, |_, within| {
            let Some(place) = window.place(operand.dims(), at, within) else { return Ok(()) };
            if let Some(best) = chosen {
                let mut keep = [Scalar::Bool(false)];
                select.call(m, &[operand.get(best), operand.get(place)], &mut keep)?;
                if keep[0].as_bool() {
                    return Ok(());
                }
            }
            chosen = Some(place);
            Ok(())
        })?;
        if let Some(place) = chosen {
            let mut acc = [out.get(place)];
            scatter.fold(m, &mut acc, &[source.get(from)])?;
            out.set(place, acc[0]);
        }
        Ok(())
    })?;
    Ok(out)
}
