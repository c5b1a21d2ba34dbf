# SPDX-License-Identifier: Apache-2.0
"""Greedy answers of SmolLM2-135M-Instruct in Q4_1 by transformers, in fp32 on the numbers that the file holds.

make_smollm2_goldens.py FILE.gguf [OUT.json] writes tests/data/gguf/smollm2.json: for each prompt its ids by the package
tokenizers, the answer, and how far the best logit was above the next at each token.
Needs: pip install gguf numpy tokenizers torch transformers
"""

import json
import sys

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

MAX_TOKENS = 48
QUESTIONS = """What is the capital of France?
What is 2 plus 2?
Name three colours.
Who wrote Romeo and Juliet?
What is the boiling point of water?
Translate "good morning" into Spanish.
What is a harbour?
List the days of the week.
What do bees make?
How many legs does a spider have?
Write a haiku about rain.
What is the largest planet?
Give me a synonym for happy.
Why is the sky blue?
In 1969, what happened on the Moon?
What is the opposite of hot?
Name a programming language.
What does DNA stand for?
Complete: The quick brown fox
Is 17 a prime number?""".split("\n")
PROMPT = """<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
{}<|im_end|>
<|im_start|>assistant
"""
NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm", "token_embd": "model.embed_tokens", "output_norm": "model.norm",
}


def load_model(reader: gguf.GGUFReader, values: dict) -> LlamaForCausalLM:
    key = lambda name: values["llama." + name]
    heads = {"attn_q": key("attention.head_count"), "attn_k": key("attention.head_count_kv")}
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=key("vocab_size"), hidden_size=key("embedding_length"), intermediate_size=key("feed_forward_length"),
        num_hidden_layers=key("block_count"), num_attention_heads=heads["attn_q"], num_key_value_heads=heads["attn_k"],
        max_position_embeddings=key("context_length"), rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        rope_theta=key("rope.freq_base"), tie_word_embeddings=True)).eval()
    state = {}
    for tensor in reader.tensors:
        numbers = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(tensor.shape[::-1].astype(int))
        parts = tensor.name.split(".")
        kind = parts[-2]
        if kind in heads:  # undo what llama.cpp's converter does
            shape = numbers.shape
            numbers = numbers.reshape(heads[kind], shape[0] // heads[kind] // 2, 2, shape[1]).swapaxes(1, 2).reshape(shape)
        prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
        state[prefix + NAMES[kind] + ".weight"] = torch.tensor(numbers.copy())
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing in ([], ["lm_head.weight"]) and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model


def load_tokenizer(values: dict) -> Tokenizer:
    tokens = values["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in values["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    kinds = values["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token, kind in zip(tokens, kinds) if kind == 3])
    return tokenizer


@torch.no_grad()
def answer(model: LlamaForCausalLM, ids: list, end: int) -> tuple:
    tokens, margins, cache, rows = [], [], None, ids
    while len(tokens) < MAX_TOKENS and end not in tokens:
        out = model(torch.tensor([rows]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        best, at = out.logits[0, -1].topk(2)
        tokens.append(int(at[0]))
        margins.append(round(float(best[0] - best[1]), 3))
        rows = tokens[-1:]
    return tokens, margins


def main() -> None:
    reader = gguf.GGUFReader(sys.argv[1])
    values = {name: field.contents() for name, field in reader.fields.items()}
    model, tokenizer = load_model(reader, values), load_tokenizer(values)
    lines = []
    for question in QUESTIONS:
        prompt = PROMPT.format(question)
        ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        tokens, margins = answer(model, ids, values["tokenizer.ggml.eos_token_id"])
        lines.append(json.dumps({"prompt": prompt, "prompt_ids": ids, "tokens": tokens, "margins": margins}, separators=(",", ":")))
    with open(sys.argv[2] if len(sys.argv) > 2 else "tests/data/gguf/smollm2.json", "w") as out:
        out.write("[" + ",\n".join(lines) + "]\n")


if __name__ == "__main__":
    main()
