#pragma once
// Prompts of an evaluation as the model takes them.

#include "app/session.h"
#include "measure/acceptance_study.h"
#include "measure/prompt_file.h"

namespace ashlar {

/// Token ids of the first `limit` prompts (0: all), through the chat template unless `raw` or there is none. Throws
/// Error("prompts", ...) if one does not fit the context with two tokens of an answer.
std::vector<PromptIds> encode_prompts(const Session& session, const std::vector<EvalPrompt>& prompts, size_t limit,
                                      bool raw);

/// What was measured, and with what.
Json describe_subject(Session& session);

}  // namespace ashlar
