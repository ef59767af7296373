//! Reductions over sliding windows: `reduce_window` and `select_and_scatter`.

use super::fault::Fault;
use super::index::{View, Walk, extents, strides};
use super::program::Body;
use super::value::{allocate, filled};
use meshwork_ir::Scalar;
use meshwork_ir::{ElementType, Literal};

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

    /// Per dimension and window position, the offset in the input of each window element; `None` in the padding or
    /// between elements of a dilated input.
    fn taps(&self, dims: &[i64], out: &[i64]) -> Vec<Vec<Vec<Option<usize>>>> {
        let steps = strides(dims);
        let tap = |d: usize, at: i64, w: i64| {
            let dilated = at * self.strides[d] + w * self.window_dilations[d] - self.padding[d].0;
            let inside =
                dilated >= 0 && dilated % self.base_dilations[d] == 0 && dilated / self.base_dilations[d] < dims[d];
            inside.then(|| (dilated / self.base_dilations[d]) as usize * steps[d] as usize)
        };
        (0..dims.len())
            .map(|d| (0..out[d]).map(|at| (0..self.size[d]).map(|w| tap(d, at, w)).collect()).collect())
            .collect()
    }
}

/// Calls `visit(window number, input offset of each window element in row-major order)` for every window.
fn for_each_window(
    window: &Window,
    dims: &[i64],
    out: &[i64],
    mut visit: impl FnMut(usize, &[Option<usize>]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let taps = window.taps(dims, out);
    let mut walk = Walk::new(&extents(out), [&View::whole(out)]);
    let (mut places, mut next): (Vec<Option<usize>>, Vec<Option<usize>>) = (vec![], vec![]);
    while let Some([at]) = walk.next() {
        places.clear();
        places.push(Some(0));
        for (positions, &i) in taps.iter().zip(walk.index()) {
            let line = &positions[i];
            if let [Some(only)] = line[..] {
                for place in places.iter_mut().flatten() {
                    *place += only;
                }
                continue;
            }
            next.clear();
            for place in &places {
                next.extend(line.iter().map(|tap| Some((*place)? + (*tap)?)));
            }
            std::mem::swap(&mut places, &mut next);
        }
        visit(at as usize, &places)?;
    }
    Ok(())
}

/// `stablehlo.reduce_window`; places outside the input count as the initial value.
pub(crate) fn reduce_window(
    inputs: &[&Literal],
    inits: &[&Literal],
    window: &Window,
    elems: &[ElementType],
    body: &mut Body<'_>,
) -> Result<Vec<Literal>, Fault> {
    let dims = inputs[0].dims();
    let shape = window.result_dims(dims);
    let mut out = elems.iter().map(|&e| allocate(&shape, e)).collect::<Result<Vec<_>, _>>()?;
    let first: Vec<Scalar> = inits.iter().map(|x| x.get(0)).collect();
    if let (Some(f), 1) = (body.float_fold(), inputs.len()) {
        let values = super::nums::to_f64(inputs[0]);
        let init = first[0].as_f64();
        for_each_window(window, dims, &shape, |at, places| {
            let sum = places.iter().fold(init, |acc, place| f(acc, place.map_or(init, |i| values[i])));
            out[0].set(at, Scalar::Float(sum));
            Ok(())
        })?;
        return Ok(out);
    }
    let mut acc = first.clone();
    let mut x = first.clone();
    for_each_window(window, dims, &shape, |at, places| {
        acc.copy_from_slice(&first);
        for place in places {
            match place {
                Some(i) => x.iter_mut().zip(inputs).for_each(|(slot, input)| *slot = input.get(*i)),
                None => x.copy_from_slice(&first),
            }
            body.fold(&mut acc, &x)?;
        }
        for (o, &v) in out.iter_mut().zip(&acc) {
            o.set(at, v);
        }
        Ok(())
    })?;
    Ok(out)
}

/// `stablehlo.select_and_scatter`: in each window of `operand` picks an element with `select` and folds the source
/// element of that window into its place with `scatter`.
pub(crate) fn select_and_scatter(
    operand: &Literal,
    source: &Literal,
    init: &Literal,
    window: &Window,
    select: &mut Body<'_>,
    scatter: &mut Body<'_>,
) -> Result<Literal, Fault> {
    let mut out = filled(operand.dims(), init)?;
    for_each_window(window, operand.dims(), source.dims(), |at, places| {
        let mut chosen: Option<usize> = None;
        for &place in places.iter().flatten() {
            chosen = match chosen {
                None => Some(place),
                Some(best) => {
                    let mut keep = [Scalar::Bool(false)];
                    select.call(&[operand.get(best), operand.get(place)], &mut keep)?;
                    Some(if keep[0].as_bool() { best } else { place })
                }
            };
        }
        if let Some(place) = chosen {
            let mut acc = [out.get(place)];
            scatter.fold(&mut acc, &[source.get(at)])?;
            out.set(place, acc[0]);
        }
        Ok(())
    })?;
    Ok(out)
}
