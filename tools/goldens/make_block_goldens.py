#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decodes with a block-diffusion model in SDAR form, by PyTorch in strict float32 and without a cache.

make_block_goldens.py MODEL OLD.json NEW.json [rounded]

OLD.json names the cases (prompt_ids, block_size, threshold, and answers if it has them); NEW.json gets their tokens,
the passes over blocks and the positions that each pass unmasked. Rule: every masked position whose token is more likely than the
threshold (strictly), else the most likely one; the mask token is never chosen; a block is filled to its end before stop
tokens are looked for. `rounded`: with rotary frequencies rounded to bfloat16, as model.to(bfloat16).float() leaves
them; a few answers come out differently.
"""

import json
import sys

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

NEW_CASE_TOKENS = 160  # the longest answer of a case that had none


def load(folder, device, rounded):
    fields = json.load(open(f"{folder}/config.json"))
    mask_id = fields["mask_token_id"]
    for key in ("architectures", "model_type", "block_size", "mask_token_id"):
        fields.pop(key, None)
    config = Qwen3Config(**fields)
    config._attn_implementation = "eager"
    model = Qwen3ForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32, attn_implementation="eager")
    stops = json.load(open(f"{folder}/generation_config.json"))["eos_token_id"]
    if rounded:
        rope = model.model.rotary_emb
        rope.inv_freq = rope.inv_freq.bfloat16().float()
    return model.to(device).eval(), mask_id, stops if isinstance(stops, list) else [stops]


def block_mask(n, block, device):
    of = torch.arange(n, device=device) // block
    allowed = of[None, :] <= of[:, None]
    return torch.where(allowed, 0.0, torch.finfo(torch.float32).min)[None, None]


@torch.no_grad()
def decode(model, mask_id, stops, prompt, block, threshold, most, device):
    ids = list(prompt)
    accepted, forwards = [], 0
    start = len(ids) // block * block
    ids += [mask_id] * (start + block - len(ids))
    masked = set(range(len(prompt), start + block))
    while True:
        x = torch.tensor([ids], device=device)
        logits = model(input_ids=x, attention_mask=block_mask(len(ids), block, device)).logits[0, start:].float()
        logits[:, mask_id] = float("-inf")
        p, token = torch.softmax(logits, -1).max(-1)
        p, token = p.tolist(), token.tolist()
        forwards += 1
        chosen = [i for i in sorted(masked) if p[i - start] > threshold]
        chosen = chosen or [max(sorted(masked), key=lambda i: p[i - start])]
        for i in chosen:
            ids[i] = token[i - start]
            masked.discard(i)
        accepted.append(chosen)
        if masked:
            continue
        answer = ids[len(prompt):]
        ends = [k for k, t in enumerate(answer) if t in stops]
        if ends:
            return answer[: ends[0] + 1], forwards, accepted
        if len(answer) >= most:
            return answer[:most], forwards, accepted
        start += block
        masked = set(range(start, start + block))
        ids += [mask_id] * block


def main():
    folder, old_path, new_path = sys.argv[1:4]
    rounded = sys.argv[4:] == ["rounded"]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, mask_id, stops = load(folder, device, rounded)
    old = json.load(open(old_path))
    cases, differ = [], []
    for index, case in enumerate(old["cases"]):
        # The longest answer a case may have: what its old answer has if that was cut, no limit worth naming if it ended.
        old_tokens = case.get("tokens")
        most = NEW_CASE_TOKENS if not old_tokens else 10**6 if old_tokens[-1] in stops else len(old_tokens)
        tokens, forwards, accepted = decode(
            model, mask_id, stops, case["prompt_ids"], case["block_size"], case["threshold"], most, device
        )
        if (tokens, forwards, accepted) != tuple(case.get(key) for key in ("tokens", "forwards", "accepted_positions")):
            differ.append(index)
        cases.append({key: case[key] for key in ("block_size", "threshold", "prompt_ids")} | {
            "tokens": tokens, "forwards": forwards, "accepted_positions": accepted})
    note = "PyTorch, strict float32, no cache; by tools/goldens/make_block_goldens.py"
    json.dump({"note": note, "cases": cases}, open(new_path, "w"), separators=(",", ":"))
    print(f"{len(cases)} cases; different from {old_path}: {differ}")


if __name__ == "__main__":
    main()
