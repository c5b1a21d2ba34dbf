#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tiny DFlash drafters for the tiny `qwen3` target, with reference values from drafter_reference.py and Hugging Face transformers.

    python3 tools/goldens/make_drafter_goldens.py [tests/data [NAME ...]]

Run make_family_goldens.py first: <data>/families/qwen3 is the target of every drafter. The target's features come from the hidden_states
that transformers returns. One drafter (`dflash_fitted`) is trained for a moment on the target's own greedy text, so that its speculative
run accepts spans of many lengths, and stored; the others are noise, described by tensors.json (see seeded_weights.py).
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from drafter_reference import Drafter, read_config
from seeded_weights import UNIT, describe, table, weight, with_weights

TARGET = "qwen3"
PROMPT, OUTPUT = 20, 24
DTYPES = {"float32": "F32", "bfloat16": "BF16"}
# Gaps between best and second logit, and between neighbours among candidates: ids can be compared exactly.
MIN_TARGET_MARGIN, MIN_DRAFT_MARGIN, MIN_CANDIDATE_MARGIN = 0.02, 0.003, 1e-4


def net_config(**overrides):
    # Theta and eps differ from the target's: taking them from the wrong config shows.
    config = {"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1000.0, "vocab_size": 96,
              "max_position_embeddings": 256, "attention_bias": False, "tie_word_embeddings": False,
              "layer_types": ["full_attention", "full_attention"], "torch_dtype": "bfloat16"}
    config.update(overrides)
    return {key: value for key, value in config.items() if value is not ...}


def z_lab(aux_layers=(0, 1, 2), block=8, dflash=None, **overrides):
    head = {"architectures": ["DFlashDraftModel"], "auto_map": {"AutoModel": "dflash.DFlashDraftModel"}, "num_target_layers": 4}
    if block is not None:
        head["block_size"] = block
    head["dflash_config"] = {"target_layer_ids": list(aux_layers), "mask_token_id": 95, **(dflash or {})}
    return {**head, **net_config(**overrides)}


DFLASH2 = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 16, "selector_top_k": 6}


def z_lab_2(architecture="DFlash2DraftModel", dflash=None, **overrides):
    """As z-lab writes it: the architecture says what it is, and the block length is inside."""
    config = z_lab(block=None, dflash={"block_size": 8, **DFLASH2, **(dflash or {})}, **overrides)
    return {**config, "architectures": [architecture], "auto_map": {"AutoModel": f"dflash.{architecture}"}}


LILICORR = {"lilicorr_enabled": True, "lilicorr_candidate_topk": 4, "lilicorr_hidden_size": 32, "lilicorr_num_layers": 2,
            "lilicorr_num_heads": 4, "lilicorr_mlp_ratio": 1.5, "lilicorr_factor_dim": 16, "lilicorr_vector_eps": 1e-4,
            "lilicorr_logit_scale": 8.0}


def one_layer(head, aux_layers=(2,), block=6):
    """As small as a drafter can be: what its head adds is what the golden is about."""
    return z_lab(aux_layers, block, head, num_hidden_layers=1, layer_types=["full_attention"])


def deepspec():
    """Flat, with an embedding and a head of its own."""
    return {"architectures": ["Qwen3DSparkModel"], "num_target_layers": 4, "block_size": 7, "mask_token_id": 95, "target_layer_ids": [0, 1, 2],
            "num_anchors": 512, "enable_confidence_head": True, "confidence_head_with_markov": True, "markov_rank": 16,
            "markov_head_type": "vanilla", **net_config()}


