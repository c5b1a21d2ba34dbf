#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what Hugging Face transformers generates with a tiny hybrid target and its own DFlash candidate generator.

    python3 tools/goldens/make_assisted_goldens.py [tests/data]

Targets are folders of <data>/families. The short convolutions of an `lfm2` go back in transformers' own cache, so that all of its code runs
as it is; its drafter is written here, to <data>/assisted/drafter_of_lfm2. Gated delta nets do not go back: transformers refuses to draft for
a `qwen3_5_text` (`_is_stateful`, and its cache is not `is_croppable` once it holds a recurrent state). There its loop and its candidate
generator run over `WholeForward`: the same model without a cache, which computes the rows before again.

Drafters are loaded as the one DFlash drafter that transformers has (it calls `fc` and `hidden_norm` otherwise), and have no window: what
transformers lets such a layer see is one position more on both sides than z-lab's. All weights are noise, so that only few tokens are allowed:
then drafts agree by chance, and steps accept all numbers of them.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, DynamicCache, Qwen3_5ForCausalLM
from transformers.models.muse_glimmer_assistant import MuseGlimmerAssistantConfig, MuseGlimmerAssistantModel

from golden_lines import golden_lines
from make_drafter_goldens import z_lab
from seeded_weights import UNIT, describe, weight, with_weights

PAIRS = [("lfm2_bias", "assisted/drafter_of_lfm2"), ("qwen3_5_text", "drafters/dflash_full"), ("qwen3_5_text", "drafters/dflash_block_in_config")]
ALLOWED = [12, 20, 23]
PROMPTS, OUTPUT = 20, 40
# Gaps between the best and the second logit, of the target and of the drafter: ids can be compared exactly.
MIN_MARGIN = 1e-4
NAMES = {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"}


class TokenCache(DynamicCache):
    """Holds the tokens before, nothing else: to go back is to drop some."""

    is_croppable = True

    def __init__(self):
        super().__init__()
        self.ids = torch.zeros((1, 0), dtype=torch.long)

    def get_seq_length(self, layer_idx=0):
        return self.ids.shape[1]

    def activate_past_recording(self):
        pass

    def crop(self, tokens_to_remove):
        self.ids = self.ids[:, :self.ids.shape[1] + tokens_to_remove]


class WholeForward(Qwen3_5ForCausalLM):
    """Computes all tokens in every call, and answers for those that are new."""

    _is_stateful = False

    def forward(self, input_ids, cache, position_ids=None, attention_mask=None, **kwargs):
        new = input_ids.shape[1]
        cache.ids = torch.cat([cache.ids, input_ids], dim=-1)
        out = super().forward(input_ids=cache.ids, use_cache=False, output_hidden_states=True)
        out.logits = out.logits[:, -new:]
        out.hidden_states = tuple(hidden[:, -new:] for hidden in out.hidden_states)
        out.cache = cache
        return out


class Steps:
    """What `generate` reports after the prompt and then after every step."""

    def __init__(self):
        self.ids = []

    def put(self, ids):
        self.ids.append(ids.flatten().tolist())

    def end(self):
        pass


class Margins:
    def __init__(self):
        self.least = float("inf")

    def __call__(self, input_ids, scores):
        best = scores.topk(2, dim=-1).values
        self.least = min(self.least, float((best[:, 0] - best[:, 1]).min()))
        return scores


def load_drafter(folder):
    raw = json.loads((folder / "config.json").read_text())
    head = raw["dflash_config"]
    theta = raw.get("rope_theta") or raw["rope_parameters"]["rope_theta"]
    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps",
            "max_position_embeddings", "layer_types")
    config = MuseGlimmerAssistantConfig(**{key: raw[key] for key in keys}, rope_parameters={"rope_type": "default", "rope_theta": theta},
                                        block_size=raw.get("block_size") or head["block_size"], mask_token_id=head["mask_token_id"],
                                        target_layer_ids=head["target_layer_ids"])
    config._attn_implementation = "eager"
    drafter = MuseGlimmerAssistantModel(config).float().eval()
    tensors = load_file(folder / "model.safetensors")
    drafter.load_state_dict({NAMES.get(name, name): tensor.float() for name, tensor in tensors.items()})
    return drafter


