// SPDX-License-Identifier: Apache-2.0
#pragma once
// Token ids to text while they arrive.

#include <cstdint>
#include <memory>
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace ashlar {

/// One output text. The concatenation of all push results and flush equals Tokenizer::decode of all ids, however they
/// arrive; no result ends within a UTF-8 character. Not thread-safe; the tokenizer must outlive it.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();

  /// Text that is complete with this token; empty while a character is incomplete. `keep`: also if it is a special
  /// token that is left out otherwise.
  std::string push(int32_t id, bool keep = false);
  /// The rest, with U+FFFD for characters that were never completed. The object then stands at the start of a new text.
  std::string flush();

 private:
  struct State;
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<State> state_;
};

}  // namespace ashlar
