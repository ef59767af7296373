"""Dense linear algebra, one matrix and stacks of them."""
import jax
import jax.numpy as jnp
import numpy as np

from . import problem, repeat

F = "algebra"


def definite(n, dtype=np.float32):
    def make(r):
        a = r.random((n, n), dtype=np.float32)
        return (a @ a.T / n + np.eye(n, dtype=np.float32)).astype(dtype)
    return make


def stack(count, n):
    def make(r):
        a = r.random((count, n, n), dtype=np.float32)
        return a @ a.swapaxes(1, 2) / n + np.eye(n, dtype=np.float32)
    return make


def applied(values, vectors, others=None):
    """What a matrix given by its eigenvectors (or singular vectors) makes of a vector of ones: it does not depend on their
    signs, nor on the vectors that were chosen for values that are nearly equal."""
    others = vectors.swapaxes(-1, -2) if others is None else others
    return (vectors * (values * others.sum(-1))[..., None, :]).sum(-1)


problem(F, "cholesky 1024", definite(1024))(jnp.linalg.cholesky)
problem(F, "lu solve 1024", definite(1024))(lambda a: jnp.linalg.solve(a, a[:, :64]))
problem(F, "qr 1024x512", definite(1024))(lambda a: jnp.linalg.qr(a[:, :512])[0])
problem(F, "svd 256", definite(256))(lambda a: jnp.linalg.svd(a)[1])
problem(F, "eigh 256", definite(256))(lambda a: jnp.linalg.eigh(a)[0])
problem(F, "inverse 512", definite(512))(jnp.linalg.inv)
problem(F, "exponential 128", definite(128))(jax.scipy.linalg.expm)
problem(F, "cholesky 64 x 128", stack(64, 128))(jnp.linalg.cholesky)
problem(F, "solve 64 x 128", stack(64, 128))(lambda a: jnp.linalg.solve(a, a[..., :8]))
problem(F, "inverse 8192 x 4", stack(8192, 4))(jnp.linalg.inv)
problem(F, "determinant 4096 x 8", stack(4096, 8))(jnp.linalg.det)
problem(F, "eigh 512 x 16", stack(512, 16))(lambda a: jnp.linalg.eigh(a)[0])
problem(F, "eigenvectors 304", definite(304))(lambda a: applied(*jnp.linalg.eigh(a)))
problem(F, "eigenvectors f64 200", definite(200, np.float64))(lambda a: applied(*jnp.linalg.eigh(a)))
problem(F, "eigenvectors 1024 x 8", stack(1024, 8))(lambda a: applied(*jnp.linalg.eigh(a)))
problem(F, "singular values 1024 x 6", stack(1024, 6))(lambda a: jnp.linalg.svd(a)[1])
problem(F, "general eigenvalues 128", (128, 128))(lambda a: jnp.abs(jnp.linalg.eig(a)[0]))
problem(F, "pseudoinverse 256x128", (256, 128))(jnp.linalg.pinv)
problem(F, "cholesky 8192 x 8", stack(8192, 8))(jnp.linalg.cholesky)
problem(F, "qr 64 x 128x32", (64, 128, 32))(lambda a: jnp.linalg.qr(a)[1])


problem(F, "lu solve f64 512", definite(512, np.float64))(lambda a: jnp.linalg.solve(a, a[:, :8]))
problem(F, "qr f64 504x300", (504, 300))(lambda a: jnp.linalg.qr(a.astype(jnp.float64))[1])
problem(F, "solve 4096 x 8", stack(4096, 8))(lambda a: jnp.linalg.solve(a, a[..., :1]))
problem(F, "solve 2048 x 12", stack(2048, 12))(lambda a: jnp.linalg.solve(a, a[..., :3]))
problem(F, "qr 4096 x 12x4", (4096, 12, 4))(lambda a: jnp.linalg.qr(a)[1])
problem(F, "general vectors 96", (96, 96))(lambda a: jnp.abs(jnp.linalg.eig(a)[1]))


@problem(F, "singular vectors 304x200", (304, 200))
def singular_vectors(a):
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return applied(s, u, v)


@problem(F, "triangular solve 1024", definite(1024))
def triangular(a):
    return jax.scipy.linalg.solve_triangular(a, a[:, :256], lower=True)


@problem(F, "least squares 2048x64", (2048, 64), (2048,), split=(0, 0))
def squares(a, b):
    return jnp.linalg.solve(a.T @ a, a.T @ b)


@problem(F, "gaussian process 512", (512, 8), (512,))
def gaussian(x, y):
    d = jnp.sum((x[:, None] - x[None]) ** 2, -1)
    k = jnp.exp(-0.5 * d) + 0.1 * jnp.eye(512)
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(k), True), y)


problem(F, "eight vectors, ten rounds of qr", (512, 512), (512, 8))(
    lambda a, x: repeat(10, lambda x: jnp.linalg.qr((a + a.T) @ x)[0], x))
problem(F, "singular values 256 x 20x12", (256, 20, 12))(lambda a: jnp.linalg.svd(a, compute_uv=False))
