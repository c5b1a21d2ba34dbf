#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tiny heads that draft one token at a time, with reference values from draft_head_reference.py and Hugging Face transformers.

    python3 tools/goldens/make_draft_head_goldens.py [tests/data [NAME...]]

Run make_family_goldens.py first: its folders are the targets. Heads named *_fitted are trained for a moment on the target's own greedy
text, so that spans of many lengths are accepted, and stored; the others are noise, described by tensors.json (see seeded_weights.py). An
MTP layer is stored alone; tests put it into one folder with its target, as the second of two files.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from draft_head_reference import Eagle3, Mtp, NextN, chain
from make_drafter_goldens import MIN_DRAFT_MARGIN, MIN_TARGET_MARGIN, OUTPUT, PROMPT, margin, prompt_ids
from seeded_weights import UNIT, describe, table, weight, with_weights

DRAFTS = 4
SHORT = {"peagle": 5, "mtp_glm": 5, "eagle3_layers": 5}  # tokens of its prompt


def layer_config(**overrides):
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1000.0, "vocab_size": 96,
              "max_position_embeddings": 256, "attention_bias": False, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    config.update(overrides)
    return config


def variants():
    """name -> (method, target, config or None, name of the layer)."""
    specforge = {"architectures": ["LlamaForCausalLMEagle3"], **layer_config(), "draft_vocab_size": 96,
                 "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2], "use_aux_hidden_state": True}}
    original = {"architectures": ["LlamaForCausalLMEagle3"], **layer_config(), "draft_vocab_size": 80,
                "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 0, 1]}}
    speculators = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": 40,
                   "norm_before_residual": True, "fc_norm": True, "norm_output": True, "target_hidden_size": None,
                   "eagle_aux_hidden_state_layer_ids": [1, 2, 4],
                   "transformer_layer_config": layer_config(model_type="qwen3")}
    gpt_oss = {**speculators, "norm_before_residual": False, "fc_norm": False, "norm_before_fc": True, "norm_output": False,
               "transformer_layer_config": layer_config()}
    peagle = {**speculators, "architectures": ["PEagleSpeculator"], "speculators_model_type": "peagle", "mask_token_id": 93, "fc_norm": False,
              "norm_output": False, "eagle_aux_hidden_state_layer_ids": [1, 3],
              "transformer_layer_config": layer_config(num_hidden_layers=2, intermediate_size=16, num_attention_heads=2)}
    layers = {**peagle, "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3"}
    del layers["mask_token_id"]
    return {
        "mtp_fitted": ("mtp", "qwen3_5_text", None, None),
        "mtp_moe": ("mtp", "qwen3_5_moe", None, None),
        "eagle3_fitted": ("eagle3", "qwen3", original, "midlayer."),
        "eagle3_specforge": ("eagle3", "qwen3", specforge, "midlayer."),
        "eagle3_speculators": ("eagle3", "qwen3", speculators, "layers.0."),
        "eagle3_norm_before_fc": ("eagle3", "qwen3", gpt_oss, "layers.0."),
        "peagle": ("eagle3", "qwen3", peagle, "layers.0."),
        "mtp_glm": ("mtp", "glm4_moe", None, "model.layers.2."),
        "eagle3_layers": ("eagle3", "qwen3", layers, "layers.0."),
    }


class Target:
    def __init__(self, folder):
        self.folder = folder
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        self.embedding = self.model.model.embed_tokens.weight.detach()
        self.head = self.model.lm_head.weight.detach()

    @torch.no_grad()
    def __call__(self, ids):
        """ids -> (entry i: what enters layer i, the last one after the final norm; logits [T, V])"""
        rows = []
        hooks = [self.model.model.layers[-1].register_forward_hook(
            lambda module, args, out: rows.append((out[0] if isinstance(out, tuple) else out).reshape(len(ids), -1)))]
        out = self.model(input_ids=torch.tensor([ids]), output_hidden_states=True, use_cache=False)
        for hook in hooks:
            hook.remove()
        states = [state[0] for state in out.hidden_states]
        # As an auxiliary state, what the last layer leaves counts before the final norm.
        return {**dict(enumerate(states[:-1])), len(states) - 1: rows[-1], -1: states[-1]}, out.logits[0]


def noise_of(name, shape, from_one):
    if name == "mask_hidden":
        return 1.0, 0.0
    if "norm" in name:
        return (0.2, 0.0) if from_one else (0.2, 1.0)
    return (1.0 if "embed_tokens" in name else (3.0 if "lm_head" in name else 1.0) / shape[-1]**0.5), 0.0


def nextn_tensors(target, layer, described):
    """What a layer of the target has, with copies of its embedding and its head: noise of the same seed."""
    last = f"model.layers.{target.model.config.num_hidden_layers - 1}."
    taken = {t["name"]: t for t in described["files"]["model.safetensors"]}
    h = target.model.config.hidden_size
    shapes = {f"{layer}{name}.weight": (h,) for name in ("enorm", "hnorm", "shared_head.norm")} | {f"{layer}eh_proj.weight": (h, 2 * h)}
    out = [weight(name, shape, "BF16", UNIT * noise_of(name, shape, False)[0], noise_of(name, shape, False)[1]) for name, shape in shapes.items()]
    for name, original in (("embed_tokens", "model.embed_tokens.weight"), ("shared_head.head", "lm_head.weight")):
        out.append({**taken[original], "name": f"{layer}{name}.weight", "as": original})
    return out + [{**t, "name": layer + name.removeprefix(last)} for name, t in taken.items() if name.startswith(last)]


def mtp_tensors(target):
    shapes = {name: tuple(p.shape) for name, p in Mtp(target).state_dict().items()}
    return [weight(f"mtp.{name}", shape, "BF16", UNIT * noise_of(name, shape, True)[0], noise_of(name, shape, True)[1])
            for name, shape in sorted(shapes.items())]


def eagle3_tensors(raw, layer, seed):
    net = raw.get("transformer_layer_config", raw)
    speculators = "speculators_model_type" in raw
    h, d, inner, vocab, kept = net["hidden_size"], net["head_dim"], net["intermediate_size"], net["vocab_size"], raw["draft_vocab_size"]
    q, kv = net["num_attention_heads"] * d, net["num_key_value_heads"] * d
    taken = len(raw["eagle_aux_hidden_state_layer_ids"]) if "eagle_aux_hidden_state_layer_ids" in raw else 3
    shapes = {"fc.weight": (h, taken * h), "norm.weight": (h,), "lm_head.weight": (kept, h)}
    for base in (layer, *(f"layers.{i}." for i in range(1, net["num_hidden_layers"]))):
        width = 2 * h if base == layer else h
        for name in ("input_layernorm", "post_attention_layernorm", *(["hidden_norm"] if base == layer else [])):
            shapes[f"{base}{name}.weight"] = (h,)
        for name, shape in (("q", (q, width)), ("k", (kv, width)), ("v", (kv, width)), ("o", (h, q))):
            shapes[f"{base}self_attn.{name}_proj.weight"] = shape
        for name, shape in (("gate", (inner, h)), ("up", (inner, h)), ("down", (h, inner))):
            shapes[f"{base}mlp.{name}_proj.weight"] = shape
        if net["model_type"] == "qwen3":
            shapes |= {f"{base}self_attn.{name}_norm.weight": (d,) for name in "qk"}
    if "mask_token_id" in raw:
        shapes["mask_hidden"] = (1, 1, taken * h)
    if raw.get("fc_norm"):
        shapes |= {f"fc_norm.{i}.weight": (h,) for i in range(3)}
    if raw.get("norm_before_fc"):
        shapes["input_norm.weight"] = (3 * h,)
    if speculators:  # unlike the target's own table, so that using that instead shows
        shapes["embed_tokens.weight"] = (vocab, h)
    out = [weight(name, shape, "BF16", UNIT * noise_of(name, shape, False)[0], noise_of(name, shape, False)[1])
           for name, shape in shapes.items()]
    if kept < vocab:
        ids = torch.randperm(vocab, generator=torch.Generator().manual_seed(seed))[:kept].sort().values.tolist()
        out.append(table("t2d", (vocab,), "BOOL", [i in ids for i in range(vocab)]))
        out.append(table("d2t", (kept,), "I64", [id - i for i, id in enumerate(ids)]))
    return out


def with_layer(target, stored):
    """The layer, read from a folder that has the target's tensors and these."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(target.folder, Path(temporary) / "whole"))
        save_file(load_file(folder / "model.safetensors") | stored, folder / "model.safetensors", metadata={"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        return NextN(model).eval()


def make_head(method, target, raw, layer, stored):
    weights = {name: t.float() if t.is_floating_point() else t for name, t in stored.items()}
    if method == "eagle3":
        return Eagle3(target, raw, weights, layer)
    if layer:
        return with_layer(target, stored)
    head = Mtp(target)
    head.load_state_dict({name.removeprefix("mtp."): t for name, t in weights.items()})
    return head


def fit(method, target, raw, layer, stored, steps=80):
    """Train on the target's greedy text after a few random prompts, then round to the stored dtype."""
    head = make_head(method, target, raw, layer, stored)
    if method == "eagle3":
        parameters = {name: t.requires_grad_() for name, t in head.w.items() if t.is_floating_point()}
    else:
        parameters = {f"mtp.{name}": p for name, p in head.named_parameters()}
    entry_of = {int(head.target_ids(torch.tensor(i))): i for i in range(len(head.logits(torch.zeros(64))))}
    texts = []
    for seed in range(24):
        ids = prompt_ids(seed)
        for _ in range(OUTPUT + DRAFTS):
            ids.append(int(target(ids)[1][-1].argmax()))
        texts.append((ids, target(ids)[0]))
    optimizer = torch.optim.Adam(parameters.values(), lr=3e-3)
    generator = torch.Generator().manual_seed(7)
    for _ in range(steps):
        loss, terms = 0, 0
        for ids, states in texts:
            start = int(torch.randint(PROMPT, len(ids) - DRAFTS, (), generator=generator))
            features, tokens = head.features(states)[:start], ids[1:start + 1]
            for k in range(1, DRAFTS + 1):  # the right tokens, and features of its own
                out, fed_back = head(features, torch.tensor(tokens))
                wanted = ids[start + k]
                if wanted in entry_of:
                    loss = loss + cross_entropy(head.logits(out[-1]), entry_of[wanted])
                    terms += 1
                features, tokens = torch.cat((features, fed_back[-1:])), tokens + [wanted]
        optimizer.zero_grad()
        (loss / terms).backward()
        optimizer.step()
    return {name: parameters[name].detach().to(t.dtype) if name in parameters else t for name, t in stored.items()}


def cross_entropy(logits, wanted):
    return torch.nn.functional.cross_entropy(logits[None], torch.tensor([wanted]))


class Margins:
    def __init__(self):
        self.target = self.draft = float("inf")

    def fine(self):
        return self.target > MIN_TARGET_MARGIN and self.draft > MIN_DRAFT_MARGIN


def draft_call(prefix, head, target, ids, new, margins, out):
    """Drafts after ids[-1], whose hidden state is not kept; `new`: rows of the target since the call before."""
    features = head.features(target(ids[:-1])[0])
    hidden, logits, drafted = chain(head, features, ids[1:], DRAFTS)
    margins.draft = min(margins.draft, margin(logits))
    out.update({f"{prefix}.new_ids": torch.tensor(ids[-1 - new:-1]), f"{prefix}.features": features[-new:],
                f"{prefix}.last_token": torch.tensor(ids[-1:]), f"{prefix}.hidden": hidden, f"{prefix}.logits": logits,
                f"{prefix}.drafted_ids": torch.tensor(drafted)})


def greedy_run(head, target, prompt, margins):
    """The loop of drafts and verification. accept_lengths count the bonus token; the last step may run past the cut at OUTPUT tokens."""
    ids = list(prompt) + [int(target(prompt)[1][-1].argmax())]
    lengths, drafts = [], []
    while len(ids) - len(prompt) < OUTPUT:
        _, logits, drafted = chain(head, head.features(target(ids[:-1])[0]), ids[1:], DRAFTS)
        margins.draft = min(margins.draft, margin(logits))
        scores = target(ids + drafted)[1][len(ids) - 1:]
        choice = scores.argmax(-1).tolist()
        accepted = 0
        while accepted < DRAFTS and drafted[accepted] == choice[accepted]:
            accepted += 1
        margins.target = min(margins.target, margin(scores[:accepted + 1]))
        ids += drafted[:accepted] + [choice[accepted]]
        lengths.append(accepted + 1)
        drafts.append(drafted)
    return {"run.output_ids": torch.tensor(ids[len(prompt):][:OUTPUT]), "run.accept_lengths": torch.tensor(lengths),
            "run.drafted_ids": torch.tensor(drafts)}


@torch.no_grad()
def values(name, head, target):
    for seed in range(300):
        margins, prompt = Margins(), prompt_ids(seed)[:SHORT.get(name, PROMPT)]
        out = {"prompt_ids": torch.tensor(prompt)}
        last = int(target(prompt)[1][-1].argmax())
        draft_call("call1", head, target, prompt + [last], len(prompt), margins, out)
        given = torch.randint(3, 90, (4,), generator=torch.Generator().manual_seed(9000 + seed)).tolist()
        draft_call("call2", head, target, prompt + [last] + given, 4, margins, out)
        if not margins.fine():
            continue
        out.update(greedy_run(head, target, prompt, margins))
        lengths = out["run.accept_lengths"].tolist()
        varied = "fitted" not in name or (max(lengths) >= DRAFTS and min(lengths) <= 2 and len(set(lengths)) >= 3)
        if margins.fine() and varied and 2 not in out["run.output_ids"].tolist():
            return out, margins
    raise SystemExit(f"{name}: no prompt without near ties in 300")


def make(data, name, seed, method, target_name, raw, layer, target):
    folder = data / "heads" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if raw is not None:
        (folder / "config.json").write_text(json.dumps(raw, separators=(",", ":")) + "\n")
    if method == "mtp" and layer:
        described = json.loads((data / "families" / target_name / "tensors.json").read_text())
        seed = described["seed"]
        tensors = nextn_tensors(target, layer, described)
    else:
        tensors = mtp_tensors(target) if method == "mtp" else eagle3_tensors(raw, layer, seed)
    describe(folder, seed, tensors)
    with tempfile.TemporaryDirectory() as temporary:
        stored = load_file(with_weights(folder, Path(temporary) / name) / "model.safetensors")
    if "fitted" in name:
        stored = fit(method, target, raw, layer, stored)
        save_file({n: t.contiguous() for n, t in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "tensors.json").unlink()
    out, margins = values(name, make_head(method, target, raw, layer, stored), target)
    (folder / "goldens.json").write_text(json.dumps({"method": method, "target": f"families/{target_name}", "drafts": DRAFTS}) + "\n")
    save_file({n: (t if t.is_floating_point() else t.to(torch.int32)).contiguous() for n, t in out.items()}, folder / "goldens.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    print(f"{name:22s} {sum(f.stat().st_size for f in folder.iterdir()) / 1024:5.0f} KiB  margins {margins.target:.3f} {margins.draft:.4f}"
          f"  drafted {out['call1.drafted_ids'].tolist()}  accept {out['run.accept_lengths'].tolist()}")


def main():
    torch.set_num_threads(1)
    data = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "tests" / "data")
    for seed, (name, (method, target_name, raw, layer)) in enumerate(variants().items(), start=500):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            target = Target(with_weights(data / "families" / target_name, Path(temporary) / target_name))
            make(data, name, seed, method, target_name, raw, layer, target)


if __name__ == "__main__":
    main()
