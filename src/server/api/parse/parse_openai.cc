// SPDX-License-Identifier: Apache-2.0
// Chat and text completions, and the small requests about prompts.

#include <algorithm>

#include "base/error.h"
#include "io/client_json.h"
#include "server/api/parse/chat_fields.h"
#include "server/api/parse/parse.h"
#include "server/api/parse/sampling_fields.h"

namespace ashlar::server {
namespace {

/// messages, tools and the template's variables.
ChatPrompt read_conversation(Fields& fields, Reading& reading) {
  ChatPrompt prompt;
  if (const Json* messages = fields.array("messages", reading.limits.messages)) {
    prompt.messages = read_chat_messages(*messages, fields.path("messages"), reading);
  }
  prompt.tools = read_tools(fields, reading, ToolShape::kNested);
  prompt.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  read_template_kwargs(fields, reading, prompt);
  return prompt;
}

void read_chat_logprobs(Fields& fields, Generation& out, int32_t limit) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, limit);
  if (wanted) out.sampling.top_logprobs = static_cast<int32_t>(top.value_or(0));
  if (!wanted && top.value_or(0) > 0) fields.fail("top_logprobs", "needs \"logprobs\": true");
}

/// vLLM's list of the prompt's own tokens.
void read_prompt_logprobs(Fields& fields, Generation& out, int32_t limit) {
  const auto top = fields.integer("prompt_logprobs", 0, limit);
  if (!top) return;
  out.prompt_logprobs = {0, std::max(static_cast<int32_t>(*top), out.prompt_logprobs.top)};
  out.prompt_logprobs_param = fields.path("prompt_logprobs");
  out.repeated["prompt_logprobs"] = *top;
  if (fields.boolean("stream").value_or(false)) {
    fields.fail("prompt_logprobs", "is not available in a stream; leave stream out");
  }
}

/// vLLM's ids of the prompt and of the answer.
void read_token_ids(Fields& fields, Generation& out) {
  out.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  if (out.return_token_ids && fields.boolean("stream").value_or(false)) {
    fields.fail("return_token_ids", "is not available in a stream; leave stream out");
  }
}

/// What vLLM's servers of hidden states are asked with: an object that may be empty.
void read_hidden_states(Fields& fields, Reading& reading, Generation& out) {
  const Json* asked = fields.object("kv_transfer_params");
  if (asked == nullptr) return;
  out.hidden_states = true;
  Fields nested(*asked, fields.path("kv_transfer_params"), reading);
  if (nested.boolean("include_output_tokens").value_or(false)) {
    nested.fail("include_output_tokens", "hidden states are those of the prompt; send the answer as a part of one");
  }
  if (nested.has("hidden_states_path")) nested.fail("hidden_states_path", "the server names the file; leave it out");
  nested.finish();
  if (fields.boolean("stream").value_or(false)) {
    fields.fail("kv_transfer_params", "hidden states are not available in a stream; leave stream out");
  }
}

/// Two names of one limit.
void check_lengths(Fields& fields) {
  const Json* older = fields.any("max_tokens");
  const Json* newer = fields.any("max_completion_tokens");
  if (older != nullptr && newer != nullptr && *older != *newer) {
    fields.fail("max_tokens", "differs from max_completion_tokens; send one of them");
  }
}

