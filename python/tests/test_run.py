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


def test_shardings_of_gspmd():
    jax.config.update("jax_use_shardy_partitioner", False)
    try:
        x = np.arange(64, dtype=np.float32).reshape(8, 8)
        placed = jax.device_put(x, NamedSharding(mesh(), P("data", "model")))

        @jax.jit
        def f(x):
            y = jax.lax.with_sharding_constraint(x @ x, NamedSharding(mesh(), P("model")))
            return y + 1, y.sum()

        y, total = f(placed)
        np.testing.assert_allclose(y, x @ x + 1)
        assert y.sharding.shard_shape(y.shape) == (4, 8) and float(total) == (x @ x).sum()

        @functools.partial(jax.shard_map, mesh=mesh(), in_specs=P("data"), out_specs=P("data"))
        def shift(x):
            return jax.lax.ppermute(x, "data", [(i, (i + 1) % 4) for i in range(4)])

        np.testing.assert_array_equal(jax.jit(shift)(jnp.arange(8)), [6, 7, 0, 1, 2, 3, 4, 5])
    finally:
        jax.config.update("jax_use_shardy_partitioner", True)


def test_functions_exported_with_symbolic_shapes():
    n, m = jax.export.symbolic_shape("n, m", constraints=["n >= 2"])

    def f(x, w):
        y = jnp.concatenate([x @ w, jnp.ones((x.shape[0], 1))], axis=1)
        return jax.lax.fori_loop(0, 3, lambda i, y: y * 2, y).reshape(-1), jnp.cumsum(y, axis=0), y.shape[1]

    shapes = jax.ShapeDtypeStruct((n, 3), "float32"), jax.ShapeDtypeStruct((3, m), "float32")
    exported = jax.export.export(jax.jit(f))(*shapes)
    x, w = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((3, 5), np.float32)
    for ours, theirs in zip(exported.call(x, w), f(x, w)):
        np.testing.assert_allclose(ours, theirs)
    with pytest.raises(ValueError, match="n >= 2"):
        exported.call(x[:1], w)


def test_arrays_may_lie_in_memory_in_any_order():
    from jax.experimental.layout import Format, Layout

    columns = Format(Layout(major_to_minor=(1, 0)), jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = jax.device_put(x, columns)
    assert y.format.layout.major_to_minor == (1, 0)
    z = jax.jit(lambda y: y * 2, in_shardings=columns, out_shardings=columns)(y)
    assert z.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(np.asarray(z), x * 2)
    np.testing.assert_array_equal(np.asarray(jnp.negative(z)), x * -2)


def test_results_that_are_equal_have_memory_of_their_own():
    x = jnp.arange(1024.0)
    y, z = jax.jit(lambda x: (x, x))(x)
    assert len({a.unsafe_buffer_pointer() for a in (x, y, z)}) == 3


def test_sums_over_groups_of_different_sizes():
    line = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    sums = lambda x: jax.lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3, 4, 5, 6, 7]])  # noqa: E731
    f = jax.jit(jax.shard_map(sums, mesh=line, in_specs=P("i"), out_specs=P("i"), check_vma=False))
    np.testing.assert_array_equal(f(np.arange(8.0, dtype="f")), [1, 1] + [27] * 6)


def test_functions_with_a_partitioning_of_their_own():
    from jax.experimental.custom_partitioning import custom_partitioning

    @custom_partitioning
    def f(x):
        return jnp.sin(x) * 2

    f.def_partition(
        infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
        partition=lambda mesh, args, result: (mesh, jnp.sin, result.sharding, (args[0].sharding,)),
        sharding_rule="i -> i",
    )
    x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh(), P("data")))
    y = jax.jit(f)(x)
    np.testing.assert_allclose(y, np.sin(np.arange(8.0)) * 2, rtol=1e-6)
    assert y.sharding.spec == P("data")


def test_ragged_exchanges():
    line = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    # Device 0 sends one row to itself and two to device 1; device 1 sends two to device 0 and one to itself.
    operand = jnp.array([1, 2, 2, 3, 4, 0])
    starts, sizes = jnp.array([0, 1, 0, 2]), jnp.array([1, 2, 2, 1])
    places, received = jnp.array([0, 0, 1, 2]), jnp.array([1, 2, 2, 1])
    exchange = lambda *args: jax.lax.ragged_all_to_all(*args, axis_name="x")  # noqa: E731
    f = jax.shard_map(exchange, mesh=line, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    result = jax.jit(f)(operand, jnp.full(8, -1), starts, sizes, places, received)
    np.testing.assert_array_equal(result, [1, 3, 4, -1, 2, 2, 0, -1])
