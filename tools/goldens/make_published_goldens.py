# SPDX-License-Identifier: Apache-2.0
"""Greedy answers of SmolLM2-135M-Instruct in Q4_1 by transformers, in fp32 on the numbers that the file holds, and its perplexity.

make_smollm2_goldens.py FILE.gguf [OUT.json], from the root of the repository, writes tests/data/gguf/smollm2.json: for each question
the prompt's ids by the package tokenizers, the answer, and how far the best logit was above the next at each token (three digits);
and of the text of LICENSE the perplexity, in windows whose second halves are predicted.
Needs: pip install gguf numpy tokenizers torch transformers
"""

import json
import math
import sys

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

MAX_TOKENS = 48
TEXT, WINDOW = "LICENSE", 256
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
Is 17 a prime number?
What is the chemical symbol for gold?
How many continents are there?
Who painted the Mona Lisa?
Write a Python function that adds two numbers.
What language is spoken in Brazil?
Name two fruits that are red.
What is the square root of 81?
Give a recipe for pancakes.
Who was the first president of the United States?
What is photosynthesis?
Explain gravity to a child.
How do I boil an egg?
Name the four seasons.
What is 12 times 3?
What is the past tense of "go"?
Where do penguins live?
What comes after Thursday?
Why do leaves fall in autumn?
What is the currency of Japan?
Write one sentence about the sea.
How long is a marathon?
What is a noun?
Name an animal that flies.
Spell "necessary".
What does a thermometer measure?
Is the Earth flat?
Suggest a name for a cat.
What is the freezing point of water in Fahrenheit?
How many minutes are in two hours?
Summarise: The shop opens at nine, closes at six, and is shut on Sundays.""".split("\n")
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
        margins.append(float(f"{float(best[0] - best[1]):.3g}"))
        rows = tokens[-1:]
    return tokens, margins


@torch.no_grad()
def perplexity(model: LlamaForCausalLM, ids: list) -> dict:
    windows = [ids[at:at + WINDOW] for at in range(0, len(ids) - WINDOW + 1, WINDOW)]
    total = 0.0
    for window in windows:
        logprobs = model(torch.tensor([window])).logits[0].double().log_softmax(-1)
        total -= sum(float(logprobs[at - 1, window[at]]) for at in range(WINDOW // 2, WINDOW))
    value = math.exp(total / (len(windows) * (WINDOW - WINDOW // 2)))
    return {"text": TEXT, "window": WINDOW, "windows": len(windows), "value": round(value, 4)}


def main() -> None:
    reader = gguf.GGUFReader(sys.argv[1])
    values = {name: field.contents() for name, field in reader.fields.items()}
    model, tokenizer = load_model(reader, values), load_tokenizer(values)
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    with open(TEXT) as text:
        predicted = perplexity(model, encode(text.read()))
    lines = []
    for question in QUESTIONS:
        ids = encode(PROMPT.format(question))
        tokens, margins = answer(model, ids, values["tokenizer.ggml.eos_token_id"])
        lines.append(json.dumps({"question": question, "prompt_ids": ids, "tokens": tokens, "margins": margins}, separators=(",", ":")))
    with open(sys.argv[2] if len(sys.argv) > 2 else "tests/data/gguf/smollm2.json", "w") as out:
        head = f'"prompt":{json.dumps(PROMPT)},\n"perplexity":{json.dumps(predicted)},\n'
        out.write("{" + head + '"answers":[' + ",\n".join(lines) + "]}\n")


if __name__ == "__main__":
    main()
