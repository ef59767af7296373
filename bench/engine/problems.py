"""The problems of the engine benchmark, as JAX programs: what is computed, on which inputs, split how.

A problem has variants (spellings of one computation), each a function of arrays. `build` gives, for a variant and a
mesh, the function, its inputs as numpy arrays, their shardings, and how to check a result.
"""
import dataclasses
import functools
import math
import pathlib
import sys
import typing

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import gpt  # noqa: E402


@dataclasses.dataclass
class Built:
    function: typing.Callable
    inputs: list  # numpy arrays, in the order of the flat arguments
    specs: list  # one tuple of axis names (or None) per dimension, per input
    out_specs: list  # the same per flat result
    axes: tuple  # names of the mesh axes
    check: int = 0  # which flat result is summed for the checksum


@dataclasses.dataclass
class Problem:
    name: str
    build: typing.Callable  # (variant, mesh shape) -> Built
    variants: list
    meshes: list
    c: list | None = None  # hand-written program: source, defines, extra arguments
    bytes: typing.Any = 0  # least memory traffic of a run, or (variant, mesh shape) -> that
    passes: int = 1  # how often a run goes over its data
    flops: float = 0
    loop: int = 1  # calls per timed run, for short ones; 0: as many as fit into a tenth of a second


def rng(seed=0):
    return np.random.default_rng(seed)


# Stencils -----------------------------------------------------------------------------------------------------------

HEAT1D = dict(n=10_000_000, steps=200)
HEAT2D = dict(n=4096, steps=100)
LIFE = dict(n=4096, steps=100)
# For spellings of which JAX takes a second a step on several devices.
SHORT = 10


def loop(step, steps):
    import jax
    return lambda x: jax.lax.fori_loop(0, steps, lambda _, x: step(x), x)


def heat1d_step(variant):
    import jax
    import jax.numpy as jnp

    def inside(x):
        return x[1:-1] + 0.25 * (x[2:] - 2 * x[1:-1] + x[:-2])

    def at(x):
        return x.at[1:-1].set(inside(x))

    def concatenate(x):
        return jnp.concatenate([x[:1], inside(x), x[-1:]])

    def pad(x):
        return x + jnp.pad(0.25 * (x[2:] - 2 * x[1:-1] + x[:-2]), 1)

    def roll(x):
        i = jnp.arange(x.shape[0])
        new = x + 0.25 * (jnp.roll(x, -1) - 2 * x + jnp.roll(x, 1))
        return jnp.where((i > 0) & (i < x.shape[0] - 1), new, x)

    def convolution(x):
        kernel = jnp.array([0.25, -0.5, 0.25], x.dtype)
        change = jax.lax.conv_general_dilated(x[None, None], kernel[None, None], (1,), "VALID")[0, 0]
        return x + jnp.pad(change, 1)

    return {"at": at, "concatenate": concatenate, "pad": pad, "roll": roll, "convolution": convolution}[variant]


