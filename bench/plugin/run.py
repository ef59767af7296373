#!/usr/bin/env python3
"""JAX on the plugin compared with JAX on XLA's CPU backend, in turns.

  run.py [--parts calls,first,steps,stencils] [--names REGEX] [--devices 1,8] [--meshes 1x1,8x1] [--rounds 7] [--library FILE] [--package FOLDER] [--out FILE]

calls     seconds per call of small compiled and eager functions
first     seconds from the first call of a new function to its result: trace, compile, run
steps     training steps; also by Meshwork without JAX, on the program that JAX exported (meshwork-bench serve)
stencils  loops over split arrays, with shardings and with shard_map

Each backend is a process that answers one command at a time. Medians of all rounds are printed, in milliseconds (of calls
the fastest round: they are shorter than what disturbs them), with the ratio of XLA's time to the plugin's, and, for steps and
stencils, of the plugin's to Meshwork's alone.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "engine"))
import run as engine  # noqa: E402

STEPS = {"gpt step": "1x1,2x1,8x1,2x4", "mlp step": "1x1,8x1"}
STENCILS = {"heat1d f32": ("roll", "2,8"), "heat1d ring": (".", "2,8"), "heat2d f32": ("pad", "8,2x4"), "heat2d ring": (".", "8"),
            "life u8": ("separable", "8")}


def environment(library, package):
    """What JAX needs to find the plugin."""
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path, "MESHWORK_LIBRARY": str(library)}


def in_turns(peers, rounds, *words):
    """Answers of each peer; who comes first changes."""
    answers = {name: [] for name in peers}
    for turn in range(rounds):
        for name in list(peers)[:: 1 if turn % 2 == 0 else -1]:
            answer = peers[name].ask(*words)
            if "error" in answer:
                raise SystemExit(f"{name}: {' '.join(map(str, words))}: {answer['error']}")
            answers[name].append(answer)
    return answers


def short(options):
    """Calls and first calls."""
    rows = []
    for devices in map(int, options.devices.split(",")):
        peers = {name: engine.Peer(f"{name}-{devices}", [sys.executable, HERE / "short.py", platform, devices], env)
                 for name, platform, env in [("plugin", "meshwork", options.environment), ("xla", "cpu", {})]}
        names = peers["plugin"].ask("names")
        for part, count in (("calls", options.calls), ("first", None)):
            if part not in options.parts:
                continue
            for name in names[part]:
                if not re.search(options.names, name):
                    continue
                words = ("call", name, count) if part == "calls" else ("first", name)
                answers = in_turns(peers, options.rounds if part == "calls" else options.firsts, *words)
                typical = min if part == "calls" else statistics.median
                seconds = {n: typical(a["seconds"] for a in of) for n, of in answers.items()}
                row = {"part": part, "name": name, "mesh": str(devices), "seconds": seconds}
                rows.append(row)
                show(row)
        for peer in peers.values():
            peer.close()
    return rows


def long(options):
    """Steps and stencils: the engine's problems."""
    rows, kept = [], {}
    wanted = [("steps", name, ".", meshes) for name, meshes in STEPS.items()]
    wanted += [("stencils", name, variants, meshes) for name, (variants, meshes) in STENCILS.items()]
    for part, name, variants, meshes in wanted:
        if part not in options.parts:
            continue
        chosen = argparse.Namespace(
            problems=f"^{name}$", variants=variants, meshes=meshes, rounds=options.rounds, budget=options.budget,
            peers="meshwork,jax,plugin", meshwork=options.meshwork, before=None, numpy=sys.executable,
            torch=sys.executable, plugin=options.environment)
        for problem, variant, mesh in engine.chosen_cases(chosen):
            shape = "x".join(map(str, mesh))
            if not re.search(options.names, f"{problem.name} {variant}") or shape not in (options.meshes or shape).split(","):
                continue
            row = engine.case(problem, variant, mesh, chosen, kept)
            if row["errors"] or not row["agree"]:
                print(f"{problem.name} {variant}: {row['errors']} {row.get('checksums')}")
                continue
            seconds = {"plugin": row["seconds"]["plugin"]["median"], "xla": row["seconds"]["jax"]["median"],
                       "meshwork": row["seconds"]["meshwork"]["median"]}
            row = {"part": part, "name": f"{problem.name}, {variant}", "mesh": row["mesh"], "seconds": seconds}
            rows.append(row)
            show(row)
    for peer in kept.values():
        peer.close()
    return rows


def show(row):
    s = row["seconds"]
    alone = f"   alone {s['meshwork'] * 1e3:9.3f}  plugin / alone {s['plugin'] / s['meshwork']:.3f}" if "meshwork" in s else ""
    print(f"{row['part']:9} {row['name']:40} {row['mesh']:4} plugin {s['plugin'] * 1e3:9.4f}  "
          f"XLA {s['xla'] * 1e3:9.4f}  {s['xla'] / s['plugin']:6.2f}x{alone}", flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--parts", default="calls,first,steps,stencils")
    args.add_argument("--names", default=".")
    args.add_argument("--devices", default="1,8", help="of calls and first calls")
    args.add_argument("--meshes", default="", help="of steps and stencils; all by default")
    args.add_argument("--rounds", type=int, default=7)
    args.add_argument("--firsts", type=int, default=3)
    args.add_argument("--calls", type=int, default=100, help="calls per round")
    args.add_argument("--budget", type=float, default=60, help="seconds a backend may take per row")
    args.add_argument("--library", type=pathlib.Path, default=ROOT / "target" / "release" / "libmeshwork_plugin.so")
    args.add_argument("--package", type=pathlib.Path, default=ROOT / "python", help="the folder of jax_meshwork")
    args.add_argument("--meshwork", type=pathlib.Path, default=ROOT / "target" / "release" / "meshwork-bench")
    args.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "bench" / "plugin.json")
    options = args.parse_args()
    options.parts = options.parts.split(",")
    options.environment = environment(options.library.resolve(), options.package.resolve())
    engine.WORK.mkdir(parents=True, exist_ok=True)
    rows = []
    if {"calls", "first"} & set(options.parts):
        rows += short(options)
    if {"steps", "stencils"} & set(options.parts):
        rows += long(options)
    options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
