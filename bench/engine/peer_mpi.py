#!/usr/bin/env python3
"""The stencils and the addition in numpy on the ranks of mpi4py, each with a block of rows and its neighbors' edges;
commands as in peer_numpy.py, read by rank 0.
"""
import pathlib
import sys
import time

import numpy as np
from mpi4py import MPI

from peer import serve
from problems import HEAT1D, HEAT2D, LIFE

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


def exchange(x, periodic):
    """Fills the first and last row of a block with what the neighbors have next to it."""
    before, after = RANK - 1, RANK + 1
    if periodic:
        before, after = before % SIZE, after % SIZE
    else:
        before, after = (n if 0 <= n < SIZE else MPI.PROC_NULL for n in (before, after))
    WORLD.Sendrecv(x[1:2], before, 0, x[-1:], after, 0)
    WORLD.Sendrecv(x[-2:-1], after, 1, x[:1], before, 1)


def inner(x):
    """The rows of a block that change: not the neighbors', nor the edge of the whole."""
    return slice(1 + (RANK == 0), len(x) - 1 - (RANK == SIZE - 1))


def heat1d(x):
    rows = inner(x)
    a, b = rows.start, rows.stop
    for _ in range(HEAT1D["steps"]):
        exchange(x, False)
        x[rows] += x.dtype.type(0.25) * (x[a + 1:b + 1] - 2 * x[rows] + x[a - 1:b - 1])
    return x


def heat2d(x):
    rows = inner(x)
    a, b = rows.start, rows.stop
    for _ in range(HEAT2D["steps"]):
        exchange(x, False)
        around = x[a - 1:b - 1, 1:-1] + x[a + 1:b + 1, 1:-1] + x[rows, :-2] + x[rows, 2:] - 4 * x[rows, 1:-1]
        x[rows, 1:-1] += np.float32(0.2) * around
    return x


def life(x):
    for _ in range(LIFE["steps"]):
        exchange(x, True)
        rows = x[:-2] + x[1:-1] + x[2:]
        around = np.roll(rows, 1, 1) + rows + np.roll(rows, -1, 1) - x[1:-1]
        x[1:-1] = (around == 3) | ((x[1:-1] == 1) & (around == 2))
    return x


def add(a, b):
    return a + b


FUNCTIONS = {"heat1d": heat1d, "heat2d": heat2d, "life": life, "add": add}


class Peer:
    """What one rank does."""

    def prepare(self, problem, variant, directory):
        self.function = FUNCTIONS[problem.split()[0]]
        paths = sorted(pathlib.Path(directory).glob("*.npy"), key=lambda p: int(p.stem))
        whole = [np.load(p, mmap_mode="r") for p in paths]
        share = [range(len(x) * RANK // SIZE, len(x) * (RANK + 1) // SIZE) for x in whole]
        self.blocks = [np.pad(np.array(x[r.start:r.stop]), [(1, 1)] + [(0, 0)] * (x.ndim - 1))
                       for x, r in zip(whole, share)]
        return {}

    def run(self, count):
        seconds = 0
        for _ in range(int(count)):
            blocks = [b.copy() for b in self.blocks]
            WORLD.Barrier()
            start = time.perf_counter()
            result = self.function(*blocks)
            WORLD.Barrier()
            seconds += time.perf_counter() - start
        mine = result[1:-1].astype(np.float64)
        total, size = (WORLD.allreduce(float(x)) for x in (mine.sum(), np.abs(mine).sum()))
        return {"seconds": seconds / int(count), "checksum": total, "magnitude": size}


class Root:
    """Rank 0: sends the others each problem, and runs it too."""

    def __init__(self):
        self.peer = Peer()

    def __getattr__(self, command):
        def call(*words):
            WORLD.bcast((command, words))
            return getattr(self.peer, command)(*words)
        return call


if __name__ == "__main__":
    if RANK == 0:
        serve(Root())
        WORLD.bcast(None)
        sys.exit()
    mine = Peer()
    while (command := WORLD.bcast(None)) is not None:
        getattr(mine, command[0])(*command[1])
