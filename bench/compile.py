#!/usr/bin/env python3
"""Compile time compared with XLA: the same GPT training steps through Meshwork, Shardy and XLA's partitioner.

  compile.py [--layers 1,2,4,8,16,32] [--rounds 3] [--repeat 5] [--no-xla] [--json FILE]

For each program, in turns, so that a busy machine affects all equally, medians (and minima) over the rounds of:
  shardy    the pass sdy-propagation-pipeline of the Shardy inside jaxlib, on the parsed module
  xla       XLA's passes shardy-xla and spmd-partitioning in a CPU compilation for 8 devices, by XLA's own pass timer;
            all other passes are switched off, and the compilation is left to fail after them
  meshwork  stages of `meshwork-bench compile`: `pipeline` is the pass of the same name as Shardy's; `compile` places and
            splits the program, as `meshwork run` does, and tries a second placement where state and data compete; `place`
            is its first part
Parsing is never counted. Then Meshwork alone: growth to 100,000 operations, and a mesh of 65,536 devices against one of
8 on a program whose extents divide both. All times are wall-clock milliseconds.
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpt  # noqa: E402

TOOL = gpt.ROOT / "target" / "release" / "meshwork-bench"
PROGRAMS = gpt.ROOT / "target" / "bench" / "programs"
STAGES = ("pipeline", "place", "compile")
PASS_TIME = re.compile(r"HLO pass: (shardy-xla|spmd-partitioning) time: .*?\((\d+) us\)")


def shardy_round(text, context=[]):  # noqa: B006: one context for all rounds
    """Milliseconds of Shardy's propagation pipeline, in this process."""
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _sdy, _stablehlo
    if not context:
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)
        made = ir.Context()
        made.append_dialect_registry(registry)
        made.load_all_available_dialects()
        _sdy.register_dialect(made)
        _stablehlo.register_dialect(made)
        context.append(made)
    with context[0]:
        module = ir.Module.parse(text)
        passes = passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)")
        start = time.perf_counter()
        passes.run(module.operation)
        return (time.perf_counter() - start) * 1e3


def xla_round(path, devices):
    """Milliseconds of XLA's two passes, in a process of their own."""
    flags = f"--xla_force_host_platform_device_count={devices} " \
            "--xla_enable_hlo_passes_only=shardy-xla,spmd-partitioning"
    env = dict(os.environ, XLA_FLAGS=flags, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="0",
               TF_CPP_VMODULE="hlo_pass_pipeline=1")
    command = [sys.executable, __file__, "--xla-child", str(path), "--devices", str(devices)]
    log = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1200).stderr
    found = {name: int(us) / 1e3 for name, us in PASS_TIME.findall(log)}
    if len(found) != 2:
        raise SystemExit(f"{path}: XLA's log has no times of both passes; its end:\n{log[-2000:]}")
    return found


def xla_child(path, devices):
    """Compiles with XLA; only the passes before the failure matter."""
    import numpy as np
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir
    backend = xla_bridge.get_backend("cpu")
    with mlir.make_ir_context():
        module = ir.Module.parse(pathlib.Path(path).read_text())
        options = compiler.get_compile_options(num_replicas=1, num_partitions=devices,
                                               device_assignment=np.arange(devices).reshape(1, devices))
        options.executable_build_options.use_shardy_partitioner = True
        try:
            backend.compile_and_load(module, xla_client.DeviceList(tuple(backend.devices()[:devices])), options)
        except Exception as error:  # noqa: BLE001: without later passes XLA's code generator refuses the program
            print(error, file=sys.stderr)


def meshwork(path, repeat, mesh=None):
    command = [str(TOOL), "compile", str(path), "--repeat", str(repeat)] + (["--mesh", mesh] if mesh else [])
    run = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{run.stderr}")
    return json.loads(run.stdout)


def summary(rounds):
    return {"min": min(rounds), "median": statistics.median(rounds)}


def compare_with_xla(args):
    rows = []
    for layers in args.layers:
        path = gpt.write(layers, (2, 4), PROGRAMS)
        text = path.read_text()
        rounds = []
        for _ in range(args.rounds):
            one = {"shardy": shardy_round(text)}
            if args.xla:
                one.update(xla_round(path, 8))
                one["xla"] = one["shardy-xla"] + one["spmd-partitioning"]
            ours = meshwork(path, args.repeat)
            for stage in ("parse", "verify", "pipeline", "place", "compile"):
                one[stage] = ours[stage]["wall"]["median"]
            rounds.append(one)
        row = {"layers": layers, "ops": ours["ops"], "collectives": ours["collectives"]}
        row.update({name: summary([r[name] for r in rounds]) for name in rounds[0]})
        rows.append(row)
        show(row, args.xla)
    return rows


