#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers of the published decoding loops of block-diffusion models, on the tiny checkpoints of tests/data/blocks.

    python3 tools/goldens/make_block_loop_goldens.py hf|mlx REFERENCES [tests/data/blocks/loops.json]

makes the answers of checkpoints of one kind anew (see make_block_family_goldens.py) and keeps the others'. REFERENCES holds files of public
repositories, of which only functions and classes are taken. For hf:

sdar_generate.py           generate.py of github.com/JetAstra/SDAR
llada_generate.py          llada/generate.py of github.com/NVlabs/Fast-dLLM, LLaDA's loop with thresholds
generation_functions.py    v2/generation_functions.py of the same repository
dream_generation_utils.py  generation_utils.py next to a Dream checkpoint

For mlx:

llada2_generate.py         modeling_llada2_moe.py next to a LLaDA2.0 checkpoint, the class LLaDA2MoeModelLM
joint_threshold.py         python/sglang/srt/dllm/algorithm/joint_threshold.py of github.com/sgl-project/sglang, LLaDA2.1's corrections

They run as they are, on models that compute every row anew in float32 (Hugging Face 5.17 with torch 2.11, mlx-vlm 0.7.10 with mlx 0.32.4), under
the mask of the family, without a cache. Done to them from outside: the mask token has no probability, SDAR's and LLaDA2's draws take the likeliest
token, and Dream's last time step (eps) is a hair below 0, so that its shares of positions are even. Not compared: penalty_lambda, which
SGLang does not apply at the first position of a block.

loops.json: cases of {"folder", "block", "rule", "values", "prompt", "tokens", "passes"}; "passes": by token, how many passes over its
block had changed anything before the one that put it there.
"""

import ast
import json
import sys
import types
from pathlib import Path

import numpy as np
import torch

import make_block_family_goldens as families

MASK = 3


class DllmAlgorithm:
    """What SGLang's algorithms have of their base class."""

    def __init__(self, config):
        self.block_size, self.mask_id = config.block_size, MASK


def functions_of(path):
    """The functions and classes of a file, whose own imports may not exist here."""
    kept = [node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    names = {"torch": torch, "np": np, "F": torch.nn.functional, "dists": torch.distributions,
             "DynamicCache": types.SimpleNamespace, "DllmAlgorithm": DllmAlgorithm}
    kept.insert(0, ast.parse("from __future__ import annotations").body[0])  # which may name classes of those imports
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


def passes_of(states, final, prompt, block, whole, edits):
    """By token of the answer: the number of its pass among those over its block that changed anything; and how many were replaced."""
    passes, before, replaced = {}, {}, 0
    for state, after in zip(states, states[1:] + [final]):
        changed = [p for p in range(prompt, min(len(final), len(after))) if after[p] != (state[p] if p < len(state) else MASK)]
        replaced += sum(p in passes for p in changed)
        for of in sorted({(p - prompt if whole else p) // block for p in changed}):
            for p in changed:
                if (p - prompt if whole else p) // block == of:
                    passes[p] = before.get(of, 0)
            before[of] = before.get(of, 0) + 1
    assert edits or replaced == 0
    return [passes[p] for p in range(prompt, len(final))], replaced


def take_the_likeliest():
    torch.multinomial = lambda probabilities, num_samples: probabilities.argmax(-1, keepdim=True)


def sdar(loop, model, prompt, block, rule, values):
    take_the_likeliest()
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


def llada2(loop, model, prompt, block, rule, values):
    take_the_likeliest()
    space = loop.LLaDA2MoeModelLM
    model._sample_with_temperature_topk_topp = types.MethodType(space._sample_with_temperature_topk_topp, model)
    for name in ("_top_k_logits", "_top_p_logits", "_get_num_transfer_tokens"):
        setattr(model, name, getattr(space, name))
    length = prompt.shape[1]
    answer = space.generate(model, prompt, block_length=block, steps=block, gen_length=(length // block + 4) * block - length,
                            threshold=values["threshold"], eos_id=-1, mask_id=MASK)
    return prompt[0].tolist() + answer[0].tolist()


def joint(loop, model, prompt, block, rule, values):
    algorithm = loop.JointThreshold(types.SimpleNamespace(block_size=block, algorithm_config=values))
    tokens = prompt[0].tolist()
    first = len(tokens) // block * block
    for start in range(first, first + 4 * block, block):
        ids = torch.tensor((tokens[start:] + [MASK] * block)[:block])
        batch = types.SimpleNamespace(batch_size=1, input_ids=ids)
        states = algorithm.init_step_state(batch)
        done = False
        while not done:
            logits = model.forward(torch.tensor([tokens[:start] + ids.tolist()])).logits[0, start:]
            done = algorithm.step(batch, logits, states)[0]
        tokens[start:] = ids.tolist()
    return tokens


def mlx_cases():
    """(folder, file, function, block, rule, values, length of the prompt)."""
    out = []
    for folder, own in (("llada2", 8), ("llada2_merged", 4)):
        for block, length in ((own, own - 1), (own, 2 * own), (16, 21)):
            for threshold in (0.9, 0.3, 0.2):
                out.append((folder, "llada2_generate.py", llada2, block, "low_confidence", {"threshold": threshold}, length))
            for values in ({"threshold": 0.5, "edit_threshold": 0.0}, {"threshold": 0.2, "edit_threshold": 0.3},
                           {"threshold": 0.2, "edit_threshold": 0.0, "max_post_edit_steps": 2}, {"threshold": 0.1, "edit_threshold": 0.0}):
                out.append((folder, "joint_threshold.py", joint, block, "joint_threshold", values, length))
    return out


def hf_cases():
    """As mlx_cases."""
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
    kind, references = sys.argv[1], Path(sys.argv[2])
    root = Path(__file__).resolve().parents[2] / "tests" / "data" / "blocks"
    target = Path(sys.argv[3]) if len(sys.argv) > 3 else root / "loops.json"
    runner, cases = {"hf": (families.hf_runner, hf_cases()), "mlx": (families.mlx_runner, mlx_cases())}[kind]
    of_kind = {kind: [] for kind in ("hf", "mlx")}
    for line in target.read_text().splitlines()[1:-1]:
        of_kind[families.folders()[json.loads(line.rstrip(","))["folder"]][0]].append(line.rstrip(","))
    of_kind[kind] = []
    runs = {}
    for seed, (folder, file, function, block, rule, values, length) in enumerate(cases, start=1):
        _, hf_type, _, of_mask, config = families.folders()[folder]
        if folder not in runs:
            runs[folder] = runner(root / folder, config, hf_type)
        model = Recorder(runs[folder], block, of_mask is None)
        prompt = np.random.default_rng(seed).integers(4, families.VOCAB, length)
        final = function(functions_of(references / file), model, torch.tensor(prompt)[None], block, rule, values)
        assert MASK not in final and final[:length] == prompt.tolist(), (folder, block, rule, values, length)
        passes, replaced = passes_of(model.states, final, length, block, of_mask is None, rule == "joint_threshold")
        case = {"folder": folder, "block": block, "rule": rule, "values": values, "prompt": prompt.tolist(), "tokens": final[length:], "passes": passes}
        of_kind[kind].append(json.dumps(case, separators=(",", ":")))
        print(folder, block, rule, values, length, "passes", len(model.states), "tokens", len(passes), "replaced", replaced)
    target.write_text("[\n" + ",\n".join(of_kind["hf"] + of_kind["mlx"]) + "\n]\n")


if __name__ == "__main__":
    main()
