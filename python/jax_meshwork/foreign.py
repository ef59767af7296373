"""Functions of other libraries: what `jax.ffi.register_ffi_target(name, fn, platform="meshwork")` registers."""

import ctypes

from jax_meshwork import library

TYPED = 1


def _address(capsule):
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


def _register(name, function, platform, api_version, traits):
    """Called by JAX for each function."""
    if api_version != TYPED:
        raise NotImplementedError(f"{name}: Meshwork calls functions of the typed FFI (api_version=1), not {api_version}")
    stages = dict(function) if isinstance(function, dict) else {"execute": function}
    if set(stages) != {"execute"}:
        raise NotImplementedError(f"{name}: Meshwork calls the stage execute only, not {', '.join(sorted(stages))}")
    name = name.encode() if isinstance(name, str) else name
    library.load().meshwork_register_handler(name, len(name), _address(stages["execute"]))


def register(platform):
    from jaxlib import xla_client

    xla_client.register_custom_call_handler(platform, _register)
