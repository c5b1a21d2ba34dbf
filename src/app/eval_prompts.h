// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prompts of an evaluation as the model takes them.

#include <CLI/CLI.hpp>
#include <string>

#include "measure/evaluation/acceptance_study.h"
#include "measure/prompt_file.h"
#include "session/session.h"

namespace ashlar {

/// What every evaluation is given: a model, prompts, and where figures go.
struct EvalBasics {
  SessionOptions session;
  std::string prompts, json, svg;
  size_t limit = 0;
  bool raw = false;
};

/// The flags that choose prompts and the length of answers.
void add_prompt_flags(CLI::App& command, EvalBasics& basics, int32_t& max_tokens);
/// The flags of running and reporting, the session's among them. `picture`: what --svg shows.
void add_study_flags(CLI::App& command, EvalBasics& basics, uint64_t& seed, int32_t& batch, const std::string& picture);

/// Token ids of the first `limit` prompts (0: all), through the chat template unless `raw` or there is none. Throws
/// Error("prompts", ...) naming file and line if the template refuses one, or if it has no tokens, ids that the model
/// does not know, or no room in the context for two tokens of an answer.
std::vector<PromptIds> encode_prompts(const Session& session, const std::vector<EvalPrompt>& prompts, size_t limit,
                                      bool raw);

/// What was measured, and with what.
Json describe_subject(Session& session, const EvalBasics& basics);

}  // namespace ashlar
