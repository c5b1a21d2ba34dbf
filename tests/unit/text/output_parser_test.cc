// SPDX-License-Identifier: Apache-2.0
// Splitting answers: examples by hand, and the law that cuts do not matter.

#include "text/output/output_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "io/json.h"
#include "parsed_parts.h"

namespace ashlar::text::test {
namespace {

TEST(OutputParser, ByHand) {
  EXPECT_EQ(parse({"Hello <b>you</b>\n"}), (Split{"", "Hello <b>you</b>\n", {}}));
  EXPECT_EQ(parse({"<think>\nhm\n</think>\n\nYes."}), (Split{"hm", "Yes.", {}}));
  EXPECT_EQ(parse({"hm\n</think>\n\nYes."}, kOpened), (Split{"hm", "Yes.", {}}));
  EXPECT_EQ(parse({"<think>hm</think>Yes."}, kOpened), (Split{"hm", "Yes.", {}}));
  EXPECT_EQ(parse({"<think>cut of"}), (Split{"cut of", "", {}}));
  EXPECT_EQ(parse({"say <think>x</think>"}), (Split{"", "say <think>x</think>", {}}));  // not at the start
  EXPECT_EQ(parse({"<think>a</think>b"}, {false, false, true}), (Split{"", "<think>a</think>b", {}}));
  EXPECT_EQ(parse({"<thin"}), (Split{"", "<thin", {}}));
  EXPECT_EQ(parse({"  "}), (Split{"", "  ", {}}));
}

TEST(OutputParser, Calls) {
  EXPECT_EQ(parse({R"(Let me see.
<tool_call>
{"name": "f", "arguments": {"a": [1, "}</tool_call>"]}}
</tool_call>
<tool_call>{"name":"g","arguments":{}}</tool_call>)"}),
            (Split{"", "Let me see.", Calls{{"f", R"({"a": [1, "}</tool_call>"]})"}, {"g", "{}"}}}));
  EXPECT_EQ(parse({R"(<tool_call>{"arguments": {"x": 1e5}, "name": "f"}</tool_call>)"}),
            (Split{"", "", Calls{{"f", R"({"x": 1e5})"}}}));
  EXPECT_EQ(parse({R"(<tool_call>{"name": "f"}</tool_call>after)"}), (Split{"", "after", Calls{{"f", "{}"}}}));
  EXPECT_EQ(parse({R"(<tool_call>{"name": "f", "arguments": "{\"a\":1}"}</tool_call>)"}),
            (Split{"", "", Calls{{"f", R"({"a":1})"}}}));
  EXPECT_EQ(parse({R"(<tool_call>{"name": "f", "parameters": {"a":1}}</tool_call>)"}),
            (Split{"", "", Calls{{"f", R"({"a":1})"}}}));
  EXPECT_EQ(parse({R"(<think>w</think><tool_call>{"name":"\u0066\"","arguments":{"a":"\"}"}})"}),
            (Split{"w", "", Calls{{"f\"", R"({"a":"\"}"})"}}}));  // no closing tag
}

TEST(OutputParser, WhatIsNoCallStaysAsItIs) {
  for (const char* text :
       {"a\n<tool_call>oops</tool_call> b", "<tool_call>{\"name\": 1}</tool_call>", "<tool_call>[1]</tool_call>",
        "<tool_call>{\"name\": \"\"}</tool_call>", "<tool_call>{\"name\": \"f\", \"argu", "x <tool_call>",
        "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>", "<tool_call>{]}</tool_call>",
        "<tool_call>{\"a\":1,\"a\":2}</tool_call>", "<tool_call", "</tool_call>",
        "<tool_call>{\"name\": \"f\" \"arguments\": {}}</tool_call>"}) {
    EXPECT_EQ(parse({text}), (Split{"", text, {}})) << text;
    EXPECT_EQ(parse({text}, {true, false, false}), (Split{"", text, {}})) << text;
  }
  EXPECT_EQ(parse({"<tool_call>no<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"}),
            (Split{"", "<tool_call>no", Calls{{"f", "{}"}}}));
}

// Between its tags a model writes further calls, and prose.
TEST(OutputParser, TagsHoldSeveralCallsAndText) {
  const std::string f = R"({"name": "f", "arguments": {"a": 1}})";
  const std::string g = R"({"arguments": {}, "name": "g"})";
  const std::pair<std::string, std::string> first{"f", R"({"a": 1})"};
  const std::pair<std::string, std::string> second{"g", "{}"};
  for (const char* space : {"", "\n", " \n\n"}) {
    EXPECT_EQ(parse({"Go: <tool_call>" + f + space + g + "\n</tool_call>\n"}), (Split{"", "Go:", {first, second}}));
    EXPECT_EQ(parse({"<tool_call>" + f + space + g + space + f}), (Split{"", "", {first, second, first}}));
    EXPECT_EQ(parse({"<tool_call>" + f + space + "<tool_call>" + g + "</tool_call>"}),
              (Split{"", "", {first, second}}));
  }
  EXPECT_EQ(parse({"<tool_call>" + f + " Then\n\n" + g + " and " + g + "</tool_call>!"}),
            (Split{"", "Then\n\nand " + g + "!", {first, second}}));
  EXPECT_EQ(parse({"<tool_call>\nFirst {it}\n " + f + "\n</tool_call>"}),
            (Split{"", "<tool_call>\nFirst {it}", {first}}));
  EXPECT_EQ(parse({"<tool_call>" + f + "\n{\"name\": 1}\n" + g + "</tool_call>"}),
            (Split{"", "{\"name\": 1}", {first, second}}));
  // What is no member of the call's object does not belong to it.
  for (const std::string rest : {"text", ", text", ",\"id\": ten", ",\"name\": \"g\"}", ", \"parameters\": {}}", "]"}) {
    const std::string open = R"(<tool_call>{"name": "f", "arguments": {"a": 1})";
    EXPECT_EQ(parse({open + rest + "</tool_call>"}), (Split{"", rest, {first}}));
    EXPECT_EQ(parse({open + rest}), (Split{"", rest, {first}}));
    EXPECT_EQ(parse({open + ", \"id\": [7, \"}\"] }" + rest}), (Split{"", rest, {first}}));
  }
}

// Text before a call and after it keeps the line breaks of one side.
TEST(OutputParser, TextAroundCallsIsNotGluedTogether) {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  const std::vector<std::vector<std::string>> cases = {{"One.\n", "\nTwo.", "One.\nTwo."},
                                                       {"One.\n\n", "\nTwo.", "One.\n\nTwo."},
                                                       {"One. ", "\nTwo.", "One.\nTwo."},
                                                       {"Use ", " now", "Use now"},
                                                       {"a", "b", "ab"},
                                                       {"\n", "\nTwo.", "Two."},
                                                       {"One.\n", "\n", "One."}};
  for (const auto& each : cases) {
    EXPECT_EQ(parse({each[0] + call + each[1]}).content, each[2]);
    EXPECT_EQ(parse({"<think>hm</think>\n\n" + each[0] + call + "\n" + call + each[1]}).content, each[0] == "a" ? "a\nb"
                                                                                                 : each[0] == "Use "
                                                                                                     ? "Use\nnow"
                                                                                                     : each[2]);
  }
}

// One reader of arguments for both forms: a form is what stands around the call.
TEST(OutputParser, FormsAgreeOnArguments) {
  const std::vector<std::pair<std::string, std::string>> readings = {
      {R"(, "parameters": {"a": 1})", R"({"a": 1})"},
      {R"(, "arguments": {"a": 1})", R"({"a": 1})"},
      {R"(, "parameters": "{\"a\": 1}")", R"({"a": 1})"},
      {R"(, "parameters": "{}")", "{}"},
      {R"(, "arguments": null)", "{}"},
      {"", "{}"},
      {R"(, "arguments": {"a": tru, b})", R"({"a": tru, b})"},
      {R"(, "arguments": {"a": <1>})", R"({"a": <1>}})"},
      // No calls:
      {R"(, "arguments": "a")", ""},
      {R"(, "arguments": "")", ""},
      {R"(, "arguments": "[1]")", ""},
      {R"(, "arguments": [])", ""},
      {R"(, "arguments": 1)", ""},
      {R"(, "arguments": nul)", ""},
      {R"(, "arguments": null, "parameters": {})", ""}};
  for (const auto& [written, arguments] : readings) {
    for (const bool name_first : {true, false}) {
      if (!name_first &&
          (written.empty() || written.find("tru") != std::string::npos || written.find('<') != std::string::npos)) {
        continue;  // arguments that come before the name are handed on once they are whole
      }
      const std::string object =
          name_first ? "{\"name\": \"f\"" + written + "}" : "{" + written.substr(2) + ", \"name\": \"f\"}";
      const Split tagged = parse({"<tool_call>" + object + "</tool_call>"});
      const Split bare = parse({object}, kBare);
      const Calls calls = {{"f", arguments}};
      if (arguments.empty()) {
        EXPECT_EQ(tagged, (Split{"", "<tool_call>" + object + "</tool_call>", {}}));
        EXPECT_EQ(bare, (Split{"", object, {}}));
      } else {
        EXPECT_EQ(tagged, (Split{"", "", calls})) << object;
        EXPECT_EQ(bare, (Split{"", "", calls})) << object;
      }
    }
  }
  EXPECT_EQ(parse({R"({"name": "now"})"}, kBare), (Split{"", R"({"name": "now"})", {}}));  // it was not offered
}

TEST(OutputParser, ArgumentsThatBreakAreHandedOnAsWritten) {
  EXPECT_EQ(parse({R"(<tool_call>{"name":"f","arguments":{"a":<1>]}}</tool_call>more)"}),
            (Split{"", "more", Calls{{"f", R"({"a":<1>]}})"}}}));
  EXPECT_EQ(parse({R"(<tool_call>{"name":"f","arguments":{"a": "b)"}), (Split{"", "", Calls{{"f", R"({"a": "b)"}}}));
}

TEST(OutputParser, StreamsWithoutDelay) {
  OutputParser parser({});
  EXPECT_EQ(only(Kind::kReasoning, parser.push("<think>")), "");
  EXPECT_EQ(only(Kind::kReasoning, parser.push("one two")), "one two");
  EXPECT_EQ(only(Kind::kReasoning, parser.push(" </thin")), "");
  EXPECT_EQ(only(Kind::kReasoning, parser.push("k>")), "");
  EXPECT_EQ(only(Kind::kContent, parser.push("text <")), "text");
  EXPECT_EQ(only(Kind::kContent, parser.push("b")), " <b");
  Parts parts = parser.push("<tool_call>{\"name\":\"f\",\"arguments\":{\"k\":");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].name, "f");
  EXPECT_EQ(parts[0].text, "{\"k\":");
  parts = parser.push("\"v");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].text, "\"v");
}

TEST(OutputParser, PartsComeInTheOrderOfTheText) {
  const std::string first = R"(<think>hm</think>One.
<tool_call>{"name":"f","arguments":{"a")";
  const std::string rest = R"(:1}}</tool_call>
Two.<tool_call>{"name":"g","arguments":{}}</tool_call><tool_call>{"name":"h","arguments":{}}</tool_call><tool_call>no)";
  const std::string order = R"(reasoning: hm
content: One.
call 0: {"a":1}
content: 
Two.
call 1: {}
call 2: {}
content: <tool_call>no)";
  EXPECT_EQ(order_of({first + rest}), order);
  EXPECT_EQ(order_of({first, rest}), order);
}

// Who counts tokens needs to know whose they are.
TEST(OutputParser, TagsBelongToWhatTheyEnd) {
  OutputParser parser({});
  EXPECT_EQ(only(Kind::kReasoning, parser.push("<think>hm")), "hm");
  EXPECT_TRUE(parser.push("</thi").empty());
  Parts parts = parser.push("nk>");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].kind, Kind::kReasoning);
  EXPECT_EQ(parts[0].text, "");
  parser.push("<tool_call>{\"name\":\"f\",\"arguments\":{}}");
  parts = parser.push("</tool_call>");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].kind, Kind::kCall);
  EXPECT_EQ(parts[0].call, 0);
  parts = parser.finish();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].kind, Kind::kContent);
}

