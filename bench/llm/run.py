#!/usr/bin/env python3
"""Tokens per second of examples/llm beside PyTorch (transformers), llama.cpp and candle, on the same weights, taking turns.

  cargo build --release -p meshwork-llm
  pip install torch transformers gguf                     and llama-cpp-python: see peer_llama_cpp.py
  (cd bench/llm/candle && RUSTFLAGS="-C target-cpu=native" cargo build --release)
  python examples/llm/make_model.py --size 135m target/bench/135m
  python bench/llm/to_gguf.py target/bench/135m target/bench/135m-bf16.gguf --dtype bf16
  python bench/llm/run.py target/bench/135m --dtype bf16 --devices 1,2 --torch \\
    --other "llama.cpp=python bench/llm/peer_llama_cpp.py target/bench/135m-bf16.gguf {folder} --prompt {prompt} --tokens {tokens} --threads {threads}" \\
    --other "candle=bench/llm/candle/target/release/llm-candle {folder} {prompt} {tokens} {dtype}"

Greedy generation of one sequence after a short prompt, with a cache. Prints the median and the spread of the rate after the first token,
the time to the first token, and how many tokens are those of Meshwork before the first other one: in f32 all of them should be, in bf16
roundings part ways sooner or later. Random weights do as well as others: the arithmetic is the same. A program given by --other takes its
turn if it prints the numbers of its tokens on standard output, and "N tokens/s" and "prompt tokens in T s" on the other.
"""
import argparse
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORDS = "A mesh of devices splits the program and inserts the communication that each device needs to see"


class Torch:
    """transformers, eager, in this process."""

    def __init__(self, folder, dtype, threads):
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self.torch = torch
        kinds = {"bf16": torch.bfloat16, "f32": torch.float32, "f16": torch.float16}
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=kinds[dtype])
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def run(self, prompt, count):
        torch = self.torch
        tokens = torch.tensor([self.tokenizer.encode(prompt).ids])
        with torch.no_grad():
            start = time.perf_counter()
            out = self.model(tokens, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
            made = [token.item()]
            first = time.perf_counter() - start
            start = time.perf_counter()
            for _ in range(count - 1):
                out = self.model(token, past_key_values=out.past_key_values, use_cache=True)
                token = out.logits[:, -1:].argmax(-1)
                made.append(token.item())
            rest = time.perf_counter() - start
        return (count - 1) / rest, first, made


class Command:
    """A program that prints tokens and its rate."""

    def __init__(self, command, threads):
        self.command = command
        self.env = {**os.environ, "MESHWORK_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)}

    def run(self, prompt, count):
        parts = [part.replace("{prompt}", prompt).replace("{tokens}", str(count)) for part in self.command]
        done = subprocess.run(parts, capture_output=True, text=True, env=self.env)
        text = done.stdout + done.stderr
        rate = re.search(r"([\d.]+) tokens?/s", text)
        if done.returncode or not rate:
            raise SystemExit(f"{shlex.join(parts)}\n{text}")
        first = re.search(r"prompt tokens in ([\d.]+) s", text)
        return float(rate[1]), float(first[1]) if first else float("nan"), [int(token) for token in done.stdout.split()]


def agreement(ours, theirs):
    """How many tokens are equal before the first that is not."""
    return next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", choices=["bf16", "f16", "f32"], default="bf16")
    parser.add_argument("--devices", default="1")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--meshwork", action="append", default=[], metavar="BINARY", help="one or several builds of examples/llm")
    parser.add_argument("--other", action="append", default=[], metavar="NAME=COMMAND")
    args = parser.parse_args()
    peers = {}
    builds = args.meshwork or [str(ROOT / "target/release/llm")]
    for build in builds:
        for devices in args.devices.split(","):
            command = [build, str(args.folder), "--prompt", "{prompt}", "--tokens", "{tokens}", "--dtype", args.dtype,
                       "--devices", devices, "--ignore-end", "--ids"]
            name = "Meshwork" if len(builds) == 1 else build
            peers[f"{name}, {devices} device{'s' * (devices != '1')}"] = Command(command, args.threads)
    for other in args.other:
        name, command = other.split("=", 1)
        known = {"{folder}": str(args.folder), "{threads}": str(args.threads), "{dtype}": args.dtype}
        peers[name] = Command([known.get(part, part) for part in shlex.split(command)], args.threads)
    if args.torch:
        peers["PyTorch"] = Torch(args.folder, args.dtype, args.threads)
    found = {name: [] for name in peers}
    for _ in range(args.rounds):
        for name, peer in peers.items():
            found[name].append(peer.run(WORDS, args.tokens))
    print(f"{args.folder.name}, {args.dtype}, {args.threads} threads, {args.rounds} turns, load {os.getloadavg()[0]:.1f}")
    ours = next(iter(found.values()))[0][2]
    for name, runs in found.items():
        rates, firsts, made = zip(*runs)
        print(f"{name:24} {statistics.median(rates):8.2f} tokens/s ({min(rates):.2f} to {max(rates):.2f}), "
              f"first token after {statistics.median(firsts) * 1e3:.0f} ms, {agreement(ours, made[0])} of {args.tokens} tokens as ours")


if __name__ == "__main__":
    main()
