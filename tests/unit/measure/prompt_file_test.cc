#include "measure/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

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

TEST(PromptFile, OnlyJsonl) {
  for (const char* name : {"prompts.json", "prompts.txt", "prompts.jsonl.gz", "prompts"}) {
    try {
      read_prompt_file(name, 0);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(".jsonl"));
    }
  }
  EXPECT_THROW(read_prompt_file("no-such-file.jsonl", 0), Error);
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
