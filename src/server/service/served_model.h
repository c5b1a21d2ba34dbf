// SPDX-License-Identifier: Apache-2.0
#pragma once
// The served model, as its clients see it: names, text and limits.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "io/json.h"
#include "server/api/limits.h"
#include "server/generation.h"
#include "text/grammar/token_trie.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::server {

struct ServedModel {
  std::string name;                                ///< in /v1/models and in answers
  std::string folder;                              ///< where it lies, as its readers name it in errors
  std::string family;                              ///< of its architecture
  std::vector<std::string> aliases;                ///< other names that requests may use
  const Tokenizer* tokenizer = nullptr;            ///< outlives the server
  const ChatTemplate* chat_template = nullptr;     ///< null: conversations are refused; outlives the server
  std::vector<int32_t> stop_ids;                   ///< the model's own ends of an answer
  SamplingDefaults defaults;                       ///< of its generation_config.json
  int32_t max_positions = 0;                       ///< prompt and answer together
  std::shared_ptr<const grammar::TokenTrie> trie;  ///< for constrained answers

  /// How it writes function calls.
  CallForm call_form() const { return chat_template == nullptr ? CallForm::kHermes : chat_template->call_form(); }

  /// What a client may read of a message: files by their names, without the folder on this machine that they lie in.
  std::string without_folder(std::string message) const {
    if (folder.empty()) return message;
    for (size_t at = message.find(folder); at != std::string::npos; at = message.find(folder, at)) {
      const size_t end = at + folder.size();
      message.erase(at, folder.size() + (end < message.size() && message[end] == '/' ? 1 : 0));
    }
    return message;
  }

  /// Also with the tag that Ollama's clients put after a name without one.
  bool answers_to(const std::string& wanted) const {
    if (wanted.empty()) return true;
    const auto is = [&wanted](const std::string& known) { return wanted == known || wanted == known + ":latest"; };
    return is(name) || std::any_of(aliases.begin(), aliases.end(), is);
  }

  /// The refusal of a request for another model.
  ApiError not_served(const std::string& wanted) const {
    const std::string message = "the model '" + for_message(wanted) + "' is not served here; expected '" + name + "'";
    return {404, "invalid_request_error", message, "model", "model_not_found", 0};
  }
};

}  // namespace ashlar::server
