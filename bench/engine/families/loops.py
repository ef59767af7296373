"""Small arrays in long loops."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, uniform

F = "loops"
repeat = lambda n, f, x: jax.lax.fori_loop(0, n, lambda _, x: f(x), x)


def lorenz_step(x):
    a, b, c = x
    return x + 0.0005 * jnp.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c])


problem(F, "lorenz 1024 lanes", (3, 1024), split=(1,))(lambda x: repeat(2000, lorenz_step, x))
problem(F, "lorenz 1 lane", (3,), split=(None,))(lambda x: repeat(20000, lorenz_step, x))
problem(F, "logistic map", uniform(4096))(lambda x: repeat(5000, lambda x: 3.7 * x * (1 - x), x))
problem(F, "power iteration", (256, 256), (256,), split=(None,))(
    lambda a, x: repeat(500, lambda x: (y := a @ x) / jnp.linalg.norm(y), x))
problem(F, "heat 64x64", uniform(64, 64))(lambda x: repeat(
    2000, lambda x: x + 0.1 * (jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4 * x), x))
problem(F, "small products", (16, 16), (16, 16), split=(None,))(
    lambda a, x: repeat(5000, lambda x: jnp.tanh(a @ x / 5), x))


@problem(F, "pendulum rk4", (64, 2))
def pendulum(x):
    def slope(x):
        return jnp.stack([x[:, 1], -jnp.sin(x[:, 0])], 1)

    def step(x):
        k1 = slope(x)
        k2 = slope(x + 0.005 * k1)
        k3 = slope(x + 0.005 * k2)
        k4 = slope(x + 0.01 * k3)
        return x + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return repeat(2000, step, x)


@problem(F, "mandelbrot while", uniform(512, 512))
def mandelbrot(x):
    c = (jnp.linspace(-2, 0.5, 512)[None] + x * 1e-3) + 1j * jnp.linspace(-1.2, 1.2, 512)[:, None]

    def step(state):
        i, z, n = state
        z = jnp.where(jnp.abs(z) < 2, z * z + c, z)
        return i + 1, z, n + (jnp.abs(z) < 2)
    return jax.lax.while_loop(lambda s: s[0] < 50, step, (0, jnp.zeros_like(c), jnp.zeros((512, 512), jnp.int32)))[2]


@problem(F, "collatz", ints(100000, 4096, low=1))
def collatz(x):
    def one(x):
        def step(s):
            return jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1
        return jax.lax.while_loop(lambda s: (s[0] != 1) & (s[1] < 300), step, (x, 0))[1]
    return jax.vmap(one)(x)


@problem(F, "kalman filter", (1000, 4), split=(None,))
def kalman(z):
    f, h, q = jnp.eye(8) + 0.01 * jnp.eye(8, k=1), jnp.eye(4, 8), 0.01 * jnp.eye(8)

    def step(carry, z):
        x, p = carry
        x, p = f @ x, f @ p @ f.T + q
        s = h @ p @ h.T + jnp.eye(4)
        k = jnp.linalg.solve(s, h @ p).T
        x = x + k @ (z - h @ x)
        return (x, (jnp.eye(8) - k @ h) @ p), x
    return jax.lax.scan(step, (jnp.zeros(8), jnp.eye(8)), z)[1]


@problem(F, "kalman gains without solve", (4000, 2), split=(None,))
def scalar_filter(z):
    def step(carry, z):
        x, p = carry
        p = p + 0.01
        k = p / (p + 1)
        x = x + k * (z - x)
        return (x, (1 - k) * p), x
    return jax.lax.scan(step, (jnp.zeros(2), jnp.ones(2)), z)[1]


@problem(F, "edit distance", ints(4, 512), ints(4, 512), split=(None,))
def edit(a, b):
    def row(previous, x):
        change = jnp.minimum(previous[:-1] + (b != x[0]), previous[1:] + 1)
        first = x[1] + 1
        right = jax.lax.associative_scan(jnp.minimum, jnp.concatenate([first[None], change]) - jnp.arange(513))
        return right + jnp.arange(513), None
    xs = jnp.stack([a, jnp.arange(512)], 1)
    return jax.lax.scan(row, jnp.arange(513), xs)[0]


@problem(F, "viterbi", (512, 64), (64, 64), split=(None,))
def viterbi(scores, moves):
    def step(best, s):
        ways = best[:, None] + moves
        return ways.max(0) + s, ways.argmax(0)
    best, back = jax.lax.scan(step, scores[0], scores[1:])
    return jax.lax.scan(lambda at, b: (b[at], at), best.argmax(), back, reverse=True)[1]


@problem(F, "conjugate gradients", (512, 512), (512,), split=(None,))
def conjugate(a, b):
    a = a @ a.T / 512 + jnp.eye(512)
    return jax.scipy.sparse.linalg.cg(a, b, maxiter=100, tol=0.0)[0]


@problem(F, "gauss-seidel sweeps", uniform(256, 256))
def gauss_seidel(x):
    def sweep(x):
        def row(above, rows):
            here, below = rows
            side = jnp.pad(here[1:], (0, 1)) + jnp.pad(here[:-1], (1, 0))
            new = 0.25 * (above + below + side)
            return new, new
        below = jnp.concatenate([x[1:], jnp.zeros((1, 256))])
        return jax.lax.scan(row, jnp.zeros(256), (x, below))[1]
    return repeat(20, sweep, x)


@problem(F, "state space scan", (4096, 256), (4096, 256), split=(1, 1))
def state_space(a, b):
    a = jax.nn.sigmoid(a)
    return jax.lax.scan(lambda h, ab: (h := ab[0] * h + ab[1], h), jnp.zeros(256), (a, b))[1]


@problem(F, "state space, associative", (4096, 256), (4096, 256), split=(1, 1))
def associative(a, b):
    a = jax.nn.sigmoid(a)
    return jax.lax.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (a, b))[1]


@problem(F, "newton per element", uniform(65536))
def newton(x):
    return repeat(50, lambda y: y - (y * y * y - x) / (3 * y * y + 1e-6), x + 1)


@problem(F, "bisection", uniform(16384))
def bisection(x):
    def step(bounds):
        low, high = bounds
        middle = 0.5 * (low + high)
        above = jnp.exp(middle) - 2 > x
        return jnp.where(above, low, middle), jnp.where(above, middle, high)
    return repeat(100, step, (x * 0, x * 0 + 2))


@problem(F, "descent of a regression", (1024, 16), (1024,), split=(0, 0))
def regression(x, y):
    def loss(w):
        return jnp.mean(jnp.log1p(jnp.exp(-jnp.sign(y) * (x @ w))))
    return repeat(500, lambda w: w - 0.1 * jax.grad(loss)(w), jnp.zeros(16))


@problem(F, "knapsack", ints(100, 200, low=1), uniform(200), split=(None,))
def knapsack(weight, value):
    def item(best, x):
        w, v = x
        i = jnp.arange(4096)
        taken = jnp.where(i >= w, best[jnp.maximum(i - w, 0)] + v, -1.0)
        return jnp.maximum(best, taken), None
    return jax.lax.scan(item, jnp.zeros(4096), (weight, value))[0]


@problem(F, "floyd-warshall", uniform(256, 256))
def floyd(d):
    return jax.lax.fori_loop(0, 256, lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k, :]), d)


@problem(F, "random walk", uniform(1024), split=(0,))
def walk(x):
    def step(carry, _):
        x, key = carry
        key, now = jax.random.split(key)
        x = x + 0.1 * jax.random.normal(now, (1024,))
        return (x, key), x.mean()
    return jax.lax.scan(step, (x, jax.random.key(0)), length=500)[1]


@problem(F, "many short calls", (8,), split=(None,))
def short(x):
    return x + 1


@problem(F, "many small tensors", *[(64, 8)] * 40, split=(None,))
def adam(*tensors):
    out = []
    for p, g in zip(tensors[::2], tensors[1::2]):
        m, v = 0.1 * g, 0.001 * g * g
        out.append(p - 1e-3 * m / (jnp.sqrt(v) + 1e-8))
    return out
