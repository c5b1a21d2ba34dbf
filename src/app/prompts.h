// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prompts from the command line, files and pipes.

#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"

namespace ashlar {

/// One conversation that waits for an answer.
struct Prompt {
  std::string text;          ///< the newest message, or the text itself
  Json messages;             ///< [{"role": ..., "content": ...}, ...]
  std::vector<int32_t> ids;  ///< given instead of text and messages, if not empty
};

/// A text as a conversation of one user message, after a system message if there is one.
Prompt make_prompt(const std::string& text, const std::string& system);

/// Many prompts, of the forms that measure/prompt_file.h reads. Throws Error("prompts", ...) naming file and line.
std::vector<Prompt> read_prompts(const std::filesystem::path& file, const std::string& system);

/// All of a file as one text, or a pipe, or of standard input for "-"; a byte order mark before it and one newline
/// at the end are dropped. At most 64 MiB.
std::string read_prompt_text(const std::string& file);

}  // namespace ashlar
