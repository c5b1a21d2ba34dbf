// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `pre_tokenizer` of tokenizer.json: cuts normalised text into the pieces that the model works on one at
// a time.

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/template/json_node.h"
#include "text/tokenizer/pattern/regex.h"

namespace ashlar::text {

/// What happens to the matches of a Split (the names of the format).
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Cuts text at the matches of a pattern.
class Splitter {
 public:
  Splitter(Regex regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  /// Appends the non-empty pieces of `text` (valid UTF-8), in order.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

class PreTokenizer {
 public:
  /// The pieces of one text. They point into the text or into `owned`.
  struct Pieces {
    std::vector<std::string_view> views;
    std::deque<std::string> owned;
  };

  /// One piece: the whole text.
  PreTokenizer() = default;
  /// Split, ByteLevel, Digits, Whitespace, WhitespaceSplit, Punctuation, CharDelimiterSplit, Metaspace and Sequence;
  /// another type throws Error, as does a ByteLevel that is not the last step.
  explicit PreTokenizer(const std::optional<JsonNode>& node);

  /// True when the vocabulary spells bytes in the byte alphabet. The pieces themselves stay plain bytes.
  bool byte_level() const { return byte_level_; }

  /// Replaces `pieces` by those of `text` (valid UTF-8), none of them empty. `begins`: the whole text to encode begins
  /// here, and no token before it. Thread-safe.
  void split(std::string_view text, bool begins, Pieces& pieces) const;

 private:
  struct PrefixSpace {};  // a piece that does not begin with a space gets one
  /// Spaces as SentencePiece writes them, with one more before a word that has none.
  struct Metaspace {
    std::string space;  // one character
    bool prefixed, only_first;
    std::optional<Splitter> splitter;  // before each space
  };
  using Step = std::variant<Splitter, PrefixSpace, Metaspace>;

  void add(const JsonNode& node);
  void add_split(const JsonNode& node);
  void add_metaspace(const JsonNode& node);
  static void mark_spaces(const Metaspace& step, bool begins, std::string_view text, Pieces& pieces);
  void add_regex(std::string_view pattern, SplitBehavior behavior, bool invert, const JsonNode& node);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace ashlar::text
