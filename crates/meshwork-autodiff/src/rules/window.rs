//! Reductions over sliding windows: sums (and with them cumulative sums), maxima and minima.

use meshwork_ir::build::{Direction, Window};
use meshwork_ir::{BlockId, ValueId};

use super::combiner::{Combiner, recognise};
use crate::GradError;
use crate::reverse::{Reverse, Site};

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let count = site.op.results().len();
    let rank = r.rank(site.x(0));
    let window = Window {
        sizes: site.i64s_or("window_dimensions", rank, 1),
        strides: site.i64s_or("window_strides", rank, 1),
        base_dilations: site.i64s_or("base_dilations", rank, 1),
        window_dilations: site.i64s_or("window_dilations", rank, 1),
        padding: site.pairs_or_zero("padding", rank),
    };
    let body: Option<BlockId> = r.module().body_of(site.id, 0);
    for index in 0..count {
        let Some(ct) = site.cts[index] else { continue };
        let (x, init) = (site.x(index), site.x(count + index));
        if r.wants(init) {
            let why = "the initial value of the windows is differentiated; combine it afterwards instead";
            return Err(GradError::no_rule(r.module(), site.id, why));
        }
        if r.is_empty(x) || r.is_empty(ct) {
            continue;
        }
        let given = match body.and_then(|body| recognise(r.module(), body, index)) {
            Some(Combiner::Add) => sum(r, x, ct, &window)?,
            Some(Combiner::Maximum) => choose(r, site, x, init, ct, &window, Direction::Ge)?,
            Some(Combiner::Minimum) => choose(r, site, x, init, ct, &window, Direction::Le)?,
            Some(Combiner::Multiply | Combiner::Replace) | None => {
                let why = format!("result {index} is not a plain sum, maximum or minimum over windows");
                return Err(GradError::no_rule(r.module(), site.id, why));
            }
        };
        r.give(x, given)?;
    }
    Ok(())
}

/// Extent of `n` elements with `by - 1` holes between neighbours.
pub(super) fn dilated(n: i64, by: i64) -> i64 {
    if n == 0 { 0 } else { 1 + by * (n - 1) }
}

/// An element of the operand gets the cotangents of all windows that hold it: again a sum over windows, of the
/// cotangents set apart by the stride.
fn sum(r: &mut Reverse<'_>, x: ValueId, ct: ValueId, window: &Window) -> Result<ValueId, GradError> {
    let (from, out) = (r.dims(x), r.dims(ct));
    let (mut low, mut high) = (vec![], vec![]);
    for d in 0..from.len() {
        let line = dilated(from[d], window.base_dilations[d]);
        let size = dilated(window.sizes[d], window.window_dilations[d]);
        let before = size - 1 - window.padding[d].0;
        low.push(before);
        high.push(line + size - 1 - dilated(out[d], window.strides[d]) - before);
    }
    let between: Vec<i64> = window.strides.iter().map(|s| s - 1).collect();
    let zero = r.zero_of(ct)?;
    let spread = r.pad(ct, zero, &low, &high, &between)?;
    let back = Window {
        sizes: window.sizes.clone(),
        strides: window.base_dilations.clone(),
        window_dilations: window.window_dilations.clone(),
        ..Window::default()
    };
    Ok(r.reduce_window(&[spread], &[zero], &back, |b, a| Ok([b.add(a[0], a[1])?]))?[0])
}

/// The first element of each window that equals its extreme gets the cotangent.
fn choose(
    r: &mut Reverse<'_>,
    site: &Site,
    x: ValueId,
    init: ValueId,
    ct: ValueId,
    window: &Window,
    better: Direction,
) -> Result<ValueId, GradError> {
    if window.window_dilations.iter().any(|&d| d != 1) {
        let why =
            format!("maxima over windows with dilation {:?}; only windows without holes", window.window_dilations);
        return Err(GradError::no_rule(r.module(), site.id, why));
    }
    let zeros = vec![0; window.sizes.len()];
    let holes: Vec<i64> = window.base_dilations.iter().map(|d| d - 1).collect();
    // Holes of the operand are filled first, and their cotangents dropped afterwards.
    let base = if holes == zeros { x } else { r.pad(x, init, &zeros, &zeros, &holes)? };
    let zero = r.zero_of(ct)?;
    let plain = Window { base_dilations: vec![], window_dilations: vec![], ..window.clone() };
    let given = r.select_and_scatter(
        base,
        ct,
        zero,
        &plain,
        |b, a| Ok([b.compare(better, a[0], a[1])?]),
        |b, a| Ok([b.add(a[0], a[1])?]),
    )?;
    if holes == zeros {
        return Ok(given);
    }
    let limit = r.dims(given);
    Ok(r.slice(given, &zeros, &limit, &window.base_dilations)?)
}
