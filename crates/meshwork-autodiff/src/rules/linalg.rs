//! Fourier transforms, triangular systems, Cholesky factors and batch norms.

use meshwork_ir::attr::DotDims;
use meshwork_ir::build::{Direction, Triangle};
use meshwork_ir::{Attr, ElementType, Literal, Type, ValueId};

use crate::GradError;
use crate::reverse::{Reverse, Site};

type Out = Result<ValueId, GradError>;

pub(super) fn fft(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (x, ct) = (site.x(0), site.ct);
    let lengths = site.i64s_or("fft_length", 0, 0);
    if r.is_empty(x) || r.is_empty(ct) {
        return Ok(());
    }
    let given = match site.op.enum_value("fft_type") {
        // The matrix of the transform is symmetric.
        Some(kind @ ("FFT" | "IFFT")) => r.fft(ct, kind, &lengths)?,
        Some("RFFT") => {
            // The missing half of the spectrum has no cotangent.
            let mut high = vec![0; r.rank(ct)];
            let last = high.len() - 1;
            high[last] = r.dims(x)[last] - r.dims(ct)[last];
            let (zero, none) = (r.zero_of(ct)?, vec![0; high.len()]);
            let full = r.pad(ct, zero, &none, &high, &none)?;
            let wave = r.fft(full, "FFT", &lengths)?;
            r.real(wave)?
        }
        Some("IRFFT") => {
            let wave = r.fft(ct, "RFFT", &lengths)?;
            let wave = r.conj(wave)?;
            let weights = irfft_weights(r, wave, &lengths)?;
            r.multiply(wave, weights)?
        }
        _ => return Err(GradError::no_rule(r.module(), site.id, "its kind of transform is not known")),
    };
    Ok(r.give(x, given)?)
}

/// How often each frequency of the half spectrum `like` occurs in the whole one, over the number of elements.
fn irfft_weights(r: &mut Reverse<'_>, like: ValueId, lengths: &[i64]) -> Out {
    let (dims, elem) = (r.dims(like), r.elem(like));
    let count: i64 = lengths.iter().product();
    let n = lengths.last().copied().unwrap_or(1);
    let half = dims[dims.len() - 1];
    let weight = |k: i64| if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
    let weights: Vec<f64> = (0..half).map(|k| weight(k) / count as f64).collect();
    let real = elem.real_part();
    let literal = Literal::from_f64s([half], real, &weights).expect("one number per element");
    let weights = r.constant(&literal)?;
    let zero = r.zeros_like(weights)?;
    let weights = r.complex(weights, zero)?;
    let last = dims.len() as i64 - 1;
    Ok(r.broadcast_in_dim(weights, dims, &[last])?)
}

/// The product of matrices in the last two dimensions.
fn matmul(r: &mut Reverse<'_>, a: ValueId, b: ValueId) -> Out {
    let rank = r.rank(a) as i64;
    let batch: Vec<i64> = (0..rank - 2).collect();
    let dims = DotDims {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contract: vec![rank - 1],
        rhs_contract: vec![rank - 2],
    };
    Ok(r.dot_general(a, b, dims)?)
}

fn transposed(r: &mut Reverse<'_>, a: ValueId) -> Out {
    let mut order: Vec<i64> = (0..r.rank(a) as i64).collect();
    let rank = order.len();
    order.swap(rank - 1, rank - 2);
    Ok(r.transpose(a, &order)?)
}

/// `a` where row and column numbers compare so, else zero.
fn masked(r: &mut Reverse<'_>, a: ValueId, rows: Direction) -> Out {
    let dims = r.dims(a);
    let rank = dims.len() as i64;
    let ty = Type::tensor(dims, ElementType::I32);
    let (row, column) = (r.iota(ty.clone(), rank - 2)?, r.iota(ty, rank - 1)?);
    let keep = r.compare(rows, row, column)?;
    let zeros = r.zeros_like(a)?;
    Ok(r.select(keep, a, zeros)?)
}

pub(super) fn triangular_solve(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (a, b, x, ct) = (site.x(0), site.x(1), site.y(), site.ct);
    let shape = Triangle {
        left: site.op.flag("left_side"),
        lower: site.op.flag("lower"),
        unit_diagonal: site.op.flag("unit_diagonal"),
    };
    let turned = match site.op.enum_value("transpose_a") {
        Some("TRANSPOSE") => true,
        Some("ADJOINT") if r.elem(a).is_complex() => {
            return Err(GradError::no_rule(r.module(), site.id, "the adjoint of a complex matrix; conjugate it first"));
        }
        Some("ADJOINT") => true,
        _ => false,
    };
    let solved = r.triangular_solve(a, ct, shape, if turned { "NO_TRANSPOSE" } else { "TRANSPOSE" })?;
    r.give(b, solved)?;
    if r.wants(a) {
        // For op(a) x = b, the cotangent of op(a) is minus that of b times x transposed.
        let xt = transposed(r, x)?;
        let product = if shape.left { matmul(r, solved, xt)? } else { matmul(r, xt, solved)? };
        let product = if turned { transposed(r, product)? } else { product };
        let product = r.negate(product)?;
        let keep = match (shape.lower, shape.unit_diagonal) {
            (true, false) => Direction::Ge,
            (true, true) => Direction::Gt,
            (false, false) => Direction::Le,
            (false, true) => Direction::Lt,
        };
        let given = masked(r, product, keep)?;
        r.give(a, given)?;
    }
    Ok(())
}

