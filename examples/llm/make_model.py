"""Makes Llama models with random weights in Hugging Face's layout, and records what `transformers` computes with them.

    pip install torch transformers tokenizers
    python make_model.py tests/data                  the models of the tests, with recorded.json beside each
    python make_model.py --size 135m FOLDER          one model in the shapes of a real one, to measure with

A recording has the tokens of a greedy generation and the logits after the prompt, computed in f32, and the logits
computed in bf16.
"""

import argparse
import json
import pathlib

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config

TEXT = """A mesh is a grid of devices with named axes. A sharding says which axis splits which dimension of an array.
A program is written once, as if for one very large device. The compiler finds all other placements, splits the program
and inserts the communication. What it costs is shown in a plan: each collective with its bytes, its line and its cause.
"""

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32, "rope_theta": 500000.0}

SMALL = dict(vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=256, bos_token_id=0, eos_token_id=1, initializer_range=0.2)

# Grouped queries, RoPE as in Llama 3 and a head of its own, in several files; a sliding window and tied embeddings; biases on
# the way into attention. The second in f32, the others in bf16.
TESTS = {
    "llama": (LlamaConfig(num_key_value_heads=2, rope_parameters=LLAMA3, tie_word_embeddings=False, **SMALL), "bfloat16", "30KB"),
    "mistral": (MistralConfig(num_key_value_heads=4, sliding_window=8, head_dim=8, tie_word_embeddings=True, **SMALL), "float32", "5GB"),
    "qwen2": (Qwen2Config(num_key_value_heads=1, tie_word_embeddings=False, **SMALL), "bfloat16", "5GB"),
}

# The shapes of SmolLM-135M and of Llama 3.2 1B.
SIZES = {
    "135m": dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                 num_key_value_heads=3, max_position_embeddings=2048, tie_word_embeddings=True),
    "1b": dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
               num_key_value_heads=8, head_dim=64, max_position_embeddings=4096, tie_word_embeddings=True),
}


def tokenizer(vocabulary):
    """Pairs of bytes, learned from TEXT."""
    out = Tokenizer(models.BPE())
    out.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    out.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=["<s>", "</s>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    out.train_from_iterator([TEXT], trainer)
    return out


def make(folder, config, dtype, shard):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Those of a new model are 1 and 0, which would hide mistakes.
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            if name.endswith("bias"):
                parameter.uniform_(-0.5, 0.5)
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size=shard)
    tokenizer(min(config.vocab_size, 400)).save(str(folder / "tokenizer.json"))
    (folder / "generation_config.json").unlink(missing_ok=True)


def record(folder, prompt, count):
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(prompt).ids
    tokens = torch.tensor([ids])
    out = {"prompt": prompt, "ids": ids}
    for dtype in ("float32", "bfloat16"):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), attn_implementation="eager")
        with torch.no_grad():
            out[dtype] = [round(x, 6) for x in model(tokens).logits[0, -1].float().tolist()]
            if dtype == "float32":
                made = model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False,
                                      max_new_tokens=count, min_new_tokens=count, pad_token_id=1)
                out["generated"] = made[0, len(ids):].tolist()
    (folder / "recorded.json").write_text(json.dumps(out) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", choices=SIZES)
    args = parser.parse_args()
    if args.size:
        # Large enough that the next token is not always the last one again, so that generated tokens can be compared.
        config = LlamaConfig(bos_token_id=0, eos_token_id=1, initializer_range=0.1, **SIZES[args.size])
        make(args.folder, config, "bfloat16", "500MB")
        return
    for name, (config, dtype, shard) in TESTS.items():
        folder = args.folder / name
        make(folder, config, dtype, shard)
        record(folder, "A mesh of devices splits the program", 24)
        print(name, sum(f.stat().st_size for f in folder.iterdir()), "bytes")


if __name__ == "__main__":
    main()
