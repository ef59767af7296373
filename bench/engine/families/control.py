"""Loops and branches that data decides, loops of maps, algorithms written out by hand."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, repeat, uniform

F = "control"


@problem(F, "one root by newton", uniform(256), split=(None,))
def one_root(x):
    """A loop until it converges, over one number, for one number after the other."""
    def root(a):
        def step(s):
            y = s[0] - (s[0] ** 3 + s[0] - a) / (3 * s[0] * s[0] + 1)
            return y, jnp.abs(y - s[0])
        return jax.lax.while_loop(lambda s: s[1] > 1e-6, step, (a, jnp.float32(1)))[0]
    return jax.lax.map(root, x)


@problem(F, "collatz, the longest", ints(2, 1), split=(None,))
def longest(x):
    def length(n):
        return jax.lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
                                  (n, 0))[1]
    return jax.lax.fori_loop(1, 1000, lambda n, best: jnp.maximum(best, length(n)), x[0])


@problem(F, "one number, until small", uniform(1), split=(None,))
def until(x):
    return jax.lax.while_loop(lambda s: s[0] > 1e-3, lambda s: (s[0] * 0.9999 - 1e-7 * jnp.sin(s[1]), s[1] + s[0]),
                              (x[0] + 1, x[0]))


@problem(F, "machine of four instructions", ints(4, 2000), ints(8, 2000), ints(8, 2000), split=(None,))
def machine(op, a, b):
    def step(r, x):
        op, a, b = x
        r = jax.lax.switch(op, [lambda r: r.at[a].add(r[b]), lambda r: r.at[a].multiply(0.5),
                                lambda r: r.at[a].set(r[b] - r[a]), lambda r: r.at[a].set(jnp.tanh(r[b]))], r)
        return r, r[0]
    return jax.lax.scan(step, jnp.arange(8.0), (op, a, b))[1]


@problem(F, "branches in a scan", (4000, 16), split=(None,))
def branches(x):
    def step(h, x):
        h = jax.lax.cond(x[0] > 0, lambda h: jnp.tanh(h + x), lambda h: 0.9 * h, h)
        return h, h.sum()
    return jax.lax.scan(step, jnp.zeros(16), x)[1]


@problem(F, "large branches in a loop", (256, 256), split=(None,))
def large_branches(a):
    def step(i, x):
        return jax.lax.cond(i % 4 == 0, lambda x: jnp.tanh(a @ x / 16), lambda x: 0.5 * x + 0.1, x)
    return jax.lax.fori_loop(0, 100, step, a)


@problem(F, "power iteration until it converges", (200, 200), split=(None,))
def power(a):
    a = a @ a.T

    def step(s):
        x, _ = s
        y = a @ x
        y = y / jnp.linalg.norm(y)
        return y, jnp.linalg.norm(y - x)
    return jax.lax.while_loop(lambda s: s[1] > 1e-5, step, (jnp.ones(200) / 200 ** 0.5, jnp.float32(1)))[0]


@problem(F, "inverse root by newton-schulz", uniform(128, 128), split=(None,))
def schulz(a):
    a = a @ a.T / 128 + jnp.eye(128)
    n = jnp.linalg.norm(a)
    eye = jnp.eye(128)

    def step(s):
        y, z, _, i = s
        t = 0.5 * (3 * eye - z @ y)
        return y @ t, t @ z, jnp.abs(t - eye).max(), i + 1
    return jax.lax.while_loop(lambda s: (s[2] > 1e-4) & (s[3] < 40), step, (a / n, eye, jnp.float32(1), 0))[1]


@problem(F, "bubble sort", uniform(64), split=(None,))
def bubble(x):
    def pair(j, x):
        a, b = x[j], x[j + 1]
        return x.at[j].set(jnp.minimum(a, b)).at[j + 1].set(jnp.maximum(a, b))
    return jax.lax.fori_loop(0, 63, lambda i, x: jax.lax.fori_loop(0, 63 - i, pair, x), x)


@problem(F, "insertion into a heap", uniform(1000), split=(None,))
def heap(x):
    def push(h, xs):
        value, n = xs

        def up(s):
            h, i = s
            parent = (i - 1) // 2
            return h.at[i].set(h[parent]).at[parent].set(h[i]), parent
        h = h.at[n].set(value)
        h = jax.lax.while_loop(lambda s: (s[1] > 0) & (s[0][(s[1] - 1) // 2] > s[0][s[1]]), up, (h, n))[0]
        return h, h[0]
    return jax.lax.scan(push, jnp.full(1000, 2.0), (x, jnp.arange(1000)))[0]


@problem(F, "binary search of many", uniform(16384), uniform(4096), split=(0,))
def binary(x, table):
    table = jnp.sort(table)

    def one(x):
        def step(s):
            low, high = s
            middle = (low + high) // 2
            right = table[middle] < x
            return jnp.where(right, middle + 1, low), jnp.where(right, high, middle)
        return jax.lax.while_loop(lambda s: s[0] < s[1], step, (0, 4096))[0]
    return jax.vmap(one)(x)


@problem(F, "elimination with pivots, by hand", (128, 128), (128,), split=(None,))
def elimination(a, b):
    a = jnp.concatenate([a, b[:, None]], 1)

    def column(k, a):
        p = jnp.argmax(jnp.where(jnp.arange(128) >= k, jnp.abs(a[:, k]), -1))
        row = a[p]
        a = a.at[p].set(a[k]).at[k].set(row)
        f = jnp.where(jnp.arange(128) > k, a[:, k] / row[k], 0)
        return a - f[:, None] * row
    return jax.lax.fori_loop(0, 128, column, a)


@problem(F, "orthogonal columns, by hand", (256, 64), split=(None,))
def gram(a):
    def column(k, q):
        v = q[:, k]
        c = jnp.where(jnp.arange(64) < k, q.T @ v, 0)
        v = v - q @ c
        return q.at[:, k].set(v / jnp.linalg.norm(v))
    return jax.lax.fori_loop(0, 64, column, a)


@problem(F, "jacobi rotations", uniform(32, 32), split=(None,))
def rotations(a):
    a = a + a.T
    pairs = jnp.array([(i, j) for i in range(32) for j in range(i + 1, 32)])

    def rotate(a, ij):
        i, j = ij
        t = 0.5 * jnp.arctan2(2 * a[i, j], a[i, i] - a[j, j])
        c, s = jnp.cos(t), jnp.sin(t)
        ri, rj = a[i], a[j]
        a = a.at[i].set(c * ri + s * rj).at[j].set(c * rj - s * ri)
        ci, cj = a[:, i], a[:, j]
        return a.at[:, i].set(c * ci + s * cj).at[:, j].set(c * cj - s * ci), None
    return jnp.sort(jnp.diagonal(repeat(4, lambda a: jax.lax.scan(rotate, a, pairs)[0], a)))


@problem(F, "checkpointed scan gradient", (256, 16, 32), (32, 32), split=(1,))
def checkpointed(x, w):
    def loss(w):
        step = jax.checkpoint(lambda h, x: (jnp.tanh(h @ w * 0.1 + x), None))
        return jnp.sum(jax.lax.scan(step, jnp.zeros((16, 32)), x)[0] ** 2)
    return jax.grad(loss)(w)


@problem(F, "products of 2x2, associative", (4096, 2, 2), split=(None,))
def associative(a):
    return jax.lax.associative_scan(lambda x, y: y @ x, 0.01 * a + jnp.eye(2))


@problem(F, "longest rise, max-plus", (1024, 4, 4), split=(None,))
def max_plus(a):
    join = lambda x, y: (x[..., :, :, None] + y[..., None, :, :]).max(-2)
    return jax.lax.associative_scan(join, a)


@problem(F, "map of sorts", uniform(64, 2048))
def map_sorts(x):
    return jax.lax.map(lambda x: jnp.sort(x)[::-1][:16] + x.mean(), x)


@problem(F, "map of solves", uniform(64, 32, 32), split=(0,))
def map_solves(a):
    return jax.lax.map(lambda a: jnp.linalg.solve(a + 32 * jnp.eye(32), a[0]), a)


@problem(F, "rows written in turn", (512, 256), split=(None,))
def rows(x):
    def step(i, a):
        row = jnp.where(i > 0, a[jnp.maximum(i - 1, 0)], 0) * 0.5 + x[i]
        return a.at[i].set(row)
    return jax.lax.fori_loop(0, 512, step, jnp.zeros((512, 256)))


@problem(F, "queue of customers", uniform(10000), uniform(10000), split=(None,))
def queue(gap, service):
    def step(free, x):
        arrival, service = x
        start = jnp.maximum(arrival, free)
        return start + service, start - arrival
    return jax.lax.scan(step, jnp.float32(0), (jnp.cumsum(gap), 0.9 * service))[1]


@problem(F, "bank of queues", uniform(2000), uniform(2000), split=(None,))
def bank(gap, service):
    def step(free, x):
        arrival, service = x
        i = jnp.argmin(free)
        start = jnp.maximum(arrival, free[i])
        return free.at[i].set(start + service), start - arrival
    return jax.lax.scan(step, jnp.zeros(4), (jnp.cumsum(gap), 3 * service))[1]


@problem(F, "cart and pole, policies", (256, 4), (4, 16), (16, 1), split=(0,))
def cart(x, a, b):
    def step(s, _):
        p, v, t, w = (s[:, i] for i in range(4))
        force = 10 * jnp.tanh(jnp.tanh(s @ a) @ b)[:, 0]
        c, d = jnp.cos(t), jnp.sin(t)
        f = (force + 0.05 * w * w * d) / 1.1
        acc = (9.8 * d - c * f) / (0.5 * (4 / 3 - 0.1 * c * c / 1.1))
        out = jnp.stack([p + 0.02 * v, v + 0.02 * (f - 0.05 * acc * c / 1.1), t + 0.02 * w, w + 0.02 * acc], 1)
        alive = (jnp.abs(p) < 2.4) & (jnp.abs(t) < 0.8)
        return jnp.where(alive[:, None], out, s), alive.sum()
    return jax.lax.scan(step, 0.05 * x, length=500)[1]


@problem(F, "table of actions, learning", uniform(1), split=(None,))
def q_learning(x):
    def step(state, key):
        q, s = state
        a, b, c = jax.random.split(key, 3)
        move = jnp.where(jax.random.uniform(a) < 0.1, jax.random.randint(b, (), 0, 4), jnp.argmax(q[s]))
        new = jnp.clip(s + jnp.array([1, -1, 8, -8])[move], 0, 63)
        reward = (new == 63).astype(jnp.float32)
        q = q.at[s, move].add(0.1 * (reward + 0.9 * q[new].max() - q[s, move]))
        return (q, jnp.where(reward > 0, 0, new)), reward
    return jax.lax.scan(step, (jnp.zeros((64, 4)) + 0 * x, 0), jax.random.split(jax.random.key(0), 2000))[1]


@problem(F, "advantages, backwards", (128, 64), (129, 64), split=(1, 1))
def advantages(reward, value):
    def step(a, x):
        r, v, w = x
        a = r + 0.99 * w - v + 0.95 * 0.99 * a
        return a, a
    return jax.lax.scan(step, jnp.zeros(64), (reward, value[:-1], value[1:]), reverse=True)[1]


@problem(F, "simplex search", uniform(2), split=(None,))
def simplex(x):
    f = lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    def step(s, _):
        s = s[jnp.argsort(jax.vmap(f)(s))]
        c = s[:2].mean(0)
        r, e, k = 2 * c - s[2], 3 * c - 2 * s[2], 0.5 * (c + s[2])
        fr = f(r)
        new = jnp.where(fr < f(s[0]), jnp.where(f(e) < fr, e, r), jnp.where(fr < f(s[1]), r, k))
        shrunk = 0.5 * (s + s[0])
        return jnp.where(f(new) < f(s[2]), s.at[2].set(new), shrunk), f(s[0])
    return jax.lax.scan(step, jnp.array([[0.0, 0], [1, 0], [0, 1]]) + x, length=300)[1]


@problem(F, "quasi-newton", (64,), split=(None,))
def bfgs(x):
    f = lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    from jax.scipy.optimize import minimize
    return minimize(f, x * 0.1, method="BFGS", options=dict(maxiter=30)).x


@problem(F, "integral by adaptive halves", uniform(1024))
def halves(x):
    f = lambda t, a: jnp.exp(-a * t * t) * jnp.cos(10 * t)

    def one(a):
        def step(s):
            t, h, total = s
            whole = h / 6 * (f(t, a) + 4 * f(t + h / 2, a) + f(t + h, a))
            both = h / 12 * (f(t, a) + 4 * f(t + h / 4, a) + 2 * f(t + h / 2, a) + 4 * f(t + 3 * h / 4, a) + f(t + h, a))
            good = (jnp.abs(whole - both) < 1e-5) | (h < 1e-3)
            return jnp.where(good, t + h, t), jnp.where(good, h * 1.5, h / 2), total + jnp.where(good, both, 0)
        return jax.lax.while_loop(lambda s: s[0] < 2.0, step, (0.0, 0.1, 0.0))[2]
    return jax.vmap(one)(x)


@problem(F, "rejection, one at a time", uniform(1), split=(None,))
def rejection(x):
    def draw(key):
        def step(s):
            key, _, _ = s
            key, a = jax.random.split(key)
            p = jax.random.uniform(a, (2,)) * 2 - 1
            return key, p, (p * p).sum()
        return jax.lax.while_loop(lambda s: s[2] > 1, step, (key, x[:1] * jnp.zeros(2), jnp.float32(2)))[1]
    return jax.lax.map(draw, jax.random.split(jax.random.key(0), 500))


@problem(F, "nested loops over blocks", (256, 256), (256, 256), split=(None,))
def blocks(a, b):
    def cell(i, c):
        def inner(k, c):
            x = jax.lax.dynamic_slice(a, (i // 8 * 32, k * 32), (32, 32))
            y = jax.lax.dynamic_slice(b, (k * 32, i % 8 * 32), (32, 32))
            old = jax.lax.dynamic_slice(c, (i // 8 * 32, i % 8 * 32), (32, 32))
            return jax.lax.dynamic_update_slice(c, old + x @ y, (i // 8 * 32, i % 8 * 32))
        return jax.lax.fori_loop(0, 8, inner, c)
    return jax.lax.fori_loop(0, 64, cell, jnp.zeros((256, 256)))


@problem(F, "sudoku, candidates", ints(512, 9, 9, 2), split=(None,))
def sudoku(x):
    given = jax.nn.one_hot(x[..., 0] % 9, 9, dtype=jnp.int32)
    open_ = jnp.where((x[..., 1] < 100)[..., None], given, 1)

    def step(c):
        fixed = (c.sum(-1, keepdims=True) == 1) * c
        boxes = fixed.reshape(3, 3, 3, 3, 9).sum((1, 3))
        seen = fixed.sum(0, keepdims=True) + fixed.sum(1, keepdims=True) + jnp.repeat(jnp.repeat(boxes, 3, 0), 3, 1)
        return jnp.where((seen > 0) & (fixed == 0), 0, c)
    return repeat(10, step, open_)
