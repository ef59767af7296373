"""Lowering rules of JAX's linear algebra for the platform "meshwork".

JAX picks the rule of a primitive by the name of the platform. Meshwork reads the LAPACK calls that the rules for CPUs
make (``lapack_sgesdd_ffi``, ...) and computes them with kernels of its own, so those rules serve here too. Primitives
that have a StableHLO operation or a rule in plain JAX keep their default rule.
"""

from jax._src.interpreters import mlir
from jax._src.lax import linalg

# Primitives whose default rule is missing, or slower than the call.
PRIMITIVES = (
    "eig_p",
    "eigh_p",
    "geqp3_p",
    "geqrf_p",
    "hessenberg_p",
    "householder_product_p",
    "lu_p",
    "ormqr_p",
    "schur_p",
    "svd_p",
    "tridiagonal_p",
    "tridiagonal_solve_p",
)


def register(platform="meshwork"):
    """Registers the rules. The platform must be known to JAX."""
    cpu_rules = mlir._platform_specific_lowerings["cpu"]
    for name in PRIMITIVES:
        primitive = getattr(linalg, name, None)
        entry = cpu_rules.get(primitive)
        if entry is not None:
            mlir.register_lowering(primitive, entry.rule, platform=platform, inline=entry.inline)
