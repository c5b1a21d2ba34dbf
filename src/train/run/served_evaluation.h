// SPDX-License-Identifier: Apache-2.0
#pragma once
// Held-out documents answered by the real engine with the drafter: what serving will be like.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "measure/evaluation/acceptance.h"
#include "train/data/document_set.h"

namespace ashlar {

struct ServedEvaluation {
  AcceptanceTally acceptance;
  /// Prompts with their answers, of which the answer is learnt: the same evaluation as of documents, on what the target
  /// wrote itself.
  std::vector<EncodedDocument> answered;
};

/// Answers the prompts of these documents at temperature 0, one at a time, drafted by the engine's own method.
/// `max_tokens`: of an answer. `done`: called with the number of answers. `stop`: asked before each; what was answered
/// by then is returned. Throws Error("measure", ...) if one fails.
ServedEvaluation evaluate_as_served(Engine& engine, const DocumentSet& documents, std::span<const size_t> held_out,
                                    const std::vector<int32_t>& stop_ids, int32_t max_tokens,
                                    const std::function<void(int64_t)>& done = {},
                                    const std::function<bool()>& stop = {});

}  // namespace ashlar
