#!/usr/bin/env python3
"""Writes GPT-style training steps as StableHLO text with sdy annotations.

  gpt.py [--layers 1,2,4,8,16,32] [--mesh 2x4] [--wide] [--locations] [--out target/bench/programs]

A step is the forward pass (token and position embedding, pre-norm attention and GELU blocks, unrolled, and a
vocabulary product), mean cross-entropy, its gradient, and Adam. Parameters and Adam's moments are split over "model",
the batch over "data". With --wide every split extent is a multiple of 256, for large meshes. With --locations operations
have the lines of this file. Nothing is run: JAX traces and lowers only. A file that exists already is kept.
"""
import argparse
import os
import pathlib
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Sizes(typing.NamedTuple):
    dim: int
    heads: int
    vocab: int
    length: int
    batch: int


USUAL = Sizes(dim=256, heads=8, vocab=1024, length=128, batch=16)
WIDE = Sizes(dim=8192, heads=256, vocab=65536, length=128, batch=256)


def shapes(layers, sizes):
    """Name -> (shape, axes per dimension) of every parameter."""
    m = "model"
    dim, heads, vocab, length, _ = sizes
    out = {"embed": ((vocab, dim), (m, None)), "position": ((length, dim), (None, None)),
           "norm.scale": ((dim,), (None,)), "norm.bias": ((dim,), (None,)), "head": ((dim, vocab), (None, m))}
    for i in range(layers):
        for norm in ("norm1", "norm2"):
            out[f"{i}.{norm}.scale"] = ((dim,), (None,))
            out[f"{i}.{norm}.bias"] = ((dim,), (None,))
        for name in "qkv":
            out[f"{i}.{name}"] = ((dim, heads, dim // heads), (None, m, None))
        out[f"{i}.o"] = ((heads, dim // heads, dim), (m, None, None))
        out[f"{i}.up"] = ((dim, 4 * dim), (None, m))
        out[f"{i}.up.bias"] = ((4 * dim,), (m,))
        out[f"{i}.down"] = ((4 * dim, dim), (m, None))
        out[f"{i}.down.bias"] = ((dim,), (None,))
    return out


def step_of(layers, sizes):
    import jax
    import jax.numpy as jnp
    dim, heads, _, length, _ = sizes

    def norm(x, scale, bias):
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + bias

    def block(p, i, x):
        h = norm(x, p[f"{i}.norm1.scale"], p[f"{i}.norm1.bias"])
        q, k, v = (jnp.einsum("btd,dhk->bhtk", h, p[f"{i}.{n}"]) for n in "qkv")
        scores = jnp.einsum("bhtk,bhsk->bhts", q, k) / (dim // heads) ** 0.5
        mask = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        x = x + jnp.einsum("bhts,bhsk,hkd->btd", weights, v, p[f"{i}.o"])
        h = norm(x, p[f"{i}.norm2.scale"], p[f"{i}.norm2.bias"])
        h = jax.nn.gelu(h @ p[f"{i}.up"] + p[f"{i}.up.bias"])
        return x + h @ p[f"{i}.down"] + p[f"{i}.down.bias"]

    def loss(p, tokens, targets):
        x = p["embed"][tokens] + p["position"]
        for i in range(layers):
            x = block(p, i, x)
        logits = norm(x, p["norm.scale"], p["norm.bias"]) @ p["head"]
        logp = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(logp, targets[..., None], axis=-1).mean()

    def step(p, m, v, count, tokens, targets):
        value, g = jax.value_and_grad(loss)(p, tokens, targets)
        count = count + 1
        m = {n: 0.9 * m[n] + 0.1 * g[n] for n in p}
        v = {n: 0.999 * v[n] + 0.001 * g[n] ** 2 for n in p}
        fix1, fix2 = 1 - 0.9 ** count, 1 - 0.999 ** count
        p = {n: p[n] - 1e-3 * (m[n] / fix1) / (jnp.sqrt(v[n] / fix2) + 1e-8) for n in p}
        return p, m, v, count, value

    return step


def lower(layers, mesh_shape, sizes, locations=False):
    """The text of one training step."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

    mesh = AbstractMesh(mesh_shape, ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    place = lambda *axes: NamedSharding(mesh, PartitionSpec(*axes))  # noqa: E731
    array = lambda shape, axes, dtype=jnp.float32: jax.ShapeDtypeStruct(shape, dtype, sharding=place(*axes))  # noqa: E731
    state = {n: array(shape, axes) for n, (shape, axes) in shapes(layers, sizes).items()}
    batch = array((sizes.batch, sizes.length), ("data", None), jnp.int32)
    count = array((), (), jnp.float32)
    kept = {n: s.sharding for n, s in state.items()}
    step = jax.jit(step_of(layers, sizes), out_shardings=(kept, kept, kept, place(), place()))
    traced = step.trace(state, state, state, count, batch, batch)
    return traced.lower(lowering_platforms=("cpu",)).as_text(debug_info=locations)


def write(layers, mesh_shape, out, wide=False, locations=False):
    """Writes the program unless it is there, and returns its path."""
    path = pathlib.Path(out) / f"gpt_{layers}{'_wide' if wide else ''}{'_located' if locations else ''}.mlir"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lower(layers, mesh_shape, WIDE if wide else USUAL, locations))
    return path


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--layers", default="1,2,4,8,16,32")
    args.add_argument("--mesh", default="2x4")
    args.add_argument("--wide", action="store_true")
    args.add_argument("--locations", action="store_true")
    args.add_argument("--out", default=ROOT / "target" / "bench" / "programs")
    args = args.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    for layers in map(int, args.layers.split(",")):
        path = write(layers, tuple(map(int, args.mesh.split("x"))), args.out, args.wide, args.locations)
        lines = path.read_text().count("stablehlo.")
        print(f"{path}  {path.stat().st_size} bytes, about {lines} operations")


if __name__ == "__main__":
    main()
