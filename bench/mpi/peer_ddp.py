#!/usr/bin/env python3
"""The GPT training step in PyTorch's DistributedDataParallel over gloo, each rank with its part of the batch:
peer_ddp.py DIRECTORY COUNT, started by mpirun. Prints seconds per step and the first loss of the whole batch.
"""
import json
import os
import pathlib
import sys
import time

import numpy as np
import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "engine"))
import peer_torch  # noqa: E402

RANK, SIZE = (int(os.environ.get(f"OMPI_COMM_WORLD_{x}", os.environ.get(f"PMI_{x}", 0))) for x in ("RANK", "SIZE"))
LAYERS = 4


class Model(torch.nn.Module):
    def __init__(self, arrays):
        super().__init__()
        self.names = sorted(peer_torch.gpt.shapes(LAYERS, peer_torch.SIZES))
        self.arrays = torch.nn.ParameterList([torch.from_numpy(a.copy()) for a in arrays[: len(self.names)]])

    def forward(self, tokens, targets):
        return peer_torch.gpt_loss(dict(zip(self.names, self.arrays)), LAYERS, tokens, targets)


def main(directory, count):
    torch.set_num_threads(max(1, os.cpu_count() // SIZE))
    dist.init_process_group("gloo", rank=RANK, world_size=SIZE)
    paths = sorted(pathlib.Path(directory).glob("*.npy"), key=lambda p: int(p.stem))
    arrays = [np.load(p) for p in paths]
    rows = slice(len(arrays[-1]) * RANK // SIZE, len(arrays[-1]) * (RANK + 1) // SIZE)
    tokens, targets = (torch.from_numpy(a[rows].astype(np.int64)) for a in arrays[-2:])
    model = torch.nn.parallel.DistributedDataParallel(Model(arrays))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def step():
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    first = step()
    dist.all_reduce(first)
    step()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(count):
        step()
    dist.barrier()
    seconds = (time.perf_counter() - start) / count
    if RANK == 0:
        print(json.dumps({"seconds": seconds, "checksum": first.item() / SIZE}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
