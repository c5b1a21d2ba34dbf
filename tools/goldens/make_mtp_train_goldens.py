#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write goldens of the training of a tiny layer that predicts further tokens (MTP): loss, every gradient, ten steps of the optimiser.

    python3 tools/goldens/make_mtp_train_goldens.py [tests/data]

As make_eagle3_train_goldens.py, whose documents and numbers these are, with another layer: one chain at a time, from the definition of the
method, each step a forward of the same layer on what the one before left.
"""

import math

import torch
import torch.nn.functional as F

import make_eagle3_train_goldens as chains
import make_train_goldens as base
from drafter_reference import rms_norm, rope
from make_train_goldens import noise

SHAPE = base.SHAPE | {"layers": 1, "aux_width": base.SHAPE["hidden"], "block": 4}
VARIANTS = {
    # As in Qwen3: whole heads are rotated.
    "mtp": {"weights": "decay", "schedule": "cosine", "weight_decay": 0.1, "embedding_scale": 1.5,
            "own_layer": {"rotary_dim": 8, "output_gate": False}},
    # As in Qwen3.5: a part of each head is rotated, and what attention answers is gated.
    "mtp_gated": {"loss": "kl", "weights": "dpace", "schedule": "linear", "weight_decay": 0.0, "muon_rate": 3.0, "muon_momentum": 0.9,
                  "muon_weight_decay": 0.2, "own_layer": {"rotary_dim": 4, "output_gate": True}},
}


def parameter_shapes(variant):
    h, d, inner, own = SHAPE["hidden"], SHAPE["head_dim"], SHAPE["intermediate"], variant["own_layer"]
    q, kv = SHAPE["heads"] * d, SHAPE["kv_heads"] * d
    layer = {"input_layernorm": (h,), "self_attn.q_proj": (q * (2 if own["output_gate"] else 1), h), "self_attn.k_proj": (kv, h),
             "self_attn.v_proj": (kv, h), "self_attn.o_proj": (h, q), "post_attention_layernorm": (h,), "mlp.gate_proj": (inner, h),
             "mlp.up_proj": (inner, h), "mlp.down_proj": (h, inner), "self_attn.q_norm": (d,), "self_attn.k_norm": (d,)}
    outside = {"fc": (h, 2 * h), "pre_fc_norm_embedding": (h,), "pre_fc_norm_hidden": (h,), "norm": (h,)}
    return {f"mtp.{name}.weight": of for name, of in outside.items()} | {f"mtp.layers.0.{name}.weight": of for name, of in layer.items()}


def chain_logits(w, shape, embedding, head, ids, aux_hidden, p):
    """Logits [block - 1, vocab] of the chain that begins at position p."""
    d, heads, kv_heads, eps, own = shape["head_dim"], shape["heads"], shape["kv_heads"], shape["eps"], shape["own_layer"]
    part = lambda name: w[f"mtp.layers.0.{name}.weight"]  # noqa: E731
    normed = lambda x, name: rms_norm(x, w[f"mtp.{name}.weight"], eps)  # noqa: E731

    def enter(token, feature):
        pair = torch.cat((normed(embedding[token] * shape.get("embedding_scale", 1.0), "pre_fc_norm_embedding"),
                          normed(feature, "pre_fc_norm_hidden")))
        return F.linear(pair, w["mtp.fc.weight"])

    def placed(rows, name, position):
        """[heads, d], normed and rotated."""
        rows = rms_norm(rows, part(f"self_attn.{name}_norm"), eps)
        turned = rope(rows[None, :, :own["rotary_dim"]], torch.tensor([position]), shape["rope_theta"])[0]
        return torch.cat((turned, rows[:, own["rotary_dim"]:]), dim=-1)

    def key_and_value(x, position):
        x = rms_norm(x, part("input_layernorm"), eps)
        key = F.linear(x, part("self_attn.k_proj")).view(kv_heads, d)
        return placed(key, "k", position), F.linear(x, part("self_attn.v_proj")).view(kv_heads, d)

    features = rms_norm(aux_hidden, noise("target_norm", (shape["hidden"],), 0.3, 1.0), eps)
    seen = [key_and_value(enter(ids[t], features[t - 1]), t) for t in range(1, p)]
    feature, rows = features[p - 1], []
    for step in range(shape["block"] - 1):
        position = p + step
        x = enter(ids[min(position, len(ids) - 1)], feature)
        seen.append(key_and_value(x, position))
        q = F.linear(rms_norm(x, part("input_layernorm"), eps), part("self_attn.q_proj")).view(heads, -1)
        q, gate = q[:, :d], q[:, d:]
        k, v = (torch.stack(of).repeat_interleave(heads // kv_heads, dim=1) for of in zip(*seen))
        weights = (torch.einsum("hd,khd->hk", placed(q, "q", position), k) / math.sqrt(d)).softmax(-1)
        answer = torch.einsum("hk,khd->hd", weights, v)
        answer = answer * gate.sigmoid() if own["output_gate"] else answer
        x = x + F.linear(answer.reshape(-1), part("self_attn.o_proj"))
        inner = rms_norm(x, part("post_attention_layernorm"), eps)
        x = x + F.linear(F.silu(F.linear(inner, part("mlp.gate_proj"))) * F.linear(inner, part("mlp.up_proj")), part("mlp.down_proj"))
        feature = normed(x, "norm")
        rows.append(F.linear(feature * shape.get("output_multiplier", 1.0), head))
    return torch.stack(rows)


if __name__ == "__main__":
    chains.write("mtp.json", SHAPE, VARIANTS, parameter_shapes, chain_logits)