def write_small_drafter(folder):
    """For the `lfm2_bias` target: one layer, weights as in make_drafter_goldens.py."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    h, d, q, kv, inner = 16, 8, 2, 1, 24
    config = z_lab(aux_layers=(0, 1), block=5, hidden_size=h, intermediate_size=inner, num_hidden_layers=1, num_attention_heads=q,
                   num_key_value_heads=kv, head_dim=d, layer_types=["full_attention"], torch_dtype="float32")
    config["num_target_layers"] = 3
    (folder / "config.json").write_text(json.dumps(config, separators=(",", ":")) + "\n")
    base = "layers.0."
    matrices = {"fc": (h, 2 * h), **{f"{base}self_attn.{part}_proj": shape for part, shape in
                                     {"q": (q * d, h), "k": (kv * d, h), "v": (kv * d, h), "o": (h, q * d)}.items()},
                f"{base}mlp.gate_proj": (inner, h), f"{base}mlp.up_proj": (inner, h), f"{base}mlp.down_proj": (h, inner)}
    vectors = {"hidden_norm": h, "norm": h, f"{base}input_layernorm": h, f"{base}post_attention_layernorm": h, f"{base}self_attn.q_norm": d,
               f"{base}self_attn.k_norm": d}
    describe(folder, 77, [weight(f"{name}.weight", shape, "F32", UNIT / shape[1]**0.5) for name, shape in matrices.items()] +
             [weight(f"{name}.weight", (size,), "F32", 0.25 * UNIT, 1.1) for name, size in vectors.items()])


def prompt_ids(index):
    length = (1, 2, 3, 5, 8, 14, 15, 16, 17, 20)[index % 10] + 16 * (index // 10)
    return torch.randint(3, 90, (length,), generator=torch.Generator().manual_seed(9000 + index)).tolist()


def run(target, drafter, prompt, banned):
    steps, margins = Steps(), Margins()
    with torch.no_grad():
        cache = {"cache": TokenCache()} if isinstance(target, WholeForward) else {}
        ids = target.generate(torch.tensor([prompt]), assistant_model=drafter, speculation_type="dflash", do_sample=False, streamer=steps,
                              max_new_tokens=OUTPUT, eos_token_id=None, suppress_tokens=banned, logits_processor=[margins], **cache)[0].tolist()
    return ids[len(prompt):], steps.ids[1:], margins.least


def main():
    torch.set_num_threads(1)
    data = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data")
    write_small_drafter(data / "assisted" / "drafter_of_lfm2")
    golden = {"allowed": ALLOWED, "prompts": [prompt_ids(index) for index in range(PROMPTS)], "runs": []}
    with tempfile.TemporaryDirectory() as temporary:
        for n, (target_name, drafter_name) in enumerate(PAIRS):
            folder = with_weights(data / "families" / target_name, Path(temporary) / f"target{n}")
            kind = WholeForward if target_name.startswith("qwen3_5") else AutoModelForCausalLM
            target = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
            drafter = load_drafter(with_weights(data / drafter_name, Path(temporary) / f"drafter{n}"))
            banned = [id for id in range(target.config.vocab_size) if id not in ALLOWED]
            runs = [run(target, drafter, prompt, banned) for prompt in golden["prompts"]]
            lengths = [len(step) for _, steps, _ in runs for step in steps]
            least = min(margin for _, _, margin in runs)
            if least < MIN_MARGIN or len(set(lengths)) < 4:
                raise SystemExit(f"{target_name}, {drafter_name}: margin {least}, lengths {sorted(set(lengths))}")
            print(f"{target_name:14s} {drafter_name:36s} margin {least:.4f}  steps by tokens { {k: lengths.count(k) for k in sorted(set(lengths))} }")
            golden["runs"].append({"target": f"families/{target_name}", "drafter": drafter_name, "block": drafter.config.block_size,
                                   "outputs": ["".join(str(ALLOWED.index(id)) for id in output) for output, _, _ in runs],
                                   "steps": ["".join(str(len(step)) for step in steps) for _, steps, _ in runs]})
    (data / "assisted" / "runs.json").write_text(golden_lines(golden))


if __name__ == "__main__":
    main()
