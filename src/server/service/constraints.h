// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a request demands of the shape of its answers, compiled once and shared by its answers.

#include <functional>
#include <memory>
#include <string>

#include "generate/mask_workers.h"
#include "server/api/parse/parsed.h"
#include "server/generation.h"
#include "server/service/served_model.h"
#include "text/grammar/matcher.h"

namespace ashlar::server {

/// The field of the request that its constraint comes from.
std::string field_of_constraint(const Generation& generation);

/// Makes constraints for the answers of one request.
class ConstraintMaker {
 public:
  /// Compiles Generation::constraint and a tool choice that demands a call; a 400 if that cannot be honoured.
  /// `model` outlives the constraints; `workers`: see GrammarConstraint; `unwanted`: see grammar::Limits.
  static Parsed<ConstraintMaker> compile(const ServedModel& model, const Generation& generation,
                                         std::shared_ptr<MaskWorkers> workers = nullptr,
                                         std::function<bool()> unwanted = {});

  /// For one answer; null if anything goes. An answer that begins with thinking, as the prompt has it or as the model
  /// may choose, is free until that has ended.
  std::shared_ptr<TokenConstraint> make(bool starts_in_reasoning, bool may_reason = false) const;

 private:
  const ServedModel* model_ = nullptr;
  std::shared_ptr<grammar::TokenGrammar> grammar_;
  std::shared_ptr<MaskWorkers> workers_;
  uint64_t budget_ = 0;  // of an answer's masks
};

}  // namespace ashlar::server
