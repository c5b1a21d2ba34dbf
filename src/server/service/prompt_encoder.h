// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prompts to token ids, and what of them the server wants to know.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/parse/parsed.h"
#include "server/service/served_model.h"

namespace ashlar::server {

struct EncodedPrompt {
  std::vector<int32_t> ids;
  std::string text;                  ///< of a prompt that came as ids, theirs
  bool starts_in_reasoning = false;  ///< the template opened <think>
  bool may_reason = false;           ///< the model may open it by itself
};

/// How a prompt becomes ids.
struct EncodeOptions {
  std::string field = {};          ///< path of the field that the prompt came in: what refusals name
  bool add_special_tokens = true;  ///< what the tokenizer puts around a text; not for conversations
  bool parse_special = true;       ///< of a text: spellings of special tokens mean them
  bool must_fit = true;            ///< what is clearly longer than the context is refused before it is tokenised
};

/// Immutable; any number of threads may use it.
class PromptEncoder {
 public:
  /// `model` outlives this.
  explicit PromptEncoder(const ServedModel& model);

  /// Ids and text, or a 400.
  Parsed<EncodedPrompt> encode(const Prompt& prompt, const EncodeOptions& options = {}) const;
  /// The text of a conversation that came in `field`, or a 400.
  Parsed<std::string> render(const ChatPrompt& prompt, const std::string& field) const;

 private:
  size_t min_tokens(size_t bytes) const;
  std::optional<ApiError> too_long(size_t least, const std::string& field) const;
  std::optional<ApiError> too_long(const std::string& text, const std::string& field) const;
  std::optional<ApiError> too_long(const ChatPrompt& prompt, const std::string& field) const;
  const ServedModel& model_;
  size_t longest_token_ = 1;  ///< bytes, as the vocabulary spells them: at least those of its text
};

}  // namespace ashlar::server
