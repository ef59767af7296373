"""Registers the plugin with JAX."""

import os

from jax_meshwork import library

PLATFORM = "meshwork"

# Below the CPU backend, which has 0: Meshwork is used only when `JAX_PLATFORMS` asks for it.
PRIORITY = -100


def register():
    """Called once, when JAX looks for backends. Nothing here may be slow: it happens in every JAX program."""
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    xla_bridge.register_plugin(PLATFORM, priority=PRIORITY, library_path=os.fspath(library.PATH))
    # JAX marks donated arguments for the platforms in this list only.
    donating = mlir._platforms_with_donation
    if PLATFORM not in donating:
        donating.append(PLATFORM)

    from jax_meshwork import callbacks, foreign, linalg, partitioning, ragged

    callbacks.register(PLATFORM)
    foreign.register(PLATFORM)
    linalg.register(PLATFORM)
    partitioning.register(PLATFORM)
    ragged.register(PLATFORM)
