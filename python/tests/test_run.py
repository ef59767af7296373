"""Programs on Meshwork give the numbers of XLA's CPU backend."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P


def on_cpu(f, *args):
    """What `f` gives on XLA's CPU backend."""
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.tree.map(np.asarray, jax.jit(f)(*jax.tree.map(np.asarray, args)))


def agree(f, *args, rtol=1e-5):
    ours = jax.tree.map(np.asarray, jax.jit(f)(*args))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), ours, on_cpu(f, *args))


def test_meshwork_is_the_default():
    assert [d.platform for d in jax.devices()] == ["meshwork"] * 8
    assert jax.devices()[3].device_kind == "meshwork"


def test_elementwise_products_reductions_loops():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    agree(lambda x: jnp.tanh(x / 10).sum(0), x)
    agree(lambda x: x @ x.T, x)
    agree(lambda x: jax.lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(6), x), x)
    agree(lambda x: jnp.sort(x[::-1], axis=0), x)
    agree(jax.grad(lambda x: jnp.log1p(x).sum()), x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"])
def test_every_type_goes_in_and_out(dtype):
    x = jnp.asarray(np.array([[0, 1], [1, 0], [1, 1]]), dtype)
    assert x.dtype == dtype and np.asarray(x).tolist() == np.asarray(x.T).T.tolist()


def test_views_of_numpy_are_read_by_their_strides():
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for view in (x.transpose(2, 0, 1), x[:, ::2], x[::-1], x[:, :0]):
        np.testing.assert_array_equal(np.asarray(jnp.asarray(view) + 0), view)


def test_a_copy_has_memory_of_its_own():
    x = jnp.arange(1024.0)
    y = jnp.array(x, copy=True)
    assert x.unsafe_buffer_pointer() != y.unsafe_buffer_pointer()
    np.testing.assert_array_equal(x, y)


def test_donated_arrays_are_deleted_and_views_of_them_keep_their_values():
    x = jnp.arange(4096.0)
    view = np.asarray(x)
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted() and view[5] == 5 and y[5] == 6
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


def mesh():
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def test_training_on_a_mesh_agrees_with_one_device():
    def loss(params, x, y):
        return jnp.mean((jnp.tanh(x @ params["a"]) @ params["b"] - y) ** 2)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    rng = np.random.default_rng(0)
    host = {"a": rng.normal(size=(16, 64)).astype("f"), "b": rng.normal(size=(64, 8)).astype("f")}
    x, y = rng.normal(size=(32, 16)).astype("f"), rng.normal(size=(32, 8)).astype("f")
    on = lambda *spec: NamedSharding(mesh(), P(*spec))
    placed = jax.device_put(host, {"a": on(None, "model"), "b": on("model")})
    batch = jax.device_put((x, y), on("data"))
    losses, single = [], []
    for _ in range(5):
        placed, value = step(placed, *batch)
        losses.append(float(value))
    whole = jax.device_put(host, jax.devices()[0])
    for _ in range(5):
        whole, value = step(whole, x, y)
        single.append(float(value))
    np.testing.assert_allclose(losses, single, rtol=1e-5)
    assert placed["a"].sharding.spec == P(None, "model")
    assert placed["a"].addressable_shards[1].data.shape == (16, 32)


def test_a_mesh_of_some_devices_in_any_order():
    devices = [jax.devices()[i] for i in (5, 2, 7)]
    line = jax.sharding.Mesh(devices, ("x",))
    x = jax.device_put(np.arange(9.0, dtype="f"), NamedSharding(line, P("x")))
    y = jax.jit(lambda x: jnp.cumsum(x))(x)
    np.testing.assert_array_equal(y, np.cumsum(np.arange(9.0)))
    assert {s.device for s in x.addressable_shards} == set(devices)


def test_shard_map():
    @functools.partial(jax.shard_map, mesh=mesh(), in_specs=P("data"), out_specs=P("data"))
    def shift(x):
        return jax.lax.ppermute(x, "data", [(i, (i + 1) % 4) for i in range(4)])

    np.testing.assert_array_equal(jax.jit(shift)(jnp.arange(8)), [6, 7, 0, 1, 2, 3, 4, 5])


def test_kinds_of_memory():
    device = jax.devices()[0]
    assert {m.kind for m in device.addressable_memories()} == {"device", "pinned_host", "unpinned_host"}
    host = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
    x = jax.device_put(jnp.arange(3.0), host)
    assert x.sharding.memory_kind == "pinned_host"
    np.testing.assert_array_equal(x, [0, 1, 2])


def test_many_runs_in_flight():
    f = jax.jit(lambda x: x @ x / 512)
    x = jnp.ones((512, 512))
    for _ in range(20):
        x = f(x)
    assert float(x[0, 0]) == 1.0


def test_cost_memory_and_text_of_a_compiled_function():
    x = jax.device_put(np.ones((8, 8), "f"), NamedSharding(mesh(), P("data")))
    compiled = jax.jit(lambda x: (x @ x).sum()).lower(x).compile()
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == 8 * 8 * 4 // 4
    assert "all-reduce" in compiled.as_text()


def test_compiled_functions_are_cached_on_disk(tmp_path):
    import jax.experimental.serialize_executable as se

    compiled = jax.jit(lambda x: x * 2).lower(jnp.ones(4)).compile()
    again = se.deserialize_and_load(*se.serialize(compiled), execution_devices=jax.devices()[:1])
    np.testing.assert_array_equal(again(jnp.ones(4)), [2] * 4)


def test_results_that_would_be_split_unevenly_stay_whole():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    x = jax.device_put(np.arange(16, dtype=np.float32), NamedSharding(mesh, P("x")))
    y = jax.jit(lambda x: x[:10] * 2)(x)
    np.testing.assert_array_equal(np.asarray(y), np.arange(10) * 2)
    assert y.sharding.is_fully_replicated
