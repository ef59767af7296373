"""Statistics: samplers, random numbers of all kinds, estimators, trees."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, repeat, uniform

F = "statistics"
KEY = lambda: jax.random.key(7)


def drawn(name, draw, *shape):
    problem(F, f"random {name}", uniform(*shape))(lambda x: draw(KEY(), x))


N = 1 << 17
drawn("gamma", lambda k, x: jax.random.gamma(k, 1 + x), 1 << 14)
drawn("beta", lambda k, x: jax.random.beta(k, 1 + x, 2.0), 1 << 13)
drawn("poisson", lambda k, x: jax.random.poisson(k, 5 + x), 1 << 15)
drawn("binomial", lambda k, x: jax.random.binomial(k, 20.0, 0.2 + 0.5 * x), 1 << 13)
drawn("categorical", lambda k, x: jax.random.categorical(k, x), 4096, 64)
drawn("dirichlet", lambda k, x: jax.random.dirichlet(k, 1 + x), 1024, 8)
drawn("exponential", lambda k, x: x + jax.random.exponential(k, x.shape), N)
drawn("truncated normal", lambda k, x: x + jax.random.truncated_normal(k, -1.0, 2.0, x.shape), N)
drawn("laplace and gumbel", lambda k, x: jax.random.laplace(k, x.shape) + jax.random.gumbel(k, x.shape) + x, N)
drawn("student", lambda k, x: x + jax.random.t(k, 5.0, x.shape), 1 << 13)
drawn("integers", lambda k, x: jax.random.randint(k, x.shape, 0, 1000) + x, 1 << 19)
drawn("bits", lambda k, x: (jax.random.bits(k, x.shape) >> 8).astype(jnp.float32) + x, 1 << 20)
drawn("permutation", lambda k, x: jax.random.permutation(k, x), 1 << 17)
drawn("choice without replacement", lambda k, x: jax.random.choice(k, x, (4096,), replace=False), 1 << 16)
drawn("choice by weight", lambda k, x: jax.random.choice(k, x.shape[0], (1 << 16,), p=x / x.sum()), 4096)
drawn("orthogonal", lambda k, x: jax.random.orthogonal(k, 64) * x, 64, 64)
drawn("multivariate normal", lambda k, x: jax.random.multivariate_normal(
    k, jnp.zeros(16), jnp.eye(16) + 0.1 * x.T @ x / 16, (8192,)), 16, 16)


@problem(F, "bootstrap means", (1000,), split=(None,))
def bootstrap(x):
    at = jax.random.randint(KEY(), (2000, 1000), 0, 1000)
    return jnp.quantile(x[at].mean(1), jnp.array([0.025, 0.975]))


@problem(F, "bootstrap, one sample at a time", (1000,), split=(None,))
def bootstrap_map(x):
    def one(key):
        y = x[jax.random.randint(key, (1000,), 0, 1000)]
        return y.mean() / y.std()
    return jax.lax.map(one, jax.random.split(KEY(), 500))


@problem(F, "permutation test", (512,), (512,), split=(None,))
def permutation(x, y):
    both = jnp.concatenate([x, y])

    def one(key):
        z = jax.random.permutation(key, both)
        return z[:512].mean() - z[512:].mean()
    return jax.vmap(one)(jax.random.split(KEY(), 256))


@problem(F, "hamiltonian sampler", (512, 16), ints(2, 512), split=(0, 0))
def hamiltonian(x, y):
    def energy(w):
        z = x @ w
        return jnp.sum(jnp.logaddexp(0, z) - y * z) + 0.5 * w @ w
    slope = jax.grad(energy)

    def step(state, key):
        w = state
        a, b = jax.random.split(key)
        p = jax.random.normal(a, w.shape)

        def leap(s):
            q, p = s
            p = p - 0.01 * slope(q)
            q = q + 0.02 * p
            return q, p - 0.01 * slope(q)
        q, r = repeat(8, leap, (w, p))
        change = energy(w) + 0.5 * p @ p - energy(q) - 0.5 * r @ r
        w = jnp.where(jnp.log(jax.random.uniform(b)) < change, q, w)
        return w, w
    return jax.lax.scan(step, jnp.zeros(16), jax.random.split(KEY(), 50))[1]


@problem(F, "gibbs sampler", uniform(2), split=(None,))
def gibbs(x):
    def step(state, key):
        a, b = state
        n = jax.random.normal(key, (2,))
        a = 0.9 * b + 0.43 * n[0]
        b = 0.9 * a + 0.43 * n[1]
        return (a, b), a * b
    return jax.lax.scan(step, (x[0], x[1]), jax.random.split(KEY(), 2000))[1]


@problem(F, "particle filter f64", uniform(100, dtype="f8"), split=(None,))
def particles(z):
    def step(state, xs):
        x = state
        z, key = xs
        a, b = jax.random.split(key)
        x = 0.95 * x + jax.random.normal(a, x.shape)
        w = jax.nn.softmax(-0.5 * (x - z) ** 2)
        u = (jnp.arange(2048) + jax.random.uniform(b)) / 2048
        at = jnp.searchsorted(jnp.cumsum(w), u)
        return x[jnp.minimum(at, 2047)], jnp.sum(w * x)
    return jax.lax.scan(step, jnp.zeros(2048), (z, jax.random.split(KEY(), 100)))[1]


@problem(F, "mixture of gaussians", (8192, 8), (16, 8))
def mixture(x, mean):
    def step(state):
        mean, cov, w = state
        l = jnp.linalg.cholesky(cov)
        d = x[:, None] - mean
        y = jax.vmap(lambda l, d: jax.scipy.linalg.solve_triangular(l, d.T, lower=True).T, (0, 1), 1)(l, d)
        logp = jnp.log(w) - 0.5 * (y * y).sum(-1) - jnp.log(jnp.diagonal(l, axis1=1, axis2=2)).sum(-1)
        r = jax.nn.softmax(logp)
        n = r.sum(0) + 1e-3
        mean = r.T @ x / n[:, None]
        d = x[:, None] - mean
        cov = jnp.einsum("nk,nki,nkj->kij", r, d, d) / n[:, None, None] + 0.01 * jnp.eye(8)
        return mean, cov, n / 8192
    return repeat(3, step, (mean, jnp.tile(jnp.eye(8), (16, 1, 1)), jnp.full(16, 1 / 16)))[0]


@problem(F, "principal components", (4096, 64))
def principal(x):
    x = x - x.mean(0)
    values, vectors = jnp.linalg.eigh(x.T @ x / 4096)
    return jnp.abs(x @ vectors[:, -8:])


@problem(F, "ridge regressions", (1024, 32), (1024,), uniform(64))
def ridge(x, y, strength):
    g, b = x.T @ x, x.T @ y
    return jax.vmap(lambda s: jnp.linalg.solve(g + s * jnp.eye(32), b))(strength * 10)


@problem(F, "lasso, coordinate descent", (512, 64), (512,), split=(None,))
def lasso(x, y):
    norms = (x * x).sum(0)

    def coordinate(j, state):
        w, r = state
        c = x[:, j]
        r = r + c * w[j]
        new = jnp.dot(c, r)
        new = jnp.sign(new) * jnp.maximum(jnp.abs(new) - 5, 0) / norms[j]
        return w.at[j].set(new), r - c * new
    return repeat(10, lambda s: jax.lax.fori_loop(0, 64, coordinate, s), (jnp.zeros(64), y))[0]


@problem(F, "lasso, shrinkage", (256, 512), (256,), split=(None,))
def shrinkage(a, b):
    shrink = lambda x: jnp.sign(x) * jnp.maximum(jnp.abs(x) - 0.01, 0)
    return repeat(100, lambda x: shrink(x - 1e-3 * (a.T @ (a @ x - b))), jnp.zeros(512))


@problem(F, "rank correlation", (64, 4096))
def ranks(x):
    r = jnp.argsort(jnp.argsort(x, 1), 1).astype(jnp.float32)
    r = (r - r.mean(1, keepdims=True)) / r.std(1, keepdims=True)
    return r @ r.T / 4096


problem(F, "correlation matrix", (2048, 256))(lambda x: jnp.corrcoef(x, rowvar=False))
problem(F, "covariance f64", uniform(4096, 64, dtype="f8"))(lambda x: jnp.cov(x, rowvar=False))


@problem(F, "two samples compared", (32768,), (32768,), split=(None,))
def smirnov(x, y):
    x, y = jnp.sort(x), jnp.sort(y)
    both = jnp.concatenate([x, y])
    return jnp.max(jnp.abs(jnp.searchsorted(x, both, side="right") - jnp.searchsorted(y, both, side="right")))


@problem(F, "volatility likelihood gradient", (2000,), split=(None,))
def volatility(r):
    def loss(p):
        def step(v, r):
            v = p[0] + p[1] * r * r + p[2] * v
            return v, jnp.log(v) + r * r / v
        return jax.lax.scan(step, jnp.float32(1), r)[1].sum()
    return jax.grad(loss)(jnp.array([0.1, 0.1, 0.8]))


@problem(F, "kalman smoother f64", uniform(500, 2, dtype="f8"), split=(None,))
def smoother(z):
    f = jnp.array([[1.0, 0.1], [0.0, 1.0]])

    def forward(carry, z):
        x, p = carry
        x, p = f @ x, f @ p @ f.T + 0.01 * jnp.eye(2)
        k = p @ jnp.linalg.inv(p + jnp.eye(2))
        new = x + k @ (z - x), p - k @ p
        return new, (*new, x, p)
    x, p, xp, pp = jax.lax.scan(forward, (jnp.zeros(2), jnp.eye(2)), z)[1]

    def back(carry, v):
        xs, ps = carry
        x, p, xp, pp = v
        g = p @ f.T @ jnp.linalg.inv(pp)
        xs, ps = x + g @ (xs - xp), p + g @ (ps - pp) @ g.T
        return (xs, ps), xs
    rest = x[:-1], p[:-1], xp[1:], pp[1:]
    return jax.lax.scan(back, (x[-1], p[-1]), rest, reverse=True)[1]


@problem(F, "boosting histograms", ints(64, 32768, 16, dtype=np.int32), (32768,), (32768,), split=(0, 0, 0))
def boosting(bins, g, h):
    at = bins + 64 * jnp.arange(16)
    sums = jnp.zeros((1024, 2)).at[at].add(jnp.stack([g, h], 1)[:, None])
    left = jnp.cumsum(sums.reshape(16, 64, 2), 1)
    right = left[:, -1:] - left
    gain = left[..., 0] ** 2 / (jnp.abs(left[..., 1]) + 1) + right[..., 0] ** 2 / (jnp.abs(right[..., 1]) + 1)
    return gain


@problem(F, "forest of trees", (4096, 16), ints(16, 50, 255), (50, 255), (50, 256), split=(0,))
def forest(x, feature, threshold, leaf):
    def tree(feature, threshold, leaf):
        def level(at):
            value = jnp.take_along_axis(x, feature[at][:, None], 1)[:, 0]
            return 2 * at + 1 + (value > threshold[at])
        return leaf[repeat(8, level, jnp.zeros(4096, jnp.int32)) - 255]
    return jax.lax.map(lambda t: tree(*t), (feature, threshold, leaf)).sum(0)


@problem(F, "rolling statistics", (256, 8192))
def rolling(x):
    s, q = (jnp.cumsum(jnp.pad(a, ((0, 0), (1, 0))), 1) for a in (x, x * x))
    mean, square = ((a[:, 32:] - a[:, :-32]) / 32 for a in (s, q))
    return (x[:, 31:] - mean) * jax.lax.rsqrt(jnp.maximum(square - mean * mean, 1e-6))


@problem(F, "moving averages, exponential", (256, 4096))
def exponential(x):
    return jax.lax.scan(lambda m, x: (m := 0.9 * m + 0.1 * x, m), jnp.zeros(256), x.T)[1].T


@problem(F, "annealing of a tour", uniform(128, 2), split=(None,))
def tour(city):
    def step(state, key):
        order, length = state
        a, b, c = jax.random.split(key, 3)
        i, j = jnp.sort(jax.random.randint(a, (2,), 0, 128))
        k = jnp.arange(128)
        new = order[jnp.where((k >= i) & (k <= j), i + j - k, k)]
        d = city[new] - city[jnp.roll(new, 1)]
        l = jnp.sum(jnp.sqrt((d * d).sum(-1)))
        take = jnp.log(jax.random.uniform(b)) < (length - l) * 20
        return (jnp.where(take, new, order), jnp.where(take, l, length)), l
    return jax.lax.scan(step, (jnp.arange(128), jnp.float32(1e9)), jax.random.split(KEY(), 1000))[1]


@problem(F, "american options, trees", uniform(256))
def american(spot):
    n = 256
    i = jnp.arange(n + 1)
    s = spot[:, None] * jnp.exp(0.02 * (2 * i - n))

    def back(k, v):
        held = 0.5 * (v + jnp.roll(v, -1, 1)) * 0.9999
        early = 0.5 - s * jnp.exp(0.02 * k)
        return jnp.maximum(held, early)
    return jax.lax.fori_loop(0, n, back, jnp.maximum(0.5 - s, 0))[:, 0]


@problem(F, "stochastic volatility paths", uniform(16384))
def heston(s):
    def step(state, key):
        s, v = state
        z = jax.random.normal(key, (2, 16384))
        v = jnp.maximum(v, 0)
        s = s * jnp.exp(-0.5 * v * 0.01 + jnp.sqrt(v) * 0.1 * z[0])
        return (s, v + 0.02 * (0.04 - v) + 0.05 * jnp.sqrt(v) * (0.3 * z[0] + 0.95 * z[1])), None
    return jax.lax.scan(step, (s, jnp.full(16384, 0.04)), jax.random.split(KEY(), 50))[0][0]


@problem(F, "logistic regression, newton", (4096, 32), ints(2, 4096), split=(0, 0))
def newton(x, y):
    def step(w):
        p = jax.nn.sigmoid(x @ w)
        h = (x * (p * (1 - p))[:, None]).T @ x + jnp.eye(32)
        return w - jnp.linalg.solve(h, x.T @ (p - y) + w)
    return repeat(8, step, jnp.zeros(32))


@problem(F, "embedding of neighbors gradient", (512, 2), uniform(512, 512), split=(None,))
def neighbors(y, p):
    p = p / p.sum()

    def loss(y):
        d = jnp.sum((y[:, None] - y[None]) ** 2, -1)
        q = 1 / (1 + d)
        return jnp.sum(p * (jnp.log(p + 1e-9) - jnp.log(q / q.sum() + 1e-9)))
    return repeat(10, lambda y: y - 0.1 * jax.grad(loss)(y), y)


@problem(F, "naive bayes counts", ints(8, 8192, 32), ints(4, 8192), split=(0, 0))
def bayes(x, y):
    one = jax.nn.one_hot(y, 4)
    counts = jnp.einsum("nc,nfv->cfv", one, jax.nn.one_hot(x, 8)) + 1
    logp = jnp.log(counts / counts.sum(-1, keepdims=True))
    return jnp.argmax(logp[:, jnp.arange(32), x].sum(-1), 0)


@problem(F, "gaussian process likelihood gradient", (256, 4), (256,), split=(None,))
def process(x, y):
    def loss(p):
        d = jnp.sum(((x[:, None] - x[None]) * jnp.exp(p[0])) ** 2, -1)
        l = jnp.linalg.cholesky(jnp.exp(p[1] - 0.5 * d) + 0.1 * jnp.eye(256))
        a = jax.scipy.linalg.solve_triangular(l, y, lower=True)
        return 0.5 * a @ a + jnp.log(jnp.diagonal(l)).sum()
    return jax.grad(loss)(jnp.zeros(2))


@problem(F, "evolution strategy", (64,), split=(None,))
def evolution(x):
    def step(x, key):
        e = jax.random.normal(key, (256, 64))
        y = x + 0.1 * e
        cost = jnp.sum(y * y - jnp.cos(6 * y), 1)
        order = jnp.argsort(cost)
        return x + 0.1 * e[order[:64]].mean(0), cost.min()
    return jax.lax.scan(step, x, jax.random.split(KEY(), 100))[1]


problem(F, "histogram in two dimensions", uniform(1 << 18), uniform(1 << 18), split=(0, 0))(
    lambda x, y: jnp.histogram2d(x, y, 64, range=((0, 1), (0, 1)))[0])
problem(F, "weighted counts", ints(1000, 1 << 19), uniform(1 << 19), split=(0, 0))(
    lambda i, w: jnp.bincount(i, w, length=1000))
problem(F, "density on a grid", (4096,), split=(None,))(
    lambda x: jax.nn.logsumexp(-0.5 * ((jnp.linspace(-4, 4, 1024)[:, None] - x) / 0.1) ** 2, 1))
problem(F, "entropies of rows", uniform(4096, 512))(
    lambda x: (lambda p: -jnp.sum(jax.scipy.special.xlogy(p, p), 1))(x / x.sum(1, keepdims=True)))
problem(F, "special functions", uniform(1 << 17))(
    lambda x: jax.scipy.special.betainc(2.0, 3.0, x) + jax.scipy.special.i0(x) + jax.scipy.special.ndtri(0.01 + 0.98 * x))
problem(F, "incomplete gamma", uniform(1 << 15))(lambda x: jax.scipy.special.gammainc(2.5, 4 * x))
problem(F, "normal numbers f64", lambda r: r.standard_normal(1 << 16))(
    lambda x: x + jax.random.normal(KEY(), (1 << 16,), jnp.float64))
problem(F, "von mises", uniform(2048), uniform(512))(
    lambda x, m: jax.nn.logsumexp(4 * jnp.cos(6 * x[:, None] - 6 * m), 1))
problem(F, "cauchy likelihood, all pairs", uniform(1024))(
    lambda x: jnp.sum(jnp.log1p((x[None] - x[:, None]) ** 2), 1))

# Likelihoods and functions over pairs.

problem(F, "gaussian sums, all pairs", (2048,), split=(None,))(lambda x: jnp.exp(-0.5 * (x[:, None] - x) ** 2).sum(1))
problem(F, "gaussian sums, all pairs f64", lambda r: r.standard_normal(512))(
    lambda x: jnp.exp(-0.5 * (x[:, None] - x) ** 2).sum(1))
problem(F, "logarithms of distances, all pairs", uniform(1024), split=(None,))(
    lambda x: jnp.log(1e-3 + (x[:, None] - x) ** 2).sum(1))
problem(F, "density, wide kernel", (4096,), split=(None,))(
    lambda x: jax.nn.logsumexp(-0.5 * ((jnp.linspace(-4, 4, 1024)[:, None] - x) / 0.7) ** 2, 1))
problem(F, "ranking loss gradient", (1024,), (1024,), split=(None,))(
    jax.grad(lambda s, y: jnp.mean(jax.nn.softplus((s[None] - s[:, None]) * jnp.sign(y[:, None] - y)))))
problem(F, "logistic kernel f64", uniform(512, dtype="f8"), uniform(512, dtype="f8"), split=(0,))(
    lambda x, y: jnp.sum(jax.nn.sigmoid(x[:, None] - y) * jnp.log1p(jnp.abs(x[:, None] - y)), 1))
problem(F, "matern gram f64", uniform(512, 4, dtype="f8"))(
    lambda x: (lambda d: (1 + 2.23 * d + 1.67 * d * d) * jnp.exp(-2.23 * d))(
        jnp.sqrt(jnp.sum((x[:, None] - x[None]) ** 2, -1) + 1e-12)))
problem(F, "zero-inflated counts", ints(4, 1 << 18), (1 << 18,), split=(0, 0))(
    lambda y, z: jnp.where(y == 0, jnp.logaddexp(jax.nn.log_sigmoid(z), jax.nn.log_sigmoid(-z) - jnp.exp(z)),
                           jax.nn.log_sigmoid(-z) + y * z - jnp.exp(z)))


@problem(F, "negative binomial gradient", ints(50, 1 << 17), (1 << 17,), split=(0, 0))
def negative_binomial(y, m):
    from jax.scipy.special import gammaln, xlog1py, xlogy
    y = y.astype(jnp.float32)

    def loss(m, r):
        p = r / (r + jnp.exp(m))
        return -jnp.sum(gammaln(y + r) - gammaln(r) - gammaln(y + 1.0) + xlogy(r, p) + xlog1py(y, -p))
    return jax.grad(loss, (0, 1))(m, 2.0)


@problem(F, "boosted stumps", (2048, 8), ints(2, 2048), split=(0, 0))
def stumps(x, y):
    sign = 2.0 * y - 1
    says = jnp.where(x[:, :, None] > jnp.linspace(-2, 2, 17), 1.0, -1.0)

    def step(w, _):
        error = jnp.einsum("n,nft->ft", w, says != sign[:, None, None])
        least = jnp.minimum(error, 1 - error)
        best = jnp.argmin(least)
        f, t = best // 17, best % 17
        right = jnp.where(error[f, t] < 0.5, 1.0, -1.0)
        weight = 0.5 * jnp.log((1 - least[f, t]) / (least[f, t] + 1e-9))
        w = w * jnp.exp(-weight * sign * right * says[:, f, t])
        return w / w.sum(), (best, weight)
    return jax.lax.scan(step, jnp.ones(2048) / 2048, length=15)[1]


drawn("rayleigh and weibull", lambda key, x: jax.random.rayleigh(key, 2.0, x.shape) + jax.random.weibull_min(key, x, 1.5), 1 << 16)
problem(F, "derivatives of digamma", uniform(8192))(lambda x: jax.scipy.special.polygamma(2, 0.5 + 3 * x))
problem(F, "zeta function", uniform(8192))(lambda x: jax.scipy.special.zeta(1.5 + 3 * x, 1.0))


@problem(F, "factors without negatives", ints(50, 128, 96), uniform(128, 8), uniform(8, 96), split=(0, 0))
def factors(a, w, h):
    def step(s):
        w, h = s
        h = h * (w.T @ a) / (w.T @ w @ h + 1e-6)
        return w * (a @ h.T) / (w @ (h @ h.T) + 1e-6), h
    return repeat(10, step, (w + 0.1, h + 0.1))[1]
