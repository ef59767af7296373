"""Contracts in tests: `pytest -p jax_meshwork.testing`, or `pytest_plugins = ["jax_meshwork.testing"]`.

    def test_step_only_reduces(contract):
        contract(jax.jit(step), state, batch, allow=["all-reduce"])

    def test_step_is_as_recorded(contract):
        contract(jax.jit(step), state, batch, lock="step.lock")

Paths of lock files are relative to the test's file.
"""

import pathlib

import pytest

import jax_meshwork


@pytest.fixture
def contract(request):
    """Fails the test if a function communicates more than its contract or lock file says."""

    def hold(function, *args, lock=None, **limits):
        if lock is not None:
            lock = pathlib.Path(request.path).parent / lock
        try:
            jax_meshwork.check(function, *args, lock=lock, **limits)
        except jax_meshwork.ContractError as error:
            pytest.fail(str(error), pytrace=False)

    return hold
