"""Simulations: differential equations, particles, lattices."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, repeat, uniform

F = "science"
shifted = lambda x, d, axis: jnp.roll(x, d, axis)


@problem(F, "odeint, adaptive steps", (64, 2))
def adaptive(x):
    from jax.experimental.ode import odeint
    slope = lambda x, t: jnp.stack([x[:, 1], -jnp.sin(x[:, 0]) - 0.1 * x[:, 1]], 1)
    return odeint(slope, x, jnp.linspace(0.0, 10.0, 50))[-1]


@problem(F, "dormand-prince, one equation", uniform(1), split=(None,))
def one_equation(x):
    """Steps as long as the error allows, until the end of the interval."""
    f = lambda t, y: -2 * y + jnp.sin(20 * t)

    def step(state):
        t, y, h = state
        a = f(t, y)
        b = f(t + h / 2, y + h / 2 * a)
        c = f(t + 3 * h / 4, y + 3 * h / 4 * b)
        new = y + h * (2 * a + 3 * b + 4 * c) / 9
        error = jnp.abs(h * (-5 * a / 72 + b / 12 + c / 9 - f(t + h, new) / 8))
        good = error < 1e-6
        longer = h * jnp.clip(0.9 * jnp.cbrt(1e-6 / (error + 1e-12)), 0.3, 2.0)
        t = jnp.where(good, t + h, t)
        return t, jnp.where(good, new, y), jnp.minimum(longer, 10.0 - t)
    return jax.lax.while_loop(lambda s: s[0] < 9.9999, step, (0.0, x[0], 0.01))[1]


@problem(F, "double pendulum, trajectories", uniform(256, 4))
def double_pendulum(x):
    def slope(s):
        a, b, p, q = s[..., 0], s[..., 1], s[..., 2], s[..., 3]
        c, d = jnp.cos(a - b), jnp.sin(a - b)
        e = 1 / (16 - 9 * c * c)
        da, db = 6 * e * (2 * p - 3 * c * q), 6 * e * (8 * q - 3 * c * p)
        return jnp.stack([da, db, -0.5 * (da * db * d + 3 * jnp.sin(a)), -0.5 * (-da * db * d + jnp.sin(b))], -1)

    def step(s, _):
        k = slope(s)
        s = s + 0.01 * slope(s + 0.005 * k)
        return s, s[:, 0]
    return jax.lax.scan(step, x, length=1000)[1]


@problem(F, "heat 3-D, fixed edges", uniform(96, 96, 96))
def heat_3d(x):
    def step(x):
        i = slice(1, -1)
        lap = (x[2:, i, i] + x[:-2, i, i] + x[i, 2:, i] + x[i, :-2, i] + x[i, i, 2:] + x[i, i, :-2] - 6 * x[i, i, i])
        return x.at[i, i, i].add(0.1 * lap)
    return repeat(20, step, x)


@problem(F, "shallow water", uniform(128, 128))
def shallow(h):
    def dx(a, axis):
        return 0.5 * (shifted(a, -1, axis) - shifted(a, 1, axis))

    def step(state):
        h, u, v = state
        u, v = u - 0.1 * dx(h, 0), v - 0.1 * dx(h, 1)
        return h - 0.1 * (dx(u * (1 + h), 0) + dx(v * (1 + h), 1)), u, v
    return repeat(100, step, (0.1 * h, h * 0, h * 0))[0]


@problem(F, "vorticity, pseudo-spectral", uniform(128, 128))
def vorticity(w):
    k = jnp.fft.fftfreq(128, 1 / 128)
    l = jnp.fft.rfftfreq(128, 1 / 128)
    k, l = k[:, None], l[None]
    k2 = k * k + l * l
    inverse = jnp.where(k2 > 0, 1 / jnp.maximum(k2, 1), 0)
    keep = (jnp.abs(k) < 42) & (l < 42)

    def step(f):
        psi = f * inverse
        u, v = jnp.fft.irfft2(1j * l * psi), jnp.fft.irfft2(-1j * k * psi)
        a, b = jnp.fft.irfft2(1j * k * f), jnp.fft.irfft2(1j * l * f)
        return (f - 1e-3 * keep * jnp.fft.rfft2(u * a + v * b)) / (1 + 1e-6 * k2)
    return jnp.fft.irfft2(repeat(20, step, jnp.fft.rfft2(w)))


@problem(F, "lattice boltzmann", uniform(9, 128, 128), split=(1,))
def lattice(f):
    e = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
    w = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)

    def step(f):
        f = jnp.stack([jnp.roll(f[i], tuple(e[i]), (0, 1)) for i in range(9)])
        rho = f.sum(0)
        u = jnp.einsum("ixy,id->dxy", f, e.astype(np.float32)) / rho
        eu = jnp.einsum("dxy,id->ixy", u, e.astype(np.float32))
        equal = w[:, None, None] * rho * (1 + 3 * eu + 4.5 * eu * eu - 1.5 * (u * u).sum(0))
        return f + 0.6 * (equal - f)
    return repeat(50, step, 1 + 0.01 * f)


@problem(F, "ising model, checkerboard", ints(2, 128, 128))
def ising(x):
    even = (jnp.arange(128)[:, None] + jnp.arange(128)) % 2 == 0

    def half(s, key, mask):
        around = sum(jnp.roll(s, d, a) for d in (1, -1) for a in (0, 1))
        flip = jax.random.uniform(key, s.shape) < jnp.exp(-0.88 * s * around)
        return jnp.where(mask & flip, -s, s)

    def step(state, _):
        s, key = state
        key, a, b = jax.random.split(key, 3)
        s = half(half(s, a, even), b, ~even)
        return (s, key), s.mean()
    return jax.lax.scan(step, (2.0 * x - 1, jax.random.key(0)), length=50)[1]


@problem(F, "lennard-jones, verlet", uniform(256, 3), split=(None,))
def molecules(x):
    def energy(x):
        d = x[:, None] - x[None]
        d = d - 10 * jnp.round(d / 10)
        r2 = jnp.sum(d * d, -1) + jnp.eye(256) * 1e3
        s = jnp.where(r2 < 9, 1 / (r2 + 0.5) ** 3, 0)
        return 2 * jnp.sum(s * s - s)
    force = jax.grad(lambda x: -energy(x))

    def step(state):
        x, v, f = state
        v = v + 0.0005 * f
        x = x + 0.001 * v
        f = force(x)
        return x, v + 0.0005 * f, f
    x = x * 10
    return repeat(20, step, (x, x * 0, force(x)))[0]


@problem(F, "particles in cells", uniform(16384), (16384,), split=(0, 0))
def cells(x, v):
    k = jnp.fft.rfftfreq(256, 1 / 256) * 2 * jnp.pi
    inverse = jnp.where(k > 0, 1 / jnp.maximum(k, 1e-6), 0)

    def step(state):
        x, v = state
        at = x * 256
        i = jnp.floor(at).astype(jnp.int32)
        part = at - i
        rho = jnp.zeros(256).at[i % 256].add(1 - part).at[(i + 1) % 256].add(part)
        field = jnp.fft.irfft(-1j * jnp.fft.rfft(rho / 64 - 1) * inverse)
        v = v - 0.01 * (field[i % 256] * (1 - part) + field[(i + 1) % 256] * part)
        return (x + 0.01 * v) % 1.0, v
    return repeat(20, step, (x, v * 0.1))[0]


@problem(F, "smoothed particles", uniform(2048, 2), split=(None,))
def smoothed(x):
    d = x[:, None] - x[None]
    r = jnp.sqrt(jnp.sum(d * d, -1) + 1e-12)
    w = jnp.maximum(0, 1 - r / 0.1) ** 4 * (1 + 4 * r / 0.1)
    rho = w.sum(1)
    p = rho ** 1.4
    return jnp.sum((p[:, None] + p[None])[..., None] * jnp.where(r < 0.1, 1 / (r + 1e-3), 0)[..., None] * d, 1)


@problem(F, "maxwell, staggered grid", uniform(256, 256))
def maxwell(h):
    def step(state):
        ex, ey, h = state
        ex = ex.at[:, 1:].add(0.5 * (h[:, 1:] - h[:, :-1]))
        ey = ey.at[1:, :].add(-0.5 * (h[1:, :] - h[:-1, :]))
        h = h.at[:-1, :-1].add(0.5 * ((ex[:-1, 1:] - ex[:-1, :-1]) - (ey[1:, :-1] - ey[:-1, :-1])))
        return ex, ey, h
    return repeat(100, step, (h * 0, h * 0, h))[2]


@problem(F, "multigrid, v-cycles", uniform(256, 256), split=(0,))
def multigrid(b):
    def around(x):
        p = jnp.pad(x, 1)
        return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]

    def smooth(x, b):
        for _ in range(2):
            x = x + 0.8 * ((b + around(x)) / 4 - x)
        return x

    def cycle(x, b):
        x = smooth(x, b)
        if x.shape[0] > 8:
            r = b - (4 * x - around(x))
            n = x.shape[0] // 2
            coarse = r.reshape(n, 2, n, 2).sum((1, 3))
            x = x + jnp.repeat(jnp.repeat(cycle(coarse * 0, coarse), 2, 0), 2, 1)
        return smooth(x, b)
    return repeat(5, lambda x: cycle(x, b), b * 0)


@problem(F, "weno, one dimension", uniform(4096))
def weno(u):
    def face(a, b, c, d, e):
        p = (2 * a - 7 * b + 11 * c) / 6, (-b + 5 * c + 2 * d) / 6, (2 * c + 5 * d - e) / 6
        s = (13 / 12 * (a - 2 * b + c) ** 2 + 0.25 * (a - 4 * b + 3 * c) ** 2,
             13 / 12 * (b - 2 * c + d) ** 2 + 0.25 * (b - d) ** 2,
             13 / 12 * (c - 2 * d + e) ** 2 + 0.25 * (3 * c - 4 * d + e) ** 2)
        w = [g / (1e-6 + s) ** 2 for g, s in zip((0.1, 0.6, 0.3), s)]
        return sum(w * p for w, p in zip(w, p)) / sum(w)

    def slope(u):
        f = face(*(shifted(0.5 * u * u, d, 0) for d in (2, 1, 0, -1, -2)))
        return -(f - shifted(f, 1, 0))

    def step(u):
        v = u + 0.1 * slope(u)
        v = 0.75 * u + 0.25 * (v + 0.1 * slope(v))
        return u / 3 + 2 / 3 * (v + 0.1 * slope(v))
    return repeat(100, step, u + 1)


@problem(F, "crank-nicolson, thomas by scan", uniform(1024, 64), split=(1,))
def thomas(x):
    a = 0.4

    def forward(state, d):
        c, e = state
        m = 1 / (1 + 2 * a + a * c)
        c, e = -a * m, (d + a * e) * m
        return (c, e), (c, e)

    def step(x):
        c, e = jax.lax.scan(forward, (jnp.zeros(64), jnp.zeros(64)), x)[1]
        return jax.lax.scan(lambda y, ce: (y := ce[1] - ce[0] * y, y), jnp.zeros(64), (c, e), reverse=True)[1]
    return repeat(10, step, x)


problem(F, "tridiagonal systems", uniform(256, 512), uniform(256, 512), uniform(256, 512), uniform(256, 512, 1), split=(0, 0, 0, 0))(
    lambda l, d, u, b: jax.lax.linalg.tridiagonal_solve(l, d + 3, u, b))


@problem(F, "cahn-hilliard", (128, 128))
def cahn(x):
    lap = lambda x: sum(jnp.roll(x, d, a) for d in (1, -1) for a in (0, 1)) - 4 * x
    return repeat(100, lambda c: c + 0.01 * lap(c ** 3 - c - lap(c)), 0.1 * x)


@problem(F, "chebyshev derivatives", (64, 64))
def chebyshev(u):
    n = 63
    x = np.cos(np.pi * np.arange(n + 1) / n)
    c = np.r_[2, np.ones(n - 1), 2] * (-1) ** np.arange(n + 1)
    d = np.outer(c, 1 / c) / (x[:, None] - x[None] + np.eye(n + 1))
    d = (d - np.diag(d.sum(1))).astype(np.float32)
    d2 = d @ d / 1e4
    return repeat(100, lambda u: (u + 1e-3 * (d2 @ u + u @ d2.T)).at[0].set(0).at[-1].set(0), u)


@problem(F, "coupled oscillators, all pairs", uniform(512), (512,), split=(0, 0))
def kuramoto(x, w):
    return repeat(50, lambda x: x + 0.01 * (w + jnp.mean(jnp.sin(x[None] - x[:, None]), 1)), 6 * x)


@problem(F, "flock", uniform(512, 2), (512, 2), split=(0, 0))
def flock(x, v):
    def step(state):
        x, v = state
        d = x[None] - x[:, None]
        r2 = jnp.sum(d * d, -1)
        near = (r2 < 0.01).astype(jnp.float32)
        n = near.sum(1, keepdims=True)
        v = v + 0.1 * (near @ x / n - x) + 0.1 * (near @ v / n - v) - 0.01 * jnp.sum(jnp.where((r2 < 1e-3)[..., None], d, 0), 1)
        v = v / jnp.maximum(1, jnp.linalg.norm(v, axis=1, keepdims=True))
        return (x + 0.01 * v) % 1, v
    return repeat(20, step, (x, v))[0]


@problem(F, "neural ode gradient", (64, 8), (8, 32), (32, 8), split=(0,))
def neural_ode(x, a, b):
    def loss(a, b):
        f = lambda x: jnp.tanh(x @ a) @ b * 0.1

        def step(x, _):
            k1 = f(x)
            k2 = f(x + 0.05 * k1)
            k3 = f(x + 0.05 * k2)
            k4 = f(x + 0.1 * k3)
            return x + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None
        return jnp.mean(jax.lax.scan(step, x, length=50)[0] ** 2)
    return jax.grad(loss, (0, 1))(a, b)


@problem(F, "finite elements, assembled product", uniform(16641, 2), ints(16641, 32768, 3), (16641,), split=(None, 0, None))
def elements(nodes, triangles, u):
    p = nodes[triangles]
    e, f = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    area = jnp.abs(e[:, 0] * f[:, 1] - e[:, 1] * f[:, 0]) + 0.1
    edges = jnp.stack([p[:, 2] - p[:, 1], p[:, 0] - p[:, 2], p[:, 1] - p[:, 0]], 1)
    k = jnp.einsum("tid,tjd->tij", edges, edges) / (4 * area)[:, None, None]
    return jnp.zeros(16641).at[triangles].add(jnp.einsum("tij,tj->ti", k, u[triangles]))


@problem(F, "red-black relaxation", uniform(256, 256))
def red_black(b):
    i = jnp.arange(256)
    red = (i[:, None] + i) % 2 == 0

    def half(x, mask):
        p = jnp.pad(x, 1)
        new = 0.25 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] + b)
        return jnp.where(mask, x + 1.5 * (new - x), x)
    return repeat(100, lambda x: half(half(x, red), ~red), b * 0)


@problem(F, "condensate, split step", uniform(128, 128))
def condensate(x):
    k = jnp.fft.fftfreq(128) ** 2
    t = jnp.exp(-1j * (k[:, None] + k[None]))
    psi = x.astype(jnp.complex64)
    step = lambda p: jnp.fft.ifft2(jnp.fft.fft2(p * jnp.exp(-0.01j * jnp.abs(p) ** 2)) * t)
    return jnp.abs(repeat(20, step, psi)) ** 2


@problem(F, "poisson by fft, f64", uniform(256, 256, dtype="f8"))
def poisson(b):
    k = 2 - 2 * jnp.cos(2 * jnp.pi * jnp.fft.fftfreq(256))
    k2 = k[:, None] + k[None]
    return jnp.fft.ifft2(jnp.fft.fft2(b) / jnp.where(k2 > 0, k2, 1)).real


@problem(F, "three bodies, f64", uniform(3, 3, dtype="f8"), split=(None,))
def three_bodies(x):
    def force(x):
        d = x[None] - x[:, None]
        return jnp.sum(d / (jnp.sum(d * d, -1, keepdims=True) + 0.1) ** 1.5, 1)

    def step(state):
        x, v = state
        v = v + 0.001 * force(x)
        return x + 0.001 * v, v
    return repeat(2000, step, (x, x * 0))[0]


@problem(F, "stiff chemistry, newton in each step", uniform(1024, 3))
def chemistry(y):
    def f(y):
        a, b, c = y
        return jnp.array([-0.04 * a + 1e2 * b * c, 0.04 * a - 1e2 * b * c - 3e3 * b * b, 3e3 * b * b])
    jacobian = jax.jacfwd(f)

    def step(y):
        def newton(z):
            g = z - y - 0.01 * f(z)
            return z - jnp.linalg.solve(jnp.eye(3) - 0.01 * jacobian(z), g)
        return repeat(3, newton, y)
    return jax.vmap(lambda y: repeat(10, step, y))(y)


@problem(F, "sandpile", ints(8, 128, 128))
def sandpile(x):
    def step(x):
        over = (x >= 4).astype(jnp.int32)
        p = jnp.pad(over, 1)
        return x - 4 * over + p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]
    return jax.lax.while_loop(lambda x: (x >= 4).any(), step, x)


@problem(F, "rigid bodies, quaternions", (4096, 4), (4096, 3), split=(0, 0))
def rigid(q, w):
    def step(q):
        a, b, c, d = (q[:, i] for i in range(4))
        x, y, z = (w[:, i] for i in range(3))
        dq = 0.5 * jnp.stack([-b * x - c * y - d * z, a * x + c * z - d * y, a * y - b * z + d * x, a * z + b * y - c * x], 1)
        q = q + 0.001 * dq
        return q / jnp.linalg.norm(q, axis=1, keepdims=True)
    return repeat(100, step, q)


@problem(F, "angles on a ring", (65536,), (65536,), split=(0, 0))
def ring(x, v):
    return repeat(50, lambda x: (x + 0.1 * v + 0.05 * jnp.sin(3 * x)) % (2 * np.pi), x)


@problem(F, "distances on a sphere", uniform(1024, 2), uniform(1024, 2))
def sphere(a, b):
    (p, l), (q, m) = a.T, b.T
    h = jnp.sin((p[:, None] - q) / 2) ** 2 + jnp.cos(p)[:, None] * jnp.cos(q) * jnp.sin((l[:, None] - m) / 2) ** 2
    return (2 * jnp.arcsin(jnp.sqrt(h))).min(1)


@problem(F, "periodic box", uniform(512, 3), split=(None,))
def periodic(x):
    def force(x):
        d = x[:, None] - x[None]
        d = d - jnp.round(d)
        r = jnp.sum(d * d, -1) + 1e-3
        return jnp.sum(d * (jnp.exp(-r) / r)[..., None], 1)
    return repeat(5, lambda x: (x + 1e-4 * force(x)) % 1, x)


problem(F, "polar coordinates f64", lambda r: r.standard_normal((2, 1 << 16)), split=(1,))(
    lambda x: (jnp.hypot(x[0], x[1]), jnp.arctan2(x[0], x[1])))


@problem(F, "molecules, lists of cells", uniform(4096, 3), split=(None,))
def lists(x):
    """Forces from the 27 cells around each, which hold up to 24."""
    n, c, most = 4096, 8, 24
    at = jnp.clip(jnp.floor(x * c).astype(jnp.int32), 0, c - 1)
    cell = at[:, 0] * c * c + at[:, 1] * c + at[:, 2]
    order = jnp.argsort(cell)
    rank = jnp.arange(n) - jnp.searchsorted(cell[order], jnp.arange(c ** 3))[cell[order]]
    table = jnp.full((c ** 3, most), n).at[cell[order], rank].set(order, mode="drop")
    around = np.stack(np.meshgrid(*[np.arange(-1, 2)] * 3, indexing="ij"), -1).reshape(-1, 3)
    near = (at[:, None] + around) % c
    other = table[near[..., 0] * c * c + near[..., 1] * c + near[..., 2]].reshape(n, -1)
    d = x[:, None] - jnp.concatenate([x, jnp.full((1, 3), 1e3)])[other]
    d = jnp.where((other == n)[..., None], 1e3, d - jnp.round(d))
    r2 = (d * d).sum(-1)
    force = jnp.where((r2 < 0.01) & (other != jnp.arange(n)[:, None]), 1 / (r2 + 0.005) ** 2, 0)
    return (force[..., None] * d).sum(1)


@problem(F, "maxwell, three dimensions", uniform(48, 48, 48))
def maxwell_3d(x):
    def curl(field, s):
        x, y, z = field
        d = lambda f, axis: (jnp.roll(f, -s, axis) - f) * s
        return d(z, 1) - d(y, 2), d(x, 2) - d(z, 0), d(y, 0) - d(x, 1)

    def step(state):
        e, h = state
        h = tuple(a - 0.4 * b for a, b in zip(h, curl(e, 1)))
        return tuple(a + 0.4 * b for a, b in zip(e, curl(h, -1))), h
    return repeat(20, step, ((x, 0 * x, 0 * x), (0 * x, 0 * x, 0 * x)))[0]


@problem(F, "discontinuous elements", uniform(2048, 8), (8, 8), (8,))
def discontinuous(u, inside, face):
    def slope(u):
        jump = jnp.roll(u[:, -1], 1) - u[:, 0]
        return u @ inside * 0.01 + jump[:, None] * face * 0.1

    def step(u):
        a = slope(u)
        b = slope(u + 0.05 * a)
        c = slope(u + 0.05 * b)
        return u + 0.1 / 6 * (a + 2 * b + 2 * c + slope(u + 0.1 * c))
    return repeat(50, step, u)


@problem(F, "elements of six f64", uniform(1024, 6, dtype="f8"), uniform(6, 6, dtype="f8"))
def elements(u, m):
    return repeat(30, lambda u: u + 0.01 * (u @ m + jnp.roll(u, 1, 0)[:, -1:]), u)


@problem(F, "speeds from a wave, gradient", uniform(96, 96))
def speeds(c):
    def loss(c):
        def step(state, t):
            p, q = state
            lap = sum(jnp.roll(p, d, a) for d in (1, -1) for a in (0, 1)) - 4 * p
            new = (2 * p - q + 0.2 * c * lap).at[48, 48].add(jnp.exp(-0.1 * (t - 8) ** 2))
            return (new, p), new[10, ::4]
        return jnp.sum(jax.lax.scan(step, (0 * c, 0 * c), jnp.arange(50.0))[1] ** 2)
    return jax.grad(loss)(c)


@problem(F, "material points", uniform(4096, 2), (4096, 2), split=(0, 0))
def material_points(x, v):
    n = 64

    def step(s):
        x, v = s
        base = (x * n - 0.5).astype(jnp.int32)
        f = x * n - base
        w = jnp.stack([0.5 * (1.5 - f) ** 2, 0.75 - (f - 1) ** 2, 0.5 * (f - 0.5) ** 2], 1)
        w = w[:, :, None, 0] * w[:, None, :, 1]
        i, j = (jnp.clip(base[:, d, None, None] + off, 0, n - 1) for d, off in enumerate(np.mgrid[0:3, 0:3]))
        one = jnp.concatenate([v, jnp.ones((4096, 1))], 1)[:, None, None]
        grid = jnp.zeros((n, n, 3)).at[i, j].add(w[..., None] * one)
        speed = grid[..., :2] / jnp.maximum(grid[..., 2:], 1e-6)
        v = (w[..., None] * speed[i, j]).sum((1, 2))
        return jnp.clip(x + 0.001 * v, 0.01, 0.99), v
    return repeat(3, step, (x, v))


@problem(F, "ground state, imaginary time f64", uniform(64, 64, dtype="f8"))
def ground_state(psi):
    at = jnp.arange(64.0) - 32
    v = 0.01 * at[:, None] ** 2 + 0.02 * at ** 2

    def step(p):
        p = p + 0.05 * (sum(jnp.roll(p, d, a) for d in (1, -1) for a in (0, 1)) - 4 * p - v * p)
        return p / jnp.sqrt(jnp.sum(p * p))
    return repeat(50, step, psi)


@problem(F, "potts model", ints(4, 128, 128))
def potts(s):
    odd = (jnp.arange(128)[:, None] + jnp.arange(128)) % 2

    def step(i, s):
        a, b = jax.random.split(jax.random.fold_in(jax.random.key(0), i))
        new = jax.random.randint(a, s.shape, 0, 4)
        same = lambda t: sum((jnp.roll(s, d, axis) == t).astype(jnp.float32) for d in (1, -1) for axis in (0, 1))
        takes = jax.random.uniform(b, s.shape) < jnp.exp(same(new) - same(s))
        return jnp.where(takes & (odd == i % 2), new, s)
    return jax.lax.fori_loop(0, 10, step, s)
