// SPDX-License-Identifier: Apache-2.0
#pragma once
// The regular expressions of tokenizer.json. They are written for Oniguruma (Ruby syntax) and run on PCRE2, so a
// pattern is first translated (regex_dialect.h). Matching is bounded: a pattern that backtracks too far throws, it
// cannot hang.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::text {

/// Half-open byte range of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

class Regex {
 public:
  /// Compiles an Oniguruma pattern; `where` names the place in the file. Throws Error("tokenizer", ...).
  static Regex from_oniguruma(std::string_view pattern, std::string_view where);
  /// Matches `text` itself.
  static Regex from_literal(std::string_view text, std::string_view where);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// Replaces `matches` by the successive matches in `text` (valid UTF-8), left to right, not overlapping. An empty
  /// match right after a match is passed over. Thread-safe. Throws Error when a match exceeds its limits.
  void find_all(std::string_view text, std::vector<ByteRange>& matches) const;

 private:
  struct Compiled;
  explicit Regex(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace ashlar::text
