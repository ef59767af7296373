"""The shared library: PJRT plugin and tools in one file, called through ctypes."""

import ctypes
import functools
import json
import os
import pathlib

# A build of one's own can be tried without a wheel.
PATH = pathlib.Path(os.environ.get("MESHWORK_LIBRARY") or pathlib.Path(__file__).parent / "libmeshwork_plugin.so")


class Error(Exception):
    """A program that Meshwork cannot read, place or split, or a wrong argument."""


class ContractError(AssertionError):
    """A program that communicates more than its contract or lock file says."""


class _Answer(ctypes.Structure):
    _fields_ = [
        ("status", ctypes.c_int32),
        ("text", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("owner", ctypes.c_void_p),
    ]


@functools.cache
def load():
    """The library."""
    found = ctypes.CDLL(os.fspath(PATH))
    text = [ctypes.c_char_p, ctypes.c_size_t]
    found.meshwork_tool.argtypes = text * 3
    found.meshwork_tool.restype = _Answer
    found.meshwork_callback_users.argtypes = [ctypes.c_int64]
    found.meshwork_callback_users.restype = ctypes.c_size_t
    found.meshwork_register_handler.argtypes = [*text, ctypes.c_void_p]
    found.meshwork_register_handler.restype = None
    found.meshwork_free.argtypes = [_Answer]
    found.meshwork_free.restype = None
    return found


def tool(name, program, **options):
    """The text that a tool of the library answers."""
    name, options = name.encode(), json.dumps(options).encode()
    answer = load().meshwork_tool(name, len(name), program, len(program), options, len(options))
    text = ctypes.string_at(answer.text, answer.size).decode()
    status = answer.status
    load().meshwork_free(answer)
    if status == 1:
        raise ContractError(text)
    if status == 2:
        raise Error(text)
    return text
