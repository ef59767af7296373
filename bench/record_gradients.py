#!/usr/bin/env python3
"""Records what JAX gives for the programs of crates/meshwork/tests/jax_gradients.rs.

  record_gradients.py [OUT]     (default: crates/meshwork/tests/data)

Each program is a loss of parameters and data. One file a program, NAME.npy: the elements of all parameters, all data,
the loss and its gradient by each parameter, one after the other, as one list of f32. The test knows the shapes.
"""
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
HEADS = 2


def normal(seed, *shapes, scale=0.5):
    rng = np.random.default_rng(seed)
    return [np.float32(scale * rng.standard_normal(shape)) for shape in shapes]


def integers(seed, high, *shape):
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.int32)


def surprise(logits, labels):
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, labels[..., None], axis=-1).mean()


def norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + bias


def attend(x, wq, wk, wv, wo):
    q, k, v = (jnp.einsum("btd,dhk->bhtk", x, w) for w in (wq, wk, wv))
    scores = jnp.einsum("bhtk,bhsk->bhts", q, k) / q.shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhts,bhsk,hkd->btd", weights, v, wo)


def mlp(p, d):
    w1, b1, w2, b2 = p
    return surprise(jnp.tanh(d[0] @ w1 + b1) @ w2 + b2, d[1])


def cnn(p, d):
    k1, k2, w = p
    conv = lambda x, k, step: jax.lax.conv_general_dilated(  # noqa: E731
        x, k, (step, step), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.nn.relu(conv(d[0], k1, 1))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(conv(x, k2, 2))
    return surprise(x.mean((1, 2)) @ w, d[1])


def attention(p, d):
    return (attend(d[0], *p) ** 2).mean()


def layer_norm(p, d):
    x, scale, bias = p
    return (jnp.sin(norm(x, scale, bias)) * d[0]).sum()


def gpt(p, d):
    embed, position, *rest, scale, bias, head = p
    x = embed[d[0]] + position
    for i in range(0, len(rest), 10):
        s1, b1, wq, wk, wv, wo, s2, b2, up, down = rest[i:i + 10]
        x = x + attend(norm(x, s1, b1), wq, wk, wv, wo)
        x = x + jax.nn.gelu(norm(x, s2, b2) @ up, approximate=False) @ down
    return surprise(norm(x, scale, bias) @ head, d[1])


def rnn(p, d):
    wx, wh, b = p

    def step(h, x):
        h = jnp.tanh(x @ wx + h @ wh + b)
        return h, h

    _, hs = jax.lax.scan(step, jnp.zeros((d[0].shape[1], wh.shape[0])), d[0])
    return ((hs - d[1]) ** 2).mean()


def programs():
    block = [(8,), (8,), (8, HEADS, 4), (8, HEADS, 4), (8, HEADS, 4), (HEADS, 4, 8), (8,), (8,), (8, 32), (32, 8)]
    return {
        "mlp": (mlp, normal(1, (8, 16), (16,), (16, 4), (4,)), normal(2, (6, 8)) + [integers(3, 4, 6)]),
        "cnn": (cnn, normal(4, (3, 3, 3, 4), (3, 3, 4, 6), (6, 5)), normal(5, (4, 8, 8, 3)) + [integers(6, 5, 4)]),
        "attention": (attention, normal(7, (8, HEADS, 4), (8, HEADS, 4), (8, HEADS, 4), (HEADS, 4, 8)),
                      normal(8, (2, 5, 8))),
        "layer_norm": (layer_norm, normal(9, (4, 6), (6,), (6,)), normal(10, (4, 6))),
        "gpt": (gpt, normal(11, (11, 8), (6, 8), *block, *block, (8,), (8,), (8, 11)),
                [integers(12, 11, 4, 6), integers(13, 11, 4, 6)]),
        "rnn": (rnn, normal(14, (4, 6), (6, 6), (6,)), normal(15, (7, 4, 4), (7, 4, 6))),
    }


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "crates" / "meshwork" / "tests" / "data"
    out.mkdir(parents=True, exist_ok=True)
    for name, (loss, params, data) in programs().items():
        value, grads = jax.jit(jax.value_and_grad(loss))(params, data)
        parts = [np.ravel(x).astype(np.float32) for x in [*params, *data, value, *grads]]
        np.save(out / f"{name}.npy", np.concatenate(parts))
        print(f"{name}: loss {float(value):.6f}, {sum(map(len, parts))} numbers")


if __name__ == "__main__":
    main()
