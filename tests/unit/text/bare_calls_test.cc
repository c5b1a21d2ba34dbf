// SPDX-License-Identifier: Apache-2.0
// Calls without any mark around them, known by the names of tools.

#include <gtest/gtest.h>

#include <random>

#include "io/json.h"
#include "parsed_parts.h"

namespace ashlar::text::test {
namespace {

TEST(BareCalls, ByHand) {
  const std::string f = R"({"name": "f", "parameters": {"a": 1}})";
  const std::pair<std::string, std::string> call{"f", R"({"a": 1})"};
  for (const auto& text : {f, " <|python_tag|>\n" + f + "\n", f.substr(0, f.size() - 1)}) {
    EXPECT_EQ(parse({text}, kBare), (Split{"", "", {call}})) << text;
    EXPECT_EQ(parse({text + " " + f + ";" + f + "}\n" + f}, kBare), (Split{"", "}\n" + f, {call, call, call}})) << text;
  }
  EXPECT_EQ(parse({R"({"name": "f", "parameters": {"a": <})"}, kBare), (Split{"", "", {{"f", R"({"a": <})"}}}));
  OutputParser parser(kBare);
  EXPECT_EQ(only(Kind::kCall, parser.push(f.substr(0, f.size() - 3))), "{\"a\": ");
}

/// The byte after ^ shows that it is no call.
TEST(BareCalls, OtherTextIsHeldNoLongerThanNeeded) {
  for (std::string text : {"^Y", "{^x", R"({"n^")", R"({"name": ^1})", R"({"name": "ge^")", R"({"name": "f" ^"x")",
                           R"({"name": "f", "arguments": ^[{}]})", R"({"name": "f", "arguments": ^7})",
                           R"({"type": {"name": 1}, "name": "h^"})", " <|python_tag|> ^p", "^; {"}) {
    const size_t at = text.find('^');
    text.erase(at, 1);
    OutputParser parser(kBare);
    EXPECT_EQ(only(Kind::kContent, parser.push(text.substr(0, at))), "") << text;
    EXPECT_EQ(only(Kind::kContent, parser.push(text.substr(at, 1))), text.substr(0, at + 1));
    EXPECT_EQ(parse({text}, kBare), (Split{"", text, {}}));
  }
}

TEST(BareCalls, AreObjectsOfAToolsNameAndArguments) {
  const std::vector<std::string> values = {R"("f")", R"("g")", "1", "{}", R"({"a": ["}", {"name": 2}]})"};
  std::mt19937 random(9);
  int calls = 0;
  for (int round = 0; round < 9000; ++round) {
    std::vector<std::string> keys = {"name", random() % 2 == 0 ? "parameters" : "arguments", "type", "x"};
    std::shuffle(keys.begin(), keys.end(), random);
    std::string text;
    for (const auto& key : keys) text += ", \"" + key + "\": " + values[random() % values.size()];
    text = "{" + text.substr(2) + "}";
    const Json object = parse_json(text, "");
    const Json arguments = object.value("parameters", object.value("arguments", Json()));
    const bool call = object["name"] == "f" && arguments.is_object() && keys[0] != "x";
    const Split split = parse({text}, kBare);
    ASSERT_EQ(split.content, call ? "" : text);
    if (!call) continue;
    ASSERT_EQ(parse_json(split.calls.at(0).second, ""), arguments) << text;
    ++calls;
  }
  EXPECT_GT(calls, 300);
}

}  // namespace
}  // namespace ashlar::text::test