def speculators(from_anchor, kind="dflash", architecture="DFlashDraftModel", draft_vocab=40, head=None, block=8, aux_layers=(1, 2, 3), **net):
    return {"architectures": [architecture], "speculators_model_type": kind, "speculators_version": "0.7.0",
            "draft_vocab_size": draft_vocab, **(head or {}), "block_size": block, "aux_hidden_state_layer_ids": list(aux_layers), "mask_token_id": 94,
            "target_hidden_size": None, "sample_from_anchor": from_anchor, "sliding_window_non_causal": False, "dtype": "bfloat16",
            "transformer_layer_config": net_config(torch_dtype=..., dtype="bfloat16", rope_theta=...,
                                                   rope_parameters={"rope_type": "default", "rope_theta": 1000.0}, **net),
            "speculators_config": {
                "algorithm": kind, "default_proposal_method": "greedy",
                "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": block if from_anchor else block - 1,
                                      "verifier_accept_k": 1, "accept_tolerance": 0.0}],
                "verifier": {"name_or_path": TARGET, "architectures": ["Qwen3ForCausalLM"]}}}


def variants():
    """name -> (config, the config change that must move the result or None)."""
    sliding = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 6, "use_sliding_window": True}
    rope = {"rope_theta": ..., "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}}
    return {
        "dflash_full": (z_lab(torch_dtype="float32"), {"is_causal": True}),
        "dflash_sliding": (z_lab(**sliding), {"is_causal": False}),
        "dflash_noncausal_sliding": (z_lab(**sliding, is_causal=False), {"sliding_window": 256}),
        "dflash_bias": (z_lab(attention_bias=True, block=5), None),
        # Auxiliary layers in an order of their own: features are concatenated as listed.
        "dflash_block_in_config": (z_lab(aux_layers=(2, 0, 1), block=None, dflash={"block_size": 6}, **rope), None),
        "dflash_scaled": (z_lab(dflash={"input_embedding_scale": 1.5, "output_multiplier": 0.5, "final_logit_softcapping": 6.0}), None),
        "dflash_fitted": (z_lab(), None),
        "speculators": (speculators(False), {"aux_hidden_state_layer_ids": [2, 3, 1]}),
        "speculators_anchor": (speculators(True), None),
        "dflash2": (z_lab_2(layer_types=["sliding_attention"] * 2, sliding_window=6, use_sliding_window=True, is_causal=False,
                            dflash={"output_multiplier": 0.5, "final_logit_softcapping": 6.0}), {"is_causal": True}),
        "dflash2_projector": (z_lab_2("DFlashDraftModel", dflash={"projector_type": "dflash2", "conv_kernel_size": 3, "conv_group_size": 8,
                                                                  "selector_top_k": 10}), None),
        "speculators_dflash2": (speculators(False, "dflash2", "DFlash2DraftModel", 96, DFLASH2), None),
        "dspark": (deepspec(), None),
        "speculators_dspark": (speculators(True, "dspark", "DSparkSpeculator", head={
            "markov_rank": 12, "markov_head_type": "gated", "confidence_head_with_markov": False}), None),
        "domino": (one_layer({"projector_type": "domino", "emb_dim": 12, "gru_hidden_dim": 20, "pure_draft_prefix_len": 1,
                              "shift_label": True}, block=5), None),
        "speculators_xpress": (speculators(False, "xpress", "XPressSpeculator", head={"xpress_rank": 8, "xpress_mlp_ratio": 2, "num_jacobi_passes": 3},
                                           block=6, aux_layers=[2], num_hidden_layers=1, layer_types=["full_attention"]), None),
        "lilicorr": (one_layer({"projector_type": "lilicorr", **LILICORR}), None),
    }


# What enters these drafters is what enters others, whose goldens say it.
REPEATING = {"dflash_sliding", "dflash_noncausal_sliding", "dflash_bias", "dflash_scaled", "dflash2", "dspark", "speculators",
             "speculators_anchor", "speculators_dflash2", "speculators_dspark"}


class Target:
    """The Hugging Face model; every call is a whole forward, so there is no cache to trust."""

    def __init__(self, folder):
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        self.embedding = self.model.model.embed_tokens.weight.detach()
        self.head = self.model.lm_head.weight.detach()

    @torch.no_grad()
    def __call__(self, ids, aux_layers):
        """ids -> (features [T, K * Ht], logits [T, V])"""
        out = self.model(input_ids=torch.tensor([ids]), output_hidden_states=True, use_cache=False)
        return torch.cat([out.hidden_states[layer + 1][0] for layer in aux_layers], dim=-1), out.logits[0]


def random_weights(raw, config, seed):
    """The tensors of one checkpoint, as descriptions in the stored dtype (the map tables keep their own)."""
    net = raw.get("transformer_layer_config", raw)
    dtype = DTYPES[net.get("dtype", net.get("torch_dtype"))]
    h, d, q, kv, inner = config.hidden, config.head_dim, config.heads, config.kv_heads, net["intermediate_size"]
    out = []

    def matrix(name, rows, columns, gain=1.0):
        out.append(weight(name, (rows, columns), dtype, gain * UNIT / columns**0.5))

    def vector(name, size, deviation, mean):
        out.append(weight(name, (size,), dtype, deviation * UNIT, mean))

    matrix("fc.weight", h, len(config.aux_layers) * h)
    for name in ("hidden_norm.weight", "norm.weight"):
        vector(name, h, 0.2, 1.0)
    for i in range(config.layers):
        name = f"layers.{i}."
        for part, rows, columns in (("q", q * d, h), ("k", kv * d, h), ("v", kv * d, h), ("o", h, q * d)):
            matrix(f"{name}self_attn.{part}_proj.weight", rows, columns)
            if net["attention_bias"]:
                vector(f"{name}self_attn.{part}_proj.bias", rows, 0.3, 0.0)
        for part in ("q_norm", "k_norm"):
            vector(f"{name}self_attn.{part}.weight", d, 0.3, 1.4)
        for part in ("input_layernorm", "post_attention_layernorm"):
            vector(f"{name}{part}.weight", h, 0.2, 1.0)
        for part, rows, columns in (("gate", inner, h), ("up", inner, h), ("down", h, inner)):
            matrix(f"{name}mlp.{part}_proj.weight", rows, columns)
        for part in ("attention_conv", "mlp_conv") if config.conv else ():
            taps, group = config.conv
            out.append(weight(f"{name}{part}.base_kernel", (2, taps, h), dtype, 0.5, 0.4))
            matrix(f"{name}{part}.kernel_projection.weight", 2 * taps * (h // group), h, 0.3)
    if config.lattice:
        lattice_weights(config, matrix, vector, lambda name, shape: out.append(weight(name, shape, dtype, UNIT)))
    elif config.top_k:
        rank = raw["selector_rank"] if "selector_rank" in raw else raw["dflash_config"]["selector_rank"]
        matrix("candidate_selector.hidden_projection.weight", rank, h)
        for part in ("predecessor", "successor"):
            matrix(f"candidate_selector.{part}_codebook", net["vocab_size"], rank, 2.0)
    if config.markov:
        head, draft_vocab = raw.get("dflash_config", raw), raw.get("draft_vocab_size", net["vocab_size"])
        rank, width = head["markov_rank"], h + (head["markov_rank"] if head["confidence_head_with_markov"] else 0)
        matrix("markov_head.markov_w1.weight", net["vocab_size"], rank, rank**0.5)
        matrix("markov_head.markov_w2.weight", draft_vocab, rank, 2.0)
        if config.markov == "gated":
            matrix("markov_head.gate_proj.weight", rank, h + rank)
            vector("markov_head.gate_proj.bias", rank, 0.3, 0.0)
        matrix("confidence_head.proj.weight", 1, width)
        vector("confidence_head.proj.bias", 1, 0.3, 0.0)
    if config.domino:
        width, state, _ = config.domino
        matrix("prefix_gru.weight_ih_l0", 3 * state, h, 2.0)
        matrix("prefix_gru.weight_hh_l0", 3 * state, state)
        matrix("embed_proj.0.weight", width, h + state, 2.0)
        matrix("embed_proj.2.weight", net["vocab_size"], width, 4.0)
    if config.refiner:
        (rank, inner, _), name = config.refiner, "refiner_head."
        matrix(f"{name}token_embed.weight", net["vocab_size"], rank, 2 * rank**0.5)
        matrix(f"{name}down_h.weight", rank, h)
        matrix(f"{name}down_g.weight", rank, h, 2.0)
        matrix(f"{name}in_proj.weight", rank, 3 * rank, 1.5)
        out.append(weight(f"{name}mix_l", (rank, config.block, config.block), dtype, 0.6 * UNIT))
        for part, rows, columns in (("gate", inner, rank), ("up", inner, rank), ("down", rank, inner)):
            matrix(f"{name}mlp_{part}.weight", rows, columns)
        matrix(f"{name}readout.weight", raw["draft_vocab_size"], rank, 2.0)
    if "Qwen3DSparkModel" in raw["architectures"]:
        matrix("embed_tokens.weight", net["vocab_size"], h, h**0.5)
        matrix("lm_head.weight", net["vocab_size"], h, 3.0)
    if "speculators_model_type" in raw:
        # Unlike the target's own tables, so that using those instead shows.
        matrix("embed_tokens.weight", net["vocab_size"], h, h**0.5)
        matrix("lm_head.weight", raw["draft_vocab_size"], h, 3.0)
        generator = torch.Generator().manual_seed(seed)
        kept = torch.randperm(net["vocab_size"], generator=generator)[:raw["draft_vocab_size"]].sort().values.tolist()
        if raw["draft_vocab_size"] == net["vocab_size"]:
            return out
        out.append(table("t2d", (net["vocab_size"],), "BOOL", [i in kept for i in range(net["vocab_size"])]))
        out.append(table("d2t", (len(kept),), "I64", [id - i for i, id in enumerate(kept)]))
    return out


def lattice_weights(config, matrix, vector, tensor):
    """Those of LiLiCorr's head, none of which is small enough to be left out unseen."""
    of = {key.removeprefix("lilicorr_"): value for key, value in config.lattice.items()}
    h, inner, factor, name = of["hidden_size"], int(of["hidden_size"] * of["mlp_ratio"]), of["factor_dim"], "lilicorr."

    def linear(part, rows, columns, gain=1.0, joint="."):
        matrix(f"{name}{part}{joint}weight", rows, columns, gain)
        vector(f"{name}{part}{joint}bias", rows, 0.3, 0.0)

    linear("token_proj", h, config.hidden, 2.0)
    linear("pass_hidden_proj", h, config.hidden)
    vector(f"{name}feature_mlp.0.weight", 5, 0.3, 1.0)
    vector(f"{name}feature_mlp.0.bias", 5, 0.3, 0.0)
    linear("feature_mlp.1", h, 5)
    linear("feature_mlp.3", h, h)
    tensor(f"{name}slot_embedding", (1, 1, config.block - 1, 1, h))
    tensor(f"{name}rank_embedding", (1, 1, 1, config.top_k, h))
    tensor(f"{name}relative_slot_bias", (of["num_heads"], 2 * config.block - 1))
    tensor(f"{name}same_slot_bias", (of["num_heads"],))
    linear("context_proj", h, config.hidden)
    for i in range(of["num_layers"]):
        layer = f"layers.{i}."
        for part in ("attn_norm", "mlp_norm"):
            vector(f"{name}{layer}{part}.weight", h, 0.2, 1.0)
        linear(f"{layer}attn.in_proj", 3 * h, h, joint="_")
        linear(f"{layer}attn.out_proj", h, h)
        linear(f"{layer}mlp.0", inner, h)
        linear(f"{layer}mlp.2", h, inner)
    for part in ("output_norm", "anchor_norm"):
        vector(f"{name}{part}.weight", h, 0.2, 1.0)
    linear("factor_input_proj", h, 3 * h, 2.0)
    for part in ("out_head", "in_head", "anchor_out_head"):
        linear(part, factor, h)


def make_drafter(raw, stored, target):
    weights = {name: t.float() if t.is_floating_point() else t for name, t in stored.items()}
    return Drafter(read_config(raw), weights, target.embedding, target.head)


def fit(raw, stored, target, steps=60):
    """Train on the target's greedy text after a few random prompts, then round to the stored dtype."""
    config = read_config(raw)
    weights = {name: t.float().requires_grad_() for name, t in stored.items()}
    drafter = Drafter(config, weights, target.embedding, target.head)
    texts = []
    for seed in range(24):
        ids = prompt_ids(seed)
        for _ in range(OUTPUT + config.block):
            ids.append(int(target(ids, config.aux_layers)[1][-1].argmax()))
        texts.append((ids, target(ids, config.aux_layers)[0]))
    optimizer = torch.optim.Adam(weights.values(), lr=3e-3)
    generator = torch.Generator().manual_seed(7)
    for _ in range(steps):
        loss = 0
        for ids, features in texts:
            start = int(torch.randint(PROMPT, len(ids) - config.block + 1, (), generator=generator))
            drafter.reset()
            drafter.extend(drafter.context(features[:start]))
            logits = drafter.draft(ids[start])[1]
            loss = loss + torch.nn.functional.cross_entropy(logits[1:], torch.tensor(ids[start + 1:start + config.block]))
        optimizer.zero_grad()
        (loss / len(texts)).backward()
        optimizer.step()
    return {name: weights[name].detach().to(t.dtype) for name, t in stored.items()}


def prompt_ids(seed):
    return torch.randint(3, 90, (PROMPT,), generator=torch.Generator().manual_seed(5000 + seed)).tolist()


def margin(logits):
    best = logits.topk(2, dim=-1).values
    return float((best[..., 0] - best[..., 1]).min())


class Margins:
    def __init__(self):
        self.target = self.draft = self.candidates = float("inf")

    def see_draft(self, drafter, hidden, logits, last_token):
        """With a selector, its candidates and their order, and every choice of the walk, must be clear."""
        hidden, logits = hidden[-drafter.c.drafts:], logits[-drafter.c.drafts:]
        if drafter.c.refiner:
            logits = torch.cat([rows for _, rows in drafter.by_rounds(logits, last_token)])
        elif drafter.c.adds:
            logits = drafter.in_turn(hidden, logits, last_token)[1]
        if not drafter.c.top_k:
            self.draft = min(self.draft, margin(logits))
            return
        best = logits.topk(drafter.c.top_k + 1, dim=-1).values
        self.candidates = min(self.candidates, float((best[:, :-1] - best[:, 1:]).min()))
        before = 0
        for scores in drafter.edges(hidden, logits, last_token):
            self.draft = min(self.draft, margin(scores[before]))
            before = int(scores[before].argmax())

    def fine(self):
        return self.target > MIN_TARGET_MARGIN and self.draft > MIN_DRAFT_MARGIN and self.candidates > MIN_CANDIDATE_MARGIN


def draft_call(prefix, drafter, new_ids, features, last_token, margins, out):
    """Append the features of `new_ids`, then draft from `last_token`; a second path without a cache must agree."""
    context = drafter.context(features)
    drafter.extend(context)
    hidden, logits = drafter.draft(last_token, new_ids[-1])
    drafted = drafter.drafted_ids(hidden, logits, last_token)
    margins.see_draft(drafter, hidden, logits, last_token)
    speaking = (hidden[-drafter.c.drafts:], logits[-drafter.c.drafts:])
    if drafter.c.adds:
        out[f"{prefix}.logits_in_turn"] = drafter.in_turn(*speaking, last_token)[1]
    if drafter.c.markov:
        out[f"{prefix}.confidences"] = drafter.confidences(speaking[0], drafted, last_token)
    if drafter.c.top_k:
        out.update({f"{prefix}.candidates": drafter.candidates(speaking[1]), f"{prefix}.edges": drafter.edges(*speaking, last_token)})
    if drafter.c.layers > 1:  # of the smallest they would say again what others say
        out.update({f"{prefix}.features": features, f"{prefix}.context": context})
    out.update({f"{prefix}.new_ids": torch.tensor(new_ids),
                f"{prefix}.start": torch.tensor([len(drafter.cache[0][0])]), f"{prefix}.anchor": torch.tensor([last_token]),
                f"{prefix}.draft_hidden": hidden, f"{prefix}.draft_logits": logits, f"{prefix}.drafted_ids": drafted})


def two_calls(drafter, target, prompt, seed, margins):
    """A draft after the prompt, then one after four more committed tokens (given ones, whatever was drafted)."""
    out = {"prompt_ids": torch.tensor(prompt)}
    aux_layers = drafter.c.aux_layers
    features, logits = target(prompt, aux_layers)
    margins.target = min(margins.target, margin(logits[-1]))
    last_token = int(logits[-1].argmax())
    drafter.reset()
    draft_call("call1", drafter, prompt, features, last_token, margins, out)
    given = torch.randint(3, 90, (4,), generator=torch.Generator().manual_seed(9000 + seed)).tolist()
    committed, last_token = [last_token] + given[:3], given[3]
    features = target(prompt + committed, aux_layers)[0]
    draft_call("call2", drafter, committed, features[PROMPT:], last_token, margins, out)
    drafter.reset()
    drafter.extend(drafter.context(features))
    torch.testing.assert_close(drafter.draft(last_token)[0], out["call2.draft_hidden"], rtol=1e-4, atol=1e-4)
    return out


def greedy_run(drafter, target, prompt, margins):
    """The draft -> verify loop. accept_lengths count the bonus token; the last step may run past the cut at OUTPUT tokens."""
    aux_layers = drafter.c.aux_layers
    features, logits = target(prompt, aux_layers)
    output, lengths, drafts = [int(logits[-1].argmax())], [], []
    drafter.reset()
    drafter.extend(drafter.context(features))
    while len(output) < OUTPUT:
        draft_hidden, draft_logits = drafter.draft(output[-1], (prompt + output)[-2])
        last_token = output[-1]
        drafted = drafter.drafted_ids(draft_hidden, draft_logits, last_token).tolist()
        start = len(prompt) + len(output) - 1
        features, logits = target(prompt + output + drafted, aux_layers)
        choice = logits[start:].argmax(-1).tolist()
        accepted = 0
        while accepted < len(drafted) and drafted[accepted] == choice[accepted]:
            accepted += 1
        output += drafted[:accepted] + [choice[accepted]]
        drafter.extend(drafter.context(features[start:start + accepted + 1]))
        lengths.append(accepted + 1)
        drafts.append(drafted)
        margins.target = min(margins.target, margin(logits[start:start + accepted + 1]))
        margins.see_draft(drafter, draft_hidden, draft_logits, last_token)
    plain = list(prompt)
    for _ in range(len(output)):
        plain.append(int(target(plain, aux_layers)[1][-1].argmax()))
    assert plain[len(prompt):] == output, "speculation changed the text"
    return {"run.output_ids": torch.tensor(output[:OUTPUT]), "run.accept_lengths": torch.tensor(lengths),
            "run.drafted_ids": torch.tensor(drafts)}


def interesting(name, out):
    lengths = out["run.accept_lengths"].tolist()
    varied = name != "dflash_fitted" or (max(lengths) >= 6 and min(lengths) == 1 and len(set(lengths)) >= 4)
    if "call1.candidates" in out:  # the selector prefers others than the likeliest, and candidates after others than these
        ids, drafted = out["call1.candidates"], out["call1.drafted_ids"]
        varied = int((ids[:, 0] != drafted).sum()) >= 3
    if "call1.logits_in_turn" in out:
        varied = int((out["call1.draft_logits"][-len(out["call1.drafted_ids"]):].argmax(-1)
                      != out["call1.logits_in_turn"].argmax(-1)).sum()) >= 3
    return varied and len(set(out["call1.drafted_ids"].tolist())) >= 3 and 2 not in out["run.output_ids"].tolist()


@torch.no_grad()
def values(name, drafter, target):
    for seed in range(300):
        margins, prompt = Margins(), prompt_ids(seed)
        out = two_calls(drafter, target, prompt, seed, margins)
        if not margins.fine():
            continue
        out.update(greedy_run(drafter, target, prompt, margins))
        if margins.fine() and interesting(name, out):
            return out, margins
    raise SystemExit(f"{name}: no prompt without near ties in 300")


@torch.no_grad()
def check_matters(name, raw, change, stored, target, out):
    """The feature the variant is about must change the draft, or the golden would prove nothing."""
    if read_config(raw).refiner:
        check_rounds(name, raw, stored, target, out)
    if conv := read_config(raw).conv:
        alone = {n: torch.cat((t[:, :1], torch.zeros_like(t[:, 1:])), 1) if n.endswith("base_kernel") else t for n, t in stored.items()}
        check_moves(f"{name}: without the other taps of {conv}", raw, alone, target, out)
    if change is not None:
        check_moves(f"{name}: with {change}", {**raw, **change}, stored, target, out)


def check_rounds(name, raw, stored, target, out):
    """Of the refiner: later rounds, the token before the last one, and each of its parts."""
    def rows(tensors, token_before=None):
        drafter = make_drafter(raw, tensors, target)
        drafter.extend(drafter.context(target(out["prompt_ids"].tolist(), drafter.c.aux_layers)[0]))
        before = int(out["prompt_ids"][-1]) if token_before is None else token_before
        logits = drafter.draft(int(out["call1.anchor"]), before)[1][-drafter.c.drafts:]
        return drafter.by_rounds(logits, int(out["call1.anchor"]))

    rounds, expected = rows(stored), out["call1.logits_in_turn"]
    assert (rounds[0][0] != rounds[-1][0]).sum() >= 2, f"{name}: one round says it all"
    assert float((rows(stored, 17)[-1][1] - expected).abs().max()) > 0.1, f"{name}: the token before does not matter"
    for part in ("down_h.weight", "down_g.weight", "mix_l", "mlp_gate.weight"):
        changed = {n: torch.zeros_like(t) if n == f"refiner_head.{part}" else t for n, t in stored.items()}
        assert float((rows(changed)[-1][1] - expected).abs().max()) > 0.1, f"{name}: {part} does not matter"


def check_moves(what, raw, stored, target, out):
    other = make_drafter(raw, stored, target)
    other.extend(other.context(target(out["prompt_ids"].tolist(), other.c.aux_layers)[0]))
    difference = float((other.draft(int(out["call1.anchor"]))[0] - out["call1.draft_hidden"]).abs().max())
    assert difference > 0.1, f"{what} the draft moves by {difference} only"


def main():
    torch.set_num_threads(1)
    data = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "tests" / "data")
    with tempfile.TemporaryDirectory() as temporary:
        target = Target(with_weights(data / "families" / TARGET, Path(temporary) / TARGET))
    wanted = sys.argv[2:]
    for seed, (name, (raw, change)) in enumerate(variants().items(), start=100):
        if wanted and name not in wanted:
            continue
        folder = data / "drafters" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(raw, separators=(",", ":")) + "\n")
        describe(folder, seed, random_weights(raw, read_config(raw), seed))
        with tempfile.TemporaryDirectory() as temporary:
            stored = load_file(with_weights(folder, Path(temporary) / name) / "model.safetensors")
        if name == "dflash_fitted":
            stored = fit(raw, stored, target)
            save_file({n: t.contiguous() for n, t in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
            (folder / "tensors.json").unlink()
        drafter = make_drafter(raw, stored, target)
        out, margins = values(name, drafter, target)
        check_matters(name, raw, change, stored, target, out)
        about = {"target": f"families/{TARGET}", "aux_layers": drafter.c.aux_layers, "block_size": drafter.c.block, "drafts_per_call": drafter.c.drafts}
        (folder / "goldens.json").write_text(json.dumps(about) + "\n")
        if name in REPEATING:
            out = {n: t for n, t in out.items() if not n.endswith((".features", ".context"))}
        save_file({n: (t if t.is_floating_point() else t.to(torch.int32)).contiguous() for n, t in out.items()},
                  folder / "goldens.safetensors")
        for file in folder.iterdir():
            file.chmod(0o644)
        print(f"{name:26s} {sum(f.stat().st_size for f in folder.iterdir()) / 1024:5.0f} KiB  logit std"
              f" {float(out['call1.draft_logits'].std()):.2f}  margins {margins.target:.3f} {margins.draft:.4f}  drafted"
              f" {out['call1.drafted_ids'].tolist()}  accept {out['run.accept_lengths'].tolist()}")


if __name__ == "__main__":
    main()
