"""Haliax: arrays with named axes, split by a mapping from their names to the axes of a mesh."""

import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

devices = jax.devices()
mesh = Mesh(np.array(devices).reshape((-1, 2)), ("data", "model"))

batch = jnp.zeros((32, 512), dtype=jnp.float32)
batch = jax.device_put(batch, NamedSharding(mesh, PartitionSpec("data", None)))
print("plain:", batch.sharding.spec)

Batch = hax.Axis("batch", 32)
SeqLen = hax.Axis("seqlen", 512)
Embed = hax.Axis("embed", 16)

with jax.set_mesh(mesh), hax.axis_mapping({"batch": "data", "embed": "model"}):
    batch = hax.shard(hax.ones((Batch, SeqLen), dtype=jnp.float32))
    weights = hax.shard(hax.ones((SeqLen, Embed), dtype=jnp.float32))
    out = hax.named_jit(lambda x, w: hax.shard(hax.dot(x, w, axis=SeqLen)))(batch, weights)

print("named:", batch.array.sharding.spec, weights.array.sharding.spec, out.array.sharding.spec)
np.testing.assert_array_equal(out.array, np.full((32, 16), 512.0))
