"""Writes src/text/template/unicode_tables.h: Python's own character properties beyond ASCII, as ranges.

Usage: make_template_unicode.py > src/text/template/unicode_tables.h
"""

import unicodedata

CODES = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def case_ranges(mapping):
    """(first, last, stride, delta) of the characters whose mapping is one other character."""
    out = []
    for code in CODES:
        mapped = mapping(chr(code))
        if len(mapped) != 1 or mapped == chr(code):
            continue
        delta = ord(mapped) - code
        if out:
            first, last, stride, previous = out[-1]
            gap = code - last
            if previous == delta and ((stride == 0 and gap in (1, 2)) or gap == stride):
                out[-1] = (first, code, gap, delta)
                continue
        out.append((code, code, 0, delta))
    return [(first, last, stride or 1, delta) for first, last, stride, delta in out]


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
// Character properties above ASCII as Python {unicodedata.unidata_version} (Unicode version) has them.
// Written by tests/tools/make_template_unicode.py.

namespace ashlar::tmpl {{

/// Characters first, first + stride, ... last map to themselves plus delta.
struct CaseRange {{ char32_t first, last; int stride, delta; }};
/// A character whose mapping is several characters.
struct CaseSpecial {{ char32_t code; const char* mapped; }};
struct CodeRange {{ char32_t first, last; }};
""")
    for name, mapping in (("Upper", str.upper), ("Lower", str.lower)):
        table("CaseRange", f"k{name}Ranges",
              [(number(a), number(b), str(s), str(d)) for a, b, s, d in case_ranges(mapping)])
        special = [(number(c), '"' + mapping(chr(c)) + '"') for c in CODES if len(mapping(chr(c))) > 1]
        table("CaseSpecial", f"k{name}Special", special)
    for name, flag in (("Alpha", str.isalpha), ("Digit", str.isdigit),
                       ("Unprintable", lambda c: not c.isprintable())):
        table("CodeRange", f"k{name}Ranges", [(number(a), number(b)) for a, b in flag_ranges(flag)])
    print("}  // namespace ashlar::tmpl")


if __name__ == "__main__":
    main()
