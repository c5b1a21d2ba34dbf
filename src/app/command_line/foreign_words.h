// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands and flags of llama.cpp, vLLM, SGLang and Ollama that people try here, and what stands for them.

#include <string>
#include <vector>

namespace ashlar {

/// "here it is ..." for a word that another program has as a command; empty for any other.
std::string foreign_command(const std::string& word);
/// The same for a flag, with its dashes and without a value; `of_server`: typed after `ashlar serve`, whose requests
/// say what other commands have flags for.
std::string foreign_flag(const std::string& flag, bool of_server);
/// All that is ever said, for tests.
std::vector<std::string> foreign_hints();

}  // namespace ashlar
