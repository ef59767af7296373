#!/usr/bin/env python3
"""Meshwork compared with JAX, PyTorch, numpy, mpi4py and hand-written C on the same problems, in turns.

  run.py [--problems REGEX] [--variants REGEX] [--meshes 1,2,2x4] [--rounds 5] [--budget 60] [--peers meshwork,jax,...]
         [--families | --key] [--part 0/8] [--minutes 25] [--meshwork BINARY] [--before OTHER/meshwork-bench] [--only meshwork]
         [--out target/bench/engine.json] [--join FILE...]

--families runs the programs of families/ on 1 and 8 devices, as often per turn as fit into a tenth of a second, and ends
with a summary: all ratios, their geometric means, and everything below 1. On a machine of many cores, parts can run side by
side on a pair of cores each: run.py --families --part 0/8 to 7/8 under taskset, then --join of their files.

JAX writes each program as StableHLO text and its inputs as .npy; Meshwork runs that text. Every peer is a process that
keeps its inputs and answers one command at a time, so peers take turns and never run at once. JAX runs twice, as
installed (jax) and with malloc on huge pages (jax huge). A peer that needs longer than the budget for a problem gets fewer
rounds. Checksums of all peers are compared. Medians are printed, the ratio to Meshwork, and, where a problem says how many
bytes it must move at least, its share of the bandwidth at which as many bytes are copied in the same rounds; all of it
goes to a JSON file and a picture next to it.
"""
import argparse
import json
import os
import pathlib
import re
import select
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
from picture import distribution, picture  # noqa: E402
from problems import PROBLEMS  # noqa: E402

WORK = ROOT / "target" / "bench" / "engine"
MOST_KEPT = 500_000_000  # bytes of inputs that stay on the disk after a row
TURN = 0.1  # seconds of a turn, where a problem does not say how often to run it
PATIENCE = 100  # seconds until a peer that does not answer is ended
HUGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}

BOTH = "meshwork,jax,jax huge"
# What --key runs: changes to the other options. JAX is left out where it takes minutes.
KEY = [
    dict(problems="gpt step", rounds=4, peers=BOTH + ",torch"),
    dict(problems="mlp step", rounds=7, peers=BOTH + ",torch"),
    dict(problems="collective (64KB|1MB|16MB)", rounds=5, peers=BOTH),
    dict(problems="heat1d f32", rounds=5, peers="meshwork,c"),
    dict(problems="life u8", rounds=5, peers="meshwork,c"),
    dict(problems="rows f32", rounds=5, peers=BOTH),
    dict(problems="heat2d f32", rounds=3, peers="meshwork,c"),
    dict(problems="heat1d f32", variants="roll", rounds=3, peers=BOTH),
    dict(problems="heat2d f32", variants="pad", meshes="1,8,2x4", rounds=2, peers=BOTH),
    dict(problems="life u8", variants="separable", meshes="1,8,2x4", rounds=2, peers=BOTH),
    dict(problems="heat1d f64", rounds=2, peers="meshwork,c"),
    dict(problems="matmul", rounds=3, peers=BOTH),
    dict(problems="gpt compile", variants="^(1|4|8)$", rounds=1, peers="meshwork,jax"),
    dict(problems="gpt compile", variants="^(16|32)$", rounds=1, peers="meshwork"),
    dict(problems="heat[12]d short", meshes="2,8", rounds=2, peers="meshwork,jax,c"),
    dict(problems="add f64", meshes="1,8", rounds=3, peers=BOTH + ",c,numpy"),
]


