#!/usr/bin/env python3
"""Programs between JAX and Meshwork, both ways.

  exchange.py record [OUT]   programs of JAX as text with their arguments and results, for the tests of Meshwork
                             (default OUT: crates/meshwork/tests/data/exported)
  exchange.py run FOLDER     programs that Meshwork exported, run in JAX and compared:
                             MESHWORK_EXPORTS=FOLDER cargo test -p meshwork --test interchange exported

`record` writes NAME.mlir, as `jax.export` or `lower().as_text()` give it, and NAME.npy: the elements of all arguments
and all results, one after the other, as one list of f32. `run` reads NAME.mlir with NAME.in0.npy… and NAME.out0.npy….
Status is 0 if all agree.
"""
import math
import os
import pathlib
import re
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
import jax  # noqa: E402  (the number of devices is read at import)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import export, lax  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "crates" / "meshwork" / "tests" / "data" / "exported"


def normal(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [np.float32(0.5 * rng.standard_normal(shape)) for shape in shapes]


def classify(w1, b1, w2, x):
    """Private functions: JAX writes relu and log_softmax as functions that main calls."""
    hidden = jax.nn.relu(x @ w1 + b1)
    return jax.nn.log_softmax(hidden @ w2), jnp.argmax(hidden, axis=-1)


def recurrent(w, h, xs):
    """A loop, a sort and a branch."""
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, lax.cond(h.sum() > 0, jnp.sort, lambda v: -v, h)

    return lax.scan(step, h, xs)


def halo(mesh):
    """Heat with the exchange of neighbors written out, by shard_map."""
    def local(u):
        n = lax.axis_size("x")
        left = lax.ppermute(u[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        right = lax.ppermute(u[:1], "x", [(i, (i - 1) % n) for i in range(n)])
        wide = jnp.concatenate([left, u, right])
        return 0.5 * u + 0.25 * wide[:-2] + 0.25 * wide[2:], lax.psum(u.sum(), "x")

    return jax.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=(P("x"), P()))


def placed(mesh):
    """Shardings at the border and inside."""
    def f(x, w):
        y = lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P("x", "y")))
        return jnp.sin(y).sum(0)

    return f


def programs():
    """Name, text, arguments, results."""
    line = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    grid = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def exported(name, f, args):
        return name, export.export(f)(*args).mlir_module(), args, f(*args)

    def lowered(name, f, args):
        return name, f.lower(*args).as_text(), args, f(*args)

    yield exported("classify", jax.jit(classify), normal(1, (6, 8), (8,), (8, 4), (5, 6)))
    yield lowered("slope", jax.jit(jax.grad(lambda *a: classify(*a)[0][:, 0].sum())),
                  normal(1, (6, 8), (8,), (8, 4), (5, 6)))
    yield exported("recurrent", jax.jit(recurrent), normal(2, (4, 4), (4,), (5, 4)))
    yield exported("halo", jax.jit(halo(line), in_shardings=NamedSharding(line, P("x"))), normal(3, (24,)))
    places = (NamedSharding(grid, P("x")), NamedSharding(grid, P(None, "y")))
    yield lowered("placed", jax.jit(placed(grid), in_shardings=places, out_shardings=NamedSharding(grid, P("y"))),
                  normal(4, (4, 6), (6, 8)))


def record(out):
    out.mkdir(parents=True, exist_ok=True)
    for name, text, args, results in programs():
        # Locations name this file by its place in the repository.
        text = text.replace(f'"{HERE}/', '"bench/')
        (out / f"{name}.mlir").write_text(text)
        parts = [np.ravel(x).astype(np.float32) for x in [*args, *jax.tree.leaves(results)]]
        np.save(out / f"{name}.npy", np.concatenate(parts))
        print(f"{name}: {len(text)} bytes of text, {sum(map(len, parts))} numbers")


def run(folder):
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters.mlir import make_ir_context
    from jax._src.lib import _jax
    from jaxlib.mlir import ir

    backend, failures, programs = xla_bridge.get_backend("cpu"), 0, 0
    for path in sorted(folder.glob("*.mlir")):
        programs += 1
        text = path.read_text()
        numbered = lambda kind: [np.load(f) for f in sorted(  # noqa: E731
            folder.glob(f"{path.stem}.{kind}*.npy"), key=lambda f: int(re.findall(r"\d+", f.name)[-1]))]
        inputs, outputs = numbered("in"), numbered("out")
        try:
            with make_ir_context():
                module = ir.Module.parse(text)
                # Placements say how devices share the work, and one can do all of it; regions written for one device of
                # several need them.
                sizes = [int(n) for n in re.findall(r'"=(\d+)', re.search(r"sdy.mesh @mesh = <\[.*?\]>|$", text)[0])]
                count = math.prod(sizes) if "sdy.manual_computation" in text else 1
                devices = backend.local_devices()[:count]
                options = compiler.get_compile_options(1, count, np.arange(count).reshape(1, -1))
                options.executable_build_options.use_shardy_partitioner = True
                loaded = compiler.backend_compile_and_load(backend, module, _jax.DeviceList(tuple(devices)), options, [])
            everywhere = NamedSharding(jax.sharding.Mesh(np.array(devices), ("all",)), P())
            given = [jax.device_put(x, everywhere) for x in inputs]
            found = [np.asarray(r[0]) for r in loaded.execute_sharded(given).disassemble_into_single_device_arrays()]
            for i, (x, y) in enumerate(zip(found, outputs, strict=True)):
                np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5, err_msg=f"result {i}")
            print(f"ok    {path.stem}")
        except Exception as e:  # noqa: BLE001  (each program is reported)
            failures += 1
            print(f"WRONG {path.stem}: {str(e).strip().splitlines()[0]}")
    print(f"{programs - failures} of {programs} agree")
    return 1 if failures or not programs else 0


def main():
    match sys.argv[1:]:
        case ["record"]:
            record(DATA)
        case ["record", out]:
            record(pathlib.Path(out))
        case ["run", folder]:
            sys.exit(run(pathlib.Path(folder)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
