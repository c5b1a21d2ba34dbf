#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what Hugging Face transformers reads from config.json, key by key and spelling by spelling.

    python3 tools/goldens/make_config_goldens.py [tests/data/configs.json]

Needs torch and transformers 5 (made with 5.24). Each case is the base config of a family with some keys replaced ("<absent>": taken away),
and what the configuration class and the model's modules make of it: of the base config all, of the others what differs. Families whose code lies with their checkpoints are read by the class
that they were made from. `refused`: a feature that is known and not computed here (a message has to name the key), or, "theirs", a config that
transformers cannot use either.
"""

import contextlib
import io
import json
import logging
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, GenerationConfig, LlamaConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM, Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM, Qwen3RotaryEmbedding
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeForCausalLM, Qwen3MoeRotaryEmbedding

ABSENT = "<absent>"
CLASSES = {
    "llama": (LlamaConfig, LlamaForCausalLM, LlamaRotaryEmbedding), "qwen2": (Qwen2Config, Qwen2ForCausalLM, Qwen2RotaryEmbedding),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, Qwen3RotaryEmbedding), "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM, Qwen3MoeRotaryEmbedding)}
MADE_FROM = {"sdar": "qwen3", "sdar_moe": "qwen3_moe", "Fast_dLLM_Qwen": "qwen2", "Dream": "qwen2"}
BASE = {"hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-6, "vocab_size": 96, "max_position_embeddings": 256, "rope_theta": 1000.0,
        "tie_word_embeddings": False, "eos_token_id": 2, "mask_token_id": 3}
MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "original_max_position_embeddings": 64}

EVERY = [*CLASSES, *MADE_FROM]
SLIDING = {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]


def cases():
    """(families, replaced keys, refused: the key that our message names, or None)."""
    yield EVERY, {}, None
    yield ["llama", "qwen3_moe", "sdar_moe"], {"num_key_value_heads": ABSENT}, None
    # 32 in these classes: more than there are heads.
    yield ["qwen2", "qwen3"], {"num_key_value_heads": ABSENT}, "num_key_value_heads"
    for key in ("head_dim", "rms_norm_eps", "rope_theta", "tie_word_embeddings", "eos_token_id", "hidden_act"):
        yield EVERY, {key: ABSENT}, None
    for key in ("num_key_value_heads", "tie_word_embeddings", "eos_token_id"):
        yield ["llama", "qwen2", "qwen3"], {key: None}, None
    yield ["llama"], {"head_dim": None}, None
    yield EVERY, {"head_dim": 32}, None
    yield EVERY, {"rms_norm_eps": 1e-5}, None
    yield EVERY, {"tie_word_embeddings": True}, None
    yield EVERY, {"eos_token_id": [3, 4]}, None
    for dtype in ({"torch_dtype": "bfloat16"}, {"dtype": "bfloat16"}):
        yield ["llama", "qwen3"], dtype, None
    yield ["llama", "qwen3"], {"hidden_act": "swish"}, None
    yield ["llama", "qwen3"], {"hidden_act": "gelu"}, "hidden_act"
    yield EVERY, {"attention_bias": True}, None
    yield EVERY, {"mlp_bias": True}, None
    yield ["llama"], {"attention_bias": True, "mlp_bias": True}, None
    yield ["llama", "qwen3"], {"per_layer_config": {"0": {"intermediate_size": 32}}}, "per_layer_config"
    yield from ropes()
    yield from windows()
    moe = ["qwen3_moe", "sdar_moe"]
    for keys in ({"num_experts": ABSENT, "num_local_experts": 4}, {"num_local_experts": 4}, {"norm_topk_prob": True}, {"norm_topk_prob": False},
                 {"decoder_sparse_step": 2}, {"decoder_sparse_step": 3}, {"mlp_only_layers": None}, {"mlp_only_layers": []},
                 {"mlp_only_layers": [1]}, {"mlp_only_layers": [2], "decoder_sparse_step": 2}):
        yield moe, keys, None


def ropes():
    some = ["llama", "qwen3"]
    new = {"rope_theta": ABSENT}
    for parameters in ({"rope_type": "default", "rope_theta": 500.0}, {"rope_theta": 500.0}, {"rope_type": "default"},
                       {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}, {**YARN, "rope_theta": 500.0},
                       {**LLAMA3, "rope_theta": 500.0}):
        yield EVERY, {**new, "rope_parameters": parameters}, None
        yield some, {"rope_parameters": parameters}, None
        yield EVERY, {"rope_scaling": parameters}, None
        yield some, {"rope_scaling": {**parameters, "rope_theta": ABSENT}}, None
    for scaling in ({"type": "linear", "factor": 2.0}, {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
                    {"rope_type": "yarn", "type": "linear", "factor": 4.0}, {"rope_type": "yarn", "factor": 4.0},
                    {**YARN, "attention_factor": 1.5}, {**YARN, "beta_fast": 8.0, "beta_slow": 2.0}, {**YARN, "beta_fast": None},
                    {**YARN, "truncate": False}, {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5}, {**YARN, "mscale": 0.7},
                    {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.25}, {**YARN, "factor": 1.0}):
        yield some, {"rope_scaling": scaling}, None
        yield ["qwen2"], {"rope_parameters": {**scaling, "rope_theta": 500.0}}, None
    both = {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}}
    for scaling in (None, {}, {"rope_type": "default"}, {"rope_type": "yarn", "factor": 2.0}):
        yield some, {**both, "rope_scaling": scaling}, None
    for scaling in (YARN, LLAMA3, {"rope_type": "yarn", "factor": 4.0}):
        yield some, {"original_max_position_embeddings": 128, "rope_scaling": scaling}, None
    yield some, {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type"
    yield some, {"rope_scaling": LONG}, "rope_type"
    yield some, {"rope_scaling": {"rope_type": "linear"}}, "factor"
    yield some, {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0}}}, "full_attention"
    for share in ({"partial_rotary_factor": 0.5}, {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
                  {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0}}):
        yield some, share, None


def windows():
    named = ["qwen2", "qwen3"]
    all_ = [*named, "qwen3_moe", "llama"]
    for keys in (SLIDING, {**SLIDING, "use_sliding_window": False}, {**SLIDING, "use_sliding_window": ABSENT},
                 {**SLIDING, "max_window_layers": 0}, {**SLIDING, "max_window_layers": 3}, {**SLIDING, "max_window_layers": ABSENT},
                 {**SLIDING, "sliding_window": None}, {**SLIDING, "sliding_window": ABSENT}, {"sliding_window": 9}):
        yield all_, keys, None
    for keys in ({**SLIDING, "layer_types": MIXED}, {**SLIDING, "layer_types": ["full_attention"] * 3}):
        yield all_, keys, None
    yield named, {"layer_types": MIXED, "use_sliding_window": False, "sliding_window": 9}, "use_sliding_window"
    yield named, {"layer_types": MIXED, "sliding_window": 9}, "use_sliding_window"


def without_absent(value):
    if not isinstance(value, dict):
        return value
    return {key: without_absent(item) for key, item in value.items() if item != ABSENT}


def reading(family, replaced):
    """What the class makes of it."""
    kind = MADE_FROM.get(family, family)
    config_class, model_class, rotary_class = CLASSES[kind]
    merged = {**BASE, **(MOE if "moe" in kind else {}), **replaced}
    config = config_class.from_dict(without_absent({**merged, "model_type": kind}))
    with torch.device("meta"):
        model = model_class(config)
    model.config._attn_implementation = "eager"
    rotary = rotary_class(config)
    layer = model.model.layers[0]
    attention = layer.self_attn
    with torch.no_grad():  # whether the rotation fits the heads shows only when it runs
        position = torch.zeros(1, 1, dtype=torch.long)
        cos, _ = rotary(torch.zeros(1, 1, 1), position)
        assert cos.shape[-1] == attention.head_dim, "the rotation is narrower than the head"
    types = getattr(config, "layer_types", None)
    sliding = [layer.self_attn.sliding_window if hasattr(layer.self_attn, "sliding_window") else None for layer in model.model.layers]
    if types and kind in ("qwen2", "qwen3"):
        for name, window in zip(types, sliding):
            assert (window is not None) == (name == "sliding_attention"), "a sliding layer without a window"
    eos = GenerationConfig.from_model_config(config).eos_token_id
    values = torch.linspace(-4, 4, 9)
    assert torch.allclose(ACT2FN[config.hidden_act](values), torch.nn.functional.silu(values)), "another activation"
    out = {
        "heads": config.num_attention_heads, "kv_heads": config.num_key_value_heads, "head_dim": attention.head_dim,
        "norm_eps": config.rms_norm_eps, "inverse_frequencies": [float(f"{x:.7g}") for x in rotary.inv_freq.tolist()],
        "amplitude": float(f"{rotary.attention_scaling:.7g}"), "windows": [window or 0 for window in sliding],
        "tied": bool(config.tie_word_embeddings), "eos": eos if isinstance(eos, list) else [] if eos is None else [eos],
        "qkv_bias": attention.q_proj.bias is not None, "output_bias": attention.o_proj.bias is not None,
        "qk_norm": hasattr(attention, "q_norm")}
    if kind == "qwen3_moe":
        mixtures = [hasattr(layer.mlp, "experts") for layer in model.model.layers]
        out |= {"mixtures": mixtures, "experts": config.num_experts, "experts_per_token": config.num_experts_per_tok,
                "normalise": bool(config.norm_topk_prob)}
    else:
        out["mlp_bias"] = layer.mlp.gate_proj.bias is not None
    return out


def main():
    logging.disable(logging.WARNING)
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "tests" / "data" / "configs.json")
    lines, usual = [], {}
    for families, replaced, refused in cases():
        for family in families:
            case = {"family": family, "replaced": replaced}
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    found = reading(family, replaced)
                base = usual.setdefault(family, found)
                case["reading"] = found if not replaced else {key: value for key, value in found.items() if value != base[key]}
            except Exception as error:  # noqa: BLE001 - whatever it says, it is no reading
                case["theirs"] = f"{type(error).__name__}: {error}".replace("\n", " ")[:120]
            if refused:
                case.pop("reading", None)
                case["refused"] = refused
            lines.append(json.dumps(case, separators=(",", ":")))
    base = json.dumps({"base": BASE, "mixture": MOE}, separators=(",", ":"))[1:-1]
    path.write_text("{" + base + ',"cases":[\n' + ",\n".join(lines) + "\n]}\n")
    print(len(lines), "cases", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
