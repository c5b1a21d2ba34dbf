// SPDX-License-Identifier: Apache-2.0
#pragma once
// Limits on what answers may be, for all requests of one model.

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ashlar/llm_types.h"
#include "decode/constraint.h"
#include "session/session.h"
#include "text/grammar/token_trie.h"

namespace ashlar {

class MaskWorkers;

/// Makes the constraint of an answer, one object for each; empty: anything goes.
using ConstraintMaker = std::function<std::shared_ptr<TokenConstraint>()>;

/// What the grammars of a model share is made when the first answer needs it. Any thread may ask.
class Constraints {
 public:
  explicit Constraints(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  /// What the parameters ask for; `ends`: the tokens that end the answer. Answers of one maker share a compiled
  /// grammar. Throws Error for a grammar that is none, or if there are several.
  ConstraintMaker maker(const LlmParams& params, std::vector<int32_t> ends);

 private:
  const std::shared_ptr<Session> session_;
  std::mutex mutex_;
  std::shared_ptr<const grammar::TokenTrie> trie_;
  std::shared_ptr<MaskWorkers> workers_;  // masks that take long hold up no other answer
};

}  // namespace ashlar
