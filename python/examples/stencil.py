"""The heat equation on a ring of devices: each holds a piece of the rod and trades one element with its neighbors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

DEVICES, CELLS, STEPS = jax.device_count(), 1024, 200
mesh = jax.make_mesh((DEVICES,), ("x",), axis_types=(AxisType.Auto,))


@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
def by_hand(rod):
    """Written per device, with messages."""
    right = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]
    left = [(j, i) for i, j in right]

    def step(_, rod):
        before = jax.lax.ppermute(rod[-1:], "x", right)
        after = jax.lax.ppermute(rod[:1], "x", left)
        wide = jnp.concatenate([before, rod, after])
        return rod + 0.25 * (wide[:-2] - 2 * rod + wide[2:])

    return jax.lax.fori_loop(0, STEPS, step, rod)


@jax.jit
def whole(rod):
    """Written for the whole rod: Meshwork finds the messages."""
    step = lambda _, rod: rod + 0.25 * (jnp.roll(rod, 1) - 2 * rod + jnp.roll(rod, -1))
    return jax.lax.fori_loop(0, STEPS, step, rod)


start = np.zeros(CELLS, np.float32)
start[CELLS // 2] = 1
rod = jax.device_put(start, NamedSharding(mesh, P("x")))
np.testing.assert_allclose(by_hand(rod), whole(rod), atol=1e-6)
print(f"{DEVICES} devices, {STEPS} steps, heat {float(whole(rod).sum()):.6f}, peak {float(whole(rod).max()):.6f}")
