"""Recurrences: dynamic programming, filters, cells, samplers, iterations until they converge."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, uniform

F = "recurrences"
repeat = lambda n, f, x: jax.lax.fori_loop(0, n, lambda _, x: f(x), x)


@problem(F, "alignment by diagonals", ints(4, 256), ints(4, 256), split=(None,))
def alignment(a, b):
    n = 256
    padded = jnp.concatenate([jnp.full(n, -1, jnp.int32), b[::-1], jnp.full(n, -2, jnp.int32)])

    def diagonal(state, d):
        before, last = state
        same = jax.lax.dynamic_slice(padded, (2 * n - d,), (n,)) == a
        shifted = jnp.concatenate([jnp.zeros(1), last[:-1]])
        corner = jnp.concatenate([jnp.zeros(1), before[:-1]])
        new = jnp.maximum(corner + jnp.where(same, 2.0, -1.0), jnp.maximum(last, shifted) - 1.0)
        return (last, new), new.max()
    return jax.lax.scan(diagonal, (jnp.zeros(n), jnp.zeros(n)), jnp.arange(2 * n))[1]


@problem(F, "ctc forward", (128, 16, 32), ints(32, 16, 16, low=1), split=(1, 0))
def ctc(logits, labels):
    logp = jax.nn.log_softmax(logits)
    wide = jnp.zeros((16, 33), jnp.int32).at[:, 1::2].set(labels)
    skip = (wide[:, 2:] != 0) & (wide[:, 2:] != wide[:, :-2])

    def step(alpha, logp):
        one = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=-1e30)[:, :-1]
        two = jnp.pad(jnp.where(skip, alpha[:, :-2], -1e30), ((0, 0), (2, 0)), constant_values=-1e30)
        alpha = jnp.logaddexp(jnp.logaddexp(alpha, one), two) + jnp.take_along_axis(logp, wide, 1)
        return alpha, None
    start = jnp.full((16, 33), -1e30).at[:, 0].set(0.0)
    return jax.lax.scan(step, start, logp)[0]


@problem(F, "predator and prey, rk4", uniform(2), split=(None,))
def prey(x):
    slope = lambda x: jnp.array([1.1 * x[0] - 0.4 * x[0] * x[1], 0.1 * x[0] * x[1] - 0.4 * x[1]])

    def step(x, _):
        k1 = slope(x)
        k2 = slope(x + 0.005 * k1)
        k3 = slope(x + 0.005 * k2)
        k4 = slope(x + 0.01 * k3)
        x = x + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x, x
    return jax.lax.scan(step, x + 5, length=5000)[1]


@problem(F, "gru training, small batch", (64, 4, 32), (32, 96), (32, 96), split=(None,))
def gru(x, w, u):
    def loss(w, u):
        def step(h, x):
            r, z, n = jnp.split(x @ w * 0.1, 3, -1)
            s, y, m = jnp.split(h @ u * 0.1, 3, -1)
            z = jax.nn.sigmoid(z + y)
            h = (1 - z) * jnp.tanh(n + jax.nn.sigmoid(r + s) * m) + z * h
            return h, h
        return jnp.mean(jax.lax.scan(step, jnp.zeros((4, 32)), x)[1] ** 2)
    return jax.grad(loss, (0, 1))(w, u)


@problem(F, "lstm cell, one sequence", (256, 64), (64, 256), (64, 256), split=(None,))
def lstm(x, w, u):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split((x @ w + h @ u) * 0.1, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    return jax.lax.scan(step, (jnp.zeros(64), jnp.zeros(64)), x)[1]


@problem(F, "life 64x64", ints(2, 64, 64, dtype=np.uint8))
def life(x):
    def step(x):
        rows = x + jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0)
        n = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - x
        return ((n == 3) | ((n == 2) & (x == 1))).astype(jnp.uint8)
    return repeat(500, step, x)


@problem(F, "rule 110", ints(2, 1024, dtype=np.int32), split=(None,))
def rule(x):
    return repeat(1000, lambda x: (110 >> (4 * jnp.roll(x, 1) + 2 * x + jnp.roll(x, -1))) & 1, x)


@problem(F, "metropolis", (64,), split=(0,))
def metropolis(x):
    def step(carry, _):
        x, key = carry
        key, a, b = jax.random.split(key, 3)
        y = x + 0.5 * jax.random.normal(a, (64,))
        x = jnp.where(jnp.log(jax.random.uniform(b, (64,))) < 0.5 * (x * x - y * y), y, x)
        return (x, key), x
    return jax.lax.scan(step, (x, jax.random.key(0)), length=500)[1]


@problem(F, "fixed points", uniform(1000))
def fixed(x):
    def going(state):
        x, y = state
        return jnp.max(jnp.abs(x - y)) > 1e-6
    return jax.lax.while_loop(going, lambda s: (jnp.cos(s[0]), s[0]), (x, x + 1))[0]


@problem(F, "jacobi until it converges", (32, 32), (32,), split=(None,))
def jacobi(a, b):
    d = jnp.abs(a).sum(1) + 1.0
    off = a - jnp.diag(jnp.diag(a))

    def step(state):
        x, _, i = state
        y = (b - off @ x) / d
        return y, jnp.linalg.norm(y - x), i + 1
    return jax.lax.while_loop(lambda s: (s[1] > 1e-6) & (s[2] < 2000), step, (b, jnp.float32(1.0), 0))[0]


@problem(F, "sorting network", (256, 256))
def network(x):
    n, k = 256, 2
    i = jnp.arange(n)
    while k <= n:
        j = k // 2
        while j > 0:
            y = x.reshape(256, -1, 2, j)[:, :, ::-1].reshape(256, n)
            keep_low = ((i & k) == 0) == ((i & j) == 0)
            x = jnp.where(keep_low, jnp.minimum(x, y), jnp.maximum(x, y))
            j //= 2
        k *= 2
    return x


@problem(F, "cumulative sum by doubling", (64, 4096))
def doubling(x):
    step = 1
    while step < 4096:
        x = x + jnp.pad(x, ((0, 0), (step, 0)))[:, :-step]
        step *= 2
    return x


@problem(F, "smoothing, many times unrolled", (1 << 20,), split=(0,))
def smoothing(x):
    for _ in range(24):
        x = 0.5 * x + 0.25 * (jnp.roll(x, 1) + jnp.roll(x, -1))
    return x


@problem(F, "descent of a small network", (64, 8), (8, 16), (16, 1), (64,), split=(None,))
def network_descent(x, a, b, y):
    def loss(p):
        return jnp.mean(((jnp.tanh(x @ p[0]) @ p[1])[:, 0] - y) ** 2)

    def step(p):
        g = jax.grad(loss)(p)
        return jax.tree.map(lambda p, g: p - 0.05 * g, p, g)
    return repeat(500, step, (a, b))


@problem(F, "adam of a quadratic", (128, 128), (128,), split=(None,))
def quadratic(a, x):
    def step(state, t):
        x, m, v = state
        g = a @ x / 128 + x
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return (x - 0.01 * m / (jnp.sqrt(v) + 1e-8), m, v), jnp.dot(x, x)
    return jax.lax.scan(step, (x, x * 0, x * 0), jnp.arange(1000))[1]


@problem(F, "hidden markov forward", uniform(1000, 16), uniform(16, 16), split=(None,))
def markov(e, t):
    t = t / t.sum(1, keepdims=True)

    def step(p, e):
        p = (p @ t) * e
        s = p.sum()
        return p / s, jnp.log(s)
    return jax.lax.scan(step, jnp.full(16, 1 / 16), e)[1].sum()


@problem(F, "chase of pointers", ints(4096, 4096), split=(None,))
def chase(table):
    return jax.lax.scan(lambda at, _: (table[at], at), jnp.int32(0), length=10000)[1]


@problem(F, "counts in a loop", ints(256, 5000), split=(None,))
def counts(x):
    return jax.lax.fori_loop(0, 5000, lambda i, c: c.at[x[i]].add(1), jnp.zeros(256, jnp.int32))


@problem(F, "table and state", ints(50, 512), (50, 32), (32, 32), split=(None,))
def table_state(x, table, w):
    return jax.lax.scan(lambda h, x: (h := jnp.tanh(table[x] + h @ w * 0.1), h), jnp.zeros(32), x)[1]


@problem(F, "edit distances, a batch", ints(4, 32, 64), ints(4, 32, 64), split=(0, 0))
def edits(a, b):
    def one(a, b):
        def row(previous, x):
            def cell(left, y):
                up, corner, other = y
                new = jnp.minimum(jnp.minimum(up, left) + 1, corner + (x != other))
                return new, new
            first = previous[0] + 1
            rest = jax.lax.scan(cell, first, (previous[1:], previous[:-1], b))[1]
            return jnp.concatenate([first[None], rest]), None
        return jax.lax.scan(row, jnp.arange(65), a)[0][-1]
    return jax.vmap(one)(a, b)


@problem(F, "partition sums, nested", uniform(64, 64), split=(None,))
def nested(x):
    def row(carry, row):
        def cell(c, y):
            left, i = c
            new = jnp.maximum(left, carry[i]) + y
            return (new, i + 1), new
        new = jax.lax.scan(cell, (jnp.float32(0), 0), row)[1]
        return new, new[-1]
    return jax.lax.scan(row, jnp.zeros(64), x)[1]


@problem(F, "kalman filter, two states", (2000, 1), split=(None,))
def kalman(z):
    f, q = jnp.array([[1.0, 0.1], [0.0, 1.0]]), 0.01 * jnp.eye(2)

    def step(carry, z):
        x, p = carry
        x, p = f @ x, f @ p @ f.T + q
        k = p[:, 0] / (p[0, 0] + 0.5)
        x = x + k * (z[0] - x[0])
        return (x, p - jnp.outer(k, p[0])), x
    return jax.lax.scan(step, (jnp.zeros(2), jnp.eye(2)), z)[1]


@problem(F, "smoothing along split rows", (512, 128), split=(0,))
def split_rows(x):
    step = lambda h, x: (h := 0.9 * h + 0.1 * x, h)
    return repeat(10, lambda x: jax.lax.scan(step, jnp.zeros(128), x)[1], x)


@problem(F, "best of the neighbors", (300, 48), (48, 48), split=(None,))
def neighbors(x, cost):
    def step(best, x):
        ways = best[None, :] - cost
        return ways.min(1) + x, (ways.argmin(1), ways.argmin(0))
    return jax.lax.scan(step, x[0], x)[1]


@problem(F, "sieve", ints(2, 4096, dtype=np.int32), split=(None,))
def sieve(x):
    i = jnp.arange(4096)
    strike = lambda k, prime: prime & ((i % jnp.maximum(k, 2) != 0) | (i <= k))
    return jax.lax.fori_loop(2, 64, strike, x >= 0)


@problem(F, "rotations, associative", (2048, 4), (2048, 3, 3), split=(0, 0))
def rotations(q, m):
    def times(p, q):
        (a, b, c, d), (e, f, g, h) = jnp.moveaxis(p, -1, 0), jnp.moveaxis(q, -1, 0)
        return jnp.stack([a * e - b * f - c * g - d * h, a * f + b * e + c * h - d * g,
                          a * g - b * h + c * e + d * f, a * h + b * g - c * f + d * e], -1)
    q = q / jnp.linalg.norm(q, axis=1, keepdims=True)
    chained = jax.lax.associative_scan(lambda a, b: b @ a, jnp.eye(3) + 0.01 * m)
    return jax.lax.associative_scan(times, q), chained
