#include "server/service/constraints.h"

#include <optional>

#include "base/error.h"
#include "server/grammar_constraint.h"
#include "text/grammar/compile.h"

namespace ashlar::server {
namespace {

constexpr int32_t kMaxCalls = 16;  // of one answer that must call

// The functions that may be called: all, or the one that was named.
std::vector<grammar::ToolSpec> callable(const Generation& generation) {
  std::vector<grammar::ToolSpec> tools;
  const auto* chat = std::get_if<ChatPrompt>(&generation.prompts.front());
  if (chat == nullptr || !chat->tools.is_array()) return tools;
  for (const Json& tool : chat->tools) {
    const Json& function = tool.at("function");
    std::string name = function.at("name").get<std::string>();
    if (generation.tool_choice == ToolChoice::kNamed && name != generation.tool_name) continue;
    tools.push_back({std::move(name), function.value("parameters", Json())});
  }
  return tools;
}

grammar::ToolCallOptions call_options(const Generation& generation, bool several) {
  grammar::ToolCallOptions calls;
  calls.max_calls = several && generation.parallel_tool_calls ? kMaxCalls : 1;
  return calls;
}

// Tools that may be called as well, where an answer of another shape is wanted. What the model may do anyhow without
// that shape holds for arguments: they are any object.
void allow_calls(const Generation& generation, grammar::CompileOptions& options) {
  if (generation.tool_choice != ToolChoice::kAuto) return;
  options.or_tools = callable(generation);
  for (grammar::ToolSpec& tool : options.or_tools) tool.parameters = nullptr;
  options.or_calls = call_options(generation, true);
}

std::optional<grammar::Grammar> compile_grammar(const Generation& generation, grammar::CompileOptions options) {
  const Constraint& wanted = generation.constraint;
  if (generation.tool_choice == ToolChoice::kRequired || generation.tool_choice == ToolChoice::kNamed) {
    const bool several = generation.tool_choice == ToolChoice::kRequired;
    return grammar::compile_tool_calls(callable(generation), call_options(generation, several), options);
  }
  allow_calls(generation, options);
  switch (wanted.kind) {
    case Constraint::Kind::kNone:
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

Parsed<ConstraintMaker> ConstraintMaker::compile(const ServedModel& model, const Generation& generation) {
  ConstraintMaker maker;
  maker.model_ = &model;
  try {
    grammar::CompileOptions options;
    options.leading_newlines = false;
    std::optional<grammar::Grammar> compiled = compile_grammar(generation, options);
    if (!compiled) return maker;
    std::vector<int32_t> ends = model.stop_ids;
    ends.insert(ends.end(), generation.stop_ids.begin(), generation.stop_ids.end());
    maker.grammar_ = std::make_shared<grammar::TokenGrammar>(std::move(*compiled), model.trie, std::move(ends));
  } catch (const Error& error) {
    const bool calls = generation.tool_choice == ToolChoice::kRequired || generation.tool_choice == ToolChoice::kNamed;
    return ApiError{
        400, "invalid_request_error", std::string(error.message()), calls ? "tools" : generation.constraint.param, "",
        0};
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
  return std::make_shared<GrammarConstraint>(grammar::GrammarMatcher(grammar_, wake), model_->tokenizer);
}

}  // namespace ashlar::server
