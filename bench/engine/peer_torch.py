#!/usr/bin/env python3
"""The training steps and some rows of the families in PyTorch, eagerly; commands as in peer_jax.py: prepare PROBLEM VARIANT DIRECTORY, run COUNT.

The checksum of a training step is the loss before the first step that is timed.
"""
import os
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import gpt  # noqa: E402
from families.others import torch_functions  # noqa: E402
from peer import checksums, serve  # noqa: E402

torch.set_num_threads(os.cpu_count())
SIZES = gpt.Sizes(dim=256, heads=8, vocab=4096, length=256, batch=8)


def gpt_loss(p, layers, tokens, targets):
    dim, heads = SIZES.dim, SIZES.heads
    norm = lambda x, name: F.layer_norm(x, (dim,), p[name + ".scale"], p[name + ".bias"], 1e-5)
    batch, length = tokens.shape
    x = p["embed"][tokens] + p["position"]
    for i in range(layers):
        h = norm(x, f"{i}.norm1")
        q, k, v = ((h @ p[f"{i}.{n}"].reshape(dim, dim)).reshape(batch, length, heads, -1).transpose(1, 2) for n in "qkv")
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + a.transpose(1, 2).reshape(batch, length, dim) @ p[f"{i}.o"].reshape(dim, dim)
        h = F.gelu(F.linear(norm(x, f"{i}.norm2"), p[f"{i}.up"].t(), p[f"{i}.up.bias"]), approximate="tanh")
        x = x + F.linear(h, p[f"{i}.down"].t(), p[f"{i}.down.bias"])
    logits = norm(x, "norm") @ p["head"]
    return F.cross_entropy(logits.reshape(-1, SIZES.vocab), targets.reshape(-1))


class Peer:
    def prepare(self, problem, variant, directory):
        paths = sorted(pathlib.Path(directory).glob("*.npy"), key=lambda p: int(p.stem))
        self.arrays = [torch.from_numpy(np.load(p)) for p in paths]
        self.problem = problem
        self.function = None
        if not problem.endswith(" step"):
            self.function = torch_functions()[problem, variant]
            return {}
        self.reset()
        self.run(2)
        self.reset()
        return {}

    def reset(self):
        if self.problem == "mlp step":
            params = [a.clone().requires_grad_() for a in self.arrays[:6]]
            x, y = self.arrays[6], self.arrays[7].long()

            def loss():
                h = x
                for i in range(3):
                    h = torch.addmm(params[2 * i + 1], h, params[2 * i])
                    h = F.relu(h) if i < 2 else h
                return F.cross_entropy(h, y)

            self.optimizer = torch.optim.SGD(params, 0.1)
        else:
            layers = 4
            names = sorted(gpt.shapes(layers, SIZES))
            p = {n: a.clone().requires_grad_() for n, a in zip(names, self.arrays)}
            tokens, targets = (a.long() for a in self.arrays[-2:])
            self.optimizer = torch.optim.Adam(p.values(), 1e-3)
            loss = lambda: gpt_loss(p, layers, tokens, targets)
        self.loss, self.first = loss, None

    def run(self, count):
        if self.function:
            return self.forward(int(count))
        start = time.perf_counter()
        for _ in range(int(count)):
            self.optimizer.zero_grad()
            value = self.loss()
            value.backward()
            self.optimizer.step()
            self.first = self.first if self.first is not None else value.item()
        return {"seconds": (time.perf_counter() - start) / int(count), "checksum": self.first}

    @torch.no_grad()
    def forward(self, count):
        start = time.perf_counter()
        for _ in range(count):
            result = self.function(*self.arrays)
        seconds = (time.perf_counter() - start) / count
        return {"seconds": seconds, **checksums(result.float().numpy())}


if __name__ == "__main__":
    serve(Peer())
