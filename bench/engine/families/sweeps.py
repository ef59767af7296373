"""Arithmetic over large arrays: random numbers, polynomials, pixels, grids."""
import jax
import jax.numpy as jnp

from . import ints, problem, uniform

F = "sweeps"
problem(F, "polynomial", uniform(1 << 20), (16,))(lambda x, c: jnp.polyval(c, x))
problem(F, "horner f64", uniform(1 << 19, dtype="f8"))(lambda x: jnp.polyval(jnp.arange(12.0), x))
problem(F, "normal numbers", uniform(1 << 20))(lambda x: x + jax.random.normal(jax.random.key(0), x.shape))
problem(F, "uniform numbers", uniform(1 << 20))(lambda x: x + jax.random.uniform(jax.random.key(0), x.shape))
problem(F, "gamma function", uniform(1 << 18))(jax.scipy.special.gammaln)
problem(F, "digamma", uniform(1 << 18))(lambda x: jax.scipy.special.digamma(3 * x))
problem(F, "hyperbolic functions", uniform(1 << 20))(
    lambda x: jnp.sinh(x) + jnp.arcsinh(3 * x) + jnp.arccosh(x + 1) + jnp.arctanh(0.9 * x) + jnp.arcsin(x))
problem(F, "powers and roots", uniform(1 << 20))(lambda x: x ** 2.5 + jnp.cbrt(x) + jnp.arctan2(x, 1 - x))
problem(F, "sines f64", uniform(1 << 18, dtype="f8"))(lambda x: jnp.sin(x) * jnp.cos(3 * x) + jnp.exp(-x))
problem(F, "mean and variance", (4096, 1024))(lambda x: (x.mean(0), x.var(0)))
problem(F, "log-sum-exp of columns", (2048, 2048))(lambda x: jax.nn.logsumexp(x, 0))
problem(F, "integer hash", ints(1 << 30, 1 << 20))(
    lambda x: (x ^ (x >> 15)) * 0x2C1B3C6D ^ ((x * 0x297A2D39) >> 12))
problem(F, "transpose 3-D", (128, 256, 128))(lambda x: jnp.transpose(x, (2, 0, 1)) * 2)
problem(F, "sum of middle axis", (128, 512, 64))(lambda x: x.sum(1))
problem(F, "moments of bytes", ints(255, 4096, 4096, dtype="uint8"))(
    lambda x: (x.astype(jnp.int32).sum(1), x.max(1)))
problem(F, "clipped difference", (1 << 22,))(lambda x: jnp.clip(jnp.diff(x), -1, 1))


@problem(F, "option prices", uniform(1 << 20))
def options(s):
    from jax.scipy.stats import norm
    d = (jnp.log(s + 0.5) + 0.05) / 0.2
    return s * norm.cdf(d) - jnp.exp(-0.05) * norm.cdf(d - 0.2)


@problem(F, "monte carlo path", uniform(65536))
def monte_carlo(s):
    z = jax.random.normal(jax.random.key(0), (65536, 16))
    return jnp.mean(jnp.maximum(s * jnp.exp(jnp.sum(0.05 * z - 0.001, 1)) - 0.5, 0))


@problem(F, "ray marching", uniform(256, 256))
def rays(x):
    u, v = jnp.meshgrid(jnp.linspace(-1, 1, 256), jnp.linspace(-1, 1, 256))
    d = jnp.stack([u, v + 0.01 * x, jnp.ones_like(u)], -1)
    d = d / jnp.linalg.norm(d, axis=-1, keepdims=True)

    def step(_, t):
        p = d * t[..., None] - jnp.array([0.0, 0.0, 3.0])
        return t + jnp.minimum(jnp.linalg.norm(p, axis=-1) - 1, jnp.abs(p[..., 1] + 1))
    return jax.lax.fori_loop(0, 32, step, jnp.zeros((256, 256)))


@problem(F, "wave equation", uniform(512, 512))
def wave(x):
    def step(_, s):
        x, old = s
        around = jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)
        return 2 * x - old + 0.1 * (around - 4 * x), x
    return jax.lax.fori_loop(0, 50, step, (x, x))[0]


@problem(F, "reaction and diffusion", uniform(256, 256), uniform(256, 256), split=(0, 0))
def gray_scott(u, v):
    def laplace(x):
        p = jnp.pad(x, 1, mode="wrap")
        return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x

    def step(_, s):
        u, v = s
        r = u * v * v
        return u + 0.16 * laplace(u) - r + 0.035 * (1 - u), v + 0.08 * laplace(v) + r - 0.1 * v
    return jax.lax.fori_loop(0, 100, step, (u, v))


@problem(F, "advection 3-D", uniform(64, 64, 64))
def advection(x):
    def step(_, x):
        return x - 0.1 * (x - jnp.roll(x, 1, 0)) - 0.1 * (x - jnp.roll(x, 1, 1)) - 0.1 * (x - jnp.roll(x, 1, 2))
    return jax.lax.fori_loop(0, 40, step, x)


@problem(F, "median filter", uniform(512, 512))
def median(x):
    p = jnp.pad(x, 1)
    return jnp.median(jnp.stack([p[i:i + 512, j:j + 512] for i in range(3) for j in range(3)]), 0)


@problem(F, "box blur", uniform(2048, 2048))
def blur(x):
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (9, 9), (1, 1), "SAME") / 81
