// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the evaluations over a text share: their flags, and the text in windows of a model's tokens.

#include <string>
#include <vector>

#include "app/command_line/flags.h"
#include "measure/evaluation/perplexity.h"
#include "session/session.h"

namespace ashlar {

struct TextStudy {
  PerplexityOptions study;
  std::string text, json;
};

/// --text, --window, --limit and --json.
void add_text_flags(CLI::App& command, TextStudy& options);

/// Throws Error("eval", ...) if there is not one window in the text, or if the context does not hold one.
std::vector<std::vector<int32_t>> read_windows(const Session& session, const TextStudy& options);

/// What a report says first: model, device, text.
Json describe_text_study(Session& session, const TextStudy& options);

}  // namespace ashlar
