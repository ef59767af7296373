"""What goes wrong is a Python exception with Meshwork's message; the interpreter goes on."""

import subprocess
import sys
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def test_a_program_that_needs_too_much_memory():
    with pytest.raises(Exception, match="memory|bytes"):
        jax.jit(lambda: jnp.ones((1 << 24, 1 << 24)) * 2)().block_until_ready()
    assert float(jnp.ones(3).sum()) == 3


def test_an_unknown_custom_call_names_itself():
    from jax._src.interpreters import mlir
    from jax._src import core

    strange_p = core.Primitive("strange")
    strange_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(
        strange_p,
        lambda ctx, x: mlir.custom_call("no_such_call", result_types=[x.type], operands=[x]).results,
    )
    with pytest.raises(Exception, match="no_such_call"):
        jax.jit(lambda x: strange_p.bind(x))(jnp.ones(3)).block_until_ready()
    assert float(jnp.ones(3).sum()) == 3


def test_a_wrong_option_is_said_at_the_start():
    code = "import jax; jax.devices()"
    env = {**os.environ, "MESHWORK_DEVICES": "many", "JAX_PLATFORMS": "meshwork"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert run.returncode != 0 and "option devices" in run.stderr


def test_a_failing_callback_is_an_exception_and_the_next_run_works():
    def fail(x):
        raise ValueError("not today")

    f = jax.jit(lambda x: jax.pure_callback(fail, jax.ShapeDtypeStruct((), "float32"), x))
    with pytest.raises(Exception, match="not today"):
        f(1.0).block_until_ready()
    assert float(jnp.float32(2) + 1) == 3
