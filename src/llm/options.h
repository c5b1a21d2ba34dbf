// SPDX-License-Identifier: Apache-2.0
#pragma once
// The facade's options as a session's.

#include "ashlar/llm_types.h"
#include "session/session.h"

namespace ashlar {

/// Throws Error("options") that names what is not as it must be; what concerns the model is the session's to refuse.
SessionOptions session_options(const LlmOptions& options);

}  // namespace ashlar
