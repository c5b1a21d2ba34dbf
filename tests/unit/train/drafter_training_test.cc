// SPDX-License-Identifier: Apache-2.0
// The real trainer in a run, on a tiny target: what is resumed is what was never stopped, and what is written drafts.

#include "train/run/drafter_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "decode/registry.h"
#include "device/train_ops.h"
#include "model/drafters/head_config.h"
#include "temp_folder.h"
#include "train/data/frequent_tokens.h"
#include "train/drafter/drafter_parameters.h"
#include "train/eagle3/eagle3_drafter.h"
#include "train/export/drafter_folder.h"
#include "train/export/drafter_form.h"
#include "train/mtp/mtp_drafter.h"
#include "train/run/block_drafter.h"
#include "train/run/served_evaluation.h"
#include "train/run/train_run.h"
#include "train/run/train_state.h"
#include "unit/train/tiny_training.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWindow = "dflash_window";
constexpr const char* kCausalWindow = "dflash_causal_window";
constexpr const char* kEagle3 = "eagle3";
constexpr const char* kEagle3OfSome = "eagle3_vocabulary";
constexpr const char* kMtp = "mtp";
constexpr const char* kMarkov = "dspark";
constexpr const char* kOwnMtp = "mtp_of_target";

std::vector<std::string> trained_kinds() {
  std::vector<std::string> all = designed_heads();
  for (const char* name : {kWindow, kCausalWindow, kEagle3, kEagle3OfSome, kMtp, kOwnMtp}) all.emplace_back(name);
  return all;
}

/// With each head that is trained, and with those that draft one token at a time.
class DrafterTrainingOfHeads : public DrafterTraining, public ::testing::WithParamInterface<std::string> {
 protected:
  DrafterTrainingOfHeads() : DrafterTraining(brings() ? "qwen3_5_text" : "qwen3", brings() ? "mtp_fitted" : "") {}
  /// Whether the target has a layer to draft of its own.
  static bool brings() { return GetParam() == kOwnMtp; }

  TrainedDrafter trained() const override {
    DrafterWishes wishes;
    wishes.block_size = 8;
    if (GetParam() == kEagle3) return eagle3_drafter(design_eagle3(model_->config(), wishes));
    if (GetParam() == kEagle3OfSome) {  // of the 80 tokens that go round a few are never drafted
      wishes.draft_vocab = 72;
      return eagle3_drafter(design_eagle3(model_->config(), wishes),
                            frequent_tokens(documents_, model_->config().vocab, wishes.draft_vocab));
    }
    if (GetParam() == kMtp || brings()) {
      wishes.block_size = 4;
      return mtp_drafter(design_mtp(model_->config(), wishes), model_->config());
    }
    DflashConfig config = drafter_;
    if (GetParam() == kWindow || GetParam() == kCausalWindow) {
      // Of documents of 40 tokens most lies outside; the last layer sees everything, as published drafters have it.
      LayerAttention layer = config.stack.layers.front();
      layer.window = config.block_size;
      layer.causal = GetParam() == kCausalWindow;
      config.stack.layers.insert(config.stack.layers.begin(), layer);
      config.stack.n_layers = static_cast<int32_t>(config.stack.layers.size());
    } else {
      add_head(GetParam(), config);
    }
    return block_drafter(config);
  }
};
INSTANTIATE_TEST_SUITE_P(All, DrafterTrainingOfHeads, ::testing::ValuesIn(trained_kinds()),
                         [](const auto& info) { return info.param; });

TEST_P(DrafterTrainingOfHeads, GoesOnToTheBit) {
  const TempFolder folder;
  EXPECT_TRUE(make(folder / "whole", 3).run(quiet_, [] { return false; }));
  int left = 2;
  EXPECT_FALSE(make(folder / "parts", 3).run(quiet_, [&] { return left-- == 0; }));
  TrainRun rest = make(folder / "parts", 3);
  rest.resume();
  EXPECT_TRUE(rest.run(quiet_, [] { return false; }));
  for (const char* file : {TrainRun::kState, "model.safetensors"}) {
    EXPECT_EQ(bytes(folder / "parts" / file), bytes(folder / "whole" / file)) << file;
  }
}

