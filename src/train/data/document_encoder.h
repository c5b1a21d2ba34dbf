// SPDX-License-Identifier: Apache-2.0
#pragma once
// Examples to token ids, and which of them are learnt: what the model itself would have written.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"
#include "train/data/example.h"

namespace ashlar {

struct EncodedDocument {
  std::vector<int32_t> ids;
  std::vector<uint8_t> supervised;  ///< one for each id: 1 where the token is learnt
  int32_t lost_turns = 0;           ///< turns of the assistant whose tokens could not be found
};

/// Where the document is cut, so that the model answers what comes: before its last run of learnt tokens, as the last
/// turn of the assistant; a document that is learnt from its first token on, as a text is, after a quarter of it.
/// Nothing where that leaves no token before the cut.
std::optional<size_t> prompt_length(std::span<const uint8_t> supervised);

/// Immutable: documents may be encoded by several threads at once.
class DocumentEncoder {
 public:
  /// `form`: null for a model without a chat template. `vocab`: tokens that the model has an embedding for.
  DocumentEncoder(const Tokenizer& tokenizer, const ChatTemplate* form, std::vector<int32_t> stop_ids, int32_t vocab);

  /// Conversations are rendered by the template as a whole, as they are for an answer (generate/chat_prompt.h). A turn
  /// of the assistant begins where the prompt for it ends: the conversation before it, rendered with the opening of an
  /// answer, shares its tokens with the whole up to there. It ends with the first stop token, or, where the template
  /// writes none, where the conversation up to that turn ends. A token that reaches over a border belongs to what is
  /// before it. A pair is the conversation of a user and an assistant; without a template it is its two texts and a
  /// stop token, and the response is learnt. All of a text is.
  /// Throws Error("train", ...) that names the example.
  EncodedDocument encode(const TrainingExample& example) const;

  /// What the model is given to write the example's end itself: a conversation without the assistant's last turn, if it
  /// ends with one, opened for an answer; of a text or of ids, those before prompt_length(). Empty where nothing is
  /// before that. Throws Error("train", ...) that names the example.
  std::vector<int32_t> encode_prompt(const TrainingExample& example) const;

 private:
  void check_ids(const TrainingExample& example, std::span<const int32_t> ids) const;
  EncodedDocument encode_messages(const TrainingExample& example) const;
  EncodedDocument encode_pair(const TrainingExample& example) const;
  std::vector<int32_t> render(const TrainingExample& example, size_t messages, bool opens_answer) const;
  bool mark_turn(const TrainingExample& example, size_t turn, EncodedDocument& document) const;
  bool is_stop(int32_t id) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* form_;
  std::vector<int32_t> stop_ids_;
  int32_t vocab_;
};

}  // namespace ashlar
