"""Loops whose turns are a few small steps: solvers, filters, integrators, tables, games of chance."""
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


@problem(F, "pendulum by runge-kutta", uniform(4), split=(None,))
def pendulum(x):
    def slope(s):
        a, b, u, v = s
        d = a - b
        k = 2 - jnp.cos(d) ** 2
        p = (-jnp.sin(d) * (u * u * jnp.cos(d) + v * v) - 2 * jnp.sin(a) + jnp.sin(b) * jnp.cos(d)) / k
        q = (2 * jnp.sin(d) * u * u + v * v * jnp.sin(d) * jnp.cos(d) + 2 * jnp.sin(a) * jnp.cos(d) - 2 * jnp.sin(b)) / k
        return jnp.stack([u, v, p, q])

    def step(s, _):
        h = 0.01
        a = slope(s)
        b = slope(s + h / 2 * a)
        c = slope(s + h / 2 * b)
        d = slope(s + h * c)
        s = s + h / 6 * (a + 2 * b + 2 * c + d)
        return s, s
    return jax.lax.scan(step, x, length=2000)[1]


@problem(F, "five bodies by verlet", uniform(5, 3), (5, 3), uniform(5), split=(None,))
def verlet(x, v, m):
    def force(x):
        d = x[None] - x[:, None]
        r = (d * d).sum(-1) + 0.05
        return (m[None, :, None] * d / (r * jnp.sqrt(r))[..., None]).sum(1)

    def step(s, _):
        x, v, a = s
        x = x + 0.01 * v + 0.00005 * a
        b = force(x)
        v = v + 0.005 * (a + b)
        return (x, v, b), 0.5 * (m[:, None] * v * v).sum()
    return jax.lax.scan(step, (x, v, force(x)), length=1000)[1]


@problem(F, "kalman filter of six", (1000, 3), (6, 6), (3, 6), split=(None,))
def kalman(z, a, h):
    a = 0.95 * jnp.eye(6) + 0.01 * a

    def step(s, z):
        x, p = s
        x, p = a @ x, a @ p @ a.T + 0.01 * jnp.eye(6)
        g = jnp.linalg.solve(h @ p @ h.T + jnp.eye(3), h @ p).T
        x = x + g @ (z - h @ x)
        return (x, p - g @ h @ p), x
    return jax.lax.scan(step, (jnp.zeros(6), jnp.eye(6)), z)[1]


@problem(F, "viterbi of twelve states", (800, 12), (12, 12), split=(None,))
def viterbi(e, t):
    def step(s, e):
        c = s[:, None] + t
        return c.max(0) + e, c.argmax(0)
    last, back = jax.lax.scan(step, e[0], e[1:])
    return jax.lax.scan(lambda k, b: (b[k], k), last.argmax(), back, reverse=True)[1]


@problem(F, "gru gradient", (200, 16), (48, 16), (48, 16), split=(None,))
def gru_gradient(x, w, u):
    def loss(w, u):
        def step(h, x):
            a, b = w @ x * 0.2, u @ h * 0.2
            r, z = jax.nn.sigmoid(a[:16] + b[:16]), jax.nn.sigmoid(a[16:32] + b[16:32])
            n = jnp.tanh(a[32:] + r * b[32:])
            h = (1 - z) * n + z * h
            return h, (h * h).sum()
        return jax.lax.scan(step, jnp.zeros(16), x)[1].sum()
    return jax.grad(loss, (0, 1))(w, u)


