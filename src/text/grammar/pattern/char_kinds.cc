// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/pattern/char_kinds.h"

#include <utf8proc.h>

#include <utility>
#include <vector>

namespace ashlar::grammar {
namespace {

CodePointSet ascii_word() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }

/// All characters of the categories from `first` to `last`.
void append(utf8proc_category_t first, utf8proc_category_t last, std::vector<CodePointSet::Range>& ranges) {
  for (uint32_t code = 0; code <= CodePointSet::kMax; ++code) {
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
    if (category < first || category > last) continue;
    if (!ranges.empty() && ranges.back().second + 1 == code) {
      ranges.back().second = code;
    } else {
      ranges.emplace_back(code, code);
    }
  }
}

CodePointSet unicode_digits() {
  std::vector<CodePointSet::Range> ranges;
  append(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_ND, ranges);
  return CodePointSet(std::move(ranges));
}

CodePointSet unicode_word() {
  std::vector<CodePointSet::Range> ranges = {{'_', '_'}};
  append(UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO, ranges);
  append(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO, ranges);
  return CodePointSet(std::move(ranges));
}

}  // namespace

const CharKind& digits() {
  static const CharKind kind = {{{'0', '9'}}, unicode_digits(), true};
  return kind;
}

const CharKind& word_chars() {
  static const CharKind kind = {ascii_word(), unicode_word(), true};
  return kind;
}

const CharKind& white_space() {
  static const CharKind kind = {{{'\t', '\r'}, {' ', ' '}},
                                {{'\t', '\r'},
                                 {0x1C, 0x20},
                                 {0x85, 0x85},
                                 {0xA0, 0xA0},
                                 {0x1680, 0x1680},
                                 {0x2000, 0x200A},
                                 {0x2028, 0x2029},
                                 {0x202F, 0x202F},
                                 {0x205F, 0x205F},
                                 {0x3000, 0x3000},
                                 {0xFEFF, 0xFEFF}}};
  return kind;
}

const CharKind& any_char() {
  static const CharKind kind = {CodePointSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement(),
                                CodePointSet({{'\n', '\n'}}).complement()};
  return kind;
}

}  // namespace ashlar::grammar
