// SPDX-License-Identifier: Apache-2.0
#include "app/chat/chat_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "decode/check_sampling.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using testing::HasSubstr;

std::string reply(ChatState& state, const std::string& line) { return run_chat_command(state, line).reply; }

TEST(ChatState, SettingsAreCheckedAndShown) {
  ChatState state;
  EXPECT_EQ(reply(state, "/set temperature 0.7"), "temperature is now 0.7");
  EXPECT_EQ(state.sampling.temperature, 0.7);
  EXPECT_EQ(reply(state, "  /set   top_k=40 "), "top_k is now 40");
  EXPECT_EQ(state.sampling.top_k, 40);
  EXPECT_EQ(reply(state, "/set seed 9007199254740991"), "seed is now 9007199254740991");
  EXPECT_EQ(state.sampling.seed, 9007199254740991U);
  EXPECT_THAT(reply(state, "/set"), HasSubstr("temperature 0.7\n"));
  for (const char* bad :
       {"temperature", "temperature -1", "temperature warm", "top_p 0", "top_k 1.5", "width 99", "temperature nan"}) {
    EXPECT_THAT(reply(state, std::string("/set ") + bad), HasSubstr("must be")) << bad;
  }
  EXPECT_THAT(reply(state, "/set colour red"), HasSubstr("no setting colour"));
  EXPECT_EQ(state.sampling.temperature, 0.7);
  EXPECT_EQ(check_sampling(state.sampling, 1000), "");
}

// Users of Ollama and llama.cpp type what stands there for it.
TEST(ChatState, WordsOfOtherProgramsAreUnderstoodOrAnswered) {
  ChatState state;
  EXPECT_TRUE(run_chat_command(state, "/bye").quit);
  reply(state, "/system Be brief.");
  state.add("user", "a");
  state.add("assistant", "b");
  EXPECT_TRUE(run_chat_command(state, "/regen").retry);
  EXPECT_EQ(reply(state, "/clear"), "a new conversation");
  EXPECT_EQ(state.messages.size(), 1U);
  EXPECT_EQ(reply(state, "/set parameter temperature 0.7"), "temperature is now 0.7");
  EXPECT_EQ(reply(state, "/set system Be long."), "here it is /system TEXT");
  EXPECT_EQ(reply(state, "/seed 7"), "there is no command /seed; it is /set seed VALUE");
  EXPECT_EQ(reply(state, "/sytem x"), "there is no command /sytem; did you mean /system?");
  EXPECT_EQ(reply(state, "/set temprature 1"), "there is no setting temprature; did you mean temperature?");
  EXPECT_EQ(reply(state, "/quite-another"), "there is no command /quite-another; /help lists them");
}

TEST(ChatState, ResetKeepsTheSystemMessage) {
  ChatState state;
  reply(state, "/system Be brief.");
  state.add("user", "a");
  state.add("assistant", "b");
  reply(state, "/reset");
  EXPECT_EQ(state.messages.dump(), R"([{"role":"system","content":"Be brief."}])");
  EXPECT_EQ(reply(state, "/system"), "Be brief.");  // asking for it does not delete it
  EXPECT_EQ(state.messages.size(), 1U);
  EXPECT_EQ(reply(state, "/system -"), "no system message; a new conversation");
  EXPECT_TRUE(state.messages.empty());
  EXPECT_THAT(reply(state, "/system"), HasSubstr("no system message"));
}

TEST(ChatState, RetryDropsTheAnswerOnly) {
  ChatState state;
  EXPECT_FALSE(run_chat_command(state, "/retry").retry);
  state.add("user", "a");
  state.add("assistant", "b");
  EXPECT_TRUE(run_chat_command(state, "/retry").retry);
  ASSERT_EQ(state.messages.size(), 1U);
  EXPECT_EQ(state.messages[0]["content"], "a");
}

TEST(ChatState, RetryTakesTheNextSeedWhereThereIsChance) {
  ChatState state;
  state.sampling.seed = 41;
  state.add("user", "a");
  state.add("assistant", "b");
  EXPECT_EQ(reply(state, "/retry"), "");
  EXPECT_EQ(state.sampling.seed, 41U);
  state.sampling.temperature = 0.5;
  state.add("assistant", "b");
  EXPECT_EQ(reply(state, "/retry"), "");  // the answer will take a fresh one
  EXPECT_EQ(state.sampling.seed, 41U);
  state.seed_is_given = true;
  state.add("assistant", "b");
  EXPECT_EQ(reply(state, "/retry"), "seed 42");
  EXPECT_EQ(state.sampling.seed, 42U);
  state.seed_is_given = false;
  reply(state, "/set seed 0");
  EXPECT_TRUE(state.seed_is_given);
}

TEST(ChatState, SavesAndLoads) {
  ChatState state;
  state.add("user", "größer 🙂 \xff");  // what is not UTF-8 must not lose the rest
  state.add("assistant", "b");
  const TempFolder folder;
  const std::string file = (folder / "chat.json").string();
  EXPECT_THAT(reply(state, "/save " + file), HasSubstr("saved 2 messages"));
  ChatState other;
  EXPECT_THAT(reply(other, "/load " + file), HasSubstr("loaded 2 messages"));
  EXPECT_EQ(other.messages[0]["content"], "größer 🙂 \xEF\xBF\xBD");
  EXPECT_EQ(other.messages[1]["content"], "b");
}

TEST(ChatState, BadFilesChangeNothing) {
  const TempFolder folder;
  ChatState state;
  state.add("user", "a");
  for (const char* bad :
       {"", "[]", "{\"messages\": 4}", "{\"messages\": [4]}", "{\"messages\": [{\"role\": \"user\"}]}", "{oops"}) {
    EXPECT_THAT(reply(state, "/load " + folder.write("bad.json", bad).string()), HasSubstr("bad.json")) << bad;
    EXPECT_EQ(state.messages.size(), 1U);
  }
  EXPECT_THAT(reply(state, "/load"), HasSubstr("needs a file name"));
  EXPECT_THAT(reply(state, "/save /nonexistent/folder/file"), HasSubstr("cannot be written"));
  EXPECT_THAT(reply(state, "/load /nonexistent"), HasSubstr("/nonexistent"));
}

TEST(ChatState, OtherCommands) {
  ChatState state;
  EXPECT_TRUE(run_chat_command(state, "/quit").quit);
  EXPECT_TRUE(run_chat_command(state, "/stats").wants_stats);
  EXPECT_THAT(reply(state, "/help"), HasSubstr("/reset"));
  EXPECT_THAT(reply(state, "/nonsense 1"), HasSubstr("no command /nonsense"));
  EXPECT_THAT(reply(state, "/"), HasSubstr("no command /"));
}

}  // namespace
}  // namespace ashlar
