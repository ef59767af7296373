"""Eight devices of Meshwork beside XLA's CPU backend, whose numbers are the reference."""

import os

os.environ.setdefault("MESHWORK_DEVICES", "8")
# None of these programs may leave anything to the evaluator.
os.environ.setdefault("MESHWORK_FALLBACKS", "refuse")
os.environ.setdefault("JAX_PLATFORMS", "meshwork,cpu")

pytest_plugins = ["jax_meshwork.testing", "pytester"]