// Fragments of answers. Each z7z, z8z, ... stands in it once.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {
      "<think>", "</think>", "<tool_call>", "</tool_call>", "{\"name\":", "\"f\"", ",\"arguments\":", "{", "}", "\"",
      "\\", "[", "]", " ", "\n", "<", "$", "é", ":", "1", ";", ",", "<|python_tag|>", std::string(70, ' '),
      "</tool_call>", "\n", "{\"name\":\"f\"", ",\"parameters\":{\"a\":\"$\"", "\"$\"", ",\"id\":[1]", "null",
      // Whole calls.
      R"({"name": "get", "arguments": {"a": "$"}})", R"({"arguments":{"b":"<tool_call>$"},"name":"f"})",
      R"(<tool_call>{"name":"k$","arguments":{"z":["$"]}}</tool_call>)",
      R"({"type":1,"name":"f","parameters":{"a":"$"})", R"({"name": "get", "parameters": "{\"a\": \"$\"}"})",
      R"({"name": "get", "type": "function"})"};
  std::string text;
  const int n = static_cast<int>(random() % 14);
  for (int i = 0; i < n; ++i) text += kPieces[random() % kPieces.size()];
  int marks = 7;
  for (size_t at = text.find('$'); at != std::string::npos; at = text.find('$')) {
    text.replace(at, 1, "z" + std::to_string(marks++) + "z");
  }
  return text;
}

