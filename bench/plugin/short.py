#!/usr/bin/env python3
"""Short JAX programs on one backend, one command a line on standard input, one line of JSON per answer.

  names               what there is to call
  call NAME COUNT     calls a compiled function COUNT times: seconds per call
  first NAME          traces, compiles and runs a function that is new to JAX: seconds, and the sum of its first result

The words are separated by tabs. Arguments: the platform, and the number of devices.
"""
import os
import pathlib
import sys
import time

PLATFORM, DEVICES = sys.argv[1], sys.argv[2]
os.environ["JAX_PLATFORMS"] = PLATFORM
os.environ["MESHWORK_DEVICES"] = DEVICES
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / d) for d in (".", "engine")]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P  # noqa: E402

import gpt  # noqa: E402
from peer import serve  # noqa: E402


def mesh():
    return jax.make_mesh((jax.device_count(),), ("x",), axis_types=(AxisType.Auto,))


def placed(x):
    """`x` split over all devices; on the only one as JAX puts it there."""
    return jax.device_put(x, NamedSharding(mesh(), P("x"))) if jax.device_count() > 1 else jnp.asarray(x)


# Calls: each is a function that is called many times, and waited for at the end.

def jitted(f, *args):
    g = jax.jit(f)
    return lambda: g(*args)


def waited(f, *args):
    g = jax.jit(f)
    return lambda: g(*args).block_until_ready()


def chain():
    """Each call takes the result of the one before."""
    g, state = jax.jit(lambda x: x * 0.5 + 1), [placed(np.ones(16, np.float32))]

    def call():
        state[0] = g(state[0])
        return state[0]

    return call


def training():
    """A hundred small parameters, donated and given back."""
    params = [placed(np.ones(16, np.float32)) for _ in range(100)]
    g = jax.jit(lambda ps: [p * 0.9 for p in ps], donate_argnums=0)
    state = [params]

    def call():
        state[0] = g(state[0])
        return state[0]

    return call


def eager():
    x = jnp.arange(10.0)
    return lambda: jnp.sum(jnp.where(x > 3, jnp.sin(x) * 2 + x, x.reshape(2, 5).T.ravel()[::-1]))


def index():
    x = jnp.arange(10.0)
    return lambda: x[3]


def scalar():
    x = jnp.arange(10.0)
    return lambda: float(x.sum())


def put(n):
    x = np.ones(n, np.float32)
    return lambda: jax.device_put(x)


def get(n):
    """A new array each time: JAX keeps what it has once read."""
    g, x = jax.jit(lambda x: x + 1), jnp.ones(n, jnp.float32)
    return lambda: np.asarray(g(x))


def round_trip(n):
    x = np.ones(n, np.float32)
    return lambda: np.asarray(jax.device_put(x))


def random():
    key = jax.random.key(0)
    return lambda: jax.random.normal(jax.random.split(key)[0], (8,))


CALLS = {
    "x + 1, 10 elements": lambda: jitted(lambda x: x + 1, placed(np.ones(16, np.float32))),
    "the same, waiting each time": lambda: waited(lambda x: x + 1, placed(np.ones(16, np.float32))),
    "x + 1, results handed on": chain,
    "100 donated parameters": training,
    "eager jnp, 9 operations": eager,
    "x[3], eager": index,
    "float(x.sum()), eager": scalar,
    "random.split, random.normal": random,
    "device_put, 10 elements": lambda: put(10),
    "device_put, 4 MB": lambda: put(1 << 20),
    "np.asarray of a result, 10 elements": lambda: get(10),
    "np.asarray of a result, 4 MB": lambda: get(1 << 20),
    "device_put and np.asarray, 10 elements": lambda: round_trip(10),
    "device_put and np.asarray, 4 MB": lambda: round_trip(1 << 20),
}


# First calls: each makes a function that JAX has not seen, with its arguments.

def new_add():
    return lambda x: x + 1, [placed(np.ones(16, np.float32))]


def new_loss():
    def loss(w, x):
        return jnp.mean((jax.nn.softmax(jnp.tanh(x @ w) @ w.T) - x) ** 2)

    return jax.grad(loss), [jnp.ones((16, 32)), placed(np.ones((16, 16), np.float32))]


def new_scan():
    def f(x):
        return jax.lax.scan(lambda c, r: (jnp.tanh(c + r), c.sum()), x[0], x)

    return f, [placed(np.ones((64, 64), np.float32))]


def new_stencil():
    def f(x):
        step = lambda _, x: x + 0.25 * (jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1))
        return jax.lax.fori_loop(0, 10, step, x)

    return f, [placed(np.ones(1024, np.float32))]


def new_gpt(layers):
    sizes = gpt.Sizes(dim=64, heads=8, vocab=256, length=32, batch=8)
    shapes = gpt.shapes(layers, sizes)
    r = np.random.default_rng(0)
    params = {k: (r.standard_normal(s) * 0.02).astype(np.float32) for k, (s, _) in shapes.items()}
    zeros = {k: np.zeros_like(v) for k, v in params.items()}
    tokens = r.integers(0, sizes.vocab, (sizes.batch, sizes.length), dtype=np.int32)
    step = gpt.step_of(layers, sizes)
    place = jax.device_put if jax.device_count() == 1 else lambda t: jax.device_put(t, NamedSharding(mesh(), P()))
    f = lambda *a: step(*a)[::-1]  # noqa: E731
    return f, [*place((params, zeros, dict(zeros), np.float32(0))), placed(tokens), placed(tokens)]


FIRST = {
    "x + 1": new_add,
    "gradient of a small loss": new_loss,
    "scan": new_scan,
    "stencil": new_stencil,
    "GPT step, 2 layers": lambda: new_gpt(2),
    "GPT step, 8 layers": lambda: new_gpt(8),
}


class Peer:
    def __init__(self):
        self.calls = {}

    def names(self):
        return {"calls": list(CALLS), "first": list(FIRST)}

    def call(self, name, count):
        if name not in self.calls:
            self.calls[name] = CALLS[name]()
            [self.calls[name]() for _ in range(3)]
        f, count = self.calls[name], int(count)
        start = time.perf_counter()
        for _ in range(count):
            last = f()
        jax.block_until_ready(last)
        return {"seconds": (time.perf_counter() - start) / count}

    def first(self, name):
        f, args = FIRST[name]()
        jax.block_until_ready(args)
        start = time.perf_counter()
        result = jax.block_until_ready(jax.jit(f)(*args))
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "sum": float(np.asarray(jax.tree.leaves(result)[0], np.float64).sum())}


if __name__ == "__main__":
    serve(Peer())
