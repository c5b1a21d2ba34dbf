#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizer/sentencepiece.json: tiny SentencePiece BPE models trained on our own words, and what the Python package
`sentencepiece` makes of the strings of make_tokenizer_goldens.py (checksums as there). And tokenizer.model, a smaller unigram model as
the package stores it, with tokenizer_model.json, which has the checksums of every fourth string.

    pip install sentencepiece==0.2.3
    make_sentencepiece_goldens.py OUTPUT_FOLDER STRINGS_JSON
"""
import io
import json
import struct
import sys
import zlib
from pathlib import Path

import sentencepiece

from tokenizer_golden_strings import TRAINING_TEXT

# name: whether a space is put in front of a text
STYLES = {"prefix": True, "no_prefix": False}


def train(prefix):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in TRAINING_TEXT * 3 for line in text.split("\n") if line.strip()), model_writer=model,
        model_type="bpe", vocab_size=620, byte_fallback=True, character_coverage=0.98, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=prefix, split_digits=True, user_defined_symbols=["<turn>", "\n\n"],
        minloglevel=2, num_threads=1)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def kind(model, i):
    """As GGUF numbers them."""
    if model.is_unknown(i):
        return 2
    if model.is_control(i):
        return 3
    if model.is_byte(i):
        return 6
    return 4 if model.id_to_piece(i) in ("<turn>", "\n\n") else 1


def crc(ids):
    return f"{zlib.crc32(struct.pack(f'<{len(ids)}i', *ids)):08x}"


def strings(path):
    for entry in json.loads(path.read_text()):
        yield entry[0] * entry[1] if isinstance(entry, list) else entry


def train_unigram():
    lines = [line for text in TRAINING_TEXT for line in text.split("\n") if line.strip() and line.isascii()]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 3), model_writer=model, model_type="unigram", vocab_size=130, character_coverage=0.98,
        normalization_rule_name="identity", user_defined_symbols=["<turn>", "->"], hard_vocab_limit=False, minloglevel=2, num_threads=1)
    return model.getvalue()


def write_model(folder, texts):
    stored = train_unigram()
    model = sentencepiece.SentencePieceProcessor(model_proto=stored)
    chosen = [i for i in range(0, len(texts), 4) if "\0" not in texts[i]]
    ids = [model.encode(texts[i]) for i in chosen]
    (folder / "tokenizer.model").write_bytes(stored)
    made = {"strings": len(chosen), "crc": "".join(crc(i)[6:] for i in ids) + crc([i for part in ids for i in part]),
            # Hugging Face's packages, and so we, write the unknown token as it is called.
            "decoded": [model.decode(i).replace(" \u2047 ", "<unk>") for i in ids[:20]]}
    (folder / "tokenizer_model.json").write_text(json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    folder, texts = Path(sys.argv[1]), list(strings(Path(sys.argv[2])))
    write_model(folder, texts)
    made = {}
    for name, prefix in STYLES.items():
        model = train(prefix)
        size = model.get_piece_size()
        # A NUL ends a text there; around a user's symbol llama.cpp and the package differ about the prefix.
        chosen = [i for i, text in enumerate(texts) if "\0" not in text and "<turn>" not in text and "\n\n" not in text]
        ids = [model.encode(texts[i]) for i in chosen]
        made[name] = {
            "pieces": [model.id_to_piece(i) for i in range(size)], "scores": [model.get_score(i) for i in range(size)],
            "types": [kind(model, i) for i in range(size)], "prefix": prefix, "left_out": sorted(set(range(len(texts))) - set(chosen)),
            "crc": "".join(crc(i)[6:] for i in ids) + crc([i for part in ids for i in part]),
            "ids": ids[:60], "decoded": [model.decode(i) for i in ids[:60]]}
    (folder / "sentencepiece.json").write_text(json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
