#!/usr/bin/env python3
"""Answers of the published decoding loops of block-diffusion models, on the tiny checkpoints of tests/data/blocks.

    python3 tests/tools/make_block_loop_goldens.py REFERENCES [tests/data/blocks/loops.json]

REFERENCES holds four files of public repositories, of which only functions are taken:

sdar_generate.py           generate.py of github.com/JetAstra/SDAR
llada_generate.py          llada/generate.py of github.com/NVlabs/Fast-dLLM, LLaDA's loop with thresholds
generation_functions.py    v2/generation_functions.py of the same repository
dream_generation_utils.py  generation_utils.py beside a Dream checkpoint

They run as they are, on models that compute every row anew by Hugging Face's classes in float32 (made with 5.17, torch 2.11), under the mask
of the family, without a cache. Three things are done to them from outside: the mask token has no probability, SDAR's draw takes the
likeliest token, and Dream's last time step (eps) is a hair below 0, so that its shares of positions are even.

loops.json: cases of {"folder", "block", "rule", "values", "prompt", "tokens", "passes"}; "passes": by token, how many passes over its
block had settled anything before the one that settled it.
"""

import ast
import json
import sys
import types
from pathlib import Path

import numpy as np
import torch
from transformers.cache_utils import DynamicCache

import make_block_family_goldens as families

MASK = 3


