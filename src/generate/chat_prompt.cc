// SPDX-License-Identifier: Apache-2.0
#include "generate/chat_prompt.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "io/client_json.h"

namespace ashlar {
namespace {

// Models read what was thought under these names; each is offered where a message has one.
constexpr const char* kReasoning[] = {"reasoning_content", "reasoning", "thinking"};

// The library's comparison with a literal allocates where it must not throw.
bool is_text(const Json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

bool is_text_part(const Json& part) {
  return part.is_object() && part.contains("type") && is_text(part["type"], "text") && part.contains("text") &&
         part["text"].is_string();
}

void plain_content(Json& message) {
  Json& content = message["content"];
  if (content.is_null()) content = "";
  if (!content.is_array() || !std::all_of(content.begin(), content.end(), is_text_part)) return;
  std::string text;
  for (const Json& part : content) text += part["text"].get_ref<const std::string&>();
  content = std::move(text);
}

void name_reasoning(Json& message) {
  for (const char* name : kReasoning) {
    const auto found = message.find(name);
    if (found == message.end() || !found->is_string()) continue;
    const std::string text = found->get<std::string>();
    for (const char* other : {"reasoning_content", "thinking"}) {
      if (!message.contains(other)) message[other] = text;
    }
    return;
  }
}

void open_arguments(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (!call.is_object() || function == call.end() || !function->is_object()) continue;
    Json& arguments = (*function)["arguments"];
    if (arguments.is_null()) arguments = Json::object();
    if (arguments.is_string()) arguments = arguments_object(arguments.get<std::string>());
  }
}

Json messages_for_templates(const Json& messages) {
  Json out = messages;
  if (!out.is_array()) return out;
  for (Json& message : out) {
    if (!message.is_object()) continue;
    const auto role = message.find("role");
    const bool assistant = role != message.end() && is_text(*role, "assistant");
    if (role != message.end() && is_text(*role, "developer")) *role = "system";
    plain_content(message);
    if (assistant) name_reasoning(message);
    open_arguments(message);
  }
  return out;
}

bool is_of(const Json& message, std::string_view role) {
  const auto found = message.is_object() ? message.find("role") : message.end();
  return message.is_object() && found != message.end() && is_text(*found, role);
}

/// Adds the text of `message` to that of `last`, a paragraph further down; false if one of them has something else.
bool join(Json& last, const Json& message) {
  if (!last["content"].is_string() || !message["content"].is_string()) return false;
  last["content"].get_ref<std::string&>() += "\n\n" + message["content"].get_ref<const std::string&>();
  return true;
}

/// The conversation for templates that take a system message at its beginning alone: those that it begins with are one,
/// and each later one is said by the user where it stood, in one turn with what the user says next to it, since such
/// templates often want turns to alternate.
Json with_one_system_message(const Json& messages) {
  Json out = Json::array();
  bool moved = false;  // the last of `out` ends with what was a system message
  for (const Json& message : messages) {
    const bool system = is_of(message, "system");
    const bool first = system && (out.empty() || (out.size() == 1 && is_of(out.back(), "system")));
    Json next = message;
    if (system && !first) next["role"] = "user";
    const bool adjacent =
        !out.empty() && (first || ((system || moved) && is_of(next, "user") && is_of(out.back(), "user")));
    if (!adjacent || !join(out.back(), next)) out.push_back(std::move(next));
    moved = system && !first;
  }
  return out;
}

}  // namespace

SourcedText render_conversation(const ChatTemplate& form, const Conversation& conversation) {
  const Json tools = conversation.tools.empty() ? Json() : conversation.tools;
  const auto render = [&](const Json& messages) {
    return form.render(messages, tools, conversation.add_generation_prompt, conversation.template_kwargs);
  };
  const Json messages = messages_for_templates(conversation.messages);
  try {
    return render(messages);
  } catch (const Error&) {
    // Only what the template refuses is changed: another one may have its own place for such messages.
    const Json changed = messages.is_array() ? with_one_system_message(messages) : messages;
    if (changed == messages) throw;
    try {
      return render(changed);
    } catch (const Error&) {  // it was for another reason, which the first error names
    }
    throw;
  }
}

std::vector<int32_t> encode_conversation(const Tokenizer& tokenizer, const ChatTemplate& form,
                                         const Conversation& conversation) {
  return tokenizer.encode(render_conversation(form, conversation));
}

Json arguments_object(const std::string& text) {
  if (text.empty()) return Json::object();
  try {
    Json value = parse_client_json(text, "arguments");
    if (value.is_object()) return value;
  } catch (const Error&) {  // the model's mistake; the client sees what it wrote
  }
  return {{"raw_arguments", text}};
}

}  // namespace ashlar
