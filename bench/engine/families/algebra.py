"""Dense linear algebra, one matrix and stacks of them."""
import jax
import jax.numpy as jnp
import numpy as np

from . import problem

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
