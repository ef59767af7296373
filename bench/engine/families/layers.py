"""Layers of neural networks, forward and backward."""
import jax
import jax.numpy as jnp

from . import ints, problem

F = "layers"


def conv(x, w, stride=1, padding="SAME", layout=("NHWC", "HWIO", "NHWC"), **options):
    strides = (stride,) * (x.ndim - 2)
    return jax.lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=layout, **options)


def pool(x, operation, first, size=3, stride=2, padding="SAME"):
    return jax.lax.reduce_window(x, first, operation, (1, size, size, 1), (1, stride, stride, 1), padding)


max_pool = lambda x, **o: pool(x, jax.lax.max, -jnp.inf, **o)
gradient = lambda f: lambda *xs: jax.grad(lambda *xs: jnp.sum(jnp.sin(f(*xs))), tuple(range(len(xs))))(*xs)
NCHW = "NCHW", "OIHW", "NCHW"

problem(F, "conv 7x7/2 and max-pool", (8, 224, 224, 3), (7, 7, 3, 64))(lambda x, w: max_pool(conv(x, w, 2)))
problem(F, "conv 3x3", (8, 56, 56, 64), (3, 3, 64, 64))(conv)
problem(F, "conv 3x3 NCHW", (8, 64, 56, 56), (64, 64, 3, 3))(lambda x, w: conv(x, w, layout=NCHW))
problem(F, "conv 3x3 gradient", (8, 28, 28, 64), (3, 3, 64, 64))(gradient(conv))
problem(F, "conv 3x3/2 gradient", (8, 56, 56, 32), (3, 3, 32, 64))(gradient(lambda x, w: conv(x, w, 2)))
problem(F, "conv 1x1", (8, 56, 56, 64), (1, 1, 64, 256))(conv)
problem(F, "conv dilated 2", (8, 56, 56, 32), (3, 3, 32, 32))(lambda x, w: conv(x, w, rhs_dilation=(2, 2)))
problem(F, "conv dilated 3 NCHW", (8, 24, 48, 48), (40, 24, 3, 3))(
    lambda x, w: conv(x, w, layout=NCHW, rhs_dilation=(3, 3)))
problem(F, "conv dilated gradient", (8, 40, 40, 16), (3, 3, 16, 24))(
    gradient(lambda x, w: conv(x, w, rhs_dilation=(4, 4))))
problem(F, "conv 1-D dilated 8", (8, 8192, 16), (3, 16, 16))(
    lambda x, w: conv(x, w, layout=("NWC", "WIO", "NWC"), rhs_dilation=(8,)))
problem(F, "conv 3x3 to 24 channels", (8, 56, 56, 48), (3, 3, 48, 24))(conv)
problem(F, "conv 5x5 of 8 channels", (8, 96, 96, 8), (5, 5, 8, 16))(conv)
problem(F, "conv groups 8", (8, 56, 56, 64), (3, 3, 8, 64))(lambda x, w: conv(x, w, feature_group_count=8))
problem(F, "conv depthwise", (8, 56, 56, 128), (3, 3, 1, 128))(lambda x, w: conv(x, w, feature_group_count=128))
problem(F, "conv depthwise gradient", (8, 28, 28, 128), (3, 3, 1, 128))(
    gradient(lambda x, w: conv(x, w, feature_group_count=128)))
problem(F, "conv transposed", (8, 28, 28, 64), (4, 4, 64, 32))(
    lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME"))
problem(F, "conv 1-D", (16, 4096, 32), (9, 32, 64))(lambda x, w: conv(x, w, layout=("NWC", "WIO", "NWC")))
problem(F, "conv 3-D", (2, 16, 32, 32, 16), (3, 3, 3, 16, 32), split=(1,))(lambda x, w: conv(x, w, layout=("NDHWC", "DHWIO", "NDHWC")))
problem(F, "max-pool 3/2", (8, 112, 112, 64))(max_pool)
problem(F, "max-pool 2/2 gradient", (8, 112, 112, 32))(gradient(lambda x: max_pool(x, size=2)))
problem(F, "average-pool NCHW", (8, 64, 112, 112))(
    lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 1, 3, 3), (1, 1, 2, 2), "SAME") / 9)