class Peer:
    """A process that answers commands."""

    def __init__(self, name, command, env=None):
        self.name = name
        errors = open(WORK / f"{name.replace(' ', '_')}.err", "w")
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=errors, text=True, env={**os.environ, **(env or {})}, cwd=HERE)
        self.answer()

    def answer(self):
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.process.kill()
            return {"error": f"{self.name} gave no answer for {PATIENCE} seconds"}
        for line in self.process.stdout:
            if line.startswith("{"):  # libraries have things to say too
                return json.loads(line)
        return {"error": f"{self.name} ended; see {WORK}/{self.name.replace(' ', '_')}.err"}

    def ask(self, *words):
        try:
            self.process.stdin.write("\t".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": f"{self.name} ended"}
        return self.answer()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def steal():
    """Jiffies: all, stolen by the host."""
    fields = list(map(int, open("/proc/stat").readline().split()[1:]))
    return sum(fields), fields[7]


def c_program(source, flags):
    """Compiles a hand-written competitor."""
    out = WORK / (source[:-2] + "_" + "".join(f.strip("-").replace("=", "") for f in flags))
    if not out.exists() or out.stat().st_mtime < (HERE / "c" / source).stat().st_mtime:
        command = ["gcc", "-O3", "-march=native", "-fopenmp", *flags, str(HERE / "c" / source), "-o", str(out), "-lm"]
        subprocess.run(command, check=True)
    return out


def measure(peers, rounds, budget, count):
    """Seconds and checksums of each peer, in turns of `count` runs; 0: of as many as fit into a turn."""
    times = {p.name: [] for p in peers}
    sums, errors = {}, {}  # sums: the checksum and how large the numbers are that it is made of
    counts = {p.name: count or fitting(p) for p in peers}
    for turn in range(rounds):
        # Who comes first finds the caches as the last one left them: everyone does in turn.
        for peer in peers[:: 1 if turn % 2 == 0 else -1]:
            count = counts[peer.name]
            spent = sum(times[peer.name]) * count
            if peer.name in errors or (turn and spent + spent / turn > budget):
                continue
            answer = peer.ask("run", count)
            if "error" in answer:
                errors[peer.name] = answer["error"]
            else:
                times[peer.name].append(answer["seconds"])
                total = answer["checksum"]
                sums.setdefault(peer.name, (total, answer.get("magnitude", abs(total))))
    return times, sums, errors


def fitting(peer):
    """How many runs fit into a turn. The first run after compiling is often slower than the others."""
    seconds = min(peer.ask("run", 1).get("seconds", TURN) for _ in range(2))
    return max(1, min(2000, int(TURN / max(seconds, 1e-7))))


def jax_peer(name, devices, env, kept, platform="cpu"):
    """JAX on `devices` devices: started once, kept for other problems, and restarted if it ended."""
    peer = kept.get((name, devices))
    if peer is None or peer.process.poll() is not None:
        peer = kept[name, devices] = Peer(name, [sys.executable, "peer_jax.py", devices, platform], env)
    return peer


def case(problem, variant, mesh, options, kept):
    """One row of results; `kept` are peers that stay for the next."""
    shape = "x".join(map(str, mesh))
    devices = 1
    for m in mesh:
        devices *= m
    directory = WORK / re.sub(r"\W+", "_", f"{problem.name} {variant} {shape}")
    wanted = options.peers.split(",")
    jax = jax_peer("jax", devices, None, kept)
    row = {"problem": problem.name, "variant": variant, "mesh": shape, "compile": {}, "errors": {}}
    what = problem.name, variant, shape
    lowered = jax.ask("lower", *what)
    if "error" in lowered:
        return {**row, "errors": {"jax": lowered["error"]}}
    inputs = jax.ask("export", directory)["inputs"]
    peers = []

    def add(name, peer, *prepare):
        answer = peer.ask(*prepare) if prepare else {}
        if "error" in answer:
            # Not every row of the families is written for every peer.
            if not (options.families and answer["error"].startswith("KeyError")):
                row["errors"][name] = answer["error"]
            if peer not in kept.values():
                peer.close()
        else:
            peers.append(peer)
            row["compile"].update({name: answer["compile"]} if "compile" in answer else {})

    if "jax" in wanted:
        add("jax", jax, "prepare")
    if "meshwork" in wanted:
        files = [directory / f"{i}.npy" for i in range(inputs)]
        check = "last" if problem.name.startswith("gpt") else 0
        tools = {"meshwork": options.meshwork, **({"before": options.before} if options.before else {})}
        for name, tool in tools.items():
            add(name, Peer(name, [tool, "serve"]), "prepare", directory / "program.mlir", check, *files)
    if "jax huge" in wanted:
        huge = jax_peer("jax huge", devices, HUGE, kept)
        huge.ask("lower", *what)
        add("jax huge", huge, "prepare")
    if "plugin" in wanted:
        plugin = jax_peer("plugin", devices, options.plugin, kept, "meshwork")
        plugin.ask("lower", *what)
        add("plugin", plugin, "prepare")
    if "c" in wanted and problem.c:
        source, flags, extra = problem.c
        files = [directory / f"{i}.npy" for i in range(inputs)]
        add("c", Peer("c", [c_program(source, flags), *files, *extra], {"OMP_NUM_THREADS": "2"}))
    for name in ("numpy", "torch"):
        if name in wanted and devices == 1:
            add(name, Peer(name, [getattr(options, name), f"peer_{name}.py"]), "prepare", problem.name, variant, directory)
    if "mpi4py" in wanted:
        ranks = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", devices]
        add("mpi4py", Peer("mpi4py", [*ranks, options.numpy, "peer_mpi.py"]), "prepare", problem.name, variant, directory)
    least = problem.bytes(variant, mesh) if callable(problem.bytes) else problem.bytes
    footprint = least / problem.passes
    if least:
        peers.append(Peer("copy", [c_program("copy.c", []), int(footprint) // 2], {"OMP_NUM_THREADS": "2"}))
    before = steal()
    times, sums, errors = measure(peers, options.rounds, options.budget, problem.loop)
    after = steal()
    row["errors"].update(errors)
    for peer in peers:
        if peer not in kept.values():
            peer.close()
    for peer in kept.values():
        if peer.process.poll() is None:
            peer.ask("forget")
    files = list(directory.glob("*.npy"))
    if sum(f.stat().st_size for f in files) > MOST_KEPT:
        [f.unlink() for f in files]
    copies = times.pop("copy", [])
    bandwidth = statistics.median(footprint * 1e-9 / t for t in copies) if copies else None
    sums.pop("copy", None)
    row["seconds"] = {n: {"median": statistics.median(t), "min": min(t), "runs": len(t)} for n, t in times.items() if t}
    row["checksums"] = {name: total for name, (total, _) in sums.items()}
    row["agree"] = agree(sums)
    row["copy_gb_per_s"] = bandwidth
    row["steal"] = (after[1] - before[1]) / max(1, after[0] - before[0])
    row["load"] = os.getloadavg()[0]
    ours = row["seconds"].get("meshwork")
    if ours:
        row["ratio"] = {n: t["median"] / ours["median"] for n, t in row["seconds"].items() if n != "meshwork"}
        if bandwidth:
            shares = {n: least / t["median"] * 1e-9 / bandwidth for n, t in row["seconds"].items()}
            row["bandwidth_share"], row["bandwidth_shares"] = shares["meshwork"], shares
    return row


def agree(sums):
    """Whether all checksums agree, measured by the numbers they are sums of; long float loops differ in the last
    digits."""
    largest = max((size for _, size in sums.values()), default=0)
    totals = [total for total, _ in sums.values()]
    return all(abs(total - totals[0]) <= 1e-4 * max(1, largest) for total in totals)


def line(row):
    if "seconds" not in row:
        return f"{row['problem']:16} {row['variant']:20} {row['mesh']:5} {row['errors']}"
    cells = [f"{n} {t['median'] * 1e3:.3f} ms" + (f" ({row['ratio'][n]:.2f}x)" if n in row.get("ratio", {}) else "")
             for n, t in row["seconds"].items()]
    compile_ = " ".join(f"{n} {s * 1e3:.0f}" for n, s in row["compile"].items())
    share = ""
    if "bandwidth_share" in row:
        jax = max((s for n, s in row["bandwidth_shares"].items() if n.startswith("jax")), default=None)
        peer = "" if jax is None else f", jax {jax:.0%}"
        share = f"  {row['bandwidth_share']:.0%} of copy at {row['copy_gb_per_s']:.0f} GB/s{peer}"
    flag = "" if row["agree"] else f"  CHECKSUMS DIFFER {row['checksums']}"
    errors = f"  {row['errors']}" if row["errors"] else ""
    return f"{row['problem']:16} {row['variant']:20} {row['mesh']:5} " + "  ".join(cells) + f"{share}  compile ms: {compile_}{flag}{errors}"


def chosen_cases(options):
    """Problem, variant and mesh of each row that the options ask for."""
    which, parts = map(int, options.part.split("/"))
    at = 0
    for problem in options.from_problems:
        if not re.search(options.problems, problem.name):
            continue
        for variant in problem.variants:
            for mesh in problem.meshes:
                shape = "x".join(map(str, mesh))
                if (not options.meshes or shape in options.meshes.split(",")) and re.search(options.variants, variant):
                    if at // len(problem.meshes) % parts == which:
                        yield problem, variant, mesh
                    at += 1


def best_jax(row):
    """JAX's time over Meshwork's, with JAX in its better configuration; 0 if Meshwork failed, None without JAX."""
    ratios = [v for n, v in row.get("ratio", {}).items() if n.startswith("jax")]
    jax = any(n.startswith("jax") for n in row.get("seconds", {}))
    return min(ratios) if ratios else 0.0 if jax else None


def summary(rows):
    """Text: each ratio to JAX, their geometric means, and what is below 1."""
    rows = [(best_jax(r), r) for r in rows if best_jax(r) is not None]
    name = lambda r: f"{r['problem']}: {r['variant']}, {r['mesh']} device{'s' if r['mesh'] != '1' else ''}"
    said = lambda ratio, r: f"{ratio:8.2f}  {name(r)}" + ("" if r["agree"] else "  (checksums differ)")
    lines = ["JAX's better time / Meshwork's, ascending"]
    lines += [said(ratio, r) for ratio, r in sorted(rows, key=lambda x: x[0])]
    for mesh in sorted({r["mesh"] for _, r in rows}) + [None]:
        ratios = [ratio for ratio, r in rows if ratio and mesh in (r["mesh"], None)]
        if ratios:
            below = sum(ratio < 1 for ratio in ratios), sum(ratio < 0.9 for ratio in ratios)
            where = "all" if mesh is None else f"on {mesh}"
            lines.append(f"{where}: geometric mean {statistics.geometric_mean(ratios):.2f} of {len(ratios)} rows, "
                         f"{below[0]} below 1, {below[1]} below 0.9")
    lines += [f"failed: {name(r)} {r['errors'].get('meshwork', '')}" for ratio, r in rows if not ratio]
    lines += ["below 1:"] + [said(ratio, r) for ratio, r in sorted(rows, key=lambda x: x[0]) if ratio < 1]
    return "\n".join(lines)


def write(rows, shown, out):
    """Rows as JSON, and their picture beside them."""
    pathlib.Path(out).write_text(json.dumps(rows, indent=1))
    pathlib.Path(out).with_suffix(".svg").write_text(shown)


def write_families(rows, out):
    write(rows, distribution([(best_jax(r), r) for r in rows]), out)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--problems", default=".")
    args.add_argument("--variants", default=".")
    args.add_argument("--meshes", default="")
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--budget", type=float, default=60, help="seconds a peer may take per row")
    args.add_argument("--peers", default="meshwork,jax,jax huge,c")
    args.add_argument("--key", action="store_true", help="the rows that the README shows, in some twenty minutes")
    args.add_argument("--families", action="store_true", help="the programs of families/, and a summary")
    args.add_argument("--part", default="0/1", help="PART/PARTS: only the rows of this part")
    args.add_argument("--minutes", type=float, default=0, help="start no row after this many minutes; 0: no limit")
    args.add_argument("--numpy", default=sys.executable, help="a Python with numpy, and mpi4py if that is asked for")
    args.add_argument("--torch", default=sys.executable, help="a Python with PyTorch")
    args.add_argument("--meshwork", default=ROOT / "target" / "release" / "meshwork-bench")
    args.add_argument("--before", type=pathlib.Path, help="a meshwork-bench of an earlier commit, as one more peer")
    args.add_argument("--only", default="", help="of the chosen peers only these")
    args.add_argument("--out", default=WORK.parent / "engine.json")
    args.add_argument("--join", nargs="+", type=pathlib.Path, help="run nothing: summary and picture of these files of --families")
    options = args.parse_args()
    if options.join:
        rows = [row for file in options.join for row in json.loads(file.read_text())]
        write_families(rows, options.out)
        return print(summary(rows))
    WORK.mkdir(parents=True, exist_ok=True)
    options.meshwork = pathlib.Path(options.meshwork).resolve()
    options.before = options.before and options.before.resolve()
    options.from_problems = PROBLEMS
    if options.families:
        from families import families
        options.from_problems = families()
        options.peers = "meshwork,jax,jax huge" if options.peers == args.get_default("peers") else options.peers
    rows, kept = [], {}
    start, left_out = time.monotonic(), 0
    for changes in KEY if options.key else [{}]:
        chosen = argparse.Namespace(**{**vars(options), **changes})
        if options.only:
            chosen.peers = ",".join(p for p in chosen.peers.split(",") if p in options.only.split(","))
        for problem, variant, mesh in chosen_cases(chosen):
            if options.minutes and time.monotonic() - start > 60 * options.minutes:
                left_out += 1
                continue
            rows.append(case(problem, variant, mesh, chosen, kept))
            print(line(rows[-1]), flush=True)
            if options.families:
                write_families(rows, options.out)
            else:
                write(rows, picture(rows), options.out)
    for peer in kept.values():
        peer.close()
    if left_out:
        print(f"{left_out} rows were left out: the {options.minutes:g} minutes were over")
    if options.families:
        print(summary(rows))
    print(f"written: {options.out} and the picture next to it; {time.strftime('%Y-%m-%d')}")


if __name__ == "__main__":
    main()
