// SPDX-License-Identifier: Apache-2.0
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

/// What a template that ends with `lines` for each message m makes of a conversation, or the error's text.
std::string rendered(const std::string& lines, const char* messages) {
  const ChatTemplate form =
      ChatTemplate::from_source("{% for m in messages %}" + lines + "[{{ m.role }} {{ m.content }}]{% endfor %}", "t");
  Conversation conversation;
  conversation.messages = parse_json(messages, "test");
  try {
    return render_conversation(form, conversation).bytes;
  } catch (const Error& error) {
    return std::string(error.message());
  }
}

TEST(ChatPrompt, LaterSystemMessagesAreTheUsersWhereATemplateForbidsThem) {
  const std::string strict =
      "{% if m.role == 'system' and not loop.first %}{{ raise_exception('only at the beginning') }}{% endif %}"
      "{% if m.role == 'user' and loop.previtem is defined and loop.previtem.role == 'user' %}"
      "{{ raise_exception('roles must alternate') }}{% endif %}";
  constexpr const char *kS = R"({"role":"system","content":"s"},)", *kT = R"({"role":"system","content":"t"})";
  constexpr const char *kU = R"({"role":"user","content":"u"},)", *kA = R"({"role":"assistant","content":"a"},)";
  const auto made = [&](std::initializer_list<const char*> list) {
    std::string text;
    for (const char* one : list) text.append(one).append(text.ends_with(",") ? "" : ",");
    text.pop_back();
    return rendered(strict, ("[" + text + "]").c_str());
  };
  EXPECT_EQ(made({kS, kU}), "[system s][user u]");
  EXPECT_EQ(made({kS, kT, kU}), "[system s\n\nt][user u]");
  EXPECT_EQ(made({kS, kU, kT}), "[system s][user u\n\nt]");
  EXPECT_EQ(made({kU, kT}), "[user u\n\nt]");
  EXPECT_EQ(made({kU, kA, kT, kU}), "[user u][assistant a][user t\n\nu]");
  EXPECT_EQ(made({kS, kU, kT, kU, kA, kT, kT}), "[system s][user u\n\nt\n\nu][assistant a][user t\n\nt]");
  EXPECT_EQ(made({kU, R"({"role":"developer","content":"d"},)"}), "[user u\n\nd]");
  // What is not text is left as it is, and what is refused for something else is refused for that.
  EXPECT_EQ(made({kU, kA, R"({"role":"tool","content":"r"},)", kT}), "[user u][assistant a][tool r][user t]");
  EXPECT_EQ(made({kU, kU}), "t:1: the template refuses this conversation: roles must alternate");
  EXPECT_EQ(made({kU, kU, kA, kT}), "t:1: the template refuses this conversation: roles must alternate");
}

TEST(ChatPrompt, LaterSystemMessagesStayWhereATemplateTakesThem) {
  EXPECT_EQ(rendered("", R"([{"role":"user","content":"u"},{"role":"system","content":"s"}])"), "[user u][system s]");
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
