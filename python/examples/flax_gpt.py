"""A small GPT in Flax, its parameters and batch placed by NamedSharding: data parallel and tensor parallel at once."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import jax_meshwork

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 64, 32, 64, 4, 2, 16


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
        x = x + nn.MultiHeadDotProductAttention(HEADS, name="attention")(y, mask=mask)
        y = nn.gelu(nn.Dense(4 * WIDTH, name="up")(nn.LayerNorm()(x)))
        return x + nn.Dense(WIDTH, name="down")(y)


class GPT(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(VOCABULARY, WIDTH)(tokens) + nn.Embed(LENGTH, WIDTH)(jnp.arange(tokens.shape[1]))
        for _ in range(LAYERS):
            x = Block()(x)
        return nn.Dense(VOCABULARY, name="head")(nn.LayerNorm()(x))


mesh = jax.make_mesh((jax.device_count() // 2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def placement(path, leaf):
    """Hidden dimensions are split over `model`; everything else is on every device."""
    name = jax.tree_util.keystr(path)
    if "'up'" in name and leaf.ndim == 2:
        return NamedSharding(mesh, P(None, "model"))
    if "'down'" in name and leaf.ndim == 2:
        return NamedSharding(mesh, P("model", None))
    if leaf.ndim == 3 and "'out'" not in name:
        return NamedSharding(mesh, P(None, "model", None))
    if leaf.ndim == 3:
        return NamedSharding(mesh, P("model", None, None))
    return NamedSharding(mesh, P())


model, optimizer = GPT(), optax.adamw(3e-3)
rng = np.random.default_rng(0)
# Each token is the one before it plus one: easy to learn.
starts = rng.integers(0, VOCABULARY, (BATCH, 1))
text = (starts + np.arange(LENGTH + 1)) % VOCABULARY
batch = jax.device_put(text, NamedSharding(mesh, P("data")))

params = model.init(jax.random.key(0), text[:, :-1])
params = jax.device_put(params, jax.tree_util.tree_map_with_path(placement, params))
state = jax.jit(optimizer.init)(params)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, state, batch):
    def loss(params):
        logits = model.apply(params, batch[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


totals = jax_meshwork.plan(step, params, state, batch)["totals"]
print({kind: total["count"] for kind, total in totals.items()})
losses = []
for _ in range(20):
    params, state, value = step(params, state, batch)
    losses.append(float(value))
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f} on {jax.device_count()} devices of {jax.devices()[0].platform}")
assert losses[-1] < 0.6 * losses[0]
