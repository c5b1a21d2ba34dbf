#include "generate/chat_prompt.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ashlar {
namespace {

/// What a template sees of one message.
std::string seen(const char* message, const char* expression) {
  const ChatTemplate form =
      ChatTemplate::from_source("{% set m = messages[0] %}{{ " + std::string(expression) + " }}", "t");
  Conversation conversation;
  conversation.messages = Json::array({parse_json(message, "test")});
  return render_conversation(form, conversation).bytes;
}

TEST(ChatPrompt, MessagesHaveTheFormThatTemplatesAreWrittenFor) {
  EXPECT_EQ(seen(R"({"role": "developer", "content": "x"})", "m.role ~ m.content"), "systemx");
  EXPECT_EQ(seen(R"({"role": "assistant"})", "'<' ~ m.content ~ '>'"), "<>");
  EXPECT_EQ(seen(R"({"role": "assistant", "content": null})", "'<' ~ m.content ~ '>'"), "<>");
  EXPECT_EQ(seen(R"({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})",
                 "m.content"),
            "ab");
  EXPECT_EQ(seen(R"({"role": "user", "content": [{"type": "image"}]})", "m.content[0].type"), "image");
  EXPECT_EQ(seen(R"({"role": "user", "content": "x", "name": "n"})", "m.name"), "n");
}

TEST(ChatPrompt, ReasoningIsThereUnderEveryName) {
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    const std::string message = R"({"role": "assistant", "content": "x", ")" + std::string(name) + R"(": "hm"})";
    EXPECT_EQ(seen(message.c_str(), "m.reasoning_content ~ m.thinking"), "hmhm") << name;
  }
  EXPECT_EQ(seen(R"({"role": "assistant", "content": "x"})", "m.thinking is defined"), "False");
}

TEST(ChatPrompt, ArgumentsAreObjectsThatReadAsText) {
  for (const char* arguments : {R"("{\"a\":1}")", R"({"a": 1})"}) {
    const std::string message = R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": )" +
                                std::string(arguments) + "}}]}";
    EXPECT_EQ(seen(message.c_str(), "m.tool_calls[0].function.arguments.a"), "1");
    EXPECT_EQ(seen(message.c_str(), "'> ' + m.tool_calls[0].function.arguments"), R"(> {"a": 1})");
  }
  EXPECT_EQ(arguments_object(""), Json::object());
  EXPECT_EQ(arguments_object("[1]"), Json({{"raw_arguments", "[1]"}}));
  EXPECT_EQ(arguments_object("{"), Json({{"raw_arguments", "{"}}));
}

TEST(ChatPrompt, NoToolsAreNone) {
  const ChatTemplate form = ChatTemplate::from_source("{{ tools }}", "t");
  Conversation conversation;
  conversation.tools = Json::array();
  EXPECT_EQ(render_conversation(form, conversation).bytes, "None");
}

}  // namespace
}  // namespace ashlar
