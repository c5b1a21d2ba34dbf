#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write goldens of the training of a tiny drafter: loss, every gradient, ten steps of the optimiser.

    python3 tools/goldens/make_train_goldens.py [tests/data]

PyTorch in float64, with autograd and torch.optim.AdamW, from the definition of the method: one document and one block at a time, nothing
shared. Weights, embedding, head and the target's hidden states are noise that is not stored (see seeded_weights.py); golden numbers are. Of
each gradient its norm and its product with noise are stored: nothing of it changes without one of them.
Documents: one with an unsupervised prompt, one shorter than a block, one with two answers.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from drafter_reference import rms_norm, rope
from seeded_weights import UNIT, uniform

SEED, STEPS = 77, 10
SHAPE = {"hidden": 24, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 8, "intermediate": 40, "aux_width": 48, "vocab": 50,
         "block": 6, "eps": 1e-5, "rope_theta": 1000.0, "mask_token_id": 49}
SETTINGS = {"learning_rate": 2e-2, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "clip": 1.0, "warmup_share": 0.25, "total_steps": 12,
            "gamma": 3.0, "alpha": 0.4}
VARIANTS = {
    "decay": {"weights": "decay", "schedule": "cosine", "weight_decay": 0.0},
    "dpace": {"weights": "dpace", "schedule": "linear", "weight_decay": 0.1},
    "muon": {"weights": "dpace", "schedule": "cosine", "weight_decay": 0.0, "muon_rate": 3.0, "muon_momentum": 0.9,
             "muon_weight_decay": 0.2},
    # Far context is out of sight, in one layer what follows in the block, too; hidden states are scaled on their way in and out.
    "window": {"weights": "decay", "schedule": "cosine", "weight_decay": 0.0, "embedding_scale": 1.5, "output_multiplier": 0.5,
               "sights": [{"window": 9, "causal": True}, {"window": 7, "causal": False}]},
    # Distributions of the target instead of tokens.
    "kl": {"loss": "kl", "weights": "decay", "schedule": "cosine", "weight_decay": 0.0, "target_multiplier": 1.5},
    "tv": {"loss": "tv", "weights": "dpace", "schedule": "linear", "weight_decay": 0.1},
    "nla": {"loss": "nla", "weights": "dpace", "schedule": "cosine", "weight_decay": 0.0, "output_multiplier": 2.0},
    "lk": {"loss": "lk", "weights": "decay", "schedule": "linear", "weight_decay": 0.0},
    # What DFlash2 adds to the backbone, each part alone and both.
    "convolutions": {"weights": "decay", "schedule": "cosine", "weight_decay": 0.0, "convolutions": {"taps": 3, "group": 4}},
    "selector": {"weights": "dpace", "schedule": "linear", "weight_decay": 0.1, "output_multiplier": 2.0,
                 "selector": {"rank": 7, "candidates": 4}, "selector_weight": 0.7},
    "heads": {"loss": "kl", "weights": "decay", "schedule": "cosine", "weight_decay": 0.0, "muon_rate": 3.0, "muon_momentum": 0.9,
              "muon_weight_decay": 0.2, "convolutions": {"taps": 2, "group": 12}, "selector": {"rank": 5, "candidates": 9},
              "selector_weight": 1.0},
    # What DSpark adds: what the token before adds to logits, and a rating of each draft, of its hidden state or of the code of that token too.
    "markov": {"weights": "decay", "schedule": "cosine", "weight_decay": 0.0, "output_multiplier": 2.0, "markov": {"rank": 7, "rated_width": 0}},
    "markov_tv": {"loss": "tv", "weights": "dpace", "schedule": "linear", "weight_decay": 0.1, "markov": {"rank": 5, "rated_width": 24},
                  "rating_weight": 1.3},
    "confidence": {"weights": "dpace", "schedule": "cosine", "weight_decay": 0.0, "muon_rate": 3.0, "muon_momentum": 0.9,
                   "muon_weight_decay": 0.2, "markov": {"rank": 6, "rated_width": 30}, "rating_weight": 0.7},
}
# Length, supervised ranges, and the anchors of even and of odd steps.
DOCUMENTS = [
    (37, [(9, 37)], [[9, 11, 12, 20, 30, 35], [10, 19, 33]]),
    (5, [(2, 5)], [[2, 3], [3]]),
    (26, [(4, 10), (16, 26)], [[0, 4, 7, 8, 17, 24], [5, 16, 21]]),
]


