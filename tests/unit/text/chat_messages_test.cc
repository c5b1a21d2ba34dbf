// SPDX-License-Identifier: Apache-2.0
#include "text/template/chat_messages.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ashlar::text::test {
namespace {

Json plain(const char* messages) { return plain_messages(parse_json(messages, "test")); }

std::string refusal(const char* messages) {
  try {
    plain(messages);
    return "accepted";
  } catch (const Error& error) {
    return std::string(error.message());
  }
}

TEST(ChatMessages, JoinsTextParts) {
  const char* parts = R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                          {"role": "assistant", "content": []}])";
  EXPECT_EQ(plain(parts),
            parse_json(R"([{"role": "user", "content": "ab"}, {"role": "assistant", "content": ""}])", ""));
}

TEST(ChatMessages, LeavesOthersAsTheyAre) {
  for (const char* messages :
       {R"([{"role": "user", "content": "hi", "name": "x"}])",
        R"([{"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}, {"role": "tool", "content": ""}])",
        R"([{"role": "assistant", "tool_calls": []}])"}) {
    EXPECT_EQ(plain(messages), parse_json(messages, "test"));
  }
}

TEST(ChatMessages, SaysWhereSomethingElseStands) {
  EXPECT_EQ(refusal("[]"), "messages is []; expected a list of one message at least");
  EXPECT_EQ(refusal("{}"), "messages is {}; expected a list of one message at least");
  EXPECT_EQ(refusal(R"([{"role": "user", "content": "a"}, 5])"),
            "messages[1] is 5; expected an object with role and content");
  EXPECT_EQ(refusal(R"([{"role": "user"}])"),
            R"(messages[0] is {"role":"user"}; expected an object with role and content)");
  EXPECT_EQ(refusal(R"([{"role": "user", "content": 5}])"),
            "messages[0].content is 5; expected a string, or a list of text parts");
  EXPECT_EQ(refusal(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}])"),
            R"(messages[0].content[1] is {"type":"image_url"}; expected {"type": "text", "text": ...}: text only)");
}

}  // namespace
}  // namespace ashlar::text::test
