#!/usr/bin/env python3
"""Writes the bytecode of the programs in this folder, with the StableHLO of an installed jax.

NAME.mlirbc is in the newest version of the format, NAME.1.0.mlirbc in the oldest, where it can say the same.
exported.bin is what jax.export makes of a small function.
"""
import pathlib

import jax
import jax.numpy as jnp
from jax._src.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

HERE = pathlib.Path(__file__).parent
# File names without the folder that this happens to lie in.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")


def serialize(program, version):
    with mlir.make_ir_context():
        return stablehlo.serialize_portable_artifact(ir.Module.parse(program.read_text()), version, True)


def exported(x, w):
    return jnp.tanh(x @ w).sum(axis=0)


for program in sorted(HERE.glob("*.mlir")):
    program.with_suffix(".mlirbc").write_bytes(serialize(program, stablehlo.get_current_version()))
    if program.stem not in ("newest", "types"):
        program.with_suffix(".1.0.mlirbc").write_bytes(serialize(program, "1.0.0"))
(n,) = jax.export.symbolic_shape("n")
args = (jax.ShapeDtypeStruct((n, 3), jnp.float32), jax.ShapeDtypeStruct((3, 2), jnp.float32))
(HERE / "exported.bin").write_bytes(jax.export.export(jax.jit(exported))(*args).serialize())
