#pragma once
// Prompts to token ids, and what of them the server wants to know.

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
  size_t min_tokens(size_t bytes) const;
  std::optional<ApiError> too_long(size_t least) const;
  std::optional<ApiError> too_long(const std::string& text) const;
  std::optional<ApiError> too_long(const ChatPrompt& prompt) const;
  const ServedModel& model_;
  size_t longest_token_ = 1;  ///< bytes, as the vocabulary spells them: at least those of its text
};

}  // namespace ashlar::server
