#!/usr/bin/env python3
"""Meshwork on MPI ranks compared with hand-written C with MPI, numpy with mpi4py, PyTorch's DDP, and MPI's collectives.

  run.py [--problems REGEX] [--variants REGEX] [--ranks 2,4] [--rounds 5] [--minutes 12] [--out target/bench/mpi.json]
         [--meshwork target/release/meshwork-bench] [--torch PYTHON] [--peers meshwork,c,mpi4py,ddp]

First `cargo build --release -p meshwork-bench --features mpi`. The problems are those of bench/engine. In each round every
peer is started by mpirun, warms up, is timed, and ends, one after the other, so that none waits while another is
measured. Checksums are compared. Medians of the rounds are printed and their ratios to Meshwork's; all of it goes to a JSON
file. Each row gets its share of the minutes: rounds that do not fit are left out, but the first never.

`--problems windows`: shared-memory windows of MPI-3 compared with MPI's calls, in microseconds.
Collectives and the MPI calls of the same name are called by turns in one program: the mean, median and least microseconds of
the slowest rank.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENGINE = HERE.parent / "engine"
sys.path.insert(0, str(ENGINE))
from problems import PROBLEMS  # noqa: E402
from run import Peer  # noqa: E402

WORK = ROOT / "target" / "bench" / "engine"
CORES = os.cpu_count()
LONGEST = 240
COLLECTIVES = [1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 24]
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
    count, start = (3 if problem.name == "gpt step" else problem.loop), mpirun(ranks)
    out = {}
    check = "last" if problem.name.startswith("gpt") else "0"
    lines = ["\t".join(["prepare", str(directory / "program.mlir"), check, *files]), f"run\t{count}", ""]
    out["meshwork"] = ([*start, str(options.meshwork), "serve"], "\n".join(lines))
    lines = [f"prepare\t{problem.name}\t{variant}\t{directory}", "run\t1", f"run\t{count}", ""]
    if problem.c:
        source, flags, extra = problem.c
        out["c"] = ([*start, compiled(source, flags), *files, *map(str, extra), str(count)], "")
        out["mpi4py"] = ([*start, sys.executable, str(ENGINE / "peer_mpi.py")], "\n".join(lines))
    if problem.name == "gpt step":
        out["ddp"] = ([*start, options.torch, str(HERE / "peer_ddp.py"), str(directory), "3"], "")
    return {name: peer for name, peer in out.items() if name in options.peers.split(",")}


def measure(command, text):
    """One run of a peer: the last time it prints."""
    port = 20000 + os.getpid() % 20000
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=env, cwd=ENGINE, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return {"error": f"it took more than {LONGEST} s"}
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    timed = [a for a in answers if "seconds" in a]
    if not timed:
        return {"error": next((a["error"] for a in answers if "error" in a), done.stderr[-500:])}
    return timed[-1]


def case(problem, variant, ranks, options, until):
    """One row of results, within a time."""
    mesh = f"{ranks}x1" if problem.name.startswith(("gpt", "mlp")) else str(ranks)
    directory, files = export(problem, variant, ranks, mesh)
    peers = peers_of(problem, variant, ranks, mesh, directory, files, options)
    times, sums, errors = {name: [] for name in peers}, {}, {}
    began = time.monotonic()
    for number in range(options.rounds):
        if number and time.monotonic() + (time.monotonic() - began) / number > until:
            break
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


def collectives(ranks, options, until):
    """Rows of collectives compared with the calls of MPI, from as many runs as fit."""
    sizes = ",".join(map(str, COLLECTIVES))
    command = [*mpirun(ranks), str(options.meshwork), "processes", "collectives", sizes]
    starts, began, rows = [], time.monotonic(), []
    while len(starts) < options.rounds:
        if starts and time.monotonic() + (time.monotonic() - began) / len(starts) > until:
            break
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
        if done.returncode:
            print(f"collectives on {ranks} ranks: {done.stderr[-500:]}", flush=True)
            return rows
        starts.append([json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")])
    for same in zip(*starts):
        row = {"problem": "collective", "ranks": ranks, "starts": len(same), "collective": same[0]["collective"],
               "bytes": same[0]["bytes"]}
        for who in ("meshwork", "mpi"):
            row[who] = {what: statistics.median(s[who][i] for s in same) for i, what in enumerate(("mean", "median", "least"))}
        row["ratio"] = {what: row["meshwork"][what] / row["mpi"][what] for what in row["mpi"]}
        rows.append(row)
        us, them, ratio = row["meshwork"], row["mpi"], row["ratio"]
        print(f"{row['collective']:20} {row['bytes']:>9} bytes {ranks} ranks  mean {us['mean']:.1f} / {them['mean']:.1f} us "
              f"({ratio['mean']:.2f}x)  median {ratio['median']:.2f}x  least {ratio['least']:.2f}x", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", default="heat.d f32|gpt step|collectives")
    parser.add_argument("--variants", default="")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--peers", default="meshwork,c,mpi4py,ddp")
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--meshwork", default=ROOT / "target" / "release" / "meshwork-bench", type=pathlib.Path)
    parser.add_argument("--out", default=ROOT / "target" / "bench" / "mpi.json", type=pathlib.Path)
    options = parser.parse_args()
    options.meshwork = options.meshwork.resolve()
    WORK.mkdir(parents=True, exist_ok=True)
    ranks = [int(n) for n in options.ranks.split(",")]
    wanted = [(p, v, n) for p in PROBLEMS if p.name in VARIANTS and re.search(options.problems, p.name)
              for v in VARIANTS[p.name] if re.search(options.variants, v) for n in ranks]
    if re.search(options.problems, "windows"):
        for n in ranks:
            command = [*mpirun(n), compiled("windows.c", []), "100"]
            print(f"{n} ranks\n" + subprocess.run(command, capture_output=True, text=True, timeout=LONGEST).stdout, end="", flush=True)
    if re.search(options.problems, "collectives"):
        wanted[:0] = [(None, None, n) for n in ranks]
    rows, end = [], time.monotonic() + 60 * options.minutes
    for i, (problem, variant, n) in enumerate(wanted):
        now = time.monotonic()
        until = now + (end - now) / (len(wanted) - i)
        if problem is None:
            rows += collectives(n, options, until)
        else:
            rows.append(case(problem, variant, n, options, until))
            show(rows[-1])
        options.out.write_text(json.dumps({"cores": CORES, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
