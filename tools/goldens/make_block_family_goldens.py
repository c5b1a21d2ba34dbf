#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tiny checkpoints of mixtures of experts and of models that denoise blocks, with reference values.

    python3 tools/goldens/make_block_family_goldens.py hf|mlx|router [tests/data/blocks]

Each folder holds config.json, tensors.json (seeded_weights.py) and goldens.safetensors: input_ids and the float32 logits of every row, where
a row sees up to the end of its own block (causal: up to itself; no block length: everything). References:

hf      Hugging Face transformers (made with 5.17, torch 2.11): Qwen3-MoE; and with an explicit mask the class whose tensors a family
        has: SDAR is Qwen3 or Qwen3-MoE, Fast-dLLM v2 and Dream are Qwen2, LLaDA is Llama under other names.
mlx     LLaDA2 as mlx-vlm 0.7.10 has it (mlx 0.32.4 on a CPU). Only the modules that it needs are loaded.
router  Choices of experts by routing.h's rules, written here with numpy: every case is also given to mlx-vlm's LLaDA2 gate, which must
        choose the same experts except where equal values leave it open.
"""

import functools
import importlib.util
import json
import shutil
import sys
import tempfile
import types
from pathlib import Path

import numpy as np

import seeded_weights
from seeded_weights import UNIT, weight

VOCAB = 128
TOKENS = 22
HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 64, 4, 2, 32


def base_config(model_type, architecture, **more):
    return {
        "architectures": [architecture], "model_type": model_type, "hidden_size": HIDDEN, "intermediate_size": 96,
        "num_hidden_layers": 3, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "vocab_size": VOCAB,
        "max_position_embeddings": 256, "tie_word_embeddings": False, "eos_token_id": 2, **more}


QWEN_MOE = {"num_experts": 12, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "attention_bias": False}
LLADA2 = {"num_experts": 16, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "num_shared_experts": 2, "n_group": 4, "topk_group": 2,
          "score_function": "sigmoid", "moe_router_enable_expert_bias": True, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
          "router_dtype": "fp32", "first_k_dense_replace": 1, "rope_scaling": None, "partial_rotary_factor": 0.5, "rotary_dim": 16,
          "use_qk_norm": True, "use_bias": False, "use_qkv_bias": False, "norm_head": False, "using_split_qkv_in_self_attention": False,
          "mask_token_id": 3, "block_size": 8}


def folders():
    """name -> (reference, what Hugging Face calls the class or None, dtype, block: 0 causal, None everything, config)."""
    return {
        # Layer 1 is dense by the list, layer 0 by the step.
        "qwen3_moe": ("hf", "qwen3_moe", "F32", 0, base_config(
            "qwen3_moe", "Qwen3MoeForCausalLM", **QWEN_MOE, norm_topk_prob=True, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[1])),
        "qwen3_moe_raw_weights": ("hf", "qwen3_moe", "F16", 0, base_config(
            "qwen3_moe", "Qwen3MoeForCausalLM", **QWEN_MOE, norm_topk_prob=False, num_hidden_layers=2, tie_word_embeddings=True)),
        "sdar": ("hf", "qwen3", "BF16", 4, base_config(
            "sdar", "SDARForCausalLM", attention_bias=False, block_size=4, mask_token_id=3)),
        "sdar_moe": ("hf", "qwen3_moe", "F32", 8, base_config(
            "sdar_moe", "SDARMoeForCausalLM", **QWEN_MOE, norm_topk_prob=True, num_hidden_layers=2, block_size=8, mask_token_id=3)),
        "fast_dllm_v2": ("hf", "qwen2", "F32", 8, base_config(
            "Fast_dLLM_Qwen", "Fast_dLLM_QwenForCausalLM", head_dim=16, bd_size=8, mask_token_id=3, tie_word_embeddings=True)),
        "dream": ("hf", "qwen2", "BF16", None, base_config("Dream", "DreamModel", head_dim=16, mask_token_id=3, use_mrope=False)),
        "llada": ("hf", "llama", "F32", None, {
            "architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": HIDDEN, "n_heads": HEADS, "n_kv_heads": HEADS, "n_layers": 3,
            "mlp_hidden_size": 96, "vocab_size": VOCAB, "embedding_size": VOCAB, "max_sequence_length": 256, "rope": True,
            "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "weight_tying": False, "activation_type": "silu", "block_type": "llama",
            "layer_norm_type": "rms", "alibi": False, "include_bias": False, "include_qkv_bias": False, "mask_token_id": 3, "eos_token_id": 2}),
        "llada2": ("mlx", None, "F16", 8, base_config("llada2_moe", "LLaDA2MoeModelLM", **LLADA2)),
        "llada2_merged": ("mlx", None, "F32", 4, base_config(
            "llada2_moe_veomni", "LLaDA2MoeModelLM", **{**LLADA2, "block_size": 4}, num_hidden_layers=2)),
    }


# LLaDA's names for what Hugging Face's Llama calls otherwise.
LLADA_NAMES = {"model.transformer.wte": "model.embed_tokens", "model.transformer.ln_f": "model.norm", "model.transformer.ff_out": "lm_head",
               "model.transformer.blocks": "model.layers", "attn_norm": "input_layernorm", "ff_norm": "post_attention_layernorm",
               "attn_out": "self_attn.o_proj", "ff_proj": "mlp.gate_proj", "up_proj": "mlp.up_proj", "ff_out": "mlp.down_proj",
               "q_proj": "self_attn.q_proj", "k_proj": "self_attn.k_proj", "v_proj": "self_attn.v_proj"}


def llama_name(name):
    """LLaDA's tensor name in Llama's spelling."""
    for prefix in ("model.transformer.wte", "model.transformer.ln_f", "model.transformer.ff_out"):
        if name.startswith(prefix):
            return LLADA_NAMES[prefix] + name[len(prefix):]
    head, layer, part, suffix = name.rsplit(".", 3)
    return f"{LLADA_NAMES[head]}.{layer}.{LLADA_NAMES[part]}.{suffix}"


def tensors_of(config, dtype):
    """The tensors of a checkpoint, with scales that keep a random model away from the degenerate."""
    family = config["model_type"]
    llada, llada2, qwen2 = family == "llada", family.startswith("llada2"), family in ("Dream", "Fast_dLLM_Qwen")
    heads, layers = config.get("n_heads", HEADS), config.get("n_layers") or config["num_hidden_layers"]
    kv_heads = config["n_kv_heads"] if llada else KV_HEADS
    head_dim = config.get("head_dim", HIDDEN // heads)
    q, kv = heads * head_dim, kv_heads * head_dim
    out = []

    def matrix(name, rows, cols, gain=1.0, bias=False, suffix=".weight", shape=None):
        out.append(weight(name + suffix, shape or [rows, cols], dtype, gain * UNIT / cols**0.5))
        if bias:
            out.append(weight(name + ".bias", [rows], dtype, 0.5))

    def norm(name, size, mean=1.0):
        out.append(weight(name + ".weight", [size], dtype, 0.3, mean))

    def mlp(gate, up, down, width):
        matrix(gate, width, HIDDEN)
        matrix(up, width, HIDDEN)
        matrix(down, HIDDEN, width)

    tied = config.get("tie_word_embeddings", config.get("weight_tying"))
    embedding = "model.transformer.wte" if llada else "model.word_embeddings" if llada2 else "model.embed_tokens"
    out.append(weight(embedding + ".weight", [VOCAB, HIDDEN], dtype, (0.5 if tied else 1.0) * UNIT))
    norm("model.transformer.ln_f" if llada else "model.norm", HIDDEN)
    if not tied:
        matrix("model.transformer.ff_out" if llada else "lm_head", VOCAB, HIDDEN, 3.0)
    for i in range(layers):
        base = f"model.transformer.blocks.{i}." if llada else f"model.layers.{i}."
        norm(base + ("attn_norm" if llada else "input_layernorm"), HIDDEN)
        norm(base + ("ff_norm" if llada else "post_attention_layernorm"), HIDDEN)
        if llada2:
            matrix(base + "attention.query_key_value", q + 2 * kv, HIDDEN, 1.4)
            norm(base + "attention.query_layernorm", head_dim, 1.4)
            norm(base + "attention.key_layernorm", head_dim, 1.4)
            matrix(base + "attention.dense", HIDDEN, q)
        else:
            attention = base if llada else base + "self_attn."
            matrix(attention + "q_proj", q, HIDDEN, 1.4, qwen2)
            matrix(attention + "k_proj", kv, HIDDEN, 1.4, qwen2)
            matrix(attention + "v_proj", kv, HIDDEN, 1.0, qwen2)
            matrix(attention + ("attn_out" if llada else "o_proj"), HIDDEN, q)
            if not llada and not qwen2:
                norm(attention + "q_norm", head_dim, 1.4)
                norm(attention + "k_norm", head_dim, 1.4)
        if not is_mixture(config, i):
            if llada:
                mlp(base + "ff_proj", base + "up_proj", base + "ff_out", config["mlp_hidden_size"])
            else:
                mlp(base + "mlp.gate_proj", base + "mlp.up_proj", base + "mlp.down_proj", config["intermediate_size"])
            continue
        experts, width = config["num_experts"], config["moe_intermediate_size"]
        matrix(base + "mlp.gate", experts, HIDDEN, 2.0)
        if llada2:
            out.append(weight(base + "mlp.gate.expert_bias", [experts], "F32", 0.2, -0.05))
            shared = base + "mlp.shared_experts."
            mlp(shared + "gate_proj", shared + "up_proj", shared + "down_proj", width * config["num_shared_experts"])
        if family == "llada2_moe_veomni":
            for name, rows, cols in (("gate_proj", width, HIDDEN), ("up_proj", width, HIDDEN), ("down_proj", HIDDEN, width)):
                matrix(base + "mlp.experts." + name, rows, cols, suffix="", shape=[experts, rows, cols])
            continue
        for e in range(experts):
            expert = f"{base}mlp.experts.{e}."
            mlp(expert + "gate_proj", expert + "up_proj", expert + "down_proj", width)
    return out


def is_mixture(config, layer):
    if "num_experts" not in config:
        return False
    if "first_k_dense_replace" in config:
        return layer >= config["first_k_dense_replace"]
    return layer not in config.get("mlp_only_layers", []) and (layer + 1) % config.get("decoder_sparse_step", 1) == 0


def visible(n, block):
    """[n, n] bool: which keys each row sees."""
    position = np.arange(n)
    end = position + 1 if block == 0 else np.full(n, n) if block is None else (position // block + 1) * block
    return position[None, :] < end[:, None]


def values_of(folder):
    """name -> float32 array."""
    description = json.loads((folder / "tensors.json").read_text())
    out = {}
    for tensors in description["files"].values():
        for tensor in tensors:
            array = seeded_weights.stored(description["seed"], tensor)
            out[tensor["name"]] = (array.astype(np.uint32) << 16).view(np.float32) if tensor["dtype"] == "BF16" else array.astype(np.float32)
    return out


def hf_runner(folder, config, hf_type):
    """ids, mask -> logits, by Hugging Face's class in float32 from the stored weights."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    translated = dict(config, model_type=hf_type)
    weights = values_of(folder)
    if hf_type == "llama":
        translated = {"hidden_size": config["d_model"], "intermediate_size": config["mlp_hidden_size"], "num_hidden_layers": config["n_layers"],
                      "num_attention_heads": config["n_heads"], "num_key_value_heads": config["n_kv_heads"], "vocab_size": VOCAB,
                      "rms_norm_eps": config["rms_norm_eps"], "rope_theta": config["rope_theta"], "max_position_embeddings": 256,
                      "tie_word_embeddings": False, "hidden_act": "silu", "model_type": "llama"}
        weights = {llama_name(name): array for name, array in weights.items()}
    translated.pop("architectures", None)
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / "config.json").write_text(json.dumps(translated))
        save_file({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in weights.items()}, Path(temporary) / "model.safetensors",
                  metadata={"format": "pt"})
        model, info = AutoModelForCausalLM.from_pretrained(temporary, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    problems = {key: value for key, value in info.items() if value and key != "conversion_errors"}
    if translated.get("tie_word_embeddings"):
        problems.pop("missing_keys", None)
    assert not problems, problems
    model.eval()

    @torch.no_grad()
    def run(ids, mask):
        bias = torch.where(torch.from_numpy(mask), 0.0, torch.finfo(torch.float32).min)[None, None]
        return model(input_ids=torch.tensor([ids]), attention_mask=bias, use_cache=False).logits[0].numpy()

    return run


@functools.cache
def import_llada2():
    """mlx_vlm.models.llada2_moe.language without the rest of the package, which needs far more than MLX."""
    spec = importlib.util.find_spec("mlx_vlm")
    for name in ("mlx_vlm", "mlx_vlm.models"):
        module = types.ModuleType(name)
        module.__path__ = [str(Path(spec.submodule_search_locations[0]) / name.partition(".")[2])]
        sys.modules[name] = module

    class Anything(type(sys)):
        def __getattr__(self, name):
            return None if name.startswith("__") else type(name, (), {})

    for name in ("mlx_vlm.generate", "mlx_vlm.generate.common", "mlx_vlm.models.diffusion_visualizer"):
        sys.modules[name] = Anything(name)
    return importlib.import_module("mlx_vlm.models.llada2_moe.language"), importlib.import_module("mlx_vlm.models.llada2_moe.config")


def mlx_runner(folder, config, _):
    import mlx.core as mx

    language, configuration = import_llada2()
    known = configuration.ModelConfig.__dataclass_fields__
    model = language.LanguageModel(configuration.ModelConfig(**{k: v for k, v in config.items() if k in known}))
    weights = values_of(folder)
    merged = {}
    for name, array in weights.items():
        head, found, rest = name.partition("mlp.experts.")
        if not found:
            merged[name] = array
        elif config["model_type"] == "llada2_moe_veomni":
            merged[f"{head}mlp.switch_mlp.{rest}.weight"] = array
        else:
            expert, part, _ = rest.split(".")
            merged.setdefault(f"{head}mlp.switch_mlp.{part}.weight", [None] * config["num_experts"])[int(expert)] = array
    model.load_weights([(name, mx.array(np.stack(a) if isinstance(a, list) else a)) for name, a in merged.items()], strict=True)

    def run(ids, mask):
        return np.array(model(mx.array([ids]), mask=mx.array(mask)[None, None]).logits[0])

    return run


def make(root, name, seed):
    reference, hf_type, dtype, block, config = folders()[name]
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, separators=(",", ":")) + "\n")
    seeded_weights.describe(folder, seed, tensors_of(config, dtype))
    run = (hf_runner if reference == "hf" else mlx_runner)(folder, config, hf_type)
    ids = np.random.default_rng(seed).integers(4, VOCAB, TOKENS).tolist()
    ids[-1] = ids[-3] = 3  # masks, as while denoising
    mask = visible(TOKENS, block)
    logits = run(ids, mask)
    # The mask is the one that was meant: what a row does not see does not move it, what it sees does.
    for changed in (TOKENS - 1, 9):
        other = run(ids[:changed] + [17] + ids[changed + 1:], mask)
        moved = np.abs(other - logits).max(axis=1) > 1e-3
        # Through several layers a row sees what the rows it sees have seen: the same, since blocks are nested.
        assert (moved == mask[:, changed]).all(), (name, changed, moved, mask[:, changed])
    arrays = {"input_ids": np.array(ids, np.int32), "logits": logits.astype(np.float32)}
    write_arrays(folder / "goldens.safetensors", arrays)
    print(f"{name:24s} logits std {logits.std():.2f} {sum(f.stat().st_size for f in folder.iterdir()) / 1024:.0f} KiB")


