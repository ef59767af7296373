"""Python functions called from inside programs: `pure_callback`, `io_callback`, `debug.print`, `debug.callback`, `check`.

JAX emits all of them through one function, which knows a fixed list of platforms. For this platform it is replaced by one
that emits `custom_call @meshwork_python_callback`, with the number of the function in a table here. The library calls
back through one pointer, with the number and the addresses of operands and results.
"""

import ctypes
import functools
import itertools
import traceback
import weakref

import numpy as np

from jax_meshwork import library

TARGET = "meshwork_python_callback"

_numbers = itertools.count(1)
_functions = {}
# Numbers of functions whose lowering is gone; a program that runs or waits may still call them.
_leaving = set()


def _leave(number):
    _leaving.add(number)
    users = library.load().meshwork_callback_users
    for number in [n for n in list(_leaving) if users(n) == 0]:
        _leaving.discard(number)
        _functions.pop(number, None)


class _Value(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_size_t),
        ("type", ctypes.c_char_p),
    ]


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_int64,
    ctypes.POINTER(_Value),
    ctypes.c_size_t,
    ctypes.POINTER(_Value),
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
)


@functools.cache
def _dtype(name):
    """The NumPy type of an element type of MLIR."""
    import ml_dtypes

    known = {"i1": "bool", "complex<f32>": "complex64", "complex<f64>": "complex128", "bf16": ml_dtypes.bfloat16}
    if name in known:
        return np.dtype(known[name])
    if name.startswith("f8") or name.startswith("f4") or name.startswith("f6"):
        kind, rest = name.split("E", 1)
        return np.dtype(getattr(ml_dtypes, f"float{kind[1:]}_e{rest.lower()}"))
    letters, bits = name.rstrip("0123456789"), name.lstrip("uif")
    word = {"i": "int", "ui": "uint", "f": "float"}[letters]
    return np.dtype(getattr(ml_dtypes, word + bits) if bits in ("2", "4") else word + bits)


def _array(value):
    """The elements that a value of the library has, in its own memory."""
    shape = tuple(value.dims[i] for i in range(value.rank))
    dtype = _dtype(value.type.decode())
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_ubyte * size).from_address(value.data)
    return np.frombuffer(memory, dtype=dtype).reshape(shape)


@_Callback
def _call(number, operands, operand_count, results, result_count, message, message_size):
    try:
        function = _functions[number]
        # Functions may keep what they are given, the library may not.
        given = [_array(operands[i]).copy() for i in range(operand_count)]
        made = function(*given)
        for i in range(result_count):
            np.copyto(_array(results[i]), made[i], casting="no")
        return 0
    except BaseException as error:  # It must not reach the library.
        text = f"CpuCallback error: {''.join(traceback.format_exception(error))}".encode()[: message_size - 1] + b"\0"
        ctypes.memmove(message, text, len(text))
        return 1


class _Kept:
    """Lives as long as the program that calls the function."""


def _emit(original, platform):
    """JAX's `emit_python_callback`, for this platform too."""

    @functools.wraps(original)
    def emit(ctx, callback, token, operands, operand_avals, result_avals, *, has_side_effect, **rest):
        from jax._src import core, dtypes
        from jax._src.interpreters import mlir
        from jax._src.sharding_impls import SdyArray, SdyArrayList, SPMDAxisContext

        if tuple(ctx.module_context.platforms) != (platform,):
            return original(
                ctx, callback, token, operands, operand_avals, result_avals, has_side_effect=has_side_effect, **rest
            )

        def checked(*args):
            values = callback(*args)
            if len(values) != len(result_avals):
                raise RuntimeError(
                    "Mismatched number of outputs from callback. "
                    f"Expected: {len(result_avals)}, Actual: {len(values)}"
                )
            values = tuple(dtypes.canonicalize_value(np.asarray(v)) for v in values)
            for i, (value, aval) in enumerate(zip(values, result_avals)):
                for what in ("shape", "dtype"):
                    expected, actual = getattr(aval, what), getattr(value, what)
                    if expected != actual:
                        raise RuntimeError(
                            f"Incorrect output {what} for return value #{i}: Expected: {expected}, Actual: {actual}"
                        )
            return values

        # Outside of shard_map a program speaks of whole arrays: the devices call the function once, together.
        context = ctx.module_context.axis_context
        together = 1 if isinstance(context, SPMDAxisContext) else getattr(context, "num_devices", 1)
        number, kept = next(_numbers), _Kept()
        _functions[number] = checked
        weakref.finalize(kept, _leave, number).atexit = False
        ctx.module_context.add_keepalive(kept)

        operands, results = list(operands), list(result_avals)
        if token:
            operands, results = [token, *operands], [core.abstract_token, *results]
        types = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in results]
        call = mlir.custom_call(
            TARGET,
            result_types=types,
            operands=operands,
            backend_config=f"{number},{together}",
            has_side_effect=has_side_effect or bool(token),
        )
        sharding = rest.get("sharding")
        # Of an ordered call that all devices make together, each has the token: it is not on one of them.
        if sharding is not None and not (token and together > 1):
            if token and result_avals and isinstance(sharding, SdyArrayList):
                # The token is where the first result is.
                devices = sharding.shardings[0].logical_device_ids
                place = SdyArray(mesh_shape=(), dim_shardings=(), logical_device_ids=devices)
                sharding = SdyArrayList((place, *sharding.shardings))
            mlir.set_sharding(ctx.module_context, call, sharding)
        values = list(call.results)
        if token:
            token, *values = values
        return values, token, kept

    return emit


def register(platform):
    """Lowering rules of everything that calls Python."""
    from jax._src import callback, checkify, debugging
    from jax._src.interpreters import mlir

    callback.emit_python_callback = _emit(callback.emit_python_callback, platform)
    mlir.register_lowering(debugging.debug_callback_p, debugging.debug_callback_lowering, platform=platform, cacheable=False)
    mlir.register_lowering(debugging.debug_print_p, debugging.debug_print_lowering_rule, platform=platform, cacheable=False)
    mlir.register_lowering(checkify.check_p, checkify.check_lowering_rule, platform=platform, cacheable=False)
    library.load().meshwork_set_callback(_call)
