// SPDX-License-Identifier: Apache-2.0
// Anthropic's messages: blocks become a conversation.

#include "server/api/parse/chat_fields.h"
#include "server/api/parse/parse.h"
#include "server/api/parse/sampling_fields.h"

namespace ashlar::server {
namespace {

/// One message's blocks. Results of tools become messages of their own, before the text that came with them.
class Blocks {
 public:
  Blocks(const std::string& role, Reading& reading) : role_(role), reading_(reading) {}

  void add(const Json& value, const std::string& path);
  void take(Json& messages);

 private:
  void tool_use(Fields& block);
  void tool_result(Fields& block);

  const std::string& role_;
  Reading& reading_;
  std::string text_, thinking_;
  Json calls_ = Json::array();
  Json results_ = Json::array();
};

void Blocks::add(const Json& value, const std::string& path) {
  Fields block(value, path, reading_);
  const auto type = block.string("type").value_or("");
  const bool assistant = role_ == "assistant";
  const bool user = role_ == "user";
  if (type == "text") {
    const auto text = block.string("text");
    if (!text) return block.expect("text", "a string");
    text_ += *text;
  } else if (type == "tool_use" && assistant) {
    tool_use(block);
  } else if (type == "tool_result" && user) {
    tool_result(block);
  } else if (type == "thinking" && assistant) {
    const auto text = block.string("thinking");
    if (!text) return block.expect("thinking", "a string");
    thinking_ += *text;
  } else if (!(type == "redacted_thinking" && assistant)) {
    block.expect("type", assistant ? "one of \"text\", \"tool_use\", \"thinking\""
                         : user    ? "\"text\" or \"tool_result\": this server takes text only"
                                   : "\"text\"");
  }
}

void Blocks::tool_use(Fields& block) {
  const auto id = block.string("id", 256);
  const auto name = block.string("name", reading_.limits.name_bytes);
  if (!id) return block.expect("id", "a string");
  if (!name || name->empty()) return block.expect("name", "the tool's name");
  const Json* input = block.object("input");
  if (input == nullptr) return block.expect("input", "an object");
  calls_.push_back(call_message(*id, *name, *input));
}

void Blocks::tool_result(Fields& block) {
  const auto id = block.string("tool_use_id", 256);
  if (!id) return block.expect("tool_use_id", "a string");
  const Json* content = block.any("content");
  const bool failed = block.boolean("is_error").value_or(false);
  std::string text = content == nullptr ? "" : content_text(*content, block.path("content"), reading_, {"text"});
  if (failed) text = "Error: " + text;
  results_.push_back({{"role", "tool"}, {"content", std::move(text)}, {"tool_call_id", *id}});
}

void Blocks::take(Json& messages) {
  const bool only_results = !results_.empty() && text_.empty();
  for (Json& result : results_) messages.push_back(std::move(result));
  if (only_results) return;
  Json message = {{"role", role_}, {"content", std::move(text_)}};
  if (!thinking_.empty()) message["reasoning_content"] = std::move(thinking_);
  if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
  messages.push_back(std::move(message));
}

/// What an answer has that a client may send back whole.
constexpr const char* kOfAnswers[] = {"id",    "type",      "model",        "stop_reason",   "stop_sequence",
                                      "usage", "container", "stop_details", "cache_control", "context_management"};

/// Adds one message; returns its role. System messages stay where they are: whether one may follow others is for the
/// template to say.
std::string read_message(const Json& value, const std::string& path, Reading& reading, Json& messages) {
  Fields fields(value, path, reading);
  auto role = fields.choice("role", {"user", "assistant", "system", "developer"});
  if (role == "developer") role = "system";
  const Json* content = fields.any("content");
  if (!role) {
    fields.expect("role", "one of \"user\", \"assistant\", \"system\"");
  } else if (content != nullptr && content->is_string()) {
    messages.push_back({{"role", *role}, {"content", *content}});
  } else if (content == nullptr || !content->is_array()) {
    fields.expect("content", "a string or an array of blocks");
  } else if (const Json* blocks = fields.array("content", reading.limits.parts)) {
    Blocks reader(*role, reading);
    for (size_t i = 0; i < blocks->size() && reading.ok(); ++i)
      reader.add((*blocks)[i], at_index(fields.path("content"), i));
    reader.take(messages);
  }
  for (const char* name : kOfAnswers) fields.ignore(name);
  fields.finish();
  return role.value_or("");
}

void read_output_config(Fields& fields, Reading& reading, ChatPrompt& prompt, Generation& out) {
  if (const Json* config = fields.object("output_config")) {
    Fields nested(*config, fields.path("output_config"), reading);
    if (const auto effort = nested.choice("effort", {"low", "medium", "high", "xhigh", "max"}))
      set_effort(*effort, prompt);
    if (const Json* format = nested.object("format")) read_flat_format(*format, nested.path("format"), reading, out);
    nested.finish();
  }
  if (const Json* format = fields.object("output_format"))
    read_flat_format(*format, fields.path("output_format"), reading, out);
}

ChatPrompt read_prompt(Fields& fields, Reading& reading, Generation& out) {
  ChatPrompt prompt;
  if (const Json* system = fields.any("system")) {
    std::string text = content_text(*system, fields.path("system"), reading, {"text"});
    if (!text.empty()) prompt.messages.push_back({{"role", "system"}, {"content", std::move(text)}});
  }
  std::string role;
  if (const Json* messages = fields.array("messages", reading.limits.messages)) {
    const std::string path = fields.path("messages");
    if (messages->empty()) reading.fail(path, "expected at least one message");
    for (size_t i = 0; i < messages->size() && reading.ok(); ++i) {
      role = read_message((*messages)[i], at_index(path, i), reading, prompt.messages);
    }
    if (role == "assistant") {
      reading.fail(at_index(path, messages->size() - 1) + ".role",
                   "expected \"user\" in the last message: continuing an answer is not available");
    }
  }
  prompt.tools = read_tools(fields, reading, ToolShape::kMessages);
  read_tool_choice(fields, reading, prompt.tools, ToolShape::kMessages, out);
  read_template_kwargs(fields, reading, prompt);
  read_thinking(fields, reading, prompt);
  read_output_config(fields, reading, prompt, out);
  return prompt;
}

}  // namespace

Parsed<Generation> parse_messages(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kMessages);
  Generation out;
  read_common(fields, reading, out);
  out.include_usage = true;
  out.prompts.emplace_back(read_prompt(fields, reading, out));
  out.prompt_field = fields.path("messages");
  check_generation(fields, reading, out);
  fields.finish();
  if (reading.error) return std::move(*reading.error);
  return out;
}

Parsed<PromptRequest> parse_count_tokens(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kCountTokens);
  Generation ignored;
  PromptRequest out;
  out.model = fields.string("model").value_or("");
  out.prompt = read_prompt(fields, reading, ignored);
  out.prompt_field = fields.path("messages");
  fields.finish();
  if (reading.error) return std::move(*reading.error);
  return out;
}

}  // namespace ashlar::server
