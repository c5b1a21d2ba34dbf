// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the tests of grammars share.

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "text/grammar/compile.h"
#include "text/grammar/matcher.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::grammar::testing {

inline const Tokenizer& tokenizer() {
  static const Tokenizer bundled =
      Tokenizer::from_file(std::filesystem::path(ASHLAR_SOURCE_DIR) / "models" / "pebble-11m" / "tokenizer.json");
  return bundled;
}
inline const std::shared_ptr<const TokenTrie>& trie() {
  static const auto tree = std::make_shared<const TokenTrie>(tokenizer());
  return tree;
}
inline int32_t eos() {
  static const int32_t id = *tokenizer().token_id("<|im_end|>");
  return id;
}

inline std::shared_ptr<TokenGrammar> over_tokens(Grammar grammar) {
  return std::make_shared<TokenGrammar>(std::move(grammar), trie(), std::vector<int32_t>{eos()});
}
inline bool accepts(const std::shared_ptr<TokenGrammar>& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  return matcher.accept_bytes(text) && matcher.can_end();
}
inline bool accepts(Grammar grammar, std::string_view text) { return accepts(over_tokens(std::move(grammar)), text); }

/// What compiling says, or "no error".
template <class Compile>
std::string error_of(Compile compile) {
  try {
    compile();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
inline std::string schema_error_of(const char* schema) {
  return error_of([&] { compile_json_schema(parse_json(schema, "schema")); });
}

inline std::vector<uint32_t> mask_of(GrammarMatcher& matcher) {
  std::vector<uint32_t> mask((trie()->vocab() + 31) / 32);
  matcher.allowed(mask);
  return mask;
}
inline std::vector<int32_t> ids_of(const std::vector<uint32_t>& mask) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(mask.size() * 32); ++id) {
    if ((mask[id / 32] >> (id % 32) & 1) != 0) ids.push_back(id);
  }
  return ids;
}

}  // namespace ashlar::grammar::testing
