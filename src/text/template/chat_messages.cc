// SPDX-License-Identifier: Apache-2.0
#include "text/template/chat_messages.h"

#include <string>

#include "base/error.h"

namespace ashlar::text {
namespace {

[[noreturn]] void fail(const std::string& path, const Json& found, const std::string& expected) {
  throw Error("messages", path + " is " + for_message(found.dump(-1, ' ', true, Json::error_handler_t::replace)) +
                              "; expected " + expected);
}

std::string joined(const Json& parts, const std::string& path) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const bool is_text =
        part.is_object() && part.value("type", Json()) == "text" && part.contains("text") && part["text"].is_string();
    if (!is_text) fail(path + "[" + std::to_string(i) + "]", part, R"({"type": "text", "text": ...}: text only)");
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

}  // namespace

Json plain_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty()) fail("messages", messages, "a list of one message at least");
  Json out = messages;
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string path = "messages[" + std::to_string(i) + "]";
    Json& message = out[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !(message.contains("content") || message.contains("tool_calls"))) {
      fail(path, message, "an object with role and content");
    }
    if (!message.contains("content")) continue;
    Json& content = message["content"];
    if (content.is_array()) {
      content = joined(content, path + ".content");
    } else if (!content.is_string() && !content.is_null()) {
      fail(path + ".content", content, "a string, or a list of text parts");
    }
  }
  return out;
}

}  // namespace ashlar::text
