"""What goes wrong is a Python exception with Meshwork's message; the interpreter goes on."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def test_a_program_that_needs_too_much_memory():
    with pytest.raises(Exception, match="memory|bytes"):
        jax.jit(lambda: jnp.ones((1 << 24, 1 << 24)) * 2)().block_until_ready()
    assert float(jnp.ones(3).sum()) == 3


@pytest.fixture(scope="module")
def strange():
    """A function with a custom call that nobody knows."""
    from jax._src import core
    from jax._src.interpreters import mlir

    strange_p = core.Primitive("strange")
    strange_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(
        strange_p,
        lambda ctx, x: mlir.custom_call("no_such_call", result_types=[x.type], operands=[x]).results,
    )

    def strange(x):
        return strange_p.bind(x)

    return strange


def test_an_unknown_custom_call_names_itself(strange):
    line = strange.__code__.co_firstlineno + 1
    with pytest.raises(Exception, match=rf"no_such_call(.|\n)*test_errors.py:{line}|test_errors.py:{line}(.|\n)*no_such_call"):
        jax.jit(strange)(jnp.ones(3)).block_until_ready()
    assert float(jnp.ones(3).sum()) == 3


def test_a_result_that_failed_fails_what_is_made_of_it(strange):
    y = jax.jit(strange)(jnp.ones(4))
    with pytest.raises(Exception, match="no_such_call"):
        jax.block_until_ready(jax.jit(lambda y: y @ y)(y))
    with pytest.raises(Exception, match="no_such_call"):
        np.asarray(y)


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
        f(1.0)
    assert float(jnp.float32(2) + 1) == 3


def child(code, **variables):
    """What a new interpreter with Meshwork prints, which must end by itself."""
    env = {**os.environ, "JAX_PLATFORMS": "meshwork", **variables}
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_memory_that_the_process_may_not_have():
    code = """
    import resource
    import jax, jax.numpy as jnp, numpy as np
    f = jax.jit(lambda x: (x @ x.T).sum())
    f(jnp.ones((8, 8))).block_until_ready()  # everything is loaded, threads run
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
    def refused(f):
        try:
            jax.block_until_ready(f())
        except Exception as e:
            assert "memory" in str(e).lower() or "bytes" in str(e), e
            return "refused"
        return "ran"
    big = np.broadcast_to(np.float32(1), (1 << 28,))
    print(refused(lambda: jnp.ones((1 << 28,))))                             # a result
    print(refused(lambda: jax.device_put(big)))                              # an argument
    print(refused(lambda: f(jnp.ones((1 << 14, 4)))))                        # what lies between
    print(refused(lambda: jnp.ones((1 << 14,)) + 1))                         # what fits still runs
    """
    assert child(code) == ["refused", "refused", "refused", "ran"]


def test_a_process_that_can_start_no_thread():
    code = """
    import resource
    import jax, jax.numpy as jnp
    f = jax.jit(lambda x: x @ x)
    compiled = f.lower(jnp.ones((256, 256))).compile()
    x = jnp.ones((256, 256))
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (6 << 20),) * 2)  # less than a stack
    print(float(compiled(x)[0, 0]))
    """
    assert child(code) == ["256.0"]


def test_unknown_compiler_options_are_refused():
    with pytest.raises(Exception, match="No such compile option: 'fast'"):
        jax.jit(lambda x: x + 1, compiler_options={"fast": True})(1.0)
    assert jax.jit(lambda x: x + 1, compiler_options={"xla_embed_ir_in_executable": True})(1.0) == 2


def test_a_call_that_the_plugin_does_not_have_says_so():
    from jax.experimental import topologies

    with pytest.raises(Exception, match="Meshwork does not implement the PJRT call"):
        topologies.get_topology_desc("somewhere", "meshwork")
    assert float(jnp.ones(3).sum()) == 3
