"""Records what JAX computes of zeros of both signs, infinities and NaN, and its gradients there:
crates/meshwork/tests/data/special_values.txt. Run with jax 0.10.2 on the CPU.

Each line is a program, its element type, and its results: of each number of `numbers`, of each pair of them, or of each row
of `rows`, whose three numbers are chosen from them.
"""

import itertools
import random
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e30, float("inf"), float("-inf"), float("nan")]


def summed(f):
    return lambda *x: jnp.sum(f(*x).astype(jnp.float32))


def grad(f, argument=0):
    """The derivative of f by each element: of a row, that of its sum weighted by 1, 2, 3."""
    return jax.grad(summed(f), argument)


def weighted(f):
    def inner(x):
        y = f(x)
        weights = jnp.arange(1, y.shape[-1] + 1, dtype=y.dtype) if y.ndim == x.ndim else jnp.asarray(1, y.dtype)
        return y * weights

    return inner


ONE = {
    "abs": jnp.abs, "sign": lax.sign, "negate": lax.neg, "floor": lax.floor, "ceil": lax.ceil,
    "round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), "sqrt": lax.sqrt, "rsqrt": lax.rsqrt,
    "cbrt": lax.cbrt, "exp": lax.exp, "log": lax.log, "log1p": lax.log1p, "expm1": lax.expm1, "tanh": lax.tanh,
    "sigmoid": lax.logistic, "erf": lax.erf, "is_finite": lax.is_finite, "is_nan": jnp.isnan, "relu": jax.nn.relu,
    "square": lax.square, "clamp": lambda x: lax.clamp(jnp.asarray(-1, x.dtype), x, jnp.asarray(1, x.dtype)),
}
ONE |= {f"grad {n}": grad(ONE[n]) for n in ["sign", "relu", "clamp", "sqrt", "square", "tanh", "exp", "log"]}
TWO = {
    "maximum": lax.max, "minimum": lax.min, "eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt,
    "ge": lax.ge, "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "pow": lax.pow,
    "atan2": lax.atan2,
}
TWO |= {f"grad{i} {n}": grad(TWO[n], i) for n in ["maximum", "minimum", "mul", "div"] for i in [0, 1]}
ROW = {
    "max": lambda x: jnp.max(x, 1), "min": lambda x: jnp.min(x, 1), "argmax": lambda x: jnp.argmax(x, 1),
    "argmin": lambda x: jnp.argmin(x, 1), "sum": lambda x: jnp.sum(x, 1), "sort": lambda x: jnp.sort(x, 1),
    "argsort": lambda x: jnp.argsort(x, 1, stable=True), "cummax": lambda x: lax.cummax(x, 1),
    "cummin": lambda x: lax.cummin(x, 1), "top_k": lambda x: lax.top_k(x, 2)[0], "top_k_at": lambda x: lax.top_k(x, 2)[1],
    "logsumexp": lambda x: jax.nn.logsumexp(x, 1), "softmax": lambda x: jax.nn.softmax(x, 1),
}
ROW |= {f"grad {n}": grad(weighted(ROW[n])) for n in ["max", "min", "sort", "top_k", "cummax", "logsumexp"]}


def text(values):
    return " ".join(repr(float(v)).replace("e+", "e") for v in np.asarray(values).ravel())


def unsure(lines):
    """Where XLA gives NaN in one type and a number in the other, depending on what it fuses, the result is `?`."""
    out = dict(line.split(": ", 1) for line in lines)
    for name in [n for n in out if n.replace("f32", "bf16") in out and " f32 " in n]:
        both = [out[name].split(), out[name.replace("f32", "bf16")].split()]
        for i, (a, b) in enumerate(zip(*both)):
            if (a == "nan") != (b == "nan"):
                both[0][i] = both[1][i] = "?"
        out[name], out[name.replace("f32", "bf16")] = map(" ".join, both)
    return [f"{name}: {values}" for name, values in out.items()]


def main():
    random.seed(1)
    triples = list(itertools.product(NUMBERS, repeat=3))
    rows = random.sample(triples, 60) + [(0.0, -0.0, 0.0), (-0.0, 0.0, -0.0), (1.0, 1.0, 1.0)]
    lines = ["numbers: " + text(NUMBERS), "rows: " + text(rows)]
    pairs = np.array(list(itertools.product(NUMBERS, repeat=2)), np.float32)
    for dtype in ["f32", "bf16"]:
        to = {"f32": jnp.float32, "bf16": jnp.bfloat16}[dtype]
        some = dtype == "bf16"
        for kind, programs, args in [
            ("one", ONE, [np.array(NUMBERS, np.float32)]),
            ("two", TWO, [pairs[:, 0], pairs[:, 1]]),
            ("row", ROW, [np.array(rows, np.float32)]),
        ]:
            for name, f in programs.items():
                if some and name.split()[-1] not in ["maximum", "minimum", "sort", "max", "min", "argmax", "relu", "lt"]:
                    continue
                out = jax.jit(f)(*[jnp.asarray(a).astype(to) for a in args])
                lines.append(f"{kind} {dtype} {name}: {text(out.astype(jnp.float32))}")
    lines = unsure(lines)
    path = Path(__file__).parent.parent / "crates/meshwork/tests/data/special_values.txt"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
