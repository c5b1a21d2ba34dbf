#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizer: small tokenizer.json files in the styles in use, awkward strings, and what the Python
package `tokenizers` makes of them. Deterministic for one version of the package.

    pip install tokenizers==0.23.3
    make_tokenizer_goldens.py OUTPUT_FOLDER MODEL_TOKENIZER_JSON

Ids are kept as checksums: 8 bits of crc32 over little-endian int32 (zlib.crc32) for each string, which find the string that differs, and
the whole crc32 over all strings together; of variants the whole one alone. Those of the first strings are there in full as well.
"""
import json
import random
import struct
import sys
import zlib
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import __version__ as tokenizers_version

from tokenizer_golden_strings import TRAINING_TEXT, awkward_strings

GPT2_SPECIAL = ["<|endoftext|>"]
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                  r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_PATTERN = LLAMA3_PATTERN.replace("{1,3}", "")
LING_PATTERN = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")

# Their patterns are also tried on a vocabulary that shows where the pieces end.
PATTERN_STYLES = ["gpt2", "llama3", "qwen", "ling", "pebble"]

# Blocks of 4096 code points for the sweeps: planes 0 to 3 up to the last assigned character, and a sample of the rest.
SWEEP_BLOCKS = [*range(0x33), 0x40, 0xE0, 0xF0, 0x10F]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(pattern, behavior, invert)


def byte_level(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def train(tokenizer, size, special, **options):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False, **options)
    tokenizer.train_from_iterator(TRAINING_TEXT * 3, trainer)
    return tokenizer


def train_byte_level(pre_tokenizer, size, special, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    return train(tokenizer, size, special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def with_words_outside_merges(tokenizer):
    """Gives ignore_merges something to do: whole words that no merge builds."""
    data = json.loads(tokenizer.to_str())
    vocabulary = data["model"]["vocab"]
    for word in ["Ġcontraption", "ĠĠĠx", "1234", "éclair".encode().decode("latin-1")]:
        vocabulary.setdefault(word, len(vocabulary))
    return Tokenizer.from_str(json.dumps(data))


def commonest(count, space=" "):
    """Options for an alphabet of that many characters (ties broken by code point: left to the trainer they fall at random)."""
    text = "".join(TRAINING_TEXT).replace(" ", space)
    alphabet = sorted(set(text), key=lambda c: (-text.count(c), c))[:count]
    return {"initial_alphabet": alphabet, "limit_alphabet": count}


def build():
    made = {}
    made["gpt2"] = train_byte_level(byte_level(False, True), 1000, GPT2_SPECIAL)
    made["gpt2"].post_processor = processors.ByteLevel(trim_offsets=False)
    made["gpt2_prefix"] = train_byte_level(byte_level(True, True), 700, GPT2_SPECIAL)

    llama3 = train_byte_level(
        pre_tokenizers.Sequence([split(Regex(LLAMA3_PATTERN)), byte_level()]), 1000,
        ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        ignore_merges=True)
    llama3 = with_words_outside_merges(llama3)
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                                      special_tokens=[("<|begin_of_text|>", 0)])])
    made["llama3"] = llama3

    qwen = train_byte_level(pre_tokenizers.Sequence([split(Regex(QWEN_PATTERN)), byte_level()]), 1000, [],
                            normalizers.NFC())
    qwen.add_special_tokens([AddedToken(t, normalized=False) for t in
                             ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_pad|>"]])
    qwen.add_tokens([AddedToken(t, normalized=False) for t in
                     ["<tool_call>", "</tool_call>", "<think>", "</think>", "<|im", "<|im_start|>user"]])
    made["qwen"] = qwen

    ling = train_byte_level(
        pre_tokenizers.Sequence([split(Regex(r"\p{N}{1,3}")), split(Regex(r"[一-龥぀-ゟ゠-ヿ]+")),
                                 split(Regex(LING_PATTERN)), byte_level()]), 1000,
        ["<|startoftext|>", "<|endoftext|>", "[CLS]", "[gMASK]", "<|mask|>", "<role>", "</role>"])
    data = json.loads(ling.to_str())
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]  # the older spelling
    made["ling"] = data

    fallback = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    fallback.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    fallback.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                          decoders.Strip(" ", 1, 0)])
    # The tokens of the bytes are ordinary vocabulary; trained with a split so that no merge spans the whole text.
    fallback.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    train(fallback, 900, ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)],
          **commonest(150, "▁"))
    data = json.loads(fallback.to_str())
    data["pre_tokenizer"] = None
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    fallback = Tokenizer.from_str(json.dumps(data))
    fallback.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A <s> $B",
                                                            special_tokens=[("<s>", 1), ("</s>", 2)])
    made["byte_fallback"] = fallback

    words = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    words.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.add_special_tokens(["[UNK]"])
    made["words"] = train(words, 700, ["[UNK]"], end_of_word_suffix="</w>", **commonest(90))

    plain = train_byte_level(byte_level(), 700, [])
    made["plain"] = plain

    # Every byte is one token, and another one at the end of a piece: the ids show where the pieces end.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    spellings = alphabet + [c + "</w>" for c in alphabet]
    bounds = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(spellings)}, merges=[], end_of_word_suffix="</w>"))
    bounds.pre_tokenizer = byte_level()
    bounds.decoder = decoders.ByteLevel()
    made["bounds"] = bounds
    return made


def ascii_split(pattern, behavior, invert=False):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]}


def token(id, content, **flags):
    values = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
    return {"id": id, "content": content, **values, **flags}


def overlapping_tokens(first, known, strings, rng, flags):
    """Added tokens cut out of the strings: many are parts of others, begin in one and end in the next."""
    contents, text = set(), "".join(s for s in strings if len(s) < 400)
    while len(contents) < 250:
        at = rng.randrange(len(text))
        part = text[at:at + rng.choice([2, 2, 3, 3, 4, 6, 9])]
        contents |= {part[:end] for end in range(2, len(part) + 1) if rng.random() < 0.5} - known
    return [token(first + i, content, **{flag: rng.random() < p for flag, p in flags.items()})
            for i, content in enumerate(sorted(contents)[:250])]


def variants(files, strings):
    """(name, base, replaced sections): the base file with other sections, over fewer strings."""
    first = len(files["bounds"]["model"]["vocab"])
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    out = []
    for behavior in ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            out.append((f"split {behavior} {invert}", "bounds",
                        {"pre_tokenizer": ascii_split({"Regex": r"\s|[a-f]|\p{Lu}+"}, behavior, invert)}))
        out.append((f"split string {behavior}", "bounds",
                    {"pre_tokenizer": ascii_split({"String": "e"}, behavior)}))
    for pattern in [r"\w+", r"\W", r"\b", r"\d", r"[\w-]+", r"^.", r".$", r"(?<=\s)\S", r"\p{Han}+|\p{Latin}{2}", r"(?m:a.)",
                    r"\p{N}{2}+", r"[^\S\r\n]+", r"\h+", r"x*", r"\p{Lu}\p{Ll}{,3}", r"\p{M}|\p{S}|\p{P}", r"\u0065",
                    r"(?i:s|k|σ)", r"\p{Alphabetic}+", r"[a-c\]]+", r"\R", r"(?>a|an)t",
                    r"\P{L}+", r"\S\s"]:
        out.append((f"regex {pattern}", "bounds", {"pre_tokenizer": ascii_split({"Regex": pattern}, "Isolated")}))
    for step in [{"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False},
                 {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"},
                 {"type": "Punctuation", "behavior": "MergedWithPrevious"},
                 {"type": "CharDelimiterSplit", "delimiter": "é"},
                 {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": False}]:
        steps = [step] if step["type"] == "ByteLevel" else [step, bytes_only]
        out.append((f"step {json.dumps(step)}", "bounds",
                    {"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}}))
    for normalizer in [{"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"},
                       {"type": "Strip", "strip_left": True, "strip_right": True},
                       {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "$1_"},
                       {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"},
                                                            {"type": "Prepend", "prepend": "é"}]}]:
        out.append((f"normalizer {json.dumps(normalizer)}", "bounds", {"normalizer": normalizer}))
    flags = [dict(single_word=True), dict(lstrip=True), dict(rstrip=True), dict(lstrip=True, rstrip=True),
             dict(lstrip=True, rstrip=True, single_word=True), dict(normalized=True), dict(normalized=True, lstrip=True)]
    for flag in flags:
        for special in [False, True]:
            tokens = [token(first + i, content, special=special, **flag) for i, content in
                      enumerate(["<mask>", "<mask>s", "the", "Été", "Word", " ", "\n\n", "<|", "|>"])]
            out.append((f"added {flag} {special}", "bounds",
                        {"added_tokens": tokens, "normalizer": {"type": "Sequence", "normalizers": [
                            {"type": "NFC"}, {"type": "Lowercase"}]}}))
    mixed = [token(first, "<mask>", lstrip=True, special=True), token(first + 1, "mask", normalized=True),
             token(first + 2, "<m", rstrip=True), token(first + 3, "THE", normalized=True, special=True),
             token(first + 4, "<|end|>", special=True), token(first + 5, "<|end"),
             token(first + 6, "the ", normalized=True)]
    out.append(("added mixed", "bounds", {"added_tokens": mixed, "normalizer": {"type": "Lowercase"}}))
    out.append(("added mixed with prefix space", "bounds", {"added_tokens": mixed, "pre_tokenizer": {
        "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}}))
    known = set(files["bounds"]["model"]["vocab"])
    rng = random.Random(23)
    for name, flags in [("plain", {}), ("normalized", {"normalized": 0.5, "special": 0.3}),
                        ("mixed", {"single_word": 0.2, "lstrip": 0.3, "rstrip": 0.3, "normalized": 0.3, "special": 0.5})]:
        out.append((f"added overlapping {name}", "bounds",
                    {"added_tokens": overlapping_tokens(first, known, strings, rng, flags),
                     "normalizer": {"type": "Lowercase"}}))
    for style in PATTERN_STYLES:
        out.append((f"pattern of {style}", "bounds", {key: files[style][key] for key in ["pre_tokenizer", "normalizer"]}))
    vocabulary = ["?", "a", "é", "aé", "##é", "a##", "<0xC3>", "<0xBC>", "1", " ", "e", "##e", "ae", "the"]
    model = {"type": "BPE", "dropout": None, "unk_token": "?", "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": {spelling: i for i, spelling in enumerate(vocabulary)}, "merges": [["a", "é"], ["a", "e"]]}
    for name, options in [("one unknown each", {}), ("fused unknown", {"fuse_unk": True}), ("no unknown", {"unk_token": None}),
                          ("some bytes", {"byte_fallback": True}), ("whole words", {"ignore_merges": True}),
                          ("some bytes, fused", {"byte_fallback": True, "fuse_unk": True}),
                          ("prefix", {"continuing_subword_prefix": "##", "merges": [["a", "##é"], ["a", "##e"]]})]:
        out.append((f"model {name}", "bounds", {"pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
                                                "added_tokens": [], "model": {**model, **options}}))
    return out


def crc(ids):
    return f"{zlib.crc32(struct.pack(f'<{len(ids)}i', *ids)):08x}"


def checksums(lists):
    """Two digits for each list of ids, to find where, then eight over all of them."""
    return "".join(crc(ids)[6:] for ids in lists) + crc([i for ids in lists for i in ids])


def encode(tokenizer, text, parse_special=True, add_special_tokens=False):
    tokenizer.encode_special_tokens = not parse_special
    ids = tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
    tokenizer.encode_special_tokens = False
    return ids


def sweep_text(block, frame):
    """All characters of a block, each in a frame ('%' stands for the character)."""
    points = (c for c in range(block * 4096, block * 4096 + 4096) if not 0xD800 <= c < 0xE000)
    return "".join(frame.replace("%", chr(c)) if c != ord("%") else "%" for c in points)


def sweeps(named):
    """Every code point through every pattern and normal form. Punctuation is not among them: the package's is that of Unicode 8."""
    return [{"tokenizer": name, "frame": frame,
             "crc": checksums([encode(tokenizer, sweep_text(block, frame)) for block in SWEEP_BLOCKS])}
            for name, tokenizer, frames in named for frame in frames]


