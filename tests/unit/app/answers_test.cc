// SPDX-License-Identifier: Apache-2.0
#include "session/answers.h"

#include <gtest/gtest.h>

#include <map>

#include "app/prompts.h"
#include "session/session.h"

namespace ashlar {
namespace {

// One session for all cases: the bundled pair.
class Answers : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("ASHLAR_MODELS", ASHLAR_SOURCE_DIR "/models", 1);
    SessionOptions options;
    options.device = "cpu";
    options.self_test = false;
    options.quiet = true;
    options.max_context = 256;
    options.dflash.width = 8;  // left to itself, a slow build rightly drafts nothing
    session = open_session(options).release();
  }
  static void TearDownTestSuite() { delete session; }

  static AnswerJob job(const std::string& text, int32_t max_tokens) {
    AnswerJob job;
    job.request.prompt = session->encode_chat(make_prompt(text, "").messages);
    job.request.max_tokens = max_tokens;
    job.request.stop_ids = session->config().stop_ids;
    return job;
  }

  static std::vector<Answer> run(std::vector<AnswerJob> jobs) {
    AnswerListener listener;
    return run_answers(session->engine(), session->tokenizer(), std::move(jobs), listener);
  }

  static Session* session;
};
Session* Answers::session = nullptr;

class Collector final : public AnswerListener {
 public:
  void on_text(size_t index, std::string_view text, bool drafted) override {
    texts[index] += text;
    if (drafted) ++drafted_parts;
    EXPECT_EQ(ends.count(index), 0U);
  }
  void on_end(size_t index, const Answer&) override { ++ends[index]; }
  std::map<size_t, std::string> texts;
  std::map<size_t, int> ends;
  int drafted_parts = 0;
};

TEST_F(Answers, TextArrivesInPartsThatMakeUpTheAnswer) {
  Collector collector;
  const std::vector<Answer> answers =
      run_answers(session->engine(), session->tokenizer(),
                  {job("Solve for x: 8x + 5 = 3x + 45", 60), job("Good morning!", 20)}, collector);
  ASSERT_EQ(answers.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(answers[i].text.empty());
    EXPECT_EQ(collector.texts[i], answers[i].text);
    EXPECT_EQ(collector.ends[i], 1);
    EXPECT_EQ(session->tokenizer().decode(answers[i].tokens, true), answers[i].text);
  }
  EXPECT_GT(collector.drafted_parts, 0);
}

TEST_F(Answers, TogetherAsAlone) {
  std::vector<AnswerJob> jobs;
  for (int i = 0; i < 40; ++i) {
    jobs.push_back(job("Count to " + std::to_string(i), 12));
    jobs.back().request.sampling.temperature = 1;
    jobs.back().request.sampling.seed = i;
  }
  const std::vector<Answer> together = run(jobs);
  for (size_t i : {0, 17, 39}) EXPECT_EQ(run({jobs[i]})[0].tokens, together[i].tokens) << i;
}

TEST_F(Answers, EndBeforeAStopString) {
  const Answer whole = run({job("Solve for x: 8x + 5 = 3x + 45", 60)})[0];
  const std::string stop = "sides:";  // lies across tokens
  ASSERT_NE(whole.text.find(stop), std::string::npos);
  AnswerJob cut = job("Solve for x: 8x + 5 = 3x + 45", 60);
  cut.stop = {"never this", stop};
  const Answer answer = run({cut})[0];
  EXPECT_EQ(answer.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(answer.finish, "stop");
  EXPECT_EQ(answer.stop_string, stop);
  ASSERT_LE(answer.tokens.size(), whole.tokens.size());
  EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), whole.tokens.begin()));
  EXPECT_NE(session->tokenizer().decode(answer.tokens, true).find(stop),
            std::string::npos);  // the token that completed it
}

TEST_F(Answers, LogprobsComeOnePerToken) {
  AnswerJob asked = job("Good morning!", 8);
  asked.request.sampling.top_logprobs = 3;
  const Answer answer = run({asked})[0];
  ASSERT_EQ(answer.logprobs.size(), answer.tokens.size());
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    ASSERT_EQ(answer.logprobs[i].n_top, 3);
    EXPECT_EQ(answer.logprobs[i].top_ids[0], answer.tokens[i]);  // greedy
    EXPECT_FLOAT_EQ(answer.logprobs[i].top_values[0], answer.logprobs[i].token);
  }
}

TEST_F(Answers, RefusedOnesSayWhyAndDisturbNobody) {
  AnswerJob empty;
  AnswerJob longer = job("x", 4);
  longer.request.prompt.assign(300, 5);
  const std::vector<Answer> answers = run({empty, job("Good morning!", 4), longer});
  EXPECT_TRUE(answers[0].refused);
  EXPECT_NE(answers[0].error.find("empty"), std::string::npos);
  EXPECT_EQ(answers[1].finish, "length");
  EXPECT_NE(answers[2].error.find("45 too many"), std::string::npos) << answers[2].error;
}

TEST_F(Answers, NoJobsNoAnswers) { EXPECT_TRUE(run({}).empty()); }

}  // namespace
}  // namespace ashlar
