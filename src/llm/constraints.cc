// SPDX-License-Identifier: Apache-2.0
#include "llm/constraints.h"

#include <optional>

#include "generate/grammar_constraint.h"
#include "llm/checks.h"
#include "text/grammar/compile.h"

namespace ashlar {
namespace {

std::optional<grammar::Grammar> grammar_of(const LlmParams& params) {
  const int given =
      params.json_schema.has_value() + params.regex.has_value() + params.grammar.has_value() + !params.choice.empty();
  if (given > 1) throw Error("options", "only one of json_schema, regex, grammar and choice can hold at a time");
  if (params.json_schema) return grammar::compile_json_schema(parse_json(*params.json_schema, "json_schema"));
  if (params.regex) return grammar::compile_regex(*params.regex);
  if (params.grammar) return grammar::compile_ebnf(*params.grammar);
  if (!params.choice.empty()) return grammar::compile_choice(params.choice);
  return std::nullopt;
}

}  // namespace

ConstraintMaker Constraints::maker(const LlmParams& params, std::vector<int32_t> ends) {
  const std::optional<grammar::Grammar> grammar = grammar_of(params);
  if (!grammar) return {};
  const std::lock_guard lock(mutex_);
  if (!trie_) trie_ = std::make_shared<const grammar::TokenTrie>(session_->tokenizer());
  if (!workers_) workers_ = std::make_shared<MaskWorkers>();
  auto shared = std::make_shared<grammar::TokenGrammar>(*grammar, trie_, std::move(ends));
  return [shared, session = session_, workers = workers_] {
    return std::make_shared<GrammarConstraint>(grammar::GrammarMatcher(shared), &session->tokenizer(), workers);
  };
}

}  // namespace ashlar
