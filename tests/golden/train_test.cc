// SPDX-License-Identifier: Apache-2.0
// Training of a tiny drafter against PyTorch: loss, every gradient, ten steps of the optimiser; and what makes a run
// reproducible. On the reference device, on every instruction set of this machine and on its GPU.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <tuple>

#include "base/error.h"
#include "golden/train_golden.h"

namespace ashlar::testing {
namespace {

constexpr const char* kBf16OnGpu = "cuda_bf16";

std::vector<std::string> places() {
  std::vector<std::string> all = isa_choices();
  all.insert(all.begin(), "ref");
  for (const std::string& device : device_names()) {
    if (device == "cuda") all.insert(all.end(), {"cuda", kBf16OnGpu});
  }
  return all;
}

std::unique_ptr<TrainOps> make_ops(const std::string& place, int32_t threads = 2) {
  DeviceOptions options;
  options.threads = threads;
  if (place == kBf16OnGpu) return make_train_ops("cuda", options);
  if (place == "ref" || place == "cuda") return make_train_ops(place, options);
  options.isa = place;
  return make_train_ops("cpu", options);
}

class Training : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    try {
      ops_ = make_ops(std::get<1>(GetParam()));
    } catch (const Error& error) {
      if (!on_gpu()) throw;
      GTEST_SKIP() << error.what();
    }
    golden_.move_to(*ops_);
    if (in_bf16()) golden_.settings.compute = DType::kBF16;
    trainer_ = golden_.make_trainer(*ops_);
  }
  bool in_bf16() const { return std::get<1>(GetParam()) == kBf16OnGpu; }
  bool on_gpu() const { return std::get<1>(GetParam()) == "cuda" || in_bf16(); }
  /// Bounds of relative errors: products of the GPU round their factors to 10 bits of mantissa, 2^-11 of each; in bf16
  /// activations and their gradients are rounded to 7 bits, 2^-8, each time they are stored.
  double bound(double of_fp32, double of_tf32, double of_bf16) const {
    if (in_bf16()) return of_bf16;
    return on_gpu() ? of_tf32 : of_fp32;
  }

  /// Of the values' norm: of it and of the values' product with noise.
  double error_of_sums(const char* kind, const std::string& name, std::span<const float> values) const {
    const auto expected = golden_.variant[kind][name].get<std::vector<double>>();
    const auto count = static_cast<int64_t>(values.size());
    const std::vector<float> direction = golden_.noise("product." + name, count, 1, 0);
    double squares = 0, product = 0;
    for (size_t i = 0; i < direction.size(); ++i) {
      squares += static_cast<double>(values[i]) * values[i];
      product += static_cast<double>(values[i]) * direction[i];
    }
    return std::max(std::abs(std::sqrt(squares) - expected[0]), std::abs(product - expected[1])) / expected[0];
  }

  std::unique_ptr<TrainOps> ops_;
  TrainGolden golden_{std::get<0>(GetParam())};
  std::unique_ptr<DrafterTrainer> trainer_;
};

TEST_P(Training, LossAndEveryGradientAgree) {
  const TrainReport report = trainer_->differentiate(golden_.documents, golden_.anchors(0));
  const Json& expected = golden_.variant["steps"][0];
  const double loss_error = std::abs(report.loss / expected["loss"].get<double>() - 1);
  EXPECT_LT(loss_error, bound(1e-5, 1e-3, 5e-3));
  EXPECT_NEAR(report.gradient_norm, expected["gradient_norm"].get<double>(),
              bound(1e-4, 3e-3, 2e-2) * report.gradient_norm);
  EXPECT_EQ(report.blocks, expected["blocks"].get<int32_t>());
  EXPECT_EQ(report.labels, expected["labels"].get<int64_t>());
  // Of logits that rounding brings near each other another may be the highest, or the last of the candidates.
  if (!in_bf16() && !(on_gpu() && golden_.shape.selector)) {
    EXPECT_EQ(report.position_accuracy, expected["position_accuracy"].get<std::vector<double>>());
  }
  ASSERT_EQ(trainer_->parameters().size(), golden_.variant["gradients"].size());
  double worst = 0;
  for (const TrainParameter& p : trainer_->parameters()) {
    const double error = error_of_sums("gradients", p.name, p.gradient);
    // Convolutions round what enters a sublayer and what leaves it once more.
    EXPECT_LT(error, bound(1e-4, 1e-2, golden_.shape.convolutions ? 6e-2 : 4e-2)) << p.name;
    worst = std::max(worst, error);
  }
  if (on_gpu()) std::printf("worst relative error of a gradient %.1e, of the loss %.1e\n", worst, loss_error);
}

