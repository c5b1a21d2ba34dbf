#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/tokenizer/pattern/unicode_additions.h: the letters, marks, numbers, punctuation and symbols that Unicode 15 to 16 added, and what
Oniguruma counts as alphabetic or to a script beyond Unicode 14.

Needs Python 3.11 (its unicodedata is Unicode 14.0) and `pip install tokenizers==0.23.3 unicodedata2==16.0.0`.
Usage: make_unicode_additions.py > src/text/tokenizer/pattern/unicode_additions.h
"""
import unicodedata

import unicodedata2
from tokenizers import Regex, pre_tokenizers

assert unicodedata.unidata_version == "14.0.0" and unicodedata2.unidata_version == "16.0.0"

PROPERTIES = ["Alphabetic", "Arabic", "Cyrillic", "Devanagari", "Han", "Hiragana", "Kannada", "Katakana", "Lao", "Latin", "Myanmar"]
# Marks that became alphabetic after Unicode 14.
NEWLY_ALPHABETIC = [(0x363, 0x36F), (0xC04, 0xC04), (0xF82, 0xF83), (0x1DD3, 0x1DE6), (0x11080, 0x11081)]


def unassigned_before(code_point):
    return unicodedata.category(chr(code_point)) == "Cn"


def members(name):
    """Code points that the package's Oniguruma counts to a property."""
    keep = pre_tokenizers.Split(Regex(r"\p{" + name + "}"), "removed", invert=True)
    text = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    return [ord(c) for piece, _ in keep.pre_tokenize_str(text) for c in piece]


def ranges_of(named_points):
    ranges = []
    for name, code_point in sorted(named_points):
        if ranges and ranges[-1][0] == name and ranges[-1][2] == code_point - 1:
            ranges[-1][2] = code_point
        else:
            ranges.append([name, code_point, code_point])
    return ranges


def print_table(table, ranges):
    print(f"inline constexpr std::array<UnicodeAddition, {len(ranges)}> {table} = {{{{")
    line = " "
    for name, first, last in ranges:
        item = f' {{"{name}", 0x{first:X}, 0x{last:X}}},'
        if len(line) + len(item) > 118:
            print(line)
            line = " "
        line += item
    print(line)
    print("}};")


points = range(0x110000)
categories = ranges_of((unicodedata2.category(chr(c)), c) for c in points
                       if unassigned_before(c) and unicodedata2.category(chr(c))[0] in "LMNPS")
newly = [("Alphabetic", c) for first, last in NEWLY_ALPHABETIC for c in range(first, last + 1)]
properties = ranges_of([(name, c) for name in PROPERTIES for c in members(name) if unassigned_before(c)] + newly)

print("""#pragma once
// Made by tools/unicode/make_unicode_additions.py: characters of Unicode 16 that Unicode 14 does not have, or counts otherwise.

#include <array>
#include <string_view>

namespace ashlar::text {

struct UnicodeAddition {
  std::string_view name;
  char32_t first, last;  // inclusive
};

// clang-format off
// By general category.""")
print_table("kCategoryAdditions", categories)
print("\n// By property or script.")
print_table("kPropertyAdditions", properties)
print("""// clang-format on

}  // namespace ashlar::text""")
