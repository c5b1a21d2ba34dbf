#pragma once
// Prompts to token ids. What a user wrote stays text: the spelling of a special token inside a message, a tool or a
// variable of the template does not become that token, and in what users and tools say neither does that of a tag, such
// as <think>, that the vocabulary has a token for.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/parsed.h"
#include "server/service/served_model.h"

namespace ashlar::server {

struct EncodedPrompt {
  std::vector<int32_t> ids;
  std::string text;                  ///< of a prompt that came as ids, theirs
  bool starts_in_reasoning = false;  ///< the template opened <think>
  bool may_reason = false;           ///< the model may open it by itself
};

/// Immutable; any number of threads may use it.
class PromptEncoder {
 public:
  /// `model` outlives this.
  explicit PromptEncoder(const ServedModel& model);

  /// Ids and text, or a 400. `add_special_tokens`: what the tokenizer puts around a text; not for conversations.
  /// `must_fit`: a prompt that is clearly longer than the context is refused before it is tokenised.
  Parsed<EncodedPrompt> encode(const Prompt& prompt, bool add_special_tokens = true, bool must_fit = true,
                               bool parse_special = true) const;
  /// The text of a conversation.
  Parsed<std::string> render(const ChatPrompt& prompt) const;

 private:
  size_t least_tokens(size_t bytes) const;
  std::optional<ApiError> too_long(size_t least) const;
  std::optional<ApiError> too_long(const std::string& text) const;
  std::optional<ApiError> too_long(const ChatPrompt& prompt) const;
  std::string unmarked(const std::string& marked) const;
  std::string render_marked(const ChatPrompt& prompt) const;
  /// `tags`: those too.
  std::string mark(const std::string& text, bool tags = false) const;
  Json mark_strings(const Json& value, bool tags = false) const;
  Json mark_messages(const Json& messages) const;
  std::vector<int32_t> encode_marked(const std::string& marked) const;

  const ServedModel& model_;
  size_t longest_token_ = 1;  ///< bytes, as the vocabulary spells them: at least those of its text
  std::string marker_;        ///< put behind the first byte of a special token's spelling in a user's text
  struct Spelling {
    std::string text;
    bool special;  ///< a special token; else a tag
  };
  std::vector<Spelling> spellings_;  ///< longest first
};

}  // namespace ashlar::server
