// SPDX-License-Identifier: Apache-2.0
#include "app/chat/chat_complete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <filesystem>
#include <fstream>

#include "app/chat/chat_state.h"
#include "app/chat/line_layout.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ChatComplete, OffersCommandsThatThereAre) {
  for (const std::string& command : complete_chat("/").choices) {
    ChatState state;
    EXPECT_THAT(run_chat_command(state, command).reply, testing::Not(testing::HasSubstr("there is no command")));
    EXPECT_THAT(complete_chat(command).choices, ElementsAre(command));
  }
  EXPECT_THAT(complete_chat("/re").choices, ElementsAre("/reset", "/retry"));
  EXPECT_THAT(complete_chat("/whatever").choices, IsEmpty());
  for (const char* question : {"", "s", "what /s", " /s"}) EXPECT_THAT(complete_chat(question).choices, IsEmpty());
}

TEST(ChatComplete, OffersSettingsToSet) {
  const ChatCompletion found = complete_chat("/set  to");
  EXPECT_EQ(found.from, 6U);
  EXPECT_THAT(found.choices, ElementsAre("top_k", "top_p"));
  for (const std::string& setting : complete_chat("/set ").choices) {
    ChatState state;
    EXPECT_THAT(run_chat_command(state, "/set " + setting).reply, testing::HasSubstr("must be")) << setting;
  }
  for (const char* other : {"/set top_p 0", "/set top_p=", "/stats to"}) {
    EXPECT_THAT(complete_chat(other).choices, IsEmpty()) << other;
  }
}

TEST(ChatComplete, OffersFilesToLoad) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "talks");
  for (const char* file : {"talk.json", ".hidden", "other"}) std::ofstream(folder / file) << "x";
  const std::string path = folder.path().string() + "/";
  EXPECT_THAT(complete_chat("/load " + path + "ta").choices, ElementsAre(path + "talk.json", path + "talks/"));
  EXPECT_THAT(complete_chat("/save " + path + ".").choices, ElementsAre(path + ".hidden"));
  EXPECT_THAT(complete_chat("/load " + path + "nowhere/").choices, IsEmpty());
  // What would steer the terminal or break the line is not drawn: escape, newline, C1 in UTF-8, bytes that are none.
  for (const char* name : {"bad\x1b[2J", "bad\nline", "bad\xc2\x9b", "bad\xff"}) std::ofstream(folder / name) << "x";
  EXPECT_THAT(complete_chat("/load " + path + "ba").choices, IsEmpty());
  // Others in the folder take no place of what was asked for; of too many nothing is certain.
  for (int i = 0; i < 600; ++i) std::ofstream(folder / ("many-" + std::to_string(i))) << "x";
  EXPECT_THAT(complete_chat("/load " + path + "ta").choices, ElementsAre(path + "talk.json", path + "talks/"));
  EXPECT_THAT(complete_chat("/load " + path + "ma").choices, IsEmpty());
}

TEST(ChatComplete, PutsInWhatIsCertain) {
  EXPECT_EQ(common_start({"/save", "/stats"}), "/s");
  EXPECT_EQ(common_start({}), "");
  EXPECT_EQ(common_start({"gr\u00fcn", "gr\u00f6n"}), "gr");  // the two letters begin with the same byte
  EXPECT_EQ(in_columns({"a", "bbb", "c"}, 80), "a    bbb  c\n");
  EXPECT_EQ(in_columns({"a", "bbb", "c"}, 9), "a    c\nbbb\n");
  EXPECT_EQ(in_columns({"a", "bbb"}, 1), "a\nbbb\n");
}

TEST(ScreenRows, AreThoseOfATerminal) {
  ASSERT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr);
  const auto texts = [](std::wstring_view text, int columns) {
    std::vector<std::wstring> out;
    for (const ScreenRow& row : rows_of(text, columns)) out.push_back(row.text);
    return out;
  };
  EXPECT_THAT(texts(L"", 10), ElementsAre(L""));
  EXPECT_THAT(texts(L"abcd", 3), ElementsAre(L"abc", L"d"));
  EXPECT_THAT(texts(L"abc", 3), ElementsAre(L"abc", L""));                      // the cursor stands in the next row
  EXPECT_THAT(texts(L"a\u77f3\u77f3", 4), ElementsAre(L"a\u77f3", L"\u77f3"));  // no half of a wide character
  EXPECT_THAT(texts(L"abe\u0301d", 3), ElementsAre(L"abe\u0301", L"d"));
  EXPECT_THAT(texts(L"a\nb", 3), ElementsAre(L"a", L"b"));
  EXPECT_THAT(texts(L"a\tb", 9), ElementsAre(L"a\tb", L""));
  EXPECT_THAT(texts(L"a\1b", 3), ElementsAre(L"a\1", L"b"));
  EXPECT_TRUE(rows_of(L"abcd", 3)[0].is_full);
  EXPECT_FALSE(rows_of(L"ab\nc", 3)[0].is_full);
  std::setlocale(LC_CTYPE, "C");
}

}  // namespace
}  // namespace ashlar
