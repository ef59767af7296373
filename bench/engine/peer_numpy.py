#!/usr/bin/env python3
"""The stencils, the addition and many rows of the families in numpy and scipy; commands as in peer_jax.py: prepare PROBLEM VARIANT DIRECTORY, run COUNT."""
import pathlib
import time

import numpy as np

from peer import checksums, serve
from families.others import numpy_functions
from problems import HEAT1D, HEAT2D, LIFE


def heat1d(x):
    x = x.copy()
    for _ in range(HEAT1D["steps"]):
        x[1:-1] += x.dtype.type(0.25) * (x[2:] - 2 * x[1:-1] + x[:-2])
    return x


def heat2d(x):
    x = x.copy()
    for _ in range(HEAT2D["steps"]):
        x[1:-1, 1:-1] += np.float32(0.2) * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1])
    return x


def life(x):
    for _ in range(LIFE["steps"]):
        rows = np.roll(x, 1, 0) + x + np.roll(x, -1, 0)
        around = np.roll(rows, 1, 1) + rows + np.roll(rows, -1, 1) - x
        x = ((around == 3) | ((x == 1) & (around == 2))).astype(np.uint8)
    return x


FUNCTIONS = {"heat1d": heat1d, "heat2d": heat2d, "life": life, "add": np.add}


class Peer:
    def prepare(self, problem, variant, directory):
        self.function = FUNCTIONS.get(problem.split()[0]) or numpy_functions()[problem, variant]
        paths = sorted(pathlib.Path(directory).glob("*.npy"), key=lambda p: int(p.stem))
        self.inputs = [np.load(p) for p in paths]
        return {}

    def run(self, count):
        start = time.perf_counter()
        for _ in range(int(count)):
            result = self.function(*self.inputs)
        return {"seconds": (time.perf_counter() - start) / int(count), **checksums(result)}


if __name__ == "__main__":
    serve(Peer())
