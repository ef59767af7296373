#!/usr/bin/env python3
"""How long programs take to compile, in milliseconds per 1,000 operations: parse + compile + load, the slowest first.

  corpus.py FOLDER [--tool target/release/meshwork-bench] [--repeat 3] [--limit 100]

Ends with an error if a program of at least 100 operations takes longer than the limit, or if a step of any program would run on
the evaluator.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("folder", type=pathlib.Path)
    args.add_argument("--tool", default=ROOT / "target" / "release" / "meshwork-bench")
    args.add_argument("--repeat", default="3")
    args.add_argument("--limit", type=float, default=100)
    options = args.parse_args()
    rows, failed, evaluated = [], [], []
    for path in sorted(options.folder.rglob("*.mlir")):
        command = [options.tool, "compile", path, "--repeat", options.repeat]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            failed.append((path.stem, done.stderr.strip().splitlines()[:1]))
            continue
        found = json.loads(done.stdout)
        evaluated += [path.stem] if found["evaluated"] else []
        times = [found[stage]["cpu"]["min"] for stage in ("parse", "compile", "load")]
        rows.append((sum(times) / found["ops"] * 1000, sum(times), times, found["ops"], path.stem))
    rows.sort(reverse=True)
    print("| ms per 1,000 operations | ms | parse | compile | load | operations | program |\n|---|---|---|---|---|---|---|")
    for each, total, times, ops, name in rows:
        stages = " | ".join(f"{t:.2f}" for t in times)
        print(f"| {each:.1f} | {total:.2f} | {stages} | {ops} | {name} |")
    for name, reason in failed:
        print(f"not compiled: {name}: {reason}")
    slow = [name for each, _, _, ops, name in rows if each > options.limit and ops >= 100]
    print(f"{len(rows)} programs, {len(evaluated)} with steps on the evaluator: {', '.join(evaluated) or 'none'}")
    if slow:
        sys.exit(f"above {options.limit:g} ms per 1,000 operations: {', '.join(slow)}")
    if evaluated:
        sys.exit("steps run on the evaluator")


if __name__ == "__main__":
    main()
