// SPDX-License-Identifier: Apache-2.0
// The run around a trainer: order, log, checkpoints, resuming.

#include "train/run/train_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "base/error.h"
#include "temp_folder.h"
#include "train/run/served_evaluation.h"
#include "unit/train/noisy_trainer.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Stops between two steps, as Ctrl-C does, wherever that is: what goes on is as if nothing had been.
TEST_F(TrainRunning, GoesOnToTheBitWhereverItStopped) {
  const TempFolder folder;
  EXPECT_TRUE(make(options(folder / "whole")).run(quiet_, kNever));
  for (const int after : {0, 1, 2, 3, 4}) {
    const TrainOptions parts = options(folder / std::to_string(after));
    int left = after;
    EXPECT_FALSE(make(parts).run(quiet_, [&] { return left-- == 0; }));
    TrainRun rest = make(parts);
    rest.resume();
    EXPECT_EQ(rest.steps_done(), after);
    EXPECT_TRUE(rest.run(quiet_, kNever));
    for (const char* file : {TrainRun::kState, "model.safetensors", "config.json", TrainRun::kSettings}) {
      EXPECT_EQ(bytes(parts.output / file), bytes(folder / "whole" / file)) << file << " after " << after;
    }
  }
}

// A kill -9 at many moments, also in the midst of a checkpoint: the folder holds an old or a new one, and what goes on
// from there ends like a run that was never killed.
TEST_F(TrainRunning, SurvivesAKillAtAnyMoment) {
  const TempFolder folder;
  TrainOptions parts = options(folder / "whole");
  parts.checkpoint_every = 1;
  EXPECT_TRUE(make(parts).run(quiet_, kNever));
  std::mt19937 random(8);
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    parts.output = folder / ("killed" + std::to_string(round));
    const pid_t child = fork();
    if (child == 0) {
      make(parts).run(quiet_, kNever);
      _exit(0);
    }
    usleep(static_cast<useconds_t>(random() % 60'000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    TrainRun rest = make(parts);
    if (fs::exists(parts.output / TrainRun::kState)) rest.resume();
    EXPECT_TRUE(rest.run(quiet_, kNever));
    EXPECT_EQ(bytes(parts.output / TrainRun::kState), bytes(folder / "whole" / TrainRun::kState)) << round;
  }
  EXPECT_GT(killed, 0);
}

// Hidden states that the folder lacks are computed once and kept; where it cannot be written, each time.
TEST_F(TrainRunning, KeepsHiddenStatesThatWereMissing) {
  const TempFolder folder;
  EXPECT_TRUE(make(options(folder / "without", 20)).run(quiet_, kNever));
  TrainOptions parts = options(folder / "made", 20);
  parts.hidden_states = folder / "states";
  fs::create_directory(parts.hidden_states);
  EXPECT_TRUE(make(parts).run(quiet_, kNever));
  for (const size_t document : documents_.training()) {
    EXPECT_TRUE(fs::exists(parts.hidden_states / ("hs_" + std::to_string(document) + ".safetensors"))) << document;
  }
  parts.output = folder / "read";
  EXPECT_TRUE(make(parts).run(quiet_, kNever));
  parts.output = folder / "unwritable";
  parts.hidden_states = folder / "nowhere";
  struct Warnings : TrainListener {
    void on_warning(const std::string& what) override { all.push_back(what); }
    std::vector<std::string> all;
  } warnings;
  EXPECT_TRUE(make(parts).run(warnings, kNever));
  EXPECT_THAT(warnings.all, ::testing::ElementsAre(HasSubstr("nowhere/hs_")));  // once
  for (const char* name : {"made", "read", "unwritable"}) {
    EXPECT_EQ(bytes(folder / name / TrainRun::kState), bytes(folder / "without" / TrainRun::kState)) << name;
  }
}

TEST_F(TrainRunning, CountsStepsWithoutNumbersAndEndsAfterTen) {
  const TempFolder folder;
  struct Counter : TrainListener {
    void on_step(const StepFigures& figures) override { skipped = figures.skipped; }
    int64_t skipped = 0;
  } counter;
  EXPECT_TRUE(
      make(options(folder / "some", 20), noisy([](int64_t step) { return step % 2 == 1; })).run(counter, kNever));
  EXPECT_EQ(counter.skipped, 10);
  TrainRun broken = make(options(folder / "all", 40), noisy([](int64_t step) { return step >= 4; }));
  try {
    broken.run(counter, kNever);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("10 steps in a row was no number; try a lower --learning-rate"));
  }
  EXPECT_EQ(broken.steps_done(), 14);
}

