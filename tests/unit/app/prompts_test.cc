// SPDX-License-Identifier: Apache-2.0
#include "app/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

TEST(Prompts, OneText) {
  EXPECT_EQ(make_prompt("hello", "").messages.dump(), R"([{"role":"user","content":"hello"}])");
  EXPECT_EQ(make_prompt("hello", "be brief").messages.dump(),
            R"([{"role":"system","content":"be brief"},{"role":"user","content":"hello"}])");
}

TEST(Prompts, OneALine) {
  const TempFolder folder;
  const auto prompts = read_prompts(folder.write("a.txt", "first\r\n\n  \nsecond, with \"quotes\"\nlast"), "");
  ASSERT_EQ(prompts.size(), 3U);
  EXPECT_EQ(prompts[0].text, "first");
  EXPECT_EQ(prompts[1].text, "second, with \"quotes\"");
  EXPECT_EQ(prompts[2].text, "last");
}

TEST(Prompts, JsonLines) {
  const TempFolder folder;
  const auto prompts = read_prompts(
      folder.write("b.jsonl",
                   "{\"prompt\": \"one\\ntwo\"}\n\n{\"turns\": [\"three\", \"four\"]}\n"
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"five\"}]}\n{\"prompt_ids\": [4, 5]}"),
      "system");
  ASSERT_EQ(prompts.size(), 4U);
  EXPECT_EQ(prompts[0].text, "one\ntwo");
  EXPECT_EQ(prompts[0].messages[0]["role"], "system");
  EXPECT_EQ(prompts[1].text, "three");
  EXPECT_EQ(prompts[2].text, "five");
  EXPECT_EQ(prompts[2].messages.size(), 2U);
  EXPECT_EQ(prompts[3].ids, (std::vector<int32_t>{4, 5}));
}

TEST(Prompts, NameTheLineThatIsWrong) {
  const TempFolder folder;
  for (const char* bad :
       {"{\"prompt\": \"fine\"}\n{\"nothing\": 1}", "{\"prompt\": \"fine\"}\n{broken", "{\"prompt\": \"fine\"}\n[1]"}) {
    const auto path = folder.write("c.jsonl", bad);
    try {
      read_prompts(path, "");
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("c.jsonl:2")) << bad;
    }
  }
  EXPECT_THROW(read_prompts(folder.write("d.txt", "\n\n"), ""), Error);
  EXPECT_THROW(read_prompts("/nonexistent/file.txt", ""), Error);
}

TEST(Prompts, AFileIsOneText) {
  const TempFolder folder;
  EXPECT_EQ(read_prompt_text(folder.write("e.txt", "line one\nline two\n").string()), "line one\nline two");
  EXPECT_EQ(read_prompt_text(folder.write("f.txt", "").string()), "");
  EXPECT_EQ(read_prompt_text(folder.write("g.txt", "\xEF\xBB\xBFmarked \xEF\xBB\xBF\n").string()),
            "marked \xEF\xBB\xBF");
  EXPECT_EQ(read_prompt_text(folder.write("h.txt", "\xEF\xBB\xBF\r\n").string()), "");
}

}  // namespace
}  // namespace ashlar
