"""Work that depends on data: scatter, gather, sorting, counting, cumulative sums."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, uniform

F = "indexed"
SQUARE = uniform(2048, 2048)
ROWS = uniform(1 << 20, 16), ints(1000, 1 << 20)

problem(F, "segment_sum", *ROWS, split=(0, 0))(lambda x, i: jax.ops.segment_sum(x, i, 1000))
problem(F, "segment_max", *ROWS, split=(0, 0))(lambda x, i: jax.ops.segment_max(x, i, 1000))
problem(F, "segment_min int32 of 4", ints(1000, 1 << 20, 4), ints(5000, 1 << 20), split=(0, 0))(
    lambda x, i: jax.ops.segment_min(x, i, 5000))
problem(F, "segment_max f64", uniform(1 << 18, 3, dtype="f8"), ints(100, 1 << 18), split=(0, 0))(
    lambda x, i: jax.ops.segment_max(x, i, 100))
problem(F, "segment_sum of 100", uniform(1 << 17, 100), ints(4000, 1 << 17), split=(0, 0))(
    lambda x, i: jax.ops.segment_sum(x, i, 4000))
problem(F, "at[].max", uniform(1 << 16), ints(1 << 16, 1 << 19), uniform(1 << 19), split=(None, 0, 0))(
    lambda t, i, x: t.at[i].max(x))
problem(F, "top_k int32", ints(1 << 30, 256, 10000))(lambda x: jax.lax.top_k(x, 100))
problem(F, "top_k f64 of columns", uniform(5000, 64, dtype="f8"), split=(1,))(lambda x: jax.lax.top_k(x.T, 3))
problem(F, "cumprod f64 of columns", uniform(1000, 704, dtype="f8"), split=(1,))(lambda x: jnp.cumprod(1 + 1e-3 * x, 0))
problem(F, "reversed cumsum, middle axis", uniform(32, 500, 100))(lambda x: jax.lax.cumsum(x, 1, reverse=True))
problem(F, "associative scan", uniform(256, 1000), uniform(256, 1000), split=(0, 0))(
    lambda a, b: jax.lax.associative_scan(lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (a, b), axis=1)[1])
problem(F, "cumsum of rows", SQUARE)(lambda x: jnp.cumsum(x, 1))
problem(F, "cumsum of columns", SQUARE)(lambda x: jnp.cumsum(x, 0))
problem(F, "cumsum of a million", uniform(1 << 20))(lambda x: jnp.cumsum(x))
problem(F, "cummax of rows", SQUARE)(lambda x: jax.lax.cummax(x, 1))
problem(F, "argsort of rows", SQUARE)(lambda x: jnp.argsort(x, 1))
problem(F, "lexsort of rows", uniform(512, 2048))(lambda x: jnp.lexsort((x, jnp.round(8 * x)), 1))
problem(F, "sort a million", uniform(1 << 20))(jnp.sort)
problem(F, "sort int32 columns", ints(1 << 30, 2048, 256), split=(1,))(lambda x: jnp.sort(x, 0))
problem(F, "median of rows", uniform(256, 4097))(lambda x: jnp.median(x, 1))
problem(F, "quantiles", uniform(1 << 18))(lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.9])))
problem(F, "top_k of rows", uniform(512, 8192))(lambda x: jax.lax.top_k(x, 16))
problem(F, "argmax of rows", SQUARE)(lambda x: jnp.argmax(x, 1))
problem(F, "argmin of columns", SQUARE)(lambda x: jnp.argmin(x, 0))
problem(F, "bincount", ints(256, 1 << 20))(lambda i: jnp.bincount(i, length=256))
problem(F, "histogram", uniform(1 << 20))(lambda x: jnp.histogram(x, 64)[0])
problem(F, "embedding rows", (32768, 128), ints(32768, 16384), split=(None, 0))(lambda t, i: t[i])
problem(F, "take_along_axis", SQUARE, ints(2048, 2048, 64), split=(0, 0))(lambda x, i: jnp.take_along_axis(x, i, 1))
problem(F, "searchsorted", uniform(1 << 18), ints(1, 1))(
    lambda x, _: jnp.searchsorted(jnp.linspace(0, 1, 4096), x))
problem(F, "interpolation", uniform(1 << 18), uniform(1024), split=(0,))(
    lambda x, y: jnp.interp(x, jnp.linspace(0, 1, 1024), y))
problem(F, "one-hot product", ints(512, 8192), (512, 256))(lambda i, t: jax.nn.one_hot(i, 512) @ t)
problem(F, "scatter set", uniform(1 << 18), ints(1 << 20, 1 << 18), split=(0, 0))(
    lambda x, i: jnp.zeros(1 << 20).at[i].set(x))


@problem(F, "embedding gradient", (8192, 128), ints(8192, 8192), (8192, 128), split=(None, 0, 0))
def embedding_gradient(table, i, g):
    return jax.grad(lambda t: jnp.sum(t[i] * g))(table)


@problem(F, "sparse product", ints(65536, 1 << 20), ints(65536, 1 << 20), (1 << 20,), (65536,), split=(0, 0, 0))
def spmv(row, column, value, x):
    return jax.ops.segment_sum(value * x[column], row, 65536)


@problem(F, "graph layer", (16384, 64), ints(16384, 131072), ints(16384, 131072), (64, 64), split=(None, 0, 0))
def graph(x, source, target, w):
    sums = jax.ops.segment_sum((x @ w)[source], target, 16384)
    degree = jax.ops.segment_sum(jnp.ones(131072), target, 16384)
    return jax.nn.relu(sums / jnp.maximum(degree, 1)[:, None])


@problem(F, "page rank", ints(4096, 65536), ints(4096, 65536), split=(0, 0))
def page_rank(source, target):
    out = jnp.maximum(jax.ops.segment_sum(jnp.ones(65536), source, 4096), 1)

    def step(_, p):
        return 0.15 / 4096 + 0.85 * jax.ops.segment_sum((p / out)[source], target, 4096)
    return jax.lax.fori_loop(0, 20, step, jnp.full(4096, 1 / 4096))


@problem(F, "resize image", uniform(8, 256, 256, 3))
def resize(x):
    return jax.image.resize(x, (8, 384, 384, 3), "bilinear")


@problem(F, "warp image", uniform(1024, 1024), split=(None,))
def warp(x):
    i, j = jnp.mgrid[0:1024, 0:1024].astype(np.float32)
    return jax.scipy.ndimage.map_coordinates(x, [i * 0.9 + 3.3, j * 0.8 + 0.1 * i], 1)


@problem(F, "unique counts", ints(1000, 1 << 17))
def unique(x):
    return jnp.unique_counts(x, size=1000).counts


problem(F, "first of four conditions", (1 << 18,))(
    lambda x: jnp.select([x < -2, x < -1, x < 0, x < 1], [x, x * x, x + 3, 2 * x], 7.0))
problem(F, "interpolation by rows", uniform(256, 256), uniform(256, 64), split=(0, 0))(
    lambda x, y: jax.vmap(lambda x, y: jnp.interp(x, jnp.linspace(0, 1, 64), y))(x, y))
problem(F, "put between and taken out", (1 << 16,), split=(None,))(
    lambda x: jnp.delete(jnp.insert(x, np.array([5, 100, 1000]), 7.0), np.array([3, 9])))
problem(F, "greatest, approximately", (64, 32000))(lambda x: jax.lax.approx_max_k(x, 16)[0])
problem(F, "twenty least, in any order", (256, 4096))(lambda x: jnp.argpartition(x, 20, axis=1)[:, :20])
problem(F, "first of sorted pairs", (64, 16384), (64, 16384))(lambda x, y: jax.lax.sort((x, y), num_keys=1)[1][:, :32])
problem(F, "rows beyond the end", (10000, 24), ints(12000, 60000), split=(None, 0))(
    lambda x, i: jnp.take(x, i, axis=0, mode="fill", fill_value=0.0))
problem(F, "scattered factors", ints(5000, 100000), uniform(100000), split=(0, 0))(lambda i, v: jnp.ones(5000).at[i].multiply(v))
problem(F, "greatest rows of each", ints(1000, 20000), (20000, 16), split=(0, 0))(
    lambda i, v: jnp.full((1000, 16), -9.0).at[i].max(v))
problem(F, "rows by position, bf16", (2048, 128), (16384, 128), ints(2048, 16384), split=(None, 0, 0))(
    lambda t, x, i: x.astype(jnp.bfloat16) * jnp.cos(t).astype(jnp.bfloat16)[i] + t.astype(jnp.bfloat16)[i])
problem(F, "at[].min f64", uniform(1 << 15, dtype="f8"), ints(1 << 15, 1 << 18), uniform(1 << 18, dtype="f8"),
        split=(None, 0, 0))(lambda t, i, x: t.at[i].min(x))
