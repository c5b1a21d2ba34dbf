// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/compile.h"

#include <algorithm>

#include "base/error.h"
#include "text/grammar/builder.h"
#include "text/grammar/pattern/ebnf_grammar.h"
#include "text/grammar/pattern/regex_grammar.h"
#include "text/grammar/schema/json_values.h"
#include "text/grammar/schema/schema_compiler.h"
#include "text/grammar/schema/schema_merge.h"
#include "text/grammar/text_set.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::grammar {
namespace {

// What a tool's parameters say of objects: arguments are one, whatever else the schema would take.
Json object_schema(const Json& parameters) {
  Json schema = parameters == Json(true) ? Json::object() : parameters;
  if (!schema.is_object()) return schema;
  if (schema.contains("type") && !has_type(Json::object(), schema["type"])) {
    schema_error("#/type", "arguments are an object; found " + json_text(schema["type"]));
  }
  schema["type"] = "object";
  return schema;
}

Expr tool_call(Builder& builder, const std::vector<ToolSpec>& tools, const ToolCallOptions& calls) {
  JsonValues values(builder);
  size_t bytes = 0;
  for (const ToolSpec& tool : tools) bytes += tool.name.size() + json_text(tool.parameters).size();
  builder.check_input(bytes);
  const bool bare = calls.form == CallForm::kBare;
  const std::string key = bare ? ", \"parameters\": " : ", \"arguments\": ";
  std::vector<Expr> ways;
  for (const ToolSpec& tool : tools) {
    Expr arguments = values.object();
    if (!tool.parameters.is_null()) {
      try {
        arguments = SchemaCompiler(builder, values, tool.parameters).run(object_schema(tool.parameters));
      } catch (const Error& error) {
        throw ToolError("grammar", "the parameters of the tool \"" + for_message(tool.name) +
                                       "\": " + std::string(error.message()));
      }
    }
    ways.push_back(builder.sequence({builder.literal(json_text(tool.name) + key), builder.rule(tool.name, arguments)}));
  }
  const Expr call =
      builder.sequence({builder.literal("{\"name\": "), builder.alternatives(std::move(ways)), builder.literal("}")});
  if (bare) return builder.rule("tool call", call);
  const auto tag = [&](const std::string& text, char token) {
    return calls.tag_tokens ? builder.strings({text, std::string(1, token)}) : builder.literal(text);
  };
  const Expr line = builder.literal("\n");
  return builder.rule("tool call", builder.sequence({tag(calls.begin, TagTokens::kBegins), line, call, line,
                                                     tag(calls.end, TagTokens::kEnds)}));
}

Expr tool_calls(Builder& builder, const std::vector<ToolSpec>& tools, const ToolCallOptions& calls) {
  const Expr call = tool_call(builder, tools, calls);
  const Expr more = builder.sequence({builder.literal("\n"), call});
  return builder.sequence({call, builder.repeat(more, 0, std::max(calls.max_calls, 1) - 1)});
}

/// Any bytes in which `tag` does not stand. Its first byte must not come again in it: then whatever breaks off a
/// beginning of the tag begins another one or none.
Expr text_without(Builder& builder, std::string_view tag) {
  ByteSet other;
  other.set();
  for (const char c : {tag.front(), TagTokens::kBegins, TagTokens::kEnds}) other.reset(static_cast<uint8_t>(c));
  const Expr plain = builder.repeat(builder.bytes(other), 0, -1);
  std::vector<Expr> beginnings;
  for (size_t n = 1; n < tag.size(); ++n) {
    ByteSet broken = other;
    broken.reset(static_cast<uint8_t>(tag[n]));
    const Expr goes_on = builder.optional(builder.sequence({builder.bytes(broken), plain}));
    beginnings.push_back(builder.sequence({builder.literal(tag.substr(0, n)), goes_on}));
  }
  return builder.rule("text",
                      builder.sequence({plain, builder.repeat(builder.alternatives(std::move(beginnings)), 0, -1)}));
}

/// A bare call, or text that begins neither with a bracket nor with what OutputParser lets precede a call.
Expr call_or_text(Builder& builder, Expr call) {
  const auto spaces = [](Builder& to) { return to.repeat(to.strings({" ", "\t", "\n", "\r"}), 0, -1); };
  const TextSet any = TextSet::any_string(builder);
  const TextSet like_calls = TextSet::of(builder, [&](Builder& to) {
    return to.sequence({spaces(to), to.strings({"{", std::string(kPythonTag), "<think>"}), any.write(to)});
  });
  return builder.alternatives(
      {builder.sequence({spaces(builder), call}), any.without(builder, like_calls).write(builder)});
}

Grammar finish(Builder& builder, Expr root, const CompileOptions& options) {
  if (!options.or_tools.empty())
    root = builder.alternatives({root, tool_calls(builder, options.or_tools, options.or_calls)});
  if (options.leading_newlines) root = builder.sequence({builder.repeat(builder.literal("\n"), 0, 2), root});
  return builder.finish(root);
}

}  // namespace

