// SPDX-License-Identifier: Apache-2.0
#pragma once
// A place in a pattern or grammar: characters, escapes and [classes], which both languages share.

#include <cstdint>
#include <string>
#include <string_view>

#include "text/grammar/pattern/char_kinds.h"
#include "text/grammar/pattern/code_points.h"

namespace ashlar::grammar {

class PatternCursor {
 public:
  /// Throws Error("grammar") if `text` is not UTF-8. `what` names it in errors; both must outlive this.
  PatternCursor(std::string_view text, std::string_view what, Reading reading = Reading::kNarrow);

  bool at_end() const { return at_ >= text_.size(); }
  /// The byte here, 0 at the end.
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool next_is(std::string_view expected) const { return text_.substr(at_).starts_with(expected); }
  /// Steps over `expected` if it stands here.
  bool take(std::string_view expected);
  void expect(std::string_view expected);
  size_t place() const { return at_; }
  void go_to(size_t place) { at_ = place; }

  /// One code point as it stands.
  uint32_t code_point();
  /// What follows a backslash: one character, or \d \D \w \W \s \S.
  CodePointSet escape(bool in_class) { return escape(in_class, false); }
  /// A class, after its '['.
  CodePointSet char_class();
  /// A decimal number of at most 9 digits; there must be one.
  int32_t number();
  /// The {m}, {m,} or {m,n} after the '{'; max -1: no limit.
  void counts(int64_t& min, int64_t& max);

  [[noreturn]] void fail(const std::string& problem) const;

 private:
  CodePointSet kind(const CharKind& chars, bool left_out) const;
  CodePointSet escape(bool in_class, bool left_out);
  uint32_t hex(int32_t digits);
  uint32_t unicode_escape();

  std::string_view text_, what_;
  Reading reading_;
  size_t at_ = 0;
};

}  // namespace ashlar::grammar