// What the target would say next is learnt from it alone.
TEST_F(DrafterTraining, LearnsDistributions) {
  const TempFolder folder;
  for (const DistributionLoss loss : {DistributionLoss::kKl, DistributionLoss::kLk}) {
    TrainRun run = make(folder / "d", 12, "cpu", MatrixOptimiser::kAdamW, loss);
    std::vector<EncodedDocument> held;
    for (const size_t i : documents_.held_out()) held.push_back(documents_.document(i));
    const double before = run.evaluate(held).loss;
    for (int step = 0; step < 12; ++step) EXPECT_FALSE(run.step().report.skipped);
    EXPECT_LT(run.evaluate(held).loss, before);
  }
}

// The engine drafts with what was written, and says what it says without.
TEST_P(DrafterTrainingOfHeads, TheFolderDraftsAndAnswersStay) {
  const TempFolder folder;
  EXPECT_TRUE(make(folder / "d", 3).run(quiet_, [] { return false; }));
  const auto answers = [&](const DecoderSpec& spec) {
    Engine engine(*ops_, make_decoder(*model_, spec), {});
    return evaluate_as_served(engine, documents_, documents_.held_out(), {}, 32);
  };
  DecoderSpec drafted;
  drafted.method = method_of_drafter(folder / "d");
  drafted.drafter = folder / "d";
  drafted.dflash.width = 16;
  drafted.ngram = NgramUse::kNever;
  const ServedEvaluation plain = answers({}), fast = answers(drafted);
  ASSERT_EQ(plain.answered.size(), documents_.held_out().size());
  ASSERT_FALSE(plain.answered.empty());
  for (size_t i = 0; i < plain.answered.size(); ++i) {
    EXPECT_EQ(fast.answered[i].ids, plain.answered[i].ids);
    EXPECT_EQ(std::count(fast.answered[i].supervised.begin(), fast.answered[i].supervised.end(), 1), 32);
  }
  EXPECT_GT(fast.acceptance.drafted(), 0);
  EXPECT_EQ(plain.acceptance.drafted(), 0);
}

