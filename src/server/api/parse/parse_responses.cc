// SPDX-License-Identifier: Apache-2.0
// OpenAI's responses: a list of items becomes a conversation.

#include "server/api/parse/chat_fields.h"
#include "server/api/parse/parse.h"
#include "server/api/parse/sampling_fields.h"

namespace ashlar::server {
namespace {

/// Builds the conversation. Reasoning, text and calls that follow each other are one assistant message, as in a chat.
class Items {
 public:
  explicit Items(Reading& reading) : reading_(reading) {}

  void add(const Json& item, const std::string& path);
  /// Ends the conversation.
  Json take() {
    close();
    return std::move(messages_);
  }
  void add_message(const std::string& role, std::string text) {
    close();
    messages_.push_back({{"role", role}, {"content", std::move(text)}});
  }

 private:
  void message(Fields& item);
  void call(Fields& item);
  void call_output(Fields& item);
  void reasoning(Fields& item);
  std::string texts(Fields& item, const char* name, std::initializer_list<std::string_view> types);
  Json& open() {
    if (open_.is_null()) open_ = {{"role", "assistant"}, {"content", ""}};
    return open_;
  }
  void close() {
    if (!open_.is_null()) messages_.push_back(std::move(open_));
    open_ = nullptr;
  }

  Reading& reading_;
  Json messages_ = Json::array();
  Json open_;  // the assistant's message being put together
};

void Items::add(const Json& value, const std::string& path) {
  Fields item(value, path, reading_);
  const std::string type = item.string("type").value_or("message");
  if (type == "message") return message(item);
  if (type == "function_call") return call(item);
  if (type == "function_call_output") return call_output(item);
  if (type == "reasoning") return reasoning(item);
  item.expect("type", "one of \"message\", \"function_call\", \"function_call_output\", \"reasoning\"");
}

std::string Items::texts(Fields& item, const char* name, std::initializer_list<std::string_view> types) {
  const Json* content = item.any(name);
  if (content == nullptr) {
    item.expect(name, "a string or an array of text parts");
    return {};
  }
  return content_text(*content, item.path(name), reading_, types);
}

void Items::message(Fields& item) {
  const auto role = item.choice("role", {"system", "developer", "user", "assistant"});
  if (!role) return item.expect("role", "one of \"system\", \"developer\", \"user\", \"assistant\"");
  std::string text = texts(item, "content", {"input_text", "output_text", "text", "refusal"});
  if (*role != "assistant") return add_message(*role == "developer" ? "system" : *role, std::move(text));
  if (!open_.is_null() && (open_.contains("tool_calls") || !open_["content"].get_ref<const std::string&>().empty()))
    close();
  open()["content"] = std::move(text);
}

void Items::call(Fields& item) {
  const auto id = item.string("call_id", 256);
  const auto name = item.string("name", reading_.limits.name_bytes);
  if (!id) return item.expect("call_id", "a string");
  if (!name || name->empty()) return item.expect("name", "the function's name");
  const Json* arguments = item.any("arguments");
  Json value = call_arguments(arguments != nullptr ? *arguments : Json(), item.path("arguments"), reading_);
  Json& message = open();
  if (!message.contains("tool_calls")) message["tool_calls"] = Json::array();
  message["tool_calls"].push_back(call_message(*id, *name, std::move(value)));
}

void Items::call_output(Fields& item) {
  const auto id = item.string("call_id", 256);
  if (!id) return item.expect("call_id", "a string");
  std::string text = texts(item, "output", {"input_text", "output_text", "text"});
  close();
  messages_.push_back({{"role", "tool"}, {"content", std::move(text)}, {"tool_call_id", *id}});
}

// The summary is not what the model thought; it is taken only where nothing better came.
void Items::reasoning(Fields& item) {
  std::string text;
  for (const char* name : {"content", "summary"}) {
    const Json* parts = item.any(name);
    if (parts == nullptr || !text.empty()) continue;
    text = content_text(*parts, item.path(name), reading_, {"reasoning_text", "summary_text", "text"});
  }
  if (text.empty()) return;
  if (!open_.is_null()) close();
  open()["reasoning_content"] = std::move(text);
}

ChatPrompt read_input(Fields& fields, Reading& reading) {
  ChatPrompt prompt;
  Items items(reading);
  if (const auto text = fields.string("instructions"); text && !text->empty()) items.add_message("system", *text);
  const Json* input = fields.any("input");
  if (input != nullptr && input->is_string()) {
    items.add_message("user", input->get<std::string>());
  } else if (input != nullptr && !input->is_array()) {
    fields.expect("input", "a string or an array of items");
  } else if (const Json* list = fields.array("input", reading.limits.messages)) {
    if (list->empty()) fields.fail("input", "expected at least one item");
    for (size_t i = 0; i < list->size() && reading.ok(); ++i) items.add((*list)[i], at_index(fields.path("input"), i));
  }
  prompt.messages = items.take();
  prompt.tools = read_tools(fields, reading, ToolShape::kFlat);
  read_template_kwargs(fields, reading, prompt);
  return prompt;
}

void read_text(Fields& fields, Reading& reading, Generation& out) {
  const Json* text = fields.object("text");
  if (text == nullptr) return;
  Fields nested(*text, fields.path("text"), reading);
  if (const Json* format = nested.object("format")) read_flat_format(*format, nested.path("format"), reading, out);
  nested.ignore("verbosity");
  nested.finish();
}

void read_reasoning(Fields& fields, Reading& reading, ChatPrompt& prompt) {
  const Json* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  Fields nested(*reasoning, fields.path("reasoning"), reading);
  if (const auto effort = nested.choice("effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"})) {
    set_effort(*effort, prompt);
  }
  for (const char* name : {"summary", "generate_summary", "encrypted_content", "context"}) nested.ignore(name);
  nested.finish();
}

}  // namespace

Parsed<Generation> parse_responses(const Json& body, const ApiLimits& limits) {
  Reading reading{limits};
  Fields fields(body, "", reading);
  fields.check(Endpoint::kResponses);
  Generation out;
  read_common(fields, reading, out);
  out.include_usage = true;
  ChatPrompt prompt = read_input(fields, reading);
  read_reasoning(fields, reading, prompt);
  read_tool_choice(fields, reading, prompt.tools, ToolShape::kFlat, out);
  read_text(fields, reading, out);
  if (const auto tops = fields.integer("top_logprobs", 0, limits.top_logprobs)) {
    out.sampling.top_logprobs = static_cast<int32_t>(*tops);
  }
  // Clients send top_logprobs 0 for "none"; include says that they want the tokens' own.
  bool listed = false;
  for (const std::string& name : fields.strings("include", 64, 256)) listed |= name == "message.output_text.logprobs";
  if (!listed && out.sampling.top_logprobs == 0) out.sampling.top_logprobs = -1;
  if (listed && out.sampling.top_logprobs < 0) out.sampling.top_logprobs = 0;
  out.prompts.emplace_back(std::move(prompt));
  out.prompt_field = fields.path("input");
  for (const char* name : {"instructions", "metadata", "tools", "tool_choice", "reasoning", "text", "max_output_tokens",
                           "temperature", "top_p", "top_logprobs", "user", "truncation", "service_tier"}) {
    if (const Json* value = fields.any(name)) out.repeated[name] = *value;
  }
  check_generation(fields, reading, out);
  fields.finish();
  if (reading.error) return std::move(*reading.error);
  return out;
}

}  // namespace ashlar::server