TEST_P(Training, TenStepsAgree) {
  const Json& steps = golden_.variant["steps"];
  // Gradients that jump where the drafter's chance of a token passes the target's: on which side it is after some steps
  // is what the GPU's rounding of factors decides. One H100 was off by up to 12 % of the norm.
  const bool jumps =
      golden_.name == "tv" || golden_.name == "nla" || golden_.name == "lk" || golden_.name == "markov_tv";
  // What is rounded goes through random convolutions and a choice of candidates, and grows from step to step. One H200
  // was off by up to 2 % of the loss and 6 % of the norm in f32, 6 % and 15 % in bf16; there, where Muon's products are
  // rounded, too, by 44 % of the norm in the seventh step, so that norms are compared in the first five.
  const bool grows = golden_.shape.convolutions || golden_.shape.selector;
  double of_loss = grows ? bound(1e-4, 5e-2, 0.1) : bound(1e-4, 3e-3, 1e-2);
  double of_norm = jumps || grows ? bound(1e-3, 0.2, 0.2) : bound(1e-3, 1e-2, 3e-2);
  // A chain's steps read what the ones before left, with their rounding. One H200 was off by up to 0.8 % of the loss
  // and 4 % of the norm.
  if (golden_.make_network != make_block_network) {
    of_loss = bound(1e-4, 2e-2, 2e-2);
    of_norm = bound(1e-3, 0.1, 0.1);
  }
  const size_t compared = grows && in_bf16() ? 5 : steps.size();
  for (size_t step = 0; step < steps.size(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    EXPECT_NEAR(golden_.settings.learning_rate_at(static_cast<int64_t>(step)),
                steps[step]["learning_rate"].get<double>(), 1e-12);
    const TrainReport report = trainer_->step(golden_.documents, golden_.anchors(step));
    EXPECT_FALSE(report.skipped);
    EXPECT_NEAR(report.loss, steps[step]["loss"].get<double>(), of_loss * report.loss);
    if (step >= compared) continue;
    EXPECT_NEAR(report.gradient_norm, steps[step]["gradient_norm"].get<double>(), of_norm * report.gradient_norm);
  }
  EXPECT_EQ(trainer_->steps_done(), static_cast<int64_t>(steps.size()));
  if (!golden_.variant.contains("trained")) return;
  for (const TrainParameter& p : trainer_->parameters()) {
    EXPECT_LT(error_of_sums("trained", p.name, p.values), bound(1e-3, 2e-2, 6e-2)) << p.name;
  }
}

// The same numbers without a gradient, and no change of anything.
TEST_P(Training, EvaluationChangesNothing) {
  const TrainReport first = trainer_->evaluate(golden_.documents, golden_.anchors(0));
  const TrainReport second = trainer_->differentiate(golden_.documents, golden_.anchors(0));
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.position_accuracy, second.position_accuracy);
  EXPECT_EQ(first.gradient_norm, 0);
  EXPECT_EQ(trainer_->steps_done(), 0);
  EXPECT_EQ(trainer_->evaluate(golden_.documents).loss, trainer_->evaluate(golden_.documents).loss);
}

