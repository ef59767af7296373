"""Bytecode that JAX writes reads here as it reads with jaxlib, locations included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from jax_meshwork.library import Error, tool

X = jax.ShapeDtypeStruct((8, 4), "float32")
KEY = jax.ShapeDtypeStruct((2,), "uint32")


def mesh():
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def sharded(x):
    return lax.with_sharding_constraint(jnp.tanh(x) @ x.T, NamedSharding(mesh(), P("x", "y")))


def manual(x):
    def body(x):
        return lax.psum(x, "x"), lax.all_gather(x, "y"), lax.ppermute(x, "x", [(0, 1), (1, 0)])

    return jax.shard_map(body, mesh=mesh(), in_specs=P("x", "y"), out_specs=P(), check_vma=False)(x)


PROGRAMS = {
    "elementwise": (lambda x: jnp.exp(x) + jax.nn.gelu(x) - (x > 0), X),
    "indexing": (lambda x: x.at[jnp.array([1, 2])].add(x[::4, ::-1]), X),
    "loops": (lambda x: lax.scan(lambda c, r: (c + r.sum(), c * r), 0.0, x), X),
    "branches": (lambda x: lax.switch(x[0, 0].astype(int), [jnp.sin, jnp.cos, lambda x: x * 2], x), X),
    "gradient": (jax.grad(lambda x: jax.nn.softmax(x @ x.T).sum()), X),
    "sort": (lambda x: (jnp.sort(x, axis=0), lax.top_k(x, 2)), X),
    "random": (lambda key: jax.random.normal(key, (3, 5)), KEY),
    "window": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 1), "SAME"), X),
    "precision": (lambda x: lax.dot(x, x.T, precision="highest"), X),
    "fft": (lambda x: jnp.fft.rfft(x), X),
    "constants": (lambda x: (jnp.array([True, False]), jnp.array([-3, 4], "int4"), jnp.array([1.5], "bfloat16")), X),
    "sharded": (sharded, X),
    "manual": (manual, X),
}


def jaxlib_text(data):
    with mlir.make_ir_context():
        module = _jax.mlir.deserialize_portable_artifact(data)
        module = ir.Module.parse(module) if isinstance(module, (bytes, str)) else module
        return module.operation.get_asm(enable_debug_info=True).encode()


def agree(data):
    ours, theirs = (tool("text", program, locations=True) for program in (data, jaxlib_text(data)))
    assert ours == theirs


@pytest.mark.parametrize("version", ["1.0.0", "1.8.0", stablehlo.get_current_version()])
@pytest.mark.parametrize("name", PROGRAMS)
def test_reads_as_jaxlib_does(name, version):
    function, argument = PROGRAMS[name]
    lowered = jax.jit(function).lower(argument).compiler_ir("stablehlo")
    agree(_jax.mlir.serialize_portable_artifact(lowered, version, True))


def test_symbolic_shapes():
    (n,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(lambda x: x.reshape(-1).sum()))(jax.ShapeDtypeStruct((n, 3), "float32"))
    agree(exported.mlir_module_serialized)


def test_places_are_those_of_the_user():
    def loss(x):
        return jnp.tanh(x).sum()

    lowered = jax.jit(loss).lower(np.zeros((2,), "float32")).compiler_ir("stablehlo")
    data = _jax.mlir.serialize_portable_artifact(lowered, "1.8.0", True)
    line = loss.__code__.co_firstlineno + 1
    assert f"test_bytecode.py\":{line}:" in tool("text", data, locations=True)


def test_damaged_bytes_are_an_error():
    lowered = jax.jit(jnp.sin).lower(X).compiler_ir("stablehlo")
    data = _jax.mlir.serialize_portable_artifact(lowered, "1.8.0", True)
    with pytest.raises(Error, match="MLIR bytecode, byte"):
        tool("text", data[: len(data) // 2])
