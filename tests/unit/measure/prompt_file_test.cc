// SPDX-License-Identifier: Apache-2.0
#include "measure/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(const std::string& text) {
  try {
    parse_prompts(text, "p.jsonl", 0);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string content(const EvalPrompt& prompt) { return prompt.messages.at(0).at("content").get<std::string>(); }

TEST(PromptFile, EveryForm) {
  const auto prompts = parse_prompts(
      "{\"prompt\": \"one\", \"category\": \"a\"}\n"
      "\n"
      "{\"question_id\": 81, \"turns\": [\"two\", \"then\"]}\r\n"
      "{\"question\": \"three\", \"answer\": \"3\"}\n"
      "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"four\"}]}\n"
      "{\"prompt_ids\": [5, 6], \"prompt\": \"ignored\"}",
      "p.jsonl", 0);
  ASSERT_EQ(prompts.size(), 5U);
  EXPECT_EQ(content(prompts[0]), "one");
  EXPECT_EQ(prompts[0].category, "a");
  EXPECT_EQ(prompts[0].messages.at(0).at("role"), "user");
  EXPECT_EQ(prompts[0].name, "p.jsonl:1");
  EXPECT_EQ(content(prompts[1]), "two");
  EXPECT_EQ(prompts[1].name, "p.jsonl:3");
  EXPECT_EQ(content(prompts[2]), "three");
  EXPECT_EQ(prompts[3].messages.size(), 2U);
  EXPECT_EQ(prompts[4].ids, (std::vector<int32_t>{5, 6}));
  EXPECT_TRUE(prompts[4].messages.is_null());
}

TEST(PromptFile, ByteOrderMarkAndLimit) {
  const std::string text = "\xEF\xBB\xBF{\"prompt\": \"one\"}\n{\"prompt\": \"two\"}\nbroken\n";
  EXPECT_EQ(parse_prompts(text, "p.jsonl", 2).size(), 2U);
  EXPECT_THAT(error_of(text), HasSubstr("p.jsonl:3"));
}

TEST(PromptFile, ErrorsNameFileAndLine) {
  EXPECT_THAT(error_of("{\"prompt\": \"one\"}\n{\"prompt\": 3}"),
              AllOf(StartsWith("[prompts] p.jsonl:2"), HasSubstr("prompt is number"), HasSubstr("expected a string")));
  EXPECT_THAT(error_of("{\"text\": \"one\"}"), AllOf(HasSubstr("p.jsonl:1"), HasSubstr("expected one of the fields")));
  EXPECT_THAT(error_of("[1, 2]"), AllOf(HasSubstr("p.jsonl:1"), HasSubstr("expected a JSON object")));
  EXPECT_THAT(error_of("{\"prompt\": \"\"}"), AllOf(HasSubstr("p.jsonl:1"), HasSubstr("empty")));
  EXPECT_THAT(error_of("{\"prompt_ids\": []}"), AllOf(HasSubstr("p.jsonl:1"), HasSubstr("prompt_ids is empty")));
  EXPECT_THAT(error_of("{\"prompt_ids\": [1, -2]}"), HasSubstr("p.jsonl:1"));
  EXPECT_THAT(error_of("{\"prompt_ids\": [1, 99999999999]}"), HasSubstr("p.jsonl:1"));
  EXPECT_THAT(error_of("{\"turns\": []}"), AllOf(HasSubstr("p.jsonl:1"), HasSubstr("turns")));
  EXPECT_THAT(error_of("{\"turns\": [3]}"), AllOf(HasSubstr("p.jsonl:1"), HasSubstr("the first of turns is number")));
  EXPECT_THAT(error_of("{\"messages\": [{\"role\": \"user\"}]}"),
              AllOf(HasSubstr("p.jsonl:1"), HasSubstr("role and content")));
  EXPECT_THAT(error_of("{\"messages\": {}}"), HasSubstr("p.jsonl:1"));
  EXPECT_THAT(error_of("{\"category\": 3, \"prompt\": \"x\"}"), HasSubstr("category"));
  EXPECT_THAT(error_of("\n\n  \n"), HasSubstr("holds no prompts"));
  EXPECT_THAT(error_of(""), HasSubstr("holds no prompts"));
}

TEST(PromptFile, AValueOverSeveralLinesIsToldWhatALineIs) {
  for (const char* text : {"[\n  {\"prompt\": \"one\"}\n]", "{\n  \"prompt\": \"one\"\n}"}) {
    EXPECT_THAT(error_of(text),
                AllOf(StartsWith("[prompts] p.jsonl:1: not valid JSON at byte 1 of 1: it ends too early"),
                      HasSubstr("expected one JSON object a line")));
  }
}

class PromptFileOnDisk : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) { return folder_.write(name, text); }
  static std::string error_of(const std::filesystem::path& path) {
    try {
      read_prompt_file(path, 0);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TempFolder folder_;
};

TEST_F(PromptFileOnDisk, LinesOfTextAndOfJson) {
  const std::string json = "{\"prompt\": \"one\"}\n\n{\"prompt\": \"two\"}\n";
  for (const char* name : {"a.jsonl", "a.json", "a.ndjson", "a"}) {
    const auto prompts = read_prompt_file(write(name, json), 0);
    ASSERT_EQ(prompts.size(), 2U) << name;
    EXPECT_EQ(content(prompts[1]), "two") << name;
  }
  EXPECT_EQ(content(read_prompt_file(write("a.txt", json), 0)[0]), "{\"prompt\": \"one\"}");
  for (const char* name : {"b.txt", "b", "b.md"}) {
    const auto prompts = read_prompt_file(write(name, "\xEF\xBB\xBFone\r\n\n  \ntwo words"), 0);
    ASSERT_EQ(prompts.size(), 2U) << name;
    EXPECT_EQ(content(prompts[0]), "one") << name;
    EXPECT_EQ(content(prompts[1]), "two words") << name;
    EXPECT_THAT(prompts[1].name, ::testing::EndsWith(":4")) << name;
  }
  EXPECT_EQ(read_prompt_file(write("b.txt", "one\ntwo\n"), 1).size(), 1U);
}

TEST_F(PromptFileOnDisk, WhatIsNoFileOfPrompts) {
  EXPECT_THAT(error_of(write("p.jsonl.gz", "x")), HasSubstr("unpack"));
  EXPECT_THAT(error_of(write("empty.txt", "\n\n")), HasSubstr("holds no prompts"));
  EXPECT_THAT(error_of(write("text.json", "hello\n")), HasSubstr("text.json:1"));
  EXPECT_THAT(error_of("/no/such/file.txt"), HasSubstr("/no/such/file.txt"));
  EXPECT_THAT(error_of("/dev/null"), HasSubstr("holds no prompts"));
}

TEST_F(PromptFileOnDisk, OfAPipe) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "{\"prompt\": \"one\"}\n"; });
  const auto prompts = read_prompt_file(pipe, 0);
  writer.join();
  ASSERT_EQ(prompts.size(), 1U);
  EXPECT_EQ(content(prompts[0]), "one");
}

TEST(PromptFile, FromDisk) {
  const TempFolder folder;
  const auto path = folder.write("prompts.jsonl", "{\"prompt\": \"h\\u00e4user\"}\n");
  const auto prompts = read_prompt_file(path, 0);
  ASSERT_EQ(prompts.size(), 1U);
  EXPECT_EQ(content(prompts[0]), "h\xC3\xA4user");
  EXPECT_EQ(prompts[0].name, path.string() + ":1");
}

TEST(PromptFile, BuiltIn) {
  const auto prompts = builtin_prompts();
  EXPECT_GE(prompts.size(), 20U);
  std::set<std::string> texts, categories;
  for (const EvalPrompt& prompt : prompts) {
    texts.insert(content(prompt));
    categories.insert(prompt.category);
  }
  EXPECT_EQ(texts.size(), prompts.size());
  EXPECT_GE(categories.size(), 5U);
}

}  // namespace
}  // namespace ashlar