std::vector<float> weights_of(DrafterTrainer& trainer) {
  std::vector<float> all;
  for (const TrainParameter& p : trainer.parameters()) {
    for (const std::span<float> part : {p.values, p.m, p.v}) all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST_P(Training, ResumedRunIsTheSame) {
  const std::unique_ptr<DrafterTrainer> whole = golden_.make_trainer(*ops_);
  for (int step = 0; step < 5; ++step) whole->step(golden_.documents);
  const std::unique_ptr<DrafterTrainer> before = golden_.make_trainer(*ops_);
  for (int step = 0; step < 3; ++step) before->step(golden_.documents);
  const std::unique_ptr<DrafterTrainer> after = golden_.make_trainer(*ops_);
  for (size_t i = 0; i < after->parameters().size(); ++i) {
    const TrainParameter& from = before->parameters()[i];
    const TrainParameter& to = after->parameters()[i];
    std::copy(from.values.begin(), from.values.end(), to.values.begin());
    std::copy(from.m.begin(), from.m.end(), to.m.begin());
    std::copy(from.v.begin(), from.v.end(), to.v.begin());
  }
  after->set_steps_done(before->steps_done());
  for (int step = 0; step < 2; ++step) after->step(golden_.documents);
  EXPECT_EQ(weights_of(*after), weights_of(*whole));
}

INSTANTIATE_TEST_SUITE_P(All, Training,
                         ::testing::Combine(::testing::Values("decay", "dpace", "muon", "window", "kl", "tv", "nla",
                                                              "lk", "convolutions", "selector", "heads", "markov",
                                                              "markov_tv", "confidence", "eagle3", "eagle3_kl",
                                                              "eagle3_muon", "eagle3_vocabulary", "mtp", "mtp_gated"),
                                            ::testing::ValuesIn(places())),
                         [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param); });

TEST(TrainingRun, ThreadsDoNotChangeWeights) {
  const TrainGolden golden("decay");
  std::vector<std::vector<float>> found;
  for (const int32_t threads : {1, 2, 3}) {
    const std::unique_ptr<TrainOps> ops = make_ops(isa_choices().front(), threads);
    const std::unique_ptr<DrafterTrainer> trainer = golden.make_trainer(*ops);
    for (int step = 0; step < 4; ++step) trainer->step(golden.documents);
    found.push_back(weights_of(*trainer));
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

TEST(TrainingRun, StepWithoutNumbersChangesNothing) {
  TrainGolden golden("decay");
  const std::unique_ptr<TrainOps> ops = make_ops(isa_choices().front());
  const std::unique_ptr<DrafterTrainer> trainer = golden.make_trainer(*ops);
  const std::vector<float> before = weights_of(*trainer);
  golden.aux_hidden[0][5] = std::nanf("");
  EXPECT_TRUE(trainer->step(golden.documents).skipped);
  EXPECT_EQ(weights_of(*trainer), before);
  EXPECT_EQ(trainer->steps_done(), 1);
  golden.aux_hidden[0][5] = 0;
  EXPECT_FALSE(trainer->step(golden.documents).skipped);
  EXPECT_NE(weights_of(*trainer), before);
}

// A batch in which no token is supervised has nothing to learn from.
TEST(TrainingRun, NothingSupervised) {
  TrainGolden golden("dpace");
  for (std::vector<uint8_t>& supervised : golden.supervised) std::fill(supervised.begin(), supervised.end(), 0);
  const std::unique_ptr<TrainOps> ops = make_ops(isa_choices().front());
  const std::unique_ptr<DrafterTrainer> trainer = golden.make_trainer(*ops);
  const TrainReport report = trainer->step(golden.documents);
  EXPECT_TRUE(report.skipped);
  EXPECT_EQ(report.blocks, 0);
  EXPECT_TRUE(trainer->step({}).skipped);
}

// Documents are computed a few at a time: how they are grouped must not matter to what a step does.
TEST(TrainingRun, ManyBlocks) {
  TrainGolden golden("dpace");
  golden.settings.max_anchors = 3;
  const std::unique_ptr<TrainOps> ops = make_ops(isa_choices().front());
  const std::unique_ptr<DrafterTrainer> trainer = golden.make_trainer(*ops);
  const std::vector<DrafterTrainer::Anchors> anchors = golden.anchors(0);
  const double loss = trainer->differentiate(golden.documents, anchors).loss;
  std::vector<float> once(trainer->parameters()[0].gradient.begin(), trainer->parameters()[0].gradient.end());
  std::vector<TrainDocument> many;
  std::vector<DrafterTrainer::Anchors> many_anchors;
  for (int i = 0; i < 50; ++i) {  // 700 blocks
    many.insert(many.end(), golden.documents.begin(), golden.documents.end());
    many_anchors.insert(many_anchors.end(), anchors.begin(), anchors.end());
  }
  const TrainReport report = trainer->differentiate(many, many_anchors);
  EXPECT_EQ(report.blocks, 700);
  EXPECT_NEAR(report.loss, loss, 1e-6);
  EXPECT_LT(relative_error(trainer->parameters()[0].gradient.data(), once.data(), once.size()), 1e-5);
}

}  // namespace
}  // namespace ashlar::testing
