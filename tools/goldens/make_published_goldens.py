# SPDX-License-Identifier: Apache-2.0
"""Goldens of published models (tools/get-model) by transformers, in fp32 on the numbers that the GGUF file holds.

make_published_goldens.py smollm2|gemma3 FILE.gguf [OUT.json], from the root of the repository, writes tests/data/gguf/NAME.json:
* of each question the prompt's ids, the answer, and the tokens of it whose logit was less than NEAR above the next one's;
* of the text of LICENSE the perplexity, in windows whose second halves are predicted; Gemma's are twice its sliding window;
* of tests/data/tokenizer/strings.json checksums of the ids, as make_tokenizer_goldens.py has them.
Ids are those of the package tokenizers (SmolLM2) or sentencepiece (Gemma), from the vocabulary in the file.
Needs: pip install gguf numpy sentencepiece tokenizers torch transformers
"""

import json
import math
import struct
import sys
import zlib

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

MAX_TOKENS, NEAR = 48, 0.05
TEXT = "LICENSE"
SMOLLM2_QUESTIONS = """What is the capital of France?
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
SMOLLM2_PROMPT = """<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
{}<|im_end|>
<|im_start|>assistant
"""
GEMMA3_BEGINNINGS = [
    "The capital of France is", "Water boils at a temperature of", "The days of the week are Monday, Tuesday,",
    "Once upon a time, in a small village by the sea,", "def add(a, b):\n", "To make pancakes, you need",
    "The largest planet in the solar system is", "1, 2, 4, 8, 16,", "Die Hauptstadt von Deutschland ist",
    "Q: How many legs does a spider have?\nA:", "The harbour wakes before the sun does. A gull",
    "import math\n\n# The area of a circle\n",
]
NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm", "token_embd": "model.embed_tokens", "output_norm": "model.norm",
}
GEMMA3_NAMES = {**NAMES, "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_norm": "pre_feedforward_layernorm",
                "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}


def with_weights(model, reader: gguf.GGUFReader, names: dict, undo):
    """The model with the file's numbers; undo(kind, numbers): what llama.cpp's converter did to them, undone."""
    state = {}
    for tensor in reader.tensors:
        numbers = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(tensor.shape[::-1].astype(int))
        parts = tensor.name.split(".")
        prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
        state[prefix + names[parts[-2]] + ".weight"] = torch.tensor(undo(parts[-2], numbers).copy())
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing in ([], ["lm_head.weight"]) and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model.eval()


def load_smollm2(reader: gguf.GGUFReader, values: dict) -> LlamaForCausalLM:
    key = lambda name: values["llama." + name]
    heads = {"attn_q": key("attention.head_count"), "attn_k": key("attention.head_count_kv")}
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=key("vocab_size"), hidden_size=key("embedding_length"), intermediate_size=key("feed_forward_length"),
        num_hidden_layers=key("block_count"), num_attention_heads=heads["attn_q"], num_key_value_heads=heads["attn_k"],
        max_position_embeddings=key("context_length"), rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        rope_theta=key("rope.freq_base"), tie_word_embeddings=True))

    def undo(kind, numbers):
        if kind not in heads:
            return numbers
        shape = numbers.shape
        return numbers.reshape(heads[kind], shape[0] // heads[kind] // 2, 2, shape[1]).swapaxes(1, 2).reshape(shape)

    return with_weights(model, reader, NAMES, undo)


def load_gemma3(reader: gguf.GGUFReader, values: dict) -> Gemma3ForCausalLM:
    key = lambda name: values["gemma3." + name]
    rope = {kind: {"rope_type": "default", "rope_theta": base}
            for kind, base in [("full_attention", key("rope.freq_base")), ("sliding_attention", 10000.0)]}
    model = Gemma3ForCausalLM(Gemma3TextConfig(
        vocab_size=len(values["tokenizer.ggml.tokens"]), hidden_size=key("embedding_length"), intermediate_size=key("feed_forward_length"),
        num_hidden_layers=key("block_count"), num_attention_heads=key("attention.head_count"),
        num_key_value_heads=key("attention.head_count_kv"), head_dim=key("attention.key_length"), query_pre_attn_scalar=256,
        max_position_embeddings=key("context_length"), rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        sliding_window=key("attention.sliding_window"), rope_parameters=rope))
    return with_weights(model, reader, GEMMA3_NAMES, lambda kind, numbers: numbers - 1 if kind.endswith("norm") else numbers)


def bpe_encoder(values: dict):
    tokens = values["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in values["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    kinds = values["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token, kind in zip(tokens, kinds) if kind == 3])
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def sentencepiece_encoder(values: dict):
    from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2 as pb
    model = pb.ModelProto()
    model.trainer_spec.model_type = pb.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.vocab_size = len(values["tokenizer.ggml.tokens"])
    for name in ["bos", "eos", "unk", "pad"]:
        token = values["tokenizer.ggml." + {"unk": "unknown", "pad": "padding"}.get(name, name) + "_token_id"]
        setattr(model.trainer_spec, name + "_id", token)
        setattr(model.trainer_spec, name + "_piece", values["tokenizer.ggml.tokens"][token])
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    unknown = values["tokenizer.ggml.unknown_token_id"]
    columns = [values["tokenizer.ggml." + name] for name in ["tokens", "scores", "token_type"]]
    for at, (token, score, kind) in enumerate(zip(*columns)):
        piece = model.pieces.add()
        piece.piece = token.replace(" ", "\u2581")  # runs of spaces are spelled as they stand in texts
        piece.score, piece.type = score, pb.ModelProto.SentencePiece.UNKNOWN if at == unknown else kind
    processor = SentencePieceProcessor(model_proto=model.SerializeToString())
    return lambda text: processor.encode(text)


@torch.no_grad()
def answer(model, ids: list, end: int) -> tuple:
    tokens, near, cache, rows = [], [], None, ids
    while len(tokens) < MAX_TOKENS and end not in tokens:
        out = model(torch.tensor([rows]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        best, at = out.logits[0, -1].topk(2)
        if best[0] - best[1] < NEAR:
            near.append(len(tokens))
        tokens.append(int(at[0]))
        rows = tokens[-1:]
    return tokens, near


@torch.no_grad()
def perplexity(model, ids: list, window: int, first: list) -> dict:
    windows = [(first + ids[at + len(first):at + window]) for at in range(0, len(ids) - window + 1, window)]
    total = 0.0
    for each in windows:
        logprobs = model(torch.tensor([each])).logits[0, window // 2 - 1:-1].double().log_softmax(-1)
        total -= float(logprobs.gather(1, torch.tensor(each[window // 2:])[:, None]).sum())
    value = math.exp(total / (len(windows) * (window - window // 2)))
    return {"text": TEXT, "window": window, "windows": len(windows), "value": round(value, 4)}


def checksums(lists: list) -> str:
    packed = [struct.pack(f"<{len(ids)}i", *ids) for ids in lists]
    return "".join(f"{zlib.crc32(each) & 255:02x}" for each in packed) + f"{zlib.crc32(b''.join(packed)):08x}"


def main() -> None:
    name = sys.argv[1]
    reader = gguf.GGUFReader(sys.argv[2])
    values = {name: field.contents() for name, field in reader.fields.items()}
    load, make_encoder, form, questions, window = {
        "smollm2": (load_smollm2, bpe_encoder, SMOLLM2_PROMPT, SMOLLM2_QUESTIONS, 256),
        "gemma3": (load_gemma3, sentencepiece_encoder, "{}", GEMMA3_BEGINNINGS, 1024)}[name]
    model, encode = load(reader, values), make_encoder(values)
    first = [values["tokenizer.ggml.bos_token_id"]] if values.get("tokenizer.ggml.add_bos_token") else []
    with open(TEXT) as text:
        predicted = perplexity(model, encode(text.read()), window, first)
    with open("tests/data/tokenizer/strings.json") as texts:
        strings = [part if isinstance(part, str) else part[0] * part[1] + "".join(part[2:]) for part in json.load(texts)]
    head = {"prompt": form, "first": first, "specials_in_text": name == "smollm2", "perplexity": predicted,
            "strings": checksums([encode(text) for text in strings])}
    lines = []
    for question in questions:
        ids = first + encode(form.format(question))
        tokens, near = answer(model, ids, values["tokenizer.ggml.eos_token_id"])
        lines.append(json.dumps({"question": question, "prompt_ids": ids, "tokens": tokens, "near": near}, separators=(",", ":")))
    with open(sys.argv[3] if len(sys.argv) > 3 else f"tests/data/gguf/{name}.json", "w") as out:
        out.write("{" + "".join(f'"{key}":{json.dumps(value)},\n' for key, value in head.items()))
        out.write('"answers":[' + ",\n".join(lines) + "]}\n")


if __name__ == "__main__":
    main()
