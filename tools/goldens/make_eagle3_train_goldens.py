#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write goldens of the training of a tiny EAGLE-3 head: loss, every gradient, ten steps of the optimiser.

    python3 tools/goldens/make_eagle3_train_goldens.py [tests/data]

As make_train_goldens.py, whose noise, losses and optimizers these are, from the definition of the method: one chain at a time, each step a
forward of the layer over the rows it sees. Of each gradient its norm is stored and its product with noise.
"""

import json
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

import make_train_goldens as base
from drafter_reference import rms_norm, rope
from make_train_goldens import SETTINGS, STEPS, noise
from seeded_weights import UNIT

SHAPE = base.SHAPE | {"layers": 1, "aux_width": 36, "block": 5}
VARIANTS = {
    "eagle3": {"weights": "decay", "schedule": "cosine", "weight_decay": 0.1, "embedding_scale": 1.5},
    "eagle3_kl": {"loss": "kl", "weights": "dpace", "schedule": "linear", "weight_decay": 0.0, "target_multiplier": 1.5,
                  "output_multiplier": 0.5},
    "eagle3_muon": {"weights": "decay", "schedule": "cosine", "weight_decay": 0.0, "muon_rate": 3.0, "muon_momentum": 0.9,
                    "muon_weight_decay": 0.2},
    # Some tokens are drafted: slots of others have no loss, and the target's distribution is over what is drafted.
    "eagle3_vocabulary": {"loss": "kl", "weights": "decay", "schedule": "linear", "weight_decay": 0.0,
                          "draft_ids": [0, 1, 3, 4, 6, 8, 9, 13, 14, 15, 17, 20, 21, 22, 24, 27, 29, 30, 31, 33, 36, 37, 38, 41, 42, 45, 47, 48]},
}
# Length, supervised ranges, and the anchors of even and of odd steps; the first one may be 1, before which there is no context.
DOCUMENTS = [
    (31, [(9, 31)], [[9, 11, 12, 20, 27, 29], [10, 19, 25]]),
    (5, [(1, 5)], [[1, 2, 3], [3]]),
    (22, [(4, 10), (14, 22)], [[4, 7, 8, 15, 20], [5, 14, 19]]),
]


def parameter_shapes(variant):  # noqa: ARG001
    h, inner = SHAPE["hidden"], SHAPE["intermediate"]
    q, kv = SHAPE["heads"] * SHAPE["head_dim"], SHAPE["kv_heads"] * SHAPE["head_dim"]
    layer = {"input_layernorm": (h,), "hidden_norm": (h,), "self_attn.q_proj": (q, 2 * h), "self_attn.k_proj": (kv, 2 * h),
             "self_attn.v_proj": (kv, 2 * h), "self_attn.o_proj": (h, q), "post_attention_layernorm": (h,), "mlp.gate_proj": (inner, h),
             "mlp.up_proj": (inner, h), "mlp.down_proj": (h, inner)}
    return {"fc.weight": (h, SHAPE["aux_width"]), "norm.weight": (h,)} | {f"midlayer.{name}.weight": of for name, of in layer.items()}


def chain_logits(w, shape, embedding, head, ids, aux_hidden, p):
    """Logits [block - 1, vocab] of the chain that begins at position p."""
    d, heads, kv_heads, eps = shape["head_dim"], shape["heads"], shape["kv_heads"], shape["eps"]
    part = lambda name: w[f"midlayer.{name}.weight"]  # noqa: E731

    def pair(token, feature):
        return torch.cat((rms_norm(embedding[token] * shape.get("embedding_scale", 1.0), part("input_layernorm"), eps),
                          rms_norm(feature, part("hidden_norm"), eps)))

    def key_and_value(x, position):
        key = F.linear(x, part("self_attn.k_proj")).view(1, kv_heads, d)
        return rope(key, torch.tensor([position]), shape["rope_theta"])[0], F.linear(x, part("self_attn.v_proj")).view(kv_heads, d)

    features = F.linear(aux_hidden, w["fc.weight"])
    seen = [key_and_value(pair(ids[t], features[t - 1]), t) for t in range(1, p)]
    feature, rows = features[p - 1], []
    for step in range(shape["block"] - 1):
        token, position = ids[min(p + step, len(ids) - 1)], p + step
        x = pair(token, feature)
        seen.append(key_and_value(x, position))
        q = rope(F.linear(x, part("self_attn.q_proj")).view(1, heads, d), torch.tensor([position]), shape["rope_theta"])[0]
        k, v = (torch.stack(of).repeat_interleave(heads // kv_heads, dim=1) for of in zip(*seen))
        weights = (torch.einsum("hd,khd->hk", q, k) / math.sqrt(d)).softmax(-1)
        x = feature + F.linear(torch.einsum("hk,khd->hd", weights, v).reshape(-1), part("self_attn.o_proj"))
        normed = rms_norm(x, part("post_attention_layernorm"), eps)
        feature = x + F.linear(F.silu(F.linear(normed, part("mlp.gate_proj"))) * F.linear(normed, part("mlp.up_proj")), part("mlp.down_proj"))
        rows.append(F.linear(rms_norm(feature, w["norm.weight"], eps) * shape.get("output_multiplier", 1.0), head))
    return torch.stack(rows)


def loss_of(w, shape, variant, logits_of, documents, embedding, head, parity):
    total, weights, blocks, right, labels = 0.0, 0.0, 0, [0] * shape["block"], [0] * shape["block"]
    drafted = variant.get("draft_ids", list(range(shape["vocab"])))
    head = head[drafted]
    for ids, supervised, aux_hidden, final_hidden, anchors in documents:
        targets = F.linear(final_hidden * shape.get("target_multiplier", 1.0), head)
        for p in anchors[parity]:
            logits = logits_of(w, shape, embedding, head, ids, aux_hidden, p)
            blocks += 1
            slots = [k for k in range(1, shape["block"]) if p + k < len(ids) and supervised[p + k]]
            losses = {k: base.row_loss(variant, logits[k - 1], targets[p + k - 1], drafted.index(ids[p + k]))
                      for k in slots if ids[p + k] in drafted}
            part, weight = base.weighted(variant, losses)
            total, weights = total + part, weights + weight
            for k in slots:
                labels[k] += 1
                right[k] += int(drafted[int(logits[k - 1].argmax())] == ids[p + k])
    accuracy = [r / n if n else 0.0 for r, n in zip(right[1:], labels[1:])]
    return total / (weights if variant["weights"] == "decay" else blocks), blocks, sum(labels), accuracy


def write(file, shape, all_variants, shapes_of, logits_of):
    """Goldens of heads that draft one token at a time: shapes_of(variant) of their weights, logits_of(...) as chain_logits."""
    torch.optim._muon._zeropower_via_newtonschulz = base.newton_schulz
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data") / "train"
    out.mkdir(parents=True, exist_ok=True)
    documents, described, embedding, head = base.make_data(shape, DOCUMENTS)
    variants = {}
    for name, variant in all_variants.items():
        w = {key: (noise(key, of, 0.3, 1.0) if len(of) == 1 else noise(key, of, UNIT / of[1]**0.5)).requires_grad_()
             for key, of in shapes_of(variant).items()}
        optimizers = base.make_optimizers(variant, w)
        steps = []
        for step in range(STEPS):
            loss, blocks, labels, accuracy = loss_of(w, shape | variant, variant, logits_of, documents, embedding, head, step % 2)
            for value in w.values():
                value.grad = None
            loss.backward()
            if step == 0:
                variant |= {"gradients": base.in_two_numbers({key: value.grad for key, value in w.items()})}
            norm = base.optimise(variant, step, w, optimizers)
            steps.append({"loss": float(loss.detach()), "gradient_norm": norm, "learning_rate": base.learning_rate(variant, step)})
            if step == 0:
                steps[-1] |= {"blocks": blocks, "labels": labels, "position_accuracy": accuracy}
        # Where ten steps lead, in two numbers a tensor.
        trained = base.in_two_numbers({key: value.detach() for key, value in w.items()})
        variants[name] = {**variant, "steps": steps, "trained": trained}
        print(name, [round(step["loss"], 4) for step in steps], [round(step["gradient_norm"], 3) for step in steps])
    text = {"seed": base.SEED, "shape": shape, "settings": SETTINGS, "documents": described, "variants": variants}
    (out / file).write_text(json.dumps(text, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write("eagle3.json", SHAPE, VARIANTS, parameter_shapes, chain_logits)