def functions_of(path):
    """The functions and classes of a file, whose own imports may not exist here."""
    kept = [node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    names = {"torch": torch, "np": np, "F": torch.nn.functional, "dists": torch.distributions, "DynamicCache": DynamicCache}
    for name in ("Optional", "Callable", "Union", "Any", "Dict", "Tuple"):
        names[name] = getattr(__import__("typing"), name)
    kept = [node for node in kept if not (isinstance(node, ast.FunctionDef) and node.name in ("main", "parse_args"))]
    exec(compile(ast.Module(kept, []), str(path), "exec"), names)  # noqa: S102 -- files that the caller names
    return types.SimpleNamespace(**names)


class Recorder:
    """A model that computes everything anew, and the sequence before each of its passes."""

    device = torch.device("cpu")

    def __init__(self, run, block, whole):
        self.run, self.block, self.whole, self.states = run, block, whole, []

    def eval(self):
        return self

    def logits(self, kept, ids):
        full = kept + ids[0].tolist()
        self.states.append(full)
        out = torch.tensor(self.run(full, families.visible(len(full), None if self.whole else self.block)))
        out[:, MASK] = float("-inf")
        return types.SimpleNamespace(logits=out[None, len(kept):], past_key_values=full)

    # As SDAR's loop calls it.
    def __call__(self, ids, *_, past_key_values=None, store_kv=False, **__):
        out = self.logits(getattr(past_key_values, "kept", []), ids)
        if store_kv:
            past_key_values.kept = out.past_key_values
        return out

    # As Fast-dLLM v2's does.
    def forward(self, input_ids, past_key_values=None, **_):
        return self.logits(past_key_values or [], input_ids)


def passes_of(states, final, prompt, block, whole):
    """By token of the answer: the number of its pass among those over its block that settled anything."""
    passes, before = {}, {}
    for state, after in zip(states, states[1:] + [final]):
        settled = [p for p in range(prompt, len(final)) if p not in passes and p < len(after) and after[p] != MASK]
        assert all(p >= len(state) or state[p] == MASK for p in settled)
        for of in sorted({(p - prompt if whole else p) // block for p in settled}):
            for p in settled:
                if (p - prompt if whole else p) // block == of:
                    passes[p] = before.get(of, 0)
            before[of] = before.get(of, 0) + 1
    return [passes[p] for p in range(prompt, len(final))]


def sdar(loop, model, prompt, block, rule, values):
    torch.multinomial = lambda probabilities, num_samples: probabilities.argmax(-1, keepdim=True)
    strategy = {"low_confidence": "low_confidence_dynamic", "static": "low_confidence_static", "sequential": "sequential"}[rule]
    return loop.block_diffusion_generate(model, {"input_ids": prompt}, MASK, 24, block, values.get("steps") or block,
                                         remasking_strategy=strategy, confidence_threshold=values.get("threshold"))[0].tolist()


def llada(loop, model, prompt, block, rule, values):
    blocks = 32 // block
    return loop.generate(model, prompt, blocks * (values.get("steps") or block), 32, block, mask_id=MASK,
                         threshold=values.get("threshold"))[0][0].tolist()


def fast_dllm(loop, model, prompt, block, rule, values):
    space = loop.Fast_dLLM_QwenForCausalLM
    model.sample_with_top_p = types.MethodType(space.sample_with_top_p, model)
    length = prompt.shape[1]
    answer = space.batch_sample(model, prompt.clone(), types.SimpleNamespace(pad_token_id=0), block, 32, 8, length, torch.tensor([length]), mask_id=MASK,
                                threshold=values["threshold"], stop_token=-1)[0].tolist()
    return answer[:len(answer) // block * block]  # without the first token of a block that is not decoded


def dream(loop, model, prompt, block, rule, values):
    config = types.SimpleNamespace(output_history=False, return_dict=False, return_dict_in_generate=False, max_length=prompt.shape[1] + block,
                                   mask_token_id=MASK, steps=values.get("steps") or block, eps=-1e-4, alg="maskgit_plus", alg_temp=None,
                                   temperature=0.0, top_p=None, top_k=None)
    return loop.DreamGenerationMixin._sample(model, prompt, None, config, lambda _, x, __: x, lambda _, __, logits: logits)[0].tolist()


def cases():
    """(folder, file, function, block, rule, values, length of the prompt)."""
    out = []
    for folder in ("sdar", "sdar_moe"):
        for block, length in ((4, 7), (8, 21), (8, 16)):
            for rule, values in (("low_confidence", {"threshold": 0.9}), ("low_confidence", {"threshold": 0.3}),
                                 ("low_confidence", {"threshold": 0.2}), ("static", {"steps": 0}), ("sequential", {"steps": 0})):
                out.append((folder, "sdar_generate.py", sdar, block, rule, values, length))
        for rule in ("static", "sequential"):  # whose shares would run over a prompt's tail
            out.append((folder, "sdar_generate.py", sdar, 8, rule, {"steps": 3}, 16))
    for block, length in ((8, 5), (16, 9), (32, 12)):
        for rule, values in (("low_confidence", {"threshold": 0.9}), ("low_confidence", {"threshold": 0.3}),
                             ("low_confidence", {"threshold": 0.2}), ("static", {"steps": 0}), ("static", {"steps": 4}), ("static", {"steps": 6})):
            out.append(("llada", "llada_generate.py", llada, block, rule, values, length))
    for block, length in ((8, 5), (8, 19), (8, 24), (16, 11), (16, 32), (16, 37)):
        for threshold in (0.9, 0.3, 0.2):
            out.append(("fast_dllm_v2", "generation_functions.py", fast_dllm, block, "low_confidence", {"threshold": threshold}, length))
    for block, length in ((16, 6), (32, 11), (32, 1)):
        for steps in (0, 8, 4):
            out.append(("dream", "dream_generation_utils.py", dream, block, "static", {"steps": steps}, length))
    return out


def main():
    references = Path(sys.argv[1])
    root = Path(__file__).resolve().parents[1] / "data" / "blocks"
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else root / "loops.json"
    runs, lines = {}, []
    for seed, (folder, file, function, block, rule, values, length) in enumerate(cases(), start=1):
        _, hf_type, _, of_mask, config = families.folders()[folder]
        if folder not in runs:
            runs[folder] = families.hf_runner(root / folder, config, hf_type)
        model = Recorder(runs[folder], block, of_mask is None)
        prompt = np.random.default_rng(seed).integers(4, families.VOCAB, length)
        final = function(functions_of(references / file), model, torch.tensor(prompt)[None], block, rule, values)
        assert MASK not in final and final[:length] == prompt.tolist(), (folder, block, rule, values, length)
        case = {"folder": folder, "block": block, "rule": rule, "values": values, "prompt": prompt.tolist(), "tokens": final[length:],
                "passes": passes_of(model.states, final, length, block, of_mask is None)}
        lines.append(json.dumps(case, separators=(",", ":")))
        print(folder, block, rule, values, length, "passes", len(model.states), "tokens", len(case["tokens"]))
    target.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
