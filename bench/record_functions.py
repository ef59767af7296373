#!/usr/bin/env python3
"""Records what JAX gives for the functions of crates/meshwork/tests/functions.rs.

  record_functions.py [OUT]     (default: crates/meshwork/tests/data/functions.npz)

Arrays are named CASE/x0, CASE/x1, … for arguments and CASE/y0, CASE/y1, … for results.
"""
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
import jax.scipy as jsp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax import lax, nn, random  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
F, I = np.float32, np.int32
RECORD = {}


def case(name, f, *xs):
    xs = [np.asarray(x) for x in xs]
    ys = f(*[jnp.asarray(x) for x in xs])
    ys = ys if isinstance(ys, (tuple, list)) else [ys]
    assert not any(k.startswith(name + "/") for k in RECORD), name
    for i, x in enumerate(xs):
        RECORD[f"{name}/x{i}"] = x
    for i, y in enumerate(ys):
        y = np.asarray(y)
        if y.dtype == jnp.bfloat16:
            y = y.astype(F)
        RECORD[f"{name}/y{i}"] = y


def normal(*shape, seed=0, scale=1.0):
    return F(scale * np.random.default_rng(seed + sum(shape)).standard_normal(shape))


def positive(*shape, seed=0):
    return np.abs(normal(*shape, seed=seed)) + F(0.3)


def integers(low, high, *shape, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape).astype(I)


def elementwise():
    x, y = normal(12), normal(12, seed=5)
    odd = np.array([-np.inf, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 7.0, np.inf, np.nan, 3.3, -8.0], F)
    ints, divisors = integers(-9, 10, 12), np.array([1, -2, 3, -4, 5, 6, -7, 8, 9, -1, 2, 3], I)
    for name in ["exp2", "sinc", "trunc", "deg2rad", "rad2deg", "arcsinh", "reciprocal", "square", "rint", "isinf",
                 "isneginf", "isposinf", "isfinite", "isnan", "sign"]:
        case(f"numpy.{name}", getattr(jnp, name), odd if name.startswith("is") or name in ("trunc", "rint") else x)
    for name in ["log2", "log10", "arccosh"]:
        case(f"numpy.{name}", getattr(jnp, name), positive(12) + 1)
    case("numpy.arctanh", jnp.arctanh, np.tanh(x))
    case("numpy.nan_to_num", jnp.nan_to_num, odd)
    for name in ["logaddexp", "hypot", "heaviside", "nextafter"]:
        case(f"numpy.{name}", getattr(jnp, name), x, y if name != "heaviside" else np.full(12, 0.5, F))
    case("numpy.floor_divide.floats", jnp.floor_divide, x * 5, y)
    case("numpy.mod.floats", jnp.mod, x * 5, y)
    case("numpy.floor_divide", jnp.floor_divide, ints, divisors)
    case("numpy.mod", jnp.mod, ints, divisors)
    case("lax.rem", lax.rem, ints, divisors)
    case("numpy.divmod", jnp.divmod, ints, divisors)
    case("numpy.isclose", jnp.isclose, odd, np.where(np.isfinite(odd), odd + F(1e-6), odd))
    case("numpy.allclose", jnp.allclose, x, x + F(1e-6))
    case("numpy.array_equal", jnp.array_equal, x, x)
    z = (x + 1j * y).astype(np.complex64)
    case("numpy.conj", jnp.conj, z)
    case("numpy.angle", jnp.angle, z)
    case("lax.reduce_precision", lambda x: lax.reduce_precision(x, 5, 3), x)
    case("numpy.bitwise_count", lambda x: lax.population_count(x), np.uint32(np.abs(ints)))
    case("lax.clz", lax.clz, np.uint32(np.abs(ints)))
    p, q = F(np.random.default_rng(1).uniform(0.05, 0.95, 12)), F(np.random.default_rng(2).uniform(0.05, 0.95, 12))
    zeros = p.copy()
    zeros[[0, 4]] = 0
    for name in ["xlogy", "xlog1py", "rel_entr", "kl_div"]:
        case(f"scipy.special.{name}", getattr(jsp.special, name), zeros, q)
    for name in ["logit", "entr", "expit"]:
        case(f"scipy.special.{name}", getattr(jsp.special, name), p)
    case("scipy.special.betaln", jsp.special.betaln, positive(12), positive(12, seed=3))
    case("scipy.special.polygamma", lambda n, x: jsp.special.polygamma(2, x), np.full(12, 2, F), positive(12))
    case("scipy.special.zeta", jsp.special.zeta, positive(12) + 2, positive(12, seed=3))
    for name in ["ndtr", "erfc"]:
        case(f"scipy.special.{name}", getattr(jsp.special, name), x * 2)
    case("nn.log1mexp", nn.log1mexp, positive(12))
    for name in ["log_sigmoid", "relu6", "selu", "hard_tanh", "hard_sigmoid", "hard_silu", "mish", "soft_sign", "gelu",
                 "silu", "softplus", "relu", "sigmoid"]:
        case(f"nn.{name}", getattr(nn, name), x * 3)
    case("nn.elu", lambda x: nn.elu(x, 0.7), x * 3)
    case("nn.celu", lambda x: nn.celu(x, 0.7), x * 3)
    case("nn.leaky_relu", lambda x: nn.leaky_relu(x, 0.1), x)
    case("nn.squareplus", lambda x: nn.squareplus(x, 4.0), x)
    m = normal(4, 6)
    case("nn.glu", lambda x: nn.glu(x, axis=-1), m)
    case("nn.standardize", lambda x: nn.standardize(x, axis=-1, epsilon=1e-5), m)
    case("nn.log_softmax", nn.log_softmax, m)
    case("nn.logsumexp", lambda x: nn.logsumexp(x, axis=-1), m)
    case("nn.one_hot", lambda x: nn.one_hot(x, 5, dtype=F), integers(0, 6, 4))


