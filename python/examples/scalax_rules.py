"""Scalax: placements by rules over the paths of a tree, with tensor and fully sharded data parallelism in one mesh."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as PS
from scalax.sharding import FSDPShardingRule, MeshShardingHelper, TreePathShardingRule, with_sharding_constraint

mesh = MeshShardingHelper([-1, 2], ["fsdp", "tensor"])
rule = TreePathShardingRule(("up", PS("fsdp", "tensor")), ("down", PS("tensor", "fsdp")), strict=True)


def init(key):
    up, down = jax.random.split(key)
    return {"up": jax.random.normal(up, (16, 64)) / 4, "down": jax.random.normal(down, (64, 16)) / 8}


def loss(params, x):
    hidden = with_sharding_constraint(jnp.tanh(x @ params["up"]), PS("fsdp", "tensor"))
    return jnp.mean((hidden @ params["down"] - x) ** 2)


def train(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), value


params = mesh.sjit(init, out_shardings=rule)(jax.random.key(0))
step = mesh.sjit(train, in_shardings=(rule, PS("fsdp")), out_shardings=(rule, PS()))
batch = np.random.default_rng(0).normal(size=(32, 16)).astype(np.float32)
losses = []
for _ in range(50):
    params, value = step(params, batch)
    losses.append(float(value))
largest = FSDPShardingRule(fsdp_axis_name="fsdp", fsdp_axis_size=4).apply(params)
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; up is {params['up'].sharding.spec}, the other rule says {largest['up']}")
assert losses[-1] < losses[0]