def write_arrays(path, arrays):
    names = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32"}
    header, data, at = {}, b"", 0
    for name, array in arrays.items():
        data += np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [at, len(data)]}
        at = len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def route(logits, bias, routing):
    """(experts, weights) of one row by the rules of src/device/routing.h."""
    if routing["score"] == "sigmoid":
        scores = (1 / (1 + np.exp(-logits.astype(np.float64)))).astype(np.float32)
    else:
        powers = np.exp(logits.astype(np.float64) - logits.max())
        scores = (powers / powers.sum()).astype(np.float32)
    rank = scores + bias
    by_rank = lambda values: sorted(range(len(values)), key=lambda i: (-values[i], i))  # noqa: E731
    size = len(rank) // routing["groups"]
    groups = [np.sort(rank[g * size:(g + 1) * size])[::-1][:2].sum(dtype=np.float32) for g in range(routing["groups"])]
    kept = by_rank(groups)[:routing["top_groups"]]
    allowed = [e for e in by_rank(rank) if e // size in kept]
    experts = allowed[:routing["top_k"]]
    weights = scores[experts].astype(np.float64)
    if routing["normalise"]:
        weights = weights / (weights.sum() + 1e-20)
    # Equal values on both sides of a border leave the choice to the order of indices.
    open_ = len({groups[g] for g in kept} & {groups[g] for g in range(len(groups)) if g not in kept}) > 0
    open_ = open_ or len(allowed) > len(experts) and rank[allowed[len(experts)]] == rank[experts[-1]]
    return experts, weights * routing["scale"], open_


def make_router(root):
    import mlx.core as mx

    language, configuration = import_llada2()
    random = np.random.default_rng(7)
    cases = []
    for n, groups, top_groups, top_k, score, biased in ((16, 4, 2, 4, "sigmoid", True), (32, 8, 4, 8, "sigmoid", True), (16, 4, 2, 3, "sigmoid", False),
                                                        (12, 1, 1, 3, "softmax", False), (12, 1, 1, 1, "softmax", True)):
        routing = {"groups": groups, "top_groups": top_groups, "top_k": top_k, "score": score, "normalise": top_k > 1, "scale": 2.5 if groups > 1 else 1.0}
        bias = (random.integers(-3, 2, n) / 4).astype(np.float32) if biased else np.zeros(n, np.float32)
        # Steps of a half make ties; the last rows are all equal.
        logits = np.concatenate([random.integers(-5, 6, (5, n)) / 2, random.normal(0, 1.5, (4, n)), np.full((1, n), 0.5)]).astype(np.float32)
        gate = language.LLaDA2MoeGate(configuration.ModelConfig(
            num_experts=n, num_experts_per_tok=top_k, n_group=groups, topk_group=top_groups, routed_scaling_factor=routing["scale"],
            hidden_size=n, num_attention_heads=1, score_function=score, norm_topk_prob=True))
        gate.weight, gate.expert_bias = mx.eye(n), mx.array(bias)
        theirs, their_weights, _ = gate(mx.array(logits))
        rows, undecided = [], 0
        for r in range(len(logits)):
            experts, weights, open_ = route(logits[r], bias, routing)
            undecided += open_
            if not open_:
                order = np.argsort(np.array(theirs[r]))
                mine = np.argsort(experts)
                assert (np.array(theirs[r])[order] == np.array(experts)[mine]).all(), (routing, r)
                assert np.allclose(np.array(their_weights[r])[order], weights[mine], atol=1e-5)
            rows.append({"logits": [round(float(x), 7) for x in logits[r]], "experts": [int(e) for e in experts],
                         "weights": [round(float(w), 7) for w in weights]})
        print(f"{n} experts, {groups} groups: {undecided} of {len(rows)} rows decided by index")
        cases.append({"routing": routing, "bias": bias.tolist() if biased else None, "rows": rows})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (root / "router.json").write_text(f"[{lines}]\n")


def main():
    root = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).resolve().parents[2] / "tests" / "data" / "blocks")
    root.mkdir(parents=True, exist_ok=True)
    if sys.argv[1] == "router":
        return make_router(root)
    for seed, (name, entry) in enumerate(folders().items(), start=1):
        if entry[0] == sys.argv[1]:
            make(root, name, seed)


if __name__ == "__main__":
    main()
