#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write reference values for the sampler: filters.json and philox.json.

    python3 tools/goldens/make_sampling_goldens.py [tests/data/sampling]

Filters: the classes of Hugging Face transformers in the order temperature, top-k, top-p, min-p, in float64. Penalties come before them:
repetition (transformers: prompt and output, divide positive and multiply negative logits), then presence and frequency (OpenAI: output
only, logit - presence * [count > 0] - frequency * count, in numpy). Needs numpy, torch and transformers.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers.generation import logits_process as hf

VOCAB = 50
CLEARANCE = 1e-4  # relative distance of every threshold from the values it decides between: float32 must come to the same sets


def penalised(logits, case):
    scores = torch.from_numpy(logits.astype(np.float64))[None]
    if case["repetition_penalty"] != 1.0:
        seen = torch.tensor([case["prompt"] + case["output"]])
        scores = hf.RepetitionPenaltyLogitsProcessor(penalty=case["repetition_penalty"])(seen, scores)
    counts = np.bincount(case["output"], minlength=VOCAB) if case["output"] else np.zeros(VOCAB)
    return scores.numpy()[0] - case["presence_penalty"] * (counts > 0) - case["frequency_penalty"] * counts


def filtered(logits, case):
    """Logits after temperature, top-k, top-p and min-p: -inf where dropped."""
    scores = torch.from_numpy(logits)[None]
    scores = hf.TemperatureLogitsWarper(case["temperature"])(None, scores) if case["temperature"] != 1.0 else scores
    if case["top_k"] > 0:
        scores = hf.TopKLogitsWarper(case["top_k"])(None, scores)
    if case["top_p"] < 1.0:
        scores = hf.TopPLogitsWarper(case["top_p"])(None, scores)
    if case["min_p"] > 0.0:
        scores = hf.MinPLogitsWarper(case["min_p"])(None, scores)
    return scores[0]


def far_from_thresholds(logits, case):
    """No ties, and neither top-p nor min-p decides on a hair's breadth."""
    ordered = np.sort(logits)[::-1]
    if np.min(ordered[:-1] - ordered[1:]) < CLEARANCE:
        return False
    kept = ordered[:case["top_k"]] if case["top_k"] > 0 else ordered
    mass = np.exp((kept - kept[0]) / case["temperature"])
    mass /= mass.sum()
    before = np.cumsum(mass) - mass
    near_p = case["top_p"] < 1.0 and np.min(np.abs(before - case["top_p"])) < CLEARANCE
    near_min = case["min_p"] > 0.0 and np.min(np.abs(mass[1:] / mass[0] - case["min_p"]) / case["min_p"]) < CLEARANCE
    return not (near_p or near_min)


def settings():
    """(name, overrides) of the 40 cases."""
    out = [("plain", {})]
    out += [("temperature", {"temperature": t}) for t in (0.3, 0.7, 1.5)]
    out += [("top_k", {"top_k": k}) for k in (1, 2, 20, 50, 80)]
    out += [("top_p", {"top_p": p}) for p in (0.01, 0.5, 0.9, 0.99)]
    out += [("min_p", {"min_p": p}) for p in (0.02, 0.1, 0.5, 1.0)]
    out += [("combined", {"temperature": t, "top_k": k, "top_p": p, "min_p": m})
            for t, k, p, m in ((0.6, 20, 0.95, 0.0), (0.7, 20, 0.8, 0.0), (1.0, 40, 0.9, 0.05), (2.0, 10, 0.6, 0.1), (1.3, 0, 0.95, 0.02),
                               (0.8, 5, 0.99, 0.3), (1.0, 3, 0.75, 0.0), (1.7, 30, 1.0, 0.08), (0.5, 0, 0.7, 0.2), (1.2, 49, 0.97, 0.0))]
    penalties = ((1.3, 0.0, 0.0), (0.8, 0.0, 0.0), (1.0, 1.5, 0.0), (1.0, 0.0, 0.7), (1.0, -1.0, -0.4), (1.2, 0.6, 0.3))
    names = ("repetition_penalty", "presence_penalty", "frequency_penalty")
    out += [("penalties", dict(zip(names, values))) for values in penalties]
    mixed = ({"temperature": 0.7, "top_k": 20, "top_p": 0.8}, {"temperature": 1.1, "top_p": 0.9, "min_p": 0.05}, {"top_k": 8})
    out += [("penalties_and_filters", {**dict(zip(names, penalties[i])), **mixed[i % 3]}) for i in (0, 2, 3, 4, 5, 5)]
    out += [("penalties_without_output", {"repetition_penalty": 1.4, "presence_penalty": 2.0, "frequency_penalty": 2.0, "output": []})]
    return out


def make_case(name, overrides, generator):
    while True:
        case = {"name": name, "prompt": [], "output": [], "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
                "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
        if name.startswith("penalties"):
            # Overlapping ranges: some tokens in both, some several times.
            case["prompt"] = generator.integers(0, 30, 12).tolist()
            case["output"] = generator.integers(20, 50, 14).tolist()
        case.update(overrides)
        logits = (generator.standard_normal(VOCAB) * generator.uniform(0.6, 2.0)).round(4).astype(np.float32)
        adjusted = penalised(logits, case)
        if far_from_thresholds(adjusted, case):
            break
    scores = filtered(adjusted, case)
    kept = torch.nonzero(torch.isfinite(scores))[:, 0].tolist()
    probabilities = torch.softmax(scores, -1)[kept].tolist()
    case["logits"] = [float(f"{x:.7g}") for x in logits]
    case["adjusted"] = [round(float(x), 6) for x in adjusted]  # compared to 1e-5
    case["kept"] = kept
    case["probabilities"] = [float(f"{p:.9g}") for p in probabilities]
    return case


def philox4x32(counter, key, rounds=10):
    """Philox4x32 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11)."""
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(rounds):
        product0, product1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(product1 >> 32) ^ c[1] ^ k[0], product1 & mask, (product0 >> 32) ^ c[3] ^ k[1], product0 & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def philox_vectors():
    ones = 0xFFFFFFFF
    published = [  # Random123's known answers
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([ones] * 4, [ones] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0], [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ]
    for counter, key, output in published:
        assert philox4x32(counter, key) == output, "philox differs from the published vectors"
    more = [([i, 0, 0, 0], [0, 0]) for i in (1, 2, 3)] + [([0, 0, 0, 1], [0, 0]), ([0, 1, 0, 0], [0, 0]), ([0, 0, 1, 0], [1, 0])]
    generator = np.random.default_rng(11)
    more += [(generator.integers(0, 2**32, 4).tolist(), generator.integers(0, 2**32, 2).tolist()) for _ in range(7)]
    rows = [{"counter": c, "key": k, "output": o, "published": True} for c, k, o in published]
    return rows + [{"counter": c, "key": k, "output": philox4x32(c, k), "published": False} for c, k in more]


def dump(path, rows):
    path.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "tests" / "data" / "sampling")
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(2017)
    cases = [make_case(name, overrides, generator) for name, overrides in settings()]
    dump(folder / "filters.json", cases)
    dump(folder / "philox.json", philox_vectors())
    for case in cases:
        print(case["name"], {k: case[k] for k in ("temperature", "top_k", "top_p", "min_p")}, "kept", len(case["kept"]))


if __name__ == "__main__":
    main()
