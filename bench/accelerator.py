#!/usr/bin/env python3
"""A GPT training step on an accelerator: Meshwork through the plugin's library, and JAX's jit, on the same device in turns.

    cargo build --release -p meshwork --example train_gpt
    python accelerator.py [--engine pjrt:cuda] [--sizes tiny small gpt2] [--rounds 3] [--dtypes bf16 f32]

Both train the same model (examples/train_gpt.rs) by Adam with f32 master weights, state donated, the loss read every ten
steps.  Each turn is a process of its own; the time of a step is the mean of its last ten.  Prints the medians, their ratio
(JAX's time over ours) and the losses after the same steps, whose starts differ (each draws its own weights).
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

SIZES = {
    "tiny": dict(vocabulary=256, length=32, dim=32, heads=2, layers=2, batch=8),
    "small": dict(vocabulary=256, length=256, dim=256, heads=4, layers=6, batch=16),
    "gpt2": dict(vocabulary=50304, length=1024, dim=768, heads=12, layers=12, batch=8),
}
HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = os.path.join(HERE, "..", "crates", "meshwork", "examples", "gpt.txt")


def jax_turn(size, dtype, steps):
    """Trains in this process; prints a line of JSON."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    s = SIZES[size]
    compute = {"bf16": jnp.bfloat16, "f32": jnp.float32}[dtype]
    vocabulary, length, dim, heads, layers = (s[k] for k in ("vocabulary", "length", "dim", "heads", "layers"))

    def norm(x):
        wide = x.astype(jnp.float32)
        wide = wide - wide.mean(-1, keepdims=True)
        return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)

    def block(p, x):
        rows = x.shape[0]
        qkv = (norm(x) @ p["qkv"]).reshape(rows, length, 3, heads, dim // heads)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        scores = jnp.einsum("bthk,bshk->bhts", q, k).astype(jnp.float32) / (dim // heads) ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        weights = jax.nn.softmax(scores, -1).astype(x.dtype)
        x = x + jnp.einsum("bhts,bshk->bthk", weights, v).reshape(rows, length, dim) @ p["out"]
        return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]

    def loss(p, tokens, following):
        p = jax.tree.map(lambda w: w.astype(compute), p)
        x = p["embed"][tokens] + p["position"]
        for b in p["blocks"]:
            x = block(b, x)
        logp = jax.nn.log_softmax(jnp.einsum("btd,vd->btv", norm(x), p["embed"]).astype(jnp.float32), -1)
        return -jnp.take_along_axis(logp, following[..., None], -1).mean()

    def init(key):
        keys = iter(jax.random.split(key, 2 + 4 * layers))
        normal = lambda shape, scale: jax.random.normal(next(keys), shape, jnp.float32) * scale
        out = 0.02 / (2 * layers) ** 0.5
        blocks = [
            dict(qkv=normal((dim, 3 * dim), 0.02), out=normal((dim, dim), out), up=normal((dim, 4 * dim), 0.02), down=normal((4 * dim, dim), out))
            for _ in range(layers)
        ]
        return dict(embed=normal((vocabulary, dim), 0.02), position=normal((length, dim), 0.02), blocks=blocks)

    def step(state, tokens, following):
        p, m, v, count = state
        value, g = jax.value_and_grad(loss)(p, tokens, following)
        count = count + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        a, b = 1 - 0.9**count, 1 - 0.999**count
        p = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / a) / (jnp.sqrt(v / b) + 1e-8), p, m, v)
        return value, (p, m, v, count)

    train = jax.jit(step, donate_argnums=0)
    text = np.frombuffer(open(TEXT, "rb").read(), np.uint8).astype(np.int32)
    rows, columns = np.arange(s["batch"])[:, None], np.arange(length)[None]
    windows = lambda step, ahead: text[(step * 7919 + rows * 2749 + columns + ahead) % len(text)]
    p = jax.jit(init)(jax.random.key(0))
    none = jax.tree.map(jnp.zeros_like, p)
    state = (p, none, jax.tree.map(jnp.zeros_like, p), jnp.float32(0))
    start, first = time.perf_counter(), 0
    for i in range(steps):
        value, state = train(state, windows(i, 0), windows(i, 1))
        if i == 0 or i % 10 == 9:
            last = float(value)
            per_step = (time.perf_counter() - start) / (i + 1 - first)
            compile_s = per_step if i == 0 else compile_s
            start, first = time.perf_counter(), i + 1
    stats = jax.devices()[0].memory_stats() or {}
    print(json.dumps(dict(ms=per_step * 1e3, loss=last, first=compile_s, peak=stats.get("peak_bytes_in_use"))))


def our_turn(binary, engine, size, dtype, steps):
    args = [binary, "--engine", engine, "--size", size, "--steps", str(steps), "--dtype", dtype]
    done = subprocess.run(args, capture_output=True, text=True)
    line = [l for l in done.stdout.splitlines() if "ms a step" in l]
    if done.returncode or not line:
        sys.exit(f"{' '.join(args)}: {done.stdout}{done.stderr[-2000:]}")
    ms, loss = re.search(r"([\d.]+) ms a step", line[-1]), re.search(r"loss ([\d.]+)", line[-1])
    return dict(ms=float(ms[1]), loss=float(loss[1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="pjrt:cuda")
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "target", "release", "examples", "train_gpt"))
    parser.add_argument("--sizes", nargs="*", default=["tiny", "small", "gpt2"], choices=SIZES)
    parser.add_argument("--dtypes", nargs="*", default=["bf16", "f32"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--jax-turn", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.jax_turn:
        return jax_turn(*args.jax_turn, args.steps)
    print(f"{'model':12} {'ours, ms':>10} {'JAX, ms':>10} {'ratio':>7}   losses")
    for size in args.sizes:
        for dtype in args.dtypes:
            ours, theirs = [], []
            for _ in range(args.rounds):
                ours.append(our_turn(args.binary, args.engine, size, dtype, args.steps))
                command = [sys.executable, __file__, "--jax-turn", size, dtype, "--steps", str(args.steps)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    sys.exit(done.stderr[-2000:])
                theirs.append(json.loads(done.stdout.splitlines()[-1]))
            a, b = (statistics.median(t["ms"] for t in turns) for turns in (ours, theirs))
            print(f"{size + ' ' + dtype:12} {a:10.3f} {b:10.3f} {b / a:7.2f}   {ours[-1]['loss']:.4f} {theirs[-1]['loss']:.4f}", flush=True)


if __name__ == "__main__":
    main()
