#!/usr/bin/env python3
"""Writes a training step of a Llama 3 model as StableHLO text with sdy annotations.

  llama.py [--size 405B] [--tokens 16777216] [--length 8192] [--mesh 2048x8] [--sequence] [--keep] [--out target/bench/programs]

A step is the forward pass (embedding, layers in a loop, each recomputed in the backward pass, and a vocabulary product),
mean cross-entropy, its gradient, and Adam. Layers have grouped-query attention with rotary positions and a gated product.
Parameters and Adam's moments are in f32 and split over both axes: rows over "data", columns (or the other way round) over
"model". Products are in bf16. The batch is split over "data"; with --sequence, what goes from layer to layer is split over
"model" along the sequence as well. With --keep nothing is recomputed. Nothing is run: JAX traces and lowers only.
"""
import argparse
import os
import pathlib
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Sizes(typing.NamedTuple):
    layers: int
    dim: int
    hidden: int
    heads: int
    pairs: int  # key and value heads
    vocab: int


SIZES = {
    "8B": Sizes(32, 4096, 14336, 32, 8, 128256),
    "70B": Sizes(80, 8192, 28672, 64, 8, 128256),
    "405B": Sizes(126, 16384, 53248, 128, 8, 128256),
}


def shapes(s):
    """Name -> (shape, axes per dimension) of every parameter; those of layers are stacked."""
    d, m, k = "data", "model", s.dim // s.heads
    return {
        "embed": ((s.vocab, s.dim), (m, d)),
        "norm": ((s.dim,), (None,)),
        "head": ((s.dim, s.vocab), (d, m)),
        "norm1": ((s.layers, s.dim), (None, None)),
        "norm2": ((s.layers, s.dim), (None, None)),
        "q": ((s.layers, s.dim, s.heads, k), (None, d, m, None)),
        "k": ((s.layers, s.dim, s.pairs, k), (None, d, m, None)),
        "v": ((s.layers, s.dim, s.pairs, k), (None, d, m, None)),
        "o": ((s.layers, s.heads, k, s.dim), (None, m, None, d)),
        "gate": ((s.layers, s.dim, s.hidden), (None, d, m)),
        "up": ((s.layers, s.dim, s.hidden), (None, d, m)),
        "down": ((s.layers, s.hidden, s.dim), (None, m, d)),
    }


def parameters(s):
    total = 0
    for shape, _ in shapes(s).values():
        count = 1
        for n in shape:
            count *= n
        total += count
    return total


def step_of(s, length, between, keep):
    import jax
    import jax.numpy as jnp
    k, group = s.dim // s.heads, s.heads // s.pairs

    def norm(x, scale):
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * scale).astype(jnp.bfloat16)

    def turned(x):
        angle = jnp.arange(length)[:, None] * 500000.0 ** (-jnp.arange(0, k, 2) / k)
        cos, sin = (f(angle)[None, :, None, :].astype(jnp.bfloat16) for f in (jnp.cos, jnp.sin))
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)

    def layer(x, w):
        w = {name: v if "norm" in name else v.astype(jnp.bfloat16) for name, v in w.items()}
        h = norm(x, w["norm1"])
        q, key, v = (jnp.einsum("btd,dhk->bthk", h, w[n]) for n in ("q", "k", "v"))
        q, key = turned(q).reshape(x.shape[0], length, s.pairs, group, k), turned(key)
        scores = jnp.einsum("btpgk,bspk->bpgts", q, key).astype(jnp.float32) / k ** 0.5
        past = jnp.arange(length)[:, None] >= jnp.arange(length)[None, :]
        weights = jax.nn.softmax(jnp.where(past, scores, -1e30), axis=-1).astype(jnp.bfloat16)
        seen = jnp.einsum("bpgts,bspk->btpgk", weights, v).reshape(x.shape[0], length, s.heads, k)
        x = between(x + jnp.einsum("bthk,hkd->btd", seen, w["o"]))
        h = norm(x, w["norm2"])
        return between(x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]), None

    def loss(p, tokens, targets):
        x = p["embed"].astype(jnp.bfloat16)[tokens]
        stacked = {n: v for n, v in p.items() if n not in ("embed", "norm", "head")}
        x, _ = jax.lax.scan(layer if keep else jax.checkpoint(layer), between(x), stacked)
        logits = (norm(x, p["norm"]) @ p["head"].astype(jnp.bfloat16)).astype(jnp.float32)
        logp = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(logp, targets[..., None], axis=-1).mean()

    def step(p, m, v, tokens, targets):
        value, g = jax.value_and_grad(loss)(p, tokens, targets)
        m = {n: 0.9 * m[n] + 0.1 * g[n] for n in p}
        v = {n: 0.95 * v[n] + 0.05 * g[n] * g[n] for n in p}
        return value, {n: p[n] - 8e-5 * m[n] / (jnp.sqrt(v[n]) + 1e-8) for n in p}, m, v

    return step


def lower(s, tokens, length, mesh_shape, sequence, keep):
    import jax
    import jax.numpy as jnp
    from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec as P
    mesh = AbstractMesh(mesh_shape, ("data", "model"))
    table = shapes(s)
    place = {n: NamedSharding(mesh, P(*axes)) for n, (_, axes) in table.items()}
    state = {n: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=place[n]) for n, (shape, _) in table.items()}
    batch = jax.ShapeDtypeStruct((tokens // length, length), jnp.int32, sharding=NamedSharding(mesh, P("data", None)))
    spread = NamedSharding(mesh, P("data", "model", None))
    between = (lambda x: jax.lax.with_sharding_constraint(x, spread)) if sequence else (lambda x: x)
    step = jax.jit(step_of(s, length, between, keep), out_shardings=(None, place, place, place), donate_argnums=(0, 1, 2))
    return step.trace(state, state, state, batch, batch).lower(lowering_platforms=("cpu",)).as_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="405B", choices=SIZES)
    parser.add_argument("--tokens", type=int, default=1 << 24)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--mesh", default="2048x8")
    parser.add_argument("--sequence", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--out", default=str(ROOT / "target/bench/programs"))
    args = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    size = SIZES[args.size]
    mesh = tuple(int(n) for n in args.mesh.split("x"))
    text = lower(size, args.tokens, args.length, mesh, args.sequence, args.keep)
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    variant = ("_sequence" if args.sequence else "") + ("_keep" if args.keep else "")
    path = out / f"llama_{args.size}{variant}.mlir"
    path.write_text(text)
    print(f"{path}: {parameters(size) / 1e9:.1f} billion parameters, {args.tokens} tokens a step")


if __name__ == "__main__":
    main()
