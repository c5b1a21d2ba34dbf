// SPDX-License-Identifier: Apache-2.0
// grammar_tool TOKENIZER: reads a JSON object a line and answers with one a line, so that a script can hold grammars
// against other implementations.
//   {"kind": "schema" | "regex" | "ebnf", "source": ..., "texts": [...], "walks": n, "seed": n}
//   -> {"error": "..."} or {"accepted": [true, ...], "walks": ["...", ...]}
// A walk chooses among the allowed tokens at random until the answer ends, or is left out after 400 tokens.

#include <iostream>
#include <random>
#include <string>

#include "base/error.h"
#include "text/grammar/compile.h"
#include "text/grammar/matcher.h"
#include "text/tokenizer/utf8.h"

namespace {

using ashlar::Json;
using namespace ashlar::grammar;

Grammar compile(const Json& task) {
  const Json& source = task["source"];
  if (task["kind"] == "schema") return compile_json_schema(source);
  if (task["kind"] == "regex") return compile_regex(source.get<std::string>());
  return compile_ebnf(source.get<std::string>());
}

// Prefers short tokens late, so that texts end.
bool walk(GrammarMatcher& matcher, const TokenTrie& trie, int32_t eos, std::mt19937_64& random, std::string& text) {
  std::vector<uint32_t> mask((trie.vocab() + 31) / 32);
  for (int step = 0; step < 400; ++step) {
    matcher.allowed(mask);
    std::vector<int32_t> ids;
    std::vector<int32_t> closing;
    for (int32_t id = 0; id < trie.vocab(); ++id) {
      if ((mask[id / 32] >> (id % 32) & 1) == 0) continue;
      ids.push_back(id);
      const std::string_view bytes = trie.bytes_of(id);
      if (id == eos || bytes.find_first_of("\"}]") != bytes.npos) closing.push_back(id);
    }
    if (ids.empty()) return false;
    const bool close = !closing.empty() && random() % 100 < 15U + step;
    const std::vector<int32_t>& from = close ? closing : ids;
    const int32_t id = from[random() % from.size()];
    if (!matcher.accept(id)) return false;
    if (id == eos) return true;
    text += trie.bytes_of(id);
  }
  text.clear();
  return true;
}

Json answer(const Json& task, const std::shared_ptr<const TokenTrie>& trie, int32_t eos) {
  const auto grammar = std::make_shared<TokenGrammar>(compile(task), trie, std::vector<int32_t>{eos});
  Json result = {{"accepted", Json::array()}, {"walks", Json::array()}};
  for (const Json& text : task.value("texts", Json::array())) {
    GrammarMatcher matcher(grammar);
    result["accepted"].push_back(matcher.accept_bytes(text.get<std::string>()) && matcher.can_end());
  }
  std::mt19937_64 random(task.value("seed", 1));
  for (int i = 0; i < task.value("walks", 0); ++i) {
    std::string text;
    GrammarMatcher matcher(grammar);
    if (!walk(matcher, *trie, eos, random, text)) {
      return {{"error", matcher.problem().empty() ? "a walk came to a dead end" : matcher.problem()}};
    }
    if (!ashlar::text::is_valid_utf8(text)) return {{"error", "a walk is not UTF-8"}};
    if (!text.empty()) result["walks"].push_back(text);
  }
  return result;
}

}  // namespace

int main(int, char** argv) {
  const auto tokenizer = ashlar::Tokenizer::from_file(argv[1]);
  const auto trie = std::make_shared<const TokenTrie>(tokenizer);
  const int32_t eos = *tokenizer.token_id("<|im_end|>");
  for (std::string line; std::getline(std::cin, line);) {
    Json result;
    try {
      result = answer(ashlar::parse_json(line, "task"), trie, eos);
    } catch (const ashlar::Error& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump() << std::endl;
  }
}
