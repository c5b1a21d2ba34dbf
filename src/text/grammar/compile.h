// SPDX-License-Identifier: Apache-2.0
#pragma once
// From what a request asks for to a grammar. Everything throws Error("grammar") that says what is not supported or
// which limit was exceeded.

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "text/grammar/grammar.h"
#include "text/grammar/limits.h"
#include "text/output/call_form.h"

namespace ashlar::grammar {

/// What cannot be held is the schema of a tool.
struct ToolError : Error {
  using Error::Error;
};

/// A function that may be called; `parameters` is the schema of its arguments, null: any object.
struct ToolSpec {
  std::string name;
  Json parameters;
};
struct ToolCallOptions {
  CallForm form = CallForm::kHermes;  ///< kBare: without tags
  std::string begin = "<tool_call>";
  std::string end = "</tool_call>";
  bool tag_tokens = false;  ///< instead of its text, each may be the token of TagTokens
  int32_t max_calls = 1;    ///< with a line break between two, where nothing else may stand
};

struct CompileOptions {
  Limits limits;
  /// Up to two line breaks may precede the answer, as models write them after their thinking.
  bool leading_newlines = false;
  /// Calls of these may stand in the place of the answer.
  std::vector<ToolSpec> or_tools = {};
  ToolCallOptions or_calls = {};
};

/// A JSON text that satisfies the schema. See grammar/schema_compiler.h for what is understood.
Grammar compile_json_schema(const Json& schema, const CompileOptions& options = {});
/// Any JSON object.
Grammar compile_json_object(const CompileOptions& options = {});
/// A text that the regular expression matches as a whole. See grammar/regex_grammar.h.
Grammar compile_regex(std::string_view pattern, const CompileOptions& options = {});
/// See grammar/ebnf_grammar.h.
Grammar compile_ebnf(std::string_view text, const CompileOptions& options = {});
/// One of the texts, which must not be empty.
Grammar compile_choice(const std::vector<std::string>& choices, const CompileOptions& options = {});

/// begin {"name": <one of the tools>, "arguments": <what its schema says>} end, once or several times.
Grammar compile_tool_calls(const std::vector<ToolSpec>& tools, const ToolCallOptions& calls,
                           const CompileOptions& options = {});
/// Any text, in which at most calls.max_calls calls stand; the tag that begins one stands nowhere else. Of bare calls:
/// one, or a text that does not begin as one could.
Grammar compile_text_with_calls(const std::vector<ToolSpec>& tools, const ToolCallOptions& calls,
                                const CompileOptions& options = {});

}  // namespace ashlar::grammar
