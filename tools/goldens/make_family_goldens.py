#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tiny random checkpoints of every model family, with reference values from Hugging Face transformers.

    python3 tools/goldens/make_family_goldens.py [tests/data/families [NAME...]]

Needs torch and transformers (made with 2.11 and 5.17; the mixtures and the hybrids with 5.24). Each folder is a Hugging Face model folder (config.json written here by hand, in the
spelling the variant is about) plus goldens.safetensors, with tensors.json in place of the weights (see seeded_weights.py). The reference
is the folder itself read back by AutoModelForCausalLM: what is compared is therefore also how the config is understood. Compute is float32
from the stored (rounded) weights, eager attention, CPU.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, Mxfp4Config, Qwen3MoeConfig

from seeded_weights import UNIT, codes, describe, table, weight, with_weights

VOCAB = 96
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
# Smallest gap between the best and the second logit of any greedy token: far above float32 noise, so that ids can be compared exactly.
MIN_MARGIN = 0.02
HELD_ROWS = 12  # of hidden states: the last, which hold what those before them did to them


def base_config(family, **overrides):
    """A config.json of `family`; keys set to ... (Ellipsis) are left out."""
    config = {
        "architectures": [{"qwen3": "Qwen3ForCausalLM", "qwen2": "Qwen2ForCausalLM", "llama": "LlamaForCausalLM",
                           "qwen3_moe": "Qwen3MoeForCausalLM", "qwen3_5_text": "Qwen3_5ForCausalLM",
                           "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM", "gemma3_text": "Gemma3ForCausalLM",
                           "gemma4_text": "Gemma4ForCausalLM", "qwen3_next": "Qwen3NextForCausalLM", "lfm2": "Lfm2ForCausalLM", "lfm2_moe": "Lfm2MoeForCausalLM", "mistral": "MistralForCausalLM", "ministral3": "Ministral3ForCausalLM", "smollm3": "SmolLM3ForCausalLM", "olmo2": "Olmo2ForCausalLM", "olmo3": "Olmo3ForCausalLM",
                           "granite": "GraniteForCausalLM", "glm4": "Glm4ForCausalLM", "glm4_moe": "Glm4MoeForCausalLM", "phi3": "Phi3ForCausalLM", "gpt_oss": "GptOssForCausalLM"}[family]],
        "model_type": family,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16 if family in ("qwen3", "qwen3_moe") else ...,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "vocab_size": VOCAB,
        "max_position_embeddings": 256,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }
    if family.startswith(("qwen3_5", "qwen3_next")):  # a delta net of unequal heads whose sizes are no powers of two
        config |= {"head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 12,
                   "linear_value_head_dim": 20, "linear_conv_kernel_dim": 4}
    if family == "gemma3_text":  # a GELU by another key, and a scale of queries that no size of the model gives
        del config["hidden_act"], config["tie_word_embeddings"]
        config |= {"hidden_activation": "gelu_pytorch_tanh", "head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 24}
    if family == "gemma4_text":
        del config["hidden_act"], config["tie_word_embeddings"]
        config |= {"hidden_activation": "gelu_pytorch_tanh", "hidden_size": 24, "intermediate_size": 32, "head_dim": 8, "global_head_dim": 16,
                   "sliding_window": 5, "pad_token_id": 0}
    if family not in ("qwen2", "mistral", "ministral3", "phi3", "gpt_oss"):
        config["attention_bias"] = False
    config.update(overrides)
    return {key: value for key, value in config.items() if value is not ...}


def variants():
    """name -> (config, options). Options: shards, store_tied_head, tokens, half (goldens in float16), and `without`: config changes, or lists of them, that must move the logits."""
    plain_rope = {"rope_theta": 10000.0, "rope_scaling": None}
    out = {}

    def add(name, config, **options):
        out[name] = (config, options)

    # The target that the drafter goldens are paired with: four layers, so that aux_layers 0..2 are all inside.
    add("qwen3", base_config("qwen3", **plain_rope, hidden_size=64, num_hidden_layers=4, tie_word_embeddings=...))
    add("qwen3_tied_bf16",
        base_config("qwen3", torch_dtype=..., dtype="bfloat16", tie_word_embeddings=True,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        shards=3)
    add("qwen3_tied_head_stored", base_config("qwen3", **plain_rope, torch_dtype="bfloat16", tie_word_embeddings=True),
        store_tied_head=True)
    add("qwen3_wide_heads", base_config("qwen3", **plain_rope, head_dim=32, attention_bias=True))
    add("qwen3_yarn",
        base_config("qwen3", rope_theta=1000.0, max_position_embeddings=64,
                    rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
        without={"rope_scaling": None})
    add("qwen3_yarn_tuned",
        base_config("qwen3", max_position_embeddings=64,
                    rope_parameters={"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16,
                                     "attention_factor": 1.25, "beta_fast": 4.0, "beta_slow": 0.5}),
        without={"rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16}})
    sliding = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    # Explicit layer types that differ from what max_window_layers alone would give: the explicit list is the one that counts.
    add("qwen3_sliding", base_config("qwen3", **plain_rope, **sliding,
                                     layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        without={"layer_types": ...})
    add("qwen3_sliding_derived", base_config("qwen3", **plain_rope, **sliding), without={"use_sliding_window": False})
    # A window that is present but not in use, as in most published Qwen2.5 configs.
    add("qwen2", base_config("qwen2", **plain_rope, torch_dtype="float16", tie_word_embeddings=True, use_sliding_window=False,
                             sliding_window=8, max_window_layers=1))
    add("qwen2_yarn",
        base_config("qwen2", rope_theta=1000.0, hidden_size=64, num_hidden_layers=2, max_position_embeddings=64,
                    rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
        without={"rope_scaling": None})
    add("llama", base_config("llama", **plain_rope, rms_norm_eps=1e-5, mlp_bias=False))
    # As little as a Llama config may say: heads, head size, rope and tying come from the class defaults.
    add("llama_minimal", base_config("llama", num_key_value_heads=..., attention_bias=..., tie_word_embeddings=..., num_hidden_layers=2))
    add("llama3_rope",
        base_config("llama", rope_theta=10000.0, hidden_size=64, num_hidden_layers=2, torch_dtype="bfloat16",
                    rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 32}),
        tokens=48, without={"rope_scaling": None})
    add("llama_linear_rope",
        base_config("llama", rope_theta=10000.0, tie_word_embeddings=True, rope_scaling={"type": "linear", "factor": 4.0}),
        without={"rope_scaling": None})
    add("llama_bias",
        base_config("llama", head_dim=16, attention_bias=True, mlp_bias=True, rope_parameters={"rope_type": "default", "rope_theta": 5000.0}))
    # As merged fine-tunes are: the head was trained apart from the embedding, the config is the base model's.
    add("qwen3_tied_other_head", base_config("qwen3", **plain_rope, torch_dtype="bfloat16", tie_word_embeddings=True), store_other_head=True)
    # config.json as transformers writes it. Every layer slides, whatever max_window_layers says.
    moe = base_config("qwen3_moe", rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, use_sliding_window=True, sliding_window=6,
                      max_window_layers=2, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True)
    add("qwen3_moe_sliding", json.loads(Qwen3MoeConfig(**moe).to_json_string()), without={"use_sliding_window": False})
    # As little as such a config may say: layer types, rotated part and the rest come from the class. Four layers: a target for drafters.
    add("qwen3_5_text", base_config("qwen3_5_text", hidden_size=64, num_hidden_layers=4, rope_theta=10000.0, head_dim=32),
        without={"full_attention_interval": 2})
    # As published: the text model inside of one that sees, with tensors that it does not need.
    rope = {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.5, "mrope_interleaved": True, "mrope_section": [2, 1, 1]}
    text = base_config("qwen3_5_text", architectures=..., torch_dtype=..., dtype="bfloat16", num_hidden_layers=5, rope_parameters=rope,
                       layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"],
                       attn_output_gate=True, mtp_num_hidden_layers=1, tie_word_embeddings=True)
    add("qwen3_5", {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text,
                    "image_token_id": 90, "video_token_id": 91, "vision_start_token_id": 92, "vision_end_token_id": 93,
                    "tie_word_embeddings": True,
                    "vision_config": {"model_type": "qwen3_5_vision", "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2,
                                      "out_hidden_size": 32}},
        inside="model.language_model.", extra={"model.visual.pos_embed.weight": (4, 16), "mtp.fc.weight": (32, 64), "mtp.norm.weight": (32,)},
        without={"text_config": {**text, "rope_parameters": {**rope, "partial_rotary_factor": 0.25}}})
    add("qwen3_5_moe", base_config("qwen3_5_moe_text", rope_theta=10000.0, head_dim=32, intermediate_size=..., num_experts=6,
                                   num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=20,
                                   layer_types=["linear_attention", "full_attention", "linear_attention"]),
        merged=True, without={"num_experts_per_tok": 3})
    # As published by transformers 4: which layers slide comes from a pattern, and three of the four norms of a layer have names of their own.
    add("gemma3_text", base_config("gemma3_text", num_hidden_layers=4, rope_theta=1000000.0, rope_local_base_freq=100.0, sliding_window_pattern=3,
                                   rope_scaling={"rope_type": "linear", "factor": 8.0}),
        without={"rope_local_base_freq": 1000000.0})
    # Within a model that sees, a rope for each kind of layers, all other words left to the class but sizes.
    text = base_config("gemma3_text", architectures=..., torch_dtype=..., dtype="bfloat16", hidden_activation=..., num_hidden_layers=3,
                       layer_types=["full_attention", "sliding_attention", "full_attention"],
                       rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 5000.0},
                                        "sliding_attention": {"rope_type": "default", "rope_theta": 200.0}})
    vision = {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
              "image_size": 16, "patch_size": 8, "vision_use_head": False}
    add("gemma3", {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text, "vision_config": vision,
                   "image_token_index": 90, "boi_token_index": 91, "eoi_token_index": 92, "mm_tokens_per_image": 4, "eos_token_id": [2, 5],
                   "dtype": "bfloat16"}, text_model="model.language_model.",
        without={"text_config": {**text, "query_pre_attn_scalar": 16}})
    add("mistral", base_config("mistral", **plain_rope, head_dim=24, sliding_window=8), without={"sliding_window": None})
    # The layers without a rope are named by a list, and see a window; tied as the class has it.
    add("smollm3", base_config("smollm3", rope_theta=5000.0, tie_word_embeddings=..., pad_token_id=0, no_rope_layers=[1, 0, 1], use_sliding_window=True,
                               sliding_window=8), without={"no_rope_layers": [1, 1, 1]})
    add("olmo2", base_config("olmo2", **plain_rope, rms_norm_eps=...))
    add("granite", base_config("granite", **plain_rope, dtype="bfloat16", torch_dtype=..., attention_multiplier=0.4,
                               residual_multiplier=0.6, embedding_multiplier=3.0, logits_scaling=0.7),
        without={"residual_multiplier": 1.0})
    # Biases, half of each head and neighbours in pairs as the class has it.
    add("glm4", base_config("glm4", rope_theta=1000.0, attention_bias=..., head_dim=12, pad_token_id=0, partial_rotary_factor=0.5),
        without={"partial_rotary_factor": 1.0})
    # LongRoPE as published in a model that rotates a part of each head, tied; all of it within the length of training.
    factors = [round(1.0 + 0.37 * i, 2) for i in range(3)]
    add("phi3", base_config("phi3", rope_theta=1000.0, torch_dtype=..., dtype="bfloat16", tie_word_embeddings=True, partial_rotary_factor=0.75,
                            pad_token_id=0, original_max_position_embeddings=64, sliding_window=9,
                            rope_scaling={"type": "longrope", "short_factor": factors, "long_factor": [4.0] * 3}),
        without={"rope_scaling": {"type": "longrope", "short_factor": [1.0] * 3, "long_factor": [4.0] * 3}})
    # Every second layer slides, as the class has it; bounds that are met often. As bf16 checkpoints have the experts, and as published ones do.
    oss = base_config("gpt_oss", head_dim=16, rms_norm_eps=1e-5, intermediate_size=64, num_local_experts=4, num_experts_per_tok=2, pad_token_id=0,
                      sliding_window=8, swiglu_limit=1.5, torch_dtype=..., dtype="bfloat16", rope_theta=1000.0, max_position_embeddings=256,
                      rope_scaling={"rope_type": "yarn", "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                                    "original_max_position_embeddings": 16})
    add("gpt_oss", {**oss, "num_hidden_layers": 3}, merged=True, without={"swiglu_limit": 7.0})
    add("gpt_oss_mxfp4", {**oss, "num_hidden_layers": 2, "quantization_config": {"quant_method": "mxfp4"}}, merged=True, mxfp4=True,
        without={"sliding_window": 200})
    # As the dense models are published: wide heads where a layer sees everything, whose values are their keys, and capped logits.
    add("gemma4_text", base_config("gemma4_text", num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0,
                                   layer_types=["sliding_attention", "full_attention", "sliding_attention"], final_logit_softcapping=6.0,
                                   rope_parameters={"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 500.0},
                                                    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
        tokens=16, without={"final_logit_softcapping": None})
    # As the small ones are: embeddings for each layer, of which the last two read keys and values of others and have wider MLPs, within a
    # model that sees and hears; ropes as the class has them, sizes of layers as transformers 5 writes them.
    text = base_config("gemma4_text", architectures=..., torch_dtype=..., dtype="bfloat16", num_hidden_layers=5, global_head_dim=...,
                       per_layer_config={"1": {"head_dim": 16}, "4": {"head_dim": 16}}, hidden_size_per_layer_input=8,
                       vocab_size_per_layer_input=VOCAB, num_kv_shared_layers=2, use_double_wide_mlp=True,
                       layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"])
    add("gemma4", {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "text_config": text, "vision_config": None,
                   "audio_config": None, "eos_token_id": [2, 5], "dtype": "bfloat16"},
        extra={"model.vision_tower.patch_embedder.input_proj.weight": (4, 16), "model.embed_vision.embedding_projection.weight": (24, 4),
               "model.language_model.layers.3.self_attn.k_proj.weight": (16, 24)},
        tokens=16, without={"text_config": {**text, "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 1.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}})
    # Projections of a delta net by key heads, experts in a tensor each, a dense layer, and the layer that drafts, which the class leaves out.
    add("qwen3_next", base_config("qwen3_next", rope_theta=10000.0, hidden_size=24, intermediate_size=32, torch_dtype=..., dtype="bfloat16",
                                  num_experts=5, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=20,
                                  norm_topk_prob=..., decoder_sparse_step=1, mlp_only_layers=[2],
                                  layer_types=["linear_attention", "full_attention", "linear_attention"]),
        extra={"mtp.fc.weight": (24, 48), "mtp.norm.weight": (24,)}, tokens=16, without={"num_experts_per_tok": 3})
    small = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    # As published: convolutions of three rows, words of its own, an MLP of a width that is worked out, tied as the class has it.
    add("lfm2", base_config("lfm2", **small, hidden_act=..., rms_norm_eps=..., norm_eps=1e-5, intermediate_size=..., block_ff_dim=60, block_auto_adjust_ff_dim=True,
                            block_ffn_dim_multiplier=1.1, block_multiple_of=16, attention_bias=..., tie_word_embeddings=..., torch_dtype=...,
                            dtype="bfloat16", num_hidden_layers=4, conv_L_cache=3, conv_bias=False, rope_theta=1000.0, full_attn_idxs=[1, 3]),
        tokens=8, without={"full_attn_idxs": ..., "layer_types": ["conv", "full_attention", "conv", "full_attention"], "rope_theta": 1000000.0})
    # Four rows and biases, layers by name, and a head of its own.
    add("lfm2_bias", base_config("lfm2", **small, hidden_act=..., rms_norm_eps=..., norm_eps=1e-5, intermediate_size=40, block_auto_adjust_ff_dim=False,
                                 attention_bias=..., tie_word_embeddings=..., tie_embedding=False, conv_L_cache=4, conv_bias=True,
                                 layer_types=["full_attention", "conv", "conv"],
                                 rope_parameters={"rope_type": "default", "rope_theta": 500.0}), tokens=8)
    # A dense layer, then experts in a tensor each, chosen with a bias.
    add("lfm2_moe", base_config("lfm2_moe", **small, hidden_act=..., rms_norm_eps=..., norm_eps=1e-5, intermediate_size=24, moe_intermediate_size=8,
                                attention_bias=..., tie_word_embeddings=..., tie_embedding=True, torch_dtype=..., dtype="bfloat16",
                                num_hidden_layers=2, num_dense_layers=1, num_experts=4, num_experts_per_tok=2, use_expert_bias=True,
                                norm_topk_prob=True, routed_scaling_factor=1.5, conv_L_cache=3, conv_bias=False, rope_theta=1000.0,
                                layer_types=["full_attention", "conv"]), tokens=5, without={"routed_scaling_factor": 1.0})
    # A dense layer, then experts in groups, chosen with a bias, next to shared ones; the target of a layer that drafts.
    add("glm4_moe", base_config("glm4_moe", **small, head_dim=16, intermediate_size=24, rms_norm_eps=1e-5, torch_dtype=..., dtype="bfloat16", num_hidden_layers=2,
                                attention_bias=True, use_qk_norm=True, partial_rotary_factor=0.5, rope_theta=1000.0, rope_scaling=None,
                                first_k_dense_replace=1, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2, moe_intermediate_size=8,
                                n_group=2, topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.5, num_nextn_predict_layers=1),
        tokens=8, half=True, without=[{"n_group": 1}, {"routed_scaling_factor": 1.0}, {"norm_topk_prob": False}, {"partial_rotary_factor": 1.0}])
    # Experts next to the dense MLPs, as in the 26B-A4B.
    add("gemma4_moe", base_config("gemma4_text", hidden_size=16, intermediate_size=24, num_attention_heads=2, num_hidden_layers=2, torch_dtype=...,
                                  dtype="bfloat16", hidden_size_per_layer_input=0, attention_k_eq_v=True, num_key_value_heads=2,
                                  num_global_key_value_heads=1, enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=8,
                                  layer_types=["sliding_attention", "full_attention"], final_logit_softcapping=8.0),
        merged=True, tokens=8, half=True, without={"top_k_experts": 3})
    # Windows and the plain rope, and a layer that sees everything by a rope that is scaled.
    add("olmo3", base_config("olmo3", **small, rms_norm_eps=1e-5, intermediate_size=24, num_hidden_layers=2, torch_dtype=..., dtype="bfloat16",
                             sliding_window=4, layer_types=["sliding_attention", "full_attention"], rope_theta=500000.0, max_position_embeddings=160,
                             rope_scaling={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 20, "beta_fast": 32.0, "beta_slow": 1.0,
                                           "attention_factor": 1.2079441541679836}),
        tokens=8, half=True, without=[{"rope_scaling": None}, {"sliding_window": 64}])
    # Queries that grow at every sixth position.
    rope = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "beta_fast": 4.0, "beta_slow": 0.5, "original_max_position_embeddings": 6,
            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.75}
    add("ministral3", base_config("ministral3", **small, head_dim=16, rms_norm_eps=1e-5, intermediate_size=24, num_hidden_layers=2, torch_dtype=...,
                                  dtype="bfloat16", sliding_window=None, rope_parameters=rope),
        tokens=20, half=True, without=[{"rope_parameters": {**rope, "llama_4_scaling_beta": 0.0}}, {"rope_parameters": {**rope, "factor": 1.0}}])
    return out


def noise(name, shape, tied, from_one=False, scaled=False, qk_norm=1.4):
    """(standard deviation, mean) that keep a random model away from the degenerate: logits spread over several units, attention is far from
    uniform."""
    if name.endswith((".bias", "_bias")):
        return 0.3, 0.0
    if name.endswith("sinks"):
        return 1.0, 1.0
    if name.startswith(("model.visual.", "mtp.", "model.vision_tower.", "model.multi_modal_projector.", "model.embed_vision.")):
        return 1.0, 0.0
    if name.endswith(("router.scale", "per_expert_scale")):
        return 0.3, 1.0
    if "layer_scalar" in name:
        return 0.2, 0.9
    if "A_log" in name or "dt_bias" in name:  # states that keep from a tenth to nearly all of what they had
        return 0.7, -1.0
    if "conv1d" in name or "conv.conv.weight" in name:
        return 0.6, 0.2
    if from_one and "norm" in name and "linear_attn" not in name:  # stored as what they have more than one
        return (0.3, 0.4) if "q_norm" in name or "k_norm" in name else (0.2, 0.0)
    if any(part in name for part in ("q_norm", "k_norm", "q_layernorm", "k_layernorm")):
        return 0.3, qk_norm
    if "norm" in name:
        return 0.2, 1.0
    if "embed_tokens" in name:
        return (0.2 if scaled else 0.5 if tied else 1.0), 0.0  # scaled: by the root of hidden_size, when it is read
    gain = 3.0 if "lm_head" in name else 1.4 if "q_proj" in name or "k_proj" in name else 1.0
    return gain / shape[-1]**0.5, 0.0


def stored_parts(name, shape, merged):
    """[(name, shape)] of the tensors that a checkpoint stores for one of the class: experts lie in a tensor each, unless they are `merged`."""
    if ".feed_forward.experts." in name:
        base, _, kind = name.rpartition(".")
        kinds = {"gate_up_proj": [("w1", shape[1] // 2), ("w3", shape[1] // 2)], "down_proj": [("w2", shape[1])]}[kind]
        return [(f"{base}.{e}.{part}.weight", (rows, shape[2])) for e in range(shape[0]) for part, rows in kinds]
    base, found, kind = name.partition("mlp.experts.")
    if not found or merged:
        return [(name, shape)]
    kinds = {"gate_up_proj": [("gate_proj", shape[1] // 2), ("up_proj", shape[1] // 2)], "down_proj": [("down_proj", shape[1])]}[kind]
    return [(f"{base}mlp.experts.{e}.{part}.weight", (rows, shape[2])) for e in range(shape[0]) for part, rows in kinds]


def in_mxfp4(name, shape, seed):
    """The tensors of published gpt-oss checkpoints for one of the class, [experts, in, out]: numbers of any bits, scales about 2^-3."""
    experts, inputs, outputs = shape
    groups = (experts, outputs, inputs // 32)
    scales = np.random.default_rng(seed).integers(122, 125, groups).ravel().tolist()
    return [codes(name + "_blocks", (*groups, 16), "U8"), table(name + "_scales", groups, "U8", scales)]


def describe_weights(folder, config, options, seed):
    """Random tensors under the names and shapes of the Hugging Face class, in the dtype the config states."""
    skeleton = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    text = config.get("text_config", config)
    tied = config.get("tie_word_embeddings", config.get("tie_embedding", text["model_type"] in ("gemma3_text", "gemma4_text", "smollm3", "lfm2", "lfm2_moe")))
    dtype = DTYPES[text.get("dtype", text.get("torch_dtype"))]
    tensors = []
    for name, parameter in sorted(skeleton.state_dict().items()):
        shape = tuple(parameter.shape)
        if tied and name == "lm_head.weight" and not options.get("store_other_head"):
            if not options.get("store_tied_head"):
                continue
            name_of_values = "model.embed_tokens.weight"
        else:
            name_of_values = name
        if "inside" in options and name.startswith("model."):
            name = name_of_values = options["inside"] + name.removeprefix("model.")
        for part, part_shape in stored_parts(name, shape, options.get("merged")):
            scaled = text["model_type"].startswith("gemma")
            from_one = text["model_type"].startswith(("gemma3", "qwen3_5", "qwen3_next"))
            deviation, mean = noise(name_of_values, part_shape, tied, from_one, scaled,
                                    0.7 if text["model_type"] == "gemma4_text" else 1.4)  # no other scale there
            if text["model_type"] == "gpt_oss" and len(part_shape) == 3:
                if options.get("mxfp4"):
                    tensors += in_mxfp4(part, part_shape, seed)
                    continue
                deviation = 1.5 / part_shape[1]**0.5  # stored as [experts, in, out]
            tensors.append(weight(part, part_shape, dtype, UNIT * deviation, mean, None if name_of_values == name else name_of_values))
    for name, shape in options.get("extra", {}).items():
        tensors.append(weight(name, shape, dtype, 1.0))
    describe(folder, seed, tensors, options.get("shards", 1))


def load(folder):
    options = {}
    if "quantization_config" in json.loads((folder / "config.json").read_text()):
        options["quantization_config"] = Mxfp4Config(dequantize=True)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **options).float().eval()


@torch.no_grad()
def forward(model, ids):
    out = model(input_ids=ids[None], output_hidden_states=True, use_cache=False)
    hidden = torch.stack(out.hidden_states)[:, 0]
    logits = out.logits[0]
    # Documented convention: the last entry is after the final norm.
    scale = 1 / getattr(model.config, "logits_scaling", 1.0)
    expected = hidden[-1] @ model.lm_head.weight.T * scale
    if cap := getattr(model.config.get_text_config(), "final_logit_softcapping", None):
        expected = torch.tanh(expected / cap) * cap
    torch.testing.assert_close(expected, logits, rtol=1e-4, atol=1e-4)
    return hidden, logits


@torch.no_grad()
def greedy(model, ids, count):
    """(`count` new ids, smallest margin). Every step is a whole forward: no cache to trust."""
    tokens, margin = ids.tolist(), float("inf")
    for _ in range(count):
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
        best = torch.topk(logits, 2).values
        margin = min(margin, float(best[0] - best[1]))
        tokens.append(int(torch.argmax(logits)))
    return tokens[len(ids):], margin


@torch.no_grad()
def attention_entropy(model, ids):
    """Mean over layers and heads of (entropy / log keys) in the last row: 1 means uniform attention."""
    attentions = model(input_ids=ids[None], output_attentions=True, use_cache=False).attentions
    rows = torch.stack([a[0, :, -1] for a in attentions])
    return float((-(rows * (rows + 1e-20).log()).sum(-1) / torch.tensor(float(len(ids))).log()).mean())


def check_matters(folder, config, options, ids, logits):
    """The feature the variant is about must change the result, or the golden would prove nothing."""
    without = options.get("without", [])
    for changes in without if isinstance(without, list) else [without]:
        other = {key: value for key, value in {**config, **changes}.items() if value is not ...}
        (folder / "config.json").write_text(json.dumps(other))
        difference = float((forward(load(folder), ids)[1] - logits).abs().max())
        assert difference > 0.1, f"{folder.name}: without {changes} the logits move by {difference} only"


def make(root, name, config, options, seed):
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, separators=(",", ":")) + "\n")
    describe_weights(folder, config, options, seed)
    with tempfile.TemporaryDirectory() as temporary:
        goldens = reference(name, config, options, seed, with_weights(folder, Path(temporary) / name))
    save_file({k: v.contiguous() for k, v in goldens.items()}, folder / "goldens.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    print(f"{' ' * 24} {sum(f.stat().st_size for f in folder.iterdir()) / 1024:.0f} KiB")


def reference(name, config, options, seed, folder):
    """The golden tensors of a folder with weights."""
    model = load(folder)
    for attempt in range(100):
        generator = torch.Generator().manual_seed(1000 * seed + attempt)
        ids = torch.randint(3, VOCAB, (options.get("tokens", 24),), generator=generator)
        new_ids, margin = greedy(model, ids, 16)
        if margin > MIN_MARGIN and config.get("text_config", config)["eos_token_id"] not in new_ids and len(set(new_ids)) >= 5:
            break
    else:
        raise SystemExit(f"{name}: no prompt without near ties in 100")
    hidden, logits = forward(model, ids)
    check_matters(folder, config, options, ids, logits)
    print(f"{name:24s} logit std {float(logits.std()):5.2f}  attention entropy {attention_entropy(model, ids):.2f}"
          f"  last-layer residual rms {float(hidden[-2].pow(2).mean().sqrt()):5.2f}  margin {margin:.3f}  new {new_ids[:8]}")
    kept = torch.float16 if options.get("half") else torch.float32
    return {"input_ids": ids.to(torch.int32), "hidden_states": hidden[1:, -HELD_ROWS:].to(kept), "logits": logits[(len(ids) - 1) % 2::2].to(kept),
            "greedy_ids": torch.tensor(new_ids, dtype=torch.int32)}


def main():
    torch.set_num_threads(1)
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "tests" / "data" / "families")
    for seed, (name, (config, options)) in enumerate(variants().items(), start=1):
        if not sys.argv[2:] or name in sys.argv[2:]:
            make(root, name, config, options, seed)


if __name__ == "__main__":
    main()