def shapes():
    x, v, w = normal(4, 6), normal(5), normal(3)
    case("numpy.transpose", jnp.transpose, normal(2, 3, 4))
    case("numpy.moveaxis", lambda x: jnp.moveaxis(x, 0, 2), normal(2, 3, 4))
    case("numpy.repeat", lambda x: jnp.repeat(x, 3, axis=1), x)
    case("numpy.repeat.counts", lambda x, n: jnp.repeat(x, n, axis=0, total_repeat_length=7), x, np.array([1, 0, 3, 2], I))
    case("numpy.tile", lambda x: jnp.tile(x, (1, 2)), x)
    case("numpy.roll", lambda x: jnp.roll(x, 2, axis=1), x)
    case("numpy.flip", lambda x: jnp.flip(x, 1), x)
    case("numpy.unstack", lambda x: jnp.unstack(x, axis=0), x)
    case("numpy.array_split", lambda x: jnp.array_split(x, 4, axis=1), x)
    case("numpy.split.at", lambda x: jnp.split(x, [2, 3], axis=1), x)
    case("lax.collapse", lambda x: lax.collapse(x, 1, 3), normal(2, 3, 4, 5))
    case("numpy.atleast_1d", jnp.atleast_1d, F(3))
    case("numpy.atleast_2d", jnp.atleast_2d, v)
    case("numpy.rot90", lambda x: jnp.rot90(x, 3), x)
    case("lax.broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 4, 3, 6), (1, 3)), x)
    case("lax.dynamic_slice_in_dim", lambda x, i: lax.dynamic_slice_in_dim(x, i, 3, 1), x, I(2))
    case("lax.dynamic_update_slice_in_dim", lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 1), x, normal(4, 2), I(3))
    case("lax.dynamic_index_in_dim", lambda x, i: lax.dynamic_index_in_dim(x, i, 0), x, I(2))
    case("lax.dynamic_update_index_in_dim", lambda x, u, i: lax.dynamic_update_index_in_dim(x, u, i, 0), x, normal(6), I(1))
    case("lax.index_in_dim", lambda x: lax.index_in_dim(x, -1, 1), x)
    case("numpy.vstack", lambda a, b: jnp.vstack([a, b]), v, v + 1)
    case("numpy.hstack", lambda a, b: jnp.hstack([a, b]), x, x + 1)
    case("numpy.broadcast_arrays", jnp.broadcast_arrays, normal(4, 1), normal(3))
    case("numpy.triu", lambda x: jnp.triu(x, 1), x)
    case("numpy.tril", lambda x: jnp.tril(x, -1), x)
    case("numpy.diag", lambda x: jnp.diag(x, 2), v)
    case("numpy.diag.matrix", lambda x: jnp.diag(x, -1), x)
    case("numpy.diagonal", lambda x: jnp.diagonal(x, 1, 1, 2), normal(2, 4, 5))
    case("numpy.trace", jnp.trace, x)
    case("numpy.outer", jnp.outer, v, w)
    case("numpy.kron", jnp.kron, normal(2, 3), normal(3, 2))
    case("numpy.vecdot", jnp.vecdot, normal(4, 3), normal(4, 3, seed=1))
    case("numpy.tensordot", lambda a, b: jnp.tensordot(a, b, 2), normal(2, 3, 4), normal(3, 4, 5))
    case("numpy.cross", jnp.cross, normal(4, 3), normal(4, 3, seed=1))
    case("numpy.tri", lambda: jnp.tri(3, 4, 1, dtype=F))
    case("numpy.tril_indices", lambda: jnp.tril_indices(4, -1))
    case("numpy.triu_indices", lambda: jnp.triu_indices(4, 1))
    case("numpy.meshgrid", lambda a, b: jnp.meshgrid(a, b, indexing="ij"), v, w)
    case("scipy.linalg.block_diag", jsp.linalg.block_diag, normal(2, 3), normal(1, 2))
    case("numpy.unravel_index", lambda i: jnp.unravel_index(i, (2, 3, 4)), integers(0, 24, 5))
    case("numpy.vander", lambda x: jnp.vander(x, 4), v)
    case("numpy.geomspace", lambda: jnp.geomspace(1.0, 100.0, 5, dtype=F))
    case("numpy.logspace", lambda: jnp.logspace(0.0, 2.0, 5, dtype=F))
    case("numpy.arange", lambda: jnp.arange(2, 11, 3, dtype=I))


