"""Networks: kinds of attention, cells, blocks of convolutions, training steps, optimizers, losses."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, repeat, uniform

F = "networks"
NHWC = "NHWC", "HWIO", "NHWC"


def conv(x, w, stride=1, groups=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=NHWC, feature_group_count=groups)


def norm(x, axes=-1):
    m = x.mean(axes, keepdims=True)
    return (x - m) * jax.lax.rsqrt(((x - m) ** 2).mean(axes, keepdims=True) + 1e-5)


def descent(loss, *params, rate=0.1):
    grads = jax.grad(loss, tuple(range(len(params))))(*params)
    return [p - rate * g for p, g in zip(params, grads)]


# Attention.

@problem(F, "sliding window", *[(1, 8, 2048, 32)] * 3, split=(1, 1, 1))
def window(q, k, v):
    i = jnp.arange(2048)
    near = (i[:, None] >= i) & (i[:, None] - i < 256)
    s = jnp.where(near, jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.18, -1e30)
    return jax.nn.softmax(s) @ v


@problem(F, "sliding window, in blocks", *[(1, 8, 16, 128, 32)] * 3, split=(1, 1, 1))
def blocks(q, k, v):
    before = lambda x: jnp.concatenate([jnp.pad(x, ((0, 0), (0, 0), (1, 0), (0, 0), (0, 0)))[:, :, :-1], x], 3)
    k, v = before(k), before(v)
    i = jnp.arange(128)[:, None] + 128 - jnp.arange(256)
    s = jnp.where((i >= 0) & (i < 128), jnp.einsum("bhnqd,bhnkd->bhnqk", q, k) * 0.18, -1e30)
    return jax.nn.softmax(s) @ v


@problem(F, "attention with slopes", *[(4, 8, 256, 32)] * 3, split=(1, 1, 1))
def slopes(q, k, v):
    i = jnp.arange(256)
    bias = -jnp.abs(i[:, None] - i) * 2.0 ** -jnp.arange(1, 9)[:, None, None]
    return jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.18 + bias) @ v


@problem(F, "linear attention, causal", *[(4, 8, 512, 32)] * 3, split=(1, 1, 1))
def linear(q, k, v):
    q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1

    def step(s, x):
        q, k, v = x
        s = s + k[..., :, None] * v[..., None, :]
        return s, jnp.einsum("bhd,bhde->bhe", q, s)
    move = lambda x: jnp.moveaxis(x, 2, 0)
    return jax.lax.scan(step, jnp.zeros((4, 8, 32, 32)), (move(q), move(k), move(v)))[1]


@problem(F, "one token, long cache bf16", (8, 4096, 2, 64), (8, 4096, 2, 64), (8, 16, 64), split=(0, 0, 0))
def one_token(k, v, q):
    k, v, q = (x.astype(jnp.bfloat16) for x in (k, v, q))
    q = q.reshape(8, 2, 8, 64)
    s = jnp.einsum("bghd,btgd->bght", q, k, preferred_element_type=jnp.float32) * 0.125
    return jnp.einsum("bght,btgd->bghd", jax.nn.softmax(s).astype(jnp.bfloat16), v)


@problem(F, "cross attention, masked lengths", (8, 64, 8, 32), (8, 256, 8, 32), (8, 256, 8, 32), ints(256, 8, low=1), split=(0, 0, 0, 0))
def cross(q, k, v, length):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.18
    s = jnp.where((jnp.arange(256) < length[:, None])[:, None, None], s, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v)


# Cells.

@problem(F, "selective state space", (4, 256, 64), (4, 256, 16), (4, 256, 16), uniform(64, 16), split=(2, None, None, 0))
def selective(x, b, c, a):
    dt = jax.nn.softplus(x)

    def step(h, xs):
        x, dt, b, c = xs
        h = jnp.exp(-dt[..., None] * a) * h + (dt * x)[..., None] * b[:, None]
        return h, jnp.einsum("bdn,bn->bd", h, c)
    move = lambda x: jnp.moveaxis(x, 1, 0)
    return jax.lax.scan(step, jnp.zeros((x.shape[0], *a.shape)), tuple(map(move, (x, dt, b, c))))[1]


@problem(F, "selective state space gradient", (2, 128, 32), (2, 128, 8), (2, 128, 8), uniform(32, 8), split=(2, None, None, 0))
def selective_gradient(x, b, c, a):
    return jax.grad(lambda x, a: jnp.sum(jnp.sin(selective(x, b, c, a))), (0, 1))(x, a)


@problem(F, "weighted keys, recurrent", (8, 512, 64), (8, 512, 64), (8, 512, 64), uniform(64), split=(0, 0, 0))
def weighted_keys(r, k, v, w):
    def step(s, x):
        a, b, m = s
        r, k, v = x
        n = jnp.maximum(m, k)
        e, f = jnp.exp(m - n), jnp.exp(k - n)
        y = jax.nn.sigmoid(r) * (e * a + f * v) / (e * b + f)
        n = jnp.maximum(m - w, k)
        e, f = jnp.exp(m - w - n), jnp.exp(k - n)
        return (e * a + f * v, e * b + f, n), y
    zero = jnp.zeros((8, 64))
    move = lambda x: jnp.moveaxis(x, 1, 0)
    return jax.lax.scan(step, (zero, zero, zero - 1e9), (move(r), move(k), move(v)))[1]


@problem(F, "two directions", (64, 8, 32), (32, 64), (64, 64), (32, 64), (64, 64), split=(1,))
def two(x, wa, ua, wb, ub):
    cell = lambda w, u: lambda h, x: ((h := jnp.tanh(x @ w * 0.1 + h @ u * 0.1)), h)
    zero = jnp.zeros((8, 64))
    return jnp.concatenate([jax.lax.scan(cell(wa, ua), zero, x)[1], jax.lax.scan(cell(wb, ub), zero, x, reverse=True)[1]], -1)


@problem(F, "convolutional lstm", (16, 8, 16, 24, 8), (3, 3, 24, 64), split=(1,))
def conv_lstm(x, w):
    def step(s, x):
        h, c = s
        i, f, g, o = jnp.split(conv(jnp.concatenate([x, h], -1), w * 0.1), 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((8, 16, 24, 16))
    return jax.lax.scan(step, (zero, zero), x)[1]


@problem(F, "stack of causal convolutions", (8, 2048, 32), (6, 2, 32, 64), split=(0,))
def causal(x, w):
    for i in range(6):
        d = 2 ** i
        y = jax.lax.conv_general_dilated(x, w[i] * 0.1, (1,), [(d, 0)], rhs_dilation=(d,), dimension_numbers=("NWC", "WIO", "NWC"))
        a, b = jnp.split(y, 2, -1)
        x = x + jnp.tanh(a) * jax.nn.sigmoid(b)
    return x


# Blocks.

@problem(F, "inverted residual", (8, 28, 28, 32), (1, 1, 32, 128), (3, 3, 1, 128), (1, 1, 128, 32))
def inverted(x, a, b, c):
    h = jax.nn.relu6(conv(x, a))
    return x + conv(jax.nn.relu6(conv(h, b, 1, 128)), c)


@problem(F, "bottleneck step", (8, 28, 28, 64), (1, 1, 64, 16), (3, 3, 16, 16), (1, 1, 16, 64), split=(0,))
def bottleneck(x, a, b, c):
    def loss(a, b, c):
        h = jax.nn.relu(norm(conv(x, a), (0, 1, 2)))
        h = jax.nn.relu(norm(conv(h, b), (0, 1, 2)))
        return jnp.mean(jax.nn.relu(x + norm(conv(h, c), (0, 1, 2))) ** 2)
    return descent(loss, a, b, c)


@problem(F, "u-net step", (8, 32, 32, 8), (3, 3, 8, 16), (3, 3, 16, 32), (3, 3, 48, 16), (1, 1, 16, 8), split=(0,))
def u_net(x, a, b, c, d):
    def loss(a, b, c, d):
        down = jax.nn.silu(conv(x, a * 0.2))
        low = jax.lax.reduce_window(down, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        low = jax.nn.silu(conv(low, b * 0.1))
        up = jnp.repeat(jnp.repeat(low, 2, 1), 2, 2)
        return jnp.mean((conv(jax.nn.silu(conv(jnp.concatenate([down, up], -1), c * 0.1)), d) - x) ** 2)
    return descent(loss, a, b, c, d)


@problem(F, "generator and judge step", (16, 64), (64, 2048), (4, 4, 32, 16), (16, 16, 16, 16), (3, 3, 16, 32), (32, 1), split=(0, None, None, 0))
def gan(z, a, b, real, c, d):
    make = lambda a, b: jnp.tanh(jax.lax.conv_transpose(jax.nn.relu(z @ a * 0.1).reshape(16, 8, 8, 32), b * 0.1, (2, 2), "SAME"))
    judge = lambda x, c, d: jax.nn.leaky_relu(conv(x, c, 2)).mean((1, 2)) @ d
    ga = jax.grad(lambda a, b: jnp.mean(jax.nn.softplus(-judge(make(a, b), c, d))), (0, 1))(a, b)
    fake = make(a, b)
    gb = jax.grad(lambda c, d: jnp.mean(jax.nn.softplus(judge(fake, c, d)) + jax.nn.softplus(-judge(real, c, d))), (0, 1))(c, d)
    return [p - 0.1 * g for p, g in zip((a, b, c, d), ga + gb)]


@problem(F, "diffusion step", (256, 64), (96, 256), (256, 256), (256, 64), ints(1000, 256), split=(0, None, None, None, 0))
def diffusion(x, a, b, c, t):
    key = jax.random.key(1)
    noise = jax.random.normal(key, x.shape)
    alpha = jnp.cos(t / 1000 * jnp.pi / 2)[:, None]
    noisy = alpha * x + jnp.sqrt(1 - alpha * alpha) * noise
    angle = t[:, None] * 1e-4 ** (jnp.arange(16) / 16)
    inside = jnp.concatenate([noisy, jnp.sin(angle), jnp.cos(angle)], 1)

    def loss(a, b, c):
        h = jax.nn.silu(inside @ a * 0.1)
        h = h + jax.nn.silu(norm(h) @ b * 0.1)
        return jnp.mean((h @ c * 0.1 - noise) ** 2)
    return descent(loss, a, b, c)


@problem(F, "denoising loop", (64, 64), (64, 128), (128, 64), split=(0,))
def denoising(x, a, b):
    def step(x, xs):
        t, key = xs
        e = jax.nn.silu(x @ a * 0.1 + t) @ b * 0.1
        return 1.001 * (x - 0.02 * e) + 0.01 * jax.random.normal(key, x.shape), None
    return jax.lax.scan(step, x, (jnp.linspace(1, 0, 100), jax.random.split(jax.random.key(0), 100)))[0]


@problem(F, "variational step, convolutions", (16, 28, 28, 1), (3, 3, 1, 16), (3136, 32), (16, 3136), (3, 3, 16, 1), split=(0,))
def variational(x, a, b, c, d):
    def loss(a, b, c, d):
        h = jax.nn.relu(conv(x, a, 2)).reshape(16, -1)
        m, s = jnp.split(h @ b * 0.02, 2, -1)
        z = m + jnp.exp(0.5 * s) * jax.random.normal(jax.random.key(0), m.shape)
        y = jax.nn.relu(z @ c).reshape(16, 14, 14, 16)
        y = jax.image.resize(y, (16, 28, 28, 16), "nearest")
        return jnp.mean((jax.nn.sigmoid(conv(y, d)) - x) ** 2) + jnp.mean(jnp.exp(s) + m * m - 1 - s)
    return descent(loss, a, b, c, d, rate=1e-3)


@problem(F, "encoder layer gradient bf16", (8, 128, 128), (128, 384), (128, 128), (128, 512), (512, 128), split=(0,))
def encoder(x, qkv, out, up, down):
    half = lambda x: x.astype(jnp.bfloat16)

    def loss(qkv, out, up, down):
        h = half(x)
        q, k, v = (y.reshape(8, 128, 4, 32) for y in jnp.split(norm(h) @ half(qkv) * 0.1, 3, -1))
        p = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * 0.18)
        h = h + jnp.einsum("bhqk,bkhd->bqhd", half(p), v).reshape(h.shape) @ half(out) * 0.1
        h = h + jax.nn.gelu(norm(h) @ half(up) * 0.1) @ half(down) * 0.1
        return jnp.mean(h.astype(jnp.float32) ** 2)
    return jax.grad(loss, (0, 1, 2, 3))(qkv, out, up, down)


@problem(F, "mixer block", (16, 64, 128), (64, 128), (128, 64), (128, 256), (256, 128))
def mixer(x, a, b, c, d):
    y = x + jnp.swapaxes(jax.nn.gelu(jnp.swapaxes(norm(x), 1, 2) @ a) @ b, 1, 2)
    return y + jax.nn.gelu(norm(y) @ c) @ d


problem(F, "fourier mixing", (16, 256, 256))(lambda x: norm(x + jnp.fft.fft2(x).real))
problem(F, "squeeze and excite", (8, 56, 56, 64), (64, 8), (8, 64))(
    lambda x, a, b: x * jax.nn.sigmoid(jax.nn.relu(x.mean((1, 2)) @ a) @ b)[:, None, None])
problem(F, "channel shuffle", (8, 56, 56, 64))(lambda x: x.reshape(8, 56, 56, 4, 16).swapaxes(3, 4).reshape(8, 56, 56, 64) + 1)
problem(F, "pixel shuffle", (8, 64, 64, 48))(lambda x: x.reshape(8, 64, 64, 4, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(8, 256, 256, 3))
problem(F, "convolution bf16", (8, 28, 28, 64), (3, 3, 64, 64))(lambda x, w: conv(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)))
problem(F, "convolution f64", uniform(8, 28, 28, 16, dtype="f8"), uniform(3, 3, 16, 16, dtype="f8"))(conv)
problem(F, "convolution of bytes", ints(100, 8, 28, 28, 32, dtype=np.int8), ints(100, 3, 3, 32, 32, dtype=np.int8))(
    lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC, preferred_element_type=jnp.int32))
problem(F, "convolution 3-D gradient", (2, 8, 16, 16, 8), (3, 3, 3, 8, 16), split=(None,))(
    lambda x, w: jax.grad(lambda x, w: jnp.sum(jnp.sin(jax.lax.conv_general_dilated(
        x, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")))), (0, 1))(x, w))
problem(F, "one channel, 15x15", (8, 256, 256, 1), (15, 15, 1, 1))(conv)
problem(F, "transposed gradient", (8, 14, 14, 32), (4, 4, 32, 16))(
    lambda x, w: jax.grad(lambda x, w: jnp.sum(jnp.sin(jax.lax.conv_transpose(x, w, (2, 2), "SAME"))), (0, 1))(x, w))


# Losses, heads, tables.

@problem(F, "recommender step", *[(4096, 16)] * 4, ints(4096, 1024, 4), (1024, 16), (26, 64), (64, 1), uniform(1024), split=(None,) * 4 + (0, 0, None, None, 0))
def recommender(t0, t1, t2, t3, at, dense, a, b, y):
    def loss(tables, a, b):
        e = jnp.stack([dense] + [t[at[:, i]] for i, t in enumerate(tables)], 1)
        dots = jnp.einsum("bid,bjd->bij", e, e)
        i, j = np.triu_indices(5, 1)
        h = jnp.concatenate([dense, dots[:, i, j]], 1)
        p = (jax.nn.relu(h @ a) @ b)[:, 0]
        return jnp.mean(jnp.logaddexp(0, p) - y * p)
    g = jax.grad(loss, (0, 1, 2))((t0, t1, t2, t3), a, b)
    return jax.tree.map(lambda p, g: p - 0.1 * g, ((t0, t1, t2, t3), a, b), g)


@problem(F, "word vectors step", (16384, 64), (16384, 64), ints(16384, 4096), ints(16384, 4096, 6), split=(None, None, 0, 0))
def words(u, v, center, other):
    sign = jnp.where(jnp.arange(6) == 0, 1.0, -1.0)

    def loss(u, v):
        return jnp.mean(jax.nn.softplus(-sign * jnp.einsum("bd,bkd->bk", u[center], v[other])))
    return descent(loss, u, v)


@problem(F, "contrast gradient", (512, 64), (512, 64), split=(0, 0))
def contrast(a, b):
    def loss(a, b):
        a, b = (x / jnp.linalg.norm(x, axis=1, keepdims=True) for x in (a, b))
        s = a @ b.T / 0.07
        diagonal = jnp.diagonal(s)
        return jnp.mean(jax.nn.logsumexp(s, 1) + jax.nn.logsumexp(s, 0) - 2 * diagonal)
    return jax.grad(loss, (0, 1))(a, b)


@problem(F, "ctc gradient", (64, 8, 32), ints(32, 8, 12, low=1), split=(1, 0))
def ctc(logits, labels):
    def loss(logits):
        logp = jax.nn.log_softmax(logits)
        wide = jnp.zeros((8, 25), jnp.int32).at[:, 1::2].set(labels)
        skip = (wide[:, 2:] != 0) & (wide[:, 2:] != wide[:, :-2])

        def step(alpha, logp):
            one = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=-1e5)[:, :-1]
            two = jnp.pad(jnp.where(skip, alpha[:, :-2], -1e5), ((0, 0), (2, 0)), constant_values=-1e5)
            return jnp.logaddexp(jnp.logaddexp(alpha, one), two) + jnp.take_along_axis(logp, wide, 1), None
        start = jnp.full((8, 25), -1e5).at[:, 0].set(0.0)
        a = jax.lax.scan(step, start, logp)[0]
        return -jnp.logaddexp(a[:, -1], a[:, -2]).sum()
    return jax.grad(loss)(logits)


@problem(F, "random field gradient", (64, 16, 12), (12, 12), split=(1,))
def field(x, t):
    def loss(x, t):
        step = lambda a, x: (jax.nn.logsumexp(a[:, :, None] + t, 1) + x, None)
        return jax.nn.logsumexp(jax.lax.scan(step, x[0], x[1:])[0], 1).sum()
    return jax.grad(loss, (0, 1))(x, t)


@problem(F, "nucleus sampling", (64, 8192))
def nucleus(logits):
    order = jnp.argsort(-logits, 1)
    p = jax.nn.softmax(jnp.take_along_axis(logits, order, 1))
    kept = jnp.where(jnp.cumsum(p, 1) - p < 0.9, p, 0)
    at = jax.random.categorical(jax.random.key(0), jnp.log(kept))
    return jnp.take_along_axis(order, at[:, None], 1)


@problem(F, "codebook", (8192, 32), (256, 32))
def codebook(x, c):
    d = (x * x).sum(1, keepdims=True) - 2 * x @ c.T + (c * c).sum(1)
    q = c[jnp.argmin(d, 1)]
    return x + jax.lax.stop_gradient(q - x), jnp.mean((q - x) ** 2)


@problem(F, "rays through a field", (1024, 3), (36, 64), (64, 64), (64, 4), split=(0,))
def rays(d, a, b, c):
    t = jnp.linspace(0, 1, 32)
    p = d[:, None] * t[:, None]
    e = (p[..., None] * 2.0 ** jnp.arange(6)).reshape(1024, 32, 18)
    h = jax.nn.relu(jnp.concatenate([jnp.sin(e), jnp.cos(e)], -1) @ a * 0.2)
    h = jax.nn.relu(h @ b * 0.1) @ c * 0.1
    alpha = 1 - jnp.exp(-jax.nn.relu(h[..., 3]) / 32)
    through = jnp.cumprod(jnp.concatenate([jnp.ones((1024, 1)), 1 - alpha[:, :-1]], 1), 1)
    return jnp.sum((through * alpha)[..., None] * jax.nn.sigmoid(h[..., :3]), 1)


@problem(F, "capsules", (16, 128, 8), (128, 10, 8, 16), split=(0,))
def capsules(x, w):
    u = jnp.einsum("bid,ijde->bije", x, w) * 0.1

    def step(b):
        s = jnp.einsum("bij,bije->bje", jax.nn.softmax(b, -1), u)
        n = (s * s).sum(-1, keepdims=True)
        return b + jnp.einsum("bije,bje->bij", u, s * jnp.sqrt(n) / (1 + n))
    return repeat(3, step, jnp.zeros((16, 128, 10)))


@problem(F, "sorted experts", (1024, 64), (64, 8), (8, 64, 128), (8, 128, 64), split=(None,))
def sorted_experts(x, gate, up, down):
    e = jnp.argmax(x @ gate, -1)
    order = jnp.argsort(e)
    sizes = jnp.bincount(e, length=8).astype(jnp.int32)
    h = jax.nn.relu(jax.lax.ragged_dot(x[order], up, sizes))
    y = jax.lax.ragged_dot(h, down, sizes)
    return jnp.zeros_like(x).at[order].set(y)


# Derivatives of derivatives, optimizers, low precision.

mlp = lambda p, x: jnp.tanh(x @ p[0]) @ p[1]


@problem(F, "gradients of each example", (256, 32), (32, 64), (64, 1))
def each(x, a, b):
    g = jax.vmap(jax.grad(lambda p, x: mlp(p, x)[0]), (None, 0))((a, b), x)
    return sum(jnp.sum(g.reshape(256, -1) ** 2, 1) for g in jax.tree.leaves(g))


@problem(F, "hessian of a small network", (8, 16), (16, 1), (32, 8), split=(None,))
def hessian(a, b, x):
    flat = jnp.concatenate([a.reshape(-1), b.reshape(-1)])
    loss = lambda f: jnp.mean(mlp((f[:128].reshape(8, 16), f[128:].reshape(16, 1)), x) ** 2)
    return jax.hessian(loss)(flat)


@problem(F, "steps within steps", (16, 10, 4), (4, 32), (32, 1), split=(0,))
def within(x, a, b):
    inner = lambda p, x: jnp.mean((mlp(p, x)[:, 0] - jnp.sin(x[:, 0])) ** 2)

    def task(p, x):
        for _ in range(3):
            p = jax.tree.map(lambda p, g: p - 0.01 * g, p, jax.grad(inner)(p, x))
        return inner(p, x)
    return jax.grad(lambda p: jax.vmap(task, (None, 0))(p, x).mean())((a, b))


@problem(F, "laplacian of a network", (256, 4), (4, 32), (32, 1))
def laplacian(x, a, b):
    f = lambda x: mlp((a, b), x)[0]
    return jax.vmap(lambda x: jnp.trace(jax.hessian(f)(x)))(x)


@problem(F, "laplacian by forward derivatives", (1024, 3), (3, 64), (64, 1))
def forward_laplacian(x, a, b):
    f = lambda x: mlp((a, b), x)[0]

    def second(x, v):
        return jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (v,))[1]
    return jax.vmap(lambda x: jax.vmap(lambda v: second(x, v))(jnp.eye(3)).sum())(x)


@problem(F, "heat equation of a network, gradient", (1024, 2), (2, 32), (32, 1))
def residual(x, a, b):
    def loss(p):
        def one(x):
            f = lambda t, s: mlp(p, jnp.stack([t, s]))[0]
            return (jax.grad(f, 0)(*x) - jax.grad(jax.grad(f, 1), 1)(*x)) ** 2
        return jax.vmap(one)(x).mean()
    return jax.grad(loss)((a, b))


@problem(F, "flow of coupling layers", (4096, 16), (4, 8, 32), (4, 32, 16))
def flow(x, a, b):
    def layer(state, w):
        x, total = state
        u, v = x[:, :8], x[:, 8:]
        h = mlp(w, u) * 0.1
        s, t = jnp.tanh(h[:, :8]), h[:, 8:]
        return (jnp.concatenate([v * jnp.exp(s) + t, u], 1), total + s.sum(1)), None
    (z, total), _ = jax.lax.scan(layer, (x, jnp.zeros(4096)), (a, b))
    return total - 0.5 * jnp.sum(z * z, 1)


@problem(F, "label smoothing gradient", (2048, 1000), ints(1000, 2048), split=(0, 0))
def smoothing(x, y):
    def loss(x):
        logp = jax.nn.log_softmax(x)
        return -jnp.mean(0.9 * jnp.take_along_axis(logp, y[:, None], 1)[:, 0] + 0.1 * logp.mean(-1))
    return jax.grad(loss)(x)


@problem(F, "top-2 gating", (4096, 64), (64, 16))
def gating(x, w):
    p = jax.nn.softmax(x @ w)
    v, i = jax.lax.top_k(p, 2)
    mask = jax.nn.one_hot(i, 16)
    return jnp.einsum("nk,nke->ne", v / v.sum(-1, keepdims=True), mask), (mask.sum(1).mean(0) * p.mean(0)).sum() * 16


@problem(F, "kernel of one feature, gradient", (16, 28, 28, 16), (3, 3, 16, 1), (16, 28, 28, 1), split=(0, None, 0))
def one_feature(x, w, y):
    return jax.grad(lambda w: jnp.mean((conv(x, w) - y) ** 2))(w)


problem(F, "convolution to one feature", (16, 28, 28, 16), (3, 3, 16, 1))(conv)
problem(F, "convolution to three colors", (4, 64, 64, 32), (5, 5, 32, 3))(conv)
problem(F, "convolution 1-D to two features f64", lambda r: r.standard_normal((32, 512, 24)), lambda r: r.standard_normal((7, 24, 2)))(
    lambda x, w: jax.lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")))


@problem(F, "kernel of two features, gradient", (8, 3, 32, 32), (2, 3, 5, 5), (8, 2, 32, 32), split=(0, None, 0))
def two_features(x, w, y):
    return jax.grad(lambda w: jnp.mean((jax.lax.conv(x, w, (1, 1), "SAME") - y) ** 2))(w)


@problem(F, "running products, gradient", uniform(2304, 128))
def running_products(x):
    return jax.grad(lambda x: (jnp.cumprod(1 - 0.5 * x, -1) ** 2).mean())(x)


optimizer = lambda name: problem(F, f"optimizer: {name}", *[(512, 512)] * 3, split=(0, 0, 0))
optimizer("lion")(lambda p, g, m: (p - 1e-3 * jnp.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g))


@optimizer("factored")
def factored(p, g, m):
    r, c = (g * g + 1e-30).mean(1), (g * g + 1e-30).mean(0)
    u = g / jnp.sqrt(r[:, None] * c / r.mean())
    return p - 1e-2 * u / jnp.maximum(1, jnp.sqrt((u * u).mean()))


@optimizer("by layers")
def by_layers(p, g, m):
    m = 0.9 * m + 0.1 * g
    u = m / (jnp.sqrt(g * g) + 1e-6) + 0.01 * p
    return p - 1e-3 * jnp.linalg.norm(p) / jnp.linalg.norm(u) * u, m


@optimizer("orthogonal")
def orthogonal(p, g, m):
    m = 0.9 * m + g
    x = m / jnp.linalg.norm(m)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return p - 1e-2 * x, m


problem(F, "int8 activations", (256, 1024), ints(127, 1024, 512, dtype=np.int8), uniform(512))(
    lambda x, w, s: (lambda q, m: (jax.lax.dot(q, w, preferred_element_type=jnp.int32).astype(jnp.float32) * m * s))(
        jnp.round(x / (jnp.abs(x).max(1, keepdims=True) / 127)).astype(jnp.int8), jnp.abs(x).max(1, keepdims=True) / 127))


@problem(F, "int4 weights", (16, 1024), ints(256, 1024, 256, dtype=np.uint8), uniform(8, 512))
def int4(x, w, scale):
    low, high = (w & 15).astype(jnp.int8) - 8, (w >> 4).astype(jnp.int8) - 8
    q = jnp.stack([low, high], -1).reshape(1024, 512).astype(jnp.float32)
    return x @ (q.reshape(8, 128, 512) * scale[:, None]).reshape(1024, 512)


problem(F, "fp8 weights", (64, 512), (512, 512))(
    lambda x, w: jnp.matmul(x.astype(jnp.float8_e4m3fn), w.astype(jnp.float8_e4m3fn), preferred_element_type=jnp.float32))
problem(F, "low-rank layer", (512, 512), (512, 512), (512, 8), (8, 512))(lambda x, w, a, b: x @ w + (x @ a) @ b * 2)
problem(F, "weights by examples", (64, 32), (64, 32, 48), split=(0, 0))(lambda x, w: jax.nn.relu(jnp.einsum("bi,bio->bo", x, w)))
problem(F, "segments of points", (4096, 3), (3, 64), (64, 128), ints(32, 4096), split=(0, None, None, 0))(
    lambda x, a, b, i: jax.ops.segment_max(jax.nn.relu(jax.nn.relu(x @ a) @ b), i, 32))


@problem(F, "images turned, cropped and mixed", uniform(16, 48, 48, 3))
def augmented(x):
    def one(key, image):
        a, b, c, d = jax.random.split(key, 4)
        angle = jax.random.uniform(a, (), minval=-0.5, maxval=0.5)
        i, j = jnp.mgrid[:48, :48] - 23.5
        at = [jnp.cos(angle) * i - jnp.sin(angle) * j + 23.5, jnp.sin(angle) * i + jnp.cos(angle) * j + 23.5]
        turned = jax.vmap(lambda x: jax.scipy.ndimage.map_coordinates(x, at, 1, mode="nearest"), 2, 2)(image)
        k, l = jax.random.randint(b, (2,), 0, 16)
        cropped = jax.lax.dynamic_slice(turned, (k, l, 0), (32, 32, 3))
        cropped = jnp.where(jax.random.bernoulli(c), cropped[:, ::-1], cropped)
        return cropped * jax.random.uniform(d, (3,), minval=0.8, maxval=1.2)
    y = jax.vmap(one)(jax.random.split(jax.random.key(3), 16), x)
    share = jax.random.beta(jax.random.key(1), 0.4, 0.4, (16, 1, 1, 1))
    return share * y + (1 - share) * y[::-1]


@problem(F, "splats in order gradient", uniform(128, 2), (128, 3), uniform(128, 3), split=(None,))
def splats(middle, shape, color):
    """Translucent Gaussians over an image, the nearest first."""
    grid = jnp.stack(jnp.meshgrid(jnp.linspace(0, 1, 48), jnp.linspace(0, 1, 48)), -1)

    def loss(middle, shape, color):
        d = grid[:, :, None] - middle
        a, b, c = jnp.exp(shape[:, 0]), jnp.exp(shape[:, 1]), 0.2 * shape[:, 2]
        opaque = 0.9 * jnp.exp(-100 * jnp.abs(a * d[..., 0] ** 2 + b * d[..., 1] ** 2 + c * d[..., 0] * d[..., 1]))
        seen = jnp.cumprod(1 - opaque, -1)
        seen = jnp.concatenate([jnp.ones_like(seen[..., :1]), seen[..., :-1]], -1)
        return jnp.mean(((opaque * seen)[..., None] * color).sum(2) ** 2)
    return jax.grad(loss, (0, 1, 2))(middle, shape, color)


@problem(F, "delta rule, recurrent", *[(8, 256, 32)] * 3, uniform(8, 256), split=(0, 0, 0, 0))
def delta_rule(q, k, v, b):
    k = k / jnp.linalg.norm(k, axis=-1, keepdims=True)

    def step(s, x):
        q, k, v, b = x
        s = s + jnp.einsum("bi,bj->bij", k, b[:, None] * (v - jnp.einsum("bi,bij->bj", k, s)))
        return s, jnp.einsum("bi,bij->bj", q, s)
    return jax.lax.scan(step, jnp.zeros((8, 32, 32)), [x.swapaxes(0, 1) for x in (q, k, v, b)])[1]


@problem(F, "windows of an image, shifted", (8, 16, 32, 64), (64, 192))
def shifted_windows(x, w):
    x = jnp.roll(x, (-4, -4), (1, 2)).reshape(8, 2, 8, 4, 8, 64).transpose(0, 1, 3, 2, 4, 5).reshape(64, 64, 64)
    q, k, v = (t.reshape(64, 64, 4, 16).swapaxes(1, 2) for t in jnp.split(x @ w, 3, -1))
    y = (jax.nn.softmax(q @ k.swapaxes(-1, -2) / 4) @ v).swapaxes(1, 2).reshape(8, 2, 4, 8, 8, 64)
    return jnp.roll(y.transpose(0, 1, 3, 2, 4, 5).reshape(8, 16, 32, 64), (4, 4), (1, 2))


@problem(F, "images with holes", uniform(32, 64, 64, 3))
def holes(x):
    at = jax.random.randint(jax.random.key(0), (32, 3, 1, 1), 0, 64)
    far = jnp.abs(jnp.arange(64) - at) >= 8
    shown = far[:, 0].swapaxes(1, 2) | far[:, 1]
    return jnp.where(shown[..., None], jnp.clip((x - 0.5) * (1 + at[:, 2, ..., None] / 64) + 0.5, 0, 1), 0)


@problem(F, "blocks of fp8 with scales", (1024, 1024))
def scaled_blocks(x):
    x = x.reshape(1024, 32, 32)
    scale = jnp.abs(x).max(-1, keepdims=True) / 448
    return ((x / scale).astype(jnp.float8_e4m3fn).astype(jnp.float32) * scale).reshape(1024, 1024)


@problem(F, "convolution f16 and pool", (8, 32, 32, 16), (3, 3, 16, 32))
def half_convolution(x, w):
    x = conv(x.astype(jnp.float16), w.astype(jnp.float16))
    return jax.lax.reduce_window(x, jnp.float16(-jnp.inf), jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