TEST(OutputParser, CutsDoNotMatter) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random);
    OutputParser::Options options{random() % 4 != 0, random() % 3 == 0, random() % 4 != 0};
    if (round % 2 == 0) options.bare = kBare.bare;
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 5;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    ASSERT_EQ(parse(pieces, options), parse({text}, options)) << text;
    ASSERT_EQ(order_of(pieces, options), order_of({text}, options)) << text;
  }
}

/// Every letter of the answer comes out once: only tags and white space around them go. Of calls, every word that does
/// not belong to their form.
TEST(OutputParser, LosesNothing) {
  std::mt19937 random(8);
  const auto letters = [](std::string text) {
    for (const std::string tag : {"<think>", "</think>"}) {
      for (size_t at = text.find(tag); at != std::string::npos; at = text.find(tag)) text.erase(at, tag.size());
    }
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    return text;
  };
  int compared = 0;
  for (int round = 0; round < 40000; ++round) {
    const std::string text = random_text(random);
    const Split split = parse({text}, round % 2 == 0 ? OutputParser::Options{} : kBare);
    std::string all = split.reasoning + split.content;
    if (split.calls.empty()) {
      ASSERT_EQ(letters(all), letters(text)) << text;
      continue;
    }
    ++compared;
    for (const auto& [name, arguments] : split.calls) all += name + arguments;
    for (int mark = 7; text.find("z" + std::to_string(mark) + "z") != std::string::npos; ++mark) {
      const std::string word = "z" + std::to_string(mark) + "z";
      ASSERT_NE(all.find(word), std::string::npos) << word << " of " << text;
      ASSERT_EQ(all.find(word), all.rfind(word)) << word << " of " << text;
    }
  }
  EXPECT_GT(compared, 5000);
}