void read_effort(Fields& fields, const char* name, ChatPrompt& prompt) {
  const auto effort = fields.choice(name, {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  if (effort) set_effort(*effort, prompt);
}

/// {effort, enabled, exclude}
void read_reasoning(Fields& fields, Reading& reading, ChatPrompt& prompt, Generation& out) {
  const Json* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  Fields nested(*reasoning, fields.path("reasoning"), reading);
  read_effort(nested, "effort", prompt);
  if (const auto enabled = nested.boolean("enabled")) set_thinking(*enabled, prompt);
  if (nested.boolean("exclude").value_or(false)) out.show_reasoning = false;
  for (const char* name : {"summary", "max_tokens"}) nested.ignore(name);
  nested.finish();
}

/// Whether the model thinks, and what the client gets of it.
void read_chat_reasoning(Fields& fields, Reading& reading, ChatPrompt& prompt, Generation& out) {
  if (const auto on = fields.boolean("enable_thinking")) set_thinking(*on, prompt);
  read_effort(fields, "reasoning_effort", prompt);
  read_thinking(fields, reading, prompt);
  read_reasoning(fields, reading, prompt, out);
  const auto format = fields.choice("reasoning_format", {"auto", "none", "deepseek", "parsed", "raw", "hidden"});
  if (format == "none" || format == "raw") out.split_reasoning = false;
  if (format == "hidden") out.show_reasoning = false;
  out.split_reasoning = fields.boolean("separate_reasoning").value_or(out.split_reasoning);
  out.show_reasoning = fields.boolean("include_reasoning").value_or(out.show_reasoning);
  if (!out.split_reasoning && !out.show_reasoning) {
    fields.fail("include_reasoning", "false needs separate_reasoning: what stays in the content cannot be left out");
  }
}

void read_text_prompt(const Json& prompt, const std::string& path, Reading& reading, Generation& out) {
  if (prompt.is_string()) {
    if (prompt.get_ref<const std::string&>().empty()) reading.fail(path, "expected at least one character");
    out.prompts.emplace_back(TextPrompt{prompt.get<std::string>()});
  } else if (prompt.is_array() && !prompt.empty() && prompt[0].is_number()) {
    out.prompts.emplace_back(TokenPrompt{token_ids(prompt, path, reading)});
  } else {
    reading.fail(path, "expected a string or an array of token ids, found " +
                           (prompt.is_array() && prompt.empty() ? "an empty array" : found(prompt)));
  }
}

/// A string, token ids, or an array of either.
void read_prompts(Fields& fields, Reading& reading, Generation& out) {
  const Json* prompt = fields.any("prompt");
  if (prompt == nullptr) return;
  const std::string path = fields.path("prompt");
  out.prompt_field = path;
  if (!prompt->is_array() || prompt->empty() || (*prompt)[0].is_number())
    return read_text_prompt(*prompt, path, reading, out);
  if (fields.array("prompt", reading.limits.prompts) == nullptr) return;
  for (size_t i = 0; i < prompt->size() && reading.ok(); ++i)
    read_text_prompt((*prompt)[i], at_index(path, i), reading, out);
}

template <class T>
Parsed<T> outcome(Reading& reading, T& value) {
  if (reading.error) return std::move(*reading.error);
  return std::move(value);
}

}  // namespace

Parsed<Json> parse_body(std::string_view bytes) {
  try {
    return parse_client_json(bytes, "the body");
  } catch (const Error& error) {
    ApiError refusal;
    refusal.message = error.message();
    refusal.code = "invalid_json";
    return refusal;
  }
}

Parsed<Generation> parse_chat(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kChat);
  Generation out;
  read_prompt_logprobs(fields, out, limits.top_logprobs);
  read_common(fields, reading, out);
  check_lengths(fields);
  ChatPrompt prompt = read_conversation(fields, reading);
  read_chat_reasoning(fields, reading, prompt, out);
  read_tool_choice(fields, reading, prompt.tools, ToolShape::kNested, out);
  read_constraint(fields, reading, out);
  read_chat_logprobs(fields, out, limits.top_logprobs);
  out.prompts.emplace_back(std::move(prompt));
  out.prompt_field = fields.path("messages");
  check_generation(fields, reading, out);
  fields.finish();
  return outcome(reading, out);
}

Parsed<Generation> parse_completions(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kCompletions);
  Generation out;
  out.max_tokens = 16;  // as the API has it
  out.split_reasoning = false;
  out.echo = fields.boolean("echo").value_or(false);
  if (const auto tops = fields.integer("logprobs", 0, limits.top_logprobs)) {
    out.sampling.top_logprobs = static_cast<int32_t>(*tops);
    if (out.echo) out.prompt_logprobs = {0, out.sampling.top_logprobs};
    out.prompt_logprobs_param = fields.path("logprobs");
  }
  read_prompt_logprobs(fields, out, limits.top_logprobs);
  read_token_ids(fields, out);
  read_hidden_states(fields, reading, out);
  read_common(fields, reading, out);
  read_prompts(fields, reading, out);
  read_constraint(fields, reading, out);
  out.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  if (fields.integer("best_of", 1, limits.n).value_or(out.n) != out.n) {
    fields.fail("best_of", "must equal n: answers are not ranked");
  }
  check_generation(fields, reading, out);
  if (out.hidden_states && (out.prompts.size() != 1 || out.n != 1)) {
    fields.fail("kv_transfer_params", "hidden states need one prompt and n 1; send a request for each");
  }
  fields.finish();
  return outcome(reading, out);
}

Parsed<PromptRequest> parse_tokenize(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kTokenize);
  PromptRequest out;
  out.model = fields.string("model").value_or("");
  for (const char* name : {"add_special_tokens", "add_special"}) {
    out.add_special_tokens = fields.boolean(name).value_or(out.add_special_tokens);
  }
  out.parse_special = fields.boolean("parse_special").value_or(true);
  for (const char* name : {"return_token_strs", "with_pieces"}) {
    out.with_pieces = fields.boolean(name).value_or(out.with_pieces);
  }
  const bool chat = fields.has("messages");
  if (int{chat} + int{fields.has("prompt")} + int{fields.has("content")} != 1) {
    fields.fail("prompt", "expected exactly one of prompt, content, messages");
  }
  ChatPrompt conversation = read_conversation(fields, reading);
  out.prompt_field = fields.path(chat ? "messages" : fields.has("prompt") ? "prompt" : "content");
  if (chat) {
    out.prompt = std::move(conversation);
  } else {
    const auto text = fields.string("prompt");
    out.prompt = TextPrompt{text ? *text : fields.string("content").value_or("")};
  }
  fields.finish();
  return outcome(reading, out);
}

Parsed<PromptRequest> parse_apply_template(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kApplyTemplate);
  PromptRequest out;
  out.model = fields.string("model").value_or("");
  out.prompt = read_conversation(fields, reading);
  out.prompt_field = fields.path("messages");
  fields.finish();
  return outcome(reading, out);
}

Parsed<DetokenizeRequest> parse_detokenize(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kDetokenize);
  DetokenizeRequest out;
  out.model = fields.string("model").value_or("");
  if (const Json* tokens = fields.array("tokens", limits.prompt_tokens)) {
    out.ids = token_ids(*tokens, fields.path("tokens"), reading);
  }
  fields.finish();
  return outcome(reading, out);
}

}  // namespace ashlar::server