def statistics():
    x, v = normal(4, 6), normal(9)
    case("numpy.std", lambda x: jnp.std(x, axis=1), x)
    case("numpy.var.sample", lambda x: jnp.var(x, axis=1, ddof=1), x)
    case("numpy.average", lambda x, w: jnp.average(x, axis=1, weights=w), x, positive(6))
    case("numpy.median", lambda x: jnp.median(x, axis=0), x)
    case("numpy.quantile", lambda x: jnp.quantile(x, 0.3, axis=1), x)
    case("numpy.percentile", lambda x: jnp.percentile(x, 80, axis=1), x)
    case("numpy.ptp", lambda x: jnp.ptp(x, axis=1), x)
    case("numpy.cov", jnp.cov, x)
    case("numpy.corrcoef", jnp.corrcoef, x)
    case("numpy.count_nonzero", lambda x: jnp.count_nonzero(x, axis=1).astype(I), integers(0, 2, 4, 6))
    case("numpy.bincount", lambda x: jnp.bincount(x, length=5).astype(I), integers(0, 7, 20))
    case("numpy.histogram", lambda x: jnp.histogram(x, bins=4, range=(-1.0, 1.0)), np.append(v, F(1.0)))
    case("numpy.diff", lambda x: jnp.diff(x, 2, axis=1), x)
    case("numpy.trapezoid", lambda x: jnp.trapezoid(x, dx=0.5), x)
    case("numpy.gradient", lambda x: jnp.gradient(x, 0.5, axis=1), x)
    case("numpy.polyval", jnp.polyval, normal(4), v)
    case("numpy.interp", jnp.interp, v * 2, np.sort(normal(5)), normal(5, seed=4))
    case("numpy.convolve", jnp.convolve, v, normal(4))
    case("numpy.correlate", lambda a, b: jnp.correlate(a, b, mode="full"), v, normal(4))
    case("numpy.polyfit", lambda x, y: jnp.polyfit(x, y, 2), v, normal(9, seed=8))
    s = np.sort(integers(0, 9, 8))
    case("numpy.searchsorted", lambda s, v: jnp.searchsorted(s, v).astype(I), s, integers(-1, 10, 2, 6))
    case("numpy.searchsorted.right", lambda s, v: jnp.searchsorted(s, v, side="right").astype(I), s, integers(-1, 10, 2, 6))
    case("numpy.digitize", lambda v, s: jnp.digitize(v, s).astype(I), v, np.sort(normal(4)))
    d = integers(0, 6, 3, 4)
    case("numpy.argwhere", lambda x: jnp.argwhere(x > 2, size=8, fill_value=-1).astype(I), d)
    case("numpy.nonzero", lambda x: [y.astype(I) for y in jnp.nonzero(x > 2, size=8, fill_value=-1)], d)
    case("numpy.unique", lambda x: [y.astype(I) for y in jnp.unique(x, return_counts=True, size=8, fill_value=-1)], d)
    case("numpy.intersect1d", lambda a, b: jnp.intersect1d(a, b, size=6, fill_value=-1), d, integers(2, 9, 7))
    case("numpy.union1d", lambda a, b: jnp.union1d(a, b, size=9, fill_value=-1), d, integers(2, 9, 7))
    case("numpy.isin", jnp.isin, d, np.array([1, 4], I))
    case("lax.sort_key_val", lambda k, v: lax.sort_key_val(k, v), v, np.arange(9, dtype=I))
    case("numpy.lexsort", lambda a, b: jnp.lexsort((a, b)).astype(I), integers(0, 3, 10), integers(0, 3, 10, seed=4))
    case("lax.associative_scan", lambda a, b: lax.associative_scan(
        lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b)), normal(7, 2), normal(7, 2, seed=1))
    case("lax.switch", lambda i, x: lax.switch(i, [jnp.sin, lambda x: x * 2, jnp.exp], x), I(1), v)
    case("lax.map", lambda x: lax.map(lambda r: (r * r).sum(), x), x)
    case("lax.fori_loop", lambda n, x: lax.fori_loop(1, n, lambda i, x: x * i, x), I(5), v)


