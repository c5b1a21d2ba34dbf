# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/template/values/unicode_tables.h: what Python knows of characters beyond ASCII and utf8proc does not.

Usage: make_template_unicode.py > src/text/template/values/unicode_tables.h
"""

import unicodedata

CODES = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def flag_ranges(flag):
    out = []
    for code in CODES:
        if flag(chr(code)):
            if out and out[-1][1] == code - 1:
                out[-1] = (out[-1][0], code)
            else:
                out.append((code, code))
    return out


def table(kind, name, rows):
    print(f"inline constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        cell = " {" + ", ".join(row) + "},"
        if len(line) + len(cell) > 118:
            print(line)
            line = "   "
        line += cell
    print(line)
    print("};\n")


def number(value):
    return f"{value:#x}" if value > 255 else str(value)


def main():
    print(f"""// clang-format off
#pragma once
// Character properties above ASCII as Python {unicodedata.unidata_version} (Unicode version) has them and utf8proc has not.
// Written by tools/unicode/make_template_unicode.py.

namespace ashlar::tmpl {{

/// A character whose mapping is several characters.
struct CaseSpecial {{ char32_t code; const char* mapped; }};
struct CodeRange {{ char32_t first, last; }};
""")
    for name, mapping in (("Upper", str.upper), ("Lower", str.lower)):
        special = [(number(c), '"' + mapping(chr(c)) + '"') for c in CODES if len(mapping(chr(c))) > 1]
        table("CaseSpecial", f"k{name}Special", special)
    print("/// Digits that are no decimal ones.")
    other = flag_ranges(lambda c: c.isdigit() and not c.isdecimal())
    table("CodeRange", "kOtherDigits", [(number(a), number(b)) for a, b in other])
    print("}  // namespace ashlar::tmpl")


if __name__ == "__main__":
    main()
