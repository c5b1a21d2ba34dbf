#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes log-probabilities of prompts, as transformers computes them in float32.

    python3 tools/goldens/make_prompt_logprob_goldens.py models/pebble-11m tests/data/pebble-11m/prompt_logprobs.json

Needs torch and transformers. The ids are prompts and answers of the goldens next to the output file.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM


def main(model_folder, out):
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
    cases = []
    for case in json.loads((Path(out).parent / "goldens.json").read_text())["cases"][:3]:
        ids = (case["prompt_ids"] + case["greedy_ids"])[:80]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, :-1]
        logprobs = torch.log_softmax(logits.double(), -1)
        own = logprobs.gather(1, torch.tensor(ids[1:])[:, None])
        cases.append({"ids": ids,
                      "logprobs": [round(x, 6) for x in own[:, 0].tolist()],
                      "highest": [round(x, 6) for x in logprobs.max(-1).values.tolist()],
                      "ranks": ((logprobs > own).sum(-1) + 1).tolist()})
    Path(out).write_text(json.dumps({"cases": cases}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