TEST(OutputParser, LongAnswersTakeLinearTime) {
  OutputParser parser({});
  for (int i = 0; i < 200000; ++i) parser.push(i % 2 == 0 ? "\n" : " ");
  for (int i = 0; i < 20000; ++i) parser.push("<tool_call>{\"");
  parser.finish();
}

// Where a grammar lets nothing but calls through, what is cut short is no content.
TEST(OutputParser, DemandedCallsLeaveNoContent) {
  OutputParser::Options bare = kBare;
  bare.only_calls = true;
  EXPECT_EQ(parse({R"({"name": "f", "pa)"}, bare), (Split{"", "", {{"f", ""}}}));
  const OutputParser::Options demanded = {.only_calls = true};
  const std::string whole = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  const Split one = {"", "", {{"f", "{\"a\": 1}"}}};
  EXPECT_EQ(parse({whole}, demanded), one);
  EXPECT_EQ(parse({whole + "\n<tool_c"}, demanded), one);
  EXPECT_EQ(parse({whole + "\n<tool_call>\n{\"na"}, demanded), one);
  EXPECT_EQ(parse({"<think>Let me see</think>\n<tool_call>\n{"}, demanded), (Split{"Let me see", "", {}}));
  for (size_t end = 0; end < whole.size(); ++end) {
    const size_t named = whole.find("\"f\"") + 3;
    const size_t begun = whole.find("{\"a");
    const size_t done = whole.find("}}") + 1;
    const std::string arguments = end <= begun ? "" : whole.substr(begun, std::min(end, done) - begun);
    const Split expected = end < named ? Split{} : Split{"", "", {{"f", arguments}}};
    EXPECT_EQ(parse({whole.substr(0, end)}, demanded), expected) << end;
  }
}

}  // namespace
}  // namespace ashlar::text::test
