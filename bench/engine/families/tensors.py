"""Arrays: contractions, stacks of small matrices, shapes, reductions of all axes, sorts, low precision."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, repeat, uniform

F = "tensors"
half, float16 = jnp.bfloat16, jnp.float16

# Contractions.


@problem(F, "matrix product state", (64, 16, 2, 16), (64, 16, 2, 16), split=(None,))
def product_state(a, b):
    step = lambda e, ab: (jnp.einsum("xy,xsu,ysv->uv", e, ab[0], ab[1]) / 16, None)
    return jax.lax.scan(step, jnp.eye(16), (a, b))[0]


problem(F, "tucker decomposition", (64, 64, 64), (64, 8), (64, 8), (64, 8))(
    lambda t, a, b, c: jnp.einsum("ijk,ia,jb,kc->abc", t, a, b, c))


@problem(F, "alternating factors", (48, 48, 48), (48, 8), (48, 8), (48, 8))
def alternating(t, a, b, c):
    def step(s):
        a, b, c = s
        solve = lambda m, g: jnp.linalg.solve(g + 1e-3 * jnp.eye(8), m.T).T
        a = solve(jnp.einsum("ijk,jr,kr->ir", t, b, c), (b.T @ b) * (c.T @ c))
        b = solve(jnp.einsum("ijk,ir,kr->jr", t, a, c), (a.T @ a) * (c.T @ c))
        return a, b, solve(jnp.einsum("ijk,ir,jr->kr", t, a, b), (a.T @ a) * (b.T @ b))
    return repeat(3, step, (a, b, c))[0]


problem(F, "contraction of four indices", (24, 24, 24, 24), (24, 24, 24, 24))(lambda a, b: jnp.einsum("iajb,jbkc->iakc", a, b))
problem(F, "four indices, crossed", (16, 16, 16, 16), (16, 16, 16, 16))(lambda a, b: jnp.einsum("abcd,bedf->aecf", a, b))
problem(F, "kronecker product", (32, 32), (32, 32))(jnp.kron)
problem(F, "diagonals of products", (512, 64, 64), (512, 64, 64), split=(0, 0))(lambda a, b: jnp.einsum("bij,bji->bi", a, b))
problem(F, "outer products", (256, 64), (256, 64), split=(0, 0))(lambda a, b: jnp.einsum("bi,bj->bij", a, b))
problem(F, "products with transposes", (1024, 256))(lambda a: (a.T @ a, a @ a.T))
problem(F, "one row by a matrix", (1, 2048), (2048, 2048), split=(None, 1))(jnp.matmul)
problem(F, "thin outer product", (2048, 8), (8, 2048))(jnp.matmul)
problem(F, "matrix by vector f64", uniform(2048, 2048, dtype="f8"), uniform(2048, dtype="f8"))(jnp.matmul)
problem(F, "stack by vectors", (512, 64, 64), (512, 64), split=(0, 0))(lambda a, x: jnp.einsum("bij,bj->bi", a, x))
problem(F, "complex f64 product", uniform(192, 192, dtype="f8"))(lambda a: (a + 1j * a.T) @ (a - 1j))
problem(F, "int64 product f64", ints(1000, 256, 256, dtype=np.int64), ints(1000, 256, 256, dtype=np.int64))(jnp.matmul)
problem(F, "bytes into words", ints(200, 512, 512, dtype=np.uint8), ints(200, 512, 512, dtype=np.uint8))(
    lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32))
problem(F, "bf16 batches", (64, 128, 64), (64, 64, 128), split=(0, 0))(lambda a, b: a.astype(half) @ b.astype(half))
problem(F, "bf16 by vector", (2048, 2048), (2048,))(lambda a, x: a.astype(half) @ x.astype(half))
problem(F, "powers of a matrix", uniform(128, 128))(lambda a: jnp.linalg.matrix_power(a / 64, 20))
problem(F, "chain of matrices", *[(200, 200)] * 5, split=(None,))(lambda *m: jnp.linalg.multi_dot(m))

# Stacks of small matrices.

spd = lambda a: a @ a.swapaxes(-1, -2) + jnp.eye(a.shape[-1])
problem(F, "2x2 products", (1 << 17, 2, 2), (1 << 17, 2, 2), split=(0, 0))(jnp.matmul)
problem(F, "3x3 inverses f64", uniform(1 << 14, 3, 3, dtype="f8"))(lambda a: jnp.linalg.inv(a + 3 * jnp.eye(3)))
problem(F, "3x3 determinants", (1 << 16, 3, 3))(jnp.linalg.det)
problem(F, "3x3 singular values", (2048, 3, 3))(lambda a: jnp.linalg.svd(a, compute_uv=False))
problem(F, "6x6 solves", (8192, 6, 6), (8192, 6), split=(0, 0))(lambda a, b: jnp.linalg.solve(spd(a), b[..., None]))
problem(F, "16x16 cholesky solves", (1024, 16, 16), (1024, 16), split=(0, 0))(
    lambda a, b: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(spd(a)), True), b[..., None]))
problem(F, "16x16 exponentials", (256, 16, 16))(lambda a: jax.scipy.linalg.expm(a / 8))
problem(F, "32x32 inverses", (512, 32, 32))(lambda a: jnp.linalg.inv(spd(a)))
problem(F, "triangular stacks", (256, 32, 32), (256, 32, 8), split=(0, 0))(
    lambda a, b: jax.scipy.linalg.solve_triangular(a + 8 * jnp.eye(32), b, lower=True))
problem(F, "4x4 eigenvalues", (4096, 4, 4))(lambda a: jnp.linalg.eigvalsh(a + a.swapaxes(1, 2)))
problem(F, "cross products", (1 << 18, 3), (1 << 18, 3), split=(0, 0))(jnp.cross)


@problem(F, "chains of frames", (4096, 8))
def frames(angle):
    def turn(f, a):
        c, s, z, o = jnp.cos(a), jnp.sin(a), jnp.zeros_like(a), jnp.ones_like(a)
        m = jnp.stack([c, -s, z, o, s, c, z, z, z, z, o, z, z, z, z, o], -1).reshape(-1, 4, 4)
        return f @ m, None
    return jax.lax.scan(turn, jnp.tile(jnp.eye(4), (4096, 1, 1)), angle.T)[0]


# One large problem of linear algebra.

problem(F, "cholesky f64 768", uniform(768, 768, dtype="f8"))(lambda a: jnp.linalg.cholesky(a @ a.T / 768 + jnp.eye(768)))
problem(F, "determinant 512", uniform(512, 512))(lambda a: jnp.linalg.slogdet(a + 8 * jnp.eye(512))[1])
problem(F, "least squares by qr", (1024, 64), (1024,), split=(0, 0))(lambda a, b: jnp.linalg.lstsq(a, b)[0])
problem(F, "complex solve", uniform(256, 256), uniform(256, 4))(
    lambda a, b: jnp.linalg.solve(a + 1j * a.T + 16 * jnp.eye(256), b.astype(jnp.complex64)))
problem(F, "complex eigenvalues", uniform(128, 128))(lambda a: jnp.linalg.eigvalsh(a + a.T + 1j * (a - a.T)))
problem(F, "square root of a matrix", uniform(64, 64), split=(None,))(lambda a: jax.scipy.linalg.sqrtm(a @ a.T / 64 + jnp.eye(64)).real)
problem(F, "toeplitz by fft", (4096,), (4096,), split=(None,))(
    lambda c, x: jnp.fft.irfft(jnp.fft.rfft(c, 8192) * jnp.fft.rfft(x, 8192))[:4096])
problem(F, "cholesky gradient", uniform(256, 256))(
    lambda a: jax.grad(lambda a: jnp.sum(jnp.sin(jnp.linalg.cholesky(a @ a.T / 256 + jnp.eye(256)))))(a))
problem(F, "eigenvectors gradient", uniform(64, 64), split=(None,))(
    lambda a: jax.grad(lambda a: jnp.sum(jnp.linalg.eigh(a + a.T + jnp.diag(jnp.arange(64.0)))[0] ** 3))(a))

# Reductions of all axes.

BOX = (64, 256, 128)
problem(F, "sum of first and last axes", BOX, split=(1,))(lambda x: x.sum((0, 2)))
problem(F, "maximum of the middle", BOX)(lambda x: x.max(1))
problem(F, "argmax of the middle", BOX)(lambda x: x.argmax(1))
problem(F, "argmax of rows of 8", (1 << 16, 8))(lambda x: x.argmax(1))
problem(F, "argmax of rows of 3", (1 << 17, 3))(lambda x: x.argmax(1))
problem(F, "softmax of rows of 10", (1 << 16, 10))(lambda x: jax.nn.softmax(x, 1))
problem(F, "running sums of rows of 8", (1 << 16, 8))(lambda x: jnp.cumsum(x, 1))
problem(F, "argmin of the first", (256, 8192), split=(1,))(lambda x: x.argmin(0))
problem(F, "log-sum-exp of the middle", BOX)(lambda x: jax.nn.logsumexp(x, 1))
problem(F, "softmax of the middle", BOX)(lambda x: jax.nn.softmax(x, 1))
problem(F, "softmax of the middle, rows of 500", (16, 100, 500))(lambda x: jax.nn.softmax(x, 1))
problem(F, "softmax of the middle, rows of 24", (512, 64, 24))(lambda x: jax.nn.softmax(x, 1))
problem(F, "log-softmax of the middle f64", lambda r: r.standard_normal((32, 256, 64)))(lambda x: jax.nn.log_softmax(x, 1))
problem(F, "softmax of the first", (512, 2048), split=(1,))(lambda x: jax.nn.softmax(x, 0))
problem(F, "least, greatest, where", (1 << 22,))(lambda x: (x.min(), x.max(), x.argmin(), x.argmax()))
problem(F, "any and all", ints(100, 4096, 1024))(lambda x: ((x == 50).any(1), (x >= 0).all(0)))
problem(F, "products of rows f64", uniform(4096, 256, dtype="f8"))(lambda x: jnp.prod(1 + 1e-3 * x, 1))
problem(F, "norms of small rows", (1 << 18, 5))(lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True))
problem(F, "sum bf16 rows", (4096, 1024))(lambda x: x.astype(half).sum(1))
problem(F, "sum of bytes by columns", ints(255, 8192, 512, dtype=np.uint8))(lambda x: x.astype(jnp.int32).sum(0))
problem(F, "counts of int64 f64", ints(1000, 1 << 20, dtype=np.int64))(lambda x: (x % 7 == 0).sum() + (x * x).max())
problem(F, "running log-sum-exp", (512, 1024))(lambda x: jax.lax.cumlogsumexp(x, 1))
problem(F, "running products", (1024, 1024))(lambda x: jnp.cumprod(1 + 1e-3 * x, 0))
problem(F, "running sums of halves", (512, 2048))(lambda x: jnp.cumsum(x.astype(half), 1, dtype=jnp.float32))
problem(F, "running sums int64 f64", ints(1000, 1 << 19, dtype=np.int64))(jnp.cumsum)

# Shapes.

problem(F, "five axes moved", (16, 24, 32, 8, 12))(lambda x: x.transpose(3, 1, 4, 0, 2))
problem(F, "five axes reversed", (8, 12, 16, 20, 24))(lambda x: x.T)
problem(F, "five axes moved f64", uniform(16, 24, 32, 8, 12, dtype="f8"))(lambda x: x.transpose(3, 1, 4, 0, 2))
problem(F, "six axes moved", (6, 8, 10, 12, 7, 9), split=(None,))(lambda x: x.transpose(5, 1, 3, 0, 4, 2))
problem(F, "transpose of bytes", ints(255, 2048, 2048, dtype=np.uint8))(lambda x: x.T)
problem(F, "transpose f64", uniform(1536, 1024, dtype="f8"))(lambda x: x.T * 2)
problem(F, "transpose of halves", (64, 256, 128))(lambda x: x.astype(half).transpose(0, 2, 1))
problem(F, "mirrored and rolled", (2048, 2048))(lambda x: x[:, ::-1] + jnp.roll(x, (7, 13), (0, 1)))
problem(F, "reflected edges", (8, 512, 512))(lambda x: jnp.pad(x, ((0, 0), (3, 3), (3, 3)), mode="reflect"))
problem(F, "repeated and tiled", (256, 256))(lambda x: jnp.repeat(x, 4, 0) + jnp.tile(x, (4, 1)))
problem(F, "interleaved", (1 << 20,), (1 << 20,), split=(0, 0))(lambda a, b: jnp.stack([a, b], -1).reshape(-1))
problem(F, "each three times", (1 << 18,))(lambda x: jnp.repeat(x, 3) * 2)
problem(F, "points with a one", (1 << 18, 3))(lambda x: jnp.concatenate([x, jnp.ones((1 << 18, 1))], -1))
problem(F, "rows of 5 padded", (1 << 16, 5))(lambda x: jnp.pad(x, ((0, 0), (1, 2))))
problem(F, "one of six", ints(6, 1 << 16))(lambda x: jax.nn.one_hot(x, 6))
problem(F, "one of five f64", ints(5, 1 << 16))(lambda x: jax.nn.one_hot(x, 5, dtype=jnp.float64))
problem(F, "one of ten, bytes", ints(10, 1 << 16, dtype=np.uint8))(lambda x: jax.nn.one_hot(x, 10, dtype=jnp.uint8))
problem(F, "rows of five products", (1 << 16,), (5,), split=(0, None))(lambda x, w: x[:, None] * w)
problem(F, "powers up to five", (1 << 16,))(lambda x: x[:, None] ** jnp.arange(6))
problem(F, "rows of 6 cut", (1 << 16, 6))(lambda x: x[:, 1:5])
problem(F, "rows of 12 less their first", (1 << 16, 12))(lambda x: x - x[:, :1])
problem(F, "every third", (1 << 21,), split=(None,))(lambda x: x[:-2:3] + x[2::3] * 2)
problem(F, "joined and cut", *[(256, 512)] * 8, split=(0,) * 8)(lambda *x: jnp.concatenate(x, 1)[:, 100:-100] * 2)
problem(F, "lower triangle", (2048, 2048))(lambda x: jnp.tril(x) + jnp.triu(x, 1).T)
problem(F, "columns picked", (4096, 512), ints(512, 100), split=(0, None))(lambda x, i: x[:, i])
problem(F, "rows shuffled", (16384, 64), ints(16384, 16384), split=(None, 0))(lambda x, i: x[i] * 2 + 1)
problem(F, "rows written", (16384, 64), ints(16384, 4096), (4096, 64), split=(None,))(lambda x, i, y: x.at[i].set(y))
problem(F, "pieces cut at places", (1024, 1024), ints(960, 256, 2), split=(None, 0))(
    lambda x, at: jax.vmap(lambda a: jax.lax.dynamic_slice(x, (a[0], a[1]), (32, 32)))(at))
problem(F, "pieces added at places", (1024, 1024), ints(960, 256, 2), (256, 32, 32), split=(None,))(
    lambda x, at, y: jax.lax.fori_loop(0, 256, lambda i, x: jax.lax.dynamic_update_slice(
        x, jax.lax.dynamic_slice(x, at[i], (32, 32)) + y[i], at[i]), x))

# Sorts.

problem(F, "sort f64", uniform(1 << 18, dtype="f8"))(jnp.sort)
problem(F, "sort bytes", ints(255, 1 << 20, dtype=np.uint8))(jnp.sort)
problem(F, "sort rows of 64", (16384, 64))(lambda x: jnp.sort(x, 1))
problem(F, "sort rows of 8", (65536, 8))(lambda x: jnp.sort(x, 1))
problem(F, "sort of halves", (64, 8192))(lambda x: jnp.sort(x.astype(half), 1))
problem(F, "sort the middle", (16, 512, 64))(lambda x: jnp.sort(x, 1))
problem(F, "argsort, greatest first", (1 << 17,))(lambda x: jnp.argsort(-x))
problem(F, "keys with three values", ints(1 << 20, 1 << 16), (1 << 16,), (1 << 16,), split=(None,))(
    lambda k, a, b: jax.lax.sort((k, a, b), num_keys=1))
problem(F, "partition around a rank", (256, 4096))(lambda x: jnp.partition(x, 100, 1)[:, :100].sum(1))
problem(F, "greatest eight of many", (1 << 20,))(lambda x: jax.lax.top_k(x, 8))
problem(F, "greatest of halves", (512, 4096))(lambda x: jax.lax.top_k(x.astype(half), 4))
problem(F, "bins by edges", uniform(1 << 18), uniform(100), split=(0,))(lambda x, e: jnp.digitize(x, jnp.sort(e)))
problem(F, "distinct numbers", ints(5000, 1 << 16), split=(None,))(lambda x: jnp.unique(x, size=5000, fill_value=-1))
problem(F, "chosen ones packed", (1 << 18,), split=(None,))(lambda x: x[jnp.nonzero(x > 0.5, size=1 << 17)[0]])
problem(F, "modes of rows", ints(16, 2048, 256))(lambda x: jax.vmap(lambda r: jnp.argmax(jnp.bincount(r, length=16)))(x))
problem(F, "percentiles of columns", (2000, 256), split=(1,))(lambda x: jnp.percentile(x, jnp.array([5.0, 50.0, 95.0]), axis=0))

# Low and high precision.

problem(F, "gelu bf16", (1024, 2048))(lambda x: jax.nn.gelu(x.astype(half)))
problem(F, "softmax f16", (2048, 1024))(lambda x: jax.nn.softmax(x.astype(float16)))
problem(F, "softmax f64", uniform(1024, 512, dtype="f8"))(jax.nn.softmax)
problem(F, "layer norm bf16", (4096, 512))(
    lambda x: (lambda y: (y - y.mean(-1, keepdims=True)) * jax.lax.rsqrt(y.var(-1, keepdims=True) + 1e-5))(x.astype(half)))
problem(F, "fp8 and back", (1024, 1024))(lambda x: x.astype(jnp.float8_e5m2).astype(jnp.float32) * 2)
problem(F, "scaled to bytes", (1024, 1024))(
    lambda x: jnp.clip(jnp.round(x / jnp.abs(x).max(1, keepdims=True) * 127), -127, 127).astype(jnp.int8))
problem(F, "powers and tangents f64", uniform(1 << 16, dtype="f8"))(lambda x: x ** 1.7 + jnp.tan(x) + jnp.arctan(3 * x))
problem(F, "erf f64", uniform(1 << 16, dtype="f8"))(lambda x: jax.scipy.special.erf(x) + jnp.log1p(x) + jnp.expm1(x))
problem(F, "words of 64 bits f64", ints(1 << 40, 1 << 18, dtype=np.int64), ints(1000, 1 << 18, dtype=np.int64, low=1), split=(0, 0))(
    lambda a, b: a // b + a % b)
problem(F, "division of words", ints(1 << 30, 1 << 20), ints(1000, 1 << 20, low=1), split=(0, 0))(lambda a, b: a // b)
problem(F, "floor and mod", (1 << 20,), (1 << 20,), split=(0, 0))(lambda a, b: jnp.floor_divide(a, b) + jnp.mod(a, b))
problem(F, "complex powers", uniform(256, 256), uniform(256, 256))(lambda a, b: jnp.abs((a + 1j * b) ** (0.5 + 0.1j)))
problem(F, "complex f64 exponentials", uniform(256, 256, dtype="f8"))(lambda x: jnp.exp(1j * x * jnp.arange(256)).sum(1))


@problem(F, "residual and norm bf16", (2048, 1024), (2048, 1024), (1024,), split=(0, 0))
def residual_norm(x, y, s):
    z = x.astype(half) + y.astype(half)
    r = jax.lax.rsqrt(jnp.mean(z.astype(jnp.float32) ** 2, -1, keepdims=True) + 1e-6)
    return z, z * r.astype(half) * s.astype(half)


problem(F, "softmax bf16, masked", (2048, 1024))(
    lambda x: jax.nn.softmax(jnp.where(jnp.arange(1024) < 700, x.astype(half), -jnp.inf)))
problem(F, "mean and variance of bf16 columns", (4096, 512))(
    lambda x: (lambda y: (y.mean(0), y.var(0)))(x.astype(half)))
problem(F, "rotations between clouds", (256, 64, 3), (256, 64, 3), split=(0, 0))(
    lambda a, b: (lambda u: u[0] @ u[2])(jnp.linalg.svd(a.swapaxes(1, 2) @ b)))
problem(F, "greatest products of pairs", (128, 128, 16))(lambda a: jnp.max(a[:, None] * a[None], axis=(1, 3)))
problem(F, "products of 3x3, associative", (512, 3, 3))(lambda x: jax.lax.associative_scan(lambda a, b: b @ a, x / 2))
problem(F, "3x3 with a ridge", (8192, 3, 3))(lambda m: m * m.swapaxes(1, 2) + 0.1 * jnp.eye(3))
problem(F, "products of 4x4, associative", (1024, 4, 4))(
    lambda m: jax.lax.associative_scan(lambda a, b: b @ a, jnp.eye(4) + 0.01 * m))
problem(F, "moments of points", (1 << 14, 3), (1 << 14,), split=(0, 0))(
    lambda p, m: m[:, None, None] * (jnp.sum(p * p, -1)[:, None, None] * jnp.eye(3) - p[:, :, None] * p[:, None, :]))
problem(F, "small images normalized", uniform(128, 32, 32, 3))(
    lambda x: jnp.where(x.max(-1, keepdims=True) > 0.5, (x - x.mean((1, 2), keepdims=True)) * 4, 0.0))