def decode_cases(tokenizer, rng):
    size = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    special = [i for i, t in tokenizer.get_added_tokens_decoder().items()]
    encoded = [encode(tokenizer, s) for s in ["👩‍👩‍👧 नमस्ते 你好", " a  b\n", "é<|im_end|>", "a ▁ b", "  two"]]
    cases = []
    for i in range(90):
        ids = [rng.choice(special) if special and rng.random() < 0.1 else rng.randrange(size + 2)
               for _ in range(rng.randrange(1, 14))]
        if i % 3 == 0:  # parts of valid text: characters that are cut in two and completed
            source = rng.choice(encoded)
            ids = source[rng.randrange(len(source)):] + ids[:2] + source
        texts = [tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)]
        cases.append([ids, *texts[:1 if texts[0] == texts[1] else 2]])
    return cases[:45]  # half of them, the random numbers of what follows being those of all


def broken_utf8():
    """[hex of bytes, hex of what errors="replace" makes of them]"""
    rng = random.Random(1)
    edges = [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5,
             0xFF]
    cases = [b"", b"abc", "é你🙂".encode()] + [bytes([a]) for a in edges] + [bytes([a, b]) for a in edges for b in edges]
    cases += [bytes(rng.choice(edges) for _ in range(rng.randrange(3, 9))) for _ in range(400)]
    return [[case.hex(), case.decode("utf-8", "replace").encode().hex()] for case in cases]


