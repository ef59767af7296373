#!/usr/bin/env python3
"""Meshwork on the ranks of MPI beside hand-written C with MPI, numpy with mpi4py, PyTorch's DDP, and MPI's collectives.

  run.py [--problems REGEX] [--variants REGEX] [--ranks 2,4] [--rounds 5] [--out target/bench/mpi.json]
         [--meshwork target/release/meshwork-bench] [--torch PYTHON] [--peers meshwork,c,mpi4py,ddp]

First `cargo build --release -p meshwork-bench --features mpi`. The problems are those of bench/engine. In each round every
peer is started by mpirun, warms up, is timed, and ends, one after the other, so that none waits while another is
measured. Of a collective, which is short, each start gives its fastest call; of the others the mean. Checksums are compared.
Medians of the rounds are printed and their ratios to Meshwork's; all of it goes to a JSON file.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENGINE = HERE.parent / "engine"
sys.path.insert(0, str(ENGINE))
from problems import PROBLEMS  # noqa: E402
from run import Peer  # noqa: E402

WORK = ROOT / "target" / "bench" / "engine"
CORES = os.cpu_count()
VARIANTS = {"heat1d f32": ["at"], "heat2d f32": ["at"], "gpt step": ["step"]}


def mpirun(ranks):
    """The flags that one machine needs."""
    flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    crowded = ["--mca", "mpi_yield_when_idle", "1"] if ranks > CORES else []
    return ["mpirun", *flags, *crowded, "-n", str(ranks)]


def compiled(source, flags):
    """A hand-written competitor."""
    out = WORK / ("mpi_" + source[:-2] + "_" + "".join(f.strip("-").replace("=", "") for f in flags))
    command = ["mpicc", "-O3", "-march=native", *flags, str(HERE / "c" / source), "-o", str(out), "-lm"]
    subprocess.run(command, check=True)
    return str(out)


def export(problem, variant, ranks, mesh):
    """The program as StableHLO and its inputs as .npy, written by JAX."""
    directory = WORK / re.sub(r"\W+", "_", f"mpi {problem.name} {variant} {ranks}")
    jax = Peer("jax", [sys.executable, "peer_jax.py", ranks])
    answer = jax.ask("lower", problem.name, variant, mesh)
    if "error" in answer:
        jax.close()
        raise RuntimeError(answer["error"])
    inputs = jax.ask("export", directory)["inputs"]
    jax.close()
    return directory, [str(directory / f"{i}.npy") for i in range(inputs)]


def peers_of(problem, variant, ranks, mesh, directory, files, options):
    """Commands and what they read, by name."""
    count, start = problem.loop, mpirun(ranks)
    out = {}
    check = "last" if problem.name.startswith("gpt") else "0"
    lines = ["\t".join(["prepare", str(directory / "program.mlir"), check, *files]), f"run\t{count}", ""]
    if problem.name.startswith("collective"):
        lines[1:2] = ["run\t1"] * (10 * count)
    out["meshwork"] = ([*start, str(options.meshwork), "serve"], "\n".join(lines))
    lines = [f"prepare\t{problem.name}\t{variant}\t{directory}", "run\t1", f"run\t{count}", ""]
    if problem.c:
        source, flags, extra = problem.c
        out["c"] = ([*start, compiled(source, flags), *files, *map(str, extra), str(count)], "")
        out["mpi4py"] = ([*start, sys.executable, str(ENGINE / "peer_mpi.py")], "\n".join(lines))
    if problem.name == "gpt step":
        out["ddp"] = ([*start, options.torch, str(HERE / "peer_ddp.py"), str(directory), "3"], "")
    if problem.name.startswith("collective"):
        import numpy as np
        row = np.load(files[0], mmap_mode="r").shape[1]
        out["c"] = ([*start, compiled("collectives.c", []), variant, *files, str(row), str(10 * count)], "")
    return {name: peer for name, peer in out.items() if name in options.peers.split(",")}


def measure(command, text):
    """One run of a peer: the best of what it prints."""
    port = 20000 + os.getpid() % 20000
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=env, cwd=ENGINE, timeout=600)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    timed = [a for a in answers if "seconds" in a]
    if not timed:
        return {"error": next((a["error"] for a in answers if "error" in a), done.stderr[-500:])}
    return min(timed, key=lambda a: a["seconds"])


def case(problem, variant, ranks, options):
    """One row of results."""
    mesh = f"{ranks}x1" if problem.name.startswith(("gpt", "mlp")) else str(ranks)
    directory, files = export(problem, variant, ranks, mesh)
    peers = peers_of(problem, variant, ranks, mesh, directory, files, options)
    times, sums, errors = {name: [] for name in peers}, {}, {}
    for _ in range(options.rounds):
        for name, (command, text) in peers.items():
            if name in errors:
                continue
            answer = measure(command, text)
            if "error" in answer:
                errors[name] = answer["error"]
            else:
                times[name].append(answer["seconds"])
                sums[name] = answer["checksum"]
    medians = {name: statistics.median(t) for name, t in times.items() if t}
    ours = medians.get("meshwork")
    row = {"problem": problem.name, "variant": variant, "ranks": ranks, "seconds": medians, "rounds": times,
           "ratio": {n: t / ours for n, t in medians.items() if ours}, "checksums": sums, "errors": errors}
    known = sums.get("meshwork")
    row["agree"] = known is not None and all(abs(s - known) <= 1e-3 * max(abs(known), 1e-9) for s in sums.values())
    return row


def show(row):
    ratios = "  ".join(f"{n} {t * 1e3:.2f} ms ({row['ratio'].get(n, float('nan')):.2f}x)" for n, t in row["seconds"].items())
    print(f"{row['problem']:16} {row['variant']:14} {row['ranks']} ranks  {ratios}"
          + ("" if row["agree"] else "  CHECKSUMS DIFFER " + str(row["checksums"]))
          + "".join(f"\n    {n}: {e}" for n, e in row["errors"].items()), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", default="heat.d f32|gpt step|collective (1MB|16MB)")
    parser.add_argument("--variants", default="")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", default="meshwork,c,mpi4py,ddp")
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--meshwork", default=ROOT / "target" / "release" / "meshwork-bench", type=pathlib.Path)
    parser.add_argument("--out", default=ROOT / "target" / "bench" / "mpi.json", type=pathlib.Path)
    options = parser.parse_args()
    options.meshwork = options.meshwork.resolve()
    WORK.mkdir(parents=True, exist_ok=True)
    rows = []
    for problem in PROBLEMS:
        if not re.search(options.problems, problem.name):
            continue
        for variant in VARIANTS.get(problem.name, problem.variants):
            if not re.search(options.variants, variant):
                continue
            for ranks in map(int, options.ranks.split(",")):
                row = case(problem, variant, ranks, options)
                rows.append(row)
                show(row)
                options.out.write_text(json.dumps({"cores": CORES, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
