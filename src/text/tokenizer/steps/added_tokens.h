// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `added_tokens` of tokenizer.json: tokens that are cut out of the text before everything else.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/json_node.h"
#include "text/tokenizer/pattern/pattern_set.h"

namespace ashlar::text {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character stands next to it
  bool lstrip = false;       // swallows the white space before it
  bool rstrip = false;       // swallows the white space after it
  bool normalized = false;   // matched after normalisation, its own content normalised too
  bool literal = false;      // matched after normalisation as it is, which no tokenizer.json says
  bool special = false;

  /// Looks like <think>: what users and tools say never becomes such a token, special or not.
  bool is_tag() const { return content.size() > 2 && content.front() == '<' && content.back() == '>'; }
};

/// Reads the list; an empty content is passed over, as the reference does. Throws Error on a content or id listed
/// twice.
std::vector<AddedToken> read_added_tokens(const JsonNode& node);

/// A part of a text: an added token (id >= 0) or plain text (id < 0).
struct Segment {
  int32_t id = -1;
  std::string_view text;
};

/// Finds one set of added tokens in text.
class AddedTokenMatcher {
 public:
  struct Pattern {
    std::string text;  // what is looked for: the token's content or its normalised form; an empty one is never found
    AddedToken token;
  };
  AddedTokenMatcher() = default;
  /// Of equal texts the first is found.
  explicit AddedTokenMatcher(std::vector<Pattern> patterns);

  enum class Choice { kTake, kLeave, kOther };
  /// What to do where a token's spelling stands at [begin, end) of the text: take it, leave it as text, a shorter token
  /// inside it too, or look for another one.
  using Choose = std::function<Choice(const AddedToken& token, size_t begin, size_t end)>;

  /// Appends the segments of `text` (valid UTF-8): leftmost match first, the longest of those that are chosen. One pass
  /// over the text, however many tokens there are.
  void split(std::string_view text, const Choose& choose, std::vector<Segment>& segments) const;

 private:
  std::vector<Pattern> patterns_;
  PatternSet texts_;
};

}  // namespace ashlar::text
