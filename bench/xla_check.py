#!/usr/bin/env python3
"""Runs the per-device programs that `meshwork partition` prints in XLA and compares their results.

    pip install -r requirements.txt
    python xla_check.py --tool ../target/release/meshwork CORPUS [--filter REGEX]

CORPUS is a folder of programs NAME.mlir, each with a NAME.json that lists its "inputs" and "outputs": for each the
"file" of an array (.npy, relative to CORPUS), "dtype" (MLIR element type) and "shape", and the "tolerance" of the whole.
Only programs whose "kind" is "sharded" are run.  bf16 arrays are stored as uint16 and f8 arrays as uint8.

For each program: partition it, compile the text with as many partitions as the mesh has devices, cut the inputs as
`meshwork explain --json` says, run on as many CPU devices of XLA, join the results, compare with the recorded ones.
Status is 0 if all agree.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys

DEVICES = 8
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"

import jax  # noqa: E402  (the number of devices is read at import)
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from jax._src import compiler, xla_bridge  # noqa: E402
from jax._src.interpreters.mlir import make_ir_context  # noqa: E402
from jax._src.lib import _jax  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402

STORED_AS_BITS = {"bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


class Wrong(Exception):
    """What went wrong, and at which stage."""

    def __init__(self, stage, message):
        super().__init__(message)
        self.stage = stage


def call(tool, *args):
    done = subprocess.run([tool, *args], capture_output=True, text=True)
    if done.returncode:
        raise Wrong(args[0], done.stderr)
    return done.stdout


def boxes(sharding, mesh, shape):
    """For each device the start and the extent of its shard in each dimension; shards past the end are empty."""
    sizes = {axis["name"]: axis["size"] for axis in mesh["axes"]}
    count = int(np.prod(list(sizes.values())))
    ids = mesh["device_ids"] or range(count)
    out = [None] * count
    for position, device in enumerate(ids):
        coordinates = dict(zip(sizes, np.unravel_index(position, tuple(sizes.values()))))
        box = []
        for extent, axes in zip(shape, sharding):
            index, parts = 0, 1
            for axis in axes:
                name, pre, size = re.fullmatch(r"(.*?)(?::\((\d+)\)(\d+))?", axis).groups()
                pre, size = int(pre or 1), int(size or sizes[name])
                index = index * size + coordinates[name] // (sizes[name] // (pre * size)) % size
                parts *= size
            block = -(-extent // parts)
            box.append((index * block, block))
        out[device] = box
    return out


def inside(box, shape):
    """The part of a box inside an array of this shape."""
    return tuple(slice(min(start, n), min(start + size, n)) for (start, size), n in zip(box, shape))


def cut(array, box):
    part = array[inside(box, array.shape)]
    shard = np.zeros([size for _, size in box], array.dtype)
    shard[tuple(slice(0, n) for n in part.shape)] = part
    return shard


def join(shards, per_device, shape):
    whole = np.zeros(shape, shards[0].dtype)
    for shard, box in zip(shards, per_device):
        where = inside(box, shape)
        whole[where] = shard[tuple(slice(0, s.stop - s.start) for s in where)]
    return whole


def compile_text(text, context, devices):
    options = compiler.get_compile_options(1, len(devices), np.arange(len(devices)).reshape(1, -1))
    options.executable_build_options.use_spmd_partitioning = True
    options.executable_build_options.use_shardy_partitioner = False
    backend = xla_bridge.get_backend("cpu")
    with context:
        try:
            module = ir.Module.parse(text)
        except Exception as error:
            raise Wrong("parse", str(error)) from error
        try:
            return compiler.backend_compile_and_load(backend, module, _jax.DeviceList(tuple(devices)), options, [])
        except Exception as error:
            raise Wrong("compile", str(error)) from error


def execute(program, inputs, plan, devices):
    """Results per output and device."""
    mesh = Mesh(np.array(devices), ("device",))
    arguments = []
    for array, argument in zip(inputs, plan["arguments"]):
        shards = [cut(array, box) for box in boxes(argument["sharding"], plan["mesh"], array.shape)]
        local = shards[0].shape
        # Any global shape will do whose shards are these: XLA sees the shards.
        spec, shape = (PartitionSpec("device"), (len(devices) * local[0], *local[1:])) if local else (PartitionSpec(), ())
        placed = [jax.device_put(shard, device) for shard, device in zip(shards, devices)]
        arguments.append(jax.make_array_from_single_device_arrays(shape, NamedSharding(mesh, spec), placed))
    try:
        results = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
        return [[np.asarray(shard) for shard in result] for result in results]
    except Exception as error:
        raise Wrong("run", str(error)) from error


def difference(got, want, tolerance):
    """What is wrong with `got`; None if nothing."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind in "biu":
        count = int((got != want).sum())
        return f"{count} of {want.size} differ" if count else None
    wide = np.complex128 if np.iscomplexobj(want) else np.float64
    got, want = got.astype(wide), want.astype(wide)
    with np.errstate(all="ignore"):
        apart = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, np.abs(got - want))
    apart = np.where(np.isnan(apart), np.inf, apart)
    scale = max(1.0, float(np.max(np.where(np.isfinite(want), np.abs(want), 0), initial=0)))
    error = float(apart.max(initial=0)) / scale
    return None if error <= max(tolerance, 1e-7) else f"off by {error:.1e} of the largest element"


def check(tool, corpus, name, info, context, devices):
    path = os.path.join(corpus, name + ".mlir")
    plan = json.loads(call(tool, "explain", "--json", path))
    program = compile_text(call(tool, "partition", path), context, devices)

    def load(entry):
        array = np.load(os.path.join(corpus, entry["file"]))
        return array.view(STORED_AS_BITS[entry["dtype"]]) if entry["dtype"] in STORED_AS_BITS else array

    results = execute(program, [load(entry) for entry in info["inputs"]], plan, devices)
    for i, (shards, entry, result) in enumerate(zip(results, info["outputs"], plan["results"])):
        want = load(entry)
        got = join(shards, boxes(result["sharding"], plan["mesh"], want.shape), want.shape)
        if message := difference(got, want, info["tolerance"]):
            raise Wrong("compare", f"result {i}: {message}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--tool", required=True, help="the meshwork command")
    parser.add_argument("--filter", default="", help="only programs whose name matches")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    context = make_ir_context()
    devices = xla_bridge.get_backend("cpu").local_devices()
    count = collections.Counter()
    for file in sorted(os.listdir(args.corpus)):
        name, extension = os.path.splitext(file)
        if extension != ".mlir" or not re.search(args.filter, name):
            continue
        with open(os.path.join(args.corpus, name + ".json")) as f:
            info = json.load(f)
        if info["kind"] != "sharded":
            continue
        try:
            check(args.tool, args.corpus, name, info, context, devices)
            stage, message = "ok", ""
        except Wrong as wrong:
            stage, message = wrong.stage, " ".join(str(wrong).split())[:300]
        count[stage] += 1
        print(f"{stage:10} {name:40} {message}".rstrip(), flush=True)
    print(f"{count['ok']} of {count.total()} agree", dict(count))
    return 0 if count["ok"] == count.total() else 1


if __name__ == "__main__":
    sys.exit(main())
