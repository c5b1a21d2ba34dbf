// SPDX-License-Identifier: Apache-2.0
#pragma once
// The facade's parameters as an engine's request.

#include "ashlar/llm_types.h"
#include "llm/constraints.h"

namespace ashlar {

/// What requests with the same parameters have in common.
struct RequestForm {
  Request request;             ///< without prompt, sink and constraint
  ConstraintMaker constraint;  ///< or empty
  std::vector<std::string> stop;
  bool skip_special_tokens = true;
};

/// Throws Error that names the parameter; ranges that the engine knows are its own to check.
RequestForm request_form(const LlmParams& params, const Session& session, Constraints& constraints);

}  // namespace ashlar
