//! Reductions over sliding windows: sums (and with them cumulative sums), products, maxima and minima.

use meshwork_ir::build::{Direction, Window};
use meshwork_ir::op::MixedOp;
use meshwork_ir::{BlockId, Module, OpKind, ValueId, float};

use super::combiner::{Combiner, recognise};
use super::expand;
use super::patches::product;
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
    let extreme_with_holes =
        |c| matches!(c, Combiner::Maximum | Combiner::Minimum) && window.window_dilations.iter().any(|&d| d != 1);
    let known = |index: usize| {
        let combiner = body.and_then(|body| recognise(r.module(), body, index));
        let plain = combiner.is_some_and(|c| c != Combiner::Replace && !extreme_with_holes(c));
        site.cts[index].is_none() || (plain && !r.wants(site.x(count + index)))
    };
    if !(0..count).all(known) && !r.is_empty(site.x(0)) && !r.is_empty(site.y()) {
        return expand::reduce_window(r, site, &window);
    }
    for index in 0..count {
        let Some(ct) = site.cts[index] else { continue };
        let (x, init) = (site.x(index), site.x(count + index));
        if r.is_empty(x) || r.is_empty(ct) {
            continue;
        }
        let given = match body.and_then(|body| recognise(r.module(), body, index)) {
            Some(Combiner::Add) => sum(r, x, ct, &window)?,
            Some(Combiner::Maximum) => choose(r, x, init, ct, &window, Direction::Ge)?,
            Some(Combiner::Minimum) => choose(r, x, init, ct, &window, Direction::Le)?,
            Some(Combiner::Multiply) => product(r, x, init, ct, &window)?,
            // Written out above.
            Some(Combiner::Replace) | None => continue,
        };
        r.give(x, given)?;
    }
    Ok(())
}

/// Extent of `n` elements with `by - 1` holes between neighbors.
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
    x: ValueId,
    init: ValueId,
    ct: ValueId,
    window: &Window,
    better: Direction,
) -> Result<ValueId, GradError> {
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

/// The source that was scattered to the chosen element of each window: its cotangent is read from there, by a
/// reduction that takes the cotangent along with the element it chooses.
pub(super) fn select_and_scatter(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (x, source, init, ct) = (site.x(0), site.x(1), site.x(2), site.ct);
    let (select, scatter) = (r.module().body_of(site.id, 0), r.module().body_of(site.id, 1));
    let adds = scatter.is_some_and(|body| recognise(r.module(), body, 0) == Some(Combiner::Add));
    let better = select.and_then(|body| chooser(r.module(), body));
    let (true, Some(better)) = (adds, better) else {
        let why = "it does not add to the largest or smallest element of each window";
        return Err(GradError::no_rule(r.module(), site.id, why));
    };
    if r.wants(init) {
        let all = r.sum_all(ct)?;
        r.give(init, all)?;
    }
    if !r.wants(source) || r.is_empty(source) {
        return Ok(());
    }
    let rank = r.rank(x);
    let window = Window {
        sizes: site.i64s_or("window_dimensions", rank, 1),
        strides: site.i64s_or("window_strides", rank, 1),
        padding: site.pairs_or_zero("padding", rank),
        ..Window::default()
    };
    let elem = r.elem(x);
    let wants_most = matches!(better, Direction::Ge | Direction::Gt);
    let worst = if wants_most { float::lowest(elem) } else { float::highest(elem) };
    let (worst, zero) = (r.scalar(elem, worst)?, r.zero_of(ct)?);
    let chosen = r.reduce_window(&[x, ct], &[worst, zero], &window, |b, a| {
        let keep = b.compare(better, a[0], a[2])?;
        Ok([b.select(keep, a[0], a[2])?, b.select(keep, a[1], a[3])?])
    })?;
    Ok(r.give(source, chosen[1])?)
}

/// The comparison of the first with the second argument that a body returns.
fn chooser(module: &Module, body: BlockId) -> Option<Direction> {
    let op = module.op(module.def_op(*module.returned(body).first()?)?);
    if op.kind() != OpKind::Mixed(MixedOp::Compare) || op.operands() != module.block(body).args() {
        return None;
    }
    match op.enum_value("comparison_direction")? {
        "GE" => Some(Direction::Ge),
        "GT" => Some(Direction::Gt),
        "LE" => Some(Direction::Le),
        "LT" => Some(Direction::Lt),
        _ => None,
    }
}
