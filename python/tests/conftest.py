"""Eight devices of Meshwork beside XLA's CPU backend, whose numbers are the reference."""

import os

os.environ.setdefault("MESHWORK_DEVICES", "8")
os.environ.setdefault("JAX_PLATFORMS", "meshwork,cpu")

pytest_plugins = ["jax_meshwork.testing", "pytester"]