def show(row, xla):
    t = {name: (v["min"], v["median"]) for name, v in row.items() if isinstance(v, dict)}
    cell = lambda name: f"{t[name][0]:8.1f}/{t[name][1]:8.1f}"  # noqa: E731
    ratio = lambda a, b: f"{t[a][1] / t[b][1]:5.1f}x"  # noqa: E731
    line = f"{row['layers']:3} {row['ops']:6} | {cell('shardy')} {cell('pipeline')} {ratio('shardy', 'pipeline')}"
    line += f" {cell('place')} {ratio('shardy', 'place')}"
    if xla:
        line += f" | {cell('shardy-xla')} {cell('spmd-partitioning')} {cell('compile')} {ratio('xla', 'compile')}"
    print(line, flush=True)


def chain_text(layers):
    """A deep network of equal layers, split over "model" by turns, as text."""
    out = ['module {', '  sdy.mesh @mesh = <["data"=2, "model"=4]>', '  func.func @main(']
    sharding = '{sdy.sharding = #sdy.sharding<@mesh, [%s]>}'
    args = ['%x: tensor<64x512xf32> ' + sharding % '{"data"}, {}',
            '%u: tensor<512x2048xf32> ' + sharding % '{}, {"model"}',
            '%d: tensor<2048x512xf32> ' + sharding % '{"model"}, {}']
    out[-1] += ', '.join(args) + ') -> tensor<64x512xf32> {'
    a, b = 'tensor<64x512xf32>', 'tensor<64x2048xf32>'
    last = '%x'
    for i in range(layers):
        out += [f'    %a{i} = stablehlo.dot_general {last}, %u, contracting_dims = [1] x [0] : ({a}, tensor<512x2048xf32>) -> {b}',
                f'    %b{i} = stablehlo.tanh %a{i} : {b}', f'    %c{i} = stablehlo.multiply %a{i}, %b{i} : {b}',
                f'    %d{i} = stablehlo.add %c{i}, %b{i} : {b}',
                f'    %e{i} = stablehlo.dot_general %d{i}, %d, contracting_dims = [1] x [0] : ({b}, tensor<2048x512xf32>) -> {a}',
                f'    %f{i} = stablehlo.tanh %e{i} : {a}', f'    %g{i} = stablehlo.subtract %e{i}, {last} : {a}',
                f'    %h{i} = stablehlo.add %f{i}, %g{i} : {a}']
        last = f'%h{i}'
    return '\n'.join(out + [f'    return {last} : {a}', '  }', '}', ''])


def growth(args):
    rows = []
    for ops in (1000, 10_000, 100_000):
        path = PROGRAMS / f"chain_{ops}.mlir"
        path.write_text(chain_text(ops // 8))
        found = meshwork(path, args.repeat)
        row = {"ops": found["ops"], **{s: found[s]["wall"] for s in STAGES}}
        rows.append(row)
        each = {s: row[s]["median"] * 1e3 / row["ops"] for s in STAGES}
        print(f"{row['ops']:7} ops: " + ", ".join(f"{s} {row[s]['median']:.1f} ms ({each[s]:.2f} us each)" for s in each),
              flush=True)
    return rows


def large_mesh(args):
    rows = []
    for layers in (1, 8, 32):
        path = gpt.write(layers, (2, 4), PROGRAMS, wide=True)
        meshes = ("data=2,model=4", "data=256,model=256")
        rounds = [[meshwork(path, args.repeat, mesh) for mesh in meshes] for _ in range(args.rounds)]
        row = {"layers": layers}
        for stage in STAGES:
            small, large = ([r[i][stage]["wall"]["min"] for r in rounds] for i in range(2))
            row[stage] = {"8": min(small), "65536": min(large)}
        rows.append(row)
        print(f"{layers:3} layers: " + ", ".join(
            f"{s} {row[s]['8']:.1f} -> {row[s]['65536']:.1f} ms ({(row[s]['65536'] / row[s]['8'] - 1) * 100:+.0f}%)"
            for s in STAGES), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="1,2,4,8,16,32", type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--repeat", default=5, type=int)
    parser.add_argument("--no-xla", dest="xla", action="store_false")
    parser.add_argument("--only", choices=("xla", "growth", "mesh"))
    parser.add_argument("--json", default=gpt.ROOT / "target" / "bench" / "compile.json", type=pathlib.Path)
    parser.add_argument("--xla-child", help=argparse.SUPPRESS)
    parser.add_argument("--devices", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if args.xla_child:
        return xla_child(args.xla_child, args.devices)
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "meshwork-bench"], cwd=gpt.ROOT, check=True)
    out = {"processors": os.cpu_count(), "load before": os.getloadavg()}
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; min/median ms, ratios of medians")
    if args.only in (None, "xla"):
        print("layers ops | shardy, pipeline, ratio, place, ratio | xla: shardy, spmd; compile, ratio")
        out["xla"] = compare_with_xla(args)
    if args.only in (None, "growth"):
        out["growth"] = growth(args)
    if args.only in (None, "mesh"):
        out["mesh"] = large_mesh(args)
    out["load after"] = os.getloadavg()
    print(f"load after: {out['load after'][0]:.1f}")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