def noise(name, shape, scale=1.0, offset=0.0):
    """As tests/golden/train_test.cc computes it: two roundings to float32."""
    values = uniform(SEED, name, int(np.prod(shape))) * np.float32(scale) + np.float32(offset)
    return torch.from_numpy(values.reshape(shape)).double()


def parameter_shapes(variant):
    h, d, inner = SHAPE["hidden"], SHAPE["head_dim"], SHAPE["intermediate"]
    q, kv = SHAPE["heads"] * d, SHAPE["kv_heads"] * d
    out = {"fc.weight": (h, SHAPE["aux_width"]), "hidden_norm.weight": (h,), "norm.weight": (h,)}
    for i in range(SHAPE["layers"]):
        name = f"layers.{i}."
        out |= {f"{name}self_attn.q_proj.weight": (q, h), f"{name}self_attn.k_proj.weight": (kv, h),
                f"{name}self_attn.v_proj.weight": (kv, h), f"{name}self_attn.o_proj.weight": (h, q),
                f"{name}self_attn.q_norm.weight": (d,), f"{name}self_attn.k_norm.weight": (d,),
                f"{name}input_layernorm.weight": (h,), f"{name}post_attention_layernorm.weight": (h,),
                f"{name}mlp.gate_proj.weight": (inner, h), f"{name}mlp.up_proj.weight": (inner, h),
                f"{name}mlp.down_proj.weight": (h, inner)}
        for conv in ("attention_conv", "mlp_conv") if "convolutions" in variant else ():
            taps, group = variant["convolutions"]["taps"], variant["convolutions"]["group"]
            out |= {f"{name}{conv}.base_kernel": (2, taps, h), f"{name}{conv}.kernel_projection.weight": (2 * taps * (h // group), h)}
    if "selector" in variant:
        rank = variant["selector"]["rank"]
        out |= {"candidate_selector.hidden_projection.weight": (rank, h)}
        out |= {f"candidate_selector.{part}_codebook": (SHAPE["vocab"], rank) for part in ("predecessor", "successor")}
    if "markov" in variant:
        rank, rated = variant["markov"]["rank"], variant["markov"]["rated_width"]
        out |= {f"markov_head.markov_{part}.weight": (SHAPE["vocab"], rank) for part in ("w1", "w2")}
        out |= {"confidence_head.proj.weight": (1, rated), "confidence_head.proj.bias": (1,)} if rated > 0 else {}
    return out


def initial_weights(variant):
    """Matrices of deviation 1 / sqrt(inputs), norms around 1."""
    return {name: noise(name, shape, 0.3, 1.0) if len(shape) == 1 else noise(name, shape, UNIT / shape[1]**0.5)
            for name, shape in parameter_shapes(variant).items()}


def convolve(base, dynamic, rows):
    """base [taps, H], dynamic [B, taps, groups], rows [B, H]; rows before the first are zero."""
    out = torch.zeros_like(rows)
    for t in range(len(base)):
        shifted = F.pad(rows, (0, 0, t, 0))[:len(rows)]
        out = out + (base[t] + dynamic[:, t].repeat_interleave(rows.shape[1] // dynamic.shape[2], dim=1)) * shifted
    return out


def around(w, name, shape, rows, sublayer):
    """A sublayer of normed rows between two convolutions, if there are any."""
    if "convolutions" not in shape:
        return sublayer(rows)
    taps, group = shape["convolutions"]["taps"], shape["convolutions"]["group"]
    dynamic = F.linear(rows, w[f"{name}.kernel_projection.weight"]).view(len(rows), 2, taps, rows.shape[1] // group)
    base = w[f"{name}.base_kernel"]
    return convolve(base[1], dynamic[:, 1], sublayer(convolve(base[0], dynamic[:, 0], rows)))


def block_logits(w, shape, embedding, head, aux_hidden, token, p):
    """Logits [block, vocab] and final hidden states of the block that begins at position p with `token`; aux_hidden [p, aux_width]."""
    d, heads, kv_heads, block = shape["head_dim"], shape["heads"], shape["kv_heads"], shape["block"]
    context = rms_norm(F.linear(aux_hidden, w["fc.weight"]), w["hidden_norm.weight"], shape["eps"])
    ids = torch.tensor([token] + [shape["mask_token_id"]] * (block - 1))
    x = embedding[ids] * shape.get("embedding_scale", 1.0)
    at, before = torch.arange(p, p + block), torch.arange(p)
    distance = at[:, None] - torch.cat((before, at))[None, :]
    for i in range(shape["layers"]):
        sight = shape.get("sights", [{"window": 1 << 30, "causal": False}] * shape["layers"])[i]
        visible = (distance < sight["window"]) & ((distance >= 0) | (not sight["causal"]))
        part = lambda name: w[f"layers.{i}.{name}.weight"]  # noqa: E731, B023

        def attention(normed, visible=visible):
            rows = torch.cat((context, normed))
            q = rms_norm(F.linear(normed, part("self_attn.q_proj")).view(block, heads, d), part("self_attn.q_norm"), shape["eps"])
            k = rms_norm(F.linear(rows, part("self_attn.k_proj")).view(-1, kv_heads, d), part("self_attn.k_norm"), shape["eps"])
            v = F.linear(rows, part("self_attn.v_proj")).view(-1, kv_heads, d)
            q, k = rope(q, at, shape["rope_theta"]), rope(k, torch.cat((before, at)), shape["rope_theta"])
            k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
            scores = (torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(d)).masked_fill(~visible, float("-inf"))
            return F.linear(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(block, -1), part("self_attn.o_proj"))

        def mlp(normed):
            return F.linear(F.silu(F.linear(normed, part("mlp.gate_proj"))) * F.linear(normed, part("mlp.up_proj")), part("mlp.down_proj"))

        name = f"layers.{i}"
        x = x + around(w, f"{name}.attention_conv", shape, rms_norm(x, part("input_layernorm"), shape["eps"]), attention)
        x = x + around(w, f"{name}.mlp_conv", shape, rms_norm(x, part("post_attention_layernorm"), shape["eps"]), mlp)
    hidden = rms_norm(x, w["norm.weight"], shape["eps"])
    return F.linear(hidden * shape.get("output_multiplier", 1.0), head), hidden


def chosen_loss(w, n, logits, hidden, before, token):
    """Loss of a row's choice among its n likeliest tokens after `before`, the chance of `token`, which replaces the last of them if it is
    missing, and the choice among those that were not put there."""
    name = "candidate_selector"
    likeliest = logits.topk(n).indices
    ids = likeliest.tolist()
    if token not in ids:
        ids[-1] = token

    def scores(of):
        code = w[f"{name}.predecessor_codebook"][before] * F.linear(hidden, w[f"{name}.hidden_projection.weight"])
        return logits[of] + w[f"{name}.successor_codebook"][of] @ code

    loss = F.cross_entropy(scores(torch.tensor(ids)), torch.tensor(ids.index(token)))
    return loss, math.exp(-float(loss.detach())), int(likeliest[scores(likeliest).argmax()])


def with_markov(w, logits, before):
    """Logits of a row after the token `before`."""
    return logits + w["markov_head.markov_w2.weight"] @ w["markov_head.markov_w1.weight"][before]


def with_rating(w, variant, loss, hidden, before):
    """A row's (loss, chance) with the loss of its rating, which is to be the chance."""
    features = torch.cat((hidden, w["markov_head.markov_w1.weight"][before]))[:variant["markov"]["rated_width"]]
    rating = F.linear(features, w["confidence_head.proj.weight"], w["confidence_head.proj.bias"])[0]
    chance = torch.tensor(loss[1], dtype=rating.dtype)
    return loss[0] + variant["rating_weight"] * F.binary_cross_entropy_with_logits(rating, chance), loss[1]


def row_loss(variant, logits, target, token):
    """Loss of a row and the chance that its draft is accepted: by the document's token, or by the target's logits."""
    if "loss" not in variant:
        loss = F.cross_entropy(logits, torch.tensor(token))
        return loss, math.exp(-float(loss.detach()))
    log_q, log_p = logits.log_softmax(-1), target.log_softmax(-1)
    overlap = torch.minimum(log_q.exp(), log_p.exp()).sum()
    share = math.exp(-3 * float(overlap.detach()))
    kl = F.kl_div(log_q, log_p, reduction="sum", log_target=True)
    tv = (log_q.exp() - log_p.exp()).abs().sum() / 2
    loss = {"kl": kl, "tv": tv, "nla": -overlap.log(), "lk": share * kl + (1 - share) * tv}[variant["loss"]]
    return loss, float(overlap.detach())


def weighted(variant, losses):
    """The sum of a block's losses, {slot: (loss, chance)}, by their weights, and the sum of weights that divides it, if any does."""
    if variant["weights"] == "decay":
        weights = {k: math.exp(-(k - 1) / SETTINGS["gamma"]) for k in losses}
        return sum(weights[k] * losses[k][0] for k in losses), sum(weights.values())
    s = {k: (1 - SETTINGS["alpha"]) * losses[k][1] + SETTINGS["alpha"] for k in losses}
    product = {k: math.prod(s[j] for j in losses if j <= k) for k in losses}
    return sum(losses[k][0] * sum(product[j] for j in losses if j >= k) for k in losses), 0.0


def loss_of(w, variant, documents, embedding, head, parity):
    shape = SHAPE | variant
    total, weights, blocks, right, labels = 0.0, 0.0, 0, [0] * shape["block"], [0] * shape["block"]
    for ids, supervised, aux_hidden, final_hidden, anchors in documents:
        targets = F.linear(final_hidden * shape.get("target_multiplier", 1.0), head)
        for p in anchors[parity]:
            logits, hidden = block_logits(w, shape, embedding, head, aux_hidden[:p], ids[p], p)
            blocks += 1
            slots = [k for k in range(1, shape["block"]) if p + k < len(ids) and supervised[p + k]]
            if "markov" in variant:
                logits = {k: with_markov(w, logits[k], ids[p + k - 1]) for k in slots}
            losses = {k: row_loss(variant, logits[k], targets[p + k - 1], ids[p + k]) for k in slots}
            if "rating_weight" in variant:
                losses = {k: with_rating(w, variant, losses[k], hidden[k], ids[p + k - 1]) for k in slots}
            drafts = {k: int(logits[k].argmax()) for k in slots}
            part, weight = weighted(variant, losses)
            total, weights = total + part, weights + weight
            if "selector" in variant:
                chosen = {k: chosen_loss(w, variant["selector"]["candidates"], logits[k], hidden[k], ids[p + k - 1], ids[p + k])
                          for k in slots}
                drafts = {k: chosen[k][2] for k in slots}
                total = total + variant["selector_weight"] * weighted(variant, chosen)[0]
            for k in slots:
                labels[k] += 1
                right[k] += int(drafts[k] == ids[p + k])
    accuracy = [r / n if n else 0.0 for r, n in zip(right[1:], labels[1:])]
    return total / (weights if variant["weights"] == "decay" else blocks), blocks, sum(labels), accuracy


def learning_rate(variant, step):
    """The first step is number 0. Warm-up rises linearly towards the full rate, which the first step after it has."""
    total = SETTINGS["total_steps"]
    warmup = int(SETTINGS["warmup_share"] * total)
    if step < warmup:
        return SETTINGS["learning_rate"] * (step + 1) / (warmup + 1)
    progress = (step - warmup) / (total - warmup)
    return SETTINGS["learning_rate"] * ((1 - progress) if variant["schedule"] == "linear" else (1 + math.cos(math.pi * progress)) / 2)


def newton_schulz(update, coefficients, steps, eps):
    """What torch.optim.Muon does in bfloat16 by products: the same polynomial of the singular values, in float64."""
    u, values, v = torch.linalg.svd(update / update.norm().clamp(min=eps), full_matrices=False)
    for _ in range(steps):
        values = coefficients[0] * values + coefficients[1] * values**3 + coefficients[2] * values**5
    return u @ torch.diag(values) @ v


def make_optimizers(variant, w):
    """The optimizers and what each takes the learning rate times."""
    matrices = {name for name, value in w.items()
                if value.ndim == 2 and not any(part in name for part in ("codebook", "markov_head", "confidence_head")) and "muon_rate" in variant}
    vectors = [value for name, value in w.items() if name not in matrices]
    adamw = torch.optim.AdamW(vectors, lr=1.0, betas=(SETTINGS["beta1"], SETTINGS["beta2"]), eps=SETTINGS["eps"],
                              weight_decay=variant["weight_decay"])
    if "muon_rate" not in variant:
        return [(adamw, 1.0)]
    muon = torch.optim.Muon([value for name, value in w.items() if name in matrices], lr=1.0, momentum=variant["muon_momentum"],
                            weight_decay=variant["muon_weight_decay"], adjust_lr_fn="match_rms_adamw")
    return [(adamw, 1.0), (muon, variant["muon_rate"])]


def make_data(shape, plans):
    """(documents with what the target computes, documents as the golden file has them, embedding, head)."""
    generator = torch.Generator().manual_seed(SEED)
    documents, described = [], []
    for i, (length, ranges, anchors) in enumerate(plans):
        ids = torch.randint(0, shape["vocab"] - 1, (length,), generator=generator).tolist()
        supervised = [int(any(a <= p < b for a, b in ranges)) for p in range(length)]
        documents.append((ids, supervised, noise(f"aux_hidden.{i}", (length, shape["aux_width"]), UNIT),
                          noise(f"final_hidden.{i}", (length, shape["hidden"]), UNIT), anchors))
        described.append({"ids": ids, "supervised": supervised, "anchors": anchors})
    embedding = noise("embedding", (shape["vocab"], shape["hidden"]), UNIT)
    return documents, described, embedding, noise("head", (shape["vocab"], shape["hidden"]), UNIT * 0.3)


def in_two_numbers(tensors):
    """Of each tensor its norm and its product with noise."""
    return {key: [round(float(value.norm()), 9), round(float((value * noise(f"product.{key}", value.shape)).sum()), 9)]
            for key, value in tensors.items()}


def optimise(variant, step, w, optimizers):
    """One step of the optimizers; returns the gradients' norm before it is clipped."""
    norm = float(torch.nn.utils.clip_grad_norm_(w.values(), SETTINGS["clip"]))
    for optimizer, rate in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(variant, step) * rate
        optimizer.step()
    return norm


def main():
    torch.optim._muon._zeropower_via_newtonschulz = newton_schulz
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data") / "train"
    out.mkdir(parents=True, exist_ok=True)
    documents, described, embedding, head = make_data(SHAPE, DOCUMENTS)
    variants = {}
    for name, variant in VARIANTS.items():
        w = {key: value.clone().requires_grad_() for key, value in initial_weights(variant).items()}
        optimizers = make_optimizers(variant, w)
        steps = []
        for step in range(STEPS):
            loss, blocks, labels, accuracy = loss_of(w, variant, documents, embedding, head, step % 2)
            for value in w.values():
                value.grad = None
            loss.backward()
            brief = any(key in variant for key in ("loss", "convolutions", "selector", "markov"))
            if step == 0:
                variant |= {"gradients": in_two_numbers({key: value.grad for key, value in w.items()})}
            norm = optimise(variant, step, w, optimizers)
            steps.append({"loss": float(loss.detach()), "gradient_norm": norm, "blocks": blocks, "labels": labels,
                          "position_accuracy": accuracy, "learning_rate": learning_rate(variant, step)})
            if brief and step > 0:
                steps[-1] = {key: steps[-1][key] for key in ("loss", "gradient_norm", "learning_rate")}
        # The weights of one variant for each optimiser suffice; the others are checked by their losses.
        if name in ("dpace", "muon"):
            variant |= {"trained": in_two_numbers({key: value.detach() for key, value in w.items()})}
        variants[name] = {**variant, "steps": steps}
        print(name, [round(step["loss"], 4) for step in steps], [round(step["gradient_norm"], 3) for step in steps])
    text = {"seed": SEED, "shape": SHAPE, "settings": SETTINGS, "documents": described, "variants": variants}
    (out / "goldens.json").write_text(json.dumps(text, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