problem(F, "average-pool gradient", (8, 112, 112, 32))(gradient(lambda x: pool(x, jax.lax.add, 0.0) / 9))
problem(F, "channels last", (16, 3, 224, 224))(lambda x: x.transpose(0, 2, 3, 1))
problem(F, "sobel", (16, 512, 512))(lambda x: jnp.hypot(x[:, 2:] - x[:, :-2], 0.5)[:, :, 1:-1] + jnp.abs(
    x[:, 1:-1, 2:] - x[:, 1:-1, :-2]))


def attention(q, k, v, causal=False):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    if causal:
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v)


HEADS, LONG = (4, 512, 8, 64), (1, 2048, 8, 64)
ALL = dict(split=(0, 0, 0))
OVER = dict(split=(2, 2, 2))
QUERIES = dict(split=(1, None, None))
problem(F, "attention 2048", LONG, LONG, LONG, **OVER)(attention)
problem(F, "attention causal", (8, 512, 8, 64), (8, 512, 8, 64), (8, 512, 8, 64), **ALL)(
    lambda q, k, v: attention(q, k, v, True))
problem(F, "attention gradient", *[(8, 256, 8, 32)] * 3, **ALL)(gradient(lambda q, k, v: attention(q, k, v, True)))
problem(F, "attention 4096 gradient", *[(1, 4096, 4, 64)] * 3, **QUERIES)(gradient(attention))
problem(F, "attention 8192 causal", *[(1, 8192, 2, 64)] * 3, **QUERIES)(lambda q, k, v: attention(q, k, v, True))
problem(F, "attention, grouped queries", (2, 1024, 8, 64), (2, 1024, 2, 64), (2, 1024, 2, 64), **QUERIES)(
    lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True))
problem(F, "dot_product_attention bf16", *[(8, 256, 8, 64)] * 3, **ALL)(
    lambda q, k, v: jax.nn.dot_product_attention(*(x.astype(jnp.bfloat16) for x in (q, k, v)), is_causal=True))


def group_norm(x, groups=8):
    b, h, w, c = x.shape
    y = x.reshape(b, h, w, groups, c // groups)
    mean = y.mean((1, 2, 4), keepdims=True)
    var = ((y - mean) ** 2).mean((1, 2, 4), keepdims=True)
    return ((y - mean) * jax.lax.rsqrt(var + 1e-5)).reshape(x.shape)


def batch_norm(x, scale, bias):
    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + bias


problem(F, "group norm", (16, 56, 56, 64))(group_norm)
problem(F, "group norm of 4 channels", (16, 40, 40, 64))(lambda x: group_norm(x, 16))
problem(F, "group norm gradient", (16, 28, 28, 64))(gradient(group_norm))
problem(F, "batch norm gradient", (32, 28, 28, 64), (64,), (64,))(gradient(batch_norm))
problem(F, "rms norm bf16", (4096, 1024), (1024,))(
    lambda x, s: (lambda y: y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True).astype(jnp.float32)).astype(y.dtype)
                  * s.astype(y.dtype))(x.astype(jnp.bfloat16)))


@problem(F, "rotary embedding", (8, 512, 8, 64))
def rotary(x):
    angle = jnp.arange(512.0)[:, None] * 10000.0 ** (-jnp.arange(32) / 32)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


@problem(F, "cross-entropy of 32,000", (512, 256), (256, 32000), ints(32000, 512), split=(0, None, 0))
def entropy(x, w, y):
    def loss(x, w):
        logits = x @ w
        return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, y[:, None], 1)[:, 0])
    return jax.grad(loss, (0, 1))(x, w)


@problem(F, "swiglu gradient", (512, 256), (256, 1024), (256, 1024), (1024, 256))
def swiglu(x, a, b, c):
    return gradient(lambda x, a, b, c: (jax.nn.silu(x @ a) * (x @ b)) @ c)(x, a, b, c)


@problem(F, "dropout", (2048, 1024))
def dropout(x):
    return jnp.where(jax.random.bernoulli(jax.random.key(1), 0.9, x.shape), x / 0.9, 0)


@problem(F, "max-pool NCHW gradient", (8, 16, 56, 56))
def pooled(x):
    def loss(x):
        return jnp.sum(jnp.sin(jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")))
    return jax.grad(loss)(x)


@problem(F, "max-pool NCHW 3/2 gradient", (8, 16, 56, 56))
def pooled_over(x):
    def loss(x):
        return jnp.sum(jnp.sin(jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME")))
    return jax.grad(loss)(x)