def by_hand(step, steps):
    """A loop in which each device holds a block of rows of a ring and trades its outer ones with its neighbors."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    def local(x):
        count = jax.lax.axis_size("x")
        right = [(i, (i + 1) % count) for i in range(count)]

        def body(_, x):
            before = jax.lax.ppermute(x[-1:], "x", right)
            after = jax.lax.ppermute(x[:1], "x", [(j, i) for i, j in right])
            return step(jnp.concatenate([before, x, after]))

        return jax.lax.fori_loop(0, steps, body, x)

    def function(x):
        mesh = jax.sharding.get_abstract_mesh()
        return jax.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)

    return function


def ring1d(x):
    return x[1:-1] + 0.25 * (x[2:] - 2 * x[1:-1] + x[:-2])


def ring2d(x):
    import jax.numpy as jnp
    inner = x[1:-1]
    return inner + 0.2 * (x[:-2] + x[2:] + jnp.roll(inner, 1, 1) + jnp.roll(inner, -1, 1) - 4 * inner)


def heat1d(dtype, variant, mesh, steps=HEAT1D["steps"]):
    x = (rng().random(HEAT1D["n"]) * np.linspace(0, 1, HEAT1D["n"])).astype(dtype)
    function = by_hand(ring1d, steps) if variant == "by hand" else loop(heat1d_step(variant), steps)
    return Built(function, [x], [("x",)], [("x",)], ("x",))


def heat2d_step(variant):
    import jax
    import jax.numpy as jnp

    def change(x):
        return 0.2 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1])

    def at(x):
        return x.at[1:-1, 1:-1].set(x[1:-1, 1:-1] + change(x))

    def concatenate(x):
        middle = jnp.concatenate([x[1:-1, :1], x[1:-1, 1:-1] + change(x), x[1:-1, -1:]], 1)
        return jnp.concatenate([x[:1], middle, x[-1:]])

    def pad(x):
        return x + jnp.pad(change(x), 1)

    def roll(x):
        n = x.shape[0]
        i, j = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
        inner = (i > 0) & (i < n - 1) & (j > 0) & (j < n - 1)
        around = jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)
        return jnp.where(inner, x + 0.2 * (around - 4 * x), x)

    def convolution(x):
        kernel = jnp.array([[0, 0.2, 0], [0.2, -0.8, 0.2], [0, 0.2, 0]], x.dtype)
        moved = jax.lax.conv_general_dilated(x[None, None], kernel[None, None], (1, 1), "VALID")[0, 0]
        return x + jnp.pad(moved, 1)

    return {"at": at, "concatenate": concatenate, "pad": pad, "roll": roll, "convolution": convolution}[variant]


def heat2d(variant, mesh, steps=HEAT2D["steps"]):
    x = rng().random((HEAT2D["n"],) * 2, dtype=np.float32)
    axes = ("x",) if len(mesh) == 1 else ("x", "y")
    spec = ("x", None) if len(mesh) == 1 else ("x", "y")
    function = by_hand(ring2d, steps) if variant == "by hand" else loop(heat2d_step(variant), steps)
    return Built(function, [x], [spec], [spec], axes)


def life_step(variant):
    import jax.numpy as jnp

    def rule(x, around):
        return ((around == 3) | ((x == 1) & (around == 2))).astype(x.dtype)

    def roll(x):
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
        return rule(x, sum(jnp.roll(x, s, (0, 1)) for s in shifts))

    def separable(x):
        rows = jnp.roll(x, 1, 0) + x + jnp.roll(x, -1, 0)
        return rule(x, jnp.roll(rows, 1, 1) + rows + jnp.roll(rows, -1, 1) - x)

    def pad(x):
        n = x.shape[0]
        p = jnp.pad(x, 1, mode="wrap")
        return rule(x, sum(p[i:i + n, j:j + n] for i in range(3) for j in range(3) if (i, j) != (1, 1)))

    return {"roll": roll, "separable": separable, "pad": pad}[variant]


def life(variant, mesh):
    x = (rng().random((LIFE["n"],) * 2) < 0.3).astype(np.uint8)
    axes = ("x",) if len(mesh) == 1 else ("x", "y")
    spec = ("x", None) if len(mesh) == 1 else ("x", "y")
    return Built(loop(life_step(variant), LIFE["steps"]), [x], [spec], [spec], axes)


# One pass over memory -----------------------------------------------------------------------------------------------

ADD = 100_000_000
ROWS = (4096, 2048)
# Bytes read and written per element.
ROW_BYTES = {"softmax": 8, "layer norm": 8, "gelu chain": 8, "gelu gradient": 8, "softmax gradient": 8,
             "layer norm gradient": 8, "row sums": 4, "column sums": 4, "sum": 4, "exp": 8, "transpose": 8}


def add(variant, mesh):
    a, b = rng(1).random(ADD), rng(2).random(ADD)
    return Built(lambda a, b: a + b, [a, b], [("x",), ("x",)], [("x",)], ("x",))


def rows(variant, mesh):
    import jax
    import jax.numpy as jnp

    def layer_norm(x, scale, bias):
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + bias

    functions = {
        "softmax": lambda x, s, b: jax.nn.softmax(x),
        "layer norm": layer_norm,
        "gelu chain": lambda x, s, b: jax.nn.gelu(x * s + b) * 1.5 + x,
        "gelu gradient": lambda x, s, b: jax.vjp(jax.nn.gelu, x)[1](x * s + b)[0],
        "softmax gradient": lambda x, s, b: jax.vjp(jax.nn.softmax, x)[1](x * s + b)[0],
        "layer norm gradient": lambda x, s, b: jax.vjp(lambda x: layer_norm(x, s, b), x)[1](x)[0],
        "row sums": lambda x, s, b: x.sum(-1),
        "column sums": lambda x, s, b: x.sum(0),
        "sum": lambda x, s, b: x.sum(),
        "exp": lambda x, s, b: jnp.exp(x),
        "transpose": lambda x, s, b: x.T + 1,
    }
    x = rng().standard_normal(ROWS, dtype=np.float32)
    s, b = (rng(i).standard_normal(ROWS[1], dtype=np.float32) for i in (1, 2))
    return Built(functions[variant], [x, s, b], [("x", None), (None,), (None,)], None, ("x",))


# Products -----------------------------------------------------------------------------------------------------------

MATMULS = {
    "256": (256, 256, 256), "512": (512, 512, 512), "1024": (1024, 1024, 1024), "2048": (2048, 2048, 2048),
    "8x1024x1024": (8, 1024, 1024), "1x1024x1024": (1, 1024, 1024), "2048x3072x768": (2048, 3072, 768),
    "2048x256x4096": (2048, 256, 4096),
}


def matmul(variant, mesh):
    m, n, k = MATMULS[variant]
    a, b = rng(1).random((m, k), dtype=np.float32), rng(2).random((k, n), dtype=np.float32)
    return Built(lambda a, b: a @ b, [a, b], [("x", None), (None, None)], [("x", None)], ("x",))


# Training steps -----------------------------------------------------------------------------------------------------

def mlp(variant, mesh):
    import jax
    import jax.numpy as jnp
    sizes = [784, 1024, 1024, 10]

    def loss(params, x, y):
        for i, (w, b) in enumerate(params):
            x = x @ w + b
            x = jax.nn.relu(x) if i < 2 else x
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    def step(w0, b0, w1, b1, w2, b2, x, y):
        params = [(w0, b0), (w1, b1), (w2, b2)]
        value, grads = jax.value_and_grad(loss)(params, x, y)
        new = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        return (value, *jax.tree.leaves(new))

    r = rng()
    inputs, specs = [], []
    m = "model" if len(mesh) > 1 and mesh[1] > 1 else None
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        inputs += [(r.standard_normal((a, b)) / math.sqrt(a)).astype(np.float32), np.zeros(b, np.float32)]
        specs += [[(None, m), (m,)], [(m, None), (None,)], [(None, None), (None,)]][i]
    inputs += [r.standard_normal((512, 784)).astype(np.float32), r.integers(0, 10, 512, dtype=np.int32)]
    specs += [("data", None), ("data",)]
    return Built(step, inputs, specs, [()] + specs[:6], ("data", "model"))


GPT = gpt.Sizes(dim=256, heads=8, vocab=4096, length=256, batch=8)


def gpt_step(layers, variant, mesh):
    import jax
    step = gpt.step_of(layers, GPT)
    shapes = gpt.shapes(layers, GPT)
    r = rng()
    model = len(mesh) > 1 and mesh[1] > 1
    keep = lambda axes: tuple(a if a != "model" or model else None for a in axes)
    params = {k: (r.standard_normal(s) * 0.02).astype(np.float32) for k, (s, _) in shapes.items()}
    params = {k: v + 1 if k.endswith("scale") else v for k, v in params.items()}
    zeros = {k: np.zeros_like(v) for k, v in params.items()}
    tokens, targets = (r.integers(0, GPT.vocab, (GPT.batch, GPT.length), dtype=np.int32) for _ in range(2))
    spec = {k: keep(a) for k, (_, a) in shapes.items()}
    arguments = (params, zeros, dict(zeros), np.float32(0), tokens, targets)
    is_spec = lambda x: isinstance(x, tuple) and not (x and isinstance(x[0], dict))
    specs = jax.tree.leaves((spec, spec, spec, (), ("data", None), ("data", None)), is_leaf=is_spec)
    leaves, tree = jax.tree.flatten(arguments)
    function = lambda *flat: jax.tree.leaves(step(*jax.tree.unflatten(tree, flat)))
    return Built(function, [np.asarray(x) for x in leaves], specs, specs[:-2] + [()], ("data", "model"), check=-1)


# Collectives --------------------------------------------------------------------------------------------------------

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "permute", "all_to_all"]


def collective(bytes_per_device, variant, mesh):
    import jax
    from jax.sharding import PartitionSpec as P
    devices = mesh[0]
    count = max(bytes_per_device // 4 // devices, 1) * devices
    x = rng().random((devices, count), dtype=np.float32)

    def local(x):
        y = x[0]
        if variant == "all_reduce":
            y = jax.lax.psum(y, "x")
        elif variant == "all_gather":
            y = jax.lax.all_gather(y[: count // devices], "x", tiled=True)
        elif variant == "reduce_scatter":
            y = jax.lax.psum_scatter(y, "x", tiled=True)
        elif variant == "permute":
            y = jax.lax.ppermute(y, "x", [(i, (i + 1) % devices) for i in range(devices)])
        else:
            y = jax.lax.all_to_all(y.reshape(devices, -1), "x", 0, 0, tiled=True).reshape(-1)
        return y[None]

    def function(x):
        mesh = jax.sharding.get_abstract_mesh()
        return jax.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)

    return Built(function, [x], [("x", None)], [("x", None)], ("x",))


def collective_bytes(bytes_per_device, variant, mesh):
    """Bytes that must be read and written in one memory if results common to all devices are written once."""
    every = bytes_per_device * mesh[0]
    return {"all_reduce": every + bytes_per_device, "all_gather": 2 * bytes_per_device,
            "reduce_scatter": every + bytes_per_device, "permute": 2 * every, "all_to_all": 2 * every}[variant]


SPELLINGS = ["at", "concatenate", "pad", "roll", "convolution"]
LINE, GRID = [(1,), (2,), (4,), (8,)], [(2, 2), (2, 4)]
TRAIN = [(1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (2, 4)]
FLOAT, DOUBLE = ["-DT=float", "-ffast-math"], ["-DT=double", "-ffast-math"]
H1, H2, L = HEAT1D, HEAT2D, LIFE

PROBLEMS = [
    Problem("heat1d f32", functools.partial(heat1d, np.float32), SPELLINGS, LINE,
            ["heat1d.c", FLOAT, [H1["n"], H1["steps"]]], bytes=8 * H1["n"] * H1["steps"], passes=H1["steps"]),
    Problem("heat1d f64", functools.partial(heat1d, np.float64), SPELLINGS, LINE,
            ["heat1d.c", DOUBLE, [H1["n"], H1["steps"]]], bytes=16 * H1["n"] * H1["steps"], passes=H1["steps"]),
    Problem("heat1d ring", functools.partial(heat1d, np.float32), ["by hand"], LINE),
    Problem("heat2d ring", heat2d, ["by hand"], LINE),
    Problem("heat1d short", functools.partial(heat1d, np.float32, steps=SHORT), ["at"], LINE,
            ["heat1d.c", FLOAT, [H1["n"], SHORT]], bytes=8 * H1["n"] * SHORT, passes=SHORT),
    Problem("heat2d short", functools.partial(heat2d, steps=SHORT), ["at"], LINE + GRID,
            ["heat2d.c", FLOAT, [H2["n"], SHORT]], bytes=8 * H2["n"] ** 2 * SHORT, passes=SHORT),
    Problem("heat2d f32", heat2d, SPELLINGS, LINE + GRID,
            ["heat2d.c", FLOAT, [H2["n"], H2["steps"]]], bytes=8 * H2["n"] ** 2 * H2["steps"], passes=H2["steps"]),
    Problem("life u8", life, ["roll", "separable", "pad"], LINE + GRID,
            ["life.c", [], [L["n"], L["steps"]]], bytes=2 * L["n"] ** 2 * L["steps"], passes=L["steps"]),
    Problem("add f64", add, ["add"], LINE, ["add.c", [], [ADD]], bytes=24 * ADD),
    Problem("rows f32", rows, list(ROW_BYTES), [(1,)], loop=10,
            bytes=lambda variant, mesh: ROW_BYTES[variant] * ROWS[0] * ROWS[1]),
    Problem("matmul f32", matmul, list(MATMULS), [(1,)], loop=10),
    Problem("mlp step", mlp, ["step"], TRAIN, loop=3),
    Problem("gpt step", functools.partial(gpt_step, 4), ["step"], TRAIN),
    Problem("gpt compile", lambda layers, mesh: gpt_step(int(layers), "step", mesh), ["1", "2", "4", "8", "16", "32"],
            [(1, 1), (2, 4)]),
] + [
    Problem(f"collective {size}", functools.partial(collective, bytes_), COLLECTIVES, [(2,), (4,), (8,)],
            bytes=functools.partial(collective_bytes, bytes_) if bytes_ >= 1 << 24 else 0,
            loop=max(3, min(200, (1 << 22) // bytes_)))
    for size, bytes_ in [("1KB", 1 << 10), ("64KB", 1 << 16), ("1MB", 1 << 20), ("16MB", 1 << 24), ("64MB", 1 << 26)]
]