@problem(F, "beam search of a chain", (100, 32, 32), split=(None,))
def beams(t):
    def step(s, t):
        score, at = s
        all = (score[:, None] + t[at]).reshape(-1)
        best, k = jax.lax.top_k(all, 4)
        return (best, k % 32), (k // 32, k % 32)
    return jax.lax.scan(step, (jnp.zeros(4), jnp.arange(4)), t)[1]


@problem(F, "lu of small matrices", (64, 8, 8), split=(None,))
def lu(a):
    def one(a):
        def eliminate(k, a):
            f = jnp.where(jnp.arange(8) > k, a[:, k] / a[k, k], 0.0)
            a = a - f[:, None] * jnp.where(jnp.arange(8) >= k, a[k], 0.0)[None]
            return a.at[:, k].add(f)
        return jax.lax.fori_loop(0, 8, eliminate, a)
    return jax.lax.map(one, a + 8 * jnp.eye(8))


@problem(F, "newton until all settle", uniform(4096))
def newton(y):
    def one(y):
        def step(s):
            x, d, n = s
            d = (x * x * x + x - y) / (3 * x * x + 1)
            return x - d, d, n + 1
        return jax.lax.while_loop(lambda s: (jnp.abs(s[1]) > 1e-6) & (s[2] < 50), step, (y, jnp.float32(1), 0))[0]
    return jax.vmap(one)(y)


@problem(F, "least of a queue, taken and put", uniform(64), uniform(2000), split=(None,))
def queue(q, u):
    def step(q, u):
        k = q.argmin()
        t = q[k]
        return q.at[k].set(t + u), t
    return jax.lax.scan(step, q, u)[1]


@problem(F, "edit distance by rows", ints(4, 128), ints(4, 128), split=(None,))
def edits(a, b):
    def row(d, x):
        i, c = x

        def cell(left, x):
            up, corner, b = x
            v = jnp.minimum(jnp.minimum(left, up) + 1, corner + (b != c))
            return v, v
        _, rest = jax.lax.scan(cell, i + 1, (d[1:], d[:-1], b))
        return jnp.concatenate([(i + 1)[None], rest]), None
    return jax.lax.scan(row, jnp.arange(129), (jnp.arange(128), a))[0]


@problem(F, "cells by rule 110", ints(2, 256), split=(None,))
def cells(x):
    rule = jnp.array([0, 1, 1, 1, 0, 1, 1, 0])

    def step(x, _):
        x = rule[4 * jnp.roll(x, 1) + 2 * x + jnp.roll(x, -1)]
        return x, x.sum()
    return jax.lax.scan(step, x, length=500)[1]


@problem(F, "one shift register", ints(1 << 16, 1, low=1), split=(None,))
def register(x):
    def step(s, _):
        bit = (s ^ (s >> 2) ^ (s >> 3) ^ (s >> 5)) & 1
        return (s >> 1) | (bit << 15), bit
    return jax.lax.scan(step, x[0], length=10000)[1]


@problem(F, "thomas, one system", uniform(1000), uniform(1000), uniform(1000), (1000,), split=(None,))
def thomas(a, b, c, d):
    def down(s, x):
        u, v = s
        a, b, c, d = x
        k = 1 / (b + 3 - a * u)
        s = c * k, (d - a * v) * k
        return s, s
    _, (u, v) = jax.lax.scan(down, (jnp.float32(0), jnp.float32(0)), (a, b, c, d))
    return jax.lax.scan(lambda x, s: ((y := s[1] - s[0] * x), y), jnp.float32(0), (u, v), reverse=True)[1]


@problem(F, "levinson of one series", uniform(65), split=(None,))
def levinson(r):
    r = r * 0.1
    r = r.at[0].set(4.0)
    n = 64
    i = jnp.arange(n + 1)

    def step(k, s):
        a, e = s
        g = -(a * jnp.where(i < k, r[jnp.abs(k - i)], 0.0)).sum() / e
        a = a + g * jnp.where(i <= k, a[jnp.abs(k - i)], 0.0)
        return a, e * (1 - g * g)
    return jax.lax.fori_loop(1, n, step, (jnp.zeros(n + 1).at[0].set(1.0), r[0]))[0]


@problem(F, "conjugate gradients of twenty", (20, 20), (20,), split=(None,))
def conjugate(a, b):
    a = a @ a.T / 20 + jnp.eye(20)

    def step(s):
        x, r, p, q, n = s
        ap = a @ p
        t = q / (p @ ap)
        x, r = x + t * p, r - t * ap
        n2 = r @ r
        return x, r, r + n2 / q * p, n2, n + 1

    def solve(b):
        return jax.lax.while_loop(lambda s: (s[3] > 1e-10) & (s[4] < 60), step, (b * 0, b, b, b @ b, 0))[0]
    return repeat(20, lambda z: solve(b + 0.1 * z), b)


@problem(F, "sinkhorn of twenty", (20, 20), split=(None,))
def sinkhorn(c):
    k = jnp.exp(-c)

    def step(s, _):
        u, v = s
        u = 0.05 / (k @ v)
        v = 0.05 / (u @ k)
        return (u, v), jnp.abs(u).max()
    return jax.lax.scan(step, (jnp.ones(20), jnp.ones(20)), length=500)[1]


@problem(F, "sinkhorn in logarithms", (16, 16), split=(None,))
def sinkhorn_logarithms(c):
    def step(s, _):
        f, g = s
        f = -jax.nn.logsumexp(g[None] - c, axis=1)
        g = -jax.nn.logsumexp(f[:, None] - c, axis=0)
        return (f, g), None
    return jax.lax.scan(step, (jnp.zeros(16), jnp.zeros(16)), length=300)[0]


@problem(F, "momentum, gradient of a scan", (64, 8), (8,), split=(None,))
def meta(x, y):
    def run(rate):
        def step(s, x):
            w, m = s
            g = jax.grad(lambda w: jnp.square(jnp.tanh(w @ x) - 0.5).sum())(w)
            m = 0.9 * m + g
            return (w - rate * m, m), None
        return jnp.square(jax.lax.scan(step, (y, y * 0), jnp.tile(x, (8, 1)))[0][0]).sum()
    return jax.value_and_grad(run)(jnp.float32(0.01))


@problem(F, "union and find", ints(300, 600), ints(300, 600), split=(None,))
def union(a, b):
    def root(p, x):
        return jax.lax.while_loop(lambda x: p[x] != x, lambda x: p[x], x)

    def join(p, e):
        x, y = root(p, e[0]), root(p, e[1])
        return p.at[x].set(y), x == y
    return jax.lax.scan(join, jnp.arange(300), (a, b))[1]


@problem(F, "insertion sort", uniform(128), split=(None,))
def insertion(x):
    def insert(i, x):
        v = x[i]
        k, x = jax.lax.while_loop(lambda s: (s[0] > 0) & (s[1][s[0] - 1] > v),
                                  lambda s: (s[0] - 1, s[1].at[s[0]].set(s[1][s[0] - 1])), (i, x))
        return x.at[k].set(v)
    return jax.lax.fori_loop(1, 128, insert, x)


@problem(F, "viterbi of twenty states", (400, 20), (20, 20), split=(None,))
def viterbi_twenty(e, t):
    return viterbi(e, t)


@problem(F, "best of each row, in a scan", (300, 16, 24), split=(None,))
def best(x):
    def step(h, x):
        y = x + h[:, None]
        return 0.5 * y.max(1), y.argmax(1)
    return jax.lax.scan(step, jnp.zeros(16), x)[1]


@problem(F, "forward in logarithms, eight states", (300, 8), (8, 8), split=(None,))
def forward(e, t):
    def step(s, e):
        s = jax.nn.logsumexp(s[:, None] + t, axis=0) + e
        return s, s.max()
    return jax.lax.scan(step, e[0], e[1:])[1]


@problem(F, "twenty-four bodies", uniform(24, 3), (24, 3), uniform(24), split=(None,))
def bodies(x, v, m):
    def force(x):
        d = x[None] - x[:, None]
        r = (d * d).sum(-1) + 0.05
        return (m[None, :, None] * d / (r * jnp.sqrt(r))[..., None]).sum(1)

    def step(s, _):
        x, v = s
        v = v + 0.01 * force(x)
        return (x + 0.01 * v, v), None
    return jax.lax.scan(step, (x, v), length=200)[0][0]


@problem(F, "columns and rows in balance", uniform(16, 16), split=(None,))
def balanced(a):
    return repeat(300, lambda x: (y := x / x.sum(0)) / y.sum(1, keepdims=True), a + 0.1)


@problem(F, "scattered sums of a state", ints(64, 200, 64), uniform(200, 64), split=(None,))
def scattered(at, x):
    return jax.lax.scan(lambda t, s: (t.at[s[0]].add(s[1]), t[0]), jnp.zeros(64), (at, x))[1]


@problem(F, "minima along few edges", ints(300, 2000), ints(300, 2000), uniform(2000), split=(None,))
def few_edges(s, t, c):
    return jax.lax.fori_loop(0, 50, lambda _, d: d.at[t].min(d[s] + c), jnp.full(300, 1e9).at[0].set(0))


@problem(F, "options backward, one stock", uniform(1), split=(None,))
def one_stock(s):
    n = 500
    i = jnp.arange(n + 1)
    up = s[:, None] * jnp.exp(0.02 * (2 * i - n) / n)

    def back(k, v):
        held = 0.4999 * (v[:, 1:] + v[:, :-1])
        return jnp.maximum(jnp.pad(held, ((0, 0), (0, 1))), 0.5 - up * jnp.exp(0.02 * k / n))
    return jax.lax.fori_loop(0, n, back, jnp.maximum(0.5 - up, 0))[:, 0]


@problem(F, "lanczos, twenty vectors", (512, 512), (512,), split=(None,))
def lanczos(a, v):
    def step(s, _):
        q, p, b = s
        w = (a + a.T) @ q
        along = jnp.dot(q, w)
        w = w - along * q - b * p
        n = jnp.linalg.norm(w)
        return (w / n, q, n), (along, n)
    return jax.lax.scan(step, (v / jnp.linalg.norm(v), 0 * v, jnp.float32(0)), length=20)[1]


problem(F, "eight vectors of a symmetric matrix", (256, 256), (256, 8), split=(None,))(
    lambda a, v: repeat(10, lambda v: jnp.linalg.qr((a + a.T) @ v)[0], v))


@problem(F, "shortest tour, sets of towns", uniform(10, 10), split=(None,))
def tour(d):
    town = jnp.arange(10)

    def add(m, t):
        before = t[m & ~(1 << town)]
        return t.at[m].set(jnp.where((m >> town) & 1, jnp.minimum(t[m], jnp.min(before + d.T, 1)), jnp.inf))
    first = jnp.full((1024, 10), jnp.inf).at[1 << town, town].set(0.0)
    return jax.lax.fori_loop(1, 1024, add, first)[1023]


@problem(F, "grammar's chart", ints(2, 32, 8), ints(2, 8, 8, 8), split=(None,))
def chart(words, rules):
    i = jnp.arange(32)
    rules = rules.astype(jnp.float32)

    def longer(n, t):
        left = jnp.where((i < n)[None, :, None], t[i[:, None], jnp.minimum(i[:, None] + i, 31)], 0.0)
        end = jnp.minimum(i + n, 31)
        right = t[jnp.minimum(i[:, None] + i + 1, 31), end[:, None]]
        return t.at[i, end].max((jnp.einsum("ikb,ikc,abc->ia", left, right, rules) > 0).astype(jnp.float32))
    return jax.lax.fori_loop(1, 32, longer, jnp.zeros((32, 32, 8)).at[i, i].set(words.astype(jnp.float32)))
