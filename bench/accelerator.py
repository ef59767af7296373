#!/usr/bin/env python3
"""Training and stencils on an accelerator: Meshwork through the plugin's library, and JAX's jit, on the same device in turns.

    cargo build --release -p meshwork --example train_gpt --example train_mlp --example heat_spellings
    python accelerator.py [--engine pjrt:cuda] [--sizes tiny small gpt2] [--rounds 3] [--dtypes bf16 f32]
    python accelerator.py --heat [--engine pjrt:cuda]
    python accelerator.py --mlp [--engine pjrt:cuda] [--rounds 3]
    python accelerator.py --losses [--engine pjrt:cuda] [--steps 50]

Both train the same model (examples/train_gpt.rs) by Adam with f32 master weights, state donated, the loss read every ten
steps.  Each turn is a process of its own; the time of a step is the mean of its last ten.  Prints the medians, their ratio
(JAX's time over ours), the losses after the same steps, whose starts differ (each draws its own weights), and the peak
memory of the device.  With --heat it times the heat equation in every spelling instead, the best of ten runs each, with
--mlp steps of small networks by gradient descent, the best mean of twenty.  With --losses it trains the tiny model in f32 on
the accelerator with all bits in products, and on Meshwork's CPU engine, from the same weights, and compares the losses.
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


HEAT = {"10000000": 200, "4096x4096": 100}


def jax_heat(points, runs=10):
    """Times every spelling in this process; prints a line of JSON."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    dims = tuple(int(n) for n in points.split("x"))
    rank = len(dims)
    weight = 0.5 / (rank + 1)
    inner = tuple(slice(1, -1) for _ in dims)

    def shifted(x, d, by):
        return x[tuple(slice(1 + by, x.shape[k] - 1 + by) if k == d else slice(1, -1) for k in range(rank))]

    def change(x):
        sides = sum(shifted(x, d, by) for d in range(rank) for by in (-1, 1))
        return weight * (sides - 2 * rank * x[inner])

    def assign(x):
        return x.at[inner].set(x[inner] + change(x))

    def concatenate(x):
        rows = x[inner] + change(x)
        for d in reversed(range(rank)):
            part = lambda cut: x[tuple(slice(1, -1) if k < d else cut if k == d else slice(None) for k in range(rank))]
            rows = jnp.concatenate([part(slice(0, 1)), rows, part(slice(-1, None))], d)
        return rows

    def pad(x):
        return x + jnp.pad(change(x), 1)

    def roll(x):
        sides = sum(jnp.roll(x, by, d) for d in range(rank) for by in (1, -1))
        at = [jax.lax.broadcasted_iota(jnp.int32, x.shape, d) for d in range(rank)]
        is_inner = jnp.stack([(i > 0) & (i < n - 1) for i, n in zip(at, dims)]).all(0) if rank > 1 else (at[0] > 0) & (at[0] < dims[0] - 1)
        return jnp.where(is_inner, x + weight * (sides - 2 * rank * x), x)

    def convolution(x):
        kernel = np.zeros((3,) * rank, np.float32)
        kernel[(1,) * rank] = -2 * rank * weight
        for d in range(rank):
            for side in (0, 2):
                kernel[tuple(side if k == d else 1 for k in range(rank))] = weight
        moved = jax.lax.conv_general_dilated(x[None, None], jnp.asarray(kernel)[None, None], (1,) * rank, "VALID")[0, 0]
        return x + jnp.pad(moved, 1)

    start = sum(np.ogrid[tuple(slice(n) for n in dims)]) * 7919 % 1000
    x, times = jnp.asarray(start.astype(np.float32) / 1000), {}
    for step in (assign, concatenate, pad, roll, convolution):
        run = jax.jit(lambda x: jax.lax.fori_loop(0, HEAT[points], lambda _, x: step(x), x))
        run(x).block_until_ready()
        taken = []
        for _ in range(runs):
            begin = time.perf_counter()
            run(x).block_until_ready()
            taken.append(time.perf_counter() - begin)
        times[step.__name__] = min(taken) * 1e3
    print(json.dumps(times))


def heat(args):
    binary = os.path.join(os.path.dirname(args.binary), "heat_spellings")
    for points, steps in HEAT.items():
        theirs = json.loads(own_process(["--jax-heat", points]).splitlines()[-1])
        command = [binary, "--engine", args.engine, "--points", points, "--steps", str(steps), "--runs", "10"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr[-2000:]}")
        ours = dict(re.findall(r"(\w+) +([\d.]+) ms", done.stdout))
        best = min(theirs.values())
        print(f"{points + ' points':22} {'ours, ms':>10} {'JAX, ms':>10} {'best of JAX over ours':>22}")
        for name, ms in theirs.items():
            print(f"{name:22} {float(ours[name]):10.3f} {ms:10.3f} {best / float(ours[name]):22.2f}", flush=True)


MLPS = {"64,256,256,64": 64, "512,2048,2048,2048,512": 256}