def algebra():
    a, b = normal(4, 4), normal(4, 2)
    spd = np.float32(a @ a.T + 4 * np.eye(4))
    stack = normal(2, 3, 3) + 2 * np.eye(3, dtype=F)
    tall, broad = normal(5, 3), normal(3, 5)
    la, sla = jnp.linalg, jsp.linalg
    case("numpy.linalg.solve", la.solve, a, b)
    case("numpy.linalg.solve.vector", la.solve, a, normal(4))
    case("numpy.linalg.inv", la.inv, stack)
    case("numpy.linalg.det", la.det, stack)
    case("numpy.linalg.slogdet", la.slogdet, a)
    case("numpy.linalg.cholesky", la.cholesky, spd)
    case("scipy.linalg.lu", sla.lu, a)
    case("scipy.linalg.solve_triangular", lambda a, b: sla.solve_triangular(a, b, lower=True), spd, b)
    case("scipy.linalg.cho_solve", lambda a, b: sla.cho_solve(sla.cho_factor(a, lower=True), b), spd, b)
    case("numpy.linalg.qr", la.qr, tall)
    case("numpy.linalg.qr.broad", la.qr, broad)
    # Signs of vectors are free: what does not depend on them.
    case("numpy.linalg.svd", lambda a: [la.svd(a, compute_uv=False), a], tall)
    case("numpy.linalg.svd.broad", lambda a: [la.svd(a, compute_uv=False), a], broad)
    case("numpy.linalg.eigh", lambda a: [la.eigvalsh(a), a], spd)
    case("numpy.linalg.eigvalsh", la.eigvalsh, spd)
    case("numpy.linalg.eigvals", lambda a: jnp.sort(la.eigvals(a).real), a)
    case("numpy.linalg.lstsq", lambda a, b: la.lstsq(a, b)[0], tall, normal(5, 2))
    case("numpy.linalg.pinv", la.pinv, tall)
    case("numpy.linalg.matrix_rank", lambda a: la.matrix_rank(a).astype(I), np.outer(normal(4), normal(4)).astype(F))
    case("numpy.linalg.matrix_power", lambda a: la.matrix_power(a, 5), a)
    case("numpy.linalg.matrix_power.inverse", lambda a: la.matrix_power(a, -2), a)
    case("numpy.linalg.multi_dot", lambda *m: la.multi_dot(m), normal(2, 5), normal(5, 3), normal(3, 4))
    case("scipy.linalg.expm", sla.expm, a)
    case("scipy.linalg.expm.large", sla.expm, 4 * a)
    for p in [np.inf, -np.inf, 0, 1, 2, 3]:
        case(f"numpy.linalg.norm.{p}", lambda x: la.norm(x, p, axis=1), a)
    for p in ["fro", "nuc", 2, 1, np.inf]:
        case(f"numpy.linalg.norm.matrix.{p}", lambda x: la.norm(x, p), a)
    x = normal(2, 4, 6)
    case("numpy.fft.fft", lambda x: jnp.fft.fft(x), x.astype(np.complex64))
    case("numpy.fft.rfftn", lambda x: jnp.fft.rfftn(x, axes=(1, 2)), x)
    case("numpy.fft.irfftn", lambda x: jnp.fft.irfftn(jnp.fft.rfftn(x, axes=(1, 2)), axes=(1, 2)), x)
    case("numpy.fft.fftfreq", lambda: jnp.fft.fftfreq(7, 0.5, dtype=F))
    case("numpy.fft.rfftfreq", lambda: jnp.fft.rfftfreq(7, 0.5, dtype=F))
    case("numpy.fft.fftshift", lambda x: jnp.fft.fftshift(x, axes=(1, 2)), normal(2, 5, 4))
    case("numpy.fft.ifftshift", lambda x: jnp.fft.ifftshift(x, axes=(1, 2)), normal(2, 5, 4))


