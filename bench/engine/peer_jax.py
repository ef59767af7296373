#!/usr/bin/env python3
"""Runs the benchmark's problems in JAX, one command a line on standard input, one line of JSON per answer.

  lower PROBLEM VARIANT MESH     traces it
  export DIRECTORY               writes what was traced as StableHLO text and .npy inputs
  prepare                        compiles what was traced, puts its inputs on the devices, and runs it once
  forget                         gives back its memory
  run COUNT                      runs it COUNT times: seconds per run; the sum of the result, and of its magnitudes

The words are separated by tabs; MESH is written 2x4. Arguments: the number of devices, and the platform, cpu by default.
"""
import os
import pathlib
import sys
import time

os.environ["JAX_PLATFORMS"] = sys.argv[2] if len(sys.argv) > 2 else "cpu"
os.environ["MESHWORK_DEVICES"] = sys.argv[1]
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={sys.argv[1]}"

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec  # noqa: E402

jax.config.update("jax_enable_x64", False)

from peer import checksums, serve  # noqa: E402
from families import families  # noqa: E402
from problems import PROBLEMS  # noqa: E402

PROBLEMS = {p.name: p for p in PROBLEMS + families()}


class Peer:
    def lower(self, problem, variant, mesh):
        self.compiled = self.inputs = None  # the memory of the problem before
        problem = PROBLEMS[problem]
        shape = tuple(map(int, mesh.split("x")))
        jax.config.update("jax_enable_x64", "f64" in problem.name + variant)
        self.built = built = problem.build(variant, shape)
        shape = shape[: len(built.axes)] + (1,) * (len(built.axes) - len(shape))
        self.mesh = jax.make_mesh(shape, built.axes, axis_types=(AxisType.Auto,) * len(shape))
        place = lambda spec: NamedSharding(self.mesh, PartitionSpec(*spec))
        self.into = tuple(map(place, built.specs))
        out = None if built.out_specs is None else list(map(place, built.out_specs))
        flat = lambda *args: jax.tree.leaves(built.function(*args))
        with jax.set_mesh(self.mesh):
            start = time.perf_counter()
            jitted = jax.jit(flat, in_shardings=self.into, out_shardings=out, keep_unused=True)
            self.lowered = jitted.lower(*built.inputs)
        return {"lower": time.perf_counter() - start}

    def prepare(self):
        with jax.set_mesh(self.mesh):
            start = time.perf_counter()
            self.compiled = self.lowered.compile()
            seconds = time.perf_counter() - start
            self.inputs = [jax.device_put(x, s) for x, s in zip(self.built.inputs, self.into)]
        self.run(1)
        return {"compile": seconds}

    def export(self, directory):
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "program.mlir").write_text(self.lowered.as_text())
        for i, x in enumerate(self.built.inputs):
            np.save(directory / f"{i}.npy", x)
        return {"inputs": len(self.built.inputs)}

    def forget(self):
        self.compiled = self.inputs = self.lowered = self.built = None
        return {}

    def run(self, count):
        start = time.perf_counter()
        for _ in range(int(count)):
            results = self.compiled(*self.inputs)
            jax.block_until_ready(results)
        seconds = (time.perf_counter() - start) / int(count)
        return {"seconds": seconds, **checksums(np.asarray(results[self.built.check]))}


if __name__ == "__main__":
    serve(Peer())
