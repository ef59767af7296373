#!/usr/bin/env python3
"""Tracing time compared with JAX: from a function to StableHLO text.

  trace.py [--layers 1,2,4,8,16,32] [--rounds 5] [--growth 100,1000] [--json FILE]

Two stacks of layers, the same in Rust (bench/rust/src/trace.rs) and here, for a mesh of 2 x 4:
  dense        a product and a ramp in each layer: what SwiftIR's published benchmark traces
  transformer  pre-norm attention and GELU blocks
JAX is timed as `jax.jit(f).lower(...).as_text()` with a new function each time, its own caches warm; Meshwork as
`jit(f).lower(...).text()` with a new `jit` each time. Mesh, shardings and shapes of the arguments are made before, for
both. Both take turns; medians over the rounds, in milliseconds that the thread spent on a processor. `placed` gives every
argument and result a sharding; `plain` has the mesh, but no shardings.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "target" / "release" / "meshwork-bench"
SWIFTIR = {1: 0.17, 2: 0.27, 4: 0.47, 8: 1.03, 16: 2.17, 32: 7.93}
BATCH, LENGTH, DIM, HEADS = 8, 128, 256, 8
BLOCK = {"scale1": (DIM,), "bias1": (DIM,), "wq": (DIM, HEADS, DIM // HEADS), "wk": (DIM, HEADS, DIM // HEADS),
         "wv": (DIM, HEADS, DIM // HEADS), "wo": (HEADS, DIM // HEADS, DIM), "scale2": (DIM,), "bias2": (DIM,),
         "up": (DIM, 4 * DIM), "up_bias": (4 * DIM,), "down": (4 * DIM, DIM), "down_bias": (DIM,)}
AXES = {"wq": (None, "model"), "wk": (None, "model"), "wv": (None, "model"), "wo": ("model",), "up": (None, "model"),
        "up_bias": ("model",), "down": ("model",)}


def programs():
    """Name -> (function, arguments for a number of layers)."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

    mesh = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def array(shape, *axes):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, PartitionSpec(*axes)))

    def norm(x):
        mean = x.mean(-1, keepdims=True)
        centered = x - mean
        return centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5)

    def block(p, x, mask):
        h = norm(x) * p["scale1"] + p["bias1"]
        q, k, v = (jnp.einsum("btd,dhk->bhtk", h, p[n]) for n in ("wq", "wk", "wv"))
        scores = jnp.einsum("bhtk,bhsk->bhts", q, k) * (1.0 / (DIM // HEADS) ** 0.5)
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        x = x + jnp.einsum("bhtk,hkd->btd", weights @ v, p["wo"])
        h = norm(x) * p["scale2"] + p["bias2"]
        h = jax.nn.gelu(h @ p["up"] + p["up_bias"], approximate=False)
        return x + h @ p["down"] + p["down_bias"]

    def transformer(x, blocks):
        mask = jnp.arange(LENGTH)[:, None] >= jnp.arange(LENGTH)
        for p in blocks:
            x = block(p, x, mask)
        return x

    def dense(x, weights):
        for w in weights[:-1]:
            x = jax.nn.relu(x @ w)
        return x @ weights[-1]

    def of_dense(layers):
        return array((32, DIM), "data"), [array((DIM, DIM), None, "model")] * layers

    def of_blocks(layers):
        weights = {n: array(shape, *AXES.get(n, ())) for n, shape in BLOCK.items()}
        return array((BATCH, LENGTH, DIM), "data"), [weights] * layers

    return {"dense": (dense, of_dense), "transformer": (transformer, of_blocks)}


def jax_round(function, arguments):
    """Milliseconds to trace, lower and print, and the number of operations."""
    import jax

    start = time.thread_time()
    # A new function, so that JAX does not find the trace in its cache.
    text = jax.jit(lambda *a: function(*a)).trace(*arguments).lower(lowering_platforms=("cpu",)).as_text()
    return (time.thread_time() - start) * 1e3, text.count("stablehlo.")


def own_round(program, layers, repeat):
    command = [TOOL, "trace", program, str(layers), "--repeat", str(repeat)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--layers", default="1,2,4,8,16,32")
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--growth", default="100,1000")
    args.add_argument("--json")
    args = args.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "meshwork-bench"], cwd=ROOT, check=True)
    rows = []
    for program, (function, arguments) in programs().items():
        print(f"{program}\n layers  operations  placed  plain  sharding       JAX          JAX/placed  SwiftIR/placed")
        for layers in map(int, args.layers.split(",")):
            given = arguments(layers)
            jax_round(function, given)
            theirs, ours = [], []
            for _ in range(args.rounds):
                ours.append(own_round(program, layers, 21))
                theirs.append(jax_round(function, given))
            placed, plain = (statistics.median(o[k] for o in ours) for k in ("placed_ms", "plain_ms"))
            jax_ms = statistics.median(t[0] for t in theirs)
            rows.append({"program": program, "layers": layers, "placed": placed, "plain": plain, "jax": jax_ms,
                         "operations": ours[0]["operations"], "jax_operations": theirs[0][1]})
            swift = SWIFTIR.get(layers, float("nan"))
            print(f"{layers:7} {ours[0]['operations']:11} {placed:7.4f} {plain:6.4f} {placed / plain - 1:8.1%}"
                  f"  {jax_ms:8.2f} ({theirs[0][1]} ops) {jax_ms / placed:9.0f}x {swift / placed:13.1f}x", flush=True)
        for layers in map(int, filter(None, args.growth.split(","))):
            own = own_round(program, layers, 11)
            rows.append({"program": program, "layers": layers, "placed": own["placed_ms"], "plain": own["plain_ms"]})
            print(f"{layers:7} {own['operations']:11} {own['placed_ms']:7.3f} {own['plain_ms']:6.3f}"
                  f"   {own['placed_ms'] / layers * 1e3:.2f} us a layer", flush=True)
    print("load", os.getloadavg())
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
