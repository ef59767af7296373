"""Whole steps of small models."""
import jax
import jax.numpy as jnp

from . import ints, problem

F = "models"


def lstm(x, w, u, b):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((x.shape[1], u.shape[0]))
    return jax.lax.scan(step, (zero, zero), x)[1]


@problem(F, "lstm training", (64, 32, 128), (128, 512), (128, 512), (512,), split=(1,))
def lstm_training(x, w, u, b):
    w, u = w * 0.1, u * 0.1
    g = jax.grad(lambda w, u, b: jnp.mean(lstm(x, w, u, b) ** 2), (0, 1, 2))(w, u, b)
    return [p - 0.1 * g for p, g in zip((w, u, b), g)]


@problem(F, "gru forward", (128, 16, 64), (64, 192), (64, 192), split=(1,))
def gru(x, w, u):
    def step(h, x):
        r, z, n = jnp.split(x @ w / 8, 3, -1)
        s, y, m = jnp.split(h @ u / 10, 3, -1)
        z = jax.nn.sigmoid(z + y)
        h = (1 - z) * jnp.tanh(n + jax.nn.sigmoid(r + s) * m) + z * h
        return h, h
    return jax.lax.scan(step, jnp.zeros((16, 64)), x)[1]


@problem(F, "rnn, one sequence", (1024, 32), (32, 32), (32, 32), split=(None,))
def rnn(x, w, u):
    return jax.lax.scan(lambda h, x: (h := jnp.tanh((x @ w + h @ u) / 7), h), jnp.zeros(32), x)[1]


@problem(F, "decode with a cache", (4, 256, 768), (4, 256, 256), (4, 256, 1024), (4, 1024, 256), (256, 4096),
         (4096, 256), split=(None,))
def decode(qkv, out, up, down, head, table):
    heads, dim, layers, length = 8, 256, 4, 64

    def token(state, t):
        k, v, now = state
        x = table[now]
        for i in range(layers):
            h = x * jax.lax.rsqrt(jnp.mean(x * x) + 1e-5)
            q, a, b = jnp.split(h @ qkv[i], 3)
            k = jax.lax.dynamic_update_slice(k, a[None, None], (i, t, 0))
            v = jax.lax.dynamic_update_slice(v, b[None, None], (i, t, 0))
            kk, vv = k[i].reshape(length, heads, -1), v[i].reshape(length, heads, -1)
            s = jnp.einsum("hd,thd->ht", q.reshape(heads, -1), kk) / (dim // heads) ** 0.5
            p = jax.nn.softmax(jnp.where(jnp.arange(length) <= t, s, -1e30))
            x = x + jnp.einsum("ht,thd->hd", p, vv).reshape(dim) @ out[i]
            x = x + jax.nn.gelu(x @ up[i]) @ down[i]
        now = jnp.argmax(x @ head).astype(jnp.int32)
        return (k, v, now), now
    cache = jnp.zeros((layers, length, dim))
    return jax.lax.scan(token, (cache, cache, jnp.int32(1)), jnp.arange(length))[1]


@problem(F, "decode a batch", (8, 32, 256), (256, 768), (256, 256))
def decode_batch(x, qkv, out):
    def token(state, t):
        k, v, x = state
        q, a, b = jnp.split(x @ qkv * 0.05, 3, -1)
        k = jax.lax.dynamic_update_slice(k, a[:, None], (0, t, 0))
        v = jax.lax.dynamic_update_slice(v, b[:, None], (0, t, 0))
        s = jnp.einsum("bd,btd->bt", q, k) / 16
        p = jax.nn.softmax(jnp.where(jnp.arange(128) <= t, s, -1e30))
        x = jnp.tanh(jnp.einsum("bt,btd->bd", p, v) @ out)
        return (k, v, x), x
    cache = jnp.zeros((8, 128, 256))
    return jax.lax.scan(token, (cache, cache, x[:, 0]), jnp.arange(128))[1]


@problem(F, "beam search", (256, 1024), (256, 256), (1024, 256), split=(None,))
def beam(head, mix, table):
    def step(state, _):
        h, score = state
        logp = jax.nn.log_softmax(h @ head * 0.1) + score[:, None]
        score, at = jax.lax.top_k(logp.reshape(-1), 8)
        h = jnp.tanh(h[at // 1024] @ mix * 0.1 + table[at % 1024])
        return (h, score), at
    return jax.lax.scan(step, (table[:8], jnp.zeros(8)), length=50)[1]


@problem(F, "mixture of experts", (2048, 128), (128, 8), (8, 128, 256), (8, 256, 128))
def experts(x, gate, up, down):
    p, at = jax.lax.top_k(jax.nn.softmax(x @ gate), 2)
    weight = jnp.zeros((2048, 8)).at[jnp.arange(2048)[:, None], at].set(p)
    h = jax.nn.relu(jnp.einsum("td,edf->tef", x, up))
    return jnp.einsum("tef,efd,te->td", h, down, weight)


@problem(F, "capacity routing", (4096, 64), (64, 16), split=(None,))
def routing(x, gate):
    e = jnp.argmax(x @ gate, -1)
    one = jax.nn.one_hot(e, 16, dtype=jnp.int32)
    place = jnp.sum(jnp.cumsum(one, 0) * one, -1) - 1
    slot = jnp.where(place < 320, e * 320 + place, 16 * 320)
    return jnp.zeros((16 * 320 + 1, 64)).at[slot].add(x)


@problem(F, "residual network step", (16, 32, 32, 16), (3, 3, 16, 32), (3, 3, 32, 32), (32, 10), ints(10, 16),
         split=(0, None, None, None, 0))
def residual(x, a, b, head, y):
    conv = lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss(a, b, head):
        h = jax.nn.relu(conv(x, a * 0.1))
        h = h + jax.nn.relu(conv(h, b * 0.1))
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        logits = h.mean((1, 2)) @ head
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()
    grads = jax.grad(loss, (0, 1, 2))(a, b, head)
    return [p - 0.1 * g for p, g in zip((a, b, head), grads)]


@problem(F, "autoencoder step", (256, 784), (784, 128), (128, 784))
def autoencoder(x, a, b):
    def loss(a, b):
        h = jax.nn.gelu(x @ a * 0.05)
        z = h + 0.1 * jax.random.normal(jax.random.key(0), h.shape)
        return jnp.mean((jax.nn.sigmoid(z @ b * 0.05) - x) ** 2)
    grads = jax.grad(loss, (0, 1))(a, b)
    return [p - 0.1 * g for p, g in zip((a, b), grads)]


@problem(F, "adam of many tensors", *[(256, 64)] * 60)
def adam(*all):
    out = []
    for p, m, v in zip(all[::3], all[1::3], all[2::3]):
        g = p * 0.01
        m, v = 0.9 * m + 0.1 * g, 0.999 * v * v + 0.001 * g * g
        out += [p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v]
    return out
