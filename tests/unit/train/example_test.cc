// SPDX-License-Identifier: Apache-2.0
#include "train/data/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using Form = TrainingExample::Form;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TrainingExample, ReadsEachForm) {
  const TrainingExample chat = parse_example(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "tools": [], "more": 1})", "f:1");
  EXPECT_EQ(chat.form, Form::kConversation);
  EXPECT_EQ(chat.messages, parse_json(R"([{"role": "user", "content": "a"}])", "expected"));
  EXPECT_EQ(chat.tools, Json::array());

  const TrainingExample turns = parse_example(
      R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "u"},
          {"from": "gpt", "value": "a"}, {"from": "observation", "value": "o"}]})",
      "f:1");
  EXPECT_EQ(turns.form, Form::kConversation);
  EXPECT_EQ(turns.messages, parse_json(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
      {"role": "assistant", "content": "a"}, {"role": "tool", "content": "o"}])",
                                       "expected"));

  const TrainingExample pair = parse_example(R"({"prompt": "p", "response": "r"})", "f:1");
  EXPECT_EQ(pair.form, Form::kPair);
  EXPECT_EQ(pair.prompt + pair.response, "pr");

  const TrainingExample answer = parse_example(R"({"prompt_index": 0, "prompt": "p", "text": "a"})", "f:1");
  EXPECT_EQ(answer.form, Form::kPair);
  EXPECT_EQ(answer.messages[1]["content"], Json("a"));

  EXPECT_EQ(parse_example(R"({"text": "t"})", "f:1").text, "t");

  const TrainingExample ids = parse_example(R"({"ids": [5, 6, 7], "mask": [0, true, 1]})", "f:1");
  EXPECT_EQ(ids.form, Form::kIds);
  EXPECT_EQ(ids.ids, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(ids.supervised, (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ(parse_example(R"({"ids": [5, 6]})", "f:1").supervised, (std::vector<uint8_t>{1, 1}));
}

std::string refusal(const std::string& line) {
  try {
    parse_example(line, "data.jsonl:7");
    return "taken";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(TrainingExample, SaysWhatIsWrongWithALine) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"text\": ", "expected one JSON object a line"},
      {"[1]", "expected a JSON object, found array"},
      {"{}", "holds nothing to learn; expected one of the fields ids, messages"},
      {R"({"text": 5})", "text"},
      {R"({"prompt": "p"})", "has a prompt without response; expected both"},
      {R"({"response": "p"})", "prompt"},
      {R"({"messages": []})", "a list of one message at least"},
      {R"({"messages": [{"role": "user"}]})", "messages[0]"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content is 5; expected a string"},
      {R"({"messages": [{"role": "user", "content": "x"}], "tools": {}})", "tools is no list"},
      {R"({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": 1})",
       "chat_template_kwargs is no object"},
      {R"({"conversations": {}})", "conversations is no list"},
      {R"({"conversations": [{"from": "gpt"}]})", "conversations[0] has no text \"value\""},
      {R"({"conversations": [{"from": "bard", "value": ""}]})",
       "conversations[0].from is \"bard\"; expected one of human"},
      {R"({"ids": []})", "ids is empty"},
      {R"({"ids": [1, -1]})", "ids"},
      {R"({"ids": [1, 2], "mask": [1]})", "mask has 1 entries; expected one for each of 2 ids"},
      {R"({"ids": [1, 2], "mask": [1, 2]})", "mask[1] is 2; expected 0 or 1"},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_THAT(refusal(line), StartsWith("[train] data.jsonl:7: ")) << line;
    EXPECT_THAT(refusal(line), HasSubstr(message)) << line;
  }
  EXPECT_THAT(refusal("{\"text\": \"" + std::string(kMaxExampleBytes, 'x') + "\"}"),
              HasSubstr("expected at most 16 MiB"));
  std::string many = R"({"messages": [)";
  for (size_t i = 0; i <= kMaxExampleMessages; ++i) many += R"({"role": "user", "content": ""},)";
  many.back() = ']';
  EXPECT_THAT(refusal(many + "}"), HasSubstr("has 1001 messages; expected at most 1000"));
}

std::vector<std::string> places(const std::filesystem::path& path) {
  std::vector<std::string> out;
  read_examples(path, [&](const TrainingExample& example) { out.push_back(example.where); });
  return out;
}

TEST(TrainingExample, CountsLinesAsAnEditorDoes) {
  const TempFolder folder;
  const auto path = folder.write("d.jsonl", "\xEF\xBB\xBF{\"text\":\"a\"}\r\n\n  \n{\"text\":\"b\"}");
  EXPECT_EQ(places(path), (std::vector<std::string>{path.string() + ":1", path.string() + ":4"}));
}

TEST(DataFiles, HaveWeightsAfterAColon) {
  const TempFolder folder;
  const auto file = [&](const char* name) { return folder.write(name, "{}"); };
  const std::string plain = file("a.jsonl").string(), odd = file("c.jsonl:7").string();
  file("b.jsonl");
  using Files = std::vector<DataFile>;
  EXPECT_EQ(data_files({plain, plain + ":2", plain + ":0.5"}), (Files{{plain, 1}, {plain, 2}, {plain, 0.5}}));
  EXPECT_EQ(data_files({odd}), (Files{{odd, 1}}));                      // what exists is meant by its name
  EXPECT_EQ(data_files({plain + ":x2"}), (Files{{plain + ":x2", 1}}));  // that it is not there is said later
  EXPECT_EQ(data_files({plain + ":"}), (Files{{plain + ":", 1}}));
  EXPECT_EQ(data_files({folder.path().string() + ":3"}),
            (Files{{folder.path() / "a.jsonl", 3}, {folder.path() / "b.jsonl", 3}}));
  for (const char* weight : {":0", ":-1", ":0.0001", ":1001", ":inf", ":nan", ":1e999"}) {
    try {
      data_files({plain + weight});
      FAIL() << weight;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("expected 0.001 to 1000")) << weight;
    }
  }
}

TEST(TrainingExample, RefusesFilesThatHoldNothing) {
  const TempFolder folder;
  const auto message = [](const std::filesystem::path& path) {
    try {
      places(path);
      return std::string("taken");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(message(folder.write("empty.jsonl", "\n\n")),
              HasSubstr("empty.jsonl: is empty; expected a JSON object a line"));
  EXPECT_THAT(message(folder / "nosuch.jsonl"), HasSubstr("nosuch.jsonl: cannot open: No such file"));
  EXPECT_THAT(message(folder.path()), HasSubstr("is a folder"));
  EXPECT_THAT(message(folder.write("d.jsonl.xz", "x")), HasSubstr("unpack it first"));
}

}  // namespace
}  // namespace ashlar
