//! The slope of the scaled Bessel function of order one, which needs the one of order zero, as an expansion.

use meshwork_ir::build::{BuildError, Direction};
use meshwork_ir::{ElementType, ValueId};

use crate::reverse::Reverse;

/// `d/dx e^(-|x|) I₁(x) = e^(-|x|) I₀(x) - y (sign x + 1/x)` at `x`, where the function is `y`; one half at zero.
pub(super) fn i1e_slope(r: &mut Reverse<'_>, x: ValueId, y: ValueId) -> Result<ValueId, BuildError> {
    let given = r.elem(x);
    let elem = if given == ElementType::F64 { given } else { ElementType::F32 };
    let (x, y) = (r.cast(x, elem)?, r.cast(y, elem)?);
    let eps = if elem == ElementType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let (size, tiny) = (r.abs(x)?, r.splat_like(x, eps)?);
    let small = r.compare(Direction::Le, size, tiny)?;
    let (one, half) = (r.splat_like(x, 1.0)?, r.splat_like(x, 0.5)?);
    // Where the quotient is not used it is harmless, in derivatives of this one too.
    let safe = r.select(small, one, x)?;
    let (sign, inverse, zeroth) = (r.sign(safe)?, r.divide(one, safe)?, i0e(r, safe)?);
    let both = r.add(sign, inverse)?;
    let product = r.multiply(y, both)?;
    let slope = r.subtract(zeroth, product)?;
    let slope = r.select(small, half, slope)?;
    r.cast(slope, given)
}

/// `e^(-|x|) I₀(x)`.
fn i0e(r: &mut Reverse<'_>, x: ValueId) -> Result<ValueId, BuildError> {
    let (size, eight, one) = (r.abs(x)?, r.splat_like(x, 8.0)?, r.splat_like(x, 1.0)?);
    let low = r.minimum(size, eight)?;
    let quarter = r.scale(low, 0.25)?;
    let at = r.subtract(quarter, one)?;
    let near = series(r, NEAR, at)?;
    let high = r.maximum(size, eight)?;
    let sixteen = r.splat_like(x, 16.0)?;
    let ratio = r.divide(sixteen, high)?;
    let at = r.subtract(ratio, one)?;
    let (far, root) = (series(r, FAR, at)?, r.rsqrt(high)?);
    let far = r.multiply(far, root)?;
    let is_near = r.compare(Direction::Le, size, eight)?;
    r.select(is_near, near, far)
}

/// The sum of `terms` times Chebyshev polynomials of `x`, which is in `-1..1`, up to the precision of its type.
fn series(r: &mut Reverse<'_>, terms: &[f64], x: ValueId) -> Result<ValueId, BuildError> {
    let least = if r.elem(x) == ElementType::F64 { 0.0 } else { 1e-9 };
    let count = terms.iter().rposition(|t| t.abs() > least).map_or(0, |last| last + 1);
    let twice = r.add(x, x)?;
    let (mut next, mut after) = (r.zeros_like(x)?, r.zeros_like(x)?);
    for (i, &term) in terms[..count].iter().enumerate().rev() {
        let by = if i == 0 { x } else { twice };
        let (product, term) = (r.multiply(by, next)?, r.splat_like(x, term)?);
        let rest = r.subtract(term, after)?;
        (next, after) = (r.add(product, rest)?, next);
    }
    Ok(next)
}

/// `e^(-x) I₀(x)` for `x` from 0 to 8, in `x / 4 - 1`.
const NEAR: &[f64] = &[
    0.33839763720473803,
    -0.3046826723431984,
    0.17162090152220877,
    -0.09490109704804764,
    0.04930528423967071,
    -0.02373741480589947,
    0.010546460394594998,
    -0.004324309995050576,
    0.0016394756169413357,
    -0.0005763755745385824,
    0.00018850288509584165,
    -5.754195010082104e-05,
    1.6448448070728896e-05,
    -4.4167383584587505e-06,
    1.1173875391201037e-06,
    -2.670793853940612e-07,
    6.046995022541919e-08,
    -1.300025009986248e-08,
    2.6598237246823866e-09,
    -5.189795601635263e-10,
    9.675809035373237e-11,
    -1.726826291441556e-11,
    2.95505266312964e-12,
    -4.856446783111929e-13,
    7.676185498604936e-14,
    -1.1685332877993451e-14,
    1.715391285555133e-15,
    -2.431279846547955e-16,
    3.3307945188222384e-17,
    -4.4153416464793395e-18,
];

/// `√x e^(-x) I₀(x)` for `x` from 8 on, in `16 / x - 1`.
const FAR: &[f64] = &[
    0.4022452055070544,
    0.0033691164782556943,
    6.889758346916825e-05,
    2.8913705208347567e-06,
    2.0489185894690638e-07,
    2.266668990498178e-08,
    3.3962320257083865e-09,
    4.94060238822497e-10,
    1.1889147107846439e-11,
    -3.1499165279632416e-11,
    -1.3215811840447713e-11,
    -1.7941785315068062e-12,
    7.180124451383666e-13,
    3.8527783827421426e-13,
    1.54008621752141e-14,
    -4.150569347287222e-14,
    -9.554846698828307e-15,
    3.8116806693526224e-15,
    1.7725601330565263e-15,
    -3.425485619677219e-16,
    -2.8276239805165836e-16,
    3.461222867697461e-17,
    4.46562142029676e-17,
    -4.830504485944178e-18,
    -7.23318048787476e-18,
];
