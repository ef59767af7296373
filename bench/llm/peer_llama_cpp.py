"""Goes on with a text by llama.cpp, greedily, on a file of to_gguf.py; prints the numbers of the tokens, then how fast it was.

  CMAKE_ARGS=-DGGML_NATIVE=ON pip install llama-cpp-python tokenizers --no-binary llama-cpp-python
  python bench/llm/peer_llama_cpp.py MODEL.gguf FOLDER --prompt "A mesh is" --tokens 64 --threads 2

It calls llama.cpp's own interface, one call for each token; FOLDER has the tokenizer. LLAMA_CPP_LIB_PATH names a folder with another
build of libllama.so.
"""
import argparse
import ctypes
import pathlib
import sys
import time

import llama_cpp
import numpy as np
from tokenizers import Tokenizer


@llama_cpp.llama_log_callback
def quiet(_level, _text, _data):
    """Drops what llama.cpp has to say."""


class Model:
    """A model and the keys and values of a text."""

    def __init__(self, path, threads, room):
        llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp cannot read it")
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = room
        options.n_threads = options.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        self.words = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def next(self, tokens):
        """The most likely token after `tokens`, which follow those of earlier calls."""
        tokens = (llama_cpp.llama_token * len(tokens))(*tokens)
        if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(tokens))):
            raise SystemExit("llama_decode failed")
        scores = llama_cpp.llama_get_logits_ith(self.context, -1)
        return int(np.ctypeslib.as_array(scores, (self.words,)).argmax())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    prompt = tokenizer.encode(args.prompt).ids
    model = Model(args.model, args.threads, len(prompt) + args.tokens)
    start = time.perf_counter()
    made = [model.next(prompt)]
    first = time.perf_counter() - start
    start = time.perf_counter()
    while len(made) < args.tokens:
        made.append(model.next(made[-1:]))
    rest = time.perf_counter() - start
    print(*made)
    print(f"{len(prompt)} prompt tokens in {first:.3f} s, then {len(made) - 1} tokens at {(len(made) - 1) / rest:.2f} tokens/s",
          file=sys.stderr)


if __name__ == "__main__":
    main()
