//! Linear algebra and Fourier transforms.

use meshwork::prelude::*;
use meshwork::{fftfreq, linalg, rfftfreq};

use super::{Case, plain, smooth, whole};

/// Singular values, and the product of the factors: what does not depend on the signs of vectors.
fn svd(x: &[Tensor]) -> Vec<Tensor> {
    let (u, s, vh) = linalg::svd(&x[0]);
    let product = (u * s.expand_dims(-2)).matmul(vh);
    vec![s, product]
}

fn eigh(x: &[Tensor]) -> Vec<Tensor> {
    let (w, v) = linalg::eigh(&x[0]);
    let product = (&v * w.expand_dims(-2)).matmul(v.t());
    vec![w, product]
}

fn qr(x: &[Tensor]) -> Vec<Tensor> {
    let (q, r) = linalg::qr(&x[0]);
    vec![q, r]
}

pub(super) const CASES: &[Case] = &[
    smooth("numpy.linalg.solve", |x| vec![linalg::solve(&x[0], &x[1])]).near(1e-4),
    smooth("numpy.linalg.solve.vector", |x| vec![linalg::solve(&x[0], &x[1])]).near(1e-4),
    smooth("numpy.linalg.inv", |x| vec![linalg::inv(&x[0])]).near(1e-4),
    smooth("numpy.linalg.det", |x| vec![linalg::det(&x[0])]),
    smooth("numpy.linalg.slogdet", |x| {
        let (sign, log) = linalg::slogdet(&x[0]);
        vec![sign, log]
    }),
    smooth("numpy.linalg.cholesky", |x| vec![linalg::cholesky(&x[0])]),
    plain("scipy.linalg.lu", |x| {
        let (p, l, u) = linalg::lu(&x[0]);
        vec![p, l, u]
    }),
    smooth("scipy.linalg.solve_triangular", |x| vec![linalg::solve_triangular(&x[0], &x[1], true)]),
    smooth("scipy.linalg.cho_solve", |x| vec![linalg::cho_solve(&linalg::cho_factor(&x[0]), &x[1])]),
    smooth("numpy.linalg.qr", qr),
    plain("numpy.linalg.qr.broad", qr),
    smooth("numpy.linalg.svd", svd),
    smooth("numpy.linalg.svd.broad", svd),
    plain("numpy.linalg.eigh", eigh),
    smooth("numpy.linalg.eigvalsh", |x| vec![linalg::eigvalsh(&x[0])]),
    plain("numpy.linalg.eigvals", |x| vec![linalg::eigvals(&x[0]).real().sort(0)]),
    smooth("numpy.linalg.lstsq", |x| vec![linalg::lstsq(&x[0], &x[1])]).near(1e-4),
    smooth("numpy.linalg.pinv", |x| vec![linalg::pinv(&x[0])]).near(1e-4),
    plain("numpy.linalg.matrix_rank", |x| vec![linalg::matrix_rank(&x[0])]),
    smooth("numpy.linalg.matrix_power", |x| vec![linalg::matrix_power(&x[0], 5)]),
    plain("numpy.linalg.matrix_power.inverse", |x| vec![linalg::matrix_power(&x[0], -2)]).near(1e-3),
    smooth("numpy.linalg.multi_dot", |x| vec![linalg::multi_dot(&[&x[0], &x[1], &x[2]])]),
    smooth("scipy.linalg.expm", |x| vec![linalg::expm(&x[0])]),
    plain("scipy.linalg.expm.large", |x| vec![linalg::expm(&x[0])]).near(2e-4),
    smooth("numpy.linalg.norm.inf", |x| vec![linalg::norm_by(&x[0], f64::INFINITY, 1)]),
    smooth("numpy.linalg.norm.-inf", |x| vec![linalg::norm_by(&x[0], f64::NEG_INFINITY, 1)]),
    plain("numpy.linalg.norm.0", |x| vec![linalg::norm_by(&x[0], 0.0, 1)]),
    smooth("numpy.linalg.norm.1", |x| vec![linalg::norm_by(&x[0], 1.0, 1)]),
    smooth("numpy.linalg.norm.2", |x| vec![linalg::norm(&x[0], &[1])]),
    smooth("numpy.linalg.norm.3", |x| vec![linalg::norm_by(&x[0], 3.0, 1)]),
    smooth("numpy.linalg.norm.matrix.fro", |x| vec![linalg::matrix_norm(&x[0], "fro")]),
    smooth("numpy.linalg.norm.matrix.nuc", |x| vec![linalg::matrix_norm(&x[0], "nuc")]),
    smooth("numpy.linalg.norm.matrix.2", |x| vec![linalg::matrix_norm(&x[0], "2")]),
    smooth("numpy.linalg.norm.matrix.1", |x| vec![linalg::matrix_norm(&x[0], "1")]),
    smooth("numpy.linalg.norm.matrix.inf", |x| vec![linalg::matrix_norm(&x[0], "inf")]),
    plain("numpy.fft.fft", |x| vec![x[0].fft(1)]),
    plain("numpy.fft.rfftn", |x| vec![x[0].rfft(2)]),
    smooth("numpy.fft.irfftn", |x| vec![x[0].rfft(2).irfft(2, 6)]),
    whole("numpy.fft.fftfreq", |_| vec![fftfreq(7, 0.5, F32)]),
    whole("numpy.fft.rfftfreq", |_| vec![rfftfreq(7, 0.5, F32)]),
    smooth("numpy.fft.fftshift", |x| vec![x[0].fftshift(&[1, 2])]),
    smooth("numpy.fft.ifftshift", |x| vec![x[0].ifftshift(&[1, 2])]),
];
