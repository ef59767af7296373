"""Python functions inside programs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P


def test_pure_callback():
    f = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((3,), "float32"), x) + 1)
    np.testing.assert_array_equal(f(jnp.arange(3.0)), [1, 3, 5])


def test_ordered_effects_are_in_order():
    seen = []

    @jax.jit
    def f(x):
        for i in range(4):
            io_callback(lambda v, i=i: seen.append((i, float(v))), None, x + i, ordered=True)
        return x

    f(1.0)
    jax.effects_barrier()
    assert seen == [(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]


def test_ordered_effects_may_return_values():
    seen = []

    def count(v):
        seen.append(float(v))
        return np.float32(len(seen))

    @jax.jit
    def f(x):
        first = io_callback(count, jax.ShapeDtypeStruct((), "float32"), x, ordered=True)
        second = io_callback(count, jax.ShapeDtypeStruct((), "float32"), x + 1, ordered=True)
        return first, second

    assert [float(v) for v in f(1.0)] == [1, 2] and seen == [1, 2]


def test_effects_in_loops():
    seen = []

    def body(i, x):
        jax.debug.callback(lambda i: seen.append(int(i)), i, ordered=True)
        return x + i

    assert jax.jit(lambda x: jax.lax.fori_loop(0, 5, body, x))(0) == 10
    jax.effects_barrier()
    assert seen == [0, 1, 2, 3, 4]


def test_debug_print(capfd):
    jax.jit(lambda x: jax.debug.print("x is {}", x) or x)(jnp.float32(3))
    jax.effects_barrier()
    assert "x is 3.0" in capfd.readouterr().out


def test_whole_arrays_are_given_once_and_shards_each():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    x = jax.device_put(np.arange(8.0, dtype="f"), NamedSharding(mesh, P("x")))
    seen = []
    jax.jit(lambda x: jax.debug.callback(lambda v: seen.append(np.asarray(v).shape), x) or x * 2)(x)
    jax.effects_barrier()
    assert seen == [(8,)]

    seen.clear()

    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def f(x):
        jax.debug.callback(lambda v: seen.append(float(v[0])), x)
        return x

    f(x)
    jax.effects_barrier()
    assert sorted(seen) == list(range(8))
