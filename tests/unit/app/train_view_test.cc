// SPDX-License-Identifier: Apache-2.0
#include "app/train/train_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/train/presets.h"
#include "app/train/train_flags.h"
#include "base/error.h"

namespace ashlar {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(TrainView, ShowsAStepOnOneLine) {
  StepFigures figures;
  figures.step = 120;
  figures.steps = 2000;
  figures.report.loss = 3.21449;
  figures.report.expected_acceptance = 1.9249;
  EXPECT_EQ(step_line(figures, 2310.4, 723),
            "step 120 of 2000  loss 3.214  acceptance 1.92  2310 tokens/s  12:03 left");
  figures.report.skipped = true;
  figures.skipped = 2;
  EXPECT_THAT(step_line(figures, 2310.4, 723), HasSubstr("skipped: loss or gradient is no number"));
  EXPECT_THAT(step_line(figures, 2310.4, 723), HasSubstr("left  2 skipped"));
}

TEST(TrainView, WritesDurationsAsClocksDo) {
  EXPECT_EQ(duration_text(0.2), "00:00");
  EXPECT_EQ(duration_text(59.6), "01:00");
  EXPECT_EQ(duration_text(3599.4), "59:59");
  EXPECT_EQ(duration_text(3765), "1:02:45");
}

// Two answers by hand: 3 steps of 2, 2 and 4 tokens, and 1 step of 2; of the four first drafts all were accepted.
TEST(TrainView, ComparesTrainingWithServing) {
  RequestStats one, other;
  one.verify_steps = 3;
  one.lengths = {0, 0, 2, 0, 1};
  one.accepted_at = {3, 1, 1};
  one.drafted_at = {3, 3, 3};
  other.verify_steps = 1;
  other.lengths = {0, 0, 1};
  other.accepted_at = {1, 0, 0};
  other.drafted_at = {1, 1, 1};
  EvaluationFigures figures;
  figures.n_documents = 2;
  figures.served.add(one);
  figures.served.add(other);
  figures.documents.expected_acceptance = 1.75;
  figures.documents.position_accuracy = {0.5, 0.25};
  figures.answers.expected_acceptance = 2.25;
  figures.answers.position_accuracy = {0.75, 0.5};
  figures.steps.steps = 8;
  figures.steps.tokens = 19;
  figures.steps.first_accepted = 6;
  figures.steps.accepted_at = {6, 3};
  const std::string text = evaluation_text(figures);
  EXPECT_THAT(text, HasSubstr("held-out documents: 2"));
  EXPECT_THAT(text, HasSubstr("1.750       50.0 %"));
  EXPECT_THAT(text, HasSubstr("2.250       75.0 %"));
  EXPECT_THAT(text, HasSubstr("2.375       75.0 %"));
  EXPECT_THAT(text, HasSubstr("2.500      100.0 %"));  // 10 tokens of 4 steps
  EXPECT_THAT(text, HasSubstr("  +0.500  the target's own answers"));
  EXPECT_THAT(text, HasSubstr("  +0.125  steps begin"));
  EXPECT_THAT(text, HasSubstr("  +0.125  serving itself"));
  // By position: right by itself, and accepted in 8 steps and in 4.
  EXPECT_THAT(text, ContainsRegex("\n  1 +75.0 % +75.0 % +100.0 %\n  2 +50.0 % +37.5 % +[0-9.]+ %\n  3 +- +- "));
  const Json json = evaluation_json(figures);
  EXPECT_EQ(json["served"], Json(2.5));
  EXPECT_EQ(json["answers_by_position"], Json({0.75, 0.5}));
  EXPECT_EQ(json["in_steps_by_position"], Json({0.75, 0.375}));
}

TrainOptions parsed(const std::string& arguments) {
  CLI::App app;
  TrainCommand command;
  add_train_flags(app, command);
  app.parse(arguments, false);
  return train_options(command);
}

TEST(TrainFlags, ReachWhereTheyBelong) {
  const TrainOptions options = parsed(
      "MODEL --data a.jsonl --data b.jsonl:2.5 -o out --drafter-layers 3 --block-size 8 --aux-layers 1,4,7 --steps 77 "
      "--batch-tokens 99 --anchors 12 --max-length 55 --learning-rate 0.001 --position-weights decay --optimizer muon "
      "--compute f32 --loss lk --schedule linear --format speculators --head dflash2 --selector-weight 0.25 --seed 5 "
      "--gpus 2 --resume "
      "--hidden-states states "
      "--checkpoint-every 6");
  EXPECT_EQ(options.data, (std::vector<DataFile>{{"a.jsonl", 1}, {"b.jsonl", 2.5}}));
  EXPECT_EQ(options.output, "out");
  EXPECT_EQ(options.drafter.layers, 3);
  EXPECT_EQ(options.drafter.block_size, 8);
  EXPECT_THAT(options.drafter.aux_layers, ::testing::ElementsAre(1, 4, 7));
  EXPECT_EQ(options.steps, 77);
  EXPECT_EQ(options.batch_tokens, 99);
  EXPECT_EQ(options.max_anchors, 12);
  EXPECT_EQ(options.max_length, 55);
  EXPECT_EQ(options.learning_rate, 0.001);
  EXPECT_EQ(options.weights, PositionWeights::kDecay);
  EXPECT_EQ(options.optimiser, MatrixOptimiser::kMuon);
  EXPECT_EQ(options.compute, DType::kF32);
  EXPECT_EQ(options.schedule, LearningRateSchedule::kLinear);
  EXPECT_EQ(options.distribution, DistributionLoss::kLk);
  EXPECT_EQ(options.form, DrafterForm::kSpeculators);
  EXPECT_EQ(options.drafter.head, "dflash2");
  EXPECT_EQ(options.selector_weight, 0.25);
  EXPECT_EQ(options.seed, 5u);
  EXPECT_EQ(options.gpus, 2);
  EXPECT_TRUE(options.resume);
  EXPECT_EQ(options.hidden_states, "states");
  EXPECT_EQ(options.checkpoint_every, 6);
}

// Every recipe is one of flags that there are; those that are given win, and leave out what they exclude.
TEST(TrainPresets, StandInFrontOfOtherFlags) {
  const auto with_preset = [](const std::string& name, std::vector<std::string> more) {
    CLI::App app("", "train");
    TrainCommand command;
    add_train_flags(app, command);
    std::vector<std::string> args = {"MODEL", "--data=a", "-o", "b", "--preset=" + name};
    args.insert(args.end(), more.begin(), more.end());
    args = with_train_preset(app, args);
    std::reverse(args.begin(), args.end());
    app.parse(args);
    return train_options(command);
  };
  ASSERT_GE(train_presets().size(), 4U);
  for (const TrainPreset& preset : train_presets()) {
    EXPECT_NE(with_preset(preset.name, {}).max_anchors, TrainOptions{}.max_anchors) << preset.name;
  }
  const TrainOptions options = with_preset("qwen3", {"--learning-rate", "1e-3", "--minutes=5"});
  EXPECT_EQ(options.max_anchors, 512);
  EXPECT_EQ(options.max_length, 3072);
  EXPECT_EQ(options.weights, PositionWeights::kDecay);
  EXPECT_EQ(options.learning_rate, 1e-3);
  EXPECT_EQ(options.epochs, TrainOptions{}.epochs);
  EXPECT_EQ(with_preset("qwen3", {}).epochs, 6);
  EXPECT_EQ(with_preset("qwen3", {"--from", "x"}).drafter.layers, 0);
  EXPECT_THROW(with_preset("nosuch", {}), CLI::ParseError);
}

// A method has defaults of its own, and flags that are not its.
TEST(TrainFlags, FollowTheMethod) {
  const auto with_method = [](std::vector<std::string> more) {
    CLI::App app("", "train");
    TrainCommand command;
    add_train_flags(app, command);
    std::vector<std::string> args = {"MODEL", "--data=a", "-o", "b", "--method=eagle3"};
    args.insert(args.end(), more.begin(), more.end());
    args = with_train_preset(app, args);
    std::reverse(args.begin(), args.end());
    app.parse(args);
    check_train_flags(app, command);
    return train_options(command);
  };
  EXPECT_EQ(with_method({}).drafter.block_size, 8);
  EXPECT_EQ(with_method({}).weights, PositionWeights::kDecay);
  EXPECT_EQ(with_method({"--block-size", "5", "--position-weights=dpace"}).drafter.block_size, 5);
  EXPECT_EQ(with_method({"--block-size", "5", "--position-weights=dpace"}).weights, PositionWeights::kDpace);
  for (const TrainPreset& preset : train_presets()) {  // without their lines for flags that are not the method's
    const TrainOptions options = with_method({"--preset", preset.name});
    EXPECT_EQ(options.drafter.layers, 0) << preset.name;
    EXPECT_NE(options.max_anchors, TrainOptions{}.max_anchors) << preset.name;
  }
  EXPECT_NO_THROW(with_method({"--from", "x"}));
  for (const char* flag :
       {"--head=dflash2", "--drafter-layers=2", "--mask-token=3", "--selector-weight=2", "--format=z-lab"}) {
    EXPECT_THROW(with_method({flag}), Error) << flag;
  }
}

TEST(TrainFlags, RefuseEachOther) {
  const std::string both = "--data a -o b ";
  for (const char* pair :
       {"--steps 5 --epochs 2", "--steps 5 --minutes 2", "--epochs 5 --minutes 2", "--from x --block-size 8",
        "--dry-run --resume", "--evaluate --resume", "--capture", "--hidden-states x --capture --dry-run"}) {
    EXPECT_THROW(parsed(both + pair), CLI::ParseError) << pair;
  }
  EXPECT_THROW(parsed("--data a"), CLI::ParseError);
  EXPECT_THROW(parsed(both + "--head lilicorr"), CLI::ParseError);              // is read only
  EXPECT_EQ(parsed(both + "--from x --head dflash2").drafter.head, "dflash2");  // a plain drafter may get one
  EXPECT_EQ(parsed(both + "--from x --head dspark").drafter.head, "dspark");
  EXPECT_EQ(parsed(both).epochs, TrainOptions{}.epochs);
}

}  // namespace
}  // namespace ashlar
