"""Products of matrices of all types and sizes, and nests over pairs."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, uniform

F = "products"
low = lambda dtype: lambda a, b: a.astype(dtype) @ b.astype(dtype)


def typed(name, *shape):
    import ml_dtypes
    return lambda r: r.standard_normal(shape, dtype=np.float32).astype(getattr(ml_dtypes, name, None) or name)


problem(F, "f32 1024", (1024, 1024), (1024, 1024))(jnp.matmul)
problem(F, "f64 512", uniform(512, 512, dtype="f8"), uniform(512, 512, dtype="f8"))(jnp.matmul)
problem(F, "bf16 1024", (1024, 1024), (1024, 1024))(low(jnp.bfloat16))
problem(F, "bf16 into f32 1024", (1024, 1024), (1024, 1024))(
    lambda a, b: jnp.matmul(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32))
problem(F, "f16 1024", (1024, 1024), (1024, 1024))(low(jnp.float16))
problem(F, "f16 into f32 512x768", (512, 1024), (1024, 768))(
    lambda a, b: jnp.matmul(a.astype(jnp.float16), b.astype(jnp.float16), preferred_element_type=jnp.float32))
problem(F, "f32 384", (384, 384), (384, 384))(jnp.matmul)
problem(F, "int8 into int32 1024", ints(100, 1024, 1024, dtype=np.int8), ints(100, 1024, 1024, dtype=np.int8))(
    lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32))
problem(F, "int32 256", ints(100, 256, 256), ints(100, 256, 256))(jnp.matmul)
problem(F, "complex 256", uniform(256, 256), uniform(256, 256))(lambda a, b: (a + 1j * b) @ (b - 1j * a))
problem(F, "complex 8 x 100 transposed", (8, 100, 130), (8, 90, 130), split=(0, 0))(
    lambda a, b: jnp.einsum("bij,bkj->bik", a + 1j * a[:, ::-1], b - 1j * b))
problem(F, "4096 x 32", (4096, 32, 32), (4096, 32, 32), split=(0, 0))(jnp.matmul)
problem(F, "65536 x 4", (65536, 4, 4), (65536, 4, 4), split=(0, 0))(jnp.matmul)
problem(F, "65536 x 3x3 by vectors", (65536, 3, 3), (65536, 3), split=(0, 0))(lambda a, x: jnp.einsum("bij,bj->bi", a, x))
problem(F, "bilinear form", (256, 64), (64, 64, 64), (256, 64), split=(0, None, 0))(
    lambda x, w, y: jnp.einsum("bi,ijk,bk->bj", x, w, y))
problem(F, "chain of vectors", (2048, 2048), (2048,))(lambda a, x: a @ (a @ (a @ x)))
problem(F, "mixed bf16 layer", (512, 1024), (1024, 1024), (1024,))(
    lambda x, w, b: jax.nn.relu((x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(jnp.float32) + b))
problem(F, "quantized layer", (256, 1024), ints(127, 1024, 1024, dtype=np.int8), uniform(1024))(
    lambda x, w, s: x @ (w.astype(jnp.float32) * s))


@problem(F, "n-body 4096", (4096, 3), uniform(4096), split=(None,))
def bodies(x, m):
    d = x[None] - x[:, None]
    r = jnp.sum(d * d, -1) + 1e-3
    return jnp.sum(d * (m[None] * r ** -1.5)[..., None], 1)


@problem(F, "n-body 1024, 10 steps", (1024, 3), (1024, 3))
def orbits(x, v):
    def step(_, s):
        x, v = s
        d = x[None] - x[:, None]
        r = jnp.sum(d * d, -1, keepdims=True) + 1e-3
        v = v + 1e-4 * jnp.sum(d / (r * jnp.sqrt(r)), 1)
        return x + 1e-3 * v, v
    return jax.lax.fori_loop(0, 10, step, (x, v))


problem(F, "pairwise distances", (2048, 16), (2048, 16))(
    lambda x, y: jnp.sqrt(jnp.sum((x[:, None] - y[None]) ** 2, -1)))
problem(F, "pairwise L1 sums", (2048, 8), (2048, 8))(
    lambda x, y: jnp.sum(jnp.abs(x[:, None] - y[None]), (1, 2)))
problem(F, "kernel row sums", (4096, 4))(
    lambda x: jnp.sum(jnp.exp(-jnp.sum((x[:, None] - x[None]) ** 2, -1)), 1))
problem(F, "nearest neighbours", (1024, 32), (4096, 32))(
    lambda q, x: jax.lax.top_k(-(jnp.sum(x * x, 1) - 2 * q @ x.T), 8)[1])


@problem(F, "k-means", (65536, 16), (64, 16))
def k_means(x, c):
    def step(_, c):
        d = jnp.sum(x * x, 1)[:, None] - 2 * x @ c.T + jnp.sum(c * c, 1)
        i = jnp.argmin(d, 1)
        n = jax.ops.segment_sum(jnp.ones(65536), i, 64)
        return jax.ops.segment_sum(x, i, 64) / jnp.maximum(n, 1)[:, None]
    return jax.lax.fori_loop(0, 5, step, c)


@problem(F, "soft k-means", (32768, 8), (32, 8))
def soft_k_means(x, c):
    def step(_, c):
        p = jax.nn.softmax(-jnp.sum((x[:, None] - c[None]) ** 2, -1))
        return (p.T @ x) / p.sum(0)[:, None]
    return jax.lax.fori_loop(0, 5, step, c)


problem(F, "bytes by a vector", ints(99, 4096, 1024, dtype=np.uint8), ints(99, 1024, dtype=np.uint8))(
    lambda a, v: a.astype(jnp.int32) @ v.astype(jnp.int32))
problem(F, "int8 weights by a vector", ints(127, 4096, 1024, dtype=np.int8, low=-127), (1024,))(
    lambda a, v: a.astype(jnp.float32) @ v)