// What a drafter would do by the trainer's own forward is what it does in the engine, from the folder.
TEST_P(DrafterTrainingOfHeads, ServesWhatTheTrainerExpects) {
  const TempFolder folder;
  TrainRun run = make(folder / "d", 40);
  for (int step = 0; step < 40; ++step) run.step();
  run.save();
  DecoderSpec spec;
  spec.method = method_of_drafter(folder / "d");
  spec.drafter = folder / "d";
  spec.dflash.width = trained().shape.block;
  spec.dflash.branches = 0;
  spec.ngram = NgramUse::kNever;
  Engine engine(*ops_, make_decoder(*model_, spec), {});
  std::vector<size_t> all(documents_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const ServedEvaluation served = evaluate_as_served(engine, documents_, all, {}, 40);
  run.start_from(folder / "d");  // whose weights are rounded to bf16
  const SteppedAcceptance expected = run.evaluate_in_steps(served.answered);
  ASSERT_GT(expected.steps, 0);
  EXPECT_NEAR(served.acceptance.acceptance_length_per_step().value, expected.length(), 0.03 * expected.length());
}

// D-PACE's weights grow as drafts get better, and where a draft follows from the one before they come to sixty times
// what they were: there the loss says nothing, and drafts are counted instead.
TEST_P(DrafterTrainingOfHeads, LearnsWhatGoesRound) {
  const TempFolder folder;
  const bool counts = GetParam() == kMarkov;
  const int steps = counts ? 200 : 60;
  for (const MatrixOptimiser optimiser : {MatrixOptimiser::kAdamW, MatrixOptimiser::kMuon}) {
    TrainRun run = make(folder / "d", steps, "cpu", optimiser);
    TrainReport first, last;
    for (int step = 0; step < steps; ++step) {
      last = run.step().report;
      ASSERT_FALSE(last.skipped);
      if (step == 0) first = last;
    }
    if (counts) {
      EXPECT_LT(first.expected_acceptance, 2);
      EXPECT_GT(last.expected_acceptance, 10);  // of 16
    } else {
      EXPECT_LT(last.loss, 0.5 * first.loss);
    }
  }
}

// Convolutions and what is added to logits change nothing at first, and a selector next to nothing: where the plain
// drafter is, training goes on.
TEST_F(DrafterTraining, APlainDrafterMayGetAHead) {
  const TempFolder folder;
  TrainRun plain = make(folder / "plain", 30);
  for (int step = 0; step < 30; ++step) plain.step();
  plain.save();
  std::vector<EncodedDocument> held;
  for (const size_t i : documents_.held_out()) held.push_back(documents_.document(i));
  plain.start_from(folder / "plain");  // rounded as the others find it
  const TrainReport before = plain.evaluate(held);
  const DflashConfig without = drafter_;
  for (const std::string& head : designed_heads()) {
    if (head == without.head) continue;
    SCOPED_TRACE(head);
    drafter_ = without;
    add_head(head, drafter_);
    TrainRun run = make(folder / head, 30);
    run.start_from(folder / "plain");
    const TrainReport after = run.evaluate(held);
    if (train_shape(drafter_).selector) {
      EXPECT_NEAR(after.expected_acceptance, before.expected_acceptance, 0.1);
    } else {
      EXPECT_EQ(after.expected_acceptance, before.expected_acceptance);
      EXPECT_EQ(after.position_accuracy, before.position_accuracy);
    }
    run.save();
    EXPECT_EQ(read_dflash_config(folder / head).head, head);
    EXPECT_THROW(make(folder / "plain", 30).resume(), Error);  // that was trained without
  }
}

// Another optimiser would go on with moments that mean something else.
TEST_F(DrafterTraining, ResumesWithTheSameOptimiserOnly) {
  const TempFolder folder;
  make(folder / "d", 3).save();
  EXPECT_NO_THROW(make(folder / "d", 3).resume());
  EXPECT_THROW(make(folder / "d", 3, "cpu", MatrixOptimiser::kMuon).resume(), Error);
}

// It would change nothing with other heads, and say that it did.
TEST_F(DrafterTraining, ASelectorsWeightNeedsASelector) {
  const MakeTrainer make_trainer = drafter_training(*model_, "cpu", {});
  TrainOptions options;
  options.steps = 1;
  for (const std::string& head : designed_heads()) {
    DflashConfig config = drafter_;
    add_head(head, config);
    const TrainedDrafter drafter = block_drafter(config);
    options.selector_weight = 1;
    EXPECT_NO_THROW(make_trainer(drafter, options)) << head;
    options.selector_weight = 0.5;
    if (config.selector) {
      EXPECT_NO_THROW(make_trainer(drafter, options)) << head;
    } else {
      EXPECT_THROW(make_trainer(drafter, options), Error) << head;
    }
  }
}

// Serving takes a confidence head without a bias, which is one of 0; what it multiplies with must be there.
TEST_F(DrafterTraining, ARatingMayLackItsBias) {
  const TempFolder folder;
  DflashConfig rated = drafter_;
  add_head("dspark", rated);
  EXPECT_EQ(block_drafter(rated).gamma, 4);  // as DeepSpec and speculators have it
  EXPECT_EQ(block_drafter(drafter_).gamma, 7);
  const std::unique_ptr<TrainOps> ops = make_train_ops("cpu", {});
  DrafterParameters parameters(*ops, train_shape(rated), DType::kF32);
  parameters.initialise(1);
  const std::span<const TrainParameter> tensors = parameters.list();
  const auto values = [&](const std::string& name) {
    return std::ranges::find(tensors, name, &TrainParameter::name)->values;
  };
  std::vector<TensorToWrite> written = values_of(tensors);
  const auto without = [&](const std::string& name) {
    std::vector<TensorToWrite> left = written;
    EXPECT_EQ(std::erase_if(left, [&](const TensorToWrite& one) { return one.name == name; }), 1U);
    write_drafter_folder(folder / name, zlab_config(rated), left);
    return folder / name;
  };
  const fs::path unbiased = without("confidence_head.proj.bias"), unrated = without("confidence_head.proj.weight");
  const float before = values("markov_head.markov_w1.weight")[5];
  ASSERT_NE(before, 0.0F);
  values("markov_head.markov_w1.weight")[5] = values("confidence_head.proj.bias")[0] = 7;
  load_drafter_weights(unbiased, tensors);
  EXPECT_NEAR(values("markov_head.markov_w1.weight")[5], before, std::abs(before) / 128);  // bf16
  EXPECT_EQ(values("confidence_head.proj.bias")[0], 0.0F);
  EXPECT_THROW(load_drafter_weights(unrated, tensors), Error);
}

TEST_F(DrafterTraining, TheCpuTrainsInF32Alone) {
  const TempFolder folder;
  TrainOptions options;
  options.output = folder / "d";
  options.steps = 3;
  options.compute = DType::kBF16;
  const auto make_trainer = [&] { drafter_training(*model_, "cpu", {})(block_drafter(drafter_), options); };
  EXPECT_THROW(make_trainer(), Error);
  options.compute = DType::kF32;
  EXPECT_NO_THROW(make_trainer());
}

TEST_F(DrafterTraining, PlansItsMemory) {
  const TempFolder folder;
  const TrainMemory memory = make(folder / "d", 1).memory();
  int64_t parameters = 0;
  TrainRun run = make(folder / "d", 1);
  run.save();
  const SafetensorsFile file(folder / "d" / "model.safetensors");
  for (const auto& [name, tensor] : file.tensors()) parameters += static_cast<int64_t>(tensor.bytes / 2);
  EXPECT_EQ(memory.parameters, parameters);
  EXPECT_GT(memory.step, 0);
  // Muon's matrices: the largest one of the drafter, twice, at least.
  const TrainMemory of_muon = make(folder / "m", 1, "cpu", MatrixOptimiser::kMuon).memory();
  const int64_t largest = int64_t{drafter_.stack.hidden} * train_shape(drafter_).aux_width;
  EXPECT_GE(of_muon.step, memory.step + int64_t{2 * sizeof(float)} * largest);
}

// The bundled drafter on the answers of its target, all of it PyTorch's: forward, blocks, steps and weights are those
// of serving, or PyTorch would have accepted other lengths.
TEST(DrafterTrainingOfPebble, ItsStepsAreThoseThatPyTorchServes) {
  const std::unique_ptr<Ops> ops = make_device("cpu", {});
  const std::unique_ptr<Model> model = Model::load(*ops, testing::models_folder() / "pebble-11m", 512);
  const fs::path folder = testing::models_folder() / "pebble-11m-dflash";
  const Json json = read_json_file(testing::data_folder() / "pebble-11m" / "goldens.json");
  DocumentSet documents(512);
  std::vector<EncodedDocument> answers;
  int64_t steps = 0, tokens = 0;
  for (const Json& golden : json["cases"]) {
    EncodedDocument& answer = answers.emplace_back();
    answer.ids = golden["prompt_ids"].get<std::vector<int32_t>>();
    answer.supervised.assign(answer.ids.size(), 0);
    for (const Json& id : golden["greedy_ids"]) answer.ids.push_back(id.get<int32_t>());
    answer.supervised.resize(answer.ids.size(), 1);
    documents.add(answer);
    const auto lengths = golden["accept_lengths"].get<std::vector<int64_t>>();
    steps += static_cast<int64_t>(lengths.size());
    tokens += static_cast<int64_t>(golden["greedy_ids"].size()) - 1;
  }
  documents.end_file();
  TrainOptions options;
  options.steps = 1;
  options.max_length = 384;
  TrainRun run(*model, documents, block_drafter(read_dflash_config(folder)), options,
               drafter_training(*model, "cpu", {}));
  run.start_from(folder);
  const SteppedAcceptance found = run.evaluate_in_steps(answers);
  EXPECT_EQ(found.tokens, tokens);
  // The target's hidden states are in bf16 here and there, so that near equals may change places.
  EXPECT_NEAR(static_cast<double>(found.steps), static_cast<double>(steps), 0.02 * static_cast<double>(steps));
}

}  // namespace
}  // namespace ashlar
