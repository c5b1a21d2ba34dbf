// SPDX-License-Identifier: Apache-2.0
// A model whose checkpoint brings a layer to draft: found by itself, distinguished from drafter folders, used by
// sessions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "golden/head_folder.h"
#include "session/answers.h"
#include "session/drafter_check.h"
#include "session/session.h"
#include "unit/session/one_character_tokenizer.h"

namespace ashlar::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Own {
  const char* target;  // of tests/data/families
  const char* head;    // of tests/data/heads
  const char* prefix;  // of its tensors' names
};

class OwnLayer : public ::testing::TestWithParam<Own> {
 protected:
  OwnLayer() { std::ofstream(folder_.path() / "tokenizer.json") << one_character_tokenizer().dump(); }
  ModelChoice choose(const std::string& drafter) const { return locate_models(folder_.path().string(), drafter, {}); }
  SessionOptions options(const std::string& drafter) const {
    SessionOptions made;
    made.device = "cpu";
    made.model = folder_.path().string();
    made.drafter = drafter;
    made.quiet = true;
    return made;
  }
  static std::vector<int32_t> answer_of(Session& session) {
    std::vector<AnswerJob> jobs(1);
    jobs[0].request.prompt = session.encode_raw("Count from 1 to 20.");
    jobs[0].request.max_tokens = 40;
    AnswerListener listener;
    return run_answers(session.start(), session.tokenizer(), std::move(jobs), listener).front().tokens;
  }
  const HeadFolder folder_{data_folder() / "families" / GetParam().target, data_folder() / "heads" / GetParam().head};
};
INSTANTIATE_TEST_SUITE_P(Spellings, OwnLayer,
                         ::testing::Values(Own{"qwen3_5_text", "mtp_fitted", "mtp."},
                                           Own{"glm4_moe", "mtp_glm", "model.layers.2."}),
                         [](const auto& info) { return std::string(info.param.target); });

TEST_P(OwnLayer, IsTheDefaultWhereNoDrafterLiesNextToTheModel) {
  for (const char* drafter : {"", "mtp"}) {
    const ModelChoice choice = choose(drafter);
    EXPECT_TRUE(choice.drafts_itself);
    EXPECT_EQ(choice.drafter, choice.model);
    EXPECT_FALSE(choice.wants_ngrams || choice.drafter_was_found);
  }
  for (const char* drafter : {"none", "ngram"}) EXPECT_FALSE(choose(drafter).drafter) << drafter;
  const fs::path sibling = folder_.path().string() + "-eagle3";
  fs::create_directory(sibling);
  const ModelChoice choice = choose("");
  fs::remove(sibling);
  EXPECT_EQ(choice.drafter, sibling);
  EXPECT_FALSE(choice.drafts_itself);
}

TEST_P(OwnLayer, SessionsDraftWithItAndSayTheSame) {
  Session plain(options("none"));
  const std::vector<int32_t> expected = answer_of(plain);
  EXPECT_EQ(expected.size(), 40U);
  EXPECT_FALSE(plain.has_drafter());
  for (const char* drafter : {"", "mtp"}) {
    SessionOptions asked = options(drafter);
    asked.dflash.passes = 2;  // of blocks
    Session session(asked);
    EXPECT_TRUE(session.has_drafter());
    EXPECT_EQ(session.drafter_name(), "mtp");
    EXPECT_THAT(session.describe(), HasSubstr("its own layer"));
    std::string notes;
    for (const std::string& note : session.notes()) notes += note + "\n";
    EXPECT_THAT(notes, HasSubstr("this drafter has no use for several passes: --passes changes nothing\n"));
    EXPECT_EQ(notes.find("drafting with the layer") != std::string::npos, drafter[0] == '\0');
    EXPECT_EQ(notes.find(std::string("of ") + GetParam().prefix), std::string::npos) << notes;
    const DrafterCheck check = check_drafter(session);
    EXPECT_GE(check.steps, 6);
    EXPECT_EQ(check.settings, "");
    EXPECT_EQ(answer_of(session), expected);
  }
}

TEST_P(OwnLayer, WhatIsMissingIsSaidWhereItWasAskedFor) {
  const SeededCheckpoint without(data_folder() / "families" / GetParam().target);
  std::ofstream(without.folder() / "tokenizer.json") << one_character_tokenizer().dump();
  SessionOptions asked = options("mtp");
  asked.model = without.folder().string();
  try {
    Session(asked).start();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(std::string("no tensors ") + GetParam().prefix + "*"));
  }
  asked.drafter = folder_.path().string();  // another model's layer
  try {
    Session(asked).start();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is a model"));
  }
  try {
    locate_models((models_folder() / "pebble-11m").string(), "mtp", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the family qwen3"));
  }
  asked.drafter.clear();
  EXPECT_TRUE(Session(asked).drafts());  // n-grams
}

}  // namespace
}  // namespace ashlar::testing
