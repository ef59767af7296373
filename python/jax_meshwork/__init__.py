"""Meshwork for JAX: a backend that places, splits and runs programs, and a look at what it does.

With this package installed, `JAX_PLATFORMS=meshwork` runs a program on Meshwork. The functions here work for functions of
any backend: they take what `jax.jit(f).lower(...)` returns, an `Exported`, MLIR text or bytecode, or a function with its
arguments.

    lowered = jax.jit(step).lower(state, batch)
    print(jax_meshwork.explain(lowered))
    jax_meshwork.check(lowered, allow=["all-reduce"], max_bytes=1_000_000)
"""

import html
import json
import os
import pathlib

from jax_meshwork.library import ContractError, Error, tool
from jax_meshwork.planning import Found, search

__all__ = ["ContractError", "Error", "Found", "Page", "Plan", "Text", "check", "explain", "explore", "lock", "partition", "plan", "why"]
__version__ = "0.1.0"


class Text(str):
    """Text that prints as it is, and shows as a page in notebooks."""

    def __new__(cls, text, html=None):
        made = super().__new__(cls, text)
        made._html = html
        return made

    def __repr__(self):
        return str(self)

    def _repr_html_(self):
        return self._html() if self._html else None


class Plan(dict):
    """A plan as data: mesh, arguments, results, collectives, totals, flops, peak."""

    def __init__(self, data, html):
        super().__init__(data)
        self._html = html

    def _repr_html_(self):
        return self._html()


class Page:
    """One HTML page with everything inside."""

    def __init__(self, html):
        self.html = html

    def write(self, path):
        """Writes the page to a file, and returns its path."""
        path = pathlib.Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self):
        """The page as a frame of a notebook."""
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:720px;border:0"></iframe>'


def _program(program, args, kwargs):
    """The bytes of a program, with the places in the user's files."""
    if isinstance(program, str):
        return program.encode()
    if isinstance(program, (bytes, bytearray)):
        return bytes(program)
    if hasattr(program, "mlir_module_serialized"):
        return program.mlir_module_serialized
    if hasattr(program, "compiler_ir"):
        return program.as_text(debug_info=True).encode()
    if hasattr(program, "lower"):
        return _program(program.lower(*args, **kwargs), (), {})
    if callable(program):
        import jax

        return _program(jax.jit(program).lower(*args, **kwargs), (), {})
    raise TypeError(f"{type(program).__name__} is no lowered function, exported function, MLIR text or bytecode")


def _asker(program, args, kwargs):
    """A function that asks the tools about a program."""
    source, shapes = _program(program, args, kwargs), None
    if hasattr(program, "mlir_module_serialized") and (args or kwargs):
        # An exported function may leave extents open: those of the arguments fill them in.
        import jax

        leaves = jax.tree.leaves((args, kwargs))
        shapes = [jax.numpy.shape(leaves[i]) for i in program.module_kept_var_idx]
    return lambda name, **options: tool(name, source, shapes=shapes, **options)


def explain(program, *args, all=False, **kwargs):
    """What splitting the program costs, and why: every collective, the operation that needs it, its bytes."""
    ask = _asker(program, args, kwargs)
    return Text(ask("explain", all=all), lambda: ask("html"))


def explore(program, *args, title="program", lock=None, profile=None, budget=None, **kwargs):
    """A page that shows the program, its shardings, its plan and a run. `explore(lowered).write("page.html")`.

    lock     a lock file: the page shows what changed since
    profile  a trace of a run for Chrome or Perfetto: the page shows it beside the simulated run
    budget   bytes of memory of a device, drawn into the picture of its memory
    """
    options = dict(title=title, budget=budget)
    if lock is not None:
        options.update(lock=pathlib.Path(lock).read_text(), lock_name=os.fspath(lock))
    if profile is not None:
        options.update(profile=pathlib.Path(profile).read_text())
    return Page(_asker(program, args, kwargs)("explore", **options))


def why(program, *args, value="result0", dim=None, **kwargs):
    """How an argument (`arg0`) or result (`result0`) came to be placed as it is."""
    return Text(_asker(program, args, kwargs)("why", value=value, dim=dim))


def plan(
    program,
    *args,
    mesh=None,
    devices=None,
    machine=None,
    memory=None,
    fix=None,
    forbid=None,
    even_only=False,
    fresh=False,
    seconds=60.0,
    evaluations=None,
    **kwargs,
):
    """The plan as data; with `mesh` or `devices`, a search for the placements that take the least time.

    mesh         axes and sizes, as `{"data": 2, "model": 4}`: searches, and returns a `Found` with `PartitionSpec`s
    devices      a number of devices: the search chooses the mesh as well
    machine      a machine by name (`"h100"`), or the text of a machine file
    memory       the most bytes a device may need
    fix          placements that are given, `{"wq$": "-,model"}`: a pattern over the names of arguments, and for each dimension `-`,
                 an axis, or several with `+`
    forbid       axes or dimensions that do not split an argument, `[("embed", 0), ("bias", "model")]`
    even_only    axes split only extents that they divide
    fresh        drops the annotations that the program has
    seconds      how long to search
    evaluations  how many plans to compile, in place of a time
    """
    ask = _asker(program, args, kwargs)
    if mesh is None and devices is None:
        return Plan(json.loads(ask("plan")), lambda: ask("html"))
    options = dict(
        mesh=None if mesh is None else [[name, size] for name, size in dict(mesh).items()],
        devices=devices,
        machine=machine,
        memory=memory,
        fix=[[pattern, spec] for pattern, spec in (fix or {}).items()],
        forbid=[[pattern, str(what)] for pattern, what in forbid or []],
        even_only=even_only,
        fresh=fresh,
        seconds=seconds,
        evaluations=evaluations,
    )
    return search(ask, options)


def partition(program, *args, **kwargs):
    """The program that each device runs, as MLIR text."""
    return Text(_asker(program, args, kwargs)("partition"))


def lock(program, *args, path=None, **kwargs):
    """What a lock file keeps of the plan. Written to `path`, if there is one."""
    text = _asker(program, args, kwargs)("lock")
    if path is not None:
        pathlib.Path(path).write_text(text)
    return Text(text)


def check(
    program,
    *args,
    allow=None,
    max_bytes=None,
    max_collective=None,
    nothing_implicit=False,
    region=None,
    lock=None,
    **kwargs,
):
    """Raises `ContractError` if the program communicates more than it may.

    allow             kinds of collectives it may use, as `["all-reduce"]`
    max_bytes         the most bytes a device may send in a run
    max_collective    the most bytes of operand a single collective may have
    nothing_implicit  only collectives, constraints and result placements that the program writes may communicate
    region            the limits hold for operations whose place (`model.py:12`) or traced name starts with it
    lock              a lock file, as `lock` writes it: nothing in it may have changed. With MESHWORK_UPDATE_LOCKS=1 it
                      is written instead, and so it is if it does not exist
    """
    ask = _asker(program, args, kwargs)
    limits = dict(
        allow=None if allow is None else list(allow),
        max_bytes=max_bytes,
        max_collective=max_collective,
        nothing_implicit=nothing_implicit,
        region=region,
    )
    if lock is not None:
        file = pathlib.Path(lock)
        if os.environ.get("MESHWORK_UPDATE_LOCKS") == "1" or not file.exists():
            file.write_text(ask("lock"))
        limits["lock"] = file.read_text()
    ask("check", **limits)
