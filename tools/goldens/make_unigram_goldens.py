#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizer/unigram.json: tokenizer.json files as converters write them of SentencePiece models (Unigram with
and without byte tokens, maps of characters, Metaspace of every kind; BPE with Metaspace), trained on our own words, and
what the Python package `tokenizers` makes of the strings of make_tokenizer_goldens.py (checksums as there).

    pip install tokenizers==0.23.3 sentencepiece==0.2.3
    make_unigram_goldens.py OUTPUT_FOLDER
"""
import base64
import io
import json
import random
import sys
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import Tokenizer
from tokenizers import __version__ as tokenizers_version

from make_tokenizer_goldens import checksums, decode_cases, encode
from tokenizer_golden_strings import TRAINING_TEXT, awkward_strings

# What characters become, as the trainer takes it: code points, a tab, code points. Some are clusters of several
# characters, some have a beginning that is there too, some vanish.
RULES = [("\t", " "), ("\n", " "), ("\u00a0", " "), ("\u3000", " "), ("\u200b", ""), ("\ufeff", ""), ("\u00ad", ""),
         ("\ufb01", "fi"), ("\ufb02", "fl"), ("\u2026", "..."), ("\u00bd", "1/2"), ("\u2122", "TM"), ("\u00e9", "e"),
         ("e\u0301", "e"), ("a\u0308", "ae"), ("a\u0308\u0301", "AE"), ("\u0130", "i"), ("\uac00", "ga"),
         ("\u1100\u1161", "GA"), ("\ufdfa", "sallallahou alayhe wasallam"), ("\U0001f600", ":)"), ("\u0938", "s")]
RULES += [(chr(c + 0xFEE0), chr(c)) for c in range(0x21, 0x7F)]


def fields(data):
    """(number, value) of a protocol buffer's message, in order."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            length = {1: 8, 5: 4}.get(key & 7)
            length = varint() if length is None else length
            yield key >> 3, data[at:at + length]
            at += length


def charsmap(model):
    normalizer = next(value for number, value in fields(model) if number == 3)
    return base64.b64encode(next(value for number, value in fields(normalizer) if number == 2)).decode()


def train(rules=None, **options):
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        tsv = Path(folder) / "rules.tsv"
        spell = lambda text: " ".join(f"{ord(c):X}" for c in text)
        tsv.write_text("".join(f"{spell(a)}\t{spell(b)}\n" for a, b in rules or []))
        chosen = {"normalization_rule_tsv": str(tsv)} if rules else {"normalization_rule_name": "identity"}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line for text in TRAINING_TEXT * 3 for line in text.split("\n") if line.strip()),
            model_writer=model, minloglevel=2, num_threads=1, **chosen, **options)
    return model.getvalue()


def pieces(model):
    loaded = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [[loaded.id_to_piece(i), round(loaded.get_score(i), 3)] for i in range(loaded.get_piece_size())]


def token(id, content):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def metaspace(scheme="always", **more):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, **more}


def build():
    """Files by name: each of sections of others, or its own."""
    mapped = train(RULES, model_type="unigram", vocab_size=330, character_coverage=0.98)
    bytes_too = train(model_type="unigram", vocab_size=565, byte_fallback=True, character_coverage=0.98,
                      remove_extra_whitespaces=False)
    special = [token(0, "<unk>"), token(1, "<s>"), token(2, "</s>")]
    framed = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}},
                                                       {"SpecialToken": {"id": "</s>", "type_id": 0}}],
              "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
              "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}
    normalizer = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": charsmap(mapped)},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}
    chain = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                              {"type": "ByteFallback"}, {"type": "Fuse"},
                                              {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "post_processor": framed}
    t5 = {**base, "normalizer": normalizer, "pre_tokenizer": metaspace(), "decoder": metaspace(),
          "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces(mapped), "byte_fallback": False}}
    gemma = {**base, "normalizer": None, "pre_tokenizer": metaspace("first", split=False), "decoder": chain,
             "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces(bytes_too), "byte_fallback": True}}
    bpe = json.loads((Path(sys.argv[1]) / "byte_fallback.json").read_text())
    # name: (whose sections are the rest, own sections)
    return {
        "mapped": (None, t5), "bytes": (None, gemma),
        "words": ("mapped", {"normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"}, metaspace("first")]}, "decoder": metaspace("first")}),
        "never": ("mapped", {"pre_tokenizer": metaspace("never", split=True), "decoder": metaspace("never"),
                             "normalizer": {"type": "Sequence", "normalizers": [
                                 {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Prepend", "prepend": "▁"}]}}),
        "first split": ("bytes", {"pre_tokenizer": metaspace("first"), "decoder": metaspace("first")}),
        "old prefix": ("bytes", {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True},
                                 "decoder": {"type": "Sequence", "decoders": [metaspace(), {"type": "ByteFallback"}]}}),
        "bpe": (None, {**bpe, "normalizer": None, "pre_tokenizer": metaspace("first", split=False)}),
        "bpe words": ("bpe", {"pre_tokenizer": metaspace("always"), "decoder": metaspace("always"),
                              "model": {**bpe["model"], "ignore_merges": True, "byte_fallback": False}})}


def main():
    strings = awkward_strings()
    chosen = [i for i in range(len(strings)) if i < 100 or i % 8 == 0]
    strings = [strings[i] for i in chosen]
    out = {"made_with": f"tokenizers {tokenizers_version}, sentencepiece {sentencepiece.__version__}", "strings": chosen, "files": {}, "tokenizers": {}}
    rng = random.Random(5)
    whole = {}
    for name, (base, sections) in build().items():
        whole[name] = {**whole.get(base, {}), **sections}
        tokenizer = Tokenizer.from_str(json.dumps(whole[name]))
        ids = [encode(tokenizer, s) for s in strings]
        own = {key: value for key, value in sections.items()
               if not name.startswith("bpe") or key in ("normalizer", "pre_tokenizer", "decoder")}
        out["files"][name] = {"base": base, "sections": own}
        out["tokenizers"][name] = {
            "ids": [i for i in ids[:6]], "crc": checksums(ids),
            "crc_framed": checksums([encode(tokenizer, s, add_special_tokens=True) for s in strings])[-8:],
            "decode": decode_cases(tokenizer, rng)[:8]}
    text = json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n"
    (Path(sys.argv[1]) / "unigram.json").write_text(text)
    print(len(text.encode()), "bytes;", len(strings), "strings")


if __name__ == "__main__":
    main()
