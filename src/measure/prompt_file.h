// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prompts to measure with: a JSON Lines file, or a small set of our own.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace ashlar {

/// One conversation, or its token ids where a file gives those.
struct EvalPrompt {
  std::string name;          ///< for messages: "file.jsonl:3", "built-in 3"
  std::string category;      ///< may be empty
  Json messages;             ///< [{role, content}, ...]; null if `ids` are given
  std::vector<int32_t> ids;  ///< as they are, without template
};

/// Reads at most `limit` prompts of a file (0: all), of a pipe, or of standard input for "-". A .txt file has one
/// prompt a line, and so has everything that does not begin with '{'; blank lines are none. A .jsonl, .ndjson or .json
/// file, and what does begin so, has an object a line; the prompt is the first it has of: prompt_ids (token ids),
/// messages (a chat), prompt (a string), turns (a list of strings; the first is taken), question (a string).
/// `category` is kept, other fields are ignored. Throws Error("prompts", ...) naming file and line.
std::vector<EvalPrompt> read_prompt_file(const std::filesystem::path& path, size_t limit);

/// All of a file, of a pipe, or of standard input for "-". Throws Error beyond `limit` bytes.
std::string read_prompt_text(const std::filesystem::path& path, size_t limit);

/// JSON Lines from memory; `name` stands for the file in errors.
std::vector<EvalPrompt> parse_prompts(std::string_view text, const std::string& name, size_t limit);

/// Our own prompts in varied kinds, for measuring without a file.
std::vector<EvalPrompt> builtin_prompts();

}  // namespace ashlar