def networks():
    x, k = normal(2, 5, 6, 3), normal(3, 2, 3, 4)
    for padding in ["SAME", "VALID"]:
        case(f"lax.conv_transpose.{padding}", lambda x, k: lax.conv_transpose(x, k, (2, 3), padding), x, k)
    case("lax.conv_general_dilated_patches", lambda x: lax.conv_general_dilated_patches(
        x, (2, 3), (1, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")), x)
    case("lax.reduce_window.min", lambda x: lax.reduce_window(
        x, jnp.inf, lax.min, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), x)
    q, kv, v = normal(2, 5, 4, 8), normal(2, 5, 2, 8), normal(2, 5, 2, 8, seed=1)
    case("nn.dot_product_attention", lambda q, k, v: nn.dot_product_attention(q, k, v), q, kv, v)
    case("nn.dot_product_attention.causal", lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True), q, kv, v)
    mask = np.random.default_rng(3).uniform(size=(2, 1, 5, 5)) < 0.7
    mask |= np.eye(5, dtype=bool)
    case("nn.dot_product_attention.mask", lambda q, k, v, b, m: nn.dot_product_attention(
        q, k, v, bias=b, mask=m, scale=0.5), q, kv, v, normal(1, 4, 5, 5), mask)
    logits, labels = normal(4, 6), integers(0, 6, 4)
    shares = F(nn.softmax(normal(4, 6, seed=2)))
    for name in ["softmax_cross_entropy", "sigmoid_binary_cross_entropy", "l2_loss", "hinge_loss", "log_cosh",
                 "cosine_distance", "sigmoid_focal_loss", "squared_error"]:
        case(f"optax.{name}", getattr(optax, name), logits, shares)
    case("optax.softmax_cross_entropy_with_integer_labels", optax.softmax_cross_entropy_with_integer_labels, logits, labels)
    case("optax.kl_divergence", optax.kl_divergence, F(jax.nn.log_softmax(logits)), shares)
    case("optax.huber_loss", lambda a, b: optax.huber_loss(a, b, delta=0.5), logits, shares)
    case("optax.smooth_labels", lambda b: optax.smooth_labels(b, 0.1), shares)
    case("rms_norm", lambda x: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6), logits)
    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    case("batch_norm", lambda x: [(x - mean) / jnp.sqrt(var + 1e-5), mean, var], x)
    case("instance_norm", lambda x: (x - x.mean((1, 2), keepdims=True)) / jnp.sqrt(
        x.var((1, 2), keepdims=True) + 1e-5), x)
    g = normal(2, 3, 3, 6)
    h = g.reshape(2, 3, 3, 2, 3)
    case("group_norm", lambda g: ((h - h.mean((1, 2, 4), keepdims=True)) / np.sqrt(
        h.var((1, 2, 4), keepdims=True) + 1e-5)).reshape(g.shape), g)


def randoms():
    def draw(name, f, *more):
        case(f"random.{name}", lambda key, *more: f(random.wrap_key_data(key), *more), np.array([7, 42], np.uint32), *more)

    for dtype in [np.float16, jnp.bfloat16, np.float32, np.float64]:
        n = jnp.dtype(dtype).name
        for f in ["uniform", "normal", "exponential", "gumbel", "laplace", "logistic", "cauchy"]:
            draw(f"{f}.{n}", lambda k: getattr(random, f)(k, (3, 5), dtype))
        draw(f"truncated_normal.{n}", lambda k: random.truncated_normal(k, -1.0, 2.0, (3, 5), dtype))
    draw("split", lambda k: random.key_data(random.split(k, 3)))
    draw("fold_in", lambda k: random.key_data(random.fold_in(k, 5)))
    for dtype in [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32]:
        draw(f"randint.{np.dtype(dtype).name}", lambda k: random.randint(k, (7,), 3, 100, dtype))
    draw("randint.negative", lambda k: random.randint(k, (7,), -50, 1000, I))
    draw("randint.all", lambda k: random.randint(k, (7,), -128, 128, np.int8))
    draw("permutation", lambda k: random.permutation(k, 20).astype(I))
    draw("permutation.rows", lambda k, x: random.permutation(k, x, axis=0), normal(5, 2))
    # Defaults depend on whether there are 64-bit types.
    with jax.enable_x64(False):
        draw("choice", lambda k: random.choice(k, 9, (2, 3)).astype(I))
        draw("rademacher", lambda k: random.rademacher(k, (5,), I))
    draw("choice.without", lambda k: random.choice(k, 9, (4,), replace=False).astype(I))
    p = np.array([0.1, 0.5, 0.15, 0.25], F)
    draw("choice.p", lambda k, p: random.choice(k, 4, (6,), p=p).astype(I), p)
    draw("choice.p.without", lambda k, p: random.choice(k, 4, (3,), replace=False, p=p).astype(I), p)
    draw("categorical", lambda k, x: random.categorical(k, x, axis=-1).astype(I), normal(5, 4))
    draw("bernoulli", lambda k, p: random.bernoulli(k, p, (3, 4)), p)
    a = np.array([0.3, 1.0, 2.5, 7.0], F)
    for dtype in [np.float32, np.float64]:
        n = np.dtype(dtype).name
        draw(f"gamma.{n}", lambda k, a: random.gamma(k, a.astype(dtype), (2, 4), dtype), a)
        draw(f"loggamma.{n}", lambda k, a: random.loggamma(k, a.astype(dtype), (2, 4), dtype), a)
        draw(f"beta.{n}", lambda k, a: random.beta(k, a.astype(dtype), dtype(1.5), (2, 4), dtype), a)
    draw("chisquare", lambda k, a: random.chisquare(k, a, dtype=F), a)
    draw("t", lambda k, a: random.t(k, a, (4,), F), a)
    draw("dirichlet", lambda k, a: random.dirichlet(k, a, (2,), F), a)
    draw("weibull_min", lambda k: random.weibull_min(k, 2.0, 1.5, (5,), F))
    draw("lognormal", lambda k: random.lognormal(k, F(0.5), (5,), F))
    draw("pareto", lambda k: random.pareto(k, F(2.5), (5,), F))
    draw("rayleigh", lambda k: random.rayleigh(k, F(2.5), (5,), F))
    draw("geometric", lambda k: random.geometric(k, F(0.3), (5,), dtype=I))
    draw("poisson", lambda k, a: random.poisson(k, a, (4,), dtype=I), np.array([0.0, 0.5, 5.0, 50.0], F))
    draw("binomial", lambda k, n, p: random.binomial(k, n, p, (4,), F), np.array([10, 100, 1000, 50], F),
         np.array([0.3, 0.6, 0.2, 0.05], F))
    cov = np.array([[2.0, 0.5], [0.5, 1.0]], F)
    draw("multivariate_normal", lambda k, m, c: random.multivariate_normal(k, m, c, (3,), F), np.array([1.0, -1.0], F), cov)


def optimizers():
    start, target = normal(3, 4), normal(3, 4, seed=9)

    def steps(optimizer, w, target):
        state = optimizer.init(w)
        for _ in range(5):
            updates, state = optimizer.update(jax.grad(lambda w: ((w - target) ** 2).sum())(w), state, w)
            w = optax.apply_updates(w, updates)
        return w

    for name, optimizer in {
        "sgd": optax.sgd(0.05),
        "sgd.momentum": optax.sgd(0.05, momentum=0.9),
        "sgd.nesterov": optax.sgd(0.05, momentum=0.9, nesterov=True),
        "adam": optax.adam(0.05),
        "adamw": optax.adamw(0.05, weight_decay=0.1),
        "nadam": optax.nadam(0.05),
        "adamax": optax.adamax(0.05),
        "adabelief": optax.adabelief(0.05),
        "yogi": optax.yogi(0.05),
        "adagrad": optax.adagrad(0.05),
        "rmsprop": optax.rmsprop(0.05),
        "lion": optax.lion(0.05, weight_decay=0.1),
        "lamb": optax.lamb(0.05, weight_decay=0.1),
        "lars": optax.lars(0.05, weight_decay=0.1),
        "adafactor": optax.adafactor(0.05, min_dim_size_to_factor=3),
        "clip": optax.chain(optax.clip(0.5), optax.sgd(0.05)),
        "clip_by_global_norm": optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.05)),
        "add_decayed_weights": optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.05)),
        "ema": optax.chain(optax.ema(0.9), optax.sgd(0.05)),
        "scale_by_schedule": optax.chain(optax.scale_by_schedule(optax.linear_schedule(0.1, 0.01, 3)), optax.scale(-1)),
        "cosine_decay_schedule": optax.sgd(optax.cosine_decay_schedule(0.1, 4)),
        "exponential_decay": optax.sgd(optax.exponential_decay(0.1, 2, 0.5)),
        "join_schedules": optax.sgd(optax.join_schedules([optax.constant_schedule(0.1), optax.constant_schedule(0.01)], [2])),
        "masked": optax.chain(optax.masked(optax.set_to_zero(), False), optax.sgd(0.05)),
        "trace": optax.chain(optax.trace(0.9), optax.scale_by_learning_rate(0.05)),
    }.items():
        case(f"optax.{name}", lambda a, b: steps(optimizer, a, b), start, target)
    case("optax.incremental_update", lambda a, b: optax.incremental_update(a, b, 0.1), start, target)
    case("optax.global_norm", optax.global_norm, start)


if __name__ == "__main__":
    for part in [elementwise, shapes, statistics, algebra, networks, randoms, optimizers]:
        part()
    to = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "crates/meshwork/tests/data/functions.npz"
    np.savez_compressed(to, **RECORD)
    print(f"{len({k.rsplit('/', 1)[0] for k in RECORD})} cases, {to.stat().st_size} bytes")
