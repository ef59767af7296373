"""Families of programs, a file each: short JAX programs of one kind, with inputs and how they are split over devices.

`@problem(family, name, inputs...)` adds a function. An input is a shape (normal f32), an array, or a function of a numpy
generator. `split` names, per input, the dimension that is split over the devices, or None; without it, the first
dimension of the first input is split.
"""
import numpy as np

from problems import Built, Problem

BUILT = {}


def problem(family, name, *inputs, split=(0,), check=0):
    def add(function):
        BUILT.setdefault(family, {})[name] = (function, inputs, split, check)
        return function
    return add


def build(family, variant, mesh):
    function, inputs, split, check = BUILT[family][variant]
    r = np.random.default_rng(0)
    arrays = [made(x, r) for x in inputs]
    cut = list(split) + [None] * (len(arrays) - len(split))
    specs = [tuple("x" if d == axis else None for d in range(a.ndim)) for a, axis in zip(arrays, cut)]
    return Built(function, arrays, specs, None, ("x",), check)


def made(x, r):
    if callable(x):
        return np.asarray(x(r))
    return x if isinstance(x, np.ndarray) else r.standard_normal(x, dtype=np.float32)


def repeat(n, f, x):
    """`f` applied `n` times in a loop."""
    import jax
    return jax.lax.fori_loop(0, n, lambda _, x: f(x), x)


def ints(high, *shape, dtype=np.int32, low=0):
    return lambda r: r.integers(low, high, shape, dtype=dtype)


def uniform(*shape, dtype=np.float32):
    return lambda r: r.random(shape).astype(dtype)


def families():
    """All families as problems on 1 and 8 devices."""
    from . import (algebra, bits, complexes, control, graphs, indexed, layers, loops, models, networks, products,  # noqa: F401
                   recurrences, sampling, science, signals, statistics, sweeps, tensors, transforms, turns)

    def of(family):
        return Problem(family, lambda variant, mesh: build(family, variant, mesh), list(BUILT[family]), [(1,), (8,)], loop=0)
    return [of(family) for family in BUILT]
