//! Rules of ops that change how elements are arranged: reshape, broadcast, transpose, bitcast.

use meshwork_mesh::gcd;

use super::builder::{PASS, REPLICATE};
use super::{Ctx, NoRule, RuleResult, dim, extent};

/// Transpose: factors in the order of the result's dimensions.
pub(super) fn transpose(ctx: &Ctx) -> RuleResult {
    let mut rule = ctx.builder();
    for (out, &from) in ctx.i64s("permutation").iter().enumerate() {
        rule.pass(&[Some(dim(from))], &[Some(out)], extent(ctx.operand(0), dim(from)));
    }
    rule.into()
}

/// Broadcast: an expanded dimension of extent 1 has a factor of its own, apart from the result dimension.
pub(super) fn broadcast_in_dim(ctx: &Ctx) -> RuleResult {
    let (input, output) = (ctx.operand(0), ctx.result(0));
    let mut rule = ctx.builder();
    let mut from = vec![None; output.len()];
    for (in_dim, &out_dim) in ctx.i64s("broadcast_dimensions").iter().enumerate() {
        if let Some(slot) = from.get_mut(dim(out_dim)) {
            *slot = Some(in_dim);
        }
    }
    for (out_dim, &size) in output.iter().enumerate() {
        let mut in_dim = from[out_dim];
        if in_dim.is_some_and(|d| extent(input, d) == 1 && size != 1) {
            rule.pass(&[in_dim], &[None], 1);
            in_dim = None;
        }
        rule.pass(&[in_dim], &[Some(out_dim)], size);
    }
    rule.into()
}

/// Bitcast: pointwise, apart from the minor dimension that one side has for the parts of an element.
pub(super) fn bitcast_convert(ctx: &Ctx) -> RuleResult {
    let (input, output) = (ctx.operand(0), ctx.result(0));
    let mut rule = ctx.builder();
    let common = input.len().min(output.len());
    rule.pointwise_by(&input[..common], |_| Some(PASS));
    if let Some(&parts) = output.get(common) {
        rule.factor(&[None], &[Some(common)], parts, REPLICATE);
    } else if let Some(&parts) = input.get(common) {
        rule.factor(&[Some(common)], &[None], parts, REPLICATE);
    }
    rule.into()
}

/// Reshape: walks both shapes from the major side and shares a factor wherever the running products agree.
///
/// While they disagree, the side that is behind gets factors of its own, sized to make them meet again if
/// possible. `6x35 -> 14x15` gives `([ij, ln])->([ik, mn]) {i=2, j=3, k=7, l=7, m=3, n=5}`.
pub(super) fn reshape(ctx: &Ctx) -> RuleResult {
    let (input, output) = (ctx.operand(0), ctx.result(0));
    if input.contains(&0) || output.contains(&0) {
        return NoRule::NoElements.into();
    }
    let mut rule = ctx.builder();
    let (mut from, mut to) = (Cursor::new(input), Cursor::new(output));
    while !from.is_done() || !to.is_done() {
        if from.skip_one() {
            rule.pass(&[Some(from.dim - 1)], &[None], 1);
            continue;
        }
        if to.skip_one() {
            rule.pass(&[None], &[Some(to.dim - 1)], 1);
            continue;
        }
        // Only shapes of different element counts end here, which the verifier rejects.
        if (from.is_done() && from.product <= to.product) || (to.is_done() && to.product <= from.product) {
            break;
        }
        let (next_in, next_out) = (from.rest, to.rest);
        let shared = gcd(next_in, next_out);
        if from.product == to.product {
            if shared > 1 {
                rule.pass(&[Some(from.dim)], &[Some(to.dim)], shared);
                from.take(shared);
                to.take(shared);
            } else {
                rule.pass(&[Some(from.dim)], &[None], next_in);
                from.take(next_in);
                rule.pass(&[None], &[Some(to.dim)], next_out);
                to.take(next_out);
            }
        } else if from.product < to.product {
            let size = diverged_factor(next_in, shared, from.product, to.product);
            rule.pass(&[Some(from.dim)], &[None], size);
            from.take(size);
        } else {
            let size = diverged_factor(next_out, shared, to.product, from.product);
            rule.pass(&[None], &[Some(to.dim)], size);
            to.take(size);
        }
    }
    rule.into()
}

/// The factor of the side that is behind: makes both meet, else keeps the common divisor for later.
fn diverged_factor(next: i64, shared: i64, behind: i64, ahead: i64) -> i64 {
    if ahead % behind == 0 && next % (ahead / behind) == 0 {
        ahead / behind
    } else if next > shared {
        next / shared
    } else {
        next
    }
}

/// A walk over the extents of one side; `product` is that of all factors taken so far.
struct Cursor<'a> {
    shape: &'a [i64],
    dim: usize,
    product: i64,
    /// What is left of the extent of `dim`.
    rest: i64,
}

impl<'a> Cursor<'a> {
    fn new(shape: &'a [i64]) -> Self {
        Cursor { shape, dim: 0, product: 1, rest: extent(shape, 0) }
    }

    fn is_done(&self) -> bool {
        self.dim >= self.shape.len()
    }

    /// Passes a dimension of extent 1.
    fn skip_one(&mut self) -> bool {
        let one = self.shape.get(self.dim) == Some(&1);
        if one {
            self.advance();
        }
        one
    }

    fn take(&mut self, size: i64) {
        self.product = self.product.saturating_mul(size);
        self.rest /= size.max(1);
        if self.rest <= 1 && !self.is_done() {
            self.advance();
        }
    }

    fn advance(&mut self) {
        self.dim += 1;
        self.rest = extent(self.shape, self.dim);
    }
}