Grammar compile_json_schema(const Json& schema, const CompileOptions& options) {
  Builder builder(options.limits);
  builder.check_input(json_text(schema).size());
  JsonValues values(builder);
  SchemaCompiler compiler(builder, values, schema);
  try {
    const Expr root = compiler.run();
    try {
      return finish(builder, root, options);
    } catch (const LimitExceeded& error) {
      compiler.explain(error);
    }
  } catch (const Json::exception&) {  // a keyword of an unexpected type that no check has met
    throw Error("grammar", "the schema is malformed: a keyword holds a value of the wrong type");
  }
}

Grammar compile_json_object(const CompileOptions& options) {
  Builder builder(options.limits);
  JsonValues values(builder);
  return finish(builder, values.object(), options);
}

Grammar compile_regex(std::string_view pattern, const CompileOptions& options) {
  Builder builder(options.limits);
  const CharWriter write = [&builder](const CodePointSet& set) { return builder.chars(set); };
  return finish(builder, regex_expression(builder, pattern, write, {}), options);
}

Grammar compile_ebnf(std::string_view text, const CompileOptions& options) {
  Builder builder(options.limits);
  return finish(builder, ebnf_expression(builder, text), options);
}

Grammar compile_choice(const std::vector<std::string>& choices, const CompileOptions& options) {
  Builder builder(options.limits);
  size_t bytes = 0;
  for (const std::string& choice : choices) {
    bytes += choice.size();
    if (choice.empty()) throw Error("grammar", "a choice is empty");
    if (!text::is_valid_utf8(choice)) throw Error("grammar", "a choice is not valid UTF-8");
  }
  builder.check_input(bytes);
  if (choices.empty()) throw Error("grammar", "there is nothing to choose from");
  return finish(builder, builder.strings(choices), options);
}

Grammar compile_tool_calls(const std::vector<ToolSpec>& tools, const ToolCallOptions& calls,
                           const CompileOptions& options) {
  if (tools.empty()) throw Error("grammar", "there are no tools to call");
  Builder builder(options.limits);
  return finish(builder, tool_calls(builder, tools, calls), options);
}

Grammar compile_text_with_calls(const std::vector<ToolSpec>& tools, const ToolCallOptions& calls,
                                const CompileOptions& options) {
  if (tools.empty()) throw Error("grammar", "there are no tools to call");
  Builder builder(options.limits);
  const Expr call = tool_call(builder, tools, calls);
  if (calls.form == CallForm::kBare) return finish(builder, call_or_text(builder, call), options);
  const Expr text = text_without(builder, calls.begin);
  const Expr more = builder.sequence({call, text});
  return finish(builder, builder.sequence({text, builder.repeat(more, 0, calls.max_calls)}), options);
}

}  // namespace ashlar::grammar
