"""Graphs, routes, and sparse matrices."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, repeat, uniform

F = "graphs"
EDGES = ints(8192, 65536), ints(8192, 65536)


@problem(F, "breadth first", *EDGES, split=(0, 0))
def breadth(source, target):
    def step(state):
        level, depth, _ = state
        reached = jax.ops.segment_max((level[source] == depth).astype(jnp.int32), target, 8192)
        new = (reached > 0) & (level < 0)
        return jnp.where(new, depth + 1, level), depth + 1, new.any()
    start = jnp.full(8192, -1, jnp.int32).at[0].set(0)
    return jax.lax.while_loop(lambda s: s[2], step, (start, 0, jnp.array(True)))[0]


@problem(F, "shortest paths, bellman-ford", *EDGES, uniform(65536), split=(0, 0, 0))
def bellman(source, target, cost):
    start = jnp.full(8192, 1e9).at[0].set(0)
    return repeat(20, lambda d: jnp.minimum(d, jax.ops.segment_min(d[source] + cost, target, 8192)), start)


problem(F, "triangles", ints(2, 512, 512, dtype=np.int8))(
    lambda a: jnp.sum((lambda f: (f @ f) * f)(a.astype(jnp.float32))))
problem(F, "reachability", uniform(256, 256))(
    lambda a: repeat(8, lambda r: ((r.astype(jnp.float32) @ r.astype(jnp.float32)) > 0) | r, a < 0.01))


@problem(F, "labels spread", *EDGES, uniform(8192, 16), split=(0, 0))
def spread(source, target, x):
    degree = jnp.maximum(jax.ops.segment_sum(jnp.ones(65536), target, 8192), 1)[:, None]
    return repeat(10, lambda y: 0.9 * jax.ops.segment_sum(y[source], target, 8192) / degree + 0.1 * x, x)


@problem(F, "graph attention", (8192, 64), *EDGES, (64, 64), (64, 2), split=(None, 0, 0))
def attention(x, source, target, w, a):
    h = x @ w
    s = jax.nn.leaky_relu((h @ a[:, 0])[source] + (h @ a[:, 1])[target]) * 0.1
    s = jnp.exp(s - jax.ops.segment_max(s, target, 8192)[target])
    s = s / (jax.ops.segment_sum(s, target, 8192)[target] + 1e-9)
    return jax.ops.segment_sum(s[:, None] * h[source], target, 8192)


@problem(F, "components by pointer jumping", *EDGES, split=(0, 0))
def jumping(source, target):
    def step(p):
        low = jnp.minimum(p[source], p[target])
        p = p.at[p[source]].min(low).at[p[target]].min(low)
        return p[p]
    return repeat(10, step, jnp.arange(8192))


@problem(F, "spanning tree, dense", uniform(512, 512), split=(None,))
def spanning(d):
    d = d + d.T

    def step(state, _):
        best, done = state
        i = jnp.argmin(jnp.where(done, jnp.inf, best))
        return (jnp.minimum(best, d[i]), done.at[i].set(True)), best[i]
    return jax.lax.scan(step, (d[0], jnp.zeros(512, bool).at[0].set(True)), length=511)[1]


@problem(F, "dijkstra, dense", uniform(512, 512), split=(None,))
def dijkstra(d):
    def step(_, state):
        best, done = state
        i = jnp.argmin(jnp.where(done, jnp.inf, best))
        return jnp.minimum(best, best[i] + d[i]), done.at[i].set(True)
    return jax.lax.fori_loop(0, 512, step, (d[0], jnp.zeros(512, bool)))[0]


@problem(F, "random walks", ints(4096, 4096, 8), ints(4096, 4096), split=(None, 0))
def walks(neighbors, start):
    def step(state, _):
        at, key = state
        key, now = jax.random.split(key)
        at = neighbors[at, jax.random.randint(now, at.shape, 0, 8)]
        return (at, key), at
    return jax.lax.scan(step, (start, jax.random.key(0)), length=40)[1]


@problem(F, "optimal transport", uniform(256, 256))
def transport(cost):
    k = jnp.exp(-cost * 10)
    return repeat(100, lambda u: 1 / (k @ (1 / (k.T @ u))), jnp.ones(256))


@problem(F, "optimal transport, logarithms", uniform(256, 256))
def logarithms(cost):
    def step(state):
        f, g = state
        g = -jax.nn.logsumexp(f[:, None] - 10 * cost, 0)
        return -jax.nn.logsumexp(g[None] - 10 * cost, 1), g
    return repeat(20, step, (jnp.zeros(256), jnp.zeros(256)))[0]


@problem(F, "auction of tasks", uniform(128, 128), split=(None,))
def auction(value):
    def step(state):
        price, owner, task, _ = state
        gain = value - price
        best, at = jax.lax.top_k(gain, 2)
        free = task < 0
        bid = jnp.where(free, best[:, 0] - best[:, 1] + 0.01, -1.0)
        offer = jnp.full((128, 128), -1.0).at[jnp.arange(128), at[:, 0]].set(bid)
        who, most = offer.argmax(0), offer.max(0)
        sold = most > 0
        owner = jnp.where(sold, who, owner)
        task = jnp.full(129, -1).at[jnp.where(owner < 0, 128, owner)].set(jnp.arange(128))[:128]
        return price + jnp.where(sold, most, 0), owner, task, (task < 0).any()
    none = jnp.full(128, -1)
    start = jnp.zeros(128), none, none, jnp.array(True)
    return jax.lax.while_loop(lambda s: s[3], step, start)[0]


@problem(F, "compressed rows, many columns", ints(16384, 131072), ints(16384, 131072), (131072,), (16384, 32), split=(0, 0, 0))
def rows(row, column, value, x):
    return jax.ops.segment_sum(value[:, None] * x[column], jnp.sort(row), 16384, indices_are_sorted=True)


@problem(F, "sparse module", ints(4096, 65536, 2), (65536,), (4096, 16), split=(None,))
def module(at, value, x):
    from jax.experimental import sparse
    return sparse.BCOO((value, at), shape=(4096, 4096)) @ x


@problem(F, "sparse gradients", ints(4096, 32768), ints(4096, 32768), (32768,), (4096,), split=(0, 0, 0))
def sparse_gradient(row, column, value, x):
    def loss(value, x):
        return jnp.sum(jax.ops.segment_sum(value * x[column], row, 4096) ** 2)
    return jax.grad(loss, (0, 1))(value, x)


@problem(F, "conjugate gradients, sparse", ints(16384, 65536), ints(16384, 65536), (65536,), (16384,), split=(0, 0, 0))
def sparse_cg(row, column, value, b):
    def product(x):
        y = jax.ops.segment_sum(value * x[column], row, 16384)
        return 40 * x + y + jax.ops.segment_sum(value * x[row], column, 16384)
    return jax.scipy.sparse.linalg.cg(product, b, maxiter=20, tol=0.0)[0]


@problem(F, "edge network gradient", (2048, 16), ints(2048, 16384), ints(2048, 16384), (32, 32), (32, 16), split=(None, 0, 0))
def edge_network(x, source, target, a, b):
    def loss(a, b):
        m = jax.nn.relu(jnp.concatenate([x[source], x[target]], 1) @ a) @ b
        return jnp.mean(jnp.tanh(jax.ops.segment_sum(m, target, 2048)) ** 2)
    return jax.grad(loss, (0, 1))(a, b)


@problem(F, "longest common subsequence", ints(4, 512), ints(4, 512), split=(None,))
def subsequence(a, b):
    def row(previous, x):
        take = jnp.where(b == x, previous[:-1] + 1, previous[1:])
        new = jax.lax.cummax(jnp.concatenate([jnp.zeros(1, jnp.int32), take]))
        return new, None
    return jax.lax.scan(row, jnp.zeros(513, jnp.int32), a)[0]


@problem(F, "time warping", (256,), (256,), split=(None,))
def warping(a, b):
    def row(previous, x):
        cost = jnp.abs(x - b)

        def cell(left, y):
            c, up, corner = y
            new = c + jnp.minimum(left, jnp.minimum(up, corner))
            return new, new
        new = jax.lax.scan(cell, jnp.float32(1e9), (cost, previous[1:], previous[:-1]))[1]
        return jnp.concatenate([jnp.full(1, 1e9), new]), None
    start = jnp.full(257, 1e9).at[0].set(0)
    return jax.lax.scan(row, start, a)[0]


@problem(F, "chain of products, intervals", uniform(128), split=(None,))
def chain(x):
    """The cheapest order to multiply a chain of matrices, by lengths of intervals."""
    n = 128
    i = jnp.arange(n)

    def length(l, cost):
        def split(k, best):
            left = cost[i, jnp.minimum(i + k, n - 1)]
            right = cost[jnp.minimum(i + k + 1, n - 1), jnp.minimum(i + l, n - 1)]
            here = left + right + x[i] * x[jnp.minimum(i + k, n - 1)] * x[jnp.minimum(i + l, n - 1)]
            return jnp.where(k < l, jnp.minimum(best, here), best)
        best = jax.lax.fori_loop(0, n, split, jnp.full(n, 1e9))
        return cost.at[i, jnp.minimum(i + l, n - 1)].set(jnp.where(i + l < n, best, cost[i, jnp.minimum(i + l, n - 1)]))
    return jax.lax.fori_loop(1, 32, length, jnp.zeros((n, n)))[0]


@problem(F, "coin change", ints(50, 24, low=1), split=(None,))
def coins(value):
    def coin(ways, v):
        def amount(a, w):
            return w.at[a].add(jnp.where(a >= v, w[jnp.maximum(a - v, 0)], 0.0))
        return jax.lax.fori_loop(1, 1024, amount, ways), None
    return jax.lax.scan(coin, jnp.zeros(1024).at[0].set(1.0), value)[0]


@problem(F, "grid world, value iteration", uniform(128, 128))
def grid_world(reward):
    def step(v):
        p = jnp.pad(v, 1, mode="edge")
        moves = jnp.stack([p[2:, 1:-1], p[:-2, 1:-1], p[1:-1, 2:], p[1:-1, :-2]])
        return reward + 0.95 * (0.8 * moves.max(0) + 0.05 * moves.sum(0))
    return repeat(100, step, reward * 0)


@problem(F, "markov decisions", uniform(4, 128, 128), uniform(4, 128), split=(None,))
def decisions(p, r):
    p = p / p.sum(-1, keepdims=True)

    def step(state):
        v, _ = state
        new = (r + 0.9 * jnp.einsum("asn,n->as", p, v)).max(0)
        return new, jnp.abs(new - v).max()
    return jax.lax.while_loop(lambda s: s[1] > 1e-4, step, (jnp.zeros(128), jnp.float32(1)))[0]


@problem(F, "independent set, largest first", ints(8192, 32768), ints(8192, 32768), split=(0, 0))
def independent(source, target):
    rank = jax.random.uniform(jax.random.key(0), (8192,))

    def step(state):
        free, chosen = state
        rest = jnp.where(free, rank, -1)
        other = lambda v: jnp.where(source != target, rest[v], -1)
        near = jnp.full(8192, -1.0).at[source].max(other(target)).at[target].max(other(source))
        new = free & (rest > near)
        reached = jnp.zeros(8192, bool).at[source].max(new[target]).at[target].max(new[source])
        return free & ~new & ~reached, chosen | new
    return jax.lax.while_loop(lambda s: s[0].any(), step, (jnp.ones(8192, bool), jnp.zeros(8192, bool)))[1]


problem(F, "softmax by groups", ints(2000, 1 << 15), (1 << 15,), split=(0, 0))(
    lambda g, x: (lambda e: e / jax.ops.segment_sum(e, g, 2000)[g])(jnp.exp(x - jax.ops.segment_max(x, g, 2000)[g])))
problem(F, "depths in a tree", lambda r: (r.random(8192) * np.arange(8192)).astype(np.int32))(
    lambda p: repeat(13, lambda s: (s[0] + s[0][s[1]], s[1][s[1]]), (jnp.minimum(jnp.arange(8192), 1), p))[0])
problem(F, "differences along edges", (8192, 32), *EDGES, (32,), split=(None, 0, 0))(
    lambda x, s, t, w: jnp.exp(-jnp.sum((x[s] - x[t]) ** 2 * w * w, -1) / 100))
problem(F, "neighbors around a point", (16384, 48), ints(16384, 8192, 6), split=(None, 0))(
    lambda x, i: x[i].max(1) - x[:8192])
