// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs requests to their end and hands back tokens and figures.

#include <functional>
#include <vector>

#include "engine/engine.h"

namespace ashlar {

struct Completion {
  std::vector<int32_t> tokens;
  std::vector<PromptToken> prompt;  ///< those of the prompt whose log-probabilities were asked for
  FinishReason reason = FinishReason::kStop;
  RequestStats stats;
};

/// Called with the number of requests that ended since the call began.
using OnCompleted = std::function<void(int64_t done)>;

/// Runs the requests, at most `batch` at a time, and returns their answers in order. Throws Error("measure", ...) if a
/// request is refused or fails, naming it by its index. Their sinks are replaced.
std::vector<Completion> complete(Engine& engine, std::vector<Request> requests, int32_t batch,
                                 const OnCompleted& on_completed = {});

}  // namespace ashlar
