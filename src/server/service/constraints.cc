// SPDX-License-Identifier: Apache-2.0
#include "server/service/constraints.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "generate/grammar_constraint.h"
#include "text/grammar/compile.h"

namespace ashlar::server {
namespace {

constexpr int32_t kMaxCalls = 16;  // of one answer

// The functions that may be called: all, or the one that was named. Where the model chooses whether to call, only the
// arguments of strict ones are held to a schema.
std::vector<grammar::ToolSpec> callable(const Generation& generation) {
  std::vector<grammar::ToolSpec> tools;
  const auto* chat = std::get_if<ChatPrompt>(&generation.prompts.front());
  if (chat == nullptr || !chat->tools.is_array()) return tools;
  for (const Json& tool : chat->tools) {
    const Json& function = tool.at("function");
    std::string name = function.at("name").get<std::string>();
    if (generation.tool_choice == ToolChoice::kNamed && name != generation.tool_name) continue;
    const bool held = generation.demands_call() || function.value("strict", false);
    tools.push_back({std::move(name), held ? function.value("parameters", Json()) : Json()});
  }
  return tools;
}

bool any_strict(const std::vector<grammar::ToolSpec>& tools) {
  return std::any_of(tools.begin(), tools.end(), [](const auto& tool) { return !tool.parameters.is_null(); });
}

// Where the model's tags are special tokens, those; else none.
grammar::TagTokens tag_tokens(const Tokenizer& tokenizer) {
  const grammar::ToolCallOptions calls;
  const grammar::TagTokens tags = {tokenizer.token_id(calls.begin).value_or(-1),
                                   tokenizer.token_id(calls.end).value_or(-1)};
  const auto special = [&](int32_t id) { return id >= 0 && tokenizer.is_special(id); };
  return special(tags.begins) && special(tags.ends) ? tags : grammar::TagTokens();
}

std::optional<grammar::Grammar> compile_grammar(const Generation& generation, CallForm form, bool tag_tokens,
                                                std::function<bool()> unwanted) {
  const Constraint& wanted = generation.constraint;
  grammar::ToolCallOptions calls;
  calls.form = form;
  calls.tag_tokens = tag_tokens;
  bool several = generation.parallel_tool_calls && generation.tool_choice != ToolChoice::kNamed;
  if (form == CallForm::kBare) several = false;  // their templates teach one call an answer
  calls.max_calls = several ? kMaxCalls : 1;
  const bool may_call = generation.tool_choice != ToolChoice::kNone;
  const std::vector<grammar::ToolSpec> tools = may_call ? callable(generation) : std::vector<grammar::ToolSpec>();
  grammar::CompileOptions options;
  options.limits.unwanted = std::move(unwanted);
  if (generation.demands_call()) return grammar::compile_tool_calls(tools, calls, options);
  options.or_tools = tools;
  options.or_calls = calls;
  switch (wanted.kind) {
    case Constraint::Kind::kNone:
      if (any_strict(tools)) return grammar::compile_text_with_calls(tools, calls, options);
      break;
    case Constraint::Kind::kJsonObject:
      return grammar::compile_json_object(options);
    case Constraint::Kind::kJsonSchema:
      return grammar::compile_json_schema(wanted.schema, options);
    case Constraint::Kind::kRegex:
      return grammar::compile_regex(wanted.pattern, options);
    case Constraint::Kind::kGrammar:
      return grammar::compile_ebnf(wanted.pattern, options);
    case Constraint::Kind::kChoice:
      return grammar::compile_choice(wanted.choices, options);
  }
  return std::nullopt;
}

}  // namespace

std::string field_of_constraint(const Generation& generation) {
  const bool calls = generation.demands_call() || generation.constraint.kind == Constraint::Kind::kNone;
  return calls ? "tools" : generation.constraint.param;
}

Parsed<ConstraintMaker> ConstraintMaker::compile(const ServedModel& model, const Generation& generation,
                                                 std::shared_ptr<MaskWorkers> workers, std::function<bool()> unwanted) {
  ConstraintMaker maker;
  maker.model_ = &model;
  maker.workers_ = std::move(workers);
  const size_t answers = generation.prompts.size() * static_cast<size_t>(generation.n);
  maker.budget_ = grammar::MatchingLimits::kRequest / std::max<size_t>(answers, 1);
  const auto refused = [](const Error& error, const std::string& param) {
    return ApiError{400, "invalid_request_error", std::string(error.message()), param, "", 0};
  };
  try {
    const grammar::TagTokens tags = tag_tokens(*model.tokenizer);
    std::optional<grammar::Grammar> compiled =
        compile_grammar(generation, model.call_form(), tags.begins >= 0, std::move(unwanted));
    if (!compiled) return maker;
    // A token that is text ends the answer where it may stand, as a stop string does, and nowhere else.
    std::vector<int32_t> ends = model.stop_ids;
    std::copy_if(generation.stop_ids.begin(), generation.stop_ids.end(), std::back_inserter(ends),
                 [&model](int32_t id) { return model.tokenizer->is_special(id); });
    maker.grammar_ = std::make_shared<grammar::TokenGrammar>(std::move(*compiled), model.trie, std::move(ends), tags);
  } catch (const grammar::ToolError& error) {
    return refused(error, "tools");
  } catch (const Error& error) {
    return refused(error, field_of_constraint(generation));
  }
  return maker;
}

std::shared_ptr<TokenConstraint> ConstraintMaker::make(bool starts_in_reasoning, bool may_reason) const {
  if (!grammar_) return nullptr;
  grammar::WakeAfter wake;
  if (starts_in_reasoning || may_reason) {
    wake.text = "</think>";
    wake.token = model_->tokenizer->token_id("</think>").value_or(-1);  // it may be special, and no text
    if (!starts_in_reasoning) {
      wake.opening = "<think>";
      wake.opening_token = model_->tokenizer->token_id("<think>").value_or(-1);
    }
  }
  auto constraint = std::make_shared<GrammarConstraint>(grammar::GrammarMatcher(grammar_, wake, budget_),
                                                        model_->tokenizer, workers_);
  constraint->prepare();  // the first mask, while the request waits
  return constraint;
}

}  // namespace ashlar::server
