"""Loops whose turns are a few small steps: solvers, tables, games of chance."""
import jax
import jax.numpy as jnp

from . import ints, problem, repeat, uniform

F = "turns"


@problem(F, "annealing of spins", (48, 48), ints(48, 4000), uniform(4000), split=(None,))
def annealing(j, at, chance):
    j = j + j.T

    def step(spin, x):
        i, u, t = x
        gain = 2 * spin[i] * jnp.dot(j[i], spin)
        flip = u < jnp.exp(jnp.minimum(-gain / t, 0.0))
        return spin.at[i].multiply(jnp.where(flip, -1.0, 1.0)), gain
    return jax.lax.scan(step, jnp.ones(48), (at, chance, jnp.linspace(4.0, 0.1, 4000)))[1]


@problem(F, "softmax of a state, in a scan", (2000, 32), split=(None,))
def attended(x):
    def step(h, x):
        h = 0.9 * h + 0.1 * x * jax.nn.softmax(h + x)
        return h, h.max()
    return jax.lax.scan(step, jnp.zeros(32), x)[1]


@problem(F, "switch of three laws", (3000, 24), ints(3, 3000), split=(None,))
def laws(x, k):
    def step(h, x):
        x, k = x
        h = jax.lax.switch(k, [lambda h: jnp.sin(h) + x, lambda h: h * 0.5 + x * x, lambda h: jnp.exp(-h * h) - x], h)
        return h, h
    return jax.lax.scan(step, jnp.zeros(24), (x, k))[1]


@problem(F, "common subsequence, a table", ints(4, 200), ints(4, 200), split=(None,))
def subsequence(a, b):
    def row(i, t):
        def cell(j, t):
            same = t[i, j] + 1
            other = jnp.maximum(t[i, j + 1], t[i + 1, j])
            return t.at[i + 1, j + 1].set(jnp.where(a[i] == b[j], same, other))
        return jax.lax.fori_loop(0, 200, cell, t)
    return jax.lax.fori_loop(0, 200, row, jnp.zeros((201, 201), jnp.int32))[200]


@problem(F, "fixed point of a small matrix", uniform(12, 12), split=(None,))
def stationary(a):
    a = a / a.sum(0)

    def step(s):
        x, _, n = s
        y = a @ x
        y = y / y.sum()
        return y, jnp.abs(y - x).max(), n + 1
    return repeat(50, lambda z: z + jax.lax.while_loop(lambda s: (s[1] > 1e-7) & (s[2] < 100), step,
                                                      (jnp.arange(12.0) + 1 + z[0] * 1e-9, jnp.float32(1), 0))[0], jnp.zeros(12))


@problem(F, "riccati equation until it settles", (6, 6), (6, 2), split=(None,))
def riccati(a, b):
    a = a * 0.3

    def step(s):
        p, _, n = s
        k = jnp.linalg.solve(jnp.eye(2) + b.T @ p @ b, b.T @ p @ a)
        q = jnp.eye(6) + a.T @ p @ (a - b @ k)
        return q, jnp.abs(q - p).max(), n + 1
    return jax.lax.while_loop(lambda s: (s[1] > 1e-6) & (s[2] < 300), step, (jnp.eye(6), jnp.float32(1), 0))[0]


@problem(F, "palindromes, by lengths", ints(4, 200), split=(None,))
def palindromes(x):
    n = 200
    i = jnp.arange(n)

    def length(l, t):
        j = jnp.minimum(i + l, n - 1)
        inner = t[jnp.minimum(i + 1, n - 1), jnp.maximum(j - 1, 0)]
        drop = jnp.maximum(t[jnp.minimum(i + 1, n - 1), j], t[i, jnp.maximum(j - 1, 0)])
        best = jnp.where(x[i] == x[j], inner + 2, drop)
        return t.at[i, j].set(jnp.where(i + l < n, best, t[i, j]))
    return jax.lax.fori_loop(1, n, length, jnp.eye(n, dtype=jnp.int32))[0]


@problem(F, "rows gathered and mixed", ints(256, 400, 64), (256,), split=(None,))
def mixed(at, table):
    def step(h, at):
        h = 0.5 * h + jnp.tanh(table[at])
        return h, h.sum()
    return jax.lax.scan(step, jnp.zeros(64), at)[1]


@problem(F, "permuted in every turn", ints(256, 256), (256,), split=(None,))
def permuted(p, x):
    return repeat(2000, lambda x: 0.5 * x[p] + 0.5 * x[(p + 1) % 256], x)


@problem(F, "counts of digits", ints(1 << 30, 2000), split=(None,))
def digits(x):
    def one(x):
        return jax.lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] // 10, s[1] + s[0] % 10), (x, 0))[1]
    return jax.lax.map(one, x)


@problem(F, "greatest common divisors", ints(1 << 30, 1000, low=1), ints(1 << 30, 1000, low=1), split=(None,))
def divisors(a, b):
    return jax.lax.map(lambda x: jax.lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (x[0], x[1]))[0], (a, b))


@problem(F, "options backward, one tree", uniform(8), split=(None,))
def one_tree(s):
    n = 200
    i = jnp.arange(n + 1)
    up = s[:, None] * jnp.exp(0.02 * (2 * i - n))

    def back(k, v):
        held = 0.4999 * (v[:, 1:] + v[:, :-1])
        return jnp.maximum(jnp.pad(held, ((0, 0), (0, 1))), 0.5 - up * jnp.exp(0.02 * k))
    return jax.lax.fori_loop(0, n, back, jnp.maximum(0.5 - up, 0))[:, 0]


@problem(F, "choices by upper bounds", uniform(3000), uniform(10), split=(None,))
def bandit(u, p):
    def step(s, u):
        won, tried = s
        k = jnp.argmax(won / tried + jnp.sqrt(2 * jnp.log(tried.sum()) / tried))
        good = (u < p[k]).astype(jnp.float32)
        return (won.at[k].add(good), tried.at[k].add(1.0)), k
    return jax.lax.scan(step, (jnp.ones(10), jnp.full(10, 2.0)), u)[1]


@problem(F, "descent with backtracking", (24, 24), (24,), split=(None,))
def backtracking(a, b):
    a = a @ a.T / 24 + jnp.eye(24)
    f = lambda x: 0.5 * x @ a @ x - b @ x + 0.1 * jnp.sum(x ** 4)

    def step(x, _):
        g = jax.grad(f)(x)
        t = jax.lax.while_loop(lambda t: f(x - t * g) > f(x) - 0.3 * t * (g @ g), lambda t: 0.5 * t, jnp.float32(1))
        return x - t * g, f(x)
    return jax.lax.scan(step, jnp.zeros(24), length=200)[1]
