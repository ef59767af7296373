#!/usr/bin/env python3
"""Tokens per second of examples/llm beside PyTorch (transformers), on the same files, taking turns.

  cargo build --release -p meshwork-llm
  pip install torch transformers
  python examples/llm/make_model.py --size 135m target/bench/135m
  python bench/llm.py target/bench/135m [--tokens 64] [--rounds 5] [--dtype bf16] [--devices 1,2] [--threads 2]

Greedy generation of one sequence after a prompt of 32 tokens, with a cache. Prints the median and the spread of the rate after the
first token, and the time to the first token. Random weights do as well as others: the arithmetic is the same. A program given by
--other NAME=COMMAND, with {folder}, {prompt} and {tokens} in it, takes its turn too, if it prints "N tokens/s".
"""
import argparse
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = "A mesh of devices splits the program and inserts the communication that each device needs to see"


class Torch:
    """transformers, eager, in this process."""

    def __init__(self, folder, dtype, threads):
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self.torch = torch
        kinds = {"bf16": torch.bfloat16, "f32": torch.float32}
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=kinds[dtype])
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def run(self, prompt, count):
        torch = self.torch
        tokens = torch.tensor([self.tokenizer.encode(prompt).ids])
        with torch.no_grad():
            start = time.perf_counter()
            out = self.model(tokens, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
            first = time.perf_counter() - start
            start = time.perf_counter()
            for _ in range(count - 1):
                out = self.model(token, past_key_values=out.past_key_values, use_cache=True)
                token = out.logits[:, -1:].argmax(-1)
            rest = time.perf_counter() - start
        return (count - 1) / rest, first


class Command:
    """A program that prints its rate."""

    def __init__(self, command, threads):
        self.command = command
        self.env = {**os.environ, "MESHWORK_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)}

    def run(self, prompt, count):
        parts = [part.format(prompt=prompt, tokens=count) for part in self.command]
        done = subprocess.run(parts, capture_output=True, text=True, env=self.env)
        text = done.stdout + done.stderr
        rate = re.search(r"([\d.]+) tokens?/s", text)
        if done.returncode or not rate:
            raise SystemExit(f"{shlex.join(parts)}\n{text}")
        first = re.search(r"prompt tokens in ([\d.]+) s", text)
        return float(rate[1]), float(first[1]) if first else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--devices", default="1")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--meshwork", default=str(ROOT / "target/release/llm"))
    parser.add_argument("--other", action="append", default=[], metavar="NAME=COMMAND")
    args = parser.parse_args()
    folder = str(args.folder)
    peers = {"PyTorch": Torch(args.folder, args.dtype, args.threads)}
    for devices in args.devices.split(","):
        command = [args.meshwork, folder, "--prompt", "{prompt}", "--tokens", "{tokens}", "--dtype", args.dtype,
                   "--devices", devices, "--ignore-end"]
        peers[f"Meshwork, {devices} device{'s' * (devices != '1')}"] = Command(command, args.threads)
    for other in args.other:
        name, command = other.split("=", 1)
        peers[name] = Command([part.replace("{folder}", folder) for part in shlex.split(command)], args.threads)
    found = {name: [] for name in peers}
    for _ in range(args.rounds):
        for name, peer in peers.items():
            found[name].append(peer.run(WORDS, args.tokens))
    print(f"{args.folder.name}, {args.dtype}, {args.threads} threads, load {os.getloadavg()[0]:.1f}")
    for name, runs in found.items():
        rates, firsts = zip(*runs)
        print(f"{name:24} {statistics.median(rates):8.2f} tokens/s ({min(rates):.2f} to {max(rates):.2f}), "
              f"first token after {statistics.median(firsts) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
