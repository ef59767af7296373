#!/usr/bin/env python3
"""Records what JAX gives for zeros of both signs, NaN, infinities and the ends of integers.

  record_special_values.py [OUT]     (default: crates/meshwork/tests/data/special_values.npz)

For crates/meshwork/tests/special_values.rs. Names of the arrays:

  TYPE/x, TYPE/a, TYPE/b           the arguments: single values, and all pairs of them
  TYPE/rows, TYPE/factors          rows of each length of LENGTHS, one after the other; those of factors have no large numbers
  TYPE/KIND/FUNCTION               results; a row function's are one after the other too
  TYPE/KIND/FUNCTION/d0 (and d1)   gradients by each argument, with cotangents of 1
  TYPE-subnormal/…                 the same for subnormal numbers and others near zero

Results of 16-bit floats are kept as f32, booleans as bytes. XLA's CPU backend takes subnormal numbers for zeros, and Meshwork
does not: there are none among the arguments, and of functions that IEEE 754 rounds correctly NumPy gives the results for them.
"""
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

jax.config.update("jax_enable_x64", True)
HERE = pathlib.Path(__file__).resolve().parent
INF, NAN = np.inf, np.nan
FLOATS = [0.0, -0.0, NAN, INF, -INF, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 127.5, 300.0, -300.0,
          2.0 ** 31, -2.0 ** 31, 3e9, 1e20, -1e20]
PAIRED = [0.0, -0.0, NAN, INF, -INF, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e5]
LENGTHS = [1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 40]

UNARY = {
    "neg": lax.neg, "abs": lax.abs, "sign": lax.sign, "floor": lax.floor, "ceil": lax.ceil, "round": jnp.round,
    "sin": lax.sin, "cos": lax.cos, "tan": lax.tan, "tanh": lax.tanh, "sinh": lax.sinh, "cosh": lax.cosh,
    "asin": lax.asin, "acos": lax.acos, "atan": lax.atan, "exp": lax.exp, "expm1": lax.expm1, "log": lax.log,
    "log1p": lax.log1p, "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "cbrt": lax.cbrt, "sigmoid": lax.logistic,
    "erf": lax.erf, "erf_inv": lax.erf_inv, "lgamma": lax.lgamma, "digamma": lax.digamma,
    "square": lax.square, "recip": lambda x: 1 / x, "relu": jax.nn.relu, "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False), "softplus": jax.nn.softplus,
    "clamp": lambda x: jnp.clip(x, -1, 2),
}
TESTS = {"is_finite": lax.is_finite, "is_nan": jnp.isnan}
CONVERSIONS = ["int8", "int32", "int64", "uint8", "uint32", "uint64", "bool", "float16", "bfloat16", "float32",
               "float64"]
