#pragma once
// The model behind the server, as its clients see it: names, text and limits.

#include <memory>
#include <string>
#include <vector>

#include "server/api/limits.h"
#include "text/chat_template.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer.h"

namespace ashlar::server {

struct ServedModel {
  std::string name;                                ///< in /v1/models and in answers
  std::vector<std::string> aliases;                ///< other names that requests may use
  const Tokenizer* tokenizer = nullptr;            ///< outlives the server
  const ChatTemplate* chat_template = nullptr;     ///< null: conversations are refused; outlives the server
  std::vector<int32_t> stop_ids;                   ///< the model's own ends of an answer
  SamplingDefaults defaults;                       ///< of its generation_config.json
  int32_t max_positions = 0;                       ///< prompt and answer together
  std::shared_ptr<const grammar::TokenTrie> trie;  ///< for constrained answers

  /// How it writes function calls.
  CallForm call_form() const { return chat_template == nullptr ? CallForm::kHermes : chat_template->call_form(); }

  bool answers_to(const std::string& wanted) const {
    if (wanted.empty() || wanted == name) return true;
    for (const std::string& alias : aliases) {
      if (alias == wanted) return true;
    }
    return false;
  }
};

}  // namespace ashlar::server
