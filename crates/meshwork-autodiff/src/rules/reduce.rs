//! Reductions over dimensions.

use meshwork_ir::ValueId;
use meshwork_ir::build::{Direction, Window};

use super::combiner::{Combiner, recognise};
use super::expand;
use crate::GradError;
use crate::reverse::{Reverse, Site};

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let count = site.op.results().len();
    let dims = site.i64s_or("dimensions", 0, 0);
    let body = r.module().body_of(site.id, 0);
    let known = |index: &usize| {
        let combiner = body.and_then(|body| recognise(r.module(), body, *index));
        let started = |c| matches!(c, Combiner::Maximum | Combiner::Minimum) && r.wants(site.x(count + index));
        site.cts[*index].is_none() || combiner.is_some_and(|c| c != Combiner::Replace && !started(c))
    };
    if !(0..count).all(|index| known(&index)) {
        return expand::reduce(r, site, &dims);
    }
    for index in 0..count {
        let Some(ct) = site.cts[index] else { continue };
        let combiner = body.and_then(|body| recognise(r.module(), body, index));
        let (x, init) = (site.x(index), site.x(count + index));
        let part = Part { x, init, out: site.op.results()[index], ct, dims: &dims };
        match combiner {
            Some(Combiner::Add) => add(r, &part)?,
            Some(Combiner::Multiply) => multiply(r, &part)?,
            Some(Combiner::Maximum | Combiner::Minimum) => choose(r, &part)?,
            // Written out above.
            Some(Combiner::Replace) | None => {}
        }
    }
    Ok(())
}

/// One operand of a reduction.
struct Part<'a> {
    x: ValueId,
    init: ValueId,
    out: ValueId,
    ct: ValueId,
    dims: &'a [i64],
}

impl Part<'_> {
    fn kept(&self, r: &Reverse<'_>) -> Vec<i64> {
        (0..r.rank(self.x) as i64).filter(|d| !self.dims.contains(d)).collect()
    }

    /// `v`, which has the shape of the result, stretched to the shape of the operand.
    fn stretch(&self, r: &mut Reverse<'_>, v: ValueId) -> Result<ValueId, GradError> {
        let (kept, dims) = (self.kept(r), r.dims(self.x));
        Ok(r.broadcast_in_dim(v, dims, &kept)?)
    }
}

fn add(r: &mut Reverse<'_>, part: &Part<'_>) -> Result<(), GradError> {
    if r.wants(part.x) {
        let wide = part.stretch(r, part.ct)?;
        r.give(part.x, wide)?;
    }
    if r.wants(part.init) {
        let all = r.sum_all(part.ct)?;
        r.give(part.init, all)?;
    }
    Ok(())
}

/// Elements that equal the result share its cotangent evenly.
fn choose(r: &mut Reverse<'_>, part: &Part<'_>) -> Result<(), GradError> {
    let wide = part.stretch(r, part.out)?;
    let here = r.compare(Direction::Eq, part.x, wide)?;
    let elem = r.elem(part.x);
    let ones = r.convert(here, elem)?;
    let count = r.sum(ones, part.dims)?;
    // The result may also be the initial value, equal to no element.
    let one = r.splat_like(count, 1.0)?;
    let count = r.maximum(count, one)?;
    let share = r.divide(part.ct, count)?;
    let share = part.stretch(r, share)?;
    let given = r.multiply(ones, share)?;
    Ok(r.give(part.x, given)?)
}

/// The slope of a product is the product of all other elements, taken as those before times those after, so that
/// zeros need no division.
fn multiply(r: &mut Reverse<'_>, part: &Part<'_>) -> Result<(), GradError> {
    if r.wants(part.init) {
        let one = {
            let elem = r.elem(part.init);
            r.scalar(elem, 1.0)?
        };
        let product = r.reduce(&[part.x], &[one], part.dims, |b, a| Ok([b.multiply(a[0], a[1])?]))?[0];
        let given = r.multiply(part.ct, product)?;
        let given = r.sum_all(given)?;
        r.give(part.init, given)?;
    }
    if !r.wants(part.x) || r.is_empty(part.x) {
        return Ok(());
    }
    let scaled = match r.splat_value(part.init) {
        Some(1.0) => part.ct,
        _ => {
            let dims = r.dims(part.ct);
            let init = r.broadcast_in_dim(part.init, dims, &[])?;
            r.multiply(part.ct, init)?
        }
    };
    let ct = part.stretch(r, scaled)?;
    // All reduced dimensions as one, the last.
    let order: Vec<i64> = part.kept(r).into_iter().chain(part.dims.iter().copied()).collect();
    let turned = r.transpose(part.x, &order)?;
    let shape = r.dims(turned);
    let kept = shape.len() - part.dims.len();
    let n: i64 = shape[kept..].iter().product();
    let line = r.reshape(turned, shape[..kept].iter().copied().chain([n]))?;
    let (before, after) = (products(r, line, n, Side::Before)?, products(r, line, n, Side::After)?);
    let others = r.multiply(before, after)?;
    let others = r.reshape(others, shape)?;
    let mut inverse = vec![0; order.len()];
    for (i, &d) in order.iter().enumerate() {
        inverse[d as usize] = i as i64;
    }
    let others = r.transpose(others, &inverse)?;
    let given = r.multiply(ct, others)?;
    Ok(r.give(part.x, given)?)
}

/// The elements on one side of an element.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Side {
    Before,
    After,
}

/// For each element of the last dimension, of extent `n`, the product of the elements on one side of it.
pub(super) fn products(r: &mut Reverse<'_>, x: ValueId, n: i64, side: Side) -> Result<ValueId, GradError> {
    let shape = r.dims(x);
    let last = shape.len() - 1;
    let (mut start, mut limit) = (vec![0; shape.len()], shape.clone());
    match side {
        Side::Before => limit[last] = n - 1,
        Side::After => start[last] = 1,
    }
    let rest = r.slice(x, &start, &limit, &vec![1; shape.len()])?;
    let mut window = Window { sizes: vec![1; shape.len()], padding: vec![(0, 0); shape.len()], ..Window::default() };
    window.sizes[last] = n;
    window.padding[last] = if side == Side::Before { (n, 0) } else { (0, n) };
    let elem = r.elem(x);
    let one = r.scalar(elem, 1.0)?;
    Ok(r.reduce_window(&[rest], &[one], &window, |b, a| Ok([b.multiply(a[0], a[1])?]))?[0])
}
