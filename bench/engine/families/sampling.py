"""Elements at places that are computed: images, volumes and tables, read between their points."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, repeat, uniform

F = "sampling"
map_coordinates = jax.scipy.ndimage.map_coordinates

problem(F, "wrapped", uniform(512, 512), uniform(1 << 17, 2), split=(None, 0))(
    lambda x, at: map_coordinates(x, list((at * 800 - 100).T), 1, mode="wrap"))
problem(F, "line", uniform(4096), uniform(1 << 18), split=(None, 0))(
    lambda x, at: map_coordinates(x, [at * 4095], 1, mode="nearest"))
problem(F, "line f64", uniform(4096, dtype="f8"), uniform(1 << 17, dtype="f8"), split=(None, 0))(
    lambda x, at: map_coordinates(x, [at * 4095], 1, mode="nearest"))


def bilinear(x, i, j):
    """`x` at places between its points; the last dimensions of `x` may be channels."""
    a = jnp.clip(jnp.floor(i).astype(jnp.int32), 0, x.shape[0] - 2)
    b = jnp.clip(jnp.floor(j).astype(jnp.int32), 0, x.shape[1] - 2)
    s, t = (v.reshape(v.shape + (1,) * (x.ndim - 2)) for v in (i - a, j - b))
    return (1 - s) * ((1 - t) * x[a, b] + t * x[a, b + 1]) + s * ((1 - t) * x[a + 1, b] + t * x[a + 1, b + 1])


def turned(n, angle=0.3):
    i, j = jnp.meshgrid(jnp.arange(n) - n / 2, jnp.arange(n) - n / 2, indexing="ij")
    return jnp.cos(angle) * i - jnp.sin(angle) * j + n / 2, jnp.sin(angle) * i + jnp.cos(angle) * j + n / 2


@problem(F, "bytes of an image turned", ints(256, 512, 512, dtype=np.uint8), split=(None,))
def bytes_turned(x):
    return jnp.round(bilinear(x, *turned(512))).astype(jnp.uint8)


@problem(F, "colors of images turned", uniform(4, 256, 256, 3))
def colors(x):
    return jax.vmap(lambda x: bilinear(x, *turned(256)))(x)


@problem(F, "channels first, by a flow", uniform(4, 8, 128, 128), uniform(4, 2, 128, 128), split=(0, 0))
def flow(x, by):
    i, j = jnp.meshgrid(jnp.arange(128.0), jnp.arange(128.0), indexing="ij")

    def one(x, by):
        at = i + 4 * by[0], j + 4 * by[1]
        return jax.vmap(lambda c: bilinear(c, *at))(x)
    return jax.vmap(one)(x, by)


@problem(F, "smoke moved along", uniform(128, 128), uniform(2, 128, 128), split=(None, None))
def smoke(x, v):
    i, j = jnp.meshgrid(jnp.arange(128.0), jnp.arange(128.0), indexing="ij")
    return repeat(20, lambda x: map_coordinates(x, [i - v[0], j - v[1]], 1, mode="wrap"), x)


@problem(F, "rays through a volume", uniform(48, 48, 48), uniform(4096, 3), uniform(4096, 3), split=(None, 0, 0))
def rays(x, start, direction):
    at = start[:, None] * 20 + direction[:, None] * jnp.arange(32.0)[:, None]
    return map_coordinates(x, list(jnp.moveaxis(at, -1, 0)), 1).sum(-1)


problem(F, "bytes by a table", ints(256, 1024, 1024, dtype=np.uint8), ints(256, 256, dtype=np.uint8), split=(0, None))(
    lambda x, t: t[x.astype(jnp.int32)])

problem(F, "features by a flow", uniform(2, 96, 96, 32), uniform(2, 96, 96, 2), split=(0, 0))(
    lambda x, v: jax.vmap(lambda x, v: bilinear(x, *jnp.moveaxis(95 * v, -1, 0)))(x, v))
problem(F, "levels of a pyramid, f64", uniform(48, 48, 24, dtype="f8"), uniform(1 << 13, 2, dtype="f8"), split=(None, 0))(
    lambda x, at: bilinear(x, *(47 * at).T))
