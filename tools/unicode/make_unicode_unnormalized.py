#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/tokenizer/pattern/unicode_unnormalized.h: the characters that Unicode 16 normalises or reorders and the Python package
`tokenizers` leaves alone, because its normal forms are those of Unicode 9.

Needs `pip install tokenizers==0.23.3 unicodedata2==16.0.0`.
Usage: make_unicode_unnormalized.py > src/text/tokenizer/pattern/unicode_unnormalized.h
"""
import unicodedata2
from tokenizers import normalizers

nfd, nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str


def reorders(mark, combining_class):
    """Whether the package exchanges the mark with one of another class."""
    other = "\u0334" if combining_class > 1 else "\u0301"
    text = "a" + (mark + other if combining_class > 1 else other + mark)
    return nfd(text) != text


left_alone = set()
for code_point in range(0x110000):
    if 0xD800 <= code_point < 0xE000:
        continue
    character = chr(code_point)
    combining_class = unicodedata2.combining(character)
    if combining_class and not reorders(character, combining_class):
        left_alone.add(code_point)
    decomposition = unicodedata2.decomposition(character)
    if decomposition and nfkd(character) == character:
        left_alone.add(code_point)
        if not decomposition.startswith("<"):  # its parts would be composed
            left_alone |= {int(part, 16) for part in decomposition.split() if not unicodedata2.combining(chr(int(part, 16)))}

ranges = []
for code_point in sorted(left_alone):
    if ranges and ranges[-1][1] == code_point - 1:
        ranges[-1][1] = code_point
    else:
        ranges.append([code_point, code_point])

print("""#pragma once
// Made by tools/unicode/make_unicode_unnormalized.py: characters younger than the normal forms of the Python package
// `tokenizers` (Unicode 9), which it neither decomposes nor composes nor reorders.

#include <array>

namespace ashlar::text {

struct CodePointRange {
  char32_t first, last;  // inclusive
};

// clang-format off""")
print(f"inline constexpr std::array<CodePointRange, {len(ranges)}> kUnnormalized = {{{{")
line = " "
for first, last in ranges:
    item = f" {{0x{first:X}, 0x{last:X}}},"
    if len(line) + len(item) > 118:
        print(line)
        line = " "
    line += item
print(line)
print("""}};
// clang-format on

}  // namespace ashlar::text""")