BINARY = {
    "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "pow": lax.pow, "atan2": lax.atan2,
    "maximum": jnp.maximum, "minimum": jnp.minimum,
}
COMPARISONS = {"eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}
ROWS = {
    "sum": jnp.sum, "max": jnp.max, "min": jnp.min, "cumsum": jnp.cumsum,
    "cummax": lax.cummax, "cummin": lax.cummin, "sort": jnp.sort, "logsumexp": jax.scipy.special.logsumexp,
    "softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax,
    "top_k": lambda x: lax.top_k(x, min(3, x.shape[0]))[0],
}
PRODUCTS = {"prod": jnp.prod, "cumprod": jnp.cumprod}
PLACES = {
    "argmax": jnp.argmax, "argmin": jnp.argmin, "argsort": jnp.argsort,
    "top_k_places": lambda x: lax.top_k(x, min(3, x.shape[0]))[1],
}
WHOLE = {"add", "sub", "mul", "div", "rem", "maximum", "minimum"}


def plain(x):
    """In a type that NumPy's files name."""
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype in (jnp.bfloat16, np.float16) else x.astype(np.uint8) if x.dtype == bool else x


def gradients(f, *args):
    out, back = jax.vjp(f, *args)
    return back(jnp.ones_like(out))


def rows_of(values, seed):
    """Rows of all lengths: some of ordinary values, some with one special value, some with many."""
    rng = np.random.default_rng(seed)
    ordinary = [v for v in values if np.isfinite(v) and abs(v) <= 3]
    out = []
    for i, n in enumerate(LENGTHS):
        for special in range(6):
            row = rng.choice(ordinary if special < 5 else values, n)
            if special > 0:
                # One of 0, -0, NaN, ∞ and -∞ among ordinary values.
                row[rng.integers(n)] = values[(special - 1 + i) % 5]
            out.append(row)
        # Zeros of both signs are the largest, or the smallest.
        out.append(rng.choice([0.0, -0.0, -1.0, -INF], n))
        out.append(rng.choice([0.0, -0.0, 1.0, INF], n))
    return out


def factors():
    """Rows of numbers whose products are exact and finite, in most of them one special value or two."""
    rng = np.random.default_rng(3)
    special = [0.0, -0.0, NAN, INF, -INF]
    out = []
    for i, n in enumerate(LENGTHS):
        for kind in range(8):
            row = rng.choice([1.0, -1.0, 0.5, 2.0, -1.0, 1.0], n)
            for k in range(min(kind, 2)):
                row[rng.integers(n)] = special[(i + kind + k * kind) % 5]
            out.append(row)
    return out


def record_rows(name, functions, rows, smooth, out):
    for key, f in functions.items():
        f = jax.jit(f)
        out[f"{name}/{key}"] = np.concatenate([np.ravel(plain(f(r))) for r in rows])
        if smooth and key not in PLACES:
            slope = jax.jit(lambda x: gradients(f, x)[0])
            out[f"{name}/{key}/d0"] = np.concatenate([plain(slope(r)) for r in rows])


def record_floats(name, dtype, smooth, out):
    dtype = jnp.dtype(dtype)
    x = np.array(FLOATS).astype(dtype)
    a, b = (np.array(v).astype(dtype) for v in zip(*[(p, q) for p in PAIRED for q in PAIRED]))
    rows = [r.astype(dtype) for r in rows_of(FLOATS, 1)]
    out |= {f"{name}/x": plain(x), f"{name}/a": plain(a), f"{name}/b": plain(b),
            f"{name}/rows": plain(np.concatenate(rows))}
    for key, f in (UNARY | TESTS).items():
        out[f"{name}/unary/{key}"] = plain(jax.jit(f)(x))
        if smooth and key in UNARY:
            out[f"{name}/unary/{key}/d0"] = plain(jax.jit(lambda x: gradients(f, x))(x)[0])
    for to in CONVERSIONS:
        if jnp.dtype(to) != dtype:
            out[f"{name}/to/{to}"] = plain(jax.jit(lambda x: lax.convert_element_type(x, to))(x))
    for key, f in (BINARY | COMPARISONS).items():
        out[f"{name}/binary/{key}"] = plain(jax.jit(f)(a, b))
        if smooth and key in BINARY:
            d = jax.jit(lambda a, b: gradients(f, a, b))(a, b)
            out |= {f"{name}/binary/{key}/d{i}": plain(g) for i, g in enumerate(d)}
    record_rows(f"{name}/rows", ROWS | PLACES, rows, smooth, out)
    rows = [r.astype(dtype) for r in factors()]
    out[f"{name}/factors"] = plain(np.concatenate(rows))
    record_rows(f"{name}/factors", PRODUCTS, rows, smooth, out)


def record_subnormals(name, dtype, out):
    """What NumPy gives, which computes with them."""
    name, dtype = f"{name}-subnormal", jnp.dtype(dtype)
    tiny = jnp.finfo(dtype).tiny
    values = [float(tiny) * v for v in (0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 1.5, 2.0)] + [0.0, 0.5, 1.0, 2.0, 3.0, INF, NAN]
    x = np.array(values + [-v for v in values]).astype(dtype)
    a, b = (np.ravel(v) for v in np.meshgrid(x, x))
    out |= {f"{name}/x": plain(x), f"{name}/a": plain(a), f"{name}/b": plain(b)}
    unary = {"neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
             "sqrt": np.sqrt, "square": lambda x: x * x, "recip": lambda x: np.ones_like(x) / x,
             "is_finite": np.isfinite, "is_nan": np.isnan}
    binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
              "minimum": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
              "gt": np.greater, "ge": np.greater_equal}
    with np.errstate(all="ignore"):
        out |= {f"{name}/unary/{key}": plain(f(x)) for key, f in unary.items()}
        out |= {f"{name}/binary/{key}": plain(f(a, b)) for key, f in binary.items()}
        for to in ["float16", "bfloat16", "float32", "float64"]:
            if jnp.dtype(to) != dtype:
                out[f"{name}/to/{to}"] = plain(x.astype(jnp.dtype(to)))


def record_integers(name, dtype, out):
    info = np.iinfo(dtype)
    values = sorted({int(v) for v in (info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max)}
                    | ({-1, -2, -7} if info.min < 0 else set()))
    x = np.array(values, dtype)
    a, b = (np.array(v, dtype) for v in zip(*[(p, q) for p in values for q in values]))
    rows = [np.random.default_rng(2).choice(x, n) for n in LENGTHS for _ in range(8)]
    out |= {f"{name}/x": x, f"{name}/a": a, f"{name}/b": b}
    out |= {f"{name}/{kind}": np.concatenate(rows) for kind in ("rows", "factors")}
    for key in ["abs", "sign", "neg"] if info.min < 0 else []:
        out[f"{name}/unary/{key}"] = jax.jit(UNARY[key])(x)
    for to in CONVERSIONS:
        if jnp.dtype(to) != x.dtype:
            out[f"{name}/to/{to}"] = plain(jax.jit(lambda x: lax.convert_element_type(x, to))(x))
    for key, f in (BINARY | COMPARISONS).items():
        if key in WHOLE | set(COMPARISONS):
            out[f"{name}/binary/{key}"] = plain(jax.jit(f)(a, b))
    ordered = {key: ROWS[key] for key in ("max", "min", "cummax", "cummin", "sort", "top_k")}
    record_rows(f"{name}/rows", ordered | PLACES, rows, False, out)
    # JAX's products of narrow integers are wider.
    products = {key: lambda x, f=f: f(x, dtype=x.dtype) for key, f in PRODUCTS.items()}
    record_rows(f"{name}/factors", products, rows, False, out)


def main():
    to = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "crates/meshwork/tests/data/special_values.npz"
    out = {"lengths": np.array(LENGTHS, np.int64)}
    for name, dtype, smooth in [("f32", "float32", True), ("f64", "float64", True), ("f16", "float16", False),
                                ("bf16", "bfloat16", False)]:
        record_floats(name, dtype, smooth, out)
        record_subnormals(name, dtype, out)
    for name, dtype in [("i8", np.int8), ("i32", np.int32), ("i64", np.int64), ("ui8", np.uint8), ("ui32", np.uint32)]:
        record_integers(name, dtype, out)
    np.savez_compressed(to, **{k: np.asarray(v) for k, v in out.items()})
    print(f"{to}: {len(out)} arrays, {to.stat().st_size} bytes")


if __name__ == "__main__":
    main()