def repetition_of(text):
    """[part, count] of a long text that repeats a short part, [part, count, end] of one with another end, else the text."""
    if len(text) < 1000:
        return text
    for period in range(1, 8):
        if len(text) % period == 0 and text[:period] * (len(text) // period) == text:
            return [text[:period], len(text) // period]
    if text[:-1] == text[0] * (len(text) - 1):
        return [text[0], len(text) - 1, text[-1]]
    return text


def main():
    folder, model = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    files, tokenizers = {}, {}
    for name, made in build().items():
        text = json.dumps(made if isinstance(made, dict) else json.loads(made.to_str()), ensure_ascii=False,
                          separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n")
        files[name] = json.loads(text)
        tokenizers[name] = Tokenizer.from_str(text)
    tokenizers["pebble"] = Tokenizer.from_file(str(model))
    files["pebble"] = json.loads(model.read_text())

    strings = awkward_strings()
    short = [i for i, s in enumerate(strings) if len(s) < 3000]
    with_special = [i for i, s in enumerate(strings) if "<" in s or "[" in s]
    goldens = {"made_with": f"tokenizers {tokenizers_version}", "full": 60, "tokenizers": {}, "variants": [], "strings_with_special": with_special}
    rng = random.Random(11)
    for name, tokenizer in tokenizers.items():
        ids = [encode(tokenizer, s) for s in strings]
        plain = [encode(tokenizer, strings[i], parse_special=False) for i in with_special]
        framed = [encode(tokenizer, s, add_special_tokens=True) for s in strings]
        goldens["tokenizers"][name] = {
            "ids": ids[:goldens["full"]], "crc": checksums(ids), "crc_special_as_text": checksums(plain),
            "crc_framed": checksums(framed)[-8:], "decode": decode_cases(tokenizer, rng)}
    chosen = [i for i in short if i % 7 == 0 or i < 120]
    goldens["variant_strings"] = chosen
    variant_tokenizers = {}
    for name, base, sections in variants(files, [strings[i] for i in chosen]):
        tokenizer = Tokenizer.from_str(json.dumps({**files[base], **sections}))
        variant_tokenizers[name] = tokenizer
        goldens["variants"].append({"name": name, "base": base, "sections": sections,
                                    "crc": checksums([encode(tokenizer, strings[i]) for i in chosen])[-8:]})
    forms = [(f'normalizer {{"type": "{form}"}}', ["a%", "%\u0323\u0301e", "\u0327%\u0308"]) for form in
             ["NFC", "NFD", "NFKC", "NFKD"]]
    goldens["sweeps"] = sweeps(
        [(f"pattern of {style}", variant_tokenizers[f"pattern of {style}"], ["a%1 %."]) for style in PATTERN_STYLES] +
        [("words", tokenizers["words"], ["a% "])] +
        [(name, variant_tokenizers[name], frames) for name, frames in forms] +
        [(f"regex {p}", variant_tokenizers[f"regex {p}"], ["a%b"]) for p in
         [r"\w+", r"\d", r"\p{M}|\p{S}|\p{P}", r"\p{Lu}\p{Ll}{,3}", r"\p{Han}+|\p{Latin}{2}", r"\S\s", r"\p{Alphabetic}+",
          r"(?i:s|k|σ)"]] +
        [(name, variant_tokenizers[name], ["a%"]) for name in
         ['normalizer {"type": "Lowercase"}', 'step {"type": "Digits", "individual_digits": true}',
          "added {'single_word': True} False"]])
    goldens["sweep_blocks"] = SWEEP_BLOCKS
    (folder / "utf8.json").write_text(json.dumps(broken_utf8(), separators=(",", ":")) + "\n")
    entries = [repetition_of(s) for s in strings]
    (folder / "strings.json").write_text(json.dumps(entries, ensure_ascii=False, separators=(",", ":")) + "\n")
    (folder / "goldens.json").write_text(json.dumps(goldens, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(len(strings), "strings,", len(tokenizers), "tokenizers,", len(goldens["variants"]), "variants")
    for path in sorted(folder.iterdir()):
        print(path.stat().st_size, path.name)


if __name__ == "__main__":
    main()