def jax_mlp(sizes, steps):
    """Trains in this process; prints a line of JSON."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    batch, sizes = MLPS[sizes], [int(n) for n in sizes.split(",")]

    def wave(rows, columns, scale):
        i, j = np.ogrid[:rows, :columns]
        return jnp.asarray((np.sin(i * 1.7 + j * 0.9) * scale).astype(np.float32))

    def loss(p, x, y):
        for w in p[:-1]:
            x = jnp.tanh(x @ w)
        return ((x @ p[-1] - y) ** 2).mean()

    def step(p, x, y):
        value, g = jax.value_and_grad(loss)(p, x, y)
        return value, jax.tree.map(lambda p, g: p - 0.05 * g, p, g)

    train = jax.jit(step, donate_argnums=0)
    p = [wave(a, b, a**-0.5) for a, b in zip(sizes, sizes[1:])]
    x, y = wave(batch, sizes[0], 1.0), wave(batch, sizes[-1], 0.5)
    value, p = train(p, x, y)
    float(value)
    best, start = float("inf"), time.perf_counter()
    for i in range(1, steps + 1):
        value, p = train(p, x, y)
        if i % 20 == 0:
            last = float(value)
            best = min(best, (time.perf_counter() - start) / 20)
            start = time.perf_counter()
    print(json.dumps(dict(ms=best * 1e3, loss=last)))


def mlp(args):
    binary = os.path.join(os.path.dirname(args.binary), "train_mlp")
    print(f"{'network':26} {'ours, ms':>10} {'JAX, ms':>10} {'ratio':>7}   losses")
    for sizes, batch in MLPS.items():
        ours, theirs = [], []
        for _ in range(args.rounds):
            command = [binary, "--engine", args.engine, "--sizes", sizes, "--batch", str(batch), "--steps", "500"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr[-2000:]}")
            found = re.search(r"to ([\d.]+), ([\d.]+) ms a step", done.stdout)
            ours.append(dict(ms=float(found[2]), loss=float(found[1])))
            theirs.append(json.loads(own_process(["--jax-mlp", sizes, "--steps", "500"]).splitlines()[-1]))
        a, b = (statistics.median(t["ms"] for t in turns) for turns in (ours, theirs))
        print(f"{sizes:26} {a:10.4f} {b:10.4f} {b / a:7.2f}   {ours[-1]['loss']:.5f} {theirs[-1]['loss']:.5f}", flush=True)


def own_process(arguments):
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return done.stdout


def our_turn(binary, engine, size, dtype, steps):
    args = [binary, "--engine", engine, "--size", size, "--steps", str(steps), "--dtype", dtype]
    done = subprocess.run(args, capture_output=True, text=True)
    line = [l for l in done.stdout.splitlines() if "ms a step" in l]
    if done.returncode or not line:
        sys.exit(f"{' '.join(args)}: {done.stdout}{done.stderr[-2000:]}")
    ms, loss = re.search(r"([\d.]+) ms a step", line[-1]), re.search(r"loss ([\d.]+)", line[-1])
    peak = re.search(r"([\d.]+) MiB at most", line[-1])
    return dict(ms=float(ms[1]), loss=float(loss[1]), peak=float(peak[1]) * 2**20 if peak else None)


def compare_losses(args):
    def train(engine):
        command = [args.binary, "--engine", engine, "--size", "tiny", "--steps", str(args.steps), "--dtype", "f32"]
        done = subprocess.run(command, capture_output=True, text=True)
        found = re.search(r"losses: (.*)", done.stdout)
        if done.returncode or not found:
            sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr[-2000:]}")
        return [float(x) for x in found[1].split()]

    cpu = train("cpu")
    print(f"{'engine':34} largest relative difference from the CPU engine's, losses")
    for engine in (args.engine + ",precision=highest", args.engine):
        ours = train(engine)
        worst = max(abs(a - b) / b for a, b in zip(ours, cpu))
        print(f"{engine:34} {worst:.1e}   {' '.join(f'{x:.6f}' for x in ours)}")
    print(f"{'cpu':34}           {' '.join(f'{x:.6f}' for x in cpu)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="pjrt:cuda")
    parser.add_argument("--binary", default=os.path.join(HERE, "..", "target", "release", "examples", "train_gpt"))
    parser.add_argument("--sizes", nargs="*", default=["tiny", "small", "gpt2"], choices=SIZES)
    parser.add_argument("--dtypes", nargs="*", default=["bf16", "f32"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--heat", action="store_true", help="time the heat equation instead")
    parser.add_argument("--jax-turn", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--mlp", action="store_true", help="time small networks instead")
    parser.add_argument("--losses", action="store_true", help="compare the losses of the tiny model with the CPU engine's instead")
    parser.add_argument("--jax-heat", help=argparse.SUPPRESS)
    parser.add_argument("--jax-mlp", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.jax_turn:
        return jax_turn(*args.jax_turn, args.steps)
    if args.jax_heat:
        return jax_heat(args.jax_heat)
    if args.jax_mlp:
        return jax_mlp(args.jax_mlp, args.steps)
    if args.heat:
        return heat(args)
    if args.mlp:
        return mlp(args)
    if args.losses:
        return compare_losses(args)
    mib = lambda turns: f"{max(t['peak'] or 0 for t in turns) / 2**20:8.0f}"
    print(f"{'model':12} {'ours, ms':>10} {'JAX, ms':>10} {'ratio':>7}   {'losses':13}   peak MiB, ours and JAX's   all times")
    for size in args.sizes:
        for dtype in args.dtypes:
            ours, theirs = [], []
            for _ in range(args.rounds):
                ours.append(our_turn(args.binary, args.engine, size, dtype, args.steps))
                printed = own_process(["--jax-turn", size, dtype, "--steps", str(args.steps)])
                theirs.append(json.loads(printed.splitlines()[-1]))
            a, b = (statistics.median(t["ms"] for t in turns) for turns in (ours, theirs))
            losses = f"{ours[-1]['loss']:.4f} {theirs[-1]['loss']:.4f}"
            times = " ".join(f"{t['ms']:.3f}" for t in ours) + " | " + " ".join(f"{t['ms']:.3f}" for t in theirs)
            print(f"{size + ' ' + dtype:12} {a:10.3f} {b:10.3f} {b / a:7.2f}   {losses}   {mib(ours)} {mib(theirs)}   {times}", flush=True)


if __name__ == "__main__":
    main()
