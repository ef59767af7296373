"""An MLP in Equinox with fully sharded parameters: each device keeps a piece of every weight and of the optimizer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))


def fsdp(leaf):
    """Split over the first dimension that divides."""
    for dim, size in enumerate(leaf.shape):
        if size % jax.device_count() == 0:
            return NamedSharding(mesh, P(*[None] * dim, "data"))
    return NamedSharding(mesh, P())


model = eqx.nn.MLP(16, 8, 64, 2, key=jax.random.key(0))
arrays, rest = eqx.partition(model, eqx.is_array)
arrays = jax.tree.map(lambda leaf: jax.device_put(leaf, fsdp(leaf)), arrays)
optimizer = optax.adam(1e-2)
state = jax.jit(optimizer.init)(arrays)

rng = np.random.default_rng(0)
inputs = rng.normal(size=(64, 16)).astype(np.float32)
targets = np.stack([inputs[:, :8].sum(1) > 0] * 8, axis=1).astype(np.float32)
batch = jax.device_put((inputs, targets), NamedSharding(mesh, P("data")))


@jax.jit
def step(arrays, state, batch):
    inputs, targets = batch

    def loss(arrays):
        return jnp.mean((jax.vmap(eqx.combine(arrays, rest))(inputs) - targets) ** 2)

    value, grads = jax.value_and_grad(loss)(arrays)
    # What is reduced is kept in pieces.
    grads = jax.tree.map(lambda g, a: jax.lax.with_sharding_constraint(g, fsdp(a)), grads, arrays)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(arrays, updates), state, value


losses = []
for _ in range(50):
    arrays, state, value = step(arrays, state, batch)
    losses.append(float(value))
held = max(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(arrays))
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; the largest piece on a device has {held} bytes")
assert losses[-1] < 0.5 * losses[0]
