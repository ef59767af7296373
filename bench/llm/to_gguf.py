"""Writes a Llama model in Hugging Face's files as one file in GGUF, llama.cpp's format.

  pip install gguf safetensors torch
  python bench/llm/to_gguf.py FOLDER OUT.gguf [--dtype bf16]

The file has no tokenizer: `peer_llama_cpp.py` reads tokenizer.json, as the other peers do. Only what models made by
`examples/llm/make_model.py --size` have is written: no biases, no stretched RoPE.
"""
import argparse
import json
import pathlib

import gguf
import torch
from safetensors import safe_open

# What a block's weights are called, there and here.
BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16, "bf16": gguf.LlamaFileType.MOSTLY_BF16}


def renamed(name):
    """`model.layers.3.mlp.up_proj.weight` as `blk.3.ffn_up.weight`."""
    stem, kind = name.rsplit(".", 1)
    if kind != "weight":
        raise SystemExit(f"{name}: biases are not written")
    if stem in OTHERS:
        return f"{OTHERS[stem]}.weight"
    _, _, layer, own = stem.split(".", 3)
    return f"blk.{layer}.{BLOCK[own]}.weight"


def neighbors(weight, heads):
    """The rows of each head in the order that llama.cpp turns: pairs are neighbors, not half a head apart."""
    rows = weight.shape[0] // heads
    return weight.reshape(heads, 2, rows // 2, -1).transpose(1, 2).reshape(weight.shape)


def write(folder, out, dtype):
    config = json.loads((folder / "config.json").read_text())
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default" or config.get("rope_scaling"):
        raise SystemExit(f"{folder}: stretched RoPE is not written")
    heads = config["num_attention_heads"]
    groups = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or config["hidden_size"] // heads
    writer = gguf.GGUFWriter(str(out), "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(rope.get("rope_theta") or config.get("rope_theta") or 10000.0)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    writer.add_file_type(FILE_TYPES[dtype])
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():
                weight = tensors.get_tensor(name)
                if name.endswith(("q_proj.weight", "k_proj.weight")):
                    weight = neighbors(weight, heads if "q_proj" in name else groups)
                # llama.cpp has the scales of norms in f32 only.
                kept = weight.to(torch.float32 if weight.ndim == 1 else TYPES[dtype]).contiguous()
                if kept.dtype == torch.bfloat16:
                    writer.add_tensor(renamed(name), kept.view(torch.uint8).numpy(), raw_dtype=gguf.GGMLQuantizationType.BF16)
                else:
                    writer.add_tensor(renamed(name), kept.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--dtype", choices=TYPES, default="bf16")
    args = parser.parse_args()
    write(args.folder, args.out, args.dtype)


if __name__ == "__main__":
    main()