/// With `a = l lᵀ`: `l⁻ᵀ φ(lᵀ l̄) l⁻¹`, made symmetric, where `φ` takes the lower triangle and half the diagonal.
pub(super) fn cholesky(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    if r.elem(site.ct).is_complex() {
        return Err(GradError::no_rule(r.module(), site.id, "the factor of a complex matrix"));
    }
    let lower = site.op.flag("lower");
    let (l, ct) = if lower { (site.y(), site.ct) } else { (transposed(r, site.y())?, transposed(r, site.ct)?) };
    let (l, ct) = (masked(r, l, Direction::Ge)?, masked(r, ct, Direction::Ge)?);
    let lt = transposed(r, l)?;
    let product = matmul(r, lt, ct)?;
    let (below, diagonal) = (masked(r, product, Direction::Gt)?, masked(r, product, Direction::Eq)?);
    let half = r.scale(diagonal, 0.5)?;
    let phi = r.add(below, half)?;
    let system = Triangle { left: true, lower: true, unit_diagonal: false };
    let inner = r.triangular_solve(l, phi, system, "TRANSPOSE")?;
    let given = r.triangular_solve(l, inner, Triangle { left: false, ..system }, "NO_TRANSPOSE")?;
    let mirrored = transposed(r, given)?;
    let both = r.add(given, mirrored)?;
    let given = r.scale(both, 0.5)?;
    Ok(r.give(site.x(0), given)?)
}

/// The feature dimension and epsilon of a batch norm.
fn norm_of(site: &Site) -> (i64, f64) {
    let epsilon = match site.op.attr("epsilon") {
        Some(Attr::Float(e, _)) => *e,
        _ => 0.0,
    };
    (site.op.int("feature_index").unwrap_or(0), epsilon)
}

pub(super) fn batch_norm_training(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (x, scale, offset) = (site.x(0), site.x(1), site.x(2));
    let (mean, variance) = (site.op.results()[1], site.op.results()[2]);
    let (feature, epsilon) = norm_of(site);
    if r.is_empty(x) {
        return Ok(());
    }
    if let Some(ct) = site.cts[0] {
        let given = r.batch_norm_grad(x, [scale, mean, variance], ct, epsilon, feature)?;
        r.give(x, given[0])?;
        r.give(scale, given[1])?;
        r.give(offset, given[2])?;
    }
    let dims = r.dims(x);
    let count = dims.iter().product::<i64>() / dims[feature as usize];
    if let Some(ct) = site.cts[1] {
        let ct = r.scale(ct, 1.0 / count as f64)?;
        let wide = r.broadcast_in_dim(ct, dims.iter().copied(), &[feature])?;
        r.give(x, wide)?;
    }
    if let Some(ct) = site.cts[2] {
        let ct = r.scale(ct, 2.0 / count as f64)?;
        let wide = r.broadcast_in_dim(ct, dims.iter().copied(), &[feature])?;
        let mean = r.broadcast_in_dim(mean, dims.iter().copied(), &[feature])?;
        let centred = r.subtract(x, mean)?;
        let given = r.multiply(wide, centred)?;
        r.give(x, given)?;
    }
    Ok(())
}

pub(super) fn batch_norm_inference(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let [x, scale, offset, mean, variance] = [0, 1, 2, 3, 4].map(|i| site.x(i));
    let (feature, epsilon) = norm_of(site);
    let (dims, ct) = (r.dims(x), site.ct);
    let others: Vec<i64> = (0..dims.len() as i64).filter(|&d| d != feature).collect();
    let shifted = {
        let epsilon = r.splat_like(variance, epsilon)?;
        r.add(variance, epsilon)?
    };
    let inverse = r.rsqrt(shifted)?;
    let factor = r.multiply(scale, inverse)?;
    let sum = r.sum(ct, &others)?;
    r.give(offset, sum)?;
    let wide = r.broadcast_in_dim(factor, dims.iter().copied(), &[feature])?;
    let given = r.multiply(ct, wide)?;
    r.give(x, given)?;
    let back = r.multiply(sum, factor)?;
    let back = r.negate(back)?;
    r.give(mean, back)?;
    let wide = r.broadcast_in_dim(mean, dims.iter().copied(), &[feature])?;
    let centred = r.subtract(x, wide)?;
    let weighted = r.multiply(ct, centred)?;
    let weighted = r.sum(weighted, &others)?;
    let given = r.multiply(weighted, inverse)?;
    r.give(scale, given)?;
    // The slope of rsqrt is -1/2 rsqrt(v) / v.
    let slope = r.multiply(weighted, factor)?;
    let slope = r.divide(slope, shifted)?;
    let slope = r.scale(slope, -0.5)?;
    Ok(r.give(variance, slope)?)
}
