// SPDX-License-Identifier: Apache-2.0
// Ollama's chat and generate: lines of JSON, sampling in an object of its own.

#include "server/api/parse/chat_fields.h"
#include "server/api/parse/parse.h"
#include "server/api/parse/sampling_fields.h"

namespace ashlar::server {
namespace {

/// A longest answer; anything below one is none.
void read_num_predict(Fields& options, Generation& out) {
  const auto count = options.integer("num_predict", -2, INT32_MAX);
  if (count && *count > 0) out.max_tokens = static_cast<int32_t>(*count);
}

void read_options(Fields& fields, Reading& reading, Generation& out) {
  static const Json kNothing = Json::object();
  const Json* object = fields.object("options");
  Fields options(object != nullptr ? *object : kNothing, fields.path("options"), reading);
  options.check(Endpoint::kOllamaOptions);
  read_common(options, reading, out);
  if (const Json* seed = options.any("seed"); seed != nullptr && *seed == Json(-1)) out.seed.reset();
  read_num_predict(options, out);
  check_generation(options, reading, out);
  options.finish();
}

/// true, false or an effort.
void read_think(Fields& fields, ChatPrompt& prompt) {
  const Json* think = fields.any("think");
  if (think == nullptr) return;
  if (think->is_boolean()) return set_thinking(think->get<bool>(), prompt);
  const bool known =
      think->is_string() && fields.choice("think", {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  if (!known) return fields.expect("think", "true, false or one of \"low\", \"medium\", \"high\"");
  set_effort(think->get<std::string>(), prompt);
}

/// "json" or a JSON schema.
void read_format(Fields& fields, Reading& reading, Generation& out) {
  const Json* format = fields.any("format");
  if (format == nullptr || *format == Json("")) return;
  if (*format == Json("json")) {
    out.constraint.kind = Constraint::Kind::kJsonObject;
    out.constraint.param = fields.path("format");
  } else if (format->is_object()) {
    set_schema(*format, fields.path("format"), reading, out.constraint);
  } else {
    fields.expect("format", "\"json\" or a JSON schema");
  }
}

void read_answer(Fields& fields, Reading& reading, Generation& out) {
  read_options(fields, reading, out);
  out.model = fields.string("model").value_or("");
  out.stream = fields.boolean("stream").value_or(true);
  out.include_usage = true;
  if (!fields.boolean("speculative").value_or(true)) out.width = 1;
  read_choice(fields, reading, out);
  out.cache_salt = fields.string("cache_salt", reading.limits.name_bytes).value_or("");
  read_format(fields, reading, out);
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, reading.limits.top_logprobs).value_or(0);
  if (logprobs) out.sampling.top_logprobs = static_cast<int32_t>(top);
  if (!logprobs && top > 0) fields.fail("top_logprobs", "needs \"logprobs\": true");
}

Parsed<Generation> outcome(Fields& fields, Reading& reading, Generation& out) {
  fields.finish();
  if (reading.error) return std::move(*reading.error);
  // Nothing to answer: such a request loads a model, and is done here.
  if (out.prompts.empty()) out.stream = false;
  return std::move(out);
}

}  // namespace

Parsed<Generation> parse_ollama_chat(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kOllamaChat);
  Generation out;
  read_answer(fields, reading, out);
  ChatPrompt prompt;
  const Json* messages = fields.array("messages", limits.messages);
  const bool any = messages != nullptr && !messages->empty();
  if (any) prompt.messages = read_chat_messages(*messages, fields.path("messages"), reading);
  prompt.tools = read_tools(fields, reading, ToolShape::kNested);
  read_template_kwargs(fields, reading, prompt);
  read_think(fields, prompt);
  out.prompt_field = fields.path("messages");
  if (any) {
    out.tool_choice = prompt.tools.is_null() ? ToolChoice::kNone : ToolChoice::kAuto;
    out.prompts.emplace_back(std::move(prompt));
  }
  return outcome(fields, reading, out);
}

Parsed<Generation> parse_ollama_generate(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kOllamaGenerate);
  Generation out;
  read_answer(fields, reading, out);
  std::string text = fields.string("prompt").value_or("");
  const std::string system = fields.string("system").value_or("");
  const bool raw = fields.boolean("raw").value_or(false);
  out.prompt_field = fields.path("prompt");
  ChatPrompt prompt;
  read_template_kwargs(fields, reading, prompt);
  read_think(fields, prompt);
  if (raw) {
    if (!system.empty()) fields.fail("system", "is for the template, which \"raw\": true leaves out; put it in prompt");
    out.split_reasoning = false;
    if (!text.empty()) out.prompts.emplace_back(TextPrompt{std::move(text)});
  } else if (!text.empty()) {
    if (!system.empty()) prompt.messages.push_back({{"role", "system"}, {"content", system}});
    prompt.messages.push_back({{"role", "user"}, {"content", std::move(text)}});
    out.prompts.emplace_back(std::move(prompt));
  }
  return outcome(fields, reading, out);
}

Parsed<ModelRequest> parse_ollama_show(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kOllamaShow);
  ModelRequest out;
  for (const char* name : {"name", "model"}) out.model = fields.string(name).value_or(out.model);
  fields.finish();
  if (reading.error) return std::move(*reading.error);
  return out;
}

}  // namespace ashlar::server
