#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a Qwen3 model of a real size with random weights, and a DFlash drafter next to it: for measuring speed.

    python3 tools/bench/make_random_model.py 0.6b|1.7b|4b|8b|30b-a3b FOLDER
    ashlar bench FOLDER/random-0.6b --no-self-test

Shapes are those of the Qwen3 checkpoints and of drafters of five layers, weights BF16. The tokenizer is pebble-11m's, so the text means
nothing, and the drafter predicts nothing: what a step, a cycle and a prefill take is as with trained weights, what drafts gain is not.
Needs numpy and room for the weights on disk and, a tensor at a time, in memory.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np

# hidden, layers, query heads, key/value heads, feed-forward, tied head
SHAPES = {"0.6b": (1024, 28, 16, 8, 3072, True), "1.7b": (2048, 28, 16, 8, 6144, True),
          "4b": (2560, 36, 32, 8, 9728, True), "8b": (4096, 36, 32, 8, 12288, False),
          "30b-a3b": (2048, 48, 32, 4, 6144, False)}
EXPERTS = {"30b-a3b": (128, 8, 768)}  # of a layer, of a token, and their feed-forward
HEAD_DIM, VOCAB, DRAFTER_LAYERS, MASK = 128, 151936, 5, 3
PEBBLE = Path(__file__).resolve().parents[2] / "models" / "pebble-11m"
ONE = 0x3F80  # in bfloat16


def mlp(wide, hidden):
    return {"gate_proj": [wide, hidden], "up_proj": [wide, hidden], "down_proj": [hidden, wide]}


def layer_tensors(prefix, shape, experts=None):
    """name -> [rows, columns] of a matrix or [n] of a norm."""
    hidden, _, heads, kv_heads, wide, _ = shape
    q, kv = heads * HEAD_DIM, kv_heads * HEAD_DIM
    own = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [q, hidden], "self_attn.k_proj": [kv, hidden],
           "self_attn.v_proj": [kv, hidden], "self_attn.o_proj": [hidden, q], "self_attn.q_norm": [HEAD_DIM], "self_attn.k_norm": [HEAD_DIM]}
    if experts:
        own["mlp.gate"] = [experts[0], hidden]
    parts = {f"mlp.experts.{e}.": mlp(experts[2], hidden) for e in range(experts[0])} if experts else {"mlp.": mlp(wide, hidden)}
    own |= {part + name: dimensions for part, names in parts.items() for name, dimensions in names.items()}
    return {f"{prefix}{name}.weight": dimensions for name, dimensions in own.items()}


def write(path, tensors):
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(len(tensors))
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in tensors.values():
            if len(shape) == 1:
                file.write(np.full(shape, ONE, np.uint16).tobytes())
                continue
            values = random.standard_normal(shape, np.float32) * np.float32(shape[1] ** -0.5)
            file.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())


def config(shape, architecture, layers, model_type="qwen3", **more):
    hidden, _, heads, kv_heads, wide, tied = shape
    return {"architectures": [architecture], "model_type": model_type, "hidden_size": hidden, "intermediate_size": wide, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": HEAD_DIM, "hidden_act": "silu", "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0, "vocab_size": VOCAB, "max_position_embeddings": 40960, "attention_bias": False, "tie_word_embeddings": tied, **more}


def main():
    size, out = sys.argv[1], Path(sys.argv[2])
    shape = SHAPES[size]
    hidden, layers, *_, tied = shape
    target, drafter = out / f"random-{size}", out / f"random-{size}-dflash"
    for folder in (target, drafter):
        folder.mkdir(parents=True, exist_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(PEBBLE / file, target)
    experts = EXPERTS.get(size)
    family = ("Qwen3MoeForCausalLM", layers, "qwen3_moe") if experts else ("Qwen3ForCausalLM", layers)
    sizes = dict(zip(("num_experts", "num_experts_per_tok", "moe_intermediate_size"), experts)) | {"norm_topk_prob": True} if experts else {}
    (target / "config.json").write_text(json.dumps(config(shape, *family, **sizes), indent=1))
    tensors = {"model.embed_tokens.weight": [VOCAB, hidden], "model.norm.weight": [hidden]} | ({} if tied else {"lm_head.weight": [VOCAB, hidden]})
    for i in range(layers):
        tensors |= layer_tensors(f"model.layers.{i}.", shape, experts)
    write(target / "model.safetensors", tensors)
    aux_layers = [1, layers // 4, layers // 2, 3 * layers // 4, layers - 3]
    (drafter / "config.json").write_text(json.dumps(config(
        shape, "DFlashDraftModel", DRAFTER_LAYERS, block_size=16, num_target_layers=layers,
        dflash_config={"target_layer_ids": aux_layers, "mask_token_id": MASK}), indent=1))
    tensors = {"fc.weight": [hidden, len(aux_layers) * hidden], "hidden_norm.weight": [hidden], "norm.weight": [hidden]}
    for i in range(DRAFTER_LAYERS):
        tensors |= layer_tensors(f"layers.{i}.", shape)
    write(drafter / "model.safetensors", tensors)
    print(f"{target} and {drafter}")


if __name__ == "__main__":
    main()
