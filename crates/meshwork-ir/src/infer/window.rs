//! Sliding windows: their attributes, the shapes they make, and the operations that reduce over them.

use std::borrow::Cow;

use smol_str::format_smolstr;

use super::check::{dense_ints, list, shapes_agree};
use super::reduce::{accumulator, inputs_and_inits, predicate, reducer};
use super::{Inferred, OpTypes, Wrong};
use crate::{Attr, DYNAMIC, Dims, TensorType};

/// A window along each dimension.
pub(super) struct Window<'a> {
    sizes: Cow<'a, [i64]>,
    strides: Option<Cow<'a, [i64]>>,
    base_dilations: Option<Cow<'a, [i64]>>,
    window_dilations: Option<Cow<'a, [i64]>>,
    padding: Option<Vec<(i64, i64)>>,
}

impl<'a> Window<'a> {
    /// The window of these sizes with the operation's attributes, checked. The dilations are attributes of these
    /// names, where the operation has them.
    pub(super) fn new(
        t: &OpTypes<'a>,
        sizes: Cow<'a, [i64]>,
        dilations: Option<(&'static str, &'static str)>,
        padding: Option<Vec<(i64, i64)>>,
    ) -> Result<Window<'a>, Wrong> {
        for (d, &size) in sizes.iter().enumerate() {
            if size != DYNAMIC && size < 1 {
                return Err(t.bad_attr("window", format!("has size {size} in dimension {d}, but must be positive")));
            }
        }
        let rank = sizes.len();
        let strides = positive(t, "window_strides", rank)?;
        let (base_dilations, window_dilations) = match dilations {
            Some((base, window)) => (positive(t, base, rank)?, positive(t, window, rank)?),
            None => (None, None),
        };
        if let Some(p) = padding.as_ref().filter(|p| !p.is_empty() && p.len() != rank) {
            let detail = format!("has {} pairs, but needs {rank}, one per window dimension", p.len());
            return Err(t.bad_attr("padding", detail));
        }
        let padding = padding.filter(|p| !p.is_empty());
        Ok(Window { sizes, strides, base_dilations, window_dilations, padding })
    }

    /// How often the window fits along each dimension of `base`.
    pub(super) fn result_dims(&self, t: &OpTypes, base: &[i64]) -> Result<Dims, Wrong> {
        let at = |list: &Option<Cow<[i64]>>, d: usize| list.as_ref().map_or(1, |l| l[d]);
        base.iter()
            .enumerate()
            .map(|(d, &size)| {
                if size == DYNAMIC || self.sizes[d] == DYNAMIC {
                    return Ok(DYNAMIC);
                }
                let (low, high) = self.padding.as_ref().map_or((0, 0), |p| p[d]);
                let count = (|| {
                    let base = dilated(size, at(&self.base_dilations, d))?.checked_add(low)?.checked_add(high)?;
                    let window = dilated(self.sizes[d], at(&self.window_dilations, d))?;
                    let fits = base > 0 && window <= base;
                    Some(if fits { (base - window) / at(&self.strides, d) + 1 } else { 0 })
                })();
                count.ok_or_else(|| t.mismatch(format!("has a window beyond 2^63 elements in dimension {d}")))
            })
            .collect()
    }
}

fn dilated(size: i64, dilation: i64) -> Option<i64> {
    if size == 0 { Some(0) } else { (size - 1).checked_mul(dilation)?.checked_add(1) }
}

/// An optional list of positive numbers, one per window dimension; empty counts as absent.
fn positive<'a>(t: &OpTypes<'a>, attr: &'static str, rank: usize) -> Result<Option<Cow<'a, [i64]>>, Wrong> {
    let Some(values) = t.ints_opt(attr)?.filter(|v| !v.is_empty()) else { return Ok(None) };
    if values.len() != rank {
        let detail = format!("has {} entries, but needs {rank}, one per window dimension", values.len());
        return Err(t.bad_attr(attr, detail));
    }
    match values.iter().find(|&&v| v < 1) {
        Some(v) => Err(t.bad_attr(attr, format!("must be positive, but lists {v}"))),
        None => Ok(Some(values)),
    }
}

/// The `padding` attribute: pairs of low and high, from a constant of shape N x 2.
pub(super) fn padding(t: &OpTypes) -> Result<Option<Vec<(i64, i64)>>, Wrong> {
    let Some(attr) = t.attrs.get("padding") else { return Ok(None) };
    let pairs = match attr {
        Attr::Dense(d) if d.ty.rank() == 2 && d.ty.dims[1] == 2 => dense_ints(d),
        Attr::Dense(d) => {
            let detail = format!("must have the shape Nx2, but has {}", list(&d.ty.dims));
            return Err(t.bad_attr("padding", detail));
        }
        other => other.as_i64s(),
    };
    match pairs {
        Some(v) if v.len() % 2 == 0 => Ok(Some(v.chunks_exact(2).map(|p| (p[0], p[1])).collect())),
        _ => Err(t.bad_attr("padding", "must be a constant of integer pairs")),
    }
}

/// `reduce_window`.
pub(super) fn reduce_window(t: &OpTypes) -> Inferred {
    let (inputs, inits) = inputs_and_inits(t)?;
    let sizes = t.ints_of("window_dimensions", inputs[0].rank(), "input dimension")?;
    let window = Window::new(t, sizes.clone(), Some(("base_dilations", "window_dilations")), padding(t)?)?;
    if !t.regions.is_empty() {
        reducer(t, 0, "body", &inputs, &inits, &sizes)?;
    }
    let result =
        |(i, x): (usize, &&TensorType)| Ok(t.result(&window.result_dims(t, &x.dims)?, accumulator(t, 0, i, x)));
    inputs.iter().enumerate().map(result).collect()
}

/// `select_and_scatter`: `source` has one element per window of `operand`.
pub(super) fn select_and_scatter(t: &OpTypes) -> Inferred {
    t.operand_count(3)?;
    let x = t.tensor(0, "operand")?;
    let source = t.tensor(1, "source")?;
    let init = t.tensor(2, "init_value")?;
    if !t.regions.is_empty() {
        let args = t.args(0, "select")?;
        let near = |e: crate::ElementType| e == x.elem || e.is_float() && x.elem.is_float();
        if args.len() != 2 || args.iter().any(|a| a.rank() != Some(0) || !a.elem().is_some_and(near)) {
            let detail =
                format!("must take two scalars of the operand, {x}, but takes {}", super::type_list(args.iter()));
            return Err(t.bad_body("select", detail));
        }
        predicate(t, 0, "select")?;
        let element = TensorType::new([], source.elem);
        reducer(t, 1, "scatter", &[&element], &[init], &[])?;
    }
    let sizes = match t.ints_opt("window_dimensions")? {
        Some(s) => s,
        None => Cow::Borrowed(&[][..]),
    };
    if sizes.len() != x.rank() {
        let detail = format!("has {} entries, but needs {}, one per operand dimension", sizes.len(), x.rank());
        return Err(t.bad_attr("window_dimensions", detail));
    }
    let window = Window::new(t, sizes, None, padding(t)?)?;
    let windows = window.result_dims(t, &x.dims)?;
    let near = source.elem == x.elem || source.elem.is_float() && x.elem.is_float();
    if !near || !shapes_agree(&windows, &source.dims) {
        let expected = format_smolstr!("{}, one element per window", TensorType::new(windows, x.elem));
        return Err(t.bad_operand(1, "source", expected));
    }
    let elem = accumulator(t, 1, 0, x);
    Ok(t.result_like(x, elem).into())
}