TEST_F(TrainRunning, RefusesToGoOnWithOtherSettings) {
  const TempFolder folder;
  EXPECT_TRUE(make(options(folder / "d", 2)).run(quiet_, kNever));
  const auto refusal = [&](const TrainOptions& changed) {
    try {
      make(changed).resume();
      return std::string("taken");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  TrainOptions changed = options(folder / "d", 2);
  EXPECT_EQ(refusal(changed), "taken");
  changed.seed = 1;
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with seed 0, and now it is 1"));
  changed = options(folder / "d", 2);
  changed.schedule = LearningRateSchedule::kLinear;
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with schedule \"cosine\", and now it is \"linear\""));
  changed = options(folder / "d", 3);
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with steps 2, and now it is 3"));
  changed = options(folder / "d", 2);
  changed.target = "another";
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with target \"\", and now it is \"another\""));
  changed = options(folder / "d", 2);
  changed.compute = DType::kBF16;
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with compute \"f32\", and now it is \"bf16\""));
  // A state of before there was a choice lacks these settings.
  std::string state = bytes(folder / "d" / TrainRun::kState);
  state.replace(state.find("compute"), 7, "another");
  state.replace(state.find("gpus"), 4, "else");
  state.replace(state.find("content_xxh64"), 13, "before_hashes");
  std::ofstream(folder / "d" / TrainRun::kState, std::ios::binary) << state;
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with compute \"f32\", and now it is \"bf16\""));
  changed.compute = DType::kF32;
  EXPECT_EQ(refusal(changed), "taken");
  changed = options(folder / "d", 2);
  documents_.add({{7, 8, 9}, {0, 1, 1}, 0});
  documents_.end_file();
  EXPECT_THAT(refusal(changed), HasSubstr("was trained with documents 30, and now it is 31"));
}

// Killed before its first checkpoint: train.json alone says what it was.
TEST_F(TrainRunning, BeginsAnewOnlyAsItBegan) {
  const TempFolder folder;
  TrainOptions asked = options(folder / "d", 2);
  asked.from = "a";
  EXPECT_TRUE(make(asked).run(quiet_, kNever));
  fs::remove(asked.output / TrainRun::kState);
  const auto refusal = [&](const std::string& from) -> std::string {
    asked.from = from;
    try {
      make(asked).resume();
      return "taken";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal("a"), "taken");
  EXPECT_THAT(refusal(""), HasSubstr("was trained with from \"a\", and now it is \"\""));
  // Of before there was a choice.
  std::string settings = bytes(asked.output / TrainRun::kSettings);
  settings.replace(settings.find("schedule"), 8, "timetabl");
  std::ofstream(asked.output / TrainRun::kSettings, std::ios::binary) << settings;
  EXPECT_EQ(refusal("a"), "taken");
  std::ofstream(asked.output / TrainRun::kSettings) << "[1]";
  EXPECT_THAT(refusal("a"), HasSubstr("are no object"));
}

TEST_F(TrainRunning, HeldOutDocumentsAreNeverTrainedOn) {
  struct Remembering : NoisyTrainer {
    using NoisyTrainer::NoisyTrainer;
    TrainReport step(std::span<const TrainDocument> documents) override {
      for (const TrainDocument& one : documents) seen->insert({one.ids.begin(), one.ids.end()});
      return NoisyTrainer::step(documents);
    }
    std::set<std::vector<int32_t>>* seen = nullptr;
  };
  std::set<std::vector<int32_t>> seen;
  const TempFolder folder;
  TrainRun run = make(options(folder / "d", 40), [&](const TrainedDrafter& drafter, const TrainOptions& asked) {
    auto trainer = std::make_unique<Remembering>(drafter.shape, asked, [](int64_t) { return false; });
    trainer->seen = &seen;
    return trainer;
  });
  for (int step = 0; step < 40; ++step) run.step();
  const std::vector<size_t> held_out = documents_.held_out();
  ASSERT_EQ(held_out.size(), 1u);
  EXPECT_EQ(seen.size(), documents_.size() - 1);
  const auto ids = documents_.ids(held_out.front());
  EXPECT_EQ(seen.count({ids.begin(), ids.end()}), 0u);
}

// Answer at 4 to 11. Its first token comes with the prompt; blocks begin at 4 (1 right, 2 tokens), 6 (0, 1), 7 (1, 2),
// 9 (0, 1), 10 (1 right: the last token, and none is left for the target).
TEST_F(TrainRunning, GoesThroughAnswersInTheStepsOfServing) {
  const TempFolder folder;
  TrainRun run = make(options(folder / "d", 1));
  EncodedDocument answer;
  for (int32_t i = 0; i < 12; ++i) answer.ids.push_back(10 + i);
  answer.supervised.assign(12, 0);
  std::fill(answer.supervised.begin() + 4, answer.supervised.end(), uint8_t{1});
  const SteppedAcceptance found = run.evaluate_in_steps({&answer, 1});
  EXPECT_EQ(found.steps, 5);
  EXPECT_EQ(found.tokens, 7);
  EXPECT_EQ(found.first_accepted, 3);
  EXPECT_EQ(std::vector(found.accepted_at.begin(), found.accepted_at.begin() + 2), (std::vector<int64_t>{3, 0}));
  EncodedDocument one = {{10, 11}, {0, 1}, 0};  // all of it came with the prompt
  const SteppedAcceptance none = run.evaluate_in_steps({&one, 1});
  EXPECT_EQ(none.steps, 0);
  EXPECT_EQ(none.by_position().front(), 0.0);
}

}  // namespace
}  // namespace ashlar
